/* schedule.c -- walks the spaces, leaves out what is stored, sorts the rest.
 *
 * In: an agenda and what the database holds of it. Out: attempts to make. The defaults of all problems come
 * first, then the most promising configs of each in turn: wherever the tune ends, no problem was left out. Of
 * what is known there is little for each problem, whose inputs take as long to make as a trial: problem after
 * problem. */
#include "schedule.h"

#include "clock.h"
#include "crew.h"
#include "effort.h"
#include "grow.h"
#include "winner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The configs that an item is tried with, beside the defaults; NULL: what the effort finds. */
static const fat_known *known_of(const fat_schedule *schedule, const fat_item *item)
{
  const fat_session *s = schedule->session;
  return s->goal->only.count ? &s->goal->only
         : schedule->known   ? &schedule->known[item - s->agenda->list]
                             : NULL;
}

static fat_status list_pair(const fat_schedule *schedule, fat_script *script, fat_pair *pair)
{
  const fat_session *s = schedule->session;
  fat_shortlist_rule rule = fat_effort_rule(s->goal, pair->item, pair->kernel, s->labs > 0);
  rule.known = known_of(schedule, pair->item);
  fat_status status = fat_shortlist_make(script, pair->kernel->name, &pair->item->problem, s->gpu, rule,
                                         &pair->shortlist, &pair->why);
  return status == FAT_E_UNSUPPORTED ? FAT_OK : status;
}

/* A pair on its way through the pool. */
typedef struct listing {
  const fat_schedule *schedule;
  fat_pair *pair;
  fat_status status; /* not FAT_OK: for the reason in the pair */
} listing;

static void list_one(void *job, void *state)
{
  listing *l = job;
  fat_hand *hand = state;
  if (!hand)
    l->status = fat_status_fail(&l->pair->why, FAT_E_NOMEM, "out of memory for a thread");
  else if (!hand->script)
    l->status = fat_status_fail(&l->pair->why, hand->error.status, "%s", hand->error.text);
  else if (!*hand->session->stop)
    l->status = list_pair(l->schedule, hand->script, l->pair);
}

static fat_status list_by_all(fat_session *s, int threads, listing *all, int count, fat_error *err)
{
  fat_pool *pool;
  FAT_TRY(fat_crew_open(s, threads, list_one, &pool, err));
  fat_status status = FAT_OK;
  for (int i = 0; i < count && status == FAT_OK; i++)
    status = fat_pool_put(pool, &all[i], err);
  fat_progress_begin(&s->progress, !s->quiet && !s->json_progress, s->gpu->name, count,
                     "kernels and problems searched");
  while (fat_pool_pending(pool) > 0) {
    s->progress.done += fat_pool_take(pool, 0.1) != NULL;
    fat_progress_show(&s->progress);
  }
  fat_progress_drop(&s->progress);
  fat_pool_close(pool);
  return status;
}

/* The shortlists of all pairs. Walking the spaces of a family's 18 pairs took 6 s of one core (H200's host, d
 * 64, 2026-11-23), in which its GPUs had nothing to do. A thread opens a script of its own first, which a few
 * pairs are not worth. */
static fat_status list_all(fat_schedule *schedule, fat_error *err)
{
  enum { FEW = 4 };
  fat_session *s = schedule->session;
  const int count = schedule->pair_count, threads = fat_crew_size(s, count / 2);
  listing *all = calloc((size_t)count + 1, sizeof *all);
  if (!all)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the schedule");
  for (int i = 0; i < count; i++)
    all[i] = (listing){.schedule = schedule, .pair = &schedule->pairs[i]};
  fat_status status = FAT_OK;
  if (count > FEW && threads > 1)
    status = list_by_all(s, threads, all, count, err);
  else
    for (int i = 0; i < count && !*s->stop; i++)
      all[i].status = list_pair(schedule, s->script, all[i].pair);
  for (int i = 0; i < count && status == FAT_OK; i++)
    if (all[i].status != FAT_OK)
      status = fat_status_fail(err, all[i].status, "%s", all[i].pair->why.text);
  free(all);
  return status;
}

/* A config that ran out of memory is tried again: the next run may have more. */
static bool is_done(const fat_record *record)
{
  return record && record->same_source && record->outcome != FAT_OUT_OOM;
}

/* The place of the incumbent, which is tried first, for a budget may end soon: nothing tuned is slower than
 * what calls got before. -1: there is none, or the kernel no longer has that point. */
static int find_incumbent(const fat_schedule *schedule, const fat_pair *pair)
{
  const char *incumbent = schedule->incumbents[pair->item - schedule->session->agenda->list];
  const bool counts = *incumbent && pair->kernel->picked;
  return counts ? fat_shortlist_find(&pair->shortlist, incumbent) : -1;
}

