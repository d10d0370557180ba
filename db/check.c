/* check.c -- is all well in the files of a handle? One line per finding.
 *
 * SQLite looks at pages, keys and types; then every stored value goes through its reader, every content is
 * compared with its hash, and every winner with the rule that chose it. */
#include "private.h"
#include "recipe.h"
#include <stdio.h>
#include <string.h>

#define COST FAT_DB_COST("%1$s", "t.problem", "t.device", "l.eligible = 1")

/* Queries whose every row is a finding. %1$s: the schema. */
static const char *const findings_of[] = {
    "SELECT integrity_check FROM pragma_integrity_check WHERE schema = '%1$s' AND integrity_check <> 'ok' "
    "LIMIT 100",
    "SELECT 'a row of ' || \"table\" || ' names a row of ' || parent || ' that is not there'"
    " FROM pragma_foreign_key_check(NULL, '%1$s') LIMIT 100",
    "SELECT 'trial ' || t.id || ' is the winner, but trial ' || b.id || ' is better' FROM %1$s.winner w"
    " JOIN %1$s.trial b ON b.id = (SELECT t.id FROM %1$s.trial t WHERE t.problem = w.problem"
    " AND t.device = w.device AND " FAT_DB_MAY_WIN " ORDER BY t.origin, " COST " LIMIT 1)"
    " JOIN %1$s.trial t ON t.id = w.trial"
    /* Measured ones within noise of each other are ties, between which fat_db_prefer may have decided. Who
     * has no mean where means decide costs without end. */
    " WHERE b.origin < t.origin OR (b.origin = t.origin AND iif(b.mean > 0 AND t.mean > 0,"
    " b.mean < t.mean AND NOT (t.mean <= 1.01 * b.mean"
    " OR coalesce(t.mean * t.p20 / t.ms <= b.mean * b.p80 / b.ms, 0)),"
    " " COST " > 1e300 OR (b.ms < t.ms AND NOT (t.origin = 'measured'"
    " AND (t.ms <= 1.01 * b.ms OR coalesce(t.p20 <= b.p80, 0)))))) LIMIT 100",
    "SELECT 'trial ' || t.id || ' is a winner and may not be' FROM %1$s.winner w JOIN %1$s.trial t ON t.id = "
    "w.trial"
    " WHERE NOT (" FAT_DB_MAY_WIN ") OR t.problem <> w.problem OR t.device <> w.device LIMIT 100",
    "SELECT DISTINCT 'problem ' || p.text || ' has trials that may win, but no winner' FROM %1$s.trial t"
    " JOIN %1$s.problem p ON p.id = t.problem WHERE " FAT_DB_MAY_WIN
    " AND NOT EXISTS (SELECT 1 FROM %1$s.winner w"
    " WHERE w.problem = t.problem AND w.device = t.device) LIMIT 100",
};

/* A statement that fails is a finding too, except for want of memory. */
static fat_status note_failure(fat_status status, const char *schema, const fat_error *why,
                               fat_text *findings, fat_error *err)
{
  if (status == FAT_OK)
    return FAT_OK;
  if (status == FAT_E_NOMEM)
    return fat_status_fail(err, status, "%s", why->text);
  fat_text_format(findings, "%s: %s\n", schema, why->text);
  return FAT_OK;
}

static fat_status query(fat_db *db, const char *schema, const char *form, fat_text *findings, fat_error *err)
{
  sqlite3_stmt *stmt = NULL;
  fat_error why = {0};
  bool row = true;
  fat_text sql = {0};
  fat_text_format(&sql, form, schema);
  fat_status status = fat_text_status(&sql, &why);
  if (status == FAT_OK)
    status = fat_db_prepare(db, db->sql, fat_text_get(&sql), &stmt, &why);
  while (status == FAT_OK) {
    status = fat_db_step(db, stmt, &row, &why);
    if (status != FAT_OK || !row)
      break;
    const char *text = (const char *)sqlite3_column_text(stmt, 0);
    fat_text_format(findings, "%s: %s\n", schema, text ? text : "a damaged value");
  }
  sqlite3_finalize(stmt);
  fat_text_free(&sql);
  return note_failure(status, schema, &why, findings, err);
}

/* Every trial through its reader. */
static fat_status trials(fat_db *db, const char *schema, fat_text *findings, fat_error *err)
{
  fat_db_rows rows = {0};
  fat_error why = {0};
  bool more = true;
  fat_status status = fat_db_rows_open(db, schema, "", true, &rows, &why);
  while (status == FAT_OK) {
    status = fat_db_step(db, rows.stmt, &more, &why);
    if (status != FAT_OK || !more)
      break;
    status = fat_db_rows_read(db, &rows, &why);
    if (status != FAT_E_CORRUPT)
      continue;
    fat_text_format(findings, "%s: trial %lld: %s\n", schema,
                    (long long)sqlite3_column_int64(rows.stmt, FAT_ROW_id), why.text);
    status = FAT_OK;
  }
  fat_db_rows_close(db, &rows);
  return note_failure(status, schema, &why, findings, err);
}

/* Every content against its hash; a recipe must also read as one. */
static fat_status contents(fat_db *db, const char *schema, const char *table, const char *columns,
                           fat_text *findings, fat_error *err)
{
  char sql[160], found[FAT_HASH_SIZE];
  sqlite3_stmt *stmt = NULL;
  fat_error why = {0};
  bool row = true;
  snprintf(sql, sizeof sql, "SELECT hash, %s FROM %s.%s", columns, schema, table);
  fat_status status = fat_db_prepare(db, db->sql, sql, &stmt, &why);
  while (status == FAT_OK) {
    status = fat_db_step(db, stmt, &row, &why);
    if (status != FAT_OK || !row)
      break;
    const char *hash = (const char *)sqlite3_column_text(stmt, 0),
               *must = (const char *)sqlite3_column_text(stmt, 1);
    const char *bytes = sqlite3_column_blob(stmt, 2);
    fat_text_hash(bytes ? bytes : "", (size_t)sqlite3_column_bytes(stmt, 2), found);
    if (!must || strcmp(found, must) != 0)
      fat_text_format(findings, "%s: %s %.16s does not agree with its hash\n", schema, table,
                      hash ? hash : "");
    else if (strcmp(table, "recipe") == 0) {
      fat_recipe recipe;
      const char *text = (const char *)sqlite3_column_text(stmt, 2);
      if (fat_recipe_parse(text ? text : "", &recipe, &why) != FAT_OK)
        fat_text_format(findings, "%s: recipe %.16s: %s\n", schema, hash ? hash : "", why.text);
    }
  }
  sqlite3_finalize(stmt);
  return note_failure(status, schema, &why, findings, err);
}

static fat_status check_of(fat_db *db, const char *schema, fat_text *findings, fat_error *err)
{
  for (size_t i = 0; i < sizeof findings_of / sizeof *findings_of; i++)
    FAT_TRY(query(db, schema, findings_of[i], findings, err));
  FAT_TRY(trials(db, schema, findings, err));
  FAT_TRY(contents(db, schema, "source", "text_hash, text", findings, err));
  FAT_TRY(contents(db, schema, "recipe", "hash, text", findings, err));
  return contents(db, schema, "binary", "hash, cubin", findings, err);
}

fat_status fat_db_check(fat_db *db, fat_text *findings, fat_error *err)
{
  FAT_TRY(fat_db_ready(db, false, err));
  FAT_TRY(check_of(db, "main", findings, err));
  if (db->system)
    FAT_TRY(check_of(db, "system", findings, err));
  return fat_text_status(findings, err);
}
