/* plan.c -- walks the spaces, leaves out what is stored, sorts the rest.
 *
 * In: an agenda and what the database holds of it. Out: entries. The defaults of all problems come first,
 * then the most promising configs of each in turn: wherever the tune ends, no problem was left out. */
#include "plan.h"

#include "effort.h"
#include "winner.h"
#include "worker/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REASONS = 32 };

static fat_status list_pair(const fat_session *s, fat_pair *pair, fat_error *err)
{
  const fat_shortlist_rule rule = fat_effort_rule(s->goal, pair->item, pair->kernel, s->lab != NULL);
  fat_status status = fat_shortlist_make(s->script, pair->kernel->name, &pair->item->problem, s->gpu, rule,
                                         &pair->shortlist, &pair->why);
  if (status == FAT_OK || status == FAT_E_UNSUPPORTED)
    return FAT_OK;
  return fat_status_fail(err, status, "%s", pair->why.text);
}

/* A config that ran out of memory is tried again: the next run may have more. */
static bool is_done(const fat_row *row)
{
  return row && row->same_templates && row->outcome != FAT_OUT_OOM;
}

/* The place of the incumbent, which is tried beside the shortlist: nothing tuned is slower than what a
 * package shipped. -1: there is none, it is on the list already, or the kernel no longer has that point. */
static int find_incumbent(const fat_plan *plan, const fat_pair *pair)
{
  const char *incumbent = plan->incumbents[pair->item - plan->session->agenda->list];
  const int place = pair->kernel->picked ? fat_shortlist_find(&pair->shortlist, incumbent) : -1;
  for (int i = 0; i < pair->shortlist.count; i++)
    if (pair->shortlist.chosen[i] == place)
      return -1;
  return place;
}

static fat_status add(fat_plan *plan, fat_pair *pair, const fat_point *point, int rank,
                      const fat_row *earlier, fat_error *err)
{
  fat_plan_entry *larger = realloc(plan->entries, (size_t)(plan->entry_count + 1) * sizeof *larger);
  if (!larger)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the plan");
  plan->entries = larger;
  plan->entries[plan->entry_count++] = (fat_plan_entry){.attempt = {.problem = &pair->item->problem,
                                                                    .gpu = plan->session->gpu,
                                                                    .point = point,
                                                                    .eligible = pair->kernel->picked > 0,
                                                                    .earlier = earlier},
                                                        .pair = pair,
                                                        .rank = rank};
  return FAT_OK;
}

static const fat_row *find_row(const fat_plan *plan, const fat_pair *pair, const fat_point *point)
{
  char config[FAT_CONFIG_TEXT];
  return fat_rows_find(&plan->rows[pair->item - plan->session->agenda->list],
                       fat_config_print(&point->config, config));
}

fat_status fat_plan_add(fat_plan *plan, fat_pair *pair, const fat_point *point, fat_error *err)
{
  FAT_TRY(add(plan, pair, point, plan->entry_count, find_row(plan, pair, point), err));
  plan->chosen++;
  plan->session->progress.total = plan->entry_count;
  return FAT_OK;
}

bool fat_plan_has(const fat_plan *plan, const fat_pair *pair, const fat_point *point)
{
  for (int i = 0; i < plan->entry_count; i++)
    if (plan->entries[i].pair == pair && plan->entries[i].attempt.point == point)
      return true;
  return false;
}

static fat_status plan_pair(fat_plan *plan, fat_pair *pair, fat_error *err)
{
  FAT_TRY(list_pair(plan->session, pair, err));
  const fat_shortlist *list = &pair->shortlist;
  const int incumbent = find_incumbent(plan, pair);
  for (int i = 0; i < list->count + (incumbent >= 0); i++) {
    const fat_point *point = &list->space.points[i < list->count ? list->chosen[i] : incumbent];
    const fat_row *row = find_row(plan, pair, point);
    plan->chosen++;
    if (is_done(row))
      plan->stored++;
    else
      FAT_TRY(add(plan, pair, point, i < list->count ? i : 1, row, err));
  }
  return FAT_OK;
}

/* Entries lie in the order of pairs, so ties keep that order. */
static int by_rank(const void *a, const void *b)
{
  const fat_plan_entry *x = a, *y = b;
  if (x->rank != y->rank)
    return x->rank - y->rank;
  return x->pair < y->pair ? -1 : x->pair > y->pair;
}

