/* serve.h -- the worker: the process that holds the GPU's context, and may die of it. */
#ifndef FAT_SERVE_H
#define FAT_SERVE_H

/* The hidden first word of a command line that makes the program a worker: `fatune --worker 0` serves the
 * first device; its messages come and go through descriptor FAT_SERVE_FD. */
#define FAT_SERVE_WORD "--worker"
enum { FAT_SERVE_FD = 3 };

/* `fatune --check 0 FILE` tries the one assignment in a file and ends: 0 where it is right, 1 with the reason
 * on stdout. For tools that start the process they watch. */
#define FAT_SERVE_CHECK "--check"
int fat_serve_check(int argc, char **argv);

/* Serves until the other end is gone; argv[2] is the device's ordinal. Returns the exit code. */
int fat_serve_main(int argc, char **argv);

#endif
