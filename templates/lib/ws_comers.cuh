// ws_comers.cuh -- dQ of bwd_ws.cu where blocks add to a tile of Q in any order, and no launches clear and round its sums: whoever comes first
// lays its part down, whoever comes last has the whole.

//: comers_place -- where it is said of the n-th step whether others came before its block (1) and come behind it (2), how many rows its tile
// has, how far behind the first of dQ these lie, and which tile it is, where others wait for it
__device__ __forceinline__ u32 comers_place(i32 n)
{
  return shared_address(shared_memory()) + at_comers + 32 * step_of<2>(n).slot;
}

//: comers -- who comes to the tiles of Q of a block's steps
// Of each a number in device memory counts those that have come, and in its upper half those that have laid down or added their part
struct comers {
  static constexpr u32 one_done = 1 << 16;
  i32 *const counts;
  i32 n, told; // steps let; steps of which it has been counted that they are done
  __device__ __forceinline__ explicit comers(i32 *counts_) : counts(counts_ + 4), n(0), told(0) {}
  __device__ __forceinline__ void say_done(i32 until)
  {
    for (; told < until; told++) {
      const step_of<2> at(told);
      wait(added + at.slot, at.parity);
      const i32 tile = i32(get4(comers_place(told) + 16));
      if (tile >= 0)
        count_up(counts + tile, one_done);
    }
  }
  // A block comes to a tile only when the step before is let: from then on it waits for no other block until its part is there, so no two wait for
  // each other. If it must wait, it first has all its own steps counted. To count takes as long as all sums of the SM are on their way, so it is done
  // two steps late. Nor does a block ask before that: the earlier it asks, the more often it has to await what others have not laid down or added yet.
  __device__ __forceinline__ void come(const call &a, const row_steps &from)
  {
    row_step of(from);
    for (const i32 end = n + from.steps; n < end; n++) {
      const place at = rows(a, of.head);
      const i32 i0 = of.tile * Br, tile = of.number();
      const spans seen = range(a, at, i0);
      const i32 others = seen.last - seen.first - 1;
      say_done(n - 1);
      const u32 found = u32(come_to(counts + tile, 1));
      const i32 before = i32(found % one_done), must = before < others ? min(before, 1) : others;
      if (i32(found / one_done) < must) {
        say_done(n);
        await_reached(counts + tile, must * i32(one_done));
      }
      const u64 to = u64(at.dQ - (elem *)a.dQ.data + i64(i0) * at.dQn);
      put16(comers_place(n), {{u32(before > 0) + 2 * u32(before < others), u32(at.nq - i0), u32(to), u32(to >> 32)}});
      put4(comers_place(n) + 16, before < others ? u32(tile) : u32(-1));
      barrier_arrive(barrier_at(turn + step_of<2>(n).slot));
      of.go_on();
    }
  }
};

//: keep_comers -- a thread that nothing else needs
__device__ __forceinline__ void keep_comers(const call &a, i32 *counts$(stays and "" or ", const row_steps &from"))
{
  if (warp_of() != $(stays and "3" or "2") || thread_id() % 32 != 0)
    return;
  comers all(counts);
  await_last();                                         // counts are 0
% if stays then
  for (own_tasks own(a, told_full); own.is_one(); own.go_on(told_full))
    all.come(a, own.from);
% else
  all.come(a, from);
% end
  all.say_done(all.n);
}

//: settle_as_it_comes -- the dQ of the n-th step: laid down, added, or with all before it the whole
__device__ __forceinline__ void settle_as_it_comes(const share_of_dQ &my, i32 n, i32 number, dQ_part &dQ)
{
  const step_of<2> at(n);
  wait(turn + at.slot, at.parity);
  const quad said = get16(comers_place(n));
  const bool others_came = said.at[0] & 1, others_come = said.at[0] & 2;
  if (others_come)
    give_part(my, number, dQ, others_came);
  else {
    if (others_came)
      take_sums(my.sums(number), dQ$(partial and ", my.some()" or ""));
    store_whole(my, dQ, (elem *)my.a.dQ.data + i64(u64(said.at[3]) << 32 | said.at[2]), 0, i32(said.at[1]));
  }
  warp_sync();
  release(added + at.slot);
}

//: clear_unseen -- dQ = 0 of a tile of Q that sees no key, to which nobody comes
__device__ __forceinline__ void clear_unseen(const call &a, const place &at, i32 i0)
{
  const spans seen = range(a, at, i0);
  for (i32 x = thread_id(); seen.first >= seen.last && x < Br * D / 2; x += prepare_threads) {
    const i32 r = x / (D / 2);
    if (r < at.nq - i0)
      *(u32 *)(at.dQ + (i64(i0) + r) * at.dQn + x % (D / 2) * 2) = 0;
  }
}
