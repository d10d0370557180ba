/* lab.c -- assignments for the worker, deadlines, and the tool that goes with them.
 *
 * In: compiled jobs. Out: judged jobs. The tuner's process itself never touches the GPU. */
#include "lab.h"

#include "library.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double sample_seconds = 0.06; /* of each config */
static const double patience = 5;          /* times as long as expected */
static const double overhead = 0.3;        /* seconds of a trial beside its calls at the anchor */
enum { CALLS = 12 };                       /* at the anchor: verifying, warming up, the fewest samples */

double fat_measure_deadline(double least, double expected_ms, int entrants)
{
  double calls = isfinite(expected_ms) ? CALLS * expected_ms / 1000 : 0;
  return fmax(least * entrants, patience * (overhead + (calls + sample_seconds) * entrants));
}

/* Without the tool samples have no clock; nothing else is lost, so its failure is none of the tune. */
static void compile_clock(const fat_bench *bench, const fat_gpu *gpu, fat_binary *clock)
{
  static const char name[] = "tuner/worker/clock.cu";
  const fat_library inside = {0};
  fat_text text = {0};
  if (fat_library_read(&inside, name, &text, NULL) == FAT_OK)
    fat_compile(bench->nvrtc, fat_text_get(&text), name, fat_gpu_arch(gpu->sm)->target, bench->deadline,
                bench->cancel, clock, NULL);
  fat_text_free(&text);
}

fat_status fat_measure_open(int ordinal, const fat_bench *bench, const fat_gpu *gpu, double least,
                            fat_measure *measure, fat_error *err)
{
  *measure = (fat_measure){.least = least, .seed = 1};
  FAT_TRY(fat_worker_open(ordinal, &measure->worker, err));
  if (bench)
    compile_clock(bench, gpu, &measure->clock);
  return FAT_OK;
}

void fat_measure_close(fat_measure *measure)
{
  fat_worker_close(measure->worker);
  fat_binary_free(&measure->clock);
  *measure = (fat_measure){0};
}

static fat_assignment blank(const fat_measure *m, fat_task task)
{
  return (fat_assignment){.task = task,
                          .seed = m->seed,
                          .seconds = sample_seconds,
                          .clock = {.cubin_hash = m->clock.hash,
                                    .cubin = m->clock.cubin,
                                    .cubin_size = m->clock.cubin ? m->clock.size : 0}};
}

fat_status fat_measure_begin(fat_measure *measure, fat_job *job, double best_ms, fat_error *err)
{
  fat_assignment *a = &measure->assignment;
  *a = blank(measure, FAT_TASK_MEASURE);
  fat_trial_assign(job, a);
  a->best_ms = best_ms;
  a->entrant[0].config = fat_config_print(&job->point->config, measure->config[0]);
  measure->job = job;
  return fat_worker_begin(measure->worker, a, fat_measure_deadline(measure->least, job->forecast.ms, 1), err);
}

fat_status fat_measure_step(fat_measure *measure, double seconds, fat_job **done, fat_error *err)
{
  fat_verdict verdict;
  bool ended;
  *done = NULL;
  FAT_TRY(fat_worker_step(measure->worker, seconds, &verdict, &ended, err));
  if (ended) {
    *done = measure->job;
    measure->job = NULL;
    fat_trial_judge(*done, &verdict);
  }
  return FAT_OK;
}

fat_status fat_measure_run(fat_measure *measure, fat_task task, const fat_problem *p, const fat_gpu *gpu,
                           const fat_entrant *entrants, int count, double expected,
                           const volatile int *cancel, fat_verdict *verdicts, fat_error *err)
{
  fat_assignment *a = &measure->assignment;
  bool done = false;
  *a = blank(measure, task);
  a->problem = *p;
  a->sms = gpu->sms;
  a->l2 = gpu->l2;
  a->count = count;
  for (int i = 0; i < count; i++)
    a->entrant[i] = entrants[i];
  FAT_TRY(fat_worker_begin(measure->worker, a, fat_measure_deadline(measure->least, expected, count), err));
  while (!done) {
    if (cancel && *cancel)
      return fat_status_fail(err, FAT_E_CANCELLED, "stopped while kernels were timed in turns");
    FAT_TRY(fat_worker_step(measure->worker, 0.1, verdicts, &done, err));
  }
  return FAT_OK;
}
