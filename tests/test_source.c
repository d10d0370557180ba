/* test_source.c -- rendered kernels: the same text each time, a hash that means the code, one recipe, a
 * header that rebuilds it; and the golden renders.
 *
 * tests/golden/ holds, for each template and each file of templates/arch, one whole render, so that a change
 * of a template is seen as a change of CUDA; and hashes.txt with the source hash of each kernel on each
 * architecture. FATUNE_GOLDEN=update rewrites them. */
#include "changed.h"
#include "recipe.h"
#include "render.h"
#include "scripted.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fat_source render(const char *kernel, const char *problem, const fat_gpu *gpu, fat_lines lines)
{
  return render_default(script, kernel, problem, gpu, lines);
}

static void same_text_each_time(void **state)
{
  (void)state;
  fat_source a = render("fwd", "fwd-f32-b1-h1-q64-k64-d64-causal", render_gpu(75), FAT_LINES_TEMPLATE);
  fat_script *first = script;
  assert_int_equal(fat_script_open(NULL, &script, NULL), FAT_OK);
  fat_source b = render("fwd", "fwd-f32-b3-h8k2-q999-k1-d64-causal", render_gpu(75), FAT_LINES_TEMPLATE);
  assert_string_equal(fat_text_get(&a.text), fat_text_get(&b.text)); /* sizes are no part of it */
  assert_string_equal(fat_text_get(&a.recipe), fat_text_get(&b.recipe));
  fat_script_close(script);
  script = first;
  fat_source_free(&a);
  fat_source_free(&b);
}

static void the_hash_means_the_code(void **state)
{
  (void)state;
  fat_source a = render("fwd", "fwd-f32-b1-h1-q64-k64-d64", render_gpu(75), FAT_LINES_TEMPLATE);
  fat_source b = render("fwd", "fwd-f32-b1-h1-q64-k64-d64", render_gpu(75), FAT_LINES_GENERATED);
  fat_source c = render("fwd", "fwd-f32-b1-h1-q64-k64-d72", render_gpu(75), FAT_LINES_TEMPLATE);
  assert_string_equal(a.hash, b.hash); /* marks do not count */
  assert_string_not_equal(a.hash, c.hash);
  assert_null(strstr(fat_text_get(&b.text), "#line"));
  assert_non_null(strstr(fat_text_get(&a.text), "#line"));
  /* The digest again, from the text alone: entry names back to zeros, no comments, no blank lines. */
  char entry[32], hash[FAT_HASH_SIZE];
  snprintf(entry, sizeof entry, "_%.16s", a.hash);
  char *code = strstr(b.text.data, "\n\n") + 2;
  for (char *at = code; (at = strstr(at, entry)) != NULL; at++)
    memset(at + 1, '0', 16);
  fat_text bare = {0};
  for (char *line = code, *next; *line; line = next) {
    next = line + strcspn(line, "\n");
    *next++ = '\0';
    char *comment = strstr(line, "//"), *end = comment ? comment : next - 1;
    while (end > line && end[-1] == ' ')
      end--;
    if (end > line)
      fat_text_format(&bare, "%.*s\n", (int)(end - line), line);
  }
  fat_text_hash(bare.data, bare.length, hash);
  assert_string_equal(hash, a.hash);
  fat_text_free(&bare);
  fat_source_free(&a);
  fat_source_free(&b);
  fat_source_free(&c);
}

