/* results.h -- what a tune found: one line per problem and kernel, for people and for programs. */
#ifndef FAT_RESULTS_H
#define FAT_RESULTS_H

#include "search/schedule.h"
#include "table.h"

typedef struct fat_result {
  const fat_pair *pair;
  bool works;
  bool wins;          /* a call of the problem gets it */
  fat_record record;  /* the best one; where none works the first failure, if any was tried */
  double default_ms;  /* of the kernel's default config; NAN unknown */
  double standard_ms; /* of the best config of `standard`; NAN unknown */
} fat_result;

typedef struct fat_results {
  fat_result *list;
  int count;
  int missing; /* pairs without a working kernel, of those named, or where none that may be picked works */
  int waiting; /* pairs that have no record yet: a signal or the budget came first; not in the list */
} fat_results;

/* Reads the best records back from the database, one per pair of the tune. Where kernels were named with
 * --kernel, a baseline that does not work is missing, too. */
fat_status fat_results_read(const fat_schedule *schedule, fat_results *results, fat_error *err);
void fat_results_free(fat_results *results);

/* The table, with the winners marked. */
fat_status fat_results_table(const fat_results *results, fat_look look, fat_text *out, fat_error *err);
/* An array of objects with the keys of `show best --json`, and limit, gain_default, gain_standard. */
fat_status fat_results_json(const fat_results *results, const fat_gpu *gpu, fat_text *out, fat_error *err);

#endif
