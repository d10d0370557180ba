/* test_compile_oom.c -- every allocation of finding NVRTC, compiling, the pool and the driver fails in turn
 * (by
 * __wrap_malloc): the call says out of memory, loses nothing, and the next one works. */
#include "compile.h"
#include "driver.h"
#include "pool.h"
#include "starve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static fat_nvrtc *nvrtc;

static fat_status open_nvrtc(fat_error *err)
{
  fat_nvrtc *other = NULL;
  fat_status status = fat_nvrtc_open(0, &other, err);
  assert_true((status == FAT_OK) == (other != NULL));
  fat_nvrtc_close(other);
  return status;
}

static fat_status list_nvrtc(fat_error *err)
{
  fat_nvrtc_found found[4];
  int count;
  return fat_nvrtc_list(0, found, 4, &count, err);
}

static fat_status compile(fat_error *err)
{
  fat_binary b;
  fat_status status = fat_compile(nvrtc, "fake log one|two", "x.cu", "sm_75", 0, NULL, &b, err);
  assert_true((status == FAT_OK) == (b.cubin != NULL && b.log.length == strlen("one\ntwo")));
  fat_binary_free(&b);
  return status;
}

static fat_status make_key(fat_error *err)
{
  fat_text key = {0};
  fat_status status = fat_compile_key(nvrtc, &key, err);
  fat_text_free(&key);
  return status;
}

static void work(void *job, void *state)
{
  (void)state;
  ++*(int *)job;
}

static fat_status use_pool(fat_error *err)
{
  fat_pool *pool = NULL;
  int jobs[3] = {0}, put = 0;
  FAT_TRY(fat_pool_open(2, NULL, work, NULL, NULL, &pool, err));
  fat_status status = FAT_OK;
  for (; put < 3 && status == FAT_OK; put++)
    status = fat_pool_put(pool, &jobs[put], err);
  put -= status != FAT_OK;
  for (int i = 0; i < put; i++) /* what could be put is done all the same */
    assert_non_null(fat_pool_take(pool, 60));
  assert_null(fat_pool_take(pool, 0));
  fat_pool_close(pool);
  for (int i = 0; i < 3; i++)
    assert_int_equal(jobs[i], i < put);
  return status;
}

static fat_status open_driver(fat_error *err)
{
  fat_driver *driver = NULL;
  fat_status status = fat_driver_open(&driver, err);
  fat_driver_close(driver);
  return status;
}

static void starved(fat_status (*call)(fat_error *err))
{
  int failures = 0;
  for (long n = 0;; n++) {
    fat_error err = {0};
    starve_after(n, n % 2);
    fat_status status = call(&err);
    bool refused = starve_end();
    assert_int_equal(status, refused ? FAT_E_NOMEM : FAT_OK);
    if (!refused)
      break;
    failures++;
    assert_int_equal(err.status, FAT_E_NOMEM);
    assert_true(strlen(err.text) > 0);
    assert_int_equal(call(NULL), FAT_OK);
  }
  assert_true(failures > 0);
}

static void every_call(void **state)
{
  (void)state;
  setenv("FATUNE_NVRTC", FAKES "/fake_nvrtc_13.so", 1);
  setenv("FATUNE_LIBCUDA", FAKES "/fake_cuda.so", 1);
  assert_int_equal(fat_nvrtc_open(0, &nvrtc, NULL), FAT_OK);
  starved(open_nvrtc);
  starved(list_nvrtc);
  starved(compile);
  starved(make_key);
  starved(use_pool);
  starved(open_driver);
  fat_nvrtc_close(nvrtc);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_call)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
