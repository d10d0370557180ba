// parts.cuh -- where accumulators of the backward go, however threads hold them: a thread has R rows and C columns of one, and
// it says which (`row`, `column`), and which columns are there (`has`).

//: store_part -- rows i0.. of `scale` times an accumulator to a tensor of n rows, rounded; through a tile that nobody else
// needs any more
template <class Acc, class Tile>
__device__ __forceinline__ void store_part(Acc &S, float scale, Tile through, elem *to, i64 stride, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] *= scale;
% if aligned == 1 then
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
    if (Acc::row(r) < n - i0) {
      elem *row = to + (i64(i0) + Acc::row(r)) * stride;
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
        if (Acc::has(c))
          row[Acc::column(c)] = elem_of(S.at[r][c]);
    }
% else
  constexpr i32 chunks = Acc::columns / per_chunk;
  lay_part(through, S);
  block_sync();
  for (i32 x = thread_id(); x < Acc::rows * chunks; x += T) {
    const i32 i = x / chunks, chunk = x % chunks;
    if (i < n - i0)
      *(quad *)(to + (i64(i0) + i) * stride + chunk * per_chunk) = get16(through.chunk(i, chunk));
  }
% end
}

//: shares -- sums of all blocks in device memory, in the order in which threads hold them: a thread's n-th lies beside
// those of its neighbours, so that a warp adds to 128 bytes side by side
template <class Acc> struct shares {
  static constexpr i32 count = Acc::R * Acc::C * T;
  float *data;
  __device__ __forceinline__ shares(float *all, i64 tile) : data(all + tile * count) {}
  __device__ __forceinline__ float *at(i32 r, i32 c) const { return data + (r * Acc::C + c) * T + thread_id(); }
};

//: clear -- all become 0
template <class Acc> __device__ __forceinline__ void clear(const shares<Acc> &all)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      *all.at(r, c) = 0.f;
}

//: reduce -- adds this block's
template <class Acc> __device__ __forceinline__ void reduce(const shares<Acc> &all, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      if (Acc::has(c))
        reduce_add(all.at(r, c), S.at[r][c]);
}

//: total -- the sums
template <class Acc> __device__ __forceinline__ Acc total(const shares<Acc> &all)
{
  Acc S;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] = *all.at(r, c);
  return S;
}
