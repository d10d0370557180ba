/* draw.h -- what the whole-number tensors of a problem hold where no caller gives them: lengths by batch,
 * prefixes, intervals.
 *
 * Inputs of tests and of the tuner, the count of operations and the cost of a config use the same numbers,
 * which follow from the problem alone. And what such numbers, drawn or given, make of a batch: a problem of
 * its own, which begins somewhere in the tensors. */
#ifndef FAT_DRAW_H
#define FAT_DRAW_H

#include "problem.h"

/* What element `at` (batch, head, row) of the `which`-th tensor that a feature brings holds. */
typedef struct fat_element {
  int64_t b, h, i;
} fat_element;
int64_t fat_draw_number(const fat_problem *p, fat_feature f, int which, fat_element at);

/* One batch: a problem without lengths by batch, and its first row and key in the tensors. Its prefix is
 * arg[FAT_PREFIX][0]; the 1 behind it says that it is known. */
typedef struct fat_batch {
  fat_problem p;
  int64_t q0, k0;
} fat_batch;
typedef int64_t (*fat_draw_from)(const fat_problem *p, fat_feature f, int which, int64_t b, const void *from);
/* By numbers that `number` gives, of tensors by batch alone; NULL: those that are drawn. */
fat_batch fat_draw_batch(const fat_problem *p, int64_t b, fat_draw_from number, const void *from);

/* With `varlen`: rows of Q, or of K and V where `keys` is 1, of all batches. arg[FAT_VARLEN] is the call's
 * total plus 1; 0: the drawn total. */
int64_t fat_draw_total(const fat_problem *p, int keys);

/* Of `bs`: how many blocks of rows, or of keys where `keys` is 1, there are; 0 without it. And whether the
 * block at row I, column J of them is there: one of so many, at random; heads differ by the columns' order.
 */
enum { FAT_DRAW_BLOCKS = 4 };
int64_t fat_draw_blocks(const fat_problem *p, int keys);
bool fat_draw_block(const fat_problem *p, fat_element at, int64_t column);

/* The features by batch. */
#define FAT_DRAWN (1u << FAT_VARLEN | 1u << FAT_USED | 1u << FAT_LEFTPAD | 1u << FAT_PREFIX)
/* Whether batches of a call may differ in more than their elements. Their draws repeat after so many. */
bool fat_draw_by_batch(const fat_problem *p);
enum { FAT_DRAW_PERIOD = 16 };

#endif
