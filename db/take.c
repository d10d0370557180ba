/* take.c -- one row from elsewhere, of import.c or merge.c, into our file.
 *
 * Every value goes through the same readers as a stored row or a word on the command line (row.c), so a line
 * or a file made by anybody can at worst claim times that are not true. */
#include "private.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

void fat_db_take_refuse(fat_import *counts, const char *where, long number, const char *why)
{
  if (counts->refused++ == 0)
    snprintf(counts->first_refusal, sizeof counts->first_refusal, "%s %ld: %.200s", where, number, why);
}

static fat_status run_of(fat_db *db, const fat_db_row *row, int64_t *id, fat_error *err)
{
  const fat_trial *t = &row->trial;
  FAT_TRY(
      fat_db_do(db, FAT_SQL_RUN_FIND, id, err, "tttt", row->version, t->driver, row->nvrtc, t->templates));
  if (*id)
    return FAT_OK;
  fat_run run = {.command = "import",
                 .version = row->version,
                 .driver = t->driver,
                 .nvrtc = row->nvrtc,
                 .templates = t->templates};
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

/* What a row was made into, of a file that is trusted; each content is checked against its hash. Nothing
 * unless all of it is there and whole. */
static fat_status code_of(fat_db *from, const fat_db_row *row, fat_code *code, char target[16],
                          fat_error *err)
{
  unsigned char *text;
  size_t size;
  if (!from || !*row->recipe || !*row->binary)
    return FAT_OK;
  FAT_TRY(fat_db_content(from, "main", FAT_DB_SOURCE, row->trial.source_hash, &text, &size, NULL, err));
  code->source = (char *)text;
  FAT_TRY(fat_db_content(from, "main", FAT_DB_RECIPE, row->recipe, &text, &size, NULL, err));
  code->recipe = (char *)text;
  return fat_db_content(from, "main", FAT_DB_BINARY, row->binary, &code->cubin, &code->cubin_size, target,
                        err);
}

/* Puts a row with its code; where `known` is the id of a row of ours, the code alone. */
static fat_status put_with_code(fat_db *db, fat_db_row *row, int64_t known, fat_import *counts,
                                fat_error *err)
{
  char target[16] = "";
  fat_code code = {0};
  fat_status status = code_of(counts->code_from, row, &code, target, err);
  const fat_artifact artifact = {code.source, code.recipe, code.cubin, code.cubin_size, row->binary, target};
  const bool whole = code.source && code.recipe && code.cubin;
  if (status == FAT_OK && !known)
    status = fat_db_put_row(db, &row->trial, whole ? &artifact : NULL, row->trial.date, err);
  else if (status == FAT_OK && whole)
    status = fat_db_put_code(db, known, &artifact, err);
  if (status == FAT_OK) {
    counts->added += !known;
    counts->with_code += whole;
  }
  fat_db_code_free(&code);
  return status;
}

static fat_status put_row(fat_db *db, fat_db_row *row, fat_import *counts, fat_error *err)
{
  bool better;
  int64_t bare;
  fat_trial *t = &row->trial;
  FAT_TRY(fat_db_put_compare(db, t, &better, &bare, err));
  if (!better) {
    counts->kept++;
    return bare && counts->code_from ? put_with_code(db, row, bare, counts, err) : FAT_OK;
  }
  FAT_TRY(run_of(db, row, &t->run, err));
  t->log = "";
  return put_with_code(db, row, 0, counts, err);
}

fat_status fat_db_take_row(fat_db *db, sqlite3_stmt *stmt, sqlite3_stmt *samples, fat_db_row *row,
                           const char *where, long number, fat_import *counts, fat_error *err)
{
  fat_error why = {0};
  fat_status status = fat_db_row_read(stmt, row, &why);
  if (status == FAT_OK && !counts->any_date && is_future(row->trial.date))
    status = fat_status_fail(&why, FAT_E_CORRUPT, "date %s is in the future", row->trial.date);
  if (status == FAT_OK)
    status = fat_db_row_samples(samples, row, &why);
  if (status == FAT_E_CORRUPT) {
    fat_db_take_refuse(counts, where, number, why.text);
    return FAT_OK;
  }
  if (status != FAT_OK)
    return fat_status_fail(err, status, "%s", why.text);
  return put_row(db, row, counts, err);
}
