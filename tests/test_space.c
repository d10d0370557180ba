/* test_space.c -- the spaces of the kernels in the program: every family has configs, defaults come first and
 * are valid, rejections add up, and what does not apply says why. */
#include "feature.h"
#include "language.h"
#include "named.h"
#include "scripted.h"
#include "space.h"
#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void kernels_are_listed(void **state)
{
  (void)state;
  char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  int count;
  assert_int_equal(fat_space_kernels(script, names, &count, NULL), FAT_OK);
  static const char *const all[] = {"bwd",     "bwd_pair", "bwd_two", "bwd_wide", "bwd_ws",      "fa1",
                                    "fa1_bwd", "fwd",      "fwd_ws",  "standard", "standard_bwd"};
  assert_int_equal(count, sizeof all / sizeof *all);
  for (int i = 0; i < count; i++)
    assert_string_equal(names[i], all[i]);
}

/* Each d and each dv, on the GPU with the least shared memory, for every kernel. */
static void every_dimension_has_a_default(void **state)
{
  (void)state;
  const fat_gpu *t4 = gpu_of("T4");
  static const char *const kernels[] = {"fwd", "fa1", "standard"};
  for (int d = 8; d <= 256; d += 8)
    for (int other = 0; other < 3; other++)
      for (int k = 0; k < 3; k++) {
        const int dv[] = {d, 8, 256};
        char text[FAT_PROBLEM_TEXT];
        snprintf(text, sizeof text, "fwd-f32-b1-h1-q100-k100-d%dv%d-causal", d, dv[other]);
        fat_problem p = problem_of(text);
        fat_space space;
        fat_error err = {0};
        if (fat_space_list(script, kernels[k], &p, t4, &space, &err) != FAT_OK)
          fail_msg("%s %s: %s", kernels[k], text, err.text);
        long rejected = 0;
        for (int i = 0; i < space.rejection_count; i++)
          rejected += space.rejections[i].count;
        assert_int_equal(space.count + rejected, space.walked);
        fat_space_free(&space);
      }
}

/* What a config claims can be asked for one by one, and no config stands twice. */
static void points_agree_with_the_space(void **state)
{
  (void)state;
  fat_problem p = problem_of("fwd-f32-b2-h8k2-q1000-k1500-d64-causal");
  const fat_gpu *gpu = gpu_of("A100");
  fat_space space;
  assert_int_equal(fat_space_list(script, "fwd", &p, gpu, &space, NULL), FAT_OK);
  assert_true(space.count > 100);
  for (int i = 0; i < space.count; i++) {
    char text[FAT_CONFIG_TEXT], other[FAT_CONFIG_TEXT];
    fat_point point;
    fat_error err = {0};
    fat_config_print(&space.points[i].config, text);
    if (fat_space_point(script, &space.points[i].config, &p, gpu, &point, &err) != FAT_OK)
      fail_msg("%s", err.text);
    assert_string_equal(fat_config_print(&point.config, other), text);
    assert_int_equal(point.launches, space.points[i].launches);
    assert_memory_equal(&point.work[0], &space.points[i].work[0], sizeof point.work[0]);
    assert_true(point.work[0].shared <= gpu->shared_block);
    for (int j = 0; j < i && i < 60; j++)
      assert_string_not_equal(fat_config_print(&space.points[j].config, other), text);
  }
  fat_space_free(&space);
}

/* Launches that list tiles or clear sums stand ahead of a kernel's own: of each something is known. */
static void launches_ahead_are_counted(void **state)
{
  (void)state;
  const struct {
    const char *problem, *kernel;
    int launches;
  } cases[] = {{"fwd-bf16-b1-h2-q512-k512-d128", "fwd_ws", 1},
               {"fwd-bf16-b1-h2-q512-k512-d128-bs128x128", "fwd_ws", 2},
               {"bwd-bf16-b1-h2-q512-k512-d128-bs128x128", "bwd_two", 5},
               {"bwd-bf16-b1-h2-q512-k512-d128-bias-dbias", "bwd_two", 4}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fat_problem p = problem_of(cases[i].problem);
    fat_point point;
    assert_int_equal(fat_space_default(script, cases[i].kernel, &p, gpu_of("H200"), &point, NULL), FAT_OK);
    assert_int_equal(point.launches, cases[i].launches);
    assert_true(point.work[point.launches - 1].shared >= point.work[0].shared);
  }
}

