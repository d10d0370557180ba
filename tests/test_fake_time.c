/* test_fake_time.c -- the fake driver: streams, events, the virtual clock, capture, many threads. */
#include "fake/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <pthread.h>
#include <cmocka.h>

static fake_bench b;
#define cu (b.cu)

static int begin(void **state)
{
  (void)state;
  fake_bench_clean(&b, "T4");
  fake_bench_begin(&b, 75);
  cu.fake_times("copy_*=2.5");
  return 0;
}

static float between(void *start, void *end)
{
  float ms = -1;
  assert_int_equal(cu.cuEventElapsedTime(&ms, start, end), 0);
  return ms;
}

static void launches_take_their_scripted_time(void **state)
{
  (void)state;
  void *start, *end;
  float ms;
  assert_int_equal(cu.cuEventCreate(&start, 0), 0);
  assert_int_equal(cu.cuEventCreate(&end, 0), 0);
  assert_int_equal(cu.cuEventElapsedTime(&ms, start, end), 400); /* never recorded */
  assert_int_equal(cu.cuEventRecord(start, NULL), 0);
  for (int i = 0; i < 4; i++)
    assert_int_equal(fake_bench_launch(&b, 0, NULL), 0);
  assert_int_equal(cu.cuEventRecord(end, NULL), 0);
  assert_int_equal(cu.cuEventElapsedTime(&ms, start, end), 600); /* nobody has waited */
  assert_int_equal(cu.cuEventQuery(end), 600);
  assert_int_equal(cu.cuEventQuery(end), 0);
  assert_true(fabsf(between(start, end) - 10) < 1e-5F);
  assert_true(fabs(cu.fake_clock() - 10) < 1e-9);
  /* What nobody scripts differs from entry to entry, and is the same each time. */
  cu.fake_times(NULL);
  assert_int_equal(cu.cuEventRecord(start, NULL), 0);
  assert_int_equal(fake_bench_launch(&b, 0, NULL), 0);
  assert_int_equal(cu.cuEventRecord(end, NULL), 0);
  assert_int_equal(fake_bench_launch(&b, 0, NULL), 0);
  assert_int_equal(cu.cuEventSynchronize(end), 0);
  float first = between(start, end);
  assert_true(first > 0.02F && first < 0.05F);
  assert_int_equal(cu.cuEventRecord(start, NULL), 0);
  assert_int_equal(cu.cuEventSynchronize(start), 0);
  assert_true(fabsf(between(end, start) - first) < 1e-6F);
  /* With noise, only near it. */
  setenv("FAKE_CUDA_NOISE", "0.1", 1);
  assert_int_equal(fake_bench_launch(&b, 0, NULL), 0);
  assert_int_equal(cu.cuEventRecord(end, NULL), 0);
  assert_int_equal(cu.cuEventSynchronize(end), 0);
  ms = between(start, end);
  assert_true(ms >= 0.899F * first && ms <= 1.101F * first);
}

