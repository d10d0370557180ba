/* occupancy.h -- how many blocks of one launch an SM holds at once, from threads, registers and shared
 * memory. */
#ifndef FAT_OCCUPANCY_H
#define FAT_OCCUPANCY_H

#include "gpu.h"

typedef struct fat_footprint {
  int threads;   /* of a block */
  int registers; /* of a thread, as the compiler reports them */
  int shared;    /* of a block, static and dynamic, bytes */
} fat_footprint;

/* Resident blocks per SM; 0 where not even one fits, with the resource at fault in *binding (may be NULL):
 * "threads", "registers", "shared memory" or "blocks". */
int fat_occupancy_blocks(const fat_arch *arch, const fat_footprint *f, const char **binding);

#endif
