/* attempt.h -- one config through all stages: the tuner on one page. */
#ifndef FAT_ATTEMPT_H
#define FAT_ATTEMPT_H

#include "compile.h"
#include "db.h"
#include "model.h"
#include "nvrtc.h"
#include "rows.h"
#include "script.h"
#include "source.h"
#include "space.h"
#include "worker/wire.h"

/* What all trials of one command share; read only. */
typedef struct fat_bench {
  fat_nvrtc *nvrtc;
  fat_tools tools;
  const char *dump;           /* folder for .cu, .cubin and .log, or NULL */
  double deadline;            /* seconds of one compile */
  const volatile int *cancel; /* not 0: give up running compiles */
} fat_bench;

/* One trial: what goes in, and after fat_trial_make what came out. */
typedef struct fat_job {
  const fat_problem *problem;
  const fat_gpu *gpu;
  const fat_point *point;
  int eligible;           /* may win unasked */
  const fat_row *earlier; /* a row of this config that other templates made, or NULL */

  fat_status status; /* not FAT_OK: no outcome, the tuner itself cannot go on (or was cancelled) */
  fat_error error;
  fat_source source;
  fat_binary binary; /* empty where the source is that of the earlier row */
  fat_outcome outcome;
  fat_forecast forecast;
  fat_figures figures;
  char detail[1024]; /* why it failed */
  fat_timing timing; /* count 0: not timed */
} fat_job;

/* The first half: render -> compile -> inspect -> predict -> dump. Runs on any thread, with that thread's own
 * script. A config that does not work is an outcome; job->status tells of what stands in the way of all of
 * them. */
void fat_trial_make(fat_job *job, const fat_bench *bench, fat_script *script);

/* The second half, where a GPU is at hand: verify -> time, by a worker. Whether there is anything to measure;
 * what the worker is given, borrowed from the job; what it found. */
bool fat_trial_runs(const fat_job *job);
void fat_trial_assign(const fat_job *job, fat_assignment *a);
void fat_trial_judge(fat_job *job, const fat_verdict *verdict);

/* Milliseconds: measured, else predicted; NAN where there are none or the trial failed. */
double fat_trial_ms(const fat_job *job);

/* Stores the row, with source, recipe and cubin where `whole`. */
fat_status fat_trial_store(const fat_job *job, const fat_bench *bench, fat_db *db, int64_t run, bool whole,
                           fat_error *err);

/* Attaches source, recipe and cubin to the row `id`, which this job made again or holds still. */
fat_status fat_trial_attach(const fat_job *job, fat_db *db, int64_t id, fat_error *err);

void fat_trial_free(fat_job *job); /* frees what came out; what went in stays the caller's */

#endif
