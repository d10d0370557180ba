/* twins.c -- sees to it that the best of each line has a twin.
 *
 * In: stored rows, and the space that twins are found in. Out: rows with code. A config that was tried
 * already and lacks code is compiled again; one that was given up as slow is tried again to its end, since a
 * twin need not be fast. Everything is read from the database, so the next run finds what a killed one left.
 */
#include "twins.h"

#include "race.h"
#include "twin.h"
#include "width.h"

#include <stdio.h>
#include <string.h>

/* What is to be done for a line. */
typedef struct need {
  bool due;
  fat_point point;
  const fat_row *row; /* it works, its code is to be made again; NULL: it is to be tried */
  char of[FAT_CONFIG_TEXT];
} need;

/* The row that a plan for this kernel would be given. */
static const fat_row *leader(const fat_order *order, const fat_line *line, const char *incumbent,
                             const fat_rows *rows)
{
  const fat_row *winner = order->measure && line->kernel->picked ? fat_race_winner(rows, incumbent) : NULL;
  if (winner && strcmp(winner->kernel, line->kernel->name) == 0)
    return winner;
  const fat_row *best = fat_rows_best(rows, line->kernel->name);
  return best && best->outcome == FAT_OUT_OK ? best : NULL;
}

static fat_status has_code(const fat_order *order, const fat_problem *p, const fat_row *row, bool *has,
                           fat_error *err)
{
  char facts[FAT_GPU_FACTS];
  fat_code code;
  const fat_code_filter filter = {.problem = p,
                                  .sm = order->gpu->sm,
                                  .facts = fat_gpu_facts(order->gpu, facts),
                                  .config = row->config,
                                  .source_hash = row->source_hash};
  fat_status status = fat_db_code(order->db, &filter, &code, err);
  *has = status == FAT_OK && code.cubin;
  if (status == FAT_OK)
    fat_db_code_free(&code);
  return status == FAT_E_NOT_FOUND ? FAT_OK : status;
}

/* Whether a row says nothing of how its config does as a twin. */
static bool is_open(const fat_row *row)
{
  return !row || !row->same_templates || row->outcome == FAT_OUT_OOM || row->outcome == FAT_OUT_SLOW;
}

static fat_status find(const fat_order *order, const fat_line *line, const char *incumbent,
                       const fat_rows *rows, need *n, fat_error *err)
{
  char text[FAT_CONFIG_TEXT];
  fat_point twins[FAT_TWIN_MOST];
  fat_config config;
  int count;
  const fat_row *best = leader(order, line, incumbent, rows);
  *n = (need){0};
  if (!best)
    return FAT_OK;
  FAT_TRY(fat_config_parse(best->config, &config, err));
  snprintf(n->of, sizeof n->of, "%s", best->config);
  FAT_TRY(fat_twin_find(order->script, &line->search.space, &config, &line->ask->problem, order->gpu, twins,
                        &count, err));
  for (int i = 0; i < count; i++) {
    const fat_row *row = fat_rows_find(rows, fat_config_print(&twins[i].config, text));
    bool has = false;
    n->point = twins[i];
    if (is_open(row)) {
      n->due = true;
      return FAT_OK;
    }
    if (row->outcome != FAT_OUT_OK)
      continue;
    FAT_TRY(has_code(order, &line->ask->problem, row, &has, err));
    n->due = !has;
    n->row = has ? NULL : row;
    return FAT_OK;
  }
  return FAT_OK;
}

/* The same, from the database. */
static fat_status look(const fat_order *order, const fat_line *line, char (*incumbents)[FAT_CONFIG_TEXT],
                       fat_rows *rows, need *n, fat_error *err)
{
  const char *incumbent = incumbents[line->ask - order->asks->list];
  FAT_TRY(fat_rows_read(order->db, &line->ask->problem, order->gpu, &order->bench.tools, rows, err));
  return find(order, line, incumbent, rows, n, err);
}

fat_status fat_twins_due(const fat_order *order, const fat_line *line, char (*incumbents)[FAT_CONFIG_TEXT],
                         bool *due, fat_error *err)
{
  fat_rows rows = {0};
  need n = {0};
  fat_status status = look(order, line, incumbents, &rows, &n, err);
  *due = status == FAT_OK && n.due;
  fat_rows_free(&rows);
  return status;
}

static fat_status measure(fat_measure *m, fat_job *job, fat_error *err)
{
  fat_job *done = NULL;
  FAT_TRY(fat_measure_begin(m, job, 0, err)); /* however slow it is */
  while (!done)
    FAT_TRY(fat_measure_step(m, 0.1, &done, err));
  return FAT_OK;
}

/* One trial, stored whole. */
static fat_status try(const fat_order *order, const fat_line *line, const need *n, int64_t run, int *tried,
                      fat_error *err)
{
  fat_job job = {.problem = &line->ask->problem,
                 .gpu = order->gpu,
                 .point = &n->point,
                 .eligible = line->kernel->picked > 0};
  fat_trial_make(&job, &order->bench, order->script);
  fat_status status = job.status;
  if (status != FAT_OK && status != FAT_E_CANCELLED)
    fat_status_fail(err, status, "%s", job.error.text);
  if (status == FAT_OK && order->measure && fat_trial_runs(&job))
    status = measure(order->measure, &job, err);
  if (status == FAT_OK && job.outcome == FAT_OUT_OK)
    snprintf(job.detail, sizeof job.detail, FAT_WIDTH_TWIN "%s, for tensors that are not aligned", n->of);
  if (status == FAT_OK)
    status = fat_trial_store(&job, &order->bench, order->db, run, true, err);
  *tried += status == FAT_OK;
  fat_trial_free(&job);
  return status == FAT_E_CANCELLED ? FAT_OK : status;
}

static fat_status make(const fat_order *order, const fat_line *line, const need *n, int64_t run, int *tried,
                       fat_error *err)
{
  return n->row ? fat_keep_again(&line->ask->problem, order, n->row, err)
                : try(order, line, n, run, tried, err);
}

fat_status fat_twins_make(const fat_order *order, fat_outturn *out, char (*incumbents)[FAT_CONFIG_TEXT],
                          int64_t run, const volatile int *stop, fat_error *err)
{
  fat_status status = FAT_OK;
  for (int i = 0; i < out->line_count; i++) {
    bool more = true;
    for (int k = 0; k < FAT_TWIN_MOST && more && status == FAT_OK && !*stop; k++) {
      fat_rows rows = {0};
      need n = {0};
      status = look(order, &out->lines[i], incumbents, &rows, &n, err);
      if (status == FAT_OK && n.due)
        status = make(order, &out->lines[i], &n, run, &out->tried, err);
      more = n.due && !n.row;
      fat_rows_free(&rows);
    }
  }
  return status;
}
