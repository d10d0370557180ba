/* test_defaults.c -- which default config a kernel has for a problem: what is few, short or narrow has one of
 * its own. */
#include "named.h"
#include "scripted.h"
#include "space.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* What a kernel's default is on an H200; in `text`. */
static const char *default_of(const char *kernel, const char *problem, char text[FAT_CONFIG_TEXT])
{
  const fat_problem p = problem_of(problem);
  fat_point point;
  assert_int_equal(fat_space_default(script, kernel, &p, gpu_of("H200"), &point, NULL), FAT_OK);
  return fat_config_print(&point.config, text);
}

/* Where few heads were measured, the rows of a tile that won there are those of the default; and with many.
 */
static void few_tiles_have_a_default_of_their_own(void **state)
{
  (void)state;
  static const struct {
    const char *problem;
    int Br;
  } measured[] = {{"fwd-bf16-b1-h8-q2048-k2048-d64", 128},  {"fwd-bf16-b1-h8-q4096-k4096-d40", 128},
                  {"fwd-bf16-b2-h16-q1024-k1024-d80", 128}, {"fwd-bf16-b2-h16-q1024-k1024-d96-causal", 128},
                  {"fwd-bf16-b1-h4-q2048-k2048-d128", 64},  {"fwd-bf16-b1-h24-q4608-k4608-d128", 128},
                  {"fwd-bf16-b1-h2-q2048-k2048-d256", 128}, {"fwd-bf16-b4-h32-q4096-k4096-d64", 192},
                  {"fwd-bf16-b4-h8-q4096-k4096-d256", 128}, {"fwd-bf16-b16-h32-q1-k4096-d64", 64}};
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    char text[FAT_CONFIG_TEXT], wanted[40];
    snprintf(wanted, sizeof wanted, "fwd_ws:Br%d-", measured[i].Br);
    if (strncmp(default_of("fwd_ws", measured[i].problem, text), wanted, strlen(wanted)) != 0)
      fail_msg("%s: %s, where %s... was the fastest", measured[i].problem, text, wanted);
  }
}

typedef struct expected {
  const char *problem, *config;
} expected;
static void expect_defaults(const char *kernel, const expected *wanted, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    char text[FAT_CONFIG_TEXT];
    assert_string_equal(default_of(kernel, wanted[i].problem, text), wanted[i].config);
  }
}

/* Few rows on many keys: heads share tiles where that makes fewer, keys are split where SMs are idle. */
static void few_rows_have_a_default_of_their_own(void **state)
{
  (void)state;
  static const expected wanted[] = {
      {"fwd-bf16-b1-h32k8-q64-k16384-d128-causal", "fwd_ws:Br128-Bc128-s2-q2-Q0-I2-P0-L2-Z8-N1-G1"},
      {"fwd-bf16-b1-h32k8-q16-k16384-d128-causal", "fwd_ws:Br64-Bc128-s2-q2-Q0-I2-P0-L2-Z8-N1-G1"},
      {"fwd-bf16-b8-h32k8-q32-k8192-d128-causal", "fwd_ws:Br128-Bc128-s2-q2-Q0-I2-P0-L2-Z8-N1-G1"},
      {"fwd-bf16-b1-h8k1-q512-k32768-d128-causal", "fwd_ws:Br128-Bc128-s2-q2-Q0-I2-P0-L2-Z8-N1"},
      {"fwd-f16-b1-h16k8-q50-k10000-d256", "fwd_ws:Br64-Bc64-s2-q1-Q0-I2-P0-L2-Z1-N1-G1"},
      {"fwd-bf16-b1-h16-q128-k16384-d192v128", "fwd_ws:Br128-Bc128-s2-q1-Q0-I2-P0-L2-Z1-N1"},
      {"fwd-bf16-b1-h32k8-q64-k16384-d128-softcap", "fwd_ws:Br64-Bc128-s2-q2-Q0-I2-P0-L2-Z1-N1"},
      {"fwd-bf16-b8-h32k8-q128-k4096-d128-causal", "fwd_ws:Br128-Bc128-s2-q2-Q0-I2-P0-L2-Z8"},
      {"fwd-bf16-b1-h32k8-q64-k16384-d128-w4096.0", "fwd_ws:Br64-Bc128-s2-q2-Q0-I2-P0-L2-Z8"},
      {"fwd-bf16-b6-h6k1-q5200-k5200-d64", "fwd_ws:Br192-Bc128-s2-q2-Q0-I1-P1-L2-Z1"},
  };
  expect_defaults("fwd_ws", wanted, sizeof wanted / sizeof *wanted);
}

