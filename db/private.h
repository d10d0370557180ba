/* private.h -- what the files of db/ share: the handle, statements, rows, migration steps.
 *
 * A handle is one SQLite connection: `main` is the user's file (or an empty database in memory where there
 * is none to read), `system` the read-only file below it, attached only when it is usable. */
#ifndef FAT_DB_PRIVATE_H
#define FAT_DB_PRIVATE_H

#include "db.h"
#include <sqlite3.h>
#include <sys/types.h>

enum {
  FAT_DB_VERSION = 1004, /* major * 1000 + minor of the schema this program knows */
  FAT_DB_PATH = 4096,
  FAT_DB_SAMPLES = 100000,  /* of one trial */
  FAT_DB_LENGTH = 1 << 28,  /* bytes of one value or row */
  FAT_DB_FOREIGN = 1 << 24, /* the same, of a foreign file */
  FAT_DB_LOG = 1 << 16,     /* bytes kept of a compiler log, a detail, a compile key */
  FAT_DB_ASKED = 12,        /* statements that are kept because they may be asked again */
  FAT_DB_WORD = 128,        /* bytes of a hash, a version, a date, a name */
};
#define FAT_DB_MS 1e30 /* longest time of a trial: a forecast of the longest rows of the most heads */

#ifndef FATUNE_SYSTEM_DB /* where a package puts its database */
#define FATUNE_SYSTEM_DB "/usr/share/fatune/fatune.db"
#endif

/* How many clocks a trial takes: a race times its finalists under load, where power holds the frequency down,
 * and others not, so that times of both do not compare. */
#define FAT_DB_CLOCKS(schema, trial)                                                                         \
  trial ".ms * iif(" trial ".clock_mhz > 0, " trial ".clock_mhz, (SELECT f.clock FROM " schema               \
        ".device f WHERE f.id = " trial ".device))"

/* That trial t counts: it is the current one of its config, works and has a time; and that it may win. The
 * indexes trial_kernel and trial_winner of schema.sql say the same. */
#define FAT_DB_WORKS   "t.current = 1 AND t.outcome = 'ok' AND t.ms > 0"
#define FAT_DB_MAY_WIN "t.eligible = 1 AND " FAT_DB_WORKS

/* What trial t costs, in comparison with the others of its problem and device; `among` says which trials l
 * those are. It is the mean if the one that takes the fewest clocks has one, and a trial without a mean comes
 * last then; else the time. */
#define FAT_DB_COST(schema, problem, device, among)                                                          \
  "iif((SELECT l.mean FROM " schema ".trial l WHERE l.problem = " problem " AND l.device = " device          \
  " AND " among " AND l.current = 1 AND l.outcome = 'ok' AND l.ms > 0 ORDER BY l.origin, " FAT_DB_CLOCKS(    \
      schema, "l") ", l.id LIMIT 1) > 0, iif(t.mean > 0, t.mean, 9e999), t.ms)"

/* The samples of a trial, then its kinds, as fat_db_row_samples takes them. */
#define FAT_DB_TIMES                                                                                         \
  "SELECT ms, clock, NULL AS name, n AS place FROM %1$s.sample WHERE trial = ?1 UNION ALL"                   \
  " SELECT ms, NULL, name, 1000000 + n FROM %1$s.kind WHERE trial = ?1 ORDER BY place"

typedef enum fat_db_sql {
#define STATEMENT(name, text) FAT_SQL_##name,
#include "sql.def"
#undef STATEMENT
  FAT_SQL_COUNT
} fat_db_sql;

typedef struct fat_db_hold { /* a tuning lock */
  int fd;
  char path[FAT_DB_PATH + 32];
  struct fat_db_hold *next;
} fat_db_hold;

struct fat_db {
  sqlite3 *sql;
  sqlite3_stmt *kept[FAT_SQL_COUNT];
  sqlite3_stmt *asked[FAT_DB_ASKED]; /* of fat_db_again, the latest first */
  pid_t pid;                         /* of the process that opened it */
  bool writable;
  bool memory; /* main is in memory: there is no user's file, or it is older and was migrated there */
  bool system; /* a system file is attached */
  int version; /* of the user's file as it was found */
  char path[FAT_DB_PATH]; /* of the user's file, without links */
  char system_path[FAT_DB_PATH];
  const char *named; /* what errors name instead of the user's file; NULL: nothing */
  fat_db_hold *holds;
  int wait, waited; /* milliseconds: how long a lock is waited for, how long it has been */
  long patience;    /* millions of steps left, where they are bounded (fat_db_bound) */
  char note[640];
};

