/* test_db_forget.c -- trials that are forgotten, what wins after them, and a file that becomes smaller. */
#include "db_fixture.h"

static long forget(fat_db *db, fat_db_forgotten what)
{
  long count = -1;
  MUST(fat_db_forget(db, &what, &count, err));
  return count;
}

static void the_next_best_wins(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_MEASURED, 1.0);
  fixture_put(db, "fa1:Br16", FAT_MEASURED, 2.0);
  fixture_put(db, "standard:Br16", FAT_PREDICTED, 0.5);
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  assert_int_equal(forget(db, (fat_db_forgotten){.gpu = "H200"}), 0);
  assert_int_equal(forget(db, (fat_db_forgotten){.gpu = "T4", .kernel = "fa2"}), 0);
  assert_int_equal(forget(db, (fat_db_forgotten){.kernel = "fwd", .older_days = 1}), 0);
  assert_int_equal(forget(db, (fat_db_forgotten){.kernel = "fwd", .problem = "no such"}), 0);
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  assert_int_equal(forget(db, (fat_db_forgotten){.kernel = "fwd"}), 1);
  assert_string_equal(fixture_winner(db), "fa1:Br16");
  assert_int_equal(forget(db, (fat_db_forgotten){.gpu = "T4", .kernel = "fa1"}), 1);
  assert_string_equal(fixture_winner(db), "standard:Br16");
  assert_int_equal(forget(db, (fat_db_forgotten){.gpu = "T4"}), 1);
  assert_string_equal(fixture_winner(db), "");
  fat_db_close(db);
}

/* What was tried with an older source counts again once the newer one is forgotten. */
static void an_older_source_counts_again(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fa1:Br16", FAT_MEASURED, 2.0);
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1.0);
  t.origin = FAT_MEASURED;
  MUST(fat_db_put(db, &t, NULL, err));
  t.source_hash = HASH_B, t.ms = 3.0;
  MUST(fat_db_put(db, &t, NULL, err));
  assert_string_equal(fixture_winner(db), "fa1:Br16");
  assert_int_equal(forget(db, (fat_db_forgotten){.source = (char[]){HASH_B[0], HASH_B[1], HASH_B[2], 0}}), 1);
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_db_close(db);
}

static void age_is_counted_in_days(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_MEASURED, 1.0);
  fixture_put(db, "fa1:Br16", FAT_MEASURED, 2.0);
  fixture_sql(
      f->path,
      "UPDATE trial SET date = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-10 days') WHERE kernel = 'fwd'");
  assert_int_equal(forget(db, (fat_db_forgotten){.older_days = 11}), 0);
  assert_int_equal(forget(db, (fat_db_forgotten){.older_days = 9}), 1);
  assert_string_equal(fixture_winner(db), "fa1:Br16");
  fat_db_close(db);
}

/* What a run leaves out is said once: it is still there when the run's first trials come. */
static void a_run_that_goes_on_keeps_what_it_left_out(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  const fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1.0);
  const fat_db_rejection left = {&t.problem, "fwd", "too many registers", 3};
  const fat_run run = {"fatune", "0.1.0", "", "", "", "", "", ""};
  int64_t running, ended, before, after;
  MUST(fat_db_run_begin(db, &run, &running, err));
  MUST(fat_db_run_begin(db, &run, &ended, err));
  MUST(fat_db_put_rejections(db, running, &t.gpu, &left, 1, err));
  MUST(fat_db_put_rejections(db, ended, &t.gpu, &left, 1, err));
  MUST(fat_db_run_end(db, ended, "done", err));
  MUST(fat_db_compact(db, &before, &after, err));
  fat_db_close(db);
  assert_int_equal(fixture_number(f->path, "SELECT sum(count) FROM rejection"), 3);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM run"), 1);
}

static void a_compact_file_has_what_trials_need(void **state)
{
  enum { LARGE = 1 << 20 };
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  char *text = malloc(LARGE);
  int64_t before, after;
  fat_text findings = {0};
  assert_non_null(text);
  memset(text, 'x', LARGE - 1);
  text[LARGE - 1] = 0;
  const fat_artifact large = {.source = text, .recipe = "launch k grid b block 128 shared 0 args call"};
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1.0);
  MUST(fat_db_put(db, &t, &large, err));
  t = fixture_trial(PROBLEM "-causal", "T4", "fa1:Br16", 1.0);
  t.source_hash = HASH_B;
  const fat_artifact small = {.source = "kept", .recipe = "launch k grid h block 128 shared 0 args call"};
  MUST(fat_db_put(db, &t, &small, err));
  MUST(fat_db_compact(db, &before, &after, err));
  assert_true(after > LARGE);
  assert_int_equal(forget(db, (fat_db_forgotten){.kernel = "fwd"}), 1);
  MUST(fat_db_compact(db, &before, &after, err));
  assert_true(before > LARGE && after < LARGE / 2);
  fat_db_close(db);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM source"), 1);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM recipe"), 1);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM problem"), 1);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM best"), 1);
  db = fixture_db(f, FAT_DB_READ);
  MUST(fat_db_check(db, &findings, err));
  assert_string_equal(fat_text_get(&findings), "");
  fat_text_free(&findings);
  fat_db_close(db);
  free(text);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(the_next_best_wins),
      TEST(an_older_source_counts_again),
      TEST(age_is_counted_in_days),
      TEST(a_run_that_goes_on_keeps_what_it_left_out),
      TEST(a_compact_file_has_what_trials_need),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
