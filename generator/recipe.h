/* recipe.h -- how a compiled kernel is launched: a few steps over one workspace, as data.
 *
 *   workspace 8*b*h*q
 *   clear 0 4*b*h*q
 *   launch fa1_0123456789abcdef grid b*h block 128 shared 49152 args call ws(0) ws(4*b*h*q)
 *
 * One step a line. Expressions: whole numbers, the names b h hk q k SMs, + - * and ceildiv(x,y), min(x,y),
 * max(x,y), parentheses. Arguments: `call` is the struct of templates/lib/args.h by value, `ws(e)` a pointer
 * e bytes into the workspace, `int(e)` a 32-bit number, `mapQ(e)`, `mapK(e)`, `mapV(e)`, `mapO(e)` a tensor
 * map of that tensor by value, whose boxes are 128 bytes of e rows, swizzled over 128 bytes. Written by X.lua
 * when the source is rendered, stored beside the cubin, evaluated at launch: a kernel tuned at one shape
 * launches at another, without Lua. The order of lines is: at most one `workspace` (first), then `clear` and
 * `launch` steps in their order. */
#ifndef FAT_RECIPE_H
#define FAT_RECIPE_H

#include "expr.h"
#include "status.h"
#include "text.h"
#include <stdint.h>

enum {
  FAT_RECIPE_STEPS = 8,  /* steps of one recipe */
  FAT_RECIPE_ARGS = 6,   /* arguments of one launch */
  FAT_RECIPE_ENTRY = 64, /* bytes of an entry name with its zero */
};

/* ORDER ARG */
typedef enum fat_arg_kind {
  FAT_ARG_CALL,
  FAT_ARG_WS,
  FAT_ARG_INT,
  FAT_ARG_MAP_Q,
  FAT_ARG_MAP_K,
  FAT_ARG_MAP_V,
  FAT_ARG_MAP_O,
  FAT_ARG_COUNT
} fat_arg_kind;
enum { FAT_RECIPE_TENSORS = FAT_ARG_COUNT - FAT_ARG_MAP_Q /* that a map may be of: Q, K, V, O */ };
typedef enum fat_step_kind { FAT_STEP_CLEAR, FAT_STEP_LAUNCH } fat_step_kind;

typedef struct fat_step {
  fat_step_kind kind;
  fat_expr offset, bytes;       /* clear: where in the workspace, how much */
  char entry[FAT_RECIPE_ENTRY]; /* launch */
  fat_expr grid, block, shared; /* launch: blocks (x only), threads, dynamic shared bytes */
  int args;
  struct {
    fat_arg_kind kind;
    fat_expr value;
  } arg[FAT_RECIPE_ARGS];
} fat_step;

typedef struct fat_recipe {
  fat_expr workspace; /* count 0: none */
  int steps;
  fat_step step[FAT_RECIPE_STEPS];
} fat_recipe;

/* One step with its numbers. */
typedef struct fat_step_values {
  int64_t offset, bytes;
  int64_t grid, block, shared;
  int64_t arg[FAT_RECIPE_ARGS];
} fat_step_values;

/* Text to struct and back; FAT_E_INPUT with line and column. Printing gives the canonical text (no blanks
 * inside expressions, only needed parentheses), which parses to the same struct. */
fat_status fat_recipe_parse(const char *text, fat_recipe *r, fat_error *err);
/* The same on the heap: its 70 KB are much for the stack of somebody else's thread. free() it. On failure,
 * which may be FAT_E_NOMEM too, *r is NULL. */
fat_status fat_recipe_make(const char *text, fat_recipe **r, fat_error *err);
void fat_recipe_print(const fat_recipe *r, fat_text *out);

/* The entry of the first step that takes a tensor map, which not every driver makes; NULL: none does. */
const char *fat_recipe_mapped(const fat_recipe *r);

/* Evaluation. FAT_E_INPUT where an expression fails (fat_expr_eval) and on a senseless result: grid below 1
 * where the problem has work or above 2^31 - 1, block above 1024, shared above 1 MiB, a negative number of
 * bytes, a clear or a pointer beyond the workspace, an int beyond 32 bits, a box of a tensor map without rows
 * or with more than 256. */
fat_status fat_recipe_workspace(const fat_recipe *r, const fat_sizes *sizes, int64_t *bytes, fat_error *err);
fat_status fat_recipe_step(const fat_recipe *r, int step, const fat_sizes *sizes, fat_step_values *values,
                           fat_error *err);

#endif
