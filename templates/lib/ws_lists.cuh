// ws_lists.cuh -- the two halves of fwd_ws.cu where tiles are listed (blocks.cuh). The thread that copies asks ahead what comes next: which
// tile of Q is drawn, where its list is and what stands first in it are three latencies, one after another; asked for when the
// tile of Q before has just begun, they cost nothing. Else all warpgroups wait for the same first tile of K, and then go in
// step, tensor cores idle during their softmax. A list has the tiles that any row of the tile of Q sees; a warpgroup whose own 64 rows see
// nothing of one passes it by, so that tiles of Q need not fit into blocks: it may be as far ahead of the others as the ring has places.

//: tile_ahead -- a tile of Q that comes: where it is, its list, and the first two entries of that
struct tile_ahead {
  bool is_none; // behind the last
  task my;
  sequence at;
  spans visit;
  i32 first, second;
};

//: draw_ahead
__device__ __forceinline__ tile_ahead draw_ahead(const call &a, const i32 *lists, i32 round)
{
  const i32 block = drawn_block(const_cast<i32 *>(lists), round, blocks_of(a));
  const bool is_none = block >= blocks_of(a);
  const task my = task_of(a, is_none ? 0 : block);
  const sequence at = sequence_of(a, my.head);
  const spans visit = is_none ? spans{} : listed_range(a, at, my.i0, lists);
  return {is_none, my, at, visit, listed_tile(visit, 0), listed_tile(visit, 1)};
}

//: entry_place -- where the entry of the n-th tile of K lies
__device__ __forceinline__ u32 entry_place(i32 n)
{
  return shared_address(shared_memory()) + at_entries + 4 * step_of<stages>(n).slot;
}

//: copy_listed_K -- `copy_K` of an entry, which is told with it
__device__ __forceinline__ void copy_listed_K(const tensor_map &K_map, i32 n, i32 entry, const sequence &at)
{
  const step_of<stages> K(n);
  wait(K_free + K.slot, K.parity ^ 1);
  if ($(by_warp and "thread_id() == 0" or "true"))
    put4(entry_place(n), entry);
  copy_K(K_map, n, key_of(entry), at);
}

//: produce_listed -- `produce` of fwd_ws.cu
__device__ __forceinline__ void produce_listed(const call &a, const i32 *lists, const tensor_map &Q_map, const tensor_map &K_map,
                                               const tensor_map &V_map)
{
  i32 n = 0;                                            // tiles of K and V
% if ragged then
  i32 tails = 0;                                        // those in which a batch ends
% end
  tile_ahead next = draw_ahead(a, lists, 0);
  for (i32 round = 0;; round++) {                       // tiles of Q
    const tile_ahead now = next;
    const i32 tiles = now.visit.last;
    i32 entry = now.first, next_entry = now.second;
    for (i32 x = 0; x < consumers; x++) {
      copy_Q(Q_map, round, x, {now.is_none ? -1 : now.my.head, now.my.i0}, now.at, now.visit);
      if (x == 0 && tiles > 0)
        copy_listed_K(K_map, n, entry, now.at);         // while the other warpgroups finish
    }
    if (now.is_none)
      return;
    for (i32 x = 0; x == 0 || x < tiles; x++) {
      if (x + 1 < tiles)
        copy_listed_K(K_map, n + 1, next_entry, now.at);
      if (x < tiles)
        copy_V(V_map, n++, key_of(entry), now.at$(ragged and ", tails" or ""));
      entry = next_entry;
      next_entry = listed_tile(now.visit, x + 2);
      if (x == 0)
        next = draw_ahead(a, lists, round + 1);
    }
  }
}

//: told_tiles -- how many tiles the list of the tile of Q in a place has
__device__ __forceinline__ i32 told_tiles(i32 x)
{
  return shfl_first(thread_id() % 32 == 0 ? i32(get4(task_place(x) + 8)) : 0);
}

//: told_whole -- how many of them, the first, all of its rows see all of
__device__ __forceinline__ i32 told_whole(i32 x)
{
  return shfl_first(thread_id() % 32 == 0 ? i32(get4(task_place(x) + 12)) : 0);
}

