/* put.c -- a trial into the file: its problem, device, toolchain, content, samples and the winner, at once.
 *
 * In: a trial and what was made for it. Out: one committed transaction, or none. Invariant: after each commit
 * the winner row of (problem, device) names the best of the trials that may win, or one within noise of it
 * that fat_db_prefer was told; where none may win there is no such row. */
#include "private.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *or_empty(const char *text)
{
  return text ? text : "";
}

static fat_status problem_id(fat_db *db, const fat_problem *p, int64_t *id, fat_error *err)
{
  char text[FAT_PROBLEM_TEXT], family[FAT_PROBLEM_TEXT];
  fat_problem_print(p, text);
  FAT_TRY(fat_db_mods_put(db, p, err));
  FAT_TRY(fat_db_do(db, FAT_SQL_PROBLEM_FIND, id, err, "t", text));
  if (*id)
    return FAT_OK;
  return fat_db_do(db, FAT_SQL_PROBLEM_ADD, id, err, "ttttiiiiinnd", text, fat_problem_family(p, family),
                   fat_ops[p->op], fat_dtypes[p->dtype].name, p->b, p->h, p->hk, p->q, p->k, (int)p->d,
                   (int)p->dv, fat_problem_flops(p));
}

static fat_status device_id(fat_db *db, const fat_gpu *g, int64_t *id, fat_error *err)
{
  char facts[FAT_GPU_FACTS];
  fat_gpu_facts(g, facts);
  FAT_TRY(fat_db_do(db, FAT_SQL_DEVICE_FIND, id, err, "t", facts));
  if (*id)
    return FAT_OK;
  return fat_db_do(db, FAT_SQL_DEVICE_ADD, id, err, "ttnnnninnndd", facts, g->name, g->sm, g->sms,
                   g->shared_block, g->shared_sm, g->l2, g->bus, g->clock, g->memory_clock, g->dram,
                   g->memory);
}

static fat_status toolchain_id(fat_db *db, const fat_trial *t, int64_t *id, fat_error *err)
{
  for (int add = 0; add < 2; add++) {
    FAT_TRY(fat_db_do(db, add ? FAT_SQL_TOOLCHAIN_ADD : FAT_SQL_TOOLCHAIN_FIND, id, err, "ttt",
                      or_empty(t->compile_key), or_empty(t->driver), or_empty(t->made_by)));
    if (*id)
      break;
  }
  return FAT_OK;
}

/* -- content */

typedef struct content { /* hashes of what is stored; "" where nothing is */
  char recipe[FAT_HASH_SIZE];
  char binary[FAT_HASH_SIZE];
} content;

static fat_status put_binary(fat_db *db, const fat_artifact *a, content *c, fat_error *err)
{
  sqlite3_stmt *stmt;
  fat_text_hash(a->cubin, a->cubin_size, c->binary);
  if (a->cubin_hash && strcmp(a->cubin_hash, c->binary) != 0)
    return fat_status_fail(err, FAT_E_INPUT, "a binary's hash is %.64s, but %.64s was given: it is damaged",
                           c->binary, a->cubin_hash);
  if (a->cubin_size > FAT_DB_LENGTH / 2)
    return fat_status_fail(err, FAT_E_INPUT, "a binary of %zu bytes is too large to be stored",
                           a->cubin_size);
  FAT_TRY(fat_db_kept(db, FAT_SQL_BINARY_ADD, &stmt, err));
  FAT_TRY(fat_db_bind(db, stmt, err, "tt", c->binary, or_empty(a->target)));
  if (sqlite3_bind_blob(stmt, 3, a->cubin, (int)a->cubin_size, SQLITE_STATIC) != SQLITE_OK) {
    fat_status status = fat_db_fail(db, db->sql, "storing a binary", err);
    fat_db_release(stmt);
    return status;
  }
  return fat_db_finish(db, stmt, NULL, err);
}

