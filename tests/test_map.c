/* test_map.c -- tensor maps: which numbers the driver is given for which call, and which calls it is not
 * given.
 *
 * Against the fake driver, which refuses what cuda.h says that a driver refuses. */
#include "map.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "emu/maps.h"
#include "fake/bench.h"
#include "named.h"

static fake_bench bench;
static fat_cuda_calls calls;
static union {
  _Alignas(FAT_CUDA_MAP_ALIGN) unsigned char bytes[FAT_CUDA_MAP_BYTES];
  emu_tensor_map made;
} map;

static int begin(void **state)
{
  (void)state;
  fake_bench_clean(&bench, "H200");
  fake_bench_begin(&bench, 90);
  calls.map_tiled = bench.cu.cuTensorMapEncodeTiled;
  return 0;
}

/* An address that nobody follows. */
static void *at(uintptr_t address)
{
  return (void *)address;
}

static void each_tensor_has_its_own_sizes(void **state)
{
  (void)state;
  const fat_problem p = problem_of("fwd-bf16-b2-h16k4-q100-k257-d192v128-causal");
  const struct {
    int tensor;
    uint64_t size[FAT_MAP_DIMS];
  } cases[] = {{FAT_Q, {192, 100, 16, 2}}, {FAT_K, {192, 257, 4, 2}},   {FAT_V, {128, 257, 4, 2}},
               {FAT_O, {128, 100, 16, 2}}, {FAT_DO, {128, 100, 16, 2}}, {FAT_DQ, {192, 100, 16, 2}},
               {FAT_DK, {192, 257, 4, 2}}, {FAT_DV, {128, 257, 4, 2}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const fat_map_shape shape = fat_map_shape_of(&p, cases[i].tensor);
    assert_memory_equal(shape.size, cases[i].size, sizeof cases[i].size);
    assert_int_equal(shape.type, FAT_CUDA_MAP_BF16);
    assert_int_equal(shape.element, 2);
  }
}

/* Heads beside each other, of which each row of the matrix of rows and heads has all; keys know of none. */
static void rows_of_several_heads_are_a_box(void **state)
{
  (void)state;
  const fat_problem p = problem_of("fwd-bf16-b2-h16k4-q100-k257-d64");
  const fat_map_shape shape = fat_map_shape_of(&p, FAT_Q);
  const fat_view t = {at(0x10000), {100 * 16 * 64, 100 * 64, 64}};
  const uint64_t size[] = {64, 16, 100, 2};
  const uint16_t edges[] = {64, 4, 16, 1};
  const fat_map_box box = fat_map_box_of(FAT_Q, 64, 4);
  assert_true(box.rows == 64 && box.heads == 4);
  assert_int_equal(fat_map_encode(&calls, &shape, &t, box, map.bytes), 0);
  assert_memory_equal(map.made.size, size, sizeof size);
  assert_memory_equal(map.made.box, edges, sizeof edges);
  assert_true(map.made.stride[0] == 100 * 128 && map.made.stride[1] == 128);
  assert_true(map.made.stride[2] == 1600 * 128);
  assert_int_equal(fat_map_box_of(FAT_K, 64, 4).heads, 0);
  assert_int_equal(fat_map_box_of(FAT_BIAS, 64, 4).heads, 0);
  assert_int_equal(fat_map_box_of(FAT_O, 64, 0).heads, 0);
}

static void types_follow_the_elements(void **state)
{
  (void)state;
  const struct {
    const char *problem;
    int type, element;
  } cases[] = {{"fwd-f16-b1-h1-q1-k1-d64", FAT_CUDA_MAP_F16, 2},
               {"fwd-bf16-b1-h1-q1-k1-d64", FAT_CUDA_MAP_BF16, 2},
               {"fwd-f32-b1-h1-q1-k1-d64", FAT_CUDA_MAP_F32, 4},
               {"fwd-tf32-b1-h1-q1-k1-d64", FAT_CUDA_MAP_F32, 4},
               {"fwd-f32x3-b1-h1-q1-k1-d64", FAT_CUDA_MAP_F32, 4}};
  const fat_view t = {at(0x10000), {64, 64, 64}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const fat_problem p = problem_of(cases[i].problem);
    const fat_map_shape shape = fat_map_shape_of(&p, FAT_K);
    assert_int_equal(shape.type, cases[i].type);
    assert_int_equal(shape.element, cases[i].element);
    assert_int_equal(fat_map_encode(&calls, &shape, &t, (fat_map_box){64, 0}, map.bytes), 0);
    assert_int_equal(map.made.type, cases[i].type);
    assert_int_equal(map.made.element, cases[i].element);
    assert_int_equal(map.made.box[0], 128 / cases[i].element);
  }
}

/* A tensor of strides (batch, head, row) in elements, and the strides in bytes that the driver is given. */
typedef struct shaped {
  const char *problem;
  int64_t b, h, n;
  uint64_t bytes[3]; /* of rows, heads, batches */
} shaped;

static const shaped mapped[] = {
    {"fwd-f16-b2-h4-q33-k65-d64", 4 * 65 * 64, 65 * 64, 64, {128, 128 * 65, 128 * 65 * 4}},
    {"fwd-f16-b2-h4-q33-k65-d64", 4 * 65 * 64, 64, 256, {512, 128, 512 * 65}},              /* [b][n][h][d] */
    {"fwd-f16-b2-h4-q33-k65-d72", 25000, 6240, 80, {160, 12480, 50000}},                    /* padded rows */
    {"fwd-f16-b2-h4-q33-k65-d40", 4 * 65 * 40, 65 * 40, 40, {80, 80 * 65, 80 * 65 * 4}},    /* below a box */
    {"fwd-f32-b2-h4-q33-k65-d64", 4 * 65 * 68, 65 * 68, 68, {272, 272 * 65, 272 * 65 * 4}}, /* padded */
    {"fwd-f16-b1-h4-q33-k65-d64", 7, 65 * 64, 64, {128, 128 * 65, 128}},                    /* no batch */
    {"fwd-f16-b2-h4k1-q33-k65-d64", 65 * 64, -3, 64, {128, 128, 128 * 65}},                 /* one head */
    {"fwd-f16-b1-h4k1-q33-k1-d64", 1, INT64_MIN, INT64_MAX, {128, 128, 128}},               /* one row */
    {"fwd-f16-b1-h4k1-q33-k1-d8", 0, 0, 0, {16, 16, 16}},
    {"fwd-f16-b2-h4-q33-k65-d64", 0, 0, 64, {128, 0, 0}}, /* all heads are one */
    {"fwd-f16-b3-h4-q33-k65-d64",
     INT64_C(1) << 35,
     INT64_C(1) << 33,
     INT64_C(1) << 26,
     {UINT64_C(1) << 27, UINT64_C(1) << 34, UINT64_C(1) << 36}}, /* far beyond 2^31 elements */
    {"fwd-f16-b2-h4-q33-k65-d64",
     (INT64_C(1) << 39) - 8,
     65 * 64,
     64,
     {128, 128 * 65, (UINT64_C(1) << 40) - 16}}, /* the farthest */
    {"fwd-f32-b2-h4-q33-k65-d64",
     (INT64_C(1) << 38) - 4,
     65 * 64,
     64,
     {256, 256 * 65, (UINT64_C(1) << 40) - 16}},
};

static void strides_become_bytes(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof mapped / sizeof *mapped; i++) {
    const fat_problem p = problem_of(mapped[i].problem);
    const fat_map_shape shape = fat_map_shape_of(&p, FAT_K);
    const fat_view t = {at(0x7f0000000010), {mapped[i].b, mapped[i].h, mapped[i].n}};
    const uint64_t size[] = {(uint64_t)p.d, (uint64_t)p.k, (uint64_t)p.hk, (uint64_t)p.b};
    const uint16_t box[] = {(uint16_t)(128 / shape.element), 96, 1, 1};
    memset(map.bytes, 0xff, sizeof map.bytes);
    assert_true(fat_map_fits(&shape, &t));
    assert_int_equal(fat_map_encode(&calls, &shape, &t, (fat_map_box){96, 0}, map.bytes), 0);
    assert_int_equal(map.made.magic, EMU_MAP_MAGIC);
    assert_int_equal(map.made.base, 0x7f0000000010);
    assert_int_equal(map.made.rank, FAT_MAP_DIMS);
    assert_int_equal(map.made.swizzle, FAT_CUDA_MAP_SWIZZLE_128);
    assert_int_equal(map.made.promotion, FAT_CUDA_MAP_L2_256);
    assert_int_equal(map.made.interleave, FAT_CUDA_MAP_PLAIN);
    assert_int_equal(map.made.fill, FAT_CUDA_MAP_ZEROS);
    assert_memory_equal(map.made.size, size, sizeof size);
    assert_memory_equal(map.made.box, box, sizeof box);
    for (int s = 0; s < 3; s++)
      if (map.made.stride[s] != mapped[i].bytes[s])
        fail_msg("case %zu: stride %d is %llu bytes, not %llu", i, s, (unsigned long long)map.made.stride[s],
                 (unsigned long long)mapped[i].bytes[s]);
    for (int s = 0; s < FAT_MAP_DIMS; s++)
      assert_int_equal(map.made.step[s], 1);
  }
}

