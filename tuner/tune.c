/* tune.c -- the loop around trials: plan, feed, store, keep the best.
 *
 * In: problems with their kernels, a database, a bench. Out: a row for every config that was chosen. Only
 * this thread touches the database; pool threads render and compile. A row is committed before the next
 * finished trial is looked at, so whatever ends the process, what was counted is stored. What is stored with
 * the same templates and tools is not tried again. */
#include "tune.h"

#include "keep.h"
#include "pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The most configs of one kernel and problem. A compile takes half a second of a core: quick's 30 of a family
 * with two baselines take 8 s on two cores. */
static const struct { /* ORDER EFFORT */
  int picked, asked;  /* kernels that may be picked unasked; those only used when asked for */
} most[FAT_EFFORT_COUNT] = {{18, 6}, {256, 64}, {1 << 30, 1 << 30}};

int fat_tune_most(fat_effort effort, bool picked)
{
  return picked ? most[effort].picked : most[effort].asked;
}

/* 0: go on; a signal's number: it asked to stop; -1: an error did. Compiles read it as their cancel flag. */
static volatile sig_atomic_t stop;
_Static_assert(sizeof(sig_atomic_t) == sizeof(int), "fat_bench.cancel points at it");

static void on_signal(int number)
{
  stop = number;
}

/* The first signal stops the tune in good order, a second one ends the process at once. */
static void watch_signals(bool on, struct sigaction before[2])
{
  static const int numbers[2] = {SIGINT, SIGTERM};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; i++)
    if (on)
      sigaction(numbers[i], &action, &before[i]);
    else
      sigaction(numbers[i], &before[i], NULL);
}

enum { REASONS = 32 };

/* A job with its place in the plan. */
typedef struct task {
  fat_job job; /* first: the pool carries job pointers */
  fat_line *line;
  fat_keep *keep;
  int rank; /* in its line's order; 0 is the default config */
} task;

typedef struct tuning {
  const fat_order *order;
  fat_outturn *out;
  fat_rows *rows;  /* of each ask */
  fat_keep *keeps; /* of each line */
  task *tasks;
  int task_count;
  int64_t run;
  fat_progress progress;
} tuning;

static fat_status plan_line(tuning *t, fat_line *line, fat_error *err)
{
  int cap = fat_tune_most(t->order->options->effort, line->kernel->picked);
  fat_status status = fat_search_choose(t->order->script, line->kernel->name, &line->ask->problem,
                                        t->order->gpu, cap, &line->search, &line->why);
  if (status == FAT_OK || status == FAT_E_UNSUPPORTED)
    return FAT_OK;
  return fat_status_fail(err, status, "%s", line->why.text);
}

static fat_status plan_tasks(tuning *t, fat_line *line, const fat_rows *rows, fat_keep *keep, fat_error *err)
{
  char config[FAT_CONFIG_TEXT];
  task *larger = realloc(t->tasks, (size_t)(t->task_count + line->search.count + 1) * sizeof *larger);
  if (!larger)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the plan");
  t->tasks = larger;
  for (int i = 0; i < line->search.count; i++) {
    const fat_point *point = &line->search.space.points[line->search.chosen[i]];
    const fat_row *row = fat_rows_find(rows, fat_config_print(&point->config, config));
    t->out->chosen++;
    if (row && row->same_templates) {
      t->out->stored++;
      continue;
    }
    t->tasks[t->task_count++] = (task){.job = {.problem = &line->ask->problem,
                                               .gpu = t->order->gpu,
                                               .point = point,
                                               .eligible = line->kernel->picked,
                                               .earlier = row},
                                       .line = line,
                                       .keep = keep,
                                       .rank = i};
  }
  return FAT_OK;
}

/* Defaults of all problems first, then the most promising of each in turn: whenever it ends, every problem
 * has its share. Tasks lie in the order of lines, so ties keep that order. */
static int by_rank(const void *a, const void *b)
{
  const task *x = a, *y = b;
  if (x->rank != y->rank)
    return x->rank - y->rank;
  return x->line < y->line ? -1 : x->line > y->line;
}

