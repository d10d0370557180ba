/* locate.c -- where a libnvrtc may lie: the table of places, walked with glob patterns.
 *
 * In: the environment and the file system. Out: paths with links resolved, each once, in the order of the
 * table. The version is read from the names of the files, because loading costs 10 to 30 ms for each of these
 * 100 MB libraries: "libnvrtc.so.13" tells the major and "libnvrtc-builtins.so.13.0" beside it the minor. */
#include "locate.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Below a folder: of a toolkit, of a Python installation, of an unpacked wheel. */
#define TOOLKIT  "/{lib64,lib,targets/*/lib}/libnvrtc.so*"
#define PACKAGES "/{site,dist}-packages/nvidia/*/lib/libnvrtc.so*"
#define PYTHON   "/{lib,lib64,versions/*/lib}/python3*" PACKAGES
#define UNPACKED "/{,lib64/,lib/,nvidia/*/lib/}libnvrtc.so*"

/* A pattern that begins with $NAME starts at the folder in that environment variable and is left out where it
 * is not set; $PROGRAM at the program's, $PACKAGE at that of the file that has this code: fatune/bin or
 * fatune/lib of a wheel, beside which NVIDIA's lie. "versions" is where pyenv keeps its Pythons: its python3
 * on PATH is a script. */
static const struct place {
  const char *where, *pattern;
} places[] = {
    {"toolkit", "$CUDA_HOME" TOOLKIT},
    {"toolkit", "$CUDA_PATH" TOOLKIT},
    {"toolkit", "/usr/local/cuda*" TOOLKIT},
    {"wheel", "$VIRTUAL_ENV" PYTHON},
    {"wheel", "$CONDA_PREFIX" PYTHON},
    {"wheel", "$CONDA_PREFIX" TOOLKIT},
    {"wheel", "$PATH" PYTHON},
    {"wheel", "$HOME/.local" PYTHON},
    {"wheel", "$PACKAGE/../../nvidia/*/lib/libnvrtc.so*"},
    {"wheel", "/usr/local/lib/python3*" PACKAGES},
    {"wheel", "/usr/lib/python3*" PACKAGES},
    {"linker cache", "libnvrtc.so.13"},
    {"linker cache", "libnvrtc.so.12"},
    {"fetched", "$XDG_DATA_HOME/fatune/nvrtc" UNPACKED},
    {"fetched", "$HOME/.local/share/fatune/nvrtc" UNPACKED},
    {"fetched", "$PROGRAM/nvrtc" UNPACKED},
};

typedef struct search {
  fat_nvrtc_found *found;
  int room, count;
} search;

/* Numbers after `stem` in a file's name; returns how many: "libnvrtc.so.13" gives 13, 0 and returns 1. */
static int read_version(const char *name, const char *stem, int *major, int *minor)
{
  *major = *minor = 0;
  if (strncmp(name, stem, strlen(stem)) != 0)
    return 0;
  int numbers = sscanf(name + strlen(stem), ".%d.%d", major, minor);
  return numbers > 0 ? numbers : 0;
}

/* Copies `text` so that glob takes every character of it as itself. */
static int escape(char *to, size_t room, const char *text, size_t length)
{
  size_t used = 0;
  for (size_t i = 0; i < length; i++) {
    if (used + 3 > room)
      return -1;
    if (strchr("\\*?[]{},~", text[i]))
      to[used++] = '\\';
    to[used++] = text[i];
  }
  to[used] = 0;
  return (int)used;
}

static fat_status match(const char *pattern, glob_t *paths, fat_error *err)
{
  int result = glob(pattern, GLOB_BRACE, NULL, paths);
  if (result == GLOB_NOSPACE)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory while looking for libnvrtc at %s", pattern);
  return FAT_OK; /* unreadable folders are places where nothing is */
}

/* The minor version by the one companion library of that major in the same folder. */
static fat_status read_companion(fat_nvrtc_found *f, fat_error *err)
{
  static const char stem[] = "libnvrtc-builtins.so";
  char pattern[2 * PATH_MAX];
  const char *slash = strrchr(f->path, '/');
  int used = escape(pattern, sizeof pattern - 64, f->path, (size_t)(slash - f->path));
  if (used < 0)
    return FAT_OK;
  snprintf(pattern + used, 64, "/%s.%d.*", stem, f->major);
  glob_t paths = {0};
  FAT_TRY(match(pattern, &paths, err));
  int minor = 0;
  for (size_t i = 0; i < paths.gl_pathc; i++) {
    int a, b;
    read_version(strrchr(paths.gl_pathv[i], '/') + 1, stem, &a, &b);
    minor = minor == 0 || minor == b ? b : -1; /* two minors: which one is ours cannot be told */
  }
  f->minor = minor > 0 ? minor : f->minor;
  globfree(&paths);
  return FAT_OK;
}

