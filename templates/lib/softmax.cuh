// softmax.cuh -- the online softmax: a running maximum m and sum l for each row, in base 2.
// Scores S are plain products Q K^T and m is their maximum; c = |scale| log2(e) enters with the exponential:
// P = 2^(c S - c m), one multiply-add and one ex2 for each score.

//: minus_inf
__device__ __forceinline__ float minus_inf()
{
  return __int_as_float(0xff800000);
}

//: base2 -- the factor c; never 0, because c * -inf must stay -inf (scale 0 weighs all keys alike either way)
__device__ __forceinline__ float base2(float scale)
{
  constexpr float log2e = 1.44269504088896f, least = 1.17549435e-38f;
  return fmaxf(fabsf(scale) * log2e, least);
}

//: origin -- a maximum to subtract: -inf (no key seen yet) counts as 0, so that -inf - m stays -inf
__device__ __forceinline__ float origin(float m)
{
  return m == minus_inf() ? 0.f : m;
}

//: rowvec -- one number for each row of a thread
struct rowvec {
  float at[R];
};

//: row_fill -- the same number for each row
__device__ __forceinline__ rowvec row_fill(float x)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = x;
  return v;
}

//: orient -- a negative scale turns the order of the scores round; negated, their maximum is a maximum again
__device__ __forceinline__ void orient(scores &S, float scale)
{
  if (scale < 0.f) {
#pragma unroll
    for (i32 r = 0; r < R; r++)
#pragma unroll
      for (i32 c = 0; c < C; c++)
        S.at[r][c] = -S.at[r][c];
  }
}

//: mask -- S = -inf where `keep` says no; by select, so that a NaN there is gone too
template <class Lengths> __device__ __forceinline__ void mask(scores &S, const Lengths &at, i32 i0, i32 j0)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 c = 0; c < C; c++)
      S.at[r][c] = keep(at, i0 + row_of(r), j0 + column_of(c)) ? S.at[r][c] : minus_inf();
}

//: row_max -- max(m, rowmax(S)), the same in all X lanes of a row
__device__ __forceinline__ rowvec row_max(const rowvec &m, const scores &S)
{
  rowvec v = m;
#pragma unroll
  for (i32 r = 0; r < R; r++) {
#pragma unroll
    for (i32 c = 0; c < C; c++)
      v.at[r] = fmaxf(v.at[r], S.at[r][c]);
#pragma unroll
    for (i32 lanes = 1; lanes < X; lanes *= 2)
      v.at[r] = fmaxf(v.at[r], shfl_xor(v.at[r], lanes));
  }
  return v;
}

//: row_larger -- the larger of two, row by row
__device__ __forceinline__ rowvec row_larger(const rowvec &x, const rowvec &y)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = fmaxf(x.at[r], y.at[r]);
  return v;
}

//: settle -- takes m back to what it was unless a row of this warp has outgrown that by 2^8; whether one has. Any
// number near the maximum serves as origin: P then stays below 256, and most tiles need no rescaling of O and l
__device__ __forceinline__ bool settle(rowvec &m, const rowvec &m_old, float c)
{
  bool outgrown = false;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    outgrown = outgrown || c * (m.at[r] - m_old.at[r]) > 8.f;
  if (any_lane(outgrown))
    return true;
  m = m_old;
  return false;
}

//: overgrown -- whether the weights of a tile, whose sums these are, were too large for the m they were computed with: a
// thread's sum over 2^10, or a NaN; or a row had no m yet
__device__ __forceinline__ bool overgrown(const rowvec &m, const rowvec &sums)
{
  bool is = false;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    is = is || !(sums.at[r] <= 1024.f) || m.at[r] == minus_inf();
  return is;
}

//: exp2_rows -- S becomes P = 2^(c S - c m)
__device__ __forceinline__ void exp2_rows(scores &S, const rowvec &m, float c)
{
#pragma unroll
  for (i32 r = 0; r < R; r++) {
    const float cm = c * origin(m.at[r]);
#pragma unroll
    for (i32 x = 0; x < C; x++)
      S.at[r][x] = ex2(fmaf(c, S.at[r][x], -cm));
  }
}

//: exp2_columns -- the same of the columns from `first` to before `last`
template <i32 first, i32 last> __device__ __forceinline__ void exp2_columns(scores &S, const rowvec &m, float c)
{
#pragma unroll
  for (i32 r = 0; r < R; r++) {
    const float cm = c * origin(m.at[r]);
#pragma unroll
    for (i32 x = first; x < last; x++)
      S.at[r][x] = ex2(fmaf(c, S.at[r][x], -cm));
  }
}

//: scale_scores -- P = diag(f) P
__device__ __forceinline__ void scale_scores(scores &P, const rowvec &f)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 c = 0; c < C; c++)
      P.at[r][c] *= f.at[r];
}

//: row_sum -- rowsum(P) over this thread's own columns. A tile is summed by itself before it is added to l:
// beside one large P, many small ones would be lost one by one.
__device__ __forceinline__ rowvec row_sum(const scores &P)
{
  rowvec v = row_fill(0.f);
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 c = 0; c < C; c++)
      v.at[r] += P.at[r][c];
  return v;
}

//: row_total -- the sum over all X lanes of a row
__device__ __forceinline__ rowvec row_total(const rowvec &l)
{
  rowvec v = l;
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 lanes = 1; lanes < X; lanes *= 2)
      v.at[r] += shfl_xor(v.at[r], lanes);
  return v;
}

//: decay -- 2^(c (m_old - m_new)): what was gathered under an old maximum, seen from the new one. The difference
// comes first: it makes exactly 1 where m did not grow. A multiply-add of c m_old and c m_new does not, and its
// rounding error, always of one sign, would count again with every tile.
__device__ __forceinline__ rowvec decay(const rowvec &m_old, const rowvec &m_new, float c)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = ex2(c * (m_old.at[r] - origin(m_new.at[r])));
  return v;
}

//: row_inverse -- 1 / l for each row
__device__ __forceinline__ rowvec row_inverse(const rowvec &l)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = inverse(l.at[r]);
  return v;
}

//: times -- elementwise product
__device__ __forceinline__ rowvec times(const rowvec &x, const rowvec &y)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = x.at[r] * y.at[r];
  return v;
}

//: plus -- elementwise sum
__device__ __forceinline__ rowvec plus(const rowvec &x, const rowvec &y)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = x.at[r] + y.at[r];
  return v;
}

//: load_rowvec -- one number a row from device memory, read by every lane of the row; 0 beyond n rows
__device__ __forceinline__ rowvec load_rowvec(const float *from, i32 i0, i32 n)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = row_of(r) < n - i0 ? from[i64(i0) + row_of(r)] : 0.f;
  return v;
}

//: store_rowvec -- one number a row to device memory, written by the first lane of the row
__device__ __forceinline__ void store_rowvec(const rowvec &v, $(packed and "const lse_rows &" or "float *")to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
    if (lane_of() == 0 && row_of(r) < n - i0)
      to[i64(i0) + row_of(r)] = v.at[r];
}

//: row_finish -- the LSE of each row
__device__ __forceinline__ rowvec row_finish(const rowvec &m, const rowvec &l, float c)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = finish(m.at[r], l.at[r], c);
  return v;
}