static fat_status plan(tuning *t, fat_error *err)
{
  const fat_asks *asks = t->order->asks;
  size_t lines = 0;
  for (int a = 0; a < asks->count; a++)
    lines += (size_t)asks->list[a].kernel_count;
  t->out->lines = calloc(lines, sizeof *t->out->lines);
  t->keeps = calloc(lines, sizeof *t->keeps);
  t->rows = calloc(lines, sizeof *t->rows); /* an ask has at least one line */
  if (!t->out->lines || !t->keeps || !t->rows)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for the plan");
  for (int a = 0; a < asks->count; a++) {
    const fat_ask *ask = &asks->list[a];
    FAT_TRY(
        fat_rows_read(t->order->db, &ask->problem, t->order->gpu, &t->order->bench.tools, &t->rows[a], err));
    for (int k = 0; k < ask->kernel_count && !stop; k++) {
      int i = t->out->line_count++;
      fat_line *line = &t->out->lines[i];
      line->ask = ask;
      line->kernel = &ask->kernels[k];
      FAT_TRY(plan_line(t, line, err));
      FAT_TRY(plan_tasks(t, line, &t->rows[a], &t->keeps[i], err));
    }
  }
  qsort(t->tasks, (size_t)t->task_count, sizeof *t->tasks, by_rank);
  return FAT_OK;
}

/* A pool thread's own script; `error` where it could not be opened. */
typedef struct hand {
  const tuning *t;
  fat_script *script;
  fat_error error;
} hand;

static void *hand_begin(void *shared)
{
  hand *h = calloc(1, sizeof *h);
  if (!h)
    return NULL;
  h->t = shared;
  if (fat_script_open(h->t->order->templates, &h->script, &h->error) != FAT_OK)
    h->script = NULL;
  return h;
}

static void hand_work(void *job, void *state)
{
  fat_job *j = job;
  hand *h = state;
  if (!h)
    j->status = fat_status_fail(&j->error, FAT_E_NOMEM, "out of memory for a thread that compiles");
  else if (!h->script)
    j->status = fat_status_fail(&j->error, h->error.status, "%s", h->error.text);
  else
    fat_trial_make(j, &h->t->order->bench, h->script);
}

static void hand_end(void *state)
{
  hand *h = state;
  if (h)
    fat_script_close(h->script);
  free(h);
}

/* One finished trial: counted, stored, kept if it is the best of its line so far. */
static fat_status finish(tuning *t, task *done, fat_error *err)
{
  fat_job *job = &done->job;
  if (job->status == FAT_E_CANCELLED)
    return FAT_OK;
  if (job->status != FAT_OK)
    return fat_status_fail(err, job->status, "%s", job->error.text);
  FAT_TRY(fat_trial_store(job, &t->order->bench, t->order->db, t->run, done->rank == 0, err));
  t->out->tried++;
  fat_progress_count(&t->progress, job->outcome);
  if (fat_keep_offer(done->keep, job) && job->eligible) {
    char family[FAT_PROBLEM_TEXT];
    snprintf(t->progress.best, sizeof t->progress.best, "%.100s %.4g ms",
             fat_problem_family(job->problem, family), job->forecast.ms);
  }
  return FAT_OK;
}

/* Takes back what has not begun; what runs goes on, unless a signal or an error has set `stop`. */
static void withdraw(fat_pool *pool)
{
  while (fat_pool_withdraw(pool))
    ;
}

/* Takes finished trials until none is left, or a signal, the budget or an error ends it. */
static fat_status drain(tuning *t, fat_pool *pool, fat_error *err)
{
  const double budget = t->order->options->budget, begun = fat_progress_now();
  fat_status status = FAT_OK;
  while (fat_pool_pending(pool) > 0) {
    void *job = fat_pool_take(pool, 0.1);
    if (job && status == FAT_OK) {
      status = finish(t, job, err);
      if (status != FAT_OK)
        stop = stop ? stop : -1;
    }
    if (job)
      fat_trial_free(job);
    if (stop)
      withdraw(pool);
    if (budget > 0 && fat_progress_now() - begun > budget && !t->out->out_of_budget) {
      t->out->out_of_budget = true;
      withdraw(pool);
    }
    fat_progress_show(&t->progress);
  }
  return status;
}

