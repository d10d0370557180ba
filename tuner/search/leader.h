/* leader.h -- the binaries of the best: held while a tune runs, stored when it ends. */
#ifndef FAT_LEADER_H
#define FAT_LEADER_H

#include "tune.h"

/* The fastest clean trial of one line so far, whole. Starts as {0}. */
typedef struct fat_keep {
  bool held;
  fat_job job;
} fat_keep;

/* Takes over source and binary of a trial that beats what is held; true if it did. */
bool fat_keep_offer(fat_keep *keep, fat_job *job);

/* Sees to it that the best stored row of a line has its source, recipe and cubin: from what is held, or,
 * unless `hurried`, by making them again. Nothing to do where they are stored already. */
fat_status fat_keep_store(fat_keep *keep, const fat_line *line, const fat_order *order, bool hurried,
                          fat_error *err);
/* Makes the code of a row again and attaches it, if its source is still the same. */
fat_status fat_keep_again(const fat_problem *p, const fat_order *order, const fat_row *row, fat_error *err);
void fat_keep_free(fat_keep *keep);

#endif
