/* serve.h -- the worker: the process that holds the GPU's context, and may die of it. */
#ifndef FAT_SERVE_H
#define FAT_SERVE_H

/* The hidden first word of a command line that makes the program a worker: `fatune --worker 0` serves the
 * first device; its messages come and go through descriptor FAT_SERVE_FD. */
#define FAT_SERVE_WORD "--worker"
enum { FAT_SERVE_FD = 3 };

/* Serves until the other end is gone; argv[2] is the device's ordinal. Returns the exit code. */
int fat_serve_main(int argc, char **argv);

#endif
