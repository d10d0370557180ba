/* reference.h -- attention and its gradients by plain loops: in double, what is right; in the precision asked
 * for, how wrong one may be.
 *
 * Arrays are packed: [batch][head][row][column], one for each tensor of the op (tensors.h). Inputs are
 * numbers that the problem's tensors can hold (fat_half_round). Which keys a row sees says sees.h. A sink is
 * one more score of every row, whose V is 0. A row that sees no key has O = 0, LSE = +inf, or its sink, and
 * no gradient. LSE is a natural logarithm. */
#ifndef FAT_REFERENCE_H
#define FAT_REFERENCE_H

#include "tensors.h"

typedef struct fat_reference_inputs {
  const float *of[FAT_TENSORS]; /* those that the op takes */
  float scale;
} fat_reference_inputs;

/* What is right, into every output of the op; false without memory. */
bool fat_reference_double(const fat_problem *p, const fat_reference_inputs *in, double *right[FAT_TENSORS]);

/* What decides how far results may be off, gathered row by row: starts as {0}. Results that are not finite do
 * not count. */
typedef struct fat_reference_bound {
  struct {
    double off;    /* of a computation in the problem's own precision, see reference.c */
    double stored; /* of one that keeps S in memory, which differs for LSE */
    double most;   /* the largest size of what is right */
    double mass;   /* of a gradient: the largest sum of the sizes of all that is added up in it */
  } of[FAT_TENSORS];
  double score;  /* the largest size of a score, or of an LSE that is taken off one */
  double sum;    /* the largest sum of the sizes of a score's summands */
  double value;  /* forward: the largest size of an element of V */
  int64_t terms; /* the most rows or keys that one result is a sum over */
} fat_reference_bound;

/* What is right, with the bound; false without memory. */
bool fat_reference_solve(const fat_problem *p, const fat_reference_inputs *in, double *right[FAT_TENSORS],
                         fat_reference_bound *bound);

/* The results of one row of Q, or of one key (`side`): its number is `i`. The tensors of that side point at
 * its row; those of the other side at the row's head of K and V, or at all rows of the h / hk heads that
 * share the key's; a tensor of heads at that head's. `scores` has room for k numbers; NULL where the side is
 * FAT_OF_K. Adds to the bound, if any. */
void fat_reference_row(const fat_problem *p, fat_side side, int64_t i, const fat_reference_inputs *in,
                       double *scores, double *right[FAT_TENSORS], fat_reference_bound *bound);
/* Whether an op has outputs on that side. */
bool fat_reference_has(const fat_problem *p, fat_side side);

/* How far an output may be from what is right. `stored`: by a kernel that keeps S in memory. */
double fat_reference_allowed(const fat_problem *p, const fat_reference_bound *bound, int tensor, bool stored);

/* Whether a kernel keeps S in memory as elements of the problem's type, as PyTorch does: the standard
 * algorithm alone. All others keep it in float, and are held to it. */
bool fat_reference_stores(const char *kernel);

/* How far off a result is: infinitely where it is not finite and should be, or the other way round. */
double fat_reference_off(double right, float got);

/* -- used by the two files behind this header alone */

/* What a product reads of an operand. */
float fat_reference_operand(fat_dtype type, float x);
/* S, P, dP and dS as PyTorch stores them. Where f16 ends our kernels go on, as they keep S in float: there it
 * is rounded to as many digits. */
float fat_reference_stored(fat_dtype type, float x);
/* Notes one result and what the computation in the problem's precision made of it. */
void fat_reference_note(fat_reference_bound *bound, int tensor, double right, double own, double mass);
/* dQ of a row; dK and dV of a key. */
void fat_reference_row_gradient(const fat_problem *p, int64_t i, const fat_reference_inputs *in,
                                double *right[FAT_TENSORS], fat_reference_bound *bound);
void fat_reference_key_gradients(const fat_problem *p, int64_t j, const fat_reference_inputs *in,
                                 double *right[FAT_TENSORS], fat_reference_bound *bound);

#endif
