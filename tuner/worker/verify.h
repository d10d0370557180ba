/* verify.h -- is a kernel right? Before it is timed, on every case of its family and at full size.
 *
 * Right means: every output is within its bound of the reference in double, nothing else is written, and the
 * bits are the same every time; of what a kernel sums in no fixed order (recipe.h), within the bound every
 * time. The first error ends it, and says in words where it is and how large. */
#ifndef FAT_VERIFY_H
#define FAT_VERIFY_H

#include "testbed.h"

/* A loaded config; `recipe` parsed, `module` in the current context. */
typedef struct fat_subject {
  fat_recipe recipe;
  fat_module *module;
  bool stores; /* it keeps S in memory: fat_reference_stores */
  int unit;    /* bytes it moves at once: what strides and addresses must be multiples of */
} fat_subject;

/* Runs the small cases: FAT_OK with verdict->outcome ok or wrong, and the largest error of the case that is
 * nearest to its bound. Another status where a launch or the driver fails. `bare`: one round, no poison. */
fat_status fat_verify_cases(fat_testbed *testbed, const fat_assignment *a, const fat_subject *subject,
                            fat_verdict *verdict, fat_error *err);

#endif
