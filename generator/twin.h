/* twin.h -- the twin of a config: what serves, in its place, tensors that are not aligned. */
#ifndef FAT_TWIN_H
#define FAT_TWIN_H

#include "space.h"

enum { FAT_TWIN_MOST = 3 };

/* Places in the space of what may be the twin of one of its configs, in the order to try: the same config
 * with W = 1; where that is not valid the default with W = 1; the nearest of those with W = 1. Returns how
 * many there are: 0 where the config needs none (W is 1), or the space has none (no W, or never 1). */
int fat_twin_places(const fat_space *space, const fat_config *config, int places[FAT_TWIN_MOST]);

#endif
