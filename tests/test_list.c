/* test_list.c -- what is typed as a list, a range, a number or a span, and how the rest is refused. */
#include "search/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const fat_range any = {1, 100000, 1};

/* The numbers as "1 2 3", or the error's text. */
static const char *read_numbers(const char *text, fat_range range)
{
  static char out[2000];
  fat_numbers numbers;
  fat_error err = {0};
  size_t n = 0;
  if (fat_list_numbers("--seqlens", text, range, &numbers, &err) != FAT_OK) {
    assert_int_equal(err.status, FAT_E_INPUT);
    snprintf(out, sizeof out, "%s", err.text);
    return out;
  }
  out[0] = 0;
  for (int i = 0; i < numbers.count; i++)
    n += (size_t)snprintf(out + n, sizeof out - n, i ? " %lld" : "%lld", (long long)numbers.value[i]);
  return out;
}

static void lists_and_ranges(void **state)
{
  (void)state;
  assert_string_equal(read_numbers("64", any), "64");
  assert_string_equal(read_numbers("64,128", any), "64 128");
  assert_string_equal(read_numbers("512:16384", any), "512 1024 2048 4096 8192 16384");
  assert_string_equal(read_numbers("3:13", any), "3 6 12");
  assert_string_equal(read_numbers("10:20:5,7,10", any), "10 15 20 7");
  assert_string_equal(read_numbers("10:19:5", any), "10 15");
  assert_string_equal(read_numbers("7:7", any), "7");
  assert_string_equal(read_numbers("64:256:64", (fat_range){8, 256, 8}), "64 128 192 256");
  assert_string_equal(read_numbers("9223372036854775807", (fat_range){1, INT64_MAX, 1}),
                      "9223372036854775807");
  assert_string_equal(read_numbers("9223372036854775806:9223372036854775807", (fat_range){1, INT64_MAX, 1}),
                      "9223372036854775806");
}

static void refused_numbers(void **state)
{
  static const char *const wrong[] = {
      "",       ",",  "64,", ",64",  "a",   "-5",      "+5",    " 5",   "5 ",  "0",
      "100001", "1:", ":1",  "1:2:", "5:1", "1:2:3:4", "1:9:0", "0x10", "1e3", "99999999999999999999",
      "1.5"};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    const char *text = read_numbers(wrong[i], any);
    if (!strstr(text, "--seqlens") || !strstr(text, "allowed are whole numbers from 1 to 100000"))
      fail_msg("'%s' gives: %s", wrong[i], text);
  }
  assert_non_null(
      strstr(read_numbers("64,100", (fat_range){8, 256, 8}), "'100': allowed are multiples of 8 from 8"));
  assert_non_null(strstr(read_numbers("1:1000:1", any), "more than 64 numbers"));
  assert_non_null(strstr(read_numbers("0:8", (fat_range){0, 8, 1}), "--seqlens '0:8'"));
}

static void one_number(void **state)
{
  int64_t v = -1;
  fat_error err = {0};
  (void)state;
  assert_int_equal(fat_list_number("--jobs", "16", 1, 256, &v, &err), FAT_OK);
  assert_int_equal(v, 16);
  assert_int_equal(fat_list_number("--jobs", "0", 1, 256, &v, &err), FAT_E_INPUT);
  assert_string_equal(err.text, "--jobs '0': allowed are whole numbers from 1 to 256");
  assert_int_equal(fat_list_number("--jobs", "257", 1, 256, &v, NULL), FAT_E_INPUT);
  assert_int_equal(fat_list_number("--jobs", "1,2", 1, 256, &v, NULL), FAT_E_INPUT);
  assert_int_equal(v, 16);
}

static void names(void **state)
{
  static const char *const known[] = {"f16", "bf16", "f32"};
  uint32_t mask = 0;
  fat_error err = {0};
  (void)state;
  assert_int_equal(fat_list_names("--dtypes", "f32,f16,f32", known, 3, &mask, &err), FAT_OK);
  assert_int_equal(mask, 5);
  assert_int_equal(fat_list_names("--dtypes", "f32,f15", known, 3, &mask, &err), FAT_E_INPUT);
  assert_string_equal(err.text, "--dtypes 'f15': allowed are f16, bf16, f32");
  assert_int_equal(fat_list_names("--dtypes", "", known, 3, &mask, &err), FAT_E_INPUT);
  assert_int_equal(fat_list_names("--dtypes", "f32,", known, 3, &mask, &err), FAT_E_INPUT);
  assert_int_equal(
      fat_list_names("--dtypes", "a-name-longer-than-any-that-could-be-known", known, 3, &mask, &err),
      FAT_E_INPUT);
}

static void spans(void **state)
{
  static const struct {
    const char *text;
    double seconds;
  } good[] = {{"90", 90}, {"90s", 90}, {"10m", 600}, {"2h", 7200}, {"168h", 604800}};
  static const char *const wrong[] = {"", "0", "-1", "m", "10 m", "10d", "169h", "604801", "1m30s", "1.5h"};
  double seconds;
  fat_error err = {0};
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_int_equal(fat_list_seconds("--budget", good[i].text, &seconds, &err), FAT_OK);
    assert_true(seconds == good[i].seconds);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    if (fat_list_seconds("--budget", wrong[i], &seconds, &err) != FAT_E_INPUT ||
        !strstr(err.text, "90s, 10m or 2h"))
      fail_msg("'%s' is taken", wrong[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_and_ranges),
      cmocka_unit_test(refused_numbers),
      cmocka_unit_test(one_number),
      cmocka_unit_test(names),
      cmocka_unit_test(spans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
