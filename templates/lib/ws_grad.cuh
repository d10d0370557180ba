// ws_grad.cuh -- the warpgroups of bwd_ws.cu: where tiles lie in shared memory, their copies, dS, and the sums of dQ. Each
// warpgroup that computes owns 64 keys: its rows of K and V, of S, P, dP and dS, which are transposed, and of dK and dV.
// Tiles lie as ring.cuh says; K and V in pieces of 64 rows, one for each warpgroup.

//: K_of -- 64 rows of K, later of dK
__device__ __forceinline__ u32 K_of(i32 group)
{
  return shared_address(shared_memory()) + group * (boxes * box_bytes<64>);
}

//: V_of -- 64 rows of V, later of dV
__device__ __forceinline__ u32 V_of(i32 group)
{
  return shared_address(shared_memory()) + at_V + group * (V_boxes * box_bytes<64>);
}

//: place_of_step -- of the n-th tile of Q and of dO
typedef step_of<stages> place_of_step;

//: place_of_dS -- of the n-th tile of dS
typedef step_of<dS_tiles> place_of_dS;

//: Q_of -- the n-th tile of Q
__device__ __forceinline__ u32 Q_of(i32 n)
{
  return shared_address(shared_memory()) + at_Q + place_of_step(n).slot * (boxes * box_bytes<Br>);
}

//: dO_of -- the n-th tile of dO
__device__ __forceinline__ u32 dO_of(i32 n)
{
  return shared_address(shared_memory()) + at_dO + place_of_step(n).slot * (V_boxes * box_bytes<Br>);
}

//: LD_of -- LSE and D of its rows
__device__ __forceinline__ LD_tile LD_of(i32 n)
{
  return LD_tile(shared_address(shared_memory()) + at_LD + place_of_step(n).slot * LD_tile::bytes);
}

//: dS_of -- the n-th tile of dS, a row for each row of Q: of each warpgroup one box of its 64 keys
__device__ __forceinline__ u32 dS_of(i32 n)
{
  return shared_address(shared_memory()) + at_dS + place_of_dS(n).slot * (consumers * box_bytes<Br>);
}

//: await_keys -- K and V are here
__device__ __forceinline__ void await_keys()
{
  wait(K_full, 0);
  wait(V_full, 0);
}

//: release_Q -- this warp has read the n-th tile of Q, and LSE and D of its rows
__device__ __forceinline__ void release_Q(i32 n)
{
  if (n >= 0)
    release(Q_free + place_of_step(n).slot);
}

//: row_steps -- the tiles of Q that see a tile of keys, head after head of those that share it: one step each
struct row_steps {
  spans visit; // of a head
  i32 head, count, steps, tiles; // the first head; steps of a head, of all; tiles of a head
  __device__ __forceinline__ row_steps(const call &a, const key_task &my)
      : visit(range_rows(a, sequence_of(a, my.head), my.j0)), head(my.head), count(visit.last - visit.first),
        steps(count * (a.h / a.hk)), tiles(ceil_div(a.q, Br))
  {
  }
  // Heads that are done before step n; nothing is divided where there is one.
  __device__ __forceinline__ i32 heads_before(i32 n) const { return count == steps ? 0 : i32(u32(n) / u32(count)); }
  __device__ __forceinline__ i32 head_of(i32 n) const { return head + heads_before(n); }
  __device__ __forceinline__ i32 tile_of(i32 n) const { return visit.first + n - count * heads_before(n); }
  // Among the tiles of all heads and batches.
  __device__ __forceinline__ i64 number_of(i32 n) const { return i64(head_of(n)) * tiles + tile_of(n); }
  __device__ __forceinline__ rows_at at(const call &a, i32 n) const
  {
    return {$(scored and "rows" or "sequence_of")(a, head_of(n)), tile_of(n) * Br, is_cut(visit, tile_of(n))};
  }
};

//: rows_at -- a tile of Q: its sequence, its first row, and whether a mask cuts it
struct rows_at {
  $(scored and "place" or "sequence") of;
  i32 i0;
  bool is_cut;
};

//: of_keys -- a sequence whose head is that of K and V
__device__ __forceinline__ sequence of_keys(sequence at)
{
  at.h = at.hk;
  return at;
}

//: set_up_steps -- one thread prepares the barriers: who fills a place arrives at `full`, who has read it at `free`, with
// each of its warps; a copy arrives once
__device__ __forceinline__ void set_up_steps()
{
  if (thread_id() == 0) {
    for (i32 x = 0; x < signals; x++)
      barrier_init(barrier_at(x), x < Q_free ? 1 : x < dS_free ? 4 * consumers : 4 * dS_readers);
    barrier_init_fence();
  }
  block_sync();
}

//: copy_keys -- the rows of K or of V of all warpgroups
template <i32 boxes_>
__device__ __forceinline__ void copy_keys(u32 to, const tensor_map &from, i32 j0, const sequence &at, i32 full)
{
  barrier_expect(barrier_at(full), consumers * boxes_ * box_bytes<64>);
#pragma unroll
  for (i32 w = 0; w < consumers; w++)
#pragma unroll
    for (i32 x = 0; x < boxes_; x++)
      copy_box(to + (w * boxes_ + x) * box_bytes<64>, from, 64 * x, j0 + 64 * w, at.hk, at.b, barrier_at(full));
}

