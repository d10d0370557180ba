/* shortlist.h -- the configs of a kernel worth a compile: the default, some of each value, the best. */
#ifndef FAT_SHORTLIST_H
#define FAT_SHORTLIST_H

#include "gpu.h"
#include "known.h"
#include "problem.h"
#include "script.h"
#include "space.h"
#include <stdbool.h>

typedef struct fat_shortlist {
  fat_space space; /* all valid configs and why others are not */
  int *chosen;     /* places in space.points, in the order to try; the default first */
  int count;
  double *estimate; /* of each point: milliseconds with the template's own register estimate */
} fat_shortlist;

/* How many configs at most (at least 1), and which first. */
typedef struct fat_shortlist_rule {
  int most;
  uint64_t shuffle; /* 0: the most promising; else the seed of a random order, whatever the model says */
  bool trusting;    /* no room for breadth: the model alone decides */
  const fat_known *known; /* the default and these alone, without a walk through the space; NULL: all */
} fat_shortlist_rule;

/* Lists the space of one kernel and chooses. FAT_E_UNSUPPORTED where no config is valid;
 * list->space.rejections then says why. */
fat_status fat_shortlist_make(fat_script *script, const char *kernel, const fat_problem *p,
                              const fat_gpu *gpu, fat_shortlist_rule rule, fat_shortlist *list,
                              fat_error *err);
/* The place of a config among the points of the space; -1: it is none of them. */
int fat_shortlist_find(const fat_shortlist *list, const char *config);
/* Whether the point in that place was chosen. */
bool fat_shortlist_has(const fat_shortlist *list, int place);
void fat_shortlist_free(fat_shortlist *list);

#endif
