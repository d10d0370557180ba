/* test_db_faults.c -- what machines do to a file: full disks, killed writers, several processes, forks. */
#include "../db/private.h"
#include "db_fixture.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>

static void pause_ms(double ms)
{
  struct timespec t = {(time_t)(ms / 1000), (long)(fmod(ms, 1000) * 1e6)};
  nanosleep(&t, NULL);
}

static void config_of(int n, char config[64])
{
  snprintf(config, 64, "fwd:Br%d-Bc%d", n / 1000 + 1, n % 1000 + 1);
}

/* Puts trial `n`; returns the status, since some callers are children, which must not fail through cmocka. */
static fat_status put_one(fat_db *db, int n, int64_t *id, fat_error *err)
{
  char config[64];
  static char filler[6000];
  config_of(n, config);
  fat_trial t = fixture_trial(PROBLEM, "T4", config, 1 + n % 97);
  memset(filler, 'x', sizeof filler - 1);
  snprintf(filler, 32, "source of trial %d ", n);
  filler[strlen(filler)] = '.';
  char hash[FAT_HASH_SIZE];
  fat_text_hash(filler, strlen(filler), hash);
  t.source_hash = hash;
  fat_artifact a = {.source = filler, .recipe = "launch k grid b block 128 shared 0 args call"};
  fat_status status = fat_db_put(db, &t, &a, err);
  *id = t.id;
  return status;
}

static void assert_sound(const char *path, int64_t trials)
{
  fat_db *db = NULL;
  fat_text findings = {0};
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
  MUST(fat_db_check(db, &findings, err));
  assert_string_equal(fat_text_get(&findings), "");
  fat_text_free(&findings);
  fat_db_close(db);
  if (trials >= 0)
    assert_int_equal(fixture_number(path, "SELECT count(*) FROM trial"), trials);
}

/* -- no space left */

/* Puts until it fails; says how many were stored, or a negative number for a wrong status. */
static int fill_up(fat_db *db)
{
  fat_error err = {0};
  int64_t id;
  for (int n = 0; n < 10000; n++) {
    fat_status status = put_one(db, n, &id, &err);
    if (status == FAT_OK)
      continue;
    if (status != FAT_E_FULL || !strstr(err.text, "space"))
      return -1000 - (int)status;
    /* The handle still reads. */
    return fixture_winner(db)[0] ? n : -1;
  }
  return -2;
}

static void a_full_disk_loses_one_trial_only(void **state)
{
  const fixture *f = *state;
  struct rlimit before, limit;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = (struct rlimit){400000, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  int stored = fill_up(db);
  fat_db_close(db);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_DFL);
  assert_in_range(stored, 5, 200);
  assert_sound(f->path, stored);
  db = fixture_db(f, FAT_DB_WRITE); /* with room again it goes on */
  int64_t id;
  MUST(put_one(db, 9999, &id, err));
  fat_db_close(db);
  assert_sound(f->path, stored + 1);
}

static void a_full_file_system_too(void **state)
{
  const fixture *f = *state;
  char disk[300], path[320];
  snprintf(disk, sizeof disk, "%s/disk", f->folder);
  snprintf(path, sizeof path, "%s/t.db", disk);
  assert_int_equal(mkdir(disk, 0700), 0);
  if (mount("tmpfs", disk, "tmpfs", 0, "size=512k,mode=0700") != 0) {
    print_message("a small file system cannot be mounted here (%s): skipped\n", strerror(errno));
    skip();
  }
  fat_db *db = NULL;
  fat_error err = {0};
  fat_status opened = fat_db_open(path, NULL, FAT_DB_WRITE, &db, &err);
  int stored = opened == FAT_OK ? fill_up(db) : -3;
  fat_db_close(db);
  int64_t kept = opened == FAT_OK ? fixture_number(path, "SELECT count(*) FROM trial") : -1;
  int64_t sound = opened == FAT_OK
                      ? fixture_number(path, "SELECT integrity_check = 'ok' FROM pragma_integrity_check")
                      : 0;
  /* A file that cannot even be made says the same. */
  char filler[320], other[320];
  snprintf(filler, sizeof filler, "%s/filler", disk);
  snprintf(other, sizeof other, "%s/o.db", disk);
  int fd = open(filler, O_CREAT | O_WRONLY, 0600);
  char block[4096] = {0};
  while (write(fd, block, sizeof block) == sizeof block)
    ;
  close(fd);
  fat_status full = fat_db_open(other, NULL, FAT_DB_WRITE, &db, &err);
  umount(disk);
  assert_int_equal(opened, FAT_OK);
  assert_in_range(stored, 5, 200);
  assert_int_equal(kept, stored);
  assert_int_equal(sound, 1);
  if (full != FAT_OK && !strstr(err.text, "writing: no space left")) /* not: reading */
    fail_msg("%s", err.text);
  assert_int_equal(full, FAT_E_FULL);
}