/* Short heads have tiles of 32 rows, of 64 keys where heads are few; narrow ones and scored ones of 64. */
static void short_heads_have_a_default_of_their_own(void **state)
{
  (void)state;
  static const expected wanted[] = {
      {"fwd-bf16-b4096-h3-q49-k49-d32", "fwd:Br64-Bc32-w2-s2-Q0-b1-Z1-W16"},
      {"fwd-bf16-b2-h12-q256-k256-d64", "fwd:Br32-Bc64-w2-s2-Q0-b1-Z1-W16"},
      {"fwd-bf16-b64-h12-q64-k128-d64-causal", "fwd:Br32-Bc32-w2-s2-Q0-b1-Z8-W16"},
      {"fwd-bf16-b64-h12-q64-k128-d64-alibi", "fwd:Br64-Bc32-w2-s2-Q0-b1-Z1-W16"},
      {"fwd-bf16-b64-h12-q50-k50-d128", "fwd:Br64-Bc32-w4-s2-Q0-b1-Z1-W16"},
      {"fwd-bf16-b64-h12-q50-k50-d256", "fwd:Br64-Bc64-w4-s1-Q0-b1-Z1-W16"},
      {"fwd-bf16-b64-h12-q96-k128-d64", "fwd:Br32-Bc32-w2-s2-Q0-b1-Z1-W16"},
      {"fwd-bf16-b64-h12-q97-k128-d64", "fwd:Br128-Bc64-w4-s1-Q0-b1-Z1-W16"},
      {"fwd-bf16-b64-h12-q65-k257-d64", "fwd:Br128-Bc64-w4-s1-Q0-b1-Z1-W16"}};
  expect_defaults("fwd", wanted, sizeof wanted / sizeof *wanted);
}

/* Few rows on few keys have small tiles; up to 16 rows on 80 keys and more parts of these. */
static void tiny_shapes_have_a_default_of_their_own(void **state)
{
  (void)state;
  static const struct {
    const char *kernel, *problem, *config;
  } wanted[] = {
      {"fwd", "fwd-bf16-b8-h16-q16-k16-d64", "fwd:Br32-Bc16-w2-s2-Q0-b1-Z1-W16"},
      {"fwd", "fwd-bf16-b8-h16k2-q32-k32-d256", "fwd:Br32-Bc16-w2-s2-Q0-b1-Z1-W16"},
      {"fwd", "fwd-bf16-b8-h16k2-q32-k33-d128", "fwd:Br32-Bc48-w2-s2-Q0-b1-Z1-W16"},
      {"fwd", "fwd-bf16-b8-h16k2-q16-k80-d128", "fwd:Br16-Bc64-w2-k2-s3-Q0-b1-Z1-W16"},
      {"fwd", "fwd-bf16-b8-h16-q16-k80-d128-drop", "fwd:Br32-Bc48-w2-s2-Q0-b1-Z1-W16"},
      {"bwd", "bwd-bf16-b8-h16-q16-k16-d64", "bwd:Br16-Bc32-w4-A1-wS2-wK2-wQ1-s2-V0-q0-b1-Z1-U0-W16"},
      {"bwd", "bwd-bf16-b8-h16-q32-k17-d128", "bwd:Br32-Bc32-w4-A1-wS1-wK1-wQ1-s2-V0-q0-b1-Z1-U0-W16"},
      {"bwd", "bwd-bf16-b8-h16-q32-k17-d256", "bwd:Br32-Bc16-w4-A1-wS1-wK1-wQ1-s2-V0-q0-b1-Z1-U0-W16"},
      {"bwd_ws", "bwd-bf16-b8-h16-q400-k128-d64", "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-K1-H1"},
      {"bwd", "bwd-bf16-b8-h16-q24-k24-d128", "bwd:Br16-Bc32-w4-A1-wS2-wK2-wQ1-s2-V0-q0-b1-Z1-U0-W16"},
      {"bwd_ws", "bwd-bf16-b2-h16-q400-k65-d128", "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-E1-H1"},
      {"bwd_ws", "bwd-bf16-b2-h16-q400-k129-d128", "bwd_ws:Br64-Bc128-s2-t2-S1-R1-Z1"}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    char text[FAT_CONFIG_TEXT];
    assert_string_equal(default_of(wanted[i].kernel, wanted[i].problem, text), wanted[i].config);
  }
}

