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

//: Q_place -- 64 rows of Q, later of O; x counts the warpgroups of all slots
__device__ __forceinline__ u32 Q_place(i32 x)
{
  return shared_address(shared_memory()) + x * (Q_boxes * box_bytes<64>);
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

//: P_place -- where a warpgroup lays its rows of P
__device__ __forceinline__ u32 P_place(i32 me)
{
  return shared_address(shared_memory()) + at_P + me * (P_boxes * box_bytes<64>);
}

//: barrier_at -- where a barrier lies
__device__ __forceinline__ u32 barrier_at(i32 which)
{
  return shared_address(shared_memory()) + at_signals + 8 * which;
}

//: turn_place -- where it stands which tile the rows in a place of Q are of
__device__ __forceinline__ u32 turn_place(i32 x)
{
  return shared_address(shared_memory()) + at_turns + 8 * x;
}

//: put_turn -- tells it; behind the last there is head -1
__device__ __forceinline__ void put_turn(i32 x, const turn &my)
{
  put4(turn_place(x), my.head);
  put4(turn_place(x) + 4, my.i0);
}

//: get_turn -- the first lane, which later says that its warp is done here, reads for all
__device__ __forceinline__ turn get_turn(i32 x)
{
  turn my = {0, 0};
  if (thread_id() % 32 == 0)
    my = {i32(get4(turn_place(x))), i32(get4(turn_place(x) + 4))};
  return {shfl_first(my.head), shfl_first(my.i0)};
}

//: set_up -- one thread prepares the barriers. A copy arrives once; who has read it, with each of its warps
__device__ __forceinline__ void set_up()
{
  if (thread_id() == 0) {
    for (i32 x = 0; x < signals; x++)
      barrier_init(barrier_at(x), x < Q_free ? 1 : x < K_free ? 4 : 4 * consumers);
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

//: pass_by -- the n-th tile of K and V, of which the rows of this warpgroup see no key
__device__ __forceinline__ void pass_by(i32 n)
{
  const step_of<stages> at(n);
  wait(K_full + at.slot, at.parity);
  release(K_free + at.slot);
  wait(V_full + at.slot, at.parity);
  release(V_free + at.slot);
}

//: own_group -- which of the warpgroups that compute this one is. What is made of it is the same for a whole warp, and
// computed once for it, not by each thread
__device__ __forceinline__ i32 own_group()
{
  return shfl_first(warp_of() / 4 - 1);
}

//: any_of_group -- whether x holds for one of this warpgroup's threads; at a barrier that nothing else uses
__device__ __forceinline__ bool any_of_group(i32 me, bool x)
{
  return named_any(1 + 2 * consumers + me, 128, x);
}

//: first_turn -- the last warpgroup gives the first one the word
__device__ __forceinline__ void first_turn(i32 me)
{
  if (me == consumers - 1)
    named_arrive(1, 256);
}

//: hold -- what comes next waits until l has been computed; ptxas, which knows of no reason, would put a wait for
// products before the exponentials that are to run beside them
__device__ __forceinline__ void hold(const rowvec &l)
{
  nap_if_negative(l.at[0] + l.at[1]); // never
}

//: take_turn -- until the warpgroup before has given this one the word
__device__ __forceinline__ void take_turn(i32 me)
{
  named_sync(1 + me, 256);
}

//: pass_turn -- to the next warpgroup
__device__ __forceinline__ void pass_turn(i32 me)
{
  named_arrive(me == consumers - 1 ? 1 : me + 2, 256);
}

//: copy_tile -- all boxes of a tile: `rows_` rows from `row` on
template <i32 boxes_, i32 rows_>
% if slices > 1 then
__device__ __forceinline__ void copy_tile(u32 to, const tensor_map &from, i32 row, i32 head, i32 batch, i32 full,
                                          i32 column = 0)
% else
__device__ __forceinline__ void copy_tile(u32 to, const tensor_map &from, i32 row, i32 head, i32 batch, i32 full)
% end
{
  barrier_expect(barrier_at(full), boxes_ * box_bytes<rows_>);
#pragma unroll
  for (i32 x = 0; x < boxes_; x++)
    copy_box(to + x * box_bytes<rows_>, from, $(slices > 1 and "column + " or "")64 * x, row, head, batch, barrier_at(full));
}

//: operand -- how a product finds a tile: address, strides, 128-byte swizzle
// [Matrix-descriptor: start address, leading dimension byte offset, stride dimension byte offset, swizzle mode]
struct operand {
  u32 start, rest;
  __device__ __forceinline__ operand(u32 address, u32 leading, u32 stride)
      : start((address & 0x3ffff) >> 4 | (leading >> 4) << 16), rest(stride >> 4 | 1u << 30)
  {
  }
  // The same, `bytes` further on.
  __device__ __forceinline__ u64 at(u32 bytes) const { return u64(rest) << 32 | (start + (bytes >> 4)); }
};

//: query -- the rows of Q of a warpgroup as products read them
struct query {
% if Q == 1 then
  quad at[Dp / 16]; // in registers, a warp its 16 rows
  __device__ __forceinline__ explicit query(u32 place)
  {
    const i32 lane = thread_id() % 32, row = warp_of() % 4 * 16 + lane % 16;
#pragma unroll
    for (i32 x = 0; x < Dp; x += 16)
      at[x / 16] = ldmatrix(place + x / 64 * box_bytes<64> + row * 128 + ((x % 64 / 8 + lane / 16) ^ row % 8) * 16);
  }
% else
  operand rows; // in shared memory; 8 rows are 1024 bytes
  __device__ __forceinline__ explicit query(u32 place) : rows(place, 16, 1024) {}
% end
};

//: start_S -- S = Q K^T begins. Rows of K are the contiguous ones: 8 rows are 1024 bytes, 16 columns 32
__device__ __forceinline__ void start_S(scores &S, const query &Q, u32 K_address)
{
  const operand K(K_address, 16, 1024);
  products_fence();
#pragma unroll
  for (i32 x = 0; x < Dp; x += 16)
    wgmma_S(S, $(Q == 1 and "Q.at[x / 16]" or "Q.rows.at(x / 64 * box_bytes<64> + x % 64 * 2)"),
            K.at(x / 64 * box_bytes<Bc> + x % 64 * 2), x > 0);
  products_commit();
}

//: laid_weights -- P of a warpgroup in shared memory, as products read Q
struct laid_weights {
  i32 me;
  operand rows;
  __device__ __forceinline__ explicit laid_weights(i32 me_) : me(me_), rows(P_place(me_), 16, 1024) {}
};

//: lay -- P = S, rounded; a warp lays its 16 rows, after its wait for the products that read the last P. These were one
// group of the whole warpgroup: past that wait nobody's rows are read any more, so the warps need not meet here, and
// what products have done with shared memory by then needs no fence [wgmma.wait_group, Async Proxy]
__device__ __forceinline__ void lay(const laid_weights &P, const scores &S)
{
  const i32 lane = thread_id() % 32, row = warp_of() % 4 * 16 + lane % 16;
  const u32 first = P_place(P.me) + row * 128 + (lane / 16 ^ row % 8) * 16; // places begin at 1024 bytes
#pragma unroll
  for (i32 n = 0; n < Bc / 8; n += 2) {
    u32 x[4];
#pragma unroll
    for (i32 y = 0; y < 4; y++) // rows g and g + 8 of the left 8 columns, then of the right
      x[y] = pack_$(dtype)(S.at[y % 2][2 * n + y / 2 * 2], S.at[y % 2][2 * n + y / 2 * 2 + 1]);
    stmatrix((first ^ n % 8 * 16) + n / 8 * box_bytes<64>, x[0], x[1], x[2], x[3]);
  }
  copies_fence();
}

//: start_O -- O += P V begins. Of V the columns are contiguous: 64 of them to a box, 8 rows are 1024 bytes
% if S == 1 then
// Products are the whole warpgroup's, and may read any row of P: each thread has put a fence behind what it laid, and
// all 128 meet before the first product. Their barrier is one that no turn uses, another for each warpgroup.
% end
__device__ __forceinline__ void start_O(outputs &O, const $(S == 1 and "laid_weights" or "weights") &P, u32 V_address)
{
  const operand V(V_address, box_bytes<Bc>, 1024);
% if S == 1 then
  named_sync(1 + consumers + P.me, 128);
% end
  products_fence();
#pragma unroll
  for (i32 j = 0; j < Bc; j += 16)
    wgmma_O(O, $(S == 1 and "P.rows.at(j / 64 * box_bytes<64> + j % 64 * 2)" or "P.at[j / 16][0]"), V.at(j * 128));
  products_commit();
}

//: copy_K -- the n-th tile of K, when its place is free
__device__ __forceinline__ void copy_K(const tensor_map &K_map, i32 n, i32 j0, const heads &at)
{
  const step_of<stages> K(n);
  wait(K_free + K.slot, K.parity ^ 1);
  copy_tile<boxes, Bc>(K_place(K.slot), K_map, j0, at.hk, at.b, K_full + K.slot);
}

//: copy_V -- the n-th tile of V, when its place is free
__device__ __forceinline__ void copy_V(const tensor_map &V_map, i32 n, i32 j0, const heads &at)
{
  const step_of<stages> V(n);
  wait(V_free + V.slot, V.parity ^ 1);
  copy_tile<V_boxes, Bc>(V_place(V.slot), V_map, j0, at.hk, at.b, V_full + V.slot$(slices > 1 and ", at.v0" or ""));
}

//: store_outputs_from -- the 64 rows of O from i0 on. A warp lays its 16 rows where its rows of Q lay and has them copied from
// there; the first lane returns when they have been read
__device__ __forceinline__ void store_outputs_from(u32 place, const outputs &O, const tensor_map &to, const heads &at,
                                                   i32 i0)
{
  const i32 first = warp_of() % 4 * 16, lane = thread_id() % 32, row = first + lane % 16;
#pragma unroll
  for (i32 n = 0; n < V_boxes * 8; n += 2) {
    const u32 chunk = place + n / 8 * box_bytes<64> + row * 128 + ((n % 8 + lane / 16) ^ row % 8) * 16;
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
      store_box(to, $(slices > 1 and "at.v0 + " or "")64 * x, i0 + first, at.h, at.b, place + x * box_bytes<64> + first * 128);
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
