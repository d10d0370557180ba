/* test_half.c -- f16, bf16 and TF32 on the host: every value of the short types, every border of rounding. */
#include "oracle/half.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The value of a short float from its three fields, as IEEE 754 has it: nothing of the code under test. */
static double value(uint16_t bits, int exponent_bits, int digit_bits)
{
  int exponent = bits >> digit_bits & ((1 << exponent_bits) - 1), digits = bits & ((1 << digit_bits) - 1);
  int bias = (1 << (exponent_bits - 1)) - 1;
  double size = exponent == 0 ? ldexp(digits, 1 - bias - digit_bits)
                              : ldexp(digits + (1 << digit_bits), exponent - bias - digit_bits);
  return bits >> 15 ? -size : size;
}

typedef struct format {
  uint16_t (*to)(float);
  float (*from)(uint16_t);
  int exponent_bits, digit_bits;
  uint16_t infinity;
} format;
static const format formats[] = {{fat_half_to_f16, fat_half_from_f16, 5, 10, 0x7c00},
                                 {fat_half_to_bf16, fat_half_from_bf16, 8, 7, 0x7f80}};

static void every_value_comes_and_goes(void **state)
{
  (void)state;
  for (int f = 0; f < 2; f++)
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
      const format *t = &formats[f];
      float x = t->from((uint16_t)bits);
      if ((bits & 0x7fff) > t->infinity) { /* NaN: a quiet one, of the same sign */
        assert_true(isnan(x));
        assert_int_equal(t->to(x) & 0x8000, bits & 0x8000);
        assert_true((t->to(x) & 0x7fff) > t->infinity);
        continue;
      }
      if ((bits & 0x7fff) == t->infinity)
        assert_true(isinf(x));
      else
        assert_true((double)x == value((uint16_t)bits, t->exponent_bits, t->digit_bits));
      assert_int_equal(signbit(x) != 0, bits >> 15);
      assert_int_equal(t->to(x), bits);
    }
}

/* Between two neighbours: below the middle, on it, above it. The middle goes to the even one. */
static void halfway_goes_to_even(void **state)
{
  (void)state;
  for (int f = 0; f < 2; f++)
    for (uint16_t low = 0; low < formats[f].infinity; low++) {
      const format *t = &formats[f];
      uint16_t high = (uint16_t)(low + 1);
      double b = high == t->infinity
                     ? ldexp(2, (1 << (t->exponent_bits - 1)) - 1) /* as if there were a next one */
                     : value(high, t->exponent_bits, t->digit_bits);
      double middle = (value(low, t->exponent_bits, t->digit_bits) + b) / 2;
      float at = (float)middle;
      if ((double)at != middle) /* a subnormal of bf16 has no float in its middle */
        continue;
      uint16_t even = low & 1 ? high : low;
      assert_int_equal(t->to(at), even);
      assert_int_equal(t->to(-at), even | 0x8000);
      assert_int_equal(t->to(nextafterf(at, 0)), low);
      assert_int_equal(t->to(nextafterf(at, INFINITY)), high);
    }
}

static void too_large_is_infinite(void **state)
{
  (void)state;
  assert_int_equal(fat_half_to_f16(65504.f), 0x7bff);
  assert_int_equal(fat_half_to_f16(65519.99f), 0x7bff);
  assert_int_equal(fat_half_to_f16(65520.f), 0x7c00);
  assert_int_equal(fat_half_to_f16(-1e30f), 0xfc00);
  assert_int_equal(fat_half_to_f16(INFINITY), 0x7c00);
  assert_int_equal(fat_half_to_bf16(3.4e38f), 0x7f80);
  assert_int_equal(fat_half_to_bf16(3.38e38f), 0x7f7e);
  assert_int_equal(fat_half_to_f16(0x1p-25f), 0); /* a tie, to even */
  assert_int_equal(fat_half_to_f16(0x1.000002p-25f), 1);
  assert_int_equal(fat_half_to_f16(-0x1p-30f), 0x8000);
}

/* NaN whose digits lie only where the short type has none must not become infinite. */
static void nan_stays_nan(void **state)
{
  (void)state;
  const uint32_t nans[] = {0x7f800001, 0x7f801fff, 0xff80ffff, 0x7fffffff, 0xffc00000};
  for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
    assert_true(isnan(fat_half_round(FAT_F16, fat_half_of_bits(nans[i]))));
    assert_true(isnan(fat_half_round(FAT_BF16, fat_half_of_bits(nans[i]))));
    assert_true(isnan(fat_half_tf32(fat_half_of_bits(nans[i]))));
  }
}

static void tf32_keeps_ten_bits(void **state)
{
  (void)state;
  assert_int_equal(fat_half_bits(fat_half_tf32(fat_half_of_bits(0x3f800fff))), 0x3f800000);
  assert_int_equal(fat_half_bits(fat_half_tf32(fat_half_of_bits(0x3f801000))),
                   0x3f802000); /* a tie, away from zero */
  assert_int_equal(fat_half_bits(fat_half_tf32(fat_half_of_bits(0xbf801000))), 0xbf802000);
  assert_int_equal(fat_half_bits(fat_half_tf32(fat_half_of_bits(0x3ffff000))), 0x40000000);
  assert_int_equal(fat_half_bits(fat_half_tf32(fat_half_of_bits(0x80000fff))), 0x80000000);
  assert_true(isinf(fat_half_tf32(INFINITY)) && isinf(fat_half_tf32(fat_half_of_bits(0x7f7fffff))));
}

static void tensors_are_stored_and_loaded_at_any_address(void **state)
{
  (void)state;
  const float from[] = {1.f, -2.5f, 1e-7f, 70000.f, 0.1f};
  char room[32];
  for (int type = 0; type < FAT_DTYPE_COUNT; type++) {
    float to[5];
    memset(room, 0x55, sizeof room);
    fat_half_store((fat_dtype)type, room + 1, from, 5);
    fat_half_load((fat_dtype)type, to, room + 1, 5);
    for (int i = 0; i < 5; i++)
      assert_int_equal(fat_half_bits(to[i]), fat_half_bits(fat_half_round((fat_dtype)type, from[i])));
    assert_int_equal(room[0], 0x55);
    assert_int_equal(room[1 + 5 * fat_dtypes[type].bytes], 0x55);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_value_comes_and_goes),
      cmocka_unit_test(halfway_goes_to_even),
      cmocka_unit_test(too_large_is_infinite),
      cmocka_unit_test(nan_stays_nan),
      cmocka_unit_test(tf32_keeps_ten_bits),
      cmocka_unit_test(tensors_are_stored_and_loaded_at_any_address),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
