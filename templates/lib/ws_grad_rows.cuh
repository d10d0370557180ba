// ws_grad_rows.cuh -- which tiles of Q a block of the backward for warpgroups goes over, in which order: those that see its tile of keys, a step each.

//: opening_of -- the tile of Q at which a tile of keys begins, where any block may be the first to lay down its part: the blocks of a head begin together,
// and if all began at one tile, they would wait for the first of them
__device__ __forceinline__ i32 opening_of(const spans &visit, i32 j0)
{
  return j0 / Br < visit.last ? j0 / Br : visit.first;
}

//: row_steps -- the tiles of Q that see a tile of keys, head after head of those that share it: one step each
% local all_tiles, of_stays = in_line and "row_line(a).all" or "ceil_div(a.q, Br)", goes_on and ", i32 before_, i32 round_" or ""
struct row_steps {
  spans visit; // of a head
  i32 head, steps, tiles; // the first head; steps of all heads; tiles of a head
% if steps_parted then
  i32 first, blocks; // the first head's first tile; the blocks that have the steps
% end
% if in_line then
  i32 number; // of its first tile
% end
% if begins_apart then
  i32 opening; // the tile of each head that comes first
% end
% if batch_kept then
  i32 batch; // theirs, which is not divided for again in each step
% end
% if goes_on then
  i32 before, round; // steps, and tiles of keys, that the block has done before
% else
  static constexpr i32 before = 0, round = 0;
% end
  static __device__ __forceinline__ i32 dS(i32 n) { return n; }
% if listed then
  __device__ __forceinline__ row_steps(const call &a, const key_task &my, const i32 *lists$(of_stays))
      : visit(listed_rows(a, sequence_of(a, my.head), my.j0, lists)), head(my.head), tiles(ceil_div(a.q, Br))$(stays and ", before(before_), round(round_)" or "")
  {
%  if stays then
    steps = visit.last;
%  else
    // One number for a warp, or its loops are taken for some of its threads' own and every address in them is made for each.
    visit.full = visit.whole = shfl_first(visit.whole);
    visit.last = steps = shfl_first(visit.last);
%  end
  }
% else
% local seen = "range_rows(a, sequence_of(a, my.head), my.j0)"
% if both_ways then
%   seen = "directed(" .. seen .. ", my.reversed)"
% end
% local numbered = in_line and not steps_parted and ", number(first_number(a, my.head))" or ""
% local opened, batched = begins_apart and ", opening(opening_of(visit, my.j0))" or "", batch_kept and ", batch(i32(anew(my.head / a.h)))" or ""
% local rest = numbered .. opened .. batched .. (goes_on and ", before(before_), round(round_)" or "")
  __device__ __forceinline__ row_steps(const call &a, const key_task &my$(of_stays))
      : visit($(seen)), head(my.head), steps((visit.last - visit.first) * (a.h / a.hk)),
        tiles($(all_tiles))$(rest)
  {
% if steps_parted then
    take_part(*this, my);
% end
% if steps_parted and in_line then
    number = first_number(a, head);
% end
  }
% end
% if goes_on then
  // None, before the first; those that another has made.
% local none = (in_line and ", number(0)" or "") .. (begins_apart and ", opening(0)" or "")
  __device__ __forceinline__ explicit row_steps(const call &a) : visit{}, head(0), steps(0), tiles(0)$(none), before(0), round(-1) {}
% local take, kept = in_line and ", i32 number_" or "", in_line and ", number(number_)" or ""
% if begins_apart then
%   take, kept = take .. ", i32 j0", kept .. ", opening(opening_of(visit, j0))"
% end
  __device__ __forceinline__ row_steps(const call &a, i32 head_, i32 steps_, const spans &visit_, i32 before_, i32 round_$(take))
      : visit(visit_), head(head_), steps(steps_), tiles($(all_tiles))$(kept), before(before_), round(round_)
  {
  }
% end
};

//: row_step -- one of them
struct row_step {
  const row_steps &from;
% if listed then
  i32 n, listed;
  __device__ __forceinline__ explicit row_step(const row_steps &from_) : from(from_), n(0), listed(listed_tile(from_.visit, 0)) {}
  __device__ __forceinline__ i32 number() const { return from.head * from.tiles + listed; }
  // How far behind the first head: nothing is divided where there is one.
  __device__ __forceinline__ i32 heads_before() const { return from.visit.room == from.tiles ? 0 : listed / from.tiles; }
  __device__ __forceinline__ rows_at at(const call &a) const
  {
    const i32 x = heads_before();
    return {$(scored and "rows" or "sequence_of")(a, from.head + x), (listed - x * from.tiles) * Br, is_cut(from.visit, n)};
  }
%  if copied == "copied_at" then
  // For who copies it: what it takes of a head is asked before the loop, not when a place is free.
  __device__ __forceinline__ rows_at copied_at(const call &a) const
  {
    const i32 x = heads_before();
    return {sequence_behind(a, from.head, x), (listed - x * from.tiles) * Br, false};
  }
%  end
  __device__ __forceinline__ void go_on() { listed = listed_tile(from.visit, ++n); }
% else
  i32 head, tile$(in_line and ", first" or "");$(in_line and " // the number of the head's first tile" or "")
% local first = backwards and "visit.last - 1" or steps_parted and "first" or begins_apart and "opening" or "visit.first"
  __device__ __forceinline__ explicit row_step(const row_steps &from_) : from(from_), head(from_.head), tile(from_.$(first))$(in_line and ", first(from_.number)" or "") {}
% if both_ways then
  __device__ __forceinline__ i32 row_tile() const { return $(this_tile); }
% end
  // Among the tiles of all heads and batches, each a block of `prepare`.
  __device__ __forceinline__ i32 number() const { return $(in_line and "first" or "head * from.tiles") + $(this_tile); }
  __device__ __forceinline__ rows_at at(const call &a) const
  {
% local of_rows = (scored and "rows" or "sequence_of") .. "(a, head)"
% if rows_told then
%   of_rows = "told_rows_of(from.round, head - from.head)"
% elseif batch_kept then
%   of_rows = "sequence{from.batch, head - from.batch * a.h, 0, a.q, a.k}"
% end
    return {$(of_rows), $(this_tile) * Br, is_cut(from.visit, $(this_tile))};
  }
  __device__ __forceinline__ void go_on()
  {
% if begins_apart then
    if (++tile == from.visit.last)
      tile = from.visit.first;
    if (tile == from.opening)
      head++;
% else
    if ($(backwards and "--tile < from.visit.first" or "++tile == from.visit.last")) {
      tile = from.visit.$(backwards and "last - 1" or "first");
      head++;
% if in_line then
      first += from.tiles;
% end
    }
% end
  }
% end
% if at_of == "cut_at" then
  // For who asks of a tile that a mask cuts alone: in each step lengths are not read, nor is an entry of a list divided, which took 260 of 4,500
  // clocks at d 64 and 180 of 4,060 at d 128 (H = 2, H200).
  __device__ __forceinline__ rows_at cut_at(const call &a) const
  {
    const bool cut = is_cut(from.visit, $(listed and "n" or this_tile));
    return cut ? at(a) : rows_at{{}, 0, false};
  }
% end
};

//: rows_at -- a tile of Q: its sequence, its first row, and whether a mask cuts it
struct rows_at {
  $(scored and "place" or "sequence") of;
  i32 i0;
  bool is_cut;
};
