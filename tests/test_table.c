/* test_table.c -- tables: aligned, narrower by dropping what matters least; prose alone is cut. */
#include "cli/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static const fat_column columns[] = {
    {"problem", false, 9, true},
    {"kernel", false, 8, false},
    {"ms", true, 7, false},
    {"date", false, 1, false},
};

static void fill(fat_table *t)
{
  *t = (fat_table){.columns = columns, .column_count = 4};
  fat_table_add(t, "fwd-f32-d64");
  fat_table_add(t, "fwd");
  fat_table_addf(t, "%.2f", 9.5);
  fat_table_add(t, "2026-11-21");
  fat_table_add(t, "fwd-f32-d64");
  fat_table_add(t, "standard");
  fat_table_addf(t, "%.2f", 123.25);
  fat_table_add(t, NULL);
  fat_table_add(t, "fwd-f32-d128");
  fat_table_add(t, "h\xc3\xa9");
  fat_table_add(t, "");
  fat_table_add(t, "a\tb");
}

static void expect(int width, const char *expected)
{
  fat_table t;
  fat_text out = {0};
  fat_error err = {0};
  fill(&t);
  assert_int_equal(fat_table_print(&t, (fat_look){.width = width}, &out, &err), FAT_OK);
  assert_string_equal(fat_text_get(&out), expected);
  fat_text_free(&out);
  fat_table_free(&t);
}

static const char whole[] = "problem       kernel        ms  date\n"
                            "fwd-f32-d64   fwd         9.50  2026-11-21\n"
                            "fwd-f32-d64   standard  123.25  -\n"
                            "fwd-f32-d128  h\xc3\xa9          -     a b\n";

static void wide(void **state)
{
  (void)state;
  expect(0, whole);
  expect(200, whole);
  expect(42, whole); /* as wide as the text */
}

static void headings(void **state)
{
  (void)state;
  const char *text = "  kernel        ms  date\n"
                     "fwd-f32-d64\n"
                     "  fwd         9.50  2026-11-21\n"
                     "  standard  123.25  -\n"
                     "fwd-f32-d128\n"
                     "  h\xc3\xa9          -     a b\n";
  expect(41, text);
  expect(30, text);
}

/* Several headings share a line, with their titles: numbers alone say nothing. */
static void several_headings(void **state)
{
  static const fat_column few[] = {
      {"heads", true, 3, true}, {"rows", true, 3, true}, {"causal", false, 2, true}, {"ms", true, 9, false}};
  static const char *const cells[] = {"4", "128", "no", "1.5", "4", "256", "yes", "2"};
  fat_table t = {.columns = few, .column_count = 4};
  fat_text out = {0};
  (void)state;
  for (int c = 0; c < 8; c++)
    fat_table_add(&t, cells[c]);
  assert_int_equal(fat_table_print(&t, (fat_look){.width = 12}, &out, NULL), FAT_OK);
  assert_string_equal(fat_text_get(&out),
                      "   ms\nheads: 4, rows: 128, causal: no\n  1.5\nrows: 256, causal: yes\n  2\n");
  fat_text_free(&out);
  fat_table_free(&t);
}

static void dropped(void **state)
{
  (void)state;
  expect(29, "  kernel        ms\n"
             "fwd-f32-d64\n"
             "  fwd         9.50\n"
             "  standard  123.25\n"
             "fwd-f32-d128\n"
             "  h\xc3\xa9          -\n"
             "(no room for: date; a wider terminal or --json has all)\n");
}

/* However narrow, the column that matters most stays, and whole. */
static void narrowest(void **state)
{
  (void)state;
  expect(3, "  kernel\n"
            "fwd-f32-d64\n"
            "  fwd\n"
            "  standard\n"
            "fwd-f32-d128\n"
            "  h\xc3\xa9\n"
            "(no room for: ms, date; a wider terminal or --json has all)\n");
}

/* Sentences give way to the columns that tell rows apart, and have what room is left; a column that was
 * narrow enough comes back once a wide one is gone. */
