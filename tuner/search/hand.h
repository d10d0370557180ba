/* hand.h -- the threads that render and compile what a tune tries. */
#ifndef FAT_HAND_H
#define FAT_HAND_H

#include "pool.h"
#include "tune.h"

/* A pool whose jobs are fat_job; each thread has its own script. A thread that has none says so in its jobs.
 */
fat_status fat_hand_pool(const fat_order *order, int threads, fat_pool **pool, fat_error *err);

#endif
