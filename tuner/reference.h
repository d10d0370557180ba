/* reference.h -- attention by plain loops: in double, what is right; in the precision asked for, how wrong
 * one may be.
 *
 * Arrays are packed: [batch][head][row][column], LSE [batch][head][row]. Inputs are numbers that the
 * problem's tensors can hold (fat_half_round). Causal is bottom-right aligned: row i sees keys 0 .. i + k -
 * q. A row that sees no key has O = 0 and LSE = +inf. LSE is a natural logarithm. */
#ifndef FAT_REFERENCE_H
#define FAT_REFERENCE_H

#include "problem.h"

typedef struct fat_reference_inputs {
  const float *q, *k, *v;
  float scale;
} fat_reference_inputs;

/* Returns the largest size of a score; -1 without memory. */
double fat_reference_double(const fat_problem *p, const fat_reference_inputs *in, double *o, double *lse);

/* What decides how far results may be off, gathered row by row: starts as {0}. Results that are not finite do
 * not count. */
typedef struct fat_reference_bound {
  double off_o, off_lse;   /* of a computation in the problem's own precision, see reference.c */
  double off_lse_stored;   /* of one whose LSE comes of rounded scores */
  double most_o, most_lse; /* the largest sizes of what is right */
  double score;            /* the largest size of a score */
  double sum;              /* the largest sum of the sizes of a score's summands */
  int64_t keys;            /* the most keys of a row */
} fat_reference_bound;

/* What is right, with the bound; false without memory. */
bool fat_reference_solve(const fat_problem *p, const fat_reference_inputs *in, double *o, double *lse,
                         fat_reference_bound *bound);

/* How many keys row i of Q sees: 0 .. keys - 1. */
int64_t fat_reference_keys(const fat_problem *p, int64_t i);

/* One row that sees `keys` keys: `in` points at its row of Q and at its head of K and V. `scores` has room
 * for `keys` numbers, `o` for dv. Adds to the bound. */
void fat_reference_row(const fat_problem *p, int64_t keys, const fat_reference_inputs *in, double *scores,
                       double *o, double *lse, fat_reference_bound *bound);

/* How far results may be from what is right. `stored`: by a kernel that keeps S in memory. */
double fat_reference_allowed_o(const fat_problem *p, const fat_reference_bound *bound);
double fat_reference_allowed_lse(const fat_problem *p, const fat_reference_bound *bound, bool stored);

/* Whether a kernel keeps S in memory as elements of the problem's type, as PyTorch does: the standard
 * algorithm alone. All others keep it in float, and are held to it. */
bool fat_reference_stores(const char *kernel);

/* How far off a result is: infinitely where it is not finite and should be, or the other way round. */
double fat_reference_off(double right, float got);

#endif
