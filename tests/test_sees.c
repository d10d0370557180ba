/* test_sees.c -- closed forms against plain counting: every mask at every small size, and sizes near 2^31. */
#include "draw.h"
#include "sees.h"
#include "space.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 12, WIDEST = 15 };
static const int64_t ALL = FAT_PROBLEM_ALL;

/* Whether row i sees key j, in the words of the masks. */
static bool sees(const fat_problem *p, int64_t i, int64_t j)
{
  const int64_t at = i + p->k - p->q; /* the key on the row's diagonal */
  const int64_t left = (int64_t)p->arg[FAT_WINDOW][0], right = (int64_t)p->arg[FAT_WINDOW][1];
  bool seen = j >= 0 && j < p->k;
  const bool first = j < (int64_t)p->arg[FAT_PREFIX][0]; /* of the prefix, which the causal mask leaves */
  if (fat_problem_has(p, FAT_CAUSAL))
    seen = seen && (j <= at || first);
  if (fat_problem_has(p, FAT_CAUSAL_TL))
    seen = seen && (j <= i || first);
  if (fat_problem_has(p, FAT_CHUNK)) { /* the row's chunk: that of the key it stands at */
    const int64_t chunk = (int64_t)p->arg[FAT_CHUNK][0];
    seen = seen && at >= 0 && at / chunk == j / chunk;
  }
  if (fat_problem_has(p, FAT_WINDOW))
    seen = seen && (left == ALL || j >= at - left) &&
           (right == ALL || fat_problem_has(p, FAT_CAUSAL) || j <= at + right);
  return seen;
}

static const char *title(const fat_problem *p)
{
  static char text[FAT_PROBLEM_TEXT];
  return fat_problem_print(p, text);
}

/* Calls `check` for every mask of small windows and chunks at every small q and k. */
static int every_problem(void (*check)(const fat_problem *p))
{
  static const int64_t windows[] = {0, 1, 2, 3, 5, 8, 11, WIDEST, FAT_PROBLEM_ALL};
  enum { WINDOWS = sizeof windows / sizeof *windows };
  int count = 0;
  for (int mask = 0; mask < 3; mask++)
    for (int w = -1; w < WINDOWS * WINDOWS; w++)
      for (int64_t q = 0; q <= MOST; q++)
        for (int64_t k = 0; k <= MOST; k++, count++) {
          fat_problem p = {FAT_FWD, FAT_F16, 1, 1, 1, q, k, 8, 8, 0, {{0}}};
          static const uint64_t chunks[] = {1, 3, 4, 7, 20, 0, 0, 0, 0, 0, 0};
          p.arg[FAT_CHUNK][0] = chunks[(w + q + k + 1) % 11];
          if (p.arg[FAT_CHUNK][0])
            p.features |= 1u << FAT_CHUNK;
          if (mask)
            p.features |= 1u << (mask == 1 ? FAT_CAUSAL : FAT_CAUSAL_TL);
          if (mask && (w + k) % 3 == 0) {
            p.features |= 1u << FAT_PREFIX;
            p.arg[FAT_PREFIX][0] = (uint64_t)((3 * q + k) % (k + 1));
            p.arg[FAT_PREFIX][1] = 1;
          }
          if (w >= 0) {
            p.features |= 1u << FAT_WINDOW;
            p.arg[FAT_WINDOW][0] = (uint64_t)windows[w / WINDOWS];
            p.arg[FAT_WINDOW][1] = (uint64_t)windows[w % WINDOWS];
          }
          check(&p);
        }
  return count;
}

static void rows_and_keys_match(const fat_problem *p)
{
  double pairs = 0;
  for (int64_t i = 0; i < p->q; i++) {
    const fat_interval keys = fat_sees(p, i);
    if (keys.lo < 0 || keys.hi > p->k || keys.lo > keys.hi)
      fail_msg("%s: row %d sees [%d, %d)", title(p), (int)i, (int)keys.lo, (int)keys.hi);
    for (int64_t j = 0; j < p->k; j++) {
      const fat_interval rows = fat_sees_rows(p, j);
      const bool seen = sees(p, i, j);
      pairs += seen;
      if ((j >= keys.lo && j < keys.hi) != seen)
        fail_msg("%s: row %d sees key %d: %d", title(p), (int)i, (int)j, seen);
      if ((i >= rows.lo && i < rows.hi) != seen || rows.lo < 0 || rows.hi > p->q || rows.lo > rows.hi)
        fail_msg("%s: key %d is seen by rows [%d, %d), by row %d: %d", title(p), (int)j, (int)rows.lo,
                 (int)rows.hi, (int)i, seen);
    }
  }
  if (fat_sees_pairs(p) != pairs)
    fail_msg("%s: %g pairs, right are %g", title(p), fat_sees_pairs(p), pairs);
}

