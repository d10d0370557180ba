/* cpu.h -- what the examples have in common: an error check, inputs, and attention by plain loops on the CPU.
 *
 * Packed tensors: Q and O [b][h][n][d], K and V [b][hk][n][d]; causal. */
#ifndef EXAMPLE_CPU_H
#define EXAMPLE_CPU_H

#include <cuda.h>
#include <fatune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program with a sentence where a call fails. */
#define CUDA(call)                                                                                           \
  do {                                                                                                       \
    CUresult result_ = (call);                                                                               \
    if (result_ != CUDA_SUCCESS)                                                                             \
      printf("%s: CUDA error %d\n", #call, (int)result_), exit(1);                                           \
  } while (0)
#define FATUNE(call)                                                                                         \
  do {                                                                                                       \
    fatune_status status_ = (call);                                                                          \
    if (status_ != FATUNE_OK)                                                                                \
      printf("%s: %s: %s\n", #call, fatune_status_text(status_), fatune_detail()), exit(1);                  \
  } while (0)

enum { B = 2, H = 4, HK = 2, N = 200, D = 64 }; /* batch, heads, KV heads, rows, head dimension */
static const char problem[] = "fwd-f32-b2-h4k2-q200-k200-d64-causal";

static inline float *random_floats(size_t count, unsigned seed)
{
  float *x = malloc(count * sizeof *x);
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (1 << 23) - 1;
  }
  return x;
}

/* Host numbers as a packed tensor in device memory; NULL: no numbers yet. */
static inline fatune_tensor upload(const float *from, int heads)
{
  size_t bytes = sizeof(float) * B * heads * N * D;
  CUdeviceptr at;
  CUDA(cuMemAlloc(&at, bytes));
  if (from)
    CUDA(cuMemcpyHtoD(at, from, bytes));
  return (fatune_tensor){(void *)at, {(int64_t)heads * N * D, N * D, D}};
}

/* The largest difference between O and softmax(scale Q K^T) V in double. */
static inline double largest_error(const float *q, const float *k, const float *v, const float *o,
                                   double scale)
{
  static double p[N];
  double worst = 0;
  for (int row = 0; row < B * H * N; row++) {
    int i = row % N, head = row / N % H, batch = row / N / H;
    size_t kv = (size_t)(batch * HK + head / (H / HK)) * N * D;
    double sum = 0;
    for (int j = 0; j <= i; j++) {
      double s = 0;
      for (int x = 0; x < D; x++)
        s += (double)q[(size_t)row * D + x] * k[kv + j * D + x];
      sum += p[j] = exp(scale * s);
    }
    for (int x = 0; x < D; x++) {
      double value = 0;
      for (int j = 0; j <= i; j++)
        value += p[j] / sum * v[kv + j * D + x];
      worst = fmax(worst, fabs(value - o[(size_t)row * D + x]));
    }
  }
  return worst;
}

#endif
