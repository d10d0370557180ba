/* test_db_migrate.c -- files that are not ours, empty, newer, and older ones brought forward. */
#include "db_fixture.h"
#include "../db/private.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

static void foreign_files_are_left_as_they_are(void **state)
{
  const fixture *f = *state;
  fat_error err;
  char before[64] = "this is a letter, not a database, and longer than a header..";
  fixture_write(f->path, before, sizeof before);
  for (int mode = FAT_DB_READ; mode <= FAT_DB_WRITE; mode++)
    assert_int_equal(fixture_try(f->path, (fat_db_mode)mode, &err), FAT_E_FOREIGN);
  fat_text text = {0};
  MUST(fat_text_read_file(&text, f->path, 1000, err));
  assert_int_equal(text.length, sizeof before);
  assert_memory_equal(text.data, before, sizeof before);
  fat_text_free(&text);
  unlink(f->path);
  fixture_sql(f->path, "CREATE TABLE mine (x); PRAGMA user_version = 1000;"); /* another program's */
  for (int mode = FAT_DB_READ; mode <= FAT_DB_WRITE; mode++)
    assert_int_equal(fixture_try(f->path, (fat_db_mode)mode, &err), FAT_E_FOREIGN);
  assert_non_null(strstr(err.text, f->path));
}

static void an_empty_file_is_a_new_one(void **state)
{
  const fixture *f = *state;
  fat_error err;
  fixture_write(f->path, "", 0);
  assert_int_equal(fixture_try(f->path, FAT_DB_READ, &err), FAT_E_NOT_FOUND);
  assert_int_equal(fixture_try(f->path, FAT_DB_WRITE, &err), FAT_OK);
  assert_int_equal(fixture_try(f->path, FAT_DB_READ, &err), FAT_OK);
}

static void a_newer_minor_version_is_read_and_not_written(void **state)
{
  const fixture *f = *state;
  fat_error err;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fat_db_close(db);
  fixture_sql(f->path, "ALTER TABLE trial ADD COLUMN joules REAL; CREATE TABLE later (x TEXT) STRICT;"
                       "PRAGMA user_version = 1007;");
  assert_int_equal(fixture_try(f->path, FAT_DB_WRITE, &err), FAT_E_NEWER);
  assert_non_null(strstr(err.text, "1.7"));
  assert_non_null(strstr(err.text, "1.4"));
  db = fixture_db(f, FAT_DB_READ);
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  assert_non_null(strstr(fat_db_note(db), "1.7"));
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  assert_int_equal(fat_db_put(db, &t, NULL, &err), FAT_E_NEWER);
  fat_db_close(db);
  fixture_sql(f->path, "PRAGMA user_version = 2000");
  for (int mode = FAT_DB_READ; mode <= FAT_DB_WRITE; mode++)
    assert_int_equal(fixture_try(f->path, (fat_db_mode)mode, &err), FAT_E_NEWER);
  assert_non_null(strstr(err.text, "2.0"));
}

/* What a next version would do: rebuild a table that others name, add a column, fill it. */
static const fat_db_migration next[] = {
    {0, 1004, {"db/schema.sql", "db/views.sql"}},
    {1004, 1005, {"ALTER TABLE trial ADD COLUMN joules REAL;", "UPDATE trial SET joules = ms * 2;"}},
    {1005,
     1006,
     {"CREATE TABLE run2 (id INTEGER PRIMARY KEY, begun TEXT NOT NULL, ended TEXT, status TEXT, device TEXT "
      "NOT NULL,"
      " command TEXT NOT NULL, version TEXT NOT NULL, driver TEXT NOT NULL, nvrtc TEXT NOT NULL, templates "
      "TEXT NOT"
      " NULL, model TEXT NOT NULL, host TEXT NOT NULL, watts REAL) STRICT;"
      "INSERT INTO run2 SELECT *, 70 FROM run; DROP VIEW runs; DROP VIEW best; DROP VIEW trials; DROP VIEW "
      "failures;"
      "DROP VIEW history; DROP VIEW rejections; DROP VIEW tunables; DROP TABLE run; ALTER TABLE run2 RENAME "
      "TO run;"}},
};
static const fat_db_migration broken[] = {
    {1004, 1005, {"ALTER TABLE trial ADD COLUMN joules REAL;"}},
    {1005, 1006, {"DELETE FROM device"}}, /* trials name it */
};

