/* reach.h -- what a problem asks of a GPU, as tiles see it: rows, keys, what device memory takes. What a
 * config makes of it is in waves.h. */
#ifndef FAT_REACH_H
#define FAT_REACH_H

#include "gpu.h"
#include "problem.h"

/* What a GPU gives to tiles. */
typedef struct fat_room {
  double sms, per_sm; /* SMs, 1 / SMs */
  double ms_per_byte; /* that device memory takes; 0: not known */
} fat_room;
fat_room fat_reach_room(const fat_gpu *gpu);

/* A problem on a GPU, as tiles see it. The backward's tiles are of K, and pass over rows of Q of all heads
 * that share it. */
typedef struct fat_reach {
  double rows, heads;                    /* that are cut into tiles: of a head; heads in all batches */
  double group;                          /* heads that share one of K and V */
  double keys;                           /* of a head's tiles: all there are */
  double passes;                         /* backward: heads over whose rows of Q a tile loops, each in tiles
                                            of its own; forward: 1 */
  double mean, most;                     /* that a row sees, in all passes */
  double ends;                           /* of a row's interval of keys: how many move from row to row */
  double per_split;                      /* 1 / keys of a split where the problem says that; else 0 */
  double per_block_rows, per_block_keys; /* 1 / rows and keys of a block that is there or not; else 0 */
  double sms, per_sm;
  double least_ms;  /* that device memory takes for Q, K, V and O */
  double memory_ms; /* that no tile's pace hides: some of these; of a backward for D = rowsum(dO O) */
  double sums_ms;   /* of a backward also for dQ's sums, which are cleared and rounded */
  double part_ms;   /* and for the sums that each of a tile's blocks leaves of dK and dV */
  double split_ms;  /* of a forward: that a launch takes to merge what one split leaves of all rows */
} fat_reach;
fat_reach fat_reach_of(const fat_problem *p, const fat_room *room);
/* Rows of Q of all heads; of a ragged call those of as many of its longest as would hold them. */
double fat_reach_rows(const fat_problem *p);

/* The least that is believed of a time foretold, ms: below it a call waits more than it works, tiles of any
 * size alike, and what is near decides. */
#define FAT_REACH_FLOOR 0.003

#endif
