/* test_kernels.c -- the numbers of every kernel, on the emulator, against a reference in double.
 *
 * problems.txt names problems and the kernels that solve them. Beside it: configs that together hold every
 * value of every tunable, at lengths around the edges of their tiles; results that must not depend on order,
 * layout or neighbours, bit for bit; tensors that reach past 2^31 elements. Wherever a kernel runs, the
 * emulator watches: any finding fails. FATUNE_FULL=1 runs the long form. With an argument only lines of
 * problems.txt run that have it in them, whole or in part, of the long form too:
 *   build/tests/test_kernels 'q37-k70-d16-causal all' */
#include "check.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- problems.txt ---- */

/* What a line must have in it to run; NULL: all run. */
static const char *wanted;

/* KERNELS of a line as they are run: without those behind the `+`, or with them; false where none is left. */
static bool chosen(char *kernels, bool all)
{
  char *more = strchr(kernels, '+');
  if (more == kernels)
    memmove(kernels, kernels + 1, strlen(kernels));
  else if (more)
    *more = all ? ',' : 0;
  return all || more != kernels;
}

/* Whether any kernel of it is run. */
static bool line_is_solved(const char *line, uint64_t number)
{
  char kernels[FAT_CONFIG_TEXT], *rest = kernels, *word;
  emu_case c;
  fat_error err = {0};
  if (emu_case_parse(line, &c, kernels, &err) != FAT_OK)
    fail_msg("problems.txt: %s", err.text);
  c.seed = number;
  if (!chosen(kernels, emu_check_full() || wanted))
    return false;
  if (!strcmp(kernels, "all"))
    strcpy(kernels, "standard,fa1,fwd");
  fat_truth t = emu_check_truth(&c);
  while ((word = strtok_r(rest, ",", &rest))) {
    fat_config config = emu_check_config(word, &c);
    emu_check_solves(&c, &t, &config, (emu_order)(number % 3), number);
  }
  fat_truth_free(&t);
  return true;
}

static void every_problem_is_solved(void **state)
{
  (void)state;
  char line[1024];
  uint64_t number = 0;
  int solved = 0;
  FILE *f = fopen("tests/problems.txt", "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) {
    if (!strncmp(line, "# full", 6) && !emu_check_full() && !wanted)
      break;
    if (line[0] == '#' || line[0] == '\n')
      continue;
    number++; /* the seed: a line by itself has the numbers that it has among all */
    if (wanted && !strstr(line, wanted))
      continue;
    if (wanted)
      print_message("%s", line);
    solved += line_is_solved(line, number);
  }
  fclose(f);
  if (solved < (wanted ? 1 : 40))
    fail_msg("%d lines of problems.txt were run", solved);
}

/* ---- configs at the edges of their tiles ---- */

static void edges_are_solved(const char *family, const fat_config *config, uint64_t number)
{
  int32_t Br, Bc;
  assert_int_equal(fat_config_get(config, "Br", &Br), FAT_OK);
  assert_int_equal(fat_config_get(config, "Bc", &Bc), FAT_OK);
  const int64_t lengths[][2] = {{1, 1},           {Br - 1, Bc + 1}, {Br, Bc},
                                {Br + 1, Bc - 1}, {1, 2 * Bc + 1},  {2 * Br + 1, 2 * Bc - 1},
                                {2 * Br - 1, 1},  {Br + 1, 3 * Bc}, {3 * Br, Bc + 1}};
  for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    emu_case c;
    fat_problem p;
    assert_int_equal(fat_problem_parse_family(family, &p, NULL), FAT_OK);
    p.h = 2;
    p.q = lengths[i][0];
    p.k = lengths[i][1];
    emu_case_plain(&c, &p);
    c.seed = number + i;
    c.lay = (emu_lay)(c.seed % EMU_FAR);
    c.data = (fat_data)(c.seed % FAT_DATAS);
    fat_truth t = emu_check_truth(&c);
    emu_check_solves(&c, &t, config, (emu_order)(i % 3), c.seed);
    fat_truth_free(&t);
  }
}

static int covered_edges(const char *family, int number)
{
  int configs = 0;
  for (int k = 0; k < EMU_KERNELS; k++) {
    fat_problem p;
    emu_case c;
    fat_config picked[EMU_COVER];
    assert_int_equal(fat_problem_parse_family(family, &p, NULL), FAT_OK);
    p.q = p.k = 128;
    emu_case_plain(&c, &p);
    fat_space space = emu_check_space(emu_kernel_names[k], &c);
    int count = emu_check_covering(&space, picked);
    for (int i = 0; i < count; i++)
      edges_are_solved(family, &picked[i], (uint64_t)(31 * i + 7 * k + number));
    configs += count;
    fat_space_free(&space);
  }
  return configs;
}

