/* contract.c -- the contract of libfatune on the GPU of this machine: right numbers for any layout, bit-equal
 * repeats, graphs, threads and streams, contexts, far strides, host time.
 *
 * Kernels come from the tuning database where it has them, else they are compiled (FATUNE_JIT names
 * libfatune-jit). One line each; exit 1 where one fails, 77 where there is no GPU. */
#include "call.h"
#include "driver.h"
#include "fatune.h"
#include "must.h"
#include "oracle/truth.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static fat_driver *driver;
static const fat_cuda_calls *cu;
static void *primary;
static fatune *library;

/* Calls of the driver that only this test makes. */
static struct {
  int (*create)(void **, unsigned, int), (*destroy)(void *), (*begin)(void *, int), (*end)(void *, void **);
  int (*instantiate)(void **, void *, unsigned long long), (*replay)(void *, void *);
} more;

/* -- calls */

typedef struct attention {
  fat_problem p;
  fatune_tensor tensor[FAT_TENSORS];
  fatune_tensors all;
  fatune_plan *plan;
  void *workspace;
  fat_truth truth;
  float *got[FAT_TENSORS]; /* outputs, packed */
  int64_t pad, gap;        /* elements behind each row, behind each head */
} attention;

/* Memory for a tensor, NaN up to the first 64 MiB, with its rows in it where it is an input. */
static bool place(attention *a, int t, int64_t off)
{
  const fat_extent e = fat_tensors_extent(&a->p, t);
  const bool row_only =
      fat_tensors[t].width == FAT_WIDE_1; /* one number a row: always packed, as callers have it */
  const int64_t n = e.size[2], d = e.size[3], pad = row_only ? 0 : a->pad;
  const int64_t row = d + pad, head = n * row + (row_only ? 0 : a->gap), heads = e.size[0] * e.size[1];
  const int64_t bytes = (heads * head + off) * 4;
  const float *from = a->truth.in[t];
  fat_cuda_address at;
  MUST(cu->memory_alloc(&at, (size_t)(bytes ? bytes : 4)));
  MUST(cu->fill32(at, 0x7fc00000, (size_t)(bytes < 1 << 26 ? bytes : 1 << 26) / 4));
  at += (fat_cuda_address)off * 4;
  for (int64_t h = 0; from && h < heads; h++)
    for (int64_t i = 0; i < n; i += pad ? 1 : n)
      MUST(cu->copy_in(at + (fat_cuda_address)(h * head + i * row) * 4, from + (h * n + i) * d,
                       (size_t)(pad ? d : n * d) * 4));
  a->tensor[t] = (fatune_tensor){(void *)(uintptr_t)at, {e.size[1] * head, head, row}};
  return true;
}

static bool prepare(attention *a, const char *problem, int64_t pad, int64_t gap, int64_t off)
{
  fatune_request r = {.size = sizeof r, .problem = problem, .policy = FATUNE_COMPILE};
  fat_call_form form;
  fat_cuda_address at = 0;
  size_t bytes;
  *a = (attention){.pad = pad, .gap = gap};
  MUST(fat_problem_parse(problem, &a->p, NULL));
  const float scale = 1 / sqrtf((float)a->p.d);
  a->all = (fatune_tensors){.size = sizeof a->all, .scale = scale};
  MUST(fat_truth_make(&a->p, scale, FAT_NORMAL, 1, &a->truth, NULL));
  fat_call_form_of(&a->p, &form);
  for (int t = 0; t < FAT_TENSORS; t++) {
    const fat_role role = fat_tensors_role(&a->p, t);
    if (role == FAT_ROLE_NONE)
      continue;
    if (!place(a, t, fat_tensors[t].width == FAT_WIDE_1 ? 0 : off))
      return false;
    const fatune_tensor *tensor = &a->tensor[t];
    memcpy((char *)&a->all + form.tensor[t].place, &tensor, sizeof tensor);
    if (fat_tensors_is_out(role))
      a->got[t] = calloc((size_t)fat_tensors_elements(&a->p, t) + 1, sizeof *a->got[t]);
  }
  MUST(fatune_plan_make(library, &r, &a->plan));
  MUST(fatune_workspace(a->plan, NULL, &bytes));
  if (bytes > 0)
    MUST(cu->memory_alloc(&at, bytes));
  a->workspace = bytes > 0 ? (void *)(uintptr_t)at : NULL;
  return true;
}

