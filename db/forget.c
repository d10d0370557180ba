/* forget.c -- trials that nobody wants any more, and content that no trial refers to.
 *
 * In: what the trials have in common. Out: a database without them: winners are chosen anew among what is
 * left, and of a config whose current row went the latest that stays is current. One transaction. */
#include "private.h"
#include <stdio.h>

/* ?1 GPU, ?2 kernel, ?3 days as '-90 days', ?4 the beginning of a source's hash, ?5 a part of the problem;
 * NULL: any. */
#define MATCH                                                                                                \
  "(SELECT t.id FROM main.trial t JOIN main.device d ON d.id = t.device JOIN main.problem p ON p.id = "      \
  "t.problem"                                                                                                \
  " WHERE (?1 IS NULL OR d.name = ?1) AND (?2 IS NULL OR t.kernel = ?2)"                                     \
  " AND (?3 IS NULL OR t.date < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3))"                                  \
  " AND (?4 IS NULL OR substr(t.source, 1, length(?4)) = ?4) AND (?5 IS NULL OR instr(p.text, ?5)))"

static fat_status delete_from(fat_db *db, const char *text, const fat_db_forgotten *what, fat_error *err)
{
  char days[32];
  sqlite3_stmt *stmt = NULL;
  snprintf(days, sizeof days, "-%d days", what->older_days);
  FAT_TRY(fat_db_prepare(db, db->sql, text, &stmt, err));
  fat_status status = fat_db_bind(db, stmt, err, "ttttt", what->gpu, what->kernel,
                                  what->older_days ? days : NULL, what->source, what->problem);
  if (status == FAT_OK)
    status = fat_db_finish(db, stmt, NULL, err);
  sqlite3_finalize(stmt);
  return status;
}

/* Pairs that have lost their winner, and such as never had one. */
static fat_status choose_winners(fat_db *db, fat_error *err)
{
  sqlite3_stmt *stmt = NULL;
  bool row = true;
  FAT_TRY(fat_db_prepare(db, db->sql,
                         "SELECT DISTINCT problem, device FROM main.trial t WHERE eligible = 1 AND NOT EXISTS"
                         " (SELECT 1 FROM main.winner w WHERE w.problem = t.problem AND w.device = t.device)",
                         &stmt, err));
  fat_status status = FAT_OK;
  while (status == FAT_OK) {
    status = fat_db_step(db, stmt, &row, err);
    if (status != FAT_OK || !row)
      break;
    status = fat_db_choose_winner(db, sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1), err);
  }
  sqlite3_finalize(stmt);
  return status;
}

/* The latest trial of each config of which none is current. */
#define NONE_CURRENT                                                                                         \
  "(SELECT id, problem, device FROM (SELECT id, problem, device,"                                            \
  " row_number() OVER (PARTITION BY problem, device, config, origin ORDER BY date DESC, id DESC) AS place,"  \
  " max(current) OVER (PARTITION BY problem, device, config, origin) AS has FROM main.trial WHERE latest = " \
  "1)"                                                                                                       \
  " WHERE place = 1 AND has = 0)"

static fat_status forget(fat_db *db, const fat_db_forgotten *what, long *count, fat_error *err)
{
  FAT_TRY(delete_from(db, "DELETE FROM main.winner WHERE trial IN " MATCH, what, err));
  FAT_TRY(delete_from(db, "DELETE FROM main.trial WHERE id IN " MATCH, what, err)); /* and their times */
  *count = sqlite3_changes(db->sql);
  FAT_TRY(fat_db_run_sql(
      db,
      "DELETE FROM main.winner WHERE (problem, device) IN (SELECT problem, device FROM " NONE_CURRENT
      "); UPDATE main.trial SET current = 1 WHERE id IN (SELECT id FROM " NONE_CURRENT ")",
      err));
  return choose_winners(db, err);
}

fat_status fat_db_forget(fat_db *db, const fat_db_forgotten *what, long *count, fat_error *err)
{
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_begin(db, err));
  return fat_db_end(db, forget(db, what, count, err), err);
}

fat_status fat_db_compact(fat_db *db, int64_t *before, int64_t *after, fat_error *err)
{
  static const char pages[] =
      "SELECT page_count * page_size FROM pragma_page_count('%1$s'), pragma_page_size('%1$s')";
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_number(db, "main", pages, before, err));
  FAT_TRY(fat_db_begin(db, err));
  fat_status status = fat_db_run_sql(
      db,
      "DELETE FROM main.binary WHERE hash NOT IN (SELECT binary FROM main.trial WHERE binary IS NOT NULL);"
      "DELETE FROM main.recipe WHERE hash NOT IN (SELECT recipe FROM main.trial WHERE recipe IS NOT NULL);"
      "DELETE FROM main.source WHERE hash NOT IN (SELECT source FROM main.trial);"
      "DELETE FROM main.mod WHERE NOT EXISTS (SELECT 1 FROM main.trial t JOIN main.problem p ON p.id = "
      "t.problem"
      " WHERE instr(p.family, '-' || hash));"
      "DELETE FROM main.rejection WHERE run NOT IN (SELECT run FROM main.trial WHERE run IS NOT NULL)"
      " AND run NOT IN (SELECT id FROM main.run WHERE status = 'running');"
      "DELETE FROM main.run WHERE status <> 'running' AND id NOT IN (SELECT run FROM main.trial WHERE run IS "
      "NOT NULL)"
      " AND id NOT IN (SELECT run FROM main.rejection);"
      "DELETE FROM main.toolchain WHERE id NOT IN (SELECT toolchain FROM main.trial);"
      "DELETE FROM main.problem WHERE id NOT IN (SELECT problem FROM main.trial)"
      " AND id NOT IN (SELECT problem FROM main.rejection);"
      "DELETE FROM main.device WHERE id NOT IN (SELECT device FROM main.trial)"
      " AND id NOT IN (SELECT device FROM main.rejection)",
      err);
  FAT_TRY(fat_db_end(db, status, err));
  /* It attaches a file of its own, beside the system's. */
  const int attached = sqlite3_limit(db->sql, SQLITE_LIMIT_ATTACHED, 2);
  status = fat_db_run_sql(db, "VACUUM main", err);
  sqlite3_limit(db->sql, SQLITE_LIMIT_ATTACHED, attached);
  FAT_TRY(status);
  return fat_db_number(db, "main", pages, after, err);
}
