/* test_records.c -- stored rows as the tuner reads them: which count as tried, which one is best. */
#include "db_fixture.h"
#include "search/records.h"

static const fat_tools tools = {
    .templates = HASH_B, .compile_key = "NVRTC 13.0 --std=c++17", .model = "model 1"};

static fat_trial row(const char *config, double ms)
{
  fat_trial t = fixture_trial(PROBLEM, "T4", config, ms);
  t.made_by = tools.model;
  return t;
}

static void put(fat_db *db, fat_trial t)
{
  MUST(fat_db_put(db, &t, NULL, err));
}

static fat_records read_rows(fat_db *db)
{
  fat_records rows;
  fat_problem p;
  MUST(fat_problem_parse(PROBLEM, &p, err));
  MUST(fat_records_read(db, &p, fixture_gpu("T4"), &tools, &rows, err));
  return rows;
}

static void expect_best(fat_db *db, const char *kernel, const char *config)
{
  fat_records rows = read_rows(db);
  const fat_record *best = fat_records_best(&rows, kernel);
  if (!config)
    assert_null(best);
  else if (!best || strcmp(best->config, config) != 0)
    fail_msg("%s, expected %s", best ? best->config : "none", config);
  fat_records_free(&rows);
}

static void best_of_a_kernel(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  expect_best(db, "fwd", NULL);
  put(db, row("fwd:Br1", 9));
  put(db, row("fwd:Br2", 7));
  put(db, row("fwd:Br3", 7)); /* a tie: the one tried first */
  put(db, row("fa1:Br1", 1));
  expect_best(db, "fwd", "fwd:Br2");
  expect_best(db, "fa1", "fa1:Br1");
  expect_best(db, "standard", NULL);
  fat_db_close(db);
}

static void what_may_win_unasked(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_trial baseline = row("fa1:Br1", 1);
  baseline.eligible = 0;
  put(db, baseline);
  put(db, row("fwd:Br1", 5));
  expect_best(db, NULL, "fwd:Br1");
  fat_db_close(db);
}

/* A spilling config is better than none, and never better than a clean one; a failed one never counts. */
static void outcomes(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_trial spills = row("fwd:Br1", 1), failed = row("fwd:Br2", 0.5);
  spills.outcome = FAT_OUT_SPILLS;
  failed.outcome = FAT_OUT_COMPILE_FAILED;
  put(db, failed);
  expect_best(db, "fwd", NULL);
  put(db, spills);
  expect_best(db, "fwd", "fwd:Br1");
  put(db, row("fwd:Br3", 50));
  expect_best(db, "fwd", "fwd:Br3");
  fat_db_close(db);
}

/* Rows of another NVRTC or model are not read; rows of other templates are, but do not count as tried. */
static void other_tools(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_trial nvrtc = row("fwd:Br1", 1), model = row("fwd:Br2", 1), templates = row("fwd:Br3", 1);
  nvrtc.compile_key = "NVRTC 12.4";
  model.made_by = "model 0";
  templates.templates = HASH_A;
  put(db, nvrtc);
  put(db, model);
  put(db, templates);
  fat_records rows = read_rows(db);
  assert_int_equal(rows.count, 1);
  assert_null(fat_records_find(&rows, "fwd:Br1"));
  assert_null(fat_records_find(&rows, "fwd:Br2"));
  assert_non_null(fat_records_find(&rows, "fwd:Br3"));
  assert_false(fat_records_find(&rows, "fwd:Br3")->same_source);
  assert_null(fat_records_best(&rows, "fwd"));
  fat_records_free(&rows);
  fat_db_close(db);
}

static void figures_survive(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_trial t = row("fwd:Br1-Bc2", 2.5);
  t.spills = 16;
  t.stack = 48;
  t.outcome = FAT_OUT_SPILLS;
  t.detail = "why";
  t.twin_of = "fwd:Br1-Bc1", t.race = "2026-11-22T10:00:00.000Z", t.rivals = 3, t.forecast = 2.25;
  put(db, t);
  fat_records rows = read_rows(db);
  const fat_record *r = fat_records_find(&rows, "fwd:Br1-Bc2");
  assert_non_null(r);
  assert_true(r->ms == 2.5 && r->figures.registers == 64 && r->figures.spills == 16 &&
              r->figures.stack == 48 && r->figures.shared == 32768);
  assert_int_equal(r->figures.blocks_per_sm, 2);
  assert_int_equal(r->origin, FAT_PREDICTED);
  assert_string_equal(r->limit, "fma");
  assert_string_equal(r->source_hash, HASH_A);
  assert_string_equal(r->detail, "why");
  assert_string_equal(r->twin_of, "fwd:Br1-Bc1");
  assert_string_equal(r->race, t.race);
  assert_true(r->rivals == 3 && r->forecast == 2.25);
  assert_string_equal(r->kernel, "fwd");
  assert_true(r->same_source);
  fat_records_free(&rows);
  fat_db_close(db);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fixture_open, fixture_close)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(best_of_a_kernel), IN_FOLDER(what_may_win_unasked), IN_FOLDER(outcomes),
      IN_FOLDER(other_tools),      IN_FOLDER(figures_survive),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
