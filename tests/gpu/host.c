/* host.c -- host time of fatune_run on the GPU of this machine, above the bare cuLaunchKernel of the same
 * launch: host [PROBLEM [PROBLEM]], for a plan of kernel fwd, whose arguments are pointers, and one of
 * fwd_ws, which takes four tensor maps (Hopper; left out elsewhere). Alone, and in 16 threads with a stream
 * each.
 *
 * Calls come in batches, each followed by a wait, so that the queue never fills; problems are to be small
 * enough for the GPU to keep up. All subjects take turns, batch by batch; figures are medians over batches.
 * Kernels come from the tuning database where it has them, else they are compiled (FATUNE_JIT names
 * libfatune-jit). Exit 1 where a promise is broken, for one thread: 0.5 us above the launch with pointers, 2
 * us with maps; 2 for usage, 77 where there is no GPU. */
#include "call.h"
#include "device.h"
#include "make.h"
#include "must.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 16, BATCH = 100, ROUNDS = 300, WARM = 20 /* rounds that are not counted */ };

static fat_driver *driver;
static const fat_cuda_calls *cu;
static void *context;
static fatune *library;

/* -- what is called */

typedef struct planned {
  fat_problem p;
  fatune_tensor tensor[FAT_TENSORS];
  fatune_tensors all;
  fatune_plan *plan;
  const fat_launch_step *step; /* the one launch of a call */
  fat_call args;
  unsigned char packed[FAT_CALL_BYTES]; /* as kernels take them */
  bool mapped;
} planned;

static bool place(planned *of, int t)
{
  const fat_extent e = fat_tensors_extent(&of->p, t);
  const int64_t heads = e.size[1], n = e.size[2], d = e.size[3];
  const size_t bytes =
      (size_t)(fat_tensors_elements(&of->p, t) * fat_dtypes[fat_tensors_dtype(&of->p, t)].bytes);
  fat_cuda_address at;
  MUST(cu->memory_alloc(&at, bytes + 4));
  MUST(cu->fill32(at, 0, bytes / 4 + 1));
  of->tensor[t] = (fatune_tensor){(void *)(uintptr_t)at, {heads * n * d, n * d, d}};
  return true;
}

static bool prepare(planned *of, const char *problem, const char *kernel)
{
  const fatune_request r = {.size = sizeof r,
                            .problem = problem,
                            .kernel = kernel,
                            .policy = FATUNE_COMPILE,
                            .flags = FATUNE_ALIGNED};
  const fat_problem *p = &of->p;
  uint64_t bits;
  MUST(fat_problem_parse(problem, &of->p, NULL));
  of->all = (fatune_tensors){.size = sizeof of->all, .scale = 1 / sqrtf((float)p->d)};
  MUST(fatune_plan_make(library, &r, &of->plan));
  for (int t = 0; t < FAT_TENSORS; t++) {
    const fat_role role = fat_tensors_role(p, t);
    const fatune_tensor *tensor = &of->tensor[t];
    if (role == FAT_ROLE_NONE || role == FAT_ROLE_WANTED)
      continue;
    if (!place(of, t))
      return false;
    memcpy((char *)&of->all + of->plan->form.tensor[t].place, &tensor, sizeof tensor);
  }
  MUST(fat_call_fill(&of->plan->form, p, &of->all, &of->args, &bits, NULL));
  const fat_launch *launch = &of->plan->main;
  fat_tensors_pack(&launch->layout, p, &of->args, of->packed);
  of->step = &launch->step[0];
  if (launch->steps != 1 || of->step->grid == 0 || of->plan->workspace > 0) {
    printf("%s by %s is more than one launch, or none: give a problem without mask\n", problem, kernel);
    return false;
  }
  of->mapped = launch->mapped != 0;
  return true;
}

/* The arguments of the launch, made once: what fatune_run makes at each call. */
typedef struct arguments {
  _Alignas(FAT_CUDA_MAP_ALIGN) unsigned char map[FAT_RECIPE_ARGS][FAT_CUDA_MAP_BYTES];
  int32_t number[FAT_RECIPE_ARGS];
  void *list[FAT_RECIPE_ARGS];
} arguments;

static int encode(const planned *of, arguments *to)
{
  int result = 0;
  for (int a = 0; a < of->step->args; a++) {
    const fat_tensor t = of->step->arg[a].tensor;
    if (of->step->arg[a].kind == FAT_ARG_MAP)
      result |= fat_map_encode(cu, &of->plan->main.shape[t], &of->args.tensor[t],
                               fat_map_box_of((int)t, of->step->arg[a].value, of->step->heads), to->map[a]);
  }
  return result;
}

static int fill(planned *of, arguments *to)
{
  for (int a = 0; a < of->step->args; a++) {
    const fat_arg_kind kind = of->step->arg[a].kind;
    to->number[a] = (int32_t)of->step->arg[a].value;
    to->list[a] = kind == FAT_ARG_CALL  ? (void *)of->packed
                  : kind == FAT_ARG_INT ? (void *)&to->number[a]
                                        : (void *)to->map[a];
  }
  return encode(of, to);
}

/* -- how long it takes */

typedef enum subject { LAUNCH, RUN, ENCODE, SUBJECTS } subject;
static const char *const names[SUBJECTS] = {"bare cuLaunchKernel", "fatune_run", "of it: tensor maps"};

typedef struct times {
  double wall[ROUNDS], cpu[ROUNDS]; /* seconds of a call in each batch */
} times;

typedef struct worker {
  pthread_t thread;
  pthread_barrier_t *together;
  planned *of;
  bool failed;
  times of_subject[SUBJECTS];
} worker;

