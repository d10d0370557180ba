/* reference.c -- the definition of attention in double, and the same in the precision of a problem. No tiles,
 * nothing shared with the kernels. The gradients are in gradients.c.
 *
 * The computation in the problem's own precision rounds as PyTorch does: S and P to f16 or bf16 between float
 * sums, O at the end; for tf32 the operands of products. A kernel may be twice as far from the truth as that,
 * and a few roundings more: with so few elements, luck may have spared the computation those. */
#include "reference.h"

#include "draw.h"
#include "gradients.h"
#include "half.h"
#include "mod.h"
#include "scores.h"
#include "sees.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double epsilon = 0x1p-24; /* half a unit in the last place of a float */

/* -- in double */

/* A row of Q, the keys that it sees and their rows of V; its sink, -inf where it has none. */
typedef struct seen {
  const float *q, *k, *v;
  float sink;
  int64_t n;
  int64_t i, first; /* the row, and the first key */
  const fat_reference_inputs *in;
} seen;

static void row_double(const fat_problem *p, const seen *in, double *s, double *o, double *lse,
                       fat_bound *bound)
{
  double m = (double)in->sink, l = 0;
  if (bound && isfinite(m))
    bound->score = fmax(bound->score, fabs(m));
  for (int64_t j = 0; j < in->n; j++) {
    double dot = 0, sum = 0;
    for (int32_t c = 0; c < p->d; c++) {
      double product = (double)in->q[c] * (double)in->k[j * p->d + c];
      dot += product;
      sum += fabs(product);
    }
    const fat_score score =
        fat_scores_of(p, in->in, &(fat_scored){in->i, in->first + j, 0, 0}, (double)in->in->scale * dot);
    s[j] = score.value;
    m = s[j] > m ? s[j] : m;
    if (bound) {
      bound->score = fmax(bound->score, score.size);
      bound->sum = fmax(bound->sum, fabs((double)in->in->scale) * sum * fmax(1, fabs(score.slope)));
    }
  }
  for (int32_t c = 0; c < p->dv; c++)
    o[c] = 0;
  *lse = isfinite(m) ? m : INFINITY;
  if (in->n == 0 || !isfinite(m))
    return;
  l = exp((double)in->sink - m);
  for (int64_t j = 0; j < in->n; j++) {
    s[j] = exp(s[j] - m);
    l += s[j];
    const double w = s[j] * fat_scores_dropped(p, in->in, &(fat_scored){in->i, in->first + j, 0, 0});
    for (int32_t c = 0; c < p->dv; c++)
      o[c] += w * (double)in->v[j * p->dv + c];
  }
  for (int32_t c = 0; c < p->dv; c++)
    o[c] /= l;
  *lse = m + log(l);
}

/* -- in the problem's precision */

/* P as it enters the second product. */
static float stored_weight(fat_dtype type, float w)
{
  return type == FAT_TF32 ? fat_half_tf32(w) : fat_half_round(type, w);
}

/* LSE is computed from scores that are not rounded, as kernels must in every precision; *stored from rounded
 * ones. */
static float row_own(const fat_problem *p, const seen *in, float *s, float *o, float *stored)
{
  const fat_dtype type = p->dtype;
  float m = in->sink, l, lse;
  for (int64_t j = 0; j < in->n; j++) {
    float dot = 0;
    for (int32_t c = 0; c < p->d; c++)
      dot += fat_half_operand(type, in->q[c]) * fat_half_operand(type, in->k[j * p->d + c]);
    s[j] = (float)fat_scores_of(p, in->in, &(fat_scored){in->i, in->first + j, 0, 0},
                                (double)(in->in->scale * dot))
               .value;
    m = s[j] > m ? s[j] : m;
  }
  l = expf(in->sink - m);
  for (int64_t j = 0; j < in->n; j++)
    l += expf(s[j] - m);
  lse = m + logf(l);
  m = in->sink;
  for (int64_t j = 0; j < in->n; j++) {
    s[j] = fat_half_stored(type, s[j]);
    m = s[j] > m ? s[j] : m;
  }
  l = expf(in->sink - m);
  for (int64_t j = 0; j < in->n; j++)
    l += s[j] = expf(s[j] - m);
  *stored = m + logf(l);
  for (int32_t c = 0; c < p->dv; c++)
    o[c] = 0;
  for (int64_t j = 0; j < in->n; j++) {
    float w = stored_weight(type, s[j] / l) *
              (float)fat_scores_dropped(p, in->in, &(fat_scored){in->i, in->first + j, 0, 0});
    for (int32_t c = 0; c < p->dv; c++)
      o[c] += w * fat_half_operand(type, in->v[j * p->dv + c]);
  }
  for (int32_t c = 0; c < p->dv; c++)
    o[c] = fat_half_round(type, o[c]);
  return lse;
}