static fat_status add(fat_schedule *schedule, fat_pair *pair, const fat_point *point, int rank,
                      fat_error *err)
{
  fat_scheduled *larger = fat_grow(schedule->list, schedule->count, sizeof *larger);
  if (!larger)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the schedule");
  schedule->list = larger;
  schedule->list[schedule->count] = (fat_scheduled){.attempt = {.problem = &pair->item->problem,
                                                                .gpu = schedule->session->gpu,
                                                                .point = point,
                                                                .eligible = pair->kernel->picked > 0},
                                                    .pair = pair,
                                                    .rank = rank,
                                                    .place = schedule->count};
  schedule->count++;
  return FAT_OK;
}

static const fat_record *find_record(const fat_schedule *schedule, const fat_pair *pair,
                                     const fat_point *point)
{
  char config[FAT_CONFIG_TEXT];
  return fat_records_find(&schedule->records[pair->item - schedule->session->agenda->list],
                          fat_config_print(&point->config, config));
}

fat_status fat_schedule_add(fat_schedule *schedule, fat_pair *pair, const fat_point *point, fat_error *err)
{
  FAT_TRY(add(schedule, pair, point, schedule->count, err));
  schedule->chosen++;
  schedule->session->progress.total++;
  return FAT_OK;
}

fat_status fat_schedule_add_twin(fat_schedule *schedule, fat_pair *pair, const fat_point *point,
                                 const char *of, fat_error *err)
{
  FAT_TRY(add(schedule, pair, point, 0, err));
  fat_attempt *twin = &schedule->list[schedule->count - 1].attempt;
  snprintf(twin->twin_of, sizeof twin->twin_of, "%s", of);
  return FAT_OK;
}

bool fat_schedule_has(const fat_schedule *schedule, const fat_pair *pair, const fat_point *point)
{
  for (int i = 0; i < schedule->count; i++)
    if (schedule->list[i].pair == pair && schedule->list[i].attempt.point == point)
      return true;
  return false;
}

bool fat_schedule_may_win(const fat_schedule *schedule, const fat_scheduled *attempt)
{
  /* A T4's eight families of d 64 and 128 keep their winners with 60 compiles instead of 104 (2026-11-22). */
  static const double margin = 1.02;
  const fat_session *s = schedule->session;
  const fat_pair *pair = attempt->pair;
  const bool known = s->labs == 0 && s->goal->effort == FAT_QUICK && !s->goal->shuffle && attempt->rank > 0;
  return !known || pair->best_ms == 0 ||
         pair->shortlist.estimate[attempt->attempt.point - pair->shortlist.space.points] <
             margin * pair->best_ms;
}

static fat_status schedule_pair(fat_schedule *schedule, fat_pair *pair, fat_error *err)
{
  const fat_shortlist *list = &pair->shortlist;
  const int incumbent = find_incumbent(schedule, pair);
  const bool beside = incumbent >= 0 && !fat_shortlist_has(list, incumbent);
  for (int i = 0; i < list->count + beside; i++) {
    const int place = i < list->count ? list->chosen[i] : incumbent;
    const int rank = known_of(schedule, pair->item) || place == incumbent ? 0 : i;
    const fat_point *point = &list->space.points[place];
    const bool done = is_done(find_record(schedule, pair, point));
    if (!done && !fat_schedule_may_win(schedule, &(fat_scheduled){{.point = point}, pair, rank, 0}))
      continue;
    schedule->chosen++;
    if (done)
      schedule->stored++;
    else
      FAT_TRY(add(schedule, pair, point, rank, err));
  }
  return FAT_OK;
}

/* Ties keep the order in which they were added, that of pairs, whatever qsort does with equals. */
static int by_rank(const void *a, const void *b)
{
  const fat_scheduled *x = a, *y = b;
  return x->rank != y->rank ? x->rank - y->rank : x->place - y->place;
}

/* The pairs of one item of the agenda, and what is stored of it. */
static fat_status add_item(fat_schedule *schedule, int at, fat_error *err)
{
  fat_session *s = schedule->session;
  const fat_item *item = &s->agenda->list[at];
  FAT_TRY(fat_records_read(s->db, &item->problem, s->gpu, &s->tools, &schedule->records[at], err));
  if (s->labs > 0)
    FAT_TRY(fat_winner_before(s, &item->problem, schedule->incumbents[at], err));
  if (schedule->known)
    FAT_TRY(fat_known_read(s->db, &item->problem, s->gpu, &schedule->won, &schedule->known[at], err));
  for (int k = 0; k < item->kernel_count; k++) {
    fat_pair *pair = &schedule->pairs[schedule->pair_count++];
    pair->item = item;
    pair->kernel = &item->kernels[k];
    const fat_record *best = fat_records_best(&schedule->records[at], pair->kernel->name);
    pair->best_ms = best && isfinite(best->ms) ? best->ms : 0;
  }
  return FAT_OK;
}

