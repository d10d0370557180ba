/* test_fake.c -- the fake driver: devices, contexts, modules, functions, memory.
 *
 * What the tests of the runtime and the tuner rely on must itself be right, and strict where the real driver
 * is strict. */
#include "fake/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <unistd.h>
#include <sys/wait.h>
#include <cmocka.h>

static fake_bench b;
#define cu (b.cu)

static int clean(void **state)
{
  (void)state;
  fake_bench_clean(&b, "T4,H200");
  return 0;
}

static int begin(void **state)
{
  clean(state);
  fake_bench_begin(&b, 75);
  return 0;
}

static int attribute(int which, int ordinal)
{
  int device, value = -1;
  assert_int_equal(cu.cuDeviceGet(&device, ordinal), 0);
  assert_int_equal(cu.cuDeviceGetAttribute(&value, which, device), 0);
  return value;
}

/* ---- devices ---- */

static void devices_are_scripted(void **state)
{
  (void)state;
  static const struct {
    const char *key;
    int sm, sms, shared, warps;
  } rows[] = {{"T4", 75, 40, 65536, 32},        {"A10", 86, 72, 101376, 48},
              {"A100", 80, 108, 166912, 64},    {"H200", 90, 132, 232448, 64},
              {"H200-MIG", 90, 16, 232448, 64}, {"RTX4090", 89, 128, 101376, 48}};
  int count, device;
  assert_int_equal(cu.cuInit(0), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    setenv("FAKE_CUDA_DEVICES", rows[i].key, 1);
    assert_int_equal(cu.cuDeviceGetCount(&count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(10 * attribute(FAT_CUDA_SM_MAJOR, 0) + attribute(FAT_CUDA_SM_MINOR, 0), rows[i].sm);
    assert_int_equal(attribute(FAT_CUDA_SM_COUNT, 0), rows[i].sms);
    assert_int_equal(attribute(FAT_CUDA_SHARED_BLOCK, 0), rows[i].shared);
    assert_int_equal(attribute(39, 0), 32 * rows[i].warps);
  }
  assert_int_equal(cu.cuDeviceGet(&device, 1), 101);
  assert_int_equal(cu.cuDeviceGetAttribute(&count, 16, 3), 101);
  setenv("FAKE_CUDA_DEVICES", "", 1);
  assert_int_equal(cu.cuInit(0), 100);
}

static void visible_devices_are_picked(void **state)
{
  (void)state;
  int count;
  assert_int_equal(cu.cuInit(0), 0);
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  assert_int_equal(attribute(FAT_CUDA_SM_COUNT, 0), 132);
  assert_int_equal(attribute(FAT_CUDA_SM_COUNT, 1), 40);
  setenv("CUDA_VISIBLE_DEVICES", "1,7,0", 1);
  assert_int_equal(cu.cuDeviceGetCount(&count), 0);
  assert_int_equal(count, 1);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  assert_int_equal(cu.cuDeviceGetCount(&count), 0);
  assert_int_equal(count, 0);
}

/* ---- contexts ---- */

static void contexts_are_per_thread_and_counted(void **state)
{
  (void)state;
  void *one, *again, *other, *current;
  unsigned long long id, later;
  int device;
  assert_int_equal(cu.cuInit(0), 0);
  assert_int_equal(cu.cuCtxSynchronize(), 201);
  assert_int_equal(cu.cuDeviceGet(&device, 0), 0);
  assert_int_equal(cu.cuDevicePrimaryCtxRetain(&one, device), 0);
  assert_int_equal(cu.cuDevicePrimaryCtxRetain(&again, device), 0);
  assert_ptr_equal(one, again);
  assert_int_equal(cu.cuCtxCreate_v2(&other, 0, device), 0);
  assert_int_equal(cu.cuCtxPushCurrent_v2(one), 0);
  assert_int_equal(cu.cuCtxGetCurrent(&current), 0);
  assert_ptr_equal(current, one);
  assert_int_equal(cu.cuCtxPopCurrent_v2(&current), 0);
  assert_int_equal(cu.cuCtxGetCurrent(&current), 0);
  assert_ptr_equal(current, other);
  assert_int_equal(cu.cuCtxDestroy_v2(other), 0);
  assert_int_equal(cu.cuCtxSetCurrent(other), 201);
  assert_int_equal(cu.cuCtxSetCurrent(one), 0);
  assert_int_equal(cu.cuCtxGetId(one, &id), 0);
  assert_int_equal(cu.cuDevicePrimaryCtxRelease_v2(device), 0);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  assert_int_equal(cu.cuDevicePrimaryCtxRelease_v2(device), 0);
  assert_int_equal(cu.cuCtxSynchronize(), 709);
  assert_int_equal(cu.cuDevicePrimaryCtxRelease_v2(device), 201);
  /* The next life has the address of the last one, and another number. */
  assert_int_equal(cu.cuDevicePrimaryCtxRetain(&again, device), 0);
  assert_ptr_equal(again, one);
  assert_int_equal(cu.cuCtxGetId(again, &later), 0);
  assert_true(later != id);
  setenv("FAKE_CUDA_MODE", "2", 1);
  assert_int_equal(cu.cuDevicePrimaryCtxRetain(&again, device), 46);
}

static void handles_of_an_earlier_life_are_refused(void **state)
{
  (void)state;
  int device, value;
  void *stream, *function;
  assert_int_equal(cu.cuDeviceGet(&device, 0), 0);
  assert_int_equal(cu.cuStreamCreate(&stream, 1), 0);
  assert_int_equal(cu.cuDevicePrimaryCtxReset_v2(device), 0);
  assert_int_equal(cu.cuDevicePrimaryCtxRetain(&b.context, device), 0);
  assert_int_equal(cu.cuCtxSetCurrent(b.context), 0);
  assert_int_equal(cu.cuStreamSynchronize(stream), 400);
  assert_int_equal(cu.cuModuleGetFunction(&function, b.module, fake_copy_kernel.name), 400);
  assert_int_equal(cu.cuFuncGetAttribute(&value, 4, b.function), 400);
  assert_int_equal(fake_bench_launch(&b, 0, NULL), 400);
  fake_live live;
  cu.fake_count(&live);
  assert_int_equal(live.modules + live.streams + live.allocations, 0);
}

static void a_forked_child_is_refused(void **state)
{
  (void)state;
  int status;
  pid_t child = fork();
  if (child == 0)
    _exit(cu.cuCtxSynchronize() == 3 && cu.cuInit(0) == 3 ? 0 : 1);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
}

/* ---- modules and functions ---- */

static int load(int sm)
{
  size_t size;
  void *image = cu.fake_cubin(sm, 1, &fake_copy_kernel, &size), *module;
  int result = cu.cuModuleLoadData(&module, image);
  free(image);
  return result;
}

static void cubins_are_for_one_architecture(void **state)
{
  (void)state;
  assert_int_equal(load(75), 0);
  assert_int_equal(load(80), 209);
  assert_int_equal(load(70), 0); /* of the same major number, and not newer */
  char text[64] = "neither ELF nor PTX", ptx[64] = ".version 9.0 // for no architecture";
  void *module;
  assert_int_equal(cu.cuModuleLoadData(&module, text), 200);
  assert_int_equal(cu.cuModuleLoadData(&module, ptx), 218);
  assert_int_equal(cu.cuModuleLoadData(&module, NULL), 1);
}

static void functions_are_found_with_their_needs(void **state)
{
  (void)state;
  static const int expected[][2] = {{0, 256}, {1, 1024}, {4, 40}, {8, 48 * 1024 - 1024}};
  void *function;
  int value;
  size_t offset, size;
  assert_int_equal(cu.cuModuleGetFunction(&function, b.module, "other"), 500);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    assert_int_equal(cu.cuFuncGetAttribute(&value, expected[i][0], b.function), 0);
    assert_int_equal(value, expected[i][1]);
  }
  assert_int_equal(cu.cuFuncGetParamInfo(b.function, 2, &offset, &size), 0);
  assert_int_equal(offset, 16);
  assert_int_equal(size, 4);
  assert_int_equal(cu.cuFuncSetAttribute(b.function, 8, 65536), 1); /* and 1024 static: more than a T4 has */
  assert_int_equal(cu.cuFuncSetAttribute(b.function, 8, 65536 - 1024), 0);
  assert_int_equal(cu.cuFuncSetAttribute(b.function, 4, 32), 1);
  assert_int_equal(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, b.function, 256, 0), 0);
  assert_int_equal(value, 4); /* 1024 threads an SM */
  assert_int_equal(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, b.function, 32, 31 * 1024), 0);
  assert_int_equal(value, 2);
  assert_int_equal(cu.cuModuleUnload(b.module), 0);
  assert_int_equal(cu.cuModuleUnload(b.module), 400);
  assert_int_equal(cu.cuFuncGetAttribute(&value, 0, b.function), 400);
}

