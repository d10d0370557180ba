/* rows.c -- rows of the database, copied out of its callback.
 *
 * In: a problem, a device and the tools in use. Out: an array that outlives the query. Of a config there may
 * be several rows (other source, measured beside predicted); finders prefer those of the source that it has
 * now. */
#include "rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
  fat_rows *rows;
  const fat_tools *tools;
  int room;
  fat_status status;
  fat_error *err;
} reading;

/* Copies a text of the database; what does not fit is cut off. */
static void copy_text(char *to, size_t room, const char *from)
{
  size_t n = from ? strlen(from) : 0;
  if (n >= room)
    n = room - 1;
  if (n)
    memcpy(to, from, n);
  to[n] = 0;
}

static bool same(const char *a, const char *b)
{
  return strcmp(a ? a : "", b ? b : "") == 0;
}

static void copy_times(const fat_trial *t, fat_row *row)
{
  fat_timing *timing = &row->timing;
  timing->count = !t->samples ? 0 : t->sample_count < FAT_TIMER_MOST ? t->sample_count : FAT_TIMER_MOST;
  for (int i = 0; i < timing->count; i++) {
    timing->ms[i] = t->samples[i];
    timing->mhz[i] = t->clocks ? t->clocks[i] : NAN;
  }
  timing->median = t->ms;
  timing->p20 = t->p20;
  timing->p80 = t->p80;
  timing->clock = t->clock_mhz;
}

/* Whether the config has the source today that the trial had. Rows of these very templates need no render. */
static fat_status is_same(const fat_trial *t, const fat_tools *tools, bool *is, fat_error *err)
{
  *is = same(t->templates, tools->templates);
  return *is || !tools->sources
             ? FAT_OK
             : fat_sources_agree(tools->sources, &t->problem, &t->config, t->source_hash, is, err);
}

/* Kinds that this program does not know are left out. */
static void copy_kinds(const fat_trial *t, fat_row *row)
{
  row->mean = t->mean > 0 ? t->mean : 0;
  for (int i = 0; i < t->kind_count; i++)
    for (int kind = 0; kind < FAT_KINDS; kind++)
      if (strcmp(t->kinds[i].name, fat_kinds[kind].name) == 0)
        row->kinds[kind] = t->kinds[i].ms;
}

static void copy(const fat_trial *t, fat_row *row)
{
  char config[FAT_CONFIG_TEXT];
  *row = (fat_row){.id = t->id,
                   .outcome = t->outcome,
                   .origin = t->origin,
                   .ms = t->ms,
                   .forecast = t->forecast,
                   .rivals = t->rivals,
                   .eligible = t->eligible,
                   .figures = {.registers = t->registers,
                               .stack = t->stack,
                               .spills = t->spills,
                               .shared = t->shared,
                               .blocks_per_sm = t->blocks_per_sm,
                               .error_max = t->error_max,
                               .error_allowed = t->error_allowed},
                   .compile_seconds = t->compile_seconds};
  copy_times(t, row);
  copy_kinds(t, row);
  copy_text(row->config, sizeof row->config, fat_config_print(&t->config, config));
  copy_text(row->kernel, sizeof row->kernel, t->config.kernel);
  copy_text(row->source_hash, sizeof row->source_hash, t->source_hash);
  copy_text(row->limit, sizeof row->limit, t->limit);
  copy_text(row->twin_of, sizeof row->twin_of, t->twin_of);
  copy_text(row->race, sizeof row->race, t->race);
  copy_text(row->detail, sizeof row->detail, t->detail);
}

/* Whether a trial counts for these tools. */
static bool counts(const fat_trial *t, const fat_tools *tools)
{
  if (!same(t->compile_key, tools->compile_key))
    return false;
  if (t->origin == FAT_PREDICTED)
    return !tools->driver && same(t->made_by, tools->model);
  return !tools->driver || same(t->driver, tools->driver);
}

static bool take(const fat_trial *t, void *user)
{
  reading *r = user;
  if (!counts(t, r->tools))
    return true;
  if (r->rows->count == r->room) {
    int room = r->room ? 2 * r->room : 64;
    fat_row *larger = realloc(r->rows->list, (size_t)room * sizeof *larger);
    if (!larger) {
      r->status = fat_status_fail(r->err, FAT_E_NOMEM, "out of memory for rows");
      return false;
    }
    r->rows->list = larger;
    r->room = room;
  }
  fat_row *row = &r->rows->list[r->rows->count++];
  copy(t, row);
  r->status = is_same(t, r->tools, &row->same_source, r->err);
  return r->status == FAT_OK;
}

fat_status fat_rows_read(fat_db *db, const fat_problem *p, const fat_gpu *gpu, const fat_tools *tools,
                         fat_rows *rows, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT], facts[FAT_GPU_FACTS];
  fat_db_filter filter = {
      .problem = fat_problem_print(p, problem), .gpu = fat_gpu_facts(gpu, facts), .samples = true};
  reading r = {.rows = rows, .tools = tools, .err = err};
  *rows = (fat_rows){0};
  fat_status status = fat_db_trials(db, &filter, take, &r, err);
  if (status == FAT_E_NOT_FOUND)
    status = FAT_OK;
  if (status == FAT_OK)
    status = r.status;
  if (status != FAT_OK)
    fat_rows_free(rows);
  return status;
}

void fat_rows_free(fat_rows *rows)
{
  free(rows->list);
  *rows = (fat_rows){0};
}

