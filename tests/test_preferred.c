/* test_preferred.c -- two kernels that a call may be given: which one it is given untuned, which one tuned,
 * and what takes the tensors that the one for tensor maps cannot take. What tunes or compiles needs an NVRTC.
 */
#include "search/agenda.h"
#include "search/effort.h"
#include "nvrtc.h"
#include "runtime_fixture.h"
#include "twin.h"
#include "usual.h"
#include "width.h"

#define HALF     "fwd-f16-b1-h2-q272-k80-d64"
#define JIT      FAKES "/../runtime/libfatune-jit.so.0"
#define PROGRAM  FAKES "/../fatune"
#define STANDIN  "fwd:Br128-Bc32-w4-s1-Q1-b1-Z1-W1"
#define BASELINE "fa1:Br64-Bc64-w4-b1-W1" /* takes any tensors, and is given to nobody who did not item */
#define FASTER   "fwd:Br64-Bc32-w4-s1-Q1-b1-Z1-W1"

/* The default config of a kernel for HALF on an H200. */
static fat_config default_of(const char *kernel)
{
  fat_problem p;
  fat_point point;
  MUST(fat_problem_parse(HALF, &p, err));
  MUST(fat_space_default(script, kernel, &p, fixture_gpu("H200"), &point, err));
  return point.config;
}

/* -- what the templates say */

