/* race.h -- the last round: configs that came near the best are timed in turns, and ties are broken.
 *
 * All that follows is read from the database, so a tune that was killed finds where it stood: a row that has
 * been in a race says so in its detail. */
#ifndef FAT_RACE_H
#define FAT_RACE_H

#include "worker/lab.h"
#include "plan.h"

/* The configs of a kernel, or of all that may win unasked (kernel NULL), which a race is due between: those
 * within 5 % of the best, at most eight, and the default config. 0 where there is none due: fewer than two,
 * or the best and the default have both been in one, and none of the others was tried after it. */
enum { FAT_RACE_MOST = 9 };
int fat_race_finalists(const fat_rows *rows, const char *kernel, const char *default_config,
                       const fat_row *finalists[FAT_RACE_MOST]);

/* Whether a race is due for a line: that of its kernel, or, for the line of the kernel that is preferred
 * among those that may win unasked, that of all such. */
fat_status fat_race_due(const fat_order *order, const fat_line *line, bool *due, fat_error *err);

/* Holds the race if it is due, and stores its times. *held: it came to its end; not where it was broken off,
 * or *stop was set meanwhile. */
fat_status fat_race_hold(const fat_order *order, fat_measure *measure, const fat_line *line, int64_t run,
                         const volatile int *stop, fat_progress *progress, bool *held, fat_error *err);

/* Of the rows that may win unasked, the one that should: the fastest, or one within noise of it: the
 * incumbent, else the smallest in shared memory, then in registers, then the first in the alphabet. NULL
 * where none works. */
const fat_row *fat_race_winner(const fat_rows *rows, const char *incumbent);

/* The config of the measured winner of a problem, or "". */
fat_status fat_race_incumbent(const fat_order *order, const fat_problem *p, char config[FAT_CONFIG_TEXT],
                              fat_error *err);
/* Makes that row the stored winner. */
fat_status fat_race_crown(const fat_order *order, const fat_problem *p, const char *incumbent,
                          fat_error *err);

#endif
