// matrix.cuh -- S and P in device memory, for the algorithm that keeps them there.

//: matrix -- the nq x row matrix of one batch and head; `row` is nk rounded up to whole tiles
struct matrix {
  elem *data;
  i64 row;
};

//: matrix_of -- that of one batch and head
__device__ __forceinline__ matrix matrix_of(elem *all, i32 head, const place &at)
{
  const i64 row = i64(ceil_div(at.$(ragged and "all_k" or "nk"), Bc)) * Bc;
  return {all + head * row * at.$(ragged and "all_q" or "nq"), row};
}

//: load_scores -- the tile at (i0, j0); rows beyond nq are -inf
template <class Acc> __device__ __forceinline__ Acc load_scores(const matrix &from, i32 i0, i32 j0, i32 nq)
{
  Acc S;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const elem *row = from.data + (i64(i0) + Acc::row(r)) * from.row + j0;
    const bool real = Acc::row(r) < nq - i0;
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += Acc::group)
      if (real)
        get_group(&S.at[r][c], row + Acc::column(c));
      else
        fill_group<Acc::group>(&S.at[r][c], minus_inf());
  }
  return S;
}

//: store_scores -- the tile at (i0, j0)
template <class Acc> __device__ __forceinline__ void store_scores(const Acc &S, const matrix &to, i32 i0, i32 j0, i32 nq)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
    if (Acc::row(r) < nq - i0) {
      elem *row = to.data + (i64(i0) + Acc::row(r)) * to.row + j0;
#pragma unroll
      for (i32 c = 0; c < Acc::C; c += Acc::group)
        put_group(row + Acc::column(c), &S.at[r][c]);
    }
}

//: fill_group
template <i32 group_> __device__ __forceinline__ void fill_group(float *to, float x)
{
#pragma unroll
  for (i32 c = 0; c < group_; c++)
    to[c] = x;
}

//: exp2_from -- S becomes P = 2^(c S - log2(e) L), with a natural L for each row
template <class Acc> __device__ __forceinline__ void exp2_from(Acc &S, const rowvec<Acc::rows> &L, float c)
{
  constexpr float log2e = 1.44269504088896f;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 x = 0; x < Acc::C; x++)
      S.at[r][x] = ex2(fmaf(c, S.at[r][x], -log2e * L.at[r]));
}

//: times_marked -- dP becomes dS = P (Z dP - D), with a D for each row
template <class Acc>
__device__ __forceinline__ void times_marked(Acc &dP, const Acc &P, const rowvec<Acc::rows> &D, float more)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      dP.at[r][c] = difference(P.at[r][c], dP.at[r][c], D.at[r], more);
}

//: multiply -- element by element
template <class Acc> __device__ __forceinline__ void multiply(Acc &S, const Acc &by)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] *= by.at[r][c];
}

//: subtract_rows -- a number for each row
template <class Acc> __device__ __forceinline__ void subtract_rows(Acc &S, const rowvec<Acc::rows> &v)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] -= v.at[r];
}

//: sums_at -- where rows of an accumulator lie while they grow: floats, `row` from one to the next
struct sums_at {
  float *data;
  $(packed and "packed_rows" or "i64") row;
};
