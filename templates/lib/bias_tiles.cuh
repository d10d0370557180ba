// bias_tiles.cuh -- biases of 16 bits by way of shared memory: with each tile of $(biases_with) comes a tile of them, Br rows and Bc keys, in boxes as
// ring.cuh has them. Two warps that copy nothing else bring it and arrive at the same barrier, so whoever has awaited the one has the other. A
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

//: put_biases -- a tile from row i0 and key j0 on, by threads of which this is the `me`-th: of biases that copies cannot read. Rows behind
// the last are 0
template <class At> __device__ __forceinline__ void put_biases(u32 to, const call &a, const At &at, i32 i0, i32 j0, i32 me)
{
  constexpr i32 across = Bc > 128 ? 32 : Bc > 64 ? 16 : 8, step = bias_threads / across; // threads that share a row; rows at once
  const i32 chunk = me % across, first = me / across;
  const u32 box = to + chunk / 8 * box_bytes<Br>;
  const elem *row = (const elem *)a.bias.data + number_of_pair(a.bias, at, i0 + first, 0);
#pragma unroll 1
  for (i32 r = first; r < Br && 8 * chunk < Bc; r += step, row += step * i64(a.bias.n))
    put16(box + r * 128 + (chunk % 8 ^ r % 8) * 16, i0 + r < at.nq ? few_biases(row, j0 + 8 * chunk, at.nk) : quad{});
  warp_sync();
}

//: is_mapped -- whether copies can read the biases: else the host gives a map of zeros
__device__ __forceinline__ bool is_mapped(const tensor_map &map)
{
  u64 bits = 0;
#pragma unroll
  for (i32 x = 0; x < 16; x++)
    bits |= ((const u64 *)&map)[x];
  return bits != 0;
}

//: bring_biases -- a tile from row i0 and key j0 on; each warp of those that bring them arrives once at `full`
template <class At>
__device__ __forceinline__ void bring_biases(u32 to, const call &a, const tensor_map &map, bool mapped, const At &at, i32 i0, i32 j0, u32 full)
{
  const i32 me = thread_id() % bias_threads;
  if (!mapped)
    put_biases(to, a, at, i0, j0, me);
  if (mapped && me == 0) {
    barrier_expect(full, bias_boxes * box_bytes<Br>);
#pragma unroll
    for (i32 x = 0; x < bias_boxes; x++)
      copy_box(to + x * box_bytes<Br>, map, j0 + 64 * x, $(rows_of_Q("at", "i0")), full);
  } else if (thread_id() % 32 == 0) {
    barrier_arrive(full);
  }
}

//: produce_biases -- a tile with each of K. Two warps learn which tile of Q comes next as those that compute do
__device__ __forceinline__ void produce_biases(const call &a, const tensor_map &bias_map)
{
  const bool mapped = is_mapped(bias_map);
  i32 n = 0;
  for (i32 round = 0;; round++) {
    const step_of<Q_stages> slot(round);
    wait(Q_full + slot.slot * consumers, slot.parity);
    const task my = get_task(slot.slot * consumers);
    release(Q_free + slot.slot * consumers);
    if (my.head < 0)
      return;
    const sequence at = sequence_of(a, my.head);
    const spans visit = range(a, at, my.i0);
    for (i32 x = 0; x < visit.last - visit.first; x++, n++) {
      const step_of<stages> K(n);
      wait(K_free + K.slot, K.parity ^ 1);
      bring_biases(bias_place(K.slot), a, bias_map, mapped, at, my.i0, nth_tile(visit, x) * Bc, barrier_at(K_full + K.slot));
    }
  }
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
