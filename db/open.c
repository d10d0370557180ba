/* open.c -- from a path to a handle that can be trusted, and back.
 *
 * In order: who may touch the file (access.c), the settings for untrusted content, whether it is ours and of
 * which version, migration, then the system file attached below it. Invariant: a file that is not ours, or
 * newer, is never written; a failed open leaves nothing behind but, for a new database, an empty file. */
#include "private.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { APPLICATION_ID = 0x6661746e }; /* "fatn" */

/* Every table that a file of ours has, and how many those are. */
#define COUNT_TABLES                                                                                         \
  "SELECT count(*) FROM %s.sqlite_schema WHERE type = 'table' AND rootpage > 0"                              \
  " AND name IN ('problem', 'device', 'toolchain', 'run', 'rejection', 'source', 'recipe', 'binary', "       \
  "'trial', 'sample', 'kind', 'winner')"
enum { TABLES = 12 };

/* 1: all pages are sound; 0: some are not; 2: one could not be read for lack of memory (7 is SQLITE_NOMEM),
 * which quick_check lists among the damages. */
#define CHECK                                                                                                \
  "SELECT CASE WHEN quick_check = 'ok' THEN 1"                                                               \
  " WHEN quick_check || char(10) LIKE '%%error code_7' || char(10) || '%%' THEN 2 ELSE 0 END"                \
  " FROM pragma_quick_check LIMIT 1"
enum { SHORT = 2 };

static fat_status connect(fat_db *db, fat_error *err)
{
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_PRIVATECACHE |
              SQLITE_OPEN_URI /* for ATTACH; our own paths begin with a '/' */;
  /* Also for reading: only a connection that may write can undo what a killed writer left half done. SQLite
   * falls back to reading by itself where the file cannot be written; query_only keeps our hands off. */
  if (db->memory)
    flags |= SQLITE_OPEN_CREATE;
  else
    flags |= SQLITE_OPEN_NOFOLLOW;
  int rc = sqlite3_open_v2(db->memory ? ":memory:" : db->path, &db->sql, flags, NULL);
  if (rc != SQLITE_OK)
    return fat_db_fail(db, db->sql, "opening", err);
  return fat_db_configure(db, db->sql, err);
}

static void disconnect(fat_db *db)
{
  for (int i = 0; i < FAT_SQL_COUNT; i++) {
    sqlite3_finalize(db->kept[i]);
    db->kept[i] = NULL;
  }
  for (int i = 0; i < FAT_DB_ASKED; i++) {
    sqlite3_finalize(db->asked[i]);
    db->asked[i] = NULL;
  }
  sqlite3_close_v2(db->sql);
  db->sql = NULL;
}

/* What `schema` ("main", "system") holds: *version 0 is an empty file. FAT_E_FOREIGN, FAT_E_NEWER. */
static fat_status identify(fat_db *db, const char *schema, const char *path, int target, int *version,
                           fat_error *err)
{
  int64_t pages, id, number;
  *version = 0;
  FAT_TRY(fat_db_number(db, schema, "PRAGMA %s.page_count", &pages, err));
  if (pages == 0)
    return FAT_OK;
  FAT_TRY(fat_db_number(db, schema, "PRAGMA %s.application_id", &id, err));
  FAT_TRY(fat_db_number(db, schema, "PRAGMA %s.user_version", &number, err));
  if (id != APPLICATION_ID || number <= 0)
    return fat_status_fail(
        err, FAT_E_FOREIGN,
        "database %s is an SQLite file of another program: it is left as it is, name another one", path);
  if (number / 1000 > target / 1000)
    return fat_status_fail(
        err, FAT_E_NEWER,
        "database %s has version %d.%d, this fatune reads up to %d.x: update fatune or name"
        " another database",
        path, (int)(number / 1000), (int)(number % 1000), target / 1000);
  *version = (int)number;
  return FAT_OK;
}

