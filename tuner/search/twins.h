/* twins.h -- beside each best config its twin, for tensors that are not aligned: tried like any other config,
 * and stored with its code, so that a plan finds both. */
#ifndef FAT_TWINS_H
#define FAT_TWINS_H

#include "worker/lab.h"
#include "plan.h"

/* Whether the config that a plan would be given for a line lacks a stored twin. `incumbents`: the winner of
 * each ask before this tune, which decides ties; "" for none. */
fat_status fat_twins_due(const fat_order *order, const fat_line *line, char (*incumbents)[FAT_CONFIG_TEXT],
                         bool *due, fat_error *err);

/* Makes what is due, for all lines; counted in out->tried. Twins that fail are stored as such, and the next
 * best one is taken. Ends early once *stop is not 0; a trial that runs then is ended first. The end of the
 * budget keeps no winner from its twin. */
fat_status fat_twins_make(const fat_order *order, fat_outturn *out, char (*incumbents)[FAT_CONFIG_TEXT],
                          int64_t run, const volatile int *stop, fat_error *err);

#endif
