/* path.c -- where the user's database and the system's lie.
 *
 * In: the command line's choice and the environment. Out: a path as text; nothing is opened or made. There
 * is no fallback to a shared place such as /tmp: a database there could be put in place by anybody. */
#include "private.h"
#include <stdlib.h>

fat_status fat_db_path(const char *given, fat_text *path, fat_error *err)
{
  const char *named = given ? given : getenv("FATUNE_DB");
  const char *data = getenv("XDG_DATA_HOME");
  const char *home = getenv("HOME");
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

const char *fat_db_system_path(void)
{
  const char *named = getenv("FATUNE_SYSTEM_DB");
  return named ? named : FATUNE_SYSTEM_DB;
}