static void an_older_file_is_brought_forward_beside_a_copy(void **state)
{
  const fixture *f = *state;
  char copy[300];
  struct stat s;
  fat_run run = {.command = "old"};
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 2);
  MUST(fat_db_run_begin(db, &run, &t.run, err));
  MUST(fat_db_put(db, &t, NULL, err));
  fat_db_close(db);
  /* A reader brings it forward in memory: the file stays as it is. */
  MUST(fat_db_open_version(f->path, NULL, FAT_DB_READ, next, 3, 1006, &db, err));
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_db_close(db);
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), FAT_DB_VERSION);
  MUST(fat_db_open_version(f->path, NULL, FAT_DB_WRITE, next, 3, 1006, &db, err));
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  snprintf(copy, sizeof copy, "%s.v1004.bak", f->path);
  assert_non_null(strstr(fat_db_note(db), copy));
  fat_db_close(db);
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), 1006);
  assert_int_equal(fixture_number(f->path, "SELECT joules FROM trial"), 4);
  assert_int_equal(fixture_number(f->path, "SELECT watts FROM run"), 70);
  assert_int_equal(fixture_number(copy, "PRAGMA user_version"), FAT_DB_VERSION);
  assert_int_equal(fixture_number(copy, "SELECT count(*) FROM trial"), 1);
  assert_int_equal(stat(copy, &s), 0);
  assert_int_equal(s.st_mode & 0777, 0600);
  /* Again: nothing is to be done and no second copy is made. */
  MUST(fat_db_open_version(f->path, NULL, FAT_DB_WRITE, next, 3, 1006, &db, err));
  assert_string_equal(fat_db_note(db), "");
  fat_db_close(db);
}

static void a_migration_that_fails_changes_nothing(void **state)
{
  const fixture *f = *state;
  char copy[300];
  fat_error err = {0};
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fat_db_close(db);
  assert_int_equal(fat_db_open_version(f->path, NULL, FAT_DB_WRITE, broken, 2, 1006, &db, &err),
                   FAT_E_CORRUPT);
  assert_int_equal(fat_db_open_version(f->path, NULL, FAT_DB_WRITE, broken, 1, 1006, &db, &err), FAT_E_DB);
  assert_non_null(strstr(err.text, "1.5"));
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), FAT_DB_VERSION);
  assert_int_equal(
      fixture_number(f->path, "SELECT count(*) FROM pragma_table_info('trial') WHERE name = 'joules'"), 0);
  snprintf(copy, sizeof copy, "%s.v1004.2.bak", f->path); /* the first copy was not overwritten */
  assert_int_equal(fixture_number(copy, "PRAGMA user_version"), FAT_DB_VERSION);
  db = fixture_db(f, FAT_DB_WRITE);
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_db_close(db);
}

/* Copies that stand there are kept, however many: without room for another one nothing is changed. */
static void without_a_copy_nothing_is_changed(void **state)
{
  const fixture *f = *state;
  char copy[300];
  fat_error err = {0};
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_db_close(db);
  for (int i = 1; i < 100; i++) {
    snprintf(copy, sizeof copy, i > 1 ? "%s.v1004.%d.bak" : "%s.v1004.bak", f->path, i);
    fixture_write(copy, "", 0);
  }
  assert_int_equal(fat_db_open_version(f->path, NULL, FAT_DB_WRITE, next, 3, 1006, &db, &err),
                   FAT_E_READONLY);
  assert_non_null(strstr(err.text, "cannot be made"));
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), FAT_DB_VERSION);
  unlink(copy);
  MUST(fat_db_open_version(f->path, NULL, FAT_DB_WRITE, next, 3, 1006, &db, err));
  assert_non_null(strstr(fat_db_note(db), copy));
  fat_db_close(db);
}

/* A copy that breaks off is taken away again, and one whose name is too long was never there. */
static void a_copy_that_fails_changes_nothing(void **state)
{
  const fixture *f = *state;
  char copy[300], name[600];
  fat_error err = {0};
  struct rlimit before, small;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fat_db_close(db);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  small = (struct rlimit){8192, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  fat_status status = fat_db_open_version(f->path, NULL, FAT_DB_WRITE, next, 3, 1006, &db, &err);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_DFL);
  assert_int_equal(status, FAT_E_FULL);
  assert_non_null(strstr(err.text, "making a copy"));
  snprintf(copy, sizeof copy, "%s.v1004.bak", f->path);
  assert_int_not_equal(access(copy, F_OK), 0);
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), FAT_DB_VERSION);
  snprintf(name, sizeof name, "%s/%0246d", f->folder, 1); /* a name has at most 255 bytes */
  assert_int_equal(rename(f->path, name), 0);
  assert_int_equal(fat_db_open_version(name, NULL, FAT_DB_WRITE, next, 3, 1006, &db, &err), FAT_E_READONLY);
  assert_non_null(strstr(err.text, strerror(ENAMETOOLONG)));
  assert_int_equal(fixture_number(name, "PRAGMA user_version"), FAT_DB_VERSION);
}

