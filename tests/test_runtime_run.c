/* test_runtime_run.c -- fatune_run: any alignment and stride, zero lengths, streams, graphs, contexts,
 * threads. */
#include "handle.h"
#include "runtime_fixture.h"
#include <pthread.h>
#include <stdatomic.h>

static fatune *h;
static fatune_plan *plan;

static int begin_planned(void **state)
{
  begin(state);
  store_usual();
  h = open_usual();
  plan = plan_of(h, ASKED);
  return 0;
}

static int end_planned(void **state)
{
  (void)state;
  fatune_plan_free(plan);
  fatune_close(h);
  return 0;
}

/* -- alignment */

/* The entry of a stored config. */
static const char *entry_of(const char *config)
{
  static char name[64];
  fat_source source;
  fat_trial t = fixture_trial(ASKED, "H200", config, 1);
  MUST(fat_source_render(script, &t.problem, &t.gpu, &t.config, FAT_LINES_TEMPLATE, &source, err));
  snprintf(name, sizeof name, "fwd_%.16s", source.hash);
  fat_source_free(&source);
  return name;
}

/* The twin takes what is not 16-byte aligned; which of the two ran is told by their entries. */
static void unaligned_tensors_go_to_the_twin(void **state)
{
  (void)state;
  const struct {
    int64_t pad, off;
    bool aligned;
  } cases[] = {{0, 0, true},  {4, 0, true},  {0, 4, true}, {1, 0, false},
               {2, 0, false}, {0, 1, false}, {3, 2, false}};
  const char *twin = entry_of(NARROW);
  long ran = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attention a = attention_make(ASKED, cases[i].pad, cases[i].off);
    MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
    is_right(&a);
    attention_free(&a);
    ran += !cases[i].aligned;
    assert_int_equal(cu.fake_launches(twin), ran);
  }
  assert_int_equal(cu.fake_launches("fwd_*"), 7);
}