static void launches_are_checked(void **state)
{
  (void)state;
  fat_cuda_address p = 0;
  int number = 0;
  void *arguments[] = {&p, &p, &number};
#define LAUNCH(grid, block, shared, args)                                                                    \
  cu.cuLaunchKernel(b.function, grid, 1, 1, block, 1, 1, shared, NULL, args, NULL)
  assert_int_equal(LAUNCH(1, 256, 0, arguments), 0);
  assert_int_equal(LAUNCH(0, 256, 0, arguments), 1);
  assert_int_equal(LAUNCH(1, 0, 0, arguments), 1);
  assert_int_equal(LAUNCH(1, 2048, 0, arguments), 1);
  assert_int_equal(LAUNCH(1, 257, 0, arguments), 701); /* its launch bound is 256 */
  assert_int_equal(LAUNCH(1, 256, 48 * 1024, arguments), 1);
  assert_int_equal(LAUNCH(1, 256, 0, NULL), 1);
  assert_int_equal(cu.cuLaunchKernel(b.function, 1, 65536, 1, 1, 1, 1, 0, NULL, arguments, NULL), 1);
  assert_int_equal(cu.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), 400);
  unsigned char packed[20] = {0};
  size_t size = sizeof packed;
  void *extra[] = {(void *)1, packed, (void *)2, &size, NULL};
  assert_int_equal(cu.cuLaunchKernel(b.function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), 0);
  assert_int_equal(cu.fake_launches("copy_*"), 2);
  assert_int_equal(cu.fake_launches("other"), 0);
  assert_int_equal(cu.fake_calls("cuLaunchKernel"), 10);
}

