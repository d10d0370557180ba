/* timer.c -- rounds of samples by events.
 *
 * In: runners. Out: every sample with its clock, and their figures. A sample is bracketed by two stamps of
 * the SM's clock and the global timer, which are read back once at the end, so nothing but the events is
 * waited for in between. */
#include "timer.h"
#include "clock.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ENOUGH = 10, CALLS_MOST = 64, LOAD_MOST = 1024, STAMP_BYTES = 16, RUNNERS = 16 };
static const double stable_width = 0.005; /* of the median */
static const double short_ms = 0.1;       /* a sample is made at least so long; events tell 0.5 us */
static const double warm_ms = 3;          /* of work before the first sample: clocks rise */
static const double clock_ns = 20000;     /* the global timer may tick only every microsecond */
/* While short calls are queued the GPU is held, for 1.5 times as long as that takes: an H200's host needs 3
 * to 4 us to queue a launch, and without the hold calls of 2 us were all timed as 3 to 4. Calls that take
 * twice as long as their queueing are not held: the host is ahead anyway, and a GPU under load should not
 * rest. */
static const double queue_margin = 1.5, well_ahead = 2, hold_most_ms = 8;

fat_status fat_timer_open(const fat_driver *driver, fat_timer *timer, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  *timer = (fat_timer){.driver = driver, .now = fat_clock_now};
  FAT_TRY(fat_driver_check(driver, "cuEventCreate", cuda->event_create(&timer->begin, FAT_CUDA_EVENT_DEFAULT),
                           err));
  return fat_driver_check(driver, "cuEventCreate", cuda->event_create(&timer->end, FAT_CUDA_EVENT_DEFAULT),
                          err);
}

void fat_timer_close(fat_timer *timer)
{
  const fat_cuda_calls *cuda = timer->driver ? fat_driver_table(timer->driver) : NULL;
  if (timer->begin)
    cuda->event_destroy(timer->begin);
  if (timer->end)
    cuda->event_destroy(timer->end);
  *timer = (fat_timer){0};
}

/* `calls` calls between the events, in milliseconds of one; `queue_ms` (or NULL): what the host took for one.
 */
static fat_status time_calls(fat_timer *t, const fat_runner *r, int calls, int *turn, double *ms,
                             double *queue_ms, fat_error *err)
{
  const fat_cuda_calls *cuda = fat_driver_table(t->driver);
  const double before = t->now();
  float all = 0;
  FAT_TRY(fat_driver_check(t->driver, "cuEventRecord", cuda->event_record(t->begin, NULL), err));
  for (int i = 0; i < calls; i++)
    FAT_TRY(r->work(r->user, (*turn)++, err));
  if (queue_ms)
    *queue_ms = 1000 * (t->now() - before) / calls;
  FAT_TRY(fat_driver_check(t->driver, "cuEventRecord", cuda->event_record(t->end, NULL), err));
  *ms = 0;
  FAT_TRY(fat_driver_check(t->driver, "cuEventSynchronize", cuda->event_sync(t->end), err));
  FAT_TRY(fat_driver_check(t->driver, "cuEventElapsedTime", cuda->event_ms(&all, t->begin, t->end), err));
  if (!isfinite(all) || all <= 0)
    return fat_status_fail(
        err, FAT_E_LAUNCH,
        "the events around %d of its runs lie %g ms apart: that is no time it can be known by", calls,
        (double)all);
  *ms = (double)all / calls;
  return FAT_OK;
}

fat_status fat_timer_probe(fat_timer *timer, const fat_runner *runner, double *ms, fat_error *err)
{
  int turn = 0;
  return time_calls(timer, runner, 1, &turn, ms, NULL, err);
}

static int calls_of(const fat_timer *t, double probe)
{
  const double calls = probe > 0 ? ceil(fmax(short_ms, t->load_ms) / probe) : 1;
  return (int)fmax(1, fmin(calls, t->load_ms > 0 ? LOAD_MOST : CALLS_MOST));
}

/* For how many milliseconds the GPU is held for each call of `ms` that is queued meanwhile. */
static double hold_of(double ms, double queue_ms)
{
  return ms < well_ahead * queue_ms ? queue_margin * queue_ms : 0;
}

/* When the GPU has been held, not for ever. */
static fat_status stamp(fat_timer *t, int slot, double hold_ms, fat_error *err)
{
  if (!t->stamp)
    return FAT_OK;
  fat_cuda_address to = t->stamps + (fat_cuda_address)slot * STAMP_BYTES;
  unsigned long long hold_ns = (unsigned long long)(1e6 * fmin(hold_ms, hold_most_ms));
  void *arguments[] = {&to, &hold_ns};
  return fat_driver_check(t->driver, "cuLaunchKernel",
                          fat_driver_table(t->driver)->launch(t->stamp, (unsigned)t->stamp_blocks, 1, 1, 32,
                                                              1, 1, 0, NULL, arguments, NULL),
                          err);
}

fat_status fat_timer_again(fat_timer *timer, const fat_runner *runner, double *ms, fat_error *err)
{
  const int calls = calls_of(timer, *ms);
  double again, queue_ms;
  int turn = 1;
  if (*ms >= short_ms)
    return FAT_OK;
  FAT_TRY(time_calls(timer, runner, calls, &turn, &again, &queue_ms, err));
  *ms = fmin(*ms, again);
  if (!timer->stamp)
    return FAT_OK;
  FAT_TRY(stamp(timer, 0, hold_of(again, queue_ms) * calls, err));
  FAT_TRY(time_calls(timer, runner, calls, &turn, &again, NULL, err));
  *ms = fmin(*ms, again);
  return FAT_OK;
}

