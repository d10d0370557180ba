/* hopper_bench.h -- small kernels on what Hopper added: what test_emu_hopper and test_emu_hopper_misses
 * share.
 *
 * The bench is that of emu_bench.h, with the halves of its u and v as tensors of f16 behind tensor maps. */
#ifndef HOPPER_BENCH_H
#define HOPPER_BENCH_H

#include "emu_bench.h"
#include "cuda_abi.h"
#include "maps.h"

/* The map of 2 batches, 3 heads, 40 rows and 72 columns of u's 16-bit halves, and of as many in v; boxes have
 * 64 columns and 16 rows. Rows are 80 columns apart, heads 41 rows. */
enum { ROWS = 40, COLUMNS = 72, HEADS = 3, BATCHES = 2, ROW = 80, BOX_ROWS = 16 };
typedef struct maps {
  _Alignas(64) unsigned char from[FAT_CUDA_MAP_BYTES], to[FAT_CUDA_MAP_BYTES];
  call a;
} maps;

BENCH void map_of(void *map, void *data)
{
  const uint64_t size[] = {COLUMNS, ROWS, HEADS, BATCHES};
  const uint64_t stride[] = {ROW * 2, ROW * 2 * 41, ROW * 2 * 41 * HEADS};
  const uint32_t box[] = {64, BOX_ROWS, 1, 1}, step[] = {1, 1, 1, 1};
  enum { F16 = 6, SWIZZLE_128 = 3 };
  assert_int_equal(emu_map_tiled(map, F16, 4, data, size, stride, box, step, 0, SWIZZLE_128, 0, 0), 0);
}

/* A number from -3 to 3. */
BENCH uint16_t f16_of_small(int x)
{
  static const uint16_t bits[] = {0xc200, 0xc000, 0xbc00, 0x0000, 0x3c00, 0x4000, 0x4200};
  return bits[x + 3];
}

BENCH int small(uint64_t i)
{
  return (int)((i * 5 + i / 11) % 7) - 3;
}

/* So many blocks, which are one cluster. */
BENCH emu_report run_blocks(bench *b, const char *kernel, int blocks, int threads, int shared,
                            const emu_options *options)
{
  static emu_report report;
  char text[8192];
  fat_error err = {0};
  emu_module *m;
  maps arguments = {.a = b->a};
  static const int offset[] = {offsetof(maps, a), offsetof(maps, from), offsetof(maps, to)};
  map_of(arguments.from, b->a.u);
  map_of(arguments.to, b->a.v);
  for (uint64_t i = 0; i < 2 * (uint64_t)BENCH_WORDS; i++)
    ((uint16_t *)b->a.u)[i] = f16_of_small(small(i));
  const emu_call call = {.entry = "k",
                         .grid = blocks,
                         .cluster = blocks > 1 ? blocks : 0,
                         .block = threads,
                         .shared = shared,
                         .args = 3,
                         .memory = &arguments,
                         .bytes = sizeof arguments,
                         .offset = offset};
  snprintf(text, sizeof text, "%s%s", bench_head, kernel);
  if (emu_module_load(text, &m, &err) != FAT_OK ||
      emu_launch(b->e, m, &call, options, &report, &err) != FAT_OK)
    fail_msg("%s", err.text);
  emu_module_free(m);
  return report;
}

BENCH emu_report run(bench *b, const char *kernel, int threads, int shared, const emu_options *options)
{
  return run_blocks(b, kernel, 1, threads, shared, options);
}

#undef KERNEL
#define KERNEL(body)                                                                                         \
  "extern \"C\" __global__ void __launch_bounds__(512) k(const call a, const __grid_constant__ tensor_map "  \
  "from, const __grid_constant__ tensor_map to) { const u32 at = shared_address(shared_memory()), bar = at " \
  "+ 32768; const i32 t = thread_id();\n" body "}\n"
/* Two barriers: bar for one arrival, bar + 8 for four. */
#define INIT                                                                                                 \
  "if (t == 0) { barrier_init(bar, 1); barrier_init(bar + 8, 4);\nbarrier_init_fence();\n}\nblock_sync();\n" /* 2-5 */
#define WAIT(barrier, parity) "while (!barrier_passed(" barrier ", " parity ")) {}\n"

enum { SHARED = 32768 + 256, LANDINGS = 3, ORDERS = 3 };

BENCH const emu_landing landings[LANDINGS] = {EMU_LAND_LATE, EMU_LAND_EARLY, EMU_LAND_RANDOM};

BENCH emu_options options_of(int run, uint64_t seed)
{
  return (emu_options){.order = (emu_order)(run / LANDINGS),
                       .landing = landings[run % LANDINGS],
                       .seed = seed + 7 * (uint64_t)run};
}

/* A ring of two boxes: one thread copies, a warpgroup reads and says when it has. Eight boxes, sums by
 * thread. */
#define PRODUCER(expect, wait_free)                                                                          \
  "if (t < 128) {\nif (t == 0) for (i32 n = 0; n < 8; n++) {\n" wait_free "\n" expect "\n"                   \
  "copy_box(at + n % 2 * 2048, from, 0, n * 4, n % 3, n % 2, bar + 16 * (n % 2));\n}\n} else {\n" /* 6-12 */
