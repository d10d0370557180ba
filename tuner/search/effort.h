/* effort.h -- how many configs an effort tries, and which first. */
#ifndef FAT_EFFORT_H
#define FAT_EFFORT_H

#include "agenda.h"
#include "shortlist.h"

/* Which configs are tried of a kernel for a problem. `measured`: the GPU is at hand. */
fat_shortlist_rule fat_effort_rule(const fat_goal *goal, const fat_item *item, const fat_item_kernel *kernel,
                                   bool measured);

/* How many of the best of a family's main anchor its other anchors try as well. */
int fat_effort_transfers(fat_effort effort);

#endif
