/* db.h -- the tuning database: trials in, best out. The only folder with SQL.
 *
 * One SQLite file (schema.sql), rollback journal, one transaction per trial. A handle is the user's own file
 * and, under it, the read-only system file; reads look at both and the user's wins, except that a predicted
 * row never wins over a measured one. Damage is a miss for readers, a clear status for commands. A handle
 * belongs to one thread and is refused in a forked child. */
#ifndef FAT_DB_H
#define FAT_DB_H

#include "gpu.h"
#include "config.h"
#include "problem.h"
#include "status.h"
#include "text.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct fat_db fat_db;

/* Names as in DESIGN: "ok", "wrong", "spills", "compile-failed", ... ORDER OUTCOME */
typedef enum fat_outcome {
  FAT_OUT_OK,
  FAT_OUT_WRONG,
  FAT_OUT_SPILLS,
  FAT_OUT_COMPILE_FAILED,
  FAT_OUT_LAUNCH_FAILED,
  FAT_OUT_FAULT,
  FAT_OUT_TIMEOUT,
  FAT_OUT_OOM,
  FAT_OUT_UNFIT,
  FAT_OUT_SLOW,
  FAT_OUTCOME_COUNT
} fat_outcome;
typedef enum fat_origin { FAT_MEASURED, FAT_PREDICTED, FAT_ORIGIN_COUNT } fat_origin; /* ORDER ORIGIN */
const char *fat_db_outcome_name(fat_outcome o);
const char *fat_db_origin_name(fat_origin o);

/* How to open. */
typedef enum fat_db_mode {
  FAT_DB_READ,  /* never writes but to undo what a killed writer left half done; never creates:
                   FAT_E_NOT_FOUND where there is neither a file nor a system file */
  FAT_DB_WRITE, /* creates file (0600) and folders (0700) if missing, migrates an older version */
} fat_db_mode;

/* Path of the user's file: `given` (--db), else FATUNE_DB, else $XDG_DATA_HOME/fatune/fatune.db, else
 * ~/.local/share/fatune/fatune.db. FAT_E_INPUT if none of them can be formed. */
fat_status fat_db_path(const char *given, fat_text *path, fat_error *err);
/* Path of the system file: FATUNE_SYSTEM_DB, else share/fatune/fatune.db beside the folder of the program or
 * library that holds this code, or one or two above, else the one compiled in. */
const char *fat_db_system_path(void);

/* `system` NULL: no system file. `path` NULL: no user's file, for reading alone. A system file that is
 * missing or unusable is left out, with the reason kept for fat_db_note. Errors of the user's file: FOREIGN,
 * NEWER, CORRUPT, DENIED, READONLY, BUSY, FULL. */
fat_status fat_db_open(const char *path, const char *system, fat_db_mode mode, fat_db **db, fat_error *err);
/* Whether FAT_E_NOT_FOUND of an open says why the system's file is left out. */
bool fat_db_left_out(const fat_error *err);
void fat_db_close(fat_db *db);
/* How long what another process holds is waited for, before FAT_E_BUSY: 5 seconds unless this says otherwise.
 */
void fat_db_wait(fat_db *db, int seconds);
/* Called once a wait has taken a second, whichever handle's; NULL: nobody is. For a program to set as it
 * begins. */
void fat_db_on_wait(void (*say)(const char *path));
const char *fat_db_note(const fat_db *db); /* "" or one sentence worth telling a person */

/* One tuning session per database and device: held by the kernel's file lock until closed or the process
 * dies. FAT_E_BUSY says who (pid, host, since). Different devices do not exclude each other. */
fat_status fat_db_lock_tuning(fat_db *db, const fat_gpu *device, fat_error *err);

