/* bench_db.c -- how long a pick waits for the database: opening a file of 100,000 trials and reading the best
 * row of a problem, with its source and binary; also a durable put, and what a person asks for.
 *
 *   bench_db [trials]
 *
 * The file is made first, in $TMPDIR, and removed at the end. Exit code 1: opening and reading took 5 ms or
 * more (median of 200, each with a connection of its own). One line a figure: median, p90 and most, in ms. */
#include "../db/private.h"
#include "clock.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIALS = 100000, PROBLEMS = 200, SOURCE_BYTES = 16000, BINARY_BYTES = 40000, ROUNDS = 200 };
static const double LIMIT_MS = 5;

static double now_ms(void)
{
  return 1e3 * fat_clock_now();
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double print(const char *what, double *times, int count)
{
  qsort(times, (size_t)count, sizeof *times, by_value);
  printf("%-44s %9.2f %9.2f %9.2f\n", what, times[count / 2], times[count * 9 / 10], times[count - 1]);
  return times[count / 2];
}

static void must(fat_status status, const fat_error *err)
{
  if (status == FAT_OK)
    return;
  fprintf(stderr, "bench_db: %s\n", err->text);
  exit(3);
}

static void problem_of(int i, fat_problem *p)
{
  char text[64];
  fat_error err;
  snprintf(text, sizeof text, "fwd-f32-b%d-h16-q1024-k1024-d%d", i % PROBLEMS / 20 + 1, i % 20 * 8 + 8);
  must(fat_problem_parse(text, p, &err), &err);
}

/* Trial `i` of many: 200 problems, each with configs of two kernels, texts as long as real ones. */
static fat_trial trial_of(int i, char hash[FAT_HASH_SIZE])
{
  char text[64];
  fat_trial t;
  fat_error err;
  const fat_gpu *gpu;
  memset(&t, 0, sizeof t);
  must(fat_gpu_find("T4", &gpu, &err), &err);
  t.gpu = *gpu;
  problem_of(i, &t.problem);
  int n = i / PROBLEMS;
  snprintf(text, sizeof text, "%s:Br%d-Bc%d-T%d", n % 3 ? "fwd" : "fa1", n % 32 + 1, n / 32 + 1, 128);
  must(fat_config_parse(text, &t.config, &err), &err);
  fat_text_hash(text, strlen(text), hash);
  t.source_hash = hash;
  t.eligible = n % 3 != 0;
  t.templates = "a3b1c2d4e5f60718293a4b5c6d7e8f90a3b1c2d4e5f60718293a4b5c6d7e8f90";
  t.compile_key = "NVRTC 13.0 --std=c++17 --use_fast_math=false --fmad=true NVRTC_APPEND_FLAGS=";
  t.driver = "";
  t.outcome = i % 11 ? FAT_OUT_OK : FAT_OUT_SPILLS;
  t.origin = FAT_PREDICTED;
  t.ms = 1 + (i * INT64_C(7919) % 1000) / 100.0;
  t.mean = t.p20 = t.p80 = t.clock_mhz = t.error_max = t.error_allowed = NAN;
  t.limit = "fma";
  t.registers = 96;
  t.shared = 32768;
  t.blocks_per_sm = 2;
  t.compile_seconds = 0.4;
  t.detail = t.log = "";
  return t;
}

/* All trials in one transaction; then content for every winner, as a tuner keeps it at the end. */
static void fill(const char *path, int trials)
{
  fat_db *db = NULL;
  fat_error err;
  char hash[FAT_HASH_SIZE];
  static char source[SOURCE_BYTES];
  static unsigned char binary[BINARY_BYTES];
  must(fat_db_open(path, NULL, FAT_DB_WRITE, &db, &err), &err);
  must(fat_db_begin(db, &err), &err);
  for (int i = 0; i < trials; i++) {
    fat_trial t = trial_of(i, hash);
    must(fat_db_put_row(db, &t, NULL, NULL, &err), &err);
  }
  must(fat_db_end(db, FAT_OK, &err), &err);
  memset(source, ' ', sizeof source - 1);
  for (int i = 0; i < PROBLEMS && i < trials; i++) {
    fat_trial t = trial_of(i, hash);
    fat_best best;
    if (fat_db_best(db, &t.problem, &t.gpu, NULL, false, &best, &err) != FAT_OK)
      continue;
    memcpy(binary, &i, sizeof i);
    fat_artifact a = {.source = source,
                      .recipe = "launch k grid b block 128 shared 0 args call",
                      .cubin = binary,
                      .cubin_size = sizeof binary,
                      .target = "sm_75"};
    must(fat_db_put_artifact(db, best.trial.id, &a, &err), &err);
    fat_db_best_free(&best);
  }
  fat_db_close(db);
}

/* What a cold plan does: open, read the best row with its binary, close. */
static double time_picks(const char *path, int trials)
{
  static double whole[ROUNDS], opening[ROUNDS];
  char hash[FAT_HASH_SIZE];
  fat_error err;
  for (int i = 0; i < ROUNDS; i++) {
    fat_db *db = NULL;
    fat_best best;
    fat_trial t = trial_of(i * 37 % trials % PROBLEMS, hash);
    double begin = now_ms();
    must(fat_db_open(path, NULL, FAT_DB_READ, &db, &err), &err);
    opening[i] = now_ms() - begin;
    must(fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, &err), &err);
    whole[i] = now_ms() - begin;
    if (trials >= TRIALS && best.cubin_size != BINARY_BYTES) {
      fprintf(stderr, "bench_db: the best row has no binary\n");
      exit(3);
    }
    fat_db_best_free(&best);
    fat_db_close(db);
  }
  print("open for reading", opening, ROUNDS);
  return print("open for reading + best row with binary", whole, ROUNDS);
}

