/* test_waves.c -- how tiles fill a GPU: work by hand, and which row the pick takes where that decides. */
#include "db_fixture.h"
#include "pick.h"
#include "search/agenda.h"
#include "sees.h"
#include <time.h>

static double work_of(const char *problem, const char *config, int blocks, int64_t sms)
{
  fat_problem p;
  fat_config c;
  MUST(fat_problem_parse(problem, &p, err));
  MUST(fat_config_parse(config, &c, err));
  const fat_room room = fat_reach_room(&(fat_gpu){.sms = (int)sms});
  const fat_reach reach = fat_reach_of(&p, &room);
  const fat_waves waves = fat_waves_of(&c, p.op, blocks);
  return fat_waves_work(&waves, &reach).tiles;
}

static fat_waves waves_of(const char *config, fat_op op)
{
  fat_config c;
  MUST(fat_config_parse(config, &c, err));
  return fat_waves_of(&c, op, 1);
}

static void is_work(double expected, const char *problem, const char *config, int blocks, int64_t sms)
{
  const double work = work_of(problem, config, blocks, sms);
  if (fabs(work - expected) > 1e-9 * expected)
    fail_msg("%s by %s, %d blocks on each of %d SMs: %.9g, by hand %.9g", problem, config, blocks, (int)sms,
             work, expected);
}

/* Without a mask: rounds of tiles of k keys and 224 more, of 80 more by mma.sync; see waves.c for the numbers
 * here. */
static void rounds(void **state)
{
  (void)state;
  /* 40 heads of 8 tiles: 320 of 132 SMs are 3 rounds; of 6 tiles: 240 are 2. 1024 keys are 8 tiles of 128,
   * 1120 are 10 of 112. */
  is_work(3 * (1024 + 224), "fwd-bf16-b1-h40-q1024-k1024-d96", "fwd_ws:Br128-Bc128", 1, 132);
  is_work(2 * (1120 + 224), "fwd-bf16-b1-h40-q1024-k1024-d96", "fwd_ws:Br192-Bc112", 1, 132);
  /* Exactly one round, and one tile more. */
  is_work(208, "fwd-f16-b1-h132-q64-k128-d64", "fwd:Br64-Bc64", 1, 132);
  is_work(416, "fwd-f16-b1-h133-q64-k128-d64", "fwd:Br64-Bc64", 1, 132);
  is_work(416, "fwd-f16-b1-h264-q64-k128-d64", "fwd:Br64-Bc64", 1, 132);
  /* Four blocks of an SM: 528 at once; 132 have an SM each, which takes 0.6 of a round, and each further
   * block of an SM a third of the rest; 133 give one SM two. */
  is_work(208, "fwd-f16-b1-h528-q64-k128-d64", "fwd:Br64-Bc64", 4, 132);
  is_work(208 * 0.6, "fwd-f16-b1-h132-q64-k128-d64", "fwd:Br64-Bc64", 4, 132);
  is_work(208 * (1.6 + 0.4 / 3), "fwd-f16-b1-h661-q64-k128-d64", "fwd:Br64-Bc64", 4, 132);
  /* A tile with one row of 64 takes 0.95 and a 64th of 0.05; all 4 heads of a group share one: 2 tiles for 8.
   */
  is_work(208 * (0.95 + 0.05 / 64), "fwd-f16-b1-h8k2-q1-k128-d64", "fwd:Br64-Bc64-G0", 1, 8);
  is_work(208 * (0.95 + 0.05 / 16), "fwd-f16-b1-h8k2-q1-k128-d64", "fwd:Br64-Bc64-G1", 1, 8);
}

/* Under a block mask tiles that hold several blocks, of which one in four is there, pass over more than their
 * rows see: with the edge of 128 keys that all tiles have, and each row seeing 1024 of 4096. The rows of a
 * warpgroup are 64.
 */
