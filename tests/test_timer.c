/* test_timer.c -- samples, rounds and figures, on the fake driver whose times are scripted. */
#include "fake/bench.h"
#include "folder.h"
#include "worker/timer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

static fake_bench b;
static fat_driver *driver;
static fat_timer timer;
static fat_error err;
#define MUST(call)                                                                                           \
  do {                                                                                                       \
    if ((call) != FAT_OK)                                                                                    \
      fail_msg("%s: %s", #call, err.text);                                                                   \
  } while (0)

static int begin(void **state)
{
  (void)state;
  fake_bench_clean(&b, "T4");
  fake_bench_begin(&b, 75);
  MUST(fat_timer_open(driver, &timer, &err));
  return 0;
}

static int end(void **state)
{
  (void)state;
  fat_timer_close(&timer);
  return 0;
}

/* One launch of a kernel of its own name for each runner; it notes the turns it was given. */
typedef struct worker {
  void *function;
  int calls, last;
  int fail_at; /* the call with this number fails; 0: none */
  char *log;   /* of all runners: one letter a call */
  char letter;
} worker;

static fat_status launch(void *user, int turn, fat_error *e)
{
  worker *w = user;
  fat_cuda_address at = 0;
  int number = 0;
  void *arguments[] = {&at, &at, &number};
  w->calls++;
  w->last = turn;
  if (w->log)
    strncat(w->log, &w->letter, 1);
  if (w->calls == w->fail_at)
    return fat_status_fail(e, FAT_E_LAUNCH, "as the test wants it");
  return fat_driver_check(driver, "cuLaunchKernel",
                          b.cu.cuLaunchKernel(w->function, 4, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL), e);
}

/* Kernels "a_<hash>", "b_<hash>", ... */
static void make_workers(worker *w, int count)
{
  static char names[16][32];
  fake_kernel kernels[16];
  void *module;
  size_t size;
  for (int i = 0; i < count; i++) {
    snprintf(names[i], sizeof names[i], "%c_kernel", 'a' + i);
    kernels[i] = fake_copy_kernel;
    kernels[i].name = names[i];
  }
  void *image = b.cu.fake_cubin(75, count, kernels, &size);
  assert_int_equal(b.cu.cuModuleLoadData(&module, image), 0);
  free(image);
  for (int i = 0; i < count; i++) {
    w[i] = (worker){.letter = (char)('a' + i)};
    assert_int_equal(b.cu.cuModuleGetFunction(&w[i].function, module, names[i]), 0);
  }
}

/* ---- figures ---- */

static void quantiles(void **state)
{
  const double x[] = {1, 2, 3, 4, 10};
  (void)state;
  assert_true(fat_timer_quantile(x, 5, 0.5) == 3);
  assert_true(fat_timer_quantile(x, 5, 0) == 1);
  assert_true(fat_timer_quantile(x, 5, 1) == 10);
  assert_true(fabs(fat_timer_quantile(x, 5, 0.2) - 1.8) < 1e-12);
  assert_true(fabs(fat_timer_quantile(x, 4, 0.5) - 2.5) < 1e-12);
  assert_true(fat_timer_quantile(x, 1, 0.8) == 1);
  assert_true(isnan(fat_timer_quantile(x, 0, 0.5)));
}

/* The order of samples does not matter, and clocks that are unknown do not count. */
static void figures(void **state)
{
  fat_timing t = {.count = 5, .ms = {5, 1, 4, 2, 3}, .mhz = {NAN, 1500, NAN, 1400, 1450}};
  (void)state;
  fat_timer_figures(&t);
  assert_true(t.median == 3);
  assert_true(fabs(t.p20 - 1.8) < 1e-12 && fabs(t.p80 - 4.2) < 1e-12);
  assert_true(t.clock == 1450);
  assert_true(t.ms[0] == 5); /* samples stay in the order in which they were taken */
  t = (fat_timing){.count = 1, .ms = {2}, .mhz = {NAN}};
  fat_timer_figures(&t);
  assert_true(t.median == 2 && t.p20 == 2 && t.p80 == 2 && isnan(t.clock));
  t = (fat_timing){0};
  fat_timer_figures(&t);
  assert_true(isnan(t.median) && isnan(t.clock));
}

static void stability(void **state)
{
  fat_timing t = {.count = 10, .ms = {1, 1.001, 1.002, 1.001, 1, 1.002, 1.001, 1, 9, 0.1}};
  (void)state;
  assert_true(fat_timer_stable(&t)); /* outliers at both ends are no news */
  t.ms[1] = t.ms[2] = t.ms[3] = 1.02;
  assert_false(fat_timer_stable(&t));
  t.count = 0;
  assert_false(fat_timer_stable(&t));
}

/* 1500 cycles a microsecond are 1500 MHz; nothing is made of stamps that stand still or run back. */
static void clocks_from_stamps(void **state)
{
  const unsigned long long from[2] = {1000, 5000}, later[2] = {101000, 155000}, soon[2] = {1500, 5750},
                           still[2] = {101000, 5000}, back[2] = {500, 155000};
  (void)state;
  assert_true(fabs(fat_timer_mhz(from, later) - 1500) < 1e-9);
  assert_true(isnan(fat_timer_mhz(from, soon)));
  assert_true(isnan(fat_timer_mhz(from, still)));
  assert_true(isnan(fat_timer_mhz(from, back)));
  assert_true(isnan(fat_timer_mhz(from, from)));
}

/* ---- samples ---- */

static void a_probe_is_one_call(void **state)
{
  worker w;
  double ms;
  (void)state;
  make_workers(&w, 1);
  b.cu.fake_times("a_*=0.75");
  const fat_runner runner = {launch, &w};
  MUST(fat_timer_probe(&timer, &runner, &ms, &err));
  assert_int_equal(w.calls, 1);
  assert_true(fabs(ms - 0.75) < 1e-6);
}

static void a_short_call_is_probed_again(void **state)
{
  worker w;
  double ms = 0.012;
  (void)state;
  make_workers(&w, 1);
  b.cu.fake_times("a_*=0.003");
  const fat_runner runner = {launch, &w};
  MUST(fat_timer_again(&timer, &runner, &ms, &err));
  assert_int_equal(w.calls, 9); /* of 0.1 ms */
  assert_true(fabs(ms - 0.003) < 1e-6);
  ms = 0.75;
  MUST(fat_timer_again(&timer, &runner, &ms, &err));
  assert_int_equal(w.calls, 9);
  assert_true(fabs(ms - 0.75) < 1e-6);
}

/* A worker whose calls take so long, timed for so many seconds at most. */
static void time_one(worker *w, double ms, double seconds, fat_timing *t)
{
  char times[32];
  const fat_runner runner = {launch, w};
  make_workers(w, 1);
  snprintf(times, sizeof times, "a_*=%g", ms);
  b.cu.fake_times(times);
  MUST(fat_timer_run(&timer, &runner, &ms, 1, seconds, FAT_TIMER_LEAST, t, &err));
}

/* Steady times: few samples, and those are right. */
static void steady_times_take_ten_samples(void **state)
{
  worker w;
  fat_timing t;
  (void)state;
  time_one(&w, 2, 10, &t);
  assert_int_equal(t.count, 10);
  assert_true(fabs(t.median - 2) < 1e-5 && fabs(t.p20 - 2) < 1e-5 && fabs(t.p80 - 2) < 1e-5);
  assert_true(isnan(t.clock));           /* no tool that reads it */
  assert_int_equal(w.calls, 10 + 2);     /* 3 ms of warming up */
  assert_int_equal(w.last, w.calls - 1); /* turns count up from 0, warming up included */
}

static void noisy_times_take_all_they_may(void **state)
{
  worker w;
  fat_timing t;
  const double probe = 2;
  (void)state;
  make_workers(&w, 1);
  b.cu.fake_times("a_*=2");
  setenv("FAKE_CUDA_NOISE", "0.2", 1);
  const fat_runner runner = {launch, &w};
  MUST(fat_timer_run(&timer, &runner, &probe, 1, 10, FAT_TIMER_LEAST, &t, &err));
  assert_int_equal(t.count, FAT_TIMER_MOST);
  assert_true(t.p20 < t.median && t.median < t.p80);
  assert_true(t.p20 > 1.5 && t.p80 < 2.5);
  MUST(fat_timer_run(&timer, &runner, &probe, 1, 0.02, FAT_TIMER_LEAST, &t,
                     &err)); /* 20 ms are spent after ten */
  assert_in_range(t.count, 9, 12);
  MUST(fat_timer_run(&timer, &runner, &probe, 1, 0, FAT_TIMER_LEAST, &t, &err));
  assert_int_equal(t.count, FAT_TIMER_LEAST);
  unsetenv("FAKE_CUDA_NOISE");
}

/* What is shorter than events can tell is called several times a sample; the time is that of one call. */
static void short_kernels_are_called_in_rows(void **state)
{
  worker w;
  fat_timing t;
  (void)state;
  time_one(&w, 0.01, 10, &t);
  assert_int_equal(t.count, 10);
  assert_true(fabs(t.median - 0.01) < 1e-5);
  assert_int_equal(w.calls, 64 + 10 * 10); /* warming up: at most 64 calls; then 0.1 ms a sample */
}

/* Under load each sample comes behind as much of the same work, and the first round is none. */
static void under_load_samples_follow_work(void **state)
{
  worker w;
  fat_timing t;
  (void)state;
  timer.load_ms = 20;
  time_one(&w, 0.5, 0, &t);
  timer.load_ms = 0;
  assert_int_equal(t.count, FAT_TIMER_LEAST);
  assert_true(fabs(t.median - 0.5) < 1e-5);
  assert_int_equal(w.calls, 6 + 40 + 2 * 40 * FAT_TIMER_LEAST);
}

/* In each round another one begins, so that nobody always comes behind the same one. */
static void runners_take_turns(void **state)
{
  enum { RUNNERS = 3 };
  worker w[RUNNERS];
  fat_runner runners[RUNNERS];
  fat_timing t[RUNNERS];
  const double probe[RUNNERS] = {4, 4, 4};
  char log[1000] = "";
  (void)state;
  make_workers(w, RUNNERS);
  b.cu.fake_times("a_*=4,b_*=5,c_*=6");
  for (int i = 0; i < RUNNERS; i++) {
    w[i].log = log;
    runners[i] = (fat_runner){launch, &w[i]};
  }
  MUST(fat_timer_run(&timer, runners, probe, RUNNERS, 10, FAT_TIMER_LEAST, t, &err));
  assert_true(strncmp(log,
                      "abc"
                      "abc"
                      "bca"
                      "cab"
                      "abc",
                      15) == 0);
  for (int i = 0; i < RUNNERS; i++)
    assert_true(fabs(t[i].median - (4 + i)) < 1e-5);
}

/* A runner whose calls take 5 and 6 ms by turns. */
static fat_status launch_unsteady(void *user, int turn, fat_error *e)
{
  b.cu.fake_times(turn % 2 ? "a_*=4,b_*=5" : "a_*=4,b_*=6");
  return launch(user, turn, e);
}

/* Else the steady one would be known by the first moments alone, when the GPU is cool. */
static void the_steady_goes_on_with_the_unsteady(void **state)
{
  worker w[2];
  fat_timing t[2];
  const double probe[2] = {4, 5};
  (void)state;
  make_workers(w, 2);
  const fat_runner runners[2] = {{launch, &w[0]}, {launch_unsteady, &w[1]}};
  MUST(fat_timer_run(&timer, runners, probe, 2, 10, FAT_TIMER_LEAST, t, &err));
  assert_int_equal(t[0].count, FAT_TIMER_MOST);
  assert_int_equal(t[1].count, FAT_TIMER_MOST);
  MUST(fat_timer_run(&timer, runners, probe, 2, 0.06, FAT_TIMER_LEAST, t, &err)); /* of both 120 ms */
  assert_in_range(t[0].count, 11, 14);
  assert_int_equal(t[1].count, t[0].count);
}

static void too_many_runners(void **state)
{
  fat_runner runners[17] = {{0}};
  fat_timing t[17];
  const double probe[17] = {0};
  (void)state;
  for (int n = 0; n <= 17; n += 17) {
    err.text[0] = 0;
    assert_int_equal(fat_timer_run(&timer, runners, probe, n, 1, FAT_TIMER_LEAST, t, &err), FAT_E_INPUT);
    assert_string_not_equal(err.text, "");
  }
}

/* ---- stamps ---- */

/* Gives the timer a kernel that stamps, and room for two. */
static void make_stamp(void)
{
  const fake_kernel tool = {.name = "stamp", .registers = 16, .params = 2, .size = {8, 8}};
  size_t size;
  void *module, *image = b.cu.fake_cubin(75, 1, &tool, &size);
  assert_int_equal(b.cu.cuModuleLoadData(&module, image), 0);
  free(image);
  assert_int_equal(b.cu.cuModuleGetFunction(&timer.stamp, module, tool.name), 0);
  assert_int_equal(b.cu.cuMemAlloc_v2(&timer.stamps, 64), 0);
  timer.stamp_blocks = 40;
}

/* The kernel that stamps runs before and after each sample; the fake's leaves memory as it is. */
static void samples_lie_between_stamps(void **state)
{
  worker w;
  fat_timing t;
  const double probe = 2;
  const unsigned long long stamps[2][2] = {{1000, 2000}, {1001000, 1602000}};
  (void)state;
  make_workers(&w, 1);
  make_stamp();
  b.cu.fake_times("a_*=2,stamp=0.001");
  assert_int_equal(b.cu.cuMemcpyHtoD_v2(timer.stamps, stamps, sizeof stamps), 0);
  const fat_runner runner = {launch, &w};
  MUST(fat_timer_run(&timer, &runner, &probe, 1, 10, FAT_TIMER_LEAST, &t, &err));
  assert_int_equal(b.cu.fake_launches("stamp"), 2 * t.count);
  assert_true(fabs(t.median - 2) < 1e-5); /* stamps lie outside of what is timed */
  assert_true(fabs(t.clock - 1600) < 1e-9);
  assert_true(fabs(t.mhz[t.count - 1] - 1600) < 1e-9);
}

static int (*real_launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          void *, void **, void **);
static double held_ms[256]; /* of each stamp */
static int stamps_seen;

static int watch_launch(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, void *stream, void **arguments, void **extra)
{
  if (function == timer.stamp && stamps_seen < 256)
    held_ms[stamps_seen++] = 1e-6 * (double)*(unsigned long long *)arguments[1];
  return real_launch(function, x, y, z, bx, by, bz, shared, stream, arguments, extra);
}

/* A host whose seconds pass by launches alone, so that a busy machine changes nothing here. */
static double host_seconds, launch_seconds;

static double host_now(void)
{
  return host_seconds;
}

static fat_status launch_in_time(void *user, int turn, fat_error *e)
{
  host_seconds += launch_seconds;
  return launch(user, turn, e);
}

/* Calls that take the GPU less than twice as long as the host takes to launch them are queued while the GPU
 * is held, half as long again as queueing takes, so that it does them one behind the other; others are not,
 * nor those that are timed alone, and nobody is held for more than 8 ms. */
static void short_calls_are_queued_first(void **state)
{
  static const struct {
    const char *times;
    double ms, launch_us, held; /* held: in ms, before each sample */
  } cases[] = {{"a_*=0.002", 0.002, 4, 1.5 * 50 * 0.004},
               {"a_*=0.002", 0.002, 0.9, 0},
               {"a_*=0.05", 0.05, 30, 1.5 * 2 * 0.03},
               {"a_*=0.05", 0.05, 24, 0},
               {"a_*=0.01", 0.01, 900, 8},
               {"a_*=0.09", 0.09, 4, 0},
               {"a_*=2", 2, 4000, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    worker w;
    fat_timing t;
    double again = cases[i].ms;
    fat_cuda_calls *calls = (fat_cuda_calls *)fat_driver_table(driver);
    make_workers(&w, 1);
    make_stamp();
    timer.now = host_now;
    launch_seconds = 1e-6 * cases[i].launch_us;
    real_launch = calls->launch;
    calls->launch = watch_launch;
    stamps_seen = 0;
    b.cu.fake_times(cases[i].times);
    const fat_runner runner = {launch_in_time, &w};
    const fat_status status =
        fat_timer_run(&timer, &runner, &cases[i].ms, 1, 0.001, FAT_TIMER_LEAST, &t, &err);
    const int samples = stamps_seen;
    const fat_status second = fat_timer_again(&timer, &runner, &again, &err);
    calls->launch = real_launch;
    assert_int_equal(status, FAT_OK);
    assert_int_equal(second, FAT_OK);
    assert_int_equal(samples, 2 * t.count);
    assert_int_equal(stamps_seen, samples + (cases[i].ms < 0.1));
    for (int n = 0; n < stamps_seen; n++)
      if (fabs(held_ms[n] - (n % 2 == 0 ? cases[i].held : 0)) > 1e-5)
        fail_msg("%s, %g us a launch: held for %g ms %s sample %d", cases[i].times, cases[i].launch_us,
                 held_ms[n], n % 2 == 0 ? "before" : "behind", n / 2);
    assert_int_equal(b.cu.cuMemFree_v2(timer.stamps), 0);
  }
}

/* ---- failures ---- */

static void each_failing_call_is_told(void **state)
{
  static const char *const calls[] = {"cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime",
                                      "cuLaunchKernel"};
  worker w;
  fat_timing t;
  const double probe = 2;
  (void)state;
  make_workers(&w, 1);
  const fat_runner runner = {launch, &w};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    char fault[64];
    snprintf(fault, sizeof fault, "%s#3=719", calls[i]);
    begin(NULL);
    make_workers(&w, 1);
    b.cu.fake_fault(fault);
    err = (fat_error){0};
    assert_int_equal(fat_timer_run(&timer, &runner, &probe, 1, 1, FAT_TIMER_LEAST, &t, &err),
                     FAT_E_CONTEXT_DEAD);
    if (!strstr(err.text, calls[i]))
      fail_msg("'%s' does not name %s", err.text, calls[i]);
    end(NULL);
  }
  begin(NULL);
  make_workers(&w, 1);
  w.fail_at = 5;
  assert_int_equal(fat_timer_run(&timer, &runner, &probe, 1, 1, FAT_TIMER_LEAST, &t, &err), FAT_E_LAUNCH);
  assert_int_equal(w.calls, 5);
}

/* A time that none can be is the kernel's failure, as a launch is, whichever sample it is of; the fake's
 * clock is never right again once it was infinite, so that what follows is no number. */
static void times_that_are_none(void **state)
{
  static const char *const times[] = {"a_*=0", "a_*=inf"};
  static const char *const said[] = {"lie 0 ms apart", "lie inf ms apart"};
  worker w;
  fat_timing t;
  double ms;
  (void)state;
  for (int i = 0; i < 2; i++) {
    make_workers(&w, 1);
    b.cu.fake_times(times[i]);
    const fat_runner runner = {launch, &w};
    err = (fat_error){0};
    assert_int_equal(fat_timer_probe(&timer, &runner, &ms, &err), FAT_E_LAUNCH);
    if (!strstr(err.text, said[i]))
      fail_msg("'%s' lacks '%s'", err.text, said[i]);
    const double probe = 2;
    err = (fat_error){0};
    assert_int_equal(fat_timer_run(&timer, &runner, &probe, 1, 1, FAT_TIMER_LEAST, &t, &err), FAT_E_LAUNCH);
    assert_non_null(strstr(err.text, i ? "nan ms apart" : "lie 0 ms apart"));
  }
}

/* Half made is closed all the same. */
static void a_timer_that_cannot_be_made(void **state)
{
  fat_timer half;
  (void)state;
  b.cu.fake_fault("cuEventCreate#2=2");
  assert_int_equal(fat_timer_open(driver, &half, &err), FAT_E_DEVICE_MEMORY);
  fat_timer_close(&half);
  fat_timer_close(&half);
}

static int open_driver(void **state)
{
  (void)state;
  setenv("FATUNE_LIBCUDA", FAKES "/fake_cuda.so", 1);
  fake_bench_clean(&b, "T4");
  MUST(fat_driver_open(&driver, &err));
  return 0;
}

static int close_driver(void **state)
{
  (void)state;
  fat_driver_close(driver);
  return 0;
}

#define TIMED(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantiles),
      cmocka_unit_test(figures),
      cmocka_unit_test(stability),
      cmocka_unit_test(clocks_from_stamps),
      TIMED(a_probe_is_one_call),
      TIMED(a_short_call_is_probed_again),
      TIMED(steady_times_take_ten_samples),
      TIMED(noisy_times_take_all_they_may),
      TIMED(short_kernels_are_called_in_rows),
      TIMED(under_load_samples_follow_work),
      TIMED(runners_take_turns),
      TIMED(the_steady_goes_on_with_the_unsteady),
      TIMED(too_many_runners),
      TIMED(samples_lie_between_stamps),
      TIMED(short_calls_are_queued_first),
      TIMED(each_failing_call_is_told),
      TIMED(times_that_are_none),
      TIMED(a_timer_that_cannot_be_made),
  };
  return cmocka_run_group_tests(tests, open_driver, close_driver);
}
