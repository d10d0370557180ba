// ahead.cuh -- the two halves of fwd_ws.cu where a tile of Q begins before the last one has ended: its first S = Q K^T is queued
// behind the last O = O + P V, and runs while that O is scaled and stored. A tile's record says whether another follows
// (its head is ~head where none does), for which tiles are drawn two rounds before they are worked on: the draw's way to memory
// and back delays nobody. All rows see a tile of keys here, if a masked one: their weights are 0, and so is their O.

//: seen_range -- the tiles that rows of a tile of Q visit, one at least
__device__ __forceinline__ spans seen_range(const call &a, const sequence &at, i32 i0)
{
  spans all = $(range_of)(a, at, i0);
  all.last = max(1, all.last);
  return all;
}

//: produce_ahead -- one thread: Q of each tile, and K and V of each step, K a step ahead
% local draw = uneven and "drawn_block(counter, %s, blocks_of(a))" or "nth_block(%s)"
__device__ __forceinline__ void produce_ahead(const call &a$(take_counter), const tensor_map &Q_map, const tensor_map &K_map, const tensor_map &V_map)
{
  i32 n = 0, block = $(string.format(draw, "0")), following = $(string.format(draw, "1"));
  for (i32 round = 0;; round++) {                       // tiles of Q
    const i32 drawn = following < blocks_of(a) ? $(string.format(draw, "round + 2")) : following;
    const bool last = following >= blocks_of(a);
    const task my = task_of(a, block);
    const sequence at = sequence_of(a, my.head);
    const spans visit = seen_range(a, at, my.i0);
    for (i32 x = 0; x < consumers; x++) {
      copy_Q(Q_map, round, x, {last ? ~my.head : my.head, my.i0}, at, visit);
      if (x == 0)
        copy_K(K_map, n, nth_tile(visit, 0) * Bc, at);  // while the other warpgroups finish
    }
    for (i32 x = 0; x < visit.last; x++, n++) {
      if (x + 1 < visit.last)
        copy_K(K_map, n + 1, nth_tile(visit, x + 1) * Bc, at);
      copy_V(V_map, n, nth_tile(visit, x) * Bc, at);
    }
    if (last)
      return;
    block = following;
    following = drawn;
  }
}

//: start_first -- the first S of a tile of Q: of place `own`, with the n-th tile of K
__device__ __forceinline__ void start_first(online &x, i32 own, u32 parity, i32 n)
{
  const step_of<stages> K(n);
  wait(Q_full + own, parity);
  wait(K_full + K.slot, K.parity);
  start_ABt(x.S, query(Q_place(own)), K_place(K.slot));
}

//: consume_ahead
__device__ __forceinline__ void consume_ahead(const call &a, const tensor_map &O_map)
{
  const float c = $(c_of_call);
  const i32 me = own_group();
  i32 n = 0, own = me;
% if turns ~= "none" then
  first_turn(me);
% end
  await_start(me, 0);
  online x(me);
  start_first(x, own, 0, 0);
  products_wait<0>();
  for (i32 round = 0;; round++) {
    const task record = get_task(own);
    const bool last = record.head < 0;
    const task my = {last ? ~record.head : record.head, record.i0};
    const i32 i0 = my.i0;
    const $(rows_type) at = $(rows_type)_of(a, my.head$(rows_from));
    const spans all = seen_range(a, at, i0), visit = range<64>(a, at, i0 + 64 * me);
    const i32 tiles = visit.last > 0 ? visit.last : all.last, first = nth_tile(all, 0);
    const query Q(Q_place(own));
% local function step(is_cut)
      const i32 j = nth_tile(all, y);
      start_$(schedule)(x, Q, n, me);
      softmax_$(seeks_late and "late" or schedule)(x, {a, at, i0, j * Bc, $(is_cut)}, c, n, me, own);
% end
    $(read_by)(K_free + step_of<stages>(n).slot);
    if (is_cut(visit, first))                           // with one call for both, ptxas spills
      softmax_of(x, {a, at, i0, first * Bc, true}, c);
    else
      softmax_of(x, {a, at, i0, first * Bc, false}, c);
    set_weights(x.P, x.S$(has.drop and string.format(", tile_at{a, at, i0, first * Bc, true}") or ""));
    give_start(me, round);
    i32 y = 1;
    for (; y < all.full; y++, n++) {                    // tiles that no mask touches
% step "false"
    }
    for (; y < tiles; y++, n++) {                       // the diagonal, the ragged end
% step "is_cut(visit, j)"
    }
    const step_of<stages> V(n);
    wait(V_full + V.slot, V.parity);
    n++;
% local function start_last()
    start_AB(x.O, x.P, V_place(V.slot));                // the last O = O + P V
    pass_behind(me, n, all.last - tiles, false);
% end
% local function ending()
    $(read_by)(V_free + V.slot);
    x.l = row_total(x.l);
    const ends<Br> end = finish(x.m, x.l, c$(ends_of "rows(a, my.head), i0"));
    scale_rows(x.O, end.factor);                        // O = diag(l)^-1 O
    store_from(Q_place(own), x.O, O_map, at, i0 + 64 * me);
    release(Q_free + own);
    const place rows_at = rows(a, my.head);
    if (rows_at.LSE)
      store_rowvec(end.LSE, rows_at.LSE, i0, at.nq);
% end
    if (last) {                                         // with the product in front of the branch, ptxas awaits each by itself
% start_last()
      products_wait<0>();
% ending()
      return;
    }
% start_last()
    const step_of<Q_stages> then(round + 1);
    const i32 next = then.slot * consumers + me;
    start_first(x, next, then.parity, n);
    products_wait<1>();                                 // O is there
% ending()
    products_wait<0>();                                 // S of the next tile is
    own = next;
    x.O = {};
    x.m = rowvec<Br>(minus_inf());
    x.l = rowvec<Br>(0.f);
  }
}