static void tiles_of_blocks(void **state)
{
  (void)state;
  static const struct {
    const char *blocks, *config;
    double times;
  } cases[] = {{"bs128x128", "fwd_ws:Br128-Bc128", 1},
               {"bs64x128", "fwd_ws:Br192-Bc128", 1},
               {"bs64x64", "fwd_ws:Br128-Bc64", 1},
               {"bs64x64", "fwd_ws:Br128-Bc128", 4 * (2 * (1 - 9 / 16.0) - 1 / 16.0)},
               {"bs64x64", "fwd:Br128-Bc128", 4 * (2 * (1 - 81 / 256.0) - 1 / 256.0)},
               {"bs512x512", "fwd:Br128-Bc128", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[96];
    snprintf(text, sizeof text, "fwd-bf16-b1-h528-q4096-k4096-d64-%s", cases[i].blocks);
    const double one = work_of("fwd-bf16-b1-h528-q4096-k4096-d64-bs4096x4096", cases[i].config, 1, 132),
                 all = work_of(text, cases[i].config, 1, 132);
    const double tiles = 4096 / (strstr(cases[i].config, "Br192") ? 192.0 : 128.0);
    const double rounds = (double)(int64_t)(tiles + 0.999) * 528 / 132;
    assert_true(fabs(all - one - rounds * 1024 * (cases[i].times - 1)) < 1e-6);
  }
  /* In the backward tiles are of keys, and pass over rows. */
  assert_true(work_of("bwd-bf16-b1-h528-q4096-k4096-d64-bs64x128", "bwd_ws:Br128-Bc128", 1, 132) >
              work_of("bwd-bf16-b1-h528-q4096-k4096-d64-bs64x128", "bwd_ws:Br64-Bc128", 1, 132));
  assert_true(work_of("bwd-bf16-b1-h528-q4096-k4096-d64-bs128x64", "bwd_ws:Br128-Bc128", 1, 132) ==
              work_of("bwd-bf16-b1-h528-q4096-k4096-d64-bs128x64", "bwd_ws:Br64-Bc128", 1, 132));
}

static void nothing_to_do(void **state)
{
  (void)state;
  is_work(0, "fwd-f16-b0-h8-q64-k64-d64", "fwd:Br64-Bc64", 1, 132);
  is_work(0, "fwd-f16-b1-h8-q0-k64-d64", "fwd:Br64-Bc64", 1, 132);
  is_work(0.6 * 80, "fwd-f16-b1-h8-q64-k0-d64", "fwd:Br64-Bc64", 2, 132);
  fat_problem least;
  MUST(fat_problem_parse("fwd-f16-b1-h1-q1-k1-d64", &least, err));
  assert_true(fat_reach_of(&least, &(fat_room){132, 1.0 / 132, 1e-9}).least_ms == FAT_REACH_FLOOR);
  const fat_pace pace =
      fat_waves_pace(&(fat_waves){.wanted = 0}, &(fat_reach){.keys = 0}, 1, (fat_demand){0});
  assert_true(fat_waves_ms(&pace, &(fat_reach){0}, (fat_demand){100, 0}) == pace.once);
}

/* Warpgroups whose 64 rows hold none leave the others' time: as 4.5 of them is what a tile takes beside. The
 * row, of 52 rows of 192, and the time asked for, 0.0251 ms, are an H200's; 0.0216 without that. */
static void warpgroups_without_rows(void **state)
{
  static const char *const one = "fwd_ws:Br192-Bc128-s2-q2-Q0-I1-P1-L2-Z8";
  (void)state;
  const double third = (0.95 + 0.05 / 3) * 5.5 / 7.5;
  is_work(third * (1024 + 224), "fwd-f16-b1-h16-q64-k1024-d64", "fwd_ws:Br192-Bc128", 1, 132);
  is_work(6.5 / 7.5 * (0.95 + 0.05 * 65 / 192) * (1024 + 224), "fwd-f16-b1-h16-q65-k1024-d64",
          "fwd_ws:Br192-Bc128", 1, 132);
  is_work(1024 + 224, "fwd-f16-b1-h16-q192-k1024-d64", "fwd_ws:Br192-Bc128", 1, 132);
  is_work((0.95 + 0.05 / 2) * (1024 + 224), "fwd-f16-b1-h16-q32-k1024-d64", "fwd_ws:Br64-Bc128", 1, 132);
  const double was = work_of("fwd-bf16-b12-h35-q52-k16163-d64-causal", one, 1, 132),
               is = work_of("fwd-bf16-b1-h7-q2148-k2148-d64-causal", one, 1, 132);
  assert_true(fabs(0.4886 * is / was / 0.0251 - 1) < 0.07);
}

/* Two blocks of a cluster that copy for each other have tiles of one head: where that has an odd number of
 * them, the last pair does half as much. 29 heads of 77 rows, d 256, were given such a kernel, which took 24
 * us for 16 (H200). */
static void pairs_of_tiles(void **state)
{
  (void)state;
  is_work(1024 + 224, "fwd-bf16-b1-h132-q64-k1024-d64", "fwd_ws:Br64-Bc128", 1, 132);
  is_work(2 * 0.975 * 10 / 11 * (1024 + 224), "fwd-bf16-b1-h132-q64-k1024-d64", "fwd_ws:Br64-Bc128-M1", 1,
          132);
  is_work(2 * (1024 + 224), "fwd-bf16-b1-h132-q128-k1024-d64", "fwd_ws:Br64-Bc128-M1", 1, 132);
  is_work(4 * (1024 + 224), "fwd-bf16-b1-h132-q192-k1024-d64", "fwd_ws:Br64-Bc128-M1", 1, 132);
  is_work(3 * (1024 + 224), "fwd-bf16-b1-h132-q192-k1024-d64", "fwd_ws:Br64-Bc128", 1, 132);
}

/* Blocks whose warps have a scheduler each hardly wait for each other: one alone takes 0.8 of a round, and
 * each further block of an SM its part of the rest. The rows and the time asked for, 0.0629 ms, are an
 * H200's. */
static void blocks_of_few_warps(void **state)
{
  static const char *const one = "fwd:Br16-Bc48-w1-s2-Q0-b1-Z1-W16";
  (void)state;
  is_work(208 * 0.8, "fwd-f16-b1-h132-q64-k128-d64", "fwd:Br64-Bc64-w1", 4, 132);
  is_work(208 * (0.8 + 0.2 / 3), "fwd-f16-b1-h264-q64-k128-d64", "fwd:Br64-Bc64-w1", 4, 132);
  is_work(208 * 0.8, "fwd-f16-b1-h132-q64-k128-d64", "fwd:Br64-Bc64-w2", 2, 132);
  is_work(208 * 0.6, "fwd-f16-b1-h132-q64-k128-d64", "fwd:Br64-Bc64-w2", 4, 132);
  is_work(208, "fwd-f16-b1-h132-q64-k128-d64", "fwd:Br64-Bc64-w1", 1, 132);
  const double was = work_of("fwd-bf16-b10-h18-q3-k8598-d256-causal", one, 2, 132),
               is = work_of("fwd-bf16-b3-h34-q3-k1387-d256-causal", one, 2, 132);
  assert_true(fabs(0.3724 * is / was / 0.0629 - 1) < 0.25);
}

/* Splits of the keys: as many times the blocks, each with its share of the keys. 32 tiles leave N * 132 SMs'
 * room for 4, 8 or 16 of each; `split2048` makes 4 whatever N is. */
static void splits(void **state)
{
  (void)state;
  is_work(8192 + 80, "fwd-f16-b1-h32-q64-k8192-d64", "fwd:Br64-Bc64", 1, 132);
  is_work(2048 + 80, "fwd-f16-b1-h32-q64-k8192-d64", "fwd:Br64-Bc64-N1", 1, 132);
  is_work(2 * (1024 + 80), "fwd-f16-b1-h32-q64-k8192-d64", "fwd:Br64-Bc64-N2", 1, 132);
  is_work(512 + 80, "fwd-f16-b1-h32-q64-k8192-d64", "fwd:Br64-Bc64-N4", 4, 132);
  is_work(64 + 80, "fwd-f16-b1-h32-q64-k128-d64", "fwd:Br64-Bc64-N4", 1,
          132); /* single tiles of keys at most */
  is_work(2 * (8192 + 80), "fwd-f16-b6-h32-q64-k8192-d64", "fwd:Br64-Bc64-N1", 1,
          132); /* no room for a second */
  /* Where blocks of a cluster merge them, 8 at most, as the recipe has it: two tiles more than there are
   * share 33 quarters of a GPC of 16 SMs. */
  is_work(1024 + 80, "fwd-f16-b1-h4-q64-k8192-d64", "fwd:Br64-Bc64-N1-M8", 1, 132);
  is_work(1024 + 80, "fwd-f16-b1-h14-q64-k8192-d64", "fwd:Br64-Bc64-N1-M8", 1, 132);
  is_work(8192 / 5.0 + 80, "fwd-f16-b1-h15-q64-k8192-d64", "fwd:Br64-Bc64-N1-M8", 1, 132);
  is_work(8192 / 5.0 + 80, "fwd-f16-b1-h20-q64-k8192-d64", "fwd:Br64-Bc64-N1-M8", 1, 132);
  is_work(8192 / 3.0 + 80, "fwd-f16-b1-h33-q64-k8192-d64", "fwd:Br64-Bc64-N1-M8", 1, 132);
  is_work(4096 + 80, "fwd-f16-b1-h64-q64-k8192-d64", "fwd:Br64-Bc64-N1-M8", 1, 132);
  is_work(8192 + 80, "fwd-f16-b1-h65-q64-k8192-d64", "fwd:Br64-Bc64-N1-M8", 1, 132);
  is_work(2048 + 80, "fwd-f16-b1-h2-q64-k8192-d64", "fwd:Br64-Bc64-N1-M8", 1, 16);
  is_work(8192 / 33.0 + 80, "fwd-f16-b1-h4-q64-k8192-d64", "fwd:Br64-Bc64-N1", 1, 132);
  is_work(2048 + 80, "fwd-f16-b1-h32-q64-k8192-d64-split2048", "fwd:Br64-Bc64", 1, 132);
  is_work(2048 + 80, "fwd-f16-b1-h32-q64-k8192-d64-causal-split2048", "fwd:Br64-Bc64", 1, 132);
  const fat_waves whole = waves_of("fwd:Br64-Bc64", FAT_FWD), split = waves_of("fwd:Br64-Bc64-N2", FAT_FWD);
  const fat_reach reach = {.keys = 64, .mean = 64};
  assert_true(fat_waves_pace(&split, &reach, 1, (fat_demand){1, 0}).once ==
              2 * fat_waves_pace(&whole, &reach, 1, (fat_demand){1, 0}).once);
}

/* A launch that merges splits takes longer the more there are, and the more rows: times of an H200, the
 * second foretold from the first as 11 us without that. Clusters have no such launch. */
static void merging_takes_time(void **state)
{
  static const char *const config = "fwd:Br64-Bc64-w4-s2-Q0-b1-Z1-W16-G1-N2";
  (void)state;
  fat_problem four, many;
  const fat_room room = {.sms = 132, .per_sm = 1.0 / 132};
  MUST(fat_problem_parse("fwd-f16-b8-h32k8-q4-k8192-d128", &four, err));
  MUST(fat_problem_parse("fwd-f16-b3-h7k1-q9-k8211-d128", &many, err));
  const fat_reach from = fat_reach_of(&four, &room), to = fat_reach_of(&many, &room);
  fat_waves w = waves_of(config, FAT_FWD);
  w.blocks = 2;
  w.per_block = 0.5;
  w.step_ms = 0; /* the next test's */
  const fat_demand was = fat_waves_work(&w, &from), is = fat_waves_work(&w, &to);
  assert_true(fabs(is.beside - 88 * (4e-5 + 1e-9 * 4 * 189 * 129)) < 1e-9);
  const fat_pace pace = fat_waves_pace(&w, &from, 0.0737, was);
  assert_true(fabs(fat_waves_ms(&pace, &from, was) - 0.0737) < 1e-9);
  assert_true(fabs(fat_waves_ms(&pace, &to, is) / 0.0239 - 1) < 0.25);
  w.most = 8;
  assert_true(fat_waves_work(&w, &to).beside == 0);
  w = waves_of("fwd:Br64-Bc64", FAT_FWD);
  assert_true(fat_waves_work(&w, &to).beside == 0);
}

/* A step by mma.sync takes as long at least as its barriers and latencies, in each round, whatever it has of
 * keys; what CUDA cores or warpgroups do is counted by keys alone. */
static void steps_take_time(void **state)
{
  (void)state;
  fat_problem p;
  const fat_room room = {.sms = 132, .per_sm = 1.0 / 132};
  MUST(fat_problem_parse("fwd-bf16-b1-h264-q64-k1024-d64", &p, err));
  const fat_reach reach = fat_reach_of(&p, &room);
  const fat_waves wide = waves_of("fwd:Br64-Bc64-w4-s1", FAT_FWD),
                  narrow = waves_of("fwd:Br64-Bc16-w4-s2", FAT_FWD),
                  split = waves_of("fwd:Br64-Bc16-w4-s2-N4-M8", FAT_FWD),
                  cores = waves_of("fwd:Br64-Bc16-T128", FAT_FWD),
                  groups = waves_of("fwd_ws:Br64-Bc64-s2", FAT_FWD);
  assert_true(fabs(fat_waves_work(&wide, &reach).beside - 2 * 16 * wide.step_ms) < 1e-12);
  assert_true(fabs(fat_waves_work(&narrow, &reach).beside - 2 * 64 * narrow.step_ms) < 1e-12);
  assert_true(wide.step_ms > 0 &&
              fat_waves_work(&split, &reach).beside == fat_waves_work(&narrow, &reach).beside);
  assert_true(cores.step_ms == 0 && groups.step_ms == 0);
}

/* A backward takes what memory does for D and, where other launches clear and round them, dQ's sums, however
 * few keys there are; a time of 16 times as many foretells it. */
static void a_backward_has_launches_beside(void **state)
{
  (void)state;
  fat_problem far, near;
  const fat_room room = {.sms = 132, .per_sm = 1.0 / 132, .ms_per_byte = 1e-9};
  MUST(fat_problem_parse("bwd-bf16-b1-h16-q16384-k16384-d128", &far, err));
  MUST(fat_problem_parse("bwd-bf16-b16-h16-q1024-k1024-d128", &near, err));
  const fat_reach from = fat_reach_of(&far, &room), to = fat_reach_of(&near, &room);
  assert_true(fabs(to.memory_ms - 1e-9 / 0.6 * 16 * 16384 * 128 * 4) < 1e-12);
  assert_true(fabs(to.sums_ms - 1e-9 / 0.6 * 16 * 16384 * 128 * 10) < 1e-12);
  fat_waves w = waves_of("bwd_ws:Br64-Bc128", FAT_BWD);
  assert_true(w.sums == 1 && waves_of("bwd_ws:Br64-Bc128-H1", FAT_BWD).sums == 0);
  assert_true(waves_of("bwd_ws:Br64-Bc128-T1", FAT_BWD).sums == 1 &&
              waves_of("bwd_pair:Br64-T2", FAT_BWD).sums == 0);
  assert_true(waves_of("bwd_two:Br64-Bc64", FAT_BWD).sums == 0 &&
              waves_of("fwd_ws:Br128-Bc128", FAT_FWD).sums == 0);
  assert_true(fabs(waves_of("bwd_ws:Br64-Bc128-H1", FAT_BWD).once - w.once * 2 / 3) < 1e-12 &&
              fabs(waves_of("bwd_pair:Br64-T2", FAT_BWD).once - w.once * 2 / 3) < 1e-12 &&
              waves_of("bwd_two:Br64-Bc64", FAT_BWD).once == w.once);
  const fat_demand work = fat_waves_work(&w, &from), less = fat_waves_work(&w, &to);
  const fat_pace pace = fat_waves_pace(&w, &from, 8, work);
  assert_true(fabs(fat_waves_ms(&pace, &from, work) - 8) < 1e-9);
  const double beside = to.memory_ms + to.sums_ms;
  assert_true(fabs(fat_waves_ms(&pace, &to, less) - pace.once - beside -
                   (8 - pace.once - beside) * less.tiles / work.tiles) < 1e-9);
}

/* Blocks that stay draw one tile after another, late where few are left: to fill the SMs as blocks of a tile
 * do. */
static void blocks_that_stay_are_as_others(void **state)
{
  (void)state;
  const char *const stays = "bwd_ws:Br64-Bc128-Z8-H2";
  is_work(1024 + 160, "bwd-bf16-b1-h16-q1024-k1024-d128", stays, 1, 132);
  is_work(4 * (1024 + 160), "bwd-bf16-b4-h16-q1024-k1024-d128", stays, 1, 132);
  is_work(1024 + 160, "bwd-bf16-b1-h16-q1024-k1024-d128-causal", stays, 1, 132);
}

/* Whose first lays dQ down: all tiles of a head see the same rows without a mask, and each begins when the
 * one before has done a step; under a mask they have fewer by as many. */
static void tiles_in_turn_begin_behind_each_other(void **state)
{
  (void)state;
  const char *const turns = "bwd_ws:Br64-Bc128-Z64-H2-T2";
  is_work(1024 + 160 + 7 * 64, "bwd-bf16-b1-h16-q1024-k1024-d128", turns, 1, 132);
  is_work(4 * (1024 + 160) + 7 * 64, "bwd-bf16-b4-h16-q1024-k1024-d128", turns, 1, 132);
  is_work(1024 + 160, "bwd-bf16-b1-h16-q1024-k1024-d128-causal", turns, 1, 132);
  is_work(1024 + 160, "bwd-bf16-b1-h16-q1024-k1024-d128", "bwd_ws:Br64-Bc128-Z64-H2-T1", 1, 132);
  is_work(1024 + 160, "bwd-bf16-b1-h16-q1024-k1024-d128", "bwd_ws:Br64-Bc128-Z1-H2-T4", 1, 132);
}

/* Blocks that have whole heads: 8 heads are 8 blocks, however many tiles they have; 133 are two rounds. */
static void blocks_have_whole_heads(void **state)
{
  (void)state;
  const char *const owns = "bwd_ws:Br128-Bc128-H1";
  is_work(16 * (2048 + 160), "bwd-bf16-b1-h8-q2048-k2048-d64", owns, 1, 132);
  is_work(16 * (2048 + 160), "bwd-bf16-b1-h132-q2048-k2048-d64", owns, 1, 132);
  is_work(2 * 16 * (2048 + 160), "bwd-bf16-b1-h133-q2048-k2048-d64", owns, 1, 132);
  is_work(16 * (1024.5 + 64 - 0.5 + 160), "bwd-bf16-b1-h8-q2048-k2048-d64-causal", owns, 1, 132);
}

/* Blocks that have a tile of keys together are more, each of fewer steps; they leave sums for the last. */
static void tiles_of_keys_are_parted(void **state)
{
  (void)state;
  const char *const mqa = "bwd-bf16-b1-h8k1-q4096-k4096-d128";
  is_work(8 * 4096 + 160 + 7 * 8, mqa, "bwd_ws:Br64-Bc128", 1, 132);
  is_work(4 * 4096 + 160 + 3 * 8, mqa, "bwd_ws:Br64-Bc128-G2", 1, 132);
  is_work(4096 + 160, mqa, "bwd_ws:Br64-Bc128-G8", 1, 256);
  /* One head alone, too, as far as it has two steps for each. */
  is_work(2048 + 160, "bwd-bf16-b1-h2-q4096-k4096-d128", "bwd_ws:Br64-Bc128-G2", 1, 128);
  is_work(128 + 160 + 160, "bwd-bf16-b1-h64-q128-k256-d128", "bwd_ws:Br64-Bc128-G2", 1, 128);
  const fat_room room = {132, 1.0 / 132, 1e-9};
  fat_problem p;
  MUST(fat_problem_parse(mqa, &p, err));
  const fat_reach reach = fat_reach_of(&p, &room);
  const fat_waves whole = waves_of("bwd_ws:Br64-Bc128", FAT_BWD),
                  two = waves_of("bwd_ws:Br64-Bc128-G2", FAT_BWD),
                  four = waves_of("bwd_ws:Br64-Bc128-G4", FAT_BWD);
  assert_true(fat_waves_work(&whole, &reach).beside == 0 && two.once == whole.once);
  assert_true(fat_waves_work(&four, &reach).beside == 2 * fat_waves_work(&two, &reach).beside);
}

/* Of a ragged call there are as many batches as its rows or keys would fill, as long as the longest: here
 * two. */
static void ragged_batches_are_fewer(void **state)
{
  (void)state;
  static const char *const texts[][3] = {
      {"fwd-bf16-b8-h8-q2048-k2048-d64-varlen", "fwd-bf16-b2-h8-q2048-k2048-d64", "fwd_ws:Br128-Bc128"},
      {"bwd-bf16-b8-h8k1-q2048-k2048-d64-causal-varlen", "bwd-bf16-b2-h8k1-q2048-k2048-d64-causal",
       "bwd_ws:Br64-Bc128-G4"}};
  const fat_room room = {132, 1.0 / 132, 1e-9};
  for (int i = 0; i < 2; i++) {
    fat_problem ragged, even;
    MUST(fat_problem_parse(texts[i][0], &ragged, err));
    MUST(fat_problem_parse(texts[i][1], &even, err));
    ragged.arg[FAT_VARLEN][0] = ragged.arg[FAT_VARLEN][1] = 1 + 2 * 2048; /* as a call tells it */
    const fat_reach r = fat_reach_of(&ragged, &room), e = fat_reach_of(&even, &room);
    const fat_waves w = waves_of(texts[i][2], even.op);
    assert_true(fat_waves_work(&w, &r).tiles == fat_waves_work(&w, &e).tiles);
    assert_true(r.sums_ms == e.sums_ms && r.part_ms == e.part_ms);
    assert_true(r.memory_ms ==
                (even.op == FAT_FWD ? 0 : e.memory_ms)); /* what has which length no text tells */
    ragged.arg[FAT_VARLEN][0] = ragged.arg[FAT_VARLEN][1] = 1 + 8 * 2048;
    const fat_reach full = fat_reach_of(&ragged, &room);
    assert_true(fat_waves_work(&w, &r).tiles < fat_waves_work(&w, &full).tiles);
    /* Rows of Q are counted by themselves, for D, dQ's sums and what lies near. */
    ragged.arg[FAT_VARLEN][1] = 1 + 2 * 2048;
    const fat_reach few_keys = fat_reach_of(&ragged, &room);
    assert_true(few_keys.memory_ms == full.memory_ms && few_keys.sums_ms == full.sums_ms);
    assert_true(even.op == FAT_BWD ? few_keys.heads == e.heads : few_keys.heads == full.heads);
    ragged.arg[FAT_VARLEN][0] = ragged.arg[FAT_VARLEN][1];
    assert_true(fat_candidate_distance(&ragged, &even) == 0);
  }
}

/* A tile of so few steps that one block has them lays no sums down for another. */
static void sums_of_one_block_are_not_laid(void **state)
{
  (void)state;
  fat_problem few, many;
  const fat_room room = {132, 1.0 / 132, 1e-9};
  MUST(fat_problem_parse("bwd-bf16-b1-h32-q128-k16384-d128", &few, err));
  MUST(fat_problem_parse("bwd-bf16-b1-h32-q1024-k16384-d128", &many, err));
  const fat_waves w = waves_of("bwd_ws:Br64-Bc128-G8", FAT_BWD);
  const fat_reach f = fat_reach_of(&few, &room), m = fat_reach_of(&many, &room);
  assert_true(f.part_ms == m.part_ms);
  assert_true(fat_waves_work(&w, &f).beside == 0);
  assert_true(fat_waves_work(&w, &m).beside == 8 * m.part_ms);
}

/* Under a mask tiles differ: their sum, divided, or the last of the longest. */
static void masks(void **state)
{
  (void)state;
  /* Rows see 512.5 keys in the mean, a tile of 128 visits 63.5 more: 576. 128 tiles on 256 SMs: the longest's
   * time. */
  is_work(1024 + 224, "fwd-f16-b1-h16-q1024-k1024-d64-causal", "fwd_ws:Br128-Bc128-Z16", 1, 256);
  /* 1024 tiles on 128 SMs, 8 for each: more than the 6 rounds after which the last 128 begin, and their
   * longest. */
  is_work(8 * (576 + 224), "fwd-f16-b8-h16-q1024-k1024-d64-causal", "fwd_ws:Br128-Bc128-Z16", 1, 128);
  /* One head after another: 192 tiles, the last 8 of which begin behind (192 - 8 - 128) / 128 rounds. */
  is_work(56.0 / 128 * 656 + 1104, "fwd-f16-b1-h24-q1024-k1024-d64-causal", "fwd:Br128-Bc128-Z1", 1, 128);
  is_work(1104, "fwd-f16-b1-h24-q1024-k1024-d64-causal", "fwd:Br128-Bc128-Z16", 1, 128);
  /* fwd_ws lets all begin together that do not fill 2 tiles of an SM each; of the second round half is idle,
   * for as long as the shortest tile takes, whose rows see 1 key and more. */
  is_work(1.5 * (576 + 224) + 0.5 * (1 + 63.5 + 224), "fwd-f16-b1-h24-q1024-k1024-d64-causal",
          "fwd_ws:Br128-Bc128-Z1", 1, 128);
  /* Tiles of 192 end amid those of 128: their greatest divisor is 64, so 32 keys more in the mean. */
  is_work(6 * 16 * 8 / 96.0 * (512.5 + 95.5 + 32 + 224), "fwd-f16-b8-h16-q1024-k1024-d64-causal",
          "fwd_ws:Br192-Bc128-Z64", 1, 96);
  /* A window of 128 keys and both its ends: 255 and the keys of whole tiles, 64 - 64; less at the first rows.
   */
  is_work(1024 / 64.0 * 8 / 4 * (128 - 127 * 128 / 2.0 / 1024 + 63 + 80),
          "fwd-f16-b1-h8-q1024-k1024-d64-causal-w127.0", "fwd:Br64-Bc64-Z8", 1, 4);
}

/* The backward's tiles are of K, and pass over rows of Q. */
/* A call asks how far its masks reach: under a mask of blocks too that takes no walk over them. */
static void blocks_are_reached_at_once(void **state)
{
  enum { CALLS = 50 };
  (void)state;
  fat_problem p;
  fat_reach reach = {0};
  const fat_room room = fat_reach_room(fixture_gpu("H200"));
  MUST(fat_problem_parse("fwd-f16-b4-h16-q4096-k65536-d128-causal-bs64x64", &p, err));
  const clock_t begin = clock();
  for (int i = 0; i < CALLS; i++)
    reach = fat_reach_of(&p, &room);
  assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 0.02);
  assert_true(fabs(reach.mean * (double)p.q / fat_sees_pairs(&p) - 1) < 0.03);
}

