/* package.h -- makes the code of rows that came without it: what turns parameters into a package's database.
 */
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

/* Renders every row that was measured, by these templates. Winners, and rows that take any tensors for
 * kernels that are picked, also get a cubin, so that a call needs no compiler; the others can be compiled
 * when they are asked for. `cubins`: the GPUs whose rows get one, "H200,T4" or "all"; FAT_E_INPUT names one
 * of which there is no row. nvrtc NULL: no cubins. A row was measured with its own source and compiler: code
 * made by others is stored beside it, as a row of origin predicted without a time. */
fat_status fat_package_make(fat_db *db, fat_script *script, fat_nvrtc *nvrtc, const char *cubins, int jobs,
                            fat_package_counts *counts, fat_error *err);

#endif