/* -- sql.c: statements, transactions, errors */

/* Every public call starts here: FAT_E_DB in a forked child, FAT_E_READONLY where `write` cannot be. */
fat_status fat_db_ready(const fat_db *db, bool write, fat_error *err);
fat_status fat_db_refuse_newer(const fat_db *db, int target, fat_error *err);
/* The status of the connection's last error, with a sentence about `what` ("storing a trial"). */
fat_status fat_db_fail(const fat_db *db, sqlite3 *sql, const char *what, fat_error *err);
fat_status fat_db_prepare(fat_db *db, sqlite3 *sql, const char *text, sqlite3_stmt **stmt, fat_error *err);
/* The same on the handle's own connection; a text that was prepared lately is not prepared again, which takes
 * as long as to find a row. Ends with fat_db_done. */
fat_status fat_db_again(fat_db *db, const char *text, sqlite3_stmt **stmt, fat_error *err);
void fat_db_done(fat_db *db, sqlite3_stmt *stmt); /* NULL is allowed */
fat_status fat_db_kept(fat_db *db, fat_db_sql which, sqlite3_stmt **stmt, fat_error *err);
/* Binds from the first parameter on: t text (NULL is NULL), d double (NAN is NULL), i int64_t, n int. */
fat_status fat_db_bind(fat_db *db, sqlite3_stmt *stmt, fat_error *err, const char *types, ...);
/* One step. *row says whether a row stands; else the statement is reset and free of its parameters. */
fat_status fat_db_step(fat_db *db, sqlite3_stmt *stmt, bool *row, fat_error *err);
/* Steps a kept statement to its end; *value (may be NULL) is the first column of its first row, else 0. */
fat_status fat_db_finish(fat_db *db, sqlite3_stmt *stmt, int64_t *value, fat_error *err);
/* A kept statement from its parameters (as fat_db_bind has them) to its end. */
fat_status fat_db_do(fat_db *db, fat_db_sql which, int64_t *value, fat_error *err, const char *types, ...);
void fat_db_release(sqlite3_stmt *stmt); /* reset, parameters cleared */
/* A stored content. ORDER CONTENT */
typedef enum fat_db_contents { FAT_DB_SOURCE, FAT_DB_RECIPE, FAT_DB_BINARY } fat_db_contents;
/* Looks up one content: *bytes, from malloc and ended by a zero, stays NULL where nothing is kept or what is
 * kept is damaged (a remark). `target` (may be NULL) is the label of a binary. */
fat_status fat_db_content(fat_db *db, const char *schema, fat_db_contents which, const char *hash,
                          unsigned char **bytes, size_t *size, char target[16], fat_error *err);
