/* test_worker.c -- the worker and who watches it: verdicts, deadlines, faults, blame, processes that end or
 * talk nonsense.
 *
 * A worker is the program itself again, so this test is one when its first argument says so; TEST_WORKER
 * makes it one that misbehaves. Kernels run on the fake driver of that process, by the reference in double.
 */
#include "render.h"
#include "runtime_fixture.h"
#include "worker/process.h"
#include "worker/sanitize.h"
#include "worker/serve.h"
#include "worker/worker.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#define TINY "fwd-f32-b1-h2-q40-k40-d8-causal"
enum { KERNELS = 2 };

static struct {
  char config[FAT_CONFIG_TEXT], hash[FAT_HASH_SIZE];
  fat_source source;
  void *cubin;
  size_t size;
} made[KERNELS];
static fat_worker *worker;

/* Processes of the worker so far, and the latest one: the linker puts this in front of what starts them. */
static int started;
static pid_t running;
fat_status __real_fat_process_start(int ordinal, pid_t *pid, int *fd, fat_error *err);
fat_status __wrap_fat_process_start(int ordinal, pid_t *pid, int *fd, fat_error *err);
fat_status __wrap_fat_process_start(int ordinal, pid_t *pid, int *fd, fat_error *err)
{
  fat_status status = __real_fat_process_start(ordinal, pid, fd, err);
  started++;
  running = *pid;
  return status;
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Two configs of the kernel, compiled by nobody. */
static int make_kernels(void **state)
{
  fat_space space = {0};
  fat_problem p;
  char name[64];
  group_open(state);
  fake_bench_clean(&bench, "T4");
  MUST(fat_problem_parse(TINY, &p, err));
  MUST(fat_space_list(script, "fwd", &p, render_gpu(75), &space, err));
  for (int i = 0; i < KERNELS; i++) {
    MUST(fat_source_render(script, &p, render_gpu(75), &space.points[i].config, FAT_LINES_TEMPLATE,
                           &made[i].source, err));
    fat_config_print(&space.points[i].config, made[i].config);
    snprintf(name, sizeof name, "%.16s.cu", made[i].source.hash);
    folder_write(&files, name, fat_text_get(&made[i].source.text));
    made[i].cubin = cubin_for(fat_text_get(&made[i].source.recipe), 75, &made[i].size);
    fat_text_hash(made[i].cubin, made[i].size, made[i].hash);
  }
  fat_space_free(&space);
  return 0;
}

static int free_kernels(void **state)
{
  for (int i = 0; i < KERNELS; i++) {
    fat_source_free(&made[i].source);
    free(made[i].cubin);
  }
  return group_close(state);
}

/* What worker processes find in their environment. */
static int begin_world(void **state)
{
  (void)state;
  fake_bench_clean(&bench, "T4");
  setenv("FATUNE_LIBCUDA", FAKES "/fake_cuda.so", 1);
  setenv("FAKE_CUDA_EMULATE", "reference", 1);
  setenv("FAKE_CUDA_SOURCES", files.path, 1);
  unsetenv("TEST_WORKER");
  worker = NULL;
  return 0;
}

static int end_world(void **state)
{
  (void)state;
  fat_worker_close(worker);
  worker = NULL;
  return 0;
}

static fat_assignment assignment(fat_task task, int first, int count)
{
  fat_assignment a = {.task = task, .sms = 40, .l2 = 4096, .seed = 1, .seconds = 0.1, .count = count};
  MUST(fat_problem_parse(TINY, &a.problem, err));
  for (int i = 0; i < count; i++)
    a.entrant[i] = (fat_entrant){made[first + i].config, fat_text_get(&made[first + i].source.recipe),
                                 made[first + i].hash, made[first + i].cubin, made[first + i].size};
  return a;
}

static void open_worker(void)
{
  started = 0;
  MUST(fat_worker_open(0, &worker, err));
}

/* Steps until the assignment has ended or failed. */
static fat_status finish(fat_verdict *v, fat_error *e)
{
  bool done = false;
  double until = now() + 100;
  while (!done) {
    fat_status status = fat_worker_step(worker, 0.2, v, &done, e);
    if (status != FAT_OK)
      return status;
    if (now() > until)
      fail_msg("the worker does not end");
  }
  return FAT_OK;
}

static fat_status run_task(const fat_assignment *a, double deadline, fat_verdict *v, fat_error *e)
{
  fat_status status = fat_worker_begin(worker, a, deadline, e);
  if (status == FAT_OK)
    status = finish(v, e);
  return status;
}

static fat_verdict measure(int kernel, double deadline)
{
  fat_verdict v = {0};
  fat_assignment a = assignment(FAT_TASK_MEASURE, kernel, 1);
  MUST(run_task(&a, deadline, &v, err));
  return v;
}

static void is_fine(int kernel)
{
  fat_verdict v = measure(kernel, 60);
  if (v.outcome != FAT_OUT_OK)
    fail_msg("outcome %d: %s", (int)v.outcome, v.detail);
  assert_true(v.timing.count >= FAT_TIMER_LEAST && v.timing.median > 0);
  assert_true(v.error_max > 0 && v.error_max <= v.error_allowed);
}

/* A plan of faults for one of the kernels. */
static void fault(int kernel, const char *what)
{
  char plan[200];
  snprintf(plan, sizeof plan, "*_%.16s%s", made[kernel].source.hash, what);
  setenv("FAKE_CUDA_FAULT", plan, 1);
}

/* ---- kernels ---- */

static void one_process_tries_many(void **state)
{
  (void)state;
  open_worker();
  is_fine(0);
  is_fine(1);
  is_fine(0);
  assert_int_equal(started, 1);
  assert_true(running > 0);
}

static void a_race_times_all(void **state)
{
  fat_verdict v[KERNELS] = {{0}};
  fat_assignment a = assignment(FAT_TASK_RACE, 0, KERNELS);
  (void)state;
  setenv("FAKE_CUDA_TIMES", "*=0.5", 1);
  open_worker();
  MUST(run_task(&a, 60, v, err));
  for (int i = 0; i < KERNELS; i++) {
    assert_int_equal(v[i].outcome, FAT_OUT_OK);
    assert_true(fabs(v[i].timing.median - 0.5) < 1e-4);
  }
}

/* On every kind of data, told by the scores that lie in memory; then all is as it was before, and a kernel is
 * right. */
static void a_race_times_every_kind(void **state)
{
  char plan[600] = "";
  fat_verdict v[KERNELS] = {{0}};
  fat_assignment a = assignment(FAT_TASK_RACE, 0, KERNELS);
  (void)state;
  for (int kind = 0; kind < FAT_KINDS; kind++)
    snprintf(plan + strlen(plan), sizeof plan - strlen(plan), "*@%s=%g,", fat_kinds[kind].name,
             0.5 + 0.1 * kind);
  snprintf(plan + strlen(plan), sizeof plan - strlen(plan), "*=9");
  setenv("FAKE_CUDA_TIMES", plan, 1);
  a.l2 = 1 << 20; /* many sets of tensors */
  open_worker();
  for (int again = 0; again < 2; again++) {
    MUST(run_task(&a, 60, v, err));
    for (int i = 0; i < KERNELS; i++)
      for (int kind = 0; kind < FAT_KINDS; kind++)
        if (fabs(v[i].kinds[kind] - 0.5 - 0.1 * kind) > 1e-4)
          fail_msg("%s takes %g ms", fat_kinds[kind].name, v[i].kinds[kind]);
    assert_true(fabs(v[0].timing.median - 0.5) < 1e-4 && v[0].timing.count >= FAT_TIMER_LEAST);
    is_fine(0);
    assert_true(fabs(measure(1, 60).timing.median - 0.5) < 1e-4);
  }
  assert_int_equal(started, 1);
}

/* What a race left half bent is filled anew. */
static void a_race_that_breaks_off_leaves_no_kind_behind(void **state)
{
  char counts[400];
  fat_verdict v[KERNELS] = {{0}};
  fat_assignment a = assignment(FAT_TASK_RACE, 0, KERNELS);
  (void)state;
  snprintf(counts, sizeof counts, "%s/bent", files.path);
  unlink(counts);
  setenv("FAKE_CUDA_TIMES", "*@normal=0.5,*=9", 1);
  setenv("FAKE_CUDA_STATE", counts, 1);
  setenv("FAKE_CUDA_FAULT", "cuEventElapsedTime#30=1", 1); /* among the samples of the second kind */
  open_worker();
  MUST(run_task(&a, 60, v, err));
  assert_int_equal(v[0].outcome, FAT_OUT_LAUNCH_FAILED);
  assert_int_equal(started, 1);
  fat_verdict after = measure(0, 60);
  assert_int_equal(after.outcome, FAT_OUT_OK);
  assert_true(fabs(after.timing.median - 0.5) < 1e-4);
}

static void a_check_takes_no_time(void **state)
{
  fat_verdict v = {0};
  fat_assignment a = assignment(FAT_TASK_CHECK, 0, 1);
  (void)state;
  open_worker();
  MUST(run_task(&a, 60, &v, err));
  assert_int_equal(v.outcome, FAT_OUT_OK);
  assert_int_equal(v.timing.count, 0);
  fault(0, "=wrong");
  fat_worker_close(worker);
  open_worker();
  MUST(run_task(&a, 60, &v, err));
  assert_int_equal(v.outcome, FAT_OUT_WRONG);
}

static void far_slower_than_the_best(void **state)
{
  fat_verdict v = {0};
  fat_assignment a = assignment(FAT_TASK_MEASURE, 0, 1);
  (void)state;
  setenv("FAKE_CUDA_TIMES", "*=4", 1);
  a.best_ms = 1;
  open_worker();
  MUST(run_task(&a, 60, &v, err));
  assert_int_equal(v.outcome, FAT_OUT_SLOW);
  assert_int_equal(v.timing.count, 1);
  assert_non_null(strstr(v.detail, "4.0 times the best"));
}

/* Launches of a kernel that a check makes: on small shapes, the probe at full size and one more. */
static int launches_of_a_check(int kernel)
{
  char log[400], line[400];
  int count = 0;
  fat_verdict v = {0};
  fat_assignment a = assignment(FAT_TASK_CHECK, kernel, 1);
  snprintf(log, sizeof log, "%s/launches", files.path);
  unlink(log);
  setenv("FAKE_CUDA_LOG", log, 1);
  open_worker();
  MUST(run_task(&a, 60, &v, err));
  fat_worker_close(worker);
  unsetenv("FAKE_CUDA_LOG");
  FILE *f = fopen(log, "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f))
    count += strstr(line, " launch ") != NULL;
  fclose(f);
  return count;
}

/* The first call at full size has a launch to wait for that no other hides; it is no reason to drop a kernel
 * that takes less than that. */
static void a_first_call_is_no_measure_of_short_ones(void **state)
{
  char at[64];
  fat_verdict v = {0};
  fat_assignment a = assignment(FAT_TASK_MEASURE, 0, 1);
  (void)state;
  snprintf(at, sizeof at, "#%d=slow:0.05", launches_of_a_check(0) - 1);
  fault(0, at);
  setenv("FAKE_CUDA_TIMES", "*=0.003", 1);
  a.best_ms = 0.003;
  open_worker();
  MUST(run_task(&a, 60, &v, err));
  assert_int_equal(v.outcome, FAT_OUT_OK);
  assert_true(fabs(v.timing.median - 0.003) < 1e-5);
}

/* Failures that leave the process as it was: it goes on. */
static void outcomes_without_a_death(void **state)
{
  static const struct {
    const char *fault;
    fat_outcome outcome;
  } faults[] = {{"=701", FAT_OUT_LAUNCH_FAILED}, {"=wrong", FAT_OUT_WRONG}, {"=nan", FAT_OUT_WRONG}};
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    fault(0, faults[i].fault);
    open_worker();
    fat_verdict v = measure(0, 60);
    if (v.outcome != faults[i].outcome)
      fail_msg("%s: outcome %d, %s", faults[i].fault, (int)v.outcome, v.detail);
    is_fine(1);
    assert_int_equal(started, 1);
    end_world(NULL);
  }
  setenv("FAKE_CUDA_FAULT", "cuMemAlloc#1=2", 1);
  open_worker();
  assert_int_equal(measure(0, 60).outcome, FAT_OUT_OOM);
  is_fine(0);
}

/* ---- deaths ---- */

/* The first of a process is to blame at once; what others went before is tried again alone. */
static void a_fault_costs_a_process(void **state)
{
  static const char *const faults[] = {"=700", "=716", "=segv", "=kill"};
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    fault(1, faults[i]);
    open_worker();
    fat_verdict v = measure(1, 60);
    if (v.outcome != FAT_OUT_FAULT || !v.detail[0])
      fail_msg("%s: outcome %d, '%s'", faults[i], (int)v.outcome, v.detail);
    assert_true(isnan(v.timing.median));
    assert_int_equal(started, 2);
    is_fine(0);
    assert_int_equal(measure(1, 60).outcome, FAT_OUT_FAULT);
    assert_int_equal(started, 4);
    is_fine(0);
    end_world(NULL);
  }
}

