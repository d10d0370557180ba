/* test_model.c -- the model's arithmetic: cases worked out by hand, and what must never turn round. */
#include "search/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

/* 10 SMs at 1 GHz with the rates of sm_75: 64 FMA, 16 ex2, 64 bytes of shared memory per SM and clock. */
static fat_gpu small_gpu(void)
{
  return (fat_gpu){.name = "small", .sm = 75, .sms = 10, .clock = 1000, .dram = 100, .memory = 16};
}

/* 8 warps, so that a block alone fills its schedulers twice. */
static fat_work plain_work(void)
{
  return (fat_work){.blocks = 40, .threads = 256, .fma = 64e3};
}

static fat_forecast predict(const fat_gpu *gpu, const fat_work *work, int blocks)
{
  fat_resident resident = {.blocks = blocks};
  return fat_model_predict(gpu, work, &resident, 1);
}

static void near(double value, double expected)
{
  if (fabs(value - expected) > 1e-9 * fabs(expected))
    fail_msg("%.12g, expected %.12g", value, expected);
}

/* 40 blocks on 10 SMs, 2 at a time: 2 rounds. A block needs 1000 clocks of FMA, nothing else: a round 2000.
 */
static void one_unit(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work work = plain_work();
  fat_forecast f = predict(&gpu, &work, 2);
  near(f.ms, 4000e-6 + fat_model_launch_ms);
  assert_int_equal(f.limit, FAT_LIMIT_FMA);
  near(f.share[FAT_LIMIT_FMA], 4000e-6);
  near(f.share[FAT_LIMIT_LAUNCH], fat_model_launch_ms);
}

/* 45 blocks: after 2 rounds 5 are left, which take a round of one block on some SMs: 1000 clocks more. */
static void tail(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work work = plain_work();
  work.blocks = 45;
  near(predict(&gpu, &work, 2).ms, 5000e-6 + fat_model_launch_ms);
  work.blocks = 50; /* the same round, full */
  near(predict(&gpu, &work, 2).ms, 5000e-6 + fat_model_launch_ms);
  work.blocks = 51; /* one block more: some SM has two */
  near(predict(&gpu, &work, 2).ms, 6000e-6 + fat_model_launch_ms);
}

/* 1000 clocks of FMA and 600 of ex2 in 8 warps. One block: 2 warps a scheduler, (1 * 1000 + 1600) * 4 / 8.
 * Two blocks: 4 warps a scheduler, (3 * 1000 + 1600) * 4 / 8: the more warps, the better the units overlap.
 */
static void units_overlap_by_warps(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work work = plain_work();
  work.ex2 = 600 * 16;
  work.blocks = 10;
  near(predict(&gpu, &work, 1).ms, 1300e-6 + fat_model_launch_ms);
  work.blocks = 20;
  near(predict(&gpu, &work, 2).ms, 2300e-6 + fat_model_launch_ms);
}

/* 2 warps of a block fill 2 of 4 schedulers: alone it takes twice as long, with a second block nothing more.
 */
static void small_blocks(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work work = plain_work();
  work.threads = 64;
  work.blocks = 10;
  near(predict(&gpu, &work, 1).ms, 2000e-6 + fat_model_launch_ms);
  work.blocks = 20;
  near(predict(&gpu, &work, 2).ms, 2000e-6 + fat_model_launch_ms);
}

/* 1000 steps expose 1000 latencies while a block is alone; three other blocks of 100,000 clocks cover them.
 */
static void latency(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work work = plain_work();
  double exposed = 1000 * fat_model_step_clocks;
  work.fma *= 100;
  work.steps = 1000;
  work.blocks = 10;
  fat_forecast alone = predict(&gpu, &work, 1);
  near(alone.ms, (100e3 + exposed) * 1e-6 + fat_model_launch_ms);
  assert_int_equal(alone.limit, FAT_LIMIT_LATENCY);
  work.blocks = 40;
  fat_forecast covered = predict(&gpu, &work, 4);
  assert_true(exposed < 300e3);
  near(covered.ms, 400e-3 + fat_model_launch_ms);
  assert_int_equal(covered.limit, FAT_LIMIT_FMA);
}

