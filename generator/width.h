/* width.h -- the tunable W: how many elements a kernel moves at once, which decides what tensors it takes.
 *
 * A kernel with W = 1 takes any; one with a larger W needs pointers and strides at multiples of W elements.
 * It is the one tunable whose name has a meaning outside the templates. */
#ifndef FAT_WIDTH_H
#define FAT_WIDTH_H

#include "config.h"

/* Begins the detail of a trial that was made as the twin of a config, which follows. */
#define FAT_WIDTH_TWIN "twin of "

/* W of a config; 0 where it has none: then it takes only what is 16-byte aligned and there is no other. */
int32_t fat_width_get(const fat_config *config);

/* The same config with W = 1; unchanged where it has no W. */
void fat_width_narrow(fat_config *config);

/* How many values two configs of one kernel differ in. */
int fat_width_distance(const fat_config *a, const fat_config *b);

#endif