static bool count(const fat_trial *t, void *user)
{
  (void)t;
  ++*(int *)user;
  return true;
}

static void time_writer(const char *path, int trials)
{
  enum { PUTS = 100 };
  static double puts[PUTS];
  char hash[FAT_HASH_SIZE], problem[FAT_PROBLEM_TEXT];
  fat_db *db = NULL;
  fat_error err;
  double begin = now_ms(), once;
  must(fat_db_open(path, NULL, FAT_DB_WRITE, &db, &err), &err);
  once = now_ms() - begin;
  print("open for writing (whole file checked)", &once, 1);
  for (int i = 0; i < PUTS; i++) {
    fat_trial t = trial_of(trials + i, hash);
    begin = now_ms();
    must(fat_db_put(db, &t, NULL, &err), &err);
    puts[i] = now_ms() - begin;
  }
  print("put of one trial, durable", puts, PUTS);
  fat_trial t = trial_of(0, hash);
  fat_db_filter filter = {.problem = fat_problem_print(&t.problem, problem)};
  int rows = 0;
  begin = now_ms();
  must(fat_db_trials(db, &filter, count, &rows, &err), &err);
  once = now_ms() - begin;
  print("all trials of one problem", &once, 1);
  fat_text view = {0};
  begin = now_ms();
  must(fat_db_view(db, "best", true, &view, &err), &err);
  once = now_ms() - begin;
  print("view best as JSON", &once, 1);
  fat_text_free(&view);
  fat_db_close(db);
}

int main(int argc, char **argv)
{
  const char *tmp = getenv("TMPDIR");
  int trials = argc > 1 ? atoi(argv[1]) : TRIALS;
  char folder[256], path[300];
  struct stat s;
  if (trials < 1) {
    fprintf(stderr, "bench_db: '%s' is no number of trials\n", argv[1]);
    return 2;
  }
  snprintf(folder, sizeof folder, "%s/fatune-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(folder)) {
    perror("bench_db: mkdtemp");
    return 3;
  }
  snprintf(path, sizeof path, "%s/t.db", folder);
  fill(path, trials);
  if (stat(path, &s) == 0)
    printf("%d trials, %d problems, %.1f MB\n", trials, trials < PROBLEMS ? trials : PROBLEMS,
           (double)s.st_size / 1e6);
  printf("%-44s %9s %9s %9s\n", "ms", "median", "p90", "most");
  double pick = time_picks(path, trials);
  time_writer(path, trials);
  unlink(path);
  rmdir(folder);
  printf("open + best: %.2f ms, allowed are %.0f ms: %s\n", pick, LIMIT_MS,
         pick < LIMIT_MS ? "kept" : "BROKEN");
  return pick < LIMIT_MS ? 0 : 1;
}