/* ---- memory ---- */

static void memory_is_poisoned_copied_and_filled(void **state)
{
  (void)state;
  enum { N = 1000 };
  fat_cuda_address a, c;
  uint32_t host[N];
  assert_int_equal(cu.cuMemAlloc_v2(&a, sizeof host), 0);
  assert_int_equal(cu.cuMemAlloc_v2(&c, sizeof host), 0);
  assert_int_equal(a % 512, 0);
  assert_int_equal(cu.cuMemcpyDtoH_v2(host, a, sizeof host), 0);
  for (int i = 0; i < N; i++)
    assert_int_equal(host[i], 0x7fed7fed);
  for (int i = 0; i < N; i++)
    host[i] = (uint32_t)i;
  assert_int_equal(cu.cuMemcpyHtoD_v2(a, host, sizeof host), 0);
  assert_int_equal(cu.cuMemcpyDtoDAsync_v2(c, a, sizeof host, NULL), 0);
  assert_int_equal(cu.cuMemsetD8Async(c, 0xff, 4, NULL), 0);
  assert_int_equal(cu.cuMemsetD32_v2(c + 8, 77, 1), 0);
  assert_int_equal(cu.cuMemsetD2D32Async(c + 400, 40, 5, 2, 3, NULL), 0);
  memset(host, 0, sizeof host);
  assert_int_equal(cu.cuMemcpyDtoH_v2(host, c, sizeof host), 0);
  assert_int_equal(host[0], UINT32_MAX);
  assert_int_equal(host[1], 1);
  assert_int_equal(host[2], 77);
  for (int i = 100; i < 130; i++)
    assert_int_equal(host[i], (i - 100) % 10 < 2 ? 5 : i);
  assert_int_equal(cu.cuMemcpyHtoD_v2(a + 4, host, sizeof host), 1); /* one word too far */
  assert_int_equal(cu.cuMemsetD8_v2(a - 1, 0, 1), 1);
  assert_int_equal(cu.cuMemsetD32_v2(a + 2, 0, 1), 1); /* misaligned */
  assert_int_equal(cu.cuMemFree_v2(a + 512), 1);
  assert_int_equal(cu.cuMemFree_v2(a), 0);
  assert_int_equal(cu.cuMemFree_v2(a), 1);
  assert_int_equal(cu.cuMemcpyDtoH_v2(host, a, 4), 1);
  assert_int_equal(cu.cuMemFree_v2(0), 0);
  assert_int_equal(cu.fake_findings(), 0);
}