static void backward(void **state)
{
  (void)state;
  is_work(2 * (4096 + 64), "bwd-f16-b1-h16-q4096-k1024-d64", "bwd:Br64-Bc64", 1, 128);
  is_work(1 * (4096 + 64), "bwd-f16-b1-h16-q4096-k1024-d64", "bwd:Br64-Bc128", 1, 128);
  is_work(4096 + 160, "bwd-bf16-b1-h16-q4096-k1024-d256", "bwd_pair:Br64-Bc128", 1, 128);
  /* Tiles of a fourth of the heads pass over the rows of four, each of which has tiles of its own, and ends
   * for itself under a mask; by wgmma 8 keys more for each head that follows. */
  is_work(4 * 64 + 64, "bwd-f16-b1-h64k16-q10-k1024-d64", "bwd:Br64-Bc128", 1, 128);
  is_work(4 * 4096 + 64, "bwd-f16-b1-h64k16-q4096-k1024-d64", "bwd:Br64-Bc128", 1, 128);
  is_work(16 / 8.0 * (4 * (512.5 + 64 - 0.5) + 160 + 3 * 8), "bwd-bf16-b1-h64k16-q1024-k1024-d64-causal",
          "bwd_ws:Br128-Bc128-Z16", 1, 64);
}

/* Whatever may win unasked has the tunables that are read here; another name would count as tiles of 64.
 * (bwd_wide and bwd_pair, which have none at d 128, have no Bc: their tiles are of 64 keys.) */
