// ws.cuh -- what a warpgroup that computes does with the tiles of ring.cuh. Products of a whole warpgroup run beside what
// it does next: start_ABt(C, A, B) begins C = A B^T, start_AB(C, A, B) C += A B, products_wait ends them. B is a tile in
// shared memory; A, the 64 rows of the warpgroup, is one of
//   held_rows<depth>   rows of a tile, in registers
//   placed_rows        rows of a tile or of P, in shared memory
//   operand_of(P)      an accumulator, rounded, in registers

//: rows_of_thread -- rows of an accumulator that one thread has a part of: 64 rows are a warpgroup's, 16 a warp's
template <i32 rows_> constexpr i32 rows_of_thread = rows_ / (32 * consumers);

//: rows_of_warp -- rows of an accumulator that one warp has, side by side
template <i32 rows_> constexpr i32 rows_of_warp = 16;

//: first_row -- the first of them
template <i32 rows_> __device__ __forceinline__ i32 first_row()
{
  return (warp_of() - 4) * 16;
}

//: row_of -- the r-th row of this thread
template <i32 rows_> __device__ __forceinline__ i32 row_of(i32 r)
{
  return (warp_of() - 4) * 16 + r * 8 + thread_id() % 32 / 4;
}

//: hold -- what comes next waits until l has been computed; ptxas, which knows of no reason, would put a wait for
// products before the exponentials that are to run beside them
__device__ __forceinline__ void hold(const rowvec<Br> &l)
{
  nap_if_negative(l.at[0] + l.at[1]); // never
}

//: hold_half -- the same until half the columns of P have been computed
template <class Acc> __device__ __forceinline__ void hold_half(const rowvec<Br> &l, const Acc &P)
{
  rowvec<Br> v(0.f); // begins as row_sum does
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C / 2; c++)
      v.at[r] += P.at[r][c];
  hold(l + v);
}

//: descriptor -- how a product finds a tile: address, strides, 128-byte swizzle
// [Matrix-descriptor: start address, leading dimension byte offset, stride dimension byte offset, swizzle mode]
struct descriptor {
  u32 start, rest;
  __device__ __forceinline__ descriptor(u32 address, u32 leading, u32 stride)
      : start((address & 0x3ffff) >> 4 | (leading >> 4) << 16), rest(stride >> 4 | 1u << 30)
  {
  }
  // The same, `bytes` further on.
  __device__ __forceinline__ u64 at(u32 bytes) const { return u64(rest) << 32 | (start + (bytes >> 4)); }
};

//: own_rows -- this warp's 16 rows of a tile of 64, columns x to x + 15$(halves and "; `again`: columns of the first box that are in the second, too" or "")
__device__ __forceinline__ quad own_rows(u32 place, i32 x$(halves and ", i32 again = 0" or ""))
{
  const i32 lane = thread_id() % 32, row = warp_of() % 4 * 16 + lane % 16;
  return ldmatrix(place + x / 64 * box_bytes<64> + row * 128 + ((x % 64 / 8$(halves and " + (x < 64 ? 0 : again / 8)" or "") + lane / 16) ^ row % 8) * 16);
}

//: held_rows
template <i32 depth$(halves and ", i32 again = 0" or "")> struct held_rows {
  static constexpr i32 steps = depth / 16;
  quad part[steps];
  __device__ __forceinline__ explicit held_rows(u32 place)
  {
#pragma unroll
    for (i32 k = 0; k < steps; k++)
      part[k] = own_rows(place, 16 * k$(halves and ", again" or ""));
  }
  __device__ __forceinline__ const quad &at(i32 k) const { return part[k]; }
};

//: placed_rows -- 8 rows are 1024 bytes
template <i32 depth$(halves and ", i32 again = 0" or "")> struct placed_rows {
  static constexpr i32 steps = depth / 16;
  descriptor rows;
  __device__ __forceinline__ explicit placed_rows(u32 place) : rows(place, 16, 1024) {}
  __device__ __forceinline__ u64 at(i32 k) const { return rows.at(k / 4 * box_bytes<64> + k % 4 * 32$(halves and " + (k < 4 ? 0 : 2 * again)" or "")); }
};