/* One thing off in a tensor that else fits; the driver refuses it, or would be given other numbers. */
static void what_cannot_be_mapped(void **state)
{
  (void)state;
  const struct {
    uintptr_t data;
    int64_t b, h, n;
  } cases[] = {{0x10008, 16640, 4160, 64},
               {0x10002, 16640, 4160, 64},
               {0x10000, 16640, 4160, 68},
               {0x10000, 16640, 4164, 64},
               {0x10000, 16641, 4160, 64},
               {0x10000, 16640, 4160, -64},
               {0x10000, 16640, -4160, 64},
               {0x10000, -16640, 4160, 64},
               {0x10000, INT64_C(1) << 39, 4160, 64},
               {0x10000, 16640, INT64_C(1) << 39, 64},
               {0x10000, 16640, 4160, INT64_C(1) << 39},
               {0x10000, INT64_C(1) << 62, 4160, 64}, /* 2^63 bytes */
               {0x10000, INT64_MIN, 4160, 64}};       /* as bytes it is 0 again */
  const fat_problem p = problem_of("fwd-f16-b2-h4-q33-k65-d64");
  const fat_map_shape shape = fat_map_shape_of(&p, FAT_V);
  assert_true(fat_map_is_needed(FAT_V));
  assert_false(fat_map_is_needed(FAT_BIASES));
  const fat_view good = {at(0x10000), {16640, 4160, 64}};
  assert_true(fat_map_fits(&shape, &good));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const fat_view t = {at(cases[i].data), {cases[i].b, cases[i].h, cases[i].n}};
    if (fat_map_fits(&shape, &t))
      fail_msg("case %zu is thought to fit", i);
  }
}

