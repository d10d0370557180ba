/* best.c -- the one row that a pick asks for, with its content, owned by the caller.
 *
 * In: problem, device, perhaps a kernel. Out: the winner (or the best trial of that kernel), its source,
 * recipe and binary. Every content is checked against its hash first; one that fails is left out with a
 * remark: a damaged binary can crash the driver, so it never leaves this file. */
#include "private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A table of content: its bytes, the hash they must have, a label. ORDER CONTENT */
static const struct {
  const char *columns, *table;
} contents_of[] = {
    {"text, text_hash, ''", "source"}, {"text, hash, ''", "recipe"}, {"cubin, hash, target", "binary"}};

/* What comes behind the columns of a row: the winner of problem ?1 on device ?2; the best row of kernel ?3,
 * which is the winner where that is of this kernel: of others within noise a tie has been decided. */
#define WINS  "w.trial = t.id AND w.problem = p.id AND w.device = d.id"
#define WORKS " WHERE p.text = ?1 AND d.facts = ?2 AND " FAT_DB_WORKS
#define COST  FAT_DB_COST("%1$s", "t.problem", "t.device", "l.kernel = ?3")
static const char WINNER[] = " JOIN %1$s.winner w ON " WINS WORKS;
static const char BEST[] =
    WORKS " AND t.kernel = ?3 ORDER BY t.origin, EXISTS (SELECT 1 FROM %1$s.winner w WHERE " WINS
          ") DESC, " COST ", t.id LIMIT 1";

static bool is_text(const fat_db_field *f)
{
  return f->member < sizeof(fat_trial) && (f->value == FAT_VALUE_WORD || f->value == FAT_VALUE_TEXT ||
                                           f->value == FAT_VALUE_LOG || f->value == FAT_VALUE_DATE);
}

/* Strings and samples of a row into one block of memory. */
static fat_status keep(fat_best *best, const fat_db_row *row, fat_error *err)
{
  const fat_trial *t = &row->trial;
  size_t numbers = 2 * (size_t)t->sample_count * sizeof(double), bytes = numbers;
  for (const fat_db_field *f = fat_db_fields; f < fat_db_fields + FAT_ROW_COUNT; f++)
    if (is_text(f))
      bytes += strlen(*(const char *const *)((const char *)t + f->member)) + 1;
  best->memory = malloc(bytes);
  if (!best->memory)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a row");
  best->trial = *t;
  double *samples = best->memory;
  if (numbers) {
    memcpy(samples, t->samples, numbers / 2);
    memcpy(samples + t->sample_count, t->clocks, numbers / 2);
  }
  best->trial.samples = numbers ? samples : NULL;
  best->trial.clocks = numbers ? samples + t->sample_count : NULL;
  char *text = (char *)best->memory + numbers;
  for (const fat_db_field *f = fat_db_fields; f < fat_db_fields + FAT_ROW_COUNT; f++)
    if (is_text(f)) {
      const char **to = (const char **)((char *)&best->trial + f->member);
      const char *from = *to;
      *to = text;
      text = stpcpy(text, from) + 1;
    }
  return FAT_OK;
}

fat_status fat_db_content(fat_db *db, const char *schema, fat_db_contents which, const char *hash,
                          unsigned char **bytes, size_t *size, char target[16], fat_error *err)
{
  char sql[160], found[FAT_HASH_SIZE];
  sqlite3_stmt *stmt = NULL;
  bool row;
  *bytes = NULL;
  *size = 0;
  if (!*hash)
    return FAT_OK;
  snprintf(sql, sizeof sql, "SELECT %s FROM %s.%s WHERE hash = ?1", contents_of[which].columns, schema,
           contents_of[which].table);
  FAT_TRY(fat_db_again(db, sql, &stmt, err));
  fat_status status = fat_db_bind(db, stmt, err, "t", hash);
  if (status == FAT_OK)
    status = fat_db_step(db, stmt, &row, err);
  if (status != FAT_OK || !row)
    goto done;
  const void *data = sqlite3_column_blob(stmt, 0);
  size_t length = (size_t)sqlite3_column_bytes(stmt, 0);
  const char *must = (const char *)sqlite3_column_text(stmt, 1),
             *label = (const char *)sqlite3_column_text(stmt, 2);
  if (sqlite3_errcode(db->sql) == SQLITE_NOMEM) {
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for content");
    goto done;
  }
  fat_text_hash(data ? data : "", length, found);
  if (!data || !must || strcmp(found, must) != 0) {
    fat_db_remark(db, "%s %.16s is damaged and left out", contents_of[which].table, hash);
    goto done;
  }
  *bytes = malloc(length + 1);
  if (!*bytes) {
    status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for %zu bytes of content", length);
    goto done;
  }
  memcpy(*bytes, data, length);
  (*bytes)[length] = 0;
  *size = length;
  if (target)
    snprintf(target, 16, "%s", label ? label : "");
done:
  fat_db_done(db, stmt);
  return status;
}

