// ws.cuh -- what a warpgroup that computes does with the tiles of ring.cuh: products, P and O in shared memory.

//: row_of -- the r-th row of this thread in its tile
__device__ __forceinline__ i32 row_of(i32 r)
{
  return (warp_of() - 4) * 16 + r * 8 + thread_id() % 32 / 4;
}

//: hold -- what comes next waits until l has been computed; ptxas, which knows of no reason, would put a wait for
// products before the exponentials that are to run beside them
__device__ __forceinline__ void hold(const rowvec &l)
{
  nap_if_negative(l.at[0] + l.at[1]); // never
}

//: hold_half -- the same until half the columns of P have been computed
__device__ __forceinline__ void hold_half(const rowvec &l, const scores &P)
{
  rowvec v = row_fill(0.f); // begins as row_sum does
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 c = 0; c < C / 2; c++)
      v.at[r] += P.at[r][c];
  hold(plus(l, v));
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

//: own_rows -- this warp's 16 rows of Q as the left operand of a product, columns x to x + 15
__device__ __forceinline__ quad own_rows(u32 place, i32 x)
{
  const i32 lane = thread_id() % 32, row = warp_of() % 4 * 16 + lane % 16;
  return ldmatrix(place + x / 64 * box_bytes<64> + row * 128 + ((x % 64 / 8 + lane / 16) ^ row % 8) * 16);
}

//: query -- the rows of Q of a warpgroup as products read them
struct query {
% if Q == 1 then
  quad at[Dp / 16]; // in registers, a warp its 16 rows
  __device__ __forceinline__ explicit query(u32 place)
  {
#pragma unroll
    for (i32 x = 0; x < Dp; x += 16)
      at[x / 16] = own_rows(place, x);
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

//: score_again -- S = Q K^T of this warp's rows alone, by products of a warp, which need no other one's company
__device__ __forceinline__ void score_again(scores &S, u32 Q_address, u32 K_address)
{
  const i32 lane = thread_id() % 32, row = lane / 16 * 8 + lane % 8; // of K: 8 rows and 8, of each two chunks
  S = {};
#pragma unroll 1
  for (i32 x = 0; x < Dp; x += 16) {
    const quad a = own_rows(Q_address, x);
#pragma unroll
    for (i32 j = 0; j < Bc; j += 16) {
      const quad b = ldmatrix(K_address + x / 64 * box_bytes<Bc> + (j + row) * 128 + ((x % 64 / 8 + lane / 8 % 2) ^ lane % 8) * 16);
#pragma unroll
      for (i32 n = 0; n < 2; n++) {
        const i32 at = j / 4 + 2 * n;
        mma_$(dtype)(S.at[0][at], S.at[0][at + 1], S.at[1][at], S.at[1][at + 1], a, b.at[2 * n], b.at[2 * n + 1]);
      }
    }
  }
  warp_sync(); // all lanes have read K
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
  const weights x = weigh(S);
#pragma unroll
  for (i32 k = 0; k < Bc / 16; k++) {
    const quad &a = x.at[k][0];
    stmatrix((first ^ k % 4 * 32) + k / 4 * box_bytes<64>, a.at[0], a.at[1], a.at[2], a.at[3]);
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
