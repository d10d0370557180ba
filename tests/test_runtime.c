/* test_runtime.c -- the contract of libfatune, line by line: open, plan, run, why, and what each may do. */
#include "language.h"
#include "runtime_fixture.h"
#include <time.h>

static void texts_and_versions(void **state)
{
  (void)state;
  assert_string_equal(fatune_version(), FATUNE_VERSION);
  assert_int_equal(fatune_abi_version(), FATUNE_ABI_VERSION);
  for (int i = 0; i < FATUNE_STATUS_COUNT; i++) {
    assert_non_null(fatune_status_text((fatune_status)i));
    for (int j = 0; j < i; j++)
      assert_string_not_equal(fatune_status_text((fatune_status)i), fatune_status_text((fatune_status)j));
  }
  assert_string_equal(fatune_status_text(FATUNE_STATUS_COUNT), "unknown status");
  assert_string_equal(fatune_status_text((fatune_status)-1), "unknown status");
}

/* open -> plan -> workspace -> run, with the right numbers. */
static void one_call_from_end_to_end(void **state)
{
  (void)state;
  store_usual();
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, ASKED);
  size_t bytes = 1;
  MUST_RUN(fatune_workspace(plan, NULL, &bytes));
  assert_int_equal(bytes, 0);
  describes(plan, "problem " ASKED);
  describes(plan, "device H200 sm90-");
  describes(plan, "pick exact");
  describes(plan, "kernel " WIDE);
  describes(plan, "kernel-from stored");
  describes(plan, "kernel-alignment 16");
  describes(plan, "twin " NARROW);
  describes(plan, "row-origin measured");
  describes(plan, "row-ms 1\n");
  attention a = attention_make(ASKED, 0, 0);
  MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  assert_int_equal(cu.fake_launches("fwd_*"), 1);
  is_right(&a);
  assert_int_equal(cu.fake_findings(), 0);
  attention_free(&a);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* The kernels' own text, run by the emulator: what they are called with is what they need, several steps over
 * a workspace and the twin included. */
static void kernels_get_what_they_need(void **state)
{
  (void)state;
  const char *const problem = "fwd-f32-b1-h2k1-q5-k33-d64-causal";
  const struct {
    const char *kernel, *config;
    int64_t pad;
  } runs[] = {{"fwd", WIDE, 0},
              {"fwd", WIDE, 1},
              {"standard", "standard:Br32-Bc32-T128-R4-W2", 0},
              {"fa1", "fa1:Br64-Bc32-T128-R4-W4", 0}};
  store((stored){.problem = problem, .gpu = "H200", .config = NARROW, .ms = 2, .origin = FAT_MEASURED});
  cu.fake_compute(FAKE_EMULATE);
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    store((stored){
        .problem = problem, .gpu = "H200", .config = runs[i].config, .ms = 1, .origin = FAT_MEASURED});
    fatune *h = open_usual();
    fatune_plan *plan = NULL;
    fatune_request r = request_of(problem, FATUNE_FAIL);
    size_t bytes;
    r.kernel = runs[i].kernel;
    MUST_RUN(fatune_plan_make(h, &r, &plan));
    MUST_RUN(fatune_workspace(plan, NULL, &bytes));
    attention a = attention_make(problem, runs[i].pad, 0);
    MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, bytes ? device_memory(bytes) : NULL, NULL));
    assert_int_equal(cu.cuCtxSynchronize(), 0);
    is_right(&a);
    if (cu.fake_findings())
      fail_msg("%s: %s", runs[i].config, cu.fake_finding(0));
    attention_free(&a);
    fatune_plan_free(plan);
    fatune_close(h);
  }
}

