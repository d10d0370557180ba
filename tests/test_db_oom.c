/* test_db_oom.c -- every allocation of every public call, ours and SQLite's, fails in turn (by
 * __wrap_malloc): the call says so or succeeds, the file stays sound, and the same handle serves the same
 * call afterwards. */
#include "db_fixture.h"
#include "starve.h"

typedef struct world {
  char path[256], system[256], other[256];
  fat_trial trial;
  fat_text lines; /* an export */
} world;

typedef fat_status (*call)(fat_db *db, const world *w, fat_error *err);

static const double times[] = {1, 2, 3};
static const fat_artifact content = {.source = "__global__ void k();",
                                     .recipe = "launch k grid b block 128 shared 0 args call",
                                     .cubin = (const unsigned char *)"cubin",
                                     .cubin_size = 5,
                                     .target = "sm_75"};

static bool see(const fat_trial *t, void *user)
{
  *(int64_t *)user += t->id;
  return true;
}

static fat_status put(fat_db *db, const world *w, fat_error *err)
{
  fat_trial t = w->trial;
  t.ms = 0.5;
  return fat_db_put(db, &t, &content, err);
}

static fat_status put_artifact(fat_db *db, const world *w, fat_error *err)
{
  return fat_db_put_artifact(db, w->trial.id, &content, err);
}

static fat_status run(fat_db *db, const world *w, fat_error *err)
{
  (void)w;
  fat_run run = {"command", "0.1.0", "580", "13.0", HASH_A, "host", "model 3", ""};
  int64_t id;
  FAT_TRY(fat_db_run_begin(db, &run, &id, err));
  return fat_db_run_end(db, id, "done", err);
}

static fat_status trials(fat_db *db, const world *w, fat_error *err)
{
  (void)w;
  fat_db_filter filter = {.family = "fwd-f32-d64", .kernel = "fwd"};
  int64_t sum = 0;
  FAT_TRY(fat_db_trials(db, &filter, see, &sum, err));
  return sum > 0 ? FAT_OK : FAT_E_NOT_FOUND; /* rows lost for want of memory would be a lie */
}

static fat_status winners(fat_db *db, const world *w, fat_error *err)
{
  int64_t sum = 0;
  FAT_TRY(fat_db_winners(db, &w->trial.problem, see, &sum, err));
  return sum > 0 ? FAT_OK : FAT_E_NOT_FOUND;
}

static fat_status best(fat_db *db, const world *w, fat_error *err)
{
  fat_best found;
  FAT_TRY(fat_db_best(db, &w->trial.problem, &w->trial.gpu, NULL, true, &found, err));
  bool whole = found.source && found.recipe && found.cubin && found.trial.sample_count == 3;
  fat_db_best_free(&found);
  return whole ? FAT_OK : FAT_E_CORRUPT;
}

static fat_status text_of(fat_db *db, const world *w, fat_error *err, int which)
{
  fat_text text = {0};
  fat_status status = which == 0   ? fat_db_view(db, "best", true, &text, err)
                      : which == 1 ? fat_db_view(db, "trials", false, &text, err)
                      : which == 2 ? fat_db_export(db, &text, err)
                                   : fat_db_check(db, &text, err);
  if (status == FAT_OK && which == 2 && strcmp(fat_text_get(&text), w->lines.data) != 0)
    status = FAT_E_CORRUPT;
  if (status == FAT_OK && which == 3 && text.length)
    status = FAT_E_CORRUPT;
  fat_text_free(&text);
  return status;
}

static fat_status view_json(fat_db *db, const world *w, fat_error *err)
{
  return text_of(db, w, err, 0);
}

static fat_status view_table(fat_db *db, const world *w, fat_error *err)
{
  return text_of(db, w, err, 1);
}

static fat_status export(fat_db *db, const world *w, fat_error *err)
{
  return text_of(db, w, err, 2);
}

static fat_status check(fat_db *db, const world *w, fat_error *err)
{
  return text_of(db, w, err, 3);
}

static fat_status import(fat_db *db, const world *w, fat_error *err)
{
  fat_import counts;
  FAT_TRY(fat_db_import(db, w->lines.data, w->lines.length, &counts, err));
  return counts.refused == 0 ? FAT_OK : FAT_E_CORRUPT;
}

static fat_status merge(fat_db *db, const world *w, fat_error *err)
{
  fat_import counts;
  FAT_TRY(fat_db_merge(db, w->other, &counts, err));
  return counts.refused == 0 ? FAT_OK : FAT_E_CORRUPT;
}

static fat_status lock(fat_db *db, const world *w, fat_error *err)
{
  return fat_db_lock_tuning(db, &w->trial.gpu, err);
}

