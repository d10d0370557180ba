/* gradients.h -- the gradients of one row or key. Arguments are those of fat_reference_row. */
#ifndef FAT_GRADIENTS_H
#define FAT_GRADIENTS_H

#include "bound.h"
#include "sees.h"

/* The keys that row i sees, which is row `at` behind where the inputs of its side point. */
fat_interval fat_gradients_keys(const fat_problem *p, int64_t i, const fat_reference_inputs *in, int64_t at);
/* dQ of a row. */
void fat_gradients_row(const fat_problem *p, int64_t i, const fat_reference_inputs *in,
                       double *right[FAT_TENSORS], fat_bound *bound);
/* dsink of a head, from all that the call has. */
void fat_gradients_sink(const fat_problem *p, int64_t h, const fat_reference_inputs *in, double *right,
                        fat_bound *bound);
/* dK and dV of a key. */
void fat_gradients_key(const fat_problem *p, int64_t j, const fat_reference_inputs *in,
                       double *right[FAT_TENSORS], fat_bound *bound);

#endif