static void streams_run_beside_each_other(void **state)
{
  (void)state;
  void *one, *two, *event, *blocking;
  assert_int_equal(cu.cuStreamCreate(&one, 1), 0);
  assert_int_equal(cu.cuStreamCreate(&two, 1), 0);
  assert_int_equal(cu.cuStreamCreate(&blocking, 0), 0);
  assert_int_equal(cu.cuEventCreate(&event, 0), 0);
  assert_int_equal(fake_bench_launch(&b, 0, one), 0);
  assert_int_equal(fake_bench_launch(&b, 0, two), 0);
  assert_int_equal(cu.cuStreamQuery(one), 600);
  assert_int_equal(cu.cuCtxSynchronize(), 0);
  assert_true(fabs(cu.fake_clock() - 2.5) < 1e-9);
  /* One waits for the other's event. */
  assert_int_equal(fake_bench_launch(&b, 0, one), 0);
  assert_int_equal(cu.cuEventRecord(event, one), 0);
  assert_int_equal(cu.cuStreamWaitEvent(two, event, 0), 0);
  assert_int_equal(fake_bench_launch(&b, 0, two), 0);
  assert_int_equal(cu.cuStreamSynchronize(two), 0);
  assert_true(fabs(cu.fake_clock() - 7.5) < 1e-9);
  /* The default stream and a blocking one wait for each other. */
  assert_int_equal(fake_bench_launch(&b, 0, blocking), 0);
  assert_int_equal(fake_bench_launch(&b, 0, NULL), 0);
  assert_int_equal(fake_bench_launch(&b, 0, blocking), 0);
  assert_int_equal(cu.cuStreamSynchronize(blocking), 0);
  assert_true(fabs(cu.fake_clock() - 15) < 1e-9);
  assert_int_equal(cu.cuStreamDestroy_v2(one), 0);
  assert_int_equal(cu.cuStreamDestroy_v2(one), 400);
  assert_int_equal(fake_bench_launch(&b, 0, one), 400);
  fake_live live;
  cu.fake_count(&live);
  assert_int_equal(live.streams, 2);
  assert_int_equal(live.events, 1);
}

/* ---- capture ---- */

static void a_captured_launch_runs_when_the_graph_does(void **state)
{
  (void)state;
  void *stream, *graph, *exec;
  fat_cuda_address a;
  int capturing;
  uint32_t word;
  size_t nodes = 0;
  assert_int_equal(cu.cuMemAlloc_v2(&a, 64), 0);
  assert_int_equal(cu.cuStreamCreate(&stream, 1), 0);
  assert_int_equal(cu.cuStreamBeginCapture_v2(stream, 0), 0);
  assert_int_equal(cu.cuStreamIsCapturing(stream, &capturing), 0);
  assert_int_equal(capturing, 1);
  assert_int_equal(cu.cuMemsetD32Async(a, 5, 16, stream), 0);
  assert_int_equal(fake_bench_launch(&b, a, stream), 0);
  assert_int_equal(cu.cuStreamEndCapture(stream, &graph), 0);
  assert_int_equal(cu.fake_launches("*"), 0);
  assert_int_equal(cu.cuGraphGetNodes(graph, NULL, &nodes), 0);
  assert_int_equal(nodes, 2);
  assert_int_equal(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
  assert_int_equal(cu.cuGraphDestroy(graph), 0);
  cu.fake_fault("copy_*=wrong"); /* the launch has its arguments: it writes where it was told to */
  for (int i = 0; i < 3; i++)
    assert_int_equal(cu.cuGraphLaunch(exec, stream), 0);
  assert_int_equal(cu.cuStreamSynchronize(stream), 0);
  assert_int_equal(cu.fake_launches("*"), 3);
  assert_int_equal(cu.cuMemcpyDtoH_v2(&word, a, 4), 0);
  assert_int_equal(word, 0x447a0000);
  assert_int_equal(cu.cuMemcpyDtoH_v2(&word, a + 60, 4), 0);
  assert_int_equal(word, 5);
  assert_true(cu.fake_clock() >= 7.5);
  assert_int_equal(cu.cuGraphExecDestroy(exec), 0);
  assert_int_equal(cu.cuGraphLaunch(exec, stream), 400);
}

static int captured(int mode, int (*act)(void *stream))
{
  void *stream, *graph;
  assert_int_equal(cu.cuStreamCreate(&stream, 1), 0);
  assert_int_equal(cu.cuStreamBeginCapture_v2(stream, mode), 0);
  int result = act(stream), ended = cu.cuStreamEndCapture(stream, &graph);
  assert_int_equal(ended, result ? 901 : 0);
  if (graph)
    assert_int_equal(cu.cuGraphDestroy(graph), 0);
  return result;
}

static int allocates(void *stream)
{
  (void)stream;
  fat_cuda_address a;
  return cu.cuMemAlloc_v2(&a, 64);
}

static int waits(void *stream)
{
  return cu.cuStreamSynchronize(stream);
}

static int goes_on_after_an_error(void *stream)
{
  assert_int_equal(cu.cuCtxSynchronize(), 900);
  return fake_bench_launch(&b, 0, stream);
}

static int loads_a_module(void *stream)
{
  (void)stream;
  size_t size;
  void *image = cu.fake_cubin(75, 1, &fake_copy_kernel, &size), *module;
  int result = cu.cuModuleLoadData(&module, image);
  free(image);
  return result;
}

static void *allocate_elsewhere(void *result)
{
  *(int *)result = cu.cuCtxSetCurrent(b.context) ? -1 : allocates(NULL);
  return NULL;
}

static int another_thread_allocates(void *stream)
{
  pthread_t thread;
  int result = -1;
  (void)stream;
  assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, &result), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  return result;
}

