/* test_db_system.c -- the read-only system file under the user's own. */
#include "db_fixture.h"
#include "../db/private.h"

static void the_users_rows_lie_over_the_systems(void **state)
{
  const fixture *f = *state;
  char system[300];
  fat_db *db = NULL;
  fat_text text = {0};
  fat_error err = {0};
  snprintf(system, sizeof system, "%s/sys ?#%%t.db", f->folder); /* what a URI would misread */
  MUST(fat_db_open(system, NULL, FAT_DB_WRITE, &db, err));
  fixture_put(db, "fwd:Br32", FAT_PREDICTED, 1);
  fat_db_close(db);
  assert_int_equal(chmod(system, 0444), 0);
  /* Alone. */
  MUST(fat_db_open(f->path, system, FAT_DB_READ, &db, err));
  assert_string_equal(fixture_winner(db), "fwd:Br32");
  fat_best best;
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br64", 5);
  MUST(fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, err));
  assert_true(best.system);
  fat_db_best_free(&best);
  fat_db_close(db);
  /* Under the user's: same problem, the user's prediction wins though it is slower. */
  MUST(fat_db_open(f->path, system, FAT_DB_WRITE, &db, err));
  MUST(fat_db_put(db, &t, NULL, err));
  assert_string_equal(fixture_winner(db), "fwd:Br64");
  MUST(fat_db_view(db, "best", true, &text, err));
  assert_non_null(strstr(text.data, "fwd:Br64"));
  assert_null(strstr(text.data, "fwd:Br32"));
  assert_non_null(strstr(text.data, "\"database\":\"user\""));
  fat_text_clear(&text);
  MUST(fat_db_view(db, "trials", true, &text, err));
  assert_non_null(strstr(text.data, "\"database\":\"system\""));
  fat_db_close(db);
  /* The user's file does not change the system's. */
  assert_int_equal(fixture_number(system, "SELECT count(*) FROM trial"), 1);
  /* A measurement in the system's file counts more than the user's prediction. */
  chmod(system, 0600);
  MUST(fat_db_open(system, NULL, FAT_DB_WRITE, &db, err));
  fixture_put(db, "fwd:Br128", FAT_MEASURED, 7);
  fat_db_close(db);
  MUST(fat_db_open(f->path, system, FAT_DB_READ, &db, err));
  assert_string_equal(fixture_winner(db), "fwd:Br128");
  fat_text_clear(&text);
  MUST(fat_db_view(db, "best", true, &text, err));
  assert_non_null(strstr(text.data, "fwd:Br128"));
  assert_null(strstr(text.data, "fwd:Br64"));
  fat_db_close(db);
  fat_text_free(&text);
  /* Neither file. */
  unlink(f->path), unlink(system);
  assert_int_equal(fat_db_open(f->path, system, FAT_DB_READ, &db, &err), FAT_E_NOT_FOUND);
  assert_null(db);
}

static bool list_config(const fat_trial *t, void *user)
{
  char config[FAT_CONFIG_TEXT];
  fat_text_format(user, "%s ", fat_config_print(&t->config, config));
  return true;
}

static void rows_of_both_are_read_once(void **state)
{
  const fixture *f = *state;
  char system[300];
  fat_db *db = NULL;
  fat_text seen = {0};
  snprintf(system, sizeof system, "%s/system.db", f->folder);
  MUST(fat_db_open(system, NULL, FAT_DB_WRITE, &db, err));
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fixture_put(db, "fwd:Br32", FAT_PREDICTED, 2);
  fat_db_close(db);
  MUST(fat_db_open(f->path, system, FAT_DB_WRITE, &db, err));
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 3);
  MUST(fat_db_trials(db, NULL, list_config, &seen, err));
  assert_string_equal(fat_text_get(&seen), "fwd:Br16 fwd:Br32 ");
  fat_text_clear(&seen);
  fat_problem p;
  MUST(fat_problem_parse(PROBLEM, &p, err));
  MUST(fat_db_winners(db, &p, list_config, &seen, err));
  assert_string_equal(fat_text_get(&seen), "fwd:Br16 ");
  fat_text_free(&seen);
  fat_db_close(db);
}

/* The user's file named as the system's too: its rows are there once, and are the user's. */
static void one_file_is_not_two(void **state)
{
  const fixture *f = *state;
  fat_text text = {0};
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fat_db_close(db);
  MUST(fat_db_open(f->path, f->path, FAT_DB_READ, &db, err));
  assert_string_equal(fat_db_note(db), "");
  MUST(fat_db_view(db, "trials", true, &text, err));
  assert_non_null(strstr(text.data, "\"database\":\"user\""));
  assert_null(strstr(text.data, "\"database\":\"system\""));
  fat_text_free(&text);
  fat_db_close(db);
}

