// grad.cuh -- what the backward needs beside products: LSE and D of rows, what becomes of S^T and dP^T, and which tiles a
// block visits. S, P, dP and dS are transposed, a row for each key.

//: LD_row -- of one row of Q: log2(e) LSE, and D = rowsum(dO O). Beyond the last row of a sequence LSE is inf, so that P is 0
typedef float2 LD_row;

//: LD_tile -- those of the rows of a tile
struct LD_tile {
  static constexpr i32 bytes = 8 * Br;
  u32 data;
  __device__ __forceinline__ explicit LD_tile(u32 address) : data(address) {}
% if LD_apart then
  // Of columns x to x + 3 of a thread, x % 4 = 0, all LSE or all D: of 16 rows such four lie side by side, and D behind LSE.
  __device__ __forceinline__ quad LSE(i32 x) const { return get16(data + 16 * (x + thread_id() % 4)); }
  __device__ __forceinline__ quad D(i32 x) const { return get16(data + 4 * Br + 16 * (x + thread_id() % 4)); }
  static __device__ __forceinline__ i32 place(i32 i) { return i / 16 * 16 + i % 8 / 2 * 4 + i / 8 % 2 * 2 + i % 2; }
};
% else
  // Of two rows side by side: LSE, D, LSE, D.
  __device__ __forceinline__ quad rows(i32 i) const { return get16(data + 8 * i); }
};
% end

//: dot_of -- of 16 bytes of two matrices
__device__ __forceinline__ float dot_of(const quad &a, const quad &b)
{
  union {
    quad whole;
    elem part[per_chunk];
  } x = {a}, y = {b};
  float sum = 0.f;
#pragma unroll
  for (i32 i = 0; i < per_chunk; i++)
    sum = fmaf(float_of(x.part[i]), float_of(y.part[i]), sum);
  return sum;
}

//: make_LD -- LSE and D of the rows of a tile, eight lanes to a row$(lots and "; of D a part" or "")
__device__ __forceinline__ void make_LD(LD_row *to, const place &at, i32 i0$(lots and ", float part" or ""))
{
  constexpr float log2e = 1.44269504088896f;
  for (i32 r = thread_id() / 8; r < Br; r += $(LD_threads) / 8) {
    const bool real = r < at.nq - i0;
    const i64 i = i64(i0) + r;
    float D = 0.f;
    for (i32 x = thread_id() % 8; real && x < Dv / per_chunk; x += 8)
      D += dot_of(get_chunk(at.dO + i * at.dOn + x * per_chunk), get_chunk(at.O + i * at.On + x * per_chunk));
#pragma unroll
    for (i32 lanes = 1; lanes < 8; lanes *= 2)
      D += shfl_xor(D, lanes);
% if has.dlse then
    if (real)
      D -= at.dLSE[i]; // what LSE's own gradient adds to dS
% end
% if LD_apart then
    if (thread_id() % 8 == 0) {
      float *const all = (float *)to + LD_tile::place(r);
      all[0] = real ? log2e * at.LSE[i] : -minus_inf();
      all[Br] = $(lots and "part * D" or "D");
    }
% else
    if (thread_id() % 8 == 0)
      to[r] = {real ? log2e * at.LSE[i] : -minus_inf(), D};
% end
  }
}

//: exp2_minus_LSE -- S becomes P = 2^(c S - log2(e) LSE)
template <class Acc> __device__ __forceinline__ void exp2_minus_LSE(Acc &S, LD_tile LD, float c)
{
#pragma unroll
% if LD_apart then
  for (i32 x = 0; x < Acc::C; x += 4) {
    const quad L = LD.LSE(x);
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
      for (i32 y = 0; y < 4; y++)
        S.at[r][x + y] = ex2(fmaf(c, S.at[r][x + y], -__uint_as_float(L.at[y])));
  }
% else
  for (i32 x = 0; x < Acc::C; x += 2) {
    const quad at = LD.rows(Acc::column(x));
    const float L[2] = {__uint_as_float(at.at[0]), __uint_as_float(at.at[2])};
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
      for (i32 y = 0; y < 2; y++)
        S.at[r][x + y] = ex2(fmaf(c, S.at[r][x + y], -L[y]));
  }
% end
}

