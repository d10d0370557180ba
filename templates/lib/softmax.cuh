// softmax.cuh -- the online softmax: a running maximum m and sum l for each row, in base 2.
// Scores S are plain products Q K^T and m is their maximum; c = |scale| log2(e) enters with the exponential:
// P = 2^(c S - c m), one multiply-add and one ex2 for each score. An accumulator says what a thread holds of it:
// R rows, C columns, and which (`row`, `column`).

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

//: rowvec -- one number for each row of a tile; a thread holds those of its rows
template <i32 rows_> struct rowvec {
  static constexpr i32 R = rows_of_thread<rows_>;
  float at[R];
  rowvec() = default;
  __device__ __forceinline__ explicit rowvec(float x)
  {
#pragma unroll
    for (i32 r = 0; r < R; r++)
      at[r] = x;
  }
};
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> operator*(const rowvec<rows_> &x, const rowvec<rows_> &y)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = x.at[r] * y.at[r];
  return v;
}
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> operator+(const rowvec<rows_> &x, const rowvec<rows_> &y)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = x.at[r] + y.at[r];
  return v;
}

//: colvec -- one number for each column of a tile; a thread holds those of its columns
template <i32 columns_> struct colvec {
  static constexpr i32 C = acc<Bc, columns_>::C;
  float at[C];
};

//: load_colvec -- one number a column from device memory; 0 beyond n columns
template <i32 columns_> __device__ __forceinline__ colvec<columns_> load_colvec(const float *from, i32 i0, i32 n)
{
  colvec<columns_> v;
#pragma unroll
  for (i32 c = 0; c < v.C; c++) {
    const i32 column = acc<Bc, columns_>::column(c);
    v.at[c] = column < n - i0 ? from[i64(i0) + column] : 0.f;
  }
  return v;
}

//: exp2_by -- S becomes P = 2^(c S - log2(e) L), with a natural L for each column
template <class Acc> __device__ __forceinline__ void exp2_by(Acc &S, const colvec<Acc::columns> &L, float c)
{
  constexpr float log2e = 1.44269504088896f;
#pragma unroll
  for (i32 x = 0; x < Acc::C; x++)
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      S.at[r][x] = ex2(fmaf(c, S.at[r][x], -log2e * L.at[x]));
}

//: times_difference -- P becomes P (dP - D), with a D for each column
template <class Acc>
__device__ __forceinline__ void times_difference(Acc &P, const Acc &dP, const colvec<Acc::columns> &D$(has.drop and ", float more" or ""))
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      $(has.drop and "P.at[r][c] = difference(P.at[r][c], dP.at[r][c], D.at[c], more)" or "P.at[r][c] *= dP.at[r][c] - D.at[c]");
}

//: times_slope_by -- P, whose LSE is natural, times the derivative of scores
template <class Acc>
__device__ __forceinline__ void times_slope_by(Acc &P, const colvec<Acc::columns> &L, const call &a, const place &at, i32 i0, i32 j0)
{
  constexpr float log2e = 1.44269504088896f;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const steepness<true, Acc> slope(a, at, i0, j0, r);
#pragma unroll
    for (i32 x = 0; x < Acc::C; x++)
      P.at[r][x] *= slope.of(P.at[r][x], log2e * L.at[x], x);
  }
}

//: row_dot -- the dot products of the rows of two matrices of n rows, from row i0 on
template <i32 rows_, i32 width>
__device__ __forceinline__ rowvec<rows_> row_dot(const elem *A, i64 An, const elem *B, i64 Bn, i32 i0, i32 n)
{
  rowvec<rows_> v(0.f);
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    if (row_of<rows_>(r) < n - i0) {
      const i64 row = i64(i0) + row_of<rows_>(r);
      for (i32 x = lane_of(); x < width; x += X)
        v.at[r] += float_of(A[row * An + x]) * float_of(B[row * Bn + x]);
    }
  return row_total(v);
}

//: D_of -- from rowsum(dO O) to D of rows i0..: a gradient of LSE is taken off
template <i32 rows_>
__device__ __forceinline__ rowvec<rows_> D_of(const rowvec<rows_> &sum, const place &at, i32 i0)
{
  const rowvec<rows_> dLSE = load_rowvec<rows_>(at.dLSE, i0, at.nq);
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = sum.at[r] - dLSE.at[r];
  return v;
}

