// fragments.cuh -- what a thread holds of an accumulator on tensor cores, whatever instruction makes it: in each block of
// 16 rows and 8 columns, with g = lane / 4 and t = lane % 4, the elements (g, 2t), (g, 2t + 1) and (g + 8, 2t),
// (g + 8, 2t + 1). X = 4 lanes share a row; which rows, row_of says.

//: warp_of -- which warp of the block$(parted and ", of those that share the rows" or "")
__device__ __forceinline__ i32 warp_of()
{
  return thread_id() / 32$(parted and " % warps" or "");
}

//: lane_of -- which of the X lanes of its rows this thread is
__device__ __forceinline__ i32 lane_of()
{
  return thread_id() % 4;
}

//: column_of -- the c-th column of this thread
__device__ __forceinline__ i32 column_of(i32 c)
{
  return c / 2 * 8 + lane_of() * 2 + c % 2;
}

//: acc -- a thread's part of a matrix of sums in fp32: S, O, dQ...
template <i32 rows_, i32 columns_> struct acc {
  static constexpr i32 rows = rows_, columns = columns_;
  static constexpr i32 R = rows_of_thread<rows_>, C = columns_ / 4;
  static constexpr i32 group = 2; // columns side by side
  float at[R][C];
  static __device__ __forceinline__ i32 row(i32 r) { return row_of<rows_>(r); }
  static __device__ __forceinline__ i32 column(i32 c) { return column_of(c); }
};

//: sums -- an accumulator of mma_AB or mma_AtB
template <i32 rows_, i32 columns_> using sums = acc<rows_, columns_>;

//: load_sums -- an accumulator from device memory, rows i0..; what lies beyond n is 0
template <class Acc> __device__ __forceinline__ Acc load_sums(const sums_at &from, i32 i0, i32 n)
{
  Acc O = {};
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
    if (Acc::row(r) < n - i0) {
      const float *row = from.data + (i64(i0) + Acc::row(r)) * from.row;
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
        O.at[r][c] = row[column_of(c)];
    }
  return O;
}

//: store_sums -- and back
template <class Acc> __device__ __forceinline__ void store_sums(const Acc &O, const sums_at &to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
    if (Acc::row(r) < n - i0) {
      float *row = to.data + (i64(i0) + Acc::row(r)) * to.row;
#pragma unroll
      for (i32 c = 0; c < Acc::C; c += 2) {
% if aligned == 1 then
        row[column_of(c)] = O.at[r][c];
        row[column_of(c) + 1] = O.at[r][c + 1];
% else
        *(float2 *)(row + column_of(c)) = {O.at[r][c], O.at[r][c + 1]};
% end
      }
    }
}
