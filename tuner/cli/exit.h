/* exit.h -- how the program ends: exit codes and the one line that says why. */
#ifndef FAT_EXIT_H
#define FAT_EXIT_H

#include "status.h"

enum {
  FAT_EXIT_FINE = 0,
  FAT_EXIT_NO_KERNEL = 1,   /* something asked for has no working kernel */
  FAT_EXIT_USAGE = 2,       /* something typed is wrong */
  FAT_EXIT_ENVIRONMENT = 3, /* something outside is missing or broken */
  FAT_EXIT_DEVICE_LOST = 4,
  FAT_EXIT_SIGNAL = 128, /* plus the number of the signal, as shells have it */
};

/* The paragraph on exit codes that every --help ends with. */
#define FAT_EXIT_HELP                                                                                        \
  "Exit codes: 0 fine, 1 something asked for has no working kernel, 2 usage, 3 environment, 4 device lost."

/* Prints "fatune: " and the error's text to stderr, on one line without control bytes; returns its exit code.
 */
int fat_exit_fail(const fat_error *err);

/* Prints text to stdout, all of it; returns 0, or 3 after saying that stdout cannot be written. */
int fat_exit_print(const char *text);

/* For atexit: whatever argp printed to stdout was written, or the exit code is 3. */
void fat_exit_last(void);

#endif
