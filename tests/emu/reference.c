/* reference.c -- the definition of attention, once in double and once in float. No tiles, nothing shared with
 * the kernels. */
#include "reference.h"
#include <math.h>
#include <stdlib.h>

/* Keys that row i sees: 0 .. count - 1. */
static int64_t seen(const fat_problem *p, int64_t i)
{
  int64_t count = fat_problem_has(p, FAT_CAUSAL) ? i + p->k - p->q + 1 : p->k;
  return count < 0 ? 0 : count;
}

/* One row: scores of `n` keys, their softmax, the weighted sum of V. `s` has room for n numbers. Returns the
 * largest size of a score. */
#define ROW(name, real, exponential, logarithm)                                                              \
  static double name(const fat_problem *p, int64_t n, real scale, const float *q, const float *k,            \
                     const float *v, real *s, real *o, real *lse)                                            \
  {                                                                                                          \
    real m = -INFINITY, l = 0;                                                                               \
    double size = 0;                                                                                         \
    for (int64_t j = 0; j < n; j++) {                                                                        \
      real dot = 0;                                                                                          \
      for (int32_t c = 0; c < p->d; c++)                                                                     \
        dot += (real)q[c] * (real)k[j * p->d + c];                                                           \
      s[j] = scale * dot;                                                                                    \
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
        o[c] += s[j] * (real)v[j * p->dv + c];                                                               \
    }                                                                                                        \
    for (int32_t c = 0; c < p->dv; c++)                                                                      \
      o[c] /= l;                                                                                             \
    *lse = m + logarithm(l);                                                                                 \
    return size;                                                                                             \
  }
ROW(row_double, double, exp, log)
ROW(row_float, float, expf, logf)

#define ALL(name, real, row)                                                                                 \
  double name(const fat_problem *p, const emu_inputs *in, real *o, real *lse)                                \
  {                                                                                                          \
    real *s = malloc((size_t)(p->k ? p->k : 1) * sizeof *s);                                                 \
    double size = 0;                                                                                         \
    for (int64_t head = 0; s && head < p->b * p->h; head++) {                                                \
      int64_t kv = head / p->h * p->hk + head % p->h / (p->h / p->hk);                                       \
      for (int64_t i = 0; i < p->q; i++) {                                                                   \
        int64_t at = head * p->q + i;                                                                        \
        size = fmax(size, row(p, seen(p, i), (real)in->scale, in->q + at * p->d, in->k + kv * p->k * p->d,   \
                              in->v + kv * p->k * p->dv, s, o + at * p->dv, lse + at));                      \
      }                                                                                                      \
    }                                                                                                        \
    free(s);                                                                                                 \
    return size;                                                                                             \
  }
ALL(emu_reference_double, double, row_double)
ALL(emu_reference_float, float, row_float)

double emu_reference_allowed(const double *right, const float *plain, int64_t count, double score)
{
  double off = 0, most = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(right[i]))
      continue;
    off = fmax(off, fabs((double)plain[i] - right[i]));
    most = fmax(most, fabs(right[i]));
  }
  return 2 * off + 4 * 0x1p-24 * most * (1 + score);
}
