/* truth.h -- the inputs of one call and what is right for them, in packed arrays; and where rows may lie.
 *
 * What kernels are tried on by the tuner, on a GPU, and by the tests, in the emulator. Arrays are floats
 * whatever the tensors' elements are, and hold numbers that those can: [batch][head][row][column]. */
#ifndef FAT_TRUTH_H
#define FAT_TRUTH_H

#include "reference.h"

/* What the numbers are like. ORDER DATA */
typedef enum fat_data {
  FAT_NORMAL,
  FAT_LARGE,   /* scores in the thousands */
  FAT_RISING,  /* the row maximum grows with every tile */
  FAT_FALLING, /* the first key outweighs all others */
  FAT_EQUAL,   /* all keys alike */
  FAT_HUGE,    /* scores beyond what f16 can hold; of a forward call, also sums of rows of V that it cannot */
  FAT_WIDE,    /* of standard deviation 6: rows grow past their maximum by a little, now and then */
  FAT_CREEPING, /* the row maximum grows with every tile, by less than what makes a sum be scaled again */
  FAT_DATAS
} fat_data;
extern const char *const fat_data_names[FAT_DATAS];

typedef struct fat_truth {
  float *in[FAT_TENSORS];         /* inputs; NULL: none of the op's */
  double *right[FAT_TENSORS];     /* outputs */
  double allowed[FAT_TENSORS][2]; /* [fat_reference_stores] */
} fat_truth;

/* The same seed gives the same numbers on every machine. Each tensor takes a seed of its own, so the next
 * call's is 16 further. Of a backward call O and LSE are those of the forward call. FAT_E_NOMEM. */
fat_status fat_truth_make(const fat_problem *p, float scale, fat_data data, uint64_t seed, fat_truth *truth,
                          fat_error *err);
/* Outputs and bounds anew, of inputs that have changed. */
fat_status fat_truth_solve(const fat_problem *p, float scale, fat_truth *truth, fat_error *err);
/* Frees the inputs, and keeps what is right. */
void fat_truth_drop_inputs(fat_truth *truth);
void fat_truth_free(fat_truth *truth);

/* What stands at an element of a packed input where `x` is a random number: x itself, or of a tensor that is
 * no sum of such what a caller would have there. */
float fat_truth_fit(const fat_problem *p, int t, int64_t element, float x);

/* Roughly normal numbers, the same on every machine; NULL without memory. */
float *fat_truth_numbers(int64_t count, uint64_t seed);

/* Where the rows of a tensor lie: packed; with the rows of all heads side by side; with some numbers behind
 * each row, head and batch; packed, but rows of pairs are those of all batches and heads. There biases are
 * each head's, as learned ones are, unless they take too much memory: what L2 does not hold decides which
 * config wins. ORDER LAY */
typedef enum fat_lay { FAT_BHSD, FAT_BSHD, FAT_PADDED, FAT_SHARED } fat_lay;
/* Strides of tensor t from batch to batch, head to head, row to row; paddings are multiples of `unit`
 * elements, and differ between the tensors of a call. */
void fat_truth_lay(const fat_problem *p, int t, fat_lay how, int unit, int64_t stride[3]);

#endif
