/* worker.h -- the tuner's side of a worker: a process of its own that tries kernels, and is replaced when it
 * dies of one.
 *
 * A worker is this program again, in its own process group; it ends with its parent. It is started when there
 * is something to do; after a hang or an error that spoils its context it is killed and started anew. If
 * other trials had run before in the same process, the trial is run again alone to confirm the blame. */
#ifndef FAT_WORKER_H
#define FAT_WORKER_H

#include "wire.h"

typedef struct fat_worker fat_worker;

/* For the device with this ordinal. Starts the process, waits for nothing. */
fat_status fat_worker_open(int ordinal, fat_worker **worker, fat_error *err);
/* Ends the process: by itself where it is idle, by SIGKILL otherwise. */
void fat_worker_close(fat_worker *worker);

/* Hands over an assignment, which stays the caller's and must live until it is done. `deadline` seconds are
 * the most it may take once its inputs lie ready. Only one at a time. */
fat_status fat_worker_begin(fat_worker *worker, const fat_assignment *assignment, double deadline,
                            fat_error *err);

/* Waits up to `seconds` for news; *done: verdicts (one for each entrant) are filled in and the worker is
 * free. Verdicts then have status FAT_OK. Other failures are the tuner's: FAT_E_DEVICE_LOST where no worker
 * can use the GPU any more, FAT_E_BUSY where others hold it, FAT_E_NO_DRIVER, ... */
fat_status fat_worker_step(fat_worker *worker, double seconds, fat_verdict *verdicts, bool *done,
                           fat_error *err);

/* What a poll for its news waits on; -1: it has nothing to do. */
int fat_worker_descriptor(const fat_worker *worker);

#endif
