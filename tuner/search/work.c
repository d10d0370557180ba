/* work.c -- the loop around attempts: compile, measure, store, remember the best.
 *
 * In: a schedule. Out: a row for each. Only this thread touches the database; pool threads render and
 * compile; a worker process has the GPU, where one is at hand. */
#include "work.h"

#include "crew.h"
#include "stop.h"
#include "worker/process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 16 /* compiled attempts that may wait for the GPUs */ };
static const double worth_keeping = 1.05; /* times the best of a pair so far: it may come to a race */

typedef struct work {
  fat_schedule *schedule;
  fat_session *session;
  fat_pool *pool;
  int threads;
  fat_attempt *measuring[FAT_LABS];    /* with the worker of each lab, or NULL */
  const fat_problem *filled[FAT_LABS]; /* whose inputs lie on each lab's GPU, or NULL */
  /* Compiled, in order: what the GPUs and the pool had room for, and what left GPUs had. */
  fat_attempt *waiting[AHEAD + 2 * FAT_LABS + FAT_CREW_MOST];
  int waits;
} work;

/* On a thread of the pool. */
static void compile(void *job, void *state)
{
  fat_attempt *a = job;
  fat_hand *hand = state;
  if (!hand)
    a->status = fat_status_fail(&a->error, FAT_E_NOMEM, "out of memory for a thread that compiles");
  else if (!hand->script)
    a->status = fat_status_fail(&a->error, hand->error.status, "%s", hand->error.text);
  else
    fat_attempt_make(a, hand->session, hand->script);
}

/* -- attempts that have ended */

static fat_pair *pair_of(const fat_attempt *attempt)
{
  return ((const fat_scheduled *)attempt)->pair;
}

static bool is_twin(const fat_attempt *attempt)
{
  return attempt->twin_of[0] != 0;
}

/* The binary is worth keeping: it may be launched again, or come to a race. */
static bool keeps_binary(const work *w, const fat_attempt *done)
{
  const double best = pair_of(done)->best_ms;
  return ((const fat_scheduled *)done)->rank == 0 ||
         (w->session->labs > 0 && done->outcome == FAT_OUT_OK &&
          (best == 0 || fat_attempt_ms(done) <= worth_keeping * best));
}

/* Whether no other kernel that may win has a better time for the pair's problem. */
static bool leads_all(const work *w, const fat_pair *pair, double ms)
{
  for (const fat_pair *other = w->schedule->pairs; other < w->schedule->pairs + w->schedule->pair_count;
       other++)
    if (other->item == pair->item && other->kernel->picked && other->best_ms > 0 && other->best_ms < ms)
      return false;
  return true;
}

static void note_best(work *w, fat_attempt *done)
{
  fat_pair *pair = pair_of(done);
  fat_progress *progress = &w->session->progress;
  const double ms = fat_attempt_ms(done);
  bool leads = w->session->labs > 0 ? isfinite(ms) && (pair->best_ms == 0 || ms < pair->best_ms)
                                    : fat_leader_offer(&pair->leader, done);
  if (!leads)
    return;
  pair->best_ms = ms;
  if (done->eligible && leads_all(w, pair, ms)) {
    char family[FAT_PROBLEM_TEXT];
    snprintf(progress->best, sizeof progress->best, "%.100s %.4g ms",
             fat_problem_family(done->problem, family), ms);
  }
}

/* Counts and stores an attempt, and frees what is no longer needed. */
static fat_status finish(work *w, fat_attempt *done, fat_error *err)
{
  fat_status status = done->status == FAT_E_CANCELLED ? FAT_OK : done->status;
  const bool twin = is_twin(done);
  if (twin && done->outcome != FAT_OUT_OK)
    done->twin_of[0] = 0; /* it stands in for nothing */
  if (status != FAT_OK)
    fat_status_fail(err, status, "%s", done->error.text);
  else if (done->status == FAT_OK) {
    status = fat_attempt_store(done, w->session, keeps_binary(w, done), err);
    if (status == FAT_OK) {
      w->session->done++;
      if (!twin) { /* which nobody has chosen: it is neither counted nor the best */
        fat_progress_count(&w->session->progress, done->outcome);
        note_best(w, done);
      }
    }
  }
  fat_attempt_free(done);
  return status;
}

/* -- the loop */

/* Gives the pool as much as it can work on, but no more than the GPU's queue has room for; where there is
 * none, little enough that what comes later knows what came before. */
static fat_status feed(work *w, fat_error *err)
{
  fat_schedule *schedule = w->schedule;
  int room = w->session->labs > 0 ? AHEAD + w->session->labs - 1 + w->threads - w->waits : w->threads + 1;
  while (!fat_schedule_ends(schedule) && schedule->begun < schedule->count &&
         fat_pool_pending(w->pool) < room) {
    fat_scheduled *next = &schedule->list[schedule->begun++];
    if (fat_schedule_may_win(schedule, next))
      FAT_TRY(fat_pool_put(w->pool, &next->attempt, err));
    else
      w->session->progress.total--;
  }
  return FAT_OK;
}

/* An attempt that the pool is done with: to the GPU's queue, or finished. */
static fat_status take(work *w, fat_attempt *attempt, fat_error *err)
{
  if (w->session->labs == 0 || !fat_attempt_runs(attempt))
    return finish(w, attempt, err);
  w->waiting[w->waits++] = attempt;
  return FAT_OK;
}

static bool is_measuring(const work *w)
{
  for (int i = 0; i < w->session->labs; i++)
    if (w->measuring[i])
      return true;
  return false;
}

