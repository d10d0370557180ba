/* test_config.c -- config texts both ways, values by name, and how each mistake is told. */
#include "config.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void texts_are_written_as_they_are_read(void **state)
{
  (void)state;
  const char *texts[] = {"fwd:Br128-Bc64-t256-r8-v4", "standard:t0", "fa1", "fwd_ws:Br2147483647",
                         "k2:abcdefghijk1"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    fat_config c;
    fat_error err = {0};
    char text[FAT_CONFIG_TEXT];
    assert_int_equal(fat_config_parse(texts[i], &c, &err), FAT_OK);
    assert_string_equal(fat_config_print(&c, text), texts[i]);
  }
}

static void values_are_found_by_name(void **state)
{
  (void)state;
  fat_config c;
  int32_t value = -1;
  assert_int_equal(fat_config_parse("fwd:Br128-Bc64-B7", &c, NULL), FAT_OK);
  assert_string_equal(c.kernel, "fwd");
  assert_int_equal(c.count, 3);
  assert_int_equal(fat_config_get(&c, "Bc", &value), FAT_OK);
  assert_int_equal(value, 64);
  assert_int_equal(fat_config_get(&c, "B", &value), FAT_OK);
  assert_int_equal(value, 7);
  assert_int_equal(fat_config_get(&c, "b", &value), FAT_E_NOT_FOUND);
  assert_int_equal(value, 7);
}

static void a_full_config_fits_its_buffer(void **state)
{
  (void)state;
  fat_config c = {0}, again;
  fat_error err = {0};
  char name[] = "abcdefghija", text[FAT_CONFIG_TEXT], more[FAT_CONFIG_TEXT + 8];
  memset(c.kernel, 'k', FAT_CONFIG_KERNEL - 1);
  for (c.count = 0; c.count < FAT_CONFIG_VALUES; c.count++, name[10]++) {
    memcpy(c.values[c.count].name, name, sizeof name);
    c.values[c.count].value = INT32_MAX;
  }
  snprintf(more, sizeof more, "%s-more1", fat_config_print(&c, text));
  assert_int_equal(fat_config_parse(more, &again, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "tunable more is one too many: a config has at most 24"));
  assert_int_equal(strlen(fat_config_print(&c, text)), 19 + 24 * 22);
  assert_int_equal(fat_config_parse(text, &again, &err), FAT_OK);
  assert_memory_equal(&again, &c, sizeof c);
}

static void mistakes_are_told_with_their_place(void **state)
{
  (void)state;
  const struct {
    const char *text, *says;
  } cases[] = {
      {"", "expected the name of a kernel (1 to 19 letters, digits or '_') at column 1"},
      {":Br1", "expected the name of a kernel"},
      {"abcdefghijklmnopqrst:Br1", "expected the name of a kernel"},
      {"fwd Br1", "expected ':' behind the kernel at column 4"},
      {"fwd:", "expected the name of a tunable, as in Br128, at column 5"},
      {"fwd:16", "expected the name of a tunable, as in Br128, at column 5"},
      {"fwd:abcdefghijkl1", "expected a name of at most 11 letters at column 5"},
      {"fwd:Br", "expected a whole number without leading zeros at column 7"},
      {"fwd:Br-1", "expected a whole number without leading zeros at column 7"},
      {"fwd:Br01", "expected a whole number without leading zeros at column 7"},
      {"fwd:Br2147483648", "expected a number of at most 2147483647 at column 7"},
      {"fwd:Br99999999999999999999", "expected a number of at most 2147483647 at column 7"},
      {"fwd:Br1-", "expected the name of a tunable, as in Br128, at column 9"},
      {"fwd:Br1,Bc2", "expected '-' or the end at column 8"},
      {"fwd:Br1:Bc2", "expected '-' or the end at column 8"},
      {"fwd:Br1-Bc2-Br3", "at column 13: tunable Br stands twice"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_config c = {.kernel = "kept"};
    fat_error err = {0};
    assert_int_equal(fat_config_parse(cases[i].text, &c, &err), FAT_E_INPUT);
    char head[100];
    snprintf(head, sizeof head, "config '%s': ", cases[i].text);
    assert_memory_equal(err.text, head, strlen(head));
    if (strstr(err.text, cases[i].says) == NULL)
      fail_msg("'%s' does not say '%s'", err.text, cases[i].says);
    assert_string_equal(c.kernel, "kept");
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_written_as_they_are_read),
      cmocka_unit_test(values_are_found_by_name),
      cmocka_unit_test(a_full_config_fits_its_buffer),
      cmocka_unit_test(mistakes_are_told_with_their_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