/* A block of bwd_ws does a whole head where these are many and short, and nothing tells by batch what is
 * seen. */
static void few_keys_have_a_default_of_their_own(void **state)
{
  (void)state;
  static const struct {
    const char *features;
    bool is_whole;
  } cases[] = {{"", true},        {"-causal", true},     {"-causal-alibi", true},
               {"-iv", false},    {"-causal-iv", false}, {"-causal-prefix", false},
               {"-w30.5", false}, {"-bs64x64", false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char problem[FAT_PROBLEM_TEXT], config[FAT_CONFIG_TEXT];
    snprintf(problem, sizeof problem, "bwd-bf16-b132-h1-q250-k250-d64%s", cases[i].features);
    if ((strstr(default_of("bwd_ws", problem, config), "-H1") != NULL) != cases[i].is_whole)
      fail_msg("%s: %s", problem, config);
  }
}

/* Without a mask few keys leave little of the last tile empty. */
static void tiles_of_few_keys_are_full(void **state)
{
  (void)state;
  static const struct {
    int k, Bc;
  } cases[] = {{257, 96}, {288, 96}, {289, 112}, {384, 128}, {403, 112}, {512, 128}, {640, 128}, {641, 128}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int wide = 0; wide < 2; wide++) {
      char problem[FAT_PROBLEM_TEXT], text[FAT_CONFIG_TEXT], wanted[16];
      snprintf(problem, sizeof problem, "fwd-bf16-b32-h16-q%d-k%d-d%d", cases[i].k, cases[i].k, 64 << wide);
      snprintf(wanted, sizeof wanted, "-Bc%d-", cases[i].Bc);
      if (!strstr(default_of("fwd_ws", problem, text), wanted))
        fail_msg("%s: %s", problem, text);
    }
}

/* Several blocks of fwd_ws share an SM, and a warp draws tiles (D), where tiles are many and each passes few
 * keys; these tiles hold rows of all heads that share K and V (G), as long as a box has them. */
static void short_rows_are_told_of_and_share_an_sm(void **state)
{
  (void)state;
  static const struct {
    const char *problem;
    int D, b, G;
  } cases[] = {{"fwd-bf16-b8-h64k8-q1024-k1024-d64-causal-w127.0-sink", 1, 2, 1},
               {"fwd-bf16-b8-h24k8-q1024-k1024-d64-causal-w127.0-sink", 1, 2, 0},
               {"fwd-bf16-b8-h64k8-q1024-k1024-d64-causal-w127.0-softcap", 1, 3, 0},
               {"fwd-bf16-b8-h64k8-q1024-k1024-d64-causal-w127.0-drop", 0, 3, 0},
               {"fwd-bf16-b8-h64k8-q1024-k1024-d64-causal-w127.0-softcap-drop", 0, 1, 0},
               {"fwd-bf16-b8-h64k8-q4096-k4096-d64-causal-w511.0", 1, 2, 1},
               {"fwd-bf16-b8-h64k8-q4096-k4096-d64-causal-w1023.0", 1, 1, 0},
               {"fwd-bf16-b8-h64k8-q4096-k4096-d64-causal-w2047.0", 0, 1, 0},
               {"fwd-bf16-b16-h12-q1024-k1024-d64-causal", 1, 2, 0},
               {"fwd-bf16-b16-h12-q2048-k2048-d64-causal", 0, 1, 0},
               {"fwd-bf16-b1-h12-q1024-k1024-d64-causal", 0, 1, 0},
               {"fwd-bf16-b16-h12-q1024-k1024-d64", 0, 1, 0},
               {"fwd-bf16-b16-h12-q1024-k1024-d80-causal", 0, 1, 0},
               {"fwd-bf16-b16-h12-q2048-k2048-d64-varlen", 1, 3, 0},
               {"fwd-bf16-b16-h12k3-q2048-k2048-d64-varlen", 1, 3, 1},
               {"fwd-bf16-b16-h12-q4096-k4096-d64-varlen", 0, 1, 0},
               {"fwd-bf16-b16-h12-q512-k512-d128-causal-used", 1, 2, 0},
               {"fwd-bf16-b16-h12k6-q512-k512-d128-causal-used", 1, 1, 1},
               {"fwd-bf16-b16-h12-q513-k513-d128-causal-used", 1, 1, 0},
               {"fwd-bf16-b16-h12-q513-k513-d128-causal-used-alibi", 0, 1, 0},
               {"fwd-bf16-b16-h12k4-q1024-k1024-d96-causal-varlen", 1, 1, 0},
               {"fwd-bf16-b16-h12k3-q1024-k1024-d96-causal-varlen", 1, 1, 1},
               {"fwd-bf16-b8-h32k8-q4096-k4096-d128-causal-w1023.0", 1, 1, 1},
               {"fwd-bf16-b8-h32-q4096-k4096-d128-causal-w1023.0", 1, 1, 0},
               {"fwd-bf16-b16-h12-q512-k512-d64-causal-bs64x64", 0, 1, 0},
               {"fwd-bf16-b64-h16-q197-k197-d64-bias", 0, 2, 0},
               {"fwd-bf16-b64-h16-q200-k200-d64-bias", 0, 1, 0},
               {"fwd-bf16-b64-h12-q49-k49-d32", 0, 4, 0},
               {"fwd-bf16-b64-h12-q49-k49-d32-bias", 0, 3, 0},
               {"fwd-bf16-b64-h12-q512-k512-d32-varlen", 1, 4, 0},
               {"fwd-bf16-b64-h12-q128-k128-d32", 0, 2, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[FAT_CONFIG_TEXT];
    fat_config config;
    int32_t D = 0, b = 1, G = 0;
    assert_int_equal(fat_config_parse(default_of("fwd_ws", cases[i].problem, text), &config, NULL), FAT_OK);
    (void)fat_config_get(&config, "D", &D);
    (void)fat_config_get(&config, "b", &b);
    (void)fat_config_get(&config, "G", &G);
    if (D != cases[i].D || b != cases[i].b || G != cases[i].G)
      fail_msg("%s: %s", cases[i].problem, text);
  }
}

/* A tile of Q is free before the next S starts (E = 2) where that was raced and won: not where the last keys
 * come first at d 64, in ragged batches or with scores of their own. */
static void queries_are_sent_for_early_by_default(void **state)
{
  (void)state;
  static const struct {
    const char *problem;
    int32_t E;
  } cases[] = {{"bwd-bf16-b4-h32-q4096-k4096-d64-causal", 2},
               {"bwd-bf16-b16-h32-q1024-k1024-d64", 2},
               {"bwd-bf16-b16-h32-q1024-k1024-d64-causal", 1},
               {"bwd-bf16-b4-h21-q4096-k4096-d96", 2},
               {"bwd-bf16-b16-h21-q1024-k1024-d96-causal", 2},
               {"bwd-bf16-b4-h16-q4096-k4096-d128-causal", 2},
               {"bwd-bf16-b8-h16-q2048-k2048-d128", 2},
               {"bwd-bf16-b4-h16-q4096-k4096-d128-causal-alibi", 0},
               {"bwd-bf16-b2-h16-q8192-k8192-d128-causal-varlen", 0},
               {"bwd-bf16-b2-h32-q8192-k8192-d64-causal-w1023.0", 2},
               {"bwd-bf16-b4-h32-q4096-k4096-d64-causal-det", 2},
               {"bwd-bf16-b2-h32-q8192-k8192-d64-causal-varlen", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[FAT_CONFIG_TEXT];
    fat_config config;
    int32_t E = 0;
    assert_int_equal(fat_config_parse(default_of("bwd_ws", cases[i].problem, text), &config, NULL), FAT_OK);
    (void)fat_config_get(&config, "E", &E);
    if (E != cases[i].E)
      fail_msg("%s: %s", cases[i].problem, text);
  }
}

/* Where whoever comes first lays dQ down, as many heads begin together as let the blocks of each begin one
 * after another: one without a mask, where blocks begin apart, and few where heads share K and V. */
static void heads_begin_together_as_blocks_would_wait(void **state)
{
  (void)state;
  static const expected wanted[] = {
      {"bwd-bf16-b16-h16-q1024-k1024-d128", "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1-E2-H2-T4"},
      {"bwd-bf16-b16-h16-q1024-k1024-d128-causal", "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z32-O1-E2-H2-T4"},
      {"bwd-bf16-b32-h32k8-q1024-k1024-d128-causal", "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z8-O1-E2-H2-T4"},
      {"bwd-bf16-b8-h16-q2048-k2048-d128-causal-w255.0", "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z32-O1-E2-H2-T4"}};
  expect_defaults("bwd_ws", wanted, sizeof wanted / sizeof *wanted);
}

/* Pairs stay for many short heads of d 192 without a mask, where dQ is added in any order. */
static void pairs_stay_for_short_heads(void **state)
{
  (void)state;
  static const expected wanted[] = {{"bwd-bf16-b32-h10-q512-k512-d192", "bwd_pair:Br64-s2-o2-t2-Z1-H2"},
                                    {"bwd-bf16-b8-h10-q2048-k2048-d192", "bwd_pair:Br64-s2-o2-t2-Z1"},
                                    {"bwd-bf16-b4-h10-q512-k512-d192-alibi", "bwd_pair:Br64-s2-o2-t2-Z1"}};
  expect_defaults("bwd_pair", wanted, sizeof wanted / sizeof *wanted);
}

/* How sums of dQ are made hangs on how many tiles of keys there are: with the longest tiles last (T = 3) of
 * many, for of few no such config is valid; in the order of keys (T = 2) of one and a half to five for each
 * SM, and with det where blocks do not stay. */
static void sums_are_made_as_tiles_are_many(void **state)
{
  (void)state;
  static const struct {
    const char *kernel, *problem;
    int T;
  } cases[] = {{"bwd_pair", "bwd-bf16-b16-h8-q1024-k1024-d256-causal", 3},
               {"bwd_pair", "bwd-bf16-b4-h8-q1024-k1024-d256-causal", 0},
               {"bwd_pair", "bwd-bf16-b4-h10-q512-k512-d192-causal", 2},
               {"bwd_ws", "bwd-bf16-b16-h12-q1024-k1024-d64-causal", 3},
               {"bwd_ws", "bwd-bf16-b8-h12-q1024-k1024-d64-causal", 0},
               {"bwd_ws", "bwd-bf16-b4-h12-q1024-k1024-d64-causal", 2},
               {"bwd_ws", "bwd-bf16-b4-h12-q2048-k2048-d64-causal", 0},
               {"bwd_ws", "bwd-bf16-b1-h21-q1024-k1024-d96-causal", 0},
               {"bwd_ws", "bwd-bf16-b2-h16-q1024-k1024-d128-causal", 2},
               {"bwd_ws", "bwd-bf16-b16-h16-q1024-k1024-d128-causal", 4},
               {"bwd_ws", "bwd-bf16-b8-h16-q2048-k2048-d128-causal", 0},
               {"bwd_ws", "bwd-bf16-b32-h16-q512-k512-d128", 4},
               {"bwd_ws", "bwd-bf16-b16-h16-q1024-k1024-d128", 4},
               {"bwd_ws", "bwd-bf16-b8-h16-q2048-k2048-d128", 0},
               {"bwd_ws", "bwd-bf16-b16-h21-q1024-k1024-d96-causal", 4},
               {"bwd_ws", "bwd-bf16-b8-h16-q2048-k2048-d128-causal-w1023.0", 4},
               {"bwd_ws", "bwd-bf16-b8-h32-q2048-k2048-d64-causal-w1023.0", 0},
               {"bwd_ws", "bwd-bf16-b8-h16-q2048-k2048-d128-det", 1},
               {"bwd_ws", "bwd-bf16-b4-h12-q1024-k1024-d64-causal-det", 2},
               {"bwd_ws", "bwd-bf16-b1-h32-q16384-k16384-d64-causal-det", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[FAT_CONFIG_TEXT], wanted[8] = "";
    const char *said = strstr(default_of(cases[i].kernel, cases[i].problem, text), "-T");
    if (cases[i].T > 0)
      snprintf(wanted, sizeof wanted, "-T%d", cases[i].T);
    if (said == NULL ? cases[i].T > 0 : strncmp(said, wanted, 3) != 0)
      fail_msg("%s: %s", cases[i].problem, text);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_tiles_have_a_default_of_their_own),
      cmocka_unit_test(few_rows_have_a_default_of_their_own),
      cmocka_unit_test(short_heads_have_a_default_of_their_own),
      cmocka_unit_test(tiny_shapes_have_a_default_of_their_own),
      cmocka_unit_test(few_keys_have_a_default_of_their_own),
      cmocka_unit_test(queries_are_sent_for_early_by_default),
      cmocka_unit_test(tiles_of_few_keys_are_full),
      cmocka_unit_test(short_rows_are_told_of_and_share_an_sm),
      cmocka_unit_test(sums_are_made_as_tiles_are_many),
      cmocka_unit_test(heads_begin_together_as_blocks_would_wait),
      cmocka_unit_test(pairs_stay_for_short_heads),
  };
  return cmocka_run_group_tests(tests, open_script, close_script);
}
