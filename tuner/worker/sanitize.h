/* sanitize.h -- a kernel at small shapes under compute-sanitizer, whose tools watch memory. */
#ifndef FAT_SANITIZE_H
#define FAT_SANITIZE_H

#include "wire.h"

extern const char *const fat_sanitize_tools[]; /* memcheck, racecheck, initcheck, synccheck; NULL ends them */

/* Path of compute-sanitizer: in PATH, below CUDA_HOME or in /usr/local/cuda; FAT_E_NOT_FOUND says what to
 * install. */
fat_status fat_sanitize_find(fat_text *path, fat_error *err);

/* Runs one assignment in a process of its own under a tool. *clean: the tool and the verdict found nothing;
 * else `log` ends with what they said. FAT_E_TIMEOUT after ten minutes, FAT_E_CANCELLED once *stop is set. */
fat_status fat_sanitize_run(const char *sanitizer, const char *tool, int ordinal, const fat_assignment *a,
                            const volatile int *stop, bool *clean, fat_text *log, fat_error *err);

#endif
