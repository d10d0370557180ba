/* sql.c -- statements, transactions and errors of one database handle.
 *
 * In: SQL text and values. Out: rows, or a fat_status with a sentence that names the file and what to do.
 * Invariant: no public call but fat_db_read_begin returns with a transaction open, none with a kept statement
 * that still holds a row. */
#include "private.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

/* Rows of the config that the trial ?1 has, at its problem, on its device and of its origin. */
#define OF_CONFIG                                                                                            \
  "(problem, device, config, origin) = (SELECT problem, device, config, origin FROM main.trial WHERE id = "  \
  "?1)"
/* Row o was made of the same source by the same tools as row n, in another run. */
#define SAME_KEY                                                                                             \
  "o.problem = n.problem AND o.device = n.device AND o.config = n.config AND o.source = n.source"            \
  " AND o.toolchain = n.toolchain AND o.origin = n.origin AND o.id <> n.id"

static const char *const texts[FAT_SQL_COUNT] = {
#define STATEMENT(name, text) text,
#include "sql.def"
#undef STATEMENT
};

static const struct {
  int code; /* SQLite's primary code */
  fat_status status;
  const char *advice;
} failures[] = {
    {SQLITE_NOMEM, FAT_E_NOMEM, "out of memory"},
    {SQLITE_FULL, FAT_E_FULL,
     "no space left: make room and run the same command again, what was stored is safe"},
    {SQLITE_READONLY, FAT_E_READONLY, "the file or its folder cannot be written"},
    {SQLITE_PERM, FAT_E_READONLY, "the file or its folder cannot be written"},
    {SQLITE_CANTOPEN, FAT_E_IO, "the file or its journal cannot be opened"},
    {SQLITE_AUTH, FAT_E_CORRUPT, "it asks for more than reading its own tables"},
    {SQLITE_BUSY, FAT_E_BUSY,
     "another process, a viewer perhaps, keeps it locked: try again when that is done"},
    {SQLITE_LOCKED, FAT_E_BUSY, "another part of this process holds it"},
    {SQLITE_NOTADB, FAT_E_FOREIGN,
     "the file is not a fatune database: it is left as it is, name another one"},
    {SQLITE_CORRUPT, FAT_E_CORRUPT,
     "the file is damaged: see `fatune doctor`, or move it away to begin a new one"},
    {SQLITE_INTERRUPT, FAT_E_LIMIT, "reading it takes too long"},
    {SQLITE_TOOBIG, FAT_E_INPUT, "a value is too large to be stored"},
    {SQLITE_IOERR, FAT_E_IO, "reading or writing the file failed"},
};

/* A quota or a file-size limit reads as a plain write error: what the system said is in one of three places,
 * depending on which file it was and what SQLite did since. */
static bool no_room(sqlite3 *sql, int recent)
{
  int codes[] = {recent, sqlite3_system_errno(sql), 0};
  sqlite3_file_control(sql, "main", SQLITE_FCNTL_LAST_ERRNO, &codes[2]);
  for (int i = 0; i < 3; i++)
    if (codes[i] == ENOSPC || codes[i] == EFBIG || codes[i] == EDQUOT)
      return true;
  return false;
}

/* Whether damage that was met lies in the system's file: the user's holds together. */
static bool is_of_system(const fat_db *db, sqlite3 *sql, int primary)
{
  sqlite3_stmt *stmt = NULL;
  if (!db->system || sql != db->sql || (primary != SQLITE_CORRUPT && primary != SQLITE_NOTADB))
    return false;
  sqlite3_prepare_v2(sql, "PRAGMA main.quick_check(1)", -1, &stmt, NULL);
  const char *found = sqlite3_step(stmt) == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
  const bool sound = found && strcmp(found, "ok") == 0;
  sqlite3_finalize(stmt);
  return sound;
}

