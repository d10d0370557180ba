// ws_parts.cuh -- tiles of keys that several blocks have together, where there are few of them, as with one head of K and V and many of
// Q. Each block has some of the steps, and lays its sums of dK and dV down, as its threads hold them; the last to end adds those of all up, in
// the same order whoever it is, and rounds them. A warp has 16 keys for itself, and asks nobody but the warps of the other blocks that have the same.

//: take_part -- of the steps of a tile those of one block, two at least. Tiles that are short under a mask have as many blocks as long ones: a share
// for each, that all blocks be alike, left more idle in the last round (0.74 ms for 0.61: 8 heads on 1, 8,192 keys, d 128, causal, H200)
template <class Steps> __device__ __forceinline__ void take_part(Steps &from, const key_task &my)
{
  const i32 all = from.steps, tiles = from.visit.last - from.visit.first;
  from.blocks = max(1, min(parts, all / 2));
  from.steps = 0;
  from.first = from.visit.first;
  if (my.part < from.blocks && all > 0) {
    const i32 before = all * my.part / from.blocks;
    from.steps = all * (my.part + 1) / from.blocks - before;
    from.head += before / tiles;
    from.first += before % tiles;
  }
}

//: has_part -- whether this block is one of those
__device__ __forceinline__ bool has_part(const key_task &my, const row_steps &from)
{
  if (my.part < from.blocks)
    return true;
  await_last(); // who waits for this launch waits for the one before, too
  return false;
}

//: key_ends -- of 16 keys: how many blocks have come to their end, and how many have laid their sums down
struct key_ends {
  i32 come, laid;
};

//: all_key_tiles -- tiles of keys of all heads and batches
__device__ __forceinline__ i64 all_key_tiles(const call &a)
{
  return $(in_line and "i64(a.hk) * key_line(a).all" or "i64(a.b) * a.hk * ceil_div(a.k, Bc)");
}

//: clear_ends -- nobody has yet; each block of a launch clears some
__device__ __forceinline__ void clear_ends(const call &a, key_ends *ends)
{
  const i64 all = all_key_tiles(a) * (4 * consumers$(paired and " * 2" or ""));
  for (i64 x = i64(block_id()) * prepare_threads + thread_id(); x < all; x += i64(grid_size()) * prepare_threads)
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

//: of_all_blocks -- a warp's 16 rows of all that have them, `step` floats apart
template <i32 columns> __device__ __forceinline__ void of_all_blocks(acc<Bc, columns> &sums, const float *from, i64 step, i32 blocks)
{
  sums = {};
#pragma unroll 1
  for (i32 x = 0; x < blocks; x++, from += step) {
#pragma unroll
    for (i32 c = 0; c < columns / 4; c += 2) {
      const quad part = ((const quad *)from)[c / 2 * 32 + thread_id() % 32];
#pragma unroll
      for (i32 y = 0; y < 4; y++)
        sums.at[y / 2][c + y % 2] += __uint_as_float(part.at[y]);
    }
  }
}

//: has_all_sums -- the sums of a warp are laid down; whether those of all blocks are: then $(paired and "its dK or dV" or "dK and dV") are the sums of all
% local these, count, keys = paired and "sums" or "dK", paired and "all_ends[2 * number + is_V]" or "all_ends[number]", paired and "own_rank() * 4 + warp_of() % 4" or "warp_of() - 4"
% local own = paired and "acc<Bc, columns> &sums" or "acc<Bc, D> &dK, acc<Bc, Dv> &dV"
$(paired and "template <bool is_V, i32 columns> " or "")__device__ __forceinline__ bool has_all_sums(const call &a, key_ends *all_ends, const key_task &my, const row_steps &from, $(own))
{
  if (from.blocks == 1)
    return true;
  const i32 warps = 4 * consumers;
  const i64 number = i64(my.number) * warps + $(keys), step = i64(16) * (D + Dv);
  float *const first = (float *)(all_ends + all_key_tiles(a) * warps$(paired and " * 2" or "")) + number * parts * step$(paired and " + (is_V ? 16 * D : 0)" or ""), *const own = first + my.part * step;
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
  if (shfl_first(before) < from.blocks - 1)
    return false;
  await_count(&$(count).laid, from.blocks);     // all have laid theirs, or are about to say so
  of_all_blocks($(these), first, step, from.blocks);
% if not paired then
  of_all_blocks(dV, first + 16 * D, step, from.blocks);
% end
  return true;
}
