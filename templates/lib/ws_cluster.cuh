// ws_cluster.cuh -- two blocks that are a cluster: which one this is, places that both read, and tiles that each copies half of.

//: own_rank -- which of the two this block is
__device__ __forceinline__ i32 own_rank()
{
  return i32(block_id()) % 2;
}

//: release_both -- this warp has read a place: nobody fills it before both blocks have. A lane tells each block, all by one instruction
__device__ __forceinline__ void release_both(i32 which)
{
  const i32 lane = thread_id() % 32;
  if (lane < 2)
    barrier_arrive_there(peer_place(barrier_at(0), lane) + 8 * which);
}

//: meet_other -- neither block begins before the other's barriers are there, nor leaves while that may arrive at its own
__device__ __forceinline__ void meet_other()
{
  warp_sync();
  cluster_arrive();
  cluster_wait();
}

//: copy_half -- as copy_tile, but half the rows alone, to both blocks; the other one brings the other half
template <i32 boxes_, i32 rows_>
__device__ __forceinline__ void copy_half(u32 to, const tensor_map &from, i32 row, i32 head, i32 batch, i32 full$(slices > 1 and ", i32 column = 0" or ""))
{
  const i32 first = own_rank() * (rows_ / 2);
  barrier_expect(barrier_at(full), boxes_ * box_bytes<rows_>);
#pragma unroll
  for (i32 x = 0; x < boxes_; x++)
    copy_box_to_all(to + x * box_bytes<rows_> + first * 128, from, $(slices > 1 and "column + " or "")64 * x, row + first, head, batch, barrier_at(full), 3);
}

//: pair_range -- the tiles of keys that rows of either block visit, of whose rows those from i0 on are one's
__device__ __forceinline__ spans pair_range(const call &a, const sequence &at, i32 i0)
{
  return range<2 * Br>(a, at, i0 - i0 % (2 * Br));
}
