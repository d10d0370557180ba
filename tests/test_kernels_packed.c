/* test_kernels_packed.c -- tiles of Q that hold rows of all heads which share K and V (G1), on the emulator.
 *
 * Numbers of rows around a tile's, numbers of heads that divide a tile and that do not, both masks, every
 * kind of element and of copy, tensors that reach past 2^31 elements; and what the launch makes of it: the
 * grid, the default for few rows, rows that 32 bits do not count. */
#include "check.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers ---- */

typedef struct kernel {
  const char *gpu, *dtype, *dims, *config;
} kernel;

/* Copies through registers and asynchronous ones, rings, Q held and not, tiles of 32 rows a warp and of 16,
 * heads together, elements one by one; V wider and narrower than K. */
static const kernel kernels[] = {
    {"T4", "f16", "d40v72", "fwd:Br32-Bc16-w2-s1-Q0-b1-Z1-W16-G1"},
    {"T4", "f16", "d64-causal", "fwd:Br64-Bc32-w2-s0-Q1-b1-Z8-W16-G1"},
    {"A100", "bf16", "d64-causal", "fwd:Br16-Bc32-w1-s3-Q0-b1-Z1-W16-G1"},
    {"A100", "f16", "d40v24-causal", "fwd:Br64-Bc16-w4-s2-Q1-b1-Z8-W16-G1"},
    {"A100", "f16", "d40v24-causal", "fwd:Br64-Bc16-w4-s1-Q1-b1-Z8-W1-G1"},
    {"A100", "tf32", "d40-causal", "fwd:Br64-Bc32-w4-s2-Q0-b1-Z1-W16-G1"},
    {"A100", "f32x3", "d24v40", "fwd:Br32-Bc16-w2-s1-Q0-b1-Z1-W1-G1"},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static emu_case case_of(const kernel *of, int64_t b, int64_t peers, int64_t hk, int64_t q, int64_t k)
{
  char text[FAT_PROBLEM_TEXT];
  snprintf(text, sizeof text, "fwd-%s-b%lld-h%lldk%lld-q%lld-k%lld-%s", of->dtype, (long long)b,
           (long long)(peers * hk), (long long)hk, (long long)q, (long long)k, of->dims);
  emu_case c = emu_check_case(text);
  assert_int_equal(fat_gpu_find(of->gpu, &c.gpu, NULL), FAT_OK);
  return c;
}

static void solves(const kernel *of, const emu_case *c, uint64_t number)
{
  fat_config config = emu_check_config(of->config, c);
  fat_truth t = emu_check_truth(c);
  emu_check_solves(c, &t, &config, (emu_order)(number % 3), number);
  fat_truth_free(&t);
}

/* Of 4 x 4 shapes each kernel takes 8, and another 8 than the one before it; the long form takes all. */
static void rows_of_many_heads_are_solved(void **state)
{
  (void)state;
  static const int64_t rows[] = {1, 3, 16, 65}, peers[] = {1, 3, 4, 8};
  for (int i = 0; i < KERNELS; i++)
    for (int s = 0; s < 16; s++) {
      uint64_t number = (uint64_t)(16 * i + s);
      if ((s % 4 + s / 4 + i) % 2 && !emu_check_full())
        continue;
      emu_case c =
          case_of(&kernels[i], 1 + s % 2, peers[s / 4], 1 + s / 4 % 2, rows[s % 4], 37 + 33 * (s % 2));
      c.seed = number;
      c.lay = (emu_lay)(number % EMU_FAR);
      c.data = (fat_data)(number % FAT_DATAS);
      c.no_lse = s == 5 || s == 6;
      solves(&kernels[i], &c, number);
    }
}

/* Under a causal mask the first rows of each head then see no key. */
static void rows_without_keys(void **state)
{
  (void)state;
  for (int i = 1; i < 6; i++) {
    emu_case c = case_of(&kernels[i], 1, 3, 2, 33, 5);
    c.lay = EMU_PADDED;
    solves(&kernels[i], &c, (uint64_t)i);
  }
}

static void tensors_reach_past_two_to_the_31(void **state)
{
  (void)state;
  emu_check_far();
  for (int i = 0; i < KERNELS; i += 2) {
    emu_case c = case_of(&kernels[i], 2, 3, 2, 13, 40);
    c.lay = EMU_FAR;
    solves(&kernels[i], &c, 1);
  }
}

/* ---- the launch ---- */

static fat_point default_of(const char *problem, const char *gpu_name)
{
  fat_problem p;
  fat_point point;
  fat_error err = {0};
  const fat_gpu *gpu;
  assert_int_equal(fat_problem_parse(problem, &p, NULL), FAT_OK);
  assert_int_equal(fat_gpu_find(gpu_name, &gpu, NULL), FAT_OK);
  if (fat_space_default(emu_check_script(), "fwd", &p, gpu, &point, &err) != FAT_OK)
    fail_msg("%s", err.text);
  return point;
}

static bool packs(const char *problem, const char *gpu)
{
  fat_point point = default_of(problem, gpu);
  int32_t G;
  return fat_config_get(&point.config, "G", &G) == FAT_OK && G == 1;
}

static void few_rows_of_shared_heads_are_packed_by_default(void **state)
{
  (void)state;
  static const char *const gpus[] = {"T4", "RTX 3090", "A100", "H200"};
  for (int i = 0; i < 4; i++) {
    assert_true(packs("fwd-f16-b8-h32k8-q1-k8192-d128", gpus[i]));
    assert_true(packs("fwd-f16-b8-h32k8-q1-k8192-d256-causal", gpus[i]));
    assert_true(packs("fwd-f16-b1-h8k1-q32-k256-d64v96", gpus[i]));
    assert_false(packs("fwd-f16-b1-h8k1-q32-k255-d64v96", gpus[i]));
    assert_true(packs("fwd-f16-b256-h32k8-q1-k255-d128", gpus[i]));
    assert_false(packs("fwd-f16-b8-h32-q1-k8192-d128", gpus[i]));
    assert_false(packs("fwd-f16-b8-h32k8-q64-k8192-d128", gpus[i]));
    assert_false(packs("fwd-f32-b8-h32k8-q1-k8192-d128", gpus[i]));
  }
  assert_true(packs("fwd-f32x3-b8-h32k8-q1-k8192-d128", "A100"));
}

/* 32 heads by 8: 4 of them are one tile of 64 rows up to q = 16, two from 17 on. */
static void a_tile_for_all_that_share(void **state)
{
  (void)state;
  static const struct {
    int64_t q, hk, blocks;
  } cases[] = {{1, 8, 16}, {16, 8, 16}, {17, 8, 32}, {1, 32, 64}, {65, 1, 66}};
  static fat_recipe recipe;
  emu_case c = emu_check_case("fwd-f16-b2-h32k8-q1-k100-d64");
  fat_config config = emu_check_config("fwd:Br64-Bc64-w4-s1-Q0-b1-Z1-W16-G1", &c);
  fat_source source;
  fat_step_values values;
  fat_error err = {0};
  assert_int_equal(emu_kernel_render(emu_check_script(), &c.problem, c.gpu, &config, &source, &err), FAT_OK);
  assert_int_equal(fat_recipe_parse(fat_text_get(&source.recipe), &recipe, NULL), FAT_OK);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    const fat_sizes sizes = {.b = 2, .h = 32, .hk = cases[i].hk, .q = cases[i].q, .k = 100, .sms = 40};
    fat_problem p = c.problem;
    fat_point point;
    assert_int_equal(fat_recipe_step(&recipe, 0, &sizes, &values, NULL), FAT_OK);
    assert_int_equal(values.grid, cases[i].blocks);
    p.q = cases[i].q;
    p.hk = cases[i].hk;
    assert_int_equal(fat_space_point(emu_check_script(), &config, &p, c.gpu, &point, NULL), FAT_OK);
    assert_true(point.work[0].blocks == (double)cases[i].blocks);
  }
  const fat_sizes most = {.b = 1, .h = 16, .hk = 1, .q = (INT64_C(1) << 27) - 1, .k = 100, .sms = 40},
                  more = {.b = 1, .h = 16, .hk = 1, .q = INT64_C(1) << 27, .k = 100, .sms = 40};
  assert_int_equal(fat_recipe_check(&recipe, &most, NULL), FAT_OK);
  assert_int_equal(fat_recipe_check(&recipe, &more, NULL), FAT_E_UNSUPPORTED);
  fat_source_free(&source);
}

