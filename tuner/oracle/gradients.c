/* gradients.c -- dQ of one row, dK and dV of one key, in double and in the problem's precision.
 *
 *   P = exp(S - LSE), D = rowsum(dO O) - dLSE, dS = P (dO V^T - D), dQ = scale dS K, dK = scale dS^T Q, dV =
 * P^T dO
 *
 * over the pairs of row and key that the mask leaves. The computation in the problem's precision rounds S, P,
 * dP and dS to its type between float sums, as PyTorch does, and each gradient at the end. Heads that share a
 * key are added up in float. */
#include "gradients.h"

#include "half.h"
#include "scores.h"
#include "sees.h"

#include <float.h>
#include <math.h>

/* What one row and one key need to be scored. */
typedef struct pair {
  const float *q, *k, *v, *o, *d_o;
  float lse, d_lse;
  const fat_reference_inputs *in;
  fat_scored at;
} pair;

/* P (what dropout leaves of it) and dS of a row and a key, exact and in the problem's precision. */
typedef struct weights {
  double P, dS;
  double mass; /* P times the sizes of all summands of dP and D */
  float own_P, own_dS;
} weights;

static double dot(const float *a, const float *b, int32_t n, double *sum)
{
  double x = 0;
  *sum = 0;
  for (int32_t c = 0; c < n; c++) {
    const double product = (double)a[c] * (double)b[c];
    x += product;
    *sum += fabs(product);
  }
  return x;
}

static float own_dot(fat_dtype type, const float *a, const float *b, int32_t n)
{
  float x = 0;
  for (int32_t c = 0; c < n; c++)
    x += fat_half_operand(type, a[c]) * fat_half_operand(type, b[c]);
  return x;
}

static weights weigh(const fat_problem *p, const pair *x, fat_bound *bound)
{
  double sum, dP_sum, D_sum;
  const fat_score S = fat_scores_of(p, x->in, &x->at, (double)x->in->scale * dot(x->q, x->k, p->d, &sum));
  if (isinf(S.value)) /* masked: no weight, and of a row without keys no LSE to be near to */
    return (weights){0};
  const double dP = dot(x->d_o, x->v, p->dv, &dP_sum);
  const double D = dot(x->d_o, x->o, p->dv, &D_sum) - (double)x->d_lse;
  const double Z = fat_scores_dropped(p, x->in, &x->at);
  weights w = {.P = exp(S.value - (double)x->lse)};
  w.dS = w.P * (Z * dP - D) * S.slope;
  w.mass = w.P * (Z * dP_sum + D_sum + fabs((double)x->d_lse)) * fmax(1, fabs(S.slope));
  w.P *= Z;
  if (!bound)
    return w;
  if (isfinite(x->lse)) /* of a row that sees no key it is infinite, and no weight comes of that */
    bound->score = fmax(bound->score, fmax(S.size, fabs((double)x->lse)));
  bound->sum = fmax(bound->sum, fabs((double)x->in->scale) * sum * fmax(1, fabs(S.slope)));
  const fat_dtype type = p->dtype;
  const fat_score own =
      fat_scores_of(p, x->in, &x->at, (double)(x->in->scale * own_dot(type, x->q, x->k, p->d)));
  const float own_S = fat_half_stored(type, (float)own.value);
  const float own_dP = fat_half_stored(type, own_dot(type, x->d_o, x->v, p->dv));
  float own_D = 0;
  for (int32_t c = 0; c < p->dv; c++)
    own_D += x->d_o[c] * x->o[c];
  own_D -= x->d_lse;
  w.own_P = fat_half_stored(type, expf(own_S - x->lse));
  w.own_dS = fat_half_stored(type, w.own_P * ((float)Z * own_dP - own_D) * (float)own.slope);
  w.own_P *= (float)Z;
  return w;
}

/* A row of a gradient while it is summed up: `by` times each row of the other operand. */
typedef struct sums {
  double exact[FAT_PROBLEM_DV_MAX], mass[FAT_PROBLEM_DV_MAX], squares[FAT_PROBLEM_DV_MAX];
  float own[FAT_PROBLEM_DV_MAX];
} sums;

static void add(sums *s, fat_dtype type, const float *row, int32_t n, double by, double mass, float own_by)
{
  const double unit = by != 0 ? fat_half_unit(type, by) : 0; /* 0 is rounded to what it is */
  for (int32_t c = 0; c < n; c++) {
    const double error = unit * (double)row[c];
    s->exact[c] += by * (double)row[c];
    s->mass[c] += mass * fabs((double)row[c]);
    s->squares[c] += error * error;
    s->own[c] += fat_half_operand(type, own_by) * fat_half_operand(type, row[c]);
  }
}

/* The finished row, `scale` times what was added up. */
static void finish(const sums *s, const fat_problem *p, int tensor, int32_t n, float scale, double *right,
                   fat_bound *bound)
{
  const double by = (double)scale;
  for (int32_t c = 0; c < n; c++) {
    right[c] = by * s->exact[c];
    if (!bound)
      continue;
    fat_bound_note(bound, tensor, right[c], (double)fat_half_round(p->dtype, scale * s->own[c]),
                   fabs(by) * s->mass[c]);
    bound->of[tensor].spread = fmax(bound->of[tensor].spread, fabs(by) * sqrt(s->squares[c]));
  }
}