fat_status fat_db_fail(const fat_db *db, sqlite3 *sql, const char *what, fat_error *err)
{
  int os = errno;
  int code = sql ? sqlite3_extended_errcode(sql) : SQLITE_NOMEM;
  int primary = code & 0xff;
  if (code == SQLITE_IOERR_NOMEM)
    primary = SQLITE_NOMEM;
  if (primary == SQLITE_IOERR && no_room(sql, os))
    primary = SQLITE_FULL;
  if (primary == SQLITE_FULL && strcmp(what, "reading") == 0) /* the first look into a new file writes */
    what = "writing";
  if (sql && sqlite3_system_errno(sql))
    os = sqlite3_system_errno(sql);
  if (primary == SQLITE_CANTOPEN && (os == EACCES || os == EROFS || os == EPERM))
    primary = SQLITE_READONLY;
  const char *path = db->named ? db->named : db->path[0] ? db->path : "(in memory)";
  if (!db->named && is_of_system(db, sql, primary))
    return fat_status_fail(err, FAT_E_CORRUPT,
                           "the package's database %s is damaged: install fatune again, or go without it by "
                           "FATUNE_SYSTEM_DB= (empty)",
                           db->system_path);
  if (code == SQLITE_READONLY_ROLLBACK || code == SQLITE_READONLY_RECOVERY)
    return fat_status_fail(
        err, FAT_E_READONLY,
        "database %s: a broken-off transaction must be undone first, which needs write access:"
        " open it once with an account that may write (fatune show --db %s)",
        path, path);
  for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
    if (failures[i].code == primary)
      return fat_status_fail(err, failures[i].status, "database %s: %s: %s", path, what, failures[i].advice);
  if (code == SQLITE_CONSTRAINT_FOREIGNKEY)
    return fat_status_fail(err, FAT_E_INPUT, "database %s: %s: it names a run that is not there", path, what);
  return fat_status_fail(err, FAT_E_DB, "database %s: %s: %s", path, what, sql ? sqlite3_errmsg(sql) : "");
}

fat_status fat_db_refuse_newer(const fat_db *db, int target, fat_error *err)
{
  return fat_status_fail(
      err, FAT_E_NEWER,
      "database %s has version %d.%d, this fatune writes %d.%d: it can be read, not written;"
      " update fatune or name another database",
      db->path, db->version / 1000, db->version % 1000, target / 1000, target % 1000);
}

fat_status fat_db_ready(const fat_db *db, bool write, fat_error *err)
{
  if (db->pid != getpid())
    return fat_status_fail(
        err, FAT_E_DB, "database %s was opened by process %ld before a fork: open it again in this process",
        db->path, (long)db->pid);
  if (!write || db->writable)
    return FAT_OK;
  if (db->version > FAT_DB_VERSION)
    return fat_db_refuse_newer(db, FAT_DB_VERSION, err);
  return fat_status_fail(err, FAT_E_READONLY, "database %s was opened for reading only", db->path);
}

void fat_db_remark(fat_db *db, const char *format, ...)
{
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  size_t used = strlen(db->note);
  if (strstr(db->note, text) || used + strlen(text) + 3 > sizeof db->note)
    return;
  snprintf(db->note + used, sizeof db->note - used, "%s%s", used ? "; " : "", text);
}

fat_status fat_db_prepare(fat_db *db, sqlite3 *sql, const char *text, sqlite3_stmt **stmt, fat_error *err)
{
  if (sqlite3_prepare_v2(sql, text, -1, stmt, NULL) != SQLITE_OK)
    return fat_db_fail(db, sql, "reading", err);
  return FAT_OK;
}

fat_status fat_db_again(fat_db *db, const char *text, sqlite3_stmt **stmt, fat_error *err)
{
  for (int i = 0; i < FAT_DB_ASKED && db->asked[i]; i++)
    if (strcmp(sqlite3_sql(db->asked[i]), text) == 0) {
      *stmt = db->asked[i]; /* whoever asks has it alone until it is done */
      memmove(&db->asked[i], &db->asked[i + 1], (size_t)(FAT_DB_ASKED - 1 - i) * sizeof *stmt);
      db->asked[FAT_DB_ASKED - 1] = NULL;
      return FAT_OK;
    }
  return fat_db_prepare(db, db->sql, text, stmt, err);
}

