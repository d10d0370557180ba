/* reference.h -- attention by plain loops: in double, what is right; in float, how wrong one may be.
 *
 * Arrays are packed: [batch][head][row][column], LSE [batch][head][row]. Causal is bottom-right aligned: row
 * i sees keys 0 .. i + k - q. A row that sees no key has O = 0 and LSE = +inf. LSE is a natural logarithm. */
#ifndef EMU_REFERENCE_H
#define EMU_REFERENCE_H

#include "problem.h"

typedef struct emu_inputs {
  const float *q, *k, *v;
  float scale;
} emu_inputs;

/* Returns the largest size of a score. */
double emu_reference_double(const fat_problem *p, const emu_inputs *in, double *o, double *lse);

/* The same with every product, sum, S and P rounded to float: an honest plain computation. */
double emu_reference_float(const fat_problem *p, const emu_inputs *in, float *o, float *lse);

/* How far results may be from `right`: twice as far as `plain` is, plus the roundings that so few elements
 * may have been spared by luck: four of the largest result, and four of the largest score, whose error e^S
 * turns into as large a relative one (`score`: its size for O, 0 for LSE, which has it as a summand).
 * Elements that are not finite do not count. */
double emu_reference_allowed(const double *right, const float *plain, int64_t count, double score);

#endif
