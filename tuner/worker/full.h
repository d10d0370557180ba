/* full.h -- a config on the problem at its own size: launched, its known rows judged, its bits compared. */
#ifndef FAT_FULL_H
#define FAT_FULL_H

#include "timer.h"
#include "verify.h"

/* A config ready to run at full size. */
typedef struct fat_full {
  fat_testbed *testbed;
  bool stores;      /* as of the subject */
  uint32_t reduced; /* of the recipe */
  fat_launch launch;
} fat_full;
fat_status fat_full_launch(fat_testbed *testbed, const fat_assignment *a, const fat_subject *subject,
                           fat_full *full, fat_error *err);
/* fat_timer_work of such a config (`user`): the sets in turn. */
fat_status fat_full_work(void *user, int turn, fat_error *err);

/* One timed run, of which the known rows are judged; `ms` is its time. */
fat_status fat_full_probe(fat_full *full, fat_timer *timer, fat_verdict *verdict, double *ms, fat_error *err);
/* A second run must give the bits of the probe, or rows as right as its. */
fat_status fat_full_repeat(fat_full *full, fat_verdict *verdict, fat_error *err);

#endif