/* -- killed writers */

/* Puts trials from `n` on for ever and reports each number once its put has returned. */
static void put_and_report(const fixture *f, int n, int report)
{
  fat_db *db = NULL;
  fat_error err = {0};
  int64_t id;
  if (fat_db_open(f->path, NULL, FAT_DB_WRITE, &db, &err) != FAT_OK)
    _exit(9);
  for (;; n++)
    if (put_one(db, n, &id, &err) != FAT_OK || write(report, &n, sizeof n) != sizeof n)
      _exit(8);
}

static double now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Lets a writer work for a while that the next kill ends: in every other round for up to 30 ms, which on a
   busy disk ends in the middle of opening the file; in the others until it has reported, so that something is
   always lost or kept, and for up to as long again. Returns the number that it reported, or `last`. */
static int let_write(int round, int report, int last)
{
  double from = now_ms(), most = 30;
  int n;
  if (round % 2 == 1 && read(report, &n, sizeof n) == sizeof n) {
    last = n;
    most = now_ms() - from;
  }
  pause_ms(rand() % 1000 / 1000.0 * most);
  return last;
}

static void a_killed_writer_loses_nothing_it_reported(void **state)
{
  const fixture *f = *state;
  char journal[300], sql[200], config[64];
  int next = 0, hot = 0, reported = 0;
  snprintf(journal, sizeof journal, "%s-journal", f->path);
  srand(1);
  for (int round = 0; round < 100; round++) {
    int report[2], status = 0, n, last = next - 1;
    assert_int_equal(pipe(report), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      close(report[0]);
      put_and_report(f, next, report[1]);
    }
    close(report[1]);
    last = let_write(round, report[0], last);
    reported += last >= next;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status)); /* it did not fail by itself */
    while (read(report[0], &n, sizeof n) == sizeof n) {
      last = n;
      reported++;
    }
    close(report[0]);
    struct stat s;
    hot += stat(journal, &s) == 0 && s.st_size > 0;
    if (round % 10 == 0 && access(f->path, F_OK) == 0) {
      fat_db *db = NULL;
      fat_error err = {0}; /* a reader undoes what was left half done */
      fat_status opened = fat_db_open(f->path, NULL, FAT_DB_READ, &db, &err);
      assert_true(opened == FAT_OK || opened == FAT_E_NOT_FOUND);
      fat_db_close(db);
    }
    assert_sound(f->path, -1);
    config_of(last, config);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM trial WHERE config = '%s'", config);
    if (last >= 0 && fixture_number(f->path, sql) != 1)
      fail_msg("round %d: trial %d was reported and is not there", round, last);
    /* What was stored and not yet reported is there as well; go on behind it. */
    next = (int)fixture_number(f->path, "SELECT count(*) FROM trial");
    assert_in_range(next, last + 1, last + 2);
  }
  print_message("%d trials reported, %d kills in the middle of a transaction\n", reported, hot);
  assert_true(reported >= 50 && hot > 0);
}

/* -- several processes */

/* Two writers that store without a pause have the file for longer than a call waits where the disk is slow.
 */
static fat_status open_patiently(const char *path, fat_db_mode mode, fat_db **db)
{
  fat_status status = FAT_E_BUSY;
  for (int i = 0; i < 60 && status == FAT_E_BUSY; i++)
    status = fat_db_open(path, NULL, mode, db, NULL);
  if (status == FAT_OK)
    fat_db_wait(*db, 300);
  return status;
}