/* Visits under a causal mask, counted by hand: Br 64 rows are 16 of each of 4 heads; q = k = 32, Bc 16: the
 * first tile sees 16 keys, the second 32. */
static void work_is_counted_right(void **state)
{
  (void)state;
  emu_case c = emu_check_case("fwd-f16-b1-h4k1-q32-k32-d64-causal");
  fat_config config = emu_check_config("fwd:Br64-Bc16-w4-s1-Q0-b1-Z1-W16-G1", &c);
  fat_point point;
  assert_int_equal(fat_space_point(emu_check_script(), &config, &c.problem, c.gpu, &point, NULL), FAT_OK);
  assert_true(point.work[0].visits == 1.5);
  assert_true(point.work[0].blocks == 2);
}

/* Walked where they may help, and only there; what nothing is said of is 0, and is not said. */
static void where_it_is_walked(void **state)
{
  (void)state;
  static const struct {
    const char *problem;
    bool walked;
  } cases[] = {{"fwd-f16-b8-h32k8-q1-k8192-d128", true},
               {"fwd-f16-b8-h32-q1-k8192-d128", false},
               {"fwd-f16-b8-h32k8-q4096-k4096-d128", false}};
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    emu_case c = emu_check_case(cases[i].problem);
    fat_space space = emu_check_space("fwd", &c);
    int said = 0, ones = 0;
    for (int n = 0; n < space.count; n++) {
      int32_t G = 0;
      said += fat_config_get(&space.points[n].config, "G", &G) == FAT_OK;
      ones += G == 1;
    }
    assert_int_equal(said, ones);
    assert_int_equal(ones, cases[i].walked ? space.count / 2 : 0);
    fat_space_free(&space);
  }
  emu_case c = emu_check_case(cases[0].problem);
  fat_config config = emu_check_config("fwd:Br64-Bc16-w4-s1-Q0-b1-Z1-W16-G0", &c);
  fat_point point;
  fat_error err = {0};
  assert_int_equal(fat_space_point(emu_check_script(), &config, &c.problem, c.gpu, &point, &err),
                   FAT_E_INPUT);
  assert_non_null(strstr(err.text, "G is 0 where nothing is said of it"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_of_many_heads_are_solved),
      cmocka_unit_test(rows_without_keys),
      cmocka_unit_test(tensors_reach_past_two_to_the_31),
      cmocka_unit_test(few_rows_of_shared_heads_are_packed_by_default),
      cmocka_unit_test(a_tile_for_all_that_share),
      cmocka_unit_test(work_is_counted_right),
      cmocka_unit_test(where_it_is_walked),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
