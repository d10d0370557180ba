// ws_parts.cuh -- heads that share K and V, parted: where there are few tiles of keys, as with one head of K and V and many of Q,
// several blocks have the same tile, each with some of the heads. Each lays its sums of dK and dV down, as its threads hold them; the last
// to end adds those of all up, in the same order whoever it is, and rounds them. A warp has 16 keys for itself, and asks nobody but the
// warps of the other blocks that have the same.

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

//: key_ends -- of 16 keys: how many parts have come to their end, and how many have laid their sums down
struct key_ends {
  i32 come, laid;
};

//: clear_ends -- nobody has yet; each block of a launch of `tiles` clears some
__device__ __forceinline__ void clear_ends(const call &a, key_ends *ends, i32 tile, i32 tiles)
{
  const i64 all = i64(a.b) * a.hk * ceil_div(a.k, Bc) * (4 * consumers$(paired and " * 2" or ""));
  for (i64 x = i64(tile) * prepare_threads + thread_id(); x < all; x += i64(tiles) * prepare_threads)
    ends[x] = {0, 0};
}

//: pinned -- sums whose products are done. Without it reads of them move ahead of the last wait, since a branch follows, and ptxas has all
// products wait for each other: 0.73 ms for 0.61 (8 heads on 1, 8,192 keys, d 128, causal, H200)
template <class Acc> __device__ __forceinline__ void pinned(Acc &sums)
{
#pragma unroll
  for (i32 c = 0; c < Acc::C; c++)
    pin(sums.at[0][c], sums.at[1][c]);
}

//: of_all_parts -- a warp's 16 rows of all parts, `step` floats apart
template <i32 columns> __device__ __forceinline__ void of_all_parts(acc<Bc, columns> &sums, const float *from, i64 step)
{
  sums = {};
#pragma unroll 1
  for (i32 x = 0; x < parts; x++, from += step) {
#pragma unroll
    for (i32 c = 0; c < columns / 4; c += 2) {
      const quad part = ((const quad *)from)[c / 2 * 32 + thread_id() % 32];
#pragma unroll
      for (i32 y = 0; y < 4; y++)
        sums.at[y / 2][c + y % 2] += __uint_as_float(part.at[y]);
    }
  }
}

//: has_all_parts -- the sums of a warp are laid down; whether all parts are: then $(paired and "its dK or dV" or "dK and dV") are the sums of all
% local these, count, keys = paired and "sums" or "dK", paired and "all_ends[2 * number + is_V]" or "all_ends[number]", paired and "own_rank() * 4 + warp_of() % 4" or "warp_of() - 4"
$(paired and "template <bool is_V, i32 columns> " or "")__device__ __forceinline__ bool has_all_parts(const call &a, key_ends *all_ends, const key_task &my, $(paired and "acc<Bc, columns> &sums" or "acc<Bc, D> &dK, acc<Bc, Dv> &dV"))
{
  const i32 Tc = ceil_div(a.k, Bc), warps = 4 * consumers;
  const i64 number = (i64(my.part / parts) * Tc + my.j0 / Bc) * warps + $(keys), step = i64(16) * (D + Dv);
  float *const first = (float *)(all_ends + i64(a.b) * a.hk * Tc * warps$(paired and " * 2" or "")) + number * parts * step$(paired and " + (is_V ? 16 * D : 0)" or ""), *const own = first + my.part % parts * step;
  pinned($(these));
% if not paired then
  pinned(dV);
% end
  lay_sums(own, $(these)$(partial and ", D" or ""));
% if not paired then
  lay_sums(own + 16 * D, dV$(partial and ", Dv" or ""));
% end
  warp_sync();
  await_last();                                         // nobody had come
  i32 before = 0;
  if (thread_id() % 32 == 0) {
    count_up(&$(count).laid);
    before = atomic_add(&$(count).come, 1);
  }
  if (shfl_first(before) < parts - 1)
    return false;
  await_count(&$(count).laid, parts);           // all have laid theirs, or are about to say so
  of_all_parts($(these), first, step);
% if not paired then
  of_all_parts(dV, first + 16 * D, step);
% end
  return true;
}
