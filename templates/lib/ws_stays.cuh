// ws_stays.cuh -- bwd_ws.cu's blocks that stay: which tiles of keys they do, how K and V come and go, and dQ where it is summed by
// one block. The tiles of Q that come by are one stream, whichever keys they are for: the first step of a tile of keys makes the
// last dQ of the tile before and stores its dK, so that products never run out between tiles. K and V of a tile come meanwhile.

//: keys_place_of -- of K and V of the n-th tile of keys of a block
typedef step_of<keys_tiles> keys_place_of;

//: await_keys -- K and V are here
__device__ __forceinline__ void await_keys(const row_steps &from)
{
% if stays then
  const keys_place_of at(from.round);
  wait(K_full + at.slot, at.parity);
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

//: drawn_place -- the record of which tile of keys a place of K and V holds
__device__ __forceinline__ u32 drawn_place(i32 round)
{
  return shared_address(shared_memory()) + at_drawn + 4 * keys_place_of(round).slot;
}

//: drawn_keys -- which tile of keys is the block's next, when the thread that copies K has said so
__device__ __forceinline__ i32 drawn_keys(i32 round)
{
  const keys_place_of at(round);
  wait(K_full + at.slot, at.parity);
  return i32(get4(drawn_place(round)));
}

//: own_tasks -- what a block does that stays: $(owns and "all tiles of keys of a head, one after the other, then those of another" or "tiles of keys as they are drawn, the longest first")
struct own_tasks {
  const call &a;
% if draws then
  i32 number; // among the tiles of all heads
% end
  key_task my;
  row_steps from;
% if owns then
  __device__ __forceinline__ explicit own_tasks(const call &a_) : a(a_), my{i32(block_id()) * (a_.h / a_.hk), 0}, from(a_, my, 0, 0) {}
% else
  __device__ __forceinline__ own_tasks(const call &a_, i32 first) : a(a_), number(first), my(key_task_of(a_, first)), from(a_, my, 0, 0) {}
% end
  __device__ __forceinline__ bool is_one() const { return $(owns and "my.head < a.b * a.h" or "number < a.b * a.hk * ceil_div(a.k, Bc)"); }
  __device__ __forceinline__ bool is_first(i32 n) const { return n == from.before && n > 0; }
  __device__ __forceinline__ bool is_last(i32 n) const { return n == from.before + from.steps - 1; }
% if owns then
  __device__ __forceinline__ void go_on()
  {
    my.j0 += Bc;
    if (my.j0 >= a.k)
      my = {my.head + grid_size() * (a.h / a.hk), 0};
    from = row_steps(a, my, from.before + from.steps, from.round + 1);
  }
% else
  __device__ __forceinline__ void go_on(i32 next)
  {
    number = next;
    if (is_one())
      my = key_task_of(a, number);
    from = row_steps(a, my, from.before + from.steps, from.round + 1);
  }
% end
};

//: produce_all -- what the warpgroup that copies does, where blocks stay
__device__ __forceinline__ void produce_all(const call &a, const LD_row *LD_all, const tensor_map &Q_map, const tensor_map &K_map,
                                            const tensor_map &V_map, const tensor_map &dO_map$(draws and ", i32 *counts" or ""))
{
% if owns then
  for (own_tasks own(a); thread_id() == 0 && own.is_one(); own.go_on())
    bring_queries(a, LD_all, own.my, own.from, Q_map, K_map);
  for (own_tasks own(a); thread_id() == 32 && own.is_one(); own.go_on())
    bring_gradients(a, own.my, own.from, V_map, dO_map);
% else
  if (thread_id() == 0) {
    await_last();                                       // nothing is drawn
    own_tasks own(a, atomic_add(counts, 1));
    while (own.is_one()) {
      i32 next;
      bring_queries(a, LD_all, own.my, own.from, Q_map, K_map, own.number, next, counts);
      own.go_on(next);
    }
    const keys_place_of end(own.from.round);            // no more
    wait(keys_free + end.slot, end.parity ^ 1);         // all have read which tile lay there
    put4(drawn_place(own.from.round), own.number);
    barrier_arrive(barrier_at(K_full + end.slot));
  }
  if (thread_id() == 32)
    for (own_tasks own(a, drawn_keys(0)); own.is_one(); own.go_on(drawn_keys(own.from.round + 1)))
      bring_gradients(a, own.my, own.from, V_map, dO_map);
% end
}

//: done_keys -- the tile of keys before, of which dK has not been stored
struct done_keys {
  i32 head, j0, round;
};

//: store_dV -- of a tile of keys whose last step this is, beside the products for dQ and dK. It lies where V lay, of which
// each warpgroup reads its own rows alone
__device__ __forceinline__ void store_dV(acc<Bc, Dv> &dV, const call &a, const own_tasks &own, i32 me, const tensor_map &dV_map)
{
  store_scaled(V_of(me, own.from.round), dV, $(has.drop and "boost(a)" or "1.f"), dV_map, of_keys(sequence_of(a, own.my.head)), own.my.j0 + 64 * me);
  dV = {};
}

//: store_dK -- of the tile of keys before, beside the product for dP. It lies there, too: others may still read K
__device__ __forceinline__ void store_dK(acc<Bc, D> &dK, const call &a, const done_keys &done, i32 me, const tensor_map &dK_map)
{
  end_stores();
  warp_sync();
  store_scaled(V_of(me, done.round), dK, a.scale, dK_map, of_keys(sequence_of(a, done.head)), done.j0 + 64 * me);
  dK = {};
}

//: leave_keys -- this warp has read K and V of the tile before, and its dK and dV have been read
__device__ __forceinline__ void leave_keys(const done_keys &done)
{
  end_stores();
  release(keys_free + keys_place_of(done.round).slot);
}

//: consume_all -- what a warpgroup that computes does, where blocks stay
__device__ __forceinline__ void consume_all(const call &a, float *dQ_all, const tensor_map &dK_map, const tensor_map &dV_map)
{
  const i32 me = own_group();
  acc<Bc, D> dK = {}; acc<Bc, Dv> dV = {};
  $(owns and "own_tasks own(a)" or "own_tasks own(a, shfl_first(drawn_keys(0)))");
  share_of_dQ share(me, dQ_all, own);
% if owns then
  settle_unseen(share, own.from);
% end
  done_keys done = {0, 0, -1};
  i32 n = 0, last_tile = -1;
  bool dO_here = false;
  await_last();                                         // dQ is 0
  lay_dS(0, me, rounded<Br>{});                         // of no step: what dQ = dS K reads in the first
  show_dS(0);
  while (own.is_one()) {
    await_keys(own.from);
    const K_rows K(K_of(me, own.from.round));
    const V_rows V(V_of(me, own.from.round));
    row_step of(own.from);
    if (n == 0)
      await_start(me, 0);                               // the warpgroup before has its first P
    for (; n < own.from.before + own.from.steps; n++) {
      sliced_step(dK, dV, dO_here, a, own, done, of, K, V, share, me, n, last_tile, dK_map, dV_map);
      last_tile = of.number();
      of.go_on();
    }
    done = {own.my.head, own.my.j0, own.from.round};
    $(owns and "own.go_on();" or "own.go_on(shfl_first(drawn_keys(own.from.round + 1)));")
  }
  if (n == 0)
    return;                                             // others have drawn all
  last_dQ(share, n, last_tile);                         // dK is there, too
  store_dK(dK, a, done, me, dK_map);
  end_stores();
}

//: settle_dQ -- dQ of a tile from the keys of a tile: laid down, added, or with all before it the whole
__device__ __forceinline__ void settle_dQ(const share_of_dQ &my, i32 number, dQ_part &dQ)
{
  const i32 lane = thread_id() % 32, tile = i32(u32(number) % u32(my.tiles));
  quad *const sums = (quad *)my.sums(number) + lane;
  if (tile >= my.ended) {
    if (!my.is_first)
      add_to_sums(my.sums(number), dQ);
    else
#pragma unroll
      for (i32 c = 0; c < dQ.C; c += 2)
        sums[c / 2 * 32] = {{__float_as_uint(dQ.at[0][c]), __float_as_uint(dQ.at[0][c + 1]), __float_as_uint(dQ.at[1][c]),
                             __float_as_uint(dQ.at[1][c + 1])}};
    return;
  }
  if (!my.is_first)
#pragma unroll
    for (i32 c = 0; c < dQ.C; c += 2) {
      const quad x = sums[c / 2 * 32];
#pragma unroll
      for (i32 y = 0; y < 4; y++)
        dQ.at[y / 2][c + y % 2] += __uint_as_float(x.at[y]);
    }
  const place at = rows(my.a, i32(u32(number) / u32(my.tiles)));
#pragma unroll
  for (i32 r = 0; r < dQ.R; r++) {
    const i32 i = tile * Br + my.row + warp_of() % 4 * 16 + r * 8 + lane / 4;
    elem *const to = at.dQ + i64(i) * at.dQn + my.column + lane % 4 * 2;
#pragma unroll
    for (i32 c = 0; c < dQ.C; c += 2)
      if (i < at.nq && (Ds == D || my.column + c / 2 * 8 < D))
        *(u32 *)(to + c / 2 * 8) = pack_$(dtype)(my.a.scale * dQ.at[r][c], my.a.scale * dQ.at[r][c + 1]);
  }
}

//: settle_unseen -- dQ = 0 of the tiles of Q that see no key: under a causal mask, where keys are fewer, they come first
__device__ __forceinline__ void settle_unseen(const share_of_dQ &my, const row_steps &from)
{
  for (i32 x = 0; my.is_first && x < from.visit.first * (my.a.h / my.a.hk); x++) {
    dQ_part none = {};
    settle_dQ(my, (from.head + x / from.visit.first) * from.tiles + x % from.visit.first, none);
  }
}
