/* recipe.h -- how a compiled kernel is launched: a few steps over one workspace, as data.
 *
 *   workspace 8*b*h*q
 *   valid 2147483648-b*h*ceildiv(q,64)
 *   reduces dQ
 *   clear 0 4*b*h*q
 *   launch fa1_0123456789abcdef grid b*h block 128 shared 49152 args call ws(0) ws(4*b*h*q)
 *   launch sum_0123456789abcdef grid 4*b block 64 shared 0 cluster 4 heads 2 overlap args call mapdO(64)
 *
 * One step a line. Expressions: whole numbers, + - * and ceildiv(x,y), min(x,y), max(x,y), parentheses, and
 * the names b h hk q k SMs, tq tk (rows of Q and of K of all batches), L R (keys to the left and right of the
 * diagonal, 2147483647 for all), chunk and split (0 without). Arguments: `call` is the struct of
 * templates/lib/args.h by value, `ws(e)` a pointer e bytes into the workspace, `int(e)` a 32-bit number,
 * `map` and a tensor's name
 * (`mapQ(e)`) a tensor map of it by value, whose boxes are 128 bytes of e rows, swizzled over 128 bytes.
 * `cluster e`: so many blocks form a cluster. `heads e`: the boxes of tensors that have a row for each of Q
 * hold rows of e heads, side by side. `overlap`: the launch may begin before the work ahead of it on
 * its stream has ended, where the driver lets it; the kernel waits where it needs that. `valid
 * e`: the config is none for sizes where e is 0 or less. `reduces` and a tensor's name: the launches sum it
 * in no fixed order, so that equal calls may differ in its last bits.
 *
 * Written by X.lua when the source is rendered, stored beside the cubin, evaluated at launch: a kernel tuned
 * at one shape launches at another, without Lua. The order of lines is: at most one `workspace`, then `valid`
 * and `reduces` lines, then `clear` and `launch` steps in their order. */
#ifndef FAT_RECIPE_H
#define FAT_RECIPE_H

#include "expr.h"
#include "status.h"
#include "tensors.h"
#include "text.h"
#include <stdbool.h>
#include <stdint.h>

enum {
  FAT_RECIPE_STEPS = 8,  /* steps of one recipe */
  FAT_RECIPE_ARGS = 16,  /* arguments of one launch */
  FAT_RECIPE_VALIDS = 4, /* lines `valid` */
  FAT_RECIPE_ENTRY = 64, /* bytes of an entry name with its zero */
};

/* ORDER ARG */
typedef enum fat_arg_kind { FAT_ARG_CALL, FAT_ARG_WS, FAT_ARG_INT, FAT_ARG_MAP, FAT_ARG_COUNT } fat_arg_kind;
typedef enum fat_step_kind { FAT_STEP_CLEAR, FAT_STEP_LAUNCH } fat_step_kind;

typedef struct fat_step {
  fat_step_kind kind;
  fat_expr offset, bytes;       /* clear: where in the workspace, how much */
  char entry[FAT_RECIPE_ENTRY]; /* launch */
  fat_expr grid, block, shared; /* launch: blocks (x only), threads, dynamic shared bytes */
  fat_expr cluster;             /* blocks of a cluster; count 0: there are no clusters */
  fat_expr heads;               /* of a box; count 0: one */
  bool overlap;                 /* with the launch before */
  int args;
  struct {
    fat_arg_kind kind;
    fat_tensor tensor; /* that a map is of; else 0 */
    fat_expr value;
  } arg[FAT_RECIPE_ARGS];
} fat_step;

typedef struct fat_recipe {
  fat_expr workspace; /* count 0: none */
  int valids;
  fat_expr valid[FAT_RECIPE_VALIDS];
  uint32_t reduced; /* a bit for each tensor */
  int steps;
  fat_step step[FAT_RECIPE_STEPS];
} fat_recipe;

/* One step with its numbers. */
typedef struct fat_step_values {
  int64_t offset, bytes;
  int64_t grid, block, shared, cluster; /* cluster 0: none */
  int64_t heads;                        /* of a box of rows of Q; 0: one */
  int64_t arg[FAT_RECIPE_ARGS];
} fat_step_values;

/* Text to struct and back; FAT_E_INPUT with line and column. Printing gives the canonical text (no blanks
 * inside expressions, only needed parentheses), which parses to the same struct. */
fat_status fat_recipe_parse(const char *text, fat_recipe *r, fat_error *err);
/* The same on the heap, with room only for the steps that it has: the whole struct takes 80 KB, much of the
 * stack of a caller's thread. To be freed by free(). On failure, which may be FAT_E_NOMEM too, *r is NULL. */
fat_status fat_recipe_make(const char *text, fat_recipe **r, fat_error *err);
void fat_recipe_print(const fat_recipe *r, fat_text *out);

/* The entry of the first step that takes a tensor map, or has a cluster: not every driver can do these.
 * NULL: there is none. */
const char *fat_recipe_mapped(const fat_recipe *r);
const char *fat_recipe_clustered(const fat_recipe *r);

/* What expressions name, of a problem on a GPU of so many SMs. */
fat_sizes fat_recipe_sizes(const fat_problem *p, int64_t sms);

/* FAT_E_UNSUPPORTED where a line `valid` says that the config is none for these sizes, or its numbers are
 * beyond 64 bits there. */
fat_status fat_recipe_valid(const fat_recipe *r, const fat_sizes *sizes, fat_error *err);

/* The same where any number of its steps is senseless for these sizes. */
fat_status fat_recipe_check(const fat_recipe *r, const fat_sizes *sizes, fat_error *err);

/* Evaluation. FAT_E_INPUT where an expression fails (fat_expr_eval) and on a senseless result: grid below 1
 * where the problem has work or above 2^31 - 1, block above 1024, shared above 1 MiB, a negative number of
 * bytes, a clear or a pointer beyond the workspace, an int beyond 32 bits, a box of a tensor map without rows
 * or with more than 256, a cluster of more than 8 blocks or one that does not divide the grid, heads that do
 * not divide the rows of a box of theirs. */
fat_status fat_recipe_workspace(const fat_recipe *r, const fat_sizes *sizes, int64_t *bytes, fat_error *err);
fat_status fat_recipe_step(const fat_recipe *r, int step, const fat_sizes *sizes, fat_step_values *values,
                           fat_error *err);

#endif
