/* test_recipe.c -- recipes both ways, the numbers of a launch, and how each mistake is told. */
#include "recipe.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const fat_sizes sizes = {.b = 2,
                                .h = 16,
                                .hk = 4,
                                .q = 100,
                                .k = 257,
                                .sms = 40,
                                .tq = 200,
                                .tk = 514,
                                .left = 63,
                                .right = 7,
                                .chunk = 32};
static const char usual[] = /* kernels, with every kind of argument */
    "workspace 8*b*h*q\n"
    "clear 4*b*h*q 4*b*h*q\n"
    "launch fa1_0123456789abcdef grid b*h block 128 shared 49152 args call ws(0) ws(4*b*h*q)\n"
    "launch last grid ceildiv(q,64)*b*h block min(q,256) shared 0 args int(SMs) call int(0-k)\n"
    "launch maps grid 1 block 128 shared 0 args mapQ(64) mapK(min(q,256)) mapV(b) mapO(1) call\n";
static const char every_word[] = /* that came later */
    "workspace 4*tq\n"
    "valid 2147483648-tq*h\n"
    "valid L+R+1\n"
    "reduces dQ\n"
    "launch one grid 8*b block 128 shared 0 cluster 2*b overlap args mapdO(64) mapdQ(16) mapdK(R+1) "
    "mapdV(L)\n"
    "launch two grid b block 128 shared 0 cluster 2 args call int(tk) int(chunk)\n"
    "launch three grid b block 128 shared 0 heads ceildiv(h,hk) overlap args mapQ(64) mapK(1) mapbias(1)\n";

/* Recipes are large: one for all tests. */
static fat_recipe recipe, other;

static void read_text(const char *text)
{
  fat_error err = {0};
  if (fat_recipe_parse(text, &recipe, &err) != FAT_OK)
    fail_msg("%s", err.text);
}

static void every_part_is_read_into_its_field(void **state)
{
  (void)state;
  read_text(usual);
  assert_int_equal(recipe.steps, 4);
  assert_true(recipe.workspace.count > 0);
  assert_int_equal(recipe.step[0].kind, FAT_STEP_CLEAR);
  assert_int_equal(recipe.step[1].kind, FAT_STEP_LAUNCH);
  assert_string_equal(recipe.step[1].entry, "fa1_0123456789abcdef");
  assert_int_equal(recipe.step[1].args, 3);
  assert_int_equal(recipe.step[1].arg[0].kind, FAT_ARG_CALL);
  assert_int_equal(recipe.step[1].arg[1].kind, FAT_ARG_WS);
  assert_int_equal(recipe.step[2].arg[0].kind, FAT_ARG_INT);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(recipe.step[3].arg[i].kind, FAT_ARG_MAP);
    assert_int_equal(recipe.step[3].arg[i].tensor, FAT_Q + i);
  }
  assert_int_equal(recipe.step[3].arg[4].kind, FAT_ARG_CALL);
  read_text("launch x grid 1 block 1 shared 0 args");
  assert_int_equal(recipe.workspace.count, 0);
  assert_int_equal(recipe.step[0].args, 0);
}

static void numbers_follow_the_sizes(void **state)
{
  (void)state;
  fat_error err = {0};
  fat_step_values v;
  int64_t bytes = -1;
  read_text(usual);
  assert_int_equal(fat_recipe_workspace(&recipe, &sizes, &bytes, &err), FAT_OK);
  assert_int_equal(bytes, 25600);
  assert_int_equal(fat_recipe_step(&recipe, 0, &sizes, &v, &err), FAT_OK);
  assert_true(v.offset == 12800 && v.bytes == 12800);
  assert_int_equal(fat_recipe_step(&recipe, 1, &sizes, &v, &err), FAT_OK);
  assert_true(v.grid == 32 && v.block == 128 && v.shared == 49152);
  assert_true(v.arg[0] == 0 && v.arg[1] == 0 && v.arg[2] == 12800);
  assert_int_equal(fat_recipe_step(&recipe, 2, &sizes, &v, &err), FAT_OK);
  assert_true(v.grid == 64 && v.block == 100 && v.shared == 0);
  assert_true(v.arg[0] == 40 && v.arg[1] == 0 && v.arg[2] == -257);
  assert_int_equal(fat_recipe_step(&recipe, 3, &sizes, &v, &err), FAT_OK);
  assert_true(v.arg[0] == 64 && v.arg[1] == 100 && v.arg[2] == 2 && v.arg[3] == 1 && v.arg[4] == 0);
  read_text("launch x grid 1 block 1 shared 0 args");
  assert_int_equal(fat_recipe_workspace(&recipe, &sizes, &bytes, &err), FAT_OK);
  assert_int_equal(bytes, 0);
}