static void intervals_are_those_of_the_masks(void **state)
{
  (void)state;
  assert_true(every_problem(rows_and_keys_match) > 40000);
}

/* KV tiles from the first key that some row of the tile sees to the last one; -1 where no row sees any. */
static int64_t tiles_visited(const fat_problem *p, int64_t t, int64_t Br, int64_t Bc, int64_t group)
{
  int64_t first = p->k, last = -1;
  for (int64_t row = t * Br; row < (t + 1) * Br && row < p->q * group; row++)
    for (int64_t j = 0; j < p->k; j++)
      if (sees(p, row / group, j)) {
        first = j < first ? j : first;
        last = j > last ? j : last;
      }
  return last < 0 ? -1 : last / Bc - first / Bc + 1;
}

static void tiles_match(const fat_problem *p)
{
  static const int64_t shapes[][3] = {{1, 1, 1}, {2, 3, 1}, {4, 4, 1}, {3, 2, 1}, {5, 16, 1},
                                      {4, 2, 2}, {6, 3, 3}, {4, 3, 3}, {3, 4, 2}, {16, 5, 4}};
  const bool apart = fat_problem_has(p, FAT_CAUSAL_TL) && fat_problem_has(p, FAT_WINDOW);
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int64_t Br = shapes[s][0], Bc = shapes[s][1], group = shapes[s][2];
    double all = 0;
    int64_t most = 0;
    for (int64_t t = 0; t * Br < p->q * group; t++) {
      const int64_t visited = tiles_visited(p, t, Br, Bc, group);
      all += visited > 0 ? (double)visited : 0;
      most = visited > most ? visited : most;
    }
    const double counted = fat_sees_tiles(p, Br, Bc, group);
    const int64_t bound = fat_sees_most_tiles(p, Br, Bc, group);
    /* Two masks with diagonals of their own may leave a tile's rows nothing in between what its ends see. */
    const bool lifted = p->arg[FAT_PREFIX][0] > 0;
    const bool chunks_apart = fat_problem_has(p, FAT_CAUSAL_TL) && (lifted || fat_problem_has(p, FAT_CHUNK));
    if (chunks_apart ? counted < all : apart && fat_sees_pairs(p) == 0 ? counted != 0 : counted != all)
      fail_msg("%s: tiles of %dx%d, %d heads: %g, right are %g", title(p), (int)Br, (int)Bc, (int)group,
               counted, all);
    const bool exact = !lifted && !fat_problem_has(p, FAT_WINDOW) && !fat_problem_has(p, FAT_CHUNK);
    if (bound < most || (exact && bound != most))
      fail_msg("%s: a tile of %dx%d, %d heads, visits at most %d, right are %d", title(p), (int)Br, (int)Bc,
               (int)group, (int)bound, (int)most);
    if (bound > most + (fat_problem_has(p, FAT_CHUNK) ? 3 : 1) && !chunks_apart && !lifted &&
        fat_sees_pairs(p) > 0)
      fail_msg("%s: a tile of %dx%d, %d heads, visits %d, and the bound is %d", title(p), (int)Br, (int)Bc,
               (int)group, (int)most, (int)bound);
  }
}

static void tiles_are_counted_in_closed_form(void **state)
{
  (void)state;
  assert_true(every_problem(tiles_match) > 40000);
}

static void masks_make_tiles_uneven(void **state)
{
  (void)state;
  fat_problem p = {FAT_FWD, FAT_F16, 1, 1, 1, 9, 9, 8, 8, 0, {{0}}};
  static const fat_feature masks[] = {FAT_CAUSAL, FAT_CAUSAL_TL, FAT_WINDOW, FAT_CHUNK};
  assert_false(fat_sees_uneven(&p));
  for (int i = 0; i < 4; i++) {
    p.features = 1u << masks[i];
    assert_true(fat_sees_uneven(&p));
  }
}

/* ---- blocks that are drawn */