static void kernels_have_tiles(void **state)
{
  static const char *const problems[] = {"fwd-bf16-b4-h16-q4096-k4096-d128", "fwd-f32-b4-h16-q4096-k4096-d64",
                                         "bwd-bf16-b4-h16-q4096-k4096-d128"};
  fat_script *script;
  (void)state;
  MUST(fat_script_open(NULL, &script, err));
  for (int i = 0; i < 3; i++) {
    const fat_goal goal = {.problems = &problems[i], .problem_count = 1};
    fat_agenda agenda;
    MUST(fat_agenda_list(&goal, fixture_gpu("H200"), script, &agenda, err));
    for (int k = 0; k < agenda.list[0].kernel_count; k++) {
      fat_point point;
      int32_t value;
      if (agenda.list[0].kernels[k].picked == 0)
        continue;
      const fat_status status = fat_space_default(script, agenda.list[0].kernels[k].name,
                                                  &agenda.list[0].problem, fixture_gpu("H200"), &point, NULL);
      const char *name = agenda.list[0].kernels[k].name;
      if (status == FAT_E_UNSUPPORTED && (!strcmp(name, "bwd_wide") || !strcmp(name, "bwd_pair")))
        continue;
      assert_int_equal(status, FAT_OK);
      assert_int_equal(fat_config_get(&point.config, "Br", &value), FAT_OK);
      assert_int_equal(fat_config_get(&point.config, "Bc", &value), FAT_OK);
    }
    fat_agenda_free(&agenda);
  }
  fat_script_close(script);
}

