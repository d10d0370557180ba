/* test_mod.c -- expressions of the user's: what is read and how it is written again, what is refused and
 * where, limits, what is known to the process. */
#include "mod.h"
#include "tensors.h"
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  fat_feature which;
  const char *text, *canonical;
} read_as[] = {
    {FAT_MOD, "s+table0[ h ]*(j-i)", "s + table0[h] * (j - i)"},
    {FAT_MOD, "((s))", "s"},
    {FAT_MOD, "1", "1"},
    {FAT_MOD, "-2*s - -3.50e-1", "-2 * s - -0.349999994"},
    {FAT_MOD, "s-(1-2)-3*(4//5)%6/7", "s - (1 - 2) - 3 * (4 // 5) % 6 / 7"},
    {FAT_MOD, "-(s+1)", "-(s + 1)"},
    {FAT_MOD, "select(i<=j and not(b==1 or h!=0),s,-inf)",
     "select(i <= j and not (b == 1 or h != 0), s, -inf)"},
    {FAT_MOD, "max(abs(tanh(s)),exp(log(min(s,1e10))))", "max(abs(tanh(s)), exp(log(min(s, 1e+10))))"},
    {FAT_MASK_MOD, "itable3[i]==itable3[j]and j<=i+k-q", "itable3[i] == itable3[j] and j <= i + k - q"},
    {FAT_MASK_MOD, "table1[b,i-j]>.5", "table1[b, i - j] > 0.5"},
};

static void texts_have_one_form(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof read_as / sizeof *read_as; i++) {
    fat_mod *m, *again;
    fat_error err = {0};
    if (fat_mod_parse(read_as[i].text, read_as[i].which, &m, &err) != FAT_OK)
      fail_msg("%s", err.text);
    assert_string_equal(m->text, read_as[i].canonical);
    assert_int_equal(fat_mod_parse(m->text, read_as[i].which, &again, &err), FAT_OK);
    assert_string_equal(again->text, m->text);
    assert_true(again->hash == m->hash);
    fat_mod_free(m);
    fat_mod_free(again);
  }
}

static const struct {
  fat_feature which;
  const char *text, *says;
} refused[] = {
    {FAT_MOD, "", "column 1: the text ends"},
    {FAT_MOD, "s + ", "column 5: the text ends"},
    {FAT_MOD, "s + t", "column 5: 't' is no name"},
    {FAT_MOD, "s s", "column 3: 's' is left over"},
    {FAT_MOD, "s; *", "column 2: ';' is left over"},
    {FAT_MOD, "s \xc3\x97 2", "column 3: '\xc3\x97' is left over"},
    {FAT_MOD, "\xc3\x9f", "column 1: '\xc3\x9f' stands"},
    {FAT_MOD, "s \xc3 2", "is left over"},
    {FAT_MOD, "\"s\"", "column 1: '\"' stands"},
    {FAT_MOD, "i < j", "this is a bool"},
    {FAT_MASK_MOD, "i + j", "this is a number"},
    {FAT_MASK_MOD, "s > 0", "column 1: a mask has no s"},
    {FAT_MOD, "s + (i < j)", "column 3: '+' takes numbers"},
    {FAT_MASK_MOD, "i and j", "column 3: 'and' takes bools"},
    {FAT_MASK_MOD, "i < j < k", "column 7: comparisons do not chain"},
    {FAT_MOD, "s // 2", "column 3: '//' takes whole numbers"},
    {FAT_MOD, "select(s, 1, 2)", "column 1: select begins with a bool"},
    {FAT_MOD, "table0[s]", "column 1: '[]' takes whole numbers"},
    {FAT_MOD, "table0[i] + itable0[i]", "column 13: table 0 is of numbers"},
    {FAT_MOD, "table0[i] + table0[i, j]", "column 13: table 0 has one index"},
    {FAT_MOD, "table4[i]", "column 1: 'table4' is no name"},
    {FAT_MOD, "table0[i, j, k]", "column 12: ']' is expected"},
    {FAT_MOD, "2147483648", "column 1: whole numbers go up to"},
    {FAT_MOD, "1e39", "column 1: numbers go up to"},
    {FAT_MOD, "1.2.3", "column 1: a number has one point"},
};