static void row_forward(const fat_problem *p, int64_t i, const fat_reference_inputs *in, double *scores,
                        double *right[FAT_TENSORS], fat_bound *bound)
{
  const fat_interval keys = fat_gradients_keys(p, i, in, 0);
  const seen row = {.q = in->of[FAT_Q],
                    .k = in->of[FAT_K] + keys.lo * p->d,
                    .v = in->of[FAT_V] + keys.lo * p->dv,
                    .sink = in->of[FAT_SINKS] ? *in->of[FAT_SINKS] : -INFINITY,
                    .n = keys.hi - keys.lo,
                    .i = i,
                    .first = keys.lo,
                    .in = in};
  double *o = right[FAT_O], *lse = right[FAT_LSE];
  float own[FAT_PROBLEM_DV_MAX], stored;
  row_double(p, &row, scores, o, lse, bound);
  if (row.n == 0 && bound && isfinite(*lse)) /* goes to base 2 and back */
    fat_bound_note(bound, FAT_LSE, *lse, *lse, 0);
  if (row.n == 0 || !bound || !isfinite(*lse))
    return;
  float own_lse = row_own(p, &row, (float *)scores, own, &stored);
  for (int32_t c = 0; c < p->dv; c++)
    fat_bound_note(bound, FAT_O, o[c], (double)own[c], 0);
  fat_bound_note(bound, FAT_LSE, *lse, (double)own_lse, 0);
  bound->of[FAT_LSE].stored = fmax(bound->of[FAT_LSE].stored, fabs((double)stored - *lse));
  bound->terms = row.n > bound->terms ? row.n : bound->terms;
  for (int64_t x = 0; x < row.n * p->dv; x++)
    bound->value = fmax(bound->value, fabs((double)row.v[x]));
}

/* -- bounds */

/* What tensor cores lose, in epsilons of a sum of n products. They add in float, but truncate where a float
 * sum rounds: each step over 8 summands (16 for some) takes up to a unit in the last place, two epsilons, off
 * the sum so far, always towards zero. That is n / 4 for certain. Each product is truncated as well, but
 * those errors differ in sign: n are allowed in all. 3xTF32 goes over them three times. Splitting a number
 * into two halves of 11 bits loses less than 2^-22 of each product three times, 12 epsilons: low times low,
 * and what is rounded off either low half. In f32 the computation here loses as much as a kernel, but in
 * another order: where one row sees one key and they nearly cancel, its luck may be that it loses nothing. */
static double product_steps(fat_dtype type, int64_t n)
{
  switch (type) {
  case FAT_F32:
    return 1;
  case FAT_F32X3:
    return 12 + 3.0 * (double)n;
  default:
    return (double)n;
  }
}

/* What a kernel that stores S may lose beyond what the computation here happened to lose. A stored score is
 * off by half a unit in its last place; luck may have spared the few rows here, so one unit u is allowed.
 * Where u is a quarter or more, rounding decides the weights rather than the scores: weights that are e^u too
 * large or too small move a mean of numbers up to v by at most 2 v tanh(u). */
static double luck_of_stored(const fat_problem *p, const fat_bound *b, int tensor)
{
  const double unit = fat_half_unit(p->dtype, b->score);
  if (fat_tensors[tensor].is_lse)
    return unit;
  return unit < 0.25 ? 0 : 2 * b->value * tanh(unit);
}

