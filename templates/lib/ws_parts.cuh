// ws_parts.cuh -- heads that share K and V, parted: where there are few tiles of keys, as with one head of K and V and many of Q,
// several blocks have the same tile, each with some of the heads. Each lays its sums of dK and dV down, as its threads hold them; a
// launch of its own adds those of all parts, always in the same order, and rounds them.

//: heads_ahead -- how many heads the first x parts have: as many each, or one more
__device__ __forceinline__ i32 heads_ahead(const call &a, i32 x)
{
  return x * (a.h / a.hk) / parts;
}

//: heads_of_part -- none, where there are more parts than heads
__device__ __forceinline__ i32 heads_of_part(const call &a, const key_task &my)
{
  return heads_ahead(a, my.part % parts + 1) - heads_ahead(a, my.part % parts);
}

//: part_at -- where one of the warps that compute, each with 16 keys, has its sums: dK, then dV
__device__ __forceinline__ float *part_at(const call &a, float *parts_all, i32 part, i32 j0, i32 warp)
{
  return parts_all + ((i64(part) * ceil_div(a.k, Bc) + j0 / Bc) * Bc + 16 * warp) * (D + Dv);
}

//: lay_part -- the sums of one
__device__ __forceinline__ void lay_part(const call &a, float *parts_all, const key_task &my, const acc<Bc, D> &dK, const acc<Bc, Dv> &dV)
{
  float *to = part_at(a, parts_all, my.part, my.j0, warp_of() - 4);
  lay_sums(to, dK$(partial and ", D" or ""));
  lay_sums(to + 16 * D, dV$(partial and ", Dv" or ""));
}

//: add_laid -- those that another launch has laid down
template <class Acc> __device__ __forceinline__ void add_laid(Acc &S, const float *from)
{
#pragma unroll
  for (i32 c = 0; c < Acc::C; c += 2) {
    const quad x = ((const quad *)from)[c / 2 * 32 + thread_id() % 32];
#pragma unroll
    for (i32 y = 0; y < 4; y++)
      S.at[y / 2][c + y % 2] += __uint_as_float(x.at[y]);
  }
}

//: gather_parts -- dK and dV of a tile of keys
__device__ __forceinline__ void gather_parts(const call &a, float *parts_all, const tensor_map &dK_map, const tensor_map &dV_map)
{
  const i32 Tc = ceil_div(a.k, Bc), head = i32(block_id()) / Tc, j0 = i32(block_id()) % Tc * Bc, me = warp_of() / 4;
  acc<Bc, D> dK = {};
  acc<Bc, Dv> dV = {};
  await_last();                                         // the parts are here
  for (i32 x = 0; x < parts; x++) {
    const float *from = part_at(a, parts_all, head * parts + x, j0, warp_of());
    add_laid(dK, from);
    add_laid(dV, from + 16 * D);
  }
  const sequence keys = of_keys(sequence_of(a, head * (a.h / a.hk)));
  store_scaled(V_of(me), dV, $(has.drop and "boost(a)" or "1.f"), dV_map, keys, j0 + 64 * me);
  store_scaled(K_of(me), dK, $(scale), dK_map, keys, j0 + 64 * me);
  end_stores();
}
