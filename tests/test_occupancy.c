/* test_occupancy.c -- blocks per SM: cases known by hand, and NVIDIA's own arithmetic where its header is. */
#include "search/occupancy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#ifdef CUDA_OCCUPANCY
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wextra"
#include CUDA_OCCUPANCY
#endif

static int blocks(int sm, int threads, int registers, int shared, const char **binding)
{
  fat_footprint f = {threads, registers, shared};
  return fat_occupancy_blocks(fat_gpu_arch(sm), &f, binding);
}

static void known_cases(void **state)
{
  const char *binding;
  (void)state;
  /* T4: 32 warps, 65536 registers, 64 KB. 128 registers of 256 threads: half of the registers. */
  assert_int_equal(blocks(75, 256, 128, 0, &binding), 2);
  assert_string_equal(binding, "registers");
  /* 129 registers of a warp are rounded up to 17 * 256, so 7 warps more do not fit: 3 * 4 = 12 warps a part.
   */
  assert_int_equal(blocks(75, 128, 129, 0, NULL), 3);
  assert_int_equal(blocks(75, 256, 32, 32 * 1024, &binding), 2);
  assert_string_equal(binding, "shared memory");
  assert_int_equal(blocks(75, 256, 32, 32 * 1024 + 1, NULL), 1);
  assert_int_equal(blocks(75, 1024, 32, 0, &binding), 1);
  assert_string_equal(binding, "threads");
  assert_int_equal(blocks(75, 32, 16, 0, &binding), 16);
  assert_string_equal(binding, "blocks");
  /* A100: each block loses 1 KB to the driver: 164 KB hold two of 81 KB, not two of 82. */
  assert_int_equal(blocks(80, 128, 32, 81 * 1024, NULL), 2);
  assert_int_equal(blocks(80, 128, 32, 82 * 1024, NULL), 1);
}

static void what_fits_nowhere(void **state)
{
  const char *binding = NULL;
  (void)state;
  assert_int_equal(blocks(75, 0, 32, 0, &binding), 0);
  assert_int_equal(blocks(75, 1056, 32, 0, &binding), 0);
  assert_string_equal(binding, "threads");
  assert_int_equal(blocks(75, 128, 256, 0, &binding), 0);
  assert_string_equal(binding, "registers");
  assert_int_equal(blocks(75, 512, 255, 0, &binding), 0);
  assert_string_equal(binding, "registers");
  assert_int_equal(blocks(75, 128, 32, 64 * 1024 + 1, &binding), 0);
  assert_string_equal(binding, "shared memory");
  assert_int_equal(blocks(75, 128, 32, -1, &binding), 0);
}

static void as_nvidia_counts(void **state)
{
  (void)state;
#ifdef CUDA_OCCUPANCY
  static const int sms[] = {75, 80, 86, 87, 89, 90, 100, 103, 120, 121};
  int compared = 0;
  for (size_t s = 0; s < sizeof sms / sizeof sms[0]; s++) {
    const fat_arch *a = fat_gpu_arch(sms[s]);
    cudaOccDeviceProp device = {.computeMajor = a->sm / 10,
                                .computeMinor = a->sm % 10,
                                .maxThreadsPerBlock = 1024,
                                .maxThreadsPerMultiprocessor = a->threads_sm,
                                .regsPerBlock = 65536,
                                .regsPerMultiprocessor = a->regs_sm,
                                .warpSize = 32,
                                .sharedMemPerBlock = 48 * 1024,
                                .sharedMemPerMultiprocessor = (size_t)a->shared_sm,
                                .numSms = 1,
                                .sharedMemPerBlockOptin = (size_t)a->shared_block,
                                .reservedSharedMemPerBlock = (size_t)a->shared_reserved};
    cudaOccDeviceState preference = {CACHE_PREFER_NONE, SHAREDMEM_CARVEOUT_MAX_SHARED};
    for (int threads = 32; threads <= 1024; threads += 32)
      for (int registers = 16; registers <= 255; registers += 7)
        for (int shared = 0; shared <= a->shared_block - 2048; shared += 3333) {
          cudaOccFuncAttributes f = {.maxThreadsPerBlock = 1024,
                                     .numRegs = registers,
                                     .partitionedGCConfig = PARTITIONED_GC_OFF,
                                     .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
                                     .maxDynamicSharedSizeBytes = (size_t)shared,
                                     .numBlockBarriers = 1};
          cudaOccResult result;
          assert_int_equal(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &f, &preference, threads,
                                                                   (size_t)shared),
                           CUDA_OCC_SUCCESS);
          int ours = blocks(a->sm, threads, registers, shared, NULL);
          if (ours != result.activeBlocksPerMultiprocessor)
            fail_msg("sm_%d, %d threads, %d registers, %d bytes: %d, NVIDIA says %d", a->sm, threads,
                     registers, shared, ours, result.activeBlocksPerMultiprocessor);
          compared++;
        }
  }
  print_message("%d footprints compared with cuda_occupancy.h\n", compared);
#else
  print_message("cuda_occupancy.h is not installed: nothing to compare with\n");
  skip();
#endif
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_cases),
      cmocka_unit_test(what_fits_nowhere),
      cmocka_unit_test(as_nvidia_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
