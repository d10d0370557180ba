/* model.c -- the arithmetic of model.h: work over rates, rounds of resident blocks, what bounds them
 * together.
 *
 * In: numbers only. Out: a forecast. Nothing here allocates or fails. Peak rates are those of the
 * architecture's row; the constants below are the only others. */
#include "model.h"

#include <math.h>

/* A device copy on an H200 moved 4265 GB/s of its 4800 GB/s peak. */
const double fat_model_dram_reached = 0.89;
/* Bytes per SM and clock from L2: NVIDIA states 2048 per clock for the V100's 80 SMs and 5120 for the A100's
 * 108. The latter stands for the A100 and the data centre's GPUs after it, the former for all others. */
const double fat_model_l2_bytes = 25.6, fat_model_l2_bytes_large = 47.4;
/* Clocks exposed by one step between barriers: a tile comes from L2 (236 on an sm_75, by public
 * microbenchmarks), passes shared memory (23) and is read from there (23). */
const double fat_model_step_clocks = 236 + 23 + 23;
/* What follows was fitted to 2,136 timings of fwd's tensor-core kernels with d 64, 96 and 192 on an H200,
 * 1,242 of them of configs by lot (2026-11-21): least squares of the logarithms, the fast ones weighing most.
 * bench_model says how well it ranks those of other d. */
/* The part of its time on shared memory that a launch with tensor-core products does not hide. */
const double fat_model_shared_shown = 0.1;
/* The part of its work that a block does before it waits for the next tile. */
const double fat_model_work_before = 0.7;
/* Clocks of one step of a launch with products on tensor cores: copies by way of L2, a barrier, fragments. */
const double fat_model_copy_clocks = 550;
/* Clocks of a block beside its steps: it starts, waits for its first tiles, stores what it made. */
const double fat_model_block_clocks = 5800;
/* How sharply the longer of work and waiting decides, and of work, memory and L2: the sum of their fourth
 * powers. Where memory alone decided, all configs of a decoding or ragged call were foretold alike: ranks of
 * 95 such groups (H200) now correlate by 0.40, where they did by 0.20, and those below as before. */
const double fat_model_sharpness = 4;
/* Part of a round that the last blocks add where some have twice the work of the mean. */
const double fat_model_uneven = 0.5;
/* Part of the bytes spilled that are moved again with each tile; the rest are moved once. */
const double fat_model_spills_moved = 0.36;
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

/* Clocks of one block on the units of its SM: of n warps a scheduler each but one takes `busy`, and one
 * `sum`. */
typedef struct usage {
  double busy, sum;
  fat_limit limit; /* the unit with most to do */
} usage;

static usage use_units(const fat_arch *arch, const fat_work *w, double spills)
{
  double spilled = w->threads * w->visits * spills * fat_model_spills_moved;
  double shared_bytes = w->shared_bytes + spilled;
  bool tensor = w->tensor > 0;
  double lanes = w->fma + w->ex2 + w->issue + (tensor ? 0 : shared_bytes / SHARED_ACCESS_BYTES);
  const struct {
    fat_limit limit;
    double work, rate;
  } units[] = {
      {FAT_LIMIT_FMA, w->fma, arch->fma},          {FAT_LIMIT_TENSOR, w->tensor, arch->tensor},
      {FAT_LIMIT_EX2, w->ex2, arch->ex2},          {FAT_LIMIT_SHARED, shared_bytes, arch->shared_bytes},
      {FAT_LIMIT_ISSUE, lanes, SCHEDULERS * WARP},
  };
  usage u = {.limit = FAT_LIMIT_FMA};
  double clocks[FAT_LIMIT_COUNT] = {0};
  for (int i = 0; i < (int)(sizeof units / sizeof units[0]); i++) {
    /* A unit that an architecture lacks counts only when it is asked for, and then without end. */
    clocks[i] = units[i].work > 0 ? units[i].work / units[i].rate : 0;
    if (units[i].limit != FAT_LIMIT_ISSUE)
      u.sum += clocks[i];
    if (clocks[i] > u.busy) {
      u.busy = clocks[i];
      u.limit = units[i].limit;
    }
  }
  if (tensor) {
    double moved = spilled / arch->shared_bytes;
    double turns = clocks[1] + clocks[4] + fat_model_shared_shown * (clocks[3] - moved) + moved;
    u.busy = u.sum = fmax(turns, u.busy);
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

/* Two bounds at once: the larger, and a little more where the other comes near. */
static double together(double a, double b)
{
  const double more = fmax(a, b), less = fmin(a, b), p = fat_model_sharpness;
  return more > 0 && isfinite(more) ? more * pow(1 + pow(less / more, p), 1 / p) : more;
}

/* Clocks of one round of r resident blocks; *exposed says whether latency decides it. */
static double round_clocks(const fat_work *w, const usage *u, double r, bool *exposed)
{
  double pipe = pipe_clocks(w, u, r), alone = pipe_clocks(w, u, 1);
  bool tensor = w->tensor > 0;
  alone = tensor ? fat_model_work_before * alone + w->steps * fat_model_copy_clocks
                 : alone + w->steps * fat_model_step_clocks;
  *exposed = alone > pipe;
  return tensor ? together(pipe, alone) + fat_model_block_clocks : fmax(pipe, alone);
}

static double l2_bytes(int sm)
{
  return sm == 80 || (sm >= 90 && sm < 120) ? fat_model_l2_bytes_large : fat_model_l2_bytes;
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
  double one = round_clocks(w, &u, r, &exposed_full), full = rounds * one;
  double tail = left > 0 ? round_clocks(w, &u, left, &exposed_tail) : 0;
  if (left <= 0)
    exposed_tail = exposed_full;
  bool exposed = full >= tail ? exposed_full : exposed_tail;
  double clocks = full + tail + fat_model_uneven * w->uneven * one;

  const struct {
    fat_limit limit;
    double ms;
  } limits[] = {
      {exposed ? FAT_LIMIT_LATENCY : u.limit, clocks / clocks_per_ms},
      {FAT_LIMIT_DRAM, w->dram / (gpu->dram * 1e6 * fat_model_dram_reached)},
      {FAT_LIMIT_L2, w->l2 / (l2_bytes(gpu->sm) * gpu->sms * clocks_per_ms)},
  };
  int most = 0;
  double ms = 0;
  for (int i = 0; i < (int)(sizeof limits / sizeof limits[0]); i++) {
    most = limits[i].ms > limits[most].ms ? i : most;
    ms = together(ms, limits[i].ms);
  }
  *limit = limits[most].limit;
  return ms;
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
