/* tune.h -- the tune itself: plans, tries, holds races and stores who wins. */
#ifndef FAT_TUNE_H
#define FAT_TUNE_H

#include "plan.h"

/* Runs the tune. A signal or the end of the budget is no error: what has ended is stored. `plan` is to be
 * freed whatever the status. */
fat_status fat_tune_run(fat_session *session, fat_plan *plan, fat_error *err);

#endif