/* One tensor off is enough; strides of dimensions with one element mean nothing. */
static void each_tensor_is_looked_at(void **state)
{
  (void)state;
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  fatune_plan *aligned;
  r.flags = FATUNE_ALIGNED;
  MUST_RUN(fatune_plan_make(h, &r, &aligned));
  attention a = attention_make(ASKED, 4, 0);
  fatune_tensor *all[] = {&a.Q, &a.K, &a.V, &a.O};
  MUST_RUN(fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
  for (int i = 0; i < 4; i++) {
    fatune_tensor kept = *all[i];
    all[i]->data = (float *)kept.data + 1;
    EXPECT(FATUNE_ERR_ALIGNMENT, "multiple of 16 bytes",
           fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
    *all[i] = kept;
    for (int s = 0; s < 3; s++) {
      all[i]->stride[s] += 2;
      EXPECT(FATUNE_ERR_ALIGNMENT, "multiple of 16 bytes",
             fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
      *all[i] = kept;
    }
    all[i]->data = (char *)kept.data + 2; /* not even a float */
    EXPECT(FATUNE_ERR_ALIGNMENT, "4 bytes", fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
    EXPECT(FATUNE_ERR_ALIGNMENT, "4 bytes", fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
    *all[i] = kept;
  }
  a.LSE.data = (float *)a.LSE.data + 1; /* a float at any place will do */
  MUST_RUN(fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
  attention_free(&a);
  fatune_plan_free(aligned);

  r = request_of("fwd-f32-b1-h1-q1-k1-d64-causal", FATUNE_FALLBACK);
  r.flags = FATUNE_ALIGNED;
  MUST_RUN(fatune_plan_make(h, &r, &aligned));
  a = attention_make("fwd-f32-b1-h1-q1-k1-d64-causal", 0, 0);
  for (int s = 0; s < 3; s++)
    a.Q.stride[s] = a.K.stride[s] = a.V.stride[s] = a.O.stride[s] = 7;
  MUST_RUN(fatune_run(aligned, tensors_of(&a), NULL, NULL, NULL));
  attention_free(&a);
  fatune_plan_free(aligned);
}

static void no_twin_is_an_error_not_a_fault(void **state)
{
  (void)state;
  unlink(path);
  store((stored){.problem = ASKED, .gpu = "H200", .config = WIDE, .ms = 1, .origin = FAT_MEASURED});
  fatune *alone = open_usual();
  fatune_plan *p = plan_of(alone, ASKED);
  assert_non_null(strstr(fatune_describe(p),
                         "why twin: none for tensors that are not 16-byte aligned: no code of " NARROW));
  attention a = attention_make(ASKED, 1, 0);
  long launches = cu.fake_launches("*");
  EXPECT(FATUNE_ERR_ALIGNMENT, "multiple of 16 bytes", fatune_run(p, tensors_of(&a), NULL, NULL, NULL));
  assert_int_equal(cu.fake_launches("*"), launches);
  attention_free(&a);
  fatune_plan_free(p);
  fatune_close(alone);
}

/* -- arguments */

static void tensors_are_checked(void **state)
{
  (void)state;
  attention a = attention_make(ASKED, 0, 0);
  const fatune_tensors good = *tensors_of(&a);
  const fatune_tensor null = {NULL, {0}};
  fatune_tensors t = good;
  const fatune_tensor **slots[] = {&t.Q, &t.K, &t.V, &t.O};
  const char *const names[] = {"tensor Q", "tensor K", "tensor V", "tensor O"};
  EXPECT(FATUNE_ERR_INPUT, "tensors are NULL", fatune_run(plan, NULL, NULL, NULL, NULL));
  for (int i = 0; i < 4; i++) {
    *slots[i] = NULL;
    EXPECT(FATUNE_ERR_INPUT, names[i], fatune_run(plan, &t, NULL, NULL, NULL));
    *slots[i] = &null;
    EXPECT(FATUNE_ERR_INPUT, names[i], fatune_run(plan, &t, NULL, NULL, NULL));
    t = good;
  }
  t.scale = NAN;
  EXPECT(FATUNE_ERR_INPUT, "scale is nan", fatune_run(plan, &t, NULL, NULL, NULL));
  t.scale = INFINITY;
  EXPECT(FATUNE_ERR_INPUT, "scale is inf", fatune_run(plan, &t, NULL, NULL, NULL));
  t = good;
  t.reserved = 1;
  EXPECT(FATUNE_ERR_INPUT, "reserved", fatune_run(plan, &t, NULL, NULL, NULL));
  t = good;
  t.size = 8;
  EXPECT(FATUNE_ERR_INPUT, "fatune_tensors.size is 8", fatune_run(plan, &t, NULL, NULL, NULL));
  assert_int_equal(cu.fake_launches("*"), 0);
  t = good;
  t.LSE = NULL; /* not wanted */
  MUST_RUN(fatune_run(plan, &t, NULL, NULL, NULL));
  t.LSE = &null;
  MUST_RUN(fatune_run(plan, &t, NULL, NULL, NULL));
  t.scale = 0; /* a scale like any other */
  MUST_RUN(fatune_run(plan, &t, NULL, NULL, NULL));
  assert_int_equal(cu.fake_launches("*"), 3);
  attention_free(&a);
}

/* Rows and heads far apart: 64-bit offsets reach the kernel as they are. */
static void strides_are_taken_as_they_are(void **state)
{
  (void)state;
  attention a = attention_make("fwd-f32-b2-h4k2-q33-k65-d64-causal", 0, 0);
  /* O as [b][q][h][d], as PyTorch's transposed views lie. */
  a.O.stride[0] = 33 * 4 * 64;
  a.O.stride[1] = 64;
  a.O.stride[2] = 4 * 64;
  MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  float row[64], packed[64];
  attention b = attention_make("fwd-f32-b2-h4k2-q33-k65-d64-causal", 0, 0);
  MUST_RUN(fatune_run(plan, tensors_of(&b), NULL, NULL, NULL));
  for (int64_t head = 0; head < 8; head++)
    for (int64_t i = 0; i < 33; i++) {
      const float *x =
          (float *)a.O.data + head / 4 * a.O.stride[0] + head % 4 * a.O.stride[1] + i * a.O.stride[2];
      const float *y = (float *)b.O.data + head * b.O.stride[1] + i * b.O.stride[2];
      cu.cuMemcpyDtoH_v2(row, (uintptr_t)x, sizeof row);
      cu.cuMemcpyDtoH_v2(packed, (uintptr_t)y, sizeof packed);
      assert_memory_equal(row, packed, sizeof row);
    }
  attention_free(&a);
  attention_free(&b);
}

/* -- zero lengths */

/* Fills O's memory, gaps too, with 7s. */
static void paint(const fatune_tensor *t, int64_t count)
{
  union {
    float f;
    unsigned u;
  } seven = {7};
  assert_int_equal(cu.cuMemsetD32_v2((uintptr_t)t->data, seven.u, (size_t)count), 0);
}

static void check_filled(const fatune_tensor *t, const int64_t n[3], int64_t d, int64_t count, float value)
{
  float *x = malloc((size_t)count * sizeof *x);
  assert_non_null(x);
  assert_int_equal(cu.cuMemcpyDtoH_v2(x, (uintptr_t)t->data, (size_t)count * sizeof *x), 0);
  int64_t wrong = 0, filled = 0;
  for (int64_t i = 0; i < n[0]; i++)
    for (int64_t j = 0; j < n[1]; j++)
      for (int64_t k = 0; k < n[2]; k++)
        for (int64_t l = 0; l < d; l++) {
          float *at = x + i * t->stride[0] + j * t->stride[1] + k * t->stride[2] + l;
          wrong += *at != value;
          *at = 8;
          filled++;
        }
  assert_int_equal(wrong, 0);
  for (int64_t i = 0; i < count; i++)
    filled -= x[i] == 8;
  assert_int_equal(filled, 0); /* no element twice */
  for (int64_t i = 0; i < count; i++)
    assert_true(x[i] == 8 || x[i] == 7); /* and nothing between them */
  free(x);
}

/* O = 0 and LSE = +inf by fills alone, whatever the layout, and without any stored kernel. */
static void no_keys(void **state)
{
  (void)state;
  const struct {
    int64_t b, h, n; /* strides of O; of LSE: 2b, 2h + 0 */
    int64_t lb, lh;
    int fills;
  } lays[] = {
      {4 * 5 * 8, 5 * 8, 8, 4 * 5, 5, 2},         /* packed: one fill each */
      {4 * 5 * 8, 8, 4 * 8, 4 * 5, 5, 2},         /* rows of all heads side by side */
      {4 * 5 * 12, 5 * 12, 12, 4 * 5, 5, 2},      /* gaps behind rows: one two-dimensional fill */
      {400, 90, 16, 60, 11, 3 * 4 + 3},           /* gaps everywhere: one for each head, LSE one a batch */
      {4 * 5 * 8 + 4, 5 * 8, 8, 4 * 5 + 1, 5, 2}, /* gaps behind batches */
  };
  enum { COUNT = 3 * 400 };
  unlink(path);
  fatune *bare = open_usual();
  fatune_plan *p = plan_of(bare, "fwd-f32-b3-h4-q5-k0-d8");
  size_t bytes = 1;
  MUST_RUN(fatune_workspace(p, NULL, &bytes));
  assert_int_equal(bytes, 0);
  for (size_t i = 0; i < sizeof lays / sizeof *lays; i++) {
    float *o = device_memory(COUNT * sizeof *o), *lse = device_memory(COUNT * sizeof *lse);
    const fatune_tensor none = {NULL, {0}}, q = {o, {0, 0, 0}};
    const fatune_tensor O = {o, {lays[i].b, lays[i].h, lays[i].n}}, LSE = {lse, {lays[i].lb, lays[i].lh, 1}};
    const fatune_tensors t = {
        .size = sizeof t, .Q = &q, .K = &none, .V = &none, .O = &O, .LSE = &LSE, .scale = 1};
    const char *const calls[] = {"cuMemsetD8Async", "cuMemsetD32Async", "cuMemsetD2D8Async",
                                 "cuMemsetD2D32Async"};
    long fills = 0;
    paint(&O, COUNT);
    paint(&LSE, COUNT);
    for (int c = 0; c < 4; c++)
      fills -= cu.fake_calls(calls[c]);
    MUST_RUN(fatune_run(p, &t, NULL, NULL, NULL));
    for (int c = 0; c < 4; c++)
      fills += cu.fake_calls(calls[c]);
    assert_int_equal(fills, lays[i].fills);
    check_filled(&O, (int64_t[]){3, 4, 5}, 8, COUNT, 0);
    check_filled(&LSE, (int64_t[]){3, 4, 5}, 1, COUNT, INFINITY);
  }
  assert_int_equal(cu.fake_launches("*"), 0);
  fatune_plan_free(p);
  fatune_close(bare);
}

/* One batch and one head: what their strides are does not matter. */
static void no_keys_of_one_head(void **state)
{
  (void)state;
  fatune_plan *p = plan_of(h, "fwd-f32-b1-h1-q5-k0-d8");
  enum { COUNT = 5 * 8 };
  float *o = device_memory(COUNT * sizeof *o);
  const fatune_tensor none = {NULL, {0}}, q = {o, {0}};
  const fatune_tensor O = {o, {1 << 20, -7, 8}}, filled = {o, {40, 40, 8}};
  const fatune_tensors t = {.size = sizeof t, .Q = &q, .K = &none, .V = &none, .O = &O, .scale = 1};
  paint(&filled, COUNT);
  MUST_RUN(fatune_run(p, &t, NULL, NULL, NULL));
  check_filled(&filled, (int64_t[]){1, 1, 5}, 8, COUNT, 0);
  fatune_plan_free(p);
}

/* A sink must be there where the family has one, and only there; without keys it would be the rows' LSE. */
static void no_keys_but_a_sink(void **state)
{
  (void)state;
  fatune_plan *sunk = plan_of(h, "fwd-f32-b1-h2-q5-k0-d8-sink"),
              *plain = plan_of(h, "fwd-f32-b1-h2-q5-k0-d8");
  enum { COUNT = 2 * 5 * 8 };
  float *o = device_memory(COUNT * sizeof *o);
  const fatune_tensor none = {NULL, {0}}, q = {o, {80, 40, 8}}, row = {o, {10, 5, 1}},
                      odd = {(char *)o + 2, {0, 1, 1}};
  const fatune_tensors good = {
      .size = sizeof good, .Q = &q, .K = &none, .V = &none, .O = &q, .scale = 1, .sink = &row};
  fatune_tensors t = good;
  paint(&q, COUNT);
  t.LSE = &row;
  EXPECT(FATUNE_ERR_UNSUPPORTED, "is their sink", fatune_run(sunk, &t, NULL, NULL, NULL));
  t = good;
  t.sink = NULL;
  EXPECT(FATUNE_ERR_INPUT, "tensor sink is NULL", fatune_run(sunk, &t, NULL, NULL, NULL));
  t.size = offsetof(fatune_tensors, sink); /* a caller's that does not know of sinks */
  EXPECT(FATUNE_ERR_INPUT, "tensor sink is NULL", fatune_run(sunk, &t, NULL, NULL, NULL));
  MUST_RUN(fatune_run(plain, &t, NULL, NULL, NULL));
  t = good;
  EXPECT(FATUNE_ERR_INPUT, "tensor sink is none of this operation", fatune_run(plain, &t, NULL, NULL, NULL));
  t.sink = &none;
  EXPECT(FATUNE_ERR_INPUT, "tensor sink has no data", fatune_run(sunk, &t, NULL, NULL, NULL));
  t.sink = &odd;
  EXPECT(FATUNE_ERR_ALIGNMENT, "tensor sink", fatune_run(sunk, &t, NULL, NULL, NULL));
  paint(&q, COUNT);
  MUST_RUN(fatune_run(sunk, &good, NULL, NULL, NULL));
  check_filled(&q, (int64_t[]){1, 2, 5}, 8, COUNT, 0);
  fatune_plan_free(sunk);
  fatune_plan_free(plain);
}

/* LSE is read there, and no row of dQ is left as it was; but LSE's own gradient would be a part of dsink. */
static void no_keys_but_a_sink_backward(void **state)
{
  (void)state;
  fatune_plan *plain = plan_of(h, "bwd-f32-b1-h2-q5-k0-d8-sink-dsink"),
              *more = plan_of(h, "bwd-f32-b1-h2-q5-k0-d8-sink-dsink-dlse");
  enum { COUNT = 2 * 5 * 8 };
  float *dq = device_memory(COUNT * sizeof *dq), *dsinks = device_memory(2 * sizeof *dsinks);
  const fatune_tensor none = {NULL, {0}}, q = {dq, {80, 40, 8}}, row = {dq, {10, 5, 1}},
                      dQ = {dq, {80, 40, 8}}, dsink = {dsinks, {0, 1, 0}};
  fatune_tensors t = {.size = sizeof t,
                      .Q = &q,
                      .K = &none,
                      .V = &none,
                      .O = &q,
                      .LSE = &row,
                      .dO = &q,
                      .dQ = &dQ,
                      .dK = &none,
                      .dV = &none,
                      .scale = 1,
                      .sink = &row,
                      .dsink = &dsink};
  paint(&dQ, COUNT);
  paint(&dsink, 2);
  MUST_RUN(fatune_run(plain, &t, NULL, NULL, NULL));
  check_filled(&dQ, (int64_t[]){1, 2, 5}, 8, COUNT, 0);
  assert_true(dsinks[0] == 0 && dsinks[1] == 0);
  t.dLSE = &row;
  EXPECT(FATUNE_ERR_UNSUPPORTED, "gradient of a sink", fatune_run(more, &t, NULL, NULL, NULL));
  fatune_plan_free(plain);
  fatune_plan_free(more);
}

/* Strides may run backwards. */
static void no_keys_backwards(void **state)
{
  (void)state;
  fatune_plan *p = plan_of(h, "fwd-f32-b2-h3-q4-k0-d8");
  enum { COUNT = 2 * 3 * 4 * 8 };
  float *o = device_memory(COUNT * sizeof *o);
  const fatune_tensor none = {NULL, {0}}, q = {o, {0}};
  const fatune_tensor O = {o + COUNT - 8, {-96, -32, -8}}, forwards = {o, {96, 32, 8}};
  const fatune_tensors t = {.size = sizeof t, .Q = &q, .K = &none, .V = &none, .O = &O, .scale = 1};
  paint(&forwards, COUNT);
  MUST_RUN(fatune_run(p, &t, NULL, NULL, NULL));
  check_filled(&forwards, (int64_t[]){2, 3, 4}, 8, COUNT, 0);
  fatune_plan_free(p);
}

static void nothing_to_do(void **state)
{
  (void)state;
  const char *const problems[] = {"fwd-f32-b0-h4-q5-k6-d64-causal", "fwd-f32-b3-h4-q0-k6-d64-causal",
                                  "fwd-f32-b0-h4-q0-k0-d64"};
  const fatune_tensor none = {NULL, {0}};
  const fatune_tensors t = {.size = sizeof t, .Q = &none, .K = &none, .V = &none, .O = &none, .scale = 1};
  float *keys = device_memory(3 * 4 * 6 * 64 * sizeof *keys);
  const fatune_tensor K = {keys, {4 * 6 * 64, 6 * 64, 64}};
  fatune_tensors with_keys = t;
  with_keys.K = with_keys.V = &K;
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    fatune_plan *p = plan_of(h, problems[i]);
    describes(p, "pick none");
    fatune_request r = request_of(problems[i], FATUNE_FAIL);
    MUST_RUN(fatune_supported(h, &r));
    long calls = cu.fake_calls("cuLaunchKernel") + cu.fake_calls("cuMemsetD8Async");
    MUST_RUN(fatune_run(p, i == 1 ? &with_keys : &t, NULL, NULL, NULL));
    assert_int_equal(cu.fake_calls("cuLaunchKernel") + cu.fake_calls("cuMemsetD8Async"), calls);
    fatune_plan_free(p);
  }
}

/* -- what run may do */

/* Exactly one launch: no lock, no allocation, no sync, no other call but who is current. */
static void run_does_nothing_else(void **state)
{
  (void)state;
  static const char *const never[] = {"cuMemAlloc_v2",       "cuMemFree_v2",       "cuCtxSynchronize",
                                      "cuStreamSynchronize", "cuModuleLoadData",   "cuModuleGetFunction",
                                      "cuFuncSetAttribute",  "cuEventRecord",      "cuEventSynchronize",
                                      "cuCtxSetCurrent",     "cuCtxPushCurrent_v2"};
  attention a = attention_make(ASKED, 0, 0);
  long before[sizeof never / sizeof *never], asked = cu.fake_calls("cuCtxGetCurrent");
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    before[i] = cu.fake_calls(never[i]);
  for (int i = 0; i < 10; i++)
    MUST_RUN(fatune_run(plan, tensors_of(&a), NULL, NULL, NULL));
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    assert_int_equal(cu.fake_calls(never[i]), before[i]);
  assert_int_equal(cu.fake_launches("*"), 10);
  assert_int_equal(cu.fake_calls("cuCtxGetCurrent"), asked + 10);
  attention_free(&a);
}

static void a_captured_run_replays(void **state)
{
  (void)state;
  void *stream = NULL, *graph = NULL, *exec = NULL;
  size_t nodes = 0;
  store((stored){.problem = ASKED,
                 .gpu = "H200",
                 .config = "fa1:Br64-Bc32-T128-R4-W4",
                 .ms = 1,
                 .origin = FAT_MEASURED});
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  fatune_plan *fa1;
  r.kernel = "fa1";
  MUST_RUN(fatune_plan_make(h, &r, &fa1));
  size_t bytes = 0;
  MUST_RUN(fatune_workspace(fa1, NULL, &bytes));
  assert_true(bytes > 0);
  void *memory = device_memory(bytes);
  attention a = attention_make(ASKED, 0, 0), b = attention_make(ASKED, 1, 0);
  assert_int_equal(cu.cuStreamCreate(&stream, FAT_CUDA_STREAM_NON_BLOCKING), 0);
  assert_int_equal(cu.cuStreamBeginCapture_v2(stream, 0), 0);
  MUST_RUN(fatune_run(fa1, tensors_of(&a), NULL, memory, stream));
  MUST_RUN(fatune_run(plan, tensors_of(&b), NULL, NULL, stream));
  /* Even a plan may be made meanwhile: loading does not break the capture. */
  fatune_plan *other = plan_of(h, NEAR);
  assert_int_equal(cu.cuStreamEndCapture(stream, &graph), 0);
  assert_int_equal(cu.fake_launches("*"), 0);
  assert_int_equal(cu.cuGraphGetNodes(graph, NULL, &nodes), 0);
  assert_int_equal(nodes, 2); /* each of them one launch */
  assert_int_equal(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(cu.cuGraphLaunch(exec, stream), 0);
    assert_int_equal(cu.cuStreamSynchronize(stream), 0);
    is_right(&a);
    is_right(&b);
  }
  cu.cuGraphExecDestroy(exec);
  cu.cuGraphDestroy(graph);
  attention_free(&a);
  attention_free(&b);
  fatune_plan_free(other);
  fatune_plan_free(fa1);
}

/* -- contexts */

/* A context that is not the primary one; the plan's context is used and the caller's is left current. */
static void any_context(void **state)
{
  (void)state;
  void *own = NULL, *now = NULL;
  int device;
  assert_int_equal(cu.cuDeviceGet(&device, 0), 0);
  assert_int_equal(cu.cuCtxCreate_v2(&own, 0, device), 0); /* current now */
  fatune_plan *p = plan_of(h, ASKED);
  assert_ptr_not_equal(p, plan); /* modules belong to their context */
  cu.cuCtxGetCurrent(&now);
  assert_ptr_equal(now, own);
  attention a = attention_make(ASKED, 0, 0);
  MUST_RUN(fatune_run(p, tensors_of(&a), NULL, NULL, NULL));
  is_right(&a);
  /* No context at all, and another one: as a new thread finds it. */
  while (cu.cuCtxGetCurrent(&now) == 0 && now)
    assert_int_equal(cu.cuCtxSetCurrent(NULL), 0); /* takes the top of a stack away */
  MUST_RUN(fatune_run(p, tensors_of(&a), NULL, NULL, NULL));
  cu.cuCtxGetCurrent(&now);
  assert_null(now);
  assert_int_equal(cu.cuCtxSetCurrent(bench.context), 0);
  MUST_RUN(fatune_run(p, tensors_of(&a), NULL, NULL, NULL));
  cu.cuCtxGetCurrent(&now);
  assert_ptr_equal(now, bench.context);
  /* An error on the way leaves it too. */
  cu.fake_fault("cuLaunchKernel=701");
  EXPECT(FATUNE_ERR_LAUNCH, "701", fatune_run(p, tensors_of(&a), NULL, NULL, NULL));
  cu.fake_fault(NULL);
  cu.cuCtxGetCurrent(&now);
  assert_ptr_equal(now, bench.context);
  attention_free(&a);
  fatune_plan_free(p);
  cu.cuCtxDestroy_v2(own);
}

/* Two devices: each plan runs on its own. */
static void two_devices(void **state)
{
  (void)state;
  void *second = NULL;
  int device;
  store((stored){.problem = ASKED, .gpu = "T4", .config = WIDE, .ms = 1, .origin = FAT_MEASURED});
  assert_int_equal(cu.cuDeviceGet(&device, 1), 0);
  assert_int_equal(cu.cuDevicePrimaryCtxRetain(&second, device), 0);
  assert_int_equal(cu.cuCtxSetCurrent(second), 0);
  fatune_plan *p = plan_of(h, ASKED);
  describes(p, "device T4 sm75-");
  attention there = attention_make(ASKED, 0, 0);
  MUST_RUN(fatune_run(p, tensors_of(&there), NULL, NULL, NULL));
  is_right(&there);
  assert_int_equal(cu.cuCtxSetCurrent(bench.context), 0);
  attention here = attention_make(ASKED, 0, 0);
  MUST_RUN(fatune_run(plan, tensors_of(&here), NULL, NULL, NULL));
  is_right(&here);
  attention_free(&here);
  attention_free(&there);
  fatune_plan_free(p);
}

/* A plan whose context is gone is an error; a context that comes later at its place is not taken for it. */
static void a_context_that_is_gone(void **state)
{
  (void)state;
  void *own = NULL;
  int device;
  assert_int_equal(cu.cuDeviceGet(&device, 0), 0);
  assert_int_equal(cu.cuCtxCreate_v2(&own, 0, device), 0);
  fatune_plan *p = plan_of(h, ASKED);
  attention a = attention_make(ASKED, 0, 0);
  assert_int_equal(cu.cuCtxDestroy_v2(own), 0);
  assert_int_equal(cu.cuCtxSetCurrent(bench.context), 0);
  EXPECT(FATUNE_ERR_NO_CONTEXT, "cuCtxPushCurrent", fatune_run(p, tensors_of(&a), NULL, NULL, NULL));
  attention_free(&a);
  fatune_plan_free(p);
}

/* -- threads */

enum { THREADS = 64, CALLS = 20 };

typedef struct worker {
  pthread_t thread;
  attention a;
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
    w->status = fatune_run(plan, &w->a.all, NULL, NULL, stream);
  if (w->status != FATUNE_OK)
    snprintf(w->detail, sizeof w->detail, "%s", fatune_detail());
  return NULL;
}

static void threads_share_a_plan(void **state)
{
  (void)state;
  worker *w = calloc(THREADS, sizeof *w);
  assert_non_null(w);
  for (int i = 0; i < THREADS; i++) {
    w[i].a = attention_make("fwd-f32-b2-h4k2-q33-k65-d64-causal", i % 3, 0);
    tensors_of(&w[i].a);
  }
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&w[i].thread, NULL, run_many, &w[i]), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(w[i].thread, NULL);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  for (int i = 0; i < THREADS; i++) {
    if (w[i].status != FATUNE_OK)
      fail_msg("thread %d: %s", i, w[i].detail);
    if (i % 16 == 0)
      is_right(&w[i].a);
    attention_free(&w[i].a);
  }
  assert_int_equal(cu.fake_launches("*"), THREADS * CALLS);
  free(w);
}

static void *plan_many(void *user)
{
  worker *w = user;
  cu.cuCtxSetCurrent(bench.context);
  for (int i = 0; i < 30 && w->status == FATUNE_OK; i++) {
    char problem[100];
    fatune_plan *p = NULL;
    snprintf(problem, sizeof problem, "fwd-f32-b1-h2-q%d-k64-d64-causal", 1 + i % 7);
    fatune_request r = request_of(problem, FATUNE_FALLBACK);
    w->status = fatune_plan_make(h, &r, &p);
    if (w->status == FATUNE_OK && strncmp(fatune_describe(p), "problem ", 8) != 0)
      w->status = FATUNE_ERR_INTERNAL;
    fatune_plan_free(p);
  }
  if (w->status != FATUNE_OK)
    snprintf(w->detail, sizeof w->detail, "%s", fatune_detail());
  return NULL;
}

/* A cold problem is made once; who asks meanwhile gets the same. */
static void threads_plan_at_once(void **state)
{
  (void)state;
  worker *w = calloc(THREADS, sizeof *w);
  assert_non_null(w);
  long loads = cu.fake_calls("cuModuleLoadData");
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&w[i].thread, NULL, plan_many, &w[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(w[i].thread, NULL);
    if (w[i].status != FATUNE_OK)
      fail_msg("thread %d: %s", i, w[i].detail);
  }
  assert_int_equal(cu.fake_calls("cuModuleLoadData"), loads); /* known cubins in a known context */
  free(w);
}

/* All known plans are held, and one more is asked for: the first known is forgotten, and its holder keeps it.
 */
static void more_plans_are_held_than_known(void **state)
{
  (void)state;
  enum { HELD = FAT_HANDLE_PLANS + 2 };
  fatune_plan *held[HELD];
  for (int i = 0; i < HELD; i++) {
    char problem[100];
    snprintf(problem, sizeof problem, "fwd-f32-b1-h2-q%d-k64-d64-causal", 1 + i);
    held[i] = plan_of(h, problem);
  }
  computes(held[0], "fwd-f32-b1-h2-q1-k64-d64-causal", 0);
  fatune_plan *again = plan_of(h, "fwd-f32-b1-h2-q1-k64-d64-causal");
  assert_ptr_not_equal(again, held[0]);
  fatune_plan_free(again);
  again = plan_of(h, "fwd-f32-b1-h2-q200-k64-d64-causal");
  assert_ptr_equal(again, held[199]);
  fatune_plan_free(again);
  for (int i = 0; i < HELD; i++)
    fatune_plan_free(held[i]);
}

/* A path that does not begin at the root is that of the folder in which the handle was opened. */
static void a_path_from_here(void **state)
{
  (void)state;
  char folder[400];
  const fatune_options from_here = {
      .size = sizeof from_here, .database = strrchr(path, '/') + 1, .system_database = ""};
  fatune *other = NULL;
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
  char *before = getcwd(NULL, 0);
  assert_int_equal(chdir(folder), 0);
  MUST_RUN(fatune_open(&from_here, &other));
  assert_int_equal(chdir(before), 0);
  fatune_plan *known = plan_of(other, ASKED);
  computes(known, ASKED, 0);
  fatune_plan_free(known);
  fatune_close(other);
  free(before);
}

/* Each thread has its own sentence. */
static void *fail_otherwise(void *user)
{
  char *text = user;
  if (fatune_detail()[0] == 0 && fatune_run(NULL, NULL, NULL, NULL, NULL) == FATUNE_ERR_INPUT)
    snprintf(text, 300, "%s", fatune_detail());
  return NULL;
}

static void details_belong_to_threads(void **state)
{
  (void)state;
  char there[300] = "";
  pthread_t thread;
  EXPECT(FATUNE_ERR_INPUT, "handle is NULL", fatune_supported(NULL, NULL));
  assert_int_equal(pthread_create(&thread, NULL, fail_otherwise, there), 0);
  pthread_join(thread, NULL);
  assert_non_null(strstr(there, "plan is NULL"));
  assert_non_null(strstr(fatune_detail(), "handle is NULL"));
}

#define PLANNED(test) cmocka_unit_test_setup_teardown(test, begin_planned, end_planned)

int main(void)
{
  const struct CMUnitTest tests[] = {
      PLANNED(unaligned_tensors_go_to_the_twin),
      PLANNED(more_plans_are_held_than_known),
      PLANNED(a_path_from_here),
      PLANNED(each_tensor_is_looked_at),
      PLANNED(no_twin_is_an_error_not_a_fault),
      PLANNED(tensors_are_checked),
      PLANNED(strides_are_taken_as_they_are),
      PLANNED(no_keys),
      PLANNED(no_keys_of_one_head),
      PLANNED(no_keys_but_a_sink),
      PLANNED(no_keys_but_a_sink_backward),
      PLANNED(no_keys_backwards),
      PLANNED(nothing_to_do),
      PLANNED(run_does_nothing_else),
      PLANNED(a_captured_run_replays),
      PLANNED(any_context),
      PLANNED(two_devices),
      PLANNED(a_context_that_is_gone),
      PLANNED(threads_share_a_plan),
      PLANNED(threads_plan_at_once),
      PLANNED(details_belong_to_threads),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
