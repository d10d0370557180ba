/* reference.h -- attention and its gradients by plain loops: in double, what is right; in the precision asked
 * for, how wrong one may be.
 *
 * Arrays are packed: [batch][head][row][column], one for each tensor of the op (tensors.h). Inputs are
 * numbers that the problem's tensors can hold (fat_half_round). sees.h says which keys a row sees. A sink is
 * one more score of every row, whose V is 0. A row that sees no key has O = 0, LSE = +inf, or its sink, and
 * no gradient. LSE is a natural logarithm. */
#ifndef FAT_REFERENCE_H
#define FAT_REFERENCE_H

#include "bound.h"

/* The results of row `i` of Q, or of key `i`, as `side` says. In `in` and `right`
 *   - tensors of that side point at the row;
 *   - those of the other side at its head of K and V, or at all rows of the h / hk heads that share the
 * key's;
 *   - a tensor of heads at the head's element.
 * `scores` has room for k numbers; NULL where the side is FAT_OF_K. Adds to the bound, if any. */
void fat_reference_row(const fat_problem *p, fat_side side, int64_t i, const fat_reference_inputs *in,
                       double *scores, double *right[FAT_TENSORS], fat_bound *bound);
/* Whether an op has outputs on that side. */
bool fat_reference_has(const fat_problem *p, fat_side side);

/* How far an output may be from what is right. `stored`: by a kernel that keeps S in memory. */
double fat_reference_allowed(const fat_problem *p, const fat_bound *bound, int tensor, bool stored);

/* Whether a kernel keeps S in memory as elements of the problem's type, as PyTorch does: the standard
 * algorithm alone. All others keep it in float, and are held to it. */
bool fat_reference_stores(const char *kernel);

/* How far off a result is: infinitely where it is not finite and should be, or the other way round. */
double fat_reference_off(double right, float got);

/* FAT_E_UNSUPPORTED for problems that have no reference. */
fat_status fat_reference_check(const fat_problem *p, fat_error *err);

#endif
