// ws_tails.cuh -- the backwards for warpgroups where batches have lengths of their own: tiles in which a batch ends. Behind its last
// row lie another batch's, or nothing that is a number.

//: has_rows -- whether a batch reaches to this tile of Q: workspaces and grids are for the longest
__device__ __forceinline__ bool has_rows(const call &a, const task &my)
{
  return my.i0 < sequence_of(a, my.head).nq;
}

//: has_keys -- whether one reaches to this tile of keys
__device__ __forceinline__ bool has_keys(const call &a, const key_task &my)
{
  if (my.j0 < sequence_of(a, my.head).nk)
    return true;
  await_last(); // who waits for this launch waits for the one before, too
  return false;
}

//: tail -- where batches have lengths of their own, behind the last row of one lie another's, or nothing that is a number: 0 x NaN is
// NaN, and so each of the $(stays and "three" or "two") warps that copy waits for a tile in which a batch ends, at a barrier of its own, and clears these rows
// before the tile is full
constexpr i32 tail = signals - $(stays and 3 or 2);

//: clear_behind -- of a tile the rows from `first` on
template <i32 boxes_, i32 rows_> __device__ __forceinline__ void clear_behind(u32 tile, i32 first)
{
  for (i32 x = 0; x < boxes_; x++)
    for (i32 at = first * 128 + thread_id() % 32 * 16; at < box_bytes<rows_>; at += 512)
      put16(tile + x * box_bytes<rows_> + at, quad{});
}

//: show_cleared -- a tile that was awaited at `tail` is full
__device__ __forceinline__ void show_cleared(i32 full)
{
  copies_fence();
  warp_sync();
  if (thread_id() % 32 == 0)
    barrier_arrive(barrier_at(full));
}

//: copy_rows -- a tile of Q or dO; `tails`: that the warp has awaited so far
template <i32 boxes_>
__device__ __forceinline__ void copy_rows(u32 to, const tensor_map &from, const rows_at &at, i32 full, i32 &tails)
{
  const i32 rows_here = at.of.nq - at.i0;
  const bool is_tail = rows_here < Br;
  warp_sync(); // a lane two tiles behind would take one phase of a barrier for another
  if (thread_id() % 32 == 0)
    copy_tile<boxes_, Br>(to, from, $(rows_of_Q("at.of", "at.i0")), is_tail ? tail + warp_of() : full);
  if (!is_tail)
    return;
  wait(tail + warp_of(), tails++ % 2);
  clear_behind<boxes_, Br>(to, rows_here);
  show_cleared(full);
}

//: copy_some_keys -- `copy_keys` of a batch
template <i32 boxes_$(halves and ", i32 next = 64" or "")>
__device__ __forceinline__ void copy_some_keys(u32 to, const tensor_map &from, i32 j0, const sequence &at, i32 full, i32 &tails)
{
  const bool is_tail = at.nk - j0 < Bc; // the warp's first: all lanes are here
  if (thread_id() % 32 == 0) {
    const u32 barrier = barrier_at(is_tail ? tail + warp_of() : full);
    barrier_expect(barrier, consumers * boxes_ * box_bytes<64>);
#pragma unroll
    for (i32 w = 0; w < consumers; w++)
#pragma unroll
      for (i32 x = 0; x < boxes_; x++)
        copy_box(to + (w * boxes_ + x) * box_bytes<64>, from, $(halves and "next" or "64") * x, $(begins and "at.k0 + " or "")j0 + 64 * w, at.hk, $(has.varlen and "0" or "at.b"), barrier);
  }
  if (!is_tail)
    return;
  wait(tail + warp_of(), tails++ % 2);
  for (i32 w = max(0, at.nk - j0) / 64; w < consumers; w++)
    clear_behind<boxes_, 64>(to + w * boxes_ * box_bytes<64>, max(0, at.nk - j0 - 64 * w));
  show_cleared(full);
}

//: clear_keys -- dK = 0 and dV = 0 of a tile of keys that no row sees
__device__ __forceinline__ void clear_keys(const call &a, const key_task &my)
{
  const place at = rows(a, my.head);
  for (i32 x = thread_id() % 32; x < Bc * 32; x += 32) {
    const i32 j = my.j0 + x / 32, c = x % 32 * 8;
    if (j < at.nk && c < D)
      *(quad *)(at.dK + i64(j) * at.dKn + c) = {};
    if (j < at.nk && c < Dv)
      *(quad *)(at.dV + i64(j) * at.dVn + c) = {};
  }
}

//: stored_rows -- where the rows of a batch lie: the first, from row to row, how many$(begins and not has.varlen and "; of the tensor's how many lie before" or "")
struct stored_rows {
  elem *data;
  i64 stride;
  i32 n$(begins and not has.varlen and ", before" or "");
};

//: store_tail -- of 64 rows, the first of which is row i0 of a batch, this warp's, one by one from where it has laid them: what lies behind
// is another's, or nobody's
template <i32 columns_> __device__ __forceinline__ void store_tail(u32 place, const stored_rows &to, i32 i0)
{
#pragma unroll 1
  for (i32 x = thread_id() % 32; x < columns_ * 2; x += 32) { // 16 rows of chunks of 8 columns
    const i32 row = warp_of() % 4 * 16 + x / (columns_ / 8), chunk = x % (columns_ / 8);
    if (i0 + row < to.n)
      *(quad *)(to.data + i64(i0 + row) * to.stride + chunk * 8) = get16(place + chunk / 8 * box_bytes<64> + row * 128 + (chunk % 8 ^ row % 8) * 16);
  }
  warp_sync();
}

//: stored_dQ
__device__ __forceinline__ stored_rows stored_dQ(const place &at)
{
  return {at.dQ, at.dQn, at.nq$(begins and not has.varlen and ", 0" or "")};
}

//: stored_dK
__device__ __forceinline__ stored_rows stored_dK(const place &at)
{
  return {at.dK, at.dKn, at.nk$(begins and not has.varlen and ", at.k0" or "")};
}

//: stored_dV
__device__ __forceinline__ stored_rows stored_dV(const place &at)
{
  return {at.dV, at.dVn, at.nk$(begins and not has.varlen and ", at.k0" or "")};
}
