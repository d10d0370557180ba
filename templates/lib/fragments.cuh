// fragments.cuh -- what a thread holds of S and O on tensor cores, whatever instruction makes them: in each block of
// 16 rows and 8 columns, with g = lane / 4 and t = lane % 4, the elements (g, 2t), (g, 2t + 1) and (g + 8, 2t),
// (g + 8, 2t + 1). X = 4 lanes share a row; which rows, row_of says.

//: warp_of -- which warp of the block
__device__ __forceinline__ i32 warp_of()
{
  return thread_id() / 32;
}

//: lane_of -- which of the X lanes of its rows this thread is
__device__ __forceinline__ i32 lane_of()
{
  return thread_id() % 4;
}

//: column_of -- the c-th column of this thread in S or O
__device__ __forceinline__ i32 column_of(i32 c)
{
  return c / 2 * 8 + lane_of() * 2 + c % 2;
}

//: scores -- a thread's part of S or P
struct scores {
  float at[R][C];
};

//: outputs -- a thread's part of O
struct outputs {
  float at[R][E];
};

//: scale_rows -- O = diag(f) O
__device__ __forceinline__ void scale_rows(outputs &O, const rowvec &f)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 e = 0; e < E; e++)
      O.at[r][e] *= f.at[r];
}

//: group -- columns of S that lie side by side in a thread
constexpr i32 group = 2;

//: load_sums -- rows i0.. of O; what lies beyond n is 0
__device__ __forceinline__ outputs load_sums(const sums_at &from, i32 i0, i32 n)
{
  outputs O = {};
#pragma unroll
  for (i32 r = 0; r < R; r++)
    if (row_of(r) < n - i0) {
      const float *row = from.data + (i64(i0) + row_of(r)) * from.row;
#pragma unroll
      for (i32 e = 0; e < E; e++)
        if (column_of(e) < Dv)
          O.at[r][e] = row[column_of(e)];
    }
  return O;
}

//: store_sums -- rows i0.. of O
__device__ __forceinline__ void store_sums(const outputs &O, const sums_at &to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
    if (row_of(r) < n - i0) {
      float *row = to.data + (i64(i0) + row_of(r)) * to.row;
#pragma unroll
      for (i32 e = 0; e < E; e += 2)
        if (column_of(e) < Dv) {
% if W == 1 then
          row[column_of(e)] = O.at[r][e];
          if (column_of(e) + 1 < Dv)
            row[column_of(e) + 1] = O.at[r][e + 1];
% else
          *(float2 *)(row + column_of(e)) = {O.at[r][e], O.at[r][e + 1]};
% end
        }
    }
}