fat_status fat_schedule_make(fat_session *session, fat_schedule *schedule, fat_error *err)
{
  const int items = session->agenda->count;
  size_t pairs = 0;
  *schedule = (fat_schedule){.session = session};
  for (int a = 0; a < items; a++)
    pairs += (size_t)session->agenda->list[a].kernel_count;
  schedule->pairs = calloc(pairs + 1, sizeof *schedule->pairs);
  schedule->records = calloc((size_t)items + 1, sizeof *schedule->records);
  schedule->incumbents = calloc((size_t)items + 1, sizeof *schedule->incumbents);
  const bool asks = session->goal->effort == FAT_KNOWN && session->goal->only.count == 0;
  if (asks)
    schedule->known = calloc((size_t)items + 1, sizeof *schedule->known);
  if (!schedule->pairs || !schedule->records || !schedule->incumbents || (asks && !schedule->known))
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the schedule");
  for (int a = 0; a < items; a++)
    FAT_TRY(add_item(schedule, a, err));
  FAT_TRY(list_all(schedule, err));
  int scheduled = 0;
  for (; scheduled < schedule->pair_count && !*session->stop; scheduled++)
    FAT_TRY(schedule_pair(schedule, &schedule->pairs[scheduled], err));
  while (schedule->pair_count > scheduled) /* nobody has come to these */
    fat_shortlist_free(&schedule->pairs[--schedule->pair_count].shortlist);
  if (schedule->count > 0)
    qsort(schedule->list, (size_t)schedule->count, sizeof *schedule->list, by_rank);
  return FAT_OK;
}

void fat_schedule_free(fat_schedule *schedule)
{
  for (int i = 0; i < schedule->pair_count; i++) {
    fat_leader_free(&schedule->pairs[i].leader);
    fat_shortlist_free(&schedule->pairs[i].shortlist);
  }
  for (int a = 0; schedule->records && a < schedule->session->agenda->count; a++)
    fat_records_free(&schedule->records[a]);
  free(schedule->pairs);
  free(schedule->records);
  free(schedule->incumbents);
  free(schedule->known);
  fat_won_free(&schedule->won);
  free(schedule->list);
  *schedule = (fat_schedule){0};
}

/* -- the run */

/* How many configs there are; which rules left out the others is in the database. */
static void say(const fat_schedule *schedule)
{
  fat_progress *progress = &schedule->session->progress;
  long walked = 0, valid = 0;
  for (int i = 0; i < schedule->pair_count; i++) {
    walked += schedule->pairs[i].shortlist.space.walked;
    valid += schedule->pairs[i].shortlist.space.count;
  }
  fat_progress_say(
      progress, "%s: %ld configs of %d kernels and problems, %ld valid, %d chosen, %d of them stored",
      schedule->session->gpu->name, walked, schedule->pair_count, valid, schedule->chosen, schedule->stored);
}

/* Stores which rules rejected how many configs of each pair. */
static fat_status store_rejections(const fat_schedule *schedule, fat_error *err)
{
  fat_session *s = schedule->session;
  int count = 0;
  for (int i = 0; i < schedule->pair_count; i++)
    count += schedule->pairs[i].shortlist.space.rejection_count;
  fat_db_rejection *list = calloc((size_t)count + 1, sizeof *list);
  if (!list)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for rejections");
  count = 0;
  for (const fat_pair *pair = schedule->pairs; pair < schedule->pairs + schedule->pair_count; pair++)
    for (int r = 0; r < pair->shortlist.space.rejection_count; r++) {
      const fat_rejection *one = &pair->shortlist.space.rejections[r];
      if (one->count > 0)
        list[count++] = (fat_db_rejection){&pair->item->problem, pair->kernel->name, one->reason, one->count};
    }
  fat_status status = fat_db_put_rejections(s->db, s->run, s->gpu, list, count, err);
  free(list);
  return status;
}

fat_status fat_schedule_begin(fat_schedule *schedule, fat_error *err)
{
  fat_session *s = schedule->session;
  char host[65] = "", facts[FAT_GPU_FACTS];
  if (s->run)
    return FAT_OK;
  gethostname(host, sizeof host - 1);
  const fat_run run = {.command = s->command,
                       .version = FATUNE_VERSION,
                       .driver = s->tools.driver ? s->tools.driver : "",
                       .nvrtc = fat_nvrtc_version(s->nvrtc),
                       .templates = s->tools.templates,
                       .model = s->tools.model,
                       .host = host,
                       .device = fat_gpu_facts(s->gpu, facts)};
  FAT_TRY(fat_db_run_begin(s->db, &run, &s->run, err));
  FAT_TRY(store_rejections(schedule, err));
  for (int i = 0; i < s->labs; i++)
    s->lab[i]->seed = (uint64_t)s->run;
  fat_progress_begin(&s->progress, !s->quiet, s->gpu->name, schedule->count,
                     s->labs > 0 ? "tried" : "compiled");
  s->progress.json = s->json_progress;
  s->progress.live = s->progress.live && !s->json_progress;
  say(schedule);
  return FAT_OK;
}

void fat_schedule_watch(const fat_schedule *schedule)
{
  fat_session *s = schedule->session;
  if (s->goal->budget > 0 && fat_clock_now() - s->begun > s->goal->budget)
    s->out_of_budget = true;
}

bool fat_schedule_ends(const fat_schedule *schedule)
{
  const fat_session *s = schedule->session;
  return *s->stop || (s->out_of_budget && !schedule->closing);
}