/* -- the pick */

static void put_with_blocks(fat_db *db, const char *problem, const char *config, double ms, int blocks)
{
  fat_trial t = fixture_trial(problem, "H200", config, ms);
  t.origin = FAT_MEASURED;
  t.driver = "580.1";
  t.blocks_per_sm = blocks;
  MUST(fat_db_put(db, &t, NULL, err));
}

static void put(fat_db *db, const char *problem, const char *config, double ms)
{
  put_with_blocks(db, problem, config, ms, 1);
}

static fat_pick ask(fat_db *db, const char *problem, fat_pick_rows *rows)
{
  fat_problem p;
  fat_pick pick;
  MUST(fat_problem_parse(problem, &p, err));
  const fat_pick_question q = {.problem = &p, .gpu = fixture_gpu("H200"), .now = (int64_t)time(NULL)};
  MUST(fat_pick_answer(db, &q, rows, &pick, err));
  return pick;
}

static void expect(fat_db *db, const char *problem, const char *config, double ms)
{
  fat_pick_rows rows = {0};
  const fat_pick pick = ask(db, problem, &rows);
  const fat_candidate *row = &pick.row[FAT_PICK_NEAREST];
  if (pick.step != FAT_PICK_NEAREST || strcmp(row->config, config) != 0 || fabs(row->expected - ms) > 1e-9)
    fail_msg("%s: %s; expected %s with %.9g ms", problem, pick.why[pick.step], config, ms);
  fat_pick_rows_free(&rows);
}

