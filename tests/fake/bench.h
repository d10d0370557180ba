/* bench.h -- what the tests of the fake driver begin with: a table of its calls, a context, a module. */
#ifndef FAKE_BENCH_H
#define FAKE_BENCH_H

#include "open.h"

#ifndef FAKE_DRIVER /* which variant the test is of */
#define FAKE_DRIVER FAKES "/fake_cuda.so"
#endif

/* All zero before the first use in a test. */
typedef struct fake_bench {
  fake_table cu;
  void *context, *module, *function; /* function: "copy_0123456789abcdef" */
} fake_bench;

/* A kernel that takes two pointers and a number. */
static const fake_kernel fake_copy_kernel = {.name = "copy_0123456789abcdef",
                                             .registers = 40,
                                             .shared = 1024,
                                             .threads = 256,
                                             .params = 3,
                                             .size = {8, 8, 4}};

static inline void fake_must(int result, const char *what)
{
  if (result) {
    fprintf(stderr, "%s gives %d\n", what, result);
    abort();
  }
}

/* Everything as if nothing had been; no context. */
static inline void fake_bench_clean(fake_bench *b, const char *devices)
{
  static const char *const names[] = {"FAKE_CUDA_FAULT",   "FAKE_CUDA_FAIL",    "FAKE_CUDA_TIMES",
                                      "FAKE_CUDA_NOISE",   "FAKE_CUDA_STATE",   "FAKE_CUDA_LOG",
                                      "FAKE_CUDA_MEMORY",  "FAKE_CUDA_USED",    "FAKE_CUDA_MODE",
                                      "FAKE_CUDA_EMULATE", "FAKE_CUDA_SOURCES", "FAKE_CUDA_DB",
                                      "FAKE_CUDA_DAMAGE",  "FAKE_CUDA_VERSION", "CUDA_VISIBLE_DEVICES"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    unsetenv(names[i]);
  setenv("FAKE_CUDA_DEVICES", devices, 1);
  fake_open(FAKE_DRIVER, &b->cu);
  b->cu.fake_reset();
  b->context = b->module = b->function = NULL;
}

/* Loads cubins of `sm` into the primary context of device 0. */
static inline void fake_bench_begin(fake_bench *b, int sm)
{
  int device;
  size_t size;
  fake_must(b->cu.cuInit(0), "cuInit");
  fake_must(b->cu.cuDeviceGet(&device, 0), "cuDeviceGet");
  fake_must(b->cu.cuDevicePrimaryCtxRetain(&b->context, device), "cuDevicePrimaryCtxRetain");
  fake_must(b->cu.cuCtxSetCurrent(b->context), "cuCtxSetCurrent");
  void *image = b->cu.fake_cubin(sm, 1, &fake_copy_kernel, &size);
  fake_must(b->cu.cuModuleLoadData(&b->module, image), "cuModuleLoadData");
  free(image);
  fake_must(b->cu.cuModuleGetFunction(&b->function, b->module, fake_copy_kernel.name), "cuModuleGetFunction");
}

static inline int fake_bench_launch(fake_bench *b, fat_cuda_address to, void *stream)
{
  fat_cuda_address from = to;
  int number = 7;
  void *arguments[] = {&to, &from, &number};
  return b->cu.cuLaunchKernel(b->function, 4, 1, 1, 128, 1, 1, 0, stream, arguments, NULL);
}

#endif
