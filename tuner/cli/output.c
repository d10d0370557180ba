/* output.c -- files that the user named.
 *
 * In: a text. Out: a file that is whole, or as it was. */
#include "output.h"

#include "search/save.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A device or a pipe, which cannot be replaced. */
static fat_status write_through(const char *path, const fat_text *text, fat_error *err)
{
  FILE *f = fopen(path, "wb");
  bool written = f && fwrite(fat_text_get(text), 1, text->length, f) == text->length;
  if (f && fclose(f) != 0)
    written = false;
  if (written)
    return FAT_OK;
  return fat_status_fail(err, FAT_E_IO, "%s cannot be written: %s", path, strerror(errno));
}

fat_status fat_output_write(const char *path, const char *database, bool force, const fat_text *text,
                            fat_error *err)
{
  struct stat there, own;
  bool known = stat(path, &there) == 0;
  if (known && stat(database, &own) == 0 && there.st_dev == own.st_dev && there.st_ino == own.st_ino)
    return fat_status_fail(err, FAT_E_INPUT, "%s is the database itself: name another file", path);
  if (known && !S_ISREG(there.st_mode))
    return write_through(path, text, err);
  if (known && !force)
    return fat_status_fail(err, FAT_E_INPUT, "%s is there already: --force writes over it", path);
  char *target = known ? realpath(path, NULL) : NULL; /* a link stays one */
  fat_status status = fat_save(target ? target : path, fat_text_get(text), text->length, known || force, err);
  free(target);
  return status;
}
