// apart.cuh -- the loop of bwd.cu where the halves of a block have tasks of their own: the first makes S, P and dV, the second
// dP, dS and dK, both dQ. Fewer warps share S, so each has more of it and reads less of K and Q for it: at d 256 a step of 64
// rows and 64 keys reads 0.56 MB of shared memory, where it was 0.75; and one half's exponentials run beside the other's
// products. P goes to the second half rounded, as dV takes it.
//
// A half copies what it reads first: Q, LSE and D the first, dO the second, `stages` tiles ahead, when both have read what lay
// there. Barriers by name, at which one half waits and the other does not:
//   P_here   the second, until P is laid
//   dS_here  the first, until dS is
//   dO_here  the first; dO_read the second, before the next dO takes its place
//   Q_read   the first, before the next Q, LSE and D do
//   by_half  and one for each half, whose warps wait for each other
//   all_done both, when the last step is

//: P_here
constexpr i32 P_here = 1;

//: dO_here
constexpr i32 dO_here = 2;

//: dO_read
constexpr i32 dO_read = 3;

//: Q_read
constexpr i32 Q_read = 4;

//: dS_here
constexpr i32 dS_here = 5;

//: by_half
constexpr i32 by_half = 6;

//: all_done
constexpr i32 all_done = 8;

//: half_of -- which half of the block this warp belongs to
__device__ __forceinline__ i32 half_of()
{
  return shfl_first(warp_of() / (warps / 2));
}

//: half_sync -- the copies of this half for the next step are here, and what its warps wrote
template <i32 half> __device__ __forceinline__ void half_sync()
{
  copy_wait<stages - 1>();
  named_sync(by_half + half, T / 2);
}

//: apart -- what both halves know
struct apart {
  const call &a;
  float *dQ_all;
  const place &kv;
  const spans &visit;
  const row_tiles &from;
  i32 j0;
  float c;
  K_tile K;
  V_tile V;
  dS_tile P, dS;
  __device__ __forceinline__ void add_to_dQ(i32 n) const
  {
    dQ_part dQ = {};
    add_AtB(dQ, dS, K); // dQ = dS K
    reduce(shares<dQ_part>(dQ_all, from.number_of(n)), dQ);
  }
};

//: make_dV
__device__ __forceinline__ void make_dV(const apart &my)
{
  const row_tiles &from = my.from;
  const call &a = my.a;
  dV_part dV = {};
  for (i32 n = 0; n < stages; n++)
    from.send_Q(n);
  for (i32 n = 0; n < from.steps; n++) {
    half_sync<0>();
    const i32 i = from.tile_of(n), i0 = i * Br;
    const place at = rows(a, from.head_of(n));
    S_part S = {};
    add_ABt(S, rows_for<S_part>(my.K), from.Q(n)); // S^T = K Q^T
    $(score_rows)(S, a, at, i0, my.j0);
    if (is_cut(my.visit, $(listed and "n" or "i")))
      mask_rows(S, a, at, i0, my.j0);
    exp2_minus_LSE(S, from.LD(n), my.c);             // P^T = exp(S^T - LSE)
    $(weigh_rows)(S, a, at, i0, my.j0);
    lay_part(my.P, S);
    named_arrive(P_here, T);
    named_sync(dO_here, T);
    add_AB(dV, $(P_held and "left_from(S)" or "rows_for<dV_part>(my.P)"), from.dO(n)); // dV = dV + P^T dO
    named_arrive(dO_read, T);
    named_sync(dS_here, T);
    my.add_to_dQ(n);
    named_sync(Q_read, T);
    from.send_Q(n + stages);
  }
  copy_wait<0>();
  named_sync(all_done, T);
  scale_part(dV, 1.f);
  lay_part(my.V, dV);
}

//: make_dK
__device__ __forceinline__ void make_dK(const apart &my)
{
  const row_tiles &from = my.from;
  dK_part dK = {};
  for (i32 n = 0; n < stages; n++)
    from.send_dO(n);
  for (i32 n = 0; n < from.steps; n++) {
    half_sync<1>();
    named_arrive(dO_here, T);
    S_part dP = {};
    add_ABt(dP, rows_for<S_part>(my.V), from.dO(n)); // dP^T = V dO^T
    named_sync(P_here, T);
    minus_D_times(dP, my.P, from.LD(n));             // dS^T = P^T (dP^T - D)
    lay_part(my.dS, dP);
    named_sync(by_half + 1, T / 2);                  // dS^T is here
    named_arrive(dS_here, T);
    add_AB(dK, $(P_held and "left_from(dP)" or "rows_for<dK_part>(my.dS)"), from.Q(n)); // dK = dK + dS^T Q
    named_arrive(Q_read, T);
    named_sync(dO_read, T);
    from.send_dO(n + stages);
    my.add_to_dQ(n);
  }
  copy_wait<0>();
  named_sync(all_done, T);
  scale_part(dK, my.a.scale);
  lay_part(my.K, dK);
}

//: make_apart -- all that a block does
__device__ __forceinline__ void make_apart(const apart &my)
{
  await_last(); // D is here, and dQ is 0
  if (half_of() == 0) {
    depart<D>(my.K, my.kv.K, my.kv.Kn, my.j0, my.kv.nk);
    make_dV(my);
  } else {
    depart<Dv>(my.V, my.kv.V, my.kv.Vn, my.j0, my.kv.nk);
    make_dK(my);
  }
  block_sync(); // dK and dV are laid where K and V were
  store_laid<D>(my.K, my.kv.dK, my.kv.dKn, my.j0, my.kv.nk);
  store_laid<Dv>(my.V, my.kv.dV, my.kv.dVn, my.j0, my.kv.nk);
}

//: minus_D_times -- dP becomes dS = P (dP - D), of P as it lies in a tile of dP's shape
template <class Acc, class Tile> __device__ __forceinline__ void minus_D_times(Acc &dP, Tile P, LD_tile LD)
{
#pragma unroll
  for (i32 x = 0; x < Acc::C; x += 2) {
    const quad at = LD.rows(Acc::column(x));
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++) {
      const u32 pair = get4(P.chunk(Acc::row(r), Acc::first_column() / 8 + x / 2) + 4 * lane_of());
#pragma unroll
      for (i32 y = 0; y < 2; y++)
        dP.at[r][x + y] = float_of(elem(pair >> 16 * y)) * (dP.at[r][x + y] - __uint_as_float(at.at[2 * y + 1]));
    }
  }
}

//: scale_part
template <class Acc> __device__ __forceinline__ void scale_part(Acc &S, float scale)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] *= scale;
}

//: store_laid -- rows i0.. of a tile to a tensor of n rows and d columns, by all threads
template <i32 d, class Tile> __device__ __forceinline__ void store_laid(Tile from, elem *to, i64 stride, i32 i0, i32 n)
{
  constexpr i32 chunks = d / per_chunk;
  for (i32 x = thread_id(); x < Tile::count * chunks; x += T) {
    const i32 i = x / chunks, chunk = x % chunks;
    if (i < n - i0)
      *(quad *)(to + (i64(i0) + i) * stride + chunk * per_chunk) = get16(from.chunk(i, chunk));
  }
}
