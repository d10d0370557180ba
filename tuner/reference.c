/* reference.c -- the definition of attention in double, and the same in the precision of a problem. No tiles,
 * nothing shared with the kernels.
 *
 * The computation in the problem's own precision rounds as PyTorch does: S and P to f16 or bf16 between float
 * sums, O at the end; for tf32 what enters a product. A kernel may be twice as far from the truth as that is,
 * and a few roundings more, which so few elements may have been spared by luck. */
#include "reference.h"

#include "half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double epsilon = 0x1p-24; /* half a unit in the last place of a float */

int64_t fat_reference_keys(const fat_problem *p, int64_t i)
{
  int64_t count = fat_problem_has(p, FAT_CAUSAL) ? i + p->k - p->q + 1 : p->k;
  return count < 0 ? 0 : count;
}

/* -- in double */

static void row_double(const fat_problem *p, int64_t n, const fat_reference_inputs *in, double *s, double *o,
                       double *lse, fat_reference_bound *bound)
{
  double m = -INFINITY, l = 0;
  for (int64_t j = 0; j < n; j++) {
    double dot = 0, sum = 0;
    for (int32_t c = 0; c < p->d; c++) {
      double product = (double)in->q[c] * (double)in->k[j * p->d + c];
      dot += product;
      sum += fabs(product);
    }
    s[j] = (double)in->scale * dot;
    m = s[j] > m ? s[j] : m;
    bound->score = fmax(bound->score, fabs(s[j]));
    bound->sum = fmax(bound->sum, fabs((double)in->scale) * sum);
  }
  for (int32_t c = 0; c < p->dv; c++)
    o[c] = 0;
  *lse = INFINITY;
  if (n == 0)
    return;
  for (int64_t j = 0; j < n; j++) {
    s[j] = exp(s[j] - m);
    l += s[j];
    for (int32_t c = 0; c < p->dv; c++)
      o[c] += s[j] * (double)in->v[j * p->dv + c];
  }
  for (int32_t c = 0; c < p->dv; c++)
    o[c] /= l;
  *lse = m + log(l);
}

/* -- in the problem's precision */

/* What a product reads of an operand. */
static float operand(fat_dtype type, float x)
{
  return type == FAT_TF32 ? fat_half_tf32(x) : x;
}

/* S as PyTorch stores it. Where f16 ends our kernels go on, as they keep S in float: there it is rounded to
 * as many digits. */
static float stored_score(fat_dtype type, float s)
{
  float rounded = fat_half_round(type, s);
  return isfinite(rounded) ? rounded : fat_half_tf32(s); /* f16 has as many digits as TF32 */
}

/* P as it enters the second product. */
static float stored_weight(fat_dtype type, float w)
{
  return type == FAT_TF32 ? fat_half_tf32(w) : fat_half_round(type, w);
}

/* LSE comes of scores that are not rounded, as is asked of kernels in every precision; *stored of those that
 * are. */
static float row_own(const fat_problem *p, int64_t n, const fat_reference_inputs *in, float *s, float *o,
                     float *stored)
{
  float m = -INFINITY, l = 0, lse;
  for (int64_t j = 0; j < n; j++) {
    float dot = 0;
    for (int32_t c = 0; c < p->d; c++)
      dot += operand(p->dtype, in->q[c]) * operand(p->dtype, in->k[j * p->d + c]);
    s[j] = in->scale * dot;
    m = s[j] > m ? s[j] : m;
  }
  for (int64_t j = 0; j < n; j++)
    l += expf(s[j] - m);
  lse = m + logf(l);
  m = -INFINITY;
  l = 0;
  for (int64_t j = 0; j < n; j++) {
    s[j] = stored_score(p->dtype, s[j]);
    m = s[j] > m ? s[j] : m;
  }
  for (int64_t j = 0; j < n; j++)
    l += s[j] = expf(s[j] - m);
  *stored = m + logf(l);
  for (int32_t c = 0; c < p->dv; c++)
    o[c] = 0;
  for (int64_t j = 0; j < n; j++) {
    float w = stored_weight(p->dtype, s[j] / l);
    for (int32_t c = 0; c < p->dv; c++)
      o[c] += w * operand(p->dtype, in->v[j * p->dv + c]);
  }
  for (int32_t c = 0; c < p->dv; c++)
    o[c] = fat_half_round(p->dtype, o[c]);
  return lse;
}

/* -- bounds */

/* A unit in the last place of an O of that size; for f32 the epsilon below counts. */
static double last_place(fat_dtype type, double size)
{
  int exponent;
  frexp(size, &exponent); /* size is 0.5 to 1 times 2^exponent */
  if (type == FAT_BF16)
    return ldexp(1, exponent - 8);
  return type == FAT_F16 ? ldexp(1, (exponent > -13 ? exponent : -13) - 11) : 0;
}

