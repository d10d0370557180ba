/* test_emu_hopper.c -- what Hopper added, in the emulator: barriers, boxes of tensor maps, products of
 * warpgroups, registers that move. Sound kernels give no finding and right numbers under every order and
 * landing (test_emu_hopper_misses.c has those that are not sound). */
#include "hopper_bench.h"

/* ---- sound kernels ---- */

/* Runs in every order and landing, wants no finding; `right(b)` looks at the results. */
static void sound(const char *kernel, int threads, void (*right)(const bench *b, const emu_report *r))
{
  for (int i = 0; i < ORDERS * LANDINGS; i++) {
    emu_options options = options_of(i, 3);
    bench b = bench_open();
    emu_report r = run(&b, kernel, threads, SHARED, &options);
    if (r.findings)
      fail_msg("run %d: %s", i, r.finding[0].text);
    right(&b, &r);
    emu_close(b.e);
  }
}

static uint16_t at_map(const void *data, int column, int row, int head, int batch)
{
  if (column >= COLUMNS || row >= ROWS || column < 0 || row < 0)
    return 0;
  return ((const uint16_t *)data)[((batch * HEADS + head) * 41 + row) * ROW + column];
}

/* The word w of a box in shared memory, its swizzle undone by hand: chunk c of row r lies at c ^ r % 8. */
static uint32_t box_word(const void *data, int w, int column, int row, int head, int batch)
{
  int r = w / 32, chunk = w % 32 / 4 ^ r % 8, c = column + chunk * 8 + w % 4 * 2;
  return at_map(data, c, row + r, head, batch) | (uint32_t)at_map(data, c + 1, row + r, head, batch) << 16;
}

static void ring_is_right(const bench *b, const emu_report *r)
{
  for (int t = 128; t < 256; t++) {
    uint32_t sum = 0;
    for (int n = 0; n < 8; n++)
      sum += box_word(b->a.u, t - 128, 0, n * 4, n % 3, n % 2);
    if (b->a.v[t] != sum)
      fail_msg("v[%d] is %#x, not %#x", t, b->a.v[t], sum);
  }
  assert_int_equal(r->boxes, 8);
}

static void a_ring_of_boxes_is_sound(void **state)
{
  (void)state;
  sound(RING(RING_INIT, EXPECT, FREE, FULL, "warp_sync();", RELEASE), 256, ring_is_right);
}

static void corner_is_right(const bench *b, const emu_report *r)
{
  assert_int_equal(r->boxes, 2);
  for (int w = 0; w < 256; w++)
    assert_true(b->a.y[w] == (box_word(b->a.u, w, 64, 32, 2, 1) ? 1.0f : 0.0f));
  const uint16_t *to = (const uint16_t *)b->a.v;
  for (int row = 0; row < 41; row++)
    for (int column = 0; column < ROW; column++) {
      const uint16_t *x = &to[((HEADS + 2) * 41 + row) * ROW + column];
      bool copied = row >= 32 && row < ROWS && column >= 64 && column < COLUMNS;
      assert_int_equal(*x, copied ? at_map(b->a.u, column, row, 2, 1) : EMU_POISON & 0xffff);
    }
}

static void what_lies_outside_is_zero_and_is_left_alone(void **state)
{
  (void)state;
  sound(THERE_AND_BACK("copies_fence();", "block_sync();", "store_commit();", "store_wait();"), 256,
        corner_is_right);
}

/* stmatrix is what ldmatrix reads, and row r of matrix i is at the address of lane 8 i + r. */
static void rows_are_right(const bench *b, const emu_report *r)
{
  (void)r;
  for (uint32_t w = 0; w < 128; w++) {
    /* word w: row w / 4 % 8 of matrix w / 32, columns 2 (w % 4): lane 4 row + w % 4, register w / 32 */
    uint32_t lane = w / 4 % 8 * 4 + w % 4;
    assert_int_equal(b->a.v[w], 100 * (w / 32) + lane);
  }
}

