/* test_emu_twins.c -- the numbers of the emulator's twins for tensor cores: conversions, products, matrices
 * out of shared memory, against plain arithmetic in double. The bench is that of emu_bench.h. */
#include "emu_bench.h"
#include "oracle/half.h"
#include <float.h>
#include <math.h>

/* ---- conversions ---- */

/* The value of an f16. */
static double f16(uint32_t h)
{
  int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
  double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                : exponent     ? ldexp(1024 + fraction, exponent - 25)
                               : ldexp(fraction, -24);
  return h & 0x8000 ? -size : size;
}

/* x rounded to `digits` binary digits, fewer below 2^least; `away`: halves away from zero, else to even; what
 * reaches 2^above is infinite. */
static double rounded(double x, int digits, int least, int above, bool away)
{
  int exponent;
  if (x == 0 || !isfinite(x))
    return x;
  frexp(x, &exponent);
  exponent = exponent - 1 < least ? least : exponent - 1;
  double unit = ldexp(1, exponent - digits + 1);
  double r = (away ? round(x / unit) : nearbyint(x / unit)) * unit;
  return fabs(r) >= ldexp(1, above) ? copysign(INFINITY, x) : r;
}

static bool same(double a, double b)
{
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* Runs a kernel whose line computes `y` from the word `x`, for every word of u; no finding may come. */
static void convert(bench *b, const char *line)
{
  char kernel[1000];
  snprintf(kernel, sizeof kernel,
           KERNEL("") "for (i32 i = thread_id(); i < 65536; i += 64) {\nconst u32 x = a.u[i];\nu32 y;\n%s\n"
                      "a.v[i] = y;\n}\n}",
           line);
  emu_report r = bench_run(b, kernel, one_block, NULL);
  if (r.findings)
    fail_msg("%s: %s", line, r.finding[0].text);
}

static void f16_becomes_f32(void **state)
{
  (void)state;
  bench b = bench_open();
  convert(&b, "y = __float_as_int(float_of_f16(u16(x)));");
  for (uint32_t h = 0; h < 65536; h++)
    if (!same((double)fat_half_of_bits(b.a.v[h]), f16(h)))
      fail_msg("f16 %04x becomes %g", h, (double)fat_half_of_bits(b.a.v[h]));
  emu_close(b.e);
}

/* Numbers between each two neighbours among f16: halfway, a little less, a little more; NaN, inf, the
 * greatest.
 */
static void between_f16(uint32_t *u)
{
  for (uint32_t i = 0; i < 65536; i++) {
    uint32_t h = i & 0x7fff;
    double middle = h < 0x7bff    ? (f16(h) + f16(h + 1)) / 2
                    : h == 0x7bff ? 65520
                    : h == 0x7c00 ? INFINITY
                    : h < 0x7e00  ? ldexp(1, (int)(h % 128)) * 1.7
                                  : NAN;
    float x = (float)middle;
    x = i % 3 == 1 ? nextafterf(x, 0) : i % 3 == 2 ? nextafterf(x, INFINITY) : x;
    u[i] = fat_half_bits(i & 0x8000 ? -x : x);
  }
}

/* Numbers of every size, many of them halfway between two of `kept` leading bits. */
static void of_every_size(uint32_t *u, int kept)
{
  uint64_t random = 1;
  for (uint32_t i = 0; i < 65536; i++) {
    random = random * UINT64_C(6364136223846793005) + 1;
    u[i] = (uint32_t)(random >> 32);
    uint32_t half = UINT32_C(1) << (31 - kept);
    if (i % 4 == 0)
      u[i] = (u[i] & ~(2 * half - 1)) | half;
    if (i % 4 == 1)
      u[i] = ((u[i] & ~(2 * half - 1)) | half) - 1;
  }
  const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff,
                              0x7fc00000, 0xff800001, 1,          0x00800000, 0x007fffff, 0x80000001};
  memcpy(u, special, sizeof special);
}

