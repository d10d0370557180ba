/* read.c -- trials and winners, row by row, from the user's file and then from the system's below it.
 *
 * A row of the system's file is left out where the user's has one of the same key. A damaged row is a miss:
 * it is left out and named in the note. Strings of a row live until the callback returns. */
#include "private.h"
#include <string.h>

/* The user's file has a row for the same trial. */
#define HIDDEN_TRIAL                                                                                         \
  " AND NOT EXISTS (SELECT 1 FROM main.trial u JOIN main.problem up ON up.id = u.problem"                    \
  " JOIN main.device ud ON ud.id = u.device JOIN main.toolchain uk ON uk.id = u.toolchain"                   \
  " WHERE up.text = p.text AND ud.facts = d.facts AND uk.compile_key = k.compile_key"                        \
  " AND uk.driver = k.driver AND uk.made_by = k.made_by AND u.config = t.config AND u.source = t.source "    \
  "AND u.origin = t.origin)"

/* The file has no winner for the same problem and device whose origin compares so with the row's. The user's
 * hides the system's, unless it is a prediction beside a measurement: a measured row counts more than where
 * it lies. view.c says the same of the views, which are the file's own: rows are read by the tables alone. */
#define NO_WINNER(schema, compares)                                                                          \
  " AND NOT EXISTS (SELECT 1 FROM " schema ".winner ow JOIN " schema ".problem op ON op.id = ow.problem"     \
  " JOIN " schema ".device od ON od.id = ow.device JOIN " schema ".trial o ON o.id = ow.trial"               \
  " WHERE op.text = p.text AND od.facts = d.facts AND o.origin " compares " t.origin)"

typedef struct clause {
  const char *sql;
  const char *value; /* NULL: the clause is left out */
} clause;

/* What is read of a file: rows that meet the clauses, in the order that `rest` says. */
typedef struct selection {
  const char *from; /* further tables */
  const clause *clauses;
  int count;
  const char *rest;
  bool samples;
} selection;

fat_status fat_db_rows_open(fat_db *db, const char *schema, const char *tail, bool samples, fat_db_rows *rows,
                            fat_error *err)
{
  fat_text sql = {0}, times = {0};
  fat_db_row_select(&sql, schema);
  fat_text_format(&sql, tail, schema);
  fat_text_format(&times, FAT_DB_TIMES, schema);
  fat_status status = fat_text_status(times.failed ? &times : &sql, err);
  if (status == FAT_OK)
    status = fat_db_again(db, fat_text_get(&sql), &rows->stmt, err);
  if (status == FAT_OK && samples)
    status = fat_db_again(db, fat_text_get(&times), &rows->samples, err);
  fat_text_free(&sql);
  fat_text_free(&times);
  return status;
}

fat_status fat_db_rows_read(fat_db *db, fat_db_rows *rows, fat_error *err)
{
  fat_trial *t = &rows->row.trial;
  fat_error why = {0};
  fat_status status = fat_db_row_read(rows->stmt, &rows->row, &why);
  if (!rows->samples)
    t->sample_count = 0;
  if (status == FAT_OK && rows->samples && (t->sample_count > 0 || t->mean > 0)) {
    status = fat_db_bind(db, rows->samples, &why, "i", t->id);
    if (status == FAT_OK)
      status = fat_db_row_samples(rows->samples, &rows->row, &why);
  }
  if (status == FAT_OK)
    return FAT_OK;
  if (status == FAT_E_CORRUPT)
    fat_db_remark(db, "trial %lld is damaged and left out: %s", (long long)t->id, why.text);
  return fat_status_fail(err, status, "%s", why.text);
}

void fat_db_rows_close(fat_db *db, fat_db_rows *rows)
{
  fat_db_done(db, rows->stmt);
  fat_db_done(db, rows->samples);
  fat_db_row_free(&rows->row);
}

