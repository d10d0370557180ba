/* test_search.c -- the choice of configs: default first, every value seen, the most promising, always the
 * same. */
#include "search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

static fat_script *script;
static fat_problem problem;
static const fat_gpu *t4;

static int open_script(void **state)
{
  fat_error err = {0};
  (void)state;
  if (fat_script_open(NULL, &script, &err) != FAT_OK || fat_gpu_find("T4", &t4, &err) != FAT_OK ||
      fat_problem_parse("fwd-f32-b4-h32-q4096-k4096-d64", &problem, &err) != FAT_OK)
    fail_msg("%s", err.text);
  return 0;
}

static int close_script(void **state)
{
  (void)state;
  fat_script_close(script);
  return 0;
}

static void choose(int most, fat_search *s)
{
  fat_error err = {0};
  if (fat_search_choose(script, "fwd", &problem, t4, most, s, &err) != FAT_OK)
    fail_msg("%s", err.text);
}

static bool is_chosen(const fat_search *s, int place)
{
  for (int i = 0; i < s->count; i++)
    if (s->chosen[i] == place)
      return true;
  return false;
}

static void each_once_default_first(void **state)
{
  fat_search s;
  (void)state;
  choose(16, &s);
  assert_int_equal(s.count, 16);
  assert_int_equal(s.chosen[0], 0);
  for (int i = 0; i < s.count; i++)
    for (int j = i + 1; j < s.count; j++)
      assert_int_not_equal(s.chosen[i], s.chosen[j]);
  fat_search_free(&s);
}

static void the_most_promising_is_among_them(void **state)
{
  fat_search s;
  int best = 0;
  (void)state;
  choose(4, &s);
  for (int i = 0; i < s.space.count; i++)
    if (s.estimate[i] < s.estimate[best])
      best = i;
  assert_true(is_chosen(&s, best));
  fat_search_free(&s);
}

/* With room enough, every value of every tunable that any valid config has is tried by one of the chosen. */
static void every_value_is_tried(void **state)
{
  fat_search s;
  (void)state;
  choose(64, &s);
  for (int p = 0; p < s.space.count; p++) {
    const fat_config *c = &s.space.points[p].config;
    for (int v = 0; v < c->count; v++) {
      bool seen = false;
      for (int i = 0; i < s.count && !seen; i++) {
        int32_t value;
        seen = fat_config_get(&s.space.points[s.chosen[i]].config, c->values[v].name, &value) == FAT_OK &&
               value == c->values[v].value;
      }
      if (!seen)
        fail_msg("no chosen config has %s = %d", c->values[v].name, c->values[v].value);
    }
  }
  fat_search_free(&s);
}

static void one_and_all(void **state)
{
  fat_search s;
  (void)state;
  choose(1, &s);
  assert_int_equal(s.count, 1);
  assert_int_equal(s.chosen[0], 0);
  fat_search_free(&s);
  choose(1 << 30, &s);
  assert_int_equal(s.count, s.space.count);
  fat_search_free(&s);
}

static void the_same_twice(void **state)
{
  fat_search a, b;
  (void)state;
  choose(24, &a);
  choose(24, &b);
  assert_int_equal(a.count, b.count);
  assert_memory_equal(a.chosen, b.chosen, (size_t)a.count * sizeof *a.chosen);
  fat_search_free(&a);
  fat_search_free(&b);
}

static void unknown_kernel(void **state)
{
  fat_search s;
  fat_error err = {0};
  (void)state;
  assert_int_not_equal(fat_search_choose(script, "nothing", &problem, t4, 8, &s, &err), FAT_OK);
  assert_int_not_equal(err.text[0], 0);
  fat_search_free(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_once_default_first), cmocka_unit_test(the_most_promising_is_among_them),
      cmocka_unit_test(every_value_is_tried),    cmocka_unit_test(one_and_all),
      cmocka_unit_test(the_same_twice),          cmocka_unit_test(unknown_kernel),
  };
  return cmocka_run_group_tests(tests, open_script, close_script);
}