static void defaults_of_gpus(void **state)
{
  static const struct {
    const char *problem, *gpu, *asked, *kernel;
    int unasked;
  } rows[] = {
      {HALF, "H200", NULL, "fwd_ws", 1},
      {HALF, "H100 SXM", NULL, "fwd_ws", 1},
      {HALF, "A100 40GB SXM", NULL, "fwd", 1},
      {HALF, "T4", NULL, "fwd", 1},
      {"fwd-bf16-b1-h2-q64-k64-d192-causal", "H200", NULL, "fwd_ws", 1},
      {"fwd-bf16-b1-h2-q256-k256-d128-causal", "H200", NULL, "fwd", 1}, /* few heads */
      {"fwd-bf16-b1-h2-q256-k257-d128-causal", "H200", NULL, "fwd_ws", 1},
      {"fwd-bf16-b1-h2-q97-k97-d128", "H200", NULL, "fwd_ws", 1},
      {"fwd-bf16-b32-h16-q96-k96-d128-causal", "H200", NULL, "fwd", 1},
      {"fwd-bf16-b32-h16-q97-k97-d128-causal", "H200", NULL, "fwd_ws", 1},
      {"fwd-bf16-b32-h16-q97-k97-d64", "H200", NULL, "fwd_ws", 1},
      {"fwd-bf16-b32-h16-q256-k256-d64-causal", "H200", NULL, "fwd_ws", 1}, /* several blocks on an SM */
      {"fwd-bf16-b1-h16-q256-k256-d64-causal", "H200", NULL, "fwd", 1},
      {"fwd-bf16-b32-h16-q256-k256-d64-varlen", "H200", NULL, "fwd", 1},
      {"fwd-bf16-b32-h16-q256-k256-d64-causal-softcap", "H200", NULL, "fwd_ws", 1},
      {"fwd-bf16-b1-h6k2-q64-k64-d64-causal", "H200", NULL, "fwd", 1},
      {"fwd-f16-b64-h3-q49-k49-d32", "H200", NULL, "fwd", 1},
      {ASKED, "H200", NULL, "fwd", 1},
      {"fwd-bf16-b1-h32k8-q8-k16384-d128-causal", "H200", NULL, "fwd", 1},
      {"fwd-bf16-b1-h32k8-q9-k16384-d128-causal", "H200", NULL, "fwd_ws", 1},
      {"fwd-bf16-b1-h32k8-q9-k2048-d128-causal", "H200", NULL, "fwd", 1},
      {"fwd-bf16-b1-h32k8-q9-k16384-d128-causal-softcap", "H200", NULL, "fwd", 1},
      {"fwd-bf16-b1-h32k8-q9-k16384-d128-w1024.0", "H200", NULL, "fwd", 1},
      {"fwd-bf16-b9-h14k7-q4-k4-d256", "H200", NULL, "fwd", 1}, /* few rows on few keys */
      {"fwd-bf16-b9-h14k7-q32-k255-d128", "H200", NULL, "fwd", 1},
      {"fwd-bf16-b9-h14k7-q32-k65-d256", "H200", NULL, "fwd_ws", 1},
      {"bwd-bf16-b9-h14k7-q16-k1600-d64", "H200", NULL, "bwd", 1},
      {"bwd-bf16-b9-h14k7-q17-k17-d64", "H200", NULL, "bwd_ws", 1},
      {"bwd-bf16-b132-h14k7-q17-k17-d64", "H200", NULL, "bwd", 1},
      {"bwd-bf16-b9-h14k7-q32-k32-d128", "H200", NULL, "bwd", 1},
      {"bwd-bf16-b9-h14k7-q32-k32-d256", "H200", NULL, "bwd", 1},
      {"bwd-bf16-b9-h14k7-q33-k33-d256", "H200", NULL, "bwd_pair", 1},
      {"bwd-bf16-b9-h14k7-q32-k32-d256-det", "H200", NULL, "bwd_pair", 1},
      {HALF, "H200", "fwd", "fwd", 0},
      {HALF, "H200", "fwd_ws", "fwd_ws", 1},
      {HALF, "A100 40GB SXM", "fwd", "fwd", 1},
      {HALF, "H200", "standard", "standard", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    fat_problem p;
    fat_point point;
    int unasked;
    MUST(fat_problem_parse(rows[i].problem, &p, err));
    MUST(fat_usual_find(script, rows[i].asked, &p, fixture_gpu(rows[i].gpu), true, &point, &unasked, err));
    if (strcmp(point.config.kernel, rows[i].kernel) != 0 || unasked != rows[i].unasked)
      fail_msg("row %zu: kernel %s, unasked %d", i, point.config.kernel, unasked);
  }
}

static fat_item ask_of(const char *gpu, const char *kernel)
{
  fat_goal o = {.problem_count = 1, .problems = (const char *const[]){HALF}, .kernel_count = kernel ? 1 : 0};
  fat_agenda agenda;
  if (kernel)
    snprintf(o.kernels[0], sizeof o.kernels[0], "%s", kernel);
  MUST(fat_agenda_list(&o, fixture_gpu(gpu), script, &agenda, err));
  fat_item item = agenda.list[0];
  fat_agenda_free(&agenda);
  return item;
}

static void the_preferred_is_tried_first(void **state)
{
  (void)state;
  fat_item hopper = ask_of("H200", NULL), ampere = ask_of("A100 40GB SXM", NULL);
  assert_string_equal(hopper.kernels[0].name, "fwd_ws");
  assert_string_equal(hopper.kernels[1].name, "fwd");
  assert_true(hopper.kernels[0].picked > hopper.kernels[1].picked && hopper.kernels[1].picked > 0);
  for (int i = 2; i < hopper.kernel_count; i++)
    assert_int_equal(hopper.kernels[i].picked, 0);
  assert_string_equal(ampere.kernels[0].name, "fwd");
  assert_int_equal(ampere.kernels[1].picked, 0);
}

static int room(const fat_item *item, int kernel, bool measured)
{
  const fat_goal quick = {.effort = FAT_QUICK};
  return fat_effort_rule(&quick, item, &item->kernels[kernel], measured).most;
}

/* Most of what quick may try is the preferred kernel's, where there is one; all is 64 at most. */
static void quick_is_split(void **state)
{
  (void)state;
  const fat_item hopper = ask_of("H200", NULL), ampere = ask_of("A100 40GB SXM", NULL);
  const fat_item one = ask_of("H200", "fwd");
  int all = 0;
  for (int i = 0; i < hopper.kernel_count; i++)
    all += room(&hopper, i, true);
  assert_int_equal(all, 64);
  assert_int_equal(room(&hopper, 0, true), 40);
  assert_int_equal(room(&hopper, 1, true), 12);
  assert_true(room(&ampere, 0, true) > 12);
  assert_int_equal(one.kernel_count, 1);
  assert_int_equal(room(&one, 0, true), room(&ampere, 0, true));
  assert_true(room(&hopper, 0, false) > room(&hopper, 1, false));
}

/* The default of the other kernel, moving one element at once, where that is a config of it. */
static void twins_of_another_kernel(void **state)
{
  (void)state;
  char a[FAT_CONFIG_TEXT], b[FAT_CONFIG_TEXT];
  fat_point twins[FAT_TWIN_MOST], point;
  fat_problem p;
  int count;
  const fat_gpu *gpu = fixture_gpu("H200");
  fat_config hopper = default_of("fwd_ws"), narrow = default_of("fwd");
  MUST(fat_problem_parse(HALF, &p, err));
  MUST(fat_twin_find(script, NULL, &hopper, &p, gpu, twins, &count, err));
  assert_true(count >= 1);
  for (int i = 0; i < count; i++) {
    assert_string_equal(twins[i].config.kernel, "fwd");
    assert_int_equal(fat_width_get(&twins[i].config), 1);
  }
  fat_width_narrow(&narrow);
  if (fat_space_point(script, &narrow, &p, gpu, &point, NULL) == FAT_OK)
    assert_string_equal(fat_config_print(&twins[0].config, a), fat_config_print(&narrow, b));
}

/* -- what is stored */

static void runs(const fatune_plan *plan, const char *problem)
{
  for (int off = 0; off < 2; off++) {
    attention a = attention_make(problem, 0, off);
    size_t bytes;
    MUST_RUN(fatune_workspace(plan, NULL, &bytes));
    MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, bytes ? device_memory(bytes) : NULL, NULL));
    assert_int_equal(cu.cuCtxSynchronize(), 0);
    if (cu.fake_findings())
      fail_msg("%s", cu.fake_finding(0));
    is_right(&a);
    attention_free(&a);
  }
}

