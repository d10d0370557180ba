/* process.h -- the process of a worker: how it starts, and how it has ended. */
#ifndef FAT_PROCESS_H
#define FAT_PROCESS_H

#include "status.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Starts this program again as the worker of a device, in a process group of its own; `fd` is our end of the
 * socket between us. It ends when we do. */
fat_status fat_process_start(int ordinal, pid_t *pid, int *fd, fat_error *err);
/* Waits for the end of the process; false if it does not end in time. */
bool fat_process_reap(pid_t pid, double seconds);
/* Says how a process that is about to end has ended; it is left to be reaped. */
void fat_process_say_end(pid_t pid, char *why, size_t room);

#endif