static bool fetch(attention *a)
{
  MUST(cu->context_sync());
  for (int t = 0; t < FAT_TENSORS; t++) {
    const fat_extent e = fat_tensors_extent(&a->p, t);
    const fatune_tensor *tensor = &a->tensor[t];
    const int64_t n = e.size[2], d = e.size[3];
    for (int64_t row = 0; a->got[t] && row < e.size[0] * e.size[1] * n; row++) {
      fat_cuda_address at =
          (uintptr_t)((float *)tensor->data + row / n * tensor->stride[1] + row % n * tensor->stride[2]);
      MUST(cu->copy_out(a->got[t] + row * d, at, (size_t)d * 4));
    }
  }
  return true;
}

static bool is_right(attention *a)
{
  double worst = 0;
  if (!fetch(a))
    return false;
  for (int t = 0; t < FAT_TENSORS; t++)
    for (int64_t i = 0; a->got[t] && i < fat_tensors_elements(&a->p, t); i++)
      worst = fmax(worst, fat_reference_off(a->truth.right[t][i], a->got[t][i]));
  if (!(worst < 1e-5))
    printf("  largest error %g\n", worst);
  return worst < 1e-5;
}

static void forget(attention *a)
{
  fatune_plan_free(a->plan);
  fat_truth_free(&a->truth);
  for (int t = 0; t < FAT_TENSORS; t++)
    free(a->got[t]);
}

/* -- tests */

static bool right_numbers(void)
{
  static const char *const problems[] = {
      "fwd-f32-b2-h4k2-q200-k330-d64-causal", "fwd-f32-b1-h3-q331-k129-d128",
      "fwd-f32-b1-h2k1-q1-k1000-d128",        "fwd-f32-b2-h2-q65-k1-d40",
      "fwd-f32-b1-h2-q100-k50-d64-causal",    "fwd-f32-b1-h2-q77-k99-d72v40"};
  static const struct {
    int64_t pad, gap, off;
  } lays[] = {{0, 0, 0}, {4, 8, 4}, {1, 0, 0}, {2, 3, 2}, {0, 0, 1}}; /* off by 4, 8 and 16 bytes */
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
    for (size_t l = 0; l < sizeof lays / sizeof *lays; l++) {
      attention a;
      if (!prepare(&a, problems[i], lays[l].pad, lays[l].gap, lays[l].off))
        return false;
      MUST(fatune_run(a.plan, &a.all, NULL, a.workspace, NULL));
      if (!is_right(&a)) {
        printf("  %s, layout %d\n", problems[i], (int)l);
        return false;
      }
      forget(&a);
    }
  return true;
}

static bool misaligned_is_an_error(void)
{
  attention a;
  if (!prepare(&a, "fwd-f32-b1-h1-q64-k64-d64", 0, 0, 0))
    return false;
  a.tensor[FAT_Q].data = (char *)a.tensor[FAT_Q].data + 2;
  if (fatune_run(a.plan, &a.all, NULL, a.workspace, NULL) != FATUNE_ERR_ALIGNMENT)
    return false;
  MUST(cu->context_sync()); /* nothing was launched */
  forget(&a);
  return true;
}

static bool no_keys(void)
{
  attention a;
  if (!prepare(&a, "fwd-f32-b2-h3-q5-k0-d64", 4, 12, 0))
    return false;
  a.tensor[FAT_K].data = a.tensor[FAT_V].data = NULL;
  MUST(fatune_run(a.plan, &a.all, NULL, a.workspace, NULL));
  return is_right(&a);
}

static bool repeats_are_bit_equal(void)
{
  attention a;
  if (!prepare(&a, "fwd-f32-b8-h8k2-q333-k555-d64-causal", 0, 0, 0))
    return false;
  int64_t count = a.p.b * a.p.h * a.p.q * a.p.dv;
  float *first = malloc((size_t)count * 4), *now = malloc((size_t)count * 4);
  for (int i = 0; i < 250; i++) {
    MUST(cu->fill32((uintptr_t)a.tensor[FAT_O].data, 0x7fc00000, (size_t)count));
    MUST(fatune_run(a.plan, &a.all, NULL, a.workspace, NULL));
    MUST(cu->copy_out(i == 0 ? first : now, (uintptr_t)a.tensor[FAT_O].data, (size_t)count * 4));
    if (i > 0 && memcmp(first, now, (size_t)count * 4) != 0)
      return false;
  }
  free(first);
  free(now);
  return is_right(&a);
}

