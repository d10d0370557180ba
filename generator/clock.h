/* clock.h -- seconds that only pass, for deadlines and for what took how long. */
#ifndef FAT_CLOCK_H
#define FAT_CLOCK_H

#include <time.h>

static inline double fat_clock_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
