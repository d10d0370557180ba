/* test_runtime_old.c -- plans with a driver that makes no tensor maps: a kernel that takes them is left out,
 * whether it is stored, preferred or asked for, and the next best one serves. What compiles needs an NVRTC.
 */
#define FAKE_DRIVER FAKES "/fake_cuda_old.so"
#include "kept.h"
#include "nvrtc.h"
#include "runtime_fixture.h"
#include "width.h"

#define HALF    "fwd-f16-b1-h2-q272-k80-d64"
#define JIT     FAKES "/../runtime/libfatune-jit.so.0"
#define MAPPED  "fwd_ws:Br128-Bc128-s2-q2-Q0-I2-P1-L0-Z1"
#define PLAIN   "fwd:Br128-Bc32-w4-s1-Q1-b1-Z1-W16"
#define OTHER   "fwd:Br64-Bc32-w4-s1-Q1-b1-Z1-W16"
#define NARROW1 "fwd:Br64-Bc32-w4-s1-Q1-b1-Z1-W1"

static const char words[] = "takes tensor maps, and this driver (for CUDA 11.8) makes none";

static int begin_old(void **state)
{
  begin(state);
  assert_null(cu.cuTensorMapEncodeTiled);
  setenv("FAKE_CUDA_VERSION", "11080", 1);
  return 0;
}

/* A version that an NVRTC is installed for. */
static int begin_compiling(void **state)
{
  fat_nvrtc *nvrtc = NULL;
  begin(state);
  setenv("FATUNE_JIT", JIT, 1);
  if (fat_nvrtc_open(13, &nvrtc, NULL) != FAT_OK)
    skip();
  fat_nvrtc_close(nvrtc);
  return 0;
}

static void store_row(const char *problem, const char *config, double ms, const char *twin_of)
{
  store((stored){.problem = problem,
                 .gpu = "H200",
                 .config = config,
                 .ms = ms,
                 .origin = FAT_MEASURED,
                 .twin_of = twin_of});
}

static void serves(const char *kernel, fatune_policy policy, const char *config, const char *pick)
{
  char line[FAT_CONFIG_TEXT + 16];
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, HALF, kernel, policy);
  snprintf(line, sizeof line, "kernel %s", config);
  describes(plan, line);
  snprintf(line, sizeof line, "pick %s", pick);
  describes(plan, line);
  if (!kernel) {
    describes(plan, "why left out: " MAPPED " of fwd-f16-b1-h2-");
    assert_non_null(strstr(fatune_describe(plan), words));
  }
  computes(plan, HALF, 0);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* The preferred kernel has won everywhere; what it beat serves now, the same problem's before a nearer time.
 */
static void the_beaten_serve(void **state)
{
  (void)state;
  for (int n = 1; n <= 20; n++) { /* more rows than are tried one by one */
    char problem[64];
    snprintf(problem, sizeof problem, "fwd-f16-b1-h2-q%d-k80-d64", 272 * n);
    store_row(problem, MAPPED, 1, NULL);
  }
  store_row(HALF, NARROW1, 2, MAPPED);
  serves(NULL, FATUNE_FAIL, NARROW1, "exact");
  store_row("fwd-f16-b1-h2-q544-k80-d64", OTHER, 3, NULL);
  serves(NULL, FATUNE_FALLBACK, OTHER, "nearest");
  serves("fwd", FATUNE_FALLBACK, OTHER, "nearest");
  store_row(HALF, PLAIN, 4, NULL);
  serves(NULL, FATUNE_FALLBACK, PLAIN, "exact");
  serves(NULL, FATUNE_FAIL, PLAIN, "exact");
}

