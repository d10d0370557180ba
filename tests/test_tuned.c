/* test_tuned.c -- from what a user measured to a text under version control, to a package's database, to a
 * call: the text comes back as it was, a damaged one is refused, code is made for its rows. Cubins need an
 * NVRTC. */
#include "search/package.h"
#include "nvrtc.h"
#include "search/records.h"
#include "search/winner.h"
#include "runtime_fixture.h"

static char system_path[300];

/* What a tune of one problem leaves: a winner, its twin, one that is slower, one that is only taken when
 * asked. */
static fat_text measured_text(void)
{
  fat_db *db = NULL;
  fat_text text = {0};
  store_usual();
  store((stored){.problem = ASKED,
                 .gpu = "H200",
                 .config = "fwd:Br32-Bc32-T128-R4-W4-s1",
                 .ms = 3,
                 .origin = FAT_MEASURED});
  store((stored){.problem = ASKED, .gpu = "T4", .config = WIDE, .ms = 4, .origin = FAT_MEASURED});
  store((stored){.problem = NEAR, .gpu = "H200", .config = NARROW, .ms = 5, .origin = FAT_PREDICTED});
  MUST(fat_db_open(path, NULL, FAT_DB_READ, &db, err));
  char facts[FAT_GPU_FACTS];
  MUST(fat_db_export_winners(db, fat_gpu_facts(fixture_gpu("H200"), facts), &text, err));
  fat_db_close(db);
  unlink(path);
  return text;
}

/* A copy of the text with every `from` replaced. */
static char *with(const fat_text *text, const char *from, const char *to)
{
  fat_text out = {0};
  const char *at = fat_text_get(text), *next;
  while ((next = strstr(at, from))) {
    fat_text_format(&out, "%.*s%s", (int)(next - at), at, to);
    at = next + strlen(from);
  }
  fat_text_add(&out, at);
  assert_non_null(out.data);
  return out.data;
}

/* Makes system_path of a text; the last one lies below meanwhile. */
static fat_package_counts build(const char *text, fat_nvrtc *nvrtc)
{
  char next[320];
  fat_db *db = NULL;
  fat_import counts;
  fat_package_counts made;
  snprintf(next, sizeof next, "%s.new", system_path);
  unlink(next);
  MUST(fat_db_open(next, access(system_path, F_OK) == 0 ? system_path : NULL, FAT_DB_WRITE, &db, err));
  MUST(fat_db_import_shipped(db, text, strlen(text), &counts, err));
  assert_string_equal(counts.first_refusal, "");
  MUST(fat_package_make(db, script, nvrtc, "all", 1, &made, err));
  fat_db_close(db);
  assert_int_equal(chmod(next, 0444), 0);
  assert_int_equal(rename(next, system_path), 0);
  return made;
}

static int begin_tuned(void **state)
{
  begin(state);
  snprintf(system_path, sizeof system_path, "%s/system.db", files.path);
  unlink(system_path);
  setenv("FATUNE_SYSTEM_DB", system_path, 1);
  setenv("FATUNE_DISABLE_JIT", "1", 1);
  return 0;
}

static fat_nvrtc *need_nvrtc(void)
{
  fat_nvrtc *nvrtc = NULL;
  if (fat_nvrtc_open(13, &nvrtc, NULL) != FAT_OK)
    skip();
  return nvrtc;
}

static void the_text_comes_back_as_it_was(void **state)
{
  fat_text text = measured_text(), again = {0}, findings = {0};
  fat_db *db = NULL;
  (void)state;
  assert_non_null(strstr(text.data, WIDE));
  assert_non_null(strstr(text.data, NARROW));
  assert_null(strstr(text.data, "Br32"));   /* neither a winner nor a twin */
  assert_null(strstr(text.data, "\"T4\"")); /* of another GPU */
  assert_null(strstr(text.data, NEAR));     /* not measured */
  assert_non_null(strstr(text.data, "\"samples\":[1.0]"));
  fat_package_counts made = build(text.data, NULL);
  assert_int_equal(made.rows, 2);
  assert_int_equal(made.compiled + made.copied + made.changed + made.lost, 0);
  MUST(fat_db_open(system_path, NULL, FAT_DB_READ, &db, err));
  MUST(fat_db_export_winners(db, NULL, &again, err));
  assert_string_equal(again.data, text.data);
  MUST(fat_db_check(db, &findings, err));
  assert_string_equal(fat_text_get(&findings), "");
  fat_db_close(db);
  fat_text_free(&text);
  fat_text_free(&again);
  fat_text_free(&findings);
}