static fatune_plan *plan_with(fatune *h, const char *kernel, fatune_policy policy)
{
  fatune_plan *plan = NULL;
  fatune_request r = request_of(HALF, policy);
  r.kernel = kernel;
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  return plan;
}

/* Each launch is of the kernel that takes such tensors. */
static void launches_both(const fatune_plan *plan)
{
  long first = cu.fake_launches("fwd_ws_*"), all = cu.fake_launches("*");
  runs(plan, HALF);
  assert_int_equal(cu.fake_launches("fwd_ws_*"), first + 1);
  assert_int_equal(cu.fake_launches("*"), all + 2);
}

/* A row of the other kernel that may win stands in; what was made for it comes before one that is faster. */
static void another_kernel_stands_in(void **state)
{
  (void)state;
  char hopper[FAT_CONFIG_TEXT], line[FAT_CONFIG_TEXT + 8];
  const fat_config best = default_of("fwd_ws");
  const stored rows[] = {
      {.problem = HALF,
       .gpu = "H200",
       .config = fat_config_print(&best, hopper),
       .ms = 1,
       .origin = FAT_MEASURED},
      {.problem = HALF, .gpu = "H200", .config = FASTER, .ms = 2, .origin = FAT_MEASURED},
      {.problem = HALF,
       .gpu = "H200",
       .config = STANDIN,
       .ms = 3,
       .origin = FAT_MEASURED,
       .twin_of = "fwd_ws:Br64"},
  };
  static const char *const twins[] = {"why twin: none", "twin " FASTER, "twin " STANDIN};
  store((stored){.problem = HALF, .gpu = "H200", .config = BASELINE, .ms = 0.1, .origin = FAT_MEASURED});
  snprintf(line, sizeof line, "kernel %s", hopper);
  for (int i = 0; i < 3; i++) {
    store(rows[i]);
    fatune *h = open_usual();
    fatune_plan *plan = plan_with(h, NULL, FATUNE_FALLBACK);
    describes(plan, line);
    describes(plan, twins[i]);
    if (i > 0)
      launches_both(plan);
    fatune_plan_free(plan);
    fatune_close(h);
  }
  fatune *h = open_usual();
  fatune_plan *plan = plan_with(h, "fwd", FATUNE_FALLBACK);
  describes(plan, "kernel " FASTER);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* At HALF only `fwd` was measured, near it only the other, which promises more; where nothing but the row of
 * the problem is allowed, that serves. */
static void measured_worth(void **state)
{
  (void)state;
  char hopper[FAT_CONFIG_TEXT];
  const fat_config best = default_of("fwd_ws");
  store((stored){.problem = HALF, .gpu = "H200", .config = FASTER, .ms = 1, .origin = FAT_MEASURED});
  store((stored){.problem = "fwd-f16-b1-h2-q128-k128-d64",
                 .gpu = "H200",
                 .config = fat_config_print(&best, hopper),
                 .ms = 1.9,
                 .origin = FAT_MEASURED});
  fatune *h = open_usual();
  for (int policy = FATUNE_FAIL; policy <= FATUNE_FALLBACK; policy++) {
    fatune_plan *plan = plan_with(h, NULL, (fatune_policy)policy);
    describes(plan, policy == FATUNE_FAIL ? "kernel " FASTER : "kernel fwd_ws:");
    describes(plan, policy == FATUNE_FAIL ? "pick exact" : "pick nearest");
    describes(plan, "why exact: " FASTER " for " HALF);
    fatune_plan_free(plan);
  }
  fatune_close(h);
}

/* -- compiled on demand */

static void need_nvrtc(void)
{
  fat_nvrtc *nvrtc = NULL;
  if (fat_nvrtc_open(13, &nvrtc, NULL) != FAT_OK)
    skip();
  fat_nvrtc_close(nvrtc);
}

static void is_compiled(const char *kernel, const char *starts)
{
  fatune *h = open_usual();
  fatune_plan *plan = plan_with(h, kernel, FATUNE_COMPILE);
  describes(plan, starts);
  describes(plan, "kernel-from compiled now");
  give_source(plan, HALF, "kernel");
  give_source(plan, HALF, "twin");
  describes(plan, "twin fwd:");
  describes(plan, "twin-alignment 2");
  runs(plan, HALF);
  fatune_plan_free(plan);
  fatune_close(h);
}

/* What was compiled because it was asked for is not the default of those that item for none. */
static void the_preferred_is_compiled(void **state)
{
  (void)state;
  need_nvrtc();
  setenv("FATUNE_JIT", JIT, 1);
  is_compiled("fwd", "kernel fwd:");
  fatune *h = open_usual();
  fatune_request r = request_of(HALF, FATUNE_FALLBACK);
  fatune_plan *plan = NULL;
  EXPECT(FATUNE_ERR_MISS, "nothing stored serves it", fatune_plan_make(h, &r, &plan));
  fatune_close(h);
  is_compiled(NULL, "kernel fwd_ws:");
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  static const char *const asked[] = {NULL, "fwd_ws", "fwd"};
  for (int i = 0; i < 3; i++) {
    h = open_usual();
    plan = plan_with(h, asked[i], FATUNE_FALLBACK);
    describes(plan, i == 2 ? "kernel fwd:" : "kernel fwd_ws:");
    describes(plan, "kernel-from stored");
    describes(plan, "twin-from stored");
    runs(plan, HALF);
    fatune_plan_free(plan);
    fatune_close(h);
  }
}

/* A row of fwd that stands in for fwd_ws where tensors are not aligned. */
static void store_standin(void)
{
  store((stored){.problem = HALF,
                 .gpu = "H200",
                 .config = STANDIN,
                 .ms = 3,
                 .origin = FAT_MEASURED,
                 .twin_of = "fwd_ws:Br64"});
}

/* Of the asked kernel nothing is stored but the twin of another: its own default is compiled; where that
 * cannot be, the twin serves after all. */
static void only_a_twin_of_the_asked(void **state)
{
  (void)state;
  char hopper[FAT_CONFIG_TEXT], line[FAT_CONFIG_TEXT + 8], usual[FAT_CONFIG_TEXT];
  const fat_config best = default_of("fwd_ws"), own = default_of("fwd");
  need_nvrtc();
  store((stored){.problem = HALF,
                 .gpu = "H200",
                 .config = fat_config_print(&best, hopper),
                 .ms = 1,
                 .origin = FAT_MEASURED});
  store_standin();
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  for (int policy = FATUNE_FAIL; policy <= FATUNE_COMPILE; policy++) {
    fatune *h = open_usual();
    fatune_plan *plan = plan_with(h, "fwd", (fatune_policy)policy);
    describes(plan, "kernel " STANDIN);
    describes(plan, "pick exact");
    describes(plan, policy == FATUNE_COMPILE ? "why default: "
                                             : "why exact: " STANDIN " for " HALF ", which takes any");
    runs(plan, HALF);
    fatune_plan_free(plan);
    fatune_close(h);
  }
  setenv("FATUNE_JIT", JIT, 1);
  snprintf(line, sizeof line, "kernel %s", fat_config_print(&own, usual));
  assert_int_not_equal(fat_width_get(&own), 1);
  is_compiled("fwd", line);
}

/* The GPU dies of what stands in: that is told, not what the default lacks. */
static void what_stands_in_kills(void **state)
{
  (void)state;
  fatune_plan *plan = NULL;
  fatune_request r = request_of(HALF, FATUNE_COMPILE);
  r.kernel = "fwd";
  store_standin();
  setenv("FATUNE_JIT", "/nowhere/libfatune-jit.so.0", 1);
  fatune *h = open_usual();
  cu.fake_fault("cuModuleLoadData=700");
  EXPECT(FATUNE_ERR_CONTEXT_DEAD, "cuModuleLoadData fails with", fatune_plan_make(h, &r, &plan));
  assert_null(plan);
  fatune_close(h);
}

/* -- tuned */

enum { BUDGET = 1 }; /* seconds, of the first try: tune_until gives more to those that need it */

static bool is_said(const char *what)
{
  char command[600];
  snprintf(command, sizeof command, "grep -q '%s' %s/words", what, files.path);
  return system(command) == 0;
}

/* On a busy machine a budget may end before anything was tried. */
static void tune(const char *times, const char *more, int seconds)
{
  char command[2000];
  snprintf(command, sizeof command,
           "FAKE_CUDA_DEVICES=H200 FAKE_CUDA_EMULATE=reference FAKE_CUDA_SOURCES=%s FATUNE_DUMP=%s "
           "FAKE_CUDA_TIMES='%s' %s tune " HALF " --deadline 60s --budget %ds "
           "--db %s %s >%s/words 2>&1 || "
           "{ cat %s/words; false; }",
           files.path, files.path, times, PROGRAM, seconds, path, more, files.path, files.path);
  assert_true(system(command) == 0 || is_said("the budget is used up"));
}

static bool count_row(const fat_trial *t, void *user)
{
  int *counts = user;
  counts[0] += strcmp(t->config.kernel, "fwd_ws") == 0;
  counts[1] += strcmp(t->config.kernel, "fwd") == 0;
  assert_int_equal(t->eligible, strncmp(t->config.kernel, "fwd", 3) == 0);
  return true;
}

enum { WS = 1, FWD = 2 }; /* kernels that have a row that works */

static int those_that_ran(void)
{
  const fat_db_filter filter = {.problem = HALF, .outcome_plus_1 = 1 + FAT_OUT_OK};
  int counts[2] = {0, 0};
  fat_db *db = NULL;
  MUST(fat_db_open(path, NULL, FAT_DB_READ, &db, err));
  MUST(fat_db_trials(db, &filter, count_row, counts, err));
  fat_db_close(db);
  return (counts[0] ? WS : 0) + (counts[1] ? FWD : 0);
}

/* On a busy machine a budget does not reach all, or not even the first: the same command goes on with twice
 * as much. */
static void tune_until(const char *times, const char *more, int wanted)
{
  int ran = 0;
  for (int round = 0; (ran & wanted) != wanted && round < FIXTURE_TUNES; round++) {
    tune(times, more, BUDGET << round);
    ran = those_that_ran();
  }
  assert_int_equal(ran & wanted, wanted);
}

/* One of both won, and nothing is left to compile. */
static void is_tuned(const char *winner)
{
  static const char *const asked[] = {NULL, "fwd", "fwd_ws"};
  char best[64], line[64];
  fat_db *db = NULL;
  fat_best row;
  fat_problem p;
  MUST(fat_problem_parse(HALF, &p, err));
  MUST(fat_db_open(path, NULL, FAT_DB_READ, &db, err));
  MUST(fat_db_best(db, &p, fixture_gpu("H200"), NULL, false, &row, err));
  snprintf(best, sizeof best, "%s", row.trial.config.kernel);
  assert_string_equal(best, winner);
  fat_db_best_free(&row);
  fat_db_close(db);
  setenv("FATUNE_DISABLE_JIT", "1", 1);
  for (int i = 0; i < 3; i++) {
    fatune *h = open_usual();
    fatune_plan *plan = plan_with(h, asked[i], FATUNE_FAIL);
    snprintf(line, sizeof line, "kernel %s:", asked[i] ? asked[i] : winner);
    describes(plan, line);
    describes(plan, "pick exact");
    if (strcmp(line, "kernel fwd_ws:") == 0) {
      describes(plan, "twin fwd:");
      launches_both(plan);
    } else
      runs(plan, HALF);
    fatune_plan_free(plan);
    fatune_close(h);
  }
}

static void both_are_tuned(void **state)
{
  static const char *const times[] = {"fwd_ws_*=0.2,fwd_*=0.5,*=2", "fwd_ws_*=0.7,fwd_*=0.3,*=2"};
  need_nvrtc();
  for (int i = 0; i < 2; i++) {
    begin(state);
    tune_until(times[i], "", WS | FWD);
    is_tuned(i == 0 ? "fwd_ws" : "fwd");
  }
}

static const char ws_is_faster[] = "fwd_ws_*=0.2,fwd_*=0.5,*=2";

/* What is tuned goes before what is known of neighbours, so whoever tunes one kernel alone hears of the
 * others. */
static void one_tuned_alone(void **state)
{
  need_nvrtc();
  begin(state);
  tune_until(ws_is_faster, "--kernel fwd", FWD);
  assert_true(is_said("fwd_ws was not tried for " HALF ", whose calls now get what was"));
  tune(ws_is_faster, "--kernel standard", BUDGET); /* which no call gets unasked */
  assert_false(is_said("was not tried"));
  tune_until(ws_is_faster, "--kernel fwd_ws", WS); /* fwd was */
  assert_false(is_said("was not tried"));
}

/* So does whoever hides what a package knows; where that was timed with these templates, or its source is the
 * same by them, it runs for itself.
 */
static void one_tuned_above_a_package(void **state)
{
  char package[320];
  sqlite3 *sql = NULL;
  (void)state;
  need_nvrtc();
  snprintf(package, sizeof package, "%s/package.db", files.path);
  assert_int_equal(rename(path, package), 0); /* of the test before */
  setenv("FATUNE_SYSTEM_DB", package, 1);
  tune(ws_is_faster, "--kernel fwd", BUDGET);
  assert_false(is_said("was not tried"));
  unlink(path);
  assert_int_equal(sqlite3_open(package, &sql), SQLITE_OK);
  assert_int_equal(
      sqlite3_exec(sql, "UPDATE trial SET templates = 'of before', source = replace(source, '0', '1')", NULL,
                   NULL, NULL),
      SQLITE_OK);
  assert_int_equal(sqlite3_close(sql), SQLITE_OK);
  tune_until(ws_is_faster, "--kernel fwd", FWD);
  assert_true(is_said("fwd_ws was not tried for " HALF ", whose calls now get what was"));
  setenv("FATUNE_SYSTEM_DB", "", 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_of_gpus),
      cmocka_unit_test(the_preferred_is_tried_first),
      cmocka_unit_test(quick_is_split),
      cmocka_unit_test(twins_of_another_kernel),
      cmocka_unit_test_setup(another_kernel_stands_in, begin),
      cmocka_unit_test_setup(measured_worth, begin),
      cmocka_unit_test_setup(the_preferred_is_compiled, begin),
      cmocka_unit_test_setup(only_a_twin_of_the_asked, begin),
      cmocka_unit_test_setup(what_stands_in_kills, begin),
      cmocka_unit_test_setup(both_are_tuned, begin),
      cmocka_unit_test_setup(one_tuned_alone, begin),
      cmocka_unit_test(one_tuned_above_a_package),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
