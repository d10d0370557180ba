/* pool.h -- a few threads that take jobs in order and hand results back in the order they finish.
 *
 * One thread (the owner) puts and takes; `work` runs on the pool's threads, each with its own `state`. */
#ifndef FAT_POOL_H
#define FAT_POOL_H

#include "status.h"
#include <stdbool.h>

typedef struct fat_pool fat_pool;

/* Runs one job on a pool thread; `state` is that thread's own, made by `begin` (which may fail and return
 * NULL: the work then says so in its job). */
typedef void (*fat_pool_work)(void *job, void *state);
typedef void *(*fat_pool_begin)(void *shared); /* may be NULL: state is `shared` */
typedef void (*fat_pool_end)(void *state);     /* may be NULL */

/* Starts the threads; fewer than asked for, but at least one, where the system gives no more. */
fat_status fat_pool_open(int threads, fat_pool_begin begin, fat_pool_work work, fat_pool_end end,
                         void *shared, fat_pool **pool, fat_error *err);
/* Queues a job (not NULL, not copied). */
fat_status fat_pool_put(fat_pool *pool, void *job, fat_error *err);
/* The next finished job, waiting up to `seconds`; NULL when none came by then or none is pending. */
void *fat_pool_take(fat_pool *pool, double seconds);
/* Takes back the oldest job that has not begun; NULL when there is none left. */
void *fat_pool_withdraw(fat_pool *pool);
int fat_pool_pending(const fat_pool *pool); /* put and not yet taken */
void fat_pool_close(fat_pool *pool);        /* waits for running jobs; untaken ones stay the caller's */

/* Cores this process may use: its affinity, and the quota of its control group where that is less. */
int fat_pool_cores(void);
/* Cores that a text of the form "150000 100000" (cpu.max: quota, period) allows, rounded up; 0: no limit. */
int fat_pool_quota(const char *text);

#endif
