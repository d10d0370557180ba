/* call_old.h -- the struct `call` of plain forward families, for callers that do not pack by tensors.h yet. */
#ifndef FAT_CALL_OLD_H
#define FAT_CALL_OLD_H
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
#endif