/* A run: one command that makes trials. */
typedef struct fat_run {
  const char *command;   /* as typed */
  const char *version;   /* of fatune */
  const char *driver;    /* "580.159" or "" */
  const char *nvrtc;     /* "13.0" or "" */
  const char *templates; /* hash over the templates */
  const char *host;      /* label of the machine */
  const char *model;     /* of the forecasts: "model 3" */
  const char *device;    /* facts of the GPU; "" for an import */
} fat_run;
fat_status fat_db_run_begin(fat_db *db, const fat_run *run, int64_t *id, fat_error *err);
/* status: "done", "interrupted", "budget", "failed". A run that never ended reads as "running" while the
 * tuning lock of its device is held, else as "stopped". */
fat_status fat_db_run_end(fat_db *db, int64_t id, const char *status, fat_error *err);

/* How many configs of a kernel a run leaves out for one reason. A reason that the run gave before stays. */
typedef struct fat_db_rejection {
  const fat_problem *problem;
  const char *kernel, *reason;
  long count;
} fat_db_rejection;
fat_status fat_db_put_rejections(fat_db *db, int64_t run, const fat_gpu *gpu, const fat_db_rejection *list,
                                 int count, fat_error *err);

/* How long a call takes on one kind of data. */
enum { FAT_KIND_TIME_NAME = 16, FAT_KIND_TIMES = 16 };
typedef struct fat_kind_time {
  char name[FAT_KIND_TIME_NAME]; /* normal, wide, rise100, ...: lower case and digits */
  double ms;
} fat_kind_time;

#define FAT_DB_BELOW INT64_MIN

/* One trial, whole. Strings are borrowed. Times are milliseconds; NAN or 0 samples: nothing was timed. */
typedef struct fat_trial {
  int64_t id; /* set by put and by readers; increases with time; negative: a row of the read-only system file,
                 FAT_DB_BELOW + its id there */
  int64_t run;
  fat_problem problem;
  fat_gpu gpu;
  fat_config config;
  int eligible; /* whether this kernel may win unasked (fat_space_applies) */
  const char *source_hash;
  const char *templates;   /* hash over all templates when it was made */
  const char *compile_key; /* NVRTC version, options, environment */
  const char *driver;      /* "" where nothing was launched */
  const char *made_by;     /* "": measured by a tune; "model 3", "package 0.1.0", "libfatune 0.1.0" */
  const char *made_as;     /* compiled on demand: FAT_MADE_...; "" otherwise */
  fat_outcome outcome;
  fat_origin origin;
  double ms, p20, p80; /* measured: of the samples; predicted: ms alone */
  double mean;         /* over the kinds; NAN or 0: it was in no race that timed them */
  fat_kind_time kinds[FAT_KIND_TIMES];
  int kind_count;
  double forecast;       /* milliseconds by the model, also where it was measured */
  const double *samples; /* milliseconds, in order of measurement */
  const double *clocks;  /* effective SM MHz of each sample */
  int sample_count;
  double clock_mhz;                /* median of clocks */
  double error_max, error_allowed; /* of verification */
  const char *limit;               /* what binds, by the model: "fma", "shared", "dram", ... */
  int registers, stack, spills, shared, blocks_per_sm; /* worst entry; shared = static + dynamic of a block */
  double compile_seconds;
  const char *twin_of; /* the config that it stands in for where tensors are not aligned; "" otherwise */
  const char *race;    /* when the race began that it was in; "": none */
  int rivals;          /* so many others it was timed in turns with in that race; 0: the race broke off */
  const char *detail;  /* why it failed, or its race broke off; "" otherwise */
  const char *log;     /* compiler log of a failed one; "" otherwise */
  const char *date;    /* set by readers: UTC, ISO 8601 */
} fat_trial;

/* What a library compiled on demand. */
#define FAT_MADE_DEFAULT "default" /* the default config */
#define FAT_MADE_DEFAULT_NO_MAPS                                                                             \
  "default without maps"           /* the default where the driver makes no tensor maps */
#define FAT_MADE_REBUILT "rebuilt" /* from its stored source */
#define FAT_MADE_TWIN    "twin"

/* A trial that works and claims no time, for code that was compiled and not tried: predicted, all figures
 * unknown. What it is of and how it was made is left to the caller. */
fat_trial fat_db_untimed(void);

