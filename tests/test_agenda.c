/* test_agenda.c -- which problems a tune is asked for: defaults, lists, the clip to memory, refusals. */
#include "anchor.h"
#include "named.h"
#include "scripted.h"
#include "search/agenda.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* All problems of the list, a space after each. */
static const char *problems(const fat_goal *goal, const char *gpu)
{
  static char text[4096];
  char one[FAT_PROBLEM_TEXT];
  fat_agenda agenda;
  fat_error err = {0};
  text[0] = 0;
  if (fat_agenda_list(goal, gpu_of(gpu), script, &agenda, &err) != FAT_OK)
    fail_msg("%s", err.text);
  for (int i = 0; i < agenda.count; i++) {
    strcat(text, fat_problem_print(&agenda.list[i].problem, one));
    strcat(text, " ");
    assert_true(agenda.list[i].kernel_count >= 1);
  }
  fat_agenda_free(&agenda);
  return text;
}

static fat_status refused(const fat_goal *goal, const char *gpu, fat_error *err)
{
  fat_agenda agenda;
  *err = (fat_error){0};
  fat_status status = fat_agenda_list(goal, gpu_of(gpu), script, &agenda, err);
  assert_int_equal(agenda.count, 0);
  return status;
}

static void defaults(void **state)
{
  fat_goal o = {0};
  (void)state;
  assert_string_equal(problems(&o, "T4"),
                      "fwd-f16-b4-h32-q4096-k4096-d64 fwd-f16-b4-h32-q4096-k4096-d64-causal "
                      "fwd-f16-b4-h16-q4096-k4096-d128 fwd-f16-b4-h16-q4096-k4096-d128-causal "
                      "fwd-f32-b4-h32-q4096-k4096-d64 fwd-f32-b4-h32-q4096-k4096-d64-causal "
                      "fwd-f32-b4-h16-q4096-k4096-d128 fwd-f32-b4-h16-q4096-k4096-d128-causal ");
}

/* A family's other anchors stand after all main ones, know which is theirs, and are not for kernels that are
 * only used when asked for. Those that a GPU has no memory for are made smaller. */
static void grid(void **state)
{
  static const char *const expected[] = {
      "fwd-f16-b4-h16-q4096-k4096-d128",       "fwd-f16-b4-h16-q4096-k4096-d128-causal",
      "fwd-f16-b32-h16-q512-k512-d128",        "fwd-f16-b1-h16-q16384-k16384-d128",
      "fwd-f16-b1-h4-q2048-k2048-d128",        "fwd-f16-b16-h16-q1-k4096-d128",
      "fwd-f16-b1-h16-q16-k8192-d128",         "fwd-f16-b8-h32k8-q1-k8192-d128",
      "fwd-f16-b8-h16-q320-k320-d128",         "fwd-f16-b16-h16-q8-k8-d128",
      "fwd-f16-b8-h32-q40-k40-d128",           "fwd-f16-b16-h32k8-q8-k2048-d128",
      "fwd-f16-b32-h16-q512-k512-d128-causal", "fwd-f16-b1-h16-q16384-k16384-d128-causal",
  };
  char text[FAT_PROBLEM_TEXT];
  fat_goal o = {.dims = {1, {128}}, .dtypes = 1u << FAT_F16};
  fat_agenda agenda;
  (void)state;
  assert_int_equal(fat_agenda_list(&o, gpu_of("T4"), script, &agenda, NULL), FAT_OK);
  assert_int_equal(agenda.count, 2);
  assert_int_equal(agenda.list[1].main_plus_1, 0);
  assert_true(agenda.list[0].kernel_count > 1);
  assert_int_equal(fat_agenda_grid(&o, gpu_of("T4"), script, &agenda, NULL), FAT_OK);
  assert_int_equal(agenda.count, 2 + 2 * FAT_ANCHOR_OTHERS);
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
    assert_string_equal(fat_problem_print(&agenda.list[i].problem, text), expected[i]);
  for (int i = 2; i < agenda.count; i++) {
    assert_int_equal(agenda.list[i].main_plus_1, i < 2 + FAT_ANCHOR_OTHERS ? 1 : 2);
    for (int k = 0; k < agenda.list[i].kernel_count; k++)
      assert_int_equal(agenda.list[i].kernels[k].picked, 1);
  }
  fat_agenda_free(&agenda);
  fat_goal asked = {.dims = {1, {128}}, .dtypes = 1u << FAT_F16, .kernel_count = 1, .kernels = {"standard"}};
  assert_int_equal(fat_agenda_list(&asked, gpu_of("T4"), script, &agenda, NULL), FAT_OK);
  assert_int_equal(fat_agenda_grid(&asked, gpu_of("T4"), script, &agenda, NULL), FAT_OK);
  assert_int_equal(agenda.count, 2);
  fat_agenda_free(&agenda);
}