static void prose(void **state)
{
  static const fat_column few[] = {{"id", true, 2, false},
                                   {"config", false, 8, false},
                                   {"date", false, 1, false},
                                   {"detail", false, 9, false}};
  static const char *const cells[] = {
      "7",  "fwd:Br64-Bc64",  "2026-11-21", "it is too sl\xc3\xb6w by far, and wrong",
      "12", "fwd:Br128-Bc64", "2026-11-22", "fine"};
  static const struct {
    int width;
    const char *text;
  } cases[] = {
      {0, "id  config          date        detail\n"
          " 7  fwd:Br64-Bc64   2026-11-21  it is too sl\xc3\xb6w by far, and wrong\n"
          "12  fwd:Br128-Bc64  2026-11-22  fine\n"},
      {60, "id  config          date        detail\n"
           " 7  fwd:Br64-Bc64   2026-11-21  it is too sl\xc3\xb6w by far, and \xe2\x80\xa6\n"
           "12  fwd:Br128-Bc64  2026-11-22  fine\n"
           "(no room for: all of detail; a wider terminal or --json has all)\n"},
      {38, "id  config          detail\n"
           " 7  fwd:Br64-Bc64   it is too sl\xc3\xb6w by\xe2\x80\xa6\n"
           "12  fwd:Br128-Bc64  fine\n"
           "(no room for: date, all of detail; a wider terminal or --json has all)\n"},
      {31, "id  detail\n"
           " 7  it is too sl\xc3\xb6w by far, and\xe2\x80\xa6\n"
           "12  fine\n"
           "(no room for: config, date, all of detail; a wider terminal or --json has all)\n"},
      {3, "detail\n"
          "it is too sl\xc3\xb6w \xe2\x80\xa6\n"
          "fine\n"
          "(no room for: id, config, date, all of detail; a wider terminal or --json has all)\n"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_table t = {.columns = few, .column_count = 4, .prose = "detail"};
    fat_text out = {0};
    for (int c = 0; c < 8; c++)
      fat_table_add(&t, cells[c]);
    assert_int_equal(fat_table_print(&t, (fat_look){.width = cases[i].width}, &out, NULL), FAT_OK);
    assert_string_equal(fat_text_get(&out), cases[i].text);
    fat_text_free(&out);
    fat_table_free(&t);
  }
}

/* To a person: what all rows share stands above them, a row is marked, in colour where there is one. */
static void glance(void **state)
{
  static const fat_column few[] = {
      {"gpu", false, 9, true}, {"kernel", false, 8, false}, {"ms", true, 7, false}};
  static const char *const cells[] = {"T4", "fwd", "9.5", "T4", "standard", "123.25", "T4", "fa1", "7"};
  static const struct {
    fat_look look;
    const char *text;
  } cases[] = {
      {{.glance = true},
       "gpu: T4\n  kernel        ms\n  fwd         9.5\n* standard  123.25\n  fa1         7\n"},
      {{.glance = true, .colour = true},
       "gpu: T4\n  kernel        ms\n  fwd         9.5\n\033[1;32m* standard  123.25\033[0m\n  fa1         "
       "7\n"},
      {{0}, "gpu  kernel        ms\nT4   fwd         9.5\nT4   standard  123.25\nT4   fa1         7\n"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_table t = {.columns = few, .column_count = 3};
    fat_text out = {0};
    for (int c = 0; c < 9; c++) {
      fat_table_add(&t, cells[c]);
      if (c == 5)
        fat_table_mark(&t);
    }
    assert_int_equal(fat_table_print(&t, cases[i].look, &out, NULL), FAT_OK);
    assert_string_equal(fat_text_get(&out), cases[i].text);
    fat_text_free(&out);
    fat_table_free(&t);
  }
}

static void no_rows(void **state)
{
  fat_table t = {.columns = columns, .column_count = 4};
  fat_text out = {0};
  (void)state;
  assert_int_equal(fat_table_print(&t, (fat_look){0}, &out, NULL), FAT_OK);
  assert_string_equal(fat_text_get(&out), "problem  kernel  ms  date\n");
  fat_text_free(&out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wide),    cmocka_unit_test(headings),
      cmocka_unit_test(dropped), cmocka_unit_test(narrowest),
      cmocka_unit_test(prose),   cmocka_unit_test(no_rows),
      cmocka_unit_test(glance),  cmocka_unit_test(several_headings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
