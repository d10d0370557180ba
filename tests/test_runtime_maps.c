/* test_runtime_maps.c -- fatune_run of a kernel that takes tensor maps: any strides, graphs, threads.
 *
 * The fake driver looks at every map that a kernel is given: it is one of the call's tensors, or the launch
 * fails. */
#include "runtime_fixture.h"
#include <pthread.h>

static fatune *h;
static fatune_plan *plan;

/* The winner takes maps, its twin does not. */
static int begin_planned(void **state)
{
  begin(state);
  store(
      (stored){.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .maps = 4});
  store((stored){.problem = ASKED, .gpu = "H200", .config = NARROW, .ms = 2, .origin = FAT_MEASURED});
  h = open_usual();
  plan = plan_of(h, ASKED);
  describes(plan, "kernel " WIDE);
  return 0;
}

static int end_planned(void **state)
{
  (void)state;
  fatune_plan_free(plan);
  fatune_close(h);
  return 0;
}

static void is_clean(void)
{
  if (cu.fake_findings())
    fail_msg("%s", cu.fake_finding(0));
}

/* Four maps and one launch, and nothing else. */
static void a_run_makes_maps(void **state)
{
  (void)state;
  static const char *const never[] = {"cuMemAlloc_v2", "cuCtxSynchronize", "cuMemcpyHtoD_v2",
                                      "cuFuncSetAttribute"};
  const int64_t pads[] = {0, 4, 64};
  for (int i = 0; i < 3; i++) {
    attention a = attention_make(ASKED, pads[i], 4 * i);
    long before[4], maps = cu.fake_calls("cuTensorMapEncodeTiled"),
                    launches = cu.fake_calls("cuLaunchKernel");
    for (int n = 0; n < 4; n++)
      before[n] = cu.fake_calls(never[n]);
    MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
    assert_int_equal(cu.fake_calls("cuTensorMapEncodeTiled"), maps + 4);
    assert_int_equal(cu.fake_calls("cuLaunchKernel"), launches + 1);
    for (int n = 0; n < 4; n++)
      assert_int_equal(cu.fake_calls(never[n]), before[n]);
    assert_int_equal(cu.cuCtxSynchronize(), 0);
    is_clean();
    is_right(&a);
    attention_free(&a);
  }
}

/* Strides of one head, one batch, one row: any number at all. */
static void strides_that_mean_nothing(void **state)
{
  (void)state;
  static const char one[] = "fwd-f32-b1-h1-q1-k1-d64-causal";
  store((stored){.problem = one, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED, .maps = 4});
  fatune_plan *p = plan_of(h, one);
  const int64_t strides[] = {7, 0, -64, INT64_MAX, INT64_MIN};
  attention a = attention_make(one, 0, 0);
  long maps = cu.fake_calls("cuTensorMapEncodeTiled");
  for (int i = 0; i < 5; i++) {
    for (int s = 0; s < 3; s++)
      a.Q.stride[s] = a.K.stride[s] = a.V.stride[s] = a.O.stride[s] = strides[i];
    MUST_RUN(fatune_run(p, tensors_of(&a), NULL, NULL, NULL));
  }
  assert_int_equal(cu.fake_calls("cuTensorMapEncodeTiled"), maps + 5 * 4);
  is_clean();
  attention_free(&a);
  fatune_plan_free(p);
}

/* What cannot be mapped is the twin's; the kernel that takes maps sees none of it. */
static void the_twin_takes_what_cannot_be_mapped(void **state)
{
  (void)state;
  const int64_t strides[] = {-64, INT64_C(1) << 38, INT64_C(1) << 61};
  attention a = attention_make(ASKED, 0, 0);
  fatune_tensor *all[] = {&a.Q, &a.K, &a.V, &a.O};
  long maps = cu.fake_calls("cuTensorMapEncodeTiled"), launches = cu.fake_launches("*");
  cu.fake_compute(FAKE_NOTHING); /* nothing lies there */
  for (int t = 0; t < 4; t++)
    for (int s = 0; s < 3; s++)
      for (int i = 0; i < 3; i++) {
        const fatune_tensor kept = *all[t];
        all[t]->stride[s] = strides[i];
        MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
        *all[t] = kept;
      }
  assert_int_equal(cu.fake_launches("*"), launches + 36);
  assert_int_equal(cu.fake_calls("cuTensorMapEncodeTiled"), maps);
  cu.fake_compute(FAKE_REFERENCE);
  attention odd = attention_make(ASKED, 1, 0);
  MUST_RUN(fatune_run(plan, tensors_of(&odd), NULL, NULL, NULL));
  is_right(&odd);
  assert_int_equal(cu.fake_calls("cuTensorMapEncodeTiled"), maps);
  attention_free(&odd);
  attention_free(&a);
}

