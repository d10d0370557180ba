/* reference.h -- attention by plain loops: in double, what is right; in float, how wrong one may be.
 *
 * Arrays are packed: [batch][head][row][column], LSE [batch][head][row]. Causal is bottom-right aligned: row
 * i sees keys 0 .. i + k - q. A row that sees no key has O = 0 and LSE = +inf. LSE is a natural logarithm. */
#ifndef FAT_REFERENCE_H
#define FAT_REFERENCE_H

#include "problem.h"

typedef struct fat_reference_inputs {
  const float *q, *k, *v;
  float scale;
} fat_reference_inputs;

/* Returns the largest size of a score; -1 without memory. */
double fat_reference_double(const fat_problem *p, const fat_reference_inputs *in, double *o, double *lse);

/* The same with every product, sum, S and P rounded to float: an honest plain computation. */
double fat_reference_float(const fat_problem *p, const fat_reference_inputs *in, float *o, float *lse);

/* How many keys row i of Q sees: 0 .. keys - 1. */
int64_t fat_reference_keys(const fat_problem *p, int64_t i);

/* One row that sees `keys` keys: `in` points at its row of Q and at its head of K and V. `scores` has room
 * for `keys` numbers, `o` for dv. Returns the largest size of a score. */
double fat_reference_row_double(const fat_problem *p, int64_t keys, const fat_reference_inputs *in,
                                double *scores, double *o, double *lse);
double fat_reference_row_float(const fat_problem *p, int64_t keys, const fat_reference_inputs *in,
                               float *scores, float *o, float *lse);

/* How far results may be from `right`: twice as far as `plain` is, plus the roundings that so few elements
 * may have been spared by luck: four of the largest result, and four of the largest score, whose error e^S
 * turns into as large a relative one (`score`: its size for O, 0 for LSE, which has it as a summand).
 * Elements that are not finite do not count. */
double fat_reference_allowed(const double *right, const float *plain, int64_t count, double score);

/* The same for LSE, of which the score is a summand. */
double fat_reference_allowed_lse(const double *right, const float *plain, int64_t count, double score);

/* How far off a result is: infinitely where it is not finite and should be, or the other way round. */
double fat_reference_off(double right, float got);

#endif