static void numbers_are_rounded(void **state)
{
  (void)state;
  bench b = bench_open();
  between_f16(b.a.u);
  convert(&b, "y = f16_bits(__uint_as_float(x)) | pack_f16(1.f, __uint_as_float(x)) & 0xffff0000u;");
  for (uint32_t i = 0; i < BENCH_WORDS; i++) {
    double x = (double)fat_half_of_bits(b.a.u[i]), want = rounded(x, 11, -14, 16, false);
    uint32_t low = b.a.v[i] & 0xffff, high = b.a.v[i] >> 16;
    if (!same(f16(low), want) || low != high || (isnan(x) && low != 0x7fff))
      fail_msg("%a as f16 is %04x (%g), right is %g", x, low, f16(low), want);
  }
  of_every_size(b.a.u, 16);
  convert(&b, "y = pack_bf16(__uint_as_float(x), __uint_as_float(x ^ 0x80000000u));");
  for (uint32_t i = 0; i < BENCH_WORDS; i++) {
    double x = (double)fat_half_of_bits(b.a.u[i]), want = rounded(x, 8, -126, 128, false);
    double low = (double)fat_half_of_bits(b.a.v[i] << 16),
           high = (double)fat_half_of_bits(b.a.v[i] & 0xffff0000);
    if (!same(low, want) || !same(high, -want))
      fail_msg("%a as bf16 is %a, right is %a", x, low, want);
  }
  of_every_size(b.a.u, 19);
  convert(&b, "y = round_tf32(__uint_as_float(x));");
  for (uint32_t i = 0; i < BENCH_WORDS; i++) {
    double x = (double)fat_half_of_bits(b.a.u[i]), want = rounded(x, 11, -126, 128, true);
    if (!same((double)fat_half_of_bits(b.a.v[i]), want) || (!isnan(x) && b.a.v[i] % 8192))
      fail_msg("%a as tf32 is %a, right is %a", x, (double)fat_half_of_bits(b.a.v[i]), want);
  }
  emu_close(b.e);
}

/* ---- what a warp does together ---- */

/* Fragments as the comments of templates/arch say: a and b from u, c from x, the sums to y. */
#define FRAGMENTS                                                                                            \
  KERNEL("")                                                                                                 \
  "const i32 l = thread_id();\n"                                                                             \
  "const quad q = {{a.u[4 * l], a.u[4 * l + 1], a.u[4 * l + 2], a.u[4 * l + 3]}};\n"                         \
  "const u32 b0 = a.u[128 + 2 * l], b1 = a.u[129 + 2 * l];\n"                                                \
  "float c0 = l, c1 = .5f, c2 = -l, c3 = 0.f;\n"

#define SUMS "a.y[4 * l] = c0; a.y[4 * l + 1] = c1; a.y[4 * l + 2] = c2; a.y[4 * l + 3] = c3;\n}"

typedef struct product {
  const char *line;
  int depth, bits;           /* of an element in a register: 16 or 32 */
  double (*value)(uint32_t); /* of an element */
} product;

static double bf16(uint32_t x)
{
  return (double)fat_half_of_bits(x << 16);
}

static double tf32(uint32_t x)
{
  return (double)fat_half_of_bits(x & 0xffffe000);
}

static const product products[] = {
    {"mma_f16_k8(c0, c1, c2, c3, q.at[0], q.at[1], b0);", 8, 16, f16},
    {"mma_f16(c0, c1, c2, c3, q, b0, b1);", 16, 16, f16},
    {"mma_bf16(c0, c1, c2, c3, q, b0, b1);", 16, 16, bf16},
    {"mma_tf32(c0, c1, c2, c3, q, b0, b1);", 8, 32, tf32},
};

/* A(row, k) and B(k, column) where the registers of u hold them. */
static double element_a(const product *p, const uint32_t *u, int row, int k)
{
  int half = p->bits == 16 ? 8 : 4, per = 32 / p->bits;
  int lane = row % 8 * 4 + k % half / per, at = row / 8 + k / half * 2;
  uint32_t word = u[4 * lane + at];
  return p->value(p->bits == 32 ? word : k % 2 ? word >> 16 : word & 0xffff);
}

static double element_b(const product *p, const uint32_t *u, int k, int column)
{
  int half = p->bits == 16 ? 8 : 4, per = 32 / p->bits;
  int lane = column * 4 + k % half / per;
  uint32_t word = u[128 + 2 * lane + k / half];
  return p->value(p->bits == 32 ? word : k % 2 ? word >> 16 : word & 0xffff);
}

static void check_product(const product *p, const bench *b, const char *what)
{
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 4; i++) {
      int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      const double c[4] = {lane, .5, -lane, 0};
      double sum = 0, size = fabs(c[i]);
      for (int k = 0; k < p->depth; k++) {
        double term = element_a(p, b->a.u, row, k) * element_b(p, b->a.u, k, column);
        sum += term;
        size += fabs(term);
      }
      double got = (double)b->a.y[4 * lane + i], want = sum + c[i];
      bool right = fabs(want) < FLT_MAX ? fabs(got - want) <= size * 0x1p-23 : same(got, (double)(float)want);
      if (!right)
        fail_msg("%s, %s: C(%d, %d) is %.9g, right is %.9g", p->line, what, row, column, got, want);
    }
}

