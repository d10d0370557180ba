/* test_json.c -- the JSON writer: layout, numbers that read back, and bytes that would break a reader. */
#include "cli/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void layout(void **state)
{
  fat_text out = {0};
  fat_json j = {.out = &out};
  (void)state;
  fat_json_open(&j, NULL, '[');
  fat_json_open(&j, NULL, '{');
  fat_json_string(&j, "gpu", "T4");
  fat_json_int(&j, "sm", 75);
  fat_json_double(&j, "ms", 0.5);
  fat_json_bool(&j, "best", true);
  fat_json_string(&j, "none", NULL);
  fat_json_close(&j, '}');
  fat_json_open(&j, NULL, '{');
  fat_json_close(&j, '}');
  fat_json_close(&j, ']');
  assert_string_equal(
      fat_text_get(&out),
      "[\n  {\"gpu\": \"T4\", \"sm\": 75, \"ms\": 0.5, \"best\": true, \"none\": null},\n  {}\n]\n");
  fat_text_free(&out);
}

static void empty_array(void **state)
{
  fat_text out = {0};
  fat_json j = {.out = &out};
  (void)state;
  fat_json_open(&j, NULL, '[');
  fat_json_close(&j, ']');
  assert_string_equal(fat_text_get(&out), "[]\n");
  fat_text_free(&out);
}

/* The text of one value. */
static const char *string_of(fat_text *out, const char *value)
{
  fat_json j = {.out = out};
  fat_text_clear(out);
  fat_json_string(&j, NULL, value);
  return fat_text_get(out);
}

static void strings(void **state)
{
  fat_text out = {0};
  (void)state;
  assert_string_equal(string_of(&out, "a \"b\" \\ \n\t\x01\x7f"),
                      "\"a \\\"b\\\" \\\\ \\n\\t\\u0001\\u007f\"");
  assert_string_equal(string_of(&out, "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
                      "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  /* cut, overlong, surrogate, beyond the last code point, stray */
  assert_string_equal(string_of(&out, "\xe2\x82"), "\"\\ufffd\\ufffd\"");
  assert_string_equal(string_of(&out, "\xc0\xaf"), "\"\\ufffd\\ufffd\"");
  assert_string_equal(string_of(&out, "\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
  assert_string_equal(string_of(&out, "\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
  assert_string_equal(string_of(&out, "\xff"), "\"\\ufffd\"");
  fat_text_free(&out);
}

static void numbers_read_back(void **state)
{
  static const double values[] = {
      0, 1, -1.5, 0.1, 1.0 / 3, 86.5178314465409, 1e-300, 1.7976931348623157e308, 123456789};
  fat_text out = {0};
  fat_json j = {.out = &out};
  (void)state;
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    fat_text_clear(&out);
    j.begun = 0;
    fat_json_double(&j, NULL, values[i]);
    assert_true(strtod(fat_text_get(&out), NULL) == values[i]);
  }
  fat_text_clear(&out);
  j.begun = 0;
  fat_json_double(&j, NULL, 0.1);
  assert_string_equal(fat_text_get(&out), "0.1");
  fat_text_clear(&out);
  j.begun = 0;
  fat_json_double(&j, NULL, NAN);
  fat_json_double(&j, NULL, INFINITY);
  assert_string_equal(fat_text_get(&out), "null, null");
  fat_text_free(&out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layout),
      cmocka_unit_test(empty_array),
      cmocka_unit_test(strings),
      cmocka_unit_test(numbers_read_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