/* Whether tables and columns are there and, for a writer, whether the pages hold together. */
static fat_status probe(fat_db *db, const char *schema, const char *path, bool thorough, fat_error *err)
{
  int64_t tables = 0, sound = 1;
  sqlite3_stmt *stmt = NULL;
  fat_text row = {0};
  FAT_TRY(fat_db_number(db, schema, COUNT_TABLES, &tables, err));
  if (thorough)
    FAT_TRY(fat_db_number(db, schema, CHECK, &sound, err));
  if (sound == SHORT)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory while database %s was checked", path);
  fat_db_row_select(&row, schema);
  fat_status status = fat_text_status(&row, err);
  if (status == FAT_OK && tables == TABLES)
    status = fat_db_prepare(db, db->sql, fat_text_get(&row), &stmt, err);
  sqlite3_finalize(stmt);
  fat_text_free(&row);
  if (status == FAT_E_DB || tables != TABLES || !sound)
    return fat_status_fail(err, FAT_E_CORRUPT,
                           "database %s is damaged: see `fatune doctor`, or move it away to begin a new one",
                           path);
  return status;
}

/* Replaces main by a database in memory: a copy of the file, or empty where `empty`. */
static fat_status into_memory(fat_db *db, bool empty, fat_error *err)
{
  sqlite3 *file = db->sql;
  fat_status status;
  db->sql = NULL;
  db->memory = true;
  status = connect(db, err);
  if (status == FAT_OK && !empty && !fat_db_copy(db->sql, file))
    status = fat_db_fail(db, db->sql, "reading an older version", err);
  sqlite3_close_v2(file);
  return status;
}

/* "file:<path>?mode=ro&immutable=1" with what means something in a URI written as %XX. */
static void uri_of(const char *path, fat_text *uri)
{
  fat_text_add(uri, "file:");
  for (const char *p = path; *p; p++)
    if (strchr("?#%&", *p))
      fat_text_format(uri, "%%%02X", (unsigned)(unsigned char)*p);
    else
      fat_text_add_bytes(uri, p, 1);
  fat_text_add(uri, "?mode=ro&immutable=1");
}

static fat_status attach(fat_db *db, const char *path, int target, fat_error *err)
{
  char real[FAT_DB_PATH];
  bool exists;
  int version = 0;
  sqlite3_stmt *stmt = NULL;
  fat_text uri = {0};
  FAT_TRY(fat_db_access(path, FAT_DB_READ, real, &exists, err));
  if (strcmp(real, db->path) == 0)
    return FAT_OK;
  uri_of(real, &uri);
  memcpy(db->system_path, real, sizeof db->system_path);
  db->named = db->system_path;
  fat_status status = fat_text_status(&uri, err);
  if (status == FAT_OK)
    status = fat_db_prepare(db, db->sql, "ATTACH ?1 AS system", &stmt, err);
  if (status == FAT_OK)
    status = fat_db_bind(db, stmt, err, "t", fat_text_get(&uri));
  if (status == FAT_OK)
    status = fat_db_finish(db, stmt, NULL, err);
  sqlite3_finalize(stmt);
  fat_text_free(&uri);
  const bool attached = status == FAT_OK;
  if (attached)
    status = identify(db, "system", real, target, &version, err);
  if (status == FAT_OK && version < target)
    status = fat_status_fail(err, FAT_E_DB, "it has the older version %d.%d", version / 1000, version % 1000);
  if (status == FAT_OK)
    status = probe(db, "system", real, false, err);
  db->named = NULL;
  db->system = status == FAT_OK;
  if (attached && !db->system)
    sqlite3_exec(db->sql, "DETACH system", NULL, NULL, NULL);
  return status;
}

/* The user's file, ready for use. FAT_E_NOT_FOUND: there is nothing to read. */
static fat_status open_main(fat_db *db, const char *path, fat_db_mode mode, const fat_db_migration *steps,
                            int count, int target, fat_error *err)
{
  bool exists = false;
  FAT_TRY(fat_db_access(path, mode, db->path, &exists, err));
  FAT_TRY(connect(db, err));
  FAT_TRY(identify(db, "main", db->path, target, &db->version, err));
  if (db->version == 0 && mode == FAT_DB_READ)
    return fat_status_fail(err, FAT_E_NOT_FOUND, "database %s is empty", db->path);
  if (db->version > target && mode == FAT_DB_WRITE)
    return fat_db_refuse_newer(db, target, err);
  if (db->version > target)
    fat_db_remark(db, "the database has the newer version %d.%d: only what version %d.%d knows is read",
                  db->version / 1000, db->version % 1000, target / 1000, target % 1000);
  if (db->version < target && mode == FAT_DB_READ)
    FAT_TRY(into_memory(db, false, err));
  if (mode == FAT_DB_WRITE) {
    if (sqlite3_db_readonly(db->sql, "main") == 1)
      return fat_status_fail(err, FAT_E_READONLY, "database %s cannot be written", db->path);
    FAT_TRY(fat_db_run_sql(db, "PRAGMA main.journal_mode = DELETE; PRAGMA main.synchronous = FULL", err));
  }
  if (db->version < target)
    FAT_TRY(fat_db_migrate(db, steps, count, target, err));
  return probe(db, "main", db->path, mode == FAT_DB_WRITE, err);
}

