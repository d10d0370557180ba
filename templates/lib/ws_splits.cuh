// ws_splits.cuh -- fwd_ws where the keys of a row are split among blocks (N): of few tiles of Q, as a part of a prompt has behind a long
// cache, each block takes some of the keys and leaves what split.cuh merges. Tiles of K and V count from the first of a split on.

//: split_task_of -- blocks that have splits of a tile of Q stand side by side
__device__ __forceinline__ task split_task_of(const call &a, i32 block, i32 splits)
{
  const task my = task_of(a, block / splits);
  return {my.head, my.i0, block % splits};
}

//: split_range -- of the tiles of K and V that a tile of Q visits those of its split
__device__ __forceinline__ spans split_range(const call &a, const sequence &at, const task &my, i32 splits)
{
  const spans own = split_of(range(a, at, my.i0), my.split, splits, a);
  return {0, 0, own.full - own.first, own.last - own.first, own.first};
}

//: within -- of the tiles that a warpgroup's rows visit those of the split
__device__ __forceinline__ spans within(const spans &own, const spans &all)
{
  const i32 last = min(max(own.last - all.base, 0), all.last);
  return {0, 0, min(max(own.full - all.base, 0), last), last, all.base};
}

//: consume_split -- as `consume`, but O_s and L_s go to the workspace
__device__ __forceinline__ void consume_split(const call &a, float *partial, i32 splits)
{
  const float c = $(c_of_call);
  const i32 me = own_group();
  i32 n = 0;
% if turns ~= "none" then
  first_turn(me);
% end
  for (i32 round = 0;; round++) {
    const step_of<Q_stages> slot(round);
    const i32 own = slot.slot * consumers + me;         // the place of this warpgroup's rows
    wait(Q_full + own, slot.parity);
    const task my = get_task(own);
    if (my.head < 0)
      return;
    const i32 i0 = my.i0;
    const $(ruled and "ruled" or "sequence") at = $(ruled and "ruled_of" or "sequence_of")(a, my.head);
    const spans all = split_range(a, at, my, splits), visit = within(range<64>(a, at, i0 + 64 * me), all);
    const i32 tiles = visit.last;
    online x(me);$(added_early and " x.known = known_of(a, pair_of<false, acc<Br, Bc>>(at, i0, 0, 0, 0));" or "")
    await_start(me, round);
    if (tiles > 0) {
      const query Q(Q_place(own));
% local function step(is_cut)
        const i32 j = nth_tile(all, y);
        start_$(schedule)(x, Q, n, me$(added_early and ", {a, at, i0, j * Bc, " .. is_cut .. "}, c" or ""));
        softmax_$(seeks_late and "late" or schedule)(x, {a, at, i0, j * Bc, $(is_cut)}, c, n, me, own);
% end
      const i32 first = nth_tile(all, 0);
      if (is_cut(visit, first))                         // with one call for both, ptxas spills
        first_step(x, Q, {a, at, i0, first * Bc, true}, c, n);
      else
        first_step(x, Q, {a, at, i0, first * Bc, false}, c, n);
      give_start(me, round);
      i32 y = 1;
      for (; y < all.full; y++, n++) {                  // tiles that no mask touches
% step "false"
      }
      for (; y < tiles; y++, n++) {                     // the diagonal, the ragged end
% step "is_cut(visit, j)"
      }
      last_step(x, n);
      n++;
      x.l = row_total(x.l);$(rows_later and " place_rows(x.m, at);" or "")
    } else                                              // no key of the split is seen: O_s = 0, L_s = -inf
      give_start(me, round);
    release(Q_free + own);
    store_partial(x.O, x.m, x.l, c, partials(a, partial, splits), my, at);
    pass_behind(me, n, all.last - tiles, tiles == 0);
  }
}
