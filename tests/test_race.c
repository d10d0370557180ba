/* test_race.c -- the last round: who is in it, when it is due, who wins, how long it may take. */
#include "db_fixture.h"
#include "search/attempt.h"
#include "search/race.h"
#include "search/winner.h"

#include <math.h>

enum { MOST = 16 };

static fat_record list[MOST];
static fat_records rows;

static int begin(void **state)
{
  (void)state;
  rows = (fat_records){list, 0};
  return 0;
}

/* A measured row whose samples lie within 0.1 % of its time. */
static fat_record *add(const char *config, double ms, int shared)
{
  fat_record *row = &list[rows.count++];
  *row = (fat_record){.id = rows.count,
                      .same_source = true,
                      .outcome = FAT_OUT_OK,
                      .origin = FAT_MEASURED,
                      .ms = ms,
                      .eligible = 1,
                      .figures = {.shared = shared},
                      .timing = {.median = ms, .p20 = 0.999 * ms, .p80 = 1.001 * ms}};
  snprintf(row->config, sizeof row->config, "%s", config);
  snprintf(row->kernel, sizeof row->kernel, "fwd");
  return row;
}

static void timed_at(fat_record *row, const char *when)
{
  snprintf(row->race, sizeof row->race, "%s", when);
  row->rivals = 2;
  row->mean = row->ms;
}

static void timed(fat_record *row)
{
  timed_at(row, "unknown");
}

static void broken_off(fat_record *row)
{
  timed(row);
  row->rivals = 0;
  row->mean = 0;
}

/* The configs in a race, as text. */
static const char *finalists(void)
{
  static char text[MOST * FAT_CONFIG_TEXT];
  const fat_record *in[FAT_RACE_MOST];
  int count = fat_race_finalists(&rows, NULL, "fwd:Br64", in);
  text[0] = 0;
  for (int i = 0; i < count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", in[i]->config);
  return text;
}

static void those_near_the_best(void **state)
{
  (void)state;
  assert_string_equal(finalists(), "");
  add("fwd:Br16", 1.04, 0);
  assert_string_equal(finalists(), ""); /* alone */
  add("fwd:Br32", 1, 0);
  add("fwd:Br48", 1.09, 0);
  add("fwd:Br80", 0.5, 0)->outcome = FAT_OUT_WRONG;
  assert_string_equal(finalists(), "fwd:Br32 fwd:Br16");
  add("fwd:Br64", 3, 0); /* the default, however slow */
  assert_string_equal(finalists(), "fwd:Br32 fwd:Br16 fwd:Br64");
}

static void the_fastest_where_many_are_near(void **state)
{
  (void)state;
  char config[FAT_CONFIG_TEXT], last[FAT_CONFIG_TEXT];
  const fat_record *in[FAT_RACE_MOST];
  for (int i = 0; i < 15; i++) {
    snprintf(config, sizeof config, "fwd:Br%d", 100 + i);
    add(config, 1.04 - 0.001 * i, 0);
  }
  assert_int_equal(fat_race_finalists(&rows, NULL, "fwd:Br100", in), FAT_RACE_MOST);
  for (int i = 0; i < FAT_RACE_MOST - 1; i++) {
    snprintf(last, sizeof last, "fwd:Br%d", 114 - i);
    assert_string_equal(in[i]->config, last);
  }
  assert_string_equal(in[FAT_RACE_MOST - 1]->config, "fwd:Br100");
}

/* A GPU at its power limit slows down whoever runs then: what took fewer clocks is the faster. */
static void near_by_clocks(void **state)
{
  (void)state;
  fat_record *cool = add("fwd:Br16", 1, 0), *hot = add("fwd:Br32", 1.1, 0), *far = add("fwd:Br48", 1.06, 0);
  cool->timing.clock = far->timing.clock = 1700;
  hot->timing.clock = 1500;
  assert_string_equal(finalists(), "fwd:Br32 fwd:Br16");
  far->timing.clock = NAN; /* not all can be told so */
  assert_string_equal(finalists(), "fwd:Br16 fwd:Br48");
}

/* Once timed in turns they are compared by that, and not with what others took in a cooler moment. */
static void wins_among_the_timed(void **state)
{
  (void)state;
  fat_record *first = add("fwd:Br16", 1.15, 0), *second = add("fwd:Br32", 1.12, 0),
             *third = add("fwd:Br48", 1.1, 0);
  first->timing.clock = second->timing.clock = 1500;
  third->timing.clock = 1700;
  timed(first);
  timed(second);
  assert_string_equal(fat_winner_find(&rows, "")->config, "fwd:Br32");
  third->ms = 0.98; /* fewer clocks, and no race held with it */
  assert_string_equal(fat_winner_find(&rows, "")->config, "fwd:Br48");
}

/* Times of two races are no more alike than others: only who took fewest clocks of all lends its race. */
static void wins_its_own_race(void **state)
{
  (void)state;
  fat_record *cool = add("fwd:Br16", 1, 0), *cooler = add("fwd:Br32", 0.99, 0),
             *hot = add("fwd:Br48", 1.1, 0), *hotter = add("fwd:Br80", 1.08, 0);
  cool->timing.clock = cooler->timing.clock = 1700;
  hot->timing.clock = 1500; /* 1650 M, the fewest */
  hotter->timing.clock = 1535;
  timed_at(cool, "2026-11-21T19:00:00.000Z");
  timed_at(cooler, "2026-11-21T19:00:00.000Z");
  timed_at(hot, "2026-11-21T19:00:00.001Z");
  timed_at(hotter, "2026-11-21T19:00:00.001Z");
  assert_string_equal(fat_winner_find(&rows, "fwd:Br32")->config, "fwd:Br80");
  timed_at(hotter, "2026-11-21T19:00:00.002Z");
  assert_string_equal(fat_winner_find(&rows, "fwd:Br32")->config, "fwd:Br48");
}

/* Once, however it ended; again where another config has become the best. */
static void due_once(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    rows.count = 0;
    fat_record *best = add("fwd:Br16", 1, 0), *standard = add("fwd:Br64", 2, 0);
    void (*end)(fat_record *) = i ? broken_off : timed;
    end(best);
    assert_string_equal(finalists(), "fwd:Br16 fwd:Br64");
    end(standard);
    assert_string_equal(finalists(), "");
    add("fwd:Br32", 0.99, 0);
    assert_string_equal(finalists(), "fwd:Br32 fwd:Br16 fwd:Br64");
  }
}

