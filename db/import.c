/* import.c -- rows from elsewhere: JSON lines, or another database. Parameters and results only.
 *
 * Every value goes through the same readers as a stored row or a word on the command line (row.c), so a line
 * or a file made by anybody can at worst claim times that are not true. Source and binaries are made here,
 * by our own templates and compiler. One transaction: all of an import counts, or nothing of it. */
#include "private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_MAX_BYTES = 1 << 24 };

#define JSON(path) "json_extract(?1, '$." path "')"

/* A line as a row. ORDER ROW */
static const char LINE[] = "SELECT 0, NULL, " JSON(
    "problem") ", NULL, " JSON("gpu.name") ", " JSON("gpu.sm") ", " JSON("gp"
                                                                         "u."
                                                                         "sm"
                                                                         "s") ", " JSON("gpu.shared_block") ", " JSON("gpu.shared_sm") ", " JSON("gpu.l2") ", " JSON("gpu.bus") ", " JSON("gpu.clock") ", " JSON("gpu.memory_clock") ", " JSON("gpu.dram") ", " JSON("gpu.memory") ", " JSON("config") ", " JSON("eligible") ", " JSON("source") ", " JSON("templates") ", " JSON("compile_key") ", " JSON("driver") ", " JSON("outcome") ", " JSON("origin") ", " JSON("ms") ", " JSON("p20") ", " JSON("p80") ", " JSON("clock"
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          "_mhz") ", " JSON("error_max") ", " JSON("error_allowed") ", " JSON("limit_by") ", " JSON("registers") ", " JSON("stack") ", " JSON("spills") ", " JSON("shared") ", " JSON("blocks_per_sm") ", " JSON("compile_seconds") ", coalesce(json_array_length(?1, '$.samples'), 0), " JSON("detail") ", NULL, " JSON("date") ", " JSON("nvrtc") ", " JSON("version") ", NULL, NULL WHERE json_valid(?1) AND json_type(?1) = 'object'";
static const char LINE_SAMPLES[] = "SELECT s.value, c.value FROM json_each(?1, '$.samples') s"
                                   " LEFT JOIN json_each(?1, '$.clocks') c ON c.key = s.key WHERE "
                                   "json_type(?1, '$.samples') = 'array' ORDER BY s.key";

static void refuse(fat_import *counts, const char *where, long number, const char *why)
{
  if (counts->refused++ == 0)
    snprintf(counts->first_refusal, sizeof counts->first_refusal, "%s %ld: %.200s", where, number, why);
}

/* -- one row into our file */

static fat_status run_of(fat_db *db, const fat_db_row *row, int64_t *id, fat_error *err)
{
  const fat_trial *t = &row->trial;
  sqlite3_stmt *stmt;
  FAT_TRY(fat_db_kept(db, FAT_SQL_RUN_FIND, &stmt, err));
  FAT_TRY(fat_db_bind(db, stmt, err, "tttt", row->version, t->driver, row->nvrtc, t->templates));
  FAT_TRY(fat_db_finish(db, stmt, id, err));
  if (*id)
    return FAT_OK;
  fat_run run = {"import", row->version, t->driver, row->nvrtc, t->templates, ""};
  return fat_db_run_add(db, "imported", &run, id, err);
}

/* A date ahead of ours would outrank everything that is tuned here until then. */
static bool is_future(const char *date)
{
  char limit[40] = "";
  struct tm utc;
  time_t soon = time(NULL) + 24 * 3600;
  return !gmtime_r(&soon, &utc) || !strftime(limit, sizeof limit, "%Y-%m-%dT%H:%M:%S", &utc) ||
         strncmp(date, limit, strlen(limit)) > 0;
}

static fat_status put_row(fat_db *db, fat_db_row *row, fat_import *counts, fat_error *err)
{
  bool better;
  fat_trial *t = &row->trial;
  FAT_TRY(fat_db_put_compare(db, t, &better, err));
  if (!better) {
    counts->kept++;
    return FAT_OK;
  }
  FAT_TRY(run_of(db, row, &t->run, err));
  t->log = "";
  FAT_TRY(fat_db_put_row(db, t, NULL, t->date, err));
  counts->added++;
  return FAT_OK;
}

/* One row that a statement stands on. `status` of a refusal is FAT_OK: it is counted. */
static fat_status take(fat_db *db, sqlite3_stmt *stmt, sqlite3_stmt *samples, fat_db_row *row,
                       const char *where, long number, fat_import *counts, fat_error *err)
{
  fat_error why = {0};
  fat_status status = fat_db_row_read(stmt, row, &why);
  if (status == FAT_OK && is_future(row->trial.date))
    status = fat_status_fail(&why, FAT_E_CORRUPT, "date %s is in the future", row->trial.date);
  if (status == FAT_OK)
    status = fat_db_row_samples(samples, row, &why);
  if (status == FAT_E_CORRUPT) {
    refuse(counts, where, number, why.text);
    return FAT_OK;
  }
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s", why.text);
  return put_row(db, row, counts, err);
}

