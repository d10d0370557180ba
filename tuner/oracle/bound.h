/* bound.h -- how far results may be off, gathered while the reference is computed. */
#ifndef FAT_BOUND_H
#define FAT_BOUND_H

#include "tensors.h"

/* What a reference is computed from: packed arrays. */
typedef struct fat_reference_inputs {
  const float *of[FAT_TENSORS]; /* those that the op takes */
  float scale;
  float scalar[FAT_SCALARS];
  int64_t rows;    /* from head to head of tensors with rows of Q; 0: as many as the problem has */
  int64_t columns; /* of rows of pairs; 0: as many as the problem has keys */
  int64_t length;  /* of a table's rows; 0: as many columns as fat_tensors_extent says of the problem */
  int64_t blocks;  /* of a head; 0: as many as the problem has */
  int64_t head;    /* of a row, among the query heads of all batches; of a key the first that shares it */
} fat_reference_inputs;

/* A row and a key, and what stands beside them. */
typedef struct fat_scored {
  int64_t i, j;
  int64_t row;  /* among the rows of Q that `in` has */
  int64_t head; /* among those that `in` has: 0, or which one of those that share the key */
} fat_scored;

/* What decides how far results may be off, gathered row by row: starts as {0}. Results that are not finite do
 * not count. */
typedef struct fat_bound {
  struct {
    double off;    /* of a computation in the problem's own precision, see reference.c */
    double stored; /* of one that keeps S in memory, which differs for LSE */
    double most;   /* the largest absolute value of what is right */
    double mass;   /* of a gradient: the largest sum of absolute values of its summands */
    double spread; /* of a gradient: of errors of a unit in the last place of each dS or P the largest sum, as
                      independent ones add up */
  } of[FAT_TENSORS];
  double score;  /* the largest absolute value of a score, or of an LSE that is subtracted from one */
  double sum;    /* the largest sum of absolute values of a score's summands */
  double value;  /* forward: the largest absolute value in V */
  int64_t terms; /* the most rows or keys that one result is a sum over */
} fat_bound;

/* Notes one result and what the computation in the problem's precision made of it. */
void fat_bound_note(fat_bound *bound, int tensor, double right, double own, double mass);

#endif
