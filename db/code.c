/* code.c -- the stored code of one config: what a plan loads.
 *
 * In: family, architecture, config, perhaps a source hash. Out: cubin and recipe, or source and recipe, owned
 * by the caller. Rendered code depends on nothing else, so whichever trial holds it will do; the user's file
 * is asked first. Every content is checked against its hash; what fails is left out with a remark. */
#include "private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIED = 8 /* rows of one file that are looked into */ };

static bool launches(const fat_code *code)
{
  return code->cubin && code->recipe;
}

static bool rebuilds(const fat_code *code)
{
  return code->source && code->recipe;
}

static fat_status read_row(fat_db *db, sqlite3_stmt *stmt, const char *schema, bool sourceless,
                           fat_code *code, fat_error *err)
{
  unsigned char *text;
  size_t size;
  const char *columns[3];
  for (int i = 0; i < 3; i++) {
    columns[i] = (const char *)sqlite3_column_text(stmt, i);
    if (!columns[i] && sqlite3_errcode(db->sql) == SQLITE_NOMEM)
      return fat_status_fail(err, FAT_E_NOMEM, "out of memory for content");
  }
  snprintf(code->source_hash, sizeof code->source_hash, "%s", columns[0] ? columns[0] : "");
  FAT_TRY(fat_db_content(db, schema, FAT_DB_RECIPE, columns[1] ? columns[1] : "", &text, &size, NULL, err));
  code->recipe = (char *)text;
  snprintf(code->cubin_hash, sizeof code->cubin_hash, "%s", columns[2] ? columns[2] : "");
  FAT_TRY(fat_db_content(db, schema, FAT_DB_BINARY, code->cubin_hash, &code->cubin, &code->cubin_size, NULL,
                         err));
  if (sourceless && launches(code))
    return FAT_OK;
  FAT_TRY(fat_db_content(db, schema, FAT_DB_SOURCE, code->source_hash, &text, &size, NULL, err));
  code->source = (char *)text;
  return FAT_OK;
}

/* Goes through the rows of one file until one can be launched; `code` keeps the best so far. CROSS JOIN keeps
 * the order of the tables, so the index finds the config among hundreds that were tried for a problem. */
static fat_status look_in(fat_db *db, const char *schema, const fat_code_filter *f, fat_code *code,
                          fat_error *err)
{
  char sql[1000], family[FAT_PROBLEM_TEXT], problem[FAT_PROBLEM_TEXT];
  sqlite3_stmt *stmt = NULL;
  bool row;
  snprintf(sql, sizeof sql,
           "SELECT t.source, t.recipe, t.binary FROM %1$s.problem p CROSS JOIN %1$s.device d"
           " CROSS JOIN %1$s.trial t ON t.problem = p.id AND t.device = d.id WHERE p.family = ?1 AND d.sm = "
           "CAST(?2 AS INTEGER)"
           " AND t.config = ?3 AND t.outcome = 'ok' AND t.source = coalesce(?4, t.source)"
           " AND (?7 IS NULL OR t.toolchain IN (SELECT id FROM %1$s.toolchain WHERE compile_key = ?7))"
           " AND t.recipe IS NOT NULL ORDER BY t.binary IS NULL, (p.text = ?5 AND d.facts = ?6) DESC,"
           " t.current DESC, t.origin, t.id DESC LIMIT %2$d",
           schema, TRIED);
  char sm[16];
  snprintf(sm, sizeof sm, "%d", f->sm);
  fat_status status = fat_db_again(db, sql, &stmt, err);
  if (status == FAT_OK)
    status = fat_db_bind(db, stmt, err, "ttttttt", fat_problem_family(f->problem, family), sm, f->config,
                         f->source_hash, fat_problem_print(f->problem, problem), f->facts, f->compile_key);
  while (status == FAT_OK && !launches(code)) {
    fat_code next = {0};
    status = fat_db_step(db, stmt, &row, err);
    if (status != FAT_OK || !row)
      break;
    status = read_row(db, stmt, schema, f->sourceless, &next, err);
    if (launches(&next) || (rebuilds(&next) && !rebuilds(code))) {
      fat_db_code_free(code);
      *code = next;
    } else
      fat_db_code_free(&next);
  }
  fat_db_done(db, stmt);
  return status;
}

fat_status fat_db_code(fat_db *db, const fat_code_filter *filter, fat_code *code, fat_error *err)
{
  const char *const schemas[] = {"main", "system"};
  memset(code, 0, sizeof *code);
  FAT_TRY(fat_db_ready(db, false, err));
  for (int i = 0; i < (db->system ? 2 : 1) && !launches(code); i++) {
    fat_error why = {0};
    fat_status status = look_in(db, schemas[i], filter, code, &why);
    if (status == FAT_E_NOMEM || status == FAT_E_BUSY) {
      fat_db_code_free(code);
      return fat_status_fail(err, status, "%s", why.text);
    }
    if (status != FAT_OK) /* damage is a miss */
      fat_db_remark(db, "%s", why.text);
  }
  if (launches(code) || rebuilds(code))
    return FAT_OK;
  fat_db_code_free(code);
  return fat_status_fail(err, FAT_E_NOT_FOUND, "no code of %s is stored for sm_%d", filter->config,
                         filter->sm);
}

void fat_db_code_free(fat_code *code)
{
  free(code->source);
  free(code->recipe);
  free(code->cubin);
  memset(code, 0, sizeof *code);
}