//: row_max -- max(m, rowmax(S)), the same in all X lanes of a row
template <class Acc>
__device__ __forceinline__ rowvec<Acc::rows> row_max(const rowvec<Acc::rows> &m, const Acc &S)
{
  rowvec<Acc::rows> v = m;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      v.at[r] = fmaxf(v.at[r], S.at[r][c]);
#pragma unroll
    for (i32 lanes = 1; lanes < X; lanes *= 2)
      v.at[r] = fmaxf(v.at[r], shfl_xor(v.at[r], lanes));
  }
  return v;
}

//: larger -- the larger of two, row by row
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> larger(const rowvec<rows_> &x, const rowvec<rows_> &y)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = fmaxf(x.at[r], y.at[r]);
  return v;
}

//: settle -- takes m back to what it was unless a row of this warp has outgrown that by 2^8; whether one has. Any
// number near the maximum serves as origin: P then stays below 256, and most tiles need no rescaling of O and l
template <i32 rows_> __device__ __forceinline__ bool settle(rowvec<rows_> &m, const rowvec<rows_> &m_old, float c)
{
  bool outgrown = false;
#pragma unroll
  for (i32 r = 0; r < m.R; r++)
    outgrown = outgrown || c * (m.at[r] - m_old.at[r]) > 8.f;
  if (any_lane(outgrown))
    return true;
  m = m_old;
  return false;
}

//: exp2_columns -- S becomes P = 2^(c S - c m) in a thread's columns from `first` to before `last`
template <i32 first, i32 last, class Acc>
__device__ __forceinline__ void exp2_columns(Acc &S, const rowvec<Acc::rows> &m, float c)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const float cm = c * origin(m.at[r]);
#pragma unroll
    for (i32 x = first; x < last; x++)
      S.at[r][x] = ex2(fmaf(c, S.at[r][x], -cm));
  }
}

//: exp2_rows -- the same in all columns
template <class Acc> __device__ __forceinline__ void exp2_rows(Acc &S, const rowvec<Acc::rows> &m, float c)
{
  exp2_columns<0, Acc::C>(S, m, c);
}

//: scale_rows -- O = diag(f) O
template <class Acc> __device__ __forceinline__ void scale_rows(Acc &O, const rowvec<Acc::rows> &f)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      O.at[r][c] *= f.at[r];
}

//: row_sum -- rowsum(P) over this thread's own columns. A tile is summed by itself before it is added to l:
// beside one large P, many small ones would be lost one by one.
template <class Acc> __device__ __forceinline__ rowvec<Acc::rows> row_sum(const Acc &P)
{
  rowvec<Acc::rows> v(0.f);
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      v.at[r] += P.at[r][c];
  return v;
}

//: row_total -- the sum over all X lanes of a row
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> row_total(const rowvec<rows_> &l)
{
  rowvec<rows_> v = l;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
#pragma unroll
    for (i32 lanes = 1; lanes < X; lanes *= 2)
      v.at[r] += shfl_xor(v.at[r], lanes);
  return v;
}

//: decay -- 2^(c (m_old - m_new)): what was gathered under an old maximum, seen from the new one. The difference
// comes first: it makes exactly 1 where m did not grow. A multiply-add of c m_old and c m_new does not, and its
// rounding error, always of one sign, would count again with every tile.
template <i32 rows_>
__device__ __forceinline__ rowvec<rows_> decay(const rowvec<rows_> &m_old, const rowvec<rows_> &m_new, float c)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = ex2(c * (m_old.at[r] - origin(m_new.at[r])));
  return v;
}

//: load_rowvec -- one number a row from device memory, read by every lane of the row; 0 beyond n rows
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> load_rowvec(const float *from, i32 i0, i32 n)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = row_of<rows_>(r) < n - i0 ? from[i64(i0) + row_of<rows_>(r)] : 0.f;
  return v;
}

//: store_rowvec -- one number a row to device memory, written by the first lane of the row
template <i32 rows_>
__device__ __forceinline__ void store_rowvec(const rowvec<rows_> &v, $(packed and "const packed_floats &" or "float *")to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    if (lane_of() == 0 && row_of<rows_>(r) < n - i0)
      to[i64(i0) + row_of<rows_>(r)] = v.at[r];
}