/* The attempt that a GPU gets next: of the problem whose inputs it holds, which take a tenth of a second to
 * make, if there is one, else the first. */
static fat_attempt *next_for(work *w, int at)
{
  int place = 0;
  while (place < w->waits && w->waiting[place]->problem != w->filled[at])
    place++;
  place = place < w->waits ? place : 0;
  fat_attempt *next = w->waiting[place];
  memmove(&w->waiting[place], &w->waiting[place + 1], (size_t)(--w->waits - place) * sizeof *w->waiting);
  return next;
}

/* What a GPU that is left out was given is another's then, unless it may be why the GPU is lost: that is left
 * for a later run. */
static fat_status leave_out(work *w, int at, const fat_error *why, fat_error *err)
{
  fat_session *s = w->session;
  fat_attempt *attempt = w->measuring[at];
  FAT_TRY(fat_session_leave_out(s, at, why, err));
  if (attempt && why->status == FAT_E_DEVICE_LOST) {
    s->progress.total--;
    fat_attempt_free(attempt);
  } else if (attempt)
    w->waiting[w->waits++] = attempt;
  w->measuring[at] = w->measuring[s->labs], w->measuring[s->labs] = NULL;
  w->filled[at] = w->filled[s->labs];
  return FAT_OK;
}

/* Gives a GPU that is free its next attempt. A twin need not be fast: it is never dropped as slow. */
static fat_status begin(work *w, int at, fat_error *err)
{
  if (w->measuring[at] || w->waits == 0 || fat_schedule_ends(w->schedule))
    return FAT_OK;
  fat_attempt *next = w->measuring[at] = next_for(w, at);
  const fat_entrant entrant = fat_attempt_entrant(next);
  const fat_experiment e = {FAT_TASK_MEASURE,
                            next->problem,
                            next->gpu,
                            &entrant,
                            1,
                            next->forecast.ms,
                            is_twin(next) ? 0 : pair_of(next)->best_ms};
  w->filled[at] = next->problem;
  fat_error why = {0};
  return fat_lab_begin(w->session->lab[at], &e, &why) == FAT_OK ? FAT_OK : leave_out(w, at, &why, err);
}

/* What a GPU has to say of its attempt. */
static fat_status end(work *w, int at, fat_error *err)
{
  fat_verdict verdict;
  bool ended;
  fat_attempt *done = w->measuring[at];
  if (!done)
    return FAT_OK;
  fat_error why = {0};
  if (fat_worker_step(w->session->lab[at]->worker, 0, &verdict, &ended, &why) != FAT_OK)
    return leave_out(w, at, &why, err);
  if (!ended)
    return FAT_OK;
  w->measuring[at] = NULL;
  fat_attempt_judge(done, &verdict);
  return finish(w, done, err);
}

/* What has not begun is left for the next run. What runs on the GPU goes on to its end. */
static void drop(work *w)
{
  while (fat_pool_withdraw(w->pool))
    ;
  for (int i = 0; i < w->waits; i++)
    fat_attempt_free(w->waiting[i]);
  w->waits = 0;
  w->schedule->begun = w->schedule->count;
}

static bool is_working(const work *w)
{
  return fat_pool_pending(w->pool) > 0 || is_measuring(w) || w->waits > 0 ||
         w->schedule->begun < w->schedule->count;
}

/* One turn: feeds, takes what is compiled, looks after the GPUs; waits for news of either where there is
 * none. A GPU that has nothing to do waits for the pool, whose news wake nobody: it is asked again soon. */
static fat_status turn(work *w, fat_error *err)
{
  const double pause = 0.1, soon = 0.005; /* seconds */
  fat_session *s = w->session;
  FAT_TRY(feed(w, err));
  fat_attempt *compiled = fat_pool_take(w->pool, is_measuring(w) || w->waits > 0 ? 0 : pause);
  if (compiled)
    FAT_TRY(take(w, compiled, err));
  int busy = 0;
  for (int i = 0; i < s->labs; i++) {
    FAT_TRY(begin(w, i, err));
    busy += w->measuring[i] != NULL;
  }
  if (!compiled && busy > 0)
    fat_lab_wait(s->lab, s->labs, busy < s->labs && fat_pool_pending(w->pool) > 0 ? soon : pause);
  for (int i = 0; i < s->labs; i++)
    FAT_TRY(end(w, i, err));
  fat_schedule_watch(w->schedule);
  if (fat_schedule_ends(w->schedule))
    drop(w);
  fat_progress_show(&s->progress);
  return FAT_OK;
}

/* After an error: nothing is stored any more. */
static void abandon(work *w)
{
  fat_stop_ask();
  drop(w);
  while (fat_pool_pending(w->pool) > 0) {
    fat_attempt *attempt = fat_pool_take(w->pool, 0.1);
    if (attempt)
      fat_attempt_free(attempt);
  }
  for (int i = 0; i < FAT_LABS; i++)
    if (w->measuring[i])
      fat_attempt_free(w->measuring[i]);
}

fat_status fat_work_run(fat_schedule *schedule, fat_error *err)
{
  work w = {.schedule = schedule, .session = schedule->session};
  w.threads = fat_crew_size(schedule->session, schedule->count - schedule->begun);
  FAT_TRY(fat_crew_open(schedule->session, w.threads, compile, &w.pool, err));
  fat_status status = FAT_OK;
  while (status == FAT_OK && is_working(&w))
    status = turn(&w, err);
  if (status != FAT_OK)
    abandon(&w);
  fat_pool_close(w.pool);
  return status;
}
