/* decode.c -- one plan for every length: a KV cache that grows by a row with each call, as in decoding.
 *
 *   cc decode.c $(pkg-config --cflags --libs fatune) -I/usr/local/cuda/include -lcuda -lm -o decode &&
 * ./decode */
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

  /* A problem without its sizes: each call brings its own. */
  fatune *library;
  fatune_plan *plan;
  fatune_request request = {
      .size = sizeof request, .problem = "fwd-f32-d64-causal", .policy = FATUNE_COMPILE};
  FATUNE(fatune_open(NULL, &library));
  FATUNE(fatune_plan_make(library, &request, &plan));
  printf("%s", fatune_describe(plan));

  /* The workspace of the largest call does for all. */
  size_t bytes;
  CUdeviceptr workspace = 0;
  fatune_sizes sizes = {.size = sizeof sizes, .b = B, .h = H, .hk = HK, .q = 1, .k = N};
  FATUNE(fatune_workspace(plan, &sizes, &bytes));
  if (bytes > 0)
    CUDA(cuMemAlloc(&workspace, bytes));

  /* Row n of Q sees the keys up to its own: together the rows are causal attention. */
  float scale = 1 / sqrtf(D);
  for (int n = 0; n < N; n++) {
    fatune_tensor row = Q, result = O;
    row.data = (float *)Q.data + n * D;
    result.data = (float *)O.data + n * D;
    sizes.k = n + 1;
    fatune_tensors tensors = {
        .size = sizeof tensors, .Q = &row, .K = &K, .V = &V, .O = &result, .scale = scale};
    FATUNE(fatune_run(plan, &tensors, &sizes, (void *)workspace, NULL));
  }

  CUDA(cuMemcpyDtoH(o, (CUdeviceptr)O.data, sizeof(float) * B * H * N * D));
  double error = largest_error(q, k, v, o, scale);
  printf("%d lengths, largest error %.2g: %s\n", N, error, error < 1e-5 ? "right" : "WRONG");

  fatune_plan_free(plan);
  fatune_close(library);
  return error < 1e-5 ? 0 : 1;
}
