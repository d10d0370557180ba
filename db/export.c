/* export.c -- the user's trials as JSON lines: parameters and results, no binaries, no source, no names.
 *
 * One object a line, written by SQLite, in the form import.c reads. What says who or where (command, host)
 * and compiler logs stay at home. The winners alone are a text that lies under version control: rows stand in
 * an order of their own, what they share is written once above them, numbers have six digits. */
#include "private.h"
#include "grow.h"
#include <stdlib.h>
#include <string.h>

/* Rows of the user's file with what they name; the run, which may be left out. */
#define NAMED                                                                                                \
  " JOIN main.problem p ON p.id = t.problem JOIN main.device d ON d.id = t.device"                           \
  " JOIN main.toolchain k ON k.id = t.toolchain"
static const char JOINED[] = NAMED " LEFT JOIN main.run r ON r.id = t.run";
static const char WITHOUT_RUN[] = NAMED " JOIN (SELECT NULL AS nvrtc, NULL AS version) r";

/* One column of all samples as an array. */
#define SAMPLES(value)                                                                                       \
  "json((SELECT json_group_array(x) FROM (SELECT " value " AS x FROM main.sample WHERE trial = t.id"         \
  " ORDER BY n)))"

/* The times on each kind of data, by name. */
#define KINDS(value)                                                                                         \
  "json((SELECT json_group_object(name, x) FROM (SELECT name, " value " AS x FROM main.kind"                 \
  " WHERE trial = t.id ORDER BY n)))"

typedef enum form {
  WHOLE,
  BRIEF,
  BARE
} form; /* BARE: without samples, kinds and expressions, of other tables */

/* The columns that travel, of the device or not, `shipped` so or (-1) in any way: 'name', expression, ...
 * More than six digits are noise where a text is brief, and would change with every run. */
static void add_fields(fat_text *sql, bool device, int shipped, form as)
{
  const char *comma = "";
  const bool brief = as == BRIEF;
  for (const fat_db_field *f = fat_db_fields; f < fat_db_fields + FAT_ROW_COUNT; f++) {
    if (!fat_db_travels(f) || (f->table == 'D') != device || (shipped >= 0 && (int)f->shipped != shipped))
      continue;
    fat_text_format(sql, "%s'%s', ", comma, f->name);
    if (as == BARE && (f->value == FAT_VALUE_SAMPLES || f->table == 'E'))
      fat_text_add(sql, "NULL");
    else if (f->value == FAT_VALUE_SAMPLES)
      fat_text_add(sql, brief ? "iif(kept.wins, " SAMPLES("CAST(PRINTF('%.6g', ms) AS REAL)") ", NULL)"
                              : SAMPLES("ms")); /* of winners alone */
    else if (brief && f->value == FAT_VALUE_REAL)
      fat_text_format(sql, "iif(%1$s IS NULL, NULL, CAST(PRINTF('%%.6g', %1$s) AS REAL))", f->sql);
    else
      fat_text_format(sql, f->sql, "main");
    comma = ", ";
  }
  if (!device && shipped != FAT_SHIPPED_ALL && as != BARE)
    fat_text_format(sql, ", 'kinds', %s", brief ? KINDS("CAST(PRINTF('%.6g', ms) AS REAL)") : KINDS("ms"));
}

/* Column 0 of a row is a line; column 1, where there is one, is what the lines share from there on. */
static fat_status print(fat_db *db, sqlite3_stmt *stmt, fat_text *out, fat_error *err)
{
  bool row = true, shares = sqlite3_column_count(stmt) > 1;
  char *shared = NULL;
  fat_status status = FAT_OK;
  while (status == FAT_OK && !out->failed) {
    status = fat_db_step(db, stmt, &row, err);
    if (status != FAT_OK || !row)
      break;
    const char *line = (const char *)sqlite3_column_text(stmt, 0);
    const char *now = shares ? (const char *)sqlite3_column_text(stmt, 1) : NULL;
    if (now && (!shared || strcmp(shared, now) != 0)) {
      fat_text_format(out, "%s\n", now);
      free(shared);
      shared = strdup(now);
    }
    if (!line || (shares && !shared))
      status = fat_status_fail(err, FAT_E_NOMEM, "out of memory for an export");
    fat_text_format(out, "%s\n", line ? line : "");
  }
  free(shared);
  return status == FAT_OK ? fat_text_status(out, err) : status;
}

