/* plan.c -- walks the spaces, leaves out what is stored, sorts the rest.
 *
 * In: problems with their kernels and what the database holds of them. Out: tasks. Defaults of all problems
 * come first, then the most promising of each in turn: whenever it ends, every problem has its share. */
#include "plan.h"

#include "race.h"

#include "effort.h"

#include <stdlib.h>
#include <string.h>

enum { REASONS = 32 };

static fat_status plan_line(const fat_order *order, fat_line *line, fat_error *err)
{
  const fat_search_rule rule =
      fat_effort_rule(order->options, line->ask, line->kernel, order->measure != NULL);
  fat_status status = fat_search_choose(order->script, line->kernel->name, &line->ask->problem, order->gpu,
                                        rule, &line->search, &line->why);
  if (status == FAT_OK || status == FAT_E_UNSUPPORTED)
    return FAT_OK;
  return fat_status_fail(err, status, "%s", line->why.text);
}

/* What ran out of memory may find some in the next run. */
static bool is_done(const fat_row *row)
{
  return row && row->same_templates && row->outcome != FAT_OUT_OOM;
}

/* The incumbent, as the system's database or other tools knew it, is tried again beside what the search
 * chose: nothing tuned is slower than what a package shipped. -1: there is none, it is chosen already or is
 * none of the kernel's points any more. */
static fat_status find_incumbent(const fat_order *order, const fat_line *line, int *place, fat_error *err)
{
  char incumbent[FAT_CONFIG_TEXT] = "", config[FAT_CONFIG_TEXT];
  const fat_search *search = &line->search;
  *place = -1;
  if (order->measure && line->kernel->picked)
    FAT_TRY(fat_race_incumbent(order, &line->ask->problem, incumbent, err));
  for (int i = 0; *incumbent && i < search->space.count && *place < 0; i++)
    if (strcmp(fat_config_print(&search->space.points[i].config, config), incumbent) == 0)
      *place = i;
  for (int i = 0; i < search->count; i++)
    if (search->chosen[i] == *place)
      *place = -1;
  return FAT_OK;
}

static fat_status plan_tasks(const fat_order *order, fat_plan *plan, fat_line *line, const fat_rows *rows,
                             fat_keep *keep, fat_outturn *outturn, fat_error *err)
{
  char config[FAT_CONFIG_TEXT];
  int incumbent;
  FAT_TRY(find_incumbent(order, line, &incumbent, err));
  fat_task_job *larger =
      realloc(plan->tasks, (size_t)(plan->task_count + line->search.count + 1) * sizeof *larger);
  if (!larger)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the plan");
  plan->tasks = larger;
  for (int i = 0; i < line->search.count + (incumbent >= 0); i++) {
    int place = i < line->search.count ? line->search.chosen[i] : incumbent;
    const fat_point *point = &line->search.space.points[place];
    const fat_row *row = fat_rows_find(rows, fat_config_print(&point->config, config));
    outturn->chosen++;
    if (is_done(row)) {
      outturn->stored++;
      continue;
    }
    plan->tasks[plan->task_count++] = (fat_task_job){.job = {.problem = &line->ask->problem,
                                                             .gpu = order->gpu,
                                                             .point = point,
                                                             .eligible = line->kernel->picked > 0,
                                                             .earlier = row},
                                                     .line = line,
                                                     .keep = keep,
                                                     .rank = i < line->search.count ? i : 1};
  }
  return FAT_OK;
}

/* Tasks lie in the order of lines, so ties keep that order. */
static int by_rank(const void *a, const void *b)
{
  const fat_task_job *x = a, *y = b;
  if (x->rank != y->rank)
    return x->rank - y->rank;
  return x->line < y->line ? -1 : x->line > y->line;
}

fat_status fat_plan_make(const fat_order *order, const volatile int *stop, fat_outturn *outturn,
                         fat_plan *plan, fat_error *err)
{
  const fat_asks *asks = order->asks;
  size_t lines = 0;
  *plan = (fat_plan){.ask_count = asks->count};
  for (int a = 0; a < asks->count; a++)
    lines += (size_t)asks->list[a].kernel_count;
  outturn->lines = calloc(lines, sizeof *outturn->lines);
  plan->keeps = calloc(lines, sizeof *plan->keeps);
  plan->rows = calloc(lines, sizeof *plan->rows); /* an ask has at least one line */
  if (!outturn->lines || !plan->keeps || !plan->rows)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the plan");
  for (int a = 0; a < asks->count; a++) {
    const fat_ask *ask = &asks->list[a];
    FAT_TRY(fat_rows_read(order->db, &ask->problem, order->gpu, &order->bench.tools, &plan->rows[a], err));
    for (int k = 0; k < ask->kernel_count && !*stop; k++) {
      int i = outturn->line_count++;
      fat_line *line = &outturn->lines[i];
      line->ask = ask;
      line->kernel = &ask->kernels[k];
      FAT_TRY(plan_line(order, line, err));
      FAT_TRY(plan_tasks(order, plan, line, &plan->rows[a], &plan->keeps[i], outturn, err));
    }
  }
  if (plan->task_count > 0)
    qsort(plan->tasks, (size_t)plan->task_count, sizeof *plan->tasks, by_rank);
  return FAT_OK;
}

void fat_plan_free(fat_plan *plan, const fat_outturn *outturn)
{
  for (int i = 0; plan->keeps && i < outturn->line_count; i++)
    fat_keep_free(&plan->keeps[i]);
  for (int a = 0; plan->rows && a < plan->ask_count; a++)
    fat_rows_free(&plan->rows[a]);
  free(plan->keeps);
  free(plan->rows);
  free(plan->tasks);
  *plan = (fat_plan){0};
}

/* All rejections, summed up over the lines by their reason; returns how many reasons there are. */
static int sum_reasons(const fat_outturn *out, fat_rejection sums[REASONS])
{
  int count = 0;
  for (int i = 0; i < out->line_count; i++)
    for (int r = 0; r < out->lines[i].search.space.rejection_count; r++) {
      const fat_rejection *one = &out->lines[i].search.space.rejections[r];
      int at = 0;
      while (at < count && strcmp(sums[at].reason, one->reason) != 0)
        at++;
      if (at == REASONS || one->count == 0)
        continue;
      if (at == count)
        sums[count++] = (fat_rejection){0};
      memcpy(sums[at].reason, one->reason, sizeof one->reason);
      sums[at].count += one->count;
    }
  return count;
}

void fat_plan_say(const fat_order *order, const fat_outturn *outturn, fat_progress *progress)
{
  fat_rejection sums[REASONS];
  int reasons = sum_reasons(outturn, sums);
  long walked = 0, valid = 0;
  for (int i = 0; i < outturn->line_count; i++) {
    walked += outturn->lines[i].search.space.walked;
    valid += outturn->lines[i].search.space.count;
  }
  progress->rejected = walked - valid;
  fat_progress_say(progress,
                   "%s: %ld configs of %d kernels and problems, %ld valid, %d chosen, %d of them stored",
                   order->gpu->name, walked, outturn->line_count, valid, outturn->chosen, outturn->stored);
  for (int i = 0; i < reasons; i++)
    fat_progress_say(progress, "%8ld rejected by the rule: %s", sums[i].count, sums[i].reason);
}