void fat_reference_row(const fat_problem *p, int64_t keys, const fat_reference_inputs *in, double *scores,
                       double *o, double *lse, fat_reference_bound *bound)
{
  float own[FAT_PROBLEM_DV_MAX], stored;
  row_double(p, keys, in, scores, o, lse, bound);
  if (keys == 0)
    return;
  float own_lse = row_own(p, keys, in, (float *)scores, own, &stored);
  for (int32_t c = 0; c < p->dv; c++) {
    bound->off_o = fmax(bound->off_o, fabs((double)own[c] - o[c]));
    bound->most_o = fmax(bound->most_o, fabs(o[c]));
  }
  bound->off_lse = fmax(bound->off_lse, fabs((double)own_lse - *lse));
  bound->off_lse_stored = fmax(bound->off_lse_stored, fabs((double)stored - *lse));
  bound->most_lse = fmax(bound->most_lse, fabs(*lse));
  bound->keys = keys > bound->keys ? keys : bound->keys;
}

/* Tensor cores add in float, but cut where a float sum rounds: each of their steps over 8 summands (16 for
 * some) takes up to a unit in the last place, two epsilons, off the sum so far, always towards zero; and as
 * much off each product, whose signs mix. So `n` summands cost n / 4 epsilons of the sum for certain, and n
 * are allowed. 3xTF32 goes thrice over them. Splitting numbers in two halves of 11 bits loses less than 2^-22
 * of each product three times, 12 epsilons: low times low, and what is rounded off either low half. */
static double product_steps(fat_dtype type, int64_t n)
{
  switch (type) {
  case FAT_F32:
    return 0; /* sums of rounded numbers, as in the computation itself */
  case FAT_F32X3:
    return 12 + 3.0 * (double)n;
  default:
    return (double)n;
  }
}

/* Twice as far as the computation is; a unit in the last place of the largest result, which is
 * FlashAttention-3's max |(O + 0.3 - 0.3) - O| twice, but for the 0.3: results of long rows are smaller, and
 * errors as large as they are would hide below it; four roundings of the largest result, and four of the
 * largest score, whose error e^S turns into as large a relative one; what tensor cores cut off. A sum of
 * weights is never longer than its result, so one over keys counts a quarter: what is certain. */
double fat_reference_allowed_o(const fat_problem *p, const fat_reference_bound *b)
{
  double scores = 4 * b->score + product_steps(p->dtype, p->d) * b->sum;
  double keys = product_steps(p->dtype, b->keys) / 4;
  return 2 * b->off_o + last_place(p->dtype, b->most_o) + epsilon * b->most_o * (4 + scores + keys);
}

/* The same for LSE, of which the score is a summand. */
double fat_reference_allowed_lse(const fat_problem *p, const fat_reference_bound *b, bool stored)
{
  double off = stored ? fmax(b->off_lse, b->off_lse_stored) : b->off_lse;
  return 2 * off + epsilon * (4 * b->most_lse + 4 * b->score + product_steps(p->dtype, p->d) * b->sum);
}

bool fat_reference_stores(const char *kernel)
{
  return strcmp(kernel, "standard") == 0;
}

double fat_reference_off(double right, float got)
{
  if (isfinite(right) && isfinite(got))
    return fabs((double)got - right);
  return (double)got == right ? 0 : INFINITY;
}

/* -- whole calls */

/* All rows; with `own` also in the problem's precision. */
static bool solve(const fat_problem *p, const fat_reference_inputs *in, double *o, double *lse,
                  fat_reference_bound *bound, bool own)
{
  double *s = malloc((size_t)(p->k ? p->k : 1) * sizeof *s);
  for (int64_t head = 0; s && head < p->b * p->h; head++) {
    int64_t kv = head / p->h * p->hk + head % p->h / (p->h / p->hk);
    for (int64_t i = 0; i < p->q; i++) {
      int64_t at = head * p->q + i, keys = fat_reference_keys(p, i);
      const fat_reference_inputs one = {in->q + at * p->d, in->k + kv * p->k * p->d,
                                        in->v + kv * p->k * p->dv, in->scale};
      if (own)
        fat_reference_row(p, keys, &one, s, o + at * p->dv, lse + at, bound);
      else
        row_double(p, keys, &one, s, o + at * p->dv, lse + at, bound);
    }
  }
  free(s);
  return s != NULL;
}

double fat_reference_double(const fat_problem *p, const fat_reference_inputs *in, double *o, double *lse)
{
  fat_reference_bound bound = {0};
  return solve(p, in, o, lse, &bound, false) ? bound.score : -1;
}

bool fat_reference_solve(const fat_problem *p, const fat_reference_inputs *in, double *o, double *lse,
                         fat_reference_bound *bound)
{
  *bound = (fat_reference_bound){0};
  return solve(p, in, o, lse, bound, true);
}
