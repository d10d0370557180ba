/* test_kernels_boxed.c -- tiles of Q of `fwd_ws` that hold rows of all heads which share K and V and come by
 * boxes of these (G1 without N), on the emulator.
 *
 * Numbers of heads that share, lengths around a tile's edges, masks, sinks, batches of lengths of their own;
 * and which calls the launch refuses. */
#include "check.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const char *const configs[] = {
    "fwd_ws:Br64-Bc64-s3-q2-Q0-I1-P0-L2-Z8-b3-G1-D1", "fwd_ws:Br128-Bc32-s2-q2-Q0-I2-P0-L2-Z1-b2-G1",
    "fwd_ws:Br192-Bc48-s2-q1-Q1-I0-P0-L0-Z8-D1-G1",   "fwd_ws:Br128-Bc64-s1-q2-Q0-I1-P1-L1-Z4-G1",
    "fwd_ws:Br64-Bc128-s2-q1-Q0-I2-P0-L2-Z64-G1",     "fwd_ws:Br192-Bc32-s4-q2-Q0-I1-P0-L2-Z2-G1-D1",
};
enum { CONFIGS = sizeof configs / sizeof *configs };

/* Heads of more than 64 columns leave no room for several blocks on an SM. */
static fat_config config_of(int which, const emu_case *c)
{
  fat_text text = {0};
  const char *several = strstr(configs[which], "-b");
  const int before = (int)(several ? several - configs[which] : (ptrdiff_t)strlen(configs[which]));
  if (c->problem.d <= 64 || !several)
    return emu_check_config(configs[which], c);
  fat_text_format(&text, "%.*s%s", before, configs[which], several + 3);
  const fat_config config = emu_check_config(fat_text_get(&text), c);
  fat_text_free(&text);
  return config;
}

static void solves(const char *problem, int which, uint64_t number)
{
  emu_case c = emu_check_hopper_case(problem);
  const fat_config config = config_of(which, &c);
  c.sms = 1 + (int)(number % 3);
  c.seed = number;
  c.lay = (emu_lay)(number % EMU_FAR);
  c.data = (fat_data)(number % FAT_DATAS);
  c.no_lse = number % 5 == 4;
  fat_truth t = emu_check_truth(&c);
  emu_check_solves(&c, &t, &config, (emu_order)(number % 3), number);
  fat_truth_free(&t);
}

/* Each number of heads that can share a box, by configs in turn; the long form takes them all. */
static void heads_share_tiles(void **state)
{
  (void)state;
  static const int peers[] = {2, 4, 8, 16};
  static const char *const rest[] = {
      "q65-k130-d64-causal",     "q40-k200-d40v24-causal-w37.0", "q17-k17-d128-w20.9",
      "q100-k90-d64-causal",     "q33-k70-d96-causaltl",         "q70-k150-d64-causal-w64.0-sink",
      "q1-k300-d64-causal-w9.0", "q50-k60-d64-chunk16",          "q80-k80-d64-causal-prefix"};
  int number = 0;
  for (int r = 0; r < (int)(sizeof rest / sizeof *rest); r++)
    for (int p = 0; p < 4; p++)
      for (int i = 0; i < CONFIGS; i++, number++) {
        char text[FAT_PROBLEM_TEXT];
        if ((i + r + 2 * p) % CONFIGS && !emu_check_full())
          continue;
        snprintf(text, sizeof text, "fwd-%s-b%d-h%dk%d-%s", r % 2 ? "f16" : "bf16", 1 + number % 2,
                 peers[p] * (1 + p % 2), 1 + p % 2, rest[r]);
        solves(text, i, (uint64_t)number);
      }
}