/* One sample of one runner, between two stamps. */
static fat_status sample(fat_timer *t, const fat_runner *r, int calls, double hold_ms, int *turn,
                         fat_timing *timing, fat_error *err)
{
  unsigned long long stamps[2][2] = {{0}};
  double ms;
  FAT_TRY(stamp(t, 0, calls > 1 ? hold_ms * calls : 0, err));
  FAT_TRY(time_calls(t, r, calls, turn, &ms, NULL, err));
  FAT_TRY(stamp(t, 1, 0, err));
  if (t->stamp)
    FAT_TRY(fat_driver_check(t->driver, "cuMemcpyDtoH",
                             fat_driver_table(t->driver)->copy_out(stamps, t->stamps, sizeof stamps), err));
  timing->mhz[timing->count] = fat_timer_mhz(stamps[0], stamps[1]);
  timing->ms[timing->count++] = ms;
  return FAT_OK;
}

double fat_timer_mhz(const unsigned long long before[2], const unsigned long long after[2])
{
  double ns = (double)(after[0] - before[0]), clocks = (double)(after[1] - before[1]);
  bool sane = after[0] > before[0] && after[1] > before[1] && ns >= clock_ns;
  return sane ? clocks / ns * 1000 : NAN;
}

/* Calls until clocks and caches are as they are between many calls; for how long the GPU is held for one. */
static fat_status warm_up(fat_timer *t, const fat_runner *r, double probe, int *turn, double *hold_ms,
                          fat_error *err)
{
  double ms, queue_ms;
  int calls = probe > 0 ? (int)fmin(ceil(warm_ms / probe), CALLS_MOST) : 1;
  FAT_TRY(time_calls(t, r, calls > 1 ? calls : 1, turn, &ms, &queue_ms, err));
  *hold_ms = hold_of(ms, queue_ms);
  return FAT_OK;
}

/* All go on until all are stable: a GPU slows down under load, so a runner that left early would be timed on
 * a cooler GPU than the others. */
static bool want_more(const fat_timing *timings, int count, double spent_ms, double seconds, int least)
{
  const int samples = timings[0].count; /* of each */
  bool stable = samples >= ENOUGH;
  for (int i = 0; i < count && stable; i++)
    stable = fat_timer_stable(&timings[i]);
  return samples < least || (samples < FAT_TIMER_MOST && !stable && spent_ms < 1000 * seconds * count);
}

fat_status fat_timer_run(fat_timer *timer, const fat_runner *runners, const double *probe, int count,
                         double seconds, int least, fat_timing *timings, fat_error *err)
{
  double spent = 0, hold_ms[RUNNERS];
  int turn[RUNNERS] = {0};
  if (count < 1 || count > RUNNERS)
    return fat_status_fail(err, FAT_E_INPUT, "%d kernels cannot be timed in turns: 1 to %d can", count,
                           RUNNERS);
  for (int i = 0; i < count; i++) {
    timings[i] = (fat_timing){0};
    FAT_TRY(warm_up(timer, &runners[i], probe[i], &turn[i], &hold_ms[i], err));
  }
  const bool loads = timer->load_ms > 0; /* then the first round heats, and is no sample */
  for (int round = 0; want_more(timings, count, spent, seconds, least); round++)
    for (int k = 0; k < count; k++) {
      int i = (k + round) % count; /* no runner always comes after the same one */
      int calls = calls_of(timer, probe[i]);
      double ms;
      if (loads)
        FAT_TRY(time_calls(timer, &runners[i], calls, &turn[i], &ms, NULL, err));
      if (loads && round == 0)
        continue;
      FAT_TRY(sample(timer, &runners[i], calls, hold_ms[i], &turn[i], &timings[i], err));
      spent += calls * timings[i].ms[timings[i].count - 1];
    }
  for (int i = 0; i < count; i++)
    fat_timer_figures(&timings[i]);
  return FAT_OK;
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double fat_timer_quantile(const double *sorted, int n, double part)
{
  if (n <= 0)
    return NAN;
  double place = part * (n - 1);
  int below = (int)place;
  return below + 1 < n ? sorted[below] + (place - below) * (sorted[below + 1] - sorted[below])
                       : sorted[n - 1];
}

/* The known ones, sorted; returns how many. */
static int sort_known(const double *from, int count, double *to)
{
  int n = 0;
  for (int i = 0; i < count; i++)
    if (isfinite(from[i]))
      to[n++] = from[i];
  qsort(to, (size_t)n, sizeof *to, by_size);
  return n;
}

void fat_timer_figures(fat_timing *timing)
{
  double sorted[FAT_TIMER_MOST];
  int n = sort_known(timing->ms, timing->count, sorted);
  timing->median = fat_timer_quantile(sorted, n, 0.5);
  timing->p20 = fat_timer_quantile(sorted, n, 0.2);
  timing->p80 = fat_timer_quantile(sorted, n, 0.8);
  n = sort_known(timing->mhz, timing->count, sorted);
  timing->clock = fat_timer_quantile(sorted, n, 0.5);
}

int fat_timer_stable(const fat_timing *timing)
{
  double sorted[FAT_TIMER_MOST];
  int n = sort_known(timing->ms, timing->count, sorted);
  double width = fat_timer_quantile(sorted, n, 0.8) - fat_timer_quantile(sorted, n, 0.2);
  return n > 0 && width <= stable_width * fat_timer_quantile(sorted, n, 0.5);
}
