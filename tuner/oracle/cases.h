/* cases.h -- the small problems that a kernel is tried on: around every tile edge, and with all kinds of
 * numbers.
 *
 * What is right for them is computed once, by reference.h. */
#ifndef FAT_CASES_H
#define FAT_CASES_H

#include "image.h"

typedef struct fat_case {
  fat_problem problem;
  float scale;
  int unit; /* strides and addresses are multiples of so many bytes: what a kernel may move at once */
  char title[FAT_PROBLEM_TEXT + 64]; /* for messages */
  fat_slot slot[FAT_TENSORS];
  fat_truth truth; /* what is right, packed; its inputs are in the image alone */
} fat_case;

typedef struct fat_cases {
  char family[FAT_PROBLEM_TEXT];
  fat_case *list;
  int count;
  char *image;   /* all tensors of all cases, with guards between them */
  int64_t bytes; /* a multiple of 4 */
} fat_cases;

/* The cases of a problem's family; the same seed gives the same numbers on every machine. FAT_E_UNSUPPORTED
 * for problems that have no reference. */
fat_status fat_cases_make(const fat_problem *p, uint64_t seed, fat_cases *cases, fat_error *err);
void fat_cases_free(fat_cases *cases);

#endif