/* What is stored beside a trial; any may be NULL. Content is kept once per hash. */
typedef struct fat_artifact {
  const char *source; /* text */
  const char *recipe; /* canonical text */
  const unsigned char *cubin;
  size_t cubin_size;
  const char *cubin_hash;
  const char *target; /* "sm_75" */
} fat_artifact;

/* Stores a trial, its artifacts and, where it wins, the winner row of its problem and device in one
 * transaction, committed on return. The id is set in `trial`. The same (problem, device, config, source,
 * compile key, driver, maker, origin) in the same run replaces its earlier row and keeps its id; the row of
 * an earlier run stays as it was, as history, and what is stored of its code goes with the new one. Which
 * trial wins: of those that are eligible and ok a measured one before a predicted one, then that of the
 * lowest mean, if the trial that takes the fewest clocks has a mean, else of the lowest ms; of equals the
 * incumbent. Of the rows of one (problem, device, config, origin) only the latest counts: what was tried with
 * older source or tools stays readable but cannot win. FAT_E_INPUT names a value that no trial can have. */
fat_status fat_db_put(fat_db *db, fat_trial *trial, const fat_artifact *artifact, fat_error *err);

/* Attaches artifacts to a trial that is stored already (the cubins of the best, kept at the end). */
fat_status fat_db_put_artifact(fat_db *db, int64_t trial, const fat_artifact *artifact, fat_error *err);

/* Makes a measured trial that may win the winner of its problem and device: one of those whose times are
 * within noise of the best, as a fixed rule chose it. It stays until the next trial of that problem is put.
 * FAT_E_NOT_FOUND where there is no such trial, or it is the winner already. */
fat_status fat_db_prefer(fat_db *db, int64_t trial, fat_error *err);

/* Reads in between see one state of the file and take its lock once, not each by itself; nobody can store
 * anything meanwhile, so end it before what may take long. Of a handle for reading; closing ends it too. */
void fat_db_read_begin(fat_db *db);
void fat_db_read_end(fat_db *db);

/* Reading; of history the latest alone. The callback returns false to stop; strings live until it returns. */
typedef bool (*fat_db_trial_fn)(const fat_trial *trial, void *user);
typedef struct fat_db_filter { /* NULL or 0: any */
  const char *problem;         /* canonical text */
  const char *family;
  const char *gpu; /* facts text of the device */
  const char *kernel;
  const char *value;  /* of a tunable in the config: W1 */
  int outcome_plus_1; /* 1 + fat_outcome */
  int origin_plus_1;
  bool samples; /* read them and the kinds too; else a trial has none */
} fat_db_filter;
fat_status fat_db_trials(fat_db *db, const fat_db_filter *filter, fat_db_trial_fn fn, void *user,
                         fat_error *err);

/* The winner of a problem on a device; `kernel` NULL for the winner table, else the best trial of that
 * kernel. FAT_E_NOT_FOUND. The result is owned: free it with fat_db_best_free. */
typedef struct fat_best {
  fat_trial trial;
  bool system; /* it came from the system file */
  char *source, *recipe;
  unsigned char *cubin; /* checked against its hash; NULL if none is kept or it is damaged (see note) */
  size_t cubin_size;
  char cubin_hash[FAT_HASH_SIZE];
  char target[16];
  void *memory; /* private */
} fat_best;
fat_status fat_db_best(fat_db *db, const fat_problem *p, const fat_gpu *gpu, const char *kernel,
                       bool with_cubin, fat_best *best, fat_error *err);
void fat_db_best_free(fat_best *best);

/* Code that is stored for a config: it depends on family, config and architecture alone, so any trial of them
 * may hold it. */