/* Tiles in which a batch ends lie beside those of the next one. */
static void batches_have_lengths_of_their_own(void **state)
{
  (void)state;
  static const char *const problems[] = {"fwd-bf16-b3-h8k2-q70-k70-d64-causal-varlen",
                                         "fwd-f16-b5-h16k2-q40-k90-d64-causal-w30.0-varlen-sink",
                                         "fwd-bf16-b2-h8k1-q65-k65-d64-w20.20-varlen-used",
                                         "fwd-bf16-b3-h4k2-q50-k80-d128-causal-used",
                                         "fwd-f16-b3-h8k2-q60-k100-d64-causal-w40.0-lpad",
                                         "fwd-bf16-b4-h16k1-q33-k33-d40-causal-varlen"};
  for (int i = 0; i < (int)(sizeof problems / sizeof *problems); i++)
    for (int n = 0; n < CONFIGS; n++)
      if ((n + i) % 3 == 0 || emu_check_full())
        solves(problems[i], n, (uint64_t)(CONFIGS * i + n));
}

static void tensors_reach_past_two_to_the_31(void **state)
{
  (void)state;
  emu_check_far();
  emu_case c = emu_check_hopper_case("fwd-bf16-b2-h8k2-q40-k60-d64-causal-w30.0");
  const fat_config config = emu_check_config(configs[0], &c);
  c.lay = EMU_FAR;
  fat_truth t = emu_check_truth(&c);
  emu_check_solves(&c, &t, &config, 0, 1);
  fat_truth_free(&t);
}

/* A box has as many rows of each head: 3 heads divide no box. Nor do 32 bits count all rows of any batch. */
static void what_no_box_holds_is_refused(void **state)
{
  (void)state;
  static const struct {
    int64_t h, hk, q;
    fat_status status;
  } cases[] = {{8, 1, 100, FAT_OK},
               {16, 8, 100, FAT_OK},
               {16, 1, 100, FAT_OK},
               {8, 8, 100, FAT_OK},
               {6, 2, 100, FAT_E_UNSUPPORTED},
               {24, 2, 100, FAT_E_UNSUPPORTED},
               {32, 1, 100, FAT_E_UNSUPPORTED},
               {8, 1, INT64_C(1) << 28, FAT_E_UNSUPPORTED}};
  static fat_recipe recipe;
  emu_case c = emu_check_hopper_case("fwd-bf16-b2-h8k1-q100-k100-d64-causal");
  const fat_config config = emu_check_config(configs[0], &c);
  fat_source source;
  fat_error err = {0};
  assert_int_equal(emu_kernel_render(emu_check_script(), &c.problem, c.gpu, &config, &source, &err), FAT_OK);
  assert_int_equal(fat_recipe_parse(fat_text_get(&source.recipe), &recipe, NULL), FAT_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const fat_sizes sizes = {.b = 2,
                             .h = cases[i].h,
                             .hk = cases[i].hk,
                             .q = cases[i].q,
                             .k = 100,
                             .tq = 2 * cases[i].q,
                             .sms = 40};
    assert_int_equal(fat_recipe_check(&recipe, &sizes, NULL), cases[i].status);
  }
  fat_source_free(&source);
}

/* And a walk has none of them, nor any without a mask, where nothing is gained. */
static void where_it_is_walked(void **state)
{
  (void)state;
  static const struct {
    const char *problem;
    bool walked;
  } cases[] = {{"fwd-bf16-b8-h32k4-q1000-k1000-d128-causal", true},
               {"fwd-bf16-b8-h32k32-q1000-k1000-d128-causal", false},
               {"fwd-bf16-b8-h30k10-q1000-k1000-d128-causal", false},
               {"fwd-bf16-b8-h32k4-q1000-k1000-d128", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    emu_case c = emu_check_hopper_case(cases[i].problem);
    fat_space space = emu_check_space("fwd_ws", &c);
    int boxed = 0;
    for (int n = 0; n < space.count; n++) {
      int32_t G = 0, N = 0;
      (void)fat_config_get(&space.points[n].config, "G", &G);
      (void)fat_config_get(&space.points[n].config, "N", &N);
      boxed += G == 1 && N == 0;
    }
    assert_int_equal(boxed > 0, cases[i].walked);
    fat_space_free(&space);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heads_share_tiles),
      cmocka_unit_test(batches_have_lengths_of_their_own),
      cmocka_unit_test(tensors_reach_past_two_to_the_31),
      cmocka_unit_test(what_no_box_holds_is_refused),
      cmocka_unit_test(where_it_is_walked),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
