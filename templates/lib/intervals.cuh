// intervals.cuh -- the parts of the hooks `sees` and `range` that ask two tensors: row i sees the keys [lo[i], hi[i]), which
// need not rise with i.

//: given -- the keys that the tensors give row i; for rows behind the last those of the last
__device__ __forceinline__ interval given(const sequence &at, i32 i)
{
  const i32 row = min(i, at.nq - 1);
  return {max(0, at.lo[row]), max(0, at.hi[row])};
}

//: from_lane -- a whole number of another thread
__device__ __forceinline__ i32 from_lane(i32 x, i32 lanes)
{
  return i32(__float_as_uint(shfl_xor(__uint_as_float(u32(x)), lanes)));
}

//: bounds -- of some intervals: the least and the greatest of each end
struct bounds {
  i32 lo_least, lo_most, hi_least, hi_most;
};

//: bounds_of -- of what rows [i0, i0 + n) see, by all lanes of a warp; one that sees nothing counts as an end at 0 alone
__device__ __forceinline__ bounds bounds_of(const call &a, const sequence &at, i32 i0, i32 n)
{
  bounds x = {0x7fffffff, 0, 0x7fffffff, 0};
  for (i32 i = thread_id() % 32; i < n; i += 32) {
    const interval seen = sees(a, at, i0 + i);
    const bool some = seen.lo < seen.hi;
    x.lo_least = some ? min(x.lo_least, seen.lo) : x.lo_least;
    x.lo_most = some ? max(x.lo_most, seen.lo) : x.lo_most;
    x.hi_least = some ? min(x.hi_least, seen.hi) : 0;
    x.hi_most = some ? max(x.hi_most, seen.hi) : x.hi_most;
  }
#pragma unroll
  for (i32 lanes = 1; lanes < 32; lanes *= 2) {
    x.lo_least = min(x.lo_least, from_lane(x.lo_least, lanes));
    x.lo_most = max(x.lo_most, from_lane(x.lo_most, lanes));
    x.hi_least = min(x.hi_least, from_lane(x.hi_least, lanes));
    x.hi_most = max(x.hi_most, from_lane(x.hi_most, lanes));
  }
  return x;
}

//: range_given -- the KV tiles that rows [i0, i0 + n) visit
__device__ __forceinline__ spans range_given(const call &a, const sequence &at, i32 i0, i32 n)
{
  const bounds x = bounds_of(a, at, i0, n);
  const i32 last = ceil_div(x.hi_most, Bc), first = min(x.lo_least / Bc, last);
  const i32 free = min(max(first, ceil_div(x.lo_most, Bc)), last);
  return {first, free, min(max(free, x.hi_least / Bc), last), last};
}

//: rows_given -- from the first to the last of rows [from, to) that see one of n keys from j0 on, in any of the heads that
// share them: every row is asked, by all lanes of a warp
__device__ __forceinline__ spans rows_given(const call &a, sequence at, i32 j0, i32 n, const interval &among)
{
  i32 first = 0x7fffffff, last = 0;
  const i32 heads = a.lo.h == 0 && a.hi.h == 0 ? 1 : a.h / a.hk, own = at.h - at.hk * (a.h / a.hk);
  at.lo -= own * a.lo.h;
  at.hi -= own * a.hi.h;
  for (i32 x = 0; x < heads; x++, at.lo += a.lo.h, at.hi += a.hi.h) {
#pragma unroll 4
    for (i32 i = among.lo + thread_id() % 32; i < among.hi; i += 32) {
      const interval seen = sees(a, at, i);
      const bool some = max(seen.lo, j0) < min(seen.hi - j0, n) + j0;
      first = some ? min(first, i) : first;
      last = some ? max(last, i + 1) : last;
    }
  }
#pragma unroll
  for (i32 lanes = 1; lanes < 32; lanes *= 2) {
    first = min(first, from_lane(first, lanes));
    last = max(last, from_lane(last, lanes));
  }
  const i32 end = ceil_div(last, Br);
  return {min(first / Br, end), end, end, end}; // all of them are masked
}

//: passes_by -- whether rows [i0, i0 + Br) visit no tile of these keys: such tiles may lie between others that do
__device__ __forceinline__ bool passes_by(const call &a, const sequence &at, i32 i0, i32 j0)
{
  const spans visit = range(a, at, i0);
  return j0 / Bc < visit.first || j0 / Bc >= visit.last;
}