//: times_dP_minus_D -- P becomes dS = P (dP - D)
template <class Acc> __device__ __forceinline__ void times_dP_minus_D(Acc &P, const Acc &dP, LD_tile LD$(has.drop and ", float more" or ""))
{
#pragma unroll
  for (i32 x = 0; x < Acc::C; x += 2) {
    const quad at = LD.rows(Acc::column(x));
    const float D[2] = {__uint_as_float(at.at[1]), __uint_as_float(at.at[3])};
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
      for (i32 y = 0; y < 2; y++)
        $(has.drop and "P.at[r][x + y] = difference(P.at[r][x + y], dP.at[r][x + y], D[y], more)" or "P.at[r][x + y] *= dP.at[r][x + y] - D[y]");
  }
}

//: times_slope -- P times the derivative of scores
template <class Acc>
__device__ __forceinline__ void times_slope(Acc &P, LD_tile LD, const call &a, const place &at, i32 i0, i32 j0)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const steepness<true, Acc> slope(a, at, i0, j0, r);
#pragma unroll
% if LD_apart then
    for (i32 x = 0; x < Acc::C; x++)
      P.at[r][x] *= slope.of(P.at[r][x], __uint_as_float(LD.LSE(x / 4 * 4).at[x % 4]), x);
% else
    for (i32 x = 0; x < Acc::C; x += 2) {
      const quad rows = LD.rows(Acc::column(x));
      P.at[r][x] *= slope.of(P.at[r][x], __uint_as_float(rows.at[0]), x);
      P.at[r][x + 1] *= slope.of(P.at[r][x + 1], __uint_as_float(rows.at[2]), x + 1);
    }
% end
  }
}

//: LD_rows -- LSE and D of the rows that a thread has of an accumulator
template <class Acc> struct LD_rows {
  LD_row at[Acc::R];
  __device__ __forceinline__ LD_rows(const LD_row *all, const call &a, const task &my)
  {
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      at[r] = all[($(in_line and "i64(first_number(a, my.head))" or "i64(my.head) * ceil_div(a.q, Br)") + my.i0 / Br) * Br + Acc::row(r)];
  }
};
// The two verbs above where S is not transposed, and S has rows of the same.
template <class Acc, class Of> __device__ __forceinline__ void exp2_minus_LSE(Acc &S, const LD_rows<Of> &LD, float c)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 x = 0; x < Acc::C; x++)
      S.at[r][x] = ex2(fmaf(c, S.at[r][x], -LD.at[r].x));
}
template <class Acc, class Of>
__device__ __forceinline__ void times_dP_minus_D(Acc &P, const Acc &dP, const LD_rows<Of> &LD$(has.drop and ", float more" or ""))
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 x = 0; x < Acc::C; x++)
      $(has.drop and "P.at[r][x] = difference(P.at[r][x], dP.at[r][x], LD.at[r].y, more)" or "P.at[r][x] *= dP.at[r][x] - LD.at[r].y");
}

//: times_slope_in_rows -- the same where S is not transposed
template <class Acc, class Of>
__device__ __forceinline__ void times_slope_in_rows(Acc &P, const LD_rows<Of> &LD, const call &a, const place &at, i32 i0, i32 j0)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const steepness<false, Acc> slope(a, at, i0, j0, r);
#pragma unroll
    for (i32 x = 0; x < Acc::C; x++)
      P.at[r][x] *= slope.of(P.at[r][x], LD.at[r].x, x);
  }
}

//: dsink_by_LD -- dsink = -sum of exp(sink - LSE) D of a head
__device__ __forceinline__ void dsink_by_LD(const call &a, const LD_row *LD_all, i32 h)
{
  constexpr float log2e = 1.44269504088896f;
% if not in_line then
  const i64 rows_of_head = i64(ceil_div(a.q, Br)) * Br;
% end
  const float sink = log2e * a.sink.data[h * a.sink.h];
  float sum = 0.f;
  for (i32 b = 0; b < a.b; b++) {
    const i64 first = $(in_line and "i64(first_number(a, b * a.h + h)) * Br" or "(i64(b) * a.h + h) * rows_of_head");
    const i32 rows = $(in_line and "sequence_of(a, b * a.h + h).nq" or "a.q");
    for (i64 i = thread_id(); i < rows; i += T) {
% if LD_apart then
      const float *const all = (const float *)(LD_all + first + i / Br * Br) + LD_tile::place(i32(i % Br));
      const LD_row of = {all[0], all[Br]};
% else
      const LD_row of = LD_all[first + i];
% end
      sum -= ex2(sink - of.x) * of.y$(lots and " * boost(a)" or "");
    }
  }
  sum = block_total(sum);
  if (thread_id() == 0)
    a.dsink.data[h * a.dsink.h] = sum;
}
