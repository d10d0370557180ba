/* kinds.c -- bends normal numbers to a kind of data, and weighs the times on all of them.
 *
 * In: a head of Q and one of K. Out: the same with the scores of the kind. A line over 16384 keys does not
 * fit the 8 bits of a bf16, but two columns hold it exactly: key j is 256 hi + lo, which any dtype
 * represents, and the two constants of Q differ by a change of exponent. What is rounded is one constant: a
 * slope is off by up to 0.2 %, by the same from the first key to the last. Of d columns d - 1 or d - 2 stay
 * normal. */
#include "kinds.h"

#include "half.h"

#include <math.h>

enum { STEP = 256 /* keys that the lower column counts */, SINK_KEYS = 4, PEAK_EVERY = 64 };

const fat_kind fat_kinds[FAT_KINDS] = {
    {.name = "normal", .backward = true},
    {.name = "wide", .backward = true, .deviation = 6},
    {.name = "rise100", .slope = 1.0f / 100},
    {.name = "rise16", .slope = 1.0f / 16},
    {.name = "rise4", .slope = 1.0f / 4},
    {.name = "fall100", .slope = -1.0f / 100},
    {.name = "fall16", .slope = -1.0f / 16},
    {.name = "fall4", .slope = -1.0f / 4},
    {.name = "sink", .sink = 10},
    {.name = "peaks", .peak = 12},
};

bool fat_kinds_has(const fat_problem *p, int kind)
{
  return (p->op == FAT_FWD || fat_kinds[kind].backward) &&
         (fat_kinds[kind].slope == 0 || p->k <= (int64_t)STEP * STEP);
}

/* Nats on one key. Of each 64 keys another one is a peak: no tile has it always in the same column. */
static float added(const fat_kind *kind, int64_t j)
{
  const bool peak = j % PEAK_EVERY == (29 * (j / PEAK_EVERY) + 17) % PEAK_EVERY;
  return (j < SINK_KEYS ? kind->sink : 0) + (peak ? kind->peak : 0);
}

/* The LSE of n normal scores of deviation s is about log n + s^2 / 2, and s sqrt(2 log n) where a few of them
 * outweigh all others, as in a random energy model. */
static float likely_lse(float s, int64_t n)
{
  const float nats = logf((float)(n > 1 ? n : 1));
  return s * s < 2 * nats ? nats + s * s / 2 : s * sqrtf(2 * nats);
}

void fat_kinds_bend(const fat_problem *p, int kind, float scale, float *q, float *k, float *lse)
{
  const fat_kind *of = &fat_kinds[kind];
  const int64_t d = p->d;
  const float wider = of->deviation > 0 ? of->deviation / (fabsf(scale) * sqrtf((float)d)) : 1;
  const float slope = fat_half_round(p->dtype, of->slope / scale), one = fat_half_round(p->dtype, 1 / scale);
  const bool adds = of->sink > 0 || of->peak > 0;
  for (int64_t i = 0; i < p->q; i++, q += d) {
    float squares = 0;
    for (int64_t x = 0; x < d; x++) {
      q[x] = fat_half_round(p->dtype, q[x] * wider);
      squares += q[x] * q[x];
    }
    if (slope != 0)
      q[d - 2] = STEP * slope;
    if (slope != 0 || adds)
      q[d - 1] = slope != 0 ? slope : one;
    if (lse)
      lse[i] = likely_lse(fabsf(scale) * sqrtf(squares), p->k);
  }
  for (int64_t j = 0; j < p->k; j++, k += d) {
    if (slope != 0)
      k[d - 2] = (float)(j / STEP);
    if (slope != 0 || adds)
      k[d - 1] = slope != 0 ? (float)(j % STEP) : added(of, j);
  }
}

double fat_kinds_mean(const double ms[FAT_KINDS])
{
  double sum = 0;
  int others = 0;
  if (!(ms[0] > 0))
    return 0;
  for (int i = 1; i < FAT_KINDS; i++)
    if (ms[i] > 0) {
      sum += log(ms[i] / ms[0]);
      others++;
    }
  return others ? ms[0] * exp(sum / (2 * others)) : ms[0];
}
