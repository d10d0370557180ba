/* test_expr.c -- the arithmetic of recipes: read, printed and evaluated; nothing overflows unseen. */
#include "expr.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const fat_sizes sizes = {.b = 2, .h = 16, .hk = 4, .q = 100, .k = 257, .sms = 40};

/* Reads the whole of a text that must be an expression. */
static fat_expr read_text(const char *text)
{
  fat_expr e;
  fat_error err = {0};
  const char *at = text;
  if (fat_expr_parse(&at, &e, &err) != FAT_OK)
    fail_msg("'%s' at column %d: %s", text, (int)(at - text) + 1, err.text);
  assert_string_equal(at, "");
  return e;
}

static void values_are_right(void **state)
{
  (void)state;
  const struct {
    const char *text;
    int64_t value;
  } cases[] = {
      {"0", 0},
      {"9223372036854775807", INT64_MAX},
      {"b+h+hk+q+k+SMs", 2 + 16 + 4 + 100 + 257 + 40},
      {"1+2*3", 7},
      {"(1+2)*3", 9},
      {"10-4-3", 3},
      {"10-(4-3)", 9},
      {"2*3-4*5", -14},
      {"ceildiv(q,64)*b*h", 64},
      {"ceildiv(128,64)", 2},
      {"ceildiv(129,64)", 3},
      {"ceildiv(0,64)", 0},
      {"ceildiv(0-1,64)", 0},
      {"ceildiv(0-64,64)", -1},
      {"ceildiv(0-9223372036854775807-1,1)", INT64_MIN},
      {"ceildiv(9223372036854775807,2)", INT64_C(4611686018427387904)},
      {"min(q,k)", 100},
      {"max(q,k)", 257},
      {"max(min(3,4),0-5)", 3},
      {"((((h))))", 16},
      {"hk*h", 64},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_expr e = read_text(cases[i].text);
    fat_error err = {0};
    int64_t value = 0;
    if (fat_expr_eval(&e, &sizes, &value, &err) != FAT_OK)
      fail_msg("'%s': %s", cases[i].text, err.text);
    if (value != cases[i].value)
      fail_msg("'%s' is %" PRId64 ", not %" PRId64, cases[i].text, value, cases[i].value);
  }
}

static void printing_keeps_needed_parentheses_only(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"((8*b)*h)*q", "8*b*h*q"},
      {"8*(b*(h*q))", "8*(b*(h*q))"}, /* another order of operations: kept */
      {"(1+2)+(3)", "1+2+3"},
      {"1+(2+3)", "1+(2+3)"},
      {"1-(2-3)-(4)", "1-(2-3)-4"},
      {"(1*2)+(3*4)", "1*2+3*4"},
      {"(1+2)*(3-4)", "(1+2)*(3-4)"},
      {"1*(2*3)+4", "1*(2*3)+4"},
      {"ceildiv((q+1),(64))*(b)", "ceildiv(q+1,64)*b"},
      {"min((1+2)*3,max(4,5)-6)", "min((1+2)*3,max(4,5)-6)"},
      {"(ceildiv(q,2))*(min(1,2))", "ceildiv(q,2)*min(1,2)"},
      {"SMs*(hk)", "SMs*hk"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_expr e = read_text(cases[i][0]);
    fat_text out = {0};
    fat_expr_print(&e, &out);
    assert_string_equal(fat_text_get(&out), cases[i][1]);
    fat_expr again = read_text(fat_text_get(&out));
    assert_memory_equal(&again, &e, sizeof e);
    fat_text_free(&out);
  }
}

static void what_overflows_is_an_error(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"9223372036854775807+1", "9223372036854775807 + 1 is beyond 64 bits"},
      {"0-9223372036854775807-2", "-9223372036854775807 - 2 is beyond 64 bits"},
      {"9223372036854775807*b", "9223372036854775807 * 2 is beyond 64 bits"},
      {"ceildiv(q,0)", "ceildiv(100,0): the divisor must be positive"},
      {"ceildiv(q,b-h)", "ceildiv(100,-14): the divisor must be positive"},
      {"0*ceildiv(1,0)", "the divisor must be positive"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_expr e = read_text(cases[i][0]);
    fat_error err = {0};
    int64_t value;
    assert_int_equal(fat_expr_eval(&e, &sizes, &value, &err), FAT_E_INPUT);
    if (strstr(err.text, cases[i][1]) == NULL)
      fail_msg("'%s' does not say '%s'", err.text, cases[i][1]);
  }
}

