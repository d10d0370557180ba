/* race.h -- the last round: configs that came near the best are timed in turns.
 *
 * Everything is read from the database, so a tune that was killed goes on where it stopped: a record that has
 * been in a race says in which one. */
#ifndef FAT_RACE_H
#define FAT_RACE_H

#include "schedule.h"

/* The configs of a kernel, or of all that may win unasked (kernel NULL), which a race is due between: those
 * within 8 % of the best, at most eleven, and the default config. 0 where there is none due: fewer than two,
 * or the best and the default have both been in one that timed them on all kinds of data or broke off, and
 * none of the others was tried after it. */
enum { FAT_RACE_MOST = 12 };
int fat_race_finalists(const fat_records *records, const char *kernel, const char *default_config,
                       const fat_record *finalists[FAT_RACE_MOST]);

/* Holds the race of each pair where one is due, as many at a time as there are GPUs, and stores its times:
 * the race of its kernel, or, for the preferred one of the kernels that may win unasked, that of all of them.
 * A race that is due again right after it was held was moved by noise: after a few of them that is left
 * alone. */
fat_status fat_race_hold_all(fat_schedule *schedule, fat_error *err);

#endif