/* One item of the agenda: what is stored of it, then its pairs. */
static fat_status plan_item(fat_plan *plan, int at, fat_error *err)
{
  fat_session *s = plan->session;
  const fat_item *item = &s->agenda->list[at];
  FAT_TRY(fat_rows_read(s->db, &item->problem, s->gpu, &s->tools, &plan->rows[at], err));
  if (s->lab)
    FAT_TRY(fat_winner_incumbent(s, &item->problem, plan->incumbents[at], err));
  for (int k = 0; k < item->kernel_count && !*s->stop; k++) {
    fat_pair *pair = &plan->pairs[plan->pair_count++];
    pair->item = item;
    pair->kernel = &item->kernels[k];
    const fat_row *best = fat_rows_best(&plan->rows[at], pair->kernel->name);
    pair->best_ms = best && s->lab && isfinite(best->ms) ? best->ms : 0;
    FAT_TRY(plan_pair(plan, pair, err));
  }
  return FAT_OK;
}

fat_status fat_plan_make(fat_session *session, fat_plan *plan, fat_error *err)
{
  const int items = session->agenda->count;
  size_t pairs = 0;
  *plan = (fat_plan){.session = session};
  for (int a = 0; a < items; a++)
    pairs += (size_t)session->agenda->list[a].kernel_count;
  plan->pairs = calloc(pairs + 1, sizeof *plan->pairs);
  plan->rows = calloc((size_t)items + 1, sizeof *plan->rows);
  plan->incumbents = calloc((size_t)items + 1, sizeof *plan->incumbents);
  if (!plan->pairs || !plan->rows || !plan->incumbents)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the plan");
  for (int a = 0; a < items; a++)
    FAT_TRY(plan_item(plan, a, err));
  if (plan->entry_count > 0)
    qsort(plan->entries, (size_t)plan->entry_count, sizeof *plan->entries, by_rank);
  return FAT_OK;
}

void fat_plan_free(fat_plan *plan)
{
  for (int i = 0; i < plan->pair_count; i++) {
    fat_leader_free(&plan->pairs[i].leader);
    fat_shortlist_free(&plan->pairs[i].shortlist);
  }
  for (int a = 0; plan->rows && a < plan->session->agenda->count; a++)
    fat_rows_free(&plan->rows[a]);
  free(plan->pairs);
  free(plan->rows);
  free(plan->incumbents);
  free(plan->entries);
  *plan = (fat_plan){0};
}

/* -- the run */

/* All rejections, summed up over the pairs by their reason; returns how many reasons there are. */
static int sum_reasons(const fat_plan *plan, fat_rejection sums[REASONS])
{
  int count = 0;
  for (int i = 0; i < plan->pair_count; i++)
    for (int r = 0; r < plan->pairs[i].shortlist.space.rejection_count; r++) {
      const fat_rejection *one = &plan->pairs[i].shortlist.space.rejections[r];
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

/* How many configs there are, and which rules rejected the others. */
static void say(const fat_plan *plan)
{
  fat_progress *progress = &plan->session->progress;
  fat_rejection sums[REASONS];
  int reasons = sum_reasons(plan, sums);
  long walked = 0, valid = 0;
  for (int i = 0; i < plan->pair_count; i++) {
    walked += plan->pairs[i].shortlist.space.walked;
    valid += plan->pairs[i].shortlist.space.count;
  }
  progress->rejected = walked - valid;
  fat_progress_say(progress,
                   "%s: %ld configs of %d kernels and problems, %ld valid, %d chosen, %d of them stored",
                   plan->session->gpu->name, walked, plan->pair_count, valid, plan->chosen, plan->stored);
  for (int i = 0; i < reasons; i++)
    fat_progress_say(progress, "%8ld rejected by the rule: %s", sums[i].count, sums[i].reason);
}

fat_status fat_plan_begin(fat_plan *plan, fat_error *err)
{
  fat_session *s = plan->session;
  char host[65] = "";
  if (s->run)
    return FAT_OK;
  gethostname(host, sizeof host - 1);
  const fat_run run = {.command = s->command,
                       .version = FATUNE_VERSION,
                       .driver = s->tools.driver ? s->tools.driver : "",
                       .nvrtc = fat_nvrtc_version(s->nvrtc),
                       .templates = s->tools.templates,
                       .host = host};
  FAT_TRY(fat_db_run_begin(s->db, &run, &s->run, err));
  if (s->lab)
    s->lab->seed = (uint64_t)s->run;
  fat_progress_begin(&s->progress, !s->quiet, s->gpu->name, plan->entry_count, s->lab != NULL);
  say(plan);
  s->begun = fat_process_now();
  return FAT_OK;
}

bool fat_plan_ends(const fat_plan *plan)
{
  return *plan->session->stop || plan->session->out_of_budget;
}