static void a_damaged_line_is_named(void **state)
{
  static const struct {
    const char *from, *to, *refusal;
  } cases[] = {
      {"\"ms\":2.0", "\"ms\":-2.0", "line 3: ms of a trial is -2"},
      {"\"samples\":[1.0]", "\"samples\":[\"x\"]", "line 2: samples do not agree"},
      {"\"shared\":{\"gpu\"", "\"shared\":{\"cpu\"", "line 2: sm is no whole number"},
      {"{\"problem\"", "{\"problem", "line 2: no JSON object"},
      {"W1-s1", "W1-s1-s1", "line 3: "},
  };
  fat_text text = measured_text();
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *damaged = with(&text, cases[i].from, cases[i].to);
    fat_db *db = NULL;
    fat_import counts;
    assert_string_not_equal(damaged, text.data);
    MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
    MUST(fat_db_import_shipped(db, damaged, strlen(damaged), &counts, err));
    if (counts.refused == 0 || strncmp(counts.first_refusal, cases[i].refusal, strlen(cases[i].refusal)) != 0)
      fail_msg("'%s', expected '%s'", counts.first_refusal, cases[i].refusal);
    fat_db_close(db);
    unlink(path);
    free(damaged);
  }
  fat_text_free(&text);
}

/* A date ahead of the clock is refused from who shares rows, not from what a package ships. */
static void a_package_may_be_built_by_a_slow_clock(void **state)
{
  fat_text text = measured_text();
  fat_db *db = NULL;
  fat_import counts;
  (void)state;
  char *later = with(&text, "\"date\":\"2", "\"date\":\"9");
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
  MUST(fat_db_import(db, later, strlen(later), &counts, err));
  assert_int_equal(counts.refused, 2);
  fat_db_close(db);
  build(later, NULL);
  free(later);
  fat_text_free(&text);
}

/* Served on the first call, with no database of the user's and nothing to compile with. */
static void is_served(const char *kernel, const char *why)
{
  fatune_plan *plan = NULL;
  fatune *h = open_usual();
  fatune_request r = request_of(ASKED, FATUNE_FAIL); /* what is not measured is refused */
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  describes(plan, "pick exact");
  describes(plan, kernel);
  describes(plan, "kernel-from stored");
  describes(plan, "twin-from stored");
  if (why)
    describes(plan, why);
  computes(plan, ASKED, 0);
  computes(plan, ASKED, 1);
  fatune_plan_free(plan);
  fatune_close(h);
  assert_int_not_equal(access(path, F_OK), 0);
}

static void an_owner_is_at_full_speed_on_the_first_call(void **state)
{
  (void)state;
  fat_nvrtc *nvrtc = need_nvrtc();
  fat_text text = measured_text();
  fat_package_counts made = build(text.data, nvrtc);
  assert_int_equal(made.compiled, 2);
  is_served("kernel " WIDE, NULL);
  made = build(text.data, nvrtc); /* on top of the last one */
  assert_int_equal(made.compiled, 0);
  assert_int_equal(made.copied, 2);
  is_served("kernel " WIDE, NULL);
  fat_text_free(&text);
  fat_nvrtc_close(nvrtc);
}