//: query -- Q as the left operand of S = Q K^T
typedef $(Q_held and "held_rows" or "placed_rows")<Dp> query;

//: start_ABt -- of B the rows are the contiguous ones: 8 of them are 1024 bytes, 16 columns 32
template <class Acc, class Left> __device__ __forceinline__ void start_ABt(Acc &C, const Left &A, u32 B)
{
  const descriptor b(B, 16, 1024);
  products_fence();
#pragma unroll
  for (i32 k = 0; k < Left::steps; k++)
    wgmma<0>(C.at, A.at(k), b.at(k / 4 * box_bytes<Acc::columns> + k % 4 * 32), k > 0);
  products_commit();
}

//: start_AB -- of B the columns are: 64 of them to a box, 8 rows are 1024 bytes
% if P_shared then
// Products are the whole warpgroup's, and may read any row of P: each thread has put a fence behind what it laid, and
// all 128 meet before the first product. Their barrier is one that no turn uses, another for each warpgroup.
% end
template <class Acc, class Left> __device__ __forceinline__ void start_AB(Acc &C, const Left &A, u32 B)
{
  const descriptor b(B, box_bytes<16 * Left::steps>, 1024);
% if P_shared then
  named_sync(1 + consumers + A.me, 128);
% end
  products_fence();
#pragma unroll
  for (i32 k = 0; k < Left::steps; k++)
    wgmma<1>(C.at, A.at(k), b.at(k * 2048), true);
  products_commit();
}

//: warp_ABt -- C = A B^T of this warp's rows alone, by products of a warp, which need no other one's company
template <i32 depth, class Acc> __device__ __forceinline__ void warp_ABt(Acc &C, u32 A, u32 B)
{
  const i32 lane = thread_id() % 32, row = lane / 16 * 8 + lane % 8; // of B: 8 rows and 8, of each two chunks
  C = {};
#pragma unroll 1
  for (i32 x = 0; x < depth; x += 16) {
    const quad a = own_rows(A, x);
#pragma unroll
    for (i32 j = 0; j < Acc::columns; j += 16) {
      const quad b = ldmatrix(B + x / 64 * box_bytes<Acc::columns> + (j + row) * 128 + ((x % 64 / 8 + lane / 8 % 2) ^ lane % 8) * 16);
#pragma unroll
      for (i32 n = 0; n < 2; n++) {
        const i32 at = j / 4 + 2 * n;
        mma_$(dtype)(C.at[0][at], C.at[0][at + 1], C.at[1][at], C.at[1][at + 1], a, b.at[2 * n], b.at[2 * n + 1]);
      }
    }
  }
  warp_sync(); // all lanes have read B
}

//: weights -- P as products read it
% if P_shared then
struct weights : placed_rows<Bc> {
  i32 me; // the warpgroup whose rows they are
  __device__ __forceinline__ explicit weights(i32 me_) : placed_rows<Bc>(P_place(me_)), me(me_) {}
};
% else
struct weights : operand<Br, Bc> {
  __device__ __forceinline__ explicit weights(i32) {}
  __device__ __forceinline__ const quad &at(i32 k) const { return part[k][0]; }
};
% end