typedef struct fat_code_filter {
  const fat_problem *problem; /* its family; a trial of this very problem is preferred */
  int sm;
  const char *facts; /* NULL, or of a device whose trial is preferred */
  const char *config;
  const char *source_hash; /* NULL: any, the latest */
  const char *compile_key; /* NULL: any */
  bool sourceless;         /* the source of what can be launched is neither read nor checked */
} fat_code_filter;
typedef struct fat_code {
  char *source, *recipe; /* NULL: not kept, or damaged */
  unsigned char *cubin;  /* checked against its hash; NULL likewise */
  size_t cubin_size;
  char source_hash[FAT_HASH_SIZE], cubin_hash[FAT_HASH_SIZE];
} fat_code;
/* The code that can be launched (cubin and recipe), else what can be made again (source and recipe). Owned:
 * fat_db_code_free. FAT_E_NOT_FOUND where neither is stored; damage is a miss. */
fat_status fat_db_code(fat_db *db, const fat_code_filter *filter, fat_code *code, fat_error *err);
void fat_db_code_free(fat_code *code);

/* Tells this process what the expressions say that the files know (generator/mod.h). */
fat_status fat_db_mods(fat_db *db, fat_error *err);

/* All winners of a family, on any device, for `why` and nearest-shape picks: callback per winner row, without
 * samples. */
fat_status fat_db_winners(fat_db *db, const fat_problem *family, fat_db_trial_fn fn, void *user,
                          fat_error *err);

/* A documented view (best, trials, failures, runs, rejections, history, tunables) as text: `json` one array
 * of objects, else tab-separated with a header line. FAT_E_INPUT for an unknown view. User's rows over the
 * system's. */
fat_status fat_db_view(fat_db *db, const char *view, bool json, fat_text *out, fat_error *err);

/* Rows out and in. Export is JSON lines (parameters, results, no binaries and no source); import checks every
 * value through the same readers as the command line, keeps parameters only, and counts what it refused. */
typedef struct fat_import {
  long added, kept, refused; /* kept: we had the same or better */
  long with_code;            /* of those added, with source, recipe and binary */
  char first_refusal[256];
  bool any_date;     /* private */
  fat_db *code_from; /* private: the database whose binaries may come along, or NULL */
} fat_import;
fat_status fat_db_export(fat_db *db, fat_text *out, fat_error *err);
/* Of a damaged file, row by row, what can be read; *lost: rows that were found and not read. */
fat_status fat_db_export_readable(fat_db *db, fat_text *out, long *lost, fat_error *err);
/* Of what was measured, on the GPU of these facts (NULL: any), only what is worth shipping: winners, the best
 * of each kernel, their twins. Read by import too; the same rows give the same text. */
fat_status fat_db_export_winners(fat_db *db, const char *gpu, fat_text *out, fat_error *err);
fat_status fat_db_import(fat_db *db, const char *json_lines, size_t length, fat_import *counts,
                         fat_error *err);
/* The same into a database made of such rows alone, where a date ahead of the clock outranks nothing: the
 * clock of who builds a package may be behind that of who measured. */
fat_status fat_db_import_shipped(fat_db *db, const char *json_lines, size_t length, fat_import *counts,
                                 fat_error *err);
/* The same from another database file, opened with everything hostile in mind. Binaries come along, each with
 * its hash checked, where that file could be opened as it is and has the owner of this one. */
fat_status fat_db_merge(fat_db *db, const char *other_path, fat_import *counts, fat_error *err);

/* Forgets the trials that agree in all that is named, of every run; winners are chosen anew. What they were
 * made of stays until fat_db_compact. */
typedef struct fat_db_forgotten { /* NULL or 0: any */
  const char *gpu;                /* name of the device: "T4" */
  const char *kernel;
  const char *problem; /* a part of its text */
  const char *source;  /* the beginning of a source's hash */
  int older_days;
} fat_db_forgotten;
fat_status fat_db_forget(fat_db *db, const fat_db_forgotten *what, long *count, fat_error *err);
/* Drops what no trial refers to and gives the room back to the file system; sizes in bytes. */
fat_status fat_db_compact(fat_db *db, int64_t *before, int64_t *after, fat_error *err);

/* PRAGMA integrity_check and our own hash checks: one line per finding, none when all is well. */
fat_status fat_db_check(fat_db *db, fat_text *findings, fat_error *err);

#endif
