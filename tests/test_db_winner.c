/* test_db_winner.c -- who wins: each rule as a short story of puts and the winner after each. */
#include "db_fixture.h"

typedef struct step {
  const char *config;
  fat_origin origin;
  fat_outcome outcome;
  double ms;
  int eligible;
  const char *source;
  const char *winner; /* after it */
} step;

#define OK FAT_OUT_OK
#define M  FAT_MEASURED
#define P  FAT_PREDICTED

static const struct {
  const char *rule;
  step steps[5];
} stories[] = {
    {"lower wins",
     {{"fwd:Br16", P, OK, 3, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br32", P, OK, 2, 1, HASH_A, "fwd:Br32"},
      {"fwd:Br64", P, OK, 4, 1, HASH_A, "fwd:Br32"}}},
    {"the incumbent keeps a tie",
     {{"fwd:Br32", P, OK, 2, 1, HASH_A, "fwd:Br32"}, {"fwd:Br16", P, OK, 2, 1, HASH_A, "fwd:Br32"}}},
    {"the incumbent keeps a tie with an earlier row that comes back",
     {{"fwd:Br16", P, OK, 3, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br32", P, OK, 2, 1, HASH_A, "fwd:Br32"},
      {"fwd:Br16", P, OK, 2, 1, HASH_A, "fwd:Br32"}}},
    {"measured beats predicted",
     {{"fwd:Br16", P, OK, 1, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br32", M, OK, 9, 1, HASH_A, "fwd:Br32"},
      {"fwd:Br64", P, OK, 0.5, 1, HASH_A, "fwd:Br32"}}},
    {"failures never win",
     {{"fwd:Br16", P, FAT_OUT_SPILLS, 1, 1, HASH_A, ""},
      {"fwd:Br32", P, OK, 5, 1, HASH_A, "fwd:Br32"},
      {"fwd:Br64", M, FAT_OUT_WRONG, 1, 1, HASH_A, "fwd:Br32"},
      {"fwd:Br128", M, FAT_OUT_SLOW, 1, 1, HASH_A, "fwd:Br32"}}},
    {"no time, no win", {{"fwd:Br16", P, OK, NAN, 1, HASH_A, ""}, {"fwd:Br32", P, OK, 0, 1, HASH_A, ""}}},
    {"only eligible kernels win",
     {{"fa1:Br16", P, OK, 1, 0, HASH_A, ""},
      {"fwd:Br32", P, OK, 2, 1, HASH_A, "fwd:Br32"},
      {"standard:t128", M, OK, 0.1, 0, HASH_A, "fwd:Br32"}}},
    {"a winner that is replaced by a worse row gives way",
     {{"fwd:Br16", P, OK, 1, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br32", P, OK, 2, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br16", P, OK, 3, 1, HASH_A, "fwd:Br32"}}},
    {"a winner that is replaced by a failure gives way",
     {{"fwd:Br16", P, OK, 1, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br32", P, OK, 2, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br16", P, FAT_OUT_FAULT, NAN, 1, HASH_A, "fwd:Br32"},
      {"fwd:Br32", P, FAT_OUT_OOM, NAN, 1, HASH_A, ""}}},
    {"a winner whose kernel may no longer be picked gives way",
     {{"fwd:Br16", P, OK, 1, 1, HASH_A, "fwd:Br16"}, {"fwd:Br16", P, OK, 1, 0, HASH_A, ""}}},
    {"a later source of the same config counts alone",
     {{"fwd:Br16", P, OK, 1, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br32", P, OK, 2, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br16", P, OK, 3, 1, HASH_B, "fwd:Br32"},
      {"fwd:Br16", P, OK, 1, 1, HASH_A, "fwd:Br16"}}},
    {"a prediction retires no measurement",
     {{"fwd:Br16", M, OK, 4, 1, HASH_A, "fwd:Br16"},
      {"fwd:Br16", P, OK, 5, 1, HASH_B, "fwd:Br16"},
      {"fwd:Br32", P, OK, 1, 1, HASH_B, "fwd:Br16"}}},
};

static void each_rule_holds(void **state)
{
  const fixture *f = *state;
  for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
    unlink(f->path);
    fat_db *db = fixture_db(f, FAT_DB_WRITE);
    for (int j = 0; j < 5 && stories[i].steps[j].config; j++) {
      const step *s = &stories[i].steps[j];
      fat_trial t = fixture_trial(PROBLEM, "T4", s->config, s->ms);
      t.origin = s->origin, t.outcome = s->outcome, t.eligible = s->eligible, t.source_hash = s->source;
      MUST(fat_db_put(db, &t, NULL, err));
      if (strcmp(fixture_winner(db), s->winner) != 0)
        fail_msg("%s: after step %d '%s' wins, not '%s'", stories[i].rule, j + 1, fixture_winner(db),
                 s->winner);
    }
    fat_text findings = {0};
    MUST(fat_db_check(db, &findings, err));
    assert_string_equal(fat_text_get(&findings), "");
    fat_text_free(&findings);
    fat_db_close(db);
  }
}

static bool count_trial(const fat_trial *t, void *user)
{
  (void)t;
  ++*(int *)user;
  return true;
}

static void the_same_key_replaces_its_row(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  double times[] = {1, 2, 3};
  int count = 0;
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 2);
  fat_artifact a = {.cubin = (const unsigned char *)"bytes", .cubin_size = 5, .target = "sm_75"};
  t.samples = times, t.sample_count = 3;
  MUST(fat_db_put(db, &t, &a, err));
  int64_t id = t.id;
  t.ms = 1, t.sample_count = 2;
  MUST(fat_db_put(db, &t, NULL, err));
  assert_int_equal(t.id, id);
  MUST(fat_db_trials(db, NULL, count_trial, &count, err));
  assert_int_equal(count, 1);
  fat_best best;
  MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, err));
  assert_int_equal(best.trial.sample_count, 2);
  assert_true(best.trial.ms == 1);
  assert_non_null(best.cubin); /* what was stored for the key stays */
  fat_db_best_free(&best);
  /* Every part of the key makes another row. */
  static const char *const sources[] = {HASH_A, HASH_B}, *const keys[] = {"13.0", "12.9"},
                           *const drivers[] = {"", "1"};
  for (int i = 0; i < 16; i++) {
    t = fixture_trial(PROBLEM, "T4", "fwd:Br32", 2);
    t.source_hash = sources[i & 1], t.compile_key = keys[i >> 1 & 1], t.driver = drivers[i >> 2 & 1];
    t.origin = i & 8 ? M : P;
    MUST(fat_db_put(db, &t, NULL, err));
  }
  count = 0;
  MUST(fat_db_trials(db, NULL, count_trial, &count, err));
  assert_int_equal(count, 17);
  fat_db_close(db);
}