static void a_step_that_the_program_lacks_is_named(void **state)
{
  static const fat_db_migration lacking[] = {{1004, 1005, {"db/lacking.sql"}}};
  const fixture *f = *state;
  fat_error err = {0};
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_db_close(db);
  assert_int_equal(fat_db_open_version(f->path, NULL, FAT_DB_WRITE, lacking, 1, 1005, &db, &err), FAT_E_DB);
  assert_non_null(strstr(err.text, "db/lacking.sql"));
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), FAT_DB_VERSION);
}

/* The text of a query's one value. */
static void says(const char *path, const char *query, const char *expected)
{
  sqlite3 *db = NULL;
  sqlite3_stmt *stmt = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_prepare_v2(db, query, -1, &stmt, NULL) != SQLITE_OK || sqlite3_step(stmt) != SQLITE_ROW)
    fail_msg("%s: %s", query, sqlite3_errmsg(db));
  const char *text = (const char *)sqlite3_column_text(stmt, 0);
  if (strcmp(text ? text : "(null)", expected) != 0)
    fail_msg("%s: '%s', expected '%s'", query, text ? text : "(null)", expected);
  sqlite3_finalize(stmt);
  sqlite3_close(db);
}

/* What rows of version 1.0 said in sentences, as columns. */
static const struct {
  const char *query, *expected;
} facts[] = {
    {"SELECT group_concat(config || ' ' || rivals || ' ' || detail || twin_of) FROM (SELECT * FROM trials "
     "WHERE race ="
     " '2026-11-22T16:19:11.487Z' ORDER BY id)",
     "fwd:Br64-Bc32-T128-R2-W4-s0 2 ,fwd:Br16-Bc64-T128-R1-W2-s1 2 ,fwd:Br16-Bc64-T64-R2-W2-s1 2 "},
    {"SELECT count(*) || ' ' || max(rivals) || ' ' || min(detail) FROM trials WHERE race = 'unknown' AND "
     "detail <> ''",
     "3 0 the last round was broken off (fault: cuEventSynchronize fails with CUDA_ERROR_ILLEGAL_ADDRESS "
     "(700): an"
     " illegal memory access); the first times stand"},
    {"SELECT config || ' ' || rivals FROM trials WHERE race = 'unknown' AND problem LIKE '%-q32-%'",
     "fwd:Br16-Bc64-T64-R2-W2-s1 2"},
    {"SELECT group_concat(t, ' ') FROM (SELECT DISTINCT config || '=' || twin_of AS t FROM trials WHERE "
     "twin_of <> '' AND"
     " made_as = '' AND detail = '' ORDER BY t)",
     "fwd:Br16-Bc64-T64-R2-W1-s1=fwd:Br16-Bc64-T64-R2-W2-s1 "
     "fwd:Br64-Bc32-T128-R4-W1-s1=fwd:Br64-Bc32-T128-R4-W4-s1"},
    {"SELECT group_concat(made_as, ', ') FROM (SELECT * FROM trials WHERE made_by = 'libfatune 0.1.0' AND "
     "driver = '' AND"
     " detail = '' ORDER BY id)",
     "default, default without maps, rebuilt, twin"},
    {"SELECT twin_of FROM trials WHERE made_as = 'twin'", "fwd:Br64-Bc32-T128-R4-W4-s1"},
    {"SELECT count(*) FROM trials WHERE made_by = 'package 0.1.0' AND driver = ''", "3"},
    {"SELECT DISTINCT made_by || ' ' || driver || (ms = forecast) FROM trials WHERE gpu = 'L4'", "model 3 1"},
    {"SELECT group_concat(DISTINCT driver) FROM trials WHERE origin = 'measured' AND made_by = ''",
     "CUDA 13.0"},
    {"SELECT group_concat(status) FROM (SELECT * FROM runs ORDER BY id)", "done,done,imported,stopped"},
    {"SELECT group_concat(device, '|') FROM (SELECT * FROM runs ORDER BY id)",
     "sm75-40SM-65536S-4194304L2-256b-1590+5001MHz|sm75-40SM-65536S-4194304L2-256b-1590+5001MHz||"
     "sm89-58SM-101376S-50331648L2-192b-2040+6251MHz"},
    {"SELECT tunables FROM trials WHERE config = 'fwd:Br16-Bc64-T128-R1-W2-s1' LIMIT 1",
     "{\"Br\":16,\"Bc\":64,\"T\":128,\"R\":1,\"W\":2,\"s\":1}"},
    {"SELECT group_concat(problem || ' ' || config, '; ') FROM (SELECT * FROM best ORDER BY problem)",
     "fwd-f32-b1-h2-q128-k128-d16 fwd:Br64-Bc32-T128-R2-W1-s0; fwd-f32-b1-h2-q32-k32-d16 "
     "fwd:Br16-Bc64-T64-R2-W2-s1; "
     "fwd-f32-b1-h2-q64-k64-d16 fwd:Br16-Bc64-T64-R2-W2-s1; fwd-f32-b4-h32-q4096-k4096-d64 "
     "fwd:Br64-Bc32-T128-R4-W4-s1; "
     "fwd-f32-b4-h32-q4096-k4096-d64-causal fwd:Br64-Bc32-T128-R4-W4-s1"},
};