static int allocates_relaxed(void *stream)
{
  int mode = 2;
  assert_int_equal(cu.cuThreadExchangeStreamCaptureMode(&mode), 0);
  assert_int_equal(mode, 0);
  int result = allocates(stream);
  assert_int_equal(cu.cuThreadExchangeStreamCaptureMode(&mode), 0);
  assert_int_equal(mode, 2);
  return result;
}

static void unsafe_calls_break_a_capture(void **state)
{
  (void)state;
  assert_int_equal(captured(0, allocates), 900);
  assert_int_equal(captured(1, allocates), 900);
  assert_int_equal(captured(2, allocates), 0);
  assert_int_equal(captured(0, waits), 900);
  assert_int_equal(captured(0, goes_on_after_an_error), 901);
  assert_int_equal(captured(0, loads_a_module), 0);
  assert_int_equal(captured(0, another_thread_allocates), 900);
  assert_int_equal(captured(1, another_thread_allocates), 0);
  assert_int_equal(captured(0, allocates_relaxed), 0);
  assert_int_equal(allocates(NULL), 0); /* no capture goes on any more */
}

/* ---- threads ---- */

enum { THREADS = 64, LAUNCHES = 50 };

static void *work(void *argument)
{
  uint32_t number = (uint32_t)(uintptr_t)argument, word = 0;
  void *stream, *event;
  fat_cuda_address a;
  int wrong = cu.cuCtxSetCurrent(b.context) || cu.cuStreamCreate(&stream, 1) || cu.cuEventCreate(&event, 0) ||
              cu.cuMemAlloc_v2(&a, 4096);
  for (int i = 0; i < LAUNCHES && !wrong; i++)
    wrong = cu.cuMemsetD32Async(a, number, 1024, stream) || fake_bench_launch(&b, a, stream) ||
            cu.cuEventRecord(event, stream) || cu.cuEventSynchronize(event) ||
            cu.cuMemcpyDtoHAsync_v2(&word, a + 4092, 4, stream) || cu.cuStreamSynchronize(stream) ||
            word != number;
  wrong = wrong || cu.cuMemFree_v2(a) || cu.cuStreamDestroy_v2(stream) || cu.cuEventDestroy_v2(event);
  return wrong ? argument : NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
  (void)state;
  pthread_t thread[THREADS];
  void *wrong;
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)(i + 1)), 0);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(thread[i], &wrong), 0);
    assert_null(wrong);
  }
  assert_int_equal(cu.fake_launches("copy_*"), THREADS * LAUNCHES);
  fake_live live;
  cu.fake_count(&live);
  assert_int_equal(live.streams + live.events + live.allocations, 0);
  assert_int_equal(cu.fake_findings(), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(launches_take_their_scripted_time, begin),
      cmocka_unit_test_setup(streams_run_beside_each_other, begin),
      cmocka_unit_test_setup(a_captured_launch_runs_when_the_graph_does, begin),
      cmocka_unit_test_setup(unsafe_calls_break_a_capture, begin),
      cmocka_unit_test_setup(threads_do_not_disturb_each_other, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
