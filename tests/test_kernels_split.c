/* test_kernels_split.c -- keys that several blocks share: how many splits a launch has, and what their number
 * must not change. That results are right problems.txt says. */
#include "check.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static fat_recipe recipe_of(const emu_case *c, const char *word)
{
  fat_recipe *made;
  fat_source source;
  const fat_config config = emu_check_config(word, c);
  assert_int_equal(emu_kernel_render(emu_check_script(), &c->problem, c->gpu, &config, &source, NULL),
                   FAT_OK);
  assert_int_equal(fat_recipe_make(fat_text_get(&source.recipe), &made, NULL), FAT_OK);
  static fat_recipe recipe;
  memset(&recipe, 0, sizeof recipe);
  memcpy(&recipe, made, offsetof(fat_recipe, step) + (size_t)made->steps * sizeof *made->step);
  free(made);
  fat_source_free(&source);
  return recipe;
}

/* Splits that the blocks of a cluster have are as many as it has blocks, 8 at most, and need no workspace.
 * Where 264 blocks have room, 64 clusters of 4 and 88 of 3 do not find it: 16 SMs of a GPC have room for 32
 * blocks, and four more clusters are counted. 128 pairs do. */
static void clusters_follow_the_sizes(void **state)
{
  (void)state;
  const int64_t cases[][3] = {{1, 8192, 8}, {8, 8192, 3}, {1, 100, 2},   {64, 8192, 1},
                              {3, 8192, 8}, {5, 8192, 5}, {11, 8192, 2}, {16, 8192, 2}}; /* b, k, splits */
  emu_case c = emu_check_hopper_case("fwd-bf16-b1-h32k8-q1-k8192-d128");
  const fat_recipe recipe = recipe_of(&c, "fwd:Br16-Bc64-w2-k2-s3-Q0-b1-Z1-W16-G1-N2-M8");
  assert_int_equal(recipe.steps, 1);
  assert_int_equal(recipe.workspace.count, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const fat_sizes sizes = {.b = cases[i][0], .h = 32, .hk = 8, .q = 1, .k = cases[i][1], .sms = 132};
    fat_step_values fwd;
    assert_int_equal(fat_recipe_step(&recipe, 0, &sizes, &fwd, NULL), FAT_OK);
    assert_int_equal(fwd.cluster, cases[i][2]);
    assert_int_equal(fwd.grid, 8 * cases[i][0] * cases[i][2]);
    assert_int_equal(fwd.arg[1], cases[i][2]);
  }
}

/* As many as fill N blocks of each SM, whole tiles of keys, one at least; and the workspace holds them. */
static void splits_follow_the_sizes(void **state)
{
  (void)state;
  static const struct {
    int64_t b, hk, q, k, splits;
  } cases[] = {{1, 8, 1, 8192, 33},  {1, 8, 1, 65536, 33}, {8, 8, 1, 8192, 4},  {64, 8, 1, 8192, 1},
               {1, 8, 1, 100, 2},    {1, 1, 1, 8192, 128}, {1, 8, 4, 8192, 33}, {1, 8, 5, 8192, 16},
               {0, 8, 1, 8192, 128}, {1, 8, 0, 8192, 128}};
  const emu_case c = emu_check_case("fwd-bf16-b1-h32k8-q1-k8192-d128");
  static fat_recipe recipe;
  const fat_config config = emu_check_config("fwd:Br16-Bc64-w1-s1-Q0-b1-Z1-W16-G1-N2", &c);
  const fat_gpu *hopper;
  assert_int_equal(fat_gpu_find("H200", &hopper, NULL), FAT_OK);
  recipe = recipe_of(&c, "fwd:Br16-Bc64-w1-s1-Q0-b1-Z1-W16-G1-N2");
  assert_int_equal(recipe.steps, 2);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int64_t b = cases[i].b, h = 4 * cases[i].hk, q = cases[i].q,
                  tiles = (4 * q + 15) / 16 * b * cases[i].hk;
    const fat_sizes sizes = {.b = b, .h = h, .hk = cases[i].hk, .q = q, .k = cases[i].k, .sms = 132};
    fat_step_values fwd, merge;
    int64_t workspace;
    assert_int_equal(fat_recipe_workspace(&recipe, &sizes, &workspace, NULL), FAT_OK);
    assert_int_equal(fat_recipe_step(&recipe, 0, &sizes, &fwd, NULL), FAT_OK);
    assert_int_equal(fat_recipe_step(&recipe, 1, &sizes, &merge, NULL), FAT_OK);
    assert_int_equal(fwd.grid, tiles * cases[i].splits);
    assert_int_equal(fwd.arg[2], cases[i].splits);
    assert_int_equal(merge.arg[2], cases[i].splits);
    assert_int_equal(merge.grid, cases[i].splits > 16 ? b * h * q : (b * h * q + 1) / 2);
    fat_problem p = c.problem; /* and the model counts as the recipe does */
    fat_point point;
    p.b = b, p.h = h, p.hk = cases[i].hk, p.q = q, p.k = cases[i].k;
    assert_int_equal(fat_space_point(emu_check_script(), &config, &p, hopper, &point, NULL), FAT_OK);
    assert_true(point.work[0].blocks == (double)fwd.grid && point.work[1].blocks == (double)merge.grid);
    assert_true(workspace >= b * h * q * cases[i].splits * (128 + 1) * 4);
    assert_true(workspace <= (16 * 132 * 2 + 16 * tiles) * (128 + 1) * 4);
  }
}

