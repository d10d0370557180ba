// ws.cuh -- tiles and products of warpgroups. The first warpgroup copies, the others compute: each owns 64 rows of Q,
// a warp of it 16. A tile lies in shared memory as one box after another, each of 64 columns (128 bytes) and all
// rows; within a box the 16-byte chunks of a row are permuted by the row's number modulo 8 (the 128-byte swizzle,
// which copies write and products read).

//: row_of -- the r-th row of this thread in its tile
__device__ __forceinline__ i32 row_of(i32 r)
{
  return (warp_of() - 4) * 16 + r * 8 + thread_id() % 32 / 4;
}

//: box_bytes -- of one box of a tile
template <i32 rows_> constexpr i32 box_bytes = 128 * rows_;

//: Q_place
__device__ __forceinline__ u32 Q_place(i32 slot)
{
  return shared_address(shared_memory()) + slot * (Q_boxes * box_bytes<Br>);
}

//: K_place
__device__ __forceinline__ u32 K_place(i32 slot)
{
  return shared_address(shared_memory()) + at_K + slot * (boxes * box_bytes<Bc>);
}

//: V_place
__device__ __forceinline__ u32 V_place(i32 slot)
{
  return shared_address(shared_memory()) + at_V + slot * (V_boxes * box_bytes<Bc>);
}

//: barrier_at -- where a barrier lies
__device__ __forceinline__ u32 barrier_at(i32 which)
{
  return shared_address(shared_memory()) + at_signals + 8 * which;
}

//: turn_place -- where the number of the tile of Q in a slot stands; -1 behind the last
__device__ __forceinline__ u32 turn_place(i32 slot)
{
  return shared_address(shared_memory()) + at_turns + 4 * slot;
}

//: set_up -- one thread prepares the barriers: a copy arrives once, of the consumers each warp
__device__ __forceinline__ void set_up()
{
  if (thread_id() == 0) {
    for (i32 x = 0; x < signals; x++)
      barrier_init(barrier_at(x), x < first_free ? 1 : 4 * consumers);
    barrier_init_fence();
  }
  block_sync();
}

//: step_of -- where the n-th tile of a ring lies, and the parity of the phase in which it does
template <i32 slots> struct step_of {
  i32 slot;
  u32 parity;
  __device__ __forceinline__ explicit step_of(i32 n) : slot(n % slots), parity(n / slots % 2) {}
};

//: wait
__device__ __forceinline__ void wait(i32 which, u32 parity)
{
  while (!barrier_passed(barrier_at(which), parity)) {
  }
}

//: release -- this warp has read it
__device__ __forceinline__ void release(i32 which)
{
  if (thread_id() % 32 == 0)
    barrier_arrive(barrier_at(which));
}

//: first_turn -- the last warpgroup gives the first one the word
__device__ __forceinline__ void first_turn()
{
  if (warp_of() / 4 == consumers)
    named_arrive(1, 256);
}

//: take_turn -- until the warpgroup before has given this one the word
__device__ __forceinline__ void take_turn()
{
  named_sync(warp_of() / 4, 256);
}

//: pass_turn -- to the next warpgroup
__device__ __forceinline__ void pass_turn()
{
  const i32 me = warp_of() / 4;
  named_arrive(me == consumers ? 1 : me + 1, 256);
}

//: copy_tile -- all boxes of a tile: `rows_` rows from `row` on
template <i32 boxes_, i32 rows_>
__device__ __forceinline__ void copy_tile(u32 to, const tensor_map &from, i32 row, i32 head, i32 batch, i32 full)
{
  barrier_expect(barrier_at(full), boxes_ * box_bytes<rows_>);
#pragma unroll
  for (i32 x = 0; x < boxes_; x++)
    copy_box(to + x * box_bytes<rows_>, from, 64 * x, row, head, batch, barrier_at(full));
}

//: descriptor -- how a product finds an operand: address, strides, 128-byte swizzle
// [Matrix-descriptor: start address, leading dimension byte offset, stride dimension byte offset, swizzle mode]
__device__ __forceinline__ u64 descriptor(u32 address, u32 leading, u32 stride)
{
  return u64((address & 0x3ffff) >> 4) | u64(leading >> 4) << 16 | u64(stride >> 4) << 32 | u64(1) << 62;
}

//: start_S -- S = Q K^T begins. Rows of Q and K are the contiguous ones: 8 rows are 1024 bytes, 16 columns 32
__device__ __forceinline__ void start_S(scores &S, u32 Q, u32 K)
{
  Q += (warp_of() / 4 - 1) * 64 * 128;
  products_fence();
#pragma unroll
  for (i32 x = 0; x < Dp; x += 16)
    wgmma_S(S, descriptor(Q + x / 64 * box_bytes<Br> + x % 64 * 2, 16, 1024),
            descriptor(K + x / 64 * box_bytes<Bc> + x % 64 * 2, 16, 1024), x > 0);
  products_commit();
}

//: start_O -- O += P V begins. Of V the columns are contiguous: 64 of them to a box, 8 rows are 1024 bytes
__device__ __forceinline__ void start_O(outputs &O, const weights &P, u32 V)
{
  products_fence();
#pragma unroll
  for (i32 j = 0; j < Bc; j += 16)
    wgmma_O(O, P.at[j / 16][0], descriptor(V + j * 128, box_bytes<Bc>, 1024));
  products_commit();
}

//: store_outputs_from -- rows i0.. of O. A warp lays its 16 rows where its rows of Q lay and has them copied from
// there; the first lane returns when they have been read
__device__ __forceinline__ void store_outputs_from(u32 place, const outputs &O, const tensor_map &to, const heads &at,
                                                   i32 i0)
{
  const i32 first = (warp_of() - 4) * 16, lane = thread_id() % 32, row = first + lane % 16;
#pragma unroll
  for (i32 n = 0; n < V_boxes * 8; n += 2) {
    const u32 chunk = place + n / 8 * box_bytes<Br> + row * 128 + ((n % 8 + lane / 16) ^ row % 8) * 16;
    u32 x[4];
#pragma unroll
    for (i32 y = 0; y < 4; y++)
      x[y] = 2 * n + y / 2 * 2 < E ? pack_$(dtype)(O.at[y % 2][2 * n + y / 2 * 2], O.at[y % 2][2 * n + y / 2 * 2 + 1]) : 0;
    if (8 * n < Dv)
      stmatrix(chunk, x[0], x[1], x[2], x[3]);
  }
  copies_fence();
  warp_sync();
  if (lane == 0) {
#pragma unroll
    for (i32 x = 0; x < V_boxes; x++)
      store_box(to, 64 * x, i0 + first, at.h, at.b, place + x * box_bytes<Br> + first * 128);
    store_commit();
    store_wait();
  }
}

//: store_zeros -- rows i0.. of O where no key is seen
__device__ __forceinline__ void store_zeros(const place &at, i32 i0)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
    if (row_of(r) < at.nq - i0)
      for (i32 e = 0; e < E; e += 2)
        *(u32 *)(at.O + (i64(i0) + row_of(r)) * at.On + column_of(e)) = 0;
}