static void clusters_overlap_and_totals(void **state)
{
  (void)state;
  fat_error err = {0};
  fat_step_values v;
  read_text(every_word);
  assert_int_equal(recipe.valids, 2);
  assert_int_equal(recipe.reduced, 1 << FAT_DQ);
  assert_true(recipe.step[0].overlap && !recipe.step[1].overlap && recipe.step[2].overlap);
  assert_int_equal(recipe.step[0].arg[0].tensor, FAT_DO);
  assert_int_equal(recipe.step[0].arg[3].tensor, FAT_DV);
  assert_int_equal(fat_recipe_step(&recipe, 0, &sizes, &v, &err), FAT_OK);
  assert_true(v.grid == 16 && v.cluster == 4 && v.arg[2] == 8 && v.arg[3] == 63);
  assert_int_equal(fat_recipe_step(&recipe, 1, &sizes, &v, &err), FAT_OK);
  assert_true(v.cluster == 2 && v.arg[1] == 514 && v.arg[2] == 32);
  assert_int_equal(fat_recipe_step(&recipe, 2, &sizes, &v, &err), FAT_OK);
  assert_true(v.cluster == 0 && v.heads == sizes.h / sizes.hk && v.heads > 1);
  assert_string_equal(fat_recipe_clustered(&recipe), "one");
  assert_string_equal(fat_recipe_mapped(&recipe), "one");
  read_text("launch a grid 1 block 1 shared 0 args call\nlaunch b grid 1 block 1 shared 0 overlap args");
  assert_null(fat_recipe_clustered(&recipe));
  assert_null(fat_recipe_mapped(&recipe));
  read_text(usual);
  assert_null(fat_recipe_clustered(&recipe));
}

/* Every line has its say; a number beyond 64 bits is no valid one. */
static void sizes_are_valid_or_not(void **state)
{
  (void)state;
  static const struct {
    const char *text, *says; /* NULL: valid */
  } cases[] = {
      {"valid 1\nlaunch x grid 1 block 1 shared 0 args", NULL},
      {"launch x grid 1 block 1 shared 0 args", NULL},
      {"valid 0\nlaunch x grid 1 block 1 shared 0 args", "sizes: 0 is 0, it must be above 0"},
      {"valid k-q\nvalid q-k\nlaunch x grid 1 block 1 shared 0 args", "sizes: q-k is -157, it must be"},
      {"valid k-q\nvalid 201-tq\nlaunch x grid 1 block 1 shared 0 args", NULL},
      {"valid 0-9223372036854775807*k\nlaunch x grid 1 block 1 shared 0 args", "is beyond 64 bits"},
      {"valid 2147483648-ceildiv(q,64)*b*h*67108864\nlaunch x grid 1 block 1 shared 0 args",
       "is -2147483648,"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_error err = {0};
    read_text(cases[i].text);
    assert_int_equal(fat_recipe_valid(&recipe, &sizes, &err), cases[i].says ? FAT_E_UNSUPPORTED : FAT_OK);
    if (cases[i].says && !strstr(err.text, cases[i].says))
      fail_msg("'%s' does not say '%s'", err.text, cases[i].says);
  }
}

/* What expressions are told of a problem. */
static void sizes_follow_the_problem(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int64_t left, right, chunk;
  } cases[] = {{"fwd-f16-b3-h8k2-q100-k257-d64", FAT_PROBLEM_ALL, FAT_PROBLEM_ALL, 0},
               {"fwd-f16-b3-h8k2-q100-k257-d64-causal", FAT_PROBLEM_ALL, 0, 0},
               {"fwd-f16-b3-h8k2-q100-k257-d64-causal-w63.0", 63, 0, 0},
               {"fwd-f16-b3-h8k2-q100-k257-d64-w5.x", 5, FAT_PROBLEM_ALL, 0},
               {"fwd-f16-b3-h8k2-q100-k257-d64-chunk128", FAT_PROBLEM_ALL, FAT_PROBLEM_ALL, 128}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_problem p;
    fat_error err = {0};
    if (fat_problem_parse(cases[i].text, &p, &err) != FAT_OK)
      fail_msg("%s", err.text);
    const fat_sizes s = fat_recipe_sizes(&p, 132);
    assert_true(s.b == 3 && s.h == 8 && s.hk == 2 && s.q == 100 && s.k == 257 && s.sms == 132);
    assert_true(s.tq == 300 && s.tk == 771);
    assert_true(s.left == cases[i].left && s.right == cases[i].right && s.chunk == cases[i].chunk);
  }
}

