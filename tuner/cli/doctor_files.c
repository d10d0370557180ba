/* doctor_files.c -- may this user read and write what tuning reads and writes, and nobody else?
 *
 * In: paths from options and environment. Out: findings. Nothing is made, opened or changed: a missing
 * folder is judged by the one that it would be made in. */
#include "db.h"
#include "doctor_files.h"
#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PATH = 1024, TEXT = 1200, ADVICE = 300 };
static const double room_least = 64e6; /* bytes: a tune of a few families stores some tens of megabytes */

/* "." where the path has no folder in it. */
static void parent_of(char *path)
{
  char *slash = strrchr(path, '/');
  if (!slash)
    strcpy(path, ".");
  else
    slash[slash == path] = 0;
}

static bool may(const char *path, int what)
{
  return faccessat(AT_FDCWD, path, what, AT_EACCESS) == 0;
}

/* Code in a place that others own or write would run as this user. Returns false after a finding. */
static bool check_rights(fat_checkup *c, const char *what, const char *path, const struct stat *s)
{
  char text[TEXT], todo[ADVICE];
  const char *trust = getenv("FATUNE_TRUST_DB");
  fat_checkup_verdict v = trust && strcmp(trust, "1") == 0 ? FAT_NOTE : FAT_PROBLEM;
  if (s->st_uid != geteuid() && s->st_uid != 0) {
    snprintf(text, sizeof text, "%s belongs to user %ld, who could put code there", path, (long)s->st_uid);
    fat_checkup_add(c, v, what, text, "use a place of your own: --db, XDG_DATA_HOME");
    return false;
  }
  if (s->st_mode & (S_IWGRP | S_IWOTH)) {
    snprintf(text, sizeof text, "%s, mode %04o: others may write it, and put code there", path,
             (unsigned)(s->st_mode & 07777));
    snprintf(todo, sizeof todo,
             s->st_mode & S_ISVTX ? "take a folder of your own below it: --db %.200s/mine/fatune.db"
                                  : "chmod go-w %.200s",
             path);
    fat_checkup_add(c, v, what, text, todo);
    return false;
  }
  return true;
}

/* Whether the disk behind a folder is nearly full. */
static bool check_room(fat_checkup *c, const char *what, const char *folder)
{
  struct statvfs fs;
  char text[TEXT];
  double free = statvfs(folder, &fs) == 0 ? (double)fs.f_bavail * (double)fs.f_frsize : room_least;
  if (free >= room_least)
    return true;
  snprintf(text, sizeof text, "%s: %.1f MB are free on its disk", folder, free / 1e6);
  fat_checkup_add(c, FAT_NOTE, what, text, "make room there, or name another place: --db, XDG_DATA_HOME");
  return false;
}

/* A folder that a tune writes in; one that is missing is made by it. */
static void check_folder(fat_checkup *c, const char *what, const char *folder, bool must_be_own)
{
  char text[TEXT], above[PATH];
  struct stat s;
  snprintf(above, sizeof above, "%s", folder);
  while (stat(above, &s) != 0 && errno == ENOENT && strcmp(above, ".") != 0 && strcmp(above, "/") != 0)
    parent_of(above);
  bool there = strcmp(above, folder) == 0;
  if (stat(above, &s) != 0 || !S_ISDIR(s.st_mode)) {
    snprintf(text, sizeof text, "%s: %s", above, stat(above, &s) != 0 ? strerror(errno) : "it is no folder");
    fat_checkup_add(c, FAT_PROBLEM, what, text, "name another place: --db, XDG_DATA_HOME");
    return;
  }
  if (there && must_be_own && !check_rights(c, what, folder, &s))
    return;
  if (!may(above, W_OK | X_OK)) {
    snprintf(text, sizeof text, there ? "%s: nothing can be written there" : "%s cannot be made in %s",
             folder, above);
    fat_checkup_add(c, FAT_PROBLEM, what, text,
                    "name another place: --db, XDG_DATA_HOME; or have it given to you");
    return;
  }
  if (!check_room(c, what, above))
    return;
  if (there)
    snprintf(text, sizeof text, "%s, mode %04o", folder, (unsigned)(s.st_mode & 07777));
  else
    snprintf(text, sizeof text, "%s is not there yet and can be made", folder);
  fat_checkup_add(c, FAT_FINE, what, text, NULL);
}

static void check_file(fat_checkup *c, const char *path)
{
  char text[TEXT], todo[ADVICE];
  struct stat s;
  if (stat(path, &s) != 0 || !check_rights(c, "database", path, &s))
    return;
  snprintf(text, sizeof text, "%s, %.1f MB, mode %04o", path, (double)s.st_size / 1e6,
           (unsigned)(s.st_mode & 07777));
  bool fine = may(path, R_OK | W_OK);
  snprintf(todo, sizeof todo, "a tune cannot store in it: chmod u+rw %.200s", path);
  fat_checkup_add(c, fine ? FAT_FINE : FAT_PROBLEM, "database", text, fine ? NULL : todo);
}

/* Where set-up unpacks an NVRTC: what lies there is loaded. */
static void check_cache(fat_checkup *c)
{
  const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  char path[PATH];
  struct stat s;
  if (data && data[0] == '/')
    snprintf(path, sizeof path, "%.900s/fatune/nvrtc", data);
  else if (home && home[0] == '/')
    snprintf(path, sizeof path, "%.900s/.local/share/fatune/nvrtc", home);
  else
    return;
  if (stat(path, &s) == 0)
    check_folder(c, "cache", path, true);
}

void fat_doctor_files(fat_checkup *c)
{
  fat_text path = {0};
  fat_error err = {0};
  char folder[PATH];
  const char *dump = fat_open_dump(c->options);
  if (fat_db_path(c->options->db, &path, &err) != FAT_OK) {
    fat_checkup_add(c, FAT_PROBLEM, "database", err.text, NULL);
  } else {
    snprintf(folder, sizeof folder, "%s", fat_text_get(&path));
    parent_of(folder);
    check_folder(c, "folder", folder, true);
    check_file(c, fat_text_get(&path));
  }
  check_cache(c);
  if (dump)
    check_folder(c, "dump", dump, false);
  fat_text_free(&path);
}
