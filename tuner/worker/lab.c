/* lab.c -- makes assignments for the worker, with their deadlines and the clock tool.
 *
 * In: compiled configs. Out: verdicts. The tuner's own process never touches the GPU. */
#include "lab.h"

#include "library.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static const double sample_seconds = 0.06; /* of each config */
static const double load_seconds = 0.83;   /* of each config of a race: eleven times what serve.c asks */
static const double patience = 5;          /* times as long as expected */
static const double overhead = 0.3;        /* seconds of a trial beside its calls at full size */
static const double compile_deadline = 60; /* seconds */
enum {
  CALLS = 12,     /* at full size: verifying, warming up, the fewest samples */
  KIND_CALLS = 8, /* the same of one more kind of data, where they may take twice as long */
};

/* Making a kind's tensors takes about as long as the overhead of a trial. */
double fat_lab_deadline(double least, double expected_ms, int entrants, int kinds)
{
  const int calls = CALLS + KIND_CALLS * kinds;
  const double each = isfinite(expected_ms) ? calls * expected_ms / 1000 : 0;
  return fmax(least * entrants, patience * (overhead * (1 + kinds) + (each + sample_seconds * (1 + kinds) +
                                                                      (entrants > 1 ? load_seconds : 0)) *
                                                                         entrants));
}

static int kinds_of(const fat_experiment *e)
{
  int count = 0;
  for (int kind = 1; kind < FAT_KINDS && e->task == FAT_TASK_RACE; kind++)
    count += fat_kinds_has(e->problem, kind);
  return count;
}

/* Without the tool samples have no clock. Nothing else is lost, so a tune goes on without it. */
void fat_lab_make_clock(fat_nvrtc *nvrtc, const fat_gpu *gpu, fat_binary *clock)
{
  static const char name[] = "tuner/worker/clock.cu";
  const fat_library inside = {0};
  fat_text text = {0};
  if (fat_library_read(&inside, name, &text, NULL) == FAT_OK)
    fat_compile(nvrtc, fat_text_get(&text), name, fat_gpu_arch(gpu->sm)->target, compile_deadline, NULL,
                clock, NULL);
  fat_text_free(&text);
}

fat_status fat_lab_open(int ordinal, const fat_binary *clock, double least, fat_lab *lab, fat_error *err)
{
  *lab = (fat_lab){.ordinal = ordinal, .clock = clock, .least = least, .seed = 1};
  return fat_worker_open(ordinal, &lab->worker, err);
}

void fat_lab_close(fat_lab *lab)
{
  fat_worker_close(lab->worker);
  *lab = (fat_lab){0};
}

fat_status fat_lab_begin(fat_lab *lab, const fat_experiment *e, fat_error *err)
{
  static const fat_binary none;
  const fat_binary *clock = lab->clock ? lab->clock : &none;
  fat_assignment *a = &lab->assignment;
  *a = (fat_assignment){.task = e->task,
                        .problem = *e->problem,
                        .sms = e->gpu->sms,
                        .l2 = e->gpu->l2,
                        .seed = lab->seed,
                        .best_ms = e->best_ms,
                        .seconds = sample_seconds,
                        .clock = {.cubin_hash = clock->hash,
                                  .cubin = clock->cubin,
                                  .cubin_size = clock->cubin ? clock->size : 0},
                        .count = e->count};
  memcpy(a->entrant, e->entrants, (size_t)e->count * sizeof *e->entrants);
  return fat_worker_begin(lab->worker, a, fat_lab_deadline(lab->least, e->expected_ms, e->count, kinds_of(e)),
                          err);
}

void fat_lab_wait(fat_lab *const *labs, int count, double seconds)
{
  struct pollfd news[FAT_LABS];
  for (int i = 0; i < count; i++)
    news[i] = (struct pollfd){fat_worker_descriptor(labs[i]->worker), POLLIN, 0}; /* -1: left out */
  poll(news, (nfds_t)count, (int)ceil(seconds * 1000));
}

fat_status fat_lab_run(fat_lab *lab, const fat_experiment *e, const volatile int *stop, fat_verdict *verdicts,
                       fat_error *err)
{
  bool done = false;
  FAT_TRY(fat_lab_begin(lab, e, err));
  while (!done) {
    if (stop && *stop)
      return fat_status_fail(err, FAT_E_CANCELLED, "stopped while kernels were tried");
    FAT_TRY(fat_worker_step(lab->worker, 0.1, verdicts, &done, err));
  }
  return FAT_OK;
}
