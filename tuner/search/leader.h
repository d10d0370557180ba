/* leader.h -- where nothing is measured: the best attempt of a pair so far, held until its code is stored.
 *
 * So the database can be carried to the GPU: it has a cubin for the best config of each kernel. */
#ifndef FAT_LEADER_H
#define FAT_LEADER_H

#include "attempt.h"

/* Starts as {0}. */
typedef struct fat_leader {
  bool held;
  fat_attempt attempt;
} fat_leader;

/* Takes over source and binary of an attempt that beats what is held; true if it did. */
bool fat_leader_offer(fat_leader *leader, fat_attempt *attempt);

/* Makes sure that the best stored record of a kernel has source, recipe and cubin: those held, or, unless
 * somebody has asked to stop, made again. */
fat_status fat_leader_store(fat_leader *leader, const fat_session *session, const fat_problem *p,
                            const char *kernel, fat_error *err);
void fat_leader_free(fat_leader *leader);

#endif
