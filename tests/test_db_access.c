/* test_db_access.c -- where the file lies and who may touch it: paths, owners, modes, links, read-only
 * places. */
#include "db_fixture.h"
#include "../db/private.h"
#include <errno.h>
#include <fcntl.h>

/* -- path.c */

static void the_path_comes_from_the_first_that_names_one(void **state)
{
  (void)state;
  static const struct {
    const char *given, *db, *data, *home, *path; /* path NULL: FAT_E_INPUT */
  } cases[] = {
      {"g.db", "e.db", "/data", "/home/x", "g.db"},
      {NULL, "e.db", "/data", "/home/x", "e.db"},
      {NULL, "", "/data", "/home/x", "/data/fatune/fatune.db"},
      {NULL, NULL, "/data", "/home/x", "/data/fatune/fatune.db"},
      {NULL, NULL, "data", "/home/x", "/home/x/.local/share/fatune/fatune.db"},
      {NULL, NULL, NULL, "/home/x", "/home/x/.local/share/fatune/fatune.db"},
      {NULL, NULL, NULL, NULL, NULL},
      {NULL, NULL, "", "", NULL},
      {"", "e.db", NULL, "/home/x", NULL},
  };
  static const char *const names[] = {"FATUNE_DB", "XDG_DATA_HOME", "HOME"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *values[] = {cases[i].db, cases[i].data, cases[i].home};
    for (int j = 0; j < 3; j++)
      if (values[j])
        setenv(names[j], values[j], 1);
      else
        unsetenv(names[j]);
    fat_text path = {0};
    fat_error err = {0};
    fat_status status = fat_db_path(cases[i].given, &path, &err);
    if (cases[i].path ? status != FAT_OK || strcmp(path.data, cases[i].path) != 0 : status != FAT_E_INPUT)
      fail_msg("case %zu: %s", i, fat_text_get(&path));
    fat_text_free(&path);
  }
  setenv("FATUNE_SYSTEM_DB", "/s.db", 1);
  assert_string_equal(fat_db_system_path(), "/s.db");
  unsetenv("FATUNE_SYSTEM_DB"); /* this program lies two folders below what a build makes */
  const char *path = fat_db_system_path(), *built = strstr(path, "/share/fatune/fatune.db");
  if (strcmp(path, FATUNE_SYSTEM_DB) != 0 && (!built || strlen(built) != 23 || access(path, F_OK) != 0))
    fail_msg("%s", path);
}

/* -- access.c */

static void folders_and_file_are_made_for_the_owner_alone(void **state)
{
  const fixture *f = *state;
  char path[400];
  struct stat s;
  fat_error err;
  mode_t mask = umask(0);
  snprintf(path, sizeof path, "%s/a/b/c.db", f->folder);
  assert_int_equal(fixture_try(path, FAT_DB_READ, &err), FAT_E_NOT_FOUND);
  assert_int_equal(fixture_try(path, FAT_DB_WRITE, &err), FAT_OK);
  umask(mask);
  assert_int_equal(stat(path, &s), 0);
  assert_int_equal(s.st_mode & 0777, 0600);
  snprintf(path, sizeof path, "%s/a", f->folder);
  assert_int_equal(stat(path, &s), 0);
  assert_int_equal(s.st_mode & 0777, 0700);
  snprintf(path, sizeof path, "%s/a/b/", f->folder);
  assert_int_equal(fixture_try(path, FAT_DB_WRITE, &err), FAT_E_INPUT);
  assert_int_equal(fixture_try("", FAT_DB_WRITE, &err), FAT_E_INPUT);
  snprintf(path, sizeof path, "%s/a/b", f->folder); /* a folder in place of the file */
  assert_int_equal(fixture_try(path, FAT_DB_WRITE, &err), FAT_E_FOREIGN);
  snprintf(path, sizeof path, "%s/a/b/c.db/d.db", f->folder); /* a file in place of a folder */
  assert_int_not_equal(fixture_try(path, FAT_DB_WRITE, &err), FAT_OK);
  snprintf(path, sizeof path, "%s/a/b/c.db/e/d.db", f->folder); /* where no folder can be made */
  assert_int_equal(fixture_try(path, FAT_DB_WRITE, &err), FAT_E_IO);
  assert_non_null(strstr(err.text, "cannot be made"));
}

