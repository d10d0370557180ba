/* results.c -- the last page of a tune, read back from what was stored.
 *
 * In: the pairs of a tune and the database. Out: a table or JSON. Since it reads records, a second run that
 * tries nothing prints the same. Gains are ratios of times: 1.50x is two thirds of the time. */
#include "results.h"

#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const baselines[FAT_OP_COUNT] = {"standard", "standard_bwd"}; /* ORDER OP */

static double ms_of(const fat_record *record)
{
  return record && isfinite(record->ms) && record->ms > 0 ? record->ms : NAN;
}

/* Whether anything of the pair was tried, or nothing can be. */
static bool was_tried(const fat_records *records, const fat_pair *pair)
{
  for (int i = 0; i < records->count; i++)
    if (records->list[i].same_source && strcmp(records->list[i].kernel, pair->kernel->name) == 0)
      return true;
  return pair->shortlist.count == 0 && pair->why.status != FAT_OK;
}

static void fill(const fat_records *records, const fat_pair *pair, fat_result *result)
{
  char config[FAT_CONFIG_TEXT];
  const fat_record *best = fat_records_best(records, pair->kernel->name);
  *result = (fat_result){.pair = pair, .works = best != NULL, .default_ms = NAN};
  for (int i = 0; i < records->count && !best; i++)
    if (records->list[i].same_source && strcmp(records->list[i].kernel, pair->kernel->name) == 0)
      best = &records->list[i];
  if (best)
    result->record = *best;
  if (pair->shortlist.count > 0)
    result->default_ms =
        ms_of(fat_records_find(records, fat_config_print(&pair->shortlist.space.points[0].config, config)));
  result->standard_ms = ms_of(fat_records_best(records, baselines[pair->item->problem.op]));
}

/* The stored winner, where the pair's kernel may win: within noise it need not be the fastest record. */
static fat_status take_winner(const fat_session *s, const fat_records *records, fat_result *result,
                              fat_error *err)
{
  fat_best best;
  if (!result->works || !result->pair->kernel->picked)
    return FAT_OK;
  fat_status status = fat_db_best(s->db, &result->pair->item->problem, s->gpu, NULL, false, &best, err);
  if (status == FAT_E_NOT_FOUND)
    return FAT_OK;
  FAT_TRY(status);
  for (int i = 0; i < records->count; i++)
    if (records->list[i].id == best.trial.id &&
        strcmp(records->list[i].kernel, result->pair->kernel->name) == 0) {
      result->record = records->list[i];
      result->wins = true;
    }
  fat_db_best_free(&best);
  return FAT_OK;
}

/* Whether a kernel that nobody named has no config for a problem which others serve: no row says so. */
static bool is_idle(const fat_schedule *schedule, const fat_pair *pair)
{
  if (schedule->session->goal->kernel_count > 0 || pair->shortlist.space.count > 0)
    return false;
  for (const fat_pair *other = schedule->pairs; other < schedule->pairs + schedule->pair_count; other++)
    if (other->item == pair->item && other->shortlist.space.count > 0)
      return true;
  return false;
}

fat_status fat_results_read(const fat_schedule *schedule, fat_results *results, fat_error *err)
{
  const fat_session *s = schedule->session;
  fat_records records = {0};
  const fat_item *read = NULL;
  fat_status status = FAT_OK;
  *results = (fat_results){0};
  results->list = calloc((size_t)schedule->pair_count + 1, sizeof *results->list);
  if (!results->list)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the results");
  for (int i = 0; i < schedule->pair_count; i++) {
    const fat_pair *pair = &schedule->pairs[i];
    if (pair->item != read) {
      fat_records_free(&records);
      status = fat_records_read(s->db, &pair->item->problem, s->gpu, &s->tools, &records, err);
      if (status != FAT_OK)
        goto done;
      read = pair->item;
    }
    if (is_idle(schedule, pair))
      continue;
    if (!was_tried(&records, pair)) {
      results->waiting++;
      continue;
    }
    fat_result *result = &results->list[results->count++];
    fill(&records, pair, result);
    status = take_winner(s, &records, result, err);
    if (status != FAT_OK)
      goto done;
    /* Where a kernel that may be picked fails, another may serve. */
    bool wanted = s->goal->kernel_count > 0 || (pair->kernel->picked && !fat_records_best(&records, NULL));
    results->missing += !result->works && wanted;
  }
done:
  fat_records_free(&records);
  if (status != FAT_OK)
    fat_results_free(results);
  return status;
}

void fat_results_free(fat_results *results)
{
  free(results->list);
  *results = (fat_results){0};
}

