/* test_cuda_error.c -- what the driver's result codes mean to us. */
#include "cuda_error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void codes_have_their_status(void **state)
{
  (void)state;
  const struct {
    int code;
    fat_status status;
  } rows[] = {{0, FAT_OK},          {2, FAT_E_DEVICE_MEMORY}, {3, FAT_E_NO_DRIVER},
              {46, FAT_E_BUSY},     {100, FAT_E_NO_DEVICE},   {201, FAT_E_NO_CONTEXT},
              {209, FAT_E_IMAGE},   {214, FAT_E_DEVICE_LOST}, {701, FAT_E_LAUNCH},
              {900, FAT_E_CAPTURE}, {999, FAT_E_DEVICE_LOST}, {1, FAT_E_CUDA},
              {400, FAT_E_CUDA},    {-1, FAT_E_CUDA},         {123456, FAT_E_CUDA}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_int_equal(fat_cuda_error_status(rows[i].code), rows[i].status);
}

static bool is_sticky(int code)
{
  const fat_status status = fat_cuda_error_status(code);
  return status == FAT_E_CONTEXT_DEAD || status == FAT_E_DEVICE_LOST;
}

/* Those of which cuda.h says that the process must be left, and those of a GPU that is gone. */
static void some_are_for_ever(void **state)
{
  (void)state;
  const int sticky[] = {226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 214, 220, 999};
  int count = 0;
  for (size_t i = 0; i < sizeof sticky / sizeof *sticky; i++)
    assert_true(is_sticky(sticky[i]));
  for (int code = 0; code < 1000; code++)
    count += is_sticky(code);
  assert_int_equal(count, sizeof sticky / sizeof *sticky);
}

static void known_codes_have_names(void **state)
{
  (void)state;
  assert_string_equal(fat_cuda_error_name(700), "CUDA_ERROR_ILLEGAL_ADDRESS");
  assert_string_equal(fat_cuda_error_name(0), "CUDA_SUCCESS");
  assert_string_equal(fat_cuda_error_name(5), "");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_have_their_status),
      cmocka_unit_test(some_are_for_ever),
      cmocka_unit_test(known_codes_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
