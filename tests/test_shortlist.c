/* test_shortlist.c -- the choice of configs: default first, every value seen, the most promising, always the
 * same. */
#include "search/shortlist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
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

static void choose_by(fat_shortlist_rule rule, fat_shortlist *s)
{
  fat_error err = {0};
  if (fat_shortlist_make(script, "fwd", &problem, t4, rule, s, &err) != FAT_OK)
    fail_msg("%s", err.text);
}

static void choose(int most, fat_shortlist *s)
{
  choose_by((fat_shortlist_rule){.most = most}, s);
}

static bool is_chosen(const fat_shortlist *s, int place)
{
  for (int i = 0; i < s->count; i++)
    if (s->chosen[i] == place)
      return true;
  return false;
}

static void each_once_default_first(void **state)
{
  fat_shortlist s;
  (void)state;
  choose(16, &s);
  assert_int_equal(s.count, 16);
  assert_int_equal(s.chosen[0], 0);
  for (int i = 0; i < s.count; i++)
    for (int j = i + 1; j < s.count; j++)
      assert_int_not_equal(s.chosen[i], s.chosen[j]);
  fat_shortlist_free(&s);
}

static void the_most_promising_is_among_them(void **state)
{
  fat_shortlist s;
  int best = 0;
  (void)state;
  choose(4, &s);
  for (int i = 0; i < s.space.count; i++)
    if (s.estimate[i] < s.estimate[best])
      best = i;
  assert_true(is_chosen(&s, best));
  fat_shortlist_free(&s);
}

/* With room enough, every value of every tunable that any valid config has is tried by one of the chosen. */
static void every_value_is_tried(void **state)
{
  fat_shortlist s;
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
  fat_shortlist_free(&s);
}

/* A value that configs leave unsaid is one too, which a quick tune tries: the default for few rows of shared
 * heads says G1. */
static void what_is_left_unsaid_is_tried(void **state)
{
  static const char *const words[] = {"fwd-f16-b1-h32k8-q1-k8192-d128",
                                      "fwd-f16-b64-h32k8-q16-k8192-d64-causal"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    fat_shortlist s;
    fat_problem p;
    int packed = 0;
    assert_int_equal(fat_problem_parse(words[i], &p, NULL), FAT_OK);
    assert_int_equal(fat_shortlist_make(script, "fwd", &p, t4, (fat_shortlist_rule){.most = 64}, &s, NULL),
                     FAT_OK);
    assert_int_equal(s.count, 64);
    for (int n = 0; n < s.count; n++) {
      int32_t value;
      packed += fat_config_get(&s.space.points[s.chosen[n]].config, "G", &value) == FAT_OK;
    }
    assert_in_range(packed, 1, s.count - 1);
    fat_shortlist_free(&s);
  }
}

static void one_and_all(void **state)
{
  fat_shortlist s;
  (void)state;
  choose(1, &s);
  assert_int_equal(s.count, 1);
  assert_int_equal(s.chosen[0], 0);
  fat_shortlist_free(&s);
  choose(1 << 30, &s);
  assert_int_equal(s.count, s.space.count);
  fat_shortlist_free(&s);
}

static void the_same_twice(void **state)
{
  fat_shortlist a, b;
  (void)state;
  choose(24, &a);
  choose(24, &b);
  assert_int_equal(a.count, b.count);
  assert_memory_equal(a.chosen, b.chosen, (size_t)a.count * sizeof *a.chosen);
  fat_shortlist_free(&a);
  fat_shortlist_free(&b);
}

/* Without breadth the chosen are the default and the first by estimate, one of each estimate. */
static void a_trusting_choice_takes_the_best(void **state)
{
  fat_shortlist s;
  (void)state;
  choose_by((fat_shortlist_rule){.most = 8, .trusting = true}, &s);
  assert_int_equal(s.count, 8);
  double worst = 0;
  for (int i = 1; i < s.count; i++) {
    worst = s.estimate[s.chosen[i]] > worst ? s.estimate[s.chosen[i]] : worst;
    for (int k = 0; k < i; k++)
      assert_true(s.estimate[s.chosen[i]] != s.estimate[s.chosen[k]]);
  }
  for (int p = 0; p < s.space.count; p++) {
    bool like = is_chosen(&s, p);
    for (int i = 0; i < s.count && !like; i++)
      like = s.estimate[s.chosen[i]] == s.estimate[p];
    assert_true(like || s.estimate[p] >= worst);
  }
  fat_shortlist_free(&s);
}

