/* test_gpu.c -- every row of the GPU tables is plausible and can be found, by name and by what a driver
 * reports.
 *
 * The tables are data: these checks are what a typing error in a new row runs into. */
#include "gpu.h"
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void architectures_are_plausible(void **state)
{
  (void)state;
  static const int all[] = {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const fat_arch *a = fat_gpu_arch(all[i]);
    assert_non_null(a);
    assert_int_equal(a->sm, all[i]);
    char target[16];
    snprintf(target, sizeof target, "sm_%d%s", a->sm, a->sm >= 90 && a->sm < 120 ? "a" : "");
    assert_string_equal(a->target, target);
    assert_true(a->threads_sm % 512 == 0 && a->threads_sm >= 1024 && a->threads_sm <= 2048);
    assert_true(a->blocks_sm >= 16 && a->blocks_sm <= 32 && a->blocks_sm % 8 == 0);
    assert_int_equal(a->regs_sm, 65536);
    assert_int_equal(a->regs_thread, 255);
    /* one block with the driver's share fills an SM */
    assert_int_equal(a->shared_block + a->shared_reserved, a->shared_sm);
    assert_int_equal(a->shared_reserved, a->sm >= 80 ? 1024 : 0);
    assert_true(a->fma == 64 || a->fma == 128);
    assert_int_equal(a->ex2, 16);
    assert_int_equal(a->shared_bytes, a->sm == 75 ? 64 : 128);
    assert_true(a->tensor >= 1024 && (a->tensor & (a->tensor - 1)) == 0);
    uint32_t always = 1u << FAT_F32 | 1u << FAT_F16,
             later = 1u << FAT_BF16 | 1u << FAT_TF32 | 1u << FAT_F32X3;
    assert_int_equal(a->dtypes, a->sm >= 80 ? always | later : always);
  }
  assert_null(fat_gpu_arch(70));
  assert_null(fat_gpu_arch(0));
}

static void figures_of_the_papers_hold(void **state)
{
  (void)state;
  const struct {
    const char *name;
    double fp32, tensor; /* data-sheet peaks, TFLOP/s */
  } peaks[] = {
      {"T4", 8.1, 65}, {"A100", 19.5, 312}, {"H200", 67, 989}, {"A10", 31.2, 125}, {"B200", 74, 2250}};
  for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
    const fat_gpu *g;
    assert_int_equal(fat_gpu_find(peaks[i].name, &g, NULL), FAT_OK);
    const fat_arch *a = fat_gpu_arch(g->sm);
    double rate = (double)g->sms * g->clock * 1e6 / 1e12;
    assert_true(fabs(2.0 * a->fma * rate / peaks[i].fp32 - 1) < 0.02);
    /* sheets give the tensor peak at the boost clock, which Hopper's and Blackwell's maximum is above */
    assert_true(a->tensor * rate / peaks[i].tensor > 0.98 && a->tensor * rate / peaks[i].tensor < 1.10);
  }
}

static void models_are_plausible(void **state)
{
  (void)state;
  int count;
  const fat_gpu *g = fat_gpu_list(&count);
  assert_true(count >= 45);
  for (int i = 0; i < count; i++, g++) {
    const fat_arch *a = fat_gpu_arch(g->sm);
    assert_non_null(a);
    assert_true(strlen(g->name) > 0 && strlen(g->name) < sizeof g->name - 1);
    assert_int_equal(g->shared_block, a->shared_block);
    assert_int_equal(g->shared_sm, a->shared_sm);
    assert_true(g->sms >= 8 && g->sms <= 192 && (g->sms % 2 == 0));
    assert_true(g->l2 >= 1 << 20 && g->l2 <= 128 << 20 && g->l2 % (256 << 10) == 0);
    assert_true(g->bus >= 96 && g->bus <= 8192 && g->bus % 32 == 0);
    assert_true(g->clock >= 600 && g->clock <= 2700);
    assert_true(g->memory >= 4 && g->memory <= 300);
    assert_true(i == 0 || g->sm >= g[-1].sm); /* grouped, so that `show gpus` reads well */
    /* two transfers a clock over the whole bus */
    double dram = 2.0 * g->memory_clock * 1e6 * g->bus / 8 / 1e9;
    if (g->memory_clock == 0)
      assert_true(g->sm == 87 || g->sm == 110 || g->sm == 121); /* memory of the CPU: not reported */
    else if (fabs(dram / g->dram - 1) > 0.03)
      fail_msg("%s: %d MHz over %d bits are %.0f GB/s, the row says %.0f", g->name, g->memory_clock, g->bus,
               dram, g->dram);
    assert_true(g->dram >= 60 && g->dram <= 8000);
  }
}

