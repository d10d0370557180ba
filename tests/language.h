/* language.h -- languages whose numbers have no point, as the program around a library may have set one. */
#ifndef TEST_LANGUAGE_H
#define TEST_LANGUAGE_H

#include "folder.h"
#include <locale.h>
#include <stdbool.h>

/* A comma, and a sign of two bytes. */
enum { LANGUAGES = 2 };

/* Sets a language of numbers alone, which glibc's own tool makes in the folder, where it is then looked for;
 * false where that cannot be done, as where there are no tables of UTF-8. */
static inline bool language_speak(const folder *f, int number)
{
  static const char *const points[LANGUAGES][2] = {{",", ""}, {"<U066B>", "-f UTF-8"}};
  char source[256], command[1024];
  snprintf(source, sizeof source,
           "LC_NUMERIC\ndecimal_point \"%s\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n",
           points[number][0]);
  folder_write(f, "source", source);
  snprintf(command, sizeof command,
           "localedef -c -i %s/source %s %s/other >/dev/null 2>&1; test -f %s/other/LC_NUMERIC", f->path,
           points[number][1], f->path, f->path);
  setenv("LOCPATH", f->path, 1);
  return system(command) == 0 && setlocale(LC_NUMERIC, "other") != NULL;
}

static inline void language_forget(const folder *f)
{
  setlocale(LC_NUMERIC, "C");
  folder_remove(f);
}

#endif