#define CONSUMER(wait_full, sync, release)                                                                   \
  "u32 sum = 0;\nfor (i32 n = 0; n < 8; n++) {\n" wait_full "\n"                                             \
  "sum += get4(at + n % 2 * 2048 + 4 * (t - 128));\n" sync "\n" release "\n}\na.v[t] = sum;\n}\n"
#define RING_INIT                                                                                            \
  "if (t == 0) for (i32 i = 0; i < 2; i++) { barrier_init(bar + 16 * i, 1);\nbarrier_init(bar + 16 * i + "   \
  "8, 4);\n"                                                                                                 \
  "barrier_init_fence();\n}\nblock_sync();\n"
#define FREE    "while (!barrier_passed(bar + 16 * (n % 2) + 8, n / 2 % 2 ^ 1)) {}"
#define FULL    "while (!barrier_passed(bar + 16 * (n % 2), n / 2 % 2)) {}"
#define EXPECT  "barrier_expect(bar + 16 * (n % 2), 2048);"
#define RELEASE "if (t % 32 == 0) barrier_arrive(bar + 16 * (n % 2) + 8);"
#define RING(init, expect, wait_free, wait_full, sync, release)                                              \
  KERNEL(init PRODUCER(expect, wait_free) CONSUMER(wait_full, sync, release))

/* A box at the tensor's far corner, read and stored again at the same place: what lies outside is zero in
 * shared memory and is not written. */
#define CORNER "64, 32, 2, 1"
#define THERE_AND_BACK(fence, sync, commit, wait)                                                            \
  KERNEL(INIT "if (t == 0) { barrier_expect(bar, 2048); copy_box(at, from, " CORNER ", bar); }\n"            \
              "while (!barrier_passed(bar, 0)) {}\n"                                                         \
              "const u32 x = get4(at + 4 * t);\nput4(at + 2048 + 4 * t, x);\na.y[t] = x ? 1 : 0;\n" fence    \
              "\n" sync "\nif (t == 0) { store_box(to, " CORNER ", at + 2048);\n" commit "\n" wait "\n}\n")

/* Two boxes of 16 rows and 64 columns each are A's first rows; to have 64 rows, four boxes. */
#define DESCRIPTOR                                                                                           \
  "struct sums { float at[2][16]; };\n"                                                                      \
  "__device__ __forceinline__ unsigned long long desc(u32 x, u32 leading, u32 stride) { return ((x & "       \
  "0x3ffff) >> 4) | "                                                                                        \
  "(unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 | 1ull << 62; }\n"     \
  "#line 1 \"templates/t.cu\"\n"
#define LOAD                                                                                                 \
  INIT "if (t == 0) { barrier_expect(bar, 8192); for (i32 i = 0; i < 4; i++) copy_box(at + 2048 * i, from, " \
       "0, 10 * i, "                                                                                         \
       "i % 3, i % 2, bar); }\n"                                                                             \
       "while (!barrier_passed(bar, 0)) {}\n"                                                                \
       "sums C; for (i32 i = 0; i < 32; i++) C.at[i / 16][i % 16] = i;\n" /* 6-8 */
#define STORE "for (i32 i = 0; i < 32; i++) a.v[32 * t + i] = __float_as_uint(C.at[i / 16][i % 16]);\n"
/* B: the first 64 rows as well; n rows of it for A B^T; 16 rows and columns from 0 on for A B. */
#define S_OF(fence, commit, wait)                                                                            \
  DESCRIPTOR KERNEL(                                                                                         \
      LOAD fence                                                                                             \
      "\n"                                                                                                   \
      "wgmma<0>(C.at, desc(at, 16, 1024), desc(at, 16, 1024), 1); wgmma<0>(C.at, desc(at + 32, 16, "         \
      "1024), desc(at + 32, 16, 1024), 1);\n" commit "\n" wait "\n" STORE)

/* A kernel of which something is left out or spoiled, and what is found. */
typedef struct miss {
  const char *kernel;
  int threads;
  emu_kind kind;
  int line; /* 0: any */
  const char *words;
} miss;

/* In order it is the finding that is wanted; under other orders another may come first and end the run. */
BENCH bool is_found(const miss *m, const emu_report *r, bool exact)
{
  for (int f = 0; f < r->findings; f++)
    if (!exact || (r->finding[f].kind == m->kind && (!m->line || r->finding[f].line == m->line) &&
                   strstr(r->finding[f].text, m->words)))
      return true;
  return false;
}

BENCH void are_missed(const miss *all, size_t count, int blocks)
{
  for (const miss *m = all; m < all + count; m++)
    for (int i = 0; i < ORDERS * LANDINGS; i++) {
      emu_options options = options_of(i, 1);
      bench b = bench_open();
      emu_report r = run_blocks(&b, m->kernel, blocks, m->threads, SHARED, &options);
      emu_close(b.e);
      if (!is_found(m, &r, i == 0))
        fail_msg("miss %d, run %d: want %s at line %d with '%s', got %d findings, first: %s", (int)(m - all),
                 i, emu_kind_name(m->kind), m->line, m->words, r.findings,
                 r.findings ? r.finding[0].text : "-");
    }
}

#endif
