/* reference.c -- the definition of attention, once in double and once in float. No tiles, nothing shared with
 * the kernels. */
#include "reference.h"
#include <math.h>
#include <stdlib.h>

static const double epsilon = 0x1p-24; /* half a unit in the last place of a float */

int64_t fat_reference_keys(const fat_problem *p, int64_t i)
{
  int64_t count = fat_problem_has(p, FAT_CAUSAL) ? i + p->k - p->q + 1 : p->k;
  return count < 0 ? 0 : count;
}

/* Scores of `n` keys, their softmax, the weighted sum of V. */
#define ROW(name, real, exponential, logarithm)                                                              \
  double name(const fat_problem *p, int64_t n, const fat_reference_inputs *in, real *s, real *o, real *lse)  \
  {                                                                                                          \
    real m = -INFINITY, l = 0;                                                                               \
    double size = 0;                                                                                         \
    for (int64_t j = 0; j < n; j++) {                                                                        \
      real dot = 0;                                                                                          \
      for (int32_t c = 0; c < p->d; c++)                                                                     \
        dot += (real)in->q[c] * (real)in->k[j * p->d + c];                                                   \
      s[j] = (real)in->scale * dot;                                                                          \
      m = s[j] > m ? s[j] : m;                                                                               \
      size = fmax(size, fabs((double)s[j]));                                                                 \
    }                                                                                                        \
    for (int32_t c = 0; c < p->dv; c++)                                                                      \
      o[c] = 0;                                                                                              \
    *lse = INFINITY;                                                                                         \
    if (n == 0)                                                                                              \
      return 0;                                                                                              \
    for (int64_t j = 0; j < n; j++) {                                                                        \
      s[j] = exponential(s[j] - m);                                                                          \
      l += s[j];                                                                                             \
      for (int32_t c = 0; c < p->dv; c++)                                                                    \
        o[c] += s[j] * (real)in->v[j * p->dv + c];                                                           \
    }                                                                                                        \
    for (int32_t c = 0; c < p->dv; c++)                                                                      \
      o[c] /= l;                                                                                             \
    *lse = m + logarithm(l);                                                                                 \
    return size;                                                                                             \
  }
ROW(fat_reference_row_double, double, exp, log)
ROW(fat_reference_row_float, float, expf, logf)

#define ALL(name, real, row)                                                                                 \
  double name(const fat_problem *p, const fat_reference_inputs *in, real *o, real *lse)                      \
  {                                                                                                          \
    real *s = malloc((size_t)(p->k ? p->k : 1) * sizeof *s);                                                 \
    double size = s ? 0 : -1;                                                                                \
    for (int64_t head = 0; s && head < p->b * p->h; head++) {                                                \
      int64_t kv = head / p->h * p->hk + head % p->h / (p->h / p->hk);                                       \
      for (int64_t i = 0; i < p->q; i++) {                                                                   \
        int64_t at = head * p->q + i;                                                                        \
        const fat_reference_inputs one = {in->q + at * p->d, in->k + kv * p->k * p->d,                       \
                                          in->v + kv * p->k * p->dv, in->scale};                             \
        size = fmax(size, row(p, fat_reference_keys(p, i), &one, s, o + at * p->dv, lse + at));              \
      }                                                                                                      \
    }                                                                                                        \
    free(s);                                                                                                 \
    return size;                                                                                             \
  }
ALL(fat_reference_double, double, fat_reference_row_double)
ALL(fat_reference_float, float, fat_reference_row_float)

double fat_reference_allowed(const double *right, const float *plain, int64_t count, double score)
{
  double off = 0, most = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(right[i]))
      continue;
    off = fmax(off, fabs((double)plain[i] - right[i]));
    most = fmax(most, fabs(right[i]));
  }
  return 2 * off + 4 * epsilon * most * (1 + score);
}

double fat_reference_allowed_lse(const double *right, const float *plain, int64_t count, double score)
{
  return fat_reference_allowed(right, plain, count, 0) + 4 * epsilon * score;
}

double fat_reference_off(double right, float got)
{
  if (isfinite(right) && isfinite(got))
    return fabs((double)got - right);
  return (double)got == right ? 0 : INFINITY;
}