//: bring_Q -- the n-th tile of Q, and LSE and D of its rows, when their place is free; `number` counts the tiles of all heads
__device__ __forceinline__ void bring_Q(const tensor_map &Q_map, const LD_row *LD_all, i32 n, const rows_at &at, i64 number)
{
  const place_of_step to(n);
  wait(Q_free + to.slot, to.parity ^ 1);
  barrier_expect(barrier_at(LD_full + to.slot), LD_tile::bytes);
  copy_bulk(LD_of(n).data, LD_all + number * Br, LD_tile::bytes, barrier_at(LD_full + to.slot));
  copy_tile<boxes, Br>(Q_of(n), Q_map, at.i0, at.of.h, at.of.b, Q_full + to.slot);
}

//: bring_dO -- the n-th tile of dO, when its place is free
__device__ __forceinline__ void bring_dO(const tensor_map &dO_map, i32 n, const rows_at &at)
{
  const place_of_step to(n);
  wait(dO_free + to.slot, to.parity ^ 1);
  copy_tile<V_boxes, Br>(dO_of(n), dO_map, at.i0, at.of.h, at.of.b, dO_full + to.slot);
}

//: produce -- one thread copies K and V, then Q with LSE and D, and dO, of each step
__device__ __forceinline__ void produce(const call &a, const LD_row *LD_all, const key_task &my, const row_steps &from,
                                        const tensor_map &Q_map, const tensor_map &K_map, const tensor_map &V_map,
                                        const tensor_map &dO_map)
{
  if (from.steps == 0)
    return;
  copy_keys<boxes>(K_of(0), K_map, my.j0, sequence_of(a, my.head), K_full);
  copy_keys<V_boxes>(V_of(0), V_map, my.j0, sequence_of(a, my.head), V_full);
  await_last();                                         // D is here
  for (i32 n = 0; n < from.steps; n++) {
    bring_Q(Q_map, LD_all, n, from.at(a, n), from.number_of(n));
    bring_dO(dO_map, n, from.at(a, n));
  }
}

//: get_chunk -- 16 bytes of device memory
__device__ __forceinline__ quad get_chunk(const elem *p)
{
  return *(const quad *)p;
}

//: rounded -- an accumulator as the left operand of a product
template <i32 columns_> struct rounded : operand<Bc, columns_> {
  __device__ __forceinline__ void round(const acc<Bc, columns_> &S) { (operand<Bc, columns_> &)*this = operand_of(S); }
  __device__ __forceinline__ const quad &at(i32 k) const { return this->part[k][0]; }
};

//: K_rows -- K as the left operand of S^T = K Q^T
typedef $(K_held and "held_rows" or "placed_rows")<Dp> K_rows;

//: V_rows -- V as that of dP^T = V dO^T
typedef $(V_held and "held_rows" or "placed_rows")<Dw> V_rows;

//: start_S
__device__ __forceinline__ void start_S(acc<Bc, Br> &S, const K_rows &K, i32 n)
{
  const place_of_step at(n);
  wait(Q_full + at.slot, at.parity);
  start_ABt(S, K, Q_of(n));
}

//: start_dP
__device__ __forceinline__ void start_dP(acc<Bc, Br> &dP, const V_rows &V, i32 n)
{
  const place_of_step at(n);
  wait(dO_full + at.slot, at.parity);
  start_ABt(dP, V, dO_of(n));
}

//: set_P -- S^T of a tile becomes P^T = exp(S^T - LSE)
__device__ __forceinline__ void set_P(acc<Bc, Br> &S, const call &a, const rows_at &at, i32 j0, i32 n)
{
  const place_of_step now(n);
  wait(LD_full + now.slot, now.parity);
  $(score_rows)(S, a, at.of, at.i0, j0);
  if (at.is_cut)
    mask_rows(S, a, at.of, at.i0, j0);
  exp2_minus_LSE(S, LD_of(n), $(c_of_call));
  weigh(S, a, at.of, at.i0, j0);
}

//: lay_dS -- the keys of a warpgroup, transposed back: a warp lays 16 columns
__device__ __forceinline__ void lay_dS(i32 n, i32 me, const rounded<Br> &x)
{
  const place_of_dS to(n);
  const i32 lane = thread_id() % 32, row = lane / 16 * 8 + lane % 8, chunk = warp_of() % 4 * 2 + lane / 8 % 2;
  const u32 first = dS_of(n) + me * box_bytes<Br> + row * 128 + (chunk ^ row % 8) * 16;
  wait(dS_free + to.slot, to.parity ^ 1);
#pragma unroll
  for (i32 k = 0; k < x.steps; k++)
    stmatrix_trans(first + k * 2048, x.at(k).at[0], x.at(k).at[1], x.at(k).at[2], x.at(k).at[3]);
  copies_fence(); // products read it
  warp_sync();
  release(dS_full + to.slot);
}

//: store_scaled -- rows i0.. of `scale` times an accumulator of 64 rows, rounded, by way of a place that nobody else reads
template <class Acc>
__device__ __forceinline__ void store_scaled(u32 place, Acc &S, float scale, const tensor_map &to, const sequence &at, i32 i0)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] *= scale;
  store_from(place, S, to, at, i0);
}
