// grad.cuh -- what the backward needs beside products: LSE and D of rows, what becomes of S^T and dP^T, and which tiles a
// block visits. S, P, dP and dS are transposed, a row for each key.

//: LD_row -- of one row of Q: log2(e) LSE, and D = rowsum(dO O). Beyond the last row of a tile LSE is inf, so that P is 0
typedef float2 LD_row;

//: LD_tile -- those of the rows of a tile
struct LD_tile {
  static constexpr i32 bytes = 8 * Br;
  u32 data;
  __device__ __forceinline__ explicit LD_tile(u32 address) : data(address) {}
  // Of two rows side by side: LSE, D, LSE, D.
  __device__ __forceinline__ quad rows(i32 i) const { return get16(data + 8 * i); }
};

//: dot_of -- of 16 bytes of two matrices
__device__ __forceinline__ float dot_of(const quad &a, const quad &b)
{
  union {
    quad whole;
    elem part[per_chunk];
  } x = {a}, y = {b};
  float sum = 0.f;
#pragma unroll
  for (i32 i = 0; i < per_chunk; i++)
    sum = fmaf(float_of(x.part[i]), float_of(y.part[i]), sum);
  return sum;
}

//: make_LD -- LSE and D of the rows of a tile, eight lanes to a row
__device__ __forceinline__ void make_LD(LD_row *to, const place &at, i32 i0)
{
  constexpr float log2e = 1.44269504088896f;
  for (i32 r = thread_id() / 8; r < Br; r += T / 8) {
    const bool real = r < at.nq - i0;
    const i64 i = i64(i0) + r;
    float D = 0.f;
    for (i32 x = thread_id() % 8; real && x < Dv / per_chunk; x += 8)
      D += dot_of(get_chunk(at.dO + i * at.dOn + x * per_chunk), get_chunk(at.O + i * at.On + x * per_chunk));
#pragma unroll
    for (i32 lanes = 1; lanes < 8; lanes *= 2)
      D += shfl_xor(D, lanes);
    if (thread_id() % 8 == 0)
      to[r] = {real ? log2e * at.LSE[i] : -minus_inf(), D};
  }
}

//: exp2_minus_LSE -- S becomes P = 2^(c S - log2(e) LSE)
template <class Acc> __device__ __forceinline__ void exp2_minus_LSE(Acc &S, LD_tile LD, float c)
{
#pragma unroll
  for (i32 x = 0; x < Acc::C; x += 2) {
    const quad at = LD.rows(Acc::column(x));
    const float L[2] = {__uint_as_float(at.at[0]), __uint_as_float(at.at[2])};
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
      for (i32 y = 0; y < 2; y++)
        S.at[r][x + y] = ex2(fmaf(c, S.at[r][x + y], -L[y]));
  }
}

//: times_dP_minus_D -- P becomes dS = P (dP - D)
template <class Acc> __device__ __forceinline__ void times_dP_minus_D(Acc &P, const Acc &dP, LD_tile LD)
{
#pragma unroll
  for (i32 x = 0; x < Acc::C; x += 2) {
    const quad at = LD.rows(Acc::column(x));
    const float D[2] = {__uint_as_float(at.at[1]), __uint_as_float(at.at[3])};
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
      for (i32 y = 0; y < 2; y++)
        P.at[r][x + y] *= dP.at[r][x + y] - D[y];
  }
}

//: slots -- tiles one behind the other; step n uses tile n % count
template <class Tile, i32 count> struct slots {
  u32 data;
  __device__ __forceinline__ explicit slots(void *p) : data(shared_address(p)) {}
  __device__ __forceinline__ Tile slot(i32 n) const { return Tile(data + u32(n) % count * Tile::bytes); }
};

//: key_task -- what one block does: a tile of K and V for all query heads that share it, of which `head` is the first
struct key_task {
  i32 head, j0;
};

