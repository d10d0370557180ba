/* checked.h -- a line of `fatune verify`: one kernel and what became of it. */
#ifndef FAT_CHECKED_H
#define FAT_CHECKED_H

#include "db.h"
#include "json.h"
#include "table.h"
#include "worker/wire.h"

typedef struct fat_checked {
  char problem[FAT_PROBLEM_TEXT];
  const char *config;
  bool made;          /* it was compiled now */
  const char *as;     /* the GPU that --as names, whose kernel it is; else NULL */
  bool timed;         /* it is compared with how it was stored */
  const char *driver; /* now */
  const fat_verdict *verdict;
  const fat_trial *then; /* how it was stored; NULL: it was not */
  double slower;         /* 0.1: it takes 10 % longer than then; NAN: unknown */
} fat_checked;

/* Slower than so much is more than noise of an idle GPU. */
#define FAT_CHECKED_NOTICEABLE 0.05

typedef struct fat_checked_counts {
  int checked, bad, slower;
  int misread; /* of which a sanitizer's tool reports what it misreads */
  int bare;    /* winners without a binary, as imports bring them: not checked */
} fat_checked_counts;

/* The sentences below the table. `as` as above; `driver` where times were compared, else NULL. */
void fat_checked_sum(const fat_checked_counts *sum, const char *gpu, const char *as, const char *driver,
                     fat_text *text);

void fat_checked_json(const fat_checked *row, fat_json *json);
void fat_checked_cells(const fat_checked *row, fat_table *table);

#endif
