// ws_splits.cuh -- fwd_ws where the keys of a row are split among blocks (N): of few tiles of Q, as a part of a prompt has behind a long
// cache, each block takes some of the keys and leaves what split.cuh merges. Tiles of K and V count from the first of a split on.

//: split_task_of -- blocks that have splits of a tile of Q stand side by side
__device__ __forceinline__ task split_task_of(const call &a, i32 block, i32 splits)
{
  const task my = task_of(a, block / splits);
  return {my.head, my.i0, block % splits};
}

//: split_range -- of the tiles of K and V that a tile of Q visits those of its split
__device__ __forceinline__ spans split_range(const call &a, const sequence &at, const task &my, i32 splits)
{
  const spans own = split_of(range(a, at, my.i0), my.split, splits, a);
  return {0, 0, own.full - own.first, own.last - own.first, own.first};
}

//: within -- of the tiles that a warpgroup's rows visit those of the split
__device__ __forceinline__ spans within(const spans &own, const spans &all)
{
  const i32 last = min(max(own.last - all.base, 0), all.last);
  return {0, 0, min(max(own.full - all.base, 0), last), last, all.base};
}

//: lay_Q -- the 64 rows of Q of a warpgroup, which are those of heads that share K and V: each warp loads its 16, and lays them as
// copies would. The warps meet before a product reads them
__device__ __forceinline__ void lay_Q(u32 to, const place &from, i32 i0, i32 me)
{
  constexpr i32 chunks = 8 * boxes; // of a row, 16 bytes each
  const i32 rows_here = from.nq - i0 - 64 * me;
#pragma unroll
  for (i32 x = thread_id() % 32; x < 16 * chunks; x += 32) {
    const i32 r = warp_of() % 4 * 16 + x / chunks, chunk = x % chunks;
    const bool is_there = r < rows_here && chunk * 8 < D;
    put16(to + chunk / 8 * box_bytes<64> + r * 128 + (chunk % 8 ^ r % 8) * 16, is_there ? *(const quad *)(from.Q + (i64(i0) + 64 * me + r) * from.Qn + chunk * 8) : quad{});
  }
  copies_fence();
  named_sync(1 + consumers + me, 128);
}