/* A part of them with each visit. */
static void spills_pass_the_shared_pipe(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work work = plain_work();
  fat_resident resident = {.blocks = 1, .spills = 100};
  work.blocks = 10;
  work.visits = 5;
  work.fma = 64; /* next to nothing */
  fat_forecast f = fat_model_predict(&gpu, &work, &resident, 1);
  /* 256 threads x 5 visits x 100 bytes at 64 a clock, then the FMA on top */
  double clocks = 2000 * fat_model_spills_moved;
  near(f.ms, ((clocks + 1) * 4 / 8.0 + clocks * 4 / 8.0) * 1e-6 + fat_model_launch_ms);
}

/* Fourth powers of what works and what waits, and what a block costs beside. */
static double tensor_round(double pipe, double alone, double waiting)
{
  double wait = fat_model_work_before * alone + waiting;
  return pow(pow(pipe, fat_model_sharpness) + pow(wait, fat_model_sharpness), 1 / fat_model_sharpness) +
         fat_model_block_clocks;
}

/* 1024e3 operations at 1024 a clock: 1000 clocks; 32e3 + 32e3 lanes at 128: 500; 64e3 bytes at 64: 1000, of
 * which a part shows. Two blocks take twice that, and wait for 3 steps. */
static void products_and_softmax_take_turns(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work w = {
      .blocks = 20, .threads = 128, .tensor = 1024e3, .fma = 32e3, .issue = 32e3, .shared_bytes = 64e3};
  double turns = 1000 + 500 + 1000 * fat_model_shared_shown;
  fat_forecast f = predict(&gpu, &w, 2);
  near(f.ms, tensor_round(2 * turns, turns, 0) * 1e-6 + fat_model_launch_ms);
  assert_int_equal(f.limit, FAT_LIMIT_TENSOR);
  w.steps = 3;
  near(predict(&gpu, &w, 2).ms,
       tensor_round(2 * turns, turns, 3 * fat_model_copy_clocks) * 1e-6 + fat_model_launch_ms);
  w.steps = 30;
  assert_int_equal(predict(&gpu, &w, 2).limit, FAT_LIMIT_LATENCY);
  w.steps = 0;
  w.threads = 64; /* half of the schedulers: a block alone takes twice as long, two take no longer */
  near(predict(&gpu, &w, 2).ms, tensor_round(2 * turns, 2 * turns, 0) * 1e-6 + fat_model_launch_ms);
  w.threads = 128;
  w.shared_bytes = 640e3; /* nothing hides it */
  f = predict(&gpu, &w, 2);
  near(f.ms, tensor_round(2 * 10000, 10000, 0) * 1e-6 + fat_model_launch_ms);
  assert_int_equal(f.limit, FAT_LIMIT_SHARED);
}

/* Blocks of which some have twice the work of the mean end later. */
static void uneven_blocks_end_later(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work w = {.blocks = 100, .threads = 128, .tensor = 1024e3, .uneven = 1};
  near(predict(&gpu, &w, 2).ms,
       (5 + fat_model_uneven) * tensor_round(2000, 1000, 0) * 1e-6 + fat_model_launch_ms);
}

/* Each unit binds when it has most to do, under its own name. */
static void limits_have_names(void **state)
{
  (void)state;
  static const char *const names[FAT_LIMIT_COUNT] = {"fma",     "tensor", "ex2", "shared", "issue",
                                                     "latency", "dram",   "l2",  "launch"};
  fat_gpu gpu = small_gpu();
  for (int limit = 0; limit < FAT_LIMIT_COUNT; limit++) {
    fat_work w = {.blocks = 80, .threads = 256, .fma = 64e3};
    double *const most[FAT_LIMIT_COUNT] = {&w.fma,   &w.tensor, &w.ex2, &w.shared_bytes, &w.issue,
                                           &w.steps, &w.dram,   &w.l2,  &w.blocks};
    *most[limit] = limit == FAT_LIMIT_LAUNCH ? 0 : limit == FAT_LIMIT_LATENCY ? 1e4 : 1e9;
    assert_string_equal(fat_model_limit_name(predict(&gpu, &w, 2).limit), names[limit]);
  }
}