//: set_weights -- P = S, rounded
% if P_shared then
// A warp lays its 16 rows, after its wait for the products that read the last P. These were one group of the whole
// warpgroup: past that wait nobody's rows are read any more, so the warps need not meet here, and what products have
// done with shared memory by then needs no fence [wgmma.wait_group, Async Proxy]
% end
% if has.drop then
// Some are dropped.
template <class Acc, class Tile> __device__ __forceinline__ void set_weights(weights &P, const Acc &S, const Tile &t)
% else
template <class Acc> __device__ __forceinline__ void set_weights(weights &P, const Acc &S)
% end
{
% if P_shared then
  const i32 lane = thread_id() % 32, row = warp_of() % 4 * 16 + lane % 16;
  const u32 first = P_place(P.me) + row * 128 + (lane / 16 ^ row % 8) * 16; // places begin at 1024 bytes
%  if has.drop then
  auto x = operand_of(S);
  drop_packed(x, t.at.drops, t.j0);
%  else
  const auto x = operand_of(S);
%  end
#pragma unroll
  for (i32 k = 0; k < x.steps; k++) {
    const quad &a = x.part[k][0];
    stmatrix((first ^ k % 4 * 32) + k / 4 * box_bytes<64>, a.at[0], a.at[1], a.at[2], a.at[3]);
  }
  copies_fence();
% else
  (operand<Br, Bc> &)P = operand_of(S);
%  if has.drop then
  drop_packed((operand<Br, Bc> &)P, t.at.drops, t.j0);
%  end
% end
}

//: store_from -- 64 rows of an accumulator, from i0 on, to a tensor. A warp lays its 16 rows where its rows of Q lay and
// has them copied from there$(stores_later and "" or "; the first lane returns when they have been read")
template <class Acc>
__device__ __forceinline__ void store_from(u32 place, const Acc &O, const tensor_map &to, const sequence &at, i32 i0$(stores_tails and ", const stored_rows &rows_to, i32 of_batch" or ""))
{
  constexpr i32 boxes_ = (Acc::columns + 63) / 64;
  const i32 first = warp_of() % 4 * 16, lane = $(storing_lane), row = first + lane % 16;
#pragma unroll
  for (i32 n = 0; n < boxes_ * 8; n += 2) {
    const u32 chunk = place + n / 8 * box_bytes<64> + row * 128 + ((n % 8 + lane / 16) ^ row % 8) * 16;
    u32 x[4];
#pragma unroll
    for (i32 y = 0; y < 4; y++)
      x[y] = 2 * n + y / 2 * 2 < Acc::C ? pack_$(dtype)(O.at[y % 2][2 * n + y / 2 * 2], O.at[y % 2][2 * n + y / 2 * 2 + 1]) : 0;
    if (8 * n < Acc::columns)
      stmatrix(chunk, x[0], x[1], x[2], x[3]);
  }
  copies_fence();
  warp_sync();
% if stores_tails then
  if (rows_to.n - of_batch < 64)
    store_tail<Acc::columns>(place, rows_to, of_batch);
  else
% end
  if (lane == 0) {
#pragma unroll
    for (i32 x = 0; x < boxes_; x++)
      store_box(to, $(slices > 1 and "at.v0 + " or "")64 * x, $(rows_of_Q("at", "i0 + first")), place + x * box_bytes<64> + first * 128);
    store_commit();
% if not stores_later then
    store_wait();
% end
  }
}

//: free_place -- that of rows of Q, once this warp's rows of O have been copied from it; none where it is negative
__device__ __forceinline__ void free_place(i32 own)
{
  if (own >= 0 && thread_id() % 32 == 0) {
    store_wait();
    barrier_arrive(barrier_at(Q_free + own));
  }
}

//: store_rows -- rows i0.. of O, one by one. Behind it all lanes are done with what they have read, as behind store_from
template <class Acc> __device__ __forceinline__ void store_rows(const Acc &O, const place &at, i32 i0)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
    if (Acc::row(r) < at.nq - i0)
#pragma unroll
      for (i32 c = 0; c < Acc::C; c += 2)
        *(u32 *)(at.O + (i64(i0) + Acc::row(r)) * at.On + column_of(c)) = pack_$(dtype)(O.at[r][c], O.at[r][c + 1]);
  warp_sync();
}

//: store_zeros -- rows i0.. of a tensor of n rows where no key is seen
template <class Acc> __device__ __forceinline__ void store_zeros(elem *to, $(packed and "const packed_rows &" or "i64 ")stride, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
    if (Acc::row(r) < n - i0)
      for (i32 c = 0; c < Acc::C; c += 2)
        *(u32 *)(to + (i64(i0) + Acc::row(r)) * stride + column_of(c)) = 0;
}
