/* package.h -- makes the code of imported rows: what turns parameters into a package's database. */
#ifndef FAT_PACKAGE_H
#define FAT_PACKAGE_H

#include "db.h"
#include "nvrtc.h"
#include "script.h"

/* What was made of the rows. */
typedef struct fat_package_counts {
  int rows;             /* measured ones that work */
  int compiled, copied; /* cubins made now, or found in the database below, for as many rows or more */
  int changed;          /* rows whose config gives another source by these templates */
  int lost;             /* rows whose config these templates do not have, or that does not compile any more */
  char first_lost[256];
} fat_package_counts;

/* Renders every measured row by these templates. Winners also get a cubin, so that a call needs no compiler,
 * and so do rows that may win and take unaligned tensors; the others can be compiled on demand. `cubins`: the
 * GPUs whose rows get one, "H200,T4" or "all"; FAT_E_INPUT names one that has no row. nvrtc NULL: no cubins.
 * Where source or compiler differ from those that were measured, the code is stored beside the row, in a
 * predicted row without a time. */
fat_status fat_package_make(fat_db *db, fat_script *script, fat_nvrtc *nvrtc, const char *cubins, int jobs,
                            fat_package_counts *counts, fat_error *err);

#endif
