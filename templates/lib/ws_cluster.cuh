// ws_cluster.cuh -- two blocks that are a cluster: which one this is, places that both read, and tiles that each copies half of.

//: own_rank -- which of the two this block is
__device__ __forceinline__ i32 own_rank()
{
  return i32(block_id()) % 2;
}

//: release_both -- this warp has read a place: nobody fills it before both blocks have
__device__ __forceinline__ void release_both(i32 which)
{
  if (thread_id() % 32 == 0) {
    barrier_arrive(barrier_at(which));
    barrier_arrive_there(peer_place(barrier_at(which), 1 - own_rank()));
  }
}

//: meet_other -- neither block begins before the other's barriers are there, nor leaves while that may arrive at its own
__device__ __forceinline__ void meet_other()
{
  warp_sync();
  cluster_arrive();
  cluster_wait();
}

//: nth_pair -- as nth_block, of pairs of blocks
__device__ __forceinline__ i32 nth_pair(i32 n)
{
  const i32 all = grid_size() / 2, me = i32(block_id()) / 2;
  return n * all + (n % 2 ? all - 1 - me : me);
}

//: pairs_of -- as blocks_of, of pairs of tiles of Q
__device__ __forceinline__ i32 pairs_of(const call &a)
{
  return ceil_div(a.q, 2 * Br) * a.b * a.h$(slices > 1 and " * slices" or "");
}

//: pair_task_of -- as task_of: this block's of two tiles of Q side by side. The second may have no rows, but
// sees the keys that the first one's see: it copies its half of them
__device__ __forceinline__ task pair_task_of(const call &a, i32 pair)
{
  const i32 Tr = ceil_div(a.q, 2 * Br);
  const portion mine = portion_of(pair, a.b * a.h$(slices > 1 and " * slices" or ""), Tr, Z);
  return {mine.head, 2 * Br * (Tr - 1 - mine.nth) + own_rank() * Br};
}

//: copy_half_tile -- of a tile of K or V half the rows, to both blocks; the other brings the other half
template <i32 boxes_>
__device__ __forceinline__ void copy_half_tile(u32 to, const tensor_map &from, i32 row, i32 head, i32 batch, i32 full$(slices > 1 and ", i32 column = 0" or ""))
{
  const i32 first = own_rank() * (Bc / 2);
  barrier_expect(barrier_at(full), boxes_ * box_bytes<Bc>);
#pragma unroll
  for (i32 x = 0; x < boxes_; x++)
    copy_box_to_all(to + x * box_bytes<Bc> + first * 128, from, $(slices > 1 and "column + " or "")64 * x, row + first, head, batch, barrier_at(full), 3);
}
