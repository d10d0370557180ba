/* test_kernels_ws_bwd.c -- the gradients of the kernels for warpgroups, on the emulator: configs that
 * together hold every value of every tunable, at lengths around the edges of their tiles.
 *
 * Beside this, problems.txt names problems for them (test_kernels.c). FATUNE_FULL=1 runs the long form. */
#include "check.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { LENGTHS = 8 };

/* Rows of Q and keys, of one tile of each and a little more or less; heads that share keys go on where the
 * last one ended, in whatever place of a ring. */
static void edges_are_solved(const char *problem, const fat_config *config, int first, int count)
{
  int32_t Br, Bc = 64;
  assert_int_equal(fat_config_get(config, "Br", &Br), FAT_OK);
  (void)fat_config_get(config, "Bc", &Bc); /* bwd_wide and bwd_pair have one */
  const int64_t lengths[LENGTHS][2] = {
      {Br + 1, 2 * Bc - 1}, {3 * Br, Bc + 1}, {2 * Br - 1, 1}, {Br, 2 * Bc},
      {1, Bc + 1},          {Br - 1, Bc},     {1, 1},          {5 * Br, Bc - 63}};
  for (int i = first; i < first + count; i++) {
    emu_case c = emu_check_hopper_case(problem);
    c.problem.q = lengths[i % LENGTHS][0];
    c.problem.k = lengths[i % LENGTHS][1];
    c.sms = 1 + i % 3;
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
  static const struct {
    const char *kernel, *problem;
  } cases[] = {{"bwd_ws", "bwd-f16-b1-h2k1-q128-k128-d64-causal"},
               {"bwd_wide", "bwd-bf16-b1-h2k1-q128-k128-d192v136-causal"},
               {"bwd_pair", "bwd-bf16-b1-h2k1-q128-k128-d192v136-causal"},
               {"bwd_ws", "bwd-bf16-b1-h2-q128-k128-d128"},
               {"bwd_ws", "bwd-f16-b1-h2k1-q128-k128-d96v72-causal"},
               {"bwd_wide", "bwd-f16-b1-h2-q128-k128-d256"}};
  for (int f = 0; f < (emu_check_full() ? 6 : 3); f++) {
    fat_config picked[EMU_COVER];
    emu_case c = emu_check_hopper_case(cases[f].problem);
    fat_space space = emu_check_space(cases[f].kernel, &c);
    const int count = emu_check_covering(&space, picked);
    assert_true(count >= 2);
    print_message("%s: %d configs of %d\n", cases[f].problem, count, space.count);
    for (int i = 0; i < count; i++)
      edges_are_solved(cases[f].problem, &picked[i], emu_check_full() ? 0 : i,
                       emu_check_full() ? LENGTHS : 2);
    fat_space_free(&space);
  }
}

/* dK and dV, which no reduction makes, have the same bits whatever the order of running is; dQ has them too
 * where a row sees the keys of one block alone, and where sums are made in order. */
static void results_do_not_depend_on_order_or_layout(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"bwd_ws", "bwd-f16-b2-h2k1-q150-k100-d64-causal"},
      {"bwd_wide", "bwd-bf16-b1-h2k1-q150-k60-d192-causal"},
      {"bwd_pair", "bwd-bf16-b1-h2k1-q150-k60-d192-causal"},
      {"bwd_ws", "bwd-bf16-b1-h2k1-q300-k500-d64-causal-det"},
      {"bwd_ws", "bwd-bf16-b1-h2-q150-k500-d64-det"},
      {"bwd_wide", "bwd-bf16-b1-h2k1-q150-k250-d192-causal-det"},
      {"bwd_pair", "bwd-bf16-b1-h2k1-q150-k250-d192-causal-det"},
      {"bwd_pair:Br64-s2-o2-t2-Z1-M1", "bwd-bf16-b1-h2k1-q150-k250-d192-causal-det"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    emu_case c = emu_check_hopper_case(cases[i][1]);
    fat_config config = emu_check_config(cases[i][0], &c);
    fat_truth t = emu_check_truth(&c);
    emu_result first = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 0);
    assert_true(first.report.boxes > 0 && first.report.together > 0);
    for (int run = 0; run < 6; run++) {
      c.lay = (emu_lay)(run % EMU_FAR);
      c.sms = 1 + run % 5;
      emu_result r = emu_check_run(&c, &t, &config, (emu_order)(run / 2), (uint64_t)run);
      for (int x = FAT_DQ; x <= FAT_DV; x++)
        assert_memory_equal(r.out[x], first.out[x],
                            (size_t)fat_tensors_elements(&c.problem, x) * sizeof *r.out[x]);
      emu_result_free(&r);
    }
    emu_result_free(&first);
    fat_truth_free(&t);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_tunable_value_works_at_tile_edges),
      cmocka_unit_test(results_do_not_depend_on_order_or_layout),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