const fat_row *fat_rows_find(const fat_rows *rows, const char *config)
{
  const fat_row *found = NULL;
  for (int i = 0; i < rows->count; i++) {
    const fat_row *row = &rows->list[i];
    if (strcmp(row->config, config) == 0 && (!found || (row->same_source && !found->same_source)))
      found = row;
  }
  return found;
}

/* Whether a comes before b: clean before spilling, measured before predicted, faster, then tried earlier. */
static bool better(const fat_row *a, const fat_row *b)
{
  if (a->outcome != b->outcome)
    return a->outcome == FAT_OUT_OK;
  if (a->origin != b->origin)
    return a->origin == FAT_MEASURED;
  return a->ms != b->ms ? a->ms < b->ms : a->id < b->id;
}

const fat_row *fat_rows_best(const fat_rows *rows, const char *kernel)
{
  const fat_row *best = NULL, *level = NULL;
  for (int i = 0; i < rows->count; i++) {
    const fat_row *row = &rows->list[i];
    bool usable = row->same_source && (row->outcome == FAT_OUT_OK || row->outcome == FAT_OUT_SPILLS);
    bool asked = kernel ? strcmp(row->kernel, kernel) == 0 : row->eligible != 0;
    if (!usable || !asked || !isfinite(row->ms) || !(row->ms > 0))
      continue;
    if (!best || better(row, best))
      best = row;
    if (row->outcome == FAT_OUT_OK && row->mean > 0 && (!level || row->mean < level->mean))
      level = row;
  }
  return best && best->mean > 0 && level ? level : best;
}

bool fat_rows_works(const fat_row *row, const char *kernel)
{
  bool asked = kernel ? strcmp(row->kernel, kernel) == 0 : row->eligible != 0;
  return asked && row->same_source && row->origin == FAT_MEASURED && row->outcome == FAT_OUT_OK &&
         isfinite(row->ms) && row->ms > 0;
}

bool fat_rows_is_finalist(const fat_row *row)
{
  return row->race[0] != 0;
}

bool fat_rows_is_timed(const fat_row *row)
{
  return fat_rows_is_finalist(row) && row->rivals > 0;
}

bool fat_rows_raced(const fat_row *a, const fat_row *b)
{
  return fat_rows_is_timed(a) && fat_rows_is_timed(b) && strcmp(a->race, b->race) == 0;
}

void fat_rows_fill(fat_trial *trial, const fat_figures *figures, const fat_timing *timing)
{
  trial->p20 = timing->p20;
  trial->p80 = timing->p80;
  trial->samples = timing->ms;
  trial->clocks = timing->mhz;
  trial->sample_count = timing->count;
  trial->clock_mhz = timing->clock;
  trial->error_max = figures->error_max;
  trial->error_allowed = figures->error_allowed;
  trial->registers = figures->registers;
  trial->stack = figures->stack;
  trial->spills = figures->spills;
  trial->shared = figures->shared;
  trial->blocks_per_sm = figures->blocks_per_sm;
}

fat_status fat_rows_trial(const fat_row *row, const fat_problem *p, const fat_gpu *gpu,
                          const fat_tools *tools, fat_trial *trial, fat_error *err)
{
  *trial = (fat_trial){.problem = *p,
                       .gpu = *gpu,
                       .eligible = row->eligible,
                       .source_hash = row->source_hash,
                       .templates = tools->templates,
                       .compile_key = tools->compile_key,
                       .driver = tools->driver,
                       .outcome = row->outcome,
                       .origin = FAT_MEASURED,
                       .ms = row->timing.median,
                       .mean = row->mean > 0 ? row->mean : NAN,
                       .forecast = row->forecast,
                       .limit = row->limit,
                       .compile_seconds = row->compile_seconds,
                       .twin_of = row->twin_of,
                       .race = row->race,
                       .rivals = row->rivals,
                       .detail = row->detail};
  for (int kind = 0; kind < FAT_KINDS; kind++)
    if (row->kinds[kind] > 0) {
      fat_kind_time *to = &trial->kinds[trial->kind_count++];
      snprintf(to->name, sizeof to->name, "%s", fat_kinds[kind].name);
      to->ms = row->kinds[kind];
    }
  fat_rows_fill(trial, &row->figures, &row->timing);
  return fat_config_parse(row->config, &trial->config, err);
}

fat_status fat_rows_own(fat_db *db, const fat_row *row, const fat_problem *p, const fat_gpu *gpu,
                        const fat_tools *tools, int64_t *id, fat_error *err)
{
  fat_trial copy;
  *id = row->id;
  if (row->id >= 0)
    return FAT_OK;
  FAT_TRY(fat_rows_trial(row, p, gpu, tools, &copy, err));
  FAT_TRY(fat_db_put(db, &copy, NULL, err));
  *id = copy.id;
  return FAT_OK;
}

fat_status fat_rows_code(fat_db *db, const fat_row *row, const fat_problem *p, const fat_gpu *gpu,
                         fat_code *code, fat_error *err)
{
  char facts[FAT_GPU_FACTS];
  const fat_code_filter filter = {.problem = p,
                                  .sm = gpu->sm,
                                  .facts = fat_gpu_facts(gpu, facts),
                                  .config = row->config,
                                  .source_hash = row->source_hash};
  FAT_TRY(fat_db_code(db, &filter, code, err));
  if (code->cubin && code->recipe)
    return FAT_OK;
  fat_db_code_free(code);
  return FAT_E_NOT_FOUND;
}
