/* test_verify.c -- verification bites: a kernel that is wrong in one place comes out `wrong`, with the place
 * in words; the kernel as it stands comes out `ok`.
 *
 * The kernels' own text runs in the emulator, on the memory of the fake driver, as it is rendered or with one
 * piece of it changed. A piece that the text no longer has fails the test: the table then needs a look. What
 * kernels write beside their results, and results that change, are scripted faults of the fake. */
#include "mod.h"
#include "oracle/spots.h"
#include "render.h"
#include "runtime_fixture.h"
#include "worker/full.h"

#define CAUSAL   "fwd-f32-b1-h2-q40-k40-d8-causal"
#define FULL     "fwd-f32-b1-h2-q40-k40-d8"
#define BACKWARD "bwd-f32-b1-h2-q40-k40-d8-causal"
#define WINDOW   "fwd-f32-b1-h2-q40-k40-d8-w5.3"

static fat_driver *driver;
static fat_testbed testbed;

static int open_all(void **state)
{
  group_open(state);
  MUST(fat_driver_open(&driver, err));
  return 0;
}

static int close_all(void **state)
{
  fat_driver_close(driver);
  return group_close(state);
}

/* A T4 that runs what is written into the folder of sources. */
static int begin_t4(void **state)
{
  (void)state;
  fake_bench_clean(&bench, "T4");
  fake_bench_begin(&bench, 75);
  cu.fake_compute(FAKE_EMULATE);
  cu.fake_sources(files.path);
  testbed = (fat_testbed){.driver = driver};
  return 0;
}

static int end_t4(void **state)
{
  (void)state;
  fat_testbed_close(&testbed);
  return 0;
}

/* The text with every occurrence of a piece replaced; from malloc. */
static char *changed(const char *text, const char *piece, const char *instead)
{
  fat_text out = {0};
  if (!strstr(text, piece))
    fail_msg("the text has no '%s'", piece);
  for (const char *at; (at = strstr(text, piece)) != NULL; text = at + strlen(piece)) {
    fat_text_add_bytes(&out, text, (size_t)(at - text));
    fat_text_add(&out, instead);
  }
  fat_text_add(&out, text);
  MUST(fat_text_status(&out, err));
  return out.data;
}

/* A kernel's default config, its sources written; with `piece` (if any) replaced. */
static fat_subject subject_of(const char *kernel, const char *problem, const char *piece, const char *instead)
{
  fat_subject c = {.unit = 16};
  char name[64], hash[FAT_HASH_SIZE];
  size_t size;
  fat_problem p;
  fat_source source = render_default(script, kernel, problem, render_gpu(75), FAT_LINES_TEMPLATE);
  char *text = piece ? changed(fat_text_get(&source.text), piece, instead) : NULL;
  snprintf(name, sizeof name, "%.16s.cu", source.hash);
  folder_write(&files, name, text ? text : fat_text_get(&source.text));
  MUST(fat_problem_parse(problem, &p, err));
  void *cubin = cubin_of(fat_text_get(&source.recipe), &p, 75, &size);
  fat_text_hash(cubin, size, hash);
  MUST(fat_recipe_parse(fat_text_get(&source.recipe), &c.recipe, err));
  MUST(fat_module_load(driver, cubin, size, hash, &c.module, err));
  free(cubin);
  free(text);
  fat_source_free(&source);
  return c;
}

static fat_assignment assignment_of(const char *problem, bool bare)
{
  fat_assignment a = {.task = FAT_TASK_CHECK, .sms = 40, .l2 = 4096, .seed = 1, .bare = bare};
  MUST(fat_problem_parse(problem, &a.problem, err));
  return a;
}

static fat_verdict verify(const fat_subject *c, const char *problem, bool bare)
{
  fat_verdict v = {0};
  fat_assignment a = assignment_of(problem, bare);
  MUST(fat_testbed_prepare(&testbed, &a, err));
  MUST(fat_verify_cases(&testbed, &a, c, &v, err));
  return v;
}

/* The shape that is timed: its probe, and a second run. */
static fat_verdict verify_anchor(const fat_subject *c, const char *problem)
{
  fat_verdict v = {0};
  fat_assignment a = assignment_of(problem, false);
  fat_timer timer;
  fat_full full;
  double ms;
  MUST(fat_testbed_prepare(&testbed, &a, err));
  MUST(fat_timer_open(driver, &timer, err));
  MUST(fat_full_launch(&testbed, &a, c, &full, err));
  MUST(fat_full_probe(&full, &timer, &v, &ms, err));
  if (v.outcome == FAT_OUT_OK)
    MUST(fat_full_repeat(&full, &v, err));
  fat_timer_close(&timer);
  return v;
}

