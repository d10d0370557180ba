/* bench_run.c -- host time: fatune_run above a bare cuLaunchKernel, alone and in 16 threads, without tensor
 * maps and with three of them; making plans.
 *
 * On the fake driver, whose launch is the same in both columns; time is that of the thread's own processor.
 * Prints a table; exit 1 where a promise is broken: 0.5 us above a launch (2 us with maps, which the fake
 * driver checks about as the real one does), 0.5 us more where a call brings its sizes, 0.1 us of it to find
 * the best shape of a family, 3 ms for the first plan of a process from a warm database, 20 ms for a
 * family's, 20 us for a known problem. */
#include "make.h"
#include "runtime_fixture.h"
#include <pthread.h>
#include <time.h>

enum { THREADS = 16, CALLS = 20000, ROUNDS = 9 };

static fatune *h;

/* A plan and what it is called with. */
typedef struct planned {
  fatune_plan *plan, *family;
  attention a;
} planned;

static double now(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef enum what { LAUNCH, RUN, RUN_SIZES, FIND, FIND_AGAIN, ASK_CONTEXT, ENCODE } what;
typedef struct subject {
  what what;
  const planned *of;
  double seconds; /* of one call: the best of all rounds */
} subject;

static int encode(const planned *of, argument *map)
{
  const fat_cuda_calls calls = {.map_tiled = cu.cuTensorMapEncodeTiled};
  const fatune_tensor *t = &of->a.Q;
  const fat_view Q = {t->data, {t->stride[0], t->stride[1], t->stride[2]}};
  return fat_map_encode(&calls, &of->plan->main.shape[0], &Q, (fat_map_box){64, 0}, map->map);
}

/* The search alone, as for sizes that are new; 0 where it found a shape. */
static int find(const fatune_plan *family, const fat_problem *p)
{
  return fat_family_best(&family->family, p, &family->room, NULL) == NULL;
}

static void *time_calls(void *user)
{
  subject *s = user;
  const fat_launch_step *step = &s->of->plan->main.step[0]; /* the very launch that fatune_run makes */
  const fat_problem *p = &s->of->a.p;
  const fatune_sizes sizes = {.size = sizeof sizes, .b = p->b, .h = p->h, .hk = p->hk, .q = p->q, .k = p->k};
  unsigned char args[FAT_CALL_BYTES] = {0};
  argument map = {{0}};
  void *arguments[] = {args, &map, &map, &map}, *stream = NULL, *context = NULL;
  cu.cuCtxSetCurrent(bench.context);
  cu.cuStreamCreate(&stream, FAT_CUDA_STREAM_NON_BLOCKING);
  s->seconds = 1;
  for (int round = 0; round < ROUNDS; round++) {
    int failed = 0;
    double start = now(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < CALLS; i++)
      failed |= s->what == RUN          ? (int)fatune_run(s->of->plan, &s->of->a.all, NULL, NULL, stream)
                : s->what == RUN_SIZES  ? (int)fatune_run(s->of->family, &s->of->a.all, &sizes, NULL, stream)
                : s->what == FIND       ? find(s->of->family, p)
                : s->what == FIND_AGAIN ? !fat_family_known(&s->of->family->family, p, &s->of->family->room)
                : s->what == LAUNCH ? cu.cuLaunchKernel(step->function, step->grid, 1, 1, step->block, 1, 1,
                                                        step->shared, stream, arguments, NULL)
                : s->what == ENCODE ? encode(s->of, &map)
                                    : cu.cuCtxGetCurrent(&context);
    double took = (now(CLOCK_THREAD_CPUTIME_ID) - start) / CALLS;
    s->seconds = failed ? NAN : fmin(s->seconds, took);
  }
  return NULL;
}

/* Microseconds of one call in the slowest thread. */
static double in_threads(what what, const planned *of, int count)
{
  subject s[THREADS];
  pthread_t thread[THREADS];
  double worst = 0;
  for (int i = 0; i < count; i++) {
    s[i] = (subject){.what = what, .of = of};
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

static double tell(const char *what, int threads, double us)
{
  printf("%2d threads: %-33s%8.3f us\n", threads, what, us);
  return us;
}

/* Above the bare launch of the same kernel, alone and in many threads. */
static int compare(const char *name, const planned *of, double allowed)
{
  const int counts[] = {1, THREADS};
  int broken = 0;
  for (int i = 0; i < 2; i++) {
    const int n = counts[i];
    char what[64];
    printf("%s:\n", name);
    const double bare = tell("bare cuLaunchKernel", n, in_threads(LAUNCH, of, n));
    tell("the fake's cuCtxGetCurrent", n, in_threads(ASK_CONTEXT, of, n));
    if (of->plan->main.mapped >> FAT_Q & 1u)
      tell("one tensor map, the fake's", n, in_threads(ENCODE, of, n));
    const double run = tell("fatune_run", n, in_threads(RUN, of, n));
    snprintf(what, sizeof what, "%2d threads: above the launch", n);
    broken += check(what, run - bare, allowed, "us");
    const double sizes = tell("fatune_run of a family", n, in_threads(RUN_SIZES, of, n));
    snprintf(what, sizeof what, "%2d threads: numbers for a call's sizes", n);
    broken += check(what, sizes - run, 0.5, "us");
    snprintf(what, sizeof what, "%2d threads: the best of %d, %d kinds of tile", n, of->family->family.shapes,
             of->family->family.waves_count);
    broken += check(what, in_threads(FIND, of, n), 0.1, "us");
    snprintf(what, sizeof what, "%2d threads: the same sizes again", n);
    broken += check(what, in_threads(FIND_AGAIN, of, n), 0.1, "us");
  }
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
  store((stored){.problem = NEAR,
                 .gpu = "H200",
                 .config = "fwd:Br32-Bc32-T128-R4-W4-s0",
                 .ms = 1,
                 .origin = FAT_MEASURED,
                 .maps = 3});
  planned plain = {.a = attention_make(ASKED, 0, 0)}, mapped = {.a = attention_make(NEAR, 0, 0)};
  tensors_of(&plain.a);
  tensors_of(&mapped.a);
  h = open_usual();
  double start = now(CLOCK_MONOTONIC);
  plain.plan = plan_of(h, ASKED);
  broken += check("first plan of a process", 1e3 * (now(CLOCK_MONOTONIC) - start), 3, "ms");
  enum { PLANS = 1000 };
  start = now(CLOCK_MONOTONIC);
  for (int i = 0; i < PLANS; i++)
    fatune_plan_free(plan_of(h, ASKED));
  broken += check("plan of a known problem", 1e6 * (now(CLOCK_MONOTONIC) - start) / PLANS, 20, "us");
  mapped.plan = plan_of(h, NEAR);
  static const char *const configs[] = {WIDE, "fwd:Br32-Bc32-T128-R4-W4-s1", "fwd:Br64-Bc16-T128-R4-W4-s1",
                                        "fwd:Br128-Bc32-T256-R4-W4-s0"};
  for (int i = 1; i < 12; i++) { /* a family has about as many, of as many kinds of tiles */
    char problem[FAT_PROBLEM_TEXT];
    snprintf(problem, sizeof problem, "fwd-f32-b1-h4k2-q%d-k%d-d64-causal", 512 << i % 4, 512 << i);
    store((stored){
        .problem = problem, .gpu = "H200", .config = configs[i % 4], .ms = 1, .origin = FAT_MEASURED});
  }
  start = now(CLOCK_MONOTONIC);
  plain.family = mapped.family = plan_of(h, "fwd-f32-d64-causal");
  broken += check("plan of a family of 13 shapes", 1e3 * (now(CLOCK_MONOTONIC) - start), 20, "ms");
  broken += compare("a kernel that takes no tensor maps", &plain, 0.5);
  broken += compare("a kernel that takes three", &mapped, 2);
  fatune_plan_free(plain.plan);
  fatune_plan_free(plain.family);
  fatune_plan_free(mapped.plan);
  fatune_close(h);
  attention_free(&plain.a);
  attention_free(&mapped.a);
  group_close(NULL);
  return broken ? 1 : 0;
}
