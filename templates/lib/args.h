// args.h -- what a kernel is called with: the one definition, for the kernels and for the host. Plain C.
// A line `//: name -- meaning` opens a section; a render takes the sections that it uses.
#pragma once

//: i32
typedef int i32;

//: i64
typedef long long i64;

//: u32
typedef unsigned int u32;

//: u64
typedef unsigned long long u64;

//: u16
typedef unsigned short u16;

//: tensor -- rows of contiguous elements; strides in elements: from batch to batch, head to head, row to row
typedef struct tensor {
  void *data;
  i64 b, h, n;
} tensor;

//: lse_tensor -- one float a row; rows are contiguous; data may be null: not wanted
typedef struct lse_tensor {
  float *data;
  i64 b, h;
} lse_tensor;

//: call -- the arguments of one attention call
typedef struct call {
  tensor Q, K, V, O;
  lse_tensor LSE;
  i32 b, h, hk; // batch, query heads, KV heads
  i32 q, k;     // rows of Q and O; rows of K and V
  float scale;  // S = scale * Q K^T
} call;
typedef char call_is_176_bytes[sizeof(call) == 176 ? 1 : -1]; // the host lays out the same struct