/* Gradients have others: none of few rows of Q, as decoding has. */
static void grid_of_gradients(void **state)
{
  const fat_goal o = {.dims = {1, {64}}, .dtypes = 1u << FAT_F16, .ops = 1u << FAT_BWD};
  char text[FAT_PROBLEM_TEXT];
  fat_agenda agenda;
  (void)state;
  assert_int_equal(fat_agenda_list(&o, gpu_of("T4"), script, &agenda, NULL), FAT_OK);
  assert_int_equal(agenda.count, 2);
  assert_int_equal(fat_agenda_grid(&o, gpu_of("T4"), script, &agenda, NULL), FAT_OK);
  assert_int_equal(agenda.count, 2 + 2 * 7);
  assert_string_equal(fat_problem_print(&agenda.list[8].problem, text), "bwd-f16-b8-h32-q32-k2048-d64");
  for (int i = 0; i < agenda.count; i++)
    assert_true(agenda.list[i].problem.q >= 32);
  fat_agenda_free(&agenda);
}

/* A window that was typed is that of the family's other anchors too, whatever their lengths are. */
static void windows_stay(void **state)
{
  static const char *const typed[] = {"fwd-f16-b1-h16-q8192-k8192-d128-causal-w1023.0",
                                      "fwd-f16-b1-h16-q8192-k8192-d128-w7.x"};
  (void)state;
  for (int n = 0; n < 2; n++) {
    fat_goal o = {.problem_count = 1, .problems = (const char *const[]){typed[n]}};
    char text[FAT_PROBLEM_TEXT];
    fat_agenda agenda;
    assert_int_equal(fat_agenda_list(&o, gpu_of("T4"), script, &agenda, NULL), FAT_OK);
    assert_int_equal(fat_agenda_grid(&o, gpu_of("T4"), script, &agenda, NULL), FAT_OK);
    assert_int_equal(agenda.count, 1 + FAT_ANCHOR_OTHERS);
    for (int i = 0; i < agenda.count; i++)
      assert_non_null(strstr(fat_problem_print(&agenda.list[i].problem, text),
                             strstr(typed[n], n ? "-w7.x" : "-causal-w1023.0")));
    fat_agenda_free(&agenda);
  }
}

static void lists(void **state)
{
  fat_goal o = {.dims = {2, {40, 256}}, .seqlens = {2, {1, 1000}}, .causal = 2, .dtypes = 1u << FAT_F32};
  (void)state;
  assert_string_equal(problems(&o, "T4"),
                      "fwd-f32-b16384-h51-q1-k1-d40-causal fwd-f32-b16-h51-q1000-k1000-d40-causal "
                      "fwd-f32-b16384-h8-q1-k1-d256-causal fwd-f32-b16-h8-q1000-k1000-d256-causal ");
}

/* Families by options and their lengths have expressions, too. */
static void expressions(void **state)
{
  const fat_mod *doubled, *even;
  fat_error err = {0};
  (void)state;
  assert_int_equal(fat_mod_know("s * 2.0", FAT_MOD, &doubled, &err), FAT_OK);
  assert_int_equal(fat_mod_know("j % 2 == 0", FAT_MASK_MOD, &even, &err), FAT_OK);
  const fat_goal goal = {.dtypes = 1u << FAT_F16,
                         .causal = 2,
                         .dims = {1, {64}},
                         .seqlens = {1, {512}},
                         .mod = doubled,
                         .mask_mod = even};
  char expected[256];
  snprintf(expected, sizeof expected,
           "fwd-f16-b32-h32-q512-k512-d64-causal-mask%016" PRIx64 "-mod%016" PRIx64 " ", even->hash,
           doubled->hash);
  assert_string_equal(problems(&goal, "T4"), expected);
}

