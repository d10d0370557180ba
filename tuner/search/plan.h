/* plan.h -- what a tune will try: the chosen configs of every problem and kernel that are not stored yet, in
 * the order in which they are tried. */
#ifndef FAT_PLAN_H
#define FAT_PLAN_H

#include "leader.h"
#include "tune.h"

/* A job with its place in the plan. */
typedef struct fat_task_job {
  fat_job job; /* first: the pool carries job pointers */
  fat_line *line;
  fat_keep *keep;
  int rank; /* in its line's order; 0 is the default config */
} fat_task_job;

typedef struct fat_plan {
  fat_rows *rows;  /* of each ask */
  fat_keep *keeps; /* of each line */
  fat_task_job *tasks;
  int task_count, ask_count;
} fat_plan;

/* Fills in outturn->lines and the plan; gives up once *stop is set. Both are to be freed whatever the status.
 */
fat_status fat_plan_make(const fat_order *order, const volatile int *stop, fat_outturn *outturn,
                         fat_plan *plan, fat_error *err);
void fat_plan_free(fat_plan *plan, const fat_outturn *outturn);

/* Says what was walked and by which rules the rest fell. */
void fat_plan_say(const fat_order *order, const fat_outturn *outturn, fat_progress *progress);

#endif
