/* view.c -- the documented views as text: one JSON array of objects, or tab-separated lines with a header.
 *
 * The columns are those the file itself has, so a newer minor version shows what it knows. JSON is written by
 * SQLite; only the brackets and commas between objects are ours. */
#include "private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_BEST(schema, compares)                                                                            \
  "NOT EXISTS (SELECT 1 FROM " schema ".best o WHERE o.problem = v.problem AND o.device = v.device"          \
  " AND o.origin " compares " v.origin)"
#define NO_SUCH_TRIAL                                                                                        \
  "NOT EXISTS (SELECT 1 FROM main.trials o WHERE o.problem = v.problem AND o.device = v.device"              \
  " AND o.config = v.config AND o.source = v.source AND o.compile_key = v.compile_key"                       \
  " AND o.driver = v.driver AND o.made_by = v.made_by AND o.origin = v.origin)"

static const struct {
  const char *name;
  const char *hide_main;   /* rows of the user's file to leave out where a system file lies below */
  const char *hide_system; /* rows of the system's file that the user's hides */
  const char *order;
} views[] = {
    /* A prediction does not win over a measurement, wherever that lies. */
    {"best", NO_BEST("system", "<"), NO_BEST("main", "<="), "sm, gpu, family, problem"},
    {"trials", "true", NO_SUCH_TRIAL, "id"},
    {"failures", "true", NO_SUCH_TRIAL, "id"},
    {"runs", "true", "true", "id"},
    {"rejections", "true", "true", "run, problem, kernel, count DESC"},
    {"history", "true", "true", "id"},
    {"tunables", "true",
     "NOT EXISTS (SELECT 1 FROM main.tunables o WHERE o.problem = v.problem AND o.device = v.device"
     " AND o.config = v.config AND o.origin = v.origin)",
     "gpu, problem, ms"},
};
enum { VIEWS = sizeof views / sizeof *views, LEAST_STEPS = 20, PAGES_A_STEP = 10 /* millions of steps */ };

static void cell(fat_text *out, const char *text)
{
  char *shown = text ? strdup(text) : NULL;
  if (shown) {
    fat_status_line(shown); /* a tab or line end would break the table, a control character the terminal */
    fat_text_add(out, shown);
  } else if (text)
    out->failed = true;
  free(shown);
}

/* SQL's is_tuned(facts): a run that has not ended runs as long as somebody holds the lock of its device. */
static void is_tuned(sqlite3_context *context, int count, sqlite3_value **values)
{
  const char *facts = (const char *)sqlite3_value_text(values[0]);
  (void)count;
  sqlite3_result_int(context, facts && fat_db_is_tuned(sqlite3_user_data(context), facts));
}

/* "json_object('a', v.\"a\", ...)" or "v.*", with the file it came from as the last column. */
static fat_status columns_of(fat_db *db, int view, const char *schema, const char *label, bool json,
                             fat_text *sql, fat_error *err)
{
  char probe[80];
  sqlite3_stmt *stmt = NULL;
  snprintf(probe, sizeof probe, "SELECT * FROM %s.%s LIMIT 0", schema, views[view].name);
  FAT_TRY(fat_db_prepare(db, db->sql, probe, &stmt, err));
  fat_text_add(sql, json ? "json_object(" : "");
  for (int i = 0; i < sqlite3_column_count(stmt); i++) {
    const char *name = sqlite3_column_name(stmt, i);
    if (!name) {
      sqlite3_finalize(stmt);
      return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a view");
    }
    if (strpbrk(name, "'\"")) {
      sqlite3_finalize(stmt);
      return fat_status_fail(err, FAT_E_CORRUPT, "view %s has a column that is no name", views[view].name);
    }
    const bool nested = json && strcmp(name, "kinds") == 0;
    bool alive = strcmp(views[view].name, "runs") == 0 && strcmp(name, "status") == 0;
    if (json)
      fat_text_format(sql, "'%s', ", name);
    if (alive)
      fat_text_format(sql,
                      "CASE (SELECT r.status FROM %s.run r WHERE r.id = v.id)"
                      " WHEN 'running' THEN iif(is_tuned(v.device), 'running', 'stopped') ELSE v.status END",
                      schema);
    else
      fat_text_format(
          sql,
          nested ? "iif(json_valid(v.\"%1$s\"), json(v.\"%1$s\"), NULL)"
          : json ? "iif(typeof(v.\"%1$s\") = 'real' AND abs(v.\"%1$s\") > 1.7976931348623157e308, NULL,"
                   " v.\"%1$s\")" /* JSON has no infinity */
                 : "v.\"%1$s\"",
          name);
    fat_text_add(sql, json || !alive ? ", " : " AS status, ");
  }
  fat_text_format(sql, json ? "'database', '%s')" : "'%s' AS database", label);
  sqlite3_finalize(stmt);
  return FAT_OK;
}