static void texts_become_canonical(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {usual, usual},
      {every_word, every_word},
      {" valid  (b)\n launch x grid (2) block 32 shared 0 cluster  (1+1)  overlap args  mapdV((3))",
       "valid b\nlaunch x grid 2 block 32 shared 0 cluster 1+1 overlap args mapdV(3)\n"},
      {"launch x grid 1 block 32 shared 0 args", "launch x grid 1 block 32 shared 0 args\n"},
      {"\n\n  workspace   (8*b)\t\n\n\tclear 0  (b)\nlaunch  x grid (h)*2 block 32   shared 0 args  call  "
       "\n\n",
       "workspace 8*b\nclear 0 b\nlaunch x grid h*2 block 32 shared 0 args call\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_text out = {0};
    read_text(cases[i][0]);
    other = recipe;
    fat_recipe_print(&recipe, &out);
    assert_string_equal(fat_text_get(&out), cases[i][1]);
    read_text(fat_text_get(&out));
    assert_memory_equal(&recipe, &other, sizeof recipe);
    fat_text_free(&out);
  }
}

static void mistakes_are_told_with_line_and_column(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"", "the recipe launches nothing"},
      {"workspace 4*b\n", "the recipe launches nothing"},
      {"workspace 4\nclear 0 4\n", "the recipe launches nothing"},
      {"start x",
       "line 1, column 1: expected 'workspace', 'valid', 'reduces', 'clear' or 'launch' before 'start x'"},
      {"valid 1\nworkspace 4",
       "line 2, column 1: expected 'valid', 'reduces', 'clear' or 'launch' before 'workspace 4'"},
      {"workspace 4\nlaunch x grid 1 block 1 shared 0 args\nvalid 1",
       "line 3, column 1: expected 'clear' or 'launch' before 'valid 1'"},
      {"reduces dq", "line 1, column 9: expected a tensor's name before 'dq'"},
      {"reduces", "line 1, column 8: expected a tensor's name at the end of the line"},
      {"reduces dQ dK", "line 1, column 12: expected the end of the line before 'dK'"},
      {"reduces dQ\nworkspace 4", "line 2, column 1: expected 'valid', 'reduces', 'clear' or 'launch'"},
      {"valid", "line 1, column 6: expected a whole number"},
      {"valid 1 2", "line 1, column 9: expected the end of the line"},
      {"valid 1\nvalid 1\nvalid 1\nvalid 1\nvalid 1", "line 5, column 7: expected no more 'valid' lines"},
      {"clear 0 1\nworkspace 4", "line 2, column 1: expected 'clear' or 'launch' before 'workspace 4'"},
      {"workspace 4\nworkspace 4", "line 2, column 1: expected 'valid', 'reduces', 'clear' or 'launch'"},
      {"workspace", "line 1, column 10: expected a whole number"},
      {"workspace 4 5", "line 1, column 13: expected the end of the line before '5'"},
      {"workspace 4*x", "line 1, column 13: expected a whole number, one of b h hk q k SMs tq tk L R chunk"},
      {"workspace 4/b", "line 1, column 12: expected an operator or a blank before '/b'"},
      {"clear 4", "line 1, column 8: expected a whole number"},
      {"launch", "line 1, column 7: expected the name of an entry"},
      {"launch 2x grid 1", "line 1, column 8: expected the name of an entry"},
      {"launch $x grid 1", "line 1, column 8: expected the name of an entry"},
      {"launch x", "line 1, column 9: expected 'grid' at the end of the line"},
      {"launch x-y grid 1", "line 1, column 9: expected 'grid' before '-y grid 1'"},
      {"launch x block 1", "line 1, column 10: expected 'grid' before 'block 1'"},
      {"launch x grid 1 shared 0", "line 1, column 17: expected 'block'"},
      {"launch x grid 1 block 1 args", "line 1, column 25: expected 'shared'"},
      {"launch x grid 1 block 1 shared 0",
       "line 1, column 33: expected 'cluster', 'heads', 'overlap' or 'args' at the end of the line"},
      {"launch x grid 1 block 1 shared 0 cluster", "column 41: expected a whole number"},
      {"launch x grid 1 block 1 shared 0 cluster 2", "column 43: expected 'heads', 'overlap' or 'args'"},
      {"launch x grid 1 block 1 shared 0 heads 2 cluster 2", "column 42: expected 'overlap' or 'args'"},
      {"launch x grid 1 block 1 shared 0 overlap", "column 41: expected 'args' at the end"},
      {"launch x grid 1 block 1 shared 0 overlap cluster 2 args", "column 42: expected 'args' before"},
      {"launch x grid 1 block 1 shared 0\nargs call",
       "line 1, column 33: expected 'cluster', 'heads', 'overlap' or 'args'"},
      {"launch x grid 1 block 1 shared 0 args foo",
       "column 39: expected an argument: call, ws(BYTES), int(VALUE) or map and a tensor's name, as in "
       "mapQ(ROWS), "
       "before 'foo'"},
      {"launch x grid 1 block 1 shared 0 args mapLSE(64)", "column 39: expected an argument"},
      {"launch x grid 1 block 1 shared 0 args mapQ", "column 39: expected an argument"},
      {"launch x grid 1 block 1 shared 0 args map(64)", "column 39: expected an argument"},
      {"launch x grid 1 block 1 shared 0 args mapX(64)", "column 39: expected an argument"},
      {"launch x grid 1 block 1 shared 0 args mapq(64)", "column 39: expected an argument"},
      {"launch x grid 1 block 1 shared 0 args mapK()", "column 44: expected a whole number"},
      {"launch x grid 1 block 1 shared 0 args ws", "column 39: expected an argument"},
      {"launch x grid 1 block 1 shared 0 args call(1)", "column 39: expected an argument"},
      {"launch x grid 1 block 1 shared 0 args ws(1", "column 43: expected an operator or ')'"},
      {"launch x grid 1 block 1 shared 0 args ws(1)call", "column 44: expected a blank before 'call'"},
      {"launch x grid 1 block 1 shared 0 args call call call call call call call call call call call call "
       "call "
       "call call call call",
       "column 119: expected no more"},
      {"launch abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl grid 1",
       "at most 63 letters"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_error err = {0};
    memset(&other, 0, sizeof other);
    memset(&recipe, 0x5a, sizeof recipe);
    assert_int_equal(fat_recipe_parse(cases[i][0], &recipe, &err), FAT_E_INPUT);
    if (strstr(err.text, cases[i][1]) == NULL)
      fail_msg("'%s' does not say '%s'", err.text, cases[i][1]);
    assert_memory_equal(&recipe, &other, sizeof recipe); /* empty on failure */
  }
}