static void nothing_else_is_stored(void **state)
{
  (void)state;
  fatune_plan *plan = NULL;
  store_row(HALF, MAPPED, 1, NULL);
  store((stored){
      .problem = HALF, .gpu = "H200", .config = "fa1:Br64-Bc64-w4-b1-W16", .ms = 2, .origin = FAT_MEASURED});
  fatune *h = open_usual();
  fatune_request r = request_of(HALF, FATUNE_FALLBACK);
  EXPECT(FATUNE_ERR_UNSUPPORTED, words, fatune_plan_make(h, &r, &plan));
  EXPECT(FATUNE_ERR_UNSUPPORTED, words, fatune_supported(h, &r));
  r.kernel = "fwd_ws";
  EXPECT(FATUNE_ERR_UNSUPPORTED, words, fatune_plan_make(h, &r, &plan));
  assert_null(plan);
  fatune_close(h);
}

/* -- compiled on demand */

static int kept_for(const char *problem, const char *kernel, bool maps)
{
  static fat_kept kept;
  fat_db *db = NULL;
  fat_problem p;
  MUST(fat_problem_parse(problem, &p, err));
  MUST(fat_db_open(path, NULL, FAT_DB_READ, &db, err));
  MUST(fat_kept_defaults(db, &p, fixture_gpu("H200"), kernel, maps, &kept, err));
  fat_db_close(db);
  return kept.count;
}

/* The default for want of maps is kept for such drivers, and for who asks for it. */
static void the_plain_default_is_compiled(void **state)
{
  (void)state;
  fatune *h = open_usual();
  fatune_plan *plan = plan_for(h, HALF, NULL, FATUNE_COMPILE);
  describes(plan, "pick default");
  describes(plan, "kernel fwd:");
  describes(plan, "kernel-from compiled now");
  give_source(plan, HALF, "kernel");
  give_source(plan, HALF, "twin");
  computes(plan, HALF, 0);
  computes(plan, HALF, 1);
  fatune_plan_free(plan);
  fatune_close(h);
  assert_int_equal(kept_for(HALF, NULL, false), 1);
  assert_int_equal(kept_for(HALF, NULL, true), 0);
  assert_int_equal(kept_for(HALF, "fwd", true), 1);
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  h = open_usual();
  plan = plan_for(h, HALF, NULL, FATUNE_FALLBACK);
  describes(plan, "kernel fwd:");
  describes(plan, "kernel-from stored");
  fatune_plan_free(plan);
  fatune_close(h);
}

/* What is the default anyway is kept for all drivers. */
static void a_family_without_maps(void **state)
{
  (void)state;
  fatune_plan *plan = NULL;
  fatune *h = open_usual();
  fatune_request r = request_of(ASKED, FATUNE_COMPILE);
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  describes(plan, "kernel fwd:");
  fatune_plan_free(plan);
  fatune_close(h);
  assert_int_equal(kept_for(ASKED, NULL, false), 1);
  assert_int_equal(kept_for(ASKED, NULL, true), 1);
}

/* Neither what is stored nor what is asked for is compiled in vain. */
static void no_compile_in_vain(void **state)
{
  (void)state;
  fatune_plan *plan = NULL;
  store((stored){
      .problem = HALF, .gpu = "H200", .config = MAPPED, .ms = 1, .origin = FAT_MEASURED, .no_cubin = true});
  fatune *h = open_usual();
  fatune_request r = request_of(HALF, FATUNE_COMPILE);
  r.kernel = "fwd_ws";
  EXPECT(FATUNE_ERR_UNSUPPORTED, "kernel fwd_ws takes tensor maps", fatune_plan_make(h, &r, &plan));
  plan = plan_for(h, HALF, NULL, FATUNE_COMPILE);
  describes(plan, "kernel fwd:");
  describes(plan, "why left out: " MAPPED);
  assert_null(strstr(fatune_describe(plan), "rebuild"));
  fatune_plan_free(plan);
  fatune_close(h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(the_beaten_serve, begin_old),
      cmocka_unit_test_setup(nothing_else_is_stored, begin_old),
      cmocka_unit_test_setup(the_plain_default_is_compiled, begin_compiling),
      cmocka_unit_test_setup(a_family_without_maps, begin_compiling),
      cmocka_unit_test_setup(no_compile_in_vain, begin_compiling),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