/* -- JSON lines */

static fat_status take_line(fat_db *db, sqlite3_stmt *stmt, sqlite3_stmt *samples, const char *line,
                            size_t length, long number, fat_db_row *row, fat_import *counts, fat_error *err)
{
  bool found = false;
  if (length > LINE_MAX_BYTES) {
    refuse(counts, "line", number, "longer than 16 MiB");
    return FAT_OK;
  }
  if (sqlite3_bind_text(stmt, 1, line, (int)length, SQLITE_STATIC) != SQLITE_OK ||
      sqlite3_bind_text(samples, 1, line, (int)length, SQLITE_STATIC) != SQLITE_OK)
    return fat_db_fail(db, db->sql, "importing", err);
  fat_error why = {0};
  fat_status status = fat_db_step(db, stmt, &found, &why);
  if (status == FAT_OK && found)
    status = take(db, stmt, samples, row, "line", number, counts, &why);
  else if (status == FAT_OK || status == FAT_E_DB) { /* FAT_E_DB: SQLite's "malformed JSON" */
    refuse(counts, "line", number, "no JSON object");
    status = FAT_OK;
  }
  fat_db_release(stmt);
  fat_db_release(samples);
  return status == FAT_OK ? status : fat_status_fail(err, status, "%s", why.text);
}

static bool is_blank(const char *text, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
      return false;
  return true;
}

static fat_status take_lines(fat_db *db, const char *text, size_t length, fat_import *counts, fat_error *err)
{
  sqlite3_stmt *stmt = NULL, *samples = NULL;
  fat_db_row row = {0};
  const char *end = text + length;
  long number = 0;
  fat_status status = fat_db_prepare(db, db->sql, LINE, &stmt, err);
  if (status == FAT_OK)
    status = fat_db_prepare(db, db->sql, LINE_SAMPLES, &samples, err);
  while (status == FAT_OK && text < end) {
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    size_t n = (size_t)((stop ? stop : end) - text);
    number++;
    if (!is_blank(text, n))
      status = take_line(db, stmt, samples, text, n, number, &row, counts, err);
    text = stop ? stop + 1 : end;
  }
  sqlite3_finalize(stmt);
  sqlite3_finalize(samples);
  fat_db_row_free(&row);
  return status;
}

fat_status fat_db_import(fat_db *db, const char *json_lines, size_t length, fat_import *counts,
                         fat_error *err)
{
  memset(counts, 0, sizeof *counts);
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_begin(db, err));
  fat_status status = take_lines(db, json_lines, length, counts, err);
  if (status == FAT_OK)
    status = fat_db_commit(db, err);
  fat_db_rollback(db);
  if (status != FAT_OK)
    memset(counts, 0, sizeof *counts);
  return status;
}

/* -- another database */

static fat_status take_database(fat_db *db, fat_db *from, fat_import *counts, fat_error *err)
{
  sqlite3_stmt *stmt = NULL, *samples = NULL;
  fat_text sql = {0};
  fat_db_row row = {0};
  bool more = true;
  fat_db_row_select(&sql, "main");
  fat_text_add(&sql, " ORDER BY t.id");
  fat_status status = fat_text_status(&sql, err);
  if (status == FAT_OK)
    status = fat_db_prepare(from, from->sql, fat_text_get(&sql), &stmt, err);
  if (status == FAT_OK)
    status = fat_db_prepare(from, from->sql, "SELECT ms, clock FROM main.sample WHERE trial = ?1 ORDER BY n",
                            &samples, err);
  while (status == FAT_OK) {
    status = fat_db_step(from, stmt, &more, err);
    if (status != FAT_OK || !more)
      break;
    int64_t id = sqlite3_column_int64(stmt, FAT_ROW_ID);
    status = fat_db_bind(from, samples, err, "i", id);
    if (status == FAT_OK)
      status = take(db, stmt, samples, &row, "trial", (long)id, counts, err);
    fat_db_release(samples);
  }
  sqlite3_finalize(stmt);
  sqlite3_finalize(samples);
  fat_db_row_free(&row);
  fat_text_free(&sql);
  return status;
}

fat_status fat_db_merge(fat_db *db, const char *other_path, fat_import *counts, fat_error *err)
{
  fat_db *from = NULL;
  memset(counts, 0, sizeof *counts);
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_open_foreign(other_path, &from, err));
  fat_status status = fat_db_begin(db, err);
  if (status == FAT_OK)
    status = take_database(db, from, counts, err);
  if (status == FAT_OK)
    status = fat_db_commit(db, err);
  fat_db_rollback(db);
  fat_db_close(from);
  if (status != FAT_OK)
    memset(counts, 0, sizeof *counts);
  return status;
}