static void steps_have_a_limit(void **state)
{
  (void)state;
  fat_text t = {0};
  fat_error err = {0};
  for (int i = 0; i < FAT_RECIPE_STEPS; i++)
    fat_text_add(&t, "launch x grid 1 block 1 shared 0 args call\n");
  read_text(fat_text_get(&t));
  assert_int_equal(recipe.steps, FAT_RECIPE_STEPS);
  fat_text_add(&t, "clear 0 0");
  assert_int_equal(fat_recipe_parse(fat_text_get(&t), &recipe, &err), FAT_E_INPUT);
  assert_non_null(strstr(err.text, "line 9, column 1: expected no more steps"));
  fat_text_free(&t);
}

static void senseless_numbers_are_errors(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"launch x grid 0 block 1 shared 0 args", "grid is 0: allowed are 1 to 2147483647"},
      {"launch x grid 0-b block 1 shared 0 args", "grid is -2: allowed are 1 to"},
      {"launch x grid 2147483648 block 1 shared 0 args", "grid is 2147483648: allowed are"},
      {"launch x grid 1 block 0 shared 0 args", "block is 0: allowed are 1 to 1024"},
      {"launch x grid 1 block 1025 shared 0 args", "block is 1025: allowed are 1 to 1024"},
      {"launch x grid 1 block 1 shared 0-1 args", "shared is -1: allowed are 0 to 1048576"},
      {"launch x grid 1 block 1 shared 1048577 args", "shared is 1048577: allowed are 0 to 1048576"},
      {"launch x grid 1 block 1 shared 0 args ws(1)", "a workspace argument is 1: allowed are 0 to 0"},
      {"workspace 8\nlaunch x grid 1 block 1 shared 0 args ws(9)",
       "a workspace argument is 9: allowed are 0 to 8"},
      {"workspace 8\nlaunch x grid 1 block 1 shared 0 args ws(0-1)", "a workspace argument is -1"},
      {"workspace 0-8\nlaunch x grid 1 block 1 shared 0 args", "workspace is -8: allowed are 0 to"},
      {"launch x grid 1 block 1 shared 0 args int(2147483648)", "an int argument is 2147483648: allowed are "
                                                                "-2147483648 to 2147483647"},
      {"launch x grid 1 block 1 shared 0 args int(0-2147483649)", "an int argument is -2147483649"},
      {"launch x grid 1 block 1 shared 0 args mapQ(0)",
       "the height of a tensor map's box is 0: allowed are 1 to 256"},
      {"launch x grid 1 block 1 shared 0 args call mapO(257)", "map's box is 257: allowed are 1 to 256"},
      {"launch x grid 1 block 1 shared 0 args mapV(k)", "map's box is 257: allowed are 1 to 256"},
      {"launch x grid 1 block 1 shared 0 args mapK(0-1)", "map's box is -1: allowed are 1 to 256"},
      {"launch x grid 1 block 1 shared 0 heads 0 args call", "heads of a box is 0: allowed are 1 to 256"},
      {"launch x grid 1 block 1 shared 0 heads 3 args mapO(64)",
       "64 rows of a box are no multiple of 3 heads"},
      {"launch x grid 8 block 1 shared 0 cluster 0 args", "cluster is 0: allowed are 1 to 8"},
      {"launch x grid 16 block 1 shared 0 cluster 16 args", "cluster is 16: allowed are 1 to 8"},
      {"launch x grid 9 block 1 shared 0 cluster 2 args",
       "a grid of 9 blocks is no multiple of its clusters of 2"},
      {"launch x grid ceildiv(q,b-2) block 1 shared 0 args",
       "grid: ceildiv(100,0): the divisor must be positive"},
      {"workspace 8*9223372036854775807\nlaunch x grid 1 block 1 shared 0 args", "workspace: 8 * 922"},
      {"workspace 8\nclear 9 0\nlaunch x grid 1 block 1 shared 0 args",
       "the offset of a clear is 9: allowed are 0 to 8"},
      {"workspace 8\nclear 4 5\nlaunch x grid 1 block 1 shared 0 args",
       "the bytes of a clear is 5: allowed are 0 to 4"},
      {"clear 0 1\nlaunch x grid 1 block 1 shared 0 args", "the bytes of a clear is 1: allowed are 0 to 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fat_error err = {0};
    fat_step_values v;
    read_text(cases[i][0]);
    assert_int_equal(fat_recipe_step(&recipe, 0, &sizes, &v, &err), FAT_E_INPUT);
    if (strstr(err.text, cases[i][1]) == NULL)
      fail_msg("'%s' does not say '%s'", err.text, cases[i][1]);
  }
}

