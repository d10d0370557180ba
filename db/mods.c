/* mods.c -- the texts of expressions that problems name by a hash: into the file, and from there to this
 * process. */
#include "private.h"
#include "mod.h"
#include <inttypes.h>
#include <stdio.h>

static const fat_feature features[] = {FAT_MOD, FAT_MASK_MOD};

/* "mod0123456789abcdef", as it stands in the problem's text. */
static void name(const fat_problem *p, fat_feature f, char word[32])
{
  snprintf(word, 32, "%s%016" PRIx64, fat_problem_feature_name(f), p->arg[f][0]);
}

fat_status fat_db_mods_put(fat_db *db, const fat_problem *p, fat_error *err)
{
  char word[32];
  for (int n = 0; n < 2; n++) {
    const fat_mod *m = fat_mod_of(p, features[n]);
    name(p, features[n], word);
    if (m)
      FAT_TRY(fat_db_do(db, FAT_SQL_MOD_ADD, NULL, err, "tt", word, m->text));
  }
  return FAT_OK;
}

/* A text that is not the one of its hash is damage. */
fat_status fat_db_mods_know(const fat_problem *p, const char *mod, const char *mask_mod, fat_error *err)
{
  const char *const texts[] = {mod, mask_mod};
  for (int n = 0; n < 2; n++) {
    fat_problem same = *p;
    if (texts[n] && *texts[n] && fat_problem_has(p, features[n]))
      FAT_TRY(fat_mod_add(texts[n], features[n], &same, err));
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
