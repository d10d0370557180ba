/* test_proxy.c -- which GPU's PTX runs on which other one. */
#include "cli/proxy.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void ptx_runs_on_its_architecture_and_later_ones(void **state)
{
  (void)state;
  static const struct {
    const char *as, *hand, *target, *refusal; /* refusal NULL: it runs */
  } rows[] = {{"T4", "A100", "compute_75", NULL},
              {"T4", "H200", "compute_75", NULL},
              {"A100", "H200", "compute_80", NULL},
              {"L4", "L4", "compute_89", NULL},
              {"H100", "H200", "compute_90a", NULL},
              {"A100", "T4", "compute_80", "the T4 at hand is older (sm_75) than its PTX (sm_80)"},
              {"H100", "B200", "compute_90a", "runs on that architecture alone, not on sm_100"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const fat_gpu *as, *hand;
    char target[FAT_PROXY_TARGET];
    fat_error err = {0};
    assert_int_equal(fat_gpu_find(rows[i].as, &as, NULL), FAT_OK);
    assert_int_equal(fat_gpu_find(rows[i].hand, &hand, NULL), FAT_OK);
    fat_status status = fat_proxy_target(as, hand, target, &err);
    assert_string_equal(target, rows[i].target);
    assert_int_equal(status, rows[i].refusal ? FAT_E_INPUT : FAT_OK);
    if (rows[i].refusal && !strstr(err.text, rows[i].refusal))
      fail_msg("'%s' does not say '%s'", err.text, rows[i].refusal);
  }
}

/* What fat_proxy_each hands over. */
typedef struct seen {
  int count;
  char config[4][FAT_CONFIG_TEXT];
  fat_problem problem[4];
  char binary[4][400];
} seen;

static fat_status take(const fat_problem *p, const fat_entrant *entrant, const char *failed, void *user,
                       fat_error *err)
{
  seen *s = user;
  (void)err;
  assert_null(failed);
  assert_true(s->count < 4);
  strcpy(s->config[s->count], entrant->config);
  s->problem[s->count] = *p;
  assert_int_equal(entrant->cubin[entrant->cubin_size - 1], 0);
  strncpy(s->binary[s->count], (const char *)entrant->cubin, sizeof s->binary[0] - 1);
  s->count++;
  return FAT_OK;
}

static fat_status each(const fat_options *o, seen *s, fat_error *err)
{
  fat_asked_gpu hand = {.at_hand = true, .cuda = 13};
  const fat_gpu *as, *row;
  assert_int_equal(fat_gpu_find("T4", &as, NULL), FAT_OK);
  assert_int_equal(fat_gpu_find("H200", &row, NULL), FAT_OK);
  hand.gpu = *row;
  static const volatile int never = 0;
  const fat_proxy proxy = {o, as, &hand, NULL, &never, take, s};
  return fat_proxy_each(&proxy, err);
}

static void the_configs_asked_for_are_made(void **state)
{
  (void)state;
  fat_options o = {
      .goal = {.problem_count = 1, .problems = (const char *const[]){"fwd-f32-b1-h1-q64-k64-d16"}}};
  seen s = {0};
  fat_error err = {0};
  fat_status status = each(&o, &s, &err);
  if (status == FAT_E_NVRTC) {
    print_message("skipped: %s\n", err.text);
    skip();
  }
  assert_int_equal(status, FAT_OK);
  assert_int_equal(s.count, 1); /* of the kernel that may be given unasked */
  assert_memory_equal(s.config[0], "fwd:", 4);
  assert_non_null(strstr(s.binary[0], ".target sm_75\n"));
  char first[FAT_CONFIG_TEXT];
  strcpy(first, s.config[0]);

  s = (seen){0};
  o.top = 2;
  assert_int_equal(each(&o, &s, &err), FAT_OK);
  assert_int_equal(s.count, 2);
  assert_string_equal(s.config[0], first);
  assert_string_not_equal(s.config[1], first);

  char second[FAT_CONFIG_TEXT];
  strcpy(second, s.config[1]);
  s = (seen){0};
  o.top = 0;
  o.config = second;
  assert_int_equal(each(&o, &s, &err), FAT_OK);
  assert_int_equal(s.count, 1);
  assert_string_equal(s.config[0], second);

  s = (seen){0};
  o = (fat_options){.goal = {.kernel_count = 2,
                             .kernels = {"fa1", "standard"},
                             .dims = {1, {16}},
                             .causal = 2,
                             .dtypes = 1u << FAT_F32,
                             .seqlens = {1, {256}}}};
  assert_int_equal(each(&o, &s, &err), FAT_OK);
  assert_int_equal(s.count, 2);
  assert_true(s.problem[0].q == 256 && s.problem[0].d == 16 && fat_problem_has(&s.problem[0], FAT_CAUSAL));
}

static void what_no_kernel_does_is_an_error(void **state)
{
  (void)state;
  fat_options o = {
      .goal = {.problem_count = 1, .problems = (const char *const[]){"fwd-bf16-b1-h1-q64-k64-d16"}}};
  seen s = {0};
  fat_error err = {0};
  assert_int_equal(each(&o, &s, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "bf16"));
  o.goal.problems = (const char *const[]){"fwd-f32-b1-h1-q64-k64-d16"};
  o.config = "fwd:Br3";
  assert_int_not_equal(each(&o, &s, &err), FAT_OK);
  assert_int_equal(s.count, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ptx_runs_on_its_architecture_and_later_ones),
      cmocka_unit_test(the_configs_asked_for_are_made),
      cmocka_unit_test(what_no_kernel_does_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
