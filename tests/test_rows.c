/* test_rows.c -- rows of a view: which of them is a winner. */
#include "db_fixture.h"
#include "cli/rows.h"

/* The same config with another source, tried at the same moment, has not won. */
static void a_row_of_another_source_is_no_winner(void **state)
{
  const fixture *f = *state;
  const fat_options all = {0};
  fat_rows trials, best, runs;
  const char *trial[FAT_ROWS_KEY];
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1.0);
  MUST(fat_db_put(db, &t, NULL, err));
  t.source_hash = HASH_B;
  MUST(fat_db_put(db, &t, NULL, err));
  fixture_sql(f->path, "UPDATE trial SET date = '2025-11-21T03:07:00.000Z'");
  MUST(fat_rows_read(db, "trials", &all, false, &trials, err));
  MUST(fat_rows_read(db, "best", &all, false, &best, err));
  MUST(fat_rows_read(db, "runs", &all, false, &runs, err));
  assert_int_equal(trials.count, 2);
  assert_int_equal(best.count, 1);
  for (int r = 0; r < trials.count; r++) {
    assert_true(fat_rows_trial(&trials, r, trial));
    const bool later = strcmp(trials.row[r][fat_rows_column(&trials, "source")], HASH_B) == 0;
    assert_int_equal(fat_rows_have(&best, trial), later);
    assert_false(fat_rows_have(&runs, trial)); /* no view of trials, and without rows */
  }
  fat_rows_free(&trials);
  fat_rows_free(&best);
  fat_rows_free(&runs);
  fat_db_close(db);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_row_of_another_source_is_no_winner),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
