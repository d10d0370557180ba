/* test_status.c -- the result codes have names, and an error text is whole, safe and never too long. */
#include "status.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void every_status_has_its_own_name(void **state)
{
  (void)state;
  for (int i = 0; i < FAT_STATUS_COUNT; i++) {
    const char *name = fat_status_name((fat_status)i);
    assert_non_null(name);
    assert_true(strlen(name) > 0);
    assert_string_not_equal(name, fat_status_name(FAT_STATUS_COUNT));
    for (int j = 0; j < i; j++)
      assert_string_not_equal(name, fat_status_name((fat_status)j));
  }
  assert_string_equal(fat_status_name(FAT_STATUS_COUNT), "unknown status");
  assert_string_equal(fat_status_name((fat_status)1000000), "unknown status");
}

static void fail_fills_the_error_and_returns_its_status(void **state)
{
  (void)state;
  fat_error err = {0};
  assert_int_equal(fat_status_fail(&err, FAT_E_INPUT, "d is %d: allowed are %s", 12, "multiples of 8"),
                   FAT_E_INPUT);
  assert_int_equal(err.status, FAT_E_INPUT);
  assert_string_equal(err.text, "d is 12: allowed are multiples of 8");
  assert_int_equal(fat_status_fail(NULL, FAT_E_BUSY, "%d", 1), FAT_E_BUSY);
}

static void words_can_be_put_around_a_text(void **state)
{
  (void)state;
  fat_error err = {0};
  fat_status_fail(&err, FAT_E_IO, "disk gone");
  fat_status_fail(&err, FAT_E_DB, "cannot open: %s, twice: %s", err.text, err.text);
  assert_string_equal(err.text, "cannot open: disk gone, twice: disk gone");
  assert_int_equal(err.status, FAT_E_DB);
}

static void a_long_text_is_cut_and_says_so(void **state)
{
  (void)state;
  fat_error err;
  char text[3000];
  memset(text, 'x', sizeof text);
  for (size_t n = sizeof err.text - 2; n <= sizeof err.text + 1; n++) {
    memset(&err, '#', sizeof err);
    fat_status_fail(&err, FAT_E_INPUT, "%.*s", (int)n, text);
    bool cut = n >= sizeof err.text;
    assert_int_equal(strlen(err.text), cut ? sizeof err.text - 1 : n);
    assert_int_equal(strcmp(err.text + strlen(err.text) - 3, "...") == 0, cut);
  }
}

static void control_bytes_of_the_user_do_not_reach_the_terminal(void **state)
{
  (void)state;
  fat_error err;
  fat_status_fail(&err, FAT_E_INPUT, "'%s'\tand\nmore", "a\x1b[31mb\x7f\r\x01\xc3\xa9");
  assert_string_equal(err.text, "'a?[31mb???\xc3\xa9'\tand\nmore");
}

static fat_status tries(fat_status first, int *reached)
{
  FAT_TRY(first);
  *reached += 1;
  return FAT_OK;
}

static void try_leaves_the_function_on_failure_alone(void **state)
{
  (void)state;
  int reached = 0;
  assert_int_equal(tries(FAT_E_TIMEOUT, &reached), FAT_E_TIMEOUT);
  assert_int_equal(reached, 0);
  assert_int_equal(tries(FAT_OK, &reached), FAT_OK);
  assert_int_equal(reached, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_status_has_its_own_name),
      cmocka_unit_test(fail_fills_the_error_and_returns_its_status),
      cmocka_unit_test(words_can_be_put_around_a_text),
      cmocka_unit_test(a_long_text_is_cut_and_says_so),
      cmocka_unit_test(control_bytes_of_the_user_do_not_reach_the_terminal),
      cmocka_unit_test(try_leaves_the_function_on_failure_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