/* What is enough for some sizes is so for smaller ones, though these have more splits. */
static void the_workspace_is_enough_for_less(void **state)
{
  (void)state;
  const emu_case c = emu_check_case("fwd-bf16-b1-h32k8-q1-k8192-d128");
  static fat_recipe recipe;
  recipe = recipe_of(&c, "fwd:Br16-Bc64-w1-s1-Q0-b1-Z1-W16-G1-N2");
  for (int n = 0; n < 3; n++) { /* batches, rows, keys */
    int64_t last = 0, workspace;
    for (int64_t x = 1; x <= 100; x++) {
      const int64_t b = n == 0 ? x : 1, q = n == 1 ? x : 1, k = n == 2 ? 37 * x : 8192;
      const fat_sizes sizes = {.b = b, .h = 32, .hk = 8, .q = q, .k = k, .sms = 132};
      fat_step_values fwd;
      assert_int_equal(fat_recipe_workspace(&recipe, &sizes, &workspace, NULL), FAT_OK);
      assert_int_equal(fat_recipe_step(&recipe, 0, &sizes, &fwd, NULL), FAT_OK);
      assert_true(workspace >= b * 32 * q * fwd.arg[2] * (128 + 1) * 4);
      if (workspace < last)
        fail_msg("%d: of %d %lld bytes, of one less %lld", n, (int)x, (long long)workspace, (long long)last);
      last = workspace;
    }
  }
}

static void same_bits(const emu_case *c, const fat_config *config, const float *a, const float *b,
                      int64_t count)
{
  for (int64_t i = 0; i < count; i++)
    if (memcmp(&a[i], &b[i], sizeof *a) != 0)
      fail_msg("%s: element %lld is %.9g and %.9g", emu_check_title(c, config), (long long)i, (double)a[i],
               (double)b[i]);
}

/* The last rows of each head of the first batch, as a problem of their own. */
static void copy_last_rows(const emu_case *c, const fat_truth *t, int64_t rows, float *Q)
{
  const fat_problem *p = &c->problem;
  for (int64_t h = 0; h < p->h; h++)
    memcpy(Q + h * rows * p->d, t->in[FAT_Q] + ((h + 1) * p->q - rows) * p->d,
           (size_t)(rows * p->d) * sizeof *Q);
}

/* splitN: whatever the config is, and whatever stands beside a row in its batch and in its call. Under a
 * causal mask the last rows of a call see what they would see alone. */
static void bits_do_not_depend_on_config_or_sizes(void **state)
{
  (void)state;
  static const char *const configs[] = {
      "fwd:Br16-Bc64-w1-s1-Q0-b1-Z1-W16-G1-L0", "fwd:Br64-Bc64-w2-s0-Q1-b1-Z1-W16-L0",
      "fwd:Br32-Bc64-w2-s1-Q0-b1-Z1-W1-L0", "fwd:Br32-Bc64-w1-s0-Q1-b2-Z1-W16-G1-L0"};
  enum { LAST = 3 };
  for (int i = 0; i < 2; i++) {
    emu_case c = emu_check_case(i ? "fwd-f16-b2-h4k2-q9-k300-d64-causal-split64"
                                  : "fwd-f16-b2-h4k2-q9-k300-d64-split128");
    c.data = i ? FAT_RISING : FAT_NORMAL;
    fat_truth t = emu_check_truth(&c);
    const fat_config first_config = emu_check_config(configs[0], &c);
    const int64_t rows = c.problem.h * c.problem.q, dv = c.problem.dv;
    emu_result first = emu_check_run(&c, &t, &first_config, EMU_IN_ORDER, 0);
    for (int k = 1; k < 4; k++) {
      const fat_config config = emu_check_config(configs[k], &c);
      emu_result r = emu_check_run(&c, &t, &config, EMU_RANDOM, (uint64_t)k);
      same_bits(&c, &config, first.out[FAT_O], r.out[FAT_O], 2 * rows * dv);
      same_bits(&c, &config, first.out[FAT_LSE], r.out[FAT_LSE], 2 * rows);
      emu_result_free(&r);
    }
    emu_case few = c;
    float Q[4 * LAST * 64];
    few.problem.b = 1;
    few.problem.q = LAST;
    fat_truth own = emu_check_truth(&few), part = own;
    copy_last_rows(&c, &t, LAST, Q);
    part.in[FAT_Q] = Q;
    part.in[FAT_K] = t.in[FAT_K];
    part.in[FAT_V] = t.in[FAT_V];
    emu_result r = emu_check_run(&few, &part, &first_config, EMU_IN_ORDER, 0);
    for (int64_t h = 0; h < c.problem.h; h++)
      same_bits(&few, &first_config, first.out[FAT_O] + ((h + 1) * c.problem.q - LAST) * dv,
                r.out[FAT_O] + h * LAST * dv, LAST * dv);
    emu_result_free(&r);
    emu_result_free(&first);
    fat_truth_free(&own);
    fat_truth_free(&t);
  }
}