static void canaries_tell_of_strays(void **state)
{
  (void)state;
  fat_cuda_address a;
  assert_int_equal(cu.cuMemAlloc_v2(&a, 10), 0);
  assert_int_equal(cu.fake_canaries(), 0);
  ((char *)(uintptr_t)a)[12] = 1; /* device memory is host memory, to a test */
  assert_int_equal(cu.fake_canaries(), 1);
  assert_non_null(strstr(cu.fake_finding(0), "behind an allocation of 10 bytes"));
  assert_null(cu.fake_finding(1));
  assert_int_equal(cu.cuMemFree_v2(a), 0);
  assert_int_equal(cu.fake_findings(), 2);
  assert_int_equal(cu.cuMemAlloc_v2(&a, 10), 0);
  ((char *)(uintptr_t)a)[-1] = 1;
  assert_int_equal(cu.fake_canaries(), 1);
  assert_non_null(strstr(cu.fake_finding(2), "before an allocation"));
}

static void memory_runs_out_where_the_card_does(void **state)
{
  (void)state;
  fat_cuda_address a, c;
  size_t left, total;
  assert_int_equal(cu.cuMemAlloc_v2(&a, (size_t)10 << 30), 0); /* of a T4, and of no host */
  assert_int_equal(cu.cuMemAlloc_v2(&c, (size_t)10 << 30), 2);
  assert_int_equal(cu.cuMemGetInfo_v2(&left, &total), 0);
  assert_int_equal(total - left, (size_t)10 << 30);
  assert_int_equal(cu.cuMemFree_v2(a), 0);
  assert_int_equal(cu.cuMemAlloc_v2(&a, (size_t)10 << 30), 0);
  assert_int_equal(cu.cuMemFree_v2(a), 0);
  setenv("FAKE_CUDA_USED", "15655829404", 1); /* by another process: 100 bytes are left */
  assert_int_equal(cu.cuMemAlloc_v2(&a, 101), 2);
  assert_int_equal(cu.cuMemAlloc_v2(&a, 100), 0);
  assert_int_equal(cu.cuMemAlloc_v2(&c, 0), 1);
  setenv("FAKE_CUDA_MEMORY", "15655829500", 1);
  assert_int_equal(cu.cuMemAlloc_v2(&c, 1), 2);
}

/* Many pieces come and go: none overlaps another, addresses are not used again soon. */
static void allocations_do_not_overlap(void **state)
{
  (void)state;
  enum { PIECES = 300, TURNS = 3000 };
  fat_cuda_address piece[PIECES] = {0}, last = 0;
  size_t size[PIECES];
  unsigned random = 1;
  for (int i = 0; i < TURNS; i++) {
    int at = (int)((random = random * 1103515245 + 12345) >> 8) % PIECES;
    if (piece[at]) {
      unsigned char byte = 0;
      assert_int_equal(cu.cuMemcpyDtoH_v2(&byte, piece[at] + size[at] - 1, 1), 0);
      assert_int_equal(byte, at % 251);
      assert_int_equal(cu.cuMemFree_v2(piece[at]), 0);
    }
    size[at] = (random >> 3) % 20000 + 1;
    assert_int_equal(cu.cuMemAlloc_v2(&piece[at], size[at]), 0);
    assert_true(piece[at] > last);
    last = piece[at];
    assert_int_equal(cu.cuMemsetD8_v2(piece[at], (unsigned char)(at % 251), size[at]), 0);
  }
  assert_int_equal(cu.fake_canaries(), 0);
  fake_live live;
  cu.fake_count(&live);
  assert_true(live.allocations > 0 && live.allocations <= PIECES);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(devices_are_scripted, clean),
      cmocka_unit_test_setup(visible_devices_are_picked, clean),
      cmocka_unit_test_setup(contexts_are_per_thread_and_counted, clean),
      cmocka_unit_test_setup(handles_of_an_earlier_life_are_refused, begin),
      cmocka_unit_test_setup(a_forked_child_is_refused, begin),
      cmocka_unit_test_setup(cubins_are_for_one_architecture, begin),
      cmocka_unit_test_setup(functions_are_found_with_their_needs, begin),
      cmocka_unit_test_setup(launches_are_checked, begin),
      cmocka_unit_test_setup(memory_is_poisoned_copied_and_filled, begin),
      cmocka_unit_test_setup(canaries_tell_of_strays, begin),
      cmocka_unit_test_setup(memory_runs_out_where_the_card_does, begin),
      cmocka_unit_test_setup(allocations_do_not_overlap, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