static void pairs_and_tiles_of_blocks_are_counted(void **state)
{
  (void)state;
  static const char *const texts[] = {"fwd-f16-b2-h3-q50-k70-d8-bs8x12",
                                      "fwd-f16-b1-h1-q61-k47-d8-causal-bs5x4"};
  for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
    enum { BR = 6, BC = 9 };
    fat_problem p;
    double pairs = 0, tiles = 0;
    bool there[64][64] = {{false}};
    assert_int_equal(fat_problem_parse(texts[n], &p, NULL), FAT_OK);
    const int64_t R = (int64_t)p.arg[FAT_BLOCKSPARSE][0], C = (int64_t)p.arg[FAT_BLOCKSPARSE][1];
    for (int64_t i = 0; i < p.q; i++)
      for (int64_t j = 0; j < p.k; j++) {
        const bool block = fat_draw_block(&p, (fat_element){0, 0, i / R}, j / C);
        const int64_t last = i / BR * BR + BR - 1 < p.q ? i / BR * BR + BR - 1 : p.q - 1; /* of the tile */
        pairs += block && j < fat_sees(&p, i).hi;
        there[i / BR][j / BC] |= block && j / BC * BC < fat_sees(&p, last).hi;
      }
    for (int t = 0; t < 64 * 64; t++)
      tiles += there[t / 64][t % 64];
    assert_true(pairs > 0 && pairs < 0.5 * (double)(p.q * p.k));
    assert_float_equal(fat_sees_pairs(&p), pairs, 1e-6);
    assert_float_equal(fat_sees_tiles(&p, BR, BC, 1), tiles, 1e-6);
  }
}

/* ---- batches with lengths of their own: the mean over the draw */

static void batches_are_counted_one_by_one(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "fwd-f16-b37-h1-q50-k70-d8-causal-used",    "fwd-f16-b3-h1-q9-k33-d8-used",
      "fwd-f16-b20-h1-q50-k70-d8-w9.3-used-lpad", "fwd-f16-b20-h1-q50-k70-d8-causal-used-prefix",
      "fwd-f16-b40-h1-q50-k50-d8-causal-varlen",  "fwd-f16-b40-h1-q50-k50-d8-causal-varlen-iv"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    fat_problem p;
    double pairs = 0, visited = 0, most = 0;
    assert_int_equal(fat_problem_parse(texts[i], &p, NULL), FAT_OK);
    for (int64_t b = 0; b < p.b; b++) {
      const fat_batch x = fat_draw_batch(&p, b, NULL, NULL);
      assert_true(x.p.q <= p.q && x.p.k <= p.k && !fat_draw_by_batch(&x.p));
      pairs += fat_sees_pairs(&x.p);
      visited += fat_sees_tiles(&x.p, 4, 3, 1);
      most = fmax(most, (double)fat_sees_most_tiles(&x.p, 4, 3, 1));
    }
    assert_true(fabs(fat_sees_pairs(&p) * (double)p.b - pairs) < 1e-6);
    assert_true(fabs(fat_sees_tiles(&p, 4, 3, 1) * (double)p.b - visited) < 1e-6);
    assert_true((double)fat_sees_most_tiles(&p, 4, 3, 1) == most);
    assert_true(pairs > 0 && fat_sees_uneven(&p));
  }
}

static void an_only_batch_is_never_empty(void **state)
{
  (void)state;
  for (int64_t q = 1; q <= 64; q++)
    for (int64_t k = 1; k <= 64; k++) {
      fat_problem p;
      char text[FAT_PROBLEM_TEXT];
      snprintf(text, sizeof text, "fwd-f16-b1-h1-q%lld-k%lld-d8-varlen", (long long)q, (long long)k);
      assert_int_equal(fat_problem_parse(text, &p, NULL), FAT_OK);
      assert_in_range(fat_draw_total(&p, 0), 1, q);
      assert_in_range(fat_draw_total(&p, 1), 1, k);
      snprintf(text, sizeof text, "fwd-f16-b1-h1-q%lld-k%lld-d8-used", (long long)q, (long long)k);
      assert_int_equal(fat_problem_parse(text, &p, NULL), FAT_OK);
      const fat_batch x = fat_draw_batch(&p, 0, NULL, NULL);
      assert_true(x.p.q > 0 && x.p.k > 0);
    }
}

/* ---- lengths near 2^31: the same formulas, no walk and no overflow ---- */

static fat_problem huge(const char *features)
{
  char text[FAT_PROBLEM_TEXT];
  fat_problem p;
  snprintf(text, sizeof text, "fwd-f16-b1-h1-q2147483647-k2147483647-d64%s", features);
  assert_int_equal(fat_problem_parse(text, &p, NULL), FAT_OK);
  return p;
}

static void near_within(double x, double right, double part)
{
  if (!(x >= right * (1 - part) && x <= right * (1 + part)))
    fail_msg("%.17g is not %.17g", x, right);
}

static void near(double x, double right)
{
  near_within(x, right, 1e-9);
}

