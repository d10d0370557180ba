/* test_db.c -- a database from making it to reading its best row: one trial through every public call. */
#include "db_fixture.h"
#include "../db/private.h"

static const double times[] = {1.25, 1.5, 1.375};
static const double clocks[] = {1500, NAN, 1490.5};

static fat_artifact artifact_of(const char *cubin)
{
  fat_artifact a = {.source = "// header\n__global__ void k() {}\n",
                    .recipe = "launch k grid b block 128 shared 0 args call",
                    .cubin = (const unsigned char *)cubin,
                    .cubin_size = strlen(cubin),
                    .target = "sm_75"};
  return a;
}

static void a_trial_is_read_back_as_it_was_stored(void **state)
{
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_run run = {"fatune --gpu T4", "0.1.0", "580.1", "13.0", HASH_B, "box", "model 3", ""};
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br64-Bc32", 1.375);
  fat_artifact a = artifact_of("cubin bytes");
  fat_best best;
  MUST(fat_db_run_begin(db, &run, &t.run, err));
  t.origin = FAT_MEASURED;
  t.driver = "580.1";
  t.p20 = 1.3, t.p80 = 1.45, t.clock_mhz = 1495.25, t.error_max = 1e-3, t.error_allowed = 2e-3;
  t.samples = times, t.clocks = clocks, t.sample_count = 3;
  MUST(fat_db_put(db, &t, &a, err));
  assert_true(t.id > 0);
  MUST(fat_db_run_end(db, t.run, "done", err));
  fat_db_close(db);

  db = fixture_db(*state, FAT_DB_READ);
  MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, err));
  assert_int_equal(best.trial.id, t.id);
  assert_int_equal(best.trial.run, t.run);
  assert_memory_equal(&best.trial.problem, &t.problem, sizeof t.problem);
  assert_string_equal(best.trial.gpu.name, "T4");
  assert_int_equal(best.trial.gpu.l2, t.gpu.l2);
  assert_int_equal(best.trial.config.values[1].value, 32);
  assert_int_equal(best.trial.origin, FAT_MEASURED);
  assert_int_equal(best.trial.outcome, FAT_OUT_OK);
  assert_true(best.trial.ms == 1.375 && best.trial.p20 == 1.3 && best.trial.p80 == 1.45);
  assert_true(best.trial.clock_mhz == 1495.25 && best.trial.error_max == 1e-3);
  assert_int_equal(best.trial.sample_count, 3);
  assert_memory_equal(best.trial.samples, times, sizeof times);
  assert_true(best.trial.clocks[0] == 1500 && isnan(best.trial.clocks[1]) && best.trial.clocks[2] == 1490.5);
  assert_string_equal(best.trial.driver, "580.1");
  assert_string_equal(best.trial.limit, "fma");
  assert_string_equal(best.trial.source_hash, HASH_A);
  assert_int_equal(strlen(best.trial.date), strlen("2025-11-21T03:07:00.000Z"));
  assert_string_equal(best.source, a.source);
  assert_string_equal(best.recipe, a.recipe);
  assert_int_equal(best.cubin_size, a.cubin_size);
  assert_memory_equal(best.cubin, a.cubin, a.cubin_size);
  assert_string_equal(best.target, "sm_75");
  assert_false(best.system);
  assert_string_equal(fat_db_note(db), "");
  fat_db_best_free(&best);
  fat_db_close(db);
}

static bool count_trial(const fat_trial *t, void *user)
{
  (void)t;
  ++*(int *)user;
  return true;
}