static void many(const fixture *f, int kind, int number)
{
  fat_db *db = NULL;
  fat_error err = {0};
  int64_t id;
  if (kind == 0) { /* a writer */
    if (open_patiently(f->path, FAT_DB_WRITE, &db) != FAT_OK)
      _exit(1);
    for (int i = 0; i < 60; i++)
      if (put_one(db, number * 1000 + i, &id, &err) != FAT_OK)
        _exit(2);
  } else { /* a reader: what it sees only grows */
    int64_t seen = 0;
    for (int i = 0; i < 40; i++) {
      fat_best best;
      fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br1", 1);
      fat_text view = {0};
      if (open_patiently(f->path, FAT_DB_READ, &db) != FAT_OK)
        _exit(3);
      fat_status status = fat_db_best(db, &t.problem, &t.gpu, NULL, true, &best, &err);
      if (status != FAT_OK && status != FAT_E_NOT_FOUND)
        _exit(4);
      fat_db_best_free(&best);
      if (fat_db_view(db, "trials", false, &view, &err) != FAT_OK)
        _exit(5);
      int64_t lines = 0;
      for (const char *p = fat_text_get(&view); *p; p++)
        lines += *p == '\n';
      if (lines < seen)
        _exit(6);
      seen = lines;
      fat_text_free(&view);
      fat_db_close(db);
      db = NULL;
    }
  }
  fat_db_close(db);
  _exit(0);
}

static void two_writers_and_many_readers_agree(void **state)
{
  const fixture *f = *state;
  pid_t children[8];
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  fflush(NULL);
  for (int i = 0; i < 8; i++)
    if ((children[i] = fork()) == 0)
      many(f, i >= 2, i);
  for (int i = 0; i < 8; i++) {
    int status = 0;
    waitpid(children[i], &status, 0);
    if (status != 0)
      fail_msg("process %d ended with %d", i, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  assert_sound(f->path, 120);
}

static int told;
static void tell(const char *path)
{
  told += strstr(path, "t.db") != NULL;
}

static void a_lock_is_waited_for_as_told(void **state)
{
  const fixture *f = *state;
  fat_db *held = fixture_db(f, FAT_DB_WRITE), *db = fixture_db(f, FAT_DB_WRITE);
  fat_error err = {0};
  int64_t id;
  assert_int_equal(fat_db_begin(held, &err), FAT_OK);
  fat_db_wait(db, 0);
  const double from = now_ms();
  assert_int_equal(put_one(db, 1, &id, &err), FAT_E_BUSY);
  assert_true(now_ms() - from < 4000); /* the usual 5 seconds have not passed */
  assert_non_null(strstr(err.text, "another process, a viewer perhaps, keeps it locked: try again"));
  fat_db_on_wait(tell);
  assert_int_equal(put_one(db, 1, &id, &err), FAT_E_BUSY);
  assert_int_equal(told, 0); /* nothing was waited for */
  fat_db_wait(db, 2);
  const double then = now_ms();
  assert_int_equal(put_one(db, 1, &id, &err), FAT_E_BUSY);
  assert_true(now_ms() - then >= 2000);
  assert_int_equal(told, 1);
  fat_db_on_wait(NULL);
  fat_db_close(held);
  assert_int_equal(put_one(db, 1, &id, &err), FAT_OK);
  fat_db_close(db);
}

static void two_makers_make_one_file(void **state)
{
  const fixture *f = *state;
  pid_t children[6];
  fflush(NULL);
  for (int i = 0; i < 6; i++)
    if ((children[i] = fork()) == 0) {
      fat_db *db = NULL;
      fat_error err = {0};
      int64_t id;
      _exit(fat_db_open(f->path, NULL, FAT_DB_WRITE, &db, &err) != FAT_OK ||
            put_one(db, i, &id, &err) != FAT_OK);
    }
  for (int i = 0; i < 6; i++) {
    int status = 0;
    waitpid(children[i], &status, 0);
    assert_int_equal(status, 0);
  }
  assert_sound(f->path, 6);
}

/* -- tuning locks */

static void one_session_tunes_a_device(void **state)
{
  const fixture *f = *state;
  fat_error err = {0};
  char pid[32];
  fat_db *first = fixture_db(f, FAT_DB_WRITE), *second = fixture_db(f, FAT_DB_WRITE);
  MUST(fat_db_lock_tuning(first, fixture_gpu("T4"), err));
  MUST(fat_db_lock_tuning(first, fixture_gpu("T4"), err)); /* it has it */
  assert_int_equal(fat_db_lock_tuning(second, fixture_gpu("T4"), &err), FAT_E_BUSY);
  snprintf(pid, sizeof pid, "process %ld on ", (long)getpid());
  assert_non_null(strstr(err.text, pid));
  assert_non_null(strstr(err.text, "since 20"));
  MUST(fat_db_lock_tuning(second, fixture_gpu("L4"), err));
  fat_db_close(first);
  MUST(fat_db_lock_tuning(second, fixture_gpu("T4"), err));
  fat_db_close(second);
}

/* `fatune show runs` beside a tune that begins: to look whether a device is tuned is not to tune it. */
static void a_look_at_the_lock_is_no_session(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE), *other = fixture_db(f, FAT_DB_WRITE);
  int ready[2], fd = -1;
  char byte;
  fat_error err = {0};
  MUST(fat_db_lock_tuning(other, fixture_gpu("T4"), err)); /* for the name of its file */
  char path[sizeof other->holds->path];
  memcpy(path, other->holds->path, sizeof path);
  fat_db_close(other);
  assert_int_equal(pipe(ready), 0);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || flock(fd, LOCK_SH) != 0 || write(ready[1], "x", 1) != 1)
      _exit(1);
    usleep(20000);
    _exit(0);
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  assert_int_equal(fat_db_lock_tuning(db, fixture_gpu("T4"), &err), FAT_OK);
  waitpid(child, NULL, 0);
  fat_db_close(db);
}