static void every_tunable_value_works_at_tile_edges(void **state)
{
  (void)state;
  static const char *const families[] = {"fwd-f32-d40",    "fwd-f32-d40-causal",  "fwd-f32-d8-causal",
                                         "fwd-f32-d64v40", "fwd-f32-d128-causal", "fwd-f32-d256"};
  for (int f = emu_check_full() ? 0 : 1; f < (emu_check_full() ? 6 : 2); f++)
    assert_true(covered_edges(families[f], f) >= 9);
}

/* ---- what results must not depend on ---- */

static void same_bits(const emu_case *c, const fat_config *config, const char *what, const float *a,
                      const float *b, int64_t count)
{
  for (int64_t i = 0; i < count; i++)
    if (memcmp(&a[i], &b[i], sizeof *a) != 0)
      fail_msg("%s: %s: element %lld is %.9g and %.9g", emu_check_title(c, config), what, (long long)i,
               (double)a[i], (double)b[i]);
}

static void results_do_not_depend_on_order_or_layout(void **state)
{
  (void)state;
  for (int k = 0; k < EMU_KERNELS; k++) {
    emu_case c = emu_check_case("fwd-f32-b2-h2k1-q67-k70-d64-causal");
    fat_config config = emu_check_config(emu_kernel_names[k], &c);
    fat_truth t = emu_check_truth(&c);
    int64_t rows = c.problem.b * c.problem.h * c.problem.q;
    emu_result first = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 0);
    for (int run = 0; run < 6; run++) {
      c.lay = (emu_lay)(run % EMU_FAR);
      c.no_lse = run == 5;
      emu_result r = emu_check_run(&c, &t, &config, run == 0 ? EMU_REVERSED : EMU_RANDOM, (uint64_t)run);
      same_bits(&c, &config, "O under another order or layout", first.out[FAT_O], r.out[FAT_O],
                rows * c.problem.dv);
      if (r.out[FAT_LSE])
        same_bits(&c, &config, "LSE under another order or layout", first.out[FAT_LSE], r.out[FAT_LSE], rows);
      emu_result_free(&r);
    }
    emu_result_free(&first);
    fat_truth_free(&t);
  }
}

static void gradients_without_reductions_have_equal_bits(void **state)
{
  (void)state;
  static const fat_tensor outs[] = {FAT_DQ, FAT_DK, FAT_DV};
  emu_case c = emu_check_case("bwd-f16-b1-h2k1-q150-k170-d40-causal");
  fat_config config = emu_check_config("bwd_two", &c);
  fat_truth t = emu_check_truth(&c);
  emu_result first = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 0);
  for (int run = 0; run < 2; run++) {
    emu_result r = emu_check_run(&c, &t, &config, run == 0 ? EMU_REVERSED : EMU_RANDOM, (uint64_t)run);
    for (int i = 0; i < 3; i++)
      same_bits(&c, &config, fat_tensors[outs[i]].name, first.out[outs[i]], r.out[outs[i]],
                fat_tensors_elements(&c.problem, outs[i]));
    emu_result_free(&r);
  }
  emu_result_free(&first);
  fat_truth_free(&t);
}

static void swap(float *a, float *b, int64_t count)
{
  for (int64_t i = 0; i < count; i++) {
    float x = a[i];
    a[i] = b[i];
    b[i] = x;
  }
}

static void batches_do_not_know_each_other(void **state)
{
  (void)state;
  for (int k = 0; k < EMU_KERNELS; k++) {
    emu_case c = emu_check_case("fwd-f32-b2-h2k1-q33-k70-d64-causal");
    const fat_problem *p = &c.problem;
    fat_config config = emu_check_config(emu_kernel_names[k], &c);
    fat_truth t = emu_check_truth(&c);
    emu_result before = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 0);
    int64_t q = p->h * p->q * p->d, kk = p->hk * p->k * p->d, v = p->hk * p->k * p->dv,
            o = p->h * p->q * p->dv;
    swap(t.in[FAT_Q], t.in[FAT_Q] + q, q);
    swap(t.in[FAT_K], t.in[FAT_K] + kk, kk);
    swap(t.in[FAT_V], t.in[FAT_V] + v, v);
    emu_result after = emu_check_run(&c, &t, &config, EMU_RANDOM, 3);
    swap(after.out[FAT_O], after.out[FAT_O] + o, o);
    swap(after.out[FAT_LSE], after.out[FAT_LSE] + p->h * p->q, p->h * p->q);
    same_bits(&c, &config, "O with batches swapped", before.out[FAT_O], after.out[FAT_O], 2 * o);
    same_bits(&c, &config, "LSE with batches swapped", before.out[FAT_LSE], after.out[FAT_LSE],
              2 * p->h * p->q);
    emu_result_free(&before);
    emu_result_free(&after);
    fat_truth_free(&t);
  }
}

