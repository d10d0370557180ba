/* tune.h -- the tune itself: schedules, tries, holds races and stores who wins. */
#ifndef FAT_TUNE_H
#define FAT_TUNE_H

#include "schedule.h"

/* Runs the tune. A signal or the end of the budget is no error: what has ended is stored. `schedule` is to be
 * freed whatever the status. */
fat_status fat_tune_run(fat_session *session, fat_schedule *schedule, fat_error *err);

#endif