/* The row says what was measured; the code is that of today's templates. */
static void templates_may_change_after_a_measurement(void **state)
{
  static const char changed[] = "why source: the row was measured with other templates";
  (void)state;
  fat_nvrtc *nvrtc = need_nvrtc();
  fat_text text = measured_text(), again = {0};
  fat_db *db = NULL;
  char *older = with(&text, "\"source\":\"", "\"source\":\"0");
  fat_package_counts made = build(older, nvrtc);
  assert_int_equal(made.changed, 2);
  is_served("kernel " WIDE, changed);
  MUST(fat_db_open(system_path, NULL, FAT_DB_READ, &db, err));
  MUST(fat_db_export_winners(db, NULL, &again, err));
  assert_string_equal(again.data, older);
  fat_db_close(db);
  free(older);
  /* Its kernel had no s then. */
  older = with(&text, "-s1\"", "\"");
  made = build(older, nvrtc);
  assert_int_equal(made.lost, 0);
  is_served("kernel fwd:Br64-Bc32-T128-R4-W4", NULL);
  free(older);
  /* It has no z now. */
  older = with(&text, "-s1\"", "-s1-z3\"");
  made = build(older, nvrtc);
  assert_int_equal(made.lost, 2);
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_MISS, "measured, but stored without a binary", fatune_plan_make(h, &r, &plan));
  fatune_close(h);
  free(older);
  fat_text_free(&text);
  fat_text_free(&again);
  fat_nvrtc_close(nvrtc);
}

/* Rows of the system's file are the user's when something is to be said of them, and have no id of his
 * before. */
static void a_tune_owns_what_it_writes_to(void **state)
{
  static const fat_tools tools = {
      .templates = HASH_B, .compile_key = "NVRTC 13.0 --std=c++17", .model = "m", .driver = "580.1"};
  fat_text text = measured_text();
  fat_db *db = NULL;
  fat_records rows;
  fat_problem p;
  int64_t id;
  (void)state;
  build(text.data, NULL);
  MUST(fat_problem_parse(ASKED, &p, err));
  MUST(fat_db_open(path, system_path, FAT_DB_WRITE, &db, err));
  MUST(fat_records_read(db, &p, fixture_gpu("H200"), &tools, &rows, err));
  const fat_record *row = fat_records_find(&rows, WIDE);
  assert_true(row && row->id < 0);
  MUST(fat_records_own(db, row, &p, fixture_gpu("H200"), &tools, &id, err));
  assert_true(id > 0);
  fat_best best;
  MUST(fat_db_best(db, &p, fixture_gpu("H200"), NULL, false, &best, err));
  assert_true(best.trial.id == id && !best.system);
  fat_db_best_free(&best);
  fat_records_free(&rows);
  fat_db_close(db);
  fat_text_free(&text);
}

/* Of the system's rows, too, the later one counts as later: what won a race before another took less does not
 * come back where a budget ends before anything was tried. */
static void rows_below_are_as_old_as_they_are(void **state)
{
  static const fat_tools tools = {
      .templates = HASH_B, .compile_key = "NVRTC 13.0 --std=c++17", .model = "m", .driver = "580.1"};
  fat_db *db = NULL;
  fat_records rows;
  fat_trial raced = fixture_trial(ASKED, "H200", NARROW, 6), later = fixture_trial(ASKED, "H200", WIDE, 1);
  (void)state;
  raced.driver = later.driver = "580.1";
  raced.origin = later.origin = FAT_MEASURED;
  raced.race = "2026-11-22T10:00:00.000Z";
  raced.rivals = 1;
  MUST(fat_db_open(system_path, NULL, FAT_DB_WRITE, &db, err));
  MUST(fat_db_put(db, &raced, NULL, err));
  MUST(fat_db_put(db, &later, NULL, err));
  fat_db_close(db);
  MUST(fat_db_open(path, system_path, FAT_DB_WRITE, &db, err));
  MUST(fat_records_read(db, &raced.problem, &raced.gpu, &tools, &rows, err));
  const fat_record *first = fat_records_find(&rows, NARROW), *second = fat_records_find(&rows, WIDE);
  assert_true(fat_records_is_timed(first) && first->id < second->id && second->id < 0);
  assert_string_equal(fat_winner_find(&rows, "")->config, WIDE);
  fat_records_free(&rows);
  fat_db_close(db);
}

#define TEST(f) cmocka_unit_test_setup(f, begin_tuned)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(the_text_comes_back_as_it_was),
      TEST(a_damaged_line_is_named),
      TEST(a_package_may_be_built_by_a_slow_clock),
      TEST(an_owner_is_at_full_speed_on_the_first_call),
      TEST(templates_may_change_after_a_measurement),
      TEST(a_tune_owns_what_it_writes_to),
      TEST(rows_below_are_as_old_as_they_are),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