static bool graph_replays(void)
{
  attention a;
  void *stream, *graph, *exec;
  if (!prepare(&a, "fwd-f32-b2-h4k2-q200-k330-d64-causal", 0, 0, 0))
    return false;
  MUST(cu->stream_create(&stream, FAT_CUDA_STREAM_NON_BLOCKING));
  MUST(more.begin(stream, 0)); /* global mode: the strictest */
  MUST(fatune_run(a.plan, &a.all, NULL, a.workspace, stream));
  attention other; /* a plan made meanwhile does not break the capture; allocating would */
  fatune_request r = {
      .size = sizeof r, .problem = "fwd-f32-b1-h1-q99-k99-d64-causal", .policy = FATUNE_COMPILE};
  MUST(fatune_plan_make(library, &r, &other.plan));
  MUST(more.end(stream, &graph));
  MUST(more.instantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++) {
    MUST(cu->fill32((uintptr_t)a.tensor[FAT_O].data, 0x7fc00000, (size_t)(a.p.b * a.p.h * a.p.q * a.p.dv)));
    MUST(cu->context_sync());
    MUST(more.replay(exec, stream));
    MUST(cu->stream_sync(stream));
    if (!is_right(&a))
      return false;
  }
  fatune_plan_free(other.plan);
  return true;
}

enum { THREADS = 16, STREAMS = 4 };
typedef struct worker {
  pthread_t thread;
  attention a;
  void *stream[STREAMS];
  bool fine;
} worker;

/* Without a current context of its own, as a new thread begins. */
static void *run_on_streams(void *user)
{
  worker *w = user;
  w->fine = true;
  for (int i = 0; i < 50; i++)
    for (int s = 0; s < STREAMS; s++)
      w->fine &= fatune_run(w->a.plan, &w->a.all, NULL, w->a.workspace, w->stream[s]) == FATUNE_OK;
  return NULL;
}

static bool threads_and_streams(void)
{
  static worker w[THREADS];
  const char *problem = "fwd-f32-b2-h4k2-q200-k330-d64-causal";
  for (int i = 0; i < THREADS; i++) {
    if (!prepare(&w[i].a, problem, 0, 0, 0))
      return false;
    for (int s = 0; s < STREAMS; s++)
      MUST(cu->stream_create(&w[i].stream[s], FAT_CUDA_STREAM_NON_BLOCKING));
  }
  for (int i = 0; i < THREADS; i++)
    MUST(pthread_create(&w[i].thread, NULL, run_on_streams, &w[i]));
  for (int i = 0; i < THREADS; i++)
    pthread_join(w[i].thread, NULL);
  for (int i = 0; i < THREADS; i++) {
    if (!w[i].fine || !fetch(&w[i].a) ||
        memcmp(w[i].a.got[FAT_O], w[0].a.got[FAT_O],
               (size_t)(w[0].a.p.b * w[0].a.p.h * w[0].a.p.q * w[0].a.p.dv) * 4) != 0)
      return false;
  }
  return is_right(&w[0].a);
}

/* Heads more than 2^31 elements apart: 70 GB of addresses, few of them touched. */
static bool far_strides(void)
{
  attention a;
  size_t free_bytes, total;
  MUST(cu->memory_info(&free_bytes, &total));
  if (free_bytes < (size_t)75 << 30) {
    printf("  left out: %zu GiB of GPU memory are free, 75 are needed\n", free_bytes >> 30);
    return true;
  }
  if (!prepare(&a, "fwd-f32-b1-h2-q70-k70-d64-causal", 0, (INT64_C(1) << 31) + 16, 0))
    return false;
  MUST(fatune_run(a.plan, &a.all, NULL, a.workspace, NULL));
  return is_right(&a);
}

