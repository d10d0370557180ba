/* maps.c -- tensor maps of the driver of this machine: does it take and refuse what the fake driver does, and
 * how long does it need?
 *
 * One line for each question that is answered otherwise; those of which cuda.h says nothing are only told.
 * Exit 1 where what is documented or needed differs, 77 where there is no GPU. */
#include "driver.h"
#include "emu/maps.h"
#include "map.h"
#include <stdio.h>
#include <time.h>

typedef struct question {
  const char *what;
  bool told; /* only */
  int type;
  uint32_t rank;
  uintptr_t off;
  uint64_t size[5], stride[4];
  uint32_t box[5], step[5];
  int interleave, swizzle, promotion, fill;
} question;

/* A tensor of f16, (d, rows, heads, batch), as a kernel takes it; what a question says replaces it. */
#define USUAL                                                                                                \
  .type = FAT_CUDA_MAP_F16, .rank = 4, .size = {64, 65, 4, 2}, .stride = {128, 8320, 33280},                 \
  .box = {64, 96, 1, 1}, .step = {1, 1, 1, 1}, .swizzle = FAT_CUDA_MAP_SWIZZLE_128,                          \
  .promotion = FAT_CUDA_MAP_L2_256

#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#endif
static const question questions[] = {
    {.what = "usual", USUAL},
    {.what = "bf16", USUAL, .type = FAT_CUDA_MAP_BF16},
    {.what = "f32", USUAL, .type = FAT_CUDA_MAP_F32, .box = {32, 96, 1, 1}, .stride = {256, 16640, 66560}},
    {.what = "d 40, below a box", USUAL, .size = {40, 65, 4, 2}, .stride = {80, 5200, 20800}},
    {.what = "d 8", USUAL, .size = {8, 65, 4, 2}, .stride = {16, 1040, 4160}},
    {.what = "d 256", USUAL, .size = {256, 65, 4, 2}, .stride = {512, 33280, 133120}},
    {.what = "rows further apart than heads", USUAL, .stride = {512, 128, 33280}},
    {.what = "batches nearest", USUAL, .stride = {1024, 256, 128}},
    {.what = "one batch, one head, one row", USUAL, .size = {64, 1, 1, 1}, .stride = {128, 128, 128}},
    {.what = "a box of more rows than there are", USUAL, .size = {64, 1, 4, 2}, .box = {64, 256, 1, 1}},
    {.what = "heads that overlap: stride 16", USUAL, .stride = {128, 16, 33280}},
    {.what = "heads that are one: stride 0", USUAL, .stride = {128, 0, 33280}},
    {.what = "all strides 0", USUAL, .stride = {0, 0, 0}},
    {.what = "the longest stride", USUAL, .stride = {128, 8320, (UINT64_C(1) << 40) - 16}},
    {.what = "2^32 rows", USUAL, .size = {64, UINT64_C(1) << 32, 4, 2}},
    {.what = "a box of 256 rows", USUAL, .box = {64, 256, 1, 1}},
    {.what = "address at 16 bytes", USUAL, .off = 16},
    {.what = "address at 8 bytes", USUAL, .off = 8},
    {.what = "stride of 2^40", USUAL, .stride = {128, 8320, UINT64_C(1) << 40}},
    {.what = "stride of 136", USUAL, .stride = {136, 8320, 33280}},
    {.what = "negative stride", USUAL, .stride = {(uint64_t)-128, 8320, 33280}},
    {.what = "no rows", USUAL, .size = {64, 0, 4, 2}},
    {.what = "2^32 + 1 rows", USUAL, .size = {64, (UINT64_C(1) << 32) + 1, 4, 2}},
    {.what = "a box of 257 rows", USUAL, .box = {64, 257, 1, 1}},
    {.what = "a box of no rows", USUAL, .box = {64, 0, 1, 1}},
    {.what = "a box of 144 bytes under a swizzle of 128", USUAL, .box = {72, 96, 1, 1}},
    {.what = "a box of 120 bytes", USUAL, .box = {60, 96, 1, 1}},
    {.what = "element stride 0", USUAL, .step = {1, 0, 1, 1}},
    {.what = "element stride 9", USUAL, .step = {1, 9, 1, 1}},
    {.what = "rank 0", USUAL, .rank = 0},
    {.what = "rank 6", USUAL, .rank = 6},
    {.what = "rank 1", USUAL, .rank = 1, .told = true},
    {.what = "unknown interleave", USUAL, .interleave = 3},
    {.what = "unknown promotion", USUAL, .promotion = 4},
    {.what = "unknown fill", USUAL, .fill = 2},
    {.what = "unknown swizzle", USUAL, .swizzle = 7, .told = true},
};

static int ask(int (*encode)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                             const uint32_t *, const uint32_t *, int, int, int, int),
               const question *q, uintptr_t base, void *map)
{
  return encode(map, q->type, q->rank, (void *)(base + q->off), q->size, q->stride, q->box, q->step,
                q->interleave, q->swizzle, q->promotion, q->fill);
}

static double microseconds(const fat_cuda_calls *cuda, uintptr_t base, void *map)
{
  enum { CALLS = 100000 };
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int i = 0; i < CALLS; i++)
    ask(cuda->map_tiled, &questions[0], base + 16 * (uintptr_t)(i % 64), map);
  clock_gettime(CLOCK_MONOTONIC, &to);
  return (1e6 * (double)(to.tv_sec - from.tv_sec) + 1e-3 * (double)(to.tv_nsec - from.tv_nsec)) / CALLS;
}

static fat_status open_gpu(fat_driver **driver, fat_cuda_address *memory, fat_error *err)
{
  void *context;
  int device;
  FAT_TRY(fat_driver_open(driver, err));
  const fat_cuda_calls *cuda = fat_driver_table(*driver);
  FAT_TRY(fat_driver_check(*driver, "cuDeviceGet", cuda->device(&device, 0), err));
  FAT_TRY(fat_driver_check(*driver, "cuDevicePrimaryCtxRetain", cuda->primary_retain(&context, device), err));
  FAT_TRY(fat_driver_check(*driver, "cuCtxSetCurrent", cuda->context_set(context), err));
  FAT_TRY(fat_driver_check(*driver, "cuMemAlloc", cuda->memory_alloc(memory, 1 << 20), err));
  return cuda->map_tiled ? FAT_OK
                         : fat_status_fail(err, FAT_E_UNSUPPORTED, "this driver makes no tensor maps");
}

int main(void)
{
  fat_driver *driver;
  fat_error err = {0};
  fat_cuda_address memory;
  int wrong = 0;
  _Alignas(FAT_CUDA_MAP_ALIGN) unsigned char map[2 * FAT_CUDA_MAP_BYTES];
  if (open_gpu(&driver, &memory, &err) != FAT_OK) {
    printf("skipped: %s\n", err.text);
    return 77;
  }
  const fat_cuda_calls *cuda = fat_driver_table(driver);
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
    const question *q = &questions[i];
    int real = ask(cuda->map_tiled, q, memory, map), fake = ask(emu_map_tiled, q, memory, map);
    if (real != fake)
      printf("%s: %s gives %d, %d was expected\n", q->told ? "told" : "differs", q->what, real, fake);
    wrong += real != fake && !q->told;
  }
  printf("%zu questions, %d answered otherwise; one map takes %.3f us\n",
         sizeof questions / sizeof *questions, wrong, microseconds(cuda, memory, map));
  fat_driver_close(driver);
  return wrong ? 1 : 0;
}