static void filters_choose_trials(void **state)
{
  static const struct {
    fat_db_filter filter;
    int count;
  } cases[] = {
      {{0}, 5},
      {{.problem = PROBLEM}, 4},
      {{.family = "fwd-f32-d64"}, 4},
      {{.family = "fwd-f32-d64-causal"}, 1},
      {{.kernel = "fa1"}, 1},
      {{.value = "Br64"}, 4},
      {{.value = "Br6"}, 0},
      {{.value = "r64"}, 0},
      {{.outcome_plus_1 = 1 + FAT_OUT_SPILLS}, 1},
      {{.origin_plus_1 = 1 + FAT_MEASURED}, 1},
      {{.problem = PROBLEM, .origin_plus_1 = 1 + FAT_PREDICTED, .kernel = "fwd"}, 2},
      {{.gpu = "no such device"}, 0},
  };
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br64", FAT_PREDICTED, 2);
  fixture_put(db, "fwd:Br64", FAT_MEASURED, 2);
  fixture_put(db, "fa1:Br64", FAT_PREDICTED, 2);
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br128", NAN);
  t.outcome = FAT_OUT_SPILLS;
  MUST(fat_db_put(db, &t, NULL, err));
  t = fixture_trial(PROBLEM "-causal", "T4", "fwd:Br64", 3);
  MUST(fat_db_put(db, &t, NULL, err));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int count = 0;
    MUST(fat_db_trials(db, &cases[i].filter, count_trial, &count, err));
    if (count != cases[i].count)
      fail_msg("filter %zu: %d trials, not %d", i, count, cases[i].count);
  }
  t = fixture_trial(PROBLEM, "T4", "fwd:Br128-W1-s16", 3);
  MUST(fat_db_put(db, &t, NULL, err));
  for (int i = 0; i < 3; i++) { /* first, in between, last */
    static const char *const values[] = {"Br128", "W1", "s16"};
    const fat_db_filter filter = {.value = values[i], .outcome_plus_1 = 1 + FAT_OUT_OK};
    int count = 0;
    MUST(fat_db_trials(db, &filter, count_trial, &count, err));
    assert_int_equal(count, 1);
  }
  char facts[FAT_GPU_FACTS];
  fat_db_filter here = {.gpu = fat_gpu_facts(fixture_gpu("T4"), facts)};
  int count = 0;
  MUST(fat_db_trials(db, &here, count_trial, &count, err));
  assert_int_equal(count, 6);
  fat_db_close(db);
}

static int trials_of(fat_db *db)
{
  int count = 0;
  MUST(fat_db_trials(db, NULL, count_trial, &count, err));
  return count;
}

/* Reads between begin and end belong together; before and behind, others may store. */
static void reads_belong_together(void **state)
{
  const fixture *f = *state;
  fat_db *writer = fixture_db(f, FAT_DB_WRITE);
  fixture_put(writer, "fwd:Br64", FAT_PREDICTED, 2);
  fat_db *reader = fixture_db(f, FAT_DB_READ);
  fat_db_read_begin(reader);
  fat_db_read_begin(reader);                         /* no harm */
  fixture_put(writer, "fwd:Br32", FAT_PREDICTED, 2); /* nothing was read yet */
  assert_int_equal(trials_of(reader), 2);
  /* Whoever asks for its lock gets none, without the usual wait. */
  sqlite3 *other = NULL;
  assert_int_equal(sqlite3_open(f->path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_BUSY);
  fat_db_read_end(reader);
  fat_db_read_end(reader);
  assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE; ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(other);
  fixture_put(writer, "fwd:Br16", FAT_PREDICTED, 2);
  assert_int_equal(trials_of(reader), 3);
  fat_db_read_begin(reader);
  assert_int_equal(trials_of(reader), 3);
  fat_db_close(reader); /* ends it */
  fixture_put(writer, "fwd:Br128", FAT_PREDICTED, 2);
  fat_db_read_begin(writer); /* not of this handle */
  fixture_put(writer, "fwd:Br256", FAT_PREDICTED, 2);
  fat_db_close(writer);
}

typedef struct visit {
  fat_db *db;
  int count, stop_at;
} visit;

static bool put_at_the_first(const fat_trial *t, void *user)
{
  visit *v = user;
  (void)t;
  if (v->count++ == 0)
    fixture_put(v->db, "fwd:Br256", FAT_PREDICTED, 9);
  return v->count < v->stop_at;
}

static void a_callback_can_stop_and_can_write(void **state)
{
  visit v = {fixture_db(*state, FAT_DB_WRITE), 0, 2};
  for (int i = 1; i < 6; i++) {
    char config[32];
    snprintf(config, sizeof config, "fwd:Br%d", i * 16);
    fixture_put(v.db, config, FAT_PREDICTED, i);
  }
  MUST(fat_db_trials(v.db, NULL, put_at_the_first, &v, err));
  assert_int_equal(v.count, 2);
  fat_db_close(v.db);
  assert_int_equal(fixture_number(((fixture *)*state)->path, "SELECT count(*) FROM trial"), 6);
}

static void views_have_their_columns(void **state)
{
  static const char *const keys[] = {"gpu",           "sm",       "problem", "kernel",    "config", "origin",
                                     "family",        "ms",       "tflops",  "registers", "spills", "shared",
                                     "blocks_per_sm", "limit_by", "source",  "driver",    "nvrtc",  "date"};
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_text json = {0}, table = {0};
  fixture_put(db, "fwd:Br64", FAT_PREDICTED, 2);
  MUST(fat_db_view(db, "best", true, &json, err));
  MUST(fat_db_view(db, "best", false, &table, err));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    char quoted[40];
    snprintf(quoted, sizeof quoted, "\"%s\":", keys[i]);
    if (!strstr(json.data, quoted) || !strstr(table.data, keys[i]))
      fail_msg("no column %s in %s", keys[i], json.data);
  }
  assert_non_null(strstr(json.data, "\"gpu\":\"T4\",\"sm\":75,\"problem\":\"" PROBLEM "\""));
  assert_non_null(strstr(json.data, "\"origin\":\"predicted\",\"ms\":2.0"));
  /* 2*b*h*q*k*(d+dv) = 4*16*4096^2*128*2 operations in 2 ms */
  assert_non_null(strstr(json.data, "\"tflops\":137.438953472"));
  assert_memory_equal(table.data, "gpu\tsm\tproblem\t", 15);
  fat_text_free(&json);
  fat_text_free(&table);
  fat_error err = {0};
  assert_int_equal(fat_db_view(db, "bests", true, &json, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "'bests'"));
  fat_db_close(db);
}