static void a_killed_session_holds_nothing(void **state)
{
  const fixture *f = *state;
  int ready[2];
  char byte;
  fat_error err = {0};
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  assert_int_equal(pipe(ready), 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    fat_db *db = NULL;
    if (fat_db_open(f->path, NULL, FAT_DB_WRITE, &db, &err) != FAT_OK ||
        fat_db_lock_tuning(db, fixture_gpu("T4"), &err) != FAT_OK || write(ready[1], "x", 1) != 1)
      _exit(1);
    pause();
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  assert_int_equal(fat_db_lock_tuning(db, fixture_gpu("T4"), &err), FAT_E_BUSY);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  MUST(fat_db_lock_tuning(db, fixture_gpu("T4"), err));
  fat_db_close(db);
}

/* -- forks */

static void a_forked_child_is_refused(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  MUST(fat_db_lock_tuning(db, fixture_gpu("T4"), err));
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    fat_error err = {0};
    fat_best best;
    fat_import counts;
    fat_text text = {0};
    fat_run run = {0};
    int64_t id;
    fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
    const fat_status all[] = {
        fat_db_put(db, &t, NULL, &err),
        fat_db_put_artifact(db, 1, NULL, &err),
        fat_db_trials(db, NULL, NULL, NULL, &err),
        fat_db_winners(db, &t.problem, NULL, NULL, &err),
        fat_db_best(db, &t.problem, &t.gpu, NULL, false, &best, &err),
        fat_db_view(db, "best", true, &text, &err),
        fat_db_export(db, &text, &err),
        fat_db_import(db, "", 0, &counts, &err),
        fat_db_merge(db, f->path, &counts, &err),
        fat_db_check(db, &text, &err),
        fat_db_run_begin(db, &run, &id, &err),
        fat_db_run_end(db, 1, "done", &err),
        fat_db_lock_tuning(db, &t.gpu, &err),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
      if (all[i] != FAT_E_DB || !strstr(err.text, "fork"))
        _exit(10 + (int)i);
    fat_db_close(db);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  /* The child's end took neither the parent's lock nor its connection away. */
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fat_db *second = fixture_db(f, FAT_DB_WRITE);
  fat_error err = {0};
  assert_int_equal(fat_db_lock_tuning(second, fixture_gpu("T4"), &err), FAT_E_BUSY);
  fat_db_close(second);
  fat_db_close(db);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_full_disk_loses_one_trial_only),
      TEST(a_full_file_system_too),
      TEST(a_killed_writer_loses_nothing_it_reported),
      TEST(two_writers_and_many_readers_agree),
      TEST(a_lock_is_waited_for_as_told),
      TEST(two_makers_make_one_file),
      TEST(one_session_tunes_a_device),
      TEST(a_look_at_the_lock_is_no_session),
      TEST(a_killed_session_holds_nothing),
      TEST(a_forked_child_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
