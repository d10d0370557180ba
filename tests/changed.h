/* changed.h -- our templates with one change, for tests of what a change does. */
#ifndef TEST_CHANGED_H
#define TEST_CHANGED_H

#include "embed.h"
#include "folder.h"
#include "text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* The embedded templates written to a folder, one piece of text of one file changed. */
static inline folder changed_templates(const char *file, const char *old, const char *fresh)
{
  folder f = folder_make();
  for (int i = 0; i < fat_embed_count; i++) {
    const char *name = fat_embed_files[i].name;
    if (strncmp(name, "templates/", 10) != 0)
      continue;
    const char *text = fat_embed_files[i].text, *at = NULL;
    fat_text out = {0};
    if (strcmp(name + 10, file) == 0) {
      at = strstr(text, old);
      assert_non_null(at);
      fat_text_add_bytes(&out, text, (size_t)(at - text));
      fat_text_add(&out, fresh);
      text = at + strlen(old);
    }
    fat_text_add(&out, text);
    folder_write(&f, name + 10, fat_text_get(&out));
    fat_text_free(&out);
  }
  return f;
}

#endif
