/* half.c -- conversions between float and the element types of tensors, bit by bit.
 *
 * In and out: IEEE 754 numbers. Nothing depends on the machine's rounding mode or on its own conversions. */
#include "half.h"

#include <math.h>

enum {
  F32_INFINITY = 0x7f800000,
  F16_OVERFLOW = 0x477ff000, /* 65520: halfway from the largest f16 to the next power of two */
  F16_NORMAL = 0x38800000,   /* 2^-14: the smallest that is not subnormal */
  F16_BIAS = 0x38000000,     /* the difference of the exponents' biases, 127 - 15 */
  F16_LEAST = 0x33000000,    /* 2^-25: halfway from zero to the smallest f16 */
};

/* Drops the low `count` bits, to nearest, ties to even; a carry goes into the exponent, where it belongs. */
static uint32_t shortened(uint32_t bits, int count)
{
  uint32_t odd = bits >> count & 1;
  return (bits + (1u << (count - 1)) - 1 + odd) >> count;
}

uint16_t fat_half_to_f16(float x)
{
  uint32_t bits = fat_half_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > F32_INFINITY)
    return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x1ff));
  if (size >= F16_OVERFLOW)
    return (uint16_t)(sign | 0x7c00);
  if (size >= F16_NORMAL)
    return (uint16_t)(sign | shortened(size - F16_BIAS, 13));
  if (size <= F16_LEAST)
    return (uint16_t)sign;
  uint32_t digits = (size & 0x7fffff) | 0x800000; /* in units of 2^(exponent - 150) */
  return (uint16_t)(sign | shortened(digits, 126 - (int)(size >> 23)));
}

float fat_half_from_f16(uint16_t bits)
{
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, digits = bits & 0x3ff;
  if (exponent == 31)
    return fat_half_of_bits(sign | F32_INFINITY | digits << 13);
  if (exponent == 0) {
    float size = (float)digits * 0x1p-24f;
    return sign ? -size : size;
  }
  return fat_half_of_bits(sign | ((exponent << 23) + F16_BIAS) | digits << 13);
}

uint16_t fat_half_to_bf16(float x)
{
  uint32_t bits = fat_half_bits(x);
  if ((bits & 0x7fffffff) > F32_INFINITY)
    return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)shortened(bits, 16);
}

float fat_half_from_bf16(uint16_t bits)
{
  return fat_half_of_bits((uint32_t)bits << 16);
}

float fat_half_tf32(float x)
{
  uint32_t bits = fat_half_bits(x);
  return (bits & F32_INFINITY) == F32_INFINITY ? x : fat_half_of_bits((bits + 0x1000) & ~UINT32_C(0x1fff));
}

float fat_half_round(fat_dtype type, float x)
{
  if (type == FAT_F16)
    return fat_half_from_f16(fat_half_to_f16(x));
  return type == FAT_BF16 ? fat_half_from_bf16(fat_half_to_bf16(x)) : x;
}

void fat_half_round_all(fat_dtype type, float *x, int64_t count)
{
  for (int64_t i = 0; i < count; i++)
    x[i] = fat_half_round(type, x[i]);
}

void fat_half_store(fat_dtype type, void *elements, const float *from, int64_t count)
{
  char *to = elements;
  for (int64_t i = 0; type == FAT_BYTE && i < count; i++)
    to[i] = from[i] != 0;
  for (int64_t i = 0; type == FAT_I32 && i < count; i++) {
    const int32_t whole = (int32_t)from[i];
    memcpy(to + 4 * i, &whole, sizeof whole);
  }
  if (type == FAT_I32 || type == FAT_BYTE)
    return;
  if (type != FAT_F16 && type != FAT_BF16) {
    memcpy(to, from, (size_t)count * sizeof *from);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    uint16_t bits = type == FAT_F16 ? fat_half_to_f16(from[i]) : fat_half_to_bf16(from[i]);
    memcpy(to + 2 * i, &bits, sizeof bits);
  }
}

void fat_half_load(fat_dtype type, float *to, const void *elements, int64_t count)
{
  const char *from = elements;
  for (int64_t i = 0; type == FAT_BYTE && i < count; i++)
    to[i] = from[i];
  for (int64_t i = 0; type == FAT_I32 && i < count; i++) {
    int32_t whole;
    memcpy(&whole, from + 4 * i, sizeof whole);
    to[i] = (float)whole;
  }
  if (type == FAT_I32 || type == FAT_BYTE)
    return;
  if (type != FAT_F16 && type != FAT_BF16) {
    memcpy(to, from, (size_t)count * sizeof *to);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    uint16_t bits;
    memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = type == FAT_F16 ? fat_half_from_f16(bits) : fat_half_from_bf16(bits);
  }
}

float fat_half_operand(fat_dtype type, float x)
{
  return type == FAT_TF32 ? fat_half_tf32(x) : x;
}

float fat_half_stored(fat_dtype type, float x)
{
  float rounded = fat_half_round(type, x);
  return isfinite(rounded) ? rounded : fat_half_tf32(x); /* f16 has as many digits as TF32 */
}

double fat_half_unit(fat_dtype type, double size)
{
  int exponent;
  frexp(size, &exponent); /* size is 0.5 to 1 times 2^exponent */
  if (type == FAT_BF16)
    return ldexp(1, exponent - 8);
  return type == FAT_F16 ? ldexp(1, (exponent > -13 ? exponent : -13) - 11) : 0;
}