/* Whoever may write the file may change what a view is; what is printed stays a table or JSON. */
static void columns_are_names(void **state)
{
  static const char *const columns[] = {"a\"\"b", "a'b"};
  fat_text text = {0};
  for (int i = 0; i < 2; i++) {
    char sql[200];
    fat_error err = {0};
    fat_db_close(fixture_db(*state, FAT_DB_WRITE));
    snprintf(sql, sizeof sql, "DROP VIEW runs; CREATE VIEW runs AS SELECT id, id AS \"%s\" FROM run",
             columns[i]);
    fixture_sql(((fixture *)*state)->path, sql);
    fat_db *db = fixture_db(*state, FAT_DB_READ);
    for (int json = 0; json < 2; json++)
      assert_int_equal(fat_db_view(db, "runs", json, &text, &err), FAT_E_CORRUPT);
    assert_non_null(strstr(err.text, "runs"));
    fat_db_close(db);
  }
  fat_text_free(&text);
}

static void runs_that_never_end_run_or_are_stopped(void **state)
{
  const fixture *f = *state;
  char facts[FAT_GPU_FACTS];
  fat_db *db = fixture_db(f, FAT_DB_WRITE), *next = NULL;
  fat_run run = {
      .command = "fatune \t\xff\x01", .version = "0.1.0", .device = fat_gpu_facts(fixture_gpu("T4"), facts)};
  fat_text text = {0};
  int64_t first, second;
  fat_error err = {0};
  MUST(fat_db_lock_tuning(db, fixture_gpu("T4"), err));
  MUST(fat_db_run_begin(db, &run, &first, err));
  MUST(fat_db_run_begin(db, &run, &second, err));
  MUST(fat_db_run_end(db, second, "interrupted", err));
  MUST(fat_db_view(db, "runs", true, &text, err));
  assert_non_null(strstr(text.data, "\"status\":\"running\",\"command\":\"fatune \\t??\""));
  assert_non_null(strstr(text.data, "\"status\":\"interrupted\""));
  /* As long as its process lives it runs, however long ago it stored something. */
  fixture_sql(f->path, "UPDATE run SET begun = '2025-11-21T03:07:00.000Z'");
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM runs WHERE status = 'stopped'"), 1);
  fat_text_clear(&text);
  MUST(fat_db_view(db, "runs", true, &text, err));
  assert_non_null(strstr(text.data, "\"status\":\"running\""));
  fixture_sql(f->path, "UPDATE run SET begun = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')");
  /* Its process has ended: everybody is told so, and who tunes next writes it down. */
  fat_db_close(db);
  next = fixture_db(f, FAT_DB_WRITE);
  for (int json = 0; json < 2; json++) {
    fat_text_clear(&text);
    MUST(fat_db_view(next, "runs", json, &text, err));
    assert_non_null(strstr(text.data, "stopped"));
    assert_null(strstr(text.data, "running"));
  }
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM runs WHERE status = 'running'"), 1);
  MUST(fat_db_lock_tuning(next, fixture_gpu("L4"), err));
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM runs WHERE status = 'running'"), 1);
  MUST(fat_db_lock_tuning(next, fixture_gpu("T4"), err));
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM runs WHERE status = 'stopped'"), 1);
  db = next;
  fat_text_free(&text);
  assert_int_equal(fat_db_run_end(db, 77, "done", &err), FAT_E_NOT_FOUND);
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br64", 1);
  t.run = 77; /* no such run */
  assert_int_not_equal(fat_db_put(db, &t, NULL, &err), FAT_OK);
  fat_db_close(db);
}