//: key_task_of -- blocks start in the order of their numbers: Z heads of K and V together, of these the first tiles, which
// the most rows see under a causal mask, first
__device__ __forceinline__ key_task key_task_of(const call &a, i32 block)
{
  const i32 Tc = ceil_div(a.k, Bc), heads = a.b * a.hk, most = min(Z, heads);
  const i32 first = block / (Tc * most) * most, x = block - Tc * first;
  const i32 together = min(most, heads - first);
  return {(first + x % together) * (a.h / a.hk), Bc * (x / together)};
}

//: row_tiles -- the tiles of Q that see a tile of keys, head after head, with dO, LSE and D of their rows: one step each.
// `stages` of them lie in shared memory; copies are groups, one a step, empty beyond the last
struct row_tiles {
  const call &a;
  const LD_row *LD_all;
  i32 head, first, count, steps; // the first query head; the first tile, how many, of all heads
  __device__ __forceinline__ row_tiles(const call &a_, i32 head_, const spans &visit, const LD_row *LD_all_)
      : a(a_), LD_all(LD_all_), head(head_), first(visit.first), count(visit.last - visit.first), steps(count * (a_.h / a_.hk))
  {
  }
  __device__ __forceinline__ i32 head_of(i32 n) const { return head + i32(u32(n) / u32(count)); }
  __device__ __forceinline__ i32 tile_of(i32 n) const { return first + i32(u32(n) % u32(count)); }
  // Among the tiles of all heads and batches.
  __device__ __forceinline__ i64 number_of(i32 n) const { return i64(head_of(n)) * ceil_div(a.q, Br) + tile_of(n); }
  __device__ __forceinline__ Q_tile Q(i32 n) const { return slots<Q_tile, stages>(shared_memory() + at_Q).slot(n); }
  __device__ __forceinline__ dO_tile dO(i32 n) const { return slots<dO_tile, stages>(shared_memory() + at_dO).slot(n); }
  __device__ __forceinline__ LD_tile LD(i32 n) const { return slots<LD_tile, stages>(shared_memory() + at_LD).slot(n); }
};

//: row_flight -- the tiles of a step on their way
struct row_flight {
  flight<Q_tile> Q;
  flight<dO_tile> dO;
% if travels then
  quad LD;
% end
};

//: depart_rows -- those of step n set out
__device__ __forceinline__ row_flight depart_rows(const row_tiles &from, i32 n)
{
  row_flight f = {};
  if (n < from.steps) {
    const i32 i0 = from.tile_of(n) * Br;
    const place at = rows(from.a, from.head_of(n));
    const quad *LD = (const quad *)(from.LD_all + from.number_of(n) * Br) + thread_id();
% if travels then
    f.Q = depart<D>(from.Q(n), at.Q, at.Qn, i0, at.nq);
    f.dO = depart<Dv>(from.dO(n), at.dO, at.dOn, i0, at.nq);
    if (thread_id() < Br / 2)
      f.LD = *LD;
% else
    send<D>(from.Q(n), at.Q, at.Qn, i0, at.nq);
    send<Dv>(from.dO(n), at.dO, at.dOn, i0, at.nq);
    if (thread_id() < Br / 2)
      copy_async(from.LD(n).data + 16 * thread_id(), LD, true);
% end
  }
% if not travels then
  copy_commit();
% end
  return f;
}

//: land_rows -- those of step n are here, this thread's share of them
% if travels then
__device__ __forceinline__ void land_rows(const row_tiles &to, i32 n, const row_flight &f)
{
  land(to.Q(n), f.Q);
  land(to.dO(n), f.dO);
  if (thread_id() < Br / 2)
    put16(to.LD(n).data + 16 * thread_id(), f.LD);
}
% else
__device__ __forceinline__ void land_rows(const row_tiles &, i32, const row_flight &)
{
  copy_wait<(stages > 2 ? stages - 2 : 0)>();
}
% end

//: overlap_next -- the launch behind may begin, where it overlaps
__device__ __forceinline__ void overlap_next()
{
% if overlaps then
  launch_next();
% end
}

//: await_last -- what the launch before wrote is here
__device__ __forceinline__ void await_last()
{
% if overlaps then
  launch_wait();
% end
}
