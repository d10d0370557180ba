// late.cuh -- what a softmax asks that goes on with an m which need not be the maximum: whether weights outgrew it, and by which m the largest would be 1.

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

//: above_by -- the m by which the largest weight of each row is 1, where P holds weights by another that is too small
__device__ __forceinline__ rowvec<Br> above_by(const rowvec<Br> &m, const acc<Br, Bc> &P, float c)
{
  rowvec<Br> v = row_max(rowvec<Br>(1.f), P);
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = m.at[r] + lg2(v.at[r]) * ex2(-lg2(c));
  return v;
}