static void typed_in_full(void **state)
{
  fat_goal o = {
      .problem_count = 2,
      .problems = (const char *const[]){"fwd-f32-b1-h4k2-q100-k200-d72v64-causal", "fwd-f32-b1-h1-q1-k1-d8"}};
  (void)state;
  assert_string_equal(problems(&o, "T4"), "fwd-f32-b1-h4k2-q100-k200-d72v64-causal fwd-f32-b1-h1-q1-k1-d8 ");
  o = (fat_goal){.problem_count = 3,
                 .problems = (const char *const[]){"fwd-f32-b1-h1-q1-k1-d8", "fwd-f32-b1-h4-q1-k1-d8",
                                                   "fwd-f32-b1-h1k1-q1-k1-d8"}};
  assert_string_equal(problems(&o, "T4"), "fwd-f32-b1-h1-q1-k1-d8 fwd-f32-b1-h4-q1-k1-d8 ");
}

/* One score matrix of d 64 at 16k tokens and N = 16384 is 34 GB: more than a T4 has at b 1 already, so b
 * stays 1; at N = 8192 b 2 needs 17 GB of scores and is halved. An H200 takes all. */
static void clipped_to_memory(void **state)
{
  fat_goal o = {.dims = {1, {64}}, .seqlens = {2, {8192, 16384}}, .causal = 1, .dtypes = 1u << FAT_F32};
  (void)state;
  assert_string_equal(problems(&o, "T4"), "fwd-f32-b1-h32-q8192-k8192-d64 fwd-f32-b1-h32-q16384-k16384-d64 ");
  assert_string_equal(problems(&o, "H200"),
                      "fwd-f32-b2-h32-q8192-k8192-d64 fwd-f32-b1-h32-q16384-k16384-d64 ");
}

static void dtypes_that_cannot(void **state)
{
  fat_goal bf16 = {.dtypes = 1u << FAT_BF16}, tf32 = {.dtypes = 1u << FAT_TF32};
  fat_goal typed = {.problem_count = 1, .problems = (const char *const[]){"fwd-bf16-b1-h1-q64-k64-d64"}};
  fat_error err;
  (void)state;
  assert_int_equal(refused(&bf16, "T4", &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "--dtypes bf16: the T4 (sm_75) cannot compute in bf16"));
  assert_non_null(strstr(err.text, "sm_80"));
  assert_int_equal(refused(&tf32, "RTX 2080 Ti", &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "TF32"));
  assert_int_equal(refused(&typed, "T4", &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "fwd-bf16-b1-h1-q64-k64-d64: the T4"));
}

static void nothing_serves(void **state)
{
  fat_goal bwd = {.ops = 1u << FAT_BWD, .kernel_count = 1, .kernels = {"fwd"}},
           typed = {.problem_count = 1,
                    .problems = (const char *const[]){"fwd-f32-b1-h1-q64-k64-d64-partial"}};
  fat_goal typo = {.problem_count = 1, .problems = (const char *const[]){"fwd-f32-b1-h1-q64-k64-d65"}};
  fat_error err;
  (void)state;
  assert_int_equal(refused(&bwd, "T4", &err), FAT_E_UNSUPPORTED);
  assert_int_equal(refused(&typed, "T4", &err), FAT_E_UNSUPPORTED);
  assert_non_null(strstr(err.text, "partial"));
  assert_int_equal(refused(&typo, "T4", &err), FAT_E_INPUT);
}

static void kernels(void **state)
{
  char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  fat_goal all = {0}, two = {.kernel_count = 2, .kernels = {"standard", "fwd"}},
           wrong = {.kernel_count = 1, .kernels = {"fwt"}};
  fat_error err = {0};
  int count;
  (void)state;
  assert_int_equal(fat_agenda_kernels(&all, script, names, &count, &err), FAT_OK);
  assert_true(count >= 3);
  assert_int_equal(fat_agenda_kernels(&two, script, names, &count, &err), FAT_OK);
  assert_int_equal(count, 2);
  assert_string_equal(names[0], "standard");
  assert_string_equal(names[1], "fwd");
  assert_int_equal(fat_agenda_kernels(&wrong, script, names, &count, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "--kernel 'fwt': allowed are"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults),
      cmocka_unit_test(grid),
      cmocka_unit_test(grid_of_gradients),
      cmocka_unit_test(windows_stay),
      cmocka_unit_test(lists),
      cmocka_unit_test(expressions),
      cmocka_unit_test(typed_in_full),
      cmocka_unit_test(clipped_to_memory),
      cmocka_unit_test(dtypes_that_cannot),
      cmocka_unit_test(nothing_serves),
      cmocka_unit_test(kernels),
  };
  return cmocka_run_group_tests(tests, open_script, close_script);
}
