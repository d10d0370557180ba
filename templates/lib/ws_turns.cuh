// ws_turns.cuh -- dQ of the backward for warpgroups summed in an order (`det`): whose turn it is to add to the sums of a tile of Q. Each
// tile has a count of the blocks that have added to it; a block asks for its turn a step ahead, and passes it on.

//: keep_turns -- by a thread that nothing else needs
% local what = loose and "The first block lays dQ of a tile down, the last one rounds it, and those between wait for the first alone"
% what = what or "With `det` blocks add to dQ of a tile one after another, so that its bits are always the same"
// $(what). The thread awaits that so many have added as must have, lets those that compute add, and counts up.
% if last_first then
// Blocks of later keys begin earlier, and each with the first tile that sees its keys: under a causal mask it is from the start as many tiles behind
// the one before as their keys are, and without one soon a step, so hardly one waits.$(both_ways and " Of the last heads it is the other way round." or "")
% else
// Blocks of earlier keys begin earlier and go through the tiles in the same order, the last first: these all see under a causal mask, too.
% end
// A step may be let before the one before has passed its turn on: passing takes as long as all sums of the SM are on their way
% if stays then
// Blocks that stay draw tiles of keys in this order, and do them in it: of all that are not done the first waits for none
% end
__device__ __forceinline__ void keep_turns(const call &a, i32 *counts$(stays and "" or ", const key_task &my, const row_steps &from"))
{
  const i32 which = warp_of() - $(stays and "3" or "2"); // one lane of each warp that copies nothing
  if (which < 0 || which >= sharers || thread_id() % 32 != 0)
    return;
  i32 *adding = counts, n = 0; // how many have added to the tile of the step before
  await_last();                                         // counts are 0
% if stays then
  for (own_tasks own(a, told_full); own.is_one(); own.go_on(told_full)) {
    const key_task &my = own.my;
    const row_steps &from = own.from;
    keep_turns_of(a, counts, my, from, which, n, adding);
  }
% else
  keep_turns_of(a, counts, my, from, which, n, adding);
% end
  if (n > 0)
    count_turn(which, n - 1, adding);
}

//: tiles_behind -- the tiles of keys behind a block's own that a tile of Q sees
__device__ __forceinline__ i32 tiles_behind(const call &a, const sequence &at, const key_task &my, i32 tile)
{
  return range(a, at, tile * Br).last - 1 - my.j0 / Bc;
}

//: tiles_ahead -- those ahead of it
__device__ __forceinline__ i32 tiles_ahead(const call &a, const sequence &at, const key_task &my, i32 tile)
{
  return my.j0 / Bc - range(a, at, tile * Br).first;
}

//: count_turn -- the warpgroup has added the dQ of the n-th step: the next block may
__device__ __forceinline__ void count_turn(i32 which, i32 n, i32 *count)
{
  const step_of<2> at(n);
  wait(added + at.slot * sharers + which, at.parity);
  $(loose and "if (count != nullptr) " or "")count_up(count);
}

//: keep_turns_of -- one tile of keys
__device__ __forceinline__ void keep_turns_of(const call &a, i32 *counts, const key_task &my, const row_steps &from, i32 which, i32 &n,
                                              i32 *&adding)
{
  row_step of(from);
% local behind = string.format("tiles_behind(a, at, my, of.%s)", both_ways and "row_tile()" or "tile")
% local earlier = both_ways and "my.reversed ? tiles_ahead(a, at, my, of.row_tile()) : " .. behind or behind
% local comes_last = last_first and "comes_last" or "of.tile < ended"
% if last_first then
  const sequence at = sequence_of(a, my.head);
% else
  const i32 ended = $(paired and "first_behind(a, my, from)" or "my.j0 + Bc < a.k ? range_rows(a, sequence_of(a, my.head), my.j0 + Bc).first : from.tiles"); // these see no later keys
% end
  for (; n < from.before + from.steps; n++) {
    i32 *const count = counts + 4 + of.number() * i64($(paired and "adders" or "sharers")) + which$(paired and " + own_rank() * sharers" or "");
% if loose and last_first then
    const i32 all = $(earlier);
    const bool comes_last = $(both_ways and "my.reversed ? " .. behind .. " == 0 : " or "")my.j0 < Bc;
%   earlier = "comes_last ? all : min(all, 1)"
% elseif loose then
%   earlier = comes_last .. " ? my.j0 / Bc : my.j0 >" .. (paired and "= Bc" or " 0")
% end
    const i32 earlier = $(earlier), let = turn + step_of<2>(n).slot * sharers + which;
    const bool is_let = $(loose and "has_reached" or "count_is")(count, earlier);
    if (is_let)
      barrier_arrive(barrier_at(let));
    if (n > 0)
      count_turn(which, n - 1, adding);
    if (!is_let) {
      $(loose and "await_reached" or "await_count")(count, earlier);
      barrier_arrive(barrier_at(let));
    }
    adding = $(loose and comes_last .. " ? nullptr : " or "")count;
    of.go_on();
  }
}

//: add_in_turn -- the dQ of the n-th step, which `which` of the warpgroups with the same keys has made
template <class Acc> __device__ __forceinline__ void add_in_turn(i32 which, i32 n, float *to, const Acc &dQ$(lays and ", bool is_first" or "")$(partial and ", i32 some" or ""))
{
  const step_of<2> at(n);
  wait(turn + at.slot * sharers + which, at.parity);
% if lays then
  if (is_first)
    lay_sums(to, dQ$(partial and ", some" or ""));
  else
% end
  $(partial and "add_some_to_sums(to, dQ, some)" or "add_to_sums(to, dQ)");
  warp_sync();
  release(added + at.slot * sharers + which);
}

//: sees_keys -- whether a row of a tile sees any key
__device__ __forceinline__ bool sees_keys(const call &a, const sequence &at, i32 i0)
{
  return range(a, at, i0).last > 0;
}

//: settle_in_turn -- the dQ of the n-th step: laid down, added, or with all before it the whole
$(paired and "template <class Share, class Acc> " or "")__device__ __forceinline__ void settle_in_turn(const $(paired and "Share" or "share_of_dQ") &my, i32 n, i32 number, $(paired and "Acc" or "dQ_part") &dQ)
{
  const step_of<2> at(n);
  wait(turn + at.slot * sharers$(paired and " + Share::which" or ""), at.parity);
  settle_dQ(my, number, dQ);
  warp_sync();
  release(added + at.slot * sharers$(paired and " + Share::which" or ""));
}

//: first_behind -- the first tile of Q that sees keys behind those of both blocks; all tiles of a head, where there are none
__device__ __forceinline__ i32 first_behind(const call &a, const key_task &my, const row_steps &from)
{
  const i32 next = my.j0 / Bc * Bc + Bc;
  return next < a.k ? range_rows(a, sequence_of(a, my.head), next).first : from.tiles;
}

//: begun_block -- in the order in which blocks begin, whatever that is: nobody waits for a block that has not begun
__device__ __forceinline__ i32 begun_block(i32 *counts)
{
  await_last();
  i32 *const place = (i32 *)(shared_memory() + at_LD);
  if (thread_id() == 0) {
    *place = atomic_add(counts, 1);
    copies_fence(); // a copy writes there next
  }
  block_sync();
  return *place;
}