/* Repeats each KV head of a packed array `times` times. */
static float *repeated(const float *x, int64_t heads, int64_t head, int64_t times)
{
  float *all = malloc((size_t)(heads * head * times) * sizeof *all);
  assert_non_null(all);
  for (int64_t i = 0; i < heads * times; i++)
    memcpy(all + i * head, x + i / times * head, (size_t)head * sizeof *all);
  return all;
}

static void shared_heads_equal_repeated_heads(void **state)
{
  (void)state;
  for (int k = 0; k < EMU_KERNELS; k++) {
    emu_case c = emu_check_case("fwd-f32-b2-h6k2-q21-k39-d64");
    fat_problem *p = &c.problem;
    fat_config config = emu_check_config(emu_kernel_names[k], &c);
    fat_truth t = emu_check_truth(&c);
    emu_result shared = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 0);
    fat_truth many = t;
    many.in[FAT_K] = repeated(t.in[FAT_K], p->b * p->hk, p->k * p->d, p->h / p->hk);
    many.in[FAT_V] = repeated(t.in[FAT_V], p->b * p->hk, p->k * p->dv, p->h / p->hk);
    p->hk = p->h;
    emu_result own = emu_check_run(&c, &many, &config, EMU_IN_ORDER, 0);
    same_bits(&c, &config, "O with heads repeated", shared.out[FAT_O], own.out[FAT_O],
              p->b * p->h * p->q * p->dv);
    same_bits(&c, &config, "LSE with heads repeated", shared.out[FAT_LSE], own.out[FAT_LSE],
              p->b * p->h * p->q);
    emu_result_free(&shared);
    emu_result_free(&own);
    free(many.in[FAT_K]);
    free(many.in[FAT_V]);
    fat_truth_free(&t);
  }
}

static void tensors_reach_past_two_to_the_31(void **state)
{
  (void)state;
  emu_check_far();
  for (int k = 0; k < EMU_KERNELS; k++) {
    emu_case c = emu_check_case("fwd-f32-b2-h4k2-q33-k70-d64-causal");
    c.lay = EMU_FAR;
    fat_config config = emu_check_config(emu_kernel_names[k], &c);
    fat_truth t = emu_check_truth(&c);
    emu_check_solves(&c, &t, &config, EMU_IN_ORDER, 1);
    fat_truth_free(&t);
  }
}

/* ---- the judge itself ---- */

static void a_wrong_element_is_noticed(void **state)
{
  (void)state;
  char why[512];
  emu_case c = emu_check_case("fwd-f32-b1-h2-q40-k20-d64-causal");
  fat_config config = emu_check_config("fwd", &c);
  fat_truth t = emu_check_truth(&c);
  emu_result r = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 0);
  assert_true(emu_attention_right(&c, &t, &r, why, sizeof why));
  int64_t last = c.problem.h * c.problem.q * c.problem.dv - 1;
  float good = r.out[FAT_O][last];
  r.out[FAT_O][last] = good + (float)(2 * t.allowed[FAT_O][0]);
  assert_false(emu_attention_right(&c, &t, &r, why, sizeof why));
  assert_non_null(strstr(why, "O[batch 0, head 1, row 39, column 63]"));
  r.out[FAT_O][last] = NAN;
  assert_false(emu_attention_right(&c, &t, &r, why, sizeof why));
  r.out[FAT_O][last] = good;
  assert_true(isinf(r.out[FAT_LSE][0])); /* row 0 sees no key */
  r.out[FAT_LSE][0] = -INFINITY;
  assert_false(emu_attention_right(&c, &t, &r, why, sizeof why));
  assert_true(t.allowed[FAT_O][0] < 1e-5 && t.allowed[FAT_LSE][0] < 1e-5);
  emu_result_free(&r);
  fat_truth_free(&t);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest lines[] = {cmocka_unit_test(every_problem_is_solved)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wrong_element_is_noticed),
      cmocka_unit_test(every_problem_is_solved),
      cmocka_unit_test(every_tunable_value_works_at_tile_edges),
      cmocka_unit_test(results_do_not_depend_on_order_or_layout),
      cmocka_unit_test(gradients_without_reductions_have_equal_bits),
      cmocka_unit_test(batches_do_not_know_each_other),
      cmocka_unit_test(shared_heads_equal_repeated_heads),
      cmocka_unit_test(tensors_reach_past_two_to_the_31),
  };
  wanted = argc > 1 ? argv[1] : NULL;
  if (wanted)
    return cmocka_run_group_tests(lines, emu_check_open, emu_check_close);
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