/* Comments say nothing to a compiler; two slashes within a string do. */
static void a_changed_comment_leaves_the_hash(void **state)
{
  (void)state;
  static const struct {
    const char *file, *old, *fresh;
    bool same;
  } changes[] = {
      {"fwd.cu", "// fwd.cu -- FlashAttention-2", "// Another first line", true},
      {"fwd.cu", "// fwd.cu -- ", "\n  // \"quoted\n\n// fwd.cu -- ", true},
      {"lib/simt.cuh", "S.at[r][c] = fmaf(", "// one more line\n          S.at[r][c] = fmaf(", true},
      {"lib/simt.cuh", "S.at[r][c] = fmaf(", "S.at[r][c]  = fmaf(", false},
      {"arch/sm75.cuh", "return threadIdx.x;", "return threadIdx.x; // of a block", true},
      {"arch/sm75.cuh", "return threadIdx.x;", "return threadIdx.y;", false},
      {"arch/sm75.cuh", "return threadIdx.x;", "asm(\"// a\"); return threadIdx.x;", false},
      {"arch/sm75.cuh", "return threadIdx.x;", "asm(\"\\\"// a\"); return threadIdx.x;", false},
  };
  char seen[sizeof changes / sizeof changes[0]][FAT_HASH_SIZE];
  fat_source usual = render("fwd", "fwd-f32-b1-h1-q64-k64-d64", render_gpu(75), FAT_LINES_TEMPLATE);
  for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
    folder f = changed_templates(changes[i].file, changes[i].old, changes[i].fresh);
    fat_script *own;
    assert_int_equal(fat_script_open(f.path, &own, NULL), FAT_OK);
    fat_source s =
        render_default(own, "fwd", "fwd-f32-b1-h1-q64-k64-d64", render_gpu(75), FAT_LINES_TEMPLATE);
    if ((strcmp(s.hash, usual.hash) == 0) != changes[i].same)
      fail_msg("'%s' for '%s': the hash is %s", changes[i].fresh, changes[i].old,
               changes[i].same ? "another" : "the same");
    /* The text itself keeps its comments. */
    const char *comment = strstr(changes[i].fresh, "// ");
    assert_true(!comment || strstr(fat_text_get(&s.text), comment));
    memcpy(seen[i], s.hash, sizeof seen[i]);
    fat_source_free(&s);
    fat_script_close(own);
    folder_remove(&f);
  }
  assert_string_not_equal(seen[6], seen[7]); /* a quote that is escaped ends no string */
  fat_source_free(&usual);
}

static void recipes_launch_what_there_is(void **state)
{
  (void)state;
  static const struct {
    const char *kernel;
    int launches;
  } kernels[] = {{"fwd", 1}, {"fa1", 1}, {"standard", 3}};
  for (int i = 0; i < 3; i++) {
    fat_source s =
        render(kernels[i].kernel, "fwd-f32-b2-h4-q100-k200-d64", render_gpu(80), FAT_LINES_TEMPLATE);
    fat_recipe *r = malloc(sizeof *r);
    assert_int_equal(fat_recipe_parse(fat_text_get(&s.recipe), r, NULL), FAT_OK);
    int launches = 0;
    for (int k = 0; k < r->steps; k++)
      if (r->step[k].kind == FAT_STEP_LAUNCH) {
        char opening[FAT_RECIPE_ENTRY + 1], tail[20];
        snprintf(opening, sizeof opening, "%s(", r->step[k].entry);
        snprintf(tail, sizeof tail, "_%.16s", s.hash);
        assert_non_null(strstr(fat_text_get(&s.text), opening));
        assert_non_null(strstr(r->step[k].entry, tail));
        fat_step_values values;
        const fat_sizes sizes = {.b = 2, .h = 4, .hk = 4, .q = 100, .k = 200, .sms = 108};
        assert_int_equal(fat_recipe_step(r, k, &sizes, &values, NULL), FAT_OK);
        assert_true(values.grid >= 1 && values.block >= 32 && values.block <= 1024);
        launches++;
      }
    assert_int_equal(launches, kernels[i].launches);
    free(r);
    fat_source_free(&s);
  }
}

static void the_text_stands_alone(void **state)
{
  (void)state;
  static const char *const kernels[] = {"fwd", "fa1", "standard"};
  for (int i = 0; i < 3; i++) {
    fat_source s = render(kernels[i], "fwd-f32-b1-h1-q64-k64-d64", render_gpu(90), FAT_LINES_TEMPLATE);
    const char *text = fat_text_get(&s.text);
    assert_null(strstr(text, "#include"));
    assert_null(strstr(text, "__CUDA_ARCH__"));
    assert_null(strstr(text, "$("));
    assert_null(strstr(text, "0000000000000000"));
    assert_non_null(strstr(text, "//   rebuild    nvcc -cubin -arch=sm_90a --std=c++17"));
    assert_non_null(strstr(text, s.hash));
    assert_null(strstr(text, "scored"));
    fat_source_free(&s);
  }
}

