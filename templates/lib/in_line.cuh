// in_line.cuh -- tiles of ragged batches, numbered one batch behind the other as their rows lie: grids and workspaces are as large
// as all rows need, not as the longest batch needs in each. Of 16 documents of 1024 rows on average and 4000 at most, three
// blocks in four had nothing to do.

//: line -- the tiles of R rows of a head, or of those that share K and V$(grouped and ", where `peers` lie in one" or ""). Those of batch b begin at number ends[b] / R + b:
// wherever its rows begin, their tiles end before the next one's begin, and one number at most is left over. Where each batch is
// nearly as long as the longest, all get as many numbers as that has tiles, if these are fewer
template <i32 R> struct line {
  const i32 *ends; // where the rows of each batch begin, and where the last ones end
  i64 next;
  i32 batches, longest, all; // batches; tiles of the longest; numbers
  bool is_even;
% if grouped then
  power_of_2 peers;
% end
  __device__ __forceinline__ line(const whole_tensor &cu, i32 batches_, i32 rows, i32 rows_of_all$(grouped and ", power_of_2 peers_" or ""))
      : ends(cu.data), next(cu.b), batches(batches_), longest(ceil_div(rows, R)), is_even(i64(batches_) * ceil_div(rows, R) <= rows_of_all / R + batches_)$(grouped and ", peers(peers_)" or "")
  {
    all = is_even ? batches * longest : rows_of_all / R + batches;
% if not lengths_here then
    await_last(); // lengths may come from the launch before
% end
  }
  // The number of the first tile of a batch.
  __device__ __forceinline__ i32 first(i32 b) const { return is_even ? b * longest : ends[b * next]$(grouped and " * peers" or "") / R + b; }
  // Of which batch a tile is: all threads of a warp ask for the same, and each looks at one batch in 32, then at one of those between.
  __device__ __forceinline__ i32 batch_of(i32 number) const
  {
    i32 b = 0;
    for (i32 many = batches; many > 1;) {
      const i32 step = ceil_div(many, 32), x = thread_id() % 32 * step;
      const i32 before = lanes_where(x > 0 && x < many && first(b + x) <= number);
      b += before * step;
      many = min(step, many - before * step);
    }
    return shfl_first(b); // one for the warp, as the compiler cannot know
  }
  // Its first row; behind all rows where it is left over.
  __device__ __forceinline__ i32 tile_begin(i32 b, i32 number) const
  {
    const i32 tile = number - first(b);
    return R * shfl_first(tile < 0 ? longest : min(tile, longest));
  }
};

//: lanes_where -- in how many of the 32 threads of the warp x holds
__device__ __forceinline__ i32 lanes_where(bool x)
{
  i32 sum = x;
#pragma unroll
  for (i32 lanes = 1; lanes < 32; lanes *= 2)
    sum += from_lane(sum, lanes);
  return sum;
}

//: row_line -- of Q
__device__ __forceinline__ line<Br> row_line(const call &a)
{
% if grouped then
  const power_of_2 peers(a.h / a.hk);
  return line<Br>(a.cu_q, a.b, a.q * peers, a.total_q * peers, peers);
% else
  return line<Br>(a.cu_q, a.b, a.q, a.total_q);
% end
}

//: key_line -- of K and V
__device__ __forceinline__ line<Bc> key_line(const call &a)
{
  return line<Bc>(a.cu_k, a.b, a.k, a.total_k);
}

//: row_task_of -- the tile of Q of that number among those of all heads, as workspaces count them
__device__ __forceinline__ task row_task_of(const call &a, i32 tile)
{
  const line<Br> rows(row_line(a));
  const i32 number = tile % rows.all, b = rows.batch_of(number);
  return {b * a.h + tile / rows.all, rows.tile_begin(b, number)};
}

//: first_number -- the other way: of the first tile of a head of a batch
__device__ __forceinline__ i32 first_number(const call &a, i32 head)
{
  const line<Br> rows(row_line(a));
  return shfl_first(head % a.h * rows.all + rows.first(head / a.h));
}