/* What a caller passed is told in one line, whatever it holds. */
static void one_sentence(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of("fwd-f16-d64\nfoo\tbar\x1b[31m\xc2\x9b", FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_INPUT, "foo bar", fatune_plan_make(h, &r, &plan));
  for (const char *c = fatune_detail(); *c; c++)
    assert_true((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f);
  fatune_close(h);
}

/* Kernels of several steps with a workspace are given it, and refuse to run without. */
static void workspace(void **state)
{
  (void)state;
  const char *config = "standard:Br32-Bc32-T128-R4-W2";
  store((stored){.problem = ASKED, .gpu = "H200", .config = config, .ms = 1, .origin = FAT_MEASURED});
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_MISS, "nothing stored", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
  r.kernel = "standard"; /* only when asked for */
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  describes(plan, "kernel standard:");
  describes(plan, "kernel-alignment 8\n");
  size_t bytes = 0;
  MUST_RUN(fatune_workspace(plan, NULL, &bytes));
  assert_int_equal(bytes, 4 * 2 * 4 * 33 * 96); /* S with rows padded to whole tiles */
  attention a = attention_make(ASKED, 0, 0);
  EXPECT(FATUNE_ERR_INPUT, "workspace is NULL", fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  char *memory = device_memory(bytes);
  EXPECT(FATUNE_ERR_ALIGNMENT, "workspace", fatune_run(plan, tensors_of(&a), NULL, memory + 8, NULL));
  MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, memory, NULL));
  assert_int_equal(cu.fake_launches("standard_*"), 3);
  is_right(&a);
  attention_free(&a);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* exact -> nearest -> arch -> predicted, each chosen only where what is before it is missing. */
static void pick_order(void **state)
{
  (void)state;
  const struct {
    stored row;
    const char *pick;
  } steps[] = {
      {{.problem = NEAR, .gpu = "H200", .config = "fwd:Br32-Bc32-T128-R4-W4-s0", .origin = FAT_PREDICTED},
       "pick predicted"},
      {{.problem = NEAR, .gpu = "H100", .config = "fwd:Br16-Bc32-T64-R2-W4-s0", .origin = FAT_MEASURED},
       "pick arch"},
      {{.problem = NEAR, .gpu = "H200", .config = "fwd:Br16-Bc16-T64-R1-W4-s0", .origin = FAT_MEASURED},
       "pick nearest"},
      {{.problem = ASKED, .gpu = "H200", .config = WIDE, .origin = FAT_MEASURED}, "pick exact"},
  };
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    char line[FAT_CONFIG_TEXT + 16];
    stored row = steps[i].row;
    row.ms = 1;
    store(row);
    fatune *h = open_usual();
    fatune_plan *plan = NULL;
    fatune_request strict = request_of(ASKED, FATUNE_FAIL);
    bool exact = i == 3;
    assert_int_equal(fatune_plan_make(h, &strict, &plan), exact ? FATUNE_OK : FATUNE_ERR_MISS);
    fatune_plan_free(plan);
    plan = plan_of(h, ASKED);
    describes(plan, steps[i].pick);
    snprintf(line, sizeof line, "kernel %s", row.config);
    describes(plan, line);
    attention a = attention_make(ASKED, 0, 0);
    MUST_RUN(
        fatune_run(plan, tensors_of(&a), NULL, NULL, NULL)); /* tuned at one shape, launched at another */
    is_right(&a);
    attention_free(&a);
    fatune_plan_free(plan);
    fatune_close(h);
  }
}