static void stmatrix_is_the_opposite_of_ldmatrix(void **state)
{
  (void)state;
  sound(KERNEL("stmatrix(at + 16 * t, t, 100 + t, 200 + t, 300 + t);\nwarp_sync();\n"
               "const quad q = ldmatrix(at + 16 * t);\n"
               "for (i32 i = 0; i < 4; i++) a.v[t + 32 * i] = get4(at + 4 * (t + 32 * i)) + q.at[i] - (100 * "
               "i + t);\n"),
        32, rows_are_right);
}

/* ---- products ---- */

static int tile(const bench *b, int row, int column)
{
  (void)b;
  int i = row / 16;
  if (10 * i + row % 16 >= ROWS)
    return 0;
  return small((uint64_t)(((i % 2 * HEADS + i % 3) * 41 + 10 * i + row % 16) * ROW + column));
}

static void near(const bench *b, int t, int i, double sum)
{
  float got;
  memcpy(&got, &b->a.v[32 * t + i], sizeof got);
  if ((double)got != sum)
    fail_msg("thread %d, register %d: %g, not %g", t, i, (double)got, sum);
}

/* Every register of the accumulator holds its own number and the sum over k of the terms of its row and
 * column. */
typedef int (*term_of)(const bench *b, int row, int column, int k);
static void sums_are_right(const bench *b, term_of term, int depth)
{
  for (int t = 0; t < 128; t++)
    for (int i = 0; i < 32; i++) {
      int row = t / 32 * 16 + t % 32 / 4 + i / 16 * 8, column = i % 16 / 2 * 8 + t % 4 * 2 + i % 2;
      double sum = i;
      for (int k = 0; k < depth; k++)
        sum += term(b, row, column, k);
      near(b, t, i, sum);
    }
}

static int term_of_S(const bench *b, int row, int column, int k)
{
  return tile(b, row, k) * tile(b, column, k);
}

static void S_is_right(const bench *b, const emu_report *r)
{
  assert_int_equal(r->together, 2);
  sums_are_right(b, term_of_S, 32);
}

static void products_of_tiles_are_right(void **state)
{
  (void)state;
  sound(S_OF("products_fence();", "products_commit();", "products_wait<0>();"), 128, S_is_right);
}

/* A in registers: the numbers 1, 2, 3 as f16 by row; B 16 rows of 64 columns from row 16 on. */
#define O_OF(bf16)                                                                                           \
  "#line 1 \"templates/arch/sm90.cuh\"\n" bf16 "\n#line 1 \"templates/t.cu\"\n" DESCRIPTOR KERNEL(           \
      LOAD                                                                                                   \
      "quad A; for (i32 x = 0; x < 4; x++) A.at[x] = (t % 4 + x) % 2 ? " ONE " : 0;\nproducts_fence();\n"    \
      "wgmma<1>(C.at, A, desc(at + 2048, 2048, 1024), 1);\nproducts_commit();\nproducts_wait<0>();\n" STORE)
#define ONE "0x3c003c00"

/* Registers x of lane 4 g + y: rows g (x even) and g + 8, columns 2 y + (0, 1), + 8 for x of 2 and 3. */
static int term_of_O(const bench *b, int row, int column, int k)
{
  int lane = k % 8 / 2, x = row % 16 / 8 + k / 8 * 2;
  return (lane + x) % 2 ? tile(b, 16 + k, column) : 0;
}

static void O_is_right(const bench *b, const emu_report *r)
{
  assert_int_equal(r->together, 1);
  sums_are_right(b, term_of_O, 16);
}

static void products_with_registers_are_right(void **state)
{
  (void)state;
  sound(O_OF("// f16"), 128, O_is_right);
}

/* A in shared memory: the 64 rows; B the same as before. */
static int term_of_rows(const bench *b, int row, int column, int k)
{
  return tile(b, row, 16 + k) * tile(b, 16 + k, column);
}

static void O_of_rows_is_right(const bench *b, const emu_report *r)
{
  assert_int_equal(r->together, 1);
  sums_are_right(b, term_of_rows, 16);
}

