/* feature.h -- the features of a problem text: one row each, read, written and checked.
 *
 * Used by problem.c, which has the public side of it. */
#ifndef FAT_FEATURE_H
#define FAT_FEATURE_H

#include "problem.h"
#include "words.h"

/* What the numbers behind a feature's name are. */
typedef enum fat_numbers_of {
  FAT_NUMBERS_NONE,
  FAT_NUMBERS_ONE,
  FAT_NUMBERS_TWO,
  FAT_NUMBERS_HASH /* one that decides the code, in 16 hexadecimal digits */
} fat_numbers_of;

typedef struct fat_feature_row {
  const char *name;
  fat_numbers_of numbers;
  char separator; /* between two numbers */
  uint64_t least; /* of each number; above 1 what it is a multiple of too */
  const char *form;
} fat_feature_row;
extern const fat_feature_row fat_features[FAT_FEATURE_COUNT]; /* ORDER FEATURE */

/* Numbers behind the name: 0, 1 or 2. */
int fat_feature_numbers(fat_feature f);
/* Whether they decide the code, so that they stand in a family text too. */
bool fat_feature_in_family(fat_feature f);

/* Whether some kernel serves it for this op: what an error suggests. */
bool fat_feature_offered(fat_feature f, fat_op op);

/* The problem without what makes its family but its causal mask and equal bits. False: it is that already, or
 * has a feature whose own tiles no plain problem knows. */
bool fat_feature_plain(const fat_problem *p, fat_problem *plain);

/* Reads the present word into the problem; `last` is the feature of the word before it, or -1. */
fat_status fat_feature_read(const fat_words *w, bool family, fat_problem *p, int *last);

/* One text for each mask: a window that ends at the diagonal is causal, one that reaches everything on the
 * left adds nothing to that, and one that reaches everything is none. */
void fat_feature_settle(fat_problem *p, bool family);

/* Ranges of numbers, features that exclude each other or need another, words of backward texts alone. */
fat_status fat_feature_check(const fat_problem *p, fat_error *err);

/* Writes one feature with its numbers, as much as has room; returns what snprintf would. */
int fat_feature_print(const fat_problem *p, fat_feature f, bool family, char *to, size_t room);

#endif
