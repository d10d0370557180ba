// ws_stays.cuh -- bwd_ws.cu's blocks that stay: which tiles of keys they do, how K and V come and go, and dQ where it is summed by
// one block. The K and V of a tile come while the one before is being done.

//: keys_place_of -- of K and V of the n-th tile of keys of a block
typedef step_of<keys_tiles> keys_place_of;

//: await_keys -- K and V are here
__device__ __forceinline__ void await_keys(const row_steps &from)
{
% if owns then
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
% if owns then
  release(keys_free + keys_place_of(from.round).slot);
% end
}

//: own_tasks -- what a block does that stays: all tiles of keys of a head, one after the other, then those of another
struct own_tasks {
  const call &a;
  key_task my;
  row_steps from;
  __device__ __forceinline__ explicit own_tasks(const call &a_)
      : a(a_), my{i32(block_id()) * (a_.h / a_.hk), 0}, from(a_, my, 0, 0)
  {
  }
  __device__ __forceinline__ bool is_one() const { return my.head < a.b * a.h; }
  __device__ __forceinline__ void go_on()
  {
    my.j0 += Bc;
    if (my.j0 >= a.k)
      my = {my.head + grid_size() * (a.h / a.hk), 0};
    from = row_steps(a, my, from.before + from.steps, from.round + 1);
  }
};

//: settle_dQ -- dQ of a tile from the keys of a tile: laid down, added, or with all before it the whole
__device__ __forceinline__ void settle_dQ(const share_of_dQ &my, i32 number, dQ_part &dQ)
{
  const i32 lane = thread_id() % 32, tile = i32(u32(number) % u32(my.from.tiles));
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
  const place at = rows(my.a, i32(u32(number) / u32(my.from.tiles)));
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
__device__ __forceinline__ void settle_unseen(const share_of_dQ &my)
{
  for (i32 x = 0; my.is_first && x < my.from.visit.first * (my.a.h / my.a.hk); x++) {
    dQ_part none = {};
    settle_dQ(my, (my.from.head + x / my.from.visit.first) * my.from.tiles + x % my.from.visit.first, none);
  }
}