static const char left_out[] = "the system database ";

bool fat_db_left_out(const fat_error *err)
{
  return strncmp(err->text, left_out, sizeof left_out - 1) == 0;
}

/* The system's file under it; one that cannot be used is left out, with a remark. */
static fat_status open_system(fat_db *db, const char *system, int target, fat_error *err)
{
  fat_error why = {0};
  fat_status status = attach(db, system, target, &why);
  if (status == FAT_E_NOMEM)
    return fat_status_fail(err, status, "%s", why.text);
  bool expected = status != FAT_E_NOT_FOUND || strcmp(system, FATUNE_SYSTEM_DB) != 0;
  if (status != FAT_OK && expected)
    fat_db_remark(db, "%s%s is left out: %s", left_out, system, why.text);
  return FAT_OK;
}

fat_status fat_db_open_version(const char *path, const char *system, fat_db_mode mode,
                               const fat_db_migration *steps, int count, int target, fat_db **out,
                               fat_error *err)
{
  fat_error why = {0};
  fat_db *db = calloc(1, sizeof *db);
  *out = NULL;
  if (!db)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a database handle");
  db->pid = getpid();
  db->writable = mode == FAT_DB_WRITE;
  bool layered = system && *system;
  fat_status status = path ? open_main(db, path, mode, steps, count, target, &why)
                           : fat_status_fail(&why, FAT_E_NOT_FOUND, "no database is named");
  bool nothing = status == FAT_E_NOT_FOUND && mode == FAT_DB_READ && layered;
  if (nothing) { /* the system's file alone may still answer, below an empty one */
    status = into_memory(db, true, NULL);
    if (status == FAT_OK)
      status = fat_db_migrate(db, steps, count, target, NULL);
  }
  if (status == FAT_OK && layered)
    status = open_system(db, system, target, &why);
  if (status == FAT_OK && nothing && !db->system) {
    status = FAT_E_NOT_FOUND;
    if (*db->note) /* why the system's file is left out */
      fat_status_fail(&why, status, "%s", db->note);
  }
  if (status == FAT_OK && mode == FAT_DB_READ)
    status = fat_db_run_sql(db, "PRAGMA query_only = ON", &why);
  if (status != FAT_OK) {
    fat_db_close(db);
    return fat_status_fail(err, status, "%s", why.text);
  }
  const char *network = nothing ? NULL : fat_db_network_of(db->path);
  if (network)
    fat_db_remark(db,
                  "the database lies on a network file system (%s), where locks may fail: tune into a local"
                  " file and use `fatune merge`",
                  network);
  *out = db;
  return FAT_OK;
}

fat_status fat_db_open(const char *path, const char *system, fat_db_mode mode, fat_db **db, fat_error *err)
{
  return fat_db_open_version(path, system, mode, fat_db_migrations, fat_db_migration_count, FAT_DB_VERSION,
                             db, err);
}

/* -- a file made by anybody */

enum { PATIENCE = 3000 }; /* millions of steps */
#define COPY_MOST (INT64_C(1) << 32)

/* One step may be a call of any length where a column is computed or checked, or a table is made by code of
 * SQLite's: no file of ours has such columns or tables, and what ours check is checked again when a row is
 * read. */