/* Runs SQL of ours that gives no rows. */
fat_status fat_db_run_sql(fat_db *db, const char *text, fat_error *err);
/* The one number that a query gives; it has %s for the schema. */
fat_status fat_db_number(fat_db *db, const char *schema, const char *query, int64_t *value, fat_error *err);
/* The whole content of one connection into another. */
bool fat_db_copy(sqlite3 *to, sqlite3 *from);
fat_status fat_db_begin(fat_db *db, fat_error *err);
/* Commits where `status` is FAT_OK, else, or where that fails, undoes all since the beginning. */
fat_status fat_db_end(fat_db *db, fat_status status, fat_error *err);
void fat_db_remark(fat_db *db, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets or clears the winner row of a problem and device, by their ids. */
fat_status fat_db_choose_winner(fat_db *db, int64_t problem, int64_t device, fat_error *err);
/* Whether any reader and JSON can take it: at most `most` bytes of UTF-8, no control bytes but line ends and
 * tabs. */
bool fat_db_is_text(const char *text, size_t most);
/* A copy that any reader and JSON can take: cut at `most`, control bytes and broken UTF-8 become '?'. NULL
 * where there is no memory. */
char *fat_db_clean(const char *text, size_t most);
/* The settings every connection gets before the first byte of its file is trusted. */
fat_status fat_db_configure(fat_db *db, sqlite3 *sql, fat_error *err);
/* From here on the connection's statements may take so many millions of SQLite's steps together, then they
 * fail with FAT_E_LIMIT; 0: any number. */
void fat_db_bound(fat_db *db, long millions);

/* -- access.c: who may touch the file */

/* Finds the user's file without links and checks owner and modes of file, journal and folder. With
 * FAT_DB_WRITE missing folders and the file are made. *exists says whether there is a file with content to
 * read. */
fat_status fat_db_access(const char *path, fat_db_mode mode, char real[FAT_DB_PATH], bool *exists,
                         fat_error *err);
/* "NFS", "Lustre", ... of a statfs magic; NULL if the file system is no network's. */
const char *fat_db_network(long magic);
const char *fat_db_network_of(const char *path);

/* -- lock.c */
void fat_db_unlock(fat_db *db); /* gives back every tuning lock */
/* Whether a process holds the tuning lock of the device with these facts. */
bool fat_db_is_tuned(const fat_db *db, const char *facts);

/* -- migrate.c */

enum { FAT_DB_PARTS = 5 };
typedef struct fat_db_migration {
  int from, to;
  const char *parts[FAT_DB_PARTS]; /* in order: SQL, or the name of an embedded file, db/...; NULL: none */
} fat_db_migration;
extern const fat_db_migration fat_db_migrations[];
extern const int fat_db_migration_count;
/* Brings main from its version to `target` in one transaction, after a copy beside the file where it has
 * content. The path of the copy is part of the note. */
fat_status fat_db_migrate(fat_db *db, const fat_db_migration *steps, int count, int target, fat_error *err);

/* -- open.c: fat_db_open with another list of steps and another version, for tests */
fat_status fat_db_open_version(const char *path, const char *system, fat_db_mode mode,
                               const fat_db_migration *steps, int count, int target, fat_db **db,
                               fat_error *err);

/* A file made by anybody, for merging: no check of its owner, but nothing in it is run, written or followed,
 * and reading it ends after a bounded amount of work. */
fat_status fat_db_open_foreign(const char *path, fat_db **db, fat_error *err);

/* -- row.c: a trial as a row of a statement */

/* The columns of a row, in the order of columns.def; import and merge deliver the same. */
typedef enum fat_db_column {
#define COLUMN(table, name, value, member, low, high, shipped) FAT_ROW_##name,
#include "columns.def"
#undef COLUMN
  FAT_ROW_COUNT
} fat_db_column;

typedef enum fat_db_value {
  FAT_VALUE_ID,    /* of a row: int64_t, NULL is 0 */
  FAT_VALUE_WHOLE, /* int within its range */
  FAT_VALUE_LONG,  /* int64_t within its range */
  FAT_VALUE_REAL,  /* double from 0 on, NULL is NAN */
  FAT_VALUE_KNOWN, /* the same, never NULL */
  FAT_VALUE_WORD,  /* plain text on one line; NULL is "" */
  FAT_VALUE_TEXT,  /* text */
  FAT_VALUE_LOG,   /* text that stays at home */
  FAT_VALUE_NAME,  /* of a GPU: a plain word in an array */
  FAT_VALUE_DATE,
  FAT_VALUE_SAMPLES, /* int: how many rows of table sample; in JSON the samples themselves */
  FAT_VALUE_OUTCOME,
  FAT_VALUE_ORIGIN,
  FAT_VALUE_PROBLEM,
  FAT_VALUE_CONFIG,
  FAT_VALUE_FACTS, /* of the device: must say what its numbers say */
} fat_db_value;

typedef enum fat_db_shipped { FAT_SHIPPED_HOME, FAT_SHIPPED_ROW, FAT_SHIPPED_ALL } fat_db_shipped;

typedef struct fat_db_field {
  char table; /* its letter in columns.def */
  const char *name;
  const char *path; /* in JSON, and in messages */
  const char *sql;  /* in a SELECT of a row; %1$s: the schema */
  fat_db_value value;
  size_t member; /* offset in fat_db_row */
  double low, high;
  fat_db_shipped shipped;
} fat_db_field;
extern const fat_db_field fat_db_fields[FAT_ROW_COUNT]; /* column.c, as are: */
extern const char *const fat_db_outcomes[FAT_OUTCOME_COUNT], *const fat_db_origins[FAT_ORIGIN_COUNT];

/* Whether a column is exported and imported; the others stay at home. */
bool fat_db_travels(const fat_db_field *f);

/* "SELECT <columns> FROM <schema>.trial t JOIN ..."; what follows is the caller's. */
void fat_db_row_select(fat_text *sql, const char *schema);

typedef struct fat_db_row {
  fat_trial trial; /* first: a trial is bound by the offsets of its row; strings are the statement's, samples
                      this row's */
  const char *nvrtc, *version, *recipe, *binary;
  const char *mod, *mask_mod; /* what its problem's expressions say; "": nothing is known */
  double *times, *clocks;
  int room;
} fat_db_row;

/* Statement -> row, every value checked: FAT_E_CORRUPT with what is wrong, FAT_E_NOMEM. Samples stay out. */
fat_status fat_db_row_read(sqlite3_stmt *stmt, fat_db_row *row, fat_error *err);
/* Binds the columns of table trial that columns.def has, in order, from parameter `first` on. */
fat_status fat_db_row_bind(fat_db *db, sqlite3_stmt *stmt, int first, const fat_trial *trial, fat_error *err);
/* Fills samples and kinds from a statement of (ms, clock, NULL) and (ms, NULL, name) rows; resets it. */
fat_status fat_db_row_samples(sqlite3_stmt *stmt, fat_db_row *row, fat_error *err);
void fat_db_row_free(fat_db_row *row);

/* Rows of one file, one after the other: read.c. Starts as {0}. */
typedef struct fat_db_rows {
  sqlite3_stmt *stmt;
  sqlite3_stmt *samples; /* takes a trial's id; NULL: rows come without samples and kinds */
  fat_db_row row;
} fat_db_rows;
/* Prepares "SELECT <row> <tail>", where the tail has %1$s for the schema; its parameters are the caller's. */
fat_status fat_db_rows_open(fat_db *db, const char *schema, const char *tail, bool samples, fat_db_rows *rows,
                            fat_error *err);
/* Reads the row that stands, whole. FAT_E_CORRUPT: it is damaged, which is remarked. */
fat_status fat_db_rows_read(fat_db *db, fat_db_rows *rows, fat_error *err);
void fat_db_rows_close(fat_db *db, fat_db_rows *rows);

/* Stores them, and tells this process what is stored. */
fat_status fat_db_mods_put(fat_db *db, const fat_problem *p, fat_error *err);
fat_status fat_db_mods_know(const fat_problem *p, const char *mod, const char *mask_mod, fat_error *err);

/* What a trial must be to be stored: FAT_E_INPUT with the value that is wrong. */
fat_status fat_db_trial_check(const fat_trial *trial, fat_error *err);

/* -- run.c */

/* A run row; one whose status is not "running" ends at once. */
fat_status fat_db_run_add(fat_db *db, const char *status, const fat_run *run, int64_t *id, fat_error *err);

/* -- put.c */

/* fat_db_put inside a transaction that is open. `date` NULL: now, and the trial is the current one of its
 * config; else the one of the latest date is. */
fat_status fat_db_put_row(fat_db *db, fat_trial *trial, const fat_artifact *artifact, const char *date,
                          fat_error *err);
/* Whether a trial from elsewhere is better than ours of the same key, or we have none. *bare: the id of ours
 * where it has no binary, else 0. */
fat_status fat_db_put_compare(fat_db *db, const fat_trial *trial, bool *better, int64_t *bare,
                              fat_error *err);
/* fat_db_put_artifact inside a transaction that is open. */
fat_status fat_db_put_code(fat_db *db, int64_t trial, const fat_artifact *artifact, fat_error *err);

/* One row from elsewhere, on which a statement stands, with the statement of its samples. A row that is
 * refused is counted, with where it stood, and is no failure. */
fat_status fat_db_take_row(fat_db *db, sqlite3_stmt *stmt, sqlite3_stmt *samples, fat_db_row *row,
                           const char *where, long number, fat_import *counts, fat_error *err);
void fat_db_take_refuse(fat_import *counts, const char *where, long number, const char *why);

#endif