/* All configs of a space, as texts; to be freed. */
static char (*texts_of(const fat_space *space))[FAT_CONFIG_TEXT]
{
  char(*texts)[FAT_CONFIG_TEXT] = malloc((size_t)space->count * sizeof *texts);
  assert_non_null(texts);
  for (int i = 0; i < space->count; i++)
    fat_config_print(&space->points[i].config, texts[i]);
  return texts;
}

static bool holds(char (*texts)[FAT_CONFIG_TEXT], int count, const char *config)
{
  for (int i = 0; i < count; i++)
    if (strcmp(texts[i], config) == 0)
      return true;
  return false;
}

/* Whether a config is made, listed or not, where it is asked for. */
static bool can_be_asked_for(const char *text, const fat_problem *p, const fat_gpu *gpu)
{
  fat_config c;
  fat_point point;
  assert_int_equal(fat_config_parse(text, &c, NULL), FAT_OK);
  return fat_space_point(script, &c, p, gpu, &point, NULL) == FAT_OK;
}

/* What the walk cuts off early is not valid: a config by lot is listed exactly where it can be asked for.
 * Those that move single elements can be asked for as well, and are not walked. */
static void nothing_valid_is_cut_off(void **state)
{
  (void)state;
  static const int Br[] = {16, 32, 64, 96, 128, 192, 256}, Bc[] = {16, 32, 48, 64, 80, 96, 128},
                   w[] = {1, 2, 4, 8}, Z[] = {1, 8, 64};
  fat_problem p = problem_of("fwd-f16-b1-h2-q1000-k1500-d64-causal");
  const fat_gpu *gpu = gpu_of("A100");
  fat_space space;
  uint32_t lot = 1;
  int listed = 0, narrow = 0;
  assert_int_equal(fat_space_list(script, "fwd", &p, gpu, &space, NULL), FAT_OK);
  char(*texts)[FAT_CONFIG_TEXT] = texts_of(&space);
  for (int i = 0; i < 3000; i++) {
    char text[FAT_CONFIG_TEXT];
    uint32_t r = lot = lot * 1664525u + 1013904223u;
    snprintf(text, sizeof text, "fwd:Br%d-Bc%d-w%d-s%d-Q%d-b%d-Z%d-W%d", Br[(r >> 8) % 7], Bc[(r >> 11) % 7],
             w[(r >> 14) % 4], (int)(r >> 16) % 5, (int)(r >> 19) % 2, 1 + (int)(r >> 20) % 4,
             Z[(r >> 22) % 3], (r >> 24) % 8 ? 16 : 1);
    bool valid = can_be_asked_for(text, &p, gpu), wide = strstr(text, "-W16") != NULL;
    if (holds(texts, space.count, text) != (valid && wide))
      fail_msg("%s: %s", text, valid ? "valid, and not listed" : "listed, and not valid");
    listed += valid && wide;
    narrow += valid && !wide;
  }
  assert_true(listed > 200 && narrow > 20);
  free(texts);
  fat_space_free(&space);
}

/* What they share has room for all of them; pairs and splits have an SM for each block. */
static void what_blocks_share_has_room_for_all(void **state)
{
  (void)state;
  static const struct {
    const char *config;
    bool fits;
  } cases[] = {{"fwd_ws:Br64-Bc64-s3-q2-Q0-I1-P0-L2-Z8-b3", true},
               {"fwd_ws:Br64-Bc64-s4-q2-Q0-I1-P0-L2-Z8-b3", false}, /* 3 x 81 KB */
               {"fwd_ws:Br64-Bc96-s2-q1-Q0-I1-P0-L2-Z8-b3", false}, /* 132 registers of 128 */
               {"fwd_ws:Br128-Bc64-s2-q2-Q0-I0-P0-L2-Z8-b2", true},
               {"fwd_ws:Br128-Bc64-s2-q2-Q0-I1-P0-L2-Z8-b2", false},
               {"fwd_ws:Br128-Bc64-s2-q2-Q0-I0-P0-L2-Z8-b2-N1", false}};
  const fat_problem p = problem_of("fwd-bf16-b16-h12-q1024-k1024-d64-causal");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    if (can_be_asked_for(cases[i].config, &p, gpu_of("H200")) != cases[i].fits)
      fail_msg("%s", cases[i].config);
}