static fat_status put_content(fat_db *db, const char *source_hash, const fat_artifact *a, content *c,
                              fat_error *err)
{
  char text_hash[FAT_HASH_SIZE];
  memset(c, 0, sizeof *c);
  if (!a)
    return FAT_OK;
  if (a->source && !*source_hash)
    return fat_status_fail(err, FAT_E_INPUT, "a source is given, but the trial has no hash of it");
  if (a->source) {
    fat_text_hash(a->source, strlen(a->source), text_hash);
    FAT_TRY(fat_db_do(db, FAT_SQL_SOURCE_ADD, NULL, err, "ttt", source_hash, a->source, text_hash));
  }
  if (a->recipe) {
    fat_text_hash(a->recipe, strlen(a->recipe), c->recipe);
    FAT_TRY(fat_db_do(db, FAT_SQL_RECIPE_ADD, NULL, err, "tt", c->recipe, a->recipe));
  }
  return a->cubin && a->cubin_size ? put_binary(db, a, c, err) : FAT_OK;
}

/* -- the trial */

/* Samples and kinds, in place of those that it had. */
static fat_status put_times(fat_db *db, const fat_trial *t, fat_error *err)
{
  const int samples = t->samples ? t->sample_count : 0;
  FAT_TRY(fat_db_do(db, FAT_SQL_SAMPLE_CLEAR, NULL, err, "i", t->id));
  FAT_TRY(fat_db_do(db, FAT_SQL_KIND_CLEAR, NULL, err, "i", t->id));
  for (int i = 0; i < samples; i++)
    FAT_TRY(fat_db_do(db, FAT_SQL_SAMPLE_ADD, NULL, err, "indd", t->id, i, t->samples[i],
                      t->clocks ? t->clocks[i] : NAN));
  for (int i = 0; i < t->kind_count; i++)
    FAT_TRY(fat_db_do(db, FAT_SQL_KIND_ADD, NULL, err, "intd", t->id, i, t->kinds[i].name, t->kinds[i].ms));
  return FAT_OK;
}

typedef struct keys {
  int64_t problem, device, toolchain;
  char config[FAT_CONFIG_TEXT];
} keys;

/* {"Br":64,"Bc":32}; names are letters. */
static fat_status tunables_of(const fat_config *c, fat_text *json, fat_error *err)
{
  for (int i = 0; i < c->count; i++)
    fat_text_format(json, "%s\"%s\":%d", i ? "," : "{", c->values[i].name, (int)c->values[i].value);
  fat_text_add(json, c->count ? "}" : "{}");
  return fat_text_status(json, err);
}

enum { KEYS = 9 /* parameters in front of the columns of columns.def */ };

/* ", a, b", ", ?, ?" or ", a = excluded.a, b = excluded.b" of the columns of table trial in columns.def. */
enum list { NAMES, MARKS, UPDATES };
static void add_columns(fat_text *sql, enum list what)
{
  for (const fat_db_field *f = fat_db_fields; f < fat_db_fields + FAT_ROW_COUNT; f++)
    if (f->table == 'T') {
      fat_text_format(sql, ", %s", what == MARKS ? "?" : f->name);
      if (what == UPDATES)
        fat_text_format(sql, " = excluded.%s", f->name);
    }
}

/* The same key keeps its id, so a winner row that names it stays true; content that is known is kept. */
static fat_status trial_sql(fat_text *sql, fat_error *err)
{
  fat_text_add(sql, "INSERT INTO main.trial (run, problem, device, toolchain, kernel, tunables, date, recipe,"
                    " binary, current, latest");
  add_columns(sql, NAMES);
  fat_text_add(sql,
               ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), ?8,"
               " ?9, 1, 1");
  add_columns(sql, MARKS);
  fat_text_add(
      sql, ") ON CONFLICT (problem, device, config, source, toolchain, origin, coalesce(run, 0)) DO UPDATE"
           " SET kernel = excluded.kernel, tunables = excluded.tunables, date = excluded.date,"
           " recipe = coalesce(excluded.recipe, recipe), binary = coalesce(excluded.binary, binary),"
           " current = 1, latest = 1");
  add_columns(sql, UPDATES);
  fat_text_add(sql, " RETURNING id");
  return fat_text_status(sql, err);
}