static void one_seed_one_order(void **state)
{
  fat_shortlist a, b, other;
  (void)state;
  choose_by((fat_shortlist_rule){.most = 24, .shuffle = 7}, &a);
  choose_by((fat_shortlist_rule){.most = 24, .shuffle = 7}, &b);
  choose_by((fat_shortlist_rule){.most = 24, .shuffle = 8}, &other);
  assert_int_equal(a.count, 24);
  assert_int_equal(a.chosen[0], 0);
  assert_memory_equal(a.chosen, b.chosen, 24 * sizeof *a.chosen);
  assert_memory_not_equal(a.chosen, other.chosen, 24 * sizeof *a.chosen);
  fat_shortlist_free(&b);
  choose_by((fat_shortlist_rule){.most = 1 << 30, .shuffle = 7}, &b); /* more room: the same ones first */
  assert_memory_equal(a.chosen, b.chosen, 24 * sizeof *a.chosen);
  fat_shortlist_free(&a);
  fat_shortlist_free(&b);
  fat_shortlist_free(&other);
}

/* All of them, each once; and at the second place, over many seeds (more for FATUNE_FULL=1), any part of the
 * space. */
static void random_is_fair(void **state)
{
  enum { PARTS = 4 };
  const int seeds = getenv("FATUNE_FULL") ? 400 : 120;
  fat_shortlist s;
  int hits[PARTS] = {0};
  (void)state;
  choose_by((fat_shortlist_rule){.most = 1 << 30, .shuffle = 3}, &s);
  assert_int_equal(s.count, s.space.count);
  bool *seen = calloc((size_t)s.count, sizeof *seen);
  assert_non_null(seen);
  int sorted = 0;
  for (int i = 0; i < s.count; i++) {
    assert_false(seen[s.chosen[i]]);
    seen[s.chosen[i]] = true;
    sorted += i > 0 && s.estimate[s.chosen[i]] >= s.estimate[s.chosen[i - 1]];
  }
  assert_in_range(sorted, s.count * 3 / 10, s.count * 7 / 10);
  free(seen);
  fat_shortlist_free(&s);
  for (int seed = 1; seed <= seeds; seed++) {
    choose_by((fat_shortlist_rule){.most = 2, .shuffle = (uint64_t)seed}, &s);
    hits[(s.chosen[1] - 1) * PARTS / (s.space.count - 1)]++;
    fat_shortlist_free(&s);
  }
  for (int p = 0; p < PARTS; p++)
    assert_in_range(hits[p], seeds / PARTS * 6 / 10, seeds / PARTS * 14 / 10);
}

static void unknown_kernel(void **state)
{
  fat_shortlist s;
  fat_error err = {0};
  (void)state;
  assert_int_not_equal(
      fat_shortlist_make(script, "nothing", &problem, t4, (fat_shortlist_rule){.most = 8}, &s, &err), FAT_OK);
  assert_int_not_equal(err.text[0], 0);
  fat_shortlist_free(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_once_default_first), cmocka_unit_test(the_most_promising_is_among_them),
      cmocka_unit_test(every_value_is_tried),    cmocka_unit_test(one_and_all),
      cmocka_unit_test(the_same_twice),          cmocka_unit_test(a_trusting_choice_takes_the_best),
      cmocka_unit_test(one_seed_one_order),      cmocka_unit_test(random_is_fair),
      cmocka_unit_test(unknown_kernel),          cmocka_unit_test(what_is_left_unsaid_is_tried),
  };
  return cmocka_run_group_tests(tests, open_script, close_script);
}
