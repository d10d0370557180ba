/* db_fixture.h -- what the database tests share: a private folder, trials that can be stored, a GPU or two.
 */
#ifndef FAT_TESTS_DB_FIXTURE_H
#define FAT_TESTS_DB_FIXTURE_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db.h"
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sqlite3.h>
#include <unistd.h>

#define HASH_A  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B  "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define PROBLEM "fwd-f32-b4-h16-q4096-k4096-d64"

/* Fails the test with the error's own sentence. */
#define MUST(call)                                                                                           \
  do {                                                                                                       \
    fat_error must_ = {0};                                                                                   \
    fat_error *err = &must_;                                                                                 \
    if ((call) != FAT_OK)                                                                                    \
      fail_msg("%s: %s", #call, must_.text);                                                                 \
  } while (0)

static inline int fixture_remove(const char *path, const struct stat *s, int type, struct FTW *at)
{
  (void)s, (void)at;
  return type == FTW_DP ? rmdir(path) : unlink(path);
}

typedef struct fixture {
  char folder[200];
  char path[256]; /* of a database in it */
} fixture;

static inline int fixture_open(void **state)
{
  const char *tmp = getenv("TMPDIR");
  fixture *f = calloc(1, sizeof *f);
  if (!f)
    return -1;
  snprintf(f->folder, sizeof f->folder, "%s/fatune-db-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(f->folder))
    return -1;
  snprintf(f->path, sizeof f->path, "%s/t.db", f->folder);
  unsetenv("FATUNE_TRUST_DB");
  *state = f;
  return 0;
}

static inline int fixture_close(void **state)
{
  fixture *f = *state;
  nftw(f->folder, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
  free(f);
  return 0;
}

static inline const fat_gpu *fixture_gpu(const char *name)
{
  const fat_gpu *gpu = NULL;
  MUST(fat_gpu_find(name, &gpu, err));
  return gpu;
}

static inline fat_trial fixture_trial(const char *problem, const char *gpu, const char *config, double ms)
{
  fat_trial t = fat_db_untimed();
  MUST(fat_problem_parse(problem, &t.problem, err));
  MUST(fat_config_parse(config, &t.config, err));
  t.gpu = *fixture_gpu(gpu);
  t.eligible = 1;
  t.source_hash = HASH_A;
  t.templates = HASH_B;
  t.compile_key = "NVRTC 13.0 --std=c++17";
  t.driver = "";
  t.ms = ms;
  t.limit = "fma";
  t.registers = 64;
  t.shared = 32768;
  t.blocks_per_sm = 2;
  t.compile_seconds = 0.5;
  return t;
}

static inline int64_t fixture_put(fat_db *db, const char *config, fat_origin origin, double ms)
{
  fat_trial t = fixture_trial(PROBLEM, "T4", config, ms);
  t.origin = origin;
  MUST(fat_db_put(db, &t, NULL, err));
  return t.id;
}

static inline fat_db *fixture_db(const fixture *f, fat_db_mode mode)
{
  fat_db *db = NULL;
  MUST(fat_db_open(f->path, NULL, mode, &db, err));
  return db;
}

/* The config of the winner of PROBLEM on a T4; "" if there is none. */
static inline const char *fixture_winner(fat_db *db)
{
  static char text[FAT_CONFIG_TEXT];
  fat_best best;
  fat_problem p;
  fat_error err = {0};
  MUST(fat_problem_parse(PROBLEM, &p, err));
  text[0] = 0;
  if (fat_db_best(db, &p, fixture_gpu("T4"), NULL, false, &best, &err) == FAT_OK) {
    fat_config_print(&best.trial.config, text);
    fat_db_best_free(&best);
  }
  return text;
}

/* The status of opening alone; whatever fails must say why. */
static inline fat_status fixture_try(const char *path, fat_db_mode mode, fat_error *err)
{
  fat_db *db = NULL;
  memset(err, 0, sizeof *err);
  fat_status status = fat_db_open(path, NULL, mode, &db, err);
  fat_db_close(db);
  if (status != FAT_OK && !err->text[0])
    fail_msg("no sentence for status %d", (int)status);
  return status;
}

/* A file of these bytes, for its owner alone. */
static inline void fixture_write(const char *path, const char *bytes, size_t n)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n, file), n);
  fclose(file);
  chmod(path, 0600);
}

/* SQL by a connection of its own, as another program would do it. */
static inline void fixture_sql(const char *path, const char *text)
{
  sqlite3 *db = NULL;
  char *message = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK)
    fail_msg("%s: %s", text, message);
  sqlite3_close(db);
  chmod(path, 0600);
}

static inline int64_t fixture_number(const char *path, const char *text)
{
  sqlite3 *db = NULL;
  sqlite3_stmt *stmt = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_prepare_v2(db, text, -1, &stmt, NULL) != SQLITE_OK)
    fail_msg("%s: %s", text, sqlite3_errmsg(db));
  assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
  int64_t value = sqlite3_column_int64(stmt, 0);
  sqlite3_finalize(stmt);
  sqlite3_close(db);
  return value;
}

/* The page that a query names becomes garbage; the file opens as before. */
static inline void fixture_spoil_page(const char *path, const char *query)
{
  char garbage[4096];
  long page = (long)fixture_number(path, "PRAGMA page_size"), number = (long)fixture_number(path, query);
  memset(garbage, 0x5a, sizeof garbage);
  assert_true(page > 0 && (size_t)page <= sizeof garbage && number > 1);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, (number - 1) * page, SEEK_SET), 0);
  assert_int_equal(fwrite(garbage, 1, (size_t)page, file), page);
  assert_int_equal(fclose(file), 0);
}

/* The first page of a table. */
static inline void fixture_spoil(const char *path, const char *table)
{
  char sql[120];
  snprintf(sql, sizeof sql, "SELECT rootpage FROM sqlite_schema WHERE name = '%s'", table);
  fixture_spoil_page(path, sql);
}

#endif