/* A later run adds its row and leaves the earlier one's as it was; in one run the row of a key is one. */
static void history_is_only_appended(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  const fat_run run = {.command = "fatune"};
  const fat_artifact a = artifact_of("cubin bytes");
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br64", 2);
  fat_text text = {0};
  fat_best best;
  int64_t first, again;
  t.origin = FAT_MEASURED, t.samples = times, t.sample_count = 3;
  MUST(fat_db_run_begin(db, &run, &t.run, err));
  MUST(fat_db_put(db, &t, &a, err));
  first = t.id;
  t.ms = 3;
  MUST(fat_db_put(db, &t, NULL, err));
  assert_int_equal(t.id, first);
  MUST(fat_db_run_begin(db, &run, &t.run, err));
  t.ms = 4, t.sample_count = 1;
  MUST(fat_db_put(db, &t, NULL, err));
  again = t.id;
  assert_int_not_equal(again, first);
  int count = 0;
  MUST(fat_db_trials(db, NULL, count_trial, &count, err));
  assert_int_equal(count, 1); /* what stands */
  MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, err));
  assert_true(best.trial.id == again && best.trial.ms == 4);
  assert_non_null(best.cubin); /* which the first row brought */
  fat_db_best_free(&best);
  MUST(fat_db_check(db, &text, err));
  assert_string_equal(fat_text_get(&text), "");
  MUST(fat_db_export(db, &text, err));
  assert_null(strchr(strchr(text.data, '\n') + 1, '\n')); /* one line */
  fat_text_free(&text);
  fat_db_close(db);
  assert_int_equal(fixture_number(f->path, "SELECT ms FROM history WHERE run = 1"), 3);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM sample WHERE trial = 1"), 3);
  assert_int_equal(fixture_number(f->path, "SELECT trials FROM runs WHERE id = 1"), 1);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM trials"), 1);
}

static void facts_have_columns(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_run run = {.command = "fatune", .model = "model 3"};
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br64-Bc32-w4", 2);
  int64_t id;
  t.outcome = FAT_OUT_SPILLS, t.spills = 600, t.forecast = 1.5;
  t.twin_of = "fwd:Br64-Bc32-w8", t.made_by = "model 3";
  MUST(fat_db_run_begin(db, &run, &id, err));
  MUST(fat_db_put(db, &t, NULL, err));
  const fat_db_rejection rejections[] = {{&t.problem, "fwd", "too wide", 12},
                                         {&t.problem, "fa1", "too wide", 3}};
  MUST(fat_db_put_rejections(db, id, &t.gpu, rejections, 2, err));
  MUST(fat_db_put_rejections(db, id, &t.gpu, rejections, 1, err)); /* said already */
  fat_error err = {0};
  assert_int_not_equal(fat_db_put_rejections(db, 77, &t.gpu, rejections, 1, &err), FAT_OK);
  fat_db_close(db);
  assert_int_equal(fixture_number(f->path, "SELECT rejected FROM runs"), 15);
  assert_int_equal(
      fixture_number(f->path, "SELECT count FROM rejections WHERE kernel = 'fa1' AND reason = 'too wide'"),
      3);
  assert_int_equal(
      fixture_number(f->path, "SELECT spills FROM failures WHERE json_extract(tunables, '$.Bc') = 32"), 600);
  assert_int_equal(
      fixture_number(f->path, "SELECT forecast * 2 FROM trials WHERE twin_of = 'fwd:Br64-Bc32-w8'"), 3);
}