static fat_status work(tuning *t, fat_error *err)
{
  fat_pool *pool;
  int cores = t->order->options->jobs ? t->order->options->jobs : fat_pool_cores();
  if (cores > t->task_count)
    cores = t->task_count;
  FAT_TRY(fat_pool_open(cores, hand_begin, hand_work, hand_end, t, &pool, err));
  fat_status status = FAT_OK;
  for (int i = 0; i < t->task_count && status == FAT_OK; i++)
    status = fat_pool_put(pool, &t->tasks[i].job, err);
  if (status != FAT_OK)
    stop = stop ? stop : -1;
  fat_status drained = drain(t, pool, status == FAT_OK ? err : NULL);
  fat_pool_close(pool);
  return status == FAT_OK ? drained : status;
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

/* Says what was walked and by which rules the rest fell. */
static void say_plan(tuning *t)
{
  fat_rejection sums[REASONS];
  int reasons = sum_reasons(t->out, sums);
  long walked = 0, valid = 0;
  for (int i = 0; i < t->out->line_count; i++) {
    walked += t->out->lines[i].search.space.walked;
    valid += t->out->lines[i].search.space.count;
  }
  t->progress.rejected = walked - valid;
  fat_progress_say(&t->progress,
                   "%s: %ld configs of %d kernels and problems, %ld valid, %d chosen, %d of them stored",
                   t->order->gpu->name, walked, t->out->line_count, valid, t->out->chosen, t->out->stored);
  for (int i = 0; i < reasons; i++)
    fat_progress_say(&t->progress, "%8ld rejected by the rule: %s", sums[i].count, sums[i].reason);
}

static fat_status run_trials(tuning *t, fat_error *err)
{
  const fat_order *order = t->order;
  char host[65] = "";
  gethostname(host, sizeof host - 1);
  fat_run run = {.command = order->command,
                 .version = FATUNE_VERSION,
                 .driver = "",
                 .nvrtc = fat_nvrtc_version(order->bench.nvrtc),
                 .templates = order->bench.tools.templates,
                 .host = host};
  FAT_TRY(fat_db_run_begin(order->db, &run, &t->run, err));
  fat_progress_begin(&t->progress, !order->options->quiet, order->gpu->name, t->task_count);
  say_plan(t);
  fat_status status = work(t, err);
  t->out->signal = stop > 0 ? stop : 0;
  fat_progress_end(&t->progress);
  const char *how = status != FAT_OK        ? "failed"
                    : t->out->signal        ? "interrupted"
                    : t->out->out_of_budget ? "budget"
                                            : "done";
  fat_status ended = fat_db_run_end(order->db, t->run, how, status == FAT_OK ? err : NULL);
  return status == FAT_OK ? ended : status;
}

fat_status fat_tune_run(const fat_order *given, fat_outturn *outturn, fat_error *err)
{
  fat_order order = *given;
  tuning t = {.order = &order, .out = outturn};
  struct sigaction before[2];
  *outturn = (fat_outturn){0};
  order.bench.cancel = &stop;
  stop = 0;
  watch_signals(true, before);
  fat_status status = plan(&t, err);
  if (status == FAT_OK && t.task_count > 0)
    status = run_trials(&t, err);
  for (int i = 0; i < outturn->line_count && status == FAT_OK; i++)
    status = fat_keep_store(&t.keeps[i], &outturn->lines[i], &order, stop != 0, err);
  watch_signals(false, before);
  for (int i = 0; t.keeps && i < outturn->line_count; i++)
    fat_keep_free(&t.keeps[i]);
  for (int a = 0; t.rows && a < order.asks->count; a++)
    fat_rows_free(&t.rows[a]);
  free(t.keeps);
  free(t.rows);
  free(t.tasks);
  return status;
}

void fat_tune_free(fat_outturn *outturn)
{
  for (int i = 0; i < outturn->line_count; i++)
    fat_search_free(&outturn->lines[i].search);
  free(outturn->lines);
  *outturn = (fat_outturn){0};
}