/* Registers full of numbers between 1/8 and 2, both signs; bits that do not count are set too. */
static void fill_registers(uint32_t *u, int bits, bool bf)
{
  uint32_t random = 12345;
  for (int i = 0; i < 192; i++) {
    random = random * 1664525 + 1013904223;
    uint32_t sign = random & 0x80008000, some = random >> 7;
    if (bits == 32)
      u[i] = (sign & 0x80000000) | (0x3e000000 + (some & 0x01ffffff));
    else if (bf)
      u[i] = sign | (0x3e003e00 + (some & 0x01ff01ff));
    else
      u[i] = sign | (0x30003000 + (some & 0x0fff0fff));
  }
}

static void products_are_right(void **state)
{
  (void)state;
  for (unsigned i = 0; i < sizeof products / sizeof *products; i++)
    for (int order = EMU_IN_ORDER; order <= EMU_RANDOM; order++) {
      const product *p = &products[i];
      char kernel[1500];
      snprintf(kernel, sizeof kernel, FRAGMENTS "%s\n" SUMS, p->line);
      const emu_options options = {.order = (emu_order)order, .seed = i};
      bench b = bench_open();
      fill_registers(b.a.u, p->bits, p->value == bf16);
      emu_report r = bench_run(&b, kernel, one_warp, &options);
      if (r.findings)
        fail_msg("%s: %s", p->line, r.finding[0].text);
      assert_int_equal(r.together, 1);
      check_product(p, &b, "ordinary numbers");
      /* A row with an infinity, a column with a NaN, the smallest numbers, the greatest. */
      const uint32_t one = p->bits == 32 ? 1u << 13 : 1, inf = p->value == f16 ? 0x7c00 : 0x7f80;
      b.a.u[4 * 4] = p->bits == 32 ? inf << 16 : inf;
      b.a.u[128 + 2 * 20] = p->bits == 32 ? 0x7fc00000 : inf << 16 | inf | 1u;
      b.a.u[4 * 8 + 1] = one << (32 - p->bits) | one;
      b.a.u[4 * 12] = p->bits == 32 ? 0x3f000000 : (inf - 1) | (inf - 1) << 16;
      bench_run(&b, kernel, one_warp, &options);
      check_product(p, &b, "special numbers");
      emu_close(b.e);
    }
}

static void matrices_are_handed_out(void **state)
{
  (void)state;
  static const char *const lines[] = {"q = ldmatrix(at + 16 * l);", "q = ldmatrix_trans(at + 16 * l);"};
  for (int trans = 0; trans < 2; trans++) {
    char kernel[1500];
    snprintf(kernel, sizeof kernel, MATRICES "%s\nfor (i32 i = 0; i < 4; i++) a.v[4 * l + i] = q.at[i];\n}",
             lines[trans]);
    bench b = bench_open();
    emu_report r = bench_run(&b, kernel, one_warp, NULL);
    if (r.findings)
      fail_msg("%s: %s", lines[trans], r.finding[0].text);
    assert_int_equal(r.conflicts, 0);
    for (int lane = 0; lane < 32; lane++)
      for (int i = 0; i < 4; i++) {
        uint32_t g = (uint32_t)lane / 4, t = (uint32_t)lane % 4, first = 64 * (uint32_t)i;
        uint32_t low = first + (trans ? 8 * (2 * t) + g : 8 * g + 2 * t);
        uint32_t high = first + (trans ? 8 * (2 * t + 1) + g : 8 * g + 2 * t + 1);
        if (b.a.v[4 * lane + i] != (low | high << 16))
          fail_msg("%s: lane %d has %08x, right is %08x", lines[trans], lane, b.a.v[4 * lane + i],
                   low | high << 16);
      }
    emu_close(b.e);
  }
}

/* Rows 128 bytes apart lie in the same banks, 32 bytes apart in those of every fourth. */
static void conflicts_are_counted(void **state)
{
  (void)state;
  static const char kernel[] = KERNEL(AT) "const i32 l = thread_id();\n"
                                          "for (i32 i = l; i < 64; i += 32) put16(at + 16 * i, quad{});\n"
                                          "warp_sync();\n"
                                          "ldmatrix(at + (l < 8 ? 128 * l : l < 16 ? 32 * l : 0));\n}";
  bench b = bench_open();
  emu_report r =
      bench_run(&b, kernel, "workspace 256\nlaunch k grid 1 block 32 shared 1024 args call ws(0)\n", NULL);
  assert_int_equal(r.findings, 0);
  assert_int_equal(r.conflicts, 7 + 1);
  emu_close(b.e);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(f16_becomes_f32),       cmocka_unit_test(numbers_are_rounded),
      cmocka_unit_test(products_are_right),    cmocka_unit_test(matrices_are_handed_out),
      cmocka_unit_test(conflicts_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
