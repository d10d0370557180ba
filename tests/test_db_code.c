/* test_db_code.c -- the stored code of a config: whichever trial holds it, the user's file first, damage a
 * miss. */
#include "db_fixture.h"

#define CONFIG "fwd:Br64-Bc64"
#define OTHER  "fwd-f32-b1-h1-q512-k512-d64" /* another shape of PROBLEM's family */

static const char recipe[] = "launch fwd grid 1 block 32 shared 0 args call\n";

typedef struct part {
  const char *problem, *gpu, *source, *text, *bytes; /* bytes NULL: no cubin; text NULL: nothing at all */
  fat_outcome outcome;
} part;

static void put(const char *path, part p)
{
  fat_db *db = NULL;
  char hash[FAT_HASH_SIZE];
  fat_trial t = fixture_trial(p.problem, p.gpu, CONFIG, 1);
  t.source_hash = p.source;
  t.outcome = p.outcome;
  if (p.bytes)
    fat_text_hash(p.bytes, strlen(p.bytes), hash);
  fat_artifact a = {.source = p.text,
                    .recipe = recipe,
                    .cubin = (const unsigned char *)p.bytes,
                    .cubin_size = p.bytes ? strlen(p.bytes) : 0,
                    .cubin_hash = p.bytes ? hash : NULL,
                    .target = "sm_75"};
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
  MUST(fat_db_put(db, &t, p.text ? &a : NULL, err));
  fat_db_close(db);
}

/* The cubin of CONFIG for PROBLEM on a T4, "source alone", or "none". Overwritten by the next call. */
static const char *look(const char *path, const char *system, const char *source)
{
  static char answer[64];
  fat_db *db = NULL;
  fat_problem p;
  fat_code code;
  fat_error err = {0};
  char facts[FAT_GPU_FACTS];
  MUST(fat_problem_parse(PROBLEM, &p, err));
  MUST(fat_db_open(path, system, FAT_DB_READ, &db, err));
  const fat_code_filter f = {.problem = &p,
                             .sm = 75,
                             .facts = fat_gpu_facts(fixture_gpu("T4"), facts),
                             .config = CONFIG,
                             .source_hash = source};
  fat_status status = fat_db_code(db, &f, &code, &err);
  if (status == FAT_OK) {
    assert_string_equal(code.recipe, recipe);
    snprintf(answer, sizeof answer, "%s", code.cubin ? (const char *)code.cubin : "source alone");
    if (code.cubin)
      assert_int_equal(code.cubin_size, strlen(answer));
    else
      assert_non_null(code.source);
    fat_db_code_free(&code);
  } else {
    assert_int_equal(status, FAT_E_NOT_FOUND);
    assert_non_null(strstr(err.text, CONFIG));
    snprintf(answer, sizeof answer, "none");
  }
  fat_db_close(db);
  return answer;
}

static void any_trial_may_hold_it(void **state)
{
  const fixture *f = *state;
  put(f->path, (part){PROBLEM, "T4", HASH_A, NULL, NULL, FAT_OUT_OK});
  assert_string_equal(look(f->path, NULL, NULL), "none");
  put(f->path, (part){OTHER, "T4", HASH_A, "text a", NULL, FAT_OUT_OK});
  assert_string_equal(look(f->path, NULL, HASH_A), "source alone");
  assert_string_equal(look(f->path, NULL, HASH_B), "none");
  put(f->path, (part){OTHER, "RTX 2080 Ti", HASH_B, "text b", "cubin b", FAT_OUT_OK}); /* sm_75 too */
  assert_string_equal(look(f->path, NULL, NULL), "cubin b");
  assert_string_equal(look(f->path, NULL, HASH_A), "source alone");
  put(f->path, (part){PROBLEM, "T4", HASH_A, "text a", "cubin a", FAT_OUT_OK});
  assert_string_equal(look(f->path, NULL, NULL), "cubin a"); /* the very problem and device */
  assert_string_equal(look(f->path, NULL, HASH_B), "cubin b");
}

