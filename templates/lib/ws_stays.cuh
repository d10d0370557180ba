// ws_stays.cuh -- bwd_ws.cu's blocks that stay: which tiles of keys they do, and how K and V come and go. The tiles of Q that come by
// are one stream, whichever keys they are for: the first step of a tile of keys makes the last dQ of the tile before and stores its
// dK, so that products never run out between tiles. K and V of a tile come meanwhile.

//: keys_place_of -- of K and V of the n-th tile of keys of a block
typedef step_of<keys_tiles> keys_place_of;

//: await_keys -- K and V are here$(stays and "; for K has waited who asked which they are" or "")
__device__ __forceinline__ void await_keys(const row_steps &from)
{
% if stays then
  const keys_place_of at(from.round);
  wait(V_full + at.slot, at.parity);
% else
  if (from.steps > 0) {
    wait(K_full, 0);
    wait(V_full, 0);
  }
% end
}

//: give_keys -- dK and dV, which a warp laid in their place, have been read: it is free, where others are to come
__device__ __forceinline__ void give_keys(const row_steps &from)
{
  end_stores();
}

//: own_tasks -- the tiles of keys that a block does which stays, one after another, as the thread that copies them tells
struct own_tasks {
  const call &a;
  key_task my;
  row_steps from;
  __device__ __forceinline__ own_tasks(const call &a_, i32 signal) : a(a_), my{0, 0}, from(a_) { go_on(signal); }
  __device__ __forceinline__ bool is_one() const { return from.steps > 0; }
  __device__ __forceinline__ bool is_first(i32 n) const { return n == from.before && n > 0; }
  __device__ __forceinline__ bool is_last(i32 n) const { return n == from.before + from.steps - 1; }
  // When K is there, who computes; else when it is said. Of a whole warp compilers are shown that numbers are one for all.
  __device__ __forceinline__ void go_on(i32 signal)
  {
    const i32 round = from.round + 1;
    const keys_place_of at(round);
    wait(signal + at.slot, at.parity);
    const bool as_warp = $(ragged and "true" or "signal == K_full");
    const quad x = get16(told_place(round)), y = get16(told_place(round) + 16);
    const auto said = [&](u32 number) { return as_warp ? shfl_first(i32(number)) : i32(number); };
    my = {said(x.at[0]), said(x.at[1])};
% if listed then
    const i32 steps = said(x.at[2]);
    const spans visit = told_list(said(x.at[3]), steps, said(y.at[0]), u32(said(y.at[1])), u32(said(y.at[2])));
    from = row_steps(a, my.head, steps, visit, from.before + from.steps, round);
% else
    from = row_steps(a, my.head, said(x.at[2]), {said(x.at[3]), said(y.at[0]), said(y.at[1]), said(y.at[2])}, from.before + from.steps, round$(in_line and ", said(y.at[3])" or "")$(begins_apart and ", my.j0" or ""));
% end
  }
};

//: made_tasks -- how they come about: $(owns and "all tiles of keys of a head, one after the other, then those of another" or "as they are drawn, the longest first")
struct made_tasks {
  const call &a;
$(listed and "  const i32 *lists;\n" or "")$(draws and "  i32 number; // among the tiles of all heads\n" or "")  key_task my;
  row_steps from;
  __device__ __forceinline__ explicit made_tasks(const call &a_$(listed and ", const i32 *lists_" or "")) : a(a_), $(listed and "lists(lists_), " or "")$(draws and "number(-1), my{0, 0}" or "my{i32(block_id()) * (a_.h / a_.hk), -Bc}"), from(a_) {}
  // Of the next: those that no row sees are not said.
  __device__ __forceinline__ i32 next_round() const { return from.round + (from.round < 0 || from.steps > 0); }
% if owns then
  __device__ __forceinline__ bool is_one() const { return my.head < a.b * a.h; }
  __device__ __forceinline__ void go_on()
  {
    my.j0 += Bc;
    if (my.j0 >= a.k)
      my = {my.head + grid_size() * (a.h / a.hk), 0};
    from = row_steps(a, my, from.before + from.steps, next_round());
  }
% else
  __device__ __forceinline__ i32 all() const { return $(key_heads) * $(in_line and "key_line(a).all" or "ceil_div(a.k, Bc)"); }
  __device__ __forceinline__ bool is_one() const { return number < all(); }
%  if not draws_late then
  __device__ __forceinline__ bool are_few_left() const { return number + 2 * grid_size() >= all(); } // two rounds of the grid draw the rest
%  end
  __device__ __forceinline__ void go_on(i32 next)
  {
    number = next;
    if (is_one())
      my = key_task_of(a, number);
    from = row_steps(a, my$(and_lists), from.before + from.steps, next_round());
  }
% end
};

