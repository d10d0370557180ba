/* tune.h -- the tune itself: chooses configs, runs their trials on all cores, stores each as it ends. */
#ifndef FAT_TUNE_H
#define FAT_TUNE_H

#include "agenda.h"
#include "db.h"
#include "cli/options.h"
#include "progress.h"
#include "shortlist.h"
#include "attempt.h"

/* One kernel of one problem. */
typedef struct fat_line {
  const fat_ask *ask;
  const fat_ask_kernel *kernel;
  fat_search search; /* count 0 where no config is valid */
  fat_error why;     /* then: why not */
} fat_line;

/* What a tune works with; all of it outlives the tune. */
typedef struct fat_order {
  const fat_options *options;
  const fat_gpu *gpu;
  const fat_asks *asks;
  const char *templates; /* folder, or NULL for those inside */
  fat_script *script;    /* the main thread's */
  fat_bench bench;
  fat_db *db;
  const char *command;         /* as typed */
  struct fat_measure *measure; /* the GPU at hand, or NULL: trials are predicted */
} fat_order;

enum { FAT_TUNE_JOBS = 256 }; /* threads that compile, at most */

typedef struct fat_outturn {
  fat_line *lines; /* in the order of asks and their kernels */
  int line_count;
  int chosen, stored, tried; /* configs; found stored; compiled in this run */
  int signal;                /* that ended it, or 0 */
  bool out_of_budget;
} fat_outturn;

/* Runs the tune. A signal or the end of the budget is no error: what has ended is stored. */
fat_status fat_tune_run(const fat_order *given, fat_outturn *outturn, fat_error *err);
void fat_tune_free(fat_outturn *outturn);

#endif
