/* path.c -- where the user's database and the system's lie.
 *
 * In: the command line's choice, the environment, where this code was loaded from. Out: a path as text;
 * nothing is opened or made. There is no fallback to a shared place such as /tmp: a database there could be
 * put in place by anybody. */
#include "private.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOLDERS = 3 /* beside bin, beside lib, beside lib/x86_64-linux-gnu */ };
static const char below[] = "/share/fatune/fatune.db";

fat_status fat_db_path(const char *given, fat_text *path, fat_error *err)
{
  const char *named = given ? given : secure_getenv("FATUNE_DB");
  const char *data = secure_getenv("XDG_DATA_HOME");
  const char *home = secure_getenv("HOME");
  if (given && !*given)
    return fat_status_fail(err, FAT_E_INPUT, "--db is an empty text: name a file");
  if (named && *named) {
    fat_text_add(path, named);
  } else if (data && data[0] == '/') { /* the XDG rules ignore a relative one */
    fat_text_format(path, "%s/fatune/fatune.db", data);
  } else if (home && home[0] == '/') {
    fat_text_format(path, "%s/.local/share/fatune/fatune.db", home);
  } else {
    return fat_status_fail(err, FAT_E_INPUT,
                           "no place for the database: HOME is not set; name a file with --db or FATUNE_DB");
  }
  return fat_text_status(path, err);
}

/* The file that holds this code, a program or a library, without links; "" where that cannot be told. */
static void find_self(char path[PATH_MAX])
{
  Dl_info here;
  struct link_map *map = NULL;
  path[0] = 0;
  bool library = dladdr1(below, &here, (void **)&map, RTLD_DL_LINKMAP) && map && map->l_name[0];
  if (library && realpath(map->l_name, path))
    return;
  ssize_t n = library ? 0 : readlink("/proc/self/exe", path, PATH_MAX - 1);
  path[n > 0 ? n : 0] = 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char installed[PATH_MAX + sizeof below];

/* An installed tree may lie anywhere and be moved: share/ is looked for beside the folders that this code
 * lies in. */
static void find_installed(void)
{
  char self[PATH_MAX];
  find_self(self);
  for (int i = 0; i < FOLDERS; i++) {
    char *slash = strrchr(self, '/');
    if (!slash)
      break;
    *slash = 0;
    snprintf(installed, sizeof installed, "%s%s", self, below);
    if (access(installed, F_OK) == 0)
      return;
  }
  snprintf(installed, sizeof installed, "%s", FATUNE_SYSTEM_DB);
}

const char *fat_db_system_path(void)
{
  const char *named = secure_getenv("FATUNE_SYSTEM_DB");
  pthread_once(&once, find_installed);
  return named ? named : installed;
}
