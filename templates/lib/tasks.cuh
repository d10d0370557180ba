// tasks.cuh -- which tile of which head a block does, and in which order.

//: task -- what one block does: a tile of Q of one head; `head` counts as sequence_of does
struct task {
  i32 head, i0;$(key_splits and "\n  i32 split;" or "")
};

//: portion -- a head, and which of its tiles
struct portion {
  i32 head, nth;
};

//: portion_of -- what a block does of `heads` heads with as many tiles each. Blocks start in the order of their numbers: as
// many heads together, which share L2, and of these their first tiles first. The last of them are as many as any: where
// few were left, SMs would wait for their long tiles
__device__ __forceinline__ portion portion_of(i32 block, i32 heads, i32 tiles, i32 together)
{
  const i32 most = min(together, heads), odd = heads % most, behind = block - tiles * odd;
  if (behind < 0)
    return {block % odd, block / odd};
  const i32 first = behind / (tiles * most) * most, x = behind - tiles * first;
  return {odd + first + x % most, x / most};
}

//: task_of -- the last tiles of Q, the longest under a causal mask, come first: short ones are left for the end
% local rows = side_by_side and "2 * Br" or "Br" -- of the tiles that are numbered
% if side_by_side then
// Two blocks of a cluster have the halves of one number's rows. One half may have none: its block copies its part of what the other
// one's rows see
% end
% if drawn then
// Of a head a longest tile takes twice the mean: where so many heads begin together, it ends before all else has
% end
__device__ __forceinline__ task task_of(const call &a, i32 block)
{
% if in_line then
% local heads = packed and "a.hk" or "a.h"
  const line<Br> rows(row_line(a));
  const portion mine = portion_of(block, $(heads), rows.all, $(drawn and "max(Z, ceil_div(2 * grid_size(), rows.all))" or "Z"));
  const i32 number = rows.all - 1 - mine.nth, b = rows.batch_of(number);
  return {b * $(heads) + mine.head, rows.tile_begin(b, number)};
}
% else
% if packed then
  const i32 Tr = ceil_div(a.q * (a.h / a.hk), Br), heads = a.b * a.hk;
% else
  const i32 Tr = ceil_div(a.q, $(rows)), heads = a.b * a.h$(slices > 1 and " * slices" or "");
% end
  const portion mine = portion_of(block, heads, Tr, $(drawn and "max(Z, ceil_div(2 * grid_size(), Tr))" or "Z"));
  return {mine.head, $(rows) * (Tr - 1 - mine.nth)$(side_by_side and " + own_rank() * Br" or "")};
}
% end

//: nth_block -- the n-th number of a block that stays: forth and back over the grid, so that who began with a
// long one ends with a short one
__device__ __forceinline__ i32 nth_block(i32 n)
{
  const i32 me = i32(block_id())$(side_by_side and " / 2" or "");
% local all = side_by_side and "(grid_size() / 2)" or "grid_size()"
  return n * $(all) + (n % 2 ? $(all) - 1 - me : me);
}

//: blocks_of -- tiles of Q of all heads; the recipe's `valid` line refuses calls that have 2^31 or more
__device__ __forceinline__ i32 blocks_of(const call &a)
{
  return $(packed and (in_line and "row_line(a).all" or "ceil_div(a.q * (a.h / a.hk), Br) * a.b") .. " * a.hk" or (in_line and "row_line(a).all" or "ceil_div(a.q, " .. (side_by_side and "2 * Br" or "Br") .. ") * a.b") .. " * a.h")$(slices > 1 and " * slices" or "");
}