static void what_does_not_count(void **state)
{
  const fixture *f = *state;
  put(f->path, (part){PROBLEM, "T4", HASH_A, "text", "wrong", FAT_OUT_WRONG});
  put(f->path, (part){PROBLEM, "A100", HASH_A, "text", "sm_80", FAT_OUT_OK});
  put(f->path, (part){"fwd-f32-b1-h1-q512-k512-d128", "T4", HASH_A, "text", "another family", FAT_OUT_OK});
  assert_string_equal(look(f->path, NULL, NULL), "none");
}

static void the_users_file_first(void **state)
{
  const fixture *f = *state;
  char system[300];
  snprintf(system, sizeof system, "%s/system.db", f->folder);
  put(system, (part){PROBLEM, "T4", HASH_A, "text", "system's", FAT_OUT_OK});
  put(f->path, (part){OTHER, "T4", HASH_B, "text", NULL, FAT_OUT_OK});
  assert_string_equal(look(f->path, system, NULL), "system's"); /* a cubin rather than a source */
  assert_string_equal(look(NULL, system, NULL), "system's");    /* no user's file at all */
  put(f->path, (part){OTHER, "T4", HASH_B, "text", "user's", FAT_OUT_OK});
  assert_string_equal(look(f->path, system, NULL), "user's");
}

static void damage_is_a_miss(void **state)
{
  const fixture *f = *state;
  put(f->path, (part){PROBLEM, "T4", HASH_A, "text", "cubin a", FAT_OUT_OK});
  put(f->path, (part){OTHER, "T4", HASH_B, "text", "cubin b", FAT_OUT_OK});
  fixture_sql(f->path,
              "UPDATE binary SET cubin = CAST('damage' AS BLOB) WHERE cubin = CAST('cubin a' AS BLOB)");
  assert_string_equal(look(f->path, NULL, NULL), "cubin b");
  assert_string_equal(look(f->path, NULL, HASH_A), "source alone");
  fixture_sql(f->path, "UPDATE source SET text = 'damage'; UPDATE binary SET cubin = CAST('damage' AS BLOB)");
  assert_string_equal(look(f->path, NULL, NULL), "none");
}

/* The pages of a table are garbage: what lay there is missed, what the system's file has is not. */
static void damaged_pages_are_a_miss(void **state)
{
  const fixture *f = *state;
  char system[300];
  fat_db *db = NULL;
  fat_problem p;
  fat_code code;
  fat_error err = {0};
  snprintf(system, sizeof system, "%s/system.db", f->folder);
  put(system, (part){PROBLEM, "T4", HASH_A, "text", "system's", FAT_OUT_OK});
  put(f->path, (part){PROBLEM, "T4", HASH_A, "text", "user's", FAT_OUT_OK});
  assert_string_equal(look(f->path, system, NULL), "user's");
  fixture_spoil(f->path, "trial");
  assert_string_equal(look(f->path, NULL, NULL), "none");
  assert_string_equal(look(f->path, system, NULL), "system's");
  MUST(fat_problem_parse(PROBLEM, &p, err));
  MUST(fat_db_open(f->path, NULL, FAT_DB_READ, &db, err));
  const fat_code_filter filter = {.problem = &p, .sm = 75, .config = CONFIG};
  assert_int_equal(fat_db_code(db, &filter, &code, &err), FAT_E_NOT_FOUND);
  assert_non_null(strstr(fat_db_note(db), "damaged"));
  fat_db_close(db);
}

int main(void)
{
#define FRESH(test) cmocka_unit_test_setup_teardown(test, fixture_open, fixture_close)
  const struct CMUnitTest tests[] = {
      FRESH(any_trial_may_hold_it), FRESH(what_does_not_count),      FRESH(the_users_file_first),
      FRESH(damage_is_a_miss),      FRESH(damaged_pages_are_a_miss),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
