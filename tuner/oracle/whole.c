/* whole.c -- solves every row and key of every batch, one by one. */
#include "whole.h"

#include "draw.h"
#include "gradients.h"

#include <math.h>
#include <stdlib.h>

/* One batch of a call: its own problem, and where it is. */
typedef struct part {
  const fat_problem *call;
  fat_batch batch;
  int64_t b;
} part;

/* Where row `row` of this batch and of a head begins in a packed tensor. */
static int64_t place(const part *x, int t, int64_t head, int64_t row)
{
  const fat_extent e = fat_tensors_extent(x->call, t);
  const fat_side side = fat_tensors[t].side;
  const int64_t b = e.size[0] > 1 ? x->b : 0, first = side == FAT_OF_Q ? x->batch.q0 : x->batch.k0;
  row += side == FAT_OF_Q || side == FAT_OF_K ? first : 0;
  return ((b * e.size[1] + head) * e.size[2] + row) * e.size[3];
}

/* Where the part of an input begins that a row (or key) reads: `head` is one of its side. */
static int64_t reads(const part *x, int t, fat_side side, int64_t head, int64_t i)
{
  const int64_t padding = fat_tensors[t].width == FAT_WIDE_K && !fat_problem_has(x->call, FAT_VARLEN)
                              ? x->batch.k0
                              : 0; /* ahead of the first key */
  const int64_t group = x->call->h / x->call->hk, other = side == FAT_OF_Q ? head / group : head * group;
  if (fat_tensors[t].side == side)
    return place(x, t, head, i) + padding;
  if (fat_tensors[t].side == FAT_OF_CALL || fat_tensors[t].side == FAT_OF_TABLE)
    return 0;
  if (fat_tensors[t].element == FAT_ELEMENT_I32 && fat_tensors[t].side != FAT_OF_Q) /* read already */
    return place(x, t, 0, 0);
  const bool of_heads = fat_tensors[t].side == FAT_OF_HEADS || fat_tensors[t].side == FAT_OF_ALL_HEADS ||
                        fat_tensors[t].side == FAT_OF_BLOCKS;
  return place(x, t, of_heads && side == FAT_OF_Q ? head : other, 0) + padding;
}

static void solve_row(const part *x, fat_side side, int64_t head, int64_t i, const fat_reference_inputs *in,
                      double *scores, double *const right[FAT_TENSORS], fat_bound *bound)
{
  fat_reference_inputs one = *in;
  one.rows = fat_tensors_extent(x->call, FAT_Q).size[2];
  one.columns = x->call->k;
  one.length = fat_tensors_extent(x->call, FAT_TABLE).size[3];
  one.blocks = fat_draw_blocks(x->call, 0) * fat_draw_blocks(x->call, 1);
  one.head = x->b * x->call->h + (side == FAT_OF_Q ? head : head * (x->call->h / x->call->hk));
  double *results[FAT_TENSORS] = {NULL};
  for (int t = 0; t < FAT_TENSORS; t++) {
    if (in->of[t])
      one.of[t] = in->of[t] + reads(x, t, side, head, i);
    if (fat_tensors[t].side == side && right[t])
      results[t] = right[t] + place(x, t, head, i);
  }
  fat_reference_row(&x->batch.p, side, i, &one, scores, results, bound);
}

/* What a tensor by batch holds; where it is not given, as if it were not there. */
static int64_t given(const fat_problem *p, fat_feature f, int which, int64_t b, const void *from)
{
  const fat_reference_inputs *in = from;
  const float *of = in->of[fat_tensors_of(f, which)];
  return of ? (int64_t)of[b] : p->q;
}

/* Rows that no batch has are left as they are: NaN says so. */
static void leave_all(const fat_problem *p, double *const right[FAT_TENSORS])
{
  for (int t = 0; t < FAT_TENSORS; t++)
    for (int64_t i = 0; right[t] && i < fat_tensors_elements(p, t); i++)
      right[t][i] = NAN;
}

static bool solve(const fat_problem *p, const fat_reference_inputs *in, double *const right[FAT_TENSORS],
                  fat_bound *bound)
{
  double *scores = malloc((size_t)(p->k ? p->k : 1) * sizeof *scores);
  leave_all(p, right);
  for (int64_t b = 0; scores && b < p->b; b++) {
    const part x = {p, fat_draw_batch(p, b, given, in), b};
    for (int side = FAT_OF_Q; side <= FAT_OF_K; side++) {
      const bool of_q = side == FAT_OF_Q;
      const int64_t heads = of_q ? p->h : p->hk, rows = of_q ? x.batch.p.q : x.batch.p.k;
      for (int64_t n = 0; n < heads * rows && fat_reference_has(p, (fat_side)side); n++)
        solve_row(&x, (fat_side)side, n / rows, n % rows, in, scores, right, bound);
    }
  }
  for (int64_t h = 0; right[FAT_DSINKS] && h < p->h; h++)
    fat_gradients_sink(p, h, in, right[FAT_DSINKS] + h, bound);
  free(scores);
  return scores != NULL;
}

bool fat_whole_double(const fat_problem *p, const fat_reference_inputs *in, double *right[FAT_TENSORS])
{
  return solve(p, in, right, NULL);
}

bool fat_whole_solve(const fat_problem *p, const fat_reference_inputs *in, double *right[FAT_TENSORS],
                     fat_bound *bound)
{
  *bound = (fat_bound){0};
  return solve(p, in, right, bound);
}
