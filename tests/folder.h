/* folder.h -- a temporary folder of files for a test, removed whole at the end. */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct folder {
  char path[256];
} folder;

static inline folder folder_make(void)
{
  folder f;
  const char *base = getenv("TMPDIR");
  snprintf(f.path, sizeof f.path, "%s/fatune-test-XXXXXX", base != NULL ? base : "/tmp");
  if (mkdtemp(f.path) == NULL) {
    perror("mkdtemp");
    abort();
  }
  return f;
}

/* Writes a file below the folder, making one level of folder on the way. */
static inline void folder_write(const folder *f, const char *name, const char *text)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", f->path, name);
  char *slash = strrchr(path + strlen(f->path) + 1, '/');
  if (slash != NULL) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  FILE *file = fopen(path, "w");
  if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
    perror(path);
    abort();
  }
}

static inline int folder_remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
  (void)st, (void)kind, (void)at;
  return remove(path);
}

static inline void folder_remove(const folder *f)
{
  nftw(f->path, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