/* ---- golden
 * ------------------------------------------------------------------------------------------------- */

static bool updating(void)
{
  const char *value = getenv("FATUNE_GOLDEN");
  return value != NULL && strcmp(value, "update") == 0;
}

/* The header names the hash over all templates; a golden text leaves that line out. */
static void cut_line(char *text, const char *start)
{
  char *line = strstr(text, start);
  if (line != NULL) {
    char *next = strchr(line, '\n') + 1;
    memmove(line, next, strlen(next) + 1);
  }
}

static void compare_or_write(const char *path, const char *text)
{
  if (updating()) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return;
  }
  fat_text golden = {0};
  fat_error err = {0};
  if (fat_text_read_file(&golden, path, 1 << 20, &err) != FAT_OK)
    fail_msg("%s (FATUNE_GOLDEN=update writes it)", err.text);
  if (strcmp(fat_text_get(&golden), text) != 0)
    fail_msg("%s is no longer what is rendered: if the change is meant, run this test with "
             "FATUNE_GOLDEN=update and "
             "look at the diff",
             path);
  fat_text_free(&golden);
}

static void golden_renders(void **state)
{
  (void)state;
  static const struct {
    const char *kernel, *problem;
    int sm;
  } renders[] = {{"fwd", "fwd-f32-b1-h1-q64-k64-d64-causal", 75},
                 {"fa1", "fwd-f32-b1-h1-q64-k64-d64-causal", 75},
                 {"standard", "fwd-f32-b1-h1-q64-k64-d64-causal", 75},
                 {"bwd", "bwd-f16-b1-h1-q64-k64-d64-causal", 80}};
  for (size_t i = 0; i < sizeof renders / sizeof renders[0]; i++) {
    fat_source s =
        render(renders[i].kernel, renders[i].problem, render_gpu(renders[i].sm), FAT_LINES_GENERATED);
    char path[200];
    snprintf(path, sizeof path, "tests/golden/%s-sm%d.cu", renders[i].kernel, renders[i].sm);
    cut_line(s.text.data, "//   templates ");
    compare_or_write(path, fat_text_get(&s.text));
    fat_source_free(&s);
  }
}

static void golden_hashes(void **state)
{
  (void)state;
  static const char *const kernels[] = {"fwd", "fa1", "standard"};
  static const char *const families[] = {"d64", "d64-causal", "d40v72", "d128", "d256-causal"};
  static const int sms[] = {75, 80, 86, 89, 90, 100, 120};
  fat_text all = {0};
  for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
    for (int i = 0; i < 3; i++)
      for (size_t a = 0; a < sizeof sms / sizeof sms[0]; a++) {
        char problem[FAT_PROBLEM_TEXT];
        snprintf(problem, sizeof problem, "fwd-f32-b1-h1-q64-k64-%s", families[f]);
        fat_source s = render(kernels[i], problem, render_gpu(sms[a]), FAT_LINES_TEMPLATE);
        fat_text_format(&all, "%s %s sm%d %.16s\n", kernels[i], families[f], sms[a], s.hash);
        fat_source_free(&s);
      }
  compare_or_write("tests/golden/hashes.txt", fat_text_get(&all));
  fat_text_free(&all);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_text_each_time),
      cmocka_unit_test(the_hash_means_the_code),
      cmocka_unit_test(a_changed_comment_leaves_the_hash),
      cmocka_unit_test(recipes_launch_what_there_is),
      cmocka_unit_test(the_text_stands_alone),
      cmocka_unit_test(golden_renders),
      cmocka_unit_test(golden_hashes),
  };
  return cmocka_run_group_tests(tests, open_script, close_script);
}