static void paths_that_are_too_long_are_refused(void **state)
{
  const fixture *f = *state;
  char path[5001], name[600];
  fat_error err;
  memset(path, 'x', sizeof path - 1);
  path[0] = '/';
  path[sizeof path - 1] = 0;
  for (int mode = FAT_DB_READ; mode <= FAT_DB_WRITE; mode++)
    assert_int_equal(fixture_try(path, (fat_db_mode)mode, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "longer than 4095"));
  snprintf(name, sizeof name, "%s/%.300s", f->folder, path + 1); /* a name has at most 255 bytes */
  assert_int_equal(fixture_try(name, FAT_DB_READ, &err), FAT_E_DENIED);
  assert_non_null(strstr(err.text, strerror(ENAMETOOLONG)));
}

/* A path without a folder is of the current one; with that one's own path it may become too long. */
static void a_bare_name_lies_in_the_current_folder(void **state)
{
  const fixture *f = *state;
  char before[PATH_MAX], path[400], name[4090];
  fat_error err;
  snprintf(path, sizeof path, "%s/bare.db", f->folder);
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = 0;
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(f->folder), 0);
  fat_status status = fixture_try("bare.db", FAT_DB_WRITE, &err);
  fat_status joined = fixture_try(name, FAT_DB_READ, &err);
  assert_int_equal(chdir(before), 0);
  assert_int_equal(status, FAT_OK);
  assert_int_equal(access(path, F_OK), 0);
  assert_int_equal(joined, FAT_E_INPUT);
  assert_non_null(strstr(err.text, "longer than 4095"));
  assert_int_equal(fixture_try("/no-such-database.db", FAT_DB_READ, &err), FAT_E_NOT_FOUND);
}

/* What SQLite would take for its journal must be a file. */
static void a_journal_that_is_no_file_is_refused(void **state)
{
  const fixture *f = *state;
  char journal[300];
  fat_error err;
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  snprintf(journal, sizeof journal, "%s-journal", f->path);
  assert_int_equal(mkdir(journal, 0700), 0);
  for (int mode = FAT_DB_READ; mode <= FAT_DB_WRITE; mode++)
    assert_int_equal(fixture_try(f->path, (fat_db_mode)mode, &err), FAT_E_DENIED);
  assert_non_null(strstr(err.text, journal));
  assert_int_equal(rmdir(journal), 0);
  assert_int_equal(fixture_try(f->path, FAT_DB_WRITE, &err), FAT_OK);
}

static void what_others_may_write_is_refused(void **state)
{
  const fixture *f = *state;
  char journal[300];
  fat_error err;
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  snprintf(journal, sizeof journal, "%s-journal", f->path);
  const struct {
    const char *path;
    mode_t bad, good;
  } cases[] = {{f->path, 0620, 0600},
               {f->path, 0602, 0644},
               {f->folder, 0770, 0700},
               {f->folder, 01777, 0755},
               {journal, 0666, 0600}};
  int fd = open(journal, O_CREAT | O_WRONLY, 0600);
  assert_true(fd >= 0);
  close(fd);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int mode = FAT_DB_READ; mode <= FAT_DB_WRITE; mode++) {
      assert_int_equal(chmod(cases[i].path, cases[i].bad), 0);
      assert_int_equal(fixture_try(f->path, (fat_db_mode)mode, &err), FAT_E_DENIED);
      assert_non_null(strstr(err.text, "FATUNE_TRUST_DB"));
      setenv("FATUNE_TRUST_DB", "0", 1);
      assert_int_equal(fixture_try(f->path, (fat_db_mode)mode, &err), FAT_E_DENIED);
      setenv("FATUNE_TRUST_DB", "1", 1);
      assert_int_equal(fixture_try(f->path, (fat_db_mode)mode, &err), FAT_OK);
      unsetenv("FATUNE_TRUST_DB");
      if (access(cases[i].path, F_OK) != 0) /* an empty journal is removed by its owner */
        close(open(cases[i].path, O_CREAT | O_WRONLY, 0600));
      assert_int_equal(chmod(cases[i].path, cases[i].good), 0);
      assert_int_equal(fixture_try(f->path, (fat_db_mode)mode, &err), FAT_OK);
    }
}