/* Prepares the statement that stands in `sql`, binds and prints it. */
static fat_status run(fat_db *db, fat_text *sql, const char *gpu, fat_text *out, fat_error *err)
{
  sqlite3_stmt *stmt = NULL;
  fat_status status = fat_text_status(sql, err);
  if (status == FAT_OK)
    status = fat_db_prepare(db, db->sql, fat_text_get(sql), &stmt, err);
  if (status == FAT_OK)
    status = fat_db_bind(db, stmt, err, "t", gpu);
  if (status == FAT_OK)
    status = print(db, stmt, out, err);
  sqlite3_finalize(stmt);
  fat_text_free(sql);
  return status;
}

/* A line for each trial that `which` means. */
static void select_lines(fat_text *sql, form as, const char *joined, const char *which)
{
  fat_text_add(sql, "SELECT json_object('fatune', 1, 'gpu', json_object(");
  add_fields(sql, true, -1, as);
  fat_text_add(sql, "), ");
  add_fields(sql, false, -1, as);
  fat_text_format(sql, "%s) FROM main.trial t%s WHERE t.latest = 1 AND %s",
                  as == BARE ? "" : ", 'clocks', " SAMPLES("clock"), joined, which);
}

fat_status fat_db_export(fat_db *db, fat_text *out, fat_error *err)
{
  fat_text sql = {0};
  FAT_TRY(fat_db_ready(db, false, err));
  select_lines(&sql, WHOLE, JOINED, "?1 IS NULL ORDER BY t.id");
  return run(db, &sql, NULL, out, err);
}

/* -- of a damaged file, what can be read */

typedef struct numbers {
  int64_t *list;
  int count;
  bool failed;
} numbers;

/* Adds the ids that a statement gives until it meets damage. */
static void gather(fat_db *db, const char *sql, numbers *ids)
{
  sqlite3_stmt *stmt = NULL;
  if (sqlite3_prepare_v2(db->sql, sql, -1, &stmt, NULL) == SQLITE_OK)
    while (!ids->failed && sqlite3_step(stmt) == SQLITE_ROW) {
      int64_t *larger = fat_grow(ids->list, ids->count, sizeof *larger);
      ids->failed = !larger;
      if (larger)
        ids->list = larger, larger[ids->count++] = sqlite3_column_int64(stmt, 0);
    }
  ids->failed = ids->failed || sqlite3_errcode(db->sql) == SQLITE_NOMEM; /* damage only ends the list */
  sqlite3_finalize(stmt);
}