/* ---- kernels that are wrong ---- */

static const struct {
  const char *problem, *piece, *instead;
  const char *word; /* of the verdict's detail */
} mutants[] = {
    /* masks and tiles */
    {CAUSAL, "max(0, at.nk - behind)", "at.nk", "O[batch"},
    {CAUSAL, "max(0, at.nk - behind)", "min(at.nk, i + 1)", "O[batch"},
    {CAUSAL, "max(0, at.nk - behind)", "max(0, at.nk - behind - 1)", "O[batch"},
    {CAUSAL, "ceil_div(bottom.hi, Bc)", "bottom.hi / Bc", "O[batch"},
    {FULL, "return j < u32(seen.hi);", "return true;", "O[batch"},
    {WINDOW, "behind - a.R", "behind - a.R + 1", "O[batch"},
    {WINDOW, "at.nk - 1 - a.L", "at.nk - a.L", "O[batch"},
    {WINDOW, "min(top.lo / Bc, last)", "min(ceil_div(top.lo, Bc), last)", "O[batch"},
    {WINDOW, "ceil_div(bottom.lo, Bc)", "0", "O[batch"},
    /* the online softmax */
    {FULL, "scale_rows(O, f);", ";", "O[batch"},
    {FULL, "l = f * l;", ";", "O[batch"},
    {FULL, "if (a.scale < 0.f) {", "if (false) {", "negative scale"},
    {FULL, "scale_rows(O, end.factor);", "", "O[batch"},
    {CAUSAL, "l == 0.f ? 0.f : 1.f / l", "1.f / l", "O[batch"},
    {CAUSAL, "l == 0.f ? -minus_inf()", "l == 0.f ? minus_inf()", "LSE[batch"},
    {FULL, "(c * m + lg2(l)) * ln2", "lg2(l) * ln2", "LSE[batch"},
    {FULL, "(c * m + lg2(l)) * ln2", "c * m + lg2(l)", "LSE[batch"},
    /* figures that are nearly right */
    {FULL, "1.f / l", "1.00002f / l", "O[batch"},
    {FULL, "(c * m + lg2(l)) * ln2", "(c * m + lg2(l)) * 0.69313f", "LSE[batch"},
    /* indices */
    {FULL, "h / (a.h / a.hk)", "h % a.hk", "O[batch"},
    {FULL, "hk * a.V.h", "hk * a.K.h", "O[batch"},
    {FULL, "h * a.Q.h", "h * a.O.h", "O[batch"},
    /* what is not its own */
    {FULL, "lane_of() == 0 && row_of<rows_>(r) < n - i0", "lane_of() == 0 && row_of<rows_>(r) < n + 1 - i0",
     "no element of O or LSE"},
    {FULL, "if (at.LSE)", "if (false)", "LSE[batch"},
};

static void every_mutant_is_wrong(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
    begin_t4(state);
    fat_subject c = subject_of("fwd", mutants[i].problem, mutants[i].piece, mutants[i].instead);
    fat_verdict v = verify(&c, mutants[i].problem, true);
    if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, mutants[i].word))
      fail_msg("'%s' for '%s': outcome %d, '%s'", mutants[i].instead, mutants[i].piece, (int)v.outcome,
               v.detail);
    print_message("'%s' for '%s': %s\n", mutants[i].instead, mutants[i].piece, v.detail);
    fat_module_free(c.module);
    end_t4(state);
  }
}

/* ---- kernels that are right ---- */

/* In all rounds, over poison, with the shape that would be timed. There O and LSE of a backward call are made
 * up: no kernel may take them for those of its own P. */
static void the_kernels_are_right(void **state)
{
  static const struct {
    const char *kernel, *problem;
  } of[] = {{"fwd", CAUSAL},
            {"standard", FULL},
            {"fa1", CAUSAL},
            {"fwd", WINDOW},
            {"standard", WINDOW},
            {"fa1", CAUSAL "-w5.0"},
            {"standard_bwd", BACKWARD},
            {"fa1_bwd", BACKWARD},
            {"bwd", BACKWARD},
            {"fwd", FULL "-mask"},
            {"bwd", "bwd-f32-b2-h2-q20-k40-d8-lpad"}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    begin_t4(state);
    const char *kernel = of[i].kernel, *problem = of[i].problem;
    fat_subject c = subject_of(kernel, problem, NULL, NULL);
    fat_verdict v = verify(&c, problem, false);
    if (v.outcome != FAT_OUT_OK)
      fail_msg("%s: %s", kernel, v.detail);
    assert_true(v.error_max > 0 && v.error_max <= v.error_allowed);
    v = verify_anchor(&c, problem);
    if (v.outcome != FAT_OUT_OK)
      fail_msg("%s: %s", kernel, v.detail);
    fat_module_free(c.module);
    if (cu.fake_findings())
      fail_msg("%s: %s", kernel, cu.fake_finding(0));
    end_t4(state);
  }
}

