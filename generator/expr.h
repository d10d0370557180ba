/* expr.h -- the arithmetic of a recipe: whole numbers, sizes by name, + - * ceildiv min max, parentheses.
 *
 * Text is read once into postfix operations and evaluated at each launch, without allocation. Text and struct
 * are one to one: printing gives the canonical text, which reads back to the same operations. */
#ifndef FAT_EXPR_H
#define FAT_EXPR_H

#include "status.h"
#include "text.h"
#include <stdint.h>

enum {
  FAT_EXPR_CODE = 48, /* operations of one expression */
  FAT_EXPR_TEXT = 32, /* bytes that each takes at most in print: a number of 20 digits, ceildiv(,) */
};

/* An expression, ready to evaluate: postfix operations on a small stack. */
typedef struct fat_expr {
  int count;                       /* 0: none */
  unsigned char op[FAT_EXPR_CODE]; /* private to expr.c */
  int64_t value[FAT_EXPR_CODE];    /* of a number; index of a name */
} fat_expr;

/* The numbers an expression may name, as b h hk q k SMs tq tk L R chunk split. */
typedef struct fat_sizes {
  int64_t b, h, hk, q, k, sms;
  int64_t tq, tk;      /* rows of Q and of K of all batches */
  int64_t left, right; /* L and R: keys that a row sees to each side of the diagonal; FAT_PROBLEM_ALL: all */
  int64_t chunk;       /* 0: none */
  int64_t split;       /* keys of each; 0: none */
} fat_sizes;

/* The names, as an error lists them. */
#define FAT_EXPR_NAMES "b h hk q k SMs tq tk L R chunk split"

/* Reads the longest expression at *at and moves *at behind it. FAT_E_INPUT with what was expected, *at being
 * where it was. */
fat_status fat_expr_parse(const char **at, fat_expr *e, fat_error *err);

/* Appends the canonical text: no blanks, only the parentheses that are needed. */
void fat_expr_print(const fat_expr *e, fat_text *out);

/* FAT_E_INPUT on overflow of int64 and where a divisor is not positive. */
fat_status fat_expr_eval(const fat_expr *e, const fat_sizes *sizes, int64_t *value, fat_error *err);

#endif
