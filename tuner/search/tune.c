/* tune.c -- the loop around trials: feed, measure, store, keep the best.
 *
 * In: problems with their kernels, a database, a bench. Out: a row for every config that was chosen. Only
 * this thread touches the database; pool threads render and compile; a worker process has the GPU, where one
 * is at hand. A row is committed before the next finished trial is looked at, so whatever ends the process,
 * what was counted is stored. What is stored with the same source and tools is not tried again. */
#include "tune.h"

#include "hand.h"
#include "plan.h"
#include "race.h"
#include "transfer.h"
#include "stop.h"
#include "twins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AHEAD = 16 /* compiled jobs that may wait for the GPU */ };
static const double worth_keeping = 1.05; /* times the best of a line so far: it may come to a race */

typedef struct tuning {
  const fat_order *order;
  fat_outturn *out;
  fat_plan plan;
  double *best;                       /* of each line: measured milliseconds so far, 0: none */
  char (*incumbent)[FAT_CONFIG_TEXT]; /* of each ask */
  int fed;                            /* tasks given to the pool */
  fat_job *waiting[AHEAD + FAT_TUNE_JOBS];
  int waits; /* compiled, in order */
  double begun;
  int64_t run;
  fat_progress progress;
} tuning;

/* The binary is worth keeping: it may be launched again, or come to a race. */
static bool keeps_binary(const tuning *t, const fat_task_job *done)
{
  double best = t->best[done->line - t->out->lines];
  return done->rank == 0 || (t->order->measure && done->job.outcome == FAT_OUT_OK &&
                             (best == 0 || fat_trial_ms(&done->job) <= worth_keeping * best));
}

/* Whether no other kernel that may win has a better time for the line's problem. */
static bool leads_all(const tuning *t, const fat_line *line, double ms)
{
  const fat_line *other = t->out->lines;
  for (int i = 0; i < t->out->line_count; i++)
    if (other[i].ask == line->ask && other[i].kernel->picked && t->best[i] > 0 && t->best[i] < ms)
      return false;
  return true;
}

static void note_best(tuning *t, fat_task_job *done)
{
  const fat_job *job = &done->job;
  double ms = fat_trial_ms(job), *best = &t->best[done->line - t->out->lines];
  bool leads =
      t->order->measure ? isfinite(ms) && (*best == 0 || ms < *best) : fat_keep_offer(done->keep, &done->job);
  if (!leads)
    return;
  *best = ms;
  if (job->eligible && leads_all(t, done->line, ms)) {
    char family[FAT_PROBLEM_TEXT];
    snprintf(t->progress.best, sizeof t->progress.best, "%.100s %.4g ms",
             fat_problem_family(job->problem, family), ms);
  }
}

/* One finished trial: counted, stored, kept if it is the best of its line so far. */
static fat_status finish(tuning *t, fat_task_job *done, fat_error *err)
{
  fat_job *job = &done->job;
  if (job->status == FAT_E_CANCELLED)
    return FAT_OK;
  if (job->status != FAT_OK)
    return fat_status_fail(err, job->status, "%s", job->error.text);
  FAT_TRY(fat_trial_store(job, &t->order->bench, t->order->db, t->run, keeps_binary(t, done), err));
  t->out->tried++;
  fat_progress_count(&t->progress, job->outcome);
  note_best(t, done);
  return FAT_OK;
}

static bool late(const tuning *t)
{
  double budget = t->order->options->budget;
  return budget > 0 && fat_progress_now() - t->begun > budget;
}

static bool ending(const tuning *t)
{
  return fat_stop_asked() || t->out->out_of_budget;
}

/* Gives the pool as much as it can work on, but no more than the GPU's queue has room for. */
static fat_status feed(tuning *t, fat_pool *pool, int threads, fat_error *err)
{
  int room = t->order->measure ? AHEAD + threads - t->waits : t->plan.task_count;
  while (!ending(t) && t->fed < t->plan.task_count && fat_pool_pending(pool) < room)
    FAT_TRY(fat_pool_put(pool, &t->plan.tasks[t->fed++].job, err));
  return FAT_OK;
}

/* A job that the pool is done with: to the GPU's queue, or stored. */
static fat_status compiled(tuning *t, fat_job *job, fat_error *err)
{
  if (t->order->measure && fat_trial_runs(job)) {
    t->waiting[t->waits++] = job;
    return FAT_OK;
  }
  fat_status status = finish(t, (fat_task_job *)job, err);
  fat_trial_free(job);
  return status;
}