static void each_problem_and_device_has_its_own(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  static const char *const gpus[] = {"T4", "A100"}, *const problems[] = {PROBLEM, PROBLEM "-causal"};
  for (int i = 0; i < 4; i++) {
    char config[32];
    snprintf(config, sizeof config, "fwd:Br%d", 16 << i);
    const fat_gpu *rows = NULL;
    int count;
    rows = fat_gpu_list(&count);
    fat_trial t = fixture_trial(problems[i & 1], "T4", config, 10 - i);
    for (int j = 0; j < count; j++)
      if (strncmp(rows[j].name, gpus[i >> 1], strlen(gpus[i >> 1])) == 0)
        t.gpu = rows[j];
    MUST(fat_db_put(db, &t, NULL, err));
    fat_best best;
    MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, false, &best, err));
    assert_int_equal(best.trial.id, t.id);
    fat_db_best_free(&best);
  }
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_text text = {0};
  MUST(fat_db_view(db, "best", false, &text, err));
  int lines = 0;
  for (const char *p = text.data; *p; p++)
    lines += *p == '\n';
  assert_int_equal(lines, 5);
  fat_text_free(&text);
  int count = 0;
  fat_problem p;
  MUST(fat_problem_parse(PROBLEM, &p, err));
  MUST(fat_db_winners(db, &p, count_trial, &count, err));
  assert_int_equal(count, 2);
  fat_db_close(db);
}