/* How far O may be off is the sum of
 *   - twice what the computation is off, or, of a gradient, what rounding dS or P may take off it, whichever
 * is more: where a few large summands cancel, as with equal data, few elements share one luck;
 *   - a unit in the last place of the largest result. FlashAttention-3 allows 2 max |(O + 0.3 - 0.3) - O|,
 * but results of long rows are smaller than 0.3, and errors of their own size would pass;
 *   - four roundings of the largest result, and four of the largest score, whose error e^S turns into
 *     as large a relative one;
 *   - what tensor cores truncate. Weights are positive, so in a sum over keys no partial sum exceeds the
 * result, and only the certain quarter counts. A gradient adds what its own summands lose: dP and D nearly
 * cancel, and do so wholly where a row sees one key and dS is 0. LSE has the score itself as a summand. */
double fat_reference_allowed(const fat_problem *p, const fat_bound *b, int tensor, bool stored)
{
  const double scores =
      (4 + fat_scores_rough(p) / epsilon) * b->score + product_steps(p->dtype, p->d) * b->sum;
  const double most = b->of[tensor].most, luck = stored ? luck_of_stored(p, b, tensor) : 0;
  if (fat_tensors[tensor].is_lse) {
    const double off = stored ? fmax(b->of[tensor].off, b->of[tensor].stored) : b->of[tensor].off;
    return 2 * off + epsilon * (4 * most + scores) + luck;
  }
  const double terms = product_steps(p->dtype, b->terms) / 4;
  const double summands = 4 + product_steps(p->dtype, p->d > p->dv ? p->d : p->dv);
  const double rounded = fmax(2 * b->of[tensor].off, b->of[tensor].spread);
  return rounded + fat_half_unit(fat_tensors_dtype(p, tensor), most) + epsilon * most * (4 + scores + terms) +
         epsilon * summands * b->of[tensor].mass + luck;
}

bool fat_reference_stores(const char *kernel)
{
  return strcmp(kernel, "standard") == 0;
}

double fat_reference_off(double right, float got)
{
  if (isnan(right)) /* left as it was */
    return isnan(got) ? 0 : INFINITY;
  if (isfinite(right) && isfinite(got))
    return fabs((double)got - right);
  return (double)got == right ? 0 : INFINITY;
}

/* -- any row */

fat_status fat_reference_check(const fat_problem *p, fat_error *err)
{
  const uint32_t masks =
      1u << FAT_CAUSAL | 1u << FAT_CAUSAL_TL | 1u << FAT_WINDOW | FAT_DRAWN | 1u << FAT_INTERVAL;
  const uint32_t scores = 1u << FAT_SOFTCAP | 1u << FAT_ALIBI | 1u << FAT_SINK | 1u << FAT_DROP |
                          1u << FAT_MASK | 1u << FAT_BIAS | 1u << FAT_BIAS32 | 1u << FAT_MOD |
                          1u << FAT_MASK_MOD | 1u << FAT_BLOCKSPARSE;
  const uint32_t known =
      masks | scores |
      (p->op == FAT_FWD ? 1u << FAT_CHUNK | 1u << FAT_SPLIT
                        : 1u << FAT_DSINK | 1u << FAT_DLSE | 1u << FAT_DBIAS | 1u << FAT_DET);
  if ((p->features & ~known) == 0)
    return fat_mod_check(p, err);
  char family[FAT_PROBLEM_TEXT];
  return fat_status_fail(err, FAT_E_UNSUPPORTED, "%s: there is no reference to verify such kernels by",
                         fat_problem_family(p, family));
}

bool fat_reference_has(const fat_problem *p, fat_side side)
{
  for (int t = 0; t < FAT_TENSORS; t++)
    if (fat_tensors[t].side == side && fat_tensors_is_out(fat_tensors_role(p, t)))
      return true;
  return false;
}

void fat_reference_row(const fat_problem *p, fat_side side, int64_t i, const fat_reference_inputs *in,
                       double *scores, double *right[FAT_TENSORS], fat_bound *bound)
{
  if (p->op == FAT_FWD)
    row_forward(p, i, in, scores, right, bound);
  else if (side == FAT_OF_Q)
    fat_gradients_row(p, i, in, right, bound);
  else
    fat_gradients_key(p, i, in, right, bound);
}
