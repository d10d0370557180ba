// split.cuh -- the keys of a row cut into splits, each of them another block's, for calls whose tiles of Q leave SMs idle.
// What a block then has of a row is partial: O_s = P V / l, and L_s, the logarithm of l by its true origin, in base 2. A
// second launch merges: m = max L_s, l = sum of 2^(L_s - m), O = sum of 2^(L_s - m) O_s / l.

//: partials -- in the workspace, of all rows of all heads: O_s split after split, then L_s
struct partials {
  float *data;
  i64 rows;   // of all heads and batches
  i32 splits;
  __device__ __forceinline__ partials(const call &a, float *data_, i32 splits_)
      : data(data_), rows(i64(a.b) * a.h * a.q), splits(splits_)
  {
  }
  __device__ __forceinline__ float *O(i32 s, i64 row) const { return data + (s * rows + row) * Dv; }
  __device__ __forceinline__ float *L(i32 s, i64 row) const { return data + splits * rows * Dv + s * rows + row; }
};

//: split_of -- of the tiles that rows visit, those of split s
__device__ __forceinline__ spans split_of(const spans &all, i32 s, i32 splits, const call &a)
{
% if split == "by keys" then
  const i32 tiles = a.split / Bc, lo = s * tiles, hi = lo + tiles; // the same keys, whatever rows see
% else
  const i32 tiles = ceil_div(all.last - all.first, splits), lo = all.first + s * tiles, hi = lo + tiles;
% end
  const i32 first = min(max(all.first, lo), all.last), last = min(max(hi, first), all.last);
  return {first, min(max(all.free, first), last), min(max(all.full, first), last), last};
}

//: store_partial -- what this block has of its rows; of one that sees no key here, L = -inf
template <class Acc>
__device__ __forceinline__ void store_partial(Acc &O, const rowvec<Acc::rows> &m, const rowvec<Acc::rows> &l, float c,
                                              const partials &to, const task &my, const sequence &at)
{
  overlap_next();
  const i32 s = i32(block_id()) % to.splits;
  const i64 first = i64(my.head) * at.nq; // row of the head
  rowvec<Acc::rows> factor, L;
#pragma unroll
  for (i32 r = 0; r < m.R; r++) {
    factor.at[r] = inverse(l.at[r]);
    L.at[r] = fmaf(c, m.at[r], lg2(l.at[r]));
  }
  scale_rows(O, factor);
% if packed then
  store_sums(O, {to.O(s, first), {at.peers * Dv, Dv, at.peers}}, my.i0, at.nq);
  store_rowvec(L, {to.L(s, first), {at.peers, 1, at.peers}}, my.i0, at.nq);
% else
  store_sums(O, {to.O(s, first), Dv}, my.i0, at.nq);
  store_rowvec(L, to.L(s, first), my.i0, at.nq);
% end
}

//: merge_row -- one row by a block: its warps take the splits in turns, then each column is one thread's. Sums have one
// order, whatever a row's neighbours are, and a split without keys changes no bit of them
__device__ __forceinline__ void merge_row(const call &a, const partials &from, i64 row)
{
  constexpr i32 chunks = (Dv + 127) / 128, by = 4; // of 4 columns for each lane; warps
  const i32 warp = thread_id() / 32, lane = thread_id() % 32;
  await_last(); // all O_s and L_s are here
  float m = minus_inf();
  for (i32 s = lane; s < from.splits; s += 32)
    m = fmaxf(m, *from.L(s, row));
#pragma unroll
  for (i32 lanes = 1; lanes < 32; lanes *= 2)
    m = fmaxf(m, shfl_xor(m, lanes));

  float l = 0.f, O[chunks][4] = {};
#pragma unroll 4
  for (i32 s = warp; s < from.splits; s += by) {
    const float f = ex2(*from.L(s, row) - origin(m));
    l += f;
#pragma unroll
    for (i32 x = 0; x < chunks; x++)
      if (128 * x + 4 * lane < Dv) {
        const quad part = *(const quad *)(from.O(s, row) + 128 * x + 4 * lane);
#pragma unroll
        for (i32 y = 0; y < 4; y++)
          O[x][y] = fmaf(f, __uint_as_float(part.at[y]), O[x][y]);
      }
  }
  float *sums = (float *)shared_memory(), *own = sums + warp * (Dv + 1);
  if (lane == 0)
    own[Dv] = l;
#pragma unroll
  for (i32 x = 0; x < chunks; x++)
#pragma unroll
    for (i32 y = 0; y < 4; y++)
      if (128 * x + 4 * lane < Dv)
        own[128 * x + 4 * lane + y] = O[x][y];
  block_sync();

  const i32 head = i32(row / $(packed and "(i64(a.q) * (a.h / a.hk))" or "a.q"));
  const place at = rows(a, head);
  const i64 i = row - i64(head) * at.nq;
  l = 0.f;
#pragma unroll
  for (i32 x = 0; x < by; x++)
    l += sums[x * (Dv + 1) + Dv];
  const ending end = end_row(m, l, 1.f$(has.sink and ", " .. (packed and "at.sink[i]" or "*at.sink") or ""));
  for (i32 column = thread_id(); column < Dv; column += 32 * by) {
    float sum = 0.f;
#pragma unroll
    for (i32 x = 0; x < by; x++)
      sum += sums[x * (Dv + 1) + column];
    at.O[i * at.On + column] = elem_of(end.factor * sum);
  }
  if (at.LSE && thread_id() == 0)
    at.LSE[i] = end.LSE;
}