static void what_belongs_to_others_is_refused(void **state)
{
  const fixture *f = *state;
  char journal[300], link[300];
  fat_error err;
  if (geteuid() != 0) {
    print_message("only root can give files away: skipped\n");
    skip();
  }
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  snprintf(journal, sizeof journal, "%s-journal", f->path);
  snprintf(link, sizeof link, "%s/link.db", f->folder);
  close(open(journal, O_CREAT | O_WRONLY, 0600));
  const char *const theirs[] = {journal, f->path, f->folder};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(chown(theirs[i], 65534, 65534), 0);
    assert_int_equal(fixture_try(f->path, FAT_DB_READ, &err), FAT_E_DENIED);
    assert_non_null(strstr(err.text, "65534"));
    assert_int_equal(chown(theirs[i], 0, 0), 0);
  }
  unlink(journal);
  assert_int_equal(symlink(f->path, link), 0);
  assert_int_equal(fixture_try(link, FAT_DB_READ, &err), FAT_OK);
  assert_int_equal(lchown(link, 65534, 65534), 0);
  assert_int_equal(fixture_try(link, FAT_DB_READ, &err), FAT_E_DENIED);
}

static void a_link_counts_by_what_it_leads_to(void **state)
{
  const fixture *f = *state;
  char link[300], loose[300], target[400];
  fat_error err;
  snprintf(link, sizeof link, "%s/link.db", f->folder);
  snprintf(loose, sizeof loose, "%s/loose", f->folder);
  snprintf(target, sizeof target, "%s/t.db", loose);
  assert_int_equal(mkdir(loose, 0700), 0);
  assert_int_equal(fixture_try(target, FAT_DB_WRITE, &err), FAT_OK);
  assert_int_equal(symlink(target, link), 0);
  assert_int_equal(fixture_try(link, FAT_DB_WRITE, &err), FAT_OK);
  assert_int_equal(chmod(loose, 0777), 0);
  assert_int_equal(fixture_try(link, FAT_DB_WRITE, &err), FAT_E_DENIED);
  assert_non_null(strstr(err.text, "run `chmod go-w"));
  assert_int_equal(chmod(loose, 01777), 0); /* as /tmp: nobody should change that one's mode */
  assert_int_equal(fixture_try(link, FAT_DB_WRITE, &err), FAT_E_DENIED);
  assert_non_null(strstr(err.text, "a folder of your own below it"));
  assert_int_equal(chmod(loose, 0700), 0);
  unlink(target);
  assert_int_equal(fixture_try(link, FAT_DB_WRITE, &err),
                   FAT_E_IO); /* leads nowhere: nothing is made there */
  assert_int_not_equal(access(target, F_OK), 0);
}

/* Runs `body` as another user where this one is root: to root every file can be written. It says by a number
 * where it failed, since whoever fails a test must be who removes its files. */
static int as_nobody(int (*body)(const fixture *), const fixture *f)
{
  const uid_t nobody = 65534;
  if (geteuid() != 0)
    return body(f);
  assert_int_equal(setresgid(nobody, nobody, 0), 0);
  assert_int_equal(setresuid(nobody, nobody, 0), 0);
  int failed = body(f);
  assert_int_equal(setresuid(0, 0, 0), 0);
  assert_int_equal(setresgid(0, 0, 0), 0);
  return failed;
}