void fat_db_done(fat_db *db, sqlite3_stmt *stmt)
{
  if (!stmt)
    return;
  fat_db_release(stmt);
  sqlite3_finalize(db->asked[FAT_DB_ASKED - 1]); /* the one not asked for longest */
  memmove(&db->asked[1], &db->asked[0], (FAT_DB_ASKED - 1) * sizeof stmt);
  db->asked[0] = stmt;
}

fat_status fat_db_kept(fat_db *db, fat_db_sql which, sqlite3_stmt **stmt, fat_error *err)
{
  if (!db->kept[which] && sqlite3_prepare_v3(db->sql, texts[which], -1, SQLITE_PREPARE_PERSISTENT,
                                             &db->kept[which], NULL) != SQLITE_OK)
    return fat_db_fail(db, db->sql, "preparing a statement", err);
  *stmt = db->kept[which];
  fat_db_release(*stmt);
  return FAT_OK;
}

static fat_status bind(fat_db *db, sqlite3_stmt *stmt, fat_error *err, const char *types, va_list args)
{
  int rc = SQLITE_OK;
  for (int i = 0; types[i] && rc == SQLITE_OK; i++) {
    if (types[i] == 't') {
      rc = sqlite3_bind_text(stmt, i + 1, va_arg(args, const char *), -1, SQLITE_STATIC);
    } else if (types[i] == 'd') { /* SQLite stores NAN as NULL */
      rc = sqlite3_bind_double(stmt, i + 1, va_arg(args, double));
    } else if (types[i] == 'i') {
      rc = sqlite3_bind_int64(stmt, i + 1, va_arg(args, int64_t));
    } else {
      rc = sqlite3_bind_int(stmt, i + 1, va_arg(args, int));
    }
  }
  if (rc == SQLITE_OK)
    return FAT_OK;
  fat_status status = fat_db_fail(db, sqlite3_db_handle(stmt), "binding values", err);
  fat_db_release(stmt);
  return status;
}

fat_status fat_db_bind(fat_db *db, sqlite3_stmt *stmt, fat_error *err, const char *types, ...)
{
  va_list args;
  va_start(args, types);
  fat_status status = bind(db, stmt, err, types, args);
  va_end(args);
  return status;
}

fat_status fat_db_do(fat_db *db, fat_db_sql which, int64_t *value, fat_error *err, const char *types, ...)
{
  sqlite3_stmt *stmt;
  va_list args;
  FAT_TRY(fat_db_kept(db, which, &stmt, err));
  va_start(args, types);
  fat_status status = bind(db, stmt, err, types, args);
  va_end(args);
  return status == FAT_OK ? fat_db_finish(db, stmt, value, err) : status;
}

fat_status fat_db_step(fat_db *db, sqlite3_stmt *stmt, bool *row, fat_error *err)
{
  int rc = sqlite3_step(stmt);
  *row = rc == SQLITE_ROW;
  if (*row)
    return FAT_OK;
  fat_status status = FAT_OK;
  if (rc != SQLITE_DONE)
    status =
        fat_db_fail(db, sqlite3_db_handle(stmt), sqlite3_stmt_readonly(stmt) ? "reading" : "writing", err);
  fat_db_release(stmt);
  return status;
}

fat_status fat_db_finish(fat_db *db, sqlite3_stmt *stmt, int64_t *value, fat_error *err)
{
  bool row = true, first = true;
  if (value)
    *value = 0;
  while (row) {
    FAT_TRY(fat_db_step(db, stmt, &row, err));
    if (row && first && value)
      *value = sqlite3_column_int64(stmt, 0);
    first = false;
  }
  return FAT_OK;
}

void fat_db_release(sqlite3_stmt *stmt)
{
  sqlite3_reset(stmt);
  sqlite3_clear_bindings(stmt);
}

fat_status fat_db_run_sql(fat_db *db, const char *text, fat_error *err)
{
  if (sqlite3_exec(db->sql, text, NULL, NULL, NULL) != SQLITE_OK)
    return fat_db_fail(db, db->sql, "preparing the file", err);
  return FAT_OK;
}

