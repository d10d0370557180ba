/* call_old.h -- the struct `call` of plain forward families, for callers that do not pack by tensors.h yet.
 */
#ifndef FAT_CALL_OLD_H
#define FAT_CALL_OLD_H
#include "tensors.h"
typedef int i32;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef struct tensor {
  void *data;
  i64 b, h, n;
} tensor;
typedef struct lse_tensor {
  float *data;
  i64 b, h;
} lse_tensor;
typedef struct call {
  tensor Q, K, V, O;
  lse_tensor LSE;
  i32 b, h, hk, q, k;
  float scale;
} call;

/* The same tensors as a fat_call. */
static inline fat_call call_old_view(const call *c)
{
  const tensor *tensors[] = {&c->Q, &c->K, &c->V, &c->O}; /* ORDER TENSOR */
  fat_call now = {.scale = c->scale};
  for (int t = 0; t <= FAT_O; t++)
    now.tensor[t] = (fat_view){tensors[t]->data, {tensors[t]->b, tensors[t]->h, tensors[t]->n}};
  now.tensor[FAT_LSE] = (fat_view){c->LSE.data, {c->LSE.b, c->LSE.h, 1}};
  return now;
}
#endif
