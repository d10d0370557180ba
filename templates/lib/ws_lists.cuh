// ws_lists.cuh -- the copying thread of fwd_ws.cu where tiles are listed (blocks.cuh): what comes next stands in memory. Which
// tile of Q is drawn, where its list is and what stands first in it are three latencies, one after another; asked for when the
// tile of Q before has just begun, they cost nothing. Else all warpgroups wait for the same first tile of K, and then go in
// step, tensor cores idle during their softmax.

//: tile_ahead -- a tile of Q that comes: where it is, its list, and the keys at which the first two tiles of that begin
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
  return {is_none, my, at, visit, first_key(visit, 0), first_key(visit, 1)};
}

//: told_range -- the list of the tile of Q that a place holds, to who computes: `put_task` has left how long it is
__device__ __forceinline__ spans told_range(const call &a, const sequence &at, i32 i0, const i32 *lists, i32 x)
{
  i32 whole = 0, last = 0;
  if (thread_id() % 32 == 0) {
    whole = i32(get4(task_place(x) + 8));
    last = i32(get4(task_place(x) + 12));
  }
  whole = shfl_first(whole);
  return {0, 0, whole, shfl_first(last), list_of(a, at, i0, lists) + 2, whole, ceil_div(a.k, Bc)};
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
    i32 j0 = now.first, next_j0 = now.second;
    for (i32 x = 0; x < consumers; x++) {
      copy_Q(Q_map, round, x, {now.is_none ? -1 : now.my.head, now.my.i0}, now.at, now.visit);
      if (x == 0 && tiles > 0)
        copy_K(K_map, n, j0, now.at);                   // while the other warpgroups finish
    }
    if (now.is_none)
      return;
    for (i32 x = 0; x == 0 || x < tiles; x++) {
      if (x + 1 < tiles)
        copy_K(K_map, n + 1, next_j0, now.at);
      if (x < tiles)
        copy_V(V_map, n++, j0, now.at$(ragged and ", tails" or ""));
      j0 = next_j0;
      next_j0 = first_key(now.visit, x + 2);
      if (x == 0)
        next = draw_ahead(a, lists, round + 1);
    }
  }
}
