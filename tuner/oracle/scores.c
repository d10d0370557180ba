/* scores.c -- the chain from a scaled product to a score, in double: softcap, alibi, bias, mod, mask. */
#include "scores.h"

#include "draw.h"
#include "drop.h"
#include "mods.h"

#include <math.h>
#include <string.h>

/* Where the byte of a pair's block lies among those of the first head that is given. */
static int64_t block_of(const fat_problem *p, const fat_reference_inputs *in, const fat_scored *at)
{
  fat_problem call = *p; /* p may be a batch of it */
  call.k = in->columns ? in->columns : p->k;
  const int64_t all = in->blocks ? in->blocks : fat_draw_blocks(&call, 0) * fat_draw_blocks(&call, 1);
  const int64_t I = at->i / (int64_t)p->arg[FAT_BLOCKSPARSE][0],
                J = at->j / (int64_t)p->arg[FAT_BLOCKSPARSE][1];
  return at->head * all + I * fat_draw_blocks(&call, 1) + J;
}

fat_score fat_scores_of(const fat_problem *p, const fat_reference_inputs *in, const fat_scored *at,
                        double product)
{
  fat_score s = {product, 1, fabs(product)};
  if (fat_problem_has(p, FAT_SOFTCAP)) {
    const double cap = (double)in->scalar[FAT_CAP], t = tanh(product / cap);
    s = (fat_score){cap * t, 1 - t * t, fabs(cap * t)};
  }
  if (fat_problem_has(p, FAT_ALIBI)) {
    const double far = fabs((double)(at->i + p->k - p->q - at->j));
    const double term = -(double)in->of[FAT_SLOPES][at->head] * far;
    s.value += term;
    s.size += fabs(term);
  }
  const int64_t pair = at->row * (in->columns ? in->columns : p->k) + at->j;
  if (fat_problem_has(p, FAT_BIAS)) {
    s.value += (double)in->of[FAT_BIASES][pair];
    s.size += fabs((double)in->of[FAT_BIASES][pair]);
  }
  if (fat_problem_has(p, FAT_MOD)) {
    const fat_modded y = fat_mods_value(fat_mod_of(p, FAT_MOD), p, in, at, s.value, s.size);
    s = (fat_score){y.value, s.slope * y.slope, fmax(s.size, y.size)};
  }
  if (fat_problem_has(p, FAT_MASK_MOD) &&
      fat_mods_value(fat_mod_of(p, FAT_MASK_MOD), p, in, at, 0, 0).value == 0)
    s.value = -INFINITY;
  if (fat_problem_has(p, FAT_MASK) && in->of[FAT_MASKS][pair] == 0)
    s.value = -INFINITY;
  if (fat_problem_has(p, FAT_BLOCKSPARSE) && in->of[FAT_BLOCKS][block_of(p, in, at)] == 0)
    s.value = -INFINITY;
  return s;
}

double fat_scores_dropped(const fat_problem *p, const fat_reference_inputs *in, const fat_scored *at)
{
  if (!fat_problem_has(p, FAT_DROP))
    return 1;
  const float rate = in->scalar[FAT_RATE];
  fat_rng rng;
  memcpy(&rng, in->of[FAT_RNG], sizeof rng);
  return fat_drop_keeps(&rng, rate, in->head + at->head, at->i, at->j) ? 1 / (1 - (double)rate) : 0;
}

double fat_scores_rough(const fat_problem *p)
{
  const bool is_half = p->dtype == FAT_F16 || p->dtype == FAT_BF16;
  return is_half && fat_problem_has(p, FAT_SOFTCAP) ? 0x1p-11 : 0; /* tanh.approx.f32 */
}
