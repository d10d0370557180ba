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

//: bring_some_biases -- of a tile in which rows or keys end, or whose rows begin elsewhere than at multiples of 16 bytes, one chunk of each
// `step`-th row; `row`: of row i0 + first. Rows behind the last are 0
__device__ __forceinline__ void bring_some_biases(u32 box, const elem *row, i64 stride, i32 chunk, i32 first, i32 step, i32 rows_here, i32 j, i32 nk)
{
#pragma unroll 1
  for (i32 r = first; r < Br; r += step, row += stride)
    put16(box + r * 128 + (chunk % 8 ^ r % 8) * 16, r < rows_here ? few_biases(row, j, nk) : quad{});
}

//: bring_biases -- a tile from row i0 and key j0 on, by `bias_threads` threads of which this is the `me`-th. They are few, so that of a whole tile
// each has a fixed chunk of each row, and places are known but for two: 264 clocks a row became a bottleneck (d 64, H200)
template <class At> __device__ __forceinline__ void bring_biases(u32 to, const call &a, const At &at, i32 i0, i32 j0, i32 me, u32 full)
{
  constexpr i32 across = Bc > 128 ? 32 : Bc > 64 ? 16 : 8, step = bias_threads / across; // threads that share a row; rows at once
  const i32 chunk = me % across, first = me / across, j = j0 + 8 * chunk;
  const u32 box = to + chunk / 8 * box_bytes<Br>;
  const elem *row = (const elem *)a.bias.data + number_of_pair(a.bias, at, i0 + first, 0);
  const i64 stride = step * i64(a.bias.n);
  if (8 * chunk < Bc) {
    if (i0 + Br <= at.nq && j0 + Bc <= at.nk && (u64(row) | u64(2 * a.bias.n)) % 16 == 0) {
      const elem *from = row + j;
#pragma unroll 1
      for (i32 r = 0; r < Br; r += 16)
#pragma unroll
        for (i32 x = 0; x < 16; x += step, from += stride)
          copy_async(box + r * 128 + (first + x) * 128 + (chunk % 8 ^ (first + x) % 8) * 16, from, true);
    } else {
      bring_some_biases(box, row, stride, chunk, first, step, at.nq - i0, j, at.nk);
    }
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
