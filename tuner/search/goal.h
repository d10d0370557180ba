/* goal.h -- what a tune is asked for: problems, kernels, and how much to spend on them. */
#ifndef FAT_GOAL_H
#define FAT_GOAL_H

#include "known.h"
#include "list.h"
#include "mod.h"
#include "space.h"

typedef enum fat_effort {
  FAT_QUICK,
  FAT_FULL,
  FAT_EXHAUSTIVE,
  FAT_KNOWN, /* what has won for the family before, and the default: no search */
  FAT_EFFORT_COUNT
} fat_effort; /* ORDER EFFORT */

typedef struct fat_goal {
  const char *const *problems; /* texts of problems; none: ops x dtypes x dims x causal x seqlens */
  int problem_count;
  uint32_t ops, dtypes; /* bit 1u << fat_op, fat_dtype; 0: not given */
  uint32_t causal;      /* bit 0: no, bit 1: yes */
  fat_numbers dims, seqlens;
  const fat_mod *mod, *mask_mod;                      /* expressions that every problem has; NULL: none */
  char kernels[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL]; /* each once; none: all */
  int kernel_count;
  fat_effort effort;
  fat_known only;   /* these configs and the defaults are tried alone; count 0: what the effort says */
  uint64_t shuffle; /* seed of a random order of trials; 0: the most promising first */
  double budget;    /* seconds; 0: no limit */
  int threads;      /* that compile; 0: one for each core */
} fat_goal;

#endif
