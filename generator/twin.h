/* twin.h -- the twin of a config: what serves, in its place, tensors that are not aligned. */
#ifndef FAT_TWIN_H
#define FAT_TWIN_H

#include "space.h"

enum { FAT_TWIN_MOST = 3 };

/* The kernel whose configs are the twins of a config, its own or another; "" for none. */
fat_status fat_twin_kernel(fat_script *script, const fat_config *config, const fat_problem *p,
                           const fat_gpu *gpu, char kernel[FAT_CONFIG_KERNEL], fat_error *err);

/* What may be the twin of a config of a kernel, in the order to try: the same config with W = 1; where that
 * is not valid the default with W = 1; the nearest of those with W = 1. A kernel without W has the twins of
 * the default config of the kernel that it names for this (fat_space_twin). `space` is that of the twins'
 * kernel for this problem and GPU, or NULL: then one is walked, up to a second, where neither of the first
 * two is valid, and the nearest is left out where one is; a twin need not be one of its points, as a kernel
 * may walk none with W = 1. *count is 0 where the config needs none (W is 1), or there is none (W is never 1;
 * no W and no other kernel named, or that one does not serve the problem). */
fat_status fat_twin_find(fat_script *script, const fat_space *space, const fat_config *config,
                         const fat_problem *p, const fat_gpu *gpu, fat_point twins[FAT_TWIN_MOST], int *count,
                         fat_error *err);

#endif
