/* locate.h -- where a libnvrtc may lie on this machine: the search of nvrtc.h, which loads nothing. */
#ifndef FAT_LOCATE_H
#define FAT_LOCATE_H

#include "status.h"

typedef struct fat_nvrtc_found {
  char path[1024];   /* with links resolved: no file is listed twice */
  char where[32];    /* "FATUNE_NVRTC", "toolkit", "wheel", "linker cache", "fetched" */
  int major, minor;  /* as the library says; where it could not be loaded, as its files say, or 0 */
  char problem[256]; /* why it cannot be used; "" if it can */
} fat_nvrtc_found;

/* Fills `found` (at most `room`) with every libnvrtc there is, in the order of the search, each file once.
 * major and minor are what the names of the files say (0: they say nothing); problem is "". */
fat_status fat_locate_nvrtc(fat_nvrtc_found *found, int room, int *count, fat_error *err);

#endif
