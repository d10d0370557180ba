/* test_kernels_ws.c -- the numbers of the kernels for warpgroups, on the emulator: configs that together hold
 * every value of every tunable, at lengths around the edges of their tiles, with so few SMs that a block does
 * several tiles; and what results must not depend on.
 *
 * Beside this, problems.txt names problems for them (test_kernels.c). FATUNE_FULL=1 runs the long form. */
#include "check.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { LENGTHS = 9 };

static void edges_are_solved(const char *problem, const fat_config *config, int first, int count)
{
  int32_t Br, Bc, M;
  assert_int_equal(fat_config_get(config, "Br", &Br), FAT_OK);
  assert_int_equal(fat_config_get(config, "Bc", &Bc), FAT_OK);
  const bool pairs = fat_config_get(config, "M", &M) == FAT_OK && M == 1; /* of blocks */
  const int64_t lengths[LENGTHS][2] = {
      {Br + 1, 3 * Bc - 1}, {2 * Br + 1, Bc + 1}, {2 * Br - 1, 1}, {Br, 2 * Bc},
      {1, 2 * Bc + 1},      {Br - 1, Bc},         {1, 1},          {3 * Br, Bc - 1},
      {Br + 1, 5 * Bc}};
  for (int i = first; i < first + count; i++) {
    emu_case c = emu_check_hopper_case(problem);
    c.problem.q = lengths[i % LENGTHS][0];
    c.problem.k = lengths[i % LENGTHS][1];
    c.sms = (1 + i % 3) * (pairs ? 2 : 1);
    c.seed = (uint64_t)i;
    c.lay = (emu_lay)(i % EMU_FAR);
    c.data = (fat_data)(i % FAT_DATAS);
    fat_truth t = emu_check_truth(&c);
    emu_check_solves(&c, &t, config, (emu_order)(i / 2 % 3), c.seed);
    fat_truth_free(&t);
  }
}

static void every_tunable_value_works_at_tile_edges(void **state)
{
  (void)state;
  static const char *const problems[] = {
      "fwd-f16-b1-h2k1-q128-k128-d64-causal", "fwd-bf16-b1-h2-q128-k128-d40",
      "fwd-bf16-b1-h2-q128-k128-d128-causal", "fwd-f16-b1-h2k1-q128-k128-d96v192-causal",
      "fwd-f16-b1-h2-q128-k128-d256-causal",  "fwd-bf16-b1-h2-q128-k128-d192v128"};
  const int each = emu_check_full() ? LENGTHS : 2;
  for (int f = 0; f < (emu_check_full() ? 6 : 1); f++) {
    fat_config picked[EMU_COVER];
    emu_case c = emu_check_hopper_case(problems[f]);
    fat_space space = emu_check_space("fwd_ws", &c);
    int count = emu_check_covering(&space, picked);
    assert_true(count >= 6);
    print_message("%s: %d configs of %d\n", problems[f], count, space.count);
    for (int i = 0; i < count; i++)
      edges_are_solved(problems[f], &picked[i], each == LENGTHS ? 0 : i, each);
    fat_space_free(&space);
  }
}

/* A tile of Q whose warpgroups see other numbers of tiles of K: causal rows on either side of a tile's edge,
 * rows that see no key beside rows that do (k < q), warpgroups without any row at the ragged end. */