/* Nor on splits that a row does not see: the first 300 keys are a call's of 5 splits, and one's of 19. */
static void bits_do_not_depend_on_keys_behind(void **state)
{
  (void)state;
  const emu_case c = emu_check_case("fwd-f16-b1-h1-q270-k1200-d64-causaltl-split64");
  emu_case few = c;
  few.problem.k = 300;
  fat_truth t = emu_check_truth(&c), own = emu_check_truth(&few), part = own;
  part.in[FAT_Q] = t.in[FAT_Q];
  part.in[FAT_K] = t.in[FAT_K];
  part.in[FAT_V] = t.in[FAT_V];
  const fat_config config = emu_check_config("fwd:Br64-Bc64-w4-s1-Q0-b1-Z8-W16-L0", &c);
  emu_result all = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 0);
  emu_result r = emu_check_run(&few, &part, &config, EMU_IN_ORDER, 0);
  same_bits(&few, &config, all.out[FAT_O], r.out[FAT_O], c.problem.q * c.problem.dv);
  same_bits(&few, &config, all.out[FAT_LSE], r.out[FAT_LSE], c.problem.q);
  emu_result_free(&r);
  emu_result_free(&all);
  fat_truth_free(&own);
  fat_truth_free(&t);
}

/* Splits that the SMs ask for: the same bits in every order of blocks and warps. */
static void bits_do_not_depend_on_order(void **state)
{
  (void)state;
  emu_case c = emu_check_case("fwd-bf16-b1-h4k2-q3-k700-d64-causal");
  c.sms = 6;
  const fat_config config = emu_check_config("fwd:Br16-Bc32-w1-s2-Q0-b1-Z1-W16-G1-N3", &c);
  fat_truth t = emu_check_truth(&c);
  emu_result first = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 0);
  for (int run = 0; run < 3; run++) {
    emu_result r = emu_check_run(&c, &t, &config, run == 0 ? EMU_REVERSED : EMU_RANDOM, (uint64_t)run);
    same_bits(&c, &config, first.out[FAT_O], r.out[FAT_O], fat_tensors_elements(&c.problem, FAT_O));
    emu_result_free(&r);
  }
  emu_result_free(&first);
  fat_truth_free(&t);
}

/* What would make bits depend on the config is no config of such a problem. */
static void what_would_differ_is_refused(void **state)
{
  (void)state;
  static const char *const refused[] = {
      "fwd:Br16-Bc32-w1-s1-Q0-b1-Z1-W16-L0", "fwd:Br16-Bc64-w1-s1-Q0-b1-Z1-W16",
      "fwd:Br16-Bc64-w1-s1-Q0-b1-Z1-W16-L0-N2", "fwd:Br16-Bc64-w2-k2-s1-Q0-b1-Z1-W16-L0"};
  const emu_case c = emu_check_case("fwd-f16-b1-h4k2-q9-k300-d64-split64");
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    fat_config config;
    fat_point point;
    assert_int_equal(fat_config_parse(refused[i], &config, NULL), FAT_OK);
    assert_int_equal(fat_space_point(emu_check_script(), &config, &c.problem, c.gpu, &point, NULL),
                     FAT_E_UNSUPPORTED);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clusters_follow_the_sizes),
      cmocka_unit_test(splits_follow_the_sizes),
      cmocka_unit_test(the_workspace_is_enough_for_less),
      cmocka_unit_test(bits_do_not_depend_on_config_or_sizes),
      cmocka_unit_test(bits_do_not_depend_on_keys_behind),
      cmocka_unit_test(bits_do_not_depend_on_order),
      cmocka_unit_test(what_would_differ_is_refused),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
