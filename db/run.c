/* run.c -- runs: one row per command that makes trials, begun before the first and ended after the last.
 *
 * A command that is killed never ends its row: it is marked as stopped once somebody else gets its tuning
 * lock. */
#include "private.h"
#include <stdlib.h>

enum { TEXTS = 8 };

fat_status fat_db_run_add(fat_db *db, const char *status, const fat_run *run, int64_t *id, fat_error *err)
{
  const char *given[TEXTS] = {run->command,   run->version, run->driver, run->nvrtc,
                              run->templates, run->host,    run->device, run->model};
  char *text[TEXTS] = {NULL};
  sqlite3_stmt *stmt;
  fat_status result = fat_db_kept(db, FAT_SQL_RUN_ADD, &stmt, err);
  for (int i = 0; i < TEXTS && result == FAT_OK; i++) {
    text[i] = fat_db_clean(given[i], i == 0 ? FAT_DB_LOG : FAT_DB_WORD);
    if (!text[i])
      result = fat_status_fail(err, FAT_E_NOMEM, "out of memory for a run");
  }
  if (result == FAT_OK)
    result = fat_db_bind(db, stmt, err, "ttttttttt", status, text[0], text[1], text[2], text[3], text[4],
                         text[5], text[6], text[7]);
  if (result == FAT_OK)
    result = fat_db_finish(db, stmt, id, err);
  for (int i = 0; i < TEXTS; i++)
    free(text[i]);
  return result;
}

fat_status fat_db_run_begin(fat_db *db, const fat_run *run, int64_t *id, fat_error *err)
{
  FAT_TRY(fat_db_ready(db, true, err));
  return fat_db_run_add(db, "running", run, id, err);
}

fat_status fat_db_run_end(fat_db *db, int64_t id, const char *status, fat_error *err)
{
  int64_t ended = 0;
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_do(db, FAT_SQL_RUN_END, &ended, err, "it", id, status));
  if (!ended)
    return fat_status_fail(err, FAT_E_NOT_FOUND, "database %s has no run %lld", db->path, (long long)id);
  return FAT_OK;
}
