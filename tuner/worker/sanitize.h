/* sanitize.h -- a kernel at small shapes under compute-sanitizer, whose tools watch memory. */
#ifndef FAT_SANITIZE_H
#define FAT_SANITIZE_H

#include "wire.h"

/* Path of compute-sanitizer: in PATH, below CUDA_HOME or in /usr/local/cuda; FAT_E_NOT_FOUND says what to
 * install. */
fat_status fat_sanitize_find(fat_text *path, fat_error *err);

/* Who found something: a tool, or what else ends a process, a wrong result or a fault. */
typedef enum fat_finding { FAT_FINDING_NONE, FAT_FINDING_OF_TOOL, FAT_FINDING_ELSE } fat_finding;

/* Runs one assignment in a process of its own under memcheck, racecheck, initcheck or synccheck; `log` ends
 * with what that and the verdict said. FAT_E_TIMEOUT after ten minutes, FAT_E_CANCELLED once *stop is set. */
fat_status fat_sanitize_run(const char *sanitizer, const char *tool, int ordinal, const fat_assignment *a,
                            const volatile int *stop, fat_finding *finding, fat_text *log, fat_error *err);

/* Whether a tool is known to report the kernel of such a config for what is no fault. */
bool fat_sanitize_misreads(const char *tool, const char *config);

/* The four tools, one after another; the first that finds something ends it, and *v is wrong. Where they
 * found only what they misread, v->detail says so and *misread is counted up. */
fat_status fat_sanitize_all(const char *sanitizer, int ordinal, const fat_assignment *a,
                            const volatile int *stop, fat_verdict *v, int *misread, fat_error *err);

#endif
