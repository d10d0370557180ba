/* mods.c -- the texts of expressions that problems name by a hash: into the file, and from there to this
 * process. */
#include "private.h"
#include "feature.h"
#include "mod.h"
#include <stdio.h>

fat_status fat_db_mods_put(fat_db *db, const fat_problem *p, fat_error *err)
{
  for (int n = 0; n < FAT_MOD_FEATURES; n++) {
    const fat_mod *m = fat_mod_of(p, fat_mod_features[n]);
    char word[32]; /* "-mod0123456789abcdef" */
    if (!m)
      continue;
    fat_feature_print(p, m->which, true, word, sizeof word);
    FAT_TRY(fat_db_do(db, FAT_SQL_MOD_ADD, NULL, err, "tt", word + 1, m->text));
  }
  return FAT_OK;
}

/* A text that is not the one of its hash is damage. */
fat_status fat_db_mods_know(const fat_problem *p, const char *mod, const char *mask_mod, fat_error *err)
{
  for (int n = 0; n < FAT_MOD_FEATURES; n++) {
    const fat_feature which = fat_mod_features[n];
    const char *text = which == FAT_MOD ? mod : mask_mod;
    fat_problem same = *p;
    if (text && *text && fat_problem_has(p, which))
      FAT_TRY(fat_mod_add(text, which, &same, err));
  }
  return FAT_OK;
}

/* Rows of one file; what does not parse, or has another hash, is of no problem. */
static fat_status know_all(fat_db *db, const char *schema, fat_error *err)
{
  char sql[64];
  sqlite3_stmt *stmt = NULL;
  const fat_mod *m;
  bool row = true;
  snprintf(sql, sizeof sql, "SELECT text, hash LIKE 'mask%%' FROM %s.mod", schema);
  fat_status status = fat_db_prepare(db, db->sql, sql, &stmt, err);
  while (status == FAT_OK) {
    status = fat_db_step(db, stmt, &row, err);
    if (status != FAT_OK || !row)
      break;
    const char *text = (const char *)sqlite3_column_text(stmt, 0);
    if (text)
      fat_mod_know(text, sqlite3_column_int(stmt, 1) ? FAT_MASK_MOD : FAT_MOD, &m, NULL);
  }
  sqlite3_finalize(stmt);
  return status;
}

fat_status fat_db_mods(fat_db *db, fat_error *err)
{
  FAT_TRY(fat_db_ready(db, false, err));
  FAT_TRY(know_all(db, "main", err));
  return db->system ? know_all(db, "system", err) : FAT_OK;
}