static fat_status put_trial(fat_db *db, fat_trial *t, const keys *k, const content *c, const char *date,
                            fat_error *err)
{
  sqlite3_stmt *stmt = NULL;
  fat_text tunables = {0}, sql = {0};
  fat_status status = tunables_of(&t->config, &tunables, err);
  if (status == FAT_OK)
    status = trial_sql(&sql, err);
  if (status == FAT_OK)
    status = fat_db_again(db, fat_text_get(&sql), &stmt, err);
  if (status == FAT_OK)
    status = fat_db_bind(db, stmt, err, "iiiittttt", t->run, k->problem, k->device, k->toolchain,
                         t->config.kernel, fat_text_get(&tunables), date, *c->recipe ? c->recipe : NULL,
                         *c->binary ? c->binary : NULL);
  if (status == FAT_OK && t->run == 0) /* of no run: NULL */
    sqlite3_bind_null(stmt, 1);
  if (status == FAT_OK)
    status = fat_db_row_bind(db, stmt, KEYS + 1, t, err);
  if (status == FAT_OK)
    status = fat_db_finish(db, stmt, &t->id, err);
  fat_db_done(db, stmt);
  fat_text_free(&tunables);
  fat_text_free(&sql);
  return status;
}

/* Of one config only the latest row counts. A put is the latest; a row from elsewhere goes by its date. */
static fat_status retire(fat_db *db, const fat_trial *t, bool by_date, fat_error *err)
{
  return fat_db_do(db, by_date ? FAT_SQL_TRIAL_RETIRE_BY_DATE : FAT_SQL_TRIAL_RETIRE, NULL, err, "i", t->id);
}

fat_status fat_db_choose_winner(fat_db *db, int64_t problem, int64_t device, fat_error *err)
{
  int64_t trial;
  FAT_TRY(fat_db_do(db, FAT_SQL_WINNER_CHOOSE, &trial, err, "ii", problem, device));
  return fat_db_do(db, trial ? FAT_SQL_WINNER_SET : FAT_SQL_WINNER_CLEAR, NULL, err, trial ? "iii" : "ii",
                   problem, device, trial);
}

static fat_status find_keys(fat_db *db, const fat_trial *t, keys *k, fat_error *err)
{
  fat_config_print(&t->config, k->config);
  FAT_TRY(problem_id(db, &t->problem, &k->problem, err));
  FAT_TRY(device_id(db, &t->gpu, &k->device, err));
  return toolchain_id(db, t, &k->toolchain, err);
}

fat_status fat_db_put_compare(fat_db *db, const fat_trial *t, bool *better, int64_t *bare, fat_error *err)
{
  keys k;
  sqlite3_stmt *stmt;
  bool row;
  FAT_TRY(find_keys(db, t, &k, err));
  FAT_TRY(fat_db_kept(db, FAT_SQL_TRIAL_SAME, &stmt, err));
  FAT_TRY(fat_db_bind(db, stmt, err, "iittit", k.problem, k.device, k.config, or_empty(t->source_hash),
                      k.toolchain, fat_db_origin_name(t->origin)));
  FAT_TRY(fat_db_step(db, stmt, &row, err));
  *better = !row;
  *bare = row ? sqlite3_column_int64(stmt, 3) : 0;
  if (!row)
    return FAT_OK;
  const char *outcome = (const char *)sqlite3_column_text(stmt, 0);
  bool works = outcome && strcmp(outcome, "ok") == 0;
  /* A time on every kind of data says more than one on normal data. Times come as text of 15 digits: those
   * that differ only beyond these are equal. */
  const bool raced = sqlite3_column_double(stmt, 2) > 0, races = t->mean > 0;
  const double cost = sqlite3_column_double(stmt, raced && races ? 2 : 1) * (1 - 1e-12);
  const bool lower = (raced && races ? t->mean : t->ms) < cost;
  *better = t->outcome == FAT_OUT_OK && (!works || (raced == races ? lower : races));
  return fat_db_finish(db, stmt, NULL, err);
}

