/* attention.c -- attention on a GPU through libfatune, compared with a loop on the CPU.
 *
 *   cc attention.c $(pkg-config --cflags --libs fatune) -I/usr/local/cuda/include -lcuda -lm -o attention &&
 * ./attention */
#include "cpu.h"

int main(void)
{
  CUdevice device;
  CUcontext context;
  CUDA(cuInit(0));
  CUDA(cuDeviceGet(&device, 0));
  CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CUDA(cuCtxSetCurrent(context));

  float *q = random_floats(B * H * N * D, 1), *k = random_floats(B * HK * N * D, 2);
  float *v = random_floats(B * HK * N * D, 3), *o = malloc(sizeof(float) * B * H * N * D);
  fatune_tensor Q = upload(q, H), K = upload(k, HK), V = upload(v, HK), O = upload(NULL, H);

  /* What was tuned here serves; on a machine where nothing was, the default is compiled now. */
  fatune *library;
  fatune_plan *plan;
  fatune_request request = {.size = sizeof request, .problem = problem, .policy = FATUNE_COMPILE};
  FATUNE(fatune_open(NULL, &library));
  FATUNE(fatune_plan_make(library, &request, &plan));
  printf("%s", fatune_describe(plan));

  size_t bytes;
  CUdeviceptr workspace = 0;
  FATUNE(fatune_workspace(plan, NULL, &bytes));
  if (bytes > 0)
    CUDA(cuMemAlloc(&workspace, bytes));

  float scale = 1 / sqrtf(D);
  fatune_tensors tensors = {.size = sizeof tensors, .Q = &Q, .K = &K, .V = &V, .O = &O, .scale = scale};
  FATUNE(fatune_run(plan, &tensors, NULL, (void *)workspace, NULL));

  CUDA(cuMemcpyDtoH(o, (CUdeviceptr)O.data, sizeof(float) * B * H * N * D));
  double error = largest_error(q, k, v, o, scale);
  printf("largest error %.2g: %s\n", error, error < 1e-5 ? "right" : "WRONG");

  fatune_plan_free(plan);
  fatune_close(library);
  return error < 1e-5 ? 0 : 1;
}