static fat_status open_for(const char *path, const char *system, fat_db_mode mode, fat_error *err)
{
  fat_db *again = NULL;
  fat_status status = fat_db_open(path, system, mode, &again, err);
  fat_db_close(again);
  return status;
}

static fat_status open_to_read(fat_db *db, const world *w, fat_error *err)
{
  (void)db;
  return open_for(w->path, w->system, FAT_DB_READ, err);
}

static fat_status open_to_write(fat_db *db, const world *w, fat_error *err)
{
  (void)db;
  return open_for(w->path, w->system, FAT_DB_WRITE, err);
}

static fat_status open_system_alone(fat_db *db, const world *w, fat_error *err)
{
  (void)db;
  char path[300];
  snprintf(path, sizeof path, "%s.none", w->path);
  return open_for(path, w->system, FAT_DB_READ, err);
}

static fat_status make(fat_db *db, const world *w, fat_error *err)
{
  (void)db;
  char path[300];
  snprintf(path, sizeof path, "%s.new", w->path);
  fat_status status = open_for(path, NULL, FAT_DB_WRITE, err);
  unlink(path);
  return status;
}

static const struct {
  const char *name;
  call call;
} calls[] = {
    {"put", put},
    {"put_artifact", put_artifact},
    {"run", run},
    {"trials", trials},
    {"winners", winners},
    {"best", best},
    {"view", view_json},
    {"view as a table", view_table},
    {"export", export},
    {"import", import},
    {"merge", merge},
    {"check", check},
    {"lock", lock},
    {"open to read", open_to_read},
    {"make", make},
    {"open to write", open_to_write},
    {"open the system's file", open_system_alone},
};

/* One refusal at the n-th allocation of a call on a fresh handle. Returns false when none was refused. */
static bool starve_once(size_t which, const world *w, long n, bool all_that_follow, long *failures)
{
  fat_db *db = NULL;
  fat_error err = {0};
  MUST(fat_db_open(w->path, w->system, FAT_DB_WRITE, &db, err));
  starve_after(n, all_that_follow);
  fat_status status = calls[which].call(db, w, &err);
  bool refused = starve_end();
  if (status != FAT_OK && (status != FAT_E_NOMEM || !refused || !err.text[0]))
    fail_msg("%s, allocation %ld: status %d, '%s'", calls[which].name, n, (int)status, err.text);
  if (status != FAT_OK) {
    ++*failures;
    err.text[0] = 0;
    status = calls[which].call(db, w, &err);
    if (status != FAT_OK)
      fail_msg("%s again after allocation %ld: status %d, '%s'", calls[which].name, n, (int)status, err.text);
  }
  fat_db_close(db);
  return refused;
}

static void starve(const fixture *f, bool all_that_follow)
{
  world w = {.trial = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1)};
  fat_db *db = NULL;
  snprintf(w.path, sizeof w.path, "%s/user.db", f->folder);
  snprintf(w.system, sizeof w.system, "%s/system.db", f->folder);
  snprintf(w.other, sizeof w.other, "%s/other.db", f->folder);
  w.trial.samples = times, w.trial.sample_count = 3;
  for (const char *path = w.other; path; path = path == w.other    ? w.system
                                                : path == w.system ? w.path
                                                                   : NULL) {
    MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
    fixture_put(db, path == w.other ? "fwd:Br64" : "fwd:Br32", FAT_PREDICTED, 2);
    MUST(fat_db_put(db, &w.trial, &content, err));
    if (path == w.path)
      MUST(fat_db_export(db, &w.lines, err));
    fat_db_close(db);
  }
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    long failures = 0;
    /* SQLite's are thousands: the later the fewer of them, in the long form those after the 400th. */
    const long each = getenv("FATUNE_FULL") ? 400 : 20;
    for (long n = 0; starve_once(i, &w, n, all_that_follow, &failures); n += 1 + n / each)
      ;
    if (failures == 0)
      fail_msg("%s never failed", calls[i].name);
    /* The export is compared with what it was: later calls change the file. */
    fat_text_clear(&w.lines);
    MUST(fat_db_open(w.path, NULL, FAT_DB_WRITE, &db, err));
    MUST(fat_db_export(db, &w.lines, err));
    fat_text findings = {0};
    MUST(fat_db_check(db, &findings, err));
    assert_string_equal(fat_text_get(&findings), "");
    fat_db_close(db);
  }
  fat_text_free(&w.lines);
}

static void one_refusal_is_survived(void **state)
{
  starve(*state, false);
}

static void no_memory_at_all_is_survived(void **state)
{
  starve(*state, true);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(one_refusal_is_survived),
      TEST(no_memory_at_all_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
