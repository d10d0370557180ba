/* graph.c -- the same call captured into a CUDA graph and replayed: fatune_run only queues launches.
 *
 *   cc graph.c $(pkg-config --cflags --libs fatune) -I/usr/local/cuda/include -lcuda -lm -o graph && ./graph
 */
#include "cpu.h"

int main(void)
{
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUgraph graph;
  CUgraphExec replay;
  CUDA(cuInit(0));
  CUDA(cuDeviceGet(&device, 0));
  CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CUDA(cuCtxSetCurrent(context));
  CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  float *q = random_floats(B * H * N * D, 1), *k = random_floats(B * HK * N * D, 2);
  float *v = random_floats(B * HK * N * D, 3), *o = malloc(sizeof(float) * B * H * N * D);
  fatune_tensor Q = upload(q, H), K = upload(k, HK), V = upload(v, HK), O = upload(NULL, H);

  fatune *library;
  fatune_plan *plan;
  size_t bytes;
  CUdeviceptr workspace = 0;
  fatune_request request = {.size = sizeof request, .problem = problem, .policy = FATUNE_COMPILE};
  FATUNE(fatune_open(NULL, &library));
  FATUNE(fatune_plan_make(library, &request, &plan)); /* loading and allocating end here */
  FATUNE(fatune_workspace(plan, NULL, &bytes));
  if (bytes > 0)
    CUDA(cuMemAlloc(&workspace, bytes));

  float scale = 1 / sqrtf(D);
  fatune_tensors tensors = {.size = sizeof tensors, .Q = &Q, .K = &K, .V = &V, .O = &O, .scale = scale};
  CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  FATUNE(fatune_run(plan, &tensors, NULL, (void *)workspace, stream));
  CUDA(cuStreamEndCapture(stream, &graph));
  CUDA(cuGraphInstantiate(&replay, graph, 0));

  double worst = 0;
  for (int i = 0; i < 3; i++) {
    CUDA(cuMemsetD32((CUdeviceptr)O.data, 0x7fc00000, B * H * N * D)); /* NaN */
    CUDA(cuCtxSynchronize());
    CUDA(cuGraphLaunch(replay, stream));
    CUDA(cuStreamSynchronize(stream));
    CUDA(cuMemcpyDtoH(o, (CUdeviceptr)O.data, sizeof(float) * B * H * N * D));
    double error = largest_error(q, k, v, o, scale);
    worst = error <= worst ? worst : error;
  }
  printf("3 replays, largest error %.2g: %s\n", worst, worst < 1e-5 ? "right" : "WRONG");

  fatune_plan_free(plan);
  fatune_close(library);
  return worst < 1e-5 ? 0 : 1;
}
