// ws_windows.cuh -- fwd_ws under a window, where a tile of Q visits a few tiles of keys, most of which a mask cuts: what its rows see is
// asked once, and tiles of keys end where the last row's keys end.

//: window_of -- `sequence_of`, where a tile of Q sees keys$(shifts and "; the first of its tiles of keys is number 0" or "")
% if shifts then
// A tile of 192 rows, or of rows of several heads, would else visit one tile more than its keys fill. No key lies before the first
% end
__device__ __forceinline__ sequence window_of(const call &a, i32 head, i32 i0)
{
  sequence my = sequence_of(a, head);
% if shifts then
  if (i0 < my.nq) {
    const i32 from = sees(a, my, i0).lo, to = sees(a, my, i0 + min(Br, my.nq - i0) - 1).hi;
    const i32 before = max(0, to - ceil_div(max(0, to - from), Bc) * Bc);
    my.k0 += before;
    my.nk -= before;
  }
% end
  return my;
}

//: windowed -- with what the rows of this thread see$(lo_by_hi and ": the upper ends, a window behind which lie the lower" or "")
struct windowed : sequence {
% if lo_by_hi then
  i32 hi[rows_of_thread<Br>];
  __device__ __forceinline__ interval of_row(const call &a, i32 r) const { return {max(0, hi[r] - 1 - a.L), hi[r]}; }
% else
  interval ends[rows_of_thread<Br>];
  __device__ __forceinline__ interval of_row(const call &, i32 r) const { return ends[r]; }
% end
};

//: windowed_by -- held, as the compiler would else make it again in each step
__device__ __forceinline__ windowed windowed_by(const call &a, const sequence &at, i32 i0)
{
  windowed my;
  (sequence &)my = at;
#pragma unroll
  for (i32 r = 0; r < rows_of_thread<Br>; r++) {
    const interval seen = sees(a, my, i0 + row_of<Br>(r));
% if lo_by_hi then
    my.hi[r] = i32(anew(seen.hi));
% else
    my.ends[r] = {i32(anew(seen.lo)), i32(anew(seen.hi))};
% end
  }
  return my;
}

//: windowed_of
__device__ __forceinline__ windowed windowed_of(const call &a, i32 head, i32 i0)
{
  return windowed_by(a, window_of(a, head, i0), i0);
}

//: column_behind -- how far a thread's c-th column lies behind its first
__device__ __forceinline__ constexpr i32 column_behind(i32 c)
{
  return c / 2 * 8 + c % 2;
}

//: mask_window -- `mask` by these: nearly always one of the ends lies in a tile at most
// Ends are counted from a thread's first column on, so that a column is a number in an instruction
template <class Acc> __device__ __forceinline__ void mask_window(Acc &S, const call &a, const windowed &at, i32 j0)
{
  const i32 first = Acc::column(0);
  if (any_lane(j0 < at.of_row(a, Acc::R - 1).lo)) {
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++) {
      const i32 from = at.of_row(a, r).lo - j0 - first;
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
        S.at[r][c] = column_behind(c) >= from ? S.at[r][c] : minus_inf();
    }
  }
  if (!any_lane(at.of_row(a, 0).hi - j0 < Acc::columns))
    return;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const i32 to = at.of_row(a, r).hi - j0 - first;
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] = column_behind(c) < to ? S.at[r][c] : minus_inf();
  }
}
