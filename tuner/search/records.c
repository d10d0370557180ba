/* records.c -- stored trials, copied out of the callback that reads them.
 *
 * In: a problem, a device and the tools in use. Out: an array that outlives the query. Of a config there may
 * be several records (other source, measured beside predicted); finders prefer those of the source that it
 * has now. */
#include "records.h"
#include "grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
  fat_records *records;
  const fat_tools *tools;
  fat_status status;
  fat_error *err;
} reading;

/* Copies a text of the database; what does not fit is cut off. */
static void copy_text(char *to, size_t room, const char *from)
{
  snprintf(to, room, "%s", from ? from : "");
}

static bool same(const char *a, const char *b)
{
  return strcmp(a ? a : "", b ? b : "") == 0;
}

static void copy_times(const fat_trial *t, fat_record *record)
{
  fat_timing *timing = &record->timing;
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

/* Whether today's templates give the config the source that was tried. Trials of these very templates need
 * no render. */
static fat_status is_same(const fat_trial *t, const fat_tools *tools, bool *is, fat_error *err)
{
  *is = same(t->templates, tools->templates);
  return *is || !tools->sources
             ? FAT_OK
             : fat_sources_agree(tools->sources, &t->problem, &t->config, t->source_hash, is, err);
}

/* Kinds that this program does not know are left out. */
static void copy_kinds(const fat_trial *t, fat_record *record)
{
  record->mean = t->mean > 0 ? t->mean : 0;
  for (int i = 0; i < t->kind_count; i++)
    for (int kind = 0; kind < FAT_KINDS; kind++)
      if (strcmp(t->kinds[i].name, fat_kinds[kind].name) == 0)
        record->kinds[kind] = t->kinds[i].ms;
}

static void copy(const fat_trial *t, fat_record *record)
{
  char config[FAT_CONFIG_TEXT];
  *record = (fat_record){.id = t->id,
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
  copy_times(t, record);
  copy_kinds(t, record);
  copy_text(record->config, sizeof record->config, fat_config_print(&t->config, config));
  copy_text(record->kernel, sizeof record->kernel, t->config.kernel);
  copy_text(record->source_hash, sizeof record->source_hash, t->source_hash);
  copy_text(record->limit, sizeof record->limit, t->limit);
  copy_text(record->twin_of, sizeof record->twin_of, t->twin_of);
  copy_text(record->race, sizeof record->race, t->race);
  copy_text(record->detail, sizeof record->detail, t->detail);
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
  fat_record *larger = fat_grow(r->records->list, r->records->count, sizeof *larger);
  if (!larger) {
    r->status = fat_status_fail(r->err, FAT_E_NOMEM, "out of memory for records");
    return false;
  }
  r->records->list = larger;
  fat_record *record = &r->records->list[r->records->count++];
  copy(t, record);
  r->status = is_same(t, r->tools, &record->same_source, r->err);
  return r->status == FAT_OK;
}

fat_status fat_records_read(fat_db *db, const fat_problem *p, const fat_gpu *gpu, const fat_tools *tools,
                            fat_records *records, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT], facts[FAT_GPU_FACTS];
  fat_db_filter filter = {
      .problem = fat_problem_print(p, problem), .gpu = fat_gpu_facts(gpu, facts), .samples = true};
  reading r = {.records = records, .tools = tools, .err = err};
  *records = (fat_records){0};
  fat_status status = fat_db_trials(db, &filter, take, &r, err);
  if (status == FAT_E_NOT_FOUND)
    status = FAT_OK;
  if (status == FAT_OK)
    status = r.status;
  if (status != FAT_OK)
    fat_records_free(records);
  return status;
}

void fat_records_free(fat_records *records)
{
  free(records->list);
  *records = (fat_records){0};
}

const fat_record *fat_records_find(const fat_records *records, const char *config)
{
  const fat_record *found = NULL;
  for (int i = 0; i < records->count; i++) {
    const fat_record *record = &records->list[i];
    if (strcmp(record->config, config) == 0 && (!found || (record->same_source && !found->same_source)))
      found = record;
  }
  return found;
}

/* Whether it is one of what is asked for, by its time with today's source. */
static bool has_time(const fat_record *record, const char *kernel)
{
  const bool asked = kernel ? strcmp(record->kernel, kernel) == 0 : record->eligible != 0;
  return asked && record->same_source && isfinite(record->ms) && record->ms > 0;
}

/* Whether a comes before b: clean before spilling, measured before predicted, faster, then tried earlier. */
static bool better(const fat_record *a, const fat_record *b)
{
  if (a->outcome != b->outcome)
    return a->outcome == FAT_OUT_OK;
  if (a->origin != b->origin)
    return a->origin == FAT_MEASURED;
  return a->ms != b->ms ? a->ms < b->ms : a->id < b->id;
}

const fat_record *fat_records_best(const fat_records *records, const char *kernel)
{
  const fat_record *best = NULL, *level = NULL;
  for (int i = 0; i < records->count; i++) {
    const fat_record *record = &records->list[i];
    if (!has_time(record, kernel) || (record->outcome != FAT_OUT_OK && record->outcome != FAT_OUT_SPILLS))
      continue;
    if (!best || better(record, best))
      best = record;
    if (record->outcome == FAT_OUT_OK && record->mean > 0 && (!level || record->mean < level->mean))
      level = record;
  }
  return best && best->mean > 0 && level ? level : best;
}

bool fat_records_works(const fat_record *record, const char *kernel)
{
  return has_time(record, kernel) && record->origin == FAT_MEASURED && record->outcome == FAT_OUT_OK;
}

bool fat_records_is_finalist(const fat_record *record)
{
  return record->race[0] != 0;
}

bool fat_records_is_timed(const fat_record *record)
{
  return fat_records_is_finalist(record) && record->rivals > 0;
}

const fat_record *fat_records_newest(const fat_records *records, const char *kernel,
                                     bool (*is)(const fat_record *record))
{
  const fat_record *newest = NULL;
  for (int i = 0; i < records->count; i++) {
    const fat_record *record = &records->list[i];
    if (fat_records_works(record, kernel) && is(record) && (!newest || record->id > newest->id))
      newest = record;
  }
  return newest;
}

bool fat_records_raced(const fat_record *a, const fat_record *b)
{
  return fat_records_is_timed(a) && fat_records_is_timed(b) && strcmp(a->race, b->race) == 0;
}

void fat_records_fill(fat_trial *trial, const fat_figures *figures, const fat_timing *timing)
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

fat_status fat_records_trial(const fat_record *record, const fat_problem *p, const fat_gpu *gpu,
                             const fat_tools *tools, fat_trial *trial, fat_error *err)
{
  *trial = (fat_trial){.problem = *p,
                       .gpu = *gpu,
                       .eligible = record->eligible,
                       .source_hash = record->source_hash,
                       .templates = tools->templates,
                       .compile_key = tools->compile_key,
                       .driver = tools->driver,
                       .outcome = record->outcome,
                       .origin = FAT_MEASURED,
                       .ms = record->timing.median,
                       .mean = record->mean > 0 ? record->mean : NAN,
                       .forecast = record->forecast,
                       .limit = record->limit,
                       .compile_seconds = record->compile_seconds,
                       .twin_of = record->twin_of,
                       .race = record->race,
                       .rivals = record->rivals,
                       .detail = record->detail};
  for (int kind = 0; kind < FAT_KINDS; kind++)
    if (record->kinds[kind] > 0) {
      fat_kind_time *to = &trial->kinds[trial->kind_count++];
      snprintf(to->name, sizeof to->name, "%s", fat_kinds[kind].name);
      to->ms = record->kinds[kind];
    }
  fat_records_fill(trial, &record->figures, &record->timing);
  return fat_config_parse(record->config, &trial->config, err);
}

fat_status fat_records_own(fat_db *db, const fat_record *record, const fat_problem *p, const fat_gpu *gpu,
                           const fat_tools *tools, int64_t *id, fat_error *err)
{
  fat_trial copy;
  *id = record->id;
  if (record->id >= 0)
    return FAT_OK;
  FAT_TRY(fat_records_trial(record, p, gpu, tools, &copy, err));
  FAT_TRY(fat_db_put(db, &copy, NULL, err));
  *id = copy.id;
  return FAT_OK;
}

fat_status fat_records_code(fat_db *db, const fat_record *record, const fat_problem *p, const fat_gpu *gpu,
                            fat_code *code, fat_error *err)
{
  char facts[FAT_GPU_FACTS];
  const fat_code_filter filter = {.problem = p,
                                  .sm = gpu->sm,
                                  .facts = fat_gpu_facts(gpu, facts),
                                  .config = record->config,
                                  .source_hash = record->source_hash};
  FAT_TRY(fat_db_code(db, &filter, code, err));
  if (code->cubin && code->recipe)
    return FAT_OK;
  fat_db_code_free(code);
  return FAT_E_NOT_FOUND;
}