/* The selected rows of one file. *stop: the callback has seen enough. */
static fat_status rows_of(fat_db *db, const char *schema, const selection *s, fat_db_trial_fn fn, void *user,
                          bool *stop, fat_error *err)
{
  fat_db_rows rows = {0};
  fat_text tail = {0};
  int bound = 0;
  bool more = true, below = strcmp(schema, "system") == 0;
  fat_text_format(&tail, "%s WHERE t.latest = 1", s->from);
  for (int i = 0; i < s->count; i++)
    if (s->clauses[i].value)
      fat_text_add(&tail, s->clauses[i].sql);
  fat_text_add(&tail, s->rest);
  fat_status status = fat_text_status(&tail, err);
  if (status == FAT_OK)
    status = fat_db_rows_open(db, schema, fat_text_get(&tail), s->samples, &rows, err);
  for (int i = 0; i < s->count && status == FAT_OK; i++)
    if (s->clauses[i].value &&
        sqlite3_bind_text(rows.stmt, ++bound, s->clauses[i].value, -1, SQLITE_STATIC) != SQLITE_OK)
      status = fat_db_fail(db, db->sql, "reading trials", err);
  while (status == FAT_OK && !*stop) {
    status = fat_db_step(db, rows.stmt, &more, err);
    if (status != FAT_OK || !more)
      break;
    status = fat_db_rows_read(db, &rows, err);
    if (status == FAT_OK && below)
      rows.row.trial.id += FAT_DB_BELOW;
    if (status == FAT_OK)
      *stop = !fn(&rows.row.trial, user);
    else if (status == FAT_E_CORRUPT) /* a miss, with a remark */
      status = FAT_OK;
  }
  fat_db_rows_close(db, &rows);
  fat_text_free(&tail);
  return status;
}

fat_status fat_db_trials(fat_db *db, const fat_db_filter *filter, fat_db_trial_fn fn, void *user,
                         fat_error *err)
{
  static const fat_db_filter all = {0};
  bool stop = false;
  FAT_TRY(fat_db_ready(db, false, err));
  if (!filter)
    filter = &all;
  /* No GLOB: SQLite prepares a statement again whenever a pattern of one is bound. */
  const clause clauses[] = {
      {" AND p.text = ?", filter->problem},
      {" AND p.family = ?", filter->family},
      {" AND d.facts = ?", filter->gpu},
      {" AND t.kernel = ?", filter->kernel},
      {" AND instr(replace(t.config, ':', '-') || '-', '-' || ? || '-')", filter->value},
      {" AND t.outcome = ?",
       filter->outcome_plus_1 ? fat_db_outcome_name((fat_outcome)(filter->outcome_plus_1 - 1)) : NULL},
      {" AND t.origin = ?",
       filter->origin_plus_1 ? fat_db_origin_name((fat_origin)(filter->origin_plus_1 - 1)) : NULL},
  };
  selection s = {"", clauses, sizeof clauses / sizeof *clauses, " ORDER BY t.id", filter->samples};
  FAT_TRY(rows_of(db, "main", &s, fn, user, &stop, err));
  if (!db->system || stop)
    return FAT_OK;
  s.rest = HIDDEN_TRIAL " ORDER BY t.id";
  return rows_of(db, "system", &s, fn, user, &stop, err);
}

fat_status fat_db_winners(fat_db *db, const fat_problem *family, fat_db_trial_fn fn, void *user,
                          fat_error *err)
{
  char text[FAT_PROBLEM_TEXT];
  bool stop = false;
  FAT_TRY(fat_db_ready(db, false, err));
  const clause clauses[] = {{" AND p.family = ?", fat_problem_family(family, text)}};
  selection s = {" JOIN %1$s.winner w ON w.trial = t.id AND w.problem = p.id", clauses, 1,
                 db->system ? NO_WINNER("system", "<") : "", false};
  FAT_TRY(rows_of(db, "main", &s, fn, user, &stop, err));
  if (!db->system || stop)
    return FAT_OK;
  s.rest = NO_WINNER("main", "<=");
  return rows_of(db, "system", &s, fn, user, &stop, err);
}