/* Biases have rows of any length; those of one row, head or batch lie nowhere from each other. */
static void rows_of_any_length_fit(void **state)
{
  (void)state;
  static const char *const problems[] = {"fwd-bf16-b1-h1-q1-k193-d64-bias", "fwd-bf16-b1-h3-q5-k193-d64-bias",
                                         "fwd-bf16-b1-h1-q5-k1-d64-bias"};
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    const fat_problem p = problem_of(problems[i]);
    const fat_map_shape shape = fat_map_shape_of(&p, FAT_BIASES);
    const fat_view t = {at(0x10000), {5 * 200, 5 * 200, 200}};
    assert_true(fat_map_fits(&shape, &t));
    assert_int_equal(fat_map_encode(&calls, &shape, &t, (fat_map_box){64, 0}, map.bytes), 0);
  }
}

/* What fits is accepted; what does not is refused, as long as its bytes are not taken modulo 2^64. */
static void what_fits_is_what_the_driver_takes(void **state)
{
  (void)state;
  static const char *const problems[] = {"fwd-f16-b2-h4-q33-k65-d64", "fwd-f16-b1-h1-q33-k65-d40",
                                         "fwd-f32-b3-h4k2-q33-k1-d72", "fwd-bf16-b1-h4-q1-k65-d256",
                                         "fwd-f16-b2-h1-q1-k1-d8"};
  static const int64_t strides[] = {0,
                                    8,
                                    64,
                                    72,
                                    100,
                                    4160,
                                    -8,
                                    -4160,
                                    (INT64_C(1) << 33) + 8,
                                    (INT64_C(1) << 38) - 8,
                                    INT64_C(1) << 38,
                                    INT64_C(1) << 39};
  const size_t count = sizeof strides / sizeof *strides;
  int fits = 0, all = 0;
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
    for (size_t x = 0; x < count * count * count; x++)
      for (uintptr_t off = 0; off <= 16; off += 8) {
        const fat_problem p = problem_of(problems[i]);
        const fat_map_shape shape = fat_map_shape_of(&p, FAT_K);
        const fat_view t = {at(0x10000 + off),
                            {strides[x % count], strides[x / count % count], strides[x / count / count]}};
        bool fit = fat_map_fits(&shape, &t);
        all++;
        fits += fit;
        if (fat_map_encode(&calls, &shape, &t, (fat_map_box){64, 0}, map.bytes) != (fit ? 0 : 1))
          fail_msg("%s, strides %lld %lld %lld, address %p: the driver says otherwise than %d", problems[i],
                   (long long)t.stride[0], (long long)t.stride[1], (long long)t.stride[2], t.data, fit);
      }
  assert_true(fits > all / 20 && fits < all / 2); /* both happen */
}

