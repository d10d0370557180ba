// masks.cuh -- scores that are masked: what the hooks `keep` and `keep_from` say, on a whole tile.

//: mask -- S = -inf where `keep` says no; by select, so that a NaN there is gone too
template <class Acc> __device__ __forceinline__ void mask(Acc &S, const call &a, const sequence &at, i32 i0, i32 j0)
{
% if has.bs then
  mask_blocks<false>(S, a, at, i0, j0);
% end
% if has.iv then
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const interval seen = sees(a, at, i0 + Acc::row(r));
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++) {
      const u32 j = u32(j0) + Acc::column(c);
      S.at[r][c] = keep(seen, j) && keep_from(seen, j) ? S.at[r][c] : minus_inf();
    }
  }
}
% else
% if cut.left then
  // A warp asks of its rows which ends of a window lie in this tile: nearly always one of them at most.
  const i32 first = i0 + first_row<Acc::rows>();
  if (j0 < sees(a, at, first + rows_of_warp<Acc::rows> - 1).lo) {
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++) {
      const interval seen = sees(a, at, i0 + Acc::row(r));
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
        S.at[r][c] = keep_from(seen, u32(j0) + Acc::column(c)) ? S.at[r][c] : minus_inf();
    }
  }
  if (u32(j0) + u32(Acc::columns) <= u32(sees(a, at, first).hi))
    return;
% end
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const interval seen = sees(a, at, i0 + Acc::row(r));
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] = keep(seen, u32(j0) + Acc::column(c)) ? S.at[r][c] : minus_inf();
  }
}
% end

//: mask_rows -- the same of S^T, a row for each key: by the rows that see it
template <class Acc> __device__ __forceinline__ void mask_rows(Acc &S, const call &a, const sequence &at, i32 i0, i32 j0)
{
% if has.bs then
  mask_blocks<true>(S, a, at, i0, j0);
% end
% if has.iv then
#pragma unroll
  for (i32 c = 0; c < Acc::C; c++) {
    const bool is_row = Acc::column(c) < at.nq - i0;
    const interval seen = sees(a, at, i0 + Acc::column(c));
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++) {
      const u32 j = u32(j0) + Acc::row(r);
      S.at[r][c] = is_row && keep(seen, j) && keep_from(seen, j) ? S.at[r][c] : minus_inf();
    }
  }
% else
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const interval by = seen_by(a, at, j0 + Acc::row(r));
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] = keep(by, u32(i0) + Acc::column(c)) && keep_from(by, u32(i0) + Acc::column(c)) ? S.at[r][c] : minus_inf();
  }
% end
}