static int read_and_fail_to_write(const fixture *f)
{
  fat_db *db = NULL;
  fat_error err = {0};
  fat_text text = {0};
  if (fat_db_open(f->path, NULL, FAT_DB_READ, &db, &err) != FAT_OK ||
      strcmp(fixture_winner(db), "fwd:Br16") != 0 || fat_db_view(db, "best", true, &text, &err) != FAT_OK)
    return 3;
  fat_db_close(db);
  fat_text_free(&text);
  if (fat_db_open(f->path, NULL, FAT_DB_WRITE, &db, &err) != FAT_E_READONLY || !strstr(err.text, f->path))
    return 4;
  char other[300];
  snprintf(other, sizeof other, "%s/new/n.db", f->folder);
  if (fat_db_open(other, NULL, FAT_DB_WRITE, &db, &err) != FAT_E_READONLY)
    return 5;
  snprintf(other, sizeof other, "%s/n.db", f->folder);
  if (fat_db_open(other, NULL, FAT_DB_WRITE, &db, &err) != FAT_E_READONLY)
    return 6;
  return 0;
}

static void a_read_only_place_can_be_read(void **state)
{
  const fixture *f = *state;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fat_db_close(db);
  assert_int_equal(chmod(f->path, 0444), 0);
  assert_int_equal(chmod(f->folder, 0555), 0);
  assert_int_equal(as_nobody(read_and_fail_to_write, f), 0);
  assert_int_equal(chmod(f->folder, 0700), 0);
}

static int be_shut_out(const fixture *f)
{
  fat_db *db = NULL;
  fat_error err = {0};
  for (int mode = FAT_DB_READ; mode <= FAT_DB_WRITE; mode++) {
    fat_status status = fat_db_open(f->path, NULL, (fat_db_mode)mode, &db, &err);
    if ((status != FAT_E_DENIED && status != FAT_E_READONLY) || !strstr(err.text, f->folder))
      return 3 + mode;
  }
  return 0;
}

static void a_closed_folder_or_file_is_said_to_be_closed(void **state)
{
  const fixture *f = *state;
  if (geteuid() != 0) {
    print_message("only root can shut somebody else out: skipped\n");
    skip();
  }
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  assert_int_equal(as_nobody(be_shut_out, f), 0); /* the folder is 0700 */
  chmod(f->folder, 0755);
  assert_int_equal(as_nobody(be_shut_out, f), 0); /* the file is 0600 */
}

/* Leaves a transaction half in the file, as a writer that is killed does. */
static void break_off(const fixture *f)
{
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    sqlite3 *db = NULL;
    sqlite3_open(f->path, &db);
    _exit(sqlite3_exec(
              db,
              "PRAGMA cache_size = 2; BEGIN; CREATE TABLE junk (x); WITH RECURSIVE n(i) AS (VALUES(1) UNION"
              " ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO junk SELECT zeroblob(3000) FROM n",
              NULL, NULL, NULL) != SQLITE_OK);
  }
  int status = 0;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
}

static int need_a_writer(const fixture *f)
{
  fat_db *db = NULL;
  fat_error err = {0};
  if (fat_db_open(f->path, NULL, FAT_DB_READ, &db, &err) != FAT_E_READONLY || !strstr(err.text, "broken-off"))
    return 3;
  return 0;
}

static void a_broken_off_transaction_is_undone_by_who_may(void **state)
{
  const fixture *f = *state;
  char journal[300];
  struct stat s;
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fat_db_close(db);
  break_off(f);
  snprintf(journal, sizeof journal, "%s-journal", f->path);
  assert_int_equal(stat(journal, &s), 0);
  assert_true(s.st_size > 0);
  chmod(journal, 0444), chmod(f->path, 0444), chmod(f->folder, 0555);
  assert_int_equal(as_nobody(need_a_writer, f), 0);
  chmod(journal, 0600), chmod(f->path, 0600), chmod(f->folder, 0700);
  db = fixture_db(f, FAT_DB_READ);
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_db_close(db);
  assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM sqlite_schema WHERE name = 'junk'"), 0);
}

static void a_merge_undoes_what_was_broken_off(void **state)
{
  const fixture *f = *state;
  char path[300];
  fat_import counts;
  fat_error err = {0};
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  fat_db_close(db);
  break_off(f);
  snprintf(path, sizeof path, "%s/all.db", f->folder);
  MUST(fat_db_open(path, NULL, FAT_DB_WRITE, &db, err));
  if (fat_db_merge(db, f->path, &counts, &err) != FAT_OK)
    fail_msg("%s", err.text);
  assert_int_equal(counts.added, 1);
  fat_db_close(db);
}

