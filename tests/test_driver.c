/* test_driver.c -- the driver and the devices at hand, with a libcuda of our own. */
#include "device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char fake[] = FAKES "/fake_cuda.so";

static int clean(void **state)
{
  (void)state;
  setenv("FATUNE_LIBCUDA", fake, 1);
  unsetenv("FAKE_CUDA_DEVICES");
  unsetenv("FAKE_CUDA_VERSION");
  unsetenv("FAKE_CUDA_FAIL");
  return 0;
}

static void lists_devices(void **state)
{
  (void)state;
  fat_driver *driver;
  fat_device d[4];
  int count;
  setenv("FAKE_CUDA_DEVICES", "T4,RTX4090,H200,A100", 1);
  assert_int_equal(fat_driver_open(&driver, NULL), FAT_OK);
  assert_int_equal(fat_driver_cuda(driver), 13);
  assert_string_equal(fat_driver_cuda_text(driver), "13.0");
  assert_int_equal(fat_device_list(driver, d, 4, &count, NULL), FAT_OK);
  assert_int_equal(count, 4);
  assert_string_equal(d[0].gpu.name, "T4");
  assert_string_equal(d[1].gpu.name, "RTX 4090");
  assert_string_equal(d[2].gpu.name, "H200");
  assert_int_equal(d[3].ordinal, 3);
  char facts[FAT_GPU_FACTS];
  assert_string_equal(fat_gpu_facts(&d[0].gpu, facts), "sm75-40SM-65536S-4194304L2-256b-1590+5001MHz");
  assert_int_equal(d[2].gpu.sm, 90);
  assert_int_equal(d[2].gpu.shared_sm, 233472);
  assert_int_equal(d[2].gpu.memory_clock, 3201);
  assert_true(d[0].gpu.dram > 319 && d[0].gpu.dram < 321); /* GB/s, as in its data sheet */
  assert_true(d[0].gpu.memory > 14 && d[0].gpu.memory < 16);
  assert_int_equal(fat_device_list(driver, d, 2, &count, NULL), FAT_OK);
  assert_int_equal(count, 2);
  fat_driver_close(driver);
}

/* What the driver reports is what the table says: a device at hand is the same row as --gpu NAME. */
static void devices_match_their_rows(void **state)
{
  (void)state;
  fat_driver *driver;
  fat_device d[4];
  int count;
  setenv("FAKE_CUDA_DEVICES", "T4,RTX4090,H200,A100", 1);
  assert_int_equal(fat_driver_open(&driver, NULL), FAT_OK);
  assert_int_equal(fat_device_list(driver, d, 4, &count, NULL), FAT_OK);
  for (int i = 0; i < count; i++) {
    const fat_gpu *row = fat_gpu_match(&d[i].gpu);
    assert_non_null(row);
    assert_int_equal(row->sm, d[i].gpu.sm);
    assert_memory_equal(row->name, d[i].gpu.name, 2);
  }
  fat_driver_close(driver);
}

static void refuse(fat_status expected, const char *word)
{
  fat_driver *driver = (fat_driver *)&expected;
  fat_error err = {0};
  assert_int_equal(fat_driver_open(&driver, &err), expected);
  assert_null(driver);
  assert_int_equal(err.status, expected);
  if (!strstr(err.text, word))
    fail_msg("'%s' does not say '%s'", err.text, word);
}

static void says_what_stands_in_the_way(void **state)
{
  (void)state;
  setenv("FATUNE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  refuse(FAT_E_NO_DRIVER, "/nowhere/libcuda.so.1");
  setenv("FATUNE_LIBCUDA", FAKES "/fake_nvrtc_13.so", 1);
  refuse(FAT_E_NO_DRIVER, "cuInit");
  setenv("FATUNE_LIBCUDA", fake, 1);
  setenv("FAKE_CUDA_FAIL", "cuInit=100", 1);
  refuse(FAT_E_NO_DEVICE, "CUDA_VISIBLE_DEVICES");
  setenv("FAKE_CUDA_FAIL", "cuInit=34", 1);
  refuse(FAT_E_NO_DRIVER, "stub");
  setenv("FAKE_CUDA_FAIL", "cuInit=999", 1);
  refuse(FAT_E_NO_DRIVER, "CUDA_ERROR_UNKNOWN (999): unknown error; if `nvidia-smi` fails too");
  setenv("FAKE_CUDA_FAIL", "cuInit=46", 1);
  refuse(FAT_E_NO_DRIVER, "the GPU's compute mode");
  setenv("FAKE_CUDA_FAIL", "cuInit=803", 1);
  refuse(FAT_E_NO_DRIVER, "differ, as after an update: restart the machine");
  setenv("FAKE_CUDA_FAIL", "cuDriverGetVersion=5555", 1);
  refuse(FAT_E_NO_DRIVER, "cuDriverGetVersion fails with an unknown code (5555)");
}

static void every_call_may_fail(void **state)
{
  (void)state;
  static const char *const calls[] = {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
                                      "cuDeviceTotalMem_v2", "cuDeviceGetAttribute"};
  fat_driver *driver;
  fat_device d[4];
  int count;
  assert_int_equal(fat_driver_open(&driver, NULL), FAT_OK);
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    char plan[64];
    fat_error err = {0};
    snprintf(plan, sizeof plan, "%s=999", calls[i]);
    setenv("FAKE_CUDA_FAIL", plan, 1);
    assert_int_equal(fat_device_list(driver, d, 4, &count, &err), FAT_E_NO_DEVICE);
    assert_int_equal(count, 0);
    assert_non_null(strstr(err.text, "CUDA_ERROR_UNKNOWN"));
  }
  unsetenv("FAKE_CUDA_FAIL");
  setenv("FAKE_CUDA_DEVICES", "", 1);
  assert_int_equal(fat_device_list(driver, d, 4, &count, NULL), FAT_E_NO_DEVICE);
  fat_driver_close(driver);
}

static void reads_version_from_file_name(void **state)
{
  (void)state;
  char folder[] = "/tmp/fatune-driver-XXXXXX", real[256], link[256];
  assert_non_null(mkdtemp(folder));
  snprintf(real, sizeof real, "%s/libcuda.so.550.54.15", folder);
  snprintf(link, sizeof link, "%s/libcuda.so.1", folder);
  FILE *from = fopen(fake, "rb"), *to = fopen(real, "wb");
  assert_true(from && to);
  for (int c; (c = fgetc(from)) != EOF;)
    fputc(c, to);
  fclose(from);
  assert_int_equal(fclose(to), 0);
  assert_int_equal(symlink(real, link), 0);
  setenv("FATUNE_LIBCUDA", link, 1);
  setenv("FAKE_CUDA_VERSION", "12040", 1);
  fat_driver *driver;
  assert_int_equal(fat_driver_open(&driver, NULL), FAT_OK);
  unlink(link);
  unlink(real);
  rmdir(folder);
  assert_string_equal(fat_driver_text(driver), "550.54.15");
  assert_string_equal(fat_driver_cuda_text(driver), "12.4");
  assert_int_equal(fat_driver_cuda(driver), 12);
  fat_driver_close(driver);
  fat_driver_close(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(lists_devices, clean),
      cmocka_unit_test_setup(devices_match_their_rows, clean),
      cmocka_unit_test_setup(says_what_stands_in_the_way, clean),
      cmocka_unit_test_setup(every_call_may_fail, clean),
      cmocka_unit_test_setup(reads_version_from_file_name, clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