/* The fake driver itself: one argument off at a time. */
typedef struct arguments {
  void *map;
  int type;
  uint32_t rank;
  void *base;
  uint64_t size[5], stride[4];
  uint32_t box[5], step[5];
  int interleave, swizzle, promotion, fill;
} arguments;

static int encode(const arguments *a)
{
  return calls.map_tiled(a->map, a->type, a->rank, a->base, a->size, a->stride, a->box, a->step,
                         a->interleave, a->swizzle, a->promotion, a->fill);
}

static void the_fake_driver_is_strict(void **state)
{
  (void)state;
  const arguments good = {map.bytes,
                          FAT_CUDA_MAP_F16,
                          4,
                          at(0x10000),
                          {64, 65, 4, 2},
                          {128, 8320, 33280},
                          {64, 96, 1, 1},
                          {1, 1, 1, 1},
                          0,
                          3,
                          3,
                          0};
  arguments a = good;
  assert_int_equal(encode(&a), 0);
#define REFUSED(change)                                                                                      \
  do {                                                                                                       \
    a = good;                                                                                                \
    change;                                                                                                  \
    if (encode(&a) != 1)                                                                                     \
      fail_msg("not refused: %s", #change);                                                                  \
  } while (0)
#define TAKEN(change)                                                                                        \
  do {                                                                                                       \
    a = good;                                                                                                \
    change;                                                                                                  \
    if (encode(&a) != 0)                                                                                     \
      fail_msg("refused: %s", #change);                                                                      \
  } while (0)
  REFUSED(a.map = map.bytes + 16);
  REFUSED(a.map = NULL);
  REFUSED(a.type = -1);
  REFUSED(a.type = 13);
  REFUSED(a.rank = 0);
  REFUSED(a.rank = 6);
  REFUSED(a.base = at(0x10008));
  REFUSED(a.base = NULL);
  REFUSED(a.size[0] = 0);
  REFUSED(a.size[3] = 0);
  REFUSED(a.size[1] = (UINT64_C(1) << 32) + 1);
  TAKEN(a.size[1] = UINT64_C(1) << 32);
  REFUSED(a.stride[0] = 136);
  REFUSED(a.stride[2] = UINT64_C(1) << 40);
  REFUSED(a.box[1] = 0);
  REFUSED(a.box[1] = 257);
  TAKEN(a.box[1] = 256);
  REFUSED(a.box[0] = 72); /* beyond the swizzle */
  REFUSED(a.box[0] = 60); /* no multiple of 16 bytes */
  TAKEN((a.box[0] = 72, a.swizzle = 0));
  REFUSED(a.step[2] = 0);
  REFUSED(a.step[2] = 9);
  TAKEN(a.step[2] = 8);
  REFUSED(a.interleave = 3);
  REFUSED(a.interleave = 2); /* goes with a swizzle over 32 bytes alone */
  REFUSED(a.swizzle = 7);
  REFUSED(a.promotion = 4);
  REFUSED(a.fill = 2);
  REFUSED((a.fill = 1, a.type = 1)); /* NaNs of integers */
  TAKEN(a.fill = 1);
  TAKEN((a.rank = 5, a.size[4] = a.box[4] = a.step[4] = 1, a.stride[3] = 16));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_tensor_has_its_own_sizes),
      cmocka_unit_test(types_follow_the_elements),
      cmocka_unit_test(rows_of_several_heads_are_a_box),
      cmocka_unit_test(strides_become_bytes),
      cmocka_unit_test(what_cannot_be_mapped),
      cmocka_unit_test(rows_of_any_length_fit),
      cmocka_unit_test(what_fits_is_what_the_driver_takes),
      cmocka_unit_test(the_fake_driver_is_strict),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
