/* access.c -- who may touch a database file: owners, modes, links, and what kind of disk it lies on.
 *
 * A stored binary is code that runs with the caller's rights, so file, journal and folder must belong to the
 * caller or root and nobody else may write them. What is checked is the file without links in its path, and
 * that path is opened without following any. FATUNE_TRUST_DB=1 says: run what others may have put there. */
#include "private.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

_Static_assert(FAT_DB_PATH >= PATH_MAX, "realpath writes up to PATH_MAX bytes");

static const struct {
  unsigned long magic; /* of statfs */
  const char *name;
} networks[] = {
    {0x6969, "NFS"},        {0x517B, "SMB"},          {0xFE534D42, "SMB"},   {0xFF534D42, "CIFS"},
    {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},     {0x00C36400, "Ceph"},  {0x5346414F, "AFS"},
    {0x6B414653, "AFS"},    {0x01021997, "9P"},       {0xAAD7AAEA, "PanFS"}, {0x19830326, "BeeGFS"},
    {0x73757245, "Coda"},   {0x20030528, "OrangeFS"}, {0x01161970, "GFS2"},  {0x7461636F, "OCFS2"},
};

const char *fat_db_network(long magic)
{
  for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
    if (networks[i].magic == ((unsigned long)magic & 0xFFFFFFFFu))
      return networks[i].name;
  return NULL;
}

const char *fat_db_network_of(const char *path)
{
  struct statfs fs;
  return statfs(path, &fs) == 0 ? fat_db_network((long)fs.f_type) : NULL;
}

static bool trusted(void)
{
  const char *said = secure_getenv("FATUNE_TRUST_DB");
  return said && strcmp(said, "1") == 0;
}

/* Owner and mode of one name. A link counts by its owner alone: its mode means nothing. */
static fat_status judge(const char *path, const struct stat *s, fat_error *err)
{
  if (trusted())
    return FAT_OK;
  if (s->st_uid != geteuid() && s->st_uid != 0)
    return fat_status_fail(
        err, FAT_E_DENIED,
        "%s belongs to user %ld, not to you or root: its kernels would run as you; use your own"
        " file, or set FATUNE_TRUST_DB=1 to run what that user stores",
        path, (long)s->st_uid);
  if (S_ISLNK(s->st_mode) || !(s->st_mode & (S_IWGRP | S_IWOTH)))
    return FAT_OK;
  const bool shared = s->st_mode & S_ISVTX; /* as /tmp, which must stay as it is */
  return fat_status_fail(
      err, FAT_E_DENIED,
      "%s may be written by others (mode %03o): their kernels would run as you; %s%s%s, or "
      "set FATUNE_TRUST_DB=1 to run what they store",
      path, (unsigned)(s->st_mode & 01777),
      shared ? "take a folder of your own below it, like --db " : "run `chmod go-w ", path,
      shared ? "/mine/fatune.db, which is made" : "`");
}

static fat_status judge_folder(const char *path, fat_error *err)
{
  struct stat s;
  if (stat(path, &s) != 0)
    return fat_status_fail(err, errno == ENOENT ? FAT_E_NOT_FOUND : FAT_E_DENIED, "folder %s: %s", path,
                           strerror(errno));
  if (!S_ISDIR(s.st_mode))
    return fat_status_fail(err, FAT_E_INPUT, "%s is not a folder", path);
  return judge(path, &s, err);
}

/* Why a file or folder cannot be made or opened for writing. */
static fat_status refused(int error)
{
  return error == EACCES || error == EROFS || error == EPERM ? FAT_E_READONLY
         : error == ENOSPC || error == EDQUOT                ? FAT_E_FULL
                                                             : FAT_E_IO;
}

/* Makes every missing folder of `path`, for the owner alone. */
static fat_status make_folders(char *path, fat_error *err)
{
  for (char *p = path + 1;; p++) {
    if (*p != '/' && *p)
      continue;
    char end = *p;
    *p = 0;
    int failed = mkdir(path, 0700) != 0 && errno != EEXIST ? errno : 0;
    /* A parent that exists but lets nobody make anything answers so before EEXIST on some file systems. */
    struct stat s;
    if (failed && stat(path, &s) != 0)
      return fat_status_fail(
          err, refused(failed),
          "folder %s cannot be made: %s; name another place with --db, FATUNE_DB or XDG_DATA_HOME", path,
          strerror(failed));
    *p = end;
    if (!end)
      return FAT_OK;
  }
}

static fat_status make_file(const char *path, fat_error *err)
{
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0) {
    /* Nobody has it open yet, so closing drops no lock of another connection. */
    close(fd);
    return FAT_OK;
  }
  if (errno == EEXIST) /* another process was faster */
    return FAT_OK;
  return fat_status_fail(err, refused(errno), "database %s cannot be made: %s", path, strerror(errno));
}