static void is_picked(fat_db *db, const char *problem, const char *config)
{
  fat_pick_rows rows = {0};
  const fat_pick pick = ask(db, problem, &rows);
  assert_string_equal(pick.row[pick.step].config, config);
  fat_pick_rows_free(&rows);
}

/* A quarter of what an H200's memory takes for Q, K, V and O of so many heads, rows and columns. */
static double unhidden(double heads, double rows, double d)
{
  return 0.25 * heads * 4 * rows * d * 2 * 1e-6 / 4800 / 0.9;
}

/* 320 tiles of 128 rows are 3 rounds on 132 SMs, 240 of 192 are 2. The rows are an H200's, the nearest first.
 */
static void the_fuller_rounds(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, "fwd-bf16-b2-h16-q1024-k1024-d96", "fwd_ws:Br128-Bc128", 0.0346773);
  put(db, "fwd-bf16-b4-h21-q4096-k4096-d96", "fwd_ws:Br192-Bc112", 0.850944);
  /* 84 heads of 22 tiles: 14 rounds of 37 * 112 keys. The nearest: 256 tiles, 2 rounds, so 3 / 2 of its time.
   */
  expect(db, "fwd-bf16-b1-h40-q1024-k1024-d96", "fwd_ws:Br192-Bc112",
         0.0025 + unhidden(40, 1024, 96) +
             (0.848444 - unhidden(84, 4096, 96)) * (2 * 1344) / (14 * (37 * 112 + 224)));
  /* 32 heads fill two rounds of either, and the nearer row has the shorter ones. */
  expect(db, "fwd-bf16-b1-h32-q1024-k1024-d96", "fwd_ws:Br128-Bc128", 0.0346773);
  fat_db_close(db);
}

