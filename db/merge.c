/* merge.c -- rows from another database (take.c), in one transaction. Its source and binaries come along
 * where it could be used as it stands: it passes what access.c asks of a file, and has the owner of ours. */
#include "private.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static fat_status take_database(fat_db *db, fat_db *from, fat_import *counts, fat_error *err)
{
  fat_db_rows rows = {0};
  bool more = true;
  fat_status status = fat_db_rows_open(from, "main", " WHERE t.latest = 1 ORDER BY t.id", true, &rows, err);
  while (status == FAT_OK) {
    status = fat_db_step(from, rows.stmt, &more, err);
    if (status != FAT_OK || !more)
      break;
    int64_t id = sqlite3_column_int64(rows.stmt, FAT_ROW_id);
    status = fat_db_bind(from, rows.samples, err, "i", id);
    if (status == FAT_OK)
      status = fat_db_take_row(db, rows.stmt, rows.samples, &rows.row, "trial", (long)id, counts, err);
    fat_db_release(rows.samples);
  }
  fat_db_rows_close(from, &rows);
  return status;
}

/* Whether the other file, which lies at `real`, could be opened as one's own database, and belongs to whom
 * ours does. */
static bool is_ours(const fat_db *db, const char *other_path, char real[FAT_DB_PATH])
{
  bool exists;
  struct stat here, there;
  return !db->memory && fat_db_access(other_path, FAT_DB_READ, real, &exists, NULL) == FAT_OK &&
         stat(real, &there) == 0 && stat(db->path, &here) == 0 && here.st_uid == there.st_uid;
}

/* Undoes a transaction that was broken off: the first who may write the file does that by reading it. */
static void undo(const char *path)
{
  char journal[FAT_DB_PATH + sizeof "-journal"];
  sqlite3 *sql = NULL;
  snprintf(journal, sizeof journal, "%s-journal", path);
  if (access(journal, F_OK) == 0 && sqlite3_open_v2(path, &sql, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK)
    sqlite3_exec(sql, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL);
  sqlite3_close(sql);
}

fat_status fat_db_merge(fat_db *db, const char *other_path, fat_import *counts, fat_error *err)
{
  fat_db *from = NULL;
  char real[FAT_DB_PATH];
  memset(counts, 0, sizeof *counts);
  FAT_TRY(fat_db_ready(db, true, err));
  /* What was judged is what is opened: whoever owns a link on the way may turn it in between. */
  const bool ours = is_ours(db, other_path, real);
  if (ours)
    undo(real);
  FAT_TRY(fat_db_open_foreign(ours ? real : other_path, &from, err));
  counts->code_from = ours ? from : NULL;
  fat_status status = fat_db_begin(db, err);
  if (status == FAT_OK)
    status = take_database(db, from, counts, err);
  status = fat_db_end(db, status, err);
  fat_db_close(from);
  counts->code_from = NULL;
  if (status != FAT_OK)
    memset(counts, 0, sizeof *counts);
  return status;
}
