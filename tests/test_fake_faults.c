/* test_fake_faults.c -- the fake driver: each scripted fault, at the call and the launch it is scripted for.
 *
 * Faults that end a process or never return are met in a child, made before this process calls cuInit. */
#include "fake/bench.h"
#include "folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <sys/wait.h>
#include <cmocka.h>

static fake_bench b;
static folder files;
#define cu (b.cu)

static int clean(void **state)
{
  (void)state;
  fake_bench_clean(&b, "T4");
  return 0;
}

static int begin(void **state)
{
  clean(state);
  fake_bench_begin(&b, 75);
  return 0;
}

/* ---- in children; they come first ---- */

/* Calls `act` with a context and a plan; its answer, or 1000 + the signal that ended it, or 2000 where it was
 * still there after `patience` ms. */
static int in_child(const char *plan, int (*act)(void), int patience)
{
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    begin(NULL);
    cu.fake_fault(plan);
    _exit(act());
  }
  for (int waited = 0; waited < patience; waited += 10) {
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return 2000;
}

static int load_again(void)
{
  size_t size;
  void *image = cu.fake_cubin(75, 1, &fake_copy_kernel, &size), *module;
  int result = cu.cuModuleLoadData(&module, image);
  free(image);
  return result;
}

static int load_damaged(void)
{
  size_t size;
  char *image = cu.fake_cubin(75, 1, &fake_copy_kernel, &size);
  image[0x28] = (char)(image[0x28] ^ 0x40); /* where the section headers lie */
  void *module;
  int result = cu.cuModuleLoadData(&module, image);
  free(image);
  return result;
}

static int load_damaged_for_a_code(void)
{
  setenv("FAKE_CUDA_DAMAGE", "code", 1);
  return load_damaged();
}

static int launch(void)
{
  return fake_bench_launch(&b, 0, NULL);
}

static int launch_and_wait(void)
{
  return launch() ? 3 : cu.cuCtxSynchronize() ? 4 : 0;
}

/* 5: the launch is taken, and never ends. */
static int launch_and_ask(void)
{
  void *event;
  int result = cu.cuEventCreate(&event, 0) || launch() || cu.cuEventRecord(event, NULL) ? 3 : 5;
  for (int i = 0; i < 5 && result == 5; i++)
    result = cu.cuEventQuery(event) == 600 && cu.cuStreamQuery(NULL) == 600 ? 5 : 4;
  return result;
}

static int wait_for_event_twice(void)
{
  void *event;
  int result = cu.cuEventCreate(&event, 0) || cu.cuEventRecord(event, NULL);
  return result || cu.cuEventSynchronize(event) || cu.cuEventSynchronize(event);
}

static void processes_end_and_hang(void **state)
{
  (void)state;
  assert_int_equal(in_child("cuModuleLoadData#1=segv", load_again, 100000), 1000 + SIGSEGV);
  assert_int_equal(in_child("cuModuleLoadData#2=segv", load_again, 100000), 0);
  assert_int_equal(in_child("", load_damaged, 100000), 1000 + SIGSEGV);
  assert_int_equal(in_child("", load_damaged_for_a_code, 100000), 200);
  assert_int_equal(in_child("copy_*=segv", launch, 100000), 1000 + SIGSEGV);
  assert_int_equal(in_child("cuLaunchKernel=kill", launch, 100000), 1000 + SIGKILL);
  assert_int_equal(in_child("cuEventSynchronize#3=hang", wait_for_event_twice, 100000), 0);
  assert_int_equal(in_child("cuEventSynchronize#2=hang", wait_for_event_twice, 300), 2000);
  assert_int_equal(in_child("copy_*=hang", launch_and_wait, 300), 2000);
  assert_int_equal(in_child("copy_*=hang", launch_and_ask, 100000), 5);
  assert_int_equal(in_child("other_*=hang", launch_and_wait, 100000), 0);
}

static void a_mistake_in_a_plan_ends_the_process(void **state)
{
  (void)state;
  static const char *const plans[] = {
      "cuLaunchKernel", "cuLaunchKernel=never", "cuLaunchKernel#0=700", "=700",
      "cuInit#x=1",     "cuInit=slow:",         "cuInit#2-=1"};
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
    assert_int_equal(in_child(plans[i], launch, 100000), 1000 + SIGABRT);
}