static void products_of_rows_with_columns_are_right(void **state)
{
  (void)state;
  sound(DESCRIPTOR KERNEL(LOAD "products_fence();\n"
                               "wgmma<1>(C.at, desc(at + 32, 16, 1024), desc(at + 2048, 2048, 1024), 1);\n"
                               "products_commit();\nproducts_wait<0>();\n" STORE),
        128, O_of_rows_is_right);
}

/* bf16: one is 0x3f80, and u's bits are other numbers: sums of products with 0 and 1 alone are compared. */
static void bf16_is_right(const bench *b, const emu_report *r)
{
  (void)r;
  for (int t = 0; t < 128; t++)
    for (int i = 0; i < 32; i++) {
      int column = i % 16 / 2 * 8 + t % 4 * 2 + i % 2;
      double sum = 0;
      for (int k = 0; k < 16; k++) {
        uint32_t bits = (uint32_t)f16_of_small(tile(b, 16 + k, column)) << 16;
        float x, one;
        memcpy(&x, &bits, sizeof x);
        bits = UINT32_C(0x3c00) << 16;
        memcpy(&one, &bits, sizeof one);
        sum += (k % 8 / 2 + i / 16 + k / 8 * 2) % 2 ? (double)x * (double)one : 0;
      }
      near(b, t, i, (double)(float)(sum + i));
    }
}

static void the_type_is_that_of_the_text(void **state)
{
  (void)state;
  sound(O_OF("// wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"), 128, bf16_is_right);
}

/* ---- named barriers, votes, registers, the grid ---- */

static void turns_are_right(const bench *b, const emu_report *r)
{
  (void)r;
  for (uint32_t t = 0; t < 64; t++)
    assert_int_equal(b->a.v[t], t + 100);
  for (uint32_t t = 64; t < 128; t++)
    assert_int_equal(b->a.v[t], t % 32 + 2 * (t / 32 == 3));
}

static void warps_meet_at_named_barriers(void **state)
{
  (void)state;
  sound(
      KERNEL(
          "if (t < 64) {\nput4(at + 4 * t, t + 100);\nnamed_arrive(3, 128);\n} else {\nnamed_sync(3, 128);\n"
          "a.v[t - 64] = get4(at + 4 * (t - 64));\n}\n"
          "if (t >= 64) a.v[t] = t % 32 + 2 * any_lane(t == 99);\n"),
      128, turns_are_right);
}

static void numbers_are_apart(const bench *b, const emu_report *r)
{
  (void)r;
  uint32_t seen = 0;
  for (int t = 0; t < 4; t++)
    seen |= UINT32_C(1) << (b->a.v[t] - b->a.v[4]);
  assert_int_equal(seen, 0xf);
}

static void atomics_count(void **state)
{
  (void)state;
  sound(KERNEL("if (t == 0) a.v[4] = a.u[9];\nblock_sync();\n"
               "if (t % 32 == 0) a.v[t / 32] = atomic_add((i32 *)a.u + 9, 1);\n"),
        128, numbers_are_apart);
}

static void threads_have_registers(const bench *b, const emu_report *r)
{
  (void)r;
  assert_int_equal(b->a.v[0], 1);
}

static void registers_move(void **state)
{
  (void)state;
  sound(KERNEL("if (t < 128) registers_less<24>(); else registers_more<240>();\nif (t == 0) a.v[0] = "
               "grid_size();\n"),
        384, threads_have_registers);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_ring_of_boxes_is_sound),
      cmocka_unit_test(what_lies_outside_is_zero_and_is_left_alone),
      cmocka_unit_test(stmatrix_is_the_opposite_of_ldmatrix),
      cmocka_unit_test(products_of_tiles_are_right),
      cmocka_unit_test(products_with_registers_are_right),
      cmocka_unit_test(products_of_rows_with_columns_are_right),
      cmocka_unit_test(the_type_is_that_of_the_text),
      cmocka_unit_test(warps_meet_at_named_barriers),
      cmocka_unit_test(atomics_count),
      cmocka_unit_test(registers_move),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