static bool own_context(void)
{
  attention a;
  void *own, *now;
  int device;
  MUST(cu->device(&device, 0));
  MUST(more.create(&own, 0, device));
  if (!prepare(&a, "fwd-f32-b2-h4k2-q200-k330-d64-causal", 0, 0, 0))
    return false;
  MUST(cu->context_set(primary));
  MUST(fatune_run(a.plan, &a.all, NULL, a.workspace, NULL));
  MUST(cu->context_get(&now));
  if (now != primary)
    return false;
  MUST(cu->context_set(own));
  bool right = is_right(&a);
  forget(&a);
  MUST(more.destroy(own));
  MUST(cu->context_set(primary));
  return right;
}

static bool a_fork_is_told(void)
{
  int status;
  pid_t child = fork();
  if (child == 0)
    _exit(fatune_supported(library, NULL) == FATUNE_ERR_FORKED ? 0 : 1);
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Microseconds of one call while the GPU keeps up: the best of many short bursts. */
static bool host_time(void)
{
  attention a;
  enum { BURST = 50, ROUNDS = 200 };
  double run = 1, first, asked = 1;
  void *context;
  if (!prepare(&a, "fwd-f32-b1-h1-q1-k1-d64", 0, 0, 0))
    return false;
  for (int i = 0; i < ROUNDS; i++) {
    MUST(cu->context_sync());
    first = now();
    for (int k = 0; k < BURST; k++)
      MUST(fatune_run(a.plan, &a.all, NULL, a.workspace, NULL));
    run = fmin(run, (now() - first) / BURST);
    first = now();
    for (int k = 0; k < BURST; k++)
      MUST(cu->context_get(&context));
    asked = fmin(asked, (now() - first) / BURST);
  }
  printf("  fatune_run %.2f us; of it cuCtxGetCurrent %.3f us\n", 1e6 * run, 1e6 * asked);
  forget(&a);
  return true;
}

static bool begin(void)
{
  int device;
  MUST(cu->device(&device, 0));
  MUST(cu->primary_retain(&primary, device));
  MUST(cu->context_set(primary));
  MUST(fatune_open(NULL, &library));
  void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static const struct {
    const char *name;
    size_t offset;
  } calls[] = {{"cuCtxCreate_v2", offsetof(__typeof__(more), create)},
               {"cuCtxDestroy_v2", offsetof(__typeof__(more), destroy)},
               {"cuStreamBeginCapture_v2", offsetof(__typeof__(more), begin)},
               {"cuStreamEndCapture", offsetof(__typeof__(more), end)},
               {"cuGraphInstantiateWithFlags", offsetof(__typeof__(more), instantiate)},
               {"cuGraphLaunch", offsetof(__typeof__(more), replay)}};
  for (size_t i = 0; handle && i < sizeof calls / sizeof *calls; i++) {
    void *address = dlsym(handle, calls[i].name);
    memcpy((char *)&more + calls[i].offset, &address, sizeof address);
    if (!address)
      return false;
  }
  return handle != NULL;
}

int main(void)
{
  static const struct {
    const char *name;
    bool (*test)(void);
  } tests[] = {{"right numbers in every layout", right_numbers},
               {"off by 2 bytes is an error, not a fault", misaligned_is_an_error},
               {"no keys", no_keys},
               {"250 repeats bit-equal", repeats_are_bit_equal},
               {"a captured run replays", graph_replays},
               {"16 threads x 4 streams, bit-equal", threads_and_streams},
               {"heads more than 2^31 elements apart", far_strides},
               {"a context of one's own", own_context},
               {"a forked child gets an error", a_fork_is_told},
               {"host time", host_time}};
  fat_error err = {0};
  int failed = 0;
  if (fat_driver_open(&driver, &err) != FAT_OK) {
    printf("skipped: %s\n", err.text);
    return 77;
  }
  cu = fat_driver_table(driver);
  if (!begin()) {
    printf("the driver's own calls cannot be found\n");
    return 1;
  }
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    double start = now();
    bool fine = tests[i].test();
    printf("%-42s %s, %.1f s\n", tests[i].name, fine ? "ok" : "FAILED", now() - start);
    fflush(stdout);
    failed += !fine;
  }
  fatune_close(library);
  return failed ? 1 : 0;
}