static double tflops(const fat_result *r)
{
  return fat_problem_flops(&r->pair->item->problem) / (r->record.ms * 1e9);
}

static void add_gain(fat_table *t, double other_ms, double ms)
{
  if (isfinite(other_ms / ms))
    fat_table_addf(t, "%.2fx", other_ms / ms);
  else
    fat_table_add(t, NULL);
}

/* "fwd:Br64-Bc32" without its kernel, which has a column of its own. */
static const char *values_of(const char *config)
{
  const char *colon = strchr(config, ':');
  return colon ? colon + 1 : config;
}

static void add_row(fat_table *t, const fat_result *r)
{
  char problem[FAT_PROBLEM_TEXT];
  fat_table_add(t, fat_problem_print(&r->pair->item->problem, problem));
  fat_table_add(t, r->pair->kernel->name);
  if (!r->works) {
    if (r->record.id == 0)
      fat_table_add(t, "(no valid config)");
    else
      fat_table_addf(t, "(none works: %s)", fat_db_outcome_name(r->record.outcome));
    for (int i = 3; i < t->column_count; i++)
      fat_table_add(t, NULL);
    return;
  }
  fat_table_add(t, values_of(r->record.config));
  fat_table_addf(t, "%.4g", r->record.ms);
  fat_table_add(t, r->record.limit);
  fat_table_addf(t, "%.3g", tflops(r));
  fat_table_addf(t, "%d", r->record.figures.registers);
  fat_table_addf(t, "%d", r->record.figures.spills);
  fat_table_addf(t, "%.3g", r->record.figures.shared / 1024.0);
  fat_table_addf(t, "%d", r->record.figures.blocks_per_sm);
  add_gain(t, r->default_ms, r->record.ms);
  add_gain(t, r->standard_ms, r->record.ms);
  fat_table_add(t, fat_db_origin_name(r->record.origin));
  if (r->wins)
    fat_table_mark(t);
}

fat_status fat_results_table(const fat_results *results, fat_look look, fat_text *out, fat_error *err)
{
  static const fat_column columns[] = {
      {"problem", false, 14, true}, {"kernel", false, 13, false},   {"config", false, 10, false},
      {"ms", true, 11, false},      {"limit", false, 5, false},     {"TFLOP/s", true, 9, false},
      {"regs", true, 3, false},     {"spills", true, 2, false},     {"shared KB", true, 1, false},
      {"blk/SM", true, 4, false},   {"vs default", true, 7, false}, {"vs standard", true, 8, false},
      {"origin", false, 12, false},
  };
  fat_table t = {.columns = columns, .column_count = (int)(sizeof columns / sizeof columns[0])};
  for (int i = 0; i < results->count; i++)
    add_row(&t, &results->list[i]);
  fat_status status = fat_table_print(&t, look, out, err);
  fat_table_free(&t);
  return status;
}

fat_status fat_results_json(const fat_results *results, const fat_gpu *gpu, fat_text *out, fat_error *err)
{
  char problem[FAT_PROBLEM_TEXT];
  fat_json j = {.out = out};
  fat_json_open(&j, NULL, '[');
  for (int i = 0; i < results->count; i++) {
    const fat_result *r = &results->list[i];
    if (!r->works)
      continue;
    fat_json_open(&j, NULL, '{');
    fat_json_string(&j, "gpu", gpu->name);
    fat_json_int(&j, "sm", gpu->sm);
    fat_json_string(&j, "problem", fat_problem_print(&r->pair->item->problem, problem));
    fat_json_string(&j, "kernel", r->record.kernel);
    fat_json_string(&j, "config", r->record.config);
    fat_json_string(&j, "origin", fat_db_origin_name(r->record.origin));
    fat_json_double(&j, "ms", r->record.ms);
    fat_json_double(&j, "mean", r->record.mean > 0 ? r->record.mean : NAN);
    fat_json_double(&j, "tflops", tflops(r));
    fat_json_int(&j, "registers", r->record.figures.registers);
    fat_json_int(&j, "spills", r->record.figures.spills);
    fat_json_int(&j, "shared", r->record.figures.shared);
    fat_json_int(&j, "blocks_per_sm", r->record.figures.blocks_per_sm);
    fat_json_string(&j, "limit", r->record.limit);
    fat_json_double(&j, "gain_default", r->default_ms / r->record.ms);
    fat_json_double(&j, "gain_standard", r->standard_ms / r->record.ms);
    fat_json_close(&j, '}');
  }
  fat_json_close(&j, ']');
  return fat_text_status(out, err);
}