static fat_status rows_of(fat_db *db, const char *sql, bool json, bool *first, fat_text *out, fat_error *err)
{
  sqlite3_stmt *stmt = NULL;
  bool row = true;
  FAT_TRY(fat_db_prepare(db, db->sql, sql, &stmt, err));
  int columns = sqlite3_column_count(stmt);
  for (int i = 0; i < columns && *first && !json; i++) {
    cell(out, sqlite3_column_name(stmt, i));
    fat_text_add(out, i + 1 < columns ? "\t" : "\n");
  }
  fat_status status = FAT_OK;
  while (status == FAT_OK && !out->failed) {
    status = fat_db_step(db, stmt, &row, err);
    if (status != FAT_OK || !row)
      break;
    if (json) {
      const char *object = (const char *)sqlite3_column_text(stmt, 0);
      fat_text_format(out, "%s%s", *first ? "\n" : ",\n", object ? object : "");
    }
    for (int i = 0; i < columns && !json; i++) {
      cell(out, (const char *)sqlite3_column_text(stmt, i));
      fat_text_add(out, i + 1 < columns ? "\t" : "\n");
    }
    if (sqlite3_errcode(db->sql) == SQLITE_NOMEM)
      status = fat_db_fail(db, db->sql, "reading a view", err);
    *first = false;
  }
  if (!json)
    *first = false; /* the header stands, also over no rows */
  sqlite3_finalize(stmt);
  return status;
}

static fat_status view_of(fat_db *db, int view, const char *schema, bool json, bool *first, fat_text *out,
                          fat_error *err)
{
  bool system = strcmp(schema, "system") == 0;
  const char *where = !db->system ? "true" : system ? views[view].hide_system : views[view].hide_main;
  fat_text sql = {0};
  fat_text_add(&sql, "SELECT ");
  fat_status status = columns_of(db, view, schema, system ? "system" : "user", json, &sql, err);
  if (status == FAT_OK) {
    fat_text_format(&sql, " FROM %s.%s v WHERE %s ORDER BY %s", schema, views[view].name, where,
                    views[view].order);
    status = fat_text_status(&sql, err);
  }
  if (status == FAT_OK)
    status = rows_of(db, fat_text_get(&sql), json, first, out, err);
  fat_text_free(&sql);
  return status;
}

static fat_status rows_of_both(fat_db *db, int view, bool json, fat_text *out, fat_error *err)
{
  bool first = true;
  if (json)
    fat_text_add(out, "[");
  FAT_TRY(view_of(db, view, "main", json, &first, out, err));
  if (db->system)
    FAT_TRY(view_of(db, view, "system", json, &first, out, err));
  if (json)
    fat_text_add(out, first ? "]\n" : "\n]\n");
  return fat_text_status(out, err);
}

/* A view is the file's own, whatever that says: one that never ends is given up. Ours take less than 0.01
 * million steps for each page of a file. */
static fat_status bound(fat_db *db, fat_error *err)
{
  int64_t pages = 0, more = 0;
  FAT_TRY(fat_db_number(db, "main", "PRAGMA %s.page_count", &pages, err));
  if (db->system)
    FAT_TRY(fat_db_number(db, "system", "PRAGMA %s.page_count", &more, err));
  fat_db_bound(db, (long)(LEAST_STEPS + (pages + more) / PAGES_A_STEP));
  return FAT_OK;
}

fat_status fat_db_view(fat_db *db, const char *view, bool json, fat_text *out, fat_error *err)
{
  int which = 0;
  FAT_TRY(fat_db_ready(db, false, err));
  while (which < VIEWS && strcmp(views[which].name, view) != 0)
    which++;
  if (which == VIEWS)
    return fat_status_fail(err, FAT_E_INPUT,
                           "view '%s' is unknown: allowed are best, trials, failures, runs,"
                           " rejections, history, tunables",
                           view);
  if (sqlite3_create_function(db->sql, "is_tuned", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY, db, is_tuned, NULL,
                              NULL) != SQLITE_OK)
    return fat_db_fail(db, db->sql, "reading a view", err);
  FAT_TRY(bound(db, err));
  fat_status status = rows_of_both(db, which, json, out, err);
  fat_db_bound(db, 0);
  return status;
}