/* As fat_gpu_find compares: letters and digits in lower case. */
static void squeeze(const char *name, char *out)
{
  for (; *name != 0; name++)
    if (isalnum((unsigned char)*name))
      *out++ = (char)tolower((unsigned char)*name);
  *out = 0;
}

static void names_are_unique_and_find_their_row(void **state)
{
  (void)state;
  int count;
  const fat_gpu *rows = fat_gpu_list(&count), *found;
  char one[64], other[64], long_name[64];
  for (int i = 0; i < count; i++) {
    squeeze(rows[i].name, one);
    for (int j = 0; j < i; j++) {
      squeeze(rows[j].name, other);
      assert_string_not_equal(one, other);
    }
    snprintf(long_name, sizeof long_name, "NVIDIA %s", rows[i].name);
    const char *spelled[] = {rows[i].name, one, long_name};
    for (int s = 0; s < 3; s++) {
      assert_int_equal(fat_gpu_find(spelled[s], &found, NULL), FAT_OK);
      assert_ptr_equal(found, &rows[i]);
    }
  }
}

static void names_are_read_forgivingly(void **state)
{
  (void)state;
  static const struct {
    const char *name, *row;
  } cases[] = {
      {"rtx4090", "RTX 4090"},
      {"RTX-4090", "RTX 4090"},
      {"rtx_4090", "RTX 4090"},
      {"NVIDIA GeForce RTX 4090", "RTX 4090"},
      {"NVIDIA TITAN RTX", "Titan RTX"},
      {"t4", "T4"},
      {"Tesla T4", "T4"},
      {"NVIDIA A10G", "A10G"},
      {"rtx 2080ti", "RTX 2080 Ti"},
      {"a100 80gb sxm", "A100 80GB SXM"},
      {"A100", "A100 80GB SXM"},
      {"a100-40gb", "A100 40GB SXM"},
      {"NVIDIA A100-SXM4-40GB", "A100 40GB SXM"},
      {"NVIDIA A100-SXM4-80GB", "A100 80GB SXM"},
      {"NVIDIA A100-PCIE-40GB", "A100 40GB PCIe"},
      {"NVIDIA A100 80GB PCIe", "A100 80GB PCIe"},
      {"H100", "H100 SXM"},
      {"NVIDIA H100 80GB HBM3", "H100 SXM"},
      {"NVIDIA H100 PCIe", "H100 PCIe"},
      {"NVIDIA H200", "H200"},
      {"NVIDIA GH200 480GB", "GH200 96GB"},
      {"NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"},
      {"Quadro RTX 6000", "Quadro RTX 6000"},
      {"dgx spark", "GB10"},
      {"orin", "Jetson AGX Orin 64GB"},
      {"NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop"},
      {"NVIDIA Thor", "Jetson AGX Thor"},
      {"NVIDIA A800-SXM4-80GB", "A800"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const fat_gpu *g = NULL;
    fat_error err = {0};
    if (fat_gpu_find(cases[i].name, &g, &err) != FAT_OK)
      fail_msg("%s", err.text);
    assert_string_equal(g->name, cases[i].row);
  }
}

static void an_unknown_name_brings_the_nearest(void **state)
{
  (void)state;
  static const struct {
    const char *name, *first;
  } cases[] = {
      {"T5", "unknown GPU 'T5': the nearest known are T4, T4G, A2"},
      {"RTX 4900", "unknown GPU 'RTX 4900': the nearest known are RTX 4090, "},
      {"4090", "unknown GPU '4090': the nearest known are RTX 4090"},
      {"H201", "unknown GPU 'H201': the nearest known are H200, H20, L20"},
      {"A1000 80GB SXM", "the nearest known are A100 80GB SXM, "},
      {"RTX 5090X", "unknown GPU 'RTX 5090X': the nearest known are RTX 5090, RTX 3090, RTX 4090"},
      {"", "unknown GPU '': the nearest known are "},
      {"a name much longer than that of any GPU there ever was, or will be, for all we know",
       "unknown GPU 'a name"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const fat_gpu *g = NULL;
    fat_error err = {0};
    assert_int_equal(fat_gpu_find(cases[i].name, &g, &err), FAT_E_INPUT);
    assert_null(g);
    if (strstr(err.text, cases[i].first) == NULL)
      fail_msg("'%s' does not say '%s'", err.text, cases[i].first);
  }
}

/* Rows with equal facts are one GPU to a kernel: a typing error that makes two of them equal shows in what
 * facts leave out. */
static void equal_facts_are_of_equal_chips(void **state)
{
  (void)state;
  int count, seen = 0;
  const fat_gpu *rows = fat_gpu_list(&count);
  for (int i = 0; i < count; i++) {
    char facts[FAT_GPU_FACTS], other[FAT_GPU_FACTS];
    int j = 0;
    fat_gpu_facts(&rows[i], facts);
    while (strcmp(facts, fat_gpu_facts(&rows[j], other)) != 0)
      j++;
    seen += j < i;
    if (fabs(rows[i].dram / rows[j].dram - 1) > 0.03)
      fail_msg("%s and %s have the facts %s", rows[j].name, rows[i].name, facts);
  }
  assert_true(seen > 0);
}

static void gpus_that_are_too_old_are_told_why(void **state)
{
  (void)state;
  static const char *const names[] = {"V100", "Tesla V100-SXM2-32GB", "NVIDIA TITAN V",
                                      "P100", "gtx 1080 ti",          "K80"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const fat_gpu *g;
    fat_error err = {0};
    assert_int_equal(fat_gpu_find(names[i], &g, &err), FAT_E_UNSUPPORTED);
    if (strstr(err.text, "fatune begins with Turing") == NULL)
      fail_msg("%s", err.text);
  }
}

static void a_device_is_matched_by_its_facts(void **state)
{
  (void)state;
  int count;
  const fat_gpu *rows = fat_gpu_list(&count);
  for (int i = 0; i < count; i++) {
    fat_gpu device = rows[i];
    snprintf(device.name, sizeof device.name, "Graphics Device"); /* as an early driver names it */
    device.memory *= 0.95;                                        /* some is the driver's own */
    const fat_gpu *m = fat_gpu_match(&device);
    assert_non_null(m);
    /* itself, or a twin that stands before it and that no figure tells apart */
    bool twin = m->sms == rows[i].sms && m->clock == rows[i].clock &&
                m->memory_clock == rows[i].memory_clock && fabs(m->memory / rows[i].memory - 1) < 0.05 &&
                m < &rows[i];
    if (m != &rows[i] && !twin)
      fail_msg("the facts of %s are matched to %s", rows[i].name, m->name);
  }
}

static void other_facts_match_no_row(void **state)
{
  (void)state;
  const fat_gpu *t4;
  assert_int_equal(fat_gpu_find("T4", &t4, NULL), FAT_OK);
  fat_gpu d[] = {*t4, *t4, *t4, *t4, *t4, *t4, *t4, *t4};
  d[0].sm = 80;
  d[1].sms = 20; /* a slice of it */
  d[2].shared_block = 49152;
  d[3].shared_sm = 32768;
  d[4].l2 += 1;
  d[5].bus = 128;
  d[6].clock = 1550; /* 2.5 % below */
  d[7].clock = 0;
  for (size_t i = 0; i < sizeof d / sizeof *d; i++)
    assert_null(fat_gpu_match(&d[i]));
  fat_gpu near = *t4;
  near.clock = 1560; /* 1.9 % below */
  near.memory_clock = 0;
  near.memory = 14.6;
  assert_ptr_equal(fat_gpu_match(&near), t4);
}

static void facts_are_one_text(void **state)
{
  (void)state;
  const fat_gpu *g;
  char facts[FAT_GPU_FACTS];
  assert_int_equal(fat_gpu_find("T4", &g, NULL), FAT_OK);
  assert_string_equal(fat_gpu_facts(g, facts), "sm75-40SM-65536S-4194304L2-256b-1590+5001MHz");
  assert_int_equal(fat_gpu_find("H200", &g, NULL), FAT_OK);
  assert_string_equal(fat_gpu_facts(g, facts), "sm90-132SM-232448S-62914560L2-6016b-1980+3201MHz");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(architectures_are_plausible),
      cmocka_unit_test(figures_of_the_papers_hold),
      cmocka_unit_test(models_are_plausible),
      cmocka_unit_test(names_are_unique_and_find_their_row),
      cmocka_unit_test(names_are_read_forgivingly),
      cmocka_unit_test(an_unknown_name_brings_the_nearest),
      cmocka_unit_test(equal_facts_are_of_equal_chips),
      cmocka_unit_test(a_device_is_matched_by_its_facts),
      cmocka_unit_test(gpus_that_are_too_old_are_told_why),
      cmocka_unit_test(other_facts_match_no_row),
      cmocka_unit_test(facts_are_one_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