/* What lies behind a tensor of bytes is poison of whole words. */
static void guards_of_bytes_are_whole(void **state)
{
  (void)state;
  const fat_slot slot = {.bytes = 1};
  const uint32_t poison = FAT_IMAGE_POISON;
  const unsigned char one = 1;
  for (int i = 0; i < 4; i++)
    assert_true(fat_image_poisoned(&slot, (const char *)&poison + i));
  assert_false(fat_image_poisoned(&slot, &one));
}

/* Rows of the most columns that V may have, of the widest elements. */
static void the_widest_rows_are_right(void **state)
{
  static const char problem[] = "fwd-f32-b1-h2-q20-k33-d8v512-causal";
  (void)state;
  fat_subject c = subject_of("fwd", problem, NULL, NULL);
  fat_verdict v = verify(&c, problem, true);
  if (v.outcome == FAT_OUT_OK)
    v = verify_anchor(&c, problem);
  if (v.outcome != FAT_OUT_OK)
    fail_msg("%s", v.detail);
  fat_module_free(c.module);
}

/* A kernel that is wrong from 41 keys on, by a recipe that serves fewer. */
static void sizes_that_a_config_does_not_serve_are_passed_by(void **state)
{
  (void)state;
  fat_subject c =
      subject_of("fwd", FULL, "scale_rows(O, end.factor);", "if (at.nk <= 40) scale_rows(O, end.factor);");
  fat_verdict v = verify(&c, FULL, false);
  assert_int_equal(v.outcome, FAT_OUT_WRONG);
  fat_source source = render_default(script, "fwd", FULL, render_gpu(75), FAT_LINES_TEMPLATE);
  char *fewer = changed(fat_text_get(&source.recipe), "launch ", "valid 41-k\nlaunch ");
  MUST(fat_recipe_parse(fewer, &c.recipe, err));
  v = verify(&c, FULL, false);
  if (v.outcome != FAT_OUT_OK)
    fail_msg("%s", v.detail);
  assert_true(v.error_max > 0);
  free(fewer);
  fat_source_free(&source);
  fat_module_free(c.module);
}

/* ---- what only the shape that is timed shows ---- */

/* An expression whose scores grow with the distance: of a made-up LSE any result would be allowed. */
static void what_allows_anything_is_not_judged(void **state)
{
  static const char *const texts[] = {"s + table0[h] * (j - i)", "s + table0[h]"};
  float *block = fat_spots_block(1);
  (void)state;
  for (int i = 0; i < 2; i++) {
    fat_problem p;
    fat_spots spots;
    MUST(fat_problem_parse("bwd-f16-b1-h2-q64-k4096-d64", &p, err));
    MUST(fat_mod_add(texts[i], FAT_MOD, &p, err));
    MUST(fat_spots_make(&p, block, &spots, err));
    assert_int_equal(spots.untold, i == 0);
    assert_int_equal(spots.rows[FAT_OF_Q], i == 0 ? 0 : FAT_SPOTS_ROWS);
    assert_true(i == 0 || spots.allowed[FAT_DQ][0] < 1);
    fat_spots_free(&spots);
  }
  free(block);
}

static const struct {
  const char *piece, *instead, *word;
} at_anchor[] = {
    {"if (at.LSE)", "if (at.LSE && at.nq != 40)", "LSE of batch 0, head 0, row 0"},
    {"scale_rows(O, end.factor);", "if (at.nq != 40) scale_rows(O, end.factor);", "O of batch 0"},
    {"row_of<rows_>(r) < n - i0)\n      to[", "row_of<rows_>(r) < n + (n == 40) - i0)\n      to[",
     "behind LSE"},
};

