// ws_sums.cuh -- dQ of bwd_ws.cu: products of dS and K, and the fp32 sums of all blocks in device memory. The sums of a tile
// of Q lie in blocks of 16 rows and 8 columns, each as 32 threads hold it, four numbers of a thread side by side; the blocks
// of 16 rows one behind the other.

//: share_of_dQ -- a warpgroup's part of dQ = dS K of a tile: 64 rows, and columns
% local rows, columns, turns = dQ_share == "rows", dQ_share == "columns", dQ_share == "turns"
struct share_of_dQ {
  static constexpr i32 width = $(columns and "D / consumers" or "D");
  i32 me, row, column; // the warpgroup; the first
  float *dQ_all;
  __device__ __forceinline__ share_of_dQ(i32 me_, float *all)
      : me(me_), row($(rows and "64 * me_" or "0")), column($(columns and "me_ * width" or "0")), dQ_all(all)
  {
  }
  // Whether it has one of step n.
  __device__ __forceinline__ bool is_of(i32 n) const { return n >= 0$(turns and " && n % consumers == me" or ""); }
  // Where this warp's begin.
  __device__ __forceinline__ float *sums(i32 number) const
  {
    return dQ_all + i64(number) * (Br * D) + ((row / 16 + warp_of() % 4) * (D / 8) + column / 8) * 128;
  }
};

//: dQ_part
typedef acc<Bc, share_of_dQ::width> dQ_part;

//: half_of_dQ -- where two warpgroups have the same keys: the columns of each, in whole boxes of K
template <i32 group> struct half_of_dQ {
  static constexpr i32 first = (boxes + 1) / 2 * 64, width = group == 0 ? first : D - first;
  static constexpr i32 row = 0, column = group * first;
  float *dQ_all;
  __device__ __forceinline__ float *sums(i32 number) const
  {
    return dQ_all + i64(number) * (Br * D) + (warp_of() % 4 * (D / 8) + column / 8) * 128;
  }
};

//: start_dQ -- dQ = dS K: of dS keys are the contiguous ones, of K columns
template <class Acc, class Share>
__device__ __forceinline__ void start_dQ(Acc &dQ, const Share &my, i32 n, bool is_here)
{
  const descriptor a(dS_of(n) + my.row * 128, 16, 1024), b(K_of(0) + my.column / 64 * box_bytes<64>, box_bytes<64>, 1024);
  await_full(dS_full, dS_place_of(n), is_here);
  products_fence();
#pragma unroll
  for (i32 k = 0; k < Bc / 16; k++)
    wgmma<1>(dQ.at, a.at(k / 4 * box_bytes<Br> + k % 4 * 32), b.at(k / 4 * (boxes * box_bytes<64>) + k % 4 * 2048), k > 0);
  products_commit();
}

//: add_to_sums -- a warpgroup's part of dQ to those of all blocks
% if reduces == "bulk" then
// Each warp lays its quads, and its first lane has them added from there while all go on.
% end
template <class Acc> __device__ __forceinline__ void add_to_sums(float *to, const Acc &dQ)
{
  const i32 lane = thread_id() % 32;
% if reduces == "bulk" then
  const u32 place = shared_address(shared_memory()) + at_dQ + (warp_of() - 4) * (Acc::C / 2 * 512);
  if (lane == 0)
    store_wait(); // the last have been read
  warp_sync();
#pragma unroll
  for (i32 c = 0; c < Acc::C; c += 2)
    put16(place + (c / 2 * 32 + lane) * 16, {{__float_as_uint(dQ.at[0][c]), __float_as_uint(dQ.at[0][c + 1]),
                                              __float_as_uint(dQ.at[1][c]), __float_as_uint(dQ.at[1][c + 1])}});
  copies_fence();
  warp_sync();
  if (lane == 0) {
    reduce_bulk(to, place, Acc::C / 2 * 512);
    store_commit();
  }
% else
#pragma unroll
  for (i32 c = 0; c < Acc::C; c += 2)
    reduce_add4(to + (c / 2 * 32 + lane) * 4, dQ.at[0][c], dQ.at[0][c + 1], dQ.at[1][c], dQ.at[1][c + 1]);
% end
}

//: end_dQ -- its product is done; `number`: of the tile of Q
template <class Acc, class Share>
__device__ __forceinline__ void end_dQ(const Share &my, i32 n, i32 number, const Acc &dQ)
{
  release(dS_free + dS_place_of(n).slot);
  add_to_sums(my.sums(number), dQ);
}

//: end_step -- the last products of step n: dK = dK + dS^T Q; before it, where they are to be made, dQ of the step before,
// and the next S, which is there when this returns
__device__ __forceinline__ void end_step(acc<Bc, D> &dK, const rounded<Br> &dS, i32 n)
{
  start_AB(dK, dS, Q_of(n));
}
__device__ __forceinline__ void end_step(const share_of_dQ &my, bool dS_here, i32 last_tile, acc<Bc, D> &dK,
                                         const rounded<Br> &dS, i32 n)
{
  dQ_part dQ;
  start_dQ(dQ, my, n - 1, dS_here);
  start_AB(dK, dS, Q_of(n));
  products_wait<1>();
  end_dQ(my, n - 1, last_tile, dQ);
}
% if S_early then
__device__ __forceinline__ void end_step(acc<Bc, Br> &S, const K_rows &K, bool Q_here, acc<Bc, D> &dK, const rounded<Br> &dS, i32 n)
{
  start_S(S, K, n + 1, Q_here);
  start_AB(dK, dS, Q_of(n));
  products_wait<1>();
}
__device__ __forceinline__ void end_step(const share_of_dQ &my, bool dS_here, i32 last_tile, acc<Bc, Br> &S, const K_rows &K,
                                         bool Q_here, acc<Bc, D> &dK, const rounded<Br> &dS, i32 n)
{
  dQ_part dQ;
  start_dQ(dQ, my, n - 1, dS_here);
  start_S(S, K, n + 1, Q_here);
  start_AB(dK, dS, Q_of(n));
  products_wait<2>();
  end_dQ(my, n - 1, last_tile, dQ);
  products_wait<1>();
}
% end

//: last_dQ -- of the last step, with nothing beside it
__device__ __forceinline__ void last_dQ(const share_of_dQ &my, i32 n, i32 number)
{
  dQ_part dQ;
  start_dQ(dQ, my, n, false);
  products_wait<0>();
  end_dQ(my, n, number, dQ);
}

//: clear_sums -- dQ = 0 of a tile
__device__ __forceinline__ void clear_sums(float *dQ_all, i64 number)
{
  quad *to = (quad *)(dQ_all + number * (Br * D));
  for (i32 x = thread_id(); x < Br * D / 4; x += prepare_threads)
    to[x] = {};
}

//: whole_dQ -- the sums of 64 rows
__device__ __forceinline__ acc<Bc, D> whole_dQ(const float *dQ_all, i64 number)
{
  acc<Bc, D> dQ;
  const quad *from = (const quad *)(dQ_all + number * (Br * D) + warp_of() * (D / 8 * 128)) + thread_id() % 32;
#pragma unroll
  for (i32 c = 0; c < D / 4; c += 2) {
    const quad x = from[c / 2 * 32];
#pragma unroll
    for (i32 y = 0; y < 4; y++)
      dQ.at[y / 2][c + y % 2] = __uint_as_float(x.at[y]);
  }
  return dQ;
}