static void a_kernel_asked_for_by_name_is_its_best_trial(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_best best;
  fat_error err = {0};
  fat_trial t = fixture_trial(PROBLEM, "T4", "fa1:Br16", 3);
  t.eligible = 0;
  MUST(fat_db_put(db, &t, NULL, err));
  t = fixture_trial(PROBLEM, "T4", "fa1:Br32", 2);
  t.eligible = 0;
  MUST(fat_db_put(db, &t, NULL, err));
  fixture_put(db, "fwd:Br16", P, 1);
  MUST(fat_db_best(db, &t.problem, &t.gpu, "fa1", false, &best, err));
  assert_int_equal(best.trial.id, t.id);
  fat_db_best_free(&best);
  assert_int_equal(fat_db_best(db, &t.problem, &t.gpu, "standard", false, &best, &err), FAT_E_NOT_FOUND);
  assert_non_null(strstr(err.text, "standard"));
  assert_null(best.memory);
  fat_db_close(db);
}

static void expect_findings(fat_db *db, const char *words)
{
  fat_text findings = {0};
  MUST(fat_db_check(db, &findings, err));
  if (words ? strstr(fat_text_get(&findings), words) == NULL : findings.length > 0)
    fail_msg("found '%s', expected '%s'", fat_text_get(&findings), words ? words : "nothing");
  fat_text_free(&findings);
}

/* Measured trials with means, 0 where there is none, and the winner after each. */
static const struct {
  const char *rule;
  struct {
    const char *config;
    double ms, mean;
    const char *winner;
  } steps[4];
} means[] = {
    {"of those that raced the least mean wins, not the least time",
     {{"fwd:Br16", 1, 1.5, "fwd:Br16"},
      {"fwd:Br32", 1.03, 1.04, "fwd:Br32"},
      {"fwd:Br64", 1.02, 1.1, "fwd:Br32"},
      {"fwd:Br16", 1, 1.03, "fwd:Br16"}}},
    {"a time below a mean is no win",
     {{"fwd:Br16", 1, 1.5, "fwd:Br16"},
      {"fwd:Br32", 1.2, 0, "fwd:Br16"},
      {"fwd:Br64", 1.1, 1.6, "fwd:Br16"}}},
    {"the fastest wins until it has a mean",
     {{"fwd:Br16", 1, 1.1, "fwd:Br16"},
      {"fwd:Br32", 0.9, 0, "fwd:Br32"},
      {"fwd:Br32", 0.9, 1.2, "fwd:Br16"}}},
    {"the incumbent keeps a tie of means", {{"fwd:Br32", 2, 3, "fwd:Br32"}, {"fwd:Br16", 1, 3, "fwd:Br32"}}},
};

static void means_decide_where_the_fastest_has_one(void **state)
{
  const fixture *f = *state;
  for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
    unlink(f->path);
    fat_db *db = fixture_db(f, FAT_DB_WRITE);
    for (int j = 0; j < 4 && means[i].steps[j].config; j++) {
      fat_trial t = fixture_trial(PROBLEM, "T4", means[i].steps[j].config, means[i].steps[j].ms);
      t.origin = M, t.mean = means[i].steps[j].mean > 0 ? means[i].steps[j].mean : NAN;
      MUST(fat_db_put(db, &t, NULL, err));
      if (strcmp(fixture_winner(db), means[i].steps[j].winner) != 0)
        fail_msg("%s: after step %d '%s' wins", means[i].rule, j + 1, fixture_winner(db));
      expect_findings(db, NULL);
    }
    fat_db_close(db);
  }
}

/* A race is held under load, where clocks are lower: who has a mean takes longer than who took part in none,
 * by fewer clocks. Nor does it matter who was put first; export and import agree. */