/* Workers that follow each other count together: the plan's second launch is in the second worker. */
static void processes_count_together(void **state)
{
  (void)state;
  char path[300];
  snprintf(path, sizeof path, "%s/state", files.path);
  for (int i = 1; i <= 2; i++) /* without the file each for itself */
    assert_int_equal(in_child("cuLaunchKernel#2=46", launch, 100000), 0);
  for (int i = 1; i <= 3; i++) {
    /* begin() takes variables away; the plan is made after it. */
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      begin(NULL);
      setenv("FAKE_CUDA_STATE", path, 1);
      cu.fake_fault("cuLaunchKernel#2=46");
      _exit(launch());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, i == 2 ? 46 << 8 : 0);
  }
}

static void the_log_tells_who_did_what(void **state)
{
  (void)state;
  char path[300], text[2000] = "", line[64];
  int status;
  snprintf(path, sizeof path, "%s/log", files.path);
  pid_t child = fork();
  if (child == 0) {
    clean(NULL);
    setenv("FAKE_CUDA_LOG", path, 1);
    fake_bench_begin(&b, 75);
    _exit(launch());
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_true(fread(text, 1, sizeof text - 1, f) > 0);
  fclose(f);
  snprintf(line, sizeof line, "%ld launch copy_0123456789abcdef\n", (long)child);
  assert_non_null(strstr(text, line));
  snprintf(line, sizeof line, "%ld cuInit\n", (long)child);
  assert_ptr_equal(strstr(text, line), text);
}

/* ---- here ---- */

static void a_code_comes_at_its_call(void **state)
{
  (void)state;
  fat_cuda_address a = 0;
  cu.fake_fault("cuMemAlloc_v2#2=2,cuMemFree=1,cuLaunchKernel#3+=701");
  assert_int_equal(cu.cuMemAlloc_v2(&a, 4), 0);
  assert_int_equal(cu.cuMemAlloc_v2(&a, 4), 2);
  assert_int_equal(cu.cuMemAlloc_v2(&a, 4), 0);
  assert_int_equal(cu.cuMemFree_v2(a), 1); /* with or without its version */
  assert_int_equal(cu.cuMemFree_v2(a), 1);
  static const int codes[] = {0, 0, 701, 701};
  for (int i = 0; i < 4; i++)
    assert_int_equal(launch(), codes[i]);
  assert_int_equal(cu.cuCtxSynchronize(), 0); /* none of these is sticky */
  cu.fake_fault("cuMemAlloc_v2#2=2");         /* counting begins anew */
  assert_int_equal(cu.cuMemAlloc_v2(&a, 4), 0);
  assert_int_equal(cu.cuMemAlloc_v2(&a, 4), 2);
  cu.fake_fault(NULL);
  setenv("FAKE_CUDA_FAULT", "cuMemAlloc=46", 1);
  assert_int_equal(cu.cuMemAlloc_v2(&a, 4), 46);
  setenv("FAKE_CUDA_FAULT", "", 1);
  assert_int_equal(cu.cuMemAlloc_v2(&a, 4), 0);
}

static void sticky_codes_stay(void **state)
{
  (void)state;
  static const int codes[] = {214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    char plan[64];
    fat_cuda_address a;
    begin(NULL);
    snprintf(plan, sizeof plan, "cuLaunchKernel#2=%d", codes[i]);
    cu.fake_fault(plan);
    assert_int_equal(launch(), 0);
    assert_int_equal(launch(), codes[i]);
    assert_int_equal(launch(), codes[i]);
    assert_int_equal(cu.cuMemAlloc_v2(&a, 4), codes[i]);
    assert_int_equal(cu.cuCtxSynchronize(), codes[i]);
    assert_int_equal(cu.fake_sticky(), codes[i]);
    assert_int_equal(load_again(), codes[i]);
  }
}

/* A kernel that faults: the launch is taken, who waits learns of it. */
static void an_entry_that_faults_tells_later(void **state)
{
  (void)state;
  fat_cuda_address a;
  char byte;
  assert_int_equal(cu.cuMemAlloc_v2(&a, 4), 0);
  cu.fake_fault("copy_0123*=716");
  assert_int_equal(launch(), 0);
  assert_int_equal(launch(), 0);
  assert_int_equal(cu.fake_sticky(), 716);
  assert_int_equal(cu.cuMemcpyDtoH_v2(&byte, a, 1), 716);
  assert_int_equal(launch(), 716);
  begin(NULL);
  cu.fake_fault("copy_0123*#2=701");
  assert_int_equal(launch(), 0);
  assert_int_equal(launch(), 701);
  assert_int_equal(launch(), 0);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
}

static void results_go_wrong(void **state)
{
  (void)state;
  static const struct {
    const char *plan;
    uint32_t first[2], last; /* after two launches */
  } rows[] = {{"", {6, 6}, 6},
              {"copy_*=wrong", {0x447a0000, 0x447a0000}, 6},
              {"copy_*#2=wrong", {6, 0x447a0000}, 6},
              {"copy_*=nan", {0x7fc07fc0, 0x7fc07fc0}, 6},
              {"copy_*=unstable", {7, 6}, 6},
              {"copy_*=stray", {6, 6}, 0x447a0000}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fat_cuda_address a;
    uint32_t word;
    begin(NULL);
    cu.fake_fault(rows[i].plan);
    assert_int_equal(cu.cuMemAlloc_v2(&a, 64), 0);
    assert_int_equal(cu.cuMemsetD32_v2(a, 6, 16), 0);
    for (int j = 0; j < 2; j++) {
      assert_int_equal(fake_bench_launch(&b, a, NULL), 0);
      assert_int_equal(cu.cuMemcpyDtoH_v2(&word, a, 4), 0);
      assert_int_equal(word, rows[i].first[j]);
    }
    assert_int_equal(cu.cuMemcpyDtoH_v2(&word, a + 60, 4), 0);
    assert_int_equal(word, rows[i].last);
    assert_int_equal(cu.fake_canaries(), 0);
  }
  /* Nowhere to write: that is told. */
  cu.fake_fault("copy_*=wrong");
  assert_int_equal(launch(), 0);
  assert_int_equal(cu.fake_findings(), 1);
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void slow_is_slow(void **state)
{
  (void)state;
  cu.fake_times("copy_*=1");
  cu.fake_fault("cuCtxSynchronize=slow:30,copy_*#2=slow:40");
  double begun = now();
  assert_int_equal(launch(), 0);
  assert_int_equal(launch(), 0);
  assert_true(now() - begun >= 40);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  assert_true(now() - begun >= 70);
  assert_true(fabs(cu.fake_clock() - 42) < 1e-6);
}

/* A plan may name a config; it is known from the source's header. */
static void a_config_is_found_by_its_source(void **state)
{
  (void)state;
  cu.fake_fault("fwd:Br64-*=701");
  assert_int_equal(launch(), 0);
  assert_int_equal(cu.fake_findings(), 1); /* no source, and that is told */
  folder_write(&files, "some-name.cu",
               "// Attention kernel written by fatune.\n//   family     fwd-f32-d64\n"
               "//   config     fwd:Br64-Bc32\n//   source     0123456789abcdef00\n");
  cu.fake_sources(files.path);
  assert_int_equal(launch(), 701);
  cu.fake_fault("fwd:Br32-*=701");
  cu.fake_times("fwd:*=9");
  assert_int_equal(launch(), 0);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  assert_true(cu.fake_clock() >= 9);
  assert_int_equal(cu.fake_findings(), 1);
}

static int make_folder(void **state)
{
  (void)state;
  files = folder_make();
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  folder_remove(&files);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(processes_end_and_hang, clean),
      cmocka_unit_test_setup(a_mistake_in_a_plan_ends_the_process, clean),
      cmocka_unit_test_setup(processes_count_together, clean),
      cmocka_unit_test_setup(the_log_tells_who_did_what, clean),
      cmocka_unit_test_setup(a_code_comes_at_its_call, begin),
      cmocka_unit_test_setup(sticky_codes_stay, begin),
      cmocka_unit_test_setup(an_entry_that_faults_tells_later, begin),
      cmocka_unit_test_setup(results_go_wrong, begin),
      cmocka_unit_test_setup(slow_is_slow, begin),
      cmocka_unit_test_setup(a_config_is_found_by_its_source, begin),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
