/* effort.h -- how many configs an effort tries, and which first. */
#ifndef FAT_EFFORT_H
#define FAT_EFFORT_H

#include "agenda.h"
#include "cli/options.h"
#include "shortlist.h"

/* Which configs are tried of a kernel for a problem. `measured`: the GPU is at hand. */
fat_search_rule fat_effort_rule(const fat_options *options, const fat_ask *ask, const fat_ask_kernel *kernel,
                                bool measured);

/* How many of the best of a family's main anchor its other anchors try as well. */
int fat_effort_shared(fat_effort effort);

#endif
