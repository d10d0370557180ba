// late.cuh -- what a softmax asks that goes on with an m which need not be the maximum: whether weights outgrew it.

//: above -- whether a number of this thread's rows is above a limit, or a NaN
template <i32 rows_> __device__ __forceinline__ bool above(const rowvec<rows_> &x, float limit)
{
  bool is = false;
#pragma unroll
  for (i32 r = 0; r < x.R; r++)
    is = is || !(x.at[r] <= limit);
  return is;
}

//: unset -- whether one of this thread's rows has no maximum yet
template <i32 rows_> __device__ __forceinline__ bool unset(const rowvec<rows_> &m)
{
  bool is = false;
#pragma unroll
  for (i32 r = 0; r < m.R; r++)
    is = is || m.at[r] == minus_inf();
  return is;
}

//: grown -- whether the maximum of one of this thread's rows has grown by more than 4, in base 2; f: by what l shrinks
template <i32 rows_> __device__ __forceinline__ bool grown(const rowvec<rows_> &f)
{
  bool is = false;
#pragma unroll
  for (i32 r = 0; r < f.R; r++)
    is = is || !(f.at[r] >= .0625f);
  return is;
}