static fat_status keep(search *s, const char *where, const char *path, fat_error *err)
{
  char real[PATH_MAX];
  if (s->count == s->room || !realpath(path, real) || strlen(real) >= sizeof s->found[0].path)
    return FAT_OK;
  for (int i = 0; i < s->count; i++)
    if (strcmp(s->found[i].path, real) == 0)
      return FAT_OK;
  fat_nvrtc_found *f = &s->found[s->count++];
  memset(f, 0, sizeof *f);
  memcpy(f->path, real, strlen(real) + 1);
  snprintf(f->where, sizeof f->where, "%s", where);
  int numbers = read_version(strrchr(real, '/') + 1, "libnvrtc.so", &f->major, &f->minor);
  return numbers == 1 ? read_companion(f, err) : FAT_OK;
}

/* Every file below the folder `base` (taken literally) that matches `rest`. */
static fat_status look(search *s, const char *where, const char *base, const char *rest, fat_error *err)
{
  char pattern[2 * PATH_MAX];
  size_t length = strlen(rest);
  int used = escape(pattern, sizeof pattern - length, base, strlen(base));
  if (used < 0)
    return FAT_OK;
  memcpy(pattern + used, rest, length + 1);
  glob_t paths = {0};
  FAT_TRY(match(pattern, &paths, err));
  fat_status status = FAT_OK;
  for (size_t i = 0; i < paths.gl_pathc && status == FAT_OK; i++)
    status = keep(s, where, paths.gl_pathv[i], err);
  globfree(&paths);
  return status;
}

/* Cuts the last `parts` components off a path. */
static void go_up(char *path, int parts)
{
  for (; parts > 0; parts--) {
    char *slash = strrchr(path, '/');
    if (!slash)
      return;
    *slash = 0;
  }
}

/* Every folder on PATH with a python3 stands for the prefix it lies in, and for that of the file it is a link
 * to (a virtual environment links to its base). */
static fat_status look_pythons(search *s, const char *where, const char *rest, fat_error *err)
{
  const char *path = secure_getenv("PATH");
  while (path && *path) {
    size_t length = strcspn(path, ":");
    char program[PATH_MAX], real[PATH_MAX];
    snprintf(program, sizeof program, "%.*s/python3", (int)length, path);
    if (length && access(program, X_OK) == 0) {
      if (realpath(program, real)) {
        go_up(real, 2);
        FAT_TRY(look(s, where, real, rest, err));
      }
      go_up(program, 2);
      FAT_TRY(look(s, where, program, rest, err));
    }
    path += length + (path[length] == ':');
  }
  return FAT_OK;
}

/* Beside the program, or beside the library that this code is in where it is in one. */
static fat_status look_beside(search *s, bool library, const char *where, const char *rest, fat_error *err)
{
  char self[PATH_MAX];
  Dl_info here;
  struct link_map *map = NULL;
  library = library && dladdr1(places, &here, (void **)&map, RTLD_DL_LINKMAP) && map && map->l_name[0];
  ssize_t length = library ? snprintf(self, sizeof self, "%s", map->l_name)
                           : readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0 || length >= (ssize_t)sizeof self)
    return FAT_OK;
  self[length] = 0;
  go_up(self, 1);
  return look(s, where, self, rest, err);
}

/* The linker's cache (and LD_LIBRARY_PATH) can only be asked by loading. What is loaded stays: each libnvrtc
 * takes memory when it is loaded that it does not give back when it is unloaded. */
static fat_status look_linker(search *s, const char *where, const char *name, fat_error *err)
{
  void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    return FAT_OK;
  struct link_map *map = NULL;
  fat_status status = FAT_OK;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map)
    status = keep(s, where, map->l_name, err);
  dlclose(library);
  return status;
}

static fat_status look_at(search *s, const struct place *p, fat_error *err)
{
  if (p->pattern[0] == '/')
    return look(s, p->where, "", p->pattern, err);
  if (p->pattern[0] != '$')
    return look_linker(s, p->where, p->pattern, err);
  char name[32];
  size_t length = strcspn(p->pattern, "/");
  snprintf(name, sizeof name, "%.*s", (int)length - 1, p->pattern + 1);
  const char *rest = p->pattern + length;
  if (strcmp(name, "PATH") == 0)
    return look_pythons(s, p->where, rest, err);
  if (strcmp(name, "PROGRAM") == 0)
    return look_beside(s, false, p->where, rest, err);
  if (strcmp(name, "PACKAGE") == 0)
    return look_beside(s, true, p->where, rest, err);
  const char *base = secure_getenv(name);
  return base && base[0] == '/' ? look(s, p->where, base, rest, err) : FAT_OK;
}

fat_status fat_locate_nvrtc(fat_nvrtc_found *found, int room, int *count, fat_error *err)
{
  search s = {found, room, 0};
  const char *given = secure_getenv("FATUNE_NVRTC");
  *count = 0;
  if (given && given[0]) {
    FAT_TRY(look(&s, "FATUNE_NVRTC", given, UNPACKED, err));
    if (s.count == 0 && access(given, R_OK) == 0) {
      char real[PATH_MAX];
      const char *slash = realpath(given, real) ? strrchr(real, '/') : NULL;
      if (slash && strstr(slash, ".so"))
        FAT_TRY(keep(&s, "FATUNE_NVRTC", given, err));
    }
  } else {
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
      FAT_TRY(look_at(&s, &places[i], err));
  }
  *count = s.count;
  return FAT_OK;
}
