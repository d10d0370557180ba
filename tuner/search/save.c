/* save.c -- writes a file that appears whole or not at all: a fresh one beside it, then a rename. */
#include "save.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 }; /* names that others may have taken */

/* Opens a file that was not there, with the rights that any new one gets. */
static int open_fresh(const char *path, fat_text *name)
{
  const char *slash = strrchr(path, '/');
  int fd = -1;
  for (int i = 0; i < TRIES && fd < 0; i++) {
    fat_text_clear(name);
    fat_text_add_bytes(name, path, slash ? (size_t)(slash - path) + 1 : 0);
    fat_text_format(name, ".fatune-%ld-%d", (long)getpid(), i);
    errno = ENOMEM;
    fd = name->failed ? -1
                      : open(fat_text_get(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST)
      break;
  }
  return fd;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
  while (size > 0) {
    ssize_t n = write(fd, bytes, size);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return false;
    bytes += n;
    size -= (size_t)n;
  }
  return true;
}

static bool take_name(const char *fresh, const char *path, bool replace)
{
  if (replace)
    return rename(fresh, path) == 0;
  if (renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
    return true;
  struct stat there;
  if (errno != EINVAL && errno != ENOSYS) /* which mean that this file system cannot do that */
    return false;
  if (lstat(path, &there) == 0) {
    errno = EEXIST;
    return false;
  }
  return rename(fresh, path) == 0;
}

fat_status fat_save(const char *path, const void *bytes, size_t size, bool replace, fat_error *err)
{
  struct stat old;
  fat_text fresh = {0};
  bool there = lstat(path, &old) == 0;
  if (there && !replace)
    return fat_status_fail(err, FAT_E_INPUT, "%s is there already", path);
  int fd = open_fresh(path, &fresh);
  bool done = fd >= 0;
  if (done && there && S_ISREG(old.st_mode))
    done = fchmod(fd, old.st_mode & 0777) == 0;
  done = done && write_all(fd, bytes, size) && (!there || fsync(fd) == 0); /* else a crash could lose both */
  int failure = done ? 0 : errno;
  if (fd >= 0 && close(fd) != 0 && !failure)
    failure = errno;
  if (!failure && !take_name(fat_text_get(&fresh), path, replace))
    failure = errno;
  if (failure && fd >= 0)
    unlink(fat_text_get(&fresh));
  fat_text_free(&fresh);
  if (failure == EEXIST && !replace)
    return fat_status_fail(err, FAT_E_INPUT, "%s is there already", path);
  return failure ? fat_status_fail(err, FAT_E_IO, "%s cannot be written: %s", path, strerror(failure))
                 : FAT_OK;
}
