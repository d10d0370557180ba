/* bench_run.c -- host time: fatune_run above a bare cuLaunchKernel, alone and in 16 threads; making plans.
 *
 * On the fake driver, whose launch is the same in both columns; time is that of the thread's own processor.
 * Prints a table; exit 1 where a promise is broken: 0.5 us above a launch, 3 ms for the first plan of a
 * process from a warm database, 20 us for a known problem. */
#include "make.h"
#include "runtime_fixture.h"
#include <pthread.h>
#include <time.h>

enum { THREADS = 16, CALLS = 20000, ROUNDS = 9 };

static fatune *h;
static fatune_plan *plan;
static attention a;

static double now(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef enum what { LAUNCH, RUN, ASK_CONTEXT } what;
typedef struct subject {
  what what;
  double seconds; /* of one call: the best of all rounds */
} subject;

static void *time_calls(void *user)
{
  subject *s = user;
  const fat_launch_step *step = &plan->main.step[0]; /* the very launch that fatune_run makes */
  call args = {.b = 1};
  void *arguments[] = {&args}, *stream = NULL, *context = NULL;
  cu.cuCtxSetCurrent(bench.context);
  cu.cuStreamCreate(&stream, FAT_CUDA_STREAM_NON_BLOCKING);
  s->seconds = 1;
  for (int round = 0; round < ROUNDS; round++) {
    int failed = 0;
    double start = now(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < CALLS; i++)
      failed |= s->what == RUN      ? (int)fatune_run(plan, &a.all, NULL, stream)
                : s->what == LAUNCH ? cu.cuLaunchKernel(step->function, step->grid, 1, 1, step->block, 1, 1,
                                                        step->shared, stream, arguments, NULL)
                                    : cu.cuCtxGetCurrent(&context);
    double took = (now(CLOCK_THREAD_CPUTIME_ID) - start) / CALLS;
    s->seconds = failed ? NAN : fmin(s->seconds, took);
  }
  return NULL;
}

/* Microseconds of one call in the slowest thread. */
static double in_threads(what what, int count)
{
  subject s[THREADS];
  pthread_t thread[THREADS];
  double worst = 0;
  for (int i = 0; i < count; i++) {
    s[i] = (subject){.what = what};
    if (pthread_create(&thread[i], NULL, time_calls, &s[i]) != 0)
      return NAN;
  }
  for (int i = 0; i < count; i++) {
    pthread_join(thread[i], NULL);
    worst = fmax(worst, isnan(s[i].seconds) ? INFINITY : s[i].seconds);
  }
  return 1e6 * worst;
}

static int check(const char *what, double value, double allowed, const char *unit)
{
  bool broken = !(value <= allowed);
  printf("%-44s %8.3f %s%s\n", what, value, unit, broken ? "   more than promised" : "");
  return broken;
}

int main(void)
{
  int broken = 0;
  clearenv(); /* the fake driver reads its plans from there at each call, which takes time as a driver does
                 not */
  group_open(NULL);
  begin(NULL);
  cu.fake_compute(FAKE_NOTHING);
  store_usual();
  a = attention_make(ASKED, 0, 0);
  tensors_of(&a);
  h = open_usual();
  double start = now(CLOCK_MONOTONIC);
  plan = plan_of(h, ASKED);
  broken += check("first plan of a process", 1e3 * (now(CLOCK_MONOTONIC) - start), 3, "ms");
  enum { PLANS = 1000 };
  start = now(CLOCK_MONOTONIC);
  for (int i = 0; i < PLANS; i++)
    fatune_plan_free(plan_of(h, ASKED));
  broken += check("plan of a known problem", 1e6 * (now(CLOCK_MONOTONIC) - start) / PLANS, 20, "us");
  const int counts[] = {1, THREADS};
  for (int i = 0; i < 2; i++) {
    char what[64];
    const double bare = in_threads(LAUNCH, counts[i]), run = in_threads(RUN, counts[i]);
    printf("%2d threads: bare cuLaunchKernel              %8.3f us\n", counts[i], bare);
    printf("%2d threads: the fake's cuCtxGetCurrent       %8.3f us\n", counts[i],
           in_threads(ASK_CONTEXT, counts[i]));
    printf("%2d threads: fatune_run                       %8.3f us\n", counts[i], run);
    snprintf(what, sizeof what, "%2d threads: above the launch", counts[i]);
    broken += check(what, run - bare, 0.5, "us");
  }
  fatune_plan_free(plan);
  fatune_close(h);
  attention_free(&a);
  group_close(NULL);
  return broken ? 1 : 0;
}