static void without_a_twin_it_is_an_error(void **state)
{
  (void)state;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  fatune_plan *aligned;
  r.flags = FATUNE_ALIGNED;
  MUST_RUN(fatune_plan_make(h, &r, &aligned));
  attention a = attention_make(ASKED, 0, 0);
  long launches = cu.fake_launches("*");
  a.K.stride[2] = -64;
  EXPECT(FATUNE_ERR_UNSUPPORTED, "negative", fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
  a.K.stride[2] = INT64_C(1) << 38;
  EXPECT(FATUNE_ERR_UNSUPPORTED, "2^40 bytes", fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
  fatune_plan *family;
  fat_problem p;
  MUST(fat_problem_parse(ASKED, &p, err));
  const fatune_sizes sizes = {.size = sizeof sizes, .b = p.b, .h = p.h, .hk = p.hk, .q = p.q, .k = p.k};
  r.problem = "fwd-f32-d64-causal";
  MUST_RUN(fatune_plan_make(h, &r, &family));
  EXPECT(FATUNE_ERR_UNSUPPORTED, "2^40 bytes", fatune_run(family, tensors_of(&a), &sizes, NULL, NULL));
  fatune_plan_free(family);
  a.K.stride[2] = 66;
  EXPECT(FATUNE_ERR_ALIGNMENT, "multiple of 16", fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
  a.K.stride[2] = 64;
  cu.fake_fault("cuTensorMapEncodeTiled=1");
  EXPECT(FATUNE_ERR_CUDA, "cuTensorMapEncodeTiled", fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
  cu.fake_fault(NULL);
  assert_int_equal(cu.fake_launches("*"), launches);
  MUST_RUN(fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
  attention_free(&a);
  fatune_plan_free(aligned);
}

/* Maps are arguments by value: a graph keeps them. */
static void a_graph_keeps_its_maps(void **state)
{
  (void)state;
  void *stream = NULL, *graph = NULL, *exec = NULL;
  attention a = attention_make(ASKED, 4, 0), b = attention_make(ASKED, 0, 4);
  assert_int_equal(cu.cuStreamCreate(&stream, FAT_CUDA_STREAM_NON_BLOCKING), 0);
  assert_int_equal(cu.cuStreamBeginCapture_v2(stream, 0), 0);
  MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, stream));
  MUST_RUN(fatune_run(plan, tensors_of(&b), NULL, NULL, stream));
  assert_int_equal(cu.cuStreamEndCapture(stream, &graph), 0);
  assert_int_equal(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
  assert_int_equal(cu.cuGraphLaunch(exec, stream), 0);
  assert_int_equal(cu.cuStreamSynchronize(stream), 0);
  is_clean();
  is_right(&a);
  is_right(&b);
  cu.cuGraphExecDestroy(exec);
  cu.cuGraphDestroy(graph);
  attention_free(&a);
  attention_free(&b);
}

/* -- threads */

enum { THREADS = 32, CALLS = 20 };
typedef struct worker {
  pthread_t thread;
  attention a[2];
  fatune_status status;
  char detail[300];
} worker;

static void *run_many(void *user)
{
  worker *w = user;
  void *stream = NULL;
  cu.cuCtxSetCurrent(bench.context);
  cu.cuStreamCreate(&stream, FAT_CUDA_STREAM_NON_BLOCKING);
  for (int i = 0; i < CALLS && w->status == FATUNE_OK; i++)
    w->status = fatune_run(plan, &w->a[i % 2].all, NULL, NULL, stream);
  if (w->status != FATUNE_OK)
    snprintf(w->detail, sizeof w->detail, "%s", fatune_detail());
  return NULL;
}

/* Each thread's tensors are its own, so a map of another thread's would be found. */
static void threads_share_a_plan(void **state)
{
  (void)state;
  worker *w = calloc(THREADS, sizeof *w);
  assert_non_null(w);
  for (int i = 0; i < THREADS; i++)
    for (int n = 0; n < 2; n++) {
      w[i].a[n] = attention_make(ASKED, i % 3 * 4, n * 4);
      tensors_of(&w[i].a[n]);
    }
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&w[i].thread, NULL, run_many, &w[i]), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(w[i].thread, NULL);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  is_clean();
  for (int i = 0; i < THREADS; i++) {
    if (w[i].status != FATUNE_OK)
      fail_msg("thread %d: %s", i, w[i].detail);
    for (int n = 0; n < 2; n++) {
      if (i % 8 == 0)
        is_right(&w[i].a[n]);
      attention_free(&w[i].a[n]);
    }
  }
  free(w);
}

#define PLANNED(test) cmocka_unit_test_setup_teardown(test, begin_planned, end_planned)

int main(void)
{
  const struct CMUnitTest tests[] = {
      PLANNED(a_run_makes_maps),
      PLANNED(strides_that_mean_nothing),
      PLANNED(the_twin_takes_what_cannot_be_mapped),
      PLANNED(without_a_twin_it_is_an_error),
      PLANNED(a_graph_keeps_its_maps),
      PLANNED(threads_share_a_plan),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
