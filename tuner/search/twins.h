/* twins.h -- beside each best config its twin, for tensors that are not aligned: tried like any other config,
 * and stored with its code, so that a plan of the library finds both. */
#ifndef FAT_TWINS_H
#define FAT_TWINS_H

#include "schedule.h"

/* Makes the twins that are missing, for all pairs. A twin that fails is stored as such, and the next best one
 * is taken. Ends early once somebody asks to stop, after the trial that runs then. The end of the budget does
 * not: no winner is left without its twin. */
fat_status fat_twins_make(fat_schedule *schedule, fat_error *err);

#endif