static void another_journal_mode_is_set_back(void **state)
{
  const fixture *f = *state;
  char wal[300];
  fat_db_close(fixture_db(f, FAT_DB_WRITE));
  fixture_sql(f->path, "PRAGMA journal_mode = WAL");
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fixture_put(db, "fwd:Br16", FAT_PREDICTED, 1);
  snprintf(wal, sizeof wal, "%s-wal", f->path);
  assert_int_not_equal(access(wal, F_OK), 0);
  fat_db_close(db);
  db = fixture_db(f, FAT_DB_READ);
  assert_string_equal(fixture_winner(db), "fwd:Br16");
  fat_db_close(db);
}

static void a_reader_cannot_write(void **state)
{
  fat_error err = {0};
  fat_db_close(fixture_db(*state, FAT_DB_WRITE));
  fat_db *db = fixture_db(*state, FAT_DB_READ);
  fat_trial t = fixture_trial(PROBLEM, "T4", "fwd:Br16", 1);
  fat_import counts;
  assert_int_equal(fat_db_put(db, &t, NULL, &err), FAT_E_READONLY);
  assert_int_equal(fat_db_import(db, "", 0, &counts, &err), FAT_E_READONLY);
  assert_int_equal(fat_db_lock_tuning(db, &t.gpu, &err), FAT_E_READONLY);
  assert_int_not_equal(sqlite3_exec(db->sql, "DELETE FROM trial", NULL, NULL, NULL), SQLITE_OK);
  fat_db_close(db);
}

static void a_lock_that_cannot_be_made_is_named(void **state)
{
  const fixture *f = *state;
  char facts[FAT_GPU_FACTS], hash[FAT_HASH_SIZE], lock[400];
  fat_error err = {0};
  fat_db *db = fixture_db(f, FAT_DB_WRITE);
  fat_gpu_facts(fixture_gpu("T4"), facts);
  fat_text_hash(facts, strlen(facts), hash);
  snprintf(lock, sizeof lock, "%s.lock-%.16s", f->path, hash);
  assert_int_equal(mkdir(lock, 0700), 0);
  assert_int_equal(fat_db_lock_tuning(db, fixture_gpu("T4"), &err), FAT_E_IO);
  assert_non_null(strstr(err.text, lock));
  assert_int_equal(rmdir(lock), 0);
  MUST(fat_db_lock_tuning(db, fixture_gpu("T4"), err));
  fat_db_close(db);
}

static void network_file_systems_are_known(void **state)
{
  (void)state;
  assert_string_equal(fat_db_network(0x6969), "NFS");
  assert_string_equal(fat_db_network((long)(int)0xFF534D42), "CIFS"); /* a signed f_type */
  assert_string_equal(fat_db_network(0x0BD00BD0), "Lustre");
  assert_null(fat_db_network(0xEF53)); /* ext4 */
  assert_null(fat_db_network_of("/nowhere/at/all"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(the_path_comes_from_the_first_that_names_one),
      TEST(folders_and_file_are_made_for_the_owner_alone),
      TEST(paths_that_are_too_long_are_refused),
      TEST(a_bare_name_lies_in_the_current_folder),
      TEST(a_journal_that_is_no_file_is_refused),
      TEST(what_others_may_write_is_refused),
      TEST(what_belongs_to_others_is_refused),
      TEST(a_link_counts_by_what_it_leads_to),
      TEST(a_read_only_place_can_be_read),
      TEST(a_broken_off_transaction_is_undone_by_who_may),
      TEST(a_merge_undoes_what_was_broken_off),
      TEST(another_journal_mode_is_set_back),
      TEST(a_closed_folder_or_file_is_said_to_be_closed),
      TEST(a_reader_cannot_write),
      TEST(a_lock_that_cannot_be_made_is_named),
      TEST(network_file_systems_are_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