static void mistakes_are_told_by_column(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    fat_mod *m;
    fat_error err = {0};
    assert_int_equal(fat_mod_parse(refused[i].text, refused[i].which, &m, &err), FAT_E_INPUT);
    assert_null(m);
    if (!strstr(err.text, refused[i].says))
      fail_msg("'%s' says: %s", refused[i].text, err.text);
  }
}

/* `one` so often, around s. */
static fat_status nested(const char *open, const char *close, int times)
{
  fat_text t = {0};
  fat_mod *m;
  for (int i = 0; i < times; i++)
    fat_text_add(&t, open);
  fat_text_add(&t, "s");
  for (int i = 0; i < times; i++)
    fat_text_add(&t, close);
  const fat_status status = fat_mod_parse(fat_text_get(&t), FAT_MOD, &m, NULL);
  fat_mod_free(m);
  fat_text_free(&t);
  return status;
}

static void depth_and_length_have_limits(void **state)
{
  (void)state;
  assert_int_equal(nested("abs(", ")", FAT_MOD_DEPTH), FAT_OK);
  assert_int_equal(nested("abs(", ")", FAT_MOD_DEPTH + 1), FAT_E_INPUT);
  assert_int_equal(nested("(", ")", 2000), FAT_E_INPUT);
  assert_int_equal(nested("-", "", 4000), FAT_E_INPUT);
  assert_int_equal(nested("", " + 1", FAT_MOD_DEPTH + 1), FAT_E_INPUT);
  assert_int_equal(nested(" ", "", FAT_MOD_TEXT), FAT_E_INPUT);
  assert_int_equal(nested(" ", "", FAT_MOD_TEXT - 1), FAT_OK);
}

/* A problem with a hash has no meaning until its text is told; then it has the tables that the text reads. */
static void what_was_told_is_known(void **state)
{
  (void)state;
  fat_problem p, other;
  fat_error err = {0};
  char text[FAT_PROBLEM_TEXT];
  assert_int_equal(fat_problem_parse("fwd-f16-b1-h2-q9-k7-d64-mod0123456789abcdef", &p, &err), FAT_OK);
  assert_int_equal(fat_mod_check(&p, &err), FAT_E_INPUT);
  assert_int_equal(fat_mod_add("s", FAT_MOD, &p, &err), FAT_E_INPUT); /* another hash */
  assert_int_equal(fat_problem_parse("fwd-f16-b1-h2-q9-k7-d64", &p, &err), FAT_OK);
  assert_int_equal(fat_mod_add("s + table2[h, i]", FAT_MOD, &p, &err), FAT_OK);
  assert_int_equal(fat_problem_parse(fat_problem_print(&p, text), &other, &err), FAT_OK);
  assert_int_equal(fat_mod_check(&other, &err), FAT_OK);
  assert_int_equal(fat_tensors_role(&other, FAT_TABLE), FAT_ROLE_NONE);
  assert_int_equal(fat_tensors_role(&other, FAT_TABLE + 2), FAT_ROLE_IN);
  assert_int_equal(fat_tensors_elements(&other, FAT_TABLE + 2), 2 * 9);
  assert_int_equal(fat_mod_add("itable2[i, j] > 0", FAT_MASK_MOD, &p, &err), FAT_OK);
  assert_int_equal(fat_mod_check(&p, &err), FAT_E_INPUT); /* of numbers and of whole ones */
}