/* The folder that `path` names a file in, as text; "." where there is none. */
static fat_status folder_of(const char *path, char folder[FAT_DB_PATH], const char **name, fat_error *err)
{
  const char *slash = strrchr(path, '/');
  *name = slash ? slash + 1 : path;
  if (!**name || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0)
    return fat_status_fail(err, FAT_E_INPUT, "database '%s' names a folder: name a file in it", path);
  int n = !slash          ? snprintf(folder, FAT_DB_PATH, ".")
          : slash == path ? snprintf(folder, FAT_DB_PATH, "/")
                          : snprintf(folder, FAT_DB_PATH, "%.*s", (int)(slash - path), path);
  if (n < 0 || n >= FAT_DB_PATH || strlen(path) >= FAT_DB_PATH)
    return fat_status_fail(err, FAT_E_INPUT, "the path of the database is longer than %d bytes",
                           FAT_DB_PATH - 1);
  return FAT_OK;
}

/* real = <folder without links>/<name>. */
static fat_status resolve(const char *folder, const char *name, char real[FAT_DB_PATH], fat_error *err)
{
  char base[FAT_DB_PATH];
  if (!realpath(folder, base))
    return fat_status_fail(err, errno == ENOENT || errno == ENOTDIR ? FAT_E_NOT_FOUND : FAT_E_DENIED,
                           "folder %s: %s", folder, strerror(errno));
  FAT_TRY(judge_folder(base, err));
  if (snprintf(real, FAT_DB_PATH, "%s/%s", strcmp(base, "/") == 0 ? "" : base, name) >= FAT_DB_PATH)
    return fat_status_fail(err, FAT_E_INPUT, "the path of the database is longer than %d bytes",
                           FAT_DB_PATH - 1);
  return FAT_OK;
}

/* A link in place of the file: its owner counts, then what it leads to, in that one's own folder. */
static fat_status follow(const char *path, char real[FAT_DB_PATH], struct stat *s, fat_error *err)
{
  char target[FAT_DB_PATH], folder[FAT_DB_PATH];
  const char *name;
  FAT_TRY(judge(path, s, err));
  if (!realpath(path, target))
    return fat_status_fail(err, FAT_E_IO, "database %s is a link that leads nowhere: %s", path,
                           strerror(errno));
  FAT_TRY(folder_of(target, folder, &name, err));
  FAT_TRY(judge_folder(folder, err));
  memcpy(real, target, FAT_DB_PATH);
  if (lstat(real, s) != 0)
    return fat_status_fail(err, FAT_E_IO, "database %s: %s", real, strerror(errno));
  return FAT_OK;
}

static fat_status judge_journal(const char *real, fat_error *err)
{
  char journal[FAT_DB_PATH + 16];
  struct stat s;
  snprintf(journal, sizeof journal, "%s-journal", real);
  if (lstat(journal, &s) != 0)
    return FAT_OK;
  if (!S_ISREG(s.st_mode) && !trusted())
    return fat_status_fail(err, FAT_E_DENIED, "%s is no regular file: move it away", journal);
  return judge(journal, &s, err);
}

fat_status fat_db_access(const char *path, fat_db_mode mode, char real[FAT_DB_PATH], bool *exists,
                         fat_error *err)
{
  char folder[FAT_DB_PATH];
  const char *name;
  struct stat s;
  *exists = false;
  real[0] = 0;
  FAT_TRY(folder_of(path, folder, &name, err));
  if (mode == FAT_DB_WRITE)
    FAT_TRY(make_folders(folder, err));
  FAT_TRY(resolve(folder, name, real, err));
  if (lstat(real, &s) != 0) {
    if (errno != ENOENT)
      return fat_status_fail(err, FAT_E_DENIED, "database %s: %s", real, strerror(errno));
    if (mode == FAT_DB_READ)
      return fat_status_fail(err, FAT_E_NOT_FOUND, "there is no database %s", real);
    FAT_TRY(make_file(real, err));
    if (lstat(real, &s) != 0)
      return fat_status_fail(err, FAT_E_IO, "database %s: %s", real, strerror(errno));
  }
  if (S_ISLNK(s.st_mode))
    FAT_TRY(follow(real, real, &s, err));
  if (!S_ISREG(s.st_mode))
    return fat_status_fail(err, FAT_E_FOREIGN, "database %s is no regular file", real);
  FAT_TRY(judge(real, &s, err));
  FAT_TRY(judge_journal(real, err));
  if (faccessat(AT_FDCWD, real, R_OK, AT_EACCESS) != 0)
    return fat_status_fail(err, FAT_E_DENIED, "database %s cannot be read: %s", real, strerror(errno));
  /* An empty file is what is left where a first transaction was broken off: it holds nothing yet. */
  *exists = s.st_size > 0;
  if (mode == FAT_DB_READ && !*exists)
    return fat_status_fail(err, FAT_E_NOT_FOUND, "database %s is empty", real);
  return FAT_OK;
}