/* Keeps the GPU busy: the next job to it, the last one from it. */
static fat_status serve(tuning *t, double seconds, fat_error *err)
{
  fat_measure *m = t->order->measure;
  fat_job *done;
  if (!m->job && t->waits > 0 && !ending(t)) {
    fat_job *next = t->waiting[0];
    memmove(t->waiting, t->waiting + 1, (size_t)--t->waits * sizeof *t->waiting);
    FAT_TRY(fat_measure_begin(m, next, t->best[((fat_task_job *)next)->line - t->out->lines], err));
  }
  if (!m->job)
    return FAT_OK;
  FAT_TRY(fat_measure_step(m, seconds, &done, err));
  if (!done)
    return FAT_OK;
  fat_status status = finish(t, (fat_task_job *)done, err);
  fat_trial_free(done);
  return status;
}

/* What has not begun is left for the next run. What runs on the GPU goes on to its end. */
static void drop(tuning *t, fat_pool *pool)
{
  while (fat_pool_withdraw(pool))
    ;
  for (int i = 0; i < t->waits; i++)
    fat_trial_free(t->waiting[i]);
  t->waits = 0;
  t->fed = t->plan.task_count;
}

static bool is_working(const tuning *t, const fat_pool *pool)
{
  bool measuring = t->order->measure && (t->order->measure->job || t->waits > 0);
  return fat_pool_pending(pool) > 0 || measuring || t->fed < t->plan.task_count;
}

/* Until all tasks have ended, or a signal, the budget or an error ends it. */
static fat_status drain(tuning *t, fat_pool *pool, int threads, fat_error *err)
{
  fat_status status = FAT_OK;
  while (status == FAT_OK && is_working(t, pool)) {
    bool gpu = t->order->measure && (t->order->measure->job || (t->waits > 0 && !ending(t)));
    status = feed(t, pool, threads, err);
    void *job = status == FAT_OK ? fat_pool_take(pool, gpu ? 0 : 0.1) : NULL;
    if (job)
      status = compiled(t, job, err);
    if (status == FAT_OK && gpu)
      status = serve(t, job ? 0 : 0.1, err);
    if (late(t))
      t->out->out_of_budget = true;
    if (ending(t))
      drop(t, pool);
    fat_progress_show(&t->progress);
  }
  if (status == FAT_OK)
    return FAT_OK;
  fat_stop_ask();
  drop(t, pool);
  for (void *job; fat_pool_pending(pool) > 0;)
    if ((job = fat_pool_take(pool, 0.1)))
      fat_trial_free(job);
  if (t->order->measure && t->order->measure->job)
    fat_trial_free(t->order->measure->job);
  return status;
}

static fat_status work(tuning *t, fat_error *err)
{
  fat_pool *pool;
  int threads = t->order->options->jobs ? t->order->options->jobs : fat_pool_cores();
  threads = threads > t->plan.task_count ? t->plan.task_count
            : threads > FAT_TUNE_JOBS    ? FAT_TUNE_JOBS
                                         : threads;
  FAT_TRY(fat_hand_pool(t->order, threads, &pool, err));
  fat_status status = drain(t, pool, threads, err);
  fat_pool_close(pool);
  return status;
}

/* Times the finalists of each line in turns. A race is due once: what it finds due again, noise has moved,
 * and after a few of them that is left alone. */
static fat_status hold_races(tuning *t, fat_error *err)
{
  enum { RACES = 3 };
  for (int i = 0; i < t->out->line_count && !ending(t); i++) {
    bool again = true;
    for (int n = 0; n < RACES && again && !ending(t); n++) {
      FAT_TRY(fat_race_hold(t->order, t->order->measure, &t->out->lines[i], t->run, t->order->bench.cancel,
                            &t->progress, &again, err));
      fat_progress_show(&t->progress);
    }
  }
  return FAT_OK;
}

/* The other anchors of families try what their main one found. */
static fat_status work_shared(tuning *t, fat_error *err)
{
  int added = 0;
  if (!ending(t))
    FAT_TRY(fat_share_plan(t->order, t->out, &t->plan, &added, err));
  t->progress.total += added;
  return added > 0 ? work(t, err) : FAT_OK;
}