static void the_largest_allowed_numbers_are_fine(void **state)
{
  (void)state;
  fat_error err = {0};
  fat_step_values v;
  read_text("workspace 8\nlaunch x grid 2147483647 block 1024 shared 1048576 args ws(8) int(2147483647) "
            "int(0-2147483648) mapQ(256) mapO(1)");
  assert_int_equal(fat_recipe_step(&recipe, 0, &sizes, &v, &err), FAT_OK);
  assert_true(v.grid == INT32_MAX && v.block == 1024 && v.shared == 1 << 20);
  assert_true(v.arg[0] == 8 && v.arg[1] == INT32_MAX && v.arg[2] == INT32_MIN);
  assert_true(v.arg[3] == 256 && v.arg[4] == 1);
  assert_int_equal(fat_recipe_step(&recipe, 1, &sizes, &v, &err), FAT_E_INPUT);
  assert_int_equal(fat_recipe_step(&recipe, -1, &sizes, &v, &err), FAT_E_INPUT);
}

static void a_problem_without_work_has_an_empty_grid(void **state)
{
  (void)state;
  fat_error err = {0};
  fat_step_values v;
  fat_sizes none[] = {sizes, sizes, sizes};
  none[0].b = none[1].q = none[2].k = 0;
  read_text("workspace b*q*k\nclear 0 b*q*k\nlaunch x grid b*q*k block 32 shared 0 args ws(b*q*k)");
  for (int i = 0; i < 3; i++) {
    assert_int_equal(fat_recipe_step(&recipe, 0, &none[i], &v, &err), FAT_OK);
    assert_int_equal(v.bytes, 0);
    assert_int_equal(fat_recipe_step(&recipe, 1, &none[i], &v, &err), FAT_OK);
    assert_int_equal(v.grid, 0);
  }
  read_text("launch x grid b-1 block 32 shared 0 args");
  assert_int_equal(fat_recipe_step(&recipe, 0, &none[0], &v, &err), FAT_E_INPUT);
}