/* Sums to which s comes unchanged need no derivative. */
static void derivatives_of_one_are_seen(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    bool adds, evenly;
  } cases[] = {{"s", true, true},
               {"1 + s - table0[i]", true, false},
               {"1 + s - table0[h, b] * (2.5 * i - j)", true, true},
               {"i * j + (s + 1)", true, false},
               {"1 - s", false, false},
               {"s + s", false, false},
               {"s * 1", false, false},
               {"3", false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_mod *m;
    assert_int_equal(fat_mod_parse(cases[i].text, FAT_MOD, &m, NULL), FAT_OK);
    if (fat_mod_adds(m) != cases[i].adds || fat_mod_adds_evenly(m) != cases[i].evenly)
      fail_msg("%s", cases[i].text);
    fat_mod_free(m);
  }
}

/* Numbers that grow evenly along a row are written as two parts, and no others but the size of one: what is
 * not whole at its ends, or might wrap around, is not. */
static void what_grows_evenly_has_two_parts(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int parts;
  } cases[] = {
      {"s + table0[h] * (j - i)", 2},
      {"s - (0.5 * i + j / 4 - (-i) * table0[b, h])", 8}, /* three of whole numbers, five made of them */
      {"s + 1.0 / (1 + abs(j - i))", 0},
      {"s - table0[h] * abs(i + k - q - j)", 1},
      {"s + min(0.5 * j, 3)", 2},
      {"s + 0.5 * i * j", 3},
      {"s + 0.5 * (i * j)", 0},
      {"s + 0.5 * (i - j - i + j)", 2},
      {"s + 0.5 * (j + itable0[h])", 0},
      {"s + 0.5 * (j + 1073741824)", 0},
      {"s + 0.5 * (h + b)", 0},
      {"s * j", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_mod *m;
    fat_text lines = {0};
    int parts = 0;
    assert_int_equal(fat_mod_parse(cases[i].text, FAT_MOD, &m, NULL), FAT_OK);
    fat_mod_emit(m, false, &lines);
    for (const char *at = fat_text_get(&lines); (at = strstr(at, ", e")) != NULL; at++)
      parts++;
    if (parts != cases[i].parts)
      fail_msg("'%s' has %d numbers of two parts: %s", cases[i].text, parts, fat_text_get(&lines));
    fat_text_free(&lines);
    fat_mod_free(m);
  }
}

/* Of summands beside s what they are at the first pair, with their signs, and of those that grow by what. */
static void what_is_added_evenly_has_a_course(void **state)
{
  (void)state;
  static const struct {
    const char *text, *course;
    int known; /* numbers of tables that are the same for all pairs */
  } cases[] = {
      {"s", "return {0.f, 0.f};\t", 0},
      {"s + 0.5", "const float v1 = 0.5f;\treturn {0.f + v1, 0.f};\t", 0},
      {"0.5 + s - j",
       "const float v0 = 0.5f;\tconst i32 b3 = i32(x.first_j);\tconst float b4 = float(b3), "
       "e4 = float(0 * x.rows_on + 1 * x.keys_on);\treturn {0.f - b4 + v0, 0.f - e4};\t",
       0},
      {"s + table0[h] - table1[q, b]",
       "const float v2 = known.at[0];\tconst float v6 = known.at[1];\treturn {0.f - v6 + v2, 0.f};\t", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_mod *m;
    fat_text lines = {0};
    assert_int_equal(fat_mod_parse(cases[i].text, FAT_MOD, &m, NULL), FAT_OK);
    fat_mod_emit_course(m, &lines);
    assert_string_equal(fat_text_get(&lines), cases[i].course);
    fat_text_clear(&lines);
    assert_int_equal(fat_mod_emit_known(m, &lines), cases[i].known);
    assert_true(!cases[i].known || strstr(fat_text_get(&lines), "return {{v"));
    fat_text_free(&lines);
    fat_mod_free(m);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_have_one_form),
      cmocka_unit_test(mistakes_are_told_by_column),
      cmocka_unit_test(depth_and_length_have_limits),
      cmocka_unit_test(what_was_told_is_known),
      cmocka_unit_test(what_is_added_evenly_has_a_course),
      cmocka_unit_test(derivatives_of_one_are_seen),
      cmocka_unit_test(what_grows_evenly_has_two_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