static void clocks_decide_who_is_the_fastest(void **state)
{
  const fixture *f = *state;
  const struct {
    const char *config;
    double ms, mean, clock;
  } of[] = {{"fwd:Br16", 1.08, 1.1, 1450}, {"fwd:Br32", 1.02, 0, 1800}, {"fwd:Br64", 1.1, 1.2, 1400}};
  for (int first = 0; first < 3; first++) {
    unlink(f->path);
    fat_db *db = fixture_db(f, FAT_DB_WRITE), *there = NULL;
    for (int j = 0; j < 3; j++) {
      fat_trial t = fixture_trial(PROBLEM, "T4", of[(first + j) % 3].config, of[(first + j) % 3].ms);
      t.origin = M, t.mean = of[(first + j) % 3].mean > 0 ? of[(first + j) % 3].mean : NAN;
      t.clock_mhz = of[(first + j) % 3].clock;
      MUST(fat_db_put(db, &t, NULL, err));
    }
    assert_string_equal(fixture_winner(db), "fwd:Br16");
    expect_findings(db, NULL);
    fixture_sql(f->path, "UPDATE winner SET trial = (SELECT id FROM trial WHERE tunables LIKE '%32%')");
    expect_findings(db, "is better"); /* though its time is the least */
    fixture_sql(f->path, "UPDATE winner SET trial = (SELECT id FROM trial WHERE tunables LIKE '%16%')");
    char path[300];
    snprintf(path, sizeof path, "%s/there%d.db", f->folder, first);
    fat_text text = {0};
    fat_import counts;
    MUST(fat_db_export_winners(db, NULL, &text, err));
    MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
    MUST(fat_db_import_shipped(there, text.data, text.length, &counts, err));
    assert_string_equal(fixture_winner(there), "fwd:Br16");
    fat_text_free(&text);
    fat_db_close(there);
    fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br128", 0.8);
    t.origin = M, t.clock_mhz = 1800;
    MUST(fat_db_put(db, &t, NULL, err));
    assert_string_equal(fixture_winner(db),
                        "fwd:Br128"); /* fewer clocks than any: a race has yet to be held */
    fat_db_close(db);
  }
}

/* One that was put as a finalist, with a mean. */
static int64_t put_raced(fat_db *db, const char *config, double ms, double mean, int eligible)
{
  fat_trial t = fixture_trial(PROBLEM, "T4", config, ms);
  t.origin = M, t.mean = mean, t.eligible = eligible, t.kind_count = 2;
  t.kinds[0] = (fat_kind_time){"normal", ms};
  t.kinds[1] = (fat_kind_time){"rise16", mean * mean / ms};
  MUST(fat_db_put(db, &t, NULL, err));
  return t.id;
}

static void means_decide_within_a_kernel_and_in_the_check(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  const fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  fat_best best;
  put_raced(db, "fa1:Br16", 1, 2, 0);
  int64_t level = put_raced(db, "fa1:Br32", 1.5, 1.6, 0);
  MUST(fat_db_best(db, &t.problem, &t.gpu, "fa1", false, &best, err));
  assert_int_equal(best.trial.id, level);
  assert_int_equal(best.trial.kind_count, 2);
  assert_string_equal(best.trial.kinds[1].name, "rise16");
  assert_true(best.trial.mean == 1.6 && fabs(best.trial.kinds[1].ms - 1.6 * 1.6 / 1.5) < 1e-12);
  fat_db_best_free(&best);
  int64_t uneven = put_raced(db, "fwd:Br16", 1, 2, 1);
  put_raced(db, "fwd:Br32", 1.5, 1.6, 1);
  assert_string_equal(fixture_winner(db), "fwd:Br32");
  expect_findings(db, NULL);
  char path[300];
  snprintf(path, sizeof path, "%s/there.db", f->folder);
  fat_text text = {0};
  fat_db *there = NULL;
  fat_import counts;
  fixture_put(db, "slow:Br16", M, 1.7);
  MUST(fat_db_export_winners(db, NULL, &text, err));
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &there, err));
  MUST(fat_db_import_shipped(there, text.data, text.length, &counts, err));
  assert_int_equal(counts.added, 3); /* the winner, the best of fa1 and that without a mean */
  assert_string_equal(fixture_winner(there), "fwd:Br32");
  MUST(fat_db_best(there, &t.problem, &t.gpu, "fa1", false, &best, err));
  assert_true(best.trial.mean == 1.6 && best.trial.kind_count == 2);
  fat_db_best_free(&best);
  fat_text_free(&text);
  fat_db_close(there);
  MUST(fat_db_prefer(db, uneven, err)); /* the fastest on normal data is no tie */
  expect_findings(db, "is better");
  fat_db_close(db);
}