static void values_that_no_trial_has_are_refused(void **state)
{
  enum { BAD = 17 };
  static const double backwards[] = {1, -1, 2};
  fat_db *db = fixture_db(*state, FAT_DB_WRITE);
  fat_trial bad[BAD];
  for (int i = 0; i < BAD; i++)
    bad[i] = fixture_trial(PROBLEM, "T4", "fwd:Br64", 1);
  bad[0].ms = -1;
  bad[1].ms = INFINITY;
  bad[2].registers = -2;
  bad[3].problem.d = 63;
  bad[4].outcome = (fat_outcome)77;
  bad[5].origin = FAT_MEASURED, bad[5].ms = NAN;
  bad[6].source_hash = "line\nend";
  bad[7].sample_count = 1 << 30, bad[7].samples = times;
  bad[8].sample_count = 3, bad[8].samples = backwards;
  bad[9].compile_key = "13.0 \xC3( \xE2\x82";
  bad[10].gpu.l2 = -1;
  bad[11].config.count = 0, strcpy(bad[11].config.kernel, "no kernel");
  bad[12].eligible = 2;
  bad[13].mean = 0;
  for (int i = 14; i < 17; i++) {
    bad[i].kind_count = 1;
    bad[i].kinds[0] = (fat_kind_time){"wide", i == 14 ? 0 : 1};
  }
  bad[15].kinds[0].name[0] = 0;
  bad[16].kind_count = FAT_KIND_TIMES + 1;
  for (int i = 0; i < BAD; i++) {
    fat_error err = {0};
    if (fat_db_put(db, &bad[i], NULL, &err) != FAT_E_INPUT || !err.text[0])
      fail_msg("value %d was taken", i);
  }
  fat_error err = {0};
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br64", 1);
  fat_artifact wrong = artifact_of("cubin");
  wrong.cubin_hash = HASH_A;
  assert_int_equal(fat_db_put(db, &t, &wrong, &err), FAT_E_INPUT);
  wrong.cubin_hash = NULL;
  wrong.cubin_size = ((size_t)FAT_DB_LENGTH / 2) + 1;
  wrong.cubin = calloc(1, wrong.cubin_size);
  assert_non_null(wrong.cubin);
  assert_int_equal(fat_db_put(db, &t, &wrong, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "too large"));
  free((void *)wrong.cubin);
  wrong = artifact_of("cubin");
  t.source_hash = "";
  assert_int_equal(fat_db_put(db, &t, &wrong, &err), FAT_E_INPUT);
  fat_db_close(db);
  const char *path = ((fixture *)*state)->path;
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM trial"), 0);
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM problem"), 0); /* nothing of them was kept */
  assert_int_equal(fixture_number(path, "SELECT count(*) FROM source"), 0);
}

static void names_stand_in_their_order(void **state)
{
  (void)state;
  assert_string_equal(fat_db_outcome_name(FAT_OUT_OK), "ok");
  assert_string_equal(fat_db_outcome_name(FAT_OUT_SLOW), "slow");
  assert_string_equal(fat_db_outcome_name(FAT_OUT_COMPILE_FAILED), "compile-failed");
  assert_string_equal(fat_db_outcome_name(FAT_OUTCOME_COUNT), "unknown");
  assert_string_equal(fat_db_origin_name(FAT_PREDICTED), "predicted");
  assert_string_equal(fat_db_origin_name((fat_origin)9), "unknown");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_trial_is_read_back_as_it_was_stored),
      TEST(filters_choose_trials),
      TEST(a_callback_can_stop_and_can_write),
      TEST(reads_belong_together),
      TEST(views_have_their_columns),
      TEST(columns_are_names),
      TEST(runs_that_never_end_run_or_are_stopped),
      TEST(history_is_only_appended),
      TEST(facts_have_columns),
      TEST(values_that_no_trial_has_are_refused),
      TEST(names_stand_in_their_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
