/* timer.h -- how long kernels take, and at which clock: events, rounds and figures.
 *
 * The work of one sample is handed in, so that nothing here knows tensors. Several runners are timed in
 * turns: what disturbs one disturbs all. */
#ifndef FAT_TIMER_H
#define FAT_TIMER_H

#include "driver.h"
#include "status.h"

enum { FAT_TIMER_LEAST = 5, FAT_TIMER_FEW = 3, FAT_TIMER_MOST = 50 };

typedef struct fat_timing {
  int count;
  double ms[FAT_TIMER_MOST], mhz[FAT_TIMER_MOST]; /* mhz: NAN where it could not be told */
  double median, p20, p80, clock;                 /* clock: median of those known, or NAN */
} fat_timing;

/* Queues the work of one call; `turn` counts up, for those who rotate their buffers. */
typedef fat_status (*fat_timer_work)(void *user, int turn, fat_error *err);

typedef struct fat_runner {
  fat_timer_work work;
  void *user;
} fat_runner;

typedef struct fat_timer {
  const fat_driver *driver;
  double (*now)(void);     /* seconds of the host: how long it takes for a launch */
  void *begin, *end;       /* events */
  void *stamp;             /* entry of clock.cu, which also holds the GPU while calls are queued, or NULL */
  int stamp_blocks;        /* so many that every SM gets one */
  fat_cuda_address stamps; /* room for two */
  double load_ms;          /* of work before each sample, which lasts as long; 0: none, short samples */
} fat_timer;

/* Makes events; `stamp` and its buffer are for the caller to fill in. */
fat_status fat_timer_open(const fat_driver *driver, fat_timer *timer, fat_error *err);
void fat_timer_close(fat_timer *timer);

/* One call, timed: the first of its kind, so it pays for whatever comes first. FAT_E_LAUNCH where the events
 * tell no time: zero, negative, not finite. */
fat_status fat_timer_probe(fat_timer *timer, const fat_runner *runner, double *ms, fat_error *err);
/* What it takes behind others, where the first call was short: a launch that nothing hides is 9 us (H200), of
 * a call of few rows three quarters. */
fat_status fat_timer_again(fat_timer *timer, const fat_runner *runner, double *ms, fat_error *err);

/* Times `count` runners in turns, for about `seconds` each: at least `least` samples, at most
 * FAT_TIMER_MOST, fewer once all are stable; of each runner as many. `probe` has a first guess of each one's
 * milliseconds: what is too short for the events' resolution is timed several calls at a time, all of them
 * queued before the first begins, for a launch may take its host longer than such a call takes the GPU. Under
 * load a sample tells what one gets call after call: the clock that the runner's own power leaves. Without,
 * clocks are as high as after a pause, for all. */
fat_status fat_timer_run(fat_timer *timer, const fat_runner *runners, const double *probe, int count,
                         double seconds, int least, fat_timing *timings, fat_error *err);

/* Fills in the figures from the samples. */
void fat_timer_figures(fat_timing *timing);

/* Samples say nothing new: the middle 60 % lie within half a percent of their median. */
int fat_timer_stable(const fat_timing *timing);

/* MHz between two stamps {globaltimer in ns, clock}; NAN where the time between them is too short to tell. */
double fat_timer_mhz(const unsigned long long before[2], const unsigned long long after[2]);

/* The value below which so many of n sorted numbers lie, between its neighbours in proportion. */
double fat_timer_quantile(const double *sorted, int n, double part);

#endif
