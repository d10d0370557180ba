/* transfer.c -- configs go from the main anchor of a family to its others.
 *
 * In: lines, and what is stored by now. Out: tasks. Few configs are tried at an anchor of its own accord;
 * which are worth it, the main one knows. Everything is read from the database, so a tune that was killed
 * goes on. */
#include "transfer.h"

#include "effort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_MOST = 64 };

static bool works(const fat_row *row, const char *kernel)
{
  return strcmp(row->kernel, kernel) == 0 && row->same_templates && row->origin == FAT_MEASURED &&
         row->outcome == FAT_OUT_OK && isfinite(row->ms);
}

/* The fastest rows of a kernel, sorted; equals by their place. */
static int fastest(const fat_rows *rows, const char *kernel, int most, const fat_row *best[SHARED_MOST])
{
  int count = 0;
  for (int i = 0; i < rows->count; i++) {
    const fat_row *row = &rows->list[i];
    int at = count;
    if (!works(row, kernel))
      continue;
    while (at > 0 && best[at - 1]->ms > row->ms)
      at--;
    if (at == most)
      continue;
    count += count < most;
    memmove(&best[at + 1], &best[at], (size_t)(count - 1 - at) * sizeof *best);
    best[at] = row;
  }
  return count;
}

static const fat_point *find(const fat_space *space, const char *config)
{
  char text[FAT_CONFIG_TEXT];
  for (int i = 0; i < space->count; i++)
    if (strcmp(fat_config_print(&space->points[i].config, text), config) == 0)
      return &space->points[i];
  return NULL;
}

static bool is_planned(const fat_plan *plan, const fat_line *line, const fat_point *point)
{
  for (int i = 0; i < plan->task_count; i++)
    if (plan->tasks[i].line == line && plan->tasks[i].job.point == point)
      return true;
  return false;
}

static fat_status add(const fat_order *order, fat_outturn *outturn, fat_plan *plan, int line_at,
                      const fat_point *point, const char *config, fat_error *err)
{
  fat_line *line = &outturn->lines[line_at];
  fat_task_job *larger = realloc(plan->tasks, (size_t)(plan->task_count + 1) * sizeof *larger);
  if (!larger)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the plan");
  plan->tasks = larger;
  plan->tasks[plan->task_count] =
      (fat_task_job){.job = {.problem = &line->ask->problem,
                             .gpu = order->gpu,
                             .point = point,
                             .eligible = line->kernel->picked > 0,
                             .earlier = fat_rows_find(&plan->rows[line->ask - order->asks->list], config)},
                     .line = line,
                     .keep = &plan->keeps[line_at],
                     .rank = plan->task_count};
  plan->task_count++;
  outturn->chosen++;
  return FAT_OK;
}

static fat_status share(const fat_order *order, fat_outturn *outturn, fat_plan *plan, int line_at,
                        const fat_rows *of_main, const fat_rows *own, int *added, fat_error *err)
{
  const fat_line *line = &outturn->lines[line_at];
  const fat_row *best[SHARED_MOST];
  int most = fat_effort_shared(order->options->effort);
  int count = fastest(of_main, line->kernel->name, most < SHARED_MOST ? most : SHARED_MOST - 1, best);
  for (int i = 0; i < count; i++) {
    const fat_point *point = find(&line->search.space, best[i]->config);
    const fat_row *row = fat_rows_find(own, best[i]->config);
    if (!point || (row && row->same_templates) || is_planned(plan, line, point))
      continue;
    FAT_TRY(add(order, outturn, plan, line_at, point, best[i]->config, err));
    ++*added;
  }
  return FAT_OK;
}

fat_status fat_share_plan(const fat_order *order, fat_outturn *outturn, fat_plan *plan, int *added,
                          fat_error *err)
{
  *added = 0;
  for (int i = 0; i < outturn->line_count; i++) {
    const fat_ask *ask = outturn->lines[i].ask;
    fat_rows of_main = {0}, own = {0};
    if (ask->main_plus_1 == 0 || outturn->lines[i].search.count == 0 || !order->measure)
      continue;
    const fat_problem *central = &order->asks->list[ask->main_plus_1 - 1].problem;
    fat_status status = fat_rows_read(order->db, central, order->gpu, &order->bench.tools, &of_main, err);
    if (status == FAT_OK)
      status = fat_rows_read(order->db, &ask->problem, order->gpu, &order->bench.tools, &own, err);
    if (status == FAT_OK)
      status = share(order, outturn, plan, i, &of_main, &own, added, err);
    fat_rows_free(&of_main);
    fat_rows_free(&own);
    FAT_TRY(status);
  }
  return FAT_OK;
}
