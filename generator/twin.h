/* twin.h -- the twin of a config: what serves, in its place, tensors that are not aligned. */
#ifndef FAT_TWIN_H
#define FAT_TWIN_H

#include "space.h"

enum { FAT_TWIN_MOST = 3 };

/* What may be the twin of a config of a kernel, in the order to try: the same config with W = 1; where that
 * is not valid the default with W = 1; the nearest of those with W = 1. `space` is the kernel's for this
 * problem and GPU; a twin need not be one of its points, as a kernel may walk none with W = 1. *count is 0
 * where the config needs none (W is 1), or the kernel has none (no W, or never 1). */
fat_status fat_twin_find(fat_script *script, const fat_space *space, const fat_config *config,
                         const fat_problem *p, const fat_gpu *gpu, fat_point twins[FAT_TWIN_MOST], int *count,
                         fat_error *err);

#endif