static void a_hang_costs_its_deadline(void **state)
{
  (void)state;
  fault(1, "=hang");
  open_worker();
  double start = now();
  fat_verdict v = measure(1, 0.5);
  double took = now() - start;
  assert_int_equal(v.outcome, FAT_OUT_TIMEOUT);
  assert_non_null(strstr(v.detail, "deadline of 0.5 s"));
  assert_true(took >= 0.5);
  is_fine(0);
  int before = started;
  v = measure(1, 0.5);
  assert_int_equal(v.outcome, FAT_OUT_TIMEOUT);
  assert_int_equal(started, before + 2); /* the second one ran it alone */
  is_fine(0);
}

/* Somebody else's fault: alone it does not come again. */
static void blame_is_confirmed(void **state)
{
  char counts[400];
  (void)state;
  snprintf(counts, sizeof counts, "%s/counts", files.path);
  unlink(counts);
  setenv("FAKE_CUDA_STATE", counts, 1);
  fault(1, "#1=700");
  open_worker();
  is_fine(0);
  is_fine(1);
  assert_int_equal(started, 2);
}

/* Waits until a process has ended, and leaves it to be reaped. */
static void ended(pid_t pid)
{
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* One that dies while it has nothing to do is missed by nobody. */
static void an_idle_worker_may_die(void **state)
{
  bool done;
  fat_verdict v;
  (void)state;
  open_worker();
  is_fine(0);
  int pid = running;
  assert_int_equal(kill(pid, SIGKILL), 0);
  ended(pid);
  is_fine(0);
  assert_int_not_equal(running, pid);
  assert_int_equal(kill(running, SIGKILL), 0);
  pid = running;
  ended(pid);
  for (int i = 0; i < 20 && kill(pid, 0) == 0; i++) /* it is noticed between assignments, too */
    MUST(fat_worker_step(worker, 0.1, &v, &done, err));
  assert_int_equal(kill(pid, 0), -1);
  is_fine(1);
}

static void closing_ends_it(void **state)
{
  fat_assignment a = assignment(FAT_TASK_MEASURE, 1, 1);
  fat_verdict v;
  bool done;
  (void)state;
  fault(1, "=hang");
  open_worker();
  MUST(fat_worker_begin(worker, &a, 60, err));
  for (int i = 0; i < 10; i++)
    MUST(fat_worker_step(worker, 0.1, &v, &done, err));
  int pid = running;
  assert_true(pid > 0);
  end_world(NULL);
  assert_int_equal(kill(pid, 0), -1);
  assert_int_equal(errno, ESRCH);
  fat_worker_close(NULL);
}

/* ---- GPUs that cannot be used ---- */

static void fails_with(fat_status status, const char *word)
{
  fat_verdict v;
  fat_error e = {0};
  fat_assignment a = assignment(FAT_TASK_MEASURE, 0, 1);
  open_worker();
  fat_status got = run_task(&a, 60, &v, &e);
  if (got != status || !strstr(e.text, word))
    fail_msg("status %d, expected %d with '%s': %s", (int)got, (int)status, word, e.text);
  end_world(NULL);
}

static void no_gpu_is_told(void **state)
{
  (void)state;
  setenv("FATUNE_LIBCUDA", "/no/such/libcuda.so", 1);
  fails_with(FAT_E_NO_DRIVER, "/no/such/libcuda.so");
  begin_world(NULL);
  setenv("FAKE_CUDA_MODE", "2", 1);
  fails_with(FAT_E_BUSY, "");
}

/* After a fault no process can open it any more. */
static void a_lost_device_is_told(void **state)
{
  char counts[400], plan[300];
  fat_verdict v;
  fat_error e = {0};
  (void)state;
  snprintf(counts, sizeof counts, "%s/lost", files.path);
  unlink(counts);
  setenv("FAKE_CUDA_STATE", counts, 1);
  snprintf(plan, sizeof plan, "cuInit#2+=999,*_%.16s=700", made[1].source.hash);
  setenv("FAKE_CUDA_FAULT", plan, 1);
  open_worker();
  fat_assignment a = assignment(FAT_TASK_MEASURE, 1, 1), b = assignment(FAT_TASK_MEASURE, 0, 1);
  MUST(run_task(&a, 60, &v, err));
  assert_int_equal(v.outcome, FAT_OUT_FAULT);
  assert_int_equal(run_task(&b, 60, &v, &e), FAT_E_DEVICE_LOST);
  assert_string_not_equal(e.text, "");
}

/* ---- processes that talk nonsense ---- */

static void nonsense_is_refused(void **state)
{
  static const struct {
    const char *how;
    fat_status status;
    const char *word;
  } rows[] = {{"die", FAT_E_DEVICE_LOST, "ended with code 9 while it started"},
              {"signal", FAT_E_DEVICE_LOST, "signal 6"},
              {"short hello", FAT_E_IO, "greeting is malformed"},
              {"no message", FAT_E_IO, "no message"},
              {"out of turn", FAT_E_IO, "out of turn"},
              {"short verdict", FAT_E_IO, "verdict is malformed"},
              {"status", FAT_E_NOMEM, "as the test wants it"},
              {"die before inputs", FAT_E_DEVICE_LOST, "ended with code 8"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    begin_world(state);
    setenv("TEST_WORKER", rows[i].how, 1);
    fails_with(rows[i].status, rows[i].word);
  }
}

static int misbehave(const char *how)
{
  const uint32_t junk[2] = {77, 12};
  fat_wire_hello hello = {{0}};
  fat_verdict v = {.status = FAT_E_NOMEM, .detail = "as the test wants it"};
  fat_inbox inbox = {0};
  bool whole = false;
  if (!strcmp(how, "die"))
    return 9;
  if (!strcmp(how, "signal"))
    abort();
  if (!strcmp(how, "no message"))
    return send(FAT_SERVE_FD, junk, sizeof junk, 0) < 0;
  if (!strcmp(how, "out of turn"))
    return (int)fat_wire_send(FAT_SERVE_FD, FAT_WIRE_DONE, &v, sizeof v, NULL);
  fat_wire_send(FAT_SERVE_FD, FAT_WIRE_HELLO, &hello, sizeof hello - !strcmp(how, "short hello"), NULL);
  while (!whole && fat_inbox_read(&inbox, FAT_SERVE_FD, &whole, NULL) == FAT_OK)
    ;
  fat_inbox_clear(&inbox);
  if (!strcmp(how, "die before inputs"))
    return 8;
  fat_wire_send(FAT_SERVE_FD, FAT_WIRE_DONE, &v, !strcmp(how, "status") ? sizeof v : sizeof v / 2, NULL);
  while (fat_inbox_read(&inbox, FAT_SERVE_FD, &whole, NULL) == FAT_OK)
    ;
  return 0;
}

/* It has a process group of its own: a Ctrl-C reaches fatune alone. */
static void a_sanitizer_ends_when_it_is_to_stop(void **state)
{
  char tool[320];
  const fat_assignment none = {.count = 0};
  const volatile int stop = 1;
  fat_text log = {0};
  fat_error err = {0};
  fat_finding finding;
  (void)state;
  folder_write(&files, "compute-sanitizer", "#!/bin/sh\nsleep 20\n");
  snprintf(tool, sizeof tool, "%s/compute-sanitizer", files.path);
  assert_int_equal(chmod(tool, 0700), 0);
  const double begun = now();
  assert_int_equal(fat_sanitize_run(tool, "memcheck", 0, &none, &stop, &finding, &log, &err),
                   FAT_E_CANCELLED);
  assert_true(now() - begun < 10);
  fat_text_free(&log);
}

static void tools_misread_some_kernels(void **state)
{
  static const struct {
    const char *tool, *config;
    bool misread;
  } cases[] = {{"racecheck", "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z8-O1", true},
               {"memcheck", "bwd_ws:Br64-Bc128-s2-t2-S0-R1-Z8-O1", false},
               {"racecheck", "bwd_pair:Br64-s2-o1-t2-Z8", true},
               {"synccheck", "bwd_pair:Br64-s2-o1-t2-Z8", true},
               {"initcheck", "bwd_pair:Br64-s2-o1-t2-Z8", false},
               {"racecheck", "fwd_ws:Br128-Bc128-s3-q2-Q0-I1-P1-L2-Z8-B1", true},
               {"racecheck", "fwd_ws:Br128-Bc128-s3-q2-Q0-I1-P1-L2-Z8", false},
               {"racecheck", "bwd:Br32-Bc32-w4-A1-wS1-wK1-wQ1-s2-V0-q0-b1-Z1-U0-W16", false},
               {"synccheck", "bwd:Br32-Bc32-w4-A1-wS1-wK1-wQ1-s2-V0-q0-b1-Z1-U0-W16", true},
               {"synccheck", "bwd:Br32-Bc32-w4-wS1-wK1-wQ1-s2-V0-q0-b1-Z1-U0-W16", false},
               {"racecheck", "no config", false}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(fat_sanitize_misreads(cases[i].tool, cases[i].config), cases[i].misread);
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, begin_world, end_world)

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      WORLD(one_process_tries_many),
      WORLD(a_race_times_all),
      WORLD(a_race_times_every_kind),
      WORLD(a_race_that_breaks_off_leaves_no_kind_behind),
      WORLD(a_check_takes_no_time),
      WORLD(far_slower_than_the_best),
      WORLD(a_first_call_is_no_measure_of_short_ones),
      WORLD(outcomes_without_a_death),
      WORLD(a_fault_costs_a_process),
      WORLD(a_hang_costs_its_deadline),
      WORLD(blame_is_confirmed),
      WORLD(an_idle_worker_may_die),
      WORLD(closing_ends_it),
      WORLD(no_gpu_is_told),
      WORLD(a_lost_device_is_told),
      WORLD(nonsense_is_refused),
      WORLD(a_sanitizer_ends_when_it_is_to_stop),
      cmocka_unit_test(tools_misread_some_kernels),
  };
  if (argc > 1 && strcmp(argv[1], FAT_SERVE_WORD) == 0)
    return getenv("TEST_WORKER") ? misbehave(getenv("TEST_WORKER")) : fat_serve_main(argc, argv);
  return cmocka_run_group_tests(tests, make_kernels, free_kernels);
}