/* Programs that knew no kinds of data held races too. */
static void due_again_for_kinds(void **state)
{
  (void)state;
  fat_record *best = add("fwd:Br16", 1, 0), *standard = add("fwd:Br64", 2, 0);
  timed(best);
  timed(standard);
  assert_string_equal(finalists(), "");
  standard->mean = 0;
  assert_string_equal(finalists(), "fwd:Br16 fwd:Br64");
  standard->mean = 2, best->mean = 0;
  assert_string_equal(finalists(), "fwd:Br16 fwd:Br64");
}

/* What a later, wider search found near the best has yet to meet it; who was there before and stayed out need
 * not. */
static void due_with_newcomers(void **state)
{
  (void)state;
  add("fwd:Br32", 1.02, 0);
  timed(add("fwd:Br16", 1, 0));
  timed(add("fwd:Br64", 2, 0));
  assert_string_equal(finalists(), "");
  add("fwd:Br48", 1.09, 0);
  assert_string_equal(finalists(), "");
  fat_record *newcomer = add("fwd:Br80", 1.03, 0);
  assert_string_equal(finalists(), "fwd:Br16 fwd:Br32 fwd:Br80 fwd:Br64");
  newcomer->id = -1; /* what a package brought was there before all that the user tried */
  assert_string_equal(finalists(), "");
}

static void wins(const char *config, const char *incumbent)
{
  const fat_record *winner = fat_winner_find(&rows, incumbent);
  assert_non_null(winner);
  assert_string_equal(winner->config, config);
}

/* Times that were not taken in turns differ for other reasons than noise. */
static void ties_of_a_race(void **state)
{
  (void)state;
  assert_null(fat_winner_find(&rows, ""));
  fat_record *fast = add("fwd:Br16", 1, 20), *small = add("fwd:Br32", 1.005, 10),
             *old = add("fwd:Br48", 1.009, 30);
  wins("fwd:Br16", "fwd:Br48");
  timed(fast);
  wins("fwd:Br16", "fwd:Br48");
  broken_off(fast);
  broken_off(small);
  broken_off(old);
  wins("fwd:Br16", "fwd:Br48");
  timed(fast);
  timed(small);
  timed(old);
  wins("fwd:Br32", "");
  wins("fwd:Br48", "fwd:Br48");
  small->ms = old->ms = small->mean = old->mean = 1.02;
  wins("fwd:Br16", "fwd:Br48");
}

/* The time on normal data brings a config into the race; the mean over all kinds decides there. */
static void wins_over_all_kinds(void **state)
{
  (void)state;
  fat_record *uneven = add("fwd:Br16", 1, 0), *level = add("fwd:Br32", 1.03, 0),
             *old = add("fwd:Br48", 1.02, 0);
  timed(uneven);
  timed(level);
  uneven->mean = 1.2;
  wins("fwd:Br32", "");
  wins("fwd:Br32", "fwd:Br16"); /* no tie */
  wins("fwd:Br32", "fwd:Br48"); /* which was in no race */
  level->mean = 1.205;
  wins("fwd:Br32", "fwd:Br32"); /* within noise of each other */
  wins("fwd:Br16", "fwd:Br16");
  old->ms = 0.9; /* the fastest was not in the race: it wins until it was */
  wins("fwd:Br48", "fwd:Br32");
  old->id = 0; /* it was there before the race, and not near enough to be in it */
  wins("fwd:Br32", "fwd:Br32");
}