/* Of two within noise the slower may be preferred, and is then its kernel's best too; the check takes that,
 * but no more. */
static void a_tie_may_be_decided_otherwise(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  const fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br32", 1);
  fat_best best;
  fixture_put(db, "fwd:Br16", FAT_MEASURED, 10);
  int64_t near = fixture_put(db, "fwd:Br32", FAT_MEASURED, 10.05);
  int64_t far = fixture_put(db, "fwd:Br64", FAT_MEASURED, 12);
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  MUST(fat_db_prefer(db, near, err));
  assert_string_equal(fixture_winner(db), "fwd:Br32");
  MUST(fat_db_best(db, &t.problem, &t.gpu, "fwd", false, &best, err));
  assert_int_equal(best.trial.id, near);
  fat_db_best_free(&best);
  expect_findings(db, NULL);
  assert_int_equal(fat_db_prefer(db, near, NULL), FAT_E_NOT_FOUND); /* it is already */
  MUST(fat_db_prefer(db, far, err));
  expect_findings(db, "is better");
  fixture_put(db, "fwd:Br128", FAT_MEASURED, 11); /* the next trial ends it */
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  expect_findings(db, NULL);
  fat_db_close(db);
}

/* As after a driver is rolled back: what it timed is there, but what the newer one timed retired it. */
static void a_row_of_earlier_tools_may_be_preferred(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_trial before = fixture_trial(PROBLEM, "T4", "fwd:Br16", 10), since = before;
  before.origin = since.origin = FAT_MEASURED;
  before.driver = "580.1", since.driver = "590.1", since.ms = 12;
  MUST(fat_db_put(db, &before, NULL, err));
  MUST(fat_db_put(db, &since, NULL, err));
  MUST(fat_db_prefer(db, before.id, err));
  fat_best best;
  MUST(fat_db_best(db, &before.problem, &before.gpu, NULL, false, &best, err));
  assert_int_equal(best.trial.id, before.id);
  fat_db_best_free(&best);
  expect_findings(db, NULL);
  fat_db_close(db);
}

/* A twin that is compiled when first called, say. */
static void a_row_that_cannot_win_leaves_the_winner(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_MEASURED, 10);
  MUST(fat_db_prefer(db, fixture_put(db, "fwd:Br32", FAT_MEASURED, 10.05), err));
  fixture_put(db, "fwd:Br64", FAT_PREDICTED, NAN);
  assert_string_equal(fixture_winner(db), "fwd:Br32");
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br32", NAN); /* the winner itself fails now */
  t.origin = FAT_MEASURED, t.outcome = FAT_OUT_FAULT;
  MUST(fat_db_put(db, &t, NULL, err));
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_db_close(db);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(each_rule_holds),
      TEST(the_same_key_replaces_its_row),
      TEST(each_problem_and_device_has_its_own),
      TEST(a_kernel_asked_for_by_name_is_its_best_trial),
      TEST(means_decide_where_the_fastest_has_one),
      TEST(clocks_decide_who_is_the_fastest),
      TEST(means_decide_within_a_kernel_and_in_the_check),
      TEST(a_tie_may_be_decided_otherwise),
      TEST(a_row_of_earlier_tools_may_be_preferred),
      TEST(a_row_that_cannot_win_leaves_the_winner),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