static void the_anchor_is_looked_at(void **state)
{
  for (size_t i = 0; i < sizeof at_anchor / sizeof *at_anchor; i++) {
    begin_t4(state);
    fat_subject c = subject_of("fwd", FULL, at_anchor[i].piece, at_anchor[i].instead);
    fat_verdict v = verify(&c, FULL, true);
    if (v.outcome != FAT_OUT_OK)
      fail_msg("'%s' shows in the small cases: %s", at_anchor[i].instead, v.detail);
    v = verify_anchor(&c, FULL);
    if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, at_anchor[i].word))
      fail_msg("'%s': outcome %d, '%s'", at_anchor[i].instead, (int)v.outcome, v.detail);
    fat_module_free(c.module);
    end_t4(state);
  }
}

/* Rows that nobody knows are looked at too: they must have been written, and be the same again. */
static void all_of_the_anchor_is_written_and_stays(void **state)
{
  static const char problem[] = "fwd-f32-b1-h2-q300-k8-d8";
  (void)state;
  fat_subject c =
      subject_of("fwd", problem, "row_of<rows_>(r) < n - i0)\n      to[",
                 "row_of<rows_>(r) < n - i0 && (n != 300 || i0 + row_of<rows_>(r) != 77))\n      to[");
  fat_verdict v = verify_anchor(&c, problem);
  if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, "unwritten"))
    fail_msg("outcome %d, '%s'", (int)v.outcome, v.detail);
  fat_module_free(c.module);
  c = subject_of("fwd", CAUSAL, NULL, NULL);
  cu.fake_fault("fwd_*=unstable");
  v = verify_anchor(&c, CAUSAL);
  if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, "other bits in run 2"))
    fail_msg("outcome %d, '%s'", (int)v.outcome, v.detail);
  fat_module_free(c.module);
}

/* A recipe that asks for less workspace than its kernels write: the guard behind it shows it. */
static void the_workspace_is_guarded(void **state)
{
  (void)state;
  fat_subject c = subject_of("fa1", FULL, NULL, NULL);
  fat_source source = render_default(script, "fa1", FULL, render_gpu(75), FAT_LINES_TEMPLATE);
  char *less = changed(fat_text_get(&source.recipe), "workspace ", "workspace 0-8+");
  MUST(fat_recipe_parse(less, &c.recipe, err));
  fat_verdict v = verify(&c, FULL, false);
  if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, "behind the workspace"))
    fail_msg("outcome %d, '%s'", (int)v.outcome, v.detail);
  free(less);
  fat_source_free(&source);
  fat_module_free(c.module);
}

/* ---- what a device does wrong ---- */

static void results_that_change_are_wrong(void **state)
{
  static const struct {
    const char *fault, *word;
  } faults[] = {{"fwd_*=unstable", "other bits"},
                {"fwd_*=wrong", "is 1000, right is"},
                {"fwd_*=nan", "off by inf"},
                {"fwd_*=stray", "no element of O or LSE"}};
  (void)state;
  cu.fake_compute(FAKE_REFERENCE);
  fat_subject c = subject_of("fwd", CAUSAL, NULL, NULL);
  assert_int_equal(verify(&c, CAUSAL, false).outcome, FAT_OUT_OK);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    cu.fake_fault(faults[i].fault);
    fat_verdict v = verify(&c, CAUSAL, false);
    if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, faults[i].word))
      fail_msg("%s: outcome %d, '%s'", faults[i].fault, (int)v.outcome, v.detail);
  }
  cu.fake_fault("");
  assert_int_equal(verify(&c, CAUSAL, false).outcome, FAT_OUT_OK);
  fat_module_free(c.module);
}

/* Another op goes the same way: its own inputs, of which O and LSE are the forward's, its own outputs, rows
 * of Q and keys. The fake's reference stands in for a kernel. */