/* What is far ahead of all has no rival, and no race: that of another kernel's own configs does not pass over
 * it. */
static void wins_without_a_rival(void **state)
{
  (void)state;
  fat_record *alone = add("fwd:Br16", 0.8, 0), *first = add("fwd_ws:Br64", 1, 0),
             *second = add("fwd_ws:Br128", 1.1, 0);
  snprintf(first->kernel, sizeof first->kernel, "fwd_ws");
  snprintf(second->kernel, sizeof second->kernel, "fwd_ws");
  timed(first);
  timed(second);
  wins("fwd:Br16", "");
  wins("fwd:Br16", "fwd_ws:Br64");
  fat_record *slow = add("fwd:Br32", 1.2, 0);
  timed(slow); /* a race with its kernel, in which it was not near enough to be */
  wins("fwd_ws:Br64", "");
  alone->id = slow->id + 1; /* it came later */
  wins("fwd:Br16", "");
}

/* Medians of many samples lie closer to the truth than the samples to each other. */
static void noise_is_that_of_medians(void **state)
{
  (void)state;
  fat_record *fast = add("fwd:Br16", 1, 20), *old = add("fwd:Br48", 1.02, 30);
  timed(fast);
  timed(old);
  fast->timing.p20 = 0.98, fast->timing.p80 = 1.02;
  old->timing.p20 = 1, old->timing.p80 = 1.04;
  fast->timing.count = old->timing.count = 50; /* off by 0.8 % each, 1.2 % between them */
  wins("fwd:Br16", "fwd:Br48");
  fast->timing.count = old->timing.count = 10; /* 2.7 % */
  wins("fwd:Br48", "fwd:Br48");
  fast->timing.count = old->timing.count = 0; /* as it is where samples are not kept: one */
  wins("fwd:Br48", "fwd:Br48");
  old->ms = old->mean = 1.03; /* 8 % would be noise: nothing that slow is preferred */
  wins("fwd:Br16", "fwd:Br48");
}

/* What each may take alone, they may take in turns. */
static void as_long_as_its_entrants(void **state)
{
  (void)state;
  assert_true(fat_lab_deadline(2, 0.1, 1, 0) == 2);
  assert_true(fat_lab_deadline(2, NAN, 1, 0) == 2);
  assert_true(fat_lab_deadline(6, 0.1, 9, 0) == 54);
  assert_true(fat_lab_deadline(2, 1000, 1, 0) > 60);
  assert_true(fat_lab_deadline(2, 1000, 2, 0) > 120);
  assert_true(fat_lab_deadline(2, 1000, 2, 9) >
              2 * 5 * (12 + 9 * 4));                          /* three samples and a warm-up of each kind */
  assert_true(fat_lab_deadline(1, 0.1, 9, 0) > 5 * 9 * 0.83); /* their load in a race */
  assert_true(fat_lab_deadline(2, NAN, 2, 9) > fat_lab_deadline(2, NAN, 2, 0));
}

/* What the compiler says of a config that works is not lost behind a verdict that says nothing. */
static void a_config_that_works_keeps_its_remark(void **state)
{
  fat_attempt attempt = {.serial = "bwd_ws"};
  fat_verdict verdict = {.outcome = FAT_OUT_OK};
  (void)state;
  fat_attempt_judge(&attempt, &verdict);
  assert_string_equal(attempt.detail, "ptxas has the products of bwd_ws wait for each other");
  snprintf(verdict.detail, sizeof verdict.detail, "its O is wrong");
  verdict.outcome = FAT_OUT_WRONG;
  fat_attempt_judge(&attempt, &verdict);
  assert_string_equal(attempt.detail, "its O is wrong");
  attempt.serial = NULL;
  verdict = (fat_verdict){.outcome = FAT_OUT_OK};
  fat_attempt_judge(&attempt, &verdict);
  assert_string_equal(attempt.detail, "");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(those_near_the_best, begin),
      cmocka_unit_test_setup(the_fastest_where_many_are_near, begin),
      cmocka_unit_test_setup(near_by_clocks, begin),
      cmocka_unit_test_setup(wins_among_the_timed, begin),
      cmocka_unit_test_setup(wins_its_own_race, begin),
      cmocka_unit_test_setup(due_once, begin),
      cmocka_unit_test_setup(due_again_for_kinds, begin),
      cmocka_unit_test_setup(wins_over_all_kinds, begin),
      cmocka_unit_test_setup(wins_without_a_rival, begin),
      cmocka_unit_test_setup(due_with_newcomers, begin),
      cmocka_unit_test_setup(ties_of_a_race, begin),
      cmocka_unit_test_setup(noise_is_that_of_medians, begin),
      cmocka_unit_test_setup(as_long_as_its_entrants, begin),
      cmocka_unit_test(a_config_that_works_keeps_its_remark),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