/* Values that no walk takes, and those that it takes only beside others: who asks gets them. */
static void what_is_not_worth_a_walk_can_be_asked_for(void **state)
{
  (void)state;
#define WS "fwd_ws:Br%d-Bc128-s2-q1-Q0-I2-P%d-L1-Z1%s"
  static const struct {
    int Br, P;
    const char *S;
    bool listed;
  } cases[] = {{128, 0, "", true}, {128, 2, "", false}, {128, 0, "-S1", false}, {192, 0, "-S1", true}};
  fat_problem p = problem_of("fwd-bf16-b4-h16-q4096-k4096-d128");
  const fat_gpu *gpu = gpu_of("H200");
  fat_space space;
  assert_int_equal(fat_space_list(script, "fwd_ws", &p, gpu, &space, NULL), FAT_OK);
  char(*texts)[FAT_CONFIG_TEXT] = texts_of(&space);
  for (int i = 0; i < 4; i++) {
    char text[FAT_CONFIG_TEXT];
    snprintf(text, sizeof text, WS, cases[i].Br, cases[i].P, cases[i].S);
    assert_true(can_be_asked_for(text, &p, gpu));
    assert_int_equal(holds(texts, space.count, text), cases[i].listed);
  }
  free(texts);
  fat_space_free(&space);
#undef WS
}

/* Few rows have tunables of their own (parts of keys, splits, clusters), and the walk through them has to end
 * within what a script may do. */
static void spaces_of_few_rows_are_walked_whole(void **state)
{
  (void)state;
  fat_problem p = problem_of("fwd-bf16-b7-h32k8-q3-k5657-d64-causal");
  fat_space space;
  fat_error err = {0};
  if (fat_space_list(script, "fwd", &p, gpu_of("H200"), &space, &err) != FAT_OK)
    fail_msg("%s", err.text);
  assert_true(space.count > 100);
  fat_space_free(&space);
}

/* Work counted by the template against work counted here, for one config by hand:
 * q = k = 128, Br 64, Bc 32, d 64, 2 heads: 4 blocks; full: 4 visits of 64x32 scores, d + dv + 1 each. */
static void work_is_counted_right(void **state)
{
  (void)state;
  fat_config c;
  assert_int_equal(fat_config_parse("fwd:Br64-Bc32-T128-R4-W4-s1", &c, NULL), FAT_OK);
  fat_problem p = problem_of("fwd-f32-b1-h2-q128-k128-d64");
  fat_point point;
  assert_int_equal(fat_space_point(script, &c, &p, gpu_of("T4"), &point, NULL), FAT_OK);
  const fat_work *w = &point.work[0];
  assert_true(w->blocks == 4 && w->threads == 128);
  assert_true(w->fma == 4 * 64 * 32 * (64 + 64 + 1) + 4 * 64 * 64);
  assert_true(w->dram == 4.0 * 2 * 128 * 64 * 4);
  assert_true(w->shared == 4 * (64 * 68 + 64 * 40 + 32 * 68 + 32 * 64));
  p = problem_of("fwd-f32-b1-h2-q128-k128-d64-causal");
  assert_int_equal(fat_space_point(script, &c, &p, gpu_of("T4"), &point, NULL), FAT_OK);
  assert_true(w->fma == 3 * 64 * 32 * (64 + 64 + 1) + 3 * 64 * 64); /* tiles of rows 0-63: 2, 64-127: 4 */
}