//: told_entry -- that of the n-th tile of K, when it is here
__device__ __forceinline__ i32 told_entry(i32 n)
{
  const step_of<stages> K(n);
  wait(K_full + K.slot, K.parity);
  return shfl_first(thread_id() % 32 == 0 ? i32(get4(entry_place(n))) : 0);
}

//: resume_step -- S and P of a tile where no O = O + P V is to come: the first that a warpgroup's rows see, or one behind those that it passed by
__device__ __forceinline__ void resume_step(online &x, const query &Q, const tile_at &t, float c, i32 n)
{
  const step_of<stages> K(n);
  start_ABt(x.S, Q, K_place(K.slot));                   // S = Q K^T
  products_wait<0>();
  release(K_free + K.slot);
  const growth by = softmax_of(x, t, c);
  shrink(x.O, by);                                      // O = exp(m_old - m) O
% if seeks_late and cut.left then
  x.growths = any_lane(unset(x.m)) ? 2 : 0;
% end
  set_weights(x.P, x.S$(has.drop and ", t" or ""));
}

//: consume_listed
__device__ __forceinline__ void consume_listed(const call &a, const tensor_map &O_map)
{
  const float c = $(c_of_call);
  const i32 me = own_group();
  i32 n = 0;
  for (i32 round = 0;; round++) {
    const step_of<Q_stages> slot(round);
    const i32 own = slot.slot * consumers + me;         // the place of this warpgroup's rows
    wait(Q_full + own, slot.parity);
    const task my = get_task(own);
    if (my.head < 0)
      return;
    const i32 i0 = my.i0, begin = shfl_first(n), end = begin + told_tiles(own);
    const $(rows_type) at = $(rows_type)_of(a, my.head$(rows_from));
    online x(me);
    await_start(me, round);
    if (begin < end) {
      const query Q(Q_place(own));
      const i32 whole = begin + told_whole(own);
      i32 last = -1;                                    // the tile whose O = O + P V is to come
      n = begin;
% local function step(before, key, is_cut)
          start_$(schedule)(x, Q, $(before), n, me);
          softmax_$(seeks_late and "late" or schedule)(x, {a, at, i0, $(key), $(is_cut)}, c, $(before), n, me, own);
% end
      if (n < whole) {                                  // tiles of which all rows see all
        resume_step(x, Q, {a, at, i0, key_of(told_entry(n)), false}, c, n);
        give_start(me, round);
        for (n++; n < whole; n++) {
% step("n - 1", (scored or has.drop) and "key_of(told_entry(n))" or "0", "false")
        }
        last = n - 1;
      }
      while (n < end) {                                 // others
        const i32 entry = told_entry(n);
        const bool is_seen = is_seen_by(entry, me), is_cut = is_cut_for(entry, me);
        if (!is_seen) {
          if (last >= 0 && n - last >= stages) {        // none behind this one comes before that V is read
            last_step(x, last);
            last = -1;
          }
          pass_by(n);
        } else {
          if (last < 0)
            resume_step(x, Q, {a, at, i0, key_of(entry), is_cut}, c, n);
          else if (!is_cut) {                           // with one call for both, ptxas spills
% step("last", "key_of(entry)", "false")
          } else {
% step("last", "key_of(entry)", "true")
          }
          last = n;
        }
        if (n == begin)
          give_start(me, round);
        n = shfl_first(n + 1);
      }
      if (last >= 0)
        last_step(x, last);
      x.l = row_total(x.l);$(rows_later and " place_rows(x.m, at);" or "")
      scale_rows(x.O, finish(x.m, x.l, c$(ends_of "rows(a, my.head), i0")).factor); // O = diag(l)^-1 O
% if ragged then
      if (at.nq - i0 < Br)                              // what lies behind is another's, or nobody's
        store_rows(x.O, rows(a, my.head), i0);
      else
% end
      store_from(Q_place(own), x.O, O_map, at, i0 + 64 * me);
    } else {                                            // no key is seen
      give_start(me, round);
      const place rows_at = rows(a, my.head);
      store_zeros<sums<Br, Dv>>(rows_at.O, rows_at.On, i0, at.nq);
    }
    release(Q_free + own);
    const place rows_at = rows(a, my.head);
    if (rows_at.LSE)
      store_rowvec(finish(x.m, x.l, c$(ends_of "rows_at, i0")).LSE, rows_at.LSE, i0, at.nq);
  }
}