static void an_unusable_system_file_is_left_out(void **state)
{
  const fixture *f = *state;
  char system[300];
  fat_db *db = NULL;
  snprintf(system, sizeof system, "%s/system.db", f->folder);
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  MUST(fat_db_open(f->path, system, FAT_DB_READ, &db, err));
  assert_non_null(strstr(fat_db_note(db), system));
  fat_db_close(db);
  MUST(fat_db_open(f->path, FATUNE_SYSTEM_DB, FAT_DB_READ, &db, err)); /* absent as on most machines */
  if (access(FATUNE_SYSTEM_DB, F_OK) != 0)
    assert_string_equal(fat_db_note(db), "");
  fat_db_close(db);
  fixture_write(system, "no database at all, only some words of text", 40);
  MUST(fat_db_open(f->path, system, FAT_DB_WRITE, &db, err));
  assert_non_null(strstr(fat_db_note(db), "left out"));
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_db_close(db);
  unlink(system);
  fixture_sql(system,
              "PRAGMA application_id = 0x6661746e; PRAGMA user_version = 1004; CREATE TABLE trial (x)");
  MUST(fat_db_open(f->path, system, FAT_DB_WRITE, &db, err));
  assert_non_null(strstr(fat_db_note(db), "damaged"));
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_db_close(db);
}

/* Damage is said of the file that has it: whose rows are sound is not to move them away. */
static void damage_is_said_of_its_file(void **state)
{
  const fixture *f = *state;
  for (int below = 0; below < 2; below++) {
    char system[300], said[400];
    fat_db *db = NULL;
    fat_error err = {0};
    fat_text text = {0};
    snprintf(system, sizeof system, "%s/system%d.db", f->folder, below);
    unlink(f->path);
    MUST(fat_db_open(system, NULL, FAT_DB_WRITE, &db, err));
    fixture_put(db, "fwd:Br32", FAT_MEASURED, 1);
    fat_db_close(db);
    MUST(fat_db_open(f->path, NULL, FAT_DB_WRITE, &db, err));
    fixture_put(db, "fwd:Br64", FAT_MEASURED, 2);
    fat_db_close(db);
    fixture_spoil(below ? system : f->path, "trial");
    MUST(fat_db_open(f->path, system, FAT_DB_READ, &db, err));
    assert_int_equal(fat_db_trials(db, NULL, list_config, &text, &err), FAT_E_CORRUPT);
    snprintf(said, sizeof said,
             below ? "the package's database %s is damaged" : "database %s: ", below ? system : f->path);
    if (!strstr(err.text, said))
      fail_msg("'%s' lacks '%s'", err.text, said);
    fat_text_free(&text);
    fat_db_close(db);
  }
}

/* To make the user's file small takes another file of SQLite's own. */
static void a_file_above_the_systems_is_made_small(void **state)
{
  const fixture *f = *state;
  char system[300];
  fat_db *db = NULL;
  int64_t before = 0, after = 0;
  snprintf(system, sizeof system, "%s/system.db", f->folder);
  MUST(fat_db_open(system, NULL, FAT_DB_WRITE, &db, err));
  fixture_put(db, "fwd:Br32", FAT_MEASURED, 1);
  fat_db_close(db);
  MUST(fat_db_open(f->path, system, FAT_DB_WRITE, &db, err));
  fixture_put(db, "fwd:Br64", FAT_MEASURED, 2);
  MUST(fat_db_compact(db, &before, &after, err));
  assert_true(after > 0 && after <= before);
  assert_string_equal(fixture_winner(db), "fwd:Br64");
  fat_db_close(db);
}

/* JSON has no infinity, whatever somebody has put into a file. */
static void no_number_is_infinite(void **state)
{
  const fixture *f = *state;
  fat_db *db = NULL;
  fat_text text = {0};
  MUST(fat_db_open(f->path, NULL, FAT_DB_WRITE, &db, err));
  fixture_put(db, "fwd:Br64", FAT_MEASURED, 2);
  fat_db_close(db);
  fixture_sql(f->path, "UPDATE trial SET forecast = 9e999, ms = 5e-324");
  MUST(fat_db_open(f->path, NULL, FAT_DB_READ, &db, err));
  MUST(fat_db_view(db, "trials", true, &text, err));
  assert_non_null(strstr(text.data, "\"forecast\":null"));
  assert_non_null(strstr(text.data, "\"tflops\":null"));
  fat_text_free(&text);
  fat_db_close(db);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(the_users_rows_lie_over_the_systems),
      TEST(rows_of_both_are_read_once),
      TEST(one_file_is_not_two),
      TEST(an_unusable_system_file_is_left_out),
      TEST(damage_is_said_of_its_file),
      TEST(a_file_above_the_systems_is_made_small),
      TEST(no_number_is_infinite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
