/* work.h -- makes the attempts of a schedule: compiles on all cores, measures on the GPU at hand, stores. */
#ifndef FAT_WORK_H
#define FAT_WORK_H

#include "schedule.h"

/* Until all that is scheduled has ended, or the tune is to end. A row is committed before the next
 * finished attempt is looked at, so whatever ends the process, what was counted is stored. */
fat_status fat_work_run(fat_schedule *schedule, fat_error *err);

#endif