static fat_status contents(fat_db *db, const char *schema, const fat_db_row *row, bool with_cubin,
                           fat_best *best, fat_error *err)
{
  unsigned char *text;
  size_t size;
  FAT_TRY(fat_db_content(db, schema, FAT_DB_SOURCE, row->trial.source_hash, &text, &size, NULL, err));
  best->source = (char *)text;
  FAT_TRY(fat_db_content(db, schema, FAT_DB_RECIPE, row->recipe, &text, &size, NULL, err));
  best->recipe = (char *)text;
  if (with_cubin)
    FAT_TRY(fat_db_content(db, schema, FAT_DB_BINARY, row->binary, &best->cubin, &best->cubin_size,
                           best->target, err));
  if (best->cubin || !with_cubin)
    snprintf(best->cubin_hash, sizeof best->cubin_hash, "%s", row->binary);
  return FAT_OK;
}

/* The row of one file. FAT_E_NOT_FOUND also where what is there is damaged. */
static fat_status best_of(fat_db *db, const char *schema, const char *problem, const char *facts,
                          const char *kernel, bool with_cubin, fat_best *best, fat_error *err)
{
  fat_db_rows rows = {0};
  bool found = false;
  fat_error why = {0};
  fat_status status = fat_db_rows_open(db, schema, kernel ? BEST : WINNER, true, &rows, &why);
  if (status == FAT_OK)
    status = fat_db_bind(db, rows.stmt, &why, kernel ? "ttt" : "tt", problem, facts, kernel);
  if (status == FAT_OK)
    status = fat_db_step(db, rows.stmt, &found, &why);
  if (status == FAT_OK && found)
    status = fat_db_rows_read(db, &rows, &why);
  if (status == FAT_OK && found)
    status = keep(best, &rows.row, &why);
  if (status == FAT_OK && found)
    status = contents(db, schema, &rows.row, with_cubin, best, &why);
  /* Any failure but for lack of memory or of a lock is damage, and damage is a miss. */
  bool damage =
      status == FAT_E_CORRUPT || status == FAT_E_DB || status == FAT_E_FOREIGN || status == FAT_E_INPUT;
  if (damage)
    fat_db_remark(db, "%s", why.text);
  if (damage || (status == FAT_OK && !found))
    status = FAT_E_NOT_FOUND;
  else if (status != FAT_OK)
    fat_status_fail(err, status, "%s", why.text);
  fat_db_rows_close(db, &rows);
  if (status != FAT_OK)
    fat_db_best_free(best);
  return status;
}

fat_status fat_db_best(fat_db *db, const fat_problem *p, const fat_gpu *gpu, const char *kernel,
                       bool with_cubin, fat_best *best, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT], facts[FAT_GPU_FACTS];
  fat_best below;
  memset(best, 0, sizeof *best);
  memset(&below, 0, sizeof below);
  FAT_TRY(fat_db_ready(db, false, err));
  fat_problem_print(p, problem);
  fat_gpu_facts(gpu, facts);
  fat_status status = best_of(db, "main", problem, facts, kernel, with_cubin, best, err);
  bool enough = status == FAT_OK && best->trial.origin == FAT_MEASURED;
  if ((status != FAT_OK && status != FAT_E_NOT_FOUND) || enough || !db->system)
    goto done;
  /* The user's row wins, but a prediction does not win over a measurement. */
  fat_status other = best_of(db, "system", problem, facts, kernel, with_cubin, &below, err);
  if (other == FAT_OK && (status != FAT_OK || below.trial.origin == FAT_MEASURED)) {
    fat_db_best_free(best);
    *best = below;
    best->trial.id += FAT_DB_BELOW;
    best->system = true;
    return FAT_OK;
  }
  fat_db_best_free(&below);
  if (other == FAT_E_NOMEM) {
    fat_db_best_free(best);
    return other;
  }
done:
  if (status == FAT_E_NOT_FOUND)
    return fat_status_fail(err, status, "no %s%sfor %s on %s is stored", kernel ? kernel : "winner",
                           kernel ? " trial that works " : " ", problem, gpu->name);
  return status;
}

void fat_db_best_free(fat_best *best)
{
  free(best->source);
  free(best->recipe);
  free(best->cubin);
  free(best->memory);
  memset(best, 0, sizeof *best);
}
