/* verify.h -- is a kernel right? Before it is timed, on every case of its family and at the anchor.
 *
 * Right means: every output as near to the reference in double as inputs.h allows, nothing written but them,
 * the same bits every time. The first thing that is wrong ends it, with the place and the figures in words.
 */
#ifndef FAT_VERIFY_H
#define FAT_VERIFY_H

#include "testbed.h"
#include "timer.h"

/* A loaded config; `recipe` parsed, `module` in the current context. */
typedef struct fat_subject {
  fat_recipe recipe;
  fat_module *module;
  bool stores; /* it keeps S in memory: fat_reference_stores */
  int unit;    /* bytes it moves at once: what strides and addresses must be multiples of */
} fat_subject;

/* Runs the small cases: FAT_OK with verdict->outcome ok or wrong, and the largest error of the case that is
 * nearest to its bound. Another status where a launch or the driver fails. `bare`: one round, no poison. */
fat_status fat_verify_cases(fat_testbed *stand, const fat_assignment *a, const fat_subject *subject,
                            fat_verdict *verdict, fat_error *err);

/* A config ready to run at the anchor. */
typedef struct fat_anchored {
  fat_testbed *stand;
  bool stores; /* as of the subject */
  fat_launch launch;
} fat_anchored;
fat_status fat_verify_launch(fat_testbed *stand, const fat_assignment *a, const fat_subject *subject,
                             fat_anchored *anchored, fat_error *err);
/* fat_timer_work of an anchored config (`user`): the sets in turn. */
fat_status fat_verify_work(void *user, int turn, fat_error *err);

/* One timed run at the anchor, of which the known rows are judged; `ms` is its time. */
fat_status fat_verify_probe(fat_anchored *anchored, fat_timer *timer, fat_verdict *verdict, double *ms,
                            fat_error *err);
/* A second run must give the bits of the probe. */
fat_status fat_verify_repeat(fat_anchored *anchored, fat_verdict *verdict, fat_error *err);

#endif
