// bias_tiles.cuh -- biases of 16 bits by way of shared memory: with each tile of $(biases_with) comes a tile of them, Br rows and Bc keys, in boxes as
// ring.cuh has them. Warps that copy nothing else bring it and arrive at the same barrier, so whoever has awaited the one has the other. A
// thread's numbers of S lie as `ldmatrix` hands them out; asked for in device memory by each thread, they took two to three times as long.

//: bias_place -- the tile that comes with the one in this place of the ring
__device__ __forceinline__ u32 bias_place(i32 slot)
{
  return shared_address(shared_memory()) + at_bias + slot * (bias_boxes * box_bytes<Br>);
}

//: few_biases -- eight of a row, of which some lie behind the last key, or not at a multiple of 16 bytes
__device__ __forceinline__ quad few_biases(const elem *row, i32 j, i32 nk)
{
  quad x;
#pragma unroll
  for (i32 n = 0; n < 4; n++)
    x.at[n] = u32(row[min(j + 2 * n, nk - 1)]) | u32(row[min(j + 2 * n + 1, nk - 1)]) << 16;
  return x;
}

//: bring_biases -- a tile from row i0 and key j0 on, by `bias_threads` threads of which this is the `me`-th. Rows behind the last are 0
template <class At> __device__ __forceinline__ void bring_biases(u32 to, const call &a, const At &at, i32 i0, i32 j0, i32 me, u32 full)
{
  constexpr i32 across = Bc > 128 ? 32 : Bc > 64 ? 16 : 8; // threads that share a row, each with a chunk of eight biases
  const i32 chunk = me % across, j = j0 + 8 * chunk;
  const u32 box = to + chunk / 8 * box_bytes<Br>;
  const elem *row = (const elem *)a.bias.data + number_of_pair(a.bias, at, i0 + me / across, 0);
#pragma unroll 1
  for (i32 r = me / across; r < Br && 8 * chunk < Bc; r += bias_threads / across, row += bias_threads / across * i64(a.bias.n)) {
    const u32 place = box + r * 128 + (chunk % 8 ^ r % 8) * 16;
    const bool real = i0 + r < at.nq;
    if (!real || (j + 8 <= at.nk && u64(row + j) % 16 == 0))
      copy_async(place, real ? row + j : a.bias.data, real);
    else
      put16(place, few_biases(row, j, at.nk));
  }
  copy_arrive(full);                                    // copies
  warp_sync();
  if (thread_id() % 32 == 0)
    barrier_arrive(full);                               // what was put
}

//: placed_biases -- those that a thread adds to its numbers of S: four chunks by four, of eight columns each
template <bool transposed, class Acc> struct placed_biases {
  u32 first;
  __device__ __forceinline__ explicit placed_biases(u32 tile)
  {
    const i32 lane = thread_id() % 32, own = (warp_of() - 4) * 16; // this warp's first row of S
    first = tile + (transposed ? own / 64 * box_bytes<Br> + lane * 128 + (own % 64 / 8 ^ lane % 8) * 16
                               : (own + lane % 8) * 128 + (lane / 8 ^ lane % 8) * 16);
  }
  // Those of columns 32 k to 32 k + 31 of the r-th row.
  __device__ __forceinline__ quad part(i32 r, i32 k) const
  {
    const bool beyond = 32 * k + 32 > Acc::columns && thread_id() % 32 > 15; // of the last 16 columns: those again
    if constexpr (transposed)
      return ldmatrix_trans((first ^ r * 16) + k * 4096 - (beyond ? 2048 : 0));
    else
      return ldmatrix((first ^ k % 2 * 64 ^ (beyond ? 32 : 0)) + r * 1024 + k / 2 * box_bytes<Br>);
  }
};