/* Rows of other architectures never serve. */
static void a_miss(void **state)
{
  (void)state;
  store((stored){.problem = ASKED, .gpu = "T4", .config = WIDE, .ms = 1, .origin = FAT_MEASURED});
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  char why[2000];
  EXPECT(FATUNE_ERR_MISS, ASKED " on H200", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
  assert_int_equal(fatune_supported(h, &r), FATUNE_ERR_MISS);
  assert_int_equal(fatune_why(h, &r, why, sizeof why), FATUNE_ERR_MISS);
  for (int i = 0; i < 4; i++) {
    static const char *const lines[] = {"exact: no", "nearest: no", "arch: no", "predicted: no"};
    if (!strstr(why, lines[i]))
      fail_msg("no '%s' in %s", lines[i], why);
  }
  r.kernel = "nokernel"; /* a slip */
  EXPECT(FATUNE_ERR_MISS,
         "the request names kernel 'nokernel', and none of that name is stored that serves: " ASKED,
         fatune_plan_make(h, &r, &plan));
  r.problem = "fwd-f32-d64-causal";
  EXPECT(FATUNE_ERR_MISS, "kernel 'nokernel'", fatune_plan_make(h, &r, &plan));
  r = request_of(ASKED, FATUNE_FALLBACK);
  r.kernel = "";
  EXPECT(FATUNE_ERR_INPUT, "fatune_request.kernel is empty", fatune_plan_make(h, &r, &plan));
  r.kernel = NULL;
  /* Compiling is allowed, but switched off. */
  setenv("FATUNE_DISABLE_JIT", "1", 1);
  r.policy = FATUNE_COMPILE;
  EXPECT(FATUNE_ERR_MISS, "take FATUNE_DISABLE_JIT=1 out", fatune_plan_make(h, &r, &plan));
  unsetenv("FATUNE_DISABLE_JIT");
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  EXPECT(FATUNE_ERR_COMPILE, "/nowhere/libfatune-jit.so.0", fatune_plan_make(h, &r, &plan));
  EXPECT(FATUNE_ERR_COMPILE, "/nowhere/libfatune-jit.so.0", fatune_supported(h, &r));
  /* A library of another kind is told from ours. */
  setenv("FATUNE_JIT", FAKES "/fake_nvrtc_13.so", 1);
  EXPECT(FATUNE_ERR_COMPILE, "fatune_jit_abi", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
  fatune_close(h);
}

/* What was measured and cannot be launched here is not called unmeasured. */
static void measured_but_not_built(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FAIL);
  char why[2048];
  store((stored){
      .problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .no_content = true});
  EXPECT(FATUNE_ERR_MISS,
         "measured, but stored without a binary: " WIDE " for " ASKED "; let FATUNE_FALLBACK",
         fatune_plan_make(h, &r, &plan));
  assert_int_equal(fatune_why(h, &r, why, sizeof why), FATUNE_ERR_MISS);
  if (!strstr(why, "exact: what was measured of this problem on this device is left out"))
    fail_msg("%s", why);
  setenv("FATUNE_DISABLE_JIT", "1", 1);
  EXPECT(FATUNE_ERR_MISS, "; take FATUNE_DISABLE_JIT=1 out of the environment and let FATUNE_FALLBACK",
         fatune_plan_make(h, &r, &plan));
  r.policy = FATUNE_FALLBACK;
  EXPECT(FATUNE_ERR_MISS, "; take FATUNE_DISABLE_JIT=1 out of the environment, or take a package",
         fatune_plan_make(h, &r, &plan));
  r.problem = "fwd-f32-b1-h2-q64-k64-d128";
  EXPECT(FATUNE_ERR_MISS, "or take FATUNE_DISABLE_JIT=1 out", fatune_plan_make(h, &r, &plan));
  unsetenv("FATUNE_DISABLE_JIT");
  assert_null(plan);
  fatune_close(h);
}

/* why and supported load nothing, compile nothing and need no context. */
static void why_only_looks(void **state)
{
  (void)state;
  store_usual();
  assert_int_equal(cu.cuCtxSetCurrent(NULL), 0);
  fatune *h = open_usual();
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  char why[2000], small[12];
  long loads = cu.fake_calls("cuModuleLoadData");
  MUST_RUN(fatune_supported(h, &r));
  MUST_RUN(fatune_why(h, &r, why, sizeof why));
  MUST_RUN(fatune_why(h, &r, small, sizeof small));
  assert_int_equal(cu.fake_calls("cuModuleLoadData"), loads);
  assert_non_null(strstr(why, "exact: " WIDE " for " ASKED " on this device, measured 1 ms"));
  assert_memory_equal(small, why, sizeof small - 1);
  assert_int_equal(small[sizeof small - 1], 0);
  fatune_plan *plan = NULL;
  EXPECT(FATUNE_ERR_NO_CONTEXT, "cuCtxSetCurrent", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
  fatune_close(h);
}

/* The user's database lies over the system's; each alone is enough. */
static void two_databases(void **state)
{
  (void)state;
  char system[300];
  snprintf(system, sizeof system, "%s/system.db", files.path);
  unlink(system);
  store((stored){
      .problem = ASKED, .gpu = "H200", .config = NARROW, .ms = 1, .origin = FAT_MEASURED, .into = system});
  fatune_options o = {.size = sizeof o, .system_database = system};
  fatune *h = NULL;
  MUST_RUN(fatune_open(&o, &h)); /* no user's file yet */
  fatune_plan *plan = plan_of(h, ASKED);
  describes(plan, "kernel " NARROW);
  fatune_plan_free(plan);
  fatune_close(h);

  store((stored){.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 2, .origin = FAT_MEASURED});
  MUST_RUN(fatune_open(&o, &h));
  plan = plan_of(h, ASKED);
  describes(plan, "kernel " WIDE);
  describes(plan, "twin " NARROW); /* from below */
  fatune_plan_free(plan);
  fatune_close(h);

  o.database = ""; /* none */
  MUST_RUN(fatune_open(&o, &h));
  plan = plan_of(h, ASKED);
  describes(plan, "kernel " NARROW);
  fatune_plan_free(plan);
  fatune_close(h);

  o.system_database = "";
  MUST_RUN(fatune_open(&o, &h));
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  assert_int_equal(fatune_plan_make(h, &r, &plan), FATUNE_ERR_MISS);
  fatune_close(h);
  unlink(system);
}

/* A device that is a row of the GPU table is asked for under that row's facts, whatever its clock rounds to;
 * one that is no row, such as a MIG slice, under its own. */
static void devices_are_known_by_their_row(void **state)
{
  (void)state;
  store_usual();
  fatune *h = open_usual();
  fatune_plan *plan = plan_of(h, ASKED);
  char facts[FAT_GPU_FACTS], line[FAT_GPU_FACTS + 16];
  snprintf(line, sizeof line, "device H200 %s\n", fat_gpu_facts(fixture_gpu("H200"), facts));
  describes(plan, line);
  fatune_plan_free(plan);
  fatune_close(h);
}

static void arguments_are_checked(void **state)
{
  (void)state;
  store_usual();
  fatune *h = open_usual();
  fatune_plan *plan = NULL;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  size_t bytes;
  EXPECT(FATUNE_ERR_INPUT, "NULL", fatune_open(NULL, NULL));
  fatune_options o = {.size = 4};
  fatune *none = NULL;
  EXPECT(FATUNE_ERR_INPUT, "fatune_options.size is 4", fatune_open(&o, &none));
  assert_null(none);
  EXPECT(FATUNE_ERR_INPUT, "handle is NULL", fatune_plan_make(NULL, &r, &plan));
  EXPECT(FATUNE_ERR_INPUT, "request is NULL", fatune_plan_make(h, NULL, &plan));
  EXPECT(FATUNE_ERR_INPUT, "place for the plan", fatune_plan_make(h, &r, NULL));
  EXPECT(FATUNE_ERR_INPUT, "plan is NULL", fatune_workspace(NULL, NULL, &bytes));
  EXPECT(FATUNE_ERR_INPUT, "plan is NULL", fatune_run(NULL, NULL, NULL, NULL, NULL));
  assert_string_equal(fatune_describe(NULL), "");
  fatune_plan_free(NULL);
  fatune_close(NULL);
  const struct {
    fatune_request r;
    const char *word;
  } wrong[] = {
      {{.size = sizeof r}, "problem is NULL"},
      {{.size = sizeof r, .problem = "fwd-f15-b1-h1-q1-k1-d8"}, "column 5"},
      {{.size = sizeof r, .problem = ASKED, .policy = 3}, "policy is 3"},
      {{.size = sizeof r, .problem = ASKED, .flags = 6}, "flags is 6"},
      {{.size = 1, .problem = ASKED}, "fatune_request.size is 1"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    EXPECT(FATUNE_ERR_INPUT, wrong[i].word, fatune_plan_make(h, &wrong[i].r, &plan));
    EXPECT(FATUNE_ERR_INPUT, wrong[i].word, fatune_supported(h, &wrong[i].r));
    assert_null(plan);
  }
  /* A struct that has grown: what we do not know must be zero. */
  struct {
    fatune_request r;
    uint64_t newer;
  } grown = {.r = r};
  grown.r.size = sizeof grown;
  MUST_RUN(fatune_plan_make(h, &grown.r, &plan));
  fatune_plan_free(plan);
  grown.newer = 1;
  EXPECT(FATUNE_ERR_UNSUPPORTED, "fields", fatune_plan_make(h, &grown.r, &plan));
  plan = plan_of(h, ASKED);
  EXPECT(FATUNE_ERR_INPUT, "place for the size", fatune_workspace(plan, NULL, NULL));
  fatune_plan_free(plan);
  fatune_close(h);
}

/* Asking again gives the same plan; another policy, flag, kernel or context another one. Plans outlive the
 * handle, and the last of both leaves nothing behind. */
static void known_plans(void **state)
{
  (void)state;
  store_usual();
  fake_live before, after;
  cu.fake_count(&before);
  fatune *h = open_usual();
  fatune_plan *first = plan_of(h, ASKED), *again = plan_of(h, "fwd-f32-b2-h4k2-q33-k65-d64v64-causal"),
              *other;
  assert_ptr_equal(first, again);
  fatune_request r = request_of(ASKED, FATUNE_FAIL);
  MUST_RUN(fatune_plan_make(h, &r, &other));
  assert_ptr_not_equal(first, other);
  fatune_plan_free(other);
  r = request_of(ASKED, FATUNE_FALLBACK);
  r.flags = FATUNE_ALIGNED;
  MUST_RUN(fatune_plan_make(h, &r, &other));
  assert_ptr_not_equal(first, other);
  assert_null(strstr(fatune_describe(other), "\ntwin"));
  fatune_plan_free(other);
  r.kernel = "fwd";
  MUST_RUN(fatune_plan_make(h, &r, &other));
  fatune_plan_free(other);
  cu.fake_count(&after);
  assert_int_equal(after.modules, before.modules + 2); /* each cubin once, however many plans */
  fatune_plan_free(again);
  fatune_close(h);
  attention a = attention_make(ASKED, 0, 0);
  MUST_RUN(fatune_run(first, tensors_of(&a), NULL, NULL, NULL));
  is_right(&a);
  attention_free(&a);
  fatune_plan_free(first);
  cu.fake_count(&after);
  assert_int_equal(after.modules, before.modules);
}

/* More problems than are kept known: old ones are forgotten; a plan in hands stays good, and is given again.
 */
static void many_problems(void **state)
{
  (void)state;
  store_usual();
  fatune *h = open_usual();
  fatune_plan *first = plan_of(h, ASKED);
  for (int i = 1; i <= 600; i++) {
    char problem[100];
    snprintf(problem, sizeof problem, "fwd-f32-b1-h1-q%d-k%d-d64-causal", i, i);
    fatune_plan_free(plan_of(h, problem));
  }
  attention a = attention_make(ASKED, 0, 0);
  MUST_RUN(fatune_run(first, tensors_of(&a), NULL, NULL, NULL));
  is_right(&a);
  attention_free(&a);
  fatune_plan *anew = plan_of(h, ASKED);
  assert_ptr_equal(first, anew);
  fatune_plan_free(anew);
  fatune_plan_free(first);
  fatune_close(h);
}

/* Of this process: how busy the machine is counts for nothing. */
static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A program that reads what fatune_describe says finds a point in numbers, whatever language it speaks. */
static void numbers_have_a_point(void **state)
{
  (void)state;
  int made = 0;
  store((stored){.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1.5, .origin = FAT_MEASURED});
  for (int i = 0; i < LANGUAGES; i++) {
    const folder f = folder_make();
    if (language_speak(&f, i)) {
      fatune *h = open_usual();
      fatune_plan *plan = plan_of(h, ASKED);
      describes(plan, "row-ms 1.5\n");
      fatune_plan_free(plan);
      fatune_close(h);
      made++;
    }
    language_forget(&f);
  }
  if (made < LANGUAGES)
    skip(); /* no localedef, no tables of UTF-8, or no glibc */
}

/* A generous bound, for builds without sanitizers: bench_run prints the figures. */
static void planning_is_fast(void **state)
{
  (void)state;
  store_usual();
  fatune *h = open_usual();
  double start = seconds();
  fatune_plan *plan = plan_of(h, ASKED);
  double first = seconds() - start, known = 1;
  for (int i = 0; i < 50; i++) {
    start = seconds();
    fatune_plan *again = plan_of(h, ASKED);
    double took = seconds() - start;
    known = took < known ? took : known;
    fatune_plan_free(again);
  }
  printf("first plan %.2f ms, known problem %.2f us\n", 1e3 * first, 1e6 * known);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
  assert_true(first < 0.1);
  assert_true(known < 2e-4);
#endif
  fatune_plan_free(plan);
  fatune_close(h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(texts_and_versions, begin),
      cmocka_unit_test_setup(one_call_from_end_to_end, begin),
      cmocka_unit_test_setup(kernels_get_what_they_need, begin),
      cmocka_unit_test_setup(one_sentence, begin),
      cmocka_unit_test_setup(workspace, begin),
      cmocka_unit_test_setup(pick_order, begin),
      cmocka_unit_test_setup(a_miss, begin),
      cmocka_unit_test_setup(measured_but_not_built, begin),
      cmocka_unit_test_setup(why_only_looks, begin),
      cmocka_unit_test_setup(two_databases, begin),
      cmocka_unit_test_setup(devices_are_known_by_their_row, begin),
      cmocka_unit_test_setup(arguments_are_checked, begin),
      cmocka_unit_test_setup(known_plans, begin),
      cmocka_unit_test_setup(many_problems, begin),
      cmocka_unit_test_setup(numbers_have_a_point, begin),
      cmocka_unit_test_setup(planning_is_fast, begin),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