static double now(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int call_once(subject what, const planned *of, arguments *args, void *stream)
{
  const fat_launch_step *s = of->step;
  if (what == RUN)
    return (int)fatune_run(of->plan, &of->all, NULL, NULL, stream);
  if (what == ENCODE)
    return encode(of, args);
  return cu->launch(s->function, s->grid, 1, 1, s->block, 1, 1, s->shared, stream, args->list, NULL);
}

static void time_batch(worker *w, subject what, int round, arguments *args, void *stream)
{
  int failed = 0;
  pthread_barrier_wait(w->together); /* all threads are about the same thing */
  const double cpu = now(CLOCK_THREAD_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);
  for (int i = 0; i < BATCH; i++)
    failed |= call_once(what, w->of, args, stream);
  const double wall_end = now(CLOCK_MONOTONIC), cpu_end = now(CLOCK_THREAD_CPUTIME_ID);
  w->failed |= (failed | cu->stream_sync(stream)) != 0;
  if (round >= 0) {
    w->of_subject[what].wall[round] = (wall_end - wall) / BATCH;
    w->of_subject[what].cpu[round] = (cpu_end - cpu) / BATCH;
  }
}

static void *work(void *user)
{
  worker *w = user;
  arguments args;
  void *stream = NULL;
  w->failed = cu->context_set(context) != 0 ||
              cu->stream_create(&stream, FAT_CUDA_STREAM_NON_BLOCKING) != 0 || fill(w->of, &args) != 0;
  for (int round = -WARM; round < ROUNDS; round++)
    for (int what = 0; what < SUBJECTS; what++)
      time_batch(w, (subject)what, round, &args, stream);
  return NULL;
}

static int by_size(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Prints a row; the median of the slowest thread, in microseconds. */
static double tell(worker *w, int count, int what)
{
  double median = 0, least = INFINITY, cpu = 0;
  for (int i = 0; i < count; i++) {
    times *t = &w[i].of_subject[what];
    qsort(t->wall, ROUNDS, sizeof *t->wall, by_size);
    qsort(t->cpu, ROUNDS, sizeof *t->cpu, by_size);
    median = fmax(median, t->wall[ROUNDS / 2]);
    least = fmin(least, t->wall[0]);
    cpu = fmax(cpu, t->cpu[ROUNDS / 2]);
  }
  printf("%2d %-7s %-22s %9.3f %9.3f %9.3f\n", count, count == 1 ? "thread" : "threads", names[what],
         1e6 * median, 1e6 * least, 1e6 * cpu);
  return 1e6 * median;
}

/* `above`: how much more fatune_run takes than the launch. */
static bool measure(planned *of, int count, double *above)
{
  static worker w[THREADS];
  pthread_barrier_t together;
  bool failed = false;
  double us[SUBJECTS] = {0};
  MUST(pthread_barrier_init(&together, NULL, (unsigned)count));
  for (int i = 0; i < count; i++) {
    w[i].together = &together;
    w[i].of = of;
    MUST(pthread_create(&w[i].thread, NULL, work, &w[i]));
  }
  for (int i = 0; i < count; i++) {
    pthread_join(w[i].thread, NULL);
    failed |= w[i].failed;
  }
  pthread_barrier_destroy(&together);
  MUST(failed);
  MUST(cu->context_sync());
  for (int what = 0; what < (of->mapped ? SUBJECTS : ENCODE); what++)
    us[what] = tell(w, count, what);
  *above = us[RUN] - us[LAUNCH];
  return true;
}

static bool compare(const char *problem, const char *kernel, bool mapped, double allowed)
{
  planned of = {0};
  double above, crowded;
  if (!prepare(&of, problem, kernel))
    return false;
  if (of.mapped != mapped) {
    printf("%s by %s takes %s\n", problem, kernel, of.mapped ? "tensor maps" : "no tensor maps");
    return false;
  }
  printf("%s by %s, arguments are %s\n%-33s %9s %9s %9s\n", problem, kernel,
         mapped ? "tensor maps" : "pointers", "us of a call", "median", "least", "CPU");
  if (!measure(&of, 1, &above) || !measure(&of, THREADS, &crowded))
    return false;
  const bool kept = above <= allowed;
  printf("above the launch: %.3f us, %.1f are promised%s; in %d threads %.3f us\n\n", above, allowed,
         kept ? "" : ": MORE", THREADS, crowded);
  fatune_plan_free(of.plan);
  return kept;
}

static bool begin(fat_gpu *gpu)
{
  int device;
  fat_error err = {0};
  MUST(cu->device(&device, 0));
  MUST(fat_device_facts(driver, device, gpu, &err));
  MUST(cu->primary_retain(&context, device));
  MUST(cu->context_set(context));
  MUST(fatune_open(NULL, &library));
  return true;
}

int main(int argc, char **argv)
{
  const char *plain = argc > 1 ? argv[1] : "fwd-f32-b1-h1-q64-k64-d64";
  const char *mapped = argc > 2 ? argv[2] : "fwd-bf16-b1-h1-q128-k128-d64";
  fat_error err = {0};
  fat_gpu gpu;
  if (argc > 3) {
    fprintf(stderr, "usage: host [PROBLEM [PROBLEM]], of fwd and of fwd_ws\n");
    return 2;
  }
  if (fat_driver_open(&driver, &err) != FAT_OK) {
    printf("skipped: %s\n", err.text);
    return 77;
  }
  cu = fat_driver_table(driver);
  if (!begin(&gpu))
    return 1;
  bool kept = compare(plain, "fwd", false, 0.5);
  if (gpu.sm == 90)
    kept = compare(mapped, "fwd_ws", true, 2) && kept;
  else
    printf("left out: tensor maps, fwd_ws is for Hopper and this is %s\n", gpu.name);
  fatune_close(library);
  return kept ? 0 : 1;
}
