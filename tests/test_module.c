/* test_module.c -- cubins become functions: hashes, contexts, entries, shared memory. */
#include "module.h"
#include "runtime_fixture.h"

static fat_driver *driver;
static void *cubin;
static size_t size;
static char hash[FAT_HASH_SIZE];

static int begin_driver(void **state)
{
  begin(state);
  MUST(fat_driver_open(&driver, err));
  const fake_kernel kernels[] = {
      {.name = "first_0123456789abcdef", .registers = 40, .params = 1, .size = {8}},
      {.name = "second_0123456789abcdef", .registers = 40, .shared = 1024}};
  cubin = cu.fake_cubin(90, 2, kernels, &size);
  fat_text_hash(cubin, size, hash);
  return 0;
}

static int end_driver(void **state)
{
  (void)state;
  free(cubin);
  fat_driver_close(driver);
  return 0;
}

/* Each byte counts: the driver never sees a cubin that is not the one that was stored. */
static void damage_never_reaches_the_driver(void **state)
{
  (void)state;
  fat_module *m = NULL;
  fat_error err = {0};
  long loads = cu.fake_calls("cuModuleLoadData");
  for (size_t i = 0; i < size; i += 1 + size / 50) {
    ((unsigned char *)cubin)[i] ^= 1;
    assert_int_equal(fat_module_load(driver, cubin, size, hash, &m, &err), FAT_E_CORRUPT);
    assert_null(m);
    ((unsigned char *)cubin)[i] ^= 1;
  }
  assert_int_equal(fat_module_load(driver, cubin, size - 1, hash, &m, &err), FAT_E_CORRUPT);
  assert_non_null(strstr(err.text, "is damaged"));
  assert_int_equal(cu.fake_calls("cuModuleLoadData"), loads);
  MUST(fat_module_load(driver, cubin, size, hash, &m, err));
  fat_module_free(m);
  fat_module_free(NULL);
}

static void entries(void **state)
{
  (void)state;
  fat_module *m;
  fat_error err = {0};
  void *first, *again, *second;
  int value;
  MUST(fat_module_load(driver, cubin, size, hash, &m, err));
  MUST(fat_module_entry(m, "first_0123456789abcdef", 0, &first, err));
  MUST(fat_module_entry(m, "second_0123456789abcdef", 60000, &second, err));
  assert_ptr_not_equal(first, second);
  assert_int_equal(cu.cuFuncGetAttribute(&value, FAT_CUDA_FUNCTION_DYNAMIC_SHARED, second), 0);
  assert_int_equal(value, 60000);
  /* Leave is only ever widened: a plan that needs less takes none from one that needs more. */
  MUST(fat_module_entry(m, "second_0123456789abcdef", 1000, &again, err));
  assert_ptr_equal(again, second);
  assert_int_equal(cu.cuFuncGetAttribute(&value, FAT_CUDA_FUNCTION_DYNAMIC_SHARED, second), 0);
  assert_int_equal(value, 60000);
  assert_int_equal(fat_module_entry(m, "second_0123456789abcdef", 232448, &again, &err), FAT_E_LAUNCH);
  assert_non_null(strstr(err.text, "needs 232448 bytes of shared memory"));
  assert_int_equal(fat_module_entry(m, "third", 0, &again, &err), FAT_E_IMAGE);
  fat_module_free(m);
}

/* Loaded by force: also where the driver is too old to have a call for it. */
static void lazy_loading_is_forced(void **state)
{
  (void)state;
  fat_module *m;
  void *first;
  long loads = cu.fake_calls("cuFuncLoad"), sets = cu.fake_calls("cuFuncSetAttribute");
  MUST(fat_module_load(driver, cubin, size, hash, &m, err));
  MUST(fat_module_entry(m, "first_0123456789abcdef", 0, &first, err));
  assert_int_equal(cu.fake_calls("cuFuncLoad"), loads + 1);
  assert_int_equal(cu.fake_calls("cuFuncSetAttribute"), sets + 1);
  fat_module_free(m);
}

/* The same bytes are loaded once for each context, and a context that is gone is no cause of a crash. */
static void one_module_for_each_context(void **state)
{
  (void)state;
  fat_modules all = {0};
  fat_module *here, *again, *there;
  fake_live before, after;
  void *own = NULL;
  int device;
  fat_error err = {0};
  cu.fake_count(&before);
  MUST(fat_modules_get(&all, driver, cubin, hash, &here, err));
  MUST(fat_modules_get(&all, driver, cubin, hash, &again, err));
  assert_ptr_equal(here, again);
  assert_int_equal(cu.cuDeviceGet(&device, 0), 0);
  assert_int_equal(cu.cuCtxCreate_v2(&own, 0, device), 0);
  MUST(fat_modules_get(&all, driver, cubin, hash, &there, err));
  assert_ptr_not_equal(here, there);
  cu.fake_count(&after);
  assert_int_equal(after.modules, before.modules + 2);
  assert_int_equal(cu.cuCtxDestroy_v2(own), 0); /* takes its module along */
  assert_int_equal(cu.cuCtxSetCurrent(bench.context), 0);
  long unloads = cu.fake_calls("cuModuleUnload");
  fat_modules_free(&all);
  assert_int_equal(cu.fake_calls("cuModuleUnload"), unloads + 1);
  cu.fake_count(&after);
  assert_int_equal(after.modules, before.modules);
  /* No context at all. */
  while (cu.cuCtxGetCurrent(&own) == 0 && own)
    cu.cuCtxSetCurrent(NULL);
  assert_int_equal(fat_modules_get(&all, driver, cubin, hash, &here, &err), FAT_E_NO_CONTEXT);
  assert_int_equal(fat_module_load(driver, cubin, size, hash, &here, &err), FAT_E_NO_CONTEXT);
  fat_modules_free(&all);
}

static void many_modules(void **state)
{
  (void)state;
  fat_modules all = {0};
  fat_module *m[20], *again;
  for (int i = 0; i < 20; i++) {
    char name[40], its[FAT_HASH_SIZE];
    size_t bytes;
    snprintf(name, sizeof name, "k%d_0123456789abcdef", i);
    void *image = cu.fake_cubin(90, 1, &(fake_kernel){.name = name, .registers = 32}, &bytes);
    fat_text_hash(image, bytes, its);
    MUST(fat_modules_get(&all, driver, image, its, &m[i], err));
    MUST(fat_modules_get(&all, driver, image, its, &again, err));
    assert_ptr_equal(m[i], again);
    free(image);
  }
  assert_int_equal(all.count, 20);
  fat_modules_free(&all);
}

int main(void)
{
#define WITH_DRIVER(test) cmocka_unit_test_setup_teardown(test, begin_driver, end_driver)
  const struct CMUnitTest tests[] = {
      WITH_DRIVER(damage_never_reaches_the_driver),
      WITH_DRIVER(entries),
      WITH_DRIVER(lazy_loading_is_forced),
      WITH_DRIVER(one_module_for_each_context),
      WITH_DRIVER(many_modules),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