fat_status fat_db_put_row(fat_db *db, fat_trial *t, const fat_artifact *artifact, const char *date,
                          fat_error *err)
{
  keys k;
  content c;
  FAT_TRY(fat_db_trial_check(t, err));
  FAT_TRY(find_keys(db, t, &k, err));
  FAT_TRY(put_content(db, or_empty(t->source_hash), artifact, &c, err));
  FAT_TRY(put_trial(db, t, &k, &c, date, err));
  FAT_TRY(put_times(db, t, err));
  /* What stood for the same source and tools until now is history. */
  FAT_TRY(fat_db_do(db, FAT_SQL_TRIAL_INHERIT, NULL, err, "i", t->id));
  FAT_TRY(fat_db_do(db, FAT_SQL_TRIAL_OUTDATE, NULL, err, "i", t->id));
  FAT_TRY(retire(db, t, date != NULL, err));
  /* A row that cannot win leaves a winner that was preferred among ties where it is. */
  int64_t stands = 0;
  if (!(t->eligible && t->outcome == FAT_OUT_OK && t->ms > 0))
    FAT_TRY(fat_db_do(db, FAT_SQL_WINNER_STANDS, &stands, err, "ii", k.problem, k.device));
  return stands ? FAT_OK : fat_db_choose_winner(db, k.problem, k.device, err);
}

fat_status fat_db_put(fat_db *db, fat_trial *trial, const fat_artifact *artifact, fat_error *err)
{
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_begin(db, err));
  return fat_db_end(db, fat_db_put_row(db, trial, artifact, NULL, err), err);
}

fat_status fat_db_put_code(fat_db *db, int64_t trial, const fat_artifact *artifact, fat_error *err)
{
  char source[FAT_DB_WORD + 1] = "";
  sqlite3_stmt *stmt;
  content c;
  bool row;
  FAT_TRY(fat_db_kept(db, FAT_SQL_TRIAL_SOURCE, &stmt, err));
  FAT_TRY(fat_db_bind(db, stmt, err, "i", trial));
  FAT_TRY(fat_db_step(db, stmt, &row, err));
  if (!row)
    return fat_status_fail(err, FAT_E_NOT_FOUND, "database %s has no trial %lld", db->path, (long long)trial);
  strncpy(source, or_empty((const char *)sqlite3_column_text(stmt, 0)), sizeof source - 1);
  FAT_TRY(fat_db_finish(db, stmt, NULL, err));
  FAT_TRY(put_content(db, source, artifact, &c, err));
  return fat_db_do(db, FAT_SQL_TRIAL_CONTENT, NULL, err, "itt", trial, *c.recipe ? c.recipe : NULL,
                   *c.binary ? c.binary : NULL);
}

fat_status fat_db_put_artifact(fat_db *db, int64_t trial, const fat_artifact *artifact, fat_error *err)
{
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_begin(db, err));
  return fat_db_end(db, fat_db_put_code(db, trial, artifact, err), err);
}

static fat_status prefer(fat_db *db, int64_t trial, fat_error *err)
{
  int64_t chosen = 0;
  /* Later rows of other tools may have retired it. */
  FAT_TRY(fat_db_do(db, FAT_SQL_TRIAL_RETIRE, NULL, err, "i", trial));
  FAT_TRY(fat_db_do(db, FAT_SQL_WINNER_PREFER, &chosen, err, "i", trial));
  if (chosen == 0)
    return fat_status_fail(err, FAT_E_NOT_FOUND, "database %s: trial %lld cannot win, or has won already",
                           db->path, (long long)trial);
  return FAT_OK;
}

fat_status fat_db_prefer(fat_db *db, int64_t trial, fat_error *err)
{
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_begin(db, err));
  return fat_db_end(db, prefer(db, trial, err), err);
}

static fat_status put_rejections(fat_db *db, int64_t run, const fat_gpu *gpu, const fat_db_rejection *list,
                                 int count, fat_error *err)
{
  int64_t device, problem;
  FAT_TRY(device_id(db, gpu, &device, err));
  for (int i = 0; i < count; i++) {
    FAT_TRY(problem_id(db, list[i].problem, &problem, err));
    FAT_TRY(fat_db_do(db, FAT_SQL_REJECTION_ADD, NULL, err, "iiitti", run, problem, device, list[i].kernel,
                      list[i].reason, (int64_t)list[i].count));
  }
  return FAT_OK;
}

fat_status fat_db_put_rejections(fat_db *db, int64_t run, const fat_gpu *gpu, const fat_db_rejection *list,
                                 int count, fat_error *err)
{
  FAT_TRY(fat_db_ready(db, true, err));
  FAT_TRY(fat_db_begin(db, err));
  return fat_db_end(db, put_rejections(db, run, gpu, list, count, err), err);
}
