/* cubin.h -- what a cubin itself says of its kernels: names, registers, stack, static shared memory. */
#ifndef FAT_CUBIN_H
#define FAT_CUBIN_H

#include "entry.h"
#include <stdbool.h>
#include <stddef.h>

/* Reads the __global__ functions of an ELF image, at most `room`; spills are left 0, no cubin tells them.
 * Returns how many; 0 for what is no cubin or is damaged: nothing outside the image is read. */
int fat_cubin_entries(const unsigned char *cubin, size_t size, fat_entry *entries, int room);

#endif