fat_status fat_db_number(fat_db *db, const char *schema, const char *query, int64_t *value, fat_error *err)
{
  sqlite3_stmt *stmt = NULL;
  char text[512];
  snprintf(text, sizeof text, query, schema);
  FAT_TRY(fat_db_prepare(db, db->sql, text, &stmt, err));
  fat_status status = fat_db_finish(db, stmt, value, err);
  sqlite3_finalize(stmt);
  return status;
}

bool fat_db_copy(sqlite3 *to, sqlite3 *from)
{
  sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
  if (!backup)
    return false;
  sqlite3_backup_step(backup, -1);
  return sqlite3_backup_finish(backup) == SQLITE_OK;
}

static void roll_back(fat_db *db)
{
  sqlite3_stmt *stmt = db->kept[FAT_SQL_ROLLBACK];
  if (!stmt || sqlite3_get_autocommit(db->sql))
    return;
  fat_db_release(stmt);
  sqlite3_step(stmt);
  fat_db_release(stmt);
}

fat_status fat_db_begin(fat_db *db, fat_error *err)
{
  sqlite3_stmt *stmt;
  /* Prepared now: undoing must not need memory. */
  FAT_TRY(fat_db_kept(db, FAT_SQL_ROLLBACK, &stmt, err));
  FAT_TRY(fat_db_kept(db, FAT_SQL_COMMIT, &stmt, err));
  roll_back(db);
  return fat_db_do(db, FAT_SQL_BEGIN, NULL, err, "");
}

fat_status fat_db_end(fat_db *db, fat_status status, fat_error *err)
{
  if (status == FAT_OK)
    status = fat_db_do(db, FAT_SQL_COMMIT, NULL, err, "");
  roll_back(db);
  return status;
}

/* A failure here only costs time: each read then takes the lock by itself. */
void fat_db_read_begin(fat_db *db)
{
  if (fat_db_ready(db, false, NULL) == FAT_OK && !db->writable && sqlite3_get_autocommit(db->sql))
    sqlite3_exec(db->sql, "BEGIN", NULL, NULL, NULL);
}

void fat_db_read_end(fat_db *db)
{
  if (fat_db_ready(db, false, NULL) == FAT_OK && !db->writable && !sqlite3_get_autocommit(db->sql))
    sqlite3_exec(db->sql, "COMMIT", NULL, NULL, NULL);
}

static void (*on_wait)(const char *path);

void fat_db_on_wait(void (*say)(const char *path))
{
  on_wait = say;
}

void fat_db_wait(fat_db *db, int seconds)
{
  db->wait = 1000 * seconds;
}

/* Whether SQLite is to try again for a lock, after a pause. */
static int wait_again(void *user, int tries)
{
  enum { NOTABLE = 1000 };
  fat_db *db = user;
  const int pause = tries < 6 ? 1 << tries : 50;
  db->waited = tries == 0 ? 0 : db->waited;
  if (db->waited >= db->wait)
    return 0;
  sqlite3_sleep(pause);
  if (on_wait && db->waited < NOTABLE && db->waited + pause >= NOTABLE)
    on_wait(db->path);
  db->waited += pause;
  return 1;
}

fat_status fat_db_configure(fat_db *db, sqlite3 *sql, fat_error *err)
{
  sqlite3_db_config(sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  sqlite3_db_config(sql, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
  sqlite3_db_config(sql, SQLITE_DBCONFIG_ENABLE_FKEY, 1, NULL);
  sqlite3_limit(sql, SQLITE_LIMIT_LENGTH, FAT_DB_LENGTH);
  sqlite3_limit(sql, SQLITE_LIMIT_ATTACHED, 1);
  sqlite3_busy_handler(sql, wait_again, db);
  fat_db_wait(db, 5);
  if (sqlite3_exec(sql, "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;",
                   NULL, NULL, NULL) != SQLITE_OK)
    return fat_db_fail(db, sql, "opening", err);
  return FAT_OK;
}

static int count_down(void *left)
{
  return --*(long *)left < 0;
}

void fat_db_bound(fat_db *db, long millions)
{
  db->patience = millions;
  sqlite3_progress_handler(db->sql, millions ? 1000000 : 0, count_down, &db->patience);
}
