// ws_ahead.cuh -- bwd_ws.cu's D = rowsum(dO O) and zeros for dQ beside its products, instead of in a launch of their own: two warps
// of the warpgroup that copies, which nothing else needs, make those of one tile of Q after another, drawn from a counter,
// so that nobody waits for a block that has not begun. Blocks draw their tiles of keys in the order of heads, too; who copies
// LSE and D of a head waits until all its tiles are counted as made.

//: made_of -- how many tiles of Q of a head are made
__device__ __forceinline__ i32 *made_of(i32 *counts, i32 head)
{
  return counts + 4 + head;
}

//: clear_counts -- nothing is drawn, nothing made
__device__ __forceinline__ void clear_counts(const call &a, i32 *counts)
{
  for (i32 x = thread_id(); x < 4 + a.b * a.h; x += prepare_threads)
    counts[x] = 0;
}

//: await_made -- LSE and D of a head are there for copies, and zeros of its dQ for whoever waits for those
__device__ __forceinline__ void await_made(i32 *counts, i32 head, i32 tiles)
{
  await_count(made_of(counts, head), tiles);
  device_fence();
}

//: made_place -- the record of which tile of Q lies there, or that none is left
__device__ __forceinline__ u32 made_place()
{
  return shared_address(shared_memory()) + at_made;
}

//: bring_rows -- O and dO of a drawn tile; of none left, the word alone
__device__ __forceinline__ void bring_rows(const call &a, i32 tile, i32 Tr, const tensor_map &O_map, const tensor_map &dO_map)
{
  const u32 place = shared_address(shared_memory()) + at_rows;
  put4(made_place(), u32(tile));
  if (tile < Tr * a.b * a.h) {
    const sequence at = sequence_of(a, tile / Tr);
    copy_tile<V_boxes, Br>(place, O_map, tile % Tr * Br, at.h, at.b, rows_full);
    copy_tile<V_boxes, Br>(place + V_boxes * box_bytes<Br>, dO_map, tile % Tr * Br, at.h, at.b, rows_full);
  } else {
    barrier_arrive(barrier_at(rows_full));
    barrier_arrive(barrier_at(rows_full));
  }
}

//: make_rows -- LSE and D of a tile by 64 threads, eight to a row: of a row both tiles have the same chunks in the same places
__device__ __forceinline__ void make_rows(LD_row *LD, const place &at, i32 i0)
{
  constexpr float log2e = 1.44269504088896f;
  float *const to = (float *)LD;
  const i32 x = thread_id() - 64;
  const u32 O = shared_address(shared_memory()) + at_rows, dO = O + V_boxes * box_bytes<Br>;
#pragma unroll 1
  for (i32 r = x; r < Br; r += 64)
    to[LD_tile::place(r)] = r < at.nq - i0 ? log2e * at.LSE[i64(i0) + r] : -minus_inf();
#pragma unroll 1
  for (i32 r = x / 8; r < Br; r += 8) {
    float D = 0.f;
#pragma unroll
    for (i32 box = 0; box < V_boxes; box++) {
      const u32 chunk = box * box_bytes<Br> + r * 128 + x % 8 * 16;
      D += dot_of(get16(dO + chunk), get16(O + chunk));
    }
#pragma unroll
    for (i32 lanes = 1; lanes < 8; lanes *= 2)
      D += shfl_xor(D, lanes);
    if (x % 8 == 0)
      to[Br + LD_tile::place(r)] = D;
  }
}

//: make_ahead -- what the last two warps that copy do: tiles of Q as they are drawn, until none is left
__device__ __forceinline__ void make_ahead(const call &a, float *dQ_all, LD_row *LD_all, const tensor_map &O_map,
                                           const tensor_map &dO_map, i32 *counts)
{
  const i32 Tr = ceil_div(a.q, Br), x = thread_id() - 64;
  if (x < 0)
    return;
  await_last();                                         // nothing is drawn
  i32 next = x == 0 ? atomic_add(counts + 1, 1) : 0;
  for (i32 n = 0;; n++) {
    if (x == 0) {
      bring_rows(a, next, Tr, O_map, dO_map);
      next = atomic_add(counts + 1, 1);                 // on its way meanwhile
    }
    wait(rows_full, n % 2);
    const i32 tile = i32(get4(made_place()));
    if (tile >= Tr * a.b * a.h)
      return;
    make_rows(LD_all + i64(tile) * Br, rows(a, tile / Tr), tile % Tr * Br);
    quad *const sums = (quad *)(dQ_all + i64(tile) * (Br * Ds));
#pragma unroll 1
    for (i32 y = x; y < Br * Ds / 4; y += 64)
      sums[y] = {};
    device_fence();
    warp_sync();
    release(rows_read);
    if (x == 0) {
      wait(rows_read, n % 2);
      count_up(made_of(counts, tile / Tr));
    }
  }
}