static void gradients_are_verified(void **state)
{
  static const char problem[] = "bwd-f16-b1-h4k2-q40-k56-d16v8-causal-w9.0",
                    family[] = "bwd-f16-d16v8-causal-w";
  static const char recipe[] = "launch bwd_0123456789abcdef grid 1 block 32 shared 0 args call\n";
  static const struct {
    const char *fault, *word;
  } faults[] = {{"bwd_*=unstable", "other bits"},
                {"bwd_*=wrong", "dQ[batch 0, head 0, row 0, column "},
                {"bwd_*=nan", "off by inf"},
                {"bwd_*=stray", "no element of dQ, dK or dV"}};
  (void)state;
  char hash[FAT_HASH_SIZE], source[256];
  size_t size;
  fat_subject c = {.unit = 16};
  snprintf(source, sizeof source, "// A source.\n//   family     %s\n//   config     bwd:Br16\n", family);
  folder_write(&files, "0123456789abcdef.cu", source);
  cu.fake_compute(FAKE_REFERENCE);
  fat_problem p;
  MUST(fat_problem_parse(problem, &p, err));
  void *cubin = cubin_of(recipe, &p, 75, &size);
  fat_text_hash(cubin, size, hash);
  MUST(fat_recipe_parse(recipe, &c.recipe, err));
  MUST(fat_module_load(driver, cubin, size, hash, &c.module, err));
  free(cubin);
  fat_verdict v = verify(&c, problem, false);
  if (v.outcome != FAT_OUT_OK)
    fail_msg("%s", v.detail);
  v = verify_anchor(&c, problem);
  if (v.outcome != FAT_OUT_OK)
    fail_msg("%s", v.detail);
  for (int side = 0; side < 2; side++)
    assert_int_equal(testbed.spots.rows[side], FAT_SPOTS_ROWS);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    cu.fake_fault(faults[i].fault);
    v = verify(&c, problem, false);
    if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, faults[i].word))
      fail_msg("%s: outcome %d, '%s'", faults[i].fault, (int)v.outcome, v.detail);
  }
  cu.fake_fault("bwd_*=wrong");
  v = verify_anchor(&c, problem);
  if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, "dQ of batch 0, head 0, row 0"))
    fail_msg("outcome %d, '%s'", (int)v.outcome, v.detail);
  /* Where dQ is summed in no fixed order its last bit may change, and no more; the bits of others may not. */
  c.recipe.reduced = 1u << FAT_DQ;
  for (size_t i = 1; i < sizeof faults / sizeof *faults; i++) {
    cu.fake_fault(faults[i].fault);
    v = verify(&c, problem, false);
    if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, faults[i].word))
      fail_msg("%s: outcome %d, '%s'", faults[i].fault, (int)v.outcome, v.detail);
  }
  cu.fake_fault("bwd_*=unstable");
  v = verify(&c, problem, false);
  if (v.outcome != FAT_OUT_OK)
    fail_msg("%s", v.detail);
  v = verify_anchor(&c, problem);
  if (v.outcome != FAT_OUT_OK)
    fail_msg("%s", v.detail);
  c.recipe.reduced = 1u << FAT_DV;
  v = verify(&c, problem, false);
  if (v.outcome != FAT_OUT_WRONG || !strstr(v.detail, "other bits"))
    fail_msg("outcome %d, '%s'", (int)v.outcome, v.detail);
  cu.fake_fault("");
  fat_module_free(c.module);
}

/* A failing call is a status, not an outcome: who is to blame for it is decided elsewhere. */
static void failing_calls_are_told(void **state)
{
  static const struct {
    const char *fault;
    fat_status status;
  } faults[] = {{"cuMemcpyHtoD#1=1", FAT_E_CUDA},
                {"cuMemcpyDtoH#1=1", FAT_E_CUDA},
                {"fwd_*=701", FAT_E_LAUNCH},
                {"fwd_*=700", FAT_E_CONTEXT_DEAD}};
  fat_verdict v = {0};
  fat_assignment a = assignment_of(CAUSAL, false);
  (void)state;
  cu.fake_compute(FAKE_REFERENCE);
  fat_subject c = subject_of("fwd", CAUSAL, NULL, NULL);
  MUST(fat_testbed_prepare(&testbed, &a, err));
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    fat_error err = {0};
    cu.fake_fault(faults[i].fault);
    if (fat_verify_cases(&testbed, &a, &c, &v, &err) != faults[i].status)
      fail_msg("%s: status %d: %s", faults[i].fault, (int)err.status, err.text);
    assert_string_not_equal(err.text, "");
  }
  cu.fake_fault("");
  fat_module_free(c.module);
}

#define ON_T4(test) cmocka_unit_test_setup_teardown(test, begin_t4, end_t4)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_kernels_are_right),
      cmocka_unit_test(guards_of_bytes_are_whole),
      ON_T4(sizes_that_a_config_does_not_serve_are_passed_by),
      cmocka_unit_test(every_mutant_is_wrong),
      ON_T4(the_widest_rows_are_right),
      cmocka_unit_test(what_allows_anything_is_not_judged),
      cmocka_unit_test(the_anchor_is_looked_at),
      ON_T4(all_of_the_anchor_is_written_and_stays),
      ON_T4(the_workspace_is_guarded),
      ON_T4(results_that_change_are_wrong),
      ON_T4(gradients_are_verified),
      ON_T4(failing_calls_are_told),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
