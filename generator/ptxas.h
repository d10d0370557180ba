/* ptxas.h -- what the compiler's log says: resources of each kernel, and the first error. */
#ifndef FAT_PTXAS_H
#define FAT_PTXAS_H

#include "entry.h"
#include <stddef.h>

/* Reads the words of `ptxas -v` into one entry per __global__ function, in the order of the log, at most
 * `room`; returns how many. A figure that the log does not give is 0. */
int fat_ptxas_entries(const char *log, fat_entry *entries, int room);

/* Copies the first error of the log, with the source line the compiler quotes below it, or "" if there is
 * none. The file and line in it are those that the last #line named. */
void fat_ptxas_error(const char *log, char *text, size_t room);

#endif
