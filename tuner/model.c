/* model.c -- the arithmetic of model.h: work over rates, rounds of resident blocks, the largest limit.
 *
 * In: numbers only. Out: a forecast. Nothing here allocates or fails. Peak rates are those of the
 * architecture's row; the constants below are the only others. */
#include "model.h"

#include <math.h>

/* A device copy on an H200 moved 4265 GB/s of its 4800 GB/s peak. */
const double fat_model_dram_reached = 0.89;
/* Bytes per SM and clock from L2: NVIDIA states 2048 per clock for the V100's 80 SMs (and 5120 for the A100's
 * 108); the lower of the two stands for all. */
const double fat_model_l2_bytes = 25.6;
/* Clocks exposed by one step between barriers: a tile comes from L2 (236 on an sm_75, by public
 * microbenchmarks), passes shared memory (23) and is read from there (23). */
const double fat_model_step_clocks = 236 + 23 + 23;
/* Launches queued back to back took 3.3 to 4.4 microseconds each on an H200's host. */
const double fat_model_launch_ms = 4e-3;

enum {
  WARP = 32,
  SCHEDULERS = 4,           /* of an SM, sm_75 to sm_121 */
  SHARED_ACCESS_BYTES = 16, /* of one lane's shared-memory instruction: the templates move 128-bit vectors */
};

/* ORDER LIMIT */
static const char *const limit_names[FAT_LIMIT_COUNT] = {"fma",     "tensor", "ex2", "shared", "issue",
                                                         "latency", "dram",   "l2",  "launch"};

const char *fat_model_limit_name(fat_limit limit)
{
  return limit_names[limit];
}

/* Clocks of one block on the units of its SM. */
typedef struct usage {
  double busy, sum;
  fat_limit limit; /* the unit of `busy` */
} usage;

static usage use_units(const fat_arch *arch, const fat_work *w, int spills)
{
  double shared_bytes = w->shared_bytes + w->threads * w->steps * spills;
  double lanes = w->fma + w->ex2 + w->issue + shared_bytes / SHARED_ACCESS_BYTES;
  const struct {
    fat_limit limit;
    double work, rate;
  } units[] = {
      {FAT_LIMIT_FMA, w->fma, arch->fma},          {FAT_LIMIT_TENSOR, w->tensor, arch->tensor},
      {FAT_LIMIT_EX2, w->ex2, arch->ex2},          {FAT_LIMIT_SHARED, shared_bytes, arch->shared_bytes},
      {FAT_LIMIT_ISSUE, lanes, SCHEDULERS * WARP},
  };
  usage u = {.limit = FAT_LIMIT_FMA};
  for (int i = 0; i < (int)(sizeof units / sizeof units[0]); i++) {
    /* A unit that an architecture lacks counts only when it is asked for, and then without end. */
    double clocks = units[i].work > 0 ? units[i].work / units[i].rate : 0;
    if (units[i].limit != FAT_LIMIT_ISSUE)
      u.sum += clocks;
    if (clocks > u.busy) {
      u.busy = clocks;
      u.limit = units[i].limit;
    }
  }
  u.sum = fmax(u.sum, u.busy);
  return u;
}

/* Clocks of r resident blocks while nothing waits for memory. */
static double pipe_clocks(const fat_work *w, const usage *u, double r)
{
  double warps = fmax(ceil(w->threads / WARP), 1);
  double of_scheduler = fmax(r * warps / SCHEDULERS, 1);
  return ((of_scheduler - 1) * u->busy + u->sum) * SCHEDULERS / warps;
}

/* Clocks of one round of r resident blocks; *exposed says whether latency decides it. */
static double round_clocks(const fat_work *w, const usage *u, double r, bool *exposed)
{
  double pipe = pipe_clocks(w, u, r);
  double alone = pipe_clocks(w, u, 1) + w->steps * fat_model_step_clocks;
  *exposed = alone > pipe;
  return fmax(pipe, alone);
}

static double launch_ms(const fat_gpu *gpu, const fat_arch *arch, const fat_work *w,
                        const fat_resident *resident, fat_limit *limit)
{
  double clocks_per_ms = gpu->clock * 1e3;
  double r = resident->blocks > 0 ? resident->blocks : 1;
  usage u = use_units(arch, w, resident->spills);

  double rounds = floor(w->blocks / (gpu->sms * r));
  double left = ceil((w->blocks - rounds * gpu->sms * r) / gpu->sms);
  bool exposed_full, exposed_tail;
  double full = rounds * round_clocks(w, &u, r, &exposed_full);
  double tail = left > 0 ? round_clocks(w, &u, left, &exposed_tail) : 0;
  if (left <= 0)
    exposed_tail = exposed_full;
  bool exposed = full >= tail ? exposed_full : exposed_tail;

  const struct {
    fat_limit limit;
    double ms;
  } limits[] = {
      {exposed ? FAT_LIMIT_LATENCY : u.limit, (full + tail) / clocks_per_ms},
      {FAT_LIMIT_DRAM, w->dram / (gpu->dram * 1e6 * fat_model_dram_reached)},
      {FAT_LIMIT_L2, w->l2 / (fat_model_l2_bytes * gpu->sms * clocks_per_ms)},
  };
  int most = 0;
  for (int i = 1; i < (int)(sizeof limits / sizeof limits[0]); i++)
    if (limits[i].ms > limits[most].ms)
      most = i;
  *limit = limits[most].limit;
  return limits[most].ms;
}

fat_forecast fat_model_predict(const fat_gpu *gpu, const fat_work *work, const fat_resident *resident,
                               int launches)
{
  fat_forecast f = {0};
  const fat_arch *arch = fat_gpu_arch(gpu->sm);
  if (!arch || gpu->clock <= 0 || gpu->sms <= 0 || gpu->dram <= 0) {
    f.ms = INFINITY;
    return f;
  }
  for (int i = 0; i < launches; i++) {
    fat_limit limit;
    double ms = launch_ms(gpu, arch, &work[i], &resident[i], &limit);
    f.share[limit] += ms;
    f.share[FAT_LIMIT_LAUNCH] += fat_model_launch_ms;
    f.ms += ms + fat_model_launch_ms;
  }
  for (int i = 0; i < FAT_LIMIT_COUNT; i++)
    if (f.share[i] > f.share[f.limit])
      f.limit = (fat_limit)i;
  return f;
}