fat_interval fat_gradients_keys(const fat_problem *p, int64_t i, const fat_reference_inputs *in, int64_t at)
{
  if (!in->of[FAT_LO] || !in->of[FAT_HI])
    return fat_sees(p, i);
  return fat_sees_within(p, i, (int64_t)in->of[FAT_LO][at], (int64_t)in->of[FAT_HI][at]);
}

static void note_terms(fat_bound *bound, int64_t terms)
{
  if (bound && terms > bound->terms)
    bound->terms = terms;
}

static float d_lse(const fat_reference_inputs *in, int64_t at)
{
  return in->of[FAT_DLSES] ? in->of[FAT_DLSES][at] : 0;
}

void fat_gradients_row(const fat_problem *p, int64_t i, const fat_reference_inputs *in,
                       double *right[FAT_TENSORS], fat_bound *bound)
{
  const fat_interval keys = fat_gradients_keys(p, i, in, 0);
  double *const dbias = right[FAT_DBIASES]; /* dS itself */
  sums dQ = {0};
  for (int64_t j = 0; dbias && j < p->k; j++)
    dbias[j] = 0;
  for (int64_t j = keys.lo; j < keys.hi; j++) {
    const float *k = in->of[FAT_K] + j * p->d;
    const pair x = {in->of[FAT_Q],
                    k,
                    in->of[FAT_V] + j * p->dv,
                    in->of[FAT_O],
                    in->of[FAT_DO],
                    *in->of[FAT_LSE],
                    d_lse(in, 0),
                    in,
                    {i, j, 0, 0}};
    const weights w = weigh(p, &x, bound);
    add(&dQ, p->dtype, k, p->d, w.dS, w.mass, w.own_dS);
    if (dbias)
      dbias[j] = w.dS;
    if (dbias && bound)
      fat_bound_note(bound, FAT_DBIASES, w.dS, (double)w.own_dS, w.mass);
  }
  finish(&dQ, p, FAT_DQ, p->d, in->scale, right[FAT_DQ], bound);
  note_terms(bound, keys.hi - keys.lo);
}

void fat_gradients_key(const fat_problem *p, int64_t j, const fat_reference_inputs *in,
                       double *right[FAT_TENSORS], fat_bound *bound)
{
  const fat_interval rows = fat_sees_rows(p, j);
  const int64_t group = p->h / p->hk, all = in->rows ? in->rows : p->q;
  sums dK = {0}, dV = {0};
  for (int64_t h = 0; h < group; h++)
    for (int64_t i = rows.lo; i < rows.hi; i++) {
      const int64_t at = h * all + i;
      const fat_interval keys = fat_gradients_keys(p, i, in, at);
      if (j < keys.lo || j >= keys.hi)
        continue;
      const float *q = in->of[FAT_Q] + at * p->d, *d_o = in->of[FAT_DO] + at * p->dv;
      const pair x = {q,
                      in->of[FAT_K],
                      in->of[FAT_V],
                      in->of[FAT_O] + at * p->dv,
                      d_o,
                      in->of[FAT_LSE][at],
                      d_lse(in, at),
                      in,
                      {i, j, at, h}};
      const weights w = weigh(p, &x, bound);
      add(&dK, p->dtype, q, p->d, w.dS, w.mass, w.own_dS);
      add(&dV, p->dtype, d_o, p->dv, w.P, w.P, w.own_P);
    }
  finish(&dK, p, FAT_DK, p->d, in->scale, right[FAT_DK], bound);
  finish(&dV, p, FAT_DV, p->dv, 1, right[FAT_DV], bound);
  note_terms(bound, group * (rows.hi - rows.lo));
}

/* Exponentials of GPUs make 0 of what has no full precision: of a sink that is far below all scores these are
 * all terms that there are. */
static float flushed(double weight)
{
  return weight < FLT_MIN ? 0 : (float)weight;
}

/* A sink has the weight exp(sink - LSE) in every row of its head, and a V of 0: dS = weight (0 - D). */
void fat_gradients_sink(const fat_problem *p, int64_t h, const fat_reference_inputs *in, double *right,
                        fat_bound *bound)
{
  double sum = 0, mass = 0;
  float own = 0;
  const fat_extent e = fat_tensors_extent(p, FAT_LSE);
  for (int64_t b = 0; b < e.size[0]; b++)
    for (int64_t i = 0; i < e.size[2]; i++) {
      const int64_t row = (b * p->h + h) * e.size[2] + i;
      double D_sum;
      if (isnan(in->of[FAT_LSE][row])) /* in no batch */
        continue;
      const float *d_o = in->of[FAT_DO] + row * p->dv, d = d_lse(in, row);
      const double D = dot(d_o, in->of[FAT_O] + row * p->dv, p->dv, &D_sum) - (double)d;
      const double w = exp((double)in->of[FAT_SINKS][h] - (double)in->of[FAT_LSE][row]);
      sum -= w * D;
      mass += w * (D_sum + fabs((double)d));
      own -= flushed(w) * (float)D;
    }
  *right = sum;
  if (bound)
    fat_bound_note(bound, FAT_DSINKS, sum, (double)own, mass);
}
