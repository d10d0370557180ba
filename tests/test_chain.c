/* test_chain.c -- the whole way without a GPU: the program tunes (render, NVRTC, load, verify, time, store),
 * the library plans and runs what was stored, and the result is compared with the reference in double.
 *
 * On the fake driver, whose launches run the kernel's text in the emulator: the numbers that verification
 * judges and those of the last call are the kernel's own. Exit code 77, with a word, where nothing can be
 * compiled. */
#include "nvrtc.h"
#include "runtime_fixture.h"

#define TUNED   "fwd-f32-b1-h2k1-q37-k50-d8-causal"
#define NEARBY  "fwd-f32-b2-h4k2-q33-k65-d8-causal"
#define PROGRAM FAKES "/../fatune"

/* Under ThreadSanitizer a verification in the emulator takes minutes: there the tune's numbers are the
 * reference's, and only the last call's are the kernel's own. */
#ifdef __SANITIZE_THREAD__
#define NUMBERS "reference"
#else
#define NUMBERS "1"
#endif

static int begin_t4(void **state)
{
  (void)state;
  setenv("FATUNE_DB", path, 1);
  setenv("FATUNE_SYSTEM_DB", "", 1);
  unsetenv("FATUNE_JIT");
  fake_bench_clean(&bench, "T4");
  return 0;
}

/* Runs the program to its end; its words are shown where it fails. On a busy machine it may come to nothing
 * in its budget, which is exit code 1. */
static void tune(const char *arguments, int seconds)
{
  char command[2000];
  snprintf(command, sizeof command,
           "FAKE_CUDA_DEVICES=T4 FAKE_CUDA_EMULATE=" NUMBERS
           " FAKE_CUDA_SOURCES=%s FATUNE_DUMP=%s %s tune %s --db %s "
           "--jobs 2 --budget %ds >%s/words 2>&1 || { code=$?; cat %s/words; [ $code = 1 ]; }",
           files.path, files.path, PROGRAM, arguments, path, seconds, files.path, files.path);
  assert_int_equal(system(command), 0);
}

/* Plans with what is stored; runs; compares. */
static void solves(fatune *h, const char *problem, fatune_policy policy, const char *pick)
{
  fatune_plan *plan = NULL;
  fatune_request r = request_of(problem, policy);
  size_t bytes;
  MUST_RUN(fatune_plan_make(h, &r, &plan));
  describes(plan, pick);
  describes(plan, "row-origin measured");
  MUST_RUN(fatune_workspace(plan, NULL, &bytes));
  attention a = attention_make(problem, 0, 0);
  MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, bytes ? device_memory(bytes) : NULL, NULL));
  int code = cu.cuCtxSynchronize();
  if (code || cu.fake_findings())
    fail_msg("%s: %d: %s", problem, code, cu.fake_findings() ? cu.fake_finding(0) : "nothing was found");
  is_right(&a);
  attention_free(&a);
  fatune_plan_free(plan);
}

static void what_is_tuned_is_planned_and_right(void **state)
{
  (void)state;
  int times = 0;
  do
    tune(TUNED " --kernel fwd --deadline 60s", 2 << times);
  while (!has_winner(TUNED, "T4") && ++times < FIXTURE_TUNES);
  fake_bench_begin(&bench, 75);
  cu.fake_compute(FAKE_EMULATE);
  setenv("FAKE_CUDA_DB", path,
         1); /* the dump is out of reach: sources come from where the library's code does */
  fatune *h = open_usual();
  solves(h, TUNED, FATUNE_FAIL, "pick exact");
  solves(h, NEARBY, FATUNE_FALLBACK, "pick nearest");
  fatune_close(h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(what_is_tuned_is_planned_and_right, begin_t4),
  };
  fat_nvrtc *nvrtc = NULL;
  fat_error err = {0};
  if (fat_nvrtc_open(13, &nvrtc, &err) != FAT_OK) {
    printf("skipped: nothing can be compiled here: %s\n", err.text);
    return 77;
  }
  fat_nvrtc_close(nvrtc);
  return cmocka_run_group_tests(tests, group_open, group_close);
}
