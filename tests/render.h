/* render.h -- a kernel's default config rendered for a test, from the templates in the program or others. */
#ifndef TEST_RENDER_H
#define TEST_RENDER_H

#include "source.h"
#include "space.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* The first GPU of the table with this architecture. */
static inline const fat_gpu *render_gpu(int sm)
{
  int count;
  const fat_gpu *list = fat_gpu_list(&count);
  for (int i = 0; i < count; i++)
    if (list[i].sm == sm)
      return &list[i];
  fail_msg("no GPU of sm_%d in the table", sm);
  return NULL;
}

static inline fat_source render_default(fat_script *script, const char *kernel, const char *problem,
                                        const fat_gpu *gpu, fat_lines lines)
{
  fat_problem p;
  fat_point usual;
  fat_source source = {0};
  fat_error err = {0};
  fat_status status = fat_problem_parse(problem, &p, &err);
  if (status == FAT_OK)
    status = fat_space_default(script, kernel, &p, gpu, &usual, &err);
  if (status == FAT_OK)
    status = fat_source_render(script, &p, gpu, &usual.config, lines, &source, &err);
  if (status != FAT_OK)
    fail_msg("%s %s: %s", kernel, problem, err.text);
  return source;
}

#endif