//: bring_all_keys -- one $(ragged and "warp" or "thread") says what is next, when a place is free, and copies K and V
% if draws then
// Not before is it drawn, nor$(draws_late and "" or ", where few are left,") before all of the last one's tiles of Q are on their way: $(draws_late and "" or "at the end ")others would
// wait for what a block holds ahead$(draws_late and ", whose turn is before theirs" or ", and of few tiles some blocks would have two, others none").
% end
__device__ __forceinline__ void bring_all_keys(const call &a$(take_lists), const tensor_map &K_map, const tensor_map &V_map$(draws and ", i32 *counts" or ""))
{
% if draws then
  await_last();                                         // nothing is drawn
% end
  made_tasks own(a$(and_lists));
% if ragged then
  i32 tails = 0;
% end
  bool more;
  do {
    const i32 round = own.next_round();
    const keys_place_of keys(round);
    wait(keys_free + keys.slot, keys.parity ^ 1);
% if draws then
    if (round > 0$(draws_late and "" or " && own.are_few_left()")) see_full(wanted, step_of<1>(round - 1).parity);
% end
% if ragged then
    i32 next = 0;
    if (thread_id() % 32 == 0)
      next = atomic_add(counts, 1);
    own.go_on(shfl_first(next));
% else
    own.go_on($(draws and "atomic_add(counts, 1)" or ""));
% end
    more = own.is_one();
% if ragged then
    if (more && own.from.steps == 0) {
      clear_keys(a, own.my);
      continue;
    }
% elseif listed then
    if (more && own.from.steps == 0)
      continue;                                         // who made its list has cleared dK and dV
% end
    if (!more)
      own.from.steps = 0;
    const sequence at = sequence_of(a, own.my.head);
    $(ragged and "if (thread_id() % 32 == 0) " or ""){
      tell_keys(own.my, own.from, at);
      barrier_arrive(barrier_at(told_full + keys.slot));
      if (!more)
        barrier_arrive(barrier_at(K_full + keys.slot));
    }
    if (more) {
      $(copy_keys)<$(copied_K)>(K_of(0, own.from.round), K_map, own.my.j0, at, K_full + keys.slot$(and_tails));
      $(copy_keys)<V_boxes>(V_of(0, own.from.round), V_map, own.my.j0, at, V_full + keys.slot$(and_tails));
    }
  } while (more);
}

//: produce_all -- what the warpgroup that copies does, where blocks stay
__device__ __forceinline__ void produce_all(const call &a$(take_lists), const LD_row *LD_all, const tensor_map &Q_map, const tensor_map &K_map,
                                            const tensor_map &V_map, const tensor_map &dO_map$(draws and ", i32 *counts" or ""))
{
  if ($(ragged and "warp_of() == 2" or "thread_id() == 64"))
    bring_all_keys(a$(and_lists), K_map, V_map$(draws and ", counts" or ""));
% if ragged then
  i32 tails = 0;
% end
  if ($(ragged and "warp_of() == 0" or "thread_id() == 0"))
    for (own_tasks own(a, told_full); own.is_one(); own.go_on(told_full)) {
      bring_queries(a, LD_all, own.my, own.from, Q_map$(and_tails));
% if draws then
      $(ragged and "if (thread_id() == 0) " or "")barrier_arrive(barrier_at(wanted));
% end
    }
  if ($(ragged and "warp_of() == 1" or "thread_id() == 32"))
    for (own_tasks own(a, told_full); own.is_one(); own.go_on(told_full))
      bring_gradients(a, own.my, own.from, dO_map$(and_tails));
}

//: store_dV -- of a tile of keys whose last step this is, beside the products for dQ and dK. It lies where V lay, of which
// each warpgroup reads its own rows alone
__device__ __forceinline__ void store_dV(acc<Bc, Dv> &dV, const call &a, const own_tasks &own, i32 me, const tensor_map &dV_map)
{
  const sequence at = told_sequence(own.from.round);
  const i32 j0 = own.my.j0 + 64 * me;
  store_scaled(V_of(me, own.from.round), dV, $(has.drop and "boost(a)" or "1.f"), dV_map, at, j0$(told_rows("dV", "own.my.head")));
  dV = {};
}

//: store_dK -- of the tile of keys before, beside the product for dP. It lies there, too: others may still read K
__device__ __forceinline__ void store_dK(acc<Bc, D> &dK, const call &a, i32 round, i32 me, const tensor_map &dK_map)
{
  end_stores();
  warp_sync();
  const key_task my = told_task(round);
  const sequence at = told_sequence(round);
  const i32 j0 = my.j0 + 64 * me;
  store_scaled(V_of(me, round), dK, $(scale), dK_map, at, j0$(told_rows("dK", "my.head")));
  dK = {};
}

//: leave_keys -- this warp has read K and V of a tile of keys, and its dK and dV have been read
__device__ __forceinline__ void leave_keys(i32 round)
{
  end_stores();
  release(keys_free + keys_place_of(round).slot);
}

//: consume_all -- what a warpgroup that computes does, where blocks stay
__device__ __forceinline__ void consume_all(const call &a, float *dQ_all, const tensor_map &dK_map, const tensor_map &dV_map)
{
  const i32 me = own_group();
  acc<Bc, D> dK = {}; acc<Bc, Dv> dV = {};
  own_tasks own(a, K_full);
  share_of_dQ share(me, dQ_all, own);
% if settles_by_keys then
  settle_unseen(share, own.from);
% end
  i32 n = 0, last_tile = -1;
  bool dO_here = false;
  await_last();                                         // dQ is 0
  lay_dS(0, me, rounded<Br>{});                         // of no step: what dQ = dS K reads in the first
  show_dS(0);$(lots and " rounded<Br> dS;" or "")
  while (own.is_one()) {
    await_keys(own.from);
    const K_rows K(K_of(me, own.from.round));
    const V_rows V(V_of(me, own.from.round));
    row_step of(own.from);
    if (n == 0)
      await_start(me, 0);                               // the warpgroup before has its first P
    for (; n < own.from.before + own.from.steps; n++) {
      sliced_step(dK, dV, dO_here, a, own, of, K, V, share, me, n, last_tile, dK_map, dV_map$(lots and ", dS" or ""));
      last_tile = of.number();
      of.go_on();
    }
    own.go_on(K_full);
  }
  if (n == 0)
    return;                                             // others have drawn all
  last_dQ(share, n, last_tile);                         // dK is there, too
  store_dK(dK, a, own.from.round - 1, me, dK_map);
  end_stores();
}