/* 36 heads are 288 tiles of 192 or 864 of 64, which need 2.2 and 6.5 rounds; the nearer row is of the latter.
 */
static void the_fuller_rounds_under_a_mask(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  const double near = 0.5, far = 0.55;
  put(db, "fwd-bf16-b8-h32-q2048-k2048-d64-causal", "fwd_ws:Br64-Bc128-Z16", near);
  put(db, "fwd-bf16-b4-h32-q4096-k4096-d64-causal", "fwd_ws:Br192-Bc128-Z16", far);
  /* 36 heads of 8 tiles of 192: 288 / 132 rounds of 750.5 + 96 - 0.5 + 32 + 224 keys, above 1536 + 224, and
   * what they lack of 3 times the shortest tile; where it was measured 128 heads of 22 tiles, 2816 / 132
   * rounds of 2048.5 + 127.5 + 224. */
  const double shortest = 1 + 127.5 + 224;
  expect(db, "fwd-bf16-b3-h12-q1500-k1500-d64-causal", "fwd_ws:Br192-Bc128-Z16",
         0.0025 + unhidden(36, 1500, 64) +
             (far - 0.0025 - unhidden(128, 4096, 64)) * (288 / 132.0 * 1102 + 108 / 132.0 * shortest) /
                 (2816 / 132.0 * 2400 + 88 / 132.0 * shortest));
  fat_db_close(db);
}

/* A time that the launch makes half of says much of the shapes beside it and little of a full GPU, and
 * nothing goes faster than device memory. The rows are an H200's. */
static void tiles_of_tiny_shapes(void **state)
{
  static const char *const tiny = "fwd:Br32-Bc16-w2-s2-Q0-b1-Z1-W16",
                           *const full = "fwd_ws:Br128-Bc128-s2-q2-Q0-I2-P1-L2-Z1-E1";
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put_with_blocks(db, "fwd-bf16-b8-h16-q16-k16-d128", tiny, 0.0035792, 6);
  put(db, "fwd-bf16-b32-h16-q512-k512-d128", full, 0.125408);
  is_picked(db, "fwd-bf16-b23-h12k6-q13-k13-d128", tiny);
  is_picked(db, "fwd-bf16-b8-h25-q196-k191-d128", full);
  /* K and V of 8 x 16 heads, Q and O, at nine tenths of 4,800 GB/s. */
  expect(db, "fwd-bf16-b8-h16-q1-k63196-d128", full, 128 * 2 * (63196.0 + 1) * 256 / 4320e6);
  fat_db_close(db);
}