/* The times of trials go with them, whichever version made the tables. */
static void forget_all(const fixture *f)
{
  const fat_db_forgotten all = {0};
  const int64_t trials = fixture_number(f->path, "SELECT count(*) FROM trial");
  long count;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  MUST(fat_db_forget(db, &all, &count, err));
  fat_db_close(db);
  assert_int_equal(count, trials);
  says(f->path, "SELECT (SELECT count(*) FROM sample) + (SELECT count(*) FROM kind)", "0");
}

/* The file of a program of version 1.0 keeps its winners, races, twins and runs, and stays as it was in a
 * copy. */
static void a_file_of_version_1_0_keeps_what_was_measured(void **state)
{
  const fixture *f = *state;
  fat_text sql = {0}, findings = {0};
  fat_error err = {0};
  MUST(fat_text_read_file(&sql, "tests/database.v1000.sql", 1 << 20, err));
  fixture_sql(f->path, fat_text_get(&sql));
  fat_text_free(&sql);
  const int64_t trials = fixture_number(f->path, "SELECT count(*) FROM trial"),
                samples = fixture_number(f->path, "SELECT count(*) FROM sample");
  assert_int_equal(fixture_try(f->path, FAT_DB_READ, &err), FAT_OK);
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), 1000);
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  MUST(fat_db_check(db, &findings, err));
  assert_string_equal(fat_text_get(&findings), "");
  fat_db_close(db);
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), FAT_DB_VERSION);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM trials"), trials);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM sample"), samples);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%0'"), 0);
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
    says(f->path, facts[i].query, facts[i].expected);
  forget_all(f);
}

/* The file of a program of version 1.1, which knew no kinds: it keeps its winners, by their times, until a
 * race gives the fastest a mean. */
static void a_file_of_version_1_1_keeps_its_winners(void **state)
{
  static const char best[] = "SELECT group_concat(problem || ' ' || config || ' ' || coalesce(mean, '-') || "
                             "coalesce(kinds, ''), '; ') FROM"
                             " (SELECT * FROM best ORDER BY problem)";
  static const char before[] = "fwd-f32-b1-h2-q32-k32-d16 fwd:Br16-Bc64-T64-R2-W2-s1 -; "
                               "fwd-f32-b1-h2-q64-k64-d16 fwd:Br16-Bc64-T64-R2-W2-s1 -; "
                               "fwd-f32-b4-h32-q4096-k4096-d64 fwd:Br64-Bc32-T128-R4-W4-s1 -";
  const fixture *f = *state;
  fat_text sql = {0}, findings = {0};
  fat_error err = {0};
  MUST(fat_text_read_file(&sql, "tests/database.v1001.sql", 1 << 20, err));
  fixture_sql(f->path, fat_text_get(&sql));
  fat_text_free(&sql);
  const int64_t trials = fixture_number(f->path, "SELECT count(*) FROM trial"),
                samples = fixture_number(f->path, "SELECT count(*) FROM sample");
  assert_int_equal(fixture_try(f->path, FAT_DB_READ, &err), FAT_OK);
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), 1001);
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  MUST(fat_db_check(db, &findings, err));
  assert_string_equal(fat_text_get(&findings), "");
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), FAT_DB_VERSION);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM trials"), trials);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM sample"), samples);
  says(f->path, best, before);
  fat_trial t = fixture_trial("fwd-f32-b1-h2-q64-k64-d16", "T4", "fwd:Br16-Bc16", 0.0252);
  t.origin = FAT_MEASURED, t.mean = 0.03, t.kind_count = 1;
  t.kinds[0] = (fat_kind_time){"normal", 0.0252};
  MUST(fat_db_put(db, &t, NULL, err)); /* the fastest has no mean, so that of this one counts for nothing */
  says(f->path, best, before);
  t.ms = t.kinds[0].ms = 0.025;
  MUST(fat_db_put(db, &t, NULL, err));
  fat_db_close(db);
  says(f->path, "SELECT config || ' ' || mean || kinds FROM best WHERE problem LIKE '%-q64-%'",
       "fwd:Br16-Bc16 0.03{\"normal\":0.025}");
  forget_all(f);
}

