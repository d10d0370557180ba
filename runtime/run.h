/* run.h -- one call of a plan: which kernel takes it, with which numbers. */
#ifndef FAT_RUN_H
#define FAT_RUN_H

#include "plan.h"

/* Queues the call; `sizes` NULL: the plan's own. It writes nothing of the plan but the answers that its
 * family keeps, as relaxed atomics (fat_family_known). */
fat_status fat_run_call(const fatune_plan *plan, const fatune_tensors *tensors, const fatune_sizes *sizes,
                        void *workspace, void *stream, fat_error *err);

/* What a call of these sizes needs, whichever kernel takes it; `sizes` NULL: of the plan's own. */
fat_status fat_run_workspace(const fatune_plan *plan, const fatune_sizes *sizes, int64_t *bytes,
                             fat_error *err);

#endif