/* The kernel that is fastest over a long cache launches twice: few keys get one launch, and among times that
 * are mostly waiting what is near decides, not what promises nothing. The rows are an H200's, as they are
 * below. */
static void few_keys_are_not_split(void **state)
{
  static const char *const splits = "fwd:Br32-Bc64-w2-s3-Q0-b1-Z8-W16-G1-N2",
                           *const tiny = "fwd:Br32-Bc16-w2-s2-Q1-b1-Z1-W16";
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put_with_blocks(db, "fwd-bf16-b8-h64k16-q1-k8192-d64-causal", splits, 0.0722, 4);
  put_with_blocks(db, "fwd-bf16-b8-h16-q16-k16-d64-causal", tiny, 0.0033964, 6);
  is_picked(db, "fwd-bf16-b11-h28k4-q10-k102-d64-causal", tiny);
  is_picked(db, "fwd-bf16-b1-h3-q4-k5-d64-causal", tiny);
  is_picked(db, "fwd-bf16-b8-h64k16-q1-k4096-d64-causal", splits);
  fat_db_close(db);
}

/* One stage is the fastest where one step passes all keys, and waits at each of many. */
static void one_stage_for_one_step(void **state)
{
  static const char *const one = "fwd_ws:Br64-Bc32-s1-q2-Q0-I0-P0-L0-Z1",
                           *const two = "fwd_ws:Br64-Bc80-s2-q2-Q0-I2-P0-L2-Z1";
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  put(db, "fwd-bf16-b8-h16-q1024-k16-d256", one, 0.0449547);
  put(db, "fwd-bf16-b8-h8-q320-k320-d256", two, 0.0234347);
  is_picked(db, "fwd-bf16-b13-h20-q159-k159-d256", two);
  is_picked(db, "fwd-bf16-b6-h19-q1468-k2-d256", one);
  fat_db_close(db);
}

/* What was measured at the very shape needs no word of others, and all are listed with what they promise. */
static void the_very_shape_and_the_list(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_pick_rows rows = {0};
  const fat_candidate *row[FAT_PICK_LISTED];
  put(db, "fwd-bf16-b2-h16-q1024-k1024-d96", "fwd_ws:Br128-Bc128", 9);
  put(db, "fwd-bf16-b4-h21-q4096-k4096-d96", "fwd_ws:Br192-Bc112", 0.8);
  fat_pick pick = ask(db, "fwd-bf16-b2-h16-q1024-k1024-d96", &rows);
  assert_int_equal(pick.step, FAT_PICK_EXACT);
  assert_int_equal(fat_pick_list_weighed(&pick, row), 0);
  pick = ask(db, "fwd-bf16-b2-h16-q1000-k1000-d96", &rows);
  assert_int_equal(fat_pick_list_weighed(&pick, row), 2);
  assert_string_equal(row[0]->config, "fwd_ws:Br192-Bc112");
  assert_string_equal(row[1]->config, "fwd_ws:Br128-Bc128");
  assert_true(row[0]->score < row[1]->score && row[0]->distance > row[1]->distance);
  fat_pick_rows_free(&rows);
  fat_db_close(db);
}

/* More rows than are listed: those that promise most. */
static void a_long_list(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_pick_rows rows = {0};
  const fat_candidate *row[FAT_PICK_LISTED];
  for (int i = 0; i < FAT_PICK_LISTED + 3; i++) {
    char problem[FAT_PROBLEM_TEXT];
    snprintf(problem, sizeof problem, "fwd-bf16-b%d-h132-q64-k64-d96", 40 - i); /* so many rounds */
    put(db, problem, "fwd:Br64-Bc64", (40 - i) * (1.0 + ((7 * i) % 27)));
  }
  const fat_pick pick = ask(db, "fwd-bf16-b41-h132-q64-k64-d96", &rows);
  assert_int_equal(fat_pick_list_weighed(&pick, row), FAT_PICK_LISTED);
  for (int i = 1; i < FAT_PICK_LISTED; i++)
    assert_true(row[i]->score > row[i - 1]->score);
  assert_true(pick.row[FAT_PICK_NEAREST].score == row[0]->score && row[0]->expected < 42);
  fat_pick_rows_free(&rows);
  fat_db_close(db);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_open, fixture_close)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rounds),
      cmocka_unit_test(tiles_of_blocks),
      cmocka_unit_test(nothing_to_do),
      cmocka_unit_test(warpgroups_without_rows),
      cmocka_unit_test(pairs_of_tiles),
      cmocka_unit_test(blocks_of_few_warps),
      cmocka_unit_test(splits),
      cmocka_unit_test(merging_takes_time),
      cmocka_unit_test(steps_take_time),
      cmocka_unit_test(a_backward_has_launches_beside),
      cmocka_unit_test(blocks_that_stay_are_as_others),
      cmocka_unit_test(tiles_in_turn_begin_behind_each_other),
      cmocka_unit_test(blocks_have_whole_heads),
      cmocka_unit_test(tiles_of_keys_are_parted),
      cmocka_unit_test(ragged_batches_are_fewer),
      cmocka_unit_test(sums_of_one_block_are_not_laid),
      cmocka_unit_test(masks),
      cmocka_unit_test(backward),
      cmocka_unit_test(blocks_are_reached_at_once),
      cmocka_unit_test(kernels_have_tiles),
      IN_FOLDER(the_fuller_rounds),
      IN_FOLDER(the_fuller_rounds_under_a_mask),
      IN_FOLDER(tiles_of_tiny_shapes),
      IN_FOLDER(few_keys_are_not_split),
      IN_FOLDER(one_stage_for_one_step),
      IN_FOLDER(the_very_shape_and_the_list),
      IN_FOLDER(a_long_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