static void mistakes_are_told_where_they_are(void **state)
{
  (void)state;
  const struct {
    const char *text, *says;
    int at;
  } cases[] = {
      {"", "a whole number, one of b h hk q k SMs", 0},
      {"-1", "a whole number", 0},
      {"+1", "a whole number", 0},
      {"1+", "a whole number", 2},
      {"1*)", "a whole number", 2},
      {"x", "a whole number", 0},
      {"sms", "a whole number", 0},
      {"bh", "a whole number", 0},
      {"b2", "a whole number", 0},
      {"min2(1,2)", "a whole number", 0},
      {"(1", "')'", 2},
      {"(1 )", "')'", 2},
      {"min 1", "'('", 3},
      {"min(1)", "','", 5},
      {"min(1,2,3)", "')'", 7},
      {"ceildiv(,1)", "a whole number", 8},
      {"1+007", "without leading zeros", 2},
      {"00", "without leading zeros", 0},
      {"9223372036854775808", "at most 9223372036854775807", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_expr e;
    fat_error err = {0};
    const char *at = cases[i].text;
    assert_int_equal(fat_expr_parse(&at, &e, &err), FAT_E_INPUT);
    assert_int_equal(at - cases[i].text, cases[i].at);
    if (strstr(err.text, cases[i].says) == NULL)
      fail_msg("'%s' does not say '%s'", err.text, cases[i].says);
    assert_int_equal(e.count, 0);
    assert_int_equal(fat_expr_eval(&e, &sizes, &(int64_t){0}, &err), FAT_E_INPUT);
  }
}

static void reading_stops_behind_the_expression(void **state)
{
  (void)state;
  static const char *const rests[] = {" 1", ")", ",", "x", "(", "/2", "\n"};
  for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
    char text[32];
    fat_expr e;
    snprintf(text, sizeof text, "4*(b+1)%s", rests[i]);
    const char *at = text;
    assert_int_equal(fat_expr_parse(&at, &e, NULL), FAT_OK);
    assert_string_equal(at, rests[i]);
  }
}

/* prefix * depth, then middle, then suffix * depth */
static void nest(char *out, const char *prefix, int depth, const char *middle, const char *suffix)
{
  *out = 0;
  for (int i = 0; i < depth; i++)
    strcat(out, prefix);
  strcat(out, middle);
  for (int i = 0; i < depth; i++)
    strcat(out, suffix);
}

static void size_and_depth_have_limits(void **state)
{
  (void)state;
  static char text[400000];
  fat_expr e;
  fat_error err = {0};
  const char *at = text;
  nest(text, "(", 23, "b", ")"); /* and the expression itself: 24 */
  read_text(text);
  nest(text, "(", 24, "b", ")");
  assert_int_equal(fat_expr_parse(&at, &e, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "fewer parentheses"));
  memset(text, '(', sizeof text - 1);
  at = text;
  assert_int_equal(fat_expr_parse(&at, &e, &err), FAT_E_INPUT);
  /* 24 operands with 23 operators are 47 operations; a 25th pair is one too many */
  nest(text, "b*", 23, "b", "");
  e = read_text(text);
  assert_int_equal(e.count, 47);
  nest(text, "b+", 24, "b", "");
  at = text;
  assert_int_equal(fat_expr_parse(&at, &e, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "at most 48"));
}

/* A small generator of our own: the same expressions on every machine. */
static uint64_t seed = 7;
static int draw(int below)
{
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((seed >> 33) % (uint64_t)below);
}

/* Appends a random expression of at most `budget` operands, with more parentheses than it needs. */
static void draw_expr(fat_text *out, int budget)
{
  static const char *const leaves[] = {"b",   "h", "hk", "q",   "k",
                                       "SMs", "0", "1",  "128", "9223372036854775807"};
  static const char *const calls[] = {"ceildiv", "min", "max"};
  if (budget < 2) {
    fat_text_add(out, leaves[draw(10)]);
    return;
  }
  int left = 1 + draw(budget - 1), way = draw(6);
  fat_text_add(out, way < 3 ? calls[way] : "");
  fat_text_add(out, "(");
  draw_expr(out, left);
  fat_text_add(out, way < 3 ? "," : way == 3 ? ")+(" : way == 4 ? ")-(" : ")*(");
  draw_expr(out, budget - left);
  fat_text_add(out, ")");
}

static void any_expression_comes_back_from_its_text(void **state)
{
  (void)state;
  int values = 0;
  for (int i = 0; i < 20000; i++) {
    fat_text drawn = {0}, once = {0}, twice = {0};
    draw_expr(&drawn, 1 + draw(16));
    fat_expr e = read_text(fat_text_get(&drawn));
    fat_expr_print(&e, &once);
    fat_expr again = read_text(fat_text_get(&once));
    assert_memory_equal(&again, &e, sizeof e);
    fat_expr_print(&again, &twice);
    assert_string_equal(fat_text_get(&twice), fat_text_get(&once));
    assert_true(once.length <= drawn.length);
    int64_t value;
    values += fat_expr_eval(&e, &sizes, &value, NULL) == FAT_OK;
    fat_text_free(&drawn);
    fat_text_free(&once);
    fat_text_free(&twice);
  }
  assert_true(values > 1000 && values < 20000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_right),
      cmocka_unit_test(printing_keeps_needed_parentheses_only),
      cmocka_unit_test(what_overflows_is_an_error),
      cmocka_unit_test(mistakes_are_told_where_they_are),
      cmocka_unit_test(reading_stops_behind_the_expression),
      cmocka_unit_test(size_and_depth_have_limits),
      cmocka_unit_test(any_expression_comes_back_from_its_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
