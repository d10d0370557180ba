/* test_kernels_windows.c -- sliding windows in all forward kernels, on the emulator: every dtype, every class
 * of architecture, every edge.
 *
 * The numbers of a window are arguments, so one compiled kernel is tried on all of them: the diagonal alone,
 * a few keys, one less and one more than a tile, open to one side, wider than everything; with more keys than
 * rows and the other way round, where some rows see no key and some keys no row; with and without the causal
 * mask, by turns from kernel to kernel. Lengths lie around the tile's edges. FATUNE_FULL=1 tries all windows
 * at all lengths, and each kernel with either mask. */
#include "check.h"
#include "sees.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

typedef struct kernel {
  const char *gpu, *dtype, *dims, *config;
  int peers; /* heads that share K and V */
} kernel;

/* The three algorithms on CUDA cores and on every kind of tensor core; copies through registers and
 * asynchronous ones; heads in an order of their own (Z8), rows of several heads in one tile (G1), V in
 * slices; warpgroups in every schedule, with P in registers and in shared memory. */
static const kernel kernels[] = {
    {"T4", "f32", "d40", "standard", 2},
    {"T4", "f32", "d40", "fa1", 1},
    {"T4", "f32", "d40", "fwd", 2},
    {"T4", "f32", "d128", "fwd", 1},
    {"T4", "f16", "d40", "standard", 1},
    {"T4", "f16", "d40", "fa1", 2},
    {"T4", "f16", "d64", "fwd", 2},
    {"T4", "f16", "d64v24", "fwd:Br64-Bc32-w2-s0-Q1-b1-Z8-W16", 1},
    {"A100", "f16", "d40v24", "fwd:Br64-Bc16-w4-s2-Q1-b1-Z8-W16", 2},
    {"A100", "f16", "d40v24", "fwd:Br64-Bc16-w4-s1-Q1-b1-Z8-W1", 1},
    {"A100", "bf16", "d40", "standard", 2},
    {"A100", "bf16", "d40", "fa1", 1},
    {"A100", "bf16", "d128", "fwd", 2},
    {"A100", "tf32", "d40", "standard", 1},
    {"A100", "tf32", "d40", "fa1", 2},
    {"A100", "tf32", "d40", "fwd", 2},
    {"A100", "f32x3", "d40", "standard", 2},
    {"A100", "f32x3", "d40", "fa1", 1},
    {"A100", "f32x3", "d24v40", "fwd", 2},
    {"A100", "f16", "d64v384", "fwd", 2},
    {"T4", "f16", "d40v72", "fwd:Br32-Bc16-w2-s1-Q0-b1-Z1-W16-G1", 4},
    {"T4", "f16", "d64", "fwd:Br64-Bc32-w2-s0-Q1-b1-Z8-W16-G1", 3},
    {"A100", "bf16", "d64", "fwd:Br16-Bc32-w1-s3-Q0-b1-Z1-W16-G1", 8},
    {"A100", "tf32", "d40", "fwd:Br64-Bc32-w4-s2-Q0-b1-Z1-W16-G1", 3},
    {"H200", "f16", "d64", "fwd_ws", 2},
    {"H200", "bf16", "d128", "fwd_ws", 1},
    {"H200", "bf16", "d40", "fwd_ws:Br128-Bc32-s2-q2-Q1-I1-P1-L1-Z2", 2},
    {"H200", "f16", "d40", "fwd_ws:Br192-Bc48-s1-q1-Q1-I0-P0-L2-Z1", 1},
    {"H200", "f16", "d40", "fwd_ws:Br192-Bc64-s1-q1-Q0-I2-P1-L0-Z1", 2},
    {"H200", "bf16", "d40v384", "fwd_ws:Br128-Bc64-s3-q2-Q1-I0-P0-L1-Z2-S1", 2},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static emu_case case_of(const kernel *of, bool causal, int64_t q, int64_t k, int64_t left, int64_t right)
{
  char text[FAT_PROBLEM_TEXT];
  snprintf(text, sizeof text, "fwd-%s-%s%s-w", of->dtype, of->dims, causal ? "-causal" : "");
  emu_case c;
  fat_problem p;
  fat_error err = {0};
  if (fat_problem_parse_family(text, &p, &err) != FAT_OK)
    fail_msg("%s", err.text);
  p.hk = of->peers > 4 ? 1 : 2;
  p.h = p.hk * of->peers;
  p.q = q;
  p.k = k;
  p.arg[FAT_WINDOW][0] = (uint64_t)left;
  p.arg[FAT_WINDOW][1] = causal ? 0 : (uint64_t)right;
  emu_case_plain(&c, &p);
  assert_int_equal(fat_gpu_find(of->gpu, &c.gpu, NULL), FAT_OK);
  return c;
}

static void solves(const kernel *of, emu_case *c, uint64_t number)
{
  const fat_config config = emu_check_config(of->config, c);
  const bool large = c->data == FAT_LARGE || c->data == FAT_HUGE;
  if (large && fat_reference_stores(config.kernel) && fat_dtypes[c->problem.dtype].bytes == 2)
    c->data =
        FAT_RISING; /* of scores this large S in memory, in 16 bits, does not say which is the largest */
  c->seed = number;
  c->sms = 1 + (int)(number % 3); /* so few that a block that stays does several tiles */
  fat_truth t = emu_check_truth(c);
  emu_check_solves(c, &t, &config, (emu_order)(number % 3), number);
  fat_truth_free(&t);
}

/* The tiles of a config: kernels without one have tiles of their own. */
static void tiles_of(const kernel *of, const emu_case *c, int32_t *Br, int32_t *Bc)
{
  const fat_config config = emu_check_config(of->config, c);
  *Br = *Bc = 32;
  fat_config_get(&config, "Br", Br);
  fat_config_get(&config, "Bc", Bc);
}

static void every_edge_is_solved(const kernel *of, int number, bool causal)
{
  int32_t Br, Bc;
  emu_case c = case_of(of, causal, 64, 64, 1, 1);
  tiles_of(of, &c, &Br, &Bc);
  const int64_t all = FAT_PROBLEM_ALL;
  const int64_t windows[][2] = {
      {0, 0},   {1, 2},   {5, 3},          {Bc - 1, 0},      {Bc, Bc}, {Bc + 1, 1},       {3, Br},
      {all, 4}, {7, all}, {2 * Bc + 3, 9}, {9 * Bc, 9 * Br}, {0, Bc},  {all - 1, all - 1}};
  const int64_t lengths[][2] = {{Br + 1, 3 * Bc - 1}, {2 * Br + 1, Bc + 1}, {1, 2 * Bc + 1}, {Br, 2 * Bc},
                                {2 * Br - 1, 1},      {Br + 5, Bc - 1},     {Br - 1, 4 * Bc}};
  enum { WINDOWS = sizeof windows / sizeof *windows, LENGTHS = sizeof lengths / sizeof *lengths };
  for (int w = 0; w < WINDOWS; w++)
    for (int l = 0; l < LENGTHS; l++) {
      const int seed = number * 97 + w * LENGTHS + l;
      if ((w + l + number) % LENGTHS != 0 && !emu_check_full())
        continue;
      c = case_of(of, causal, lengths[l][0], lengths[l][1], windows[w][0], windows[w][1]);
      c.lay = (emu_lay)(seed % EMU_FAR);
      c.data = (fat_data)(seed / 2 % FAT_DATAS);
      c.no_lse = seed % 11 == 0;
      solves(of, &c, (uint64_t)seed);
    }
}

static void every_kernel_solves_every_edge(void **state)
{
  (void)state;
  for (int i = 0; i < KERNELS; i++)
    for (int causal = 0; causal < 2; causal++)
      if (emu_check_full() || causal == i % 2)
        every_edge_is_solved(&kernels[i], 2 * i + causal, causal);
}

/* Rows above the window's first and below its last key, in the same tile as rows that see some. */
static void rows_without_keys(void **state)
{
  (void)state;
  for (int i = 0; i < KERNELS; i++) {
    emu_case c = case_of(&kernels[i], i % 2, 150, 40, 20, 6);
    int empty = 0;
    for (int64_t row = 0; row < c.problem.q; row++) {
      const fat_interval keys = fat_sees(&c.problem, row);
      empty += keys.lo == keys.hi;
    }
    assert_true(empty > 90);
    c.lay = EMU_PADDED;
    solves(&kernels[i], &c, (uint64_t)(1000 + i));
  }
}

/* A window that reaches everything is no window: the numbers are those of the same kernel without, within
 * what is allowed of both. One that ends where the causal mask does is that mask. */
static void the_widest_windows_are_no_windows(void **state)
{
  (void)state;
  for (int i = 0; i < KERNELS; i += emu_check_full() ? 3 : 6) {
    emu_case c = case_of(&kernels[i], false, 70, 90, 1000, 1000), plain = c;
    char why[512];
    const fat_config config = emu_check_config(kernels[i].config, &c);
    plain.problem.features = 0;
    fat_truth t = emu_check_truth(&plain);
    emu_result r = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 1);
    if (!emu_attention_right(&plain, &t, &r, why, sizeof why))
      fail_msg("%s: %s", emu_check_title(&c, &config), why);
    emu_result_free(&r);
    fat_truth_free(&t);
    c.problem.arg[FAT_WINDOW][1] = 0;
    plain.problem.features = 1u << FAT_CAUSAL;
    t = emu_check_truth(&plain);
    r = emu_check_run(&c, &t, &config, EMU_IN_ORDER, 1);
    if (!emu_attention_right(&plain, &t, &r, why, sizeof why))
      fail_msg("%s: %s", emu_check_title(&c, &config), why);
    emu_result_free(&r);
    fat_truth_free(&t);
  }
}

static void tensors_reach_past_two_to_the_31(void **state)
{
  (void)state;
  emu_check_far();
  static const int some[] = {0, 1, 2, 8, 12, 22, 24};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    emu_case c = case_of(&kernels[some[i]], i % 2, 33, 70, 20, 5);
    c.lay = EMU_FAR;
    solves(&kernels[some[i]], &c, i);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kernel_solves_every_edge),
      cmocka_unit_test(rows_without_keys),
      cmocka_unit_test(the_widest_windows_are_no_windows),
      cmocka_unit_test(tensors_reach_past_two_to_the_31),
  };
  return cmocka_run_group_tests(tests, emu_check_open, emu_check_close);
}