static void warpgroups_see_tiles_of_their_own(void **state)
{
  (void)state;
  static const char *const configs[] = {
      "fwd_ws:Br128-Bc32-s1-q1-Q0-I0-P0-L0-Z1",   "fwd_ws:Br128-Bc32-s2-q2-Q1-I1-P1-L1-Z2",
      "fwd_ws:Br128-Bc48-s3-q1-Q0-I2-P1-L0-Z1",   "fwd_ws:Br192-Bc32-s3-q2-Q1-I2-P0-L1-Z1",
      "fwd_ws:Br192-Bc48-s2-q1-Q0-I0-P0-L0-Z2",   "fwd_ws:Br192-Bc32-s1-q2-Q1-I1-P1-L0-Z1",
      "fwd_ws:Br128-Bc32-s2-q1-Q1-I2-P0-L1-Z1",   "fwd_ws:Br192-Bc64-s1-q1-Q0-I2-P1-L0-Z1",
      "fwd_ws:Br128-Bc48-s1-q2-Q0-I2-P2-L1-Z1",   "fwd_ws:Br192-Bc32-s2-q1-Q1-I2-P2-L0-Z2",
      "fwd_ws:Br128-Bc32-s3-q2-Q0-I1-P1-L2-Z2",   "fwd_ws:Br192-Bc48-s1-q1-Q1-I0-P0-L2-Z1",
      "fwd_ws:Br192-Bc64-s3-q2-Q0-I2-P1-L2-Z1-E1"};
  static const struct {
    const char *problem;
    int q, k;
  } shapes[] = {
      {"fwd-f16-b1-h2k1-q1-k1-d40-causal", 1, 97},    /* the other warpgroups have no rows */
      {"fwd-f16-b1-h2k1-q1-k1-d40-causal", 257, 321}, /* those of the last tile of Q, of either Br */
      {"fwd-f16-b1-h2k1-q1-k1-d40-causal", 300, 70},  /* one sees no key, the next does */
      {"fwd-f16-b1-h2k1-q1-k1-d40-causal", 192, 1},   /* only the last row sees one */
      {"fwd-f16-b1-h2-q1-k1-d40", 200, 97}};          /* no mask: none or all tiles */
  const int count = (int)(sizeof shapes / sizeof *shapes);
  for (int i = 0; i < count; i++)
    for (int j = 0; j < (int)(sizeof configs / sizeof *configs); j++) {
      emu_case c = emu_check_hopper_case(shapes[i].problem);
      c.problem.q = shapes[i].q;
      c.problem.k = shapes[i].k;
      c.sms = 1 + (i + j) % 2;
      c.seed = (uint64_t)(i * 16 + j);
      c.lay = (emu_lay)(j % EMU_FAR);
      fat_config config;
      char word[FAT_CONFIG_TEXT];
      snprintf(word, sizeof word, "%s", configs[j]);
      if (i == count - 1) /* tiles of one length go one head after another */
        word[strlen(word) - 1] = '1';
      config = emu_check_config(word, &c);
      fat_truth t = emu_check_truth(&c);
      emu_check_solves(&c, &t, &config, (emu_order)((i + j) % 3), c.seed);
      fat_truth_free(&t);
    }
}

/* P in shared memory, also where a walk leaves that to who asks for it: a box of it whole, more than one,
 * one begun; each warpgroup with its own place, in all schedules. */
static void weights_in_shared_memory(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"fwd_ws:Br64-Bc64-s2-q1-Q0-I0-P0-L0-Z1-S1", "fwd-f16-b1-h2k1-q128-k128-d64-causal"},
      {"fwd_ws:Br64-Bc80-s1-q2-Q1-I1-P0-L1-Z1-S1", "fwd-bf16-b1-h2-q128-k128-d40"},
      {"fwd_ws:Br64-Bc32-s2-q1-Q0-I2-P0-L0-Z2-S1", "fwd-bf16-b1-h2-q128-k128-d40v72-causal"},
      {"fwd_ws:Br128-Bc48-s2-q1-Q0-I1-P1-L0-Z1-S1", "fwd-f16-b1-h2k1-q128-k128-d40-causal"},
      {"fwd_ws:Br128-Bc144-s1-q1-Q0-I2-P1-L1-Z1-S1", "fwd-bf16-b1-h1-q128-k128-d64"},
      {"fwd_ws:Br128-Bc64-s3-q2-Q1-I0-P0-L1-Z2-S1", "fwd-bf16-b1-h2-q128-k128-d40v384-causal"},
      {"fwd_ws:Br128-Bc112-s1-q1-Q0-I1-P0-L0-Z1-S1", "fwd-f16-b1-h1-q128-k128-d192v128-causal"},
      {"fwd_ws:Br192-Bc80-s2-q1-Q0-I2-P1-L0-Z1-S1", "fwd-f16-b1-h2-q128-k128-d40-causal"},
      {"fwd_ws:Br192-Bc32-s3-q2-Q1-I1-P1-L1-Z2-S1", "fwd-bf16-b1-h2k1-q128-k128-d96v72-causal"},
      {"fwd_ws:Br192-Bc128-s2-q1-Q0-I0-P0-L0-Z1-S1", "fwd-f16-b1-h1-q128-k128-d64"},
      {"fwd_ws:Br192-Bc160-s2-q1-Q0-I1-P0-L0-Z1-S1", "fwd-bf16-b1-h1-q128-k128-d64-causal"}};
  for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
    emu_case c = emu_check_hopper_case(cases[i][1]);
    fat_config config = emu_check_config(cases[i][0], &c);
    edges_are_solved(cases[i][1], &config, emu_check_full() ? 0 : i, emu_check_full() ? LENGTHS : 2);
  }
}

/* Where no maximum is sought until weights outgrow the last, with every kind of data: they do so never, in
 * some rows of some tiles, or with every tile, by little or beyond what f16 and fp32 hold. */