static void no_beginning_of_a_text_is_read_beyond_its_end(void **state)
{
  (void)state;
  for (size_t n = 0; n < sizeof usual; n++) {
    char *part = strndup(usual, n); /* of its exact size, so that a sanitizer sees the byte behind it */
    assert_non_null(part);
    fat_status status = fat_recipe_parse(part, &recipe, NULL);
    assert_true(status == FAT_OK || status == FAT_E_INPUT);
    assert_true(status == FAT_OK || n < sizeof usual - 1);
    free(part);
  }
}

static void a_recipe_is_made_on_the_heap(void **state)
{
  (void)state;
  fat_error err = {0};
  fat_recipe *made = NULL;
  read_text(usual);
  assert_int_equal(fat_recipe_make(usual, &made, &err), FAT_OK);
  assert_memory_equal(made, &recipe, offsetof(fat_recipe, step) + 4 * sizeof recipe.step[0]);
  free(made);
  assert_int_equal(fat_recipe_make("clear 0 0", &made, &err), FAT_E_INPUT);
  assert_null(made);
  assert_non_null(strstr(err.text, "the recipe launches nothing"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_part_is_read_into_its_field),
      cmocka_unit_test(numbers_follow_the_sizes),
      cmocka_unit_test(clusters_overlap_and_totals),
      cmocka_unit_test(sizes_are_valid_or_not),
      cmocka_unit_test(sizes_follow_the_problem),
      cmocka_unit_test(texts_become_canonical),
      cmocka_unit_test(mistakes_are_told_with_line_and_column),
      cmocka_unit_test(steps_have_a_limit),
      cmocka_unit_test(senseless_numbers_are_errors),
      cmocka_unit_test(the_largest_allowed_numbers_are_fine),
      cmocka_unit_test(a_problem_without_work_has_an_empty_grid),
      cmocka_unit_test(no_beginning_of_a_text_is_read_beyond_its_end),
      cmocka_unit_test(a_recipe_is_made_on_the_heap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
