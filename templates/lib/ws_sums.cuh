// ws_sums.cuh -- dQ of bwd_ws.cu: products of dS and K, and the fp32 sums of all blocks in device memory. The sums of a tile
// of Q lie in blocks of 16 rows and 8 columns, each as 32 threads hold it, four numbers of a thread side by side; the blocks
// of 16 rows one behind the other.

//: share_of_dQ -- a warpgroup's part of dQ = dS K of a tile: 64 rows, and columns
% local rows, columns, turns = dQ_share == "rows", dQ_share == "columns", dQ_share == "turns"
struct share_of_dQ {
  static constexpr i32 width = $(columns and "D / consumers" or "D");
  i32 me, row, column; // the warpgroup; the first
  float *dQ_all;
  const row_steps &from;
  __device__ __forceinline__ share_of_dQ(i32 me_, float *all, const row_steps &from_)
      : me(me_), row($(rows and "64 * me_" or "0")), column($(columns and "me_ * width" or "0")), dQ_all(all), from(from_)
  {
  }
  // Whether it has one of step n.
  __device__ __forceinline__ bool is_of(i32 n) const { return n >= 0$(turns and " && n % consumers == me" or ""); }
  // Where this warp's begin.
  __device__ __forceinline__ float *sums(i32 n) const
  {
    return dQ_all + from.number_of(n) * (Br * D) + ((row / 16 + warp_of() % 4) * (D / 8) + column / 8) * 128;
  }
};

//: dQ_part
typedef acc<Bc, share_of_dQ::width> dQ_part;

//: start_dQ -- dQ = dS K: of dS keys are the contiguous ones, of K columns
__device__ __forceinline__ void start_dQ(dQ_part &dQ, const share_of_dQ &my, i32 n)
{
  const place_of_dS at(n);
  const descriptor a(dS_of(n) + my.row * 128, 16, 1024), b(K_of(0) + my.column / 64 * box_bytes<64>, box_bytes<64>, 1024);
  wait(dS_full + at.slot, at.parity);
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
__device__ __forceinline__ void add_to_sums(float *to, const dQ_part &dQ)
{
  const i32 lane = thread_id() % 32;
% if reduces == "bulk" then
  const u32 place = shared_address(shared_memory()) + at_dQ + (warp_of() - 4) * (dQ_part::C / 2 * 512);
  if (lane == 0)
    store_wait(); // the last have been read
  warp_sync();
#pragma unroll
  for (i32 c = 0; c < dQ_part::C; c += 2)
    put16(place + (c / 2 * 32 + lane) * 16, {{__float_as_uint(dQ.at[0][c]), __float_as_uint(dQ.at[0][c + 1]),
                                              __float_as_uint(dQ.at[1][c]), __float_as_uint(dQ.at[1][c + 1])}});
  copies_fence();
  warp_sync();
  if (lane == 0) {
    reduce_bulk(to, place, dQ_part::C / 2 * 512);
    store_commit();
  }
% else
#pragma unroll
  for (i32 c = 0; c < dQ_part::C; c += 2)
    reduce_add4(to + (c / 2 * 32 + lane) * 4, dQ.at[0][c], dQ.at[0][c + 1], dQ.at[1][c], dQ.at[1][c + 1]);
% end
}

//: end_dQ -- its product is done
__device__ __forceinline__ void end_dQ(const share_of_dQ &my, i32 n, const dQ_part &dQ)
{
  release(dS_free + place_of_dS(n).slot);
  add_to_sums(my.sums(n), dQ);
}

//: add_to_dQ -- dS K of step n, where nothing else is to be done
__device__ __forceinline__ void add_to_dQ(const share_of_dQ &my, i32 n)
{
  dQ_part dQ;
  start_dQ(dQ, my, n);
  products_wait<0>();
  end_dQ(my, n, dQ);
}

//: add_to_dK -- starts dK = dK + dS^T Q; what began before is done then: dV, and S of the next step
__device__ __forceinline__ void add_to_dK(acc<Bc, D> &dK, const rounded<Br> &dS, i32 n)
{
  const place_of_step now(n);
  start_AB(dK, dS, Q_of(n));
  products_wait<1>();
  release(dO_free + now.slot);
}

//: add_to_both -- and before that dQ = dS K of step m
__device__ __forceinline__ void add_to_both(const share_of_dQ &my, i32 m, acc<Bc, D> &dK, const rounded<Br> &dS, i32 n)
{
  dQ_part dQ;
  start_dQ(dQ, my, m);
  add_to_dK(dK, dS, n);
  end_dQ(my, m, dQ);
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
