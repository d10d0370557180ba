/* test_drop.c -- the bits of dropout: known answers of Philox4x32 of seven rounds (Random123's vectors),
 * where they lie, how many weights stay, the mask of the library. */
#include "drop.h"
#include "fatune.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

/* The byte of a weight: the least number that, as 255 (1 - rate) rounded down, keeps it. */
static int byte_of(const fat_rng *rng, int64_t head, int64_t i, int64_t j)
{
  int n = 0;
  while (n < 255 && !fat_drop_keeps(rng, 1 - ((float)n + 0.5f) / 255, head, i, j))
    n++;
  return n;
}

static void bits_are_known_ones(void **state)
{
  (void)state;
  /* counter 0, key 0: 5f6fb709 0d893f64 4f121f81 4f730a48; from row 8 on the upper half of a word */
  const fat_rng zero = {0, 0};
  static const int row_0[] = {0x09, 0xb7, 0x64, 0x3f, 0x81, 0x1f, 0x48, 0x0a};
  static const int row_8[] = {0x6f, 0x5f, 0x89, 0x0d, 0x12, 0x4f, 0x73, 0x4f};
  for (int x = 0; x < 8; x++) {
    assert_int_equal(byte_of(&zero, 0, 0, x / 2 * 8 + x % 2), row_0[x]);
    assert_int_equal(byte_of(&zero, 0, 8, x / 2 * 8 + x % 2), row_8[x]);
  }
  /* all bits set: 5207ddc2 45165e59 4d8ee751 8c52f662, of row 16 * (2^32 - 1) and key 32 * (2^32 - 1) */
  const fat_rng ones = {UINT64_MAX, UINT64_MAX};
  const int64_t last = INT64_C(0xffffffff);
  assert_int_equal(byte_of(&ones, 0, 16 * last, 32 * last), 0xc2);
  assert_int_equal(byte_of(&ones, 0, 16 * last + 8, 32 * last + 25), 0x8c);
}

/* The counter goes on with lanes, heads and the offset alike. */
static void places_are_told_apart(void **state)
{
  (void)state;
  const fat_rng rng = {77, 5}, later = {77, 5 + 32 * 3}, lane = {77, 5 + 6 * 4 + 3};
  for (int64_t x = 0; x < 64; x++) {
    assert_int_equal(byte_of(&rng, 3, x % 8, x), byte_of(&later, 0, x % 8, x));
    assert_int_equal(byte_of(&rng, 0, 6 + x % 2 * 8, x / 2 * 8 + 6), byte_of(&lane, 0, x % 2 * 8, x / 2 * 8));
  }
}

static void as_many_stay_as_should(void **state)
{
  (void)state;
  const fat_rng rng = {1, 2};
  int kept = 0;
  for (int64_t i = 0; i < 256; i++)
    for (int64_t j = 0; j < 256; j++) {
      kept += fat_drop_keeps(&rng, 0.25f, 1, i, j);
      assert_true(fat_drop_keeps(&rng, 0, 1, i, j));
    }
  assert_in_range(kept, 65536 * 3 / 4 - 500, 65536 * 3 / 4 + 500); /* 192 of 256 bytes; 4.5 deviations */
}

/* The library's mask: bytes of Random123's vectors beside a rate of a half, heads by an offset of 32, nothing
 * behind. */
static void a_mask_is_written(void **state)
{
  (void)state;
  enum { B = 2, H = 3, Q = 9, K = 27, HEAD = Q * K, ALL = B * H * HEAD };
  static const struct {
    int row, key;
    uint8_t kept;
  } known[] = {{0, 0, 1},  {0, 1, 0}, {0, 8, 1}, {0, 9, 1}, {0, 16, 0},
               {0, 17, 1}, {8, 0, 1}, {8, 8, 0}, {8, 9, 1}, {8, 24, 1}};
  const fatune_sizes all = {.size = sizeof all, .b = B, .h = H, .q = Q, .k = K};
  fatune_sizes one = all;
  uint8_t mask[ALL + 1], head[HEAD];
  memset(mask, 7, sizeof mask);
  assert_int_equal(fatune_dropout_mask(0, 0, 0.5f, &all, mask), FATUNE_OK);
  for (size_t x = 0; x < sizeof known / sizeof *known; x++)
    assert_int_equal(mask[known[x].row * K + known[x].key], known[x].kept);
  one.b = one.h = 1;
  for (int n = 0; n < B * H; n++) {
    assert_int_equal(fatune_dropout_mask(0, 32 * (uint64_t)n, 0.5f, &one, head), FATUNE_OK);
    assert_memory_equal(mask + n * HEAD, head, HEAD);
  }
  assert_memory_not_equal(mask, head, HEAD);
  assert_int_equal(mask[ALL], 7);
}

static void a_mask_that_cannot_be(void **state)
{
  (void)state;
  const float rates[] = {1, -0.5f, NAN};
  uint8_t mask[1] = {7};
  fatune_sizes sizes = {.size = sizeof sizes, .b = 1, .h = 1, .q = 1, .k = 1};
  for (size_t x = 0; x < sizeof rates / sizeof *rates; x++) {
    assert_int_equal(fatune_dropout_mask(0, 0, rates[x], &sizes, mask), FATUNE_ERR_INPUT);
    assert_non_null(strstr(fatune_detail(), "dropout is"));
  }
  assert_int_equal(fatune_dropout_mask(0, 0, 0, NULL, mask), FATUNE_ERR_INPUT);
  assert_int_equal(fatune_dropout_mask(0, 0, 0, &sizes, NULL), FATUNE_ERR_INPUT);
  sizes.size = 8;
  assert_int_equal(fatune_dropout_mask(0, 0, 0, &sizes, mask), FATUNE_ERR_INPUT);
  assert_non_null(strstr(fatune_detail(), "fatune_sizes.size is 8"));
  sizes.size = sizeof sizes;
  sizes.q = -1;
  assert_int_equal(fatune_dropout_mask(0, 0, 0, &sizes, mask), FATUNE_ERR_INPUT);
  sizes.q = 1;
  sizes.b = sizes.h = INT64_C(1) << 32; /* whose product is 0 to 64 bits */
  assert_int_equal(fatune_dropout_mask(0, 0, 0, &sizes, mask), FATUNE_ERR_INPUT);
  sizes.b = sizes.h = 1;
  sizes.q = 0;
  assert_int_equal(fatune_dropout_mask(0, 0, 0, &sizes, mask), FATUNE_OK);
  assert_int_equal(mask[0], 7);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_are_known_ones),    cmocka_unit_test(places_are_told_apart),
      cmocka_unit_test(as_many_stay_as_should), cmocka_unit_test(a_mask_is_written),
      cmocka_unit_test(a_mask_that_cannot_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
