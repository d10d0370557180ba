// args.h -- what a kernel is called with. The host writes the same struct, from the same table
// (generator/tensors.c); both check its size. A line `//: name -- meaning` opens a section; a render takes the
// sections that it uses.

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

//: row_tensor -- one number a row; rows are contiguous; data may be null: not wanted
typedef struct row_tensor {
  float *data;
  i64 b, h;
} row_tensor;

//: whole_tensor -- one whole number a row; rows are contiguous; data may be null where a caller may do without
typedef struct whole_tensor {
  const i32 *data;
  i64 b, h;
} whole_tensor;

//: call -- the arguments of one call: its tensors; batch, query heads, KV heads; rows of Q and O, rows of K and V;
// S = scale * Q K^T; then, by feature, numbers (L, R: the keys of a window to the left and to the right of the diagonal)
// and tensors
typedef struct call {
% for _, member in ipairs(call_members) do
  $(member)
% end
} call;
typedef char call_is_$(call_bytes)_bytes[sizeof(call) == $(call_bytes) ? 1 : -1]; // as the host lays it out
