/* scores.h -- what the features of a problem make of the product of a row and a key. */
#ifndef FAT_SCORES_H
#define FAT_SCORES_H

#include "bound.h"

typedef struct fat_score {
  double value;
  double slope; /* its derivative by the scaled product */
  double size;  /* the largest absolute value on the way there */
} fat_score;

/* Of `product`, which is scaled. */
fat_score fat_scores_of(const fat_problem *p, const fat_reference_inputs *in, const fat_scored *at,
                        double product);

/* What dropout multiplies a weight by: 1 where there is none. */
double fat_scores_dropped(const fat_problem *p, const fat_reference_inputs *in, const fat_scored *at);

/* By how much of itself a kernel may miss such a score beyond its roundings. */
double fat_scores_rough(const fat_problem *p);

#endif