static fat_status run_trials(tuning *t, fat_error *err)
{
  const fat_order *order = t->order;
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  fat_run run = {.command = order->command,
                 .version = FATUNE_VERSION,
                 .driver = order->bench.tools.driver ? order->bench.tools.driver : "",
                 .nvrtc = fat_nvrtc_version(order->bench.nvrtc),
                 .templates = order->bench.tools.templates,
                 .host = host};
  FAT_TRY(fat_db_run_begin(order->db, &run, &t->run, err));
  if (order->measure)
    order->measure->seed = (uint64_t)t->run;
  fat_progress_begin(&t->progress, !order->options->quiet, order->gpu->name, t->plan.task_count,
                     order->measure != NULL);
  fat_plan_say(order, t->out, &t->progress);
  t->begun = fat_progress_now();
  fat_status status = t->plan.task_count > 0 ? work(t, err) : FAT_OK;
  for (int i = 0; i < 3 && status == FAT_OK;
       i++) { /* a race may bring forth what is shared, and whose twin is due */
    status = work_shared(t, err);
    if (status == FAT_OK)
      status = fat_twins_make(order, t->out, t->incumbent, t->run, t->order->bench.cancel, err);
    if (i < 2 && status == FAT_OK && order->measure)
      status = hold_races(t, err);
  }
  t->out->signal = fat_stop_signal();
  fat_progress_end(&t->progress);
  const char *how = status != FAT_OK        ? "failed"
                    : t->out->signal        ? "interrupted"
                    : t->out->out_of_budget ? "budget"
                                            : "done";
  fat_status ended = fat_db_run_end(order->db, t->run, how, status == FAT_OK ? err : NULL);
  return status == FAT_OK ? ended : status;
}

/* Whether there is anything to do beside the trials of the plan, to which shared ones are added. */
static fat_status more_is_due(tuning *t, bool *due, fat_error *err)
{
  int added;
  *due = false;
  FAT_TRY(fat_share_plan(t->order, t->out, &t->plan, &added, err));
  for (int i = 0; i < t->out->line_count && !*due; i++) {
    const fat_line *line = &t->out->lines[i];
    FAT_TRY(fat_twins_due(t->order, line, t->incumbent, due, err));
    if (!*due && t->order->measure)
      FAT_TRY(fat_race_due(t->order, line, due, err));
  }
  return FAT_OK;
}

/* Winners before and after. */
static fat_status read_incumbents(tuning *t, fat_error *err)
{
  const fat_asks *asks = t->order->asks;
  t->best = calloc((size_t)t->out->line_count + 1, sizeof *t->best);
  t->incumbent = calloc((size_t)asks->count + 1, sizeof *t->incumbent);
  if (!t->best || !t->incumbent)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the plan");
  for (int i = 0; i < t->out->line_count; i++) {
    const fat_row *row =
        fat_rows_best(&t->plan.rows[t->out->lines[i].ask - asks->list], t->out->lines[i].kernel->name);
    t->best[i] = row && t->order->measure && isfinite(row->ms) ? row->ms : 0;
  }
  for (int a = 0; a < asks->count && t->order->measure; a++)
    FAT_TRY(fat_race_incumbent(t->order, &asks->list[a].problem, t->incumbent[a], err));
  return FAT_OK;
}

static fat_status keep_results(tuning *t, fat_error *err)
{
  const fat_asks *asks = t->order->asks;
  for (int a = 0; a < asks->count && t->order->measure; a++)
    FAT_TRY(fat_race_crown(t->order, &asks->list[a].problem, t->incumbent[a], err));
  for (int i = 0; i < t->out->line_count && !t->order->measure; i++)
    FAT_TRY(fat_keep_store(&t->plan.keeps[i], &t->out->lines[i], t->order, fat_stop_asked(), err));
  return FAT_OK;
}

fat_status fat_tune_run(const fat_order *given, fat_outturn *outturn, fat_error *err)
{
  fat_order order = *given;
  tuning t = {.order = &order, .out = outturn};
  fat_stop stops;
  bool due = false;
  *outturn = (fat_outturn){0};
  order.bench.cancel = fat_stop_begin(&stops);
  fat_status status = fat_plan_make(&order, order.bench.cancel, outturn, &t.plan, err);
  if (status == FAT_OK)
    status = read_incumbents(&t, err);
  if (status == FAT_OK)
    status = more_is_due(&t, &due, err);
  if (status == FAT_OK && (t.plan.task_count > 0 || due))
    status = run_trials(&t, err);
  if (status == FAT_OK)
    status = keep_results(&t, err);
  fat_stop_end(&stops);
  fat_plan_free(&t.plan, outturn);
  free(t.best);
  free(t.incumbent);
  return status;
}

void fat_tune_free(fat_outturn *outturn)
{
  for (int i = 0; i < outturn->line_count; i++)
    fat_search_free(&outturn->lines[i].search);
  free(outturn->lines);
  *outturn = (fat_outturn){0};
}
