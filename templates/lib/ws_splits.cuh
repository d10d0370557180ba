// ws_splits.cuh -- fwd_ws where the keys of a row are split among blocks (N): of few tiles of Q, as a part of a prompt has behind a long
// cache, each block takes some of the keys and leaves what split.cuh merges. Tiles of K and V count from the first of a split on.

//: split_task_of -- blocks that have splits of a tile of Q stand side by side
__device__ __forceinline__ task split_task_of(const call &a, i32 block, i32 splits)
{
  const task my = task_of(a, block / splits);
  return {my.head, my.i0, block % splits};
}

//: split_range -- of the tiles of K and V that a tile of Q visits those of its split
__device__ __forceinline__ spans split_range(const call &a, const sequence &at, const task &my, i32 splits)
{
  const spans own = split_of(range(a, at, my.i0), my.split, splits, a);
  return {0, 0, own.full - own.first, own.last - own.first, own.first};
}

//: within -- of the tiles that a warpgroup's rows visit those of the split
__device__ __forceinline__ spans within(const spans &own, const spans &all)
{
  const i32 last = min(max(own.last - all.base, 0), all.last);
  return {0, 0, min(max(own.full - all.base, 0), last), last, all.base};
}

//: lay_Q -- the 64 rows of Q of a warpgroup, which are those of heads that share K and V: each warp loads its 16, a lane parts of one
// of them, and lays them as copies would. The warps meet before a product reads them
__device__ __forceinline__ void lay_Q(u32 to, const place &from, i32 i0, i32 me)
{
  constexpr i32 chunks = 4 * boxes, ahead = 8; // of a lane's half of the row, 16 bytes each; asked for at once
  const i32 lane = thread_id() % 32, r = warp_of() % 4 * 16 + lane % 16;
  const bool is_there = 64 * me + r < from.nq - i0;
  const elem *const row = from.Q + (i64(i0) + 64 * me + r) * from.Qn;
#pragma unroll
  for (i32 x0 = 0; x0 < chunks; x0 += ahead) {
    quad x[ahead];
#pragma unroll
    for (i32 n = 0; n < ahead; n++) {
      const i32 chunk = 2 * (x0 + n) + lane / 16;
      x[n] = is_there && chunk * 8 < D ? *(const quad *)(row + chunk * 8) : quad{};
    }
#pragma unroll
    for (i32 n = 0; n < ahead && x0 + n < chunks; n++) {
      const i32 chunk = 2 * (x0 + n) + lane / 16;
      put16(to + chunk / 8 * box_bytes<64> + r * 128 + (chunk % 8 ^ r % 8) * 16, x[n]);
    }
  }
  copies_fence();
  named_sync(1 + consumers + me, 128);
}

//: lay_O -- a warp's 16 rows of O_s to rows of floats in device memory, of which rows_here are there: a line of a row at once, through
// the place of its rows of Q, since a store of registers has 32 bytes of each of eight rows
template <class Acc> __device__ __forceinline__ void lay_O(const Acc &O, float *to, i32 rows_here, i32 own)
{
  constexpr i32 line = 32, lines = (Acc::columns + line - 1) / line; // floats; lines of a row
  const i32 lane = thread_id() % 32;
  float *const place = (float *)shared_memory() + (own * Q_boxes * 64 + warp_of() % 4 * 16) * line;
#pragma unroll
  for (i32 x0 = 0; x0 < lines; x0 += Q_boxes) {
    warp_sync(); // all lanes have read what lies there
#pragma unroll
    for (i32 c = x0 * line / 4; c < (x0 + Q_boxes) * line / 4 && c < Acc::C; c += 2) // of a thread 2 of 8 columns
#pragma unroll
      for (i32 r = 0; r < Acc::R; r++) {
        const i32 row = 8 * r + lane / 4, chunk = c / 2 % 4 * 2 + lane % 4 / 2; // chunks as those of tiles are
        *(float2 *)(place + c * 4 / line % Q_boxes * 64 * line + row * line + (chunk ^ row % 8) * 4 + lane % 2 * 2) = {O.at[r][c], O.at[r][c + 1]};
      }
    warp_sync();
#pragma unroll
    for (i32 x = x0; x < x0 + Q_boxes && x < lines; x++)
#pragma unroll
      for (i32 r = 0; r < 16; r += 4) {
        const i32 row = r + lane / 8, column = x * line + lane % 8 * 4;
        if (row < rows_here && column < Dv)
          *(quad *)(to + row * Dv + column) = *(const quad *)(place + x % Q_boxes * 64 * line + row * line + (lane % 8 ^ row % 8) * 4);
      }
  }
  copies_fence();
  warp_sync();
}

//: store_split -- what this warpgroup has of its rows. Rows of heads that share a tile lie as they do there
template <class Acc>
__device__ __forceinline__ void store_split(Acc &O, const rowvec<Acc::rows> &m, const rowvec<Acc::rows> &l, float c, const partials &to,
                                            const task &my, const sequence &at, i32 own)
{
  const rowvec<Acc::rows> L = end_split(O, m, l, c);
  const i64 first = i64(my.head) * at.nq + my.i0;
#pragma unroll
  for (i32 r = 0; r < L.R; r++)
    if (lane_of() == 0 && Acc::row(r) < at.nq - my.i0)
      to.L(my.split, first)[Acc::row(r)] = L.at[r];
  const i32 i = first_row<Acc::rows>();
  lay_O(O, to.O(my.split, first + i), at.nq - my.i0 - i, own);
}