static void the_longest_rows_cost_nothing(void **state)
{
  (void)state;
  const double n = 2147483647.0, tiles = (n + 1) / 128;
  const clock_t begin = clock();
  for (int times = 0; times < 1000; times++) {
    fat_problem p = huge("-causal");
    near(fat_sees_pairs(&p), n * (n + 1) / 2);
    near(fat_sees_tiles(&p, 128, 128, 1), tiles * (tiles + 1) / 2);
    near(fat_sees_tiles(&p, 1, 1, 1), n * (n + 1) / 2);
    near_within(fat_sees_tiles(&p, 128, 128, 3), 3 * tiles * tiles / 2,
                1e-6); /* tiles end amid a row's heads */
    assert_int_equal(fat_sees_most_tiles(&p, 128, 128, 1), 1 << 24);
    p = huge("-causal-w2147483646.0");
    near(fat_sees_pairs(&p), n * (n + 1) / 2);
    p = huge("-causal-w1023.0");
    near(fat_sees_pairs(&p), n * 1024 - 1024 * 1023.0 / 2);
    near(fat_sees_tiles(&p, 128, 128, 1), tiles * 9 - 36);
    assert_int_equal(fat_sees_most_tiles(&p, 128, 128, 1), 10);
    assert_int_equal(fat_sees(&p, 2147483646).lo, 2147483646 - 1023);
    assert_int_equal(fat_sees(&p, 2147483646).hi, 2147483647);
    assert_int_equal(fat_sees_rows(&p, 2147483646).lo, 2147483646);
    p = huge("-w2147483646.2147483646");
    near(fat_sees_pairs(&p), n * n);
    near(fat_sees_tiles(&p, 128, 128, 1), tiles * tiles);
    p.q = 1;
    assert_int_equal(fat_sees(&p, 0).lo, 0);
    p = huge("-causaltl-w5.0");
    p.q = 5;
    assert_true(fat_sees_pairs(&p) == 0); /* the window lies at the other end */
  }
  assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 5);
}

/* A space asks for the visits of every config: D3 of the review walked over each tile of Q. */
/* As a row of somebody else's database may have it: 8.8e12 blocks, of which one of four is there. */
static void the_smallest_blocks_are_not_all_walked(void **state)
{
  (void)state;
  fat_problem p;
  assert_int_equal(fat_problem_parse("fwd-f16-b1-h1-q4096-k2147483647-d64-bs1x1", &p, NULL), FAT_OK);
  const clock_t begin = clock();
  near_within(fat_sees_pairs(&p), 4096 * 2147483647.0 / 4, 0.01);
  near_within(fat_sees_tiles(&p, 128, 128, 1), 32.0 * (1 << 24), 0.01);
  assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 2);
}

/* FATUNE_FULL=1: each on both GPUs. */
static void spaces_of_the_longest_rows_are_listed(void **state)
{
  static const char *const texts[] = {"fwd-f16-b1-h32-q8388608-k8388608-d64-causal",
                                      "fwd-f16-b1-h1-q2147483647-k2147483647-d64-causal",
                                      "fwd-f16-b1-h6k2-q2147483647-k4096-d64-causal"};
  fat_script *script;
  fat_error err = {0};
  (void)state;
  assert_int_equal(fat_script_open(NULL, &script, &err), FAT_OK);
  for (int i = 0; i < 6; i++) {
    char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
    const fat_gpu *gpu;
    fat_problem p;
    int count;
    const clock_t begin = clock();
    if (i % 2 != i / 2 % 2 && !getenv("FATUNE_FULL"))
      continue;
    assert_int_equal(fat_problem_parse(texts[i / 2], &p, &err), FAT_OK);
    assert_int_equal(fat_gpu_find(i % 2 ? "H200" : "T4", &gpu, &err), FAT_OK);
    assert_int_equal(fat_space_kernels(script, names, &count, &err), FAT_OK);
    for (int n = 0; n < count; n++) {
      fat_space space = {0};
      int picked;
      if (fat_space_applies(script, names[n], &p, gpu, &picked, NULL) != FAT_OK)
        continue;
      if (fat_space_list(script, names[n], &p, gpu, &space, &err) != FAT_OK)
        fail_msg("%s of %s: %s", names[n], texts[i / 2], err.text);
      assert_true(space.count > 0);
      fat_space_free(&space);
    }
    if ((double)(clock() - begin) / CLOCKS_PER_SEC > 20)
      fail_msg("%s on %s takes long", texts[i / 2], gpu->name);
  }
  fat_script_close(script);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(intervals_are_those_of_the_masks),
      cmocka_unit_test(tiles_are_counted_in_closed_form),
      cmocka_unit_test(masks_make_tiles_uneven),
      cmocka_unit_test(pairs_and_tiles_of_blocks_are_counted),
      cmocka_unit_test(batches_are_counted_one_by_one),
      cmocka_unit_test(an_only_batch_is_never_empty),
      cmocka_unit_test(the_longest_rows_cost_nothing),
      cmocka_unit_test(the_smallest_blocks_are_not_all_walked),
      cmocka_unit_test(spaces_of_the_longest_rows_are_listed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