static void what_does_not_apply_says_why(void **state)
{
  (void)state;
  static const struct {
    const char *problem, *gpu, *words;
  } cases[] = {
      {"fwd-bf16-b1-h1-q64-k64-d64", "T4", "T4 (sm_75) has no bf16 arithmetic; it has f16 f32"},
      {"fwd-tf32-b1-h1-q64-k64-d64", "T4", "T4 (sm_75) has no tf32 arithmetic; it has f16 f32"},
      {"bwd-f32-b1-h1-q64-k64-d64", "T4", "kernel fwd does fwd, not bwd"},
      {"fwd-f32-b1-h1-q64-k64-d64-partial", "H200", "kernel fwd has no 'partial'"},
      {"fwd-f32-b1-h1-q64-k64-d64-causal-paged16", "H200", "kernel fwd has no 'paged'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fat_problem p = problem_of(cases[i].problem);
    fat_space space;
    fat_error err = {0};
    int picked;
    assert_int_equal(fat_space_applies(script, "fwd", &p, gpu_of(cases[i].gpu), &picked, &err),
                     FAT_E_UNSUPPORTED);
    if (strstr(err.text, cases[i].words) == NULL)
      fail_msg("'%s' does not hold '%s'", err.text, cases[i].words);
    assert_int_equal(fat_space_list(script, "fwd", &p, gpu_of(cases[i].gpu), &space, &err),
                     FAT_E_UNSUPPORTED);
  }
}

static void configs_that_are_wrong_say_why(void **state)
{
  (void)state;
#define PLAIN "fwd-f32-b1-h1-q64-k64-d64", "T4"
  static const struct {
    const char *problem, *gpu, *config, *words;
    fat_status status;
  } cases[] = {
      {PLAIN, "fwd:Br65-Bc32-T128-R4-W4-s1", "Br is 65; allowed are 16, 32, 64, 128", FAT_E_INPUT},
      {PLAIN, "fwd:Br64-Bc32-T128-R4-W4", "says nothing of s", FAT_E_INPUT},
      {PLAIN, "fwd:Br64-Bc32-T128-R4-W4-Z2", "'Z2' is no tunable of fwd", FAT_E_INPUT},
      {PLAIN, "fwd:Br128-Bc128-T128-R8-W4-s0", "fit 255 registers", FAT_E_UNSUPPORTED},
      {PLAIN, "fwd:Br128-Bc64-T256-R4-W4-s1", "64 KB of shared memory", FAT_E_UNSUPPORTED},
      {PLAIN, "fwd:Br16-Bc16-T256-R8-W4-s1", "4 to 32 lanes", FAT_E_UNSUPPORTED},
      /* each would read columns of K amid a box, which no product can: dQ was wrong */
      {"bwd-bf16-b1-h1-q64-k64-d192v128", "H200", "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z1-O1", "first of a box",
       FAT_E_UNSUPPORTED},
      {"bwd-f16-b1-h1-q64-k64-d136v64-drop", "H200", "bwd_ws:Br64-Bc128-s2-t2-S0-R0-Z1", "first of a box",
       FAT_E_UNSUPPORTED},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fat_problem p = problem_of(cases[i].problem);
    fat_config c;
    fat_point point;
    fat_error err = {0};
    assert_int_equal(fat_config_parse(cases[i].config, &c, NULL), FAT_OK);
    fat_status status = fat_space_point(script, &c, &p, gpu_of(cases[i].gpu), &point, &err);
    if (status != cases[i].status || strstr(err.text, cases[i].words) == NULL)
      fail_msg("%s: '%s' does not hold '%s'", cases[i].config, err.text, cases[i].words);
  }
}

static void who_may_be_picked(void **state)
{
  (void)state;
  fat_problem p = problem_of("fwd-f32-b1-h1-q64-k64-d64");
  int picked;
  assert_int_equal(fat_space_applies(script, "fwd", &p, gpu_of("T4"), &picked, NULL), FAT_OK);
  assert_int_equal(picked, 1);
  assert_int_equal(fat_space_applies(script, "fa1", &p, gpu_of("T4"), &picked, NULL), FAT_OK);
  assert_int_equal(picked, 0);
  assert_int_equal(fat_space_applies(script, "standard", &p, gpu_of("T4"), &picked, NULL), FAT_OK);
  assert_int_equal(picked, 0);
}

/* What a mistyped feature is answered with is worth typing. */
static void no_kernel_serves_what_is_not_offered(void **state)
{
  (void)state;
  char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  int count, reserved = 0;
  assert_int_equal(fat_space_kernels(script, names, &count, NULL), FAT_OK);
  for (int f = 0; f < FAT_FEATURE_COUNT; f++)
    for (int op = 0; op < FAT_OP_COUNT; op++) {
      fat_problem p = problem_of("fwd-f16-b1-h2-q64-k64-d64");
      int picked;
      if (fat_feature_offered((fat_feature)f, (fat_op)op))
        continue;
      reserved++;
      p.op = (fat_op)op;
      p.features = 1u << f;
      p.arg[f][0] = p.arg[f][1] = 64;
      for (int k = 0; k < count; k++)
        if (fat_space_applies(script, names[k], &p, gpu_of("H200"), &picked, NULL) == FAT_OK)
          fail_msg("%s serves %s, which feature.c does not offer", names[k], fat_features[f].name);
    }
  assert_true(reserved > 0);
}

/* Where the calling program has a language whose numbers have no point, all is as it was. */
static void numbers_have_a_point_in_any_language(void **state)
{
  (void)state;
  const fat_problem p = problem_of("bwd-bf16-b1-h8k1-q4096-k4096-d128-causal");
  const fat_gpu *h200 = gpu_of("H200");
  fat_point here, there;
  fat_error err = {0};
  assert_int_equal(fat_space_default(script, "bwd_ws", &p, h200, &here, &err), FAT_OK);
  int made = 0;
  for (int i = 0; i < LANGUAGES; i++) {
    const folder f = folder_make();
    if (language_speak(&f, i)) {
      char half[16];
      snprintf(half, sizeof half, "%.1f", 0.5);
      assert_string_not_equal(half, "0.5");
      fat_script *other;
      assert_int_equal(fat_script_open(NULL, &other, &err), FAT_OK);
      if (fat_space_default(other, "bwd_ws", &p, h200, &there, &err) != FAT_OK)
        fail_msg("%s: %s", half, err.text);
      fat_script_close(other);
      snprintf(half, sizeof half, "%.1f", 0.5);
      assert_string_not_equal(half, "0.5"); /* the program keeps its own */
      char one[FAT_CONFIG_TEXT], two[FAT_CONFIG_TEXT];
      assert_string_equal(fat_config_print(&there.config, one), fat_config_print(&here.config, two));
      for (int n = 0; n < here.launches; n++)
        assert_memory_equal(&here.work[n], &there.work[n], sizeof here.work[n]);
      made++;
    }
    language_forget(&f);
  }
  if (made < LANGUAGES)
    skip(); /* no localedef, no tables of UTF-8, or no glibc */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_are_listed),
      cmocka_unit_test(every_dimension_has_a_default),
      cmocka_unit_test(points_agree_with_the_space),
      cmocka_unit_test(launches_ahead_are_counted),
      cmocka_unit_test(nothing_valid_is_cut_off),
      cmocka_unit_test(what_blocks_share_has_room_for_all),
      cmocka_unit_test(what_is_not_worth_a_walk_can_be_asked_for),
      cmocka_unit_test(spaces_of_few_rows_are_walked_whole),
      cmocka_unit_test(work_is_counted_right),
      cmocka_unit_test(what_does_not_apply_says_why),
      cmocka_unit_test(configs_that_are_wrong_say_why),
      cmocka_unit_test(who_may_be_picked),
      cmocka_unit_test(no_kernel_serves_what_is_not_offered),
      cmocka_unit_test(numbers_have_a_point_in_any_language),
  };
  return cmocka_run_group_tests(tests, open_script, close_script);
}
