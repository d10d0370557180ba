/* emu_bench.h -- small kernels on the emulator: what test_emu, test_emu_warp and test_emu_copies share.
 *
 * Every kernel has x (2 rows of 12 floats, 16 apart, filled with 0, 1, 2 ...), y (256 floats, empty), z (one
 * float, empty), u (65536 words, filled with 0, 1, 2 ...), v (as many, empty), h (3 rows of 5 numbers of two
 * bytes, 7 apart, from the upper half of a word on, empty), a workspace of 64 floats, and shared memory for
 * as many. Its first line counts as line 1. */
#ifndef EMU_BENCH_H
#define EMU_BENCH_H

#include "emu.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char bench_head[] = "#line 1 \"templates/arch/sm75.cuh\"\n"
                                 "__device__ __forceinline__ i32 thread_id()\n"
                                 "{\n"
                                 "  return threadIdx.x;\n"
                                 "}\n"
                                 "#line 1 \"templates/lib/args.h\"\n"
                                 "typedef int i32;\n"
                                 "typedef long long i64;\n"
                                 "typedef unsigned u32;\n"
                                 "typedef unsigned short u16;\n"
                                 "struct call { float *x, *y, *z; u32 *u, *v; u16 *h; };\n"
                                 "#line 1 \"templates/lib/tools.cuh\"\n"
                                 "__device__ __forceinline__ void put(float *to, float x)\n"
                                 "{\n"
                                 "  *to = x;\n"
                                 "}\n"
                                 "#line 1 \"templates/t.cu\"\n";

enum { BENCH_WORDS = 65536 };

typedef struct call {
  float *x, *y, *z;
  uint32_t *u, *v;
  uint16_t *h;
} call;

typedef struct bench {
  emu *e;
  call a;
} bench;

#define BENCH __attribute__((unused)) static

BENCH bench bench_open(void)
{
  bench b;
  fat_error err;
  assert_int_equal(emu_open(&b.e, &err), FAT_OK);
  const int64_t words = BENCH_WORDS;
  const emu_layout x = {"x", {1, 1, 2, 12}, {32, 32, 16, 1}, 4, 0};
  const emu_layout y = {"y", {1, 1, 1, 256}, {256, 256, 256, 1}, 4, 0};
  const emu_layout z = {"z", {1, 1, 1, 1}, {1, 1, 1, 1}, 4, 0};
  const emu_layout u = {"u", {1, 1, 1, words}, {words, words, words, 1}, 4, 0};
  const emu_layout v = {"v", {1, 1, 1, words}, {words, words, words, 1}, 4, 0};
  const emu_layout h = {"h", {1, 1, 3, 5}, {21, 21, 7, 1}, 2, 2};
  b.a = (call){emu_tensor(b.e, &x), emu_tensor(b.e, &y), emu_tensor(b.e, &z),
               emu_tensor(b.e, &u), emu_tensor(b.e, &v), emu_tensor(b.e, &h)};
  assert_true(b.a.x && b.a.y && b.a.z && b.a.u && b.a.v && b.a.h);
  for (int i = 0; i < 24; i++)
    b.a.x[i / 12 * 16 + i % 12] = (float)i;
  for (uint32_t i = 0; i < BENCH_WORDS; i++)
    b.a.u[i] = i;
  emu_filled(b.e, b.a.x);
  emu_filled(b.e, b.a.u);
  return b;
}

BENCH emu_report bench_run(bench *b, const char *kernel, const char *steps, const emu_options *options)
{
  static emu_report report;
  char text[8192];
  fat_error err = {0};
  emu_module *m;
  fat_recipe recipe;
  fat_sizes sizes = {.b = 1, .h = 1, .hk = 1, .q = 1, .k = 1, .sms = 1};
  snprintf(text, sizeof text, "%s%s", bench_head, kernel);
  if (emu_module_load(text, &m, &err) != FAT_OK)
    fail_msg("%s", err.text);
  if (fat_recipe_parse(steps, &recipe, &err) != FAT_OK)
    fail_msg("%s", err.text);
  if (emu_run(b->e, m, &recipe, &sizes, &b->a, sizeof b->a, options, &report, &err) != FAT_OK)
    fail_msg("%s", err.text);
  emu_module_free(m);
  return report;
}

#define KERNEL(line)                                                                                         \
  "extern \"C\" __global__ void __launch_bounds__(64) k(const call a, float *w) {" line "\n"
#define S64 "float *const s = (float *)shared_memory();"
/* The address of shared memory's first byte. */
#define AT "const u32 at = shared_address(shared_memory());"
/* Four matrices lie behind one another, row r of matrix i at 16 (8 i + r), element (r, c) being 8 r + c. */
#define MATRICES                                                                                             \
  KERNEL(AT)                                                                                                 \
  "const i32 l = thread_id();\nquad q;\n"                                                                    \
  "for (i32 i = 0; i < 4; i++) q.at[i] = (8 * l + 2 * i) | (8 * l + 2 * i + 1) << 16;\n"                     \
  "put16(at + 16 * l, q);\nwarp_sync();\n"
BENCH const char one_block[] = "workspace 256\nlaunch k grid 1 block 64 shared 256 args call ws(0)\n";
BENCH const char one_warp[] = "workspace 256\nlaunch k grid 1 block 32 shared 512 args call ws(0)\n";
BENCH const char four_blocks[] = "workspace 256\nlaunch k grid 4 block 64 shared 256 args call ws(0)\n";

typedef struct defect {
  const char *kernel, *steps;
  emu_kind kind;
  const char *file;
  int line;
  const char *words; /* in the finding's text */
} defect;

/* The defect's own finding is there, on its line (of two accesses that race either may come first); its words
 * are wanted where `exact` says so. */
BENCH bool bench_finds(const defect *d, const emu_report *r, bool exact)
{
  for (int f = 0; f < r->findings; f++) {
    const emu_finding *found = &r->finding[f];
    if (found->kind == d->kind &&
        ((found->line == d->line && !strcmp(found->file, d->file)) ||
         (d->kind == EMU_RACE && found->other_line == d->line)) &&
        (!exact || strstr(found->text, d->words)))
      return true;
  }
  return false;
}

#endif
