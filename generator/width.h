/* width.h -- the tunable W: how much a kernel moves at once, which decides what tensors it takes.
 *
 * A kernel with W = 1 moves element by element and takes any tensors; one with a larger W needs pointers and
 * strides at multiples of what it moves. It is the one tunable whose name has a meaning outside templates. */
#ifndef FAT_WIDTH_H
#define FAT_WIDTH_H

#include "config.h"

/* W = 1 as a config's text has it. */
#define FAT_WIDTH_NARROW "W1"

/* W of a config; 0 where it has none: then it takes only what is 16-byte aligned and there is no other. */
int32_t fat_width_get(const fat_config *config);

/* Bytes that addresses and strides of tensors must be a multiple of. W counts elements, or bytes where it is
 * 16; nothing moves more than 16 bytes at once. */
unsigned fat_width_alignment(const fat_config *config, int element);

/* The same config with W = 1; unchanged where it has no W. */
void fat_width_narrow(fat_config *config);

/* How many values two configs of one kernel differ in. */
int fat_width_distance(const fat_config *a, const fat_config *b);

#endif
