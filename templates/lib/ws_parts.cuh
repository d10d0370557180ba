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

//: gathered -- a warp's 16 rows of all parts, `step` floats apart, which another launch has laid down
template <i32 columns> __device__ __forceinline__ acc<Bc, columns> gathered(const float *from, i64 step)
{
  acc<Bc, columns> S = {};
  for (i32 x = 0; x < parts; x++, from += step) {
#pragma unroll
    for (i32 c = 0; c < columns / 4; c += 2) {
      const quad laid = ((const quad *)from)[c / 2 * 32 + thread_id() % 32];
#pragma unroll
      for (i32 y = 0; y < 4; y++)
        S.at[y / 2][c + y % 2] += __uint_as_float(laid.at[y]);
    }
  }
  return S;
}

//: gather_parts -- dK or dV of 64 keys: even blocks have the former
__device__ __forceinline__ void gather_parts(const call &a, float *parts_all, const tensor_map &dK_map, const tensor_map &dV_map)
{
  const i32 n = i32(block_id()) / 2, tile = n / consumers, me = n % consumers, Tc = ceil_div(a.k, Bc), head = tile / Tc;
  const i32 j0 = tile % Tc * Bc;
  const float *from = part_at(a, parts_all, head * parts, j0, 4 * me + warp_of());
  const i64 step = i64(Tc) * (Bc * (D + Dv));
  const sequence keys = of_keys(sequence_of(a, head * (a.h / a.hk)));
  await_last();                                         // the parts are here
  if (block_id() % 2 == 0) {
    acc<Bc, D> dK = gathered<D>(from, step);
    store_scaled(K_of(0), dK, $(scale), dK_map, keys, j0 + 64 * me);
  } else {
    acc<Bc, Dv> dV = gathered<Dv>(from + 16 * D, step);
    store_scaled(K_of(0), dV, $(has.drop and "boost(a)" or "1.f"), dV_map, keys, j0 + 64 * me);
  }
  end_stores();
}
