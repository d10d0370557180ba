/* sees.h -- which keys a row of Q sees, and all that follows from it.
 *
 * Row i sees the keys [lo, hi), an interval for every mask of this family: causal, causaltl, w, chunk.
 * Kernels have the same text in templates/lib/hooks.cuh (`sees`); the reference, the cost of a config, the
 * count of operations and the inputs ask here. Sums over rows and tiles have closed forms: a length costs
 * nothing. */
#ifndef FAT_SEES_H
#define FAT_SEES_H

#include "problem.h"

typedef struct fat_interval {
  int64_t lo, hi; /* lo <= hi; equal: none */
} fat_interval;

/* The keys that row i sees; the rows that see key j. Of a problem without features by batch. */
fat_interval fat_sees(const fat_problem *p, int64_t i);
fat_interval fat_sees_rows(const fat_problem *p, int64_t j);

/* The same within [lo, hi), which a row's tensors give. */
fat_interval fat_sees_within(const fat_problem *p, int64_t i, int64_t lo, int64_t hi);

/* Pairs of a row and a key that it sees, of one head: where batches differ, the mean over those that draw.h
 * draws, here and below. */
double fat_sees_pairs(const fat_problem *p);

/* KV tiles of Bc keys that all tiles of Br rows of Q visit, of one head; `group` heads lie in one tile, row
 * by row. And the most that one tile visits. */
double fat_sees_tiles(const fat_problem *p, int64_t Br, int64_t Bc, int64_t group);
int64_t fat_sees_most_tiles(const fat_problem *p, int64_t Br, int64_t Bc, int64_t group);

/* Whether tiles of Q may differ in the keys they visit: schedulers then start the longest first. */
bool fat_sees_uneven(const fat_problem *p);

#endif
