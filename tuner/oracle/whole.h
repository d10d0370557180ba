/* whole.h -- what is right for a whole call: all of its outputs, in packed arrays.
 *
 * Rows that lie in a tensor and in no batch have NaN, which stands for what was there before. */
#ifndef FAT_WHOLE_H
#define FAT_WHOLE_H

#include "reference.h"

/* What is right, into every output of the op; false without memory. */
bool fat_whole_double(const fat_problem *p, const fat_reference_inputs *in, double *right[FAT_TENSORS]);

/* What is right, with the bound; false without memory. */
bool fat_whole_solve(const fat_problem *p, const fat_reference_inputs *in, double *right[FAT_TENSORS],
                     fat_bound *bound);

#endif
