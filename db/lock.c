/* lock.c -- one tuning session per database and device.
 *
 * The lock is flock on a side file `<db>.lock-<16 hex digits of the device>`: the kernel drops it when the
 * holder ends, however it ends, so there is never a stale lock. The file holds who took it, for the message
 * to the second one; a file left behind by a killed holder means nothing. */
#include "private.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static fat_status refuse(int fd, const fat_db *db, const fat_gpu *device, fat_error *err)
{
  char who[256] = "";
  ssize_t n = pread(fd, who, sizeof who - 1, 0);
  who[n > 0 ? n : 0] = 0;
  for (char *p = who; *p; p++)
    if ((unsigned char)*p < ' ' || *p == 127)
      *p = *p == '\n' && !p[1] ? 0 : ' ';
  return fat_status_fail(err, FAT_E_BUSY,
                         "database %s: %s is being tuned by another process (%s): wait for it, or use another"
                         " database and `fatune merge`",
                         db->path, device->name, *who ? who : "which gave no name");
}

static void sign(int fd)
{
  char host[128] = "", since[32] = "", line[256];
  struct tm utc;
  time_t now = time(NULL);
  gethostname(host, sizeof host - 1);
  if (gmtime_r(&now, &utc))
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
  int n = snprintf(line, sizeof line, "process %ld on %s since %s\n", (long)getpid(), host, since);
  /* Only the message of a refused second session depends on these: a failure changes nothing else. */
  if (ftruncate(fd, 0) == 0 && pwrite(fd, line, (size_t)n, 0) != n && ftruncate(fd, 0) != 0)
    errno = 0;
}

/* Opens and locks the side file; again where its last holder removed it in between, or somebody only looked
 * whether it is held (fat_db_is_tuned), which takes microseconds. */
static fat_status take(const char *path, int *fd, const fat_db *db, const fat_gpu *device, fat_error *err)
{
  for (int attempt = 0; attempt < 100; attempt++) {
    struct stat held, named;
    if (attempt > 0)
      nanosleep(&(struct timespec){0, 1000000}, NULL);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0)
      return fat_status_fail(err,
                             errno == EACCES || errno == EROFS || errno == EPERM ? FAT_E_READONLY : FAT_E_IO,
                             "lock file %s cannot be opened: %s", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK && flock(*fd, LOCK_SH | LOCK_NB) == 0) {
        close(*fd);
        continue;
      }
      fat_status status =
          errno == EWOULDBLOCK
              ? refuse(*fd, db, device, err)
              : fat_status_fail(err, FAT_E_IO, "lock file %s cannot be locked: %s", path, strerror(errno));
      close(*fd);
      return status;
    }
    if (fstat(*fd, &held) == 0 && lstat(path, &named) == 0 && held.st_ino == named.st_ino &&
        held.st_dev == named.st_dev)
      return FAT_OK;
    close(*fd);
  }
  return fat_status_fail(err, FAT_E_BUSY, "lock file %s keeps changing: try again", path);
}

static void name_lock(const fat_db *db, const char *facts, char path[FAT_DB_PATH + 32])
{
  char hash[FAT_HASH_SIZE];
  fat_text_hash(facts, strlen(facts), hash);
  snprintf(path, FAT_DB_PATH + 32, "%s.lock-%.16s", db->path, hash);
}

bool fat_db_is_tuned(const fat_db *db, const char *facts)
{
  char path[FAT_DB_PATH + 32];
  name_lock(db, facts, path);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  bool held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (fd >= 0)
    close(fd);
  return held;
}

fat_status fat_db_lock_tuning(fat_db *db, const fat_gpu *device, fat_error *err)
{
  FAT_TRY(fat_db_ready(db, true, err));
  char facts[FAT_GPU_FACTS];
  fat_gpu_facts(device, facts);
  fat_db_hold *hold = calloc(1, sizeof *hold);
  if (!hold)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a tuning lock");
  name_lock(db, facts, hold->path);
  for (const fat_db_hold *h = db->holds; h; h = h->next)
    if (strcmp(h->path, hold->path) == 0) {
      free(hold);
      return FAT_OK;
    }
  fat_status status = take(hold->path, &hold->fd, db, device, err);
  if (status != FAT_OK) {
    free(hold);
    return status;
  }
  sign(hold->fd);
  hold->next = db->holds;
  db->holds = hold;
  /* The lock is ours, so runs of this device that never ended have stopped. */
  return fat_db_do(db, FAT_SQL_RUN_STOP, NULL, err, "t", facts);
}

void fat_db_unlock(fat_db *db)
{
  while (db->holds) {
    fat_db_hold *hold = db->holds;
    db->holds = hold->next;
    /* A forked child shares the lock of its parent and must not take it away. */
    if (db->pid == getpid())
      unlink(hold->path);
    close(hold->fd);
    free(hold);
  }
}
