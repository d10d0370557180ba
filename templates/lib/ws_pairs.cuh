// ws_pairs.cuh -- two blocks of a cluster with 64 keys each that share the additions to dQ: each hands its dS to the other, has of the
// other's K the columns that it needs, and of dQ makes half the columns for the keys of both. So half as many numbers are added to
// the sums in device memory, which is what bounds wide heads.

//: begun_pair -- as begun_block, for both
__device__ __forceinline__ i32 begun_pair(i32 *counts)
{
  await_last();
  float *const places = (float *)(shared_memory() + at_LD); // of the first block, one for each to read
  if (thread_id() == 0 && own_rank() == 0) {
    places[0] = places[1] = __int_as_float(atomic_add(counts, 1));
    copies_fence(); // a copy writes there next
  }
  meet_other();
  return __float_as_int(*peer(places + own_rank(), 0));
}

//: own_dS -- where this block's part of the n-th dS lies, and P before
__device__ __forceinline__ u32 own_dS(i32 n)
{
  return dS_of(n) + own_rank() * box_bytes<Br>;
}

//: other_K -- two boxes of the other's K: of the columns of dQ that this block makes
__device__ __forceinline__ u32 other_K()
{
  return K_of(0) + boxes * box_bytes<64>;
}

//: first_box -- the first of them, of all boxes of K
__device__ __forceinline__ i32 first_box()
{
  return own_rank() * (boxes - 2);
}

//: copy_pair_keys -- the rows of K of this block, and what it needs of the other's
template <i32 boxes_>
__device__ __forceinline__ void copy_pair_keys(u32 to, const tensor_map &from, i32 j0, const sequence &at, i32 full)
{
  barrier_expect(barrier_at(full), (boxes_ + 2) * box_bytes<64>);
#pragma unroll
  for (i32 x = 0; x < boxes_; x++)
    copy_box(to + x * box_bytes<64>, from, 64 * x, j0, at.hk, at.b, barrier_at(full));
#pragma unroll
  for (i32 x = 0; x < 2; x++)
    copy_box(other_K() + x * box_bytes<64>, from, 64 * (first_box() + x), j0 ^ 64, at.hk, at.b, barrier_at(full));
}

//: quarter_of_dQ -- the columns that a warpgroup makes: the first a box at either end, the second what is left between, a box or half of one
template <i32 group> struct quarter_of_dQ {
  static constexpr i32 $(ordered and "which = group, " or "")width = group == 0 || boxes == 4 ? 64 : 32;
  float *dQ_all;
  i32 column;
% if settles then
  static constexpr i32 row = 0;
  const call &a;
  i32 tiles, ended; // tiles of Q of a head; those that see no later keys
  bool is_first; // whether no earlier keys are
%  if both_ways then
  bool reversed;
%  end
  __device__ __forceinline__ quarter_of_dQ(float *all, const call &a_, const key_task &my, const row_steps &from)
      : dQ_all(all), column(group == 0 ? own_rank() * (64 * (boxes - 1)) : 64 + own_rank() * width), a(a_), tiles(from.tiles),
        ended(first_behind(a_, my, from)), is_first(my.j0 < Bc)$(both_ways and ", reversed(my.reversed)" or "")
  {
  }
% else
  __device__ __forceinline__ quarter_of_dQ(float *all) : dQ_all(all), column(group == 0 ? own_rank() * (64 * (boxes - 1)) : 64 + own_rank() * width) {}
% end
  __device__ __forceinline__ float *sums(i32 number) const
  {
    return dQ_all + i64(number) * (Br * D) + (warp_of() % 4 * (D / 8) + column / 8) * 128;
  }
};

//: start_pair_dQ -- dQ = dS K, with the keys of both blocks
template <class Acc, class Quarter>
__device__ __forceinline__ void start_pair_dQ(Acc &dQ, const Quarter &my, i32 n)
{
  const u32 box = my.column / 64, within = my.column % 64 * 2;
  const u32 own = K_of(0) + box * box_bytes<64> + within, other = other_K() + (box - first_box()) * box_bytes<64> + within;
  const descriptor a(dS_of(n), 16, 1024), b(own_rank() == 0 ? own : other, box_bytes<64>, 1024), later_b(own_rank() == 0 ? other : own, box_bytes<64>, 1024);
  await_full(dS_full, dS_place_of(n), false);
  products_fence();
#pragma unroll
  for (i32 k = 0; k < Bc / 16; k++)
    wgmma<1>(dQ.at, a.at(k / 4 * box_bytes<Br> + k % 4 * 32), (k < 4 ? b : later_b).at(k % 4 * 2048), k > 0);
  products_commit();
}

//: show_both -- what this warpgroup has laid of dS is there for the products of this block, and sets out to the other
__device__ __forceinline__ void show_both(i32 n)
{
  const i32 full = dS_full + dS_place_of(n).slot, other = 1 - own_rank();
  const u32 mine = own_dS(n);
  copies_fence();
  named_sync(2, 128);
  if (thread_id() % 128 == 0) {
    copy_there(peer_place(mine, other), mine, box_bytes<Br>, peer_place(barrier_at(full), other));
    barrier_expect(barrier_at(full), box_bytes<Br>);    // the other's
  }
}

//: lend_P -- P to the warpgroup that makes dS of it, in the place where that will lie: its threads hold of dP what those here hold of P
__device__ __forceinline__ void lend_P(i32 n, const rounded<Br> &P)
{
  const dS_place_of to(n);
  wait(dS_free + to.slot, to.parity ^ 1);
#pragma unroll
  for (i32 k = 0; k < P.steps; k++)
    put16(own_dS(n) + (k * 128 + thread_id() % 128) * 16, P.at(k));
  warp_sync();
  release(P_full + to.slot);
}

//: take_lent_P -- from there, all of the warpgroup before one lays dS
__device__ __forceinline__ void take_lent_P(i32 n, rounded<Br> &P)
{
  const dS_place_of from(n);
  wait(P_full + from.slot, from.parity);
#pragma unroll
  for (i32 k = 0; k < P.steps; k++)
    P.part[k][0] = get16(own_dS(n) + (k * 128 + thread_id() % 128) * 16);
  named_sync(2, 128);
}

//: end_quarter -- the dQ of the n-th step is there: both blocks may fill that place of dS again, and it is added to its sums
template <class Quarter, class Acc> __device__ __forceinline__ void end_quarter(const Quarter &my, i32 n, i32 number, $(settles and "" or "const ")Acc &dQ)
{
  const u32 free = barrier_at(dS_free + dS_place_of(n).slot);
  if (thread_id() % 32 == 0) {
    barrier_arrive(free);
    barrier_arrive_there(peer_place(free, 1 - own_rank()));
  }
  $(settles and "settle_in_turn(my, n, number, dQ);" or (ordered and "add_in_turn" or "add_to_sums") .. "(" .. (ordered and "Quarter::which, n, " or "") .. "my.sums(number), dQ);")
}

//: last_quarter -- of the last step, with nothing beside it
template <class Quarter> __device__ __forceinline__ void last_quarter(const Quarter &my, i32 n, i32 number)
{
  acc<Bc, Quarter::width> dQ;
  start_pair_dQ(dQ, my, n);
  products_wait<0>();
  end_quarter(my, n, number, dQ);
}
