/* test_generator_oom.c -- every allocation of the generator's calls, ours and Lua's, fails in turn (by
 * __wrap_malloc): the call says so, loses nothing, and the next one works. Run under AddressSanitizer too. */
#include "recipe.h"
#include "source.h"
#include "space.h"
#include "starve.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char problem_text[] = "fwd-f32-b1-h1-q64-k64-d256-causal";

typedef fat_status (*step)(fat_script **script, fat_error *err);

static fat_status open_script(fat_script **script, fat_error *err)
{
  return fat_script_open(NULL, script, err);
}

static fat_status list_space(fat_script **script, fat_error *err)
{
  fat_problem p;
  const fat_gpu *gpu;
  fat_space space;
  fat_status status = fat_problem_parse(problem_text, &p, err);
  if (status == FAT_OK)
    status = fat_gpu_find("T4", &gpu, err);
  if (status == FAT_OK)
    status = fat_space_list(*script, "fa1", &p, gpu, &space, err);
  if (status == FAT_OK)
    fat_space_free(&space);
  return status;
}

static fat_status render_source(fat_script **script, fat_error *err)
{
  fat_problem p;
  const fat_gpu *gpu;
  fat_config config;
  fat_source source;
  FAT_TRY(fat_problem_parse(problem_text, &p, err));
  FAT_TRY(fat_gpu_find("T4", &gpu, err));
  FAT_TRY(fat_config_parse("fwd:Br32-Bc16-T128-R2-W4-s0", &config, err));
  FAT_TRY(fat_source_render(*script, &p, gpu, &config, FAT_LINES_TEMPLATE, &source, err));
  fat_source_free(&source);
  return FAT_OK;
}

static fat_status list_kernels(fat_script **script, fat_error *err)
{
  char names[FAT_SPACE_KERNELS][FAT_CONFIG_KERNEL];
  int count;
  return fat_space_kernels(*script, names, &count, err);
}

/* Fails the first twenty allocations one by one (in the long form forty), later ones at growing distances,
 * until none is left to fail: they are many times more than the places that make them. A call may succeed in
 * spite of a refusal (Lua collects garbage and asks again) but never lie. */
static void starve_step(step make, bool needs_script, bool all_that_follow)
{
  const long each = getenv("FATUNE_FULL") ? 40 : 20;
  long failures = 0;
  for (long n = 0;; n += 1 + n / each) {
    fat_script *script = NULL;
    fat_error err = {0};
    if (needs_script)
      assert_int_equal(fat_script_open(NULL, &script, &err), FAT_OK);
    starve_after(n, all_that_follow);
    fat_status status = make(&script, &err);
    bool refused = starve_end();
    if (status != FAT_OK) {
      assert_true(refused);
      if (status != FAT_E_NOMEM)
        fail_msg("allocation %ld refused: status %d, '%s'", n, status, err.text);
      assert_string_not_equal(err.text, "");
      failures++;
      if (needs_script) /* the same script serves the next call */
        assert_int_equal(make(&script, &err), FAT_OK);
    }
    fat_script_close(script);
    if (!refused)
      break;
  }
  /* One refusal is mostly mended by Lua's collector; none at all after it is not. */
  assert_true(failures > (all_that_follow ? 5 : 0));
}

static void opening(void **state)
{
  (void)state;
  starve_step(open_script, false, true);
  starve_step(open_script, false, false);
}

static void listing_kernels(void **state)
{
  (void)state;
  starve_step(list_kernels, true, true);
}

static void listing_a_space(void **state)
{
  (void)state;
  starve_step(list_space, true, true);
  starve_step(list_space, true, false);
}

static void rendering(void **state)
{
  (void)state;
  starve_step(render_source, true, true);
  starve_step(render_source, true, false);
}

/* Nothing but the recipe itself is allocated; that it cannot be made smaller is no failure. */
static void making_a_recipe(void **state)
{
  (void)state;
  static const char text[] = "launch x grid 1 block 1 shared 0 args call\n";
  fat_recipe *recipe = NULL;
  for (int n = 0; n < 3; n++) {
    fat_error err = {0};
    starve_after(n, true);
    fat_status status = fat_recipe_make(text, &recipe, &err);
    assert_int_equal(starve_end(), n < 2);
    assert_int_equal(status, n == 0 ? FAT_E_NOMEM : FAT_OK);
    assert_int_equal(recipe == NULL, n == 0);
    assert_int_equal(err.text[0] != 0, n == 0);
    free(recipe);
  }
}

/* A call passes configs by that are not valid for its sizes: it allocates nothing for that. */
static void passing_a_config_by(void **state)
{
  (void)state;
  static const char text[] = "valid 100-9223372036854775807*max(1,ceildiv(q,64))\n"
                             "launch x grid 1 block 1 shared 0 args call\n";
  fat_recipe *recipe = NULL;
  const fat_sizes sizes = {.q = 1};
  fat_error err = {0};
  assert_int_equal(fat_recipe_make(text, &recipe, &err), FAT_OK);
  starve_after(0, true);
  assert_int_equal(fat_recipe_valid(recipe, &sizes, &err), FAT_E_UNSUPPORTED);
  assert_false(starve_end());
  assert_non_null(strstr(err.text, "100-9223372036854775807*max(1,ceildiv(q,64)) is -9223372036854775707,"));
  free(recipe);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opening),   cmocka_unit_test(listing_kernels), cmocka_unit_test(listing_a_space),
      cmocka_unit_test(rendering), cmocka_unit_test(making_a_recipe), cmocka_unit_test(passing_a_config_by),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