/* The data centre's GPUs from the A100 on have the wider way to L2. */
static void l2_is_wider_in_the_data_centre(void **state)
{
  (void)state;
  static const struct {
    int sm;
    bool wide;
  } of[] = {{75, false}, {80, true}, {86, false}, {89, false}, {90, true}, {100, true}, {120, false}};
  fat_work work = plain_work();
  work.l2 = 1e9;
  for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
    fat_gpu gpu = small_gpu();
    gpu.sm = of[i].sm;
    fat_forecast f = predict(&gpu, &work, 2);
    near(f.ms, 1e9 / ((of[i].wide ? fat_model_l2_bytes_large : fat_model_l2_bytes) * 10 * 1e6) +
                   fat_model_launch_ms);
    assert_int_equal(f.limit, FAT_LIMIT_L2);
  }
}

/* Several launches add up; the limit is the one with the largest share of the whole. */
static void launches_add_up(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work works[3] = {plain_work(), plain_work(), plain_work()};
  fat_resident resident[3] = {{.blocks = 2}, {.blocks = 2}, {.blocks = 2}};
  works[1].fma = 0;
  works[1].dram = 1e9; /* at 89 GB/s: 11.2 ms */
  fat_forecast f = fat_model_predict(&gpu, works, resident, 3);
  near(f.ms, 2 * 4000e-6 + 1e9 / (100e6 * fat_model_dram_reached) + 3 * fat_model_launch_ms);
  assert_int_equal(f.limit, FAT_LIMIT_DRAM);
}

/* Over many made-up kernels: a faster clock, a wider bus, more SMs or less work never take longer. */
static void never_turns_round(void **state)
{
  (void)state;
  uint64_t seed = 12345;
  for (int i = 0; i < 2000; i++) {
    double r[10];
    for (int j = 0; j < 10; j++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      r[j] = (double)(seed >> 40) / (1 << 24);
    }
    fat_gpu gpu = small_gpu(), fast = gpu, narrow = gpu;
    fat_work w = {.blocks = 1 + floor(r[0] * 1000),
                  .threads = 32 + 32 * floor(r[1] * 31),
                  .fma = r[2] * 1e6,
                  .ex2 = r[3] * 1e5,
                  .shared_bytes = r[4] * 1e6,
                  .issue = r[5] * 1e6,
                  .steps = floor(r[6] * 100),
                  .dram = r[7] * 1e9,
                  .l2 = r[8] * 1e9};
    int blocks = 1 + (int)(r[9] * 8);
    double ms = predict(&gpu, &w, blocks).ms;
    fast.clock *= 2;
    narrow.dram /= 2;
    assert_true(predict(&fast, &w, blocks).ms <= ms);
    assert_true(predict(&narrow, &w, blocks).ms >= ms);
    fat_work more = w;
    more.fma *= 1.5;
    more.steps += 1;
    more.shared_bytes *= 1.1;
    assert_true(predict(&gpu, &more, blocks).ms >= ms);
    w.tensor = r[2] * 1e7; /* and so on tensor cores */
    ms = predict(&gpu, &w, blocks).ms;
    more = w;
    more.tensor *= 1.5;
    more.steps += 1;
    more.shared_bytes *= 1.1;
    more.uneven += 0.1;
    assert_true(predict(&gpu, &more, blocks).ms >= ms);
    assert_true(predict(&fast, &w, blocks).ms <= ms);
    assert_true(isfinite(ms) && ms > 0);
  }
}

static void unknown_gpu(void **state)
{
  (void)state;
  fat_gpu gpu = small_gpu();
  fat_work work = plain_work();
  gpu.sm = 42;
  assert_true(isinf(predict(&gpu, &work, 1).ms));
  gpu = small_gpu();
  gpu.clock = 0;
  assert_true(isinf(predict(&gpu, &work, 1).ms));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_unit),
      cmocka_unit_test(tail),
      cmocka_unit_test(units_overlap_by_warps),
      cmocka_unit_test(small_blocks),
      cmocka_unit_test(latency),
      cmocka_unit_test(spills_pass_the_shared_pipe),
      cmocka_unit_test(products_and_softmax_take_turns),
      cmocka_unit_test(uneven_blocks_end_later),
      cmocka_unit_test(limits_have_names),
      cmocka_unit_test(l2_is_wider_in_the_data_centre),
      cmocka_unit_test(launches_add_up),
      cmocka_unit_test(never_turns_round),
      cmocka_unit_test(unknown_gpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