static int by_value(const void *a, const void *b)
{
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Trials' ids, each once, from both ends of their table and from an index: damage to one page hides few. */
static fat_status list_trials(fat_db *db, numbers *ids, fat_error *err)
{
  static const char *const ways[] = {"SELECT id FROM main.trial NOT INDEXED ORDER BY id",
                                     "SELECT id FROM main.trial NOT INDEXED ORDER BY id DESC",
                                     "SELECT id FROM main.trial INDEXED BY trial_run"};
  int kept = 0;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    gather(db, ways[i], ids);
  if (ids->failed)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for an export");
  if (ids->count > 0)
    qsort(ids->list, (size_t)ids->count, sizeof *ids->list, by_value);
  for (int i = 0; i < ids->count; i++)
    if (i == 0 || ids->list[i] != ids->list[i - 1])
      ids->list[kept++] = ids->list[i];
  ids->count = kept;
  return FAT_OK;
}

/* A trial's line by one of the statements; *found: whether it could be read, or needs none, being replaced.
 */
static fat_status print_one(fat_db *db, sqlite3_stmt *stmt, int64_t id, bool *found, fat_text *out,
                            fat_error *err)
{
  const size_t before = out->length;
  sqlite3_reset(stmt);
  sqlite3_bind_int64(stmt, 1, id);
  const fat_status status = print(db, stmt, out, err);
  *found = status == FAT_OK;
  if (!*found && out->length > before)
    out->data[out->length = before] = 0;
  return status == FAT_E_CORRUPT ? FAT_OK : status;
}

fat_status fat_db_export_readable(fat_db *db, fat_text *out, long *lost, fat_error *err)
{
  static const struct {
    form as;
    const char *joined;
  } ways[] = {{WHOLE, JOINED}, {WHOLE, WITHOUT_RUN}, {BARE, JOINED}, {BARE, WITHOUT_RUN}};
  enum { WAYS = sizeof ways / sizeof *ways };
  sqlite3_stmt *stmts[WAYS] = {NULL};
  numbers ids = {0};
  *lost = 0;
  fat_status status = fat_db_ready(db, false, err);
  for (int w = 0; w < WAYS && status == FAT_OK; w++) {
    fat_text sql = {0};
    select_lines(&sql, ways[w].as, ways[w].joined, "t.id = ?1");
    status = fat_text_status(&sql, err);
    if (status == FAT_OK)
      status = fat_db_prepare(db, db->sql, fat_text_get(&sql), &stmts[w], err);
    fat_text_free(&sql);
  }
  if (status == FAT_OK)
    status = list_trials(db, &ids, err);
  for (int i = 0; i < ids.count && status == FAT_OK; i++) {
    bool found = false;
    for (int w = 0; w < WAYS && !found && status == FAT_OK; w++)
      status = print_one(db, stmts[w], ids.list[i], &found, out, err);
    *lost += !found;
  }
  for (int w = 0; w < WAYS; w++)
    sqlite3_finalize(stmts[w]);
  free(ids.list);
  return status;
}

/* -- the winners */

#define COST   FAT_DB_COST("main", "t.problem", "t.device", "l.kernel = t.kernel")
#define CLOCKS FAT_DB_CLOCKS("main", "t")

/* What is worth shipping of a problem and device: the winner; the best of each other kernel that may win
 * unasked; and of each such kernel its twins and the best that takes any tensors. Of kernels that are used
 * only when asked for, the same at the largest problem of a family, by which the others are served. What
 * would beat the winner if only these rows were known is left out: a rule that chose among equals may have
 * taken one that is a little slower. Where the winner has a mean, so has every trial that takes fewer clocks
 * on normal data: the mean decides there too. */
static const char CHOSEN[] =
    "WITH good AS (SELECT t.id, t.problem, t.device, t.kernel, t.config, t.ms, t.mean, t.twin_of,"
    " t.eligible, " COST " AS cost, " CLOCKS " AS clocks,"
    " t.config LIKE '%-W1' OR t.config LIKE '%-W1-%' OR t.config LIKE '%:W1-%' AS narrow,"
    " dense_rank() OVER (PARTITION BY p.family, t.device ORDER BY p.flops DESC, p.text) AS size"
    " FROM main.trial t JOIN main.problem p ON p.id = t.problem"
    " WHERE t.origin = 'measured' AND " FAT_DB_WORKS "),"
    " first AS (SELECT g.* FROM good g JOIN main.winner w ON w.trial = g.id),"
    " beside AS (SELECT g.*, row_number() OVER (PARTITION BY g.problem, g.device, g.kernel ORDER BY g.cost,"
    " g.config) AS place, row_number() OVER (PARTITION BY g.problem, g.device, g.kernel, g.narrow"
    " ORDER BY g.cost, g.config) AS width_place, f.kernel AS first_kernel"
    " FROM good g LEFT JOIN first f ON f.problem = g.problem AND f.device = g.device"
    " WHERE g.id IS NOT f.id AND iif(g.eligible, iif(g.mean > 0 AND f.mean > 0, g.mean >= f.mean,"
    " g.clocks >= f.clocks), g.size = 1)),"
    " kept AS (SELECT id, 1 AS wins FROM first UNION ALL SELECT id, 0 FROM beside"
    " WHERE (place = 1 AND kernel IS NOT first_kernel)"
    " OR (narrow AND (width_place = 1 OR twin_of <> '')))";

static const char ORDERED[] = " WHERE ?1 IS NULL OR d.facts = ?1 ORDER BY shared, p.op, p.dtype, p.d, p.dv, "
                              "p.family, p.q, p.k, p.b, p.h,"
                              " p.hk, kept.wins DESC, t.kernel, t.config";

fat_status fat_db_export_winners(fat_db *db, const char *gpu, fat_text *out, fat_error *err)
{
  fat_text sql = {0};
  FAT_TRY(fat_db_ready(db, false, err));
  fat_text_format(&sql, "%s SELECT json_object(", CHOSEN);
  add_fields(&sql, false, FAT_SHIPPED_ROW, BRIEF);
  fat_text_add(&sql, "), json_object('fatune', 1, 'shared', json_object('gpu', json_object(");
  add_fields(&sql, true, FAT_SHIPPED_ALL, BRIEF);
  fat_text_add(&sql, "), ");
  add_fields(&sql, false, FAT_SHIPPED_ALL, BRIEF);
  fat_text_format(&sql, ")) AS shared FROM kept JOIN main.trial t ON t.id = kept.id%s%s", JOINED, ORDERED);
  return run(db, &sql, gpu, out, err);
}
