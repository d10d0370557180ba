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
#include <unistd.h>

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

/* Whether a file can be made beside this one. */
static fat_status check_folder(const char *path, fat_error *err)
{
  fat_text folder = {0};
  const char *slash = strrchr(path, '/');
  fat_text_format(&folder, "%.*s", slash ? (int)(slash - path) : 0, path);
  const bool can = access(!slash ? "." : slash == path ? "/" : fat_text_get(&folder), W_OK | X_OK) == 0;
  const int why = errno;
  fat_text_free(&folder);
  return can ? FAT_OK : fat_status_fail(err, FAT_E_IO, "%s cannot be written: %s", path, strerror(why));
}

fat_status fat_output_check(const char *path, const char *database, bool force, fat_error *err)
{
  struct stat there, own;
  if (stat(path, &there) != 0)
    return check_folder(path, err);
  if (stat(database, &own) == 0 && there.st_dev == own.st_dev && there.st_ino == own.st_ino)
    return fat_status_fail(err, FAT_E_INPUT, "%s is the database itself: name another file", path);
  if (S_ISDIR(there.st_mode))
    return fat_status_fail(err, FAT_E_IO, "%s cannot be written: %s", path, strerror(EISDIR));
  if (S_ISREG(there.st_mode) && !force)
    return fat_status_fail(err, FAT_E_INPUT, "%s is there already: --force writes over it", path);
  return FAT_OK;
}

fat_status fat_output_write(const char *path, const char *database, bool force, const fat_text *text,
                            fat_error *err)
{
  struct stat there;
  const bool known = stat(path, &there) == 0;
  FAT_TRY(fat_output_check(path, database, force, err));
  if (known && !S_ISREG(there.st_mode))
    return write_through(path, text, err);
  char *target = known ? realpath(path, NULL) : NULL; /* a link stays one */
  fat_status status = fat_save(target ? target : path, fat_text_get(text), text->length, known || force, err);
  free(target);
  return status;
}