static void weights_that_outgrow_a_maximum(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"fwd_ws:Br64-Bc32-s1-q1-Q0-I0-P0-L2-Z1", "fwd-f16-b1-h2k1-q64-k200-d40"},
      {"fwd_ws:Br64-Bc48-s3-q2-Q1-I1-P0-L2-Z2", "fwd-bf16-b1-h2-q100-k200-d64-causal"},
      {"fwd_ws:Br128-Bc32-s2-q1-Q0-I1-P1-L2-Z1", "fwd-bf16-b1-h1-q130-k170-d96v72-causal"},
      {"fwd_ws:Br128-Bc64-s2-q2-Q0-I2-P2-L2-Z1", "fwd-f16-b1-h1-q200-k330-d64"},
      {"fwd_ws:Br192-Bc32-s2-q1-Q1-I2-P0-L2-Z8", "fwd-f16-b1-h2-q250-k300-d128-causal"},
      {"fwd_ws:Br192-Bc128-s2-q1-Q0-I0-P0-L2-Z1-S1", "fwd-bf16-b1-h1-q192-k400-d64"},
      {"fwd_ws:Br128-Bc80-s2-q1-Q0-I2-P2-L2-Z1-S1", "fwd-f16-b1-h1-q150-k420-d72-causal"},
      {"fwd_ws:Br64-Bc32-s2-q2-Q0-I1-P0-L2-Z1", "fwd-bf16-b1-h2k1-q70-k140-d64-causal-alibi"}};
  for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
    for (int data = 0; data < FAT_DATAS; data++) {
      emu_case c = emu_check_hopper_case(cases[i][1]);
      c.sms = 1;
      c.seed = (uint64_t)(16 * i + data);
      c.data = (fat_data)data;
      fat_config config = emu_check_config(cases[i][0], &c);
      fat_truth t = emu_check_truth(&c);
      emu_check_solves(&c, &t, &config, (emu_order)((i + data) % 3), c.seed);
      fat_truth_free(&t);
    }
}

/* The scores of the first two tiles are -inf, so there is no maximum; those of the others are so small that
 * beside 0 in its place nothing would be left of them. */
static void rows_whose_first_keys_weigh_nothing(void **state)
{
  (void)state;
  emu_case c = emu_check_hopper_case("fwd-bf16-b1-h1-q100-k200-d64");
  fat_config config = emu_check_config("fwd_ws:Br128-Bc32-s2-q1-Q0-I1-P0-L2-Z1", &c);
  fat_truth t = emu_check_truth(&c);
  for (int i = 0; i < 100; i++) {
    t.in[FAT_Q][i * 64] = 0x1p100f;
    t.in[FAT_Q][i * 64 + 1] = 1;
  }
  for (int j = 0; j < 200; j++) {
    t.in[FAT_K][j * 64] = j < 64 ? -0x1p100f : 0;
    t.in[FAT_K][j * 64 + 1] = -4096;
  }
  fat_problem others = c.problem;
  others.k -= 64;
  fat_truth seen = {
      .in = {[FAT_Q] = t.in[FAT_Q], [FAT_K] = t.in[FAT_K] + 64 * 64, [FAT_V] = t.in[FAT_V] + 64 * 64},
      .right = {[FAT_O] = t.right[FAT_O], [FAT_LSE] = t.right[FAT_LSE]}};
  assert_int_equal(fat_truth_solve(&others, c.scale, &seen, NULL), FAT_OK);
  memcpy(t.allowed, seen.allowed, sizeof t.allowed);
  emu_check_solves(&c, &t, &config, EMU_IN_ORDER, 1);
  fat_truth_free(&t);
}

static void results_do_not_depend_on_order_layout_or_grid(void **state)
{
  (void)state;
  emu_case c = emu_check_hopper_case("fwd-f16-b2-h2k1-q150-k170-d64-causal");
  fat_config config = emu_check_config("fwd_ws", &c);
  fat_truth t = emu_check_truth(&c);
  size_t rows = (size_t)(c.problem.b * c.problem.h * c.problem.q);
  emu_result first = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 0);
  assert_true(first.report.boxes > 0 && first.report.together > 0);
  for (int run = 0; run < 9; run++) {
    c.lay = (emu_lay)(run % EMU_FAR);
    c.sms = 1 + run % 5;
    emu_result r = emu_check_run(&c, &t, &config, (emu_order)(run / 3), (uint64_t)run);
    assert_memory_equal(r.out[FAT_O], first.out[FAT_O], rows * (size_t)c.problem.dv * sizeof *r.out[FAT_O]);
    assert_memory_equal(r.out[FAT_LSE], first.out[FAT_LSE], rows * sizeof *r.out[FAT_LSE]);
    emu_result_free(&r);
  }
  emu_result_free(&first);
  fat_truth_free(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_tunable_value_works_at_tile_edges),
      cmocka_unit_test(warpgroups_see_tiles_of_their_own),
      cmocka_unit_test(weights_in_shared_memory),
      cmocka_unit_test(weights_that_outgrow_a_maximum),
      cmocka_unit_test(rows_whose_first_keys_weigh_nothing),
      cmocka_unit_test(results_do_not_depend_on_order_layout_or_grid),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
