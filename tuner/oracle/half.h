/* half.h -- short floating-point numbers on the host: f16, bf16, and the f32 that TF32 products read.
 *
 * Rounding is to the nearest, ties to even; for TF32 ties away from zero, as the GPU's conversion does. What
 * is too large becomes infinite, NaN stays NaN, subnormal numbers are numbers. */
#ifndef FAT_HALF_H
#define FAT_HALF_H

#include "problem.h"

#include <string.h>

static inline uint32_t fat_half_bits(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float fat_half_of_bits(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

uint16_t fat_half_to_f16(float x);
float fat_half_from_f16(uint16_t bits);
uint16_t fat_half_to_bf16(float x);
float fat_half_from_bf16(uint16_t bits);
float fat_half_tf32(float x); /* 10 bits behind the point */

/* The nearest number that an element of such a tensor holds: x itself for those of f32. */
float fat_half_round(fat_dtype type, float x);
void fat_half_round_all(fat_dtype type, float *x, int64_t count);

/* `count` elements of a tensor; `elements` may lie at any address. */
void fat_half_store(fat_dtype type, void *elements, const float *from, int64_t count);
void fat_half_load(fat_dtype type, float *to, const void *elements, int64_t count);

/* What a product reads of an operand. */
float fat_half_operand(fat_dtype type, float x);
/* S, P, dP and dS as PyTorch stores them. Our kernels keep S in float, so where f16 would overflow they go
 * on: there the number is rounded to as many digits as f16 has. */
float fat_half_stored(fat_dtype type, float x);
/* A unit in the last place of a number of that size as f16 or bf16, of 0 as of 1/2; 0 for other types, whose
 * roundings are counted in epsilons of a float. */
double fat_half_unit(fat_dtype type, double size);

#endif