static fat_status refuse_computed(fat_db *db, fat_error *err)
{
  int64_t computed = 0;
  FAT_TRY(fat_db_run_sql(db, "PRAGMA ignore_check_constraints = ON", err));
  FAT_TRY(fat_db_number(db, "main",
                        "SELECT count(*) FROM %s.sqlite_schema s LEFT JOIN"
                        " pragma_table_xinfo(iif(s.rootpage > 0, s.name, '')) c"
                        " WHERE s.type = 'table' AND (c.hidden > 1 OR s.rootpage = 0)",
                        &computed, err));
  if (computed == 0)
    return FAT_OK;
  return fat_status_fail(err, FAT_E_CORRUPT,
                         "database %s has columns or tables that are computed: fatune makes none", db->path);
}

/* An older version is copied into memory whole: a file of holes would take all there is. */
static fat_status refuse_large(fat_db *db, fat_error *err)
{
  int64_t pages = 0, size = 0;
  FAT_TRY(fat_db_number(db, "main", "PRAGMA %s.page_count", &pages, err));
  FAT_TRY(fat_db_number(db, "main", "PRAGMA %s.page_size", &size, err));
  if (pages * size <= COPY_MOST)
    return FAT_OK;
  return fat_status_fail(
      err, FAT_E_LIMIT,
      "database %s has an older version and %lld MiB: `fatune compact --db` brings it forward", db->path,
      (long long)(pages * size >> 20));
}

/* Reading plain tables is all that a foreign file may make us do. */
static int only_reading(void *user, int action, const char *a, const char *b, const char *c, const char *d)
{
  (void)user, (void)a, (void)b, (void)c, (void)d;
  return action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_FUNCTION ? SQLITE_OK
                                                                                       : SQLITE_DENY;
}

fat_status fat_db_open_foreign(const char *path, fat_db **out, fat_error *err)
{
  struct stat s;
  *out = NULL;
  if (stat(path, &s) != 0)
    return fat_status_fail(err, errno == ENOENT ? FAT_E_NOT_FOUND : FAT_E_DENIED, "database %s: %s", path,
                           strerror(errno));
  if (!S_ISREG(s.st_mode))
    return fat_status_fail(err, FAT_E_FOREIGN, "database %s is no regular file", path);
  fat_db *db = calloc(1, sizeof *db);
  if (!db)
    return fat_status_fail(err, FAT_E_NOMEM, "out of memory for a database handle");
  if (!realpath(path, db->path)) {
    const int why = errno;
    free(db);
    return fat_status_fail(err, FAT_E_DENIED, "database %s: %s", path, strerror(why));
  }
  db->pid = getpid();
  fat_status status = FAT_OK;
  if (sqlite3_open_v2(db->path, &db->sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                      NULL) != SQLITE_OK)
    status = fat_db_fail(db, db->sql, "opening", err);
  if (status == FAT_OK)
    status = fat_db_configure(db, db->sql, err);
  if (status == FAT_OK) {
    sqlite3_limit(db->sql, SQLITE_LIMIT_LENGTH, FAT_DB_FOREIGN);
    fat_db_bound(db, PATIENCE);
    status = refuse_computed(db, err);
  }
  if (status == FAT_OK)
    status = identify(db, "main", db->path, FAT_DB_VERSION, &db->version, err);
  if (status == FAT_OK && db->version < FAT_DB_VERSION)
    status = refuse_large(db, err);
  if (status == FAT_OK && db->version < FAT_DB_VERSION) {
    status = into_memory(db, db->version == 0, err);
    if (status == FAT_OK) {
      fat_db_bound(db, db->patience); /* what is left, of this connection too */
      status = fat_db_migrate(db, fat_db_migrations, fat_db_migration_count, FAT_DB_VERSION, err);
    }
  }
  if (status == FAT_OK && db->version > 0)
    status = probe(db, "main", db->path, true, err);
  if (status != FAT_OK) {
    fat_db_close(db);
    return status;
  }
  fat_db_bound(db, db->patience); /* what is left, of the connection to a copy in memory too */
  sqlite3_set_authorizer(db->sql, only_reading, NULL);
  *out = db;
  return FAT_OK;
}

void fat_db_close(fat_db *db)
{
  if (!db)
    return;
  fat_db_unlock(db);
  /* In a forked child the connection is the parent's: closing it could undo the parent's transaction. */
  if (db->pid == getpid())
    disconnect(db);
  free(db);
}

const char *fat_db_note(const fat_db *db)
{
  return db->note;
}