/* In version 1.2 a raw viewer was told for ever that a killed run is running. */
static void a_file_of_version_1_2_tells_which_runs_stopped(void **state)
{
  const fixture *f = *state;
  fat_run run = {.command = "fatune"};
  int64_t quick, slow;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  MUST(fat_db_run_begin(db, &run, &quick, err));
  MUST(fat_db_run_begin(db, &run, &slow, err));
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  t.run = slow;
  MUST(fat_db_put(db, &t, NULL, err));
  fat_db_close(db);
  fixture_sql(f->path, "UPDATE run SET begun = '2025-11-21T03:07:00.000Z'; DROP VIEW runs;"
                       "CREATE VIEW runs AS SELECT id, status FROM run; PRAGMA user_version = 1002;");
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), FAT_DB_VERSION);
  /* The one that stored a trial just now goes on; the other one began long ago and has stored nothing. */
  says(f->path, "SELECT group_concat(status) FROM (SELECT * FROM runs ORDER BY id)", "stopped,running");
  says(f->path, "SELECT seen FROM runs WHERE status = 'stopped'", "2025-11-21T03:07:00.000Z");
  fixture_sql(f->path, "UPDATE trial SET date = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-21 minutes')");
  says(f->path, "SELECT count(*) FROM runs WHERE status = 'stopped'", "2");
  fixture_sql(f->path, "UPDATE trial SET date = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-19 minutes')");
  says(f->path, "SELECT count(*) FROM runs WHERE status = 'stopped'", "1");
}

/* The file stays as it was, and the reason is told as damage, not as a mistake in the program's SQL. */
static void an_older_file_that_lacks_a_table_is_damaged(void **state)
{
  const fixture *f = *state;
  fat_text sql = {0};
  fat_error err = {0};
  MUST(fat_text_read_file(&sql, "tests/database.v1000.sql", 1 << 20, err));
  fixture_sql(f->path, fat_text_get(&sql));
  fat_text_free(&sql);
  fixture_sql(f->path, "DROP TABLE sample");
  const int64_t trials = fixture_number(f->path, "SELECT count(*) FROM trial");
  assert_int_equal(fixture_try(f->path, FAT_DB_WRITE, &err), FAT_E_CORRUPT);
  assert_non_null(strstr(err.text, "damaged; it was left at version 1.0"));
  assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), 1000);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM trial"), trials);
}

/* Nobody may write the system's file, so it is not brought forward. */
static void an_older_system_file_is_left_out(void **state)
{
  const fixture *f = *state;
  char system[300];
  fat_db *db = NULL;
  snprintf(system, sizeof system, "%s/system.db", f->folder);
  MUST(fat_db_open(system, NULL, FAT_DB_WRITE, &db, err));
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fat_db_close(db);
  MUST(fat_db_open_version(f->path, system, FAT_DB_WRITE, next, 3, 1006, &db, err));
  assert_non_null(strstr(fat_db_note(db), "left out"));
  assert_non_null(strstr(fat_db_note(db), "older version 1.4"));
  assert_string_equal(fixture_winner(db), "");
  fat_db_close(db);
  assert_int_equal(fixture_number(system, "PRAGMA user_version"), FAT_DB_VERSION);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(foreign_files_are_left_as_they_are),
      TEST(an_empty_file_is_a_new_one),
      TEST(a_newer_minor_version_is_read_and_not_written),
      TEST(an_older_file_is_brought_forward_beside_a_copy),
      TEST(a_migration_that_fails_changes_nothing),
      TEST(without_a_copy_nothing_is_changed),
      TEST(a_copy_that_fails_changes_nothing),
      TEST(a_step_that_the_program_lacks_is_named),
      TEST(a_file_of_version_1_0_keeps_what_was_measured),
      TEST(a_file_of_version_1_1_keeps_its_winners),
      TEST(a_file_of_version_1_2_tells_which_runs_stopped),
      TEST(an_older_file_that_lacks_a_table_is_damaged),
      TEST(an_older_system_file_is_left_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
