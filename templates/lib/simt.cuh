// simt.cuh -- tiles and products on CUDA cores, in fp32.
// T threads stand as T/X groups of X lanes; a group owns R rows of a tile. A thread holds, of each of its R
// rows, C columns of S (every X-th) and E chunks of W columns of O (every X-th chunk). So a row lives inside
// one warp, and S, P and O of a row never leave it.

//: row_of -- the r-th row of this thread in its tile; neighbouring groups hold neighbouring rows
__device__ __forceinline__ i32 row_of(i32 r)
{
  return thread_id() / X + r * (T / X);
}

//: lane_of -- which of the X lanes of its rows this thread is
__device__ __forceinline__ i32 lane_of()
{
  return thread_id() % X;
}

//: column_of -- the c-th column of S of this thread
__device__ __forceinline__ i32 column_of(i32 c)
{
  return lane_of() + c * X;
}

//: chunk_of -- first column of the e-th chunk of O of this thread
__device__ __forceinline__ i32 chunk_of(i32 e)
{
  return (lane_of() + e * X) * W;
}

//: vec -- W floats, moved as one
struct alignas(4 * W) vec {
  float at[W];
};

//: tile -- rows x columns in shared memory; `pad` floats behind each row spread neighbours over the banks
template <i32 rows_, i32 columns_, i32 pad_> struct tile {
  static constexpr i32 count = rows_, columns = columns_, stride = columns_ + pad_;
  float *data;
  __device__ __forceinline__ explicit tile(void *at) : data((float *)at) {}
  __device__ __forceinline__ float *row(i32 i) const { return data + i * stride; }
  __device__ __forceinline__ void *end() const { return data + count * stride; }
};

//: load_tile -- rows i0.. of a matrix of n rows and d columns; what lies beyond either becomes 0
template <i32 d, class Tile>
__device__ __forceinline__ void load_tile(Tile to, const float *from, i64 stride, i32 i0, i32 n)
{
  constexpr i32 chunks = Tile::columns / W; // of a row
#pragma unroll 4
  for (i32 x = thread_id(); x < Tile::count * chunks; x += T) {
    const i32 i = x / chunks, column = x % chunks * W;
    vec value = {};
    if (i < n - i0 && column < d)
      value = *(const vec *)(from + (i64(i0) + i) * stride + column);
    *(vec *)(to.row(i) + column) = value;
  }
}

//: scores -- a thread's part of S or P
struct scores {
  float at[R][C];
};

//: outputs -- a thread's part of O
struct outputs {
  vec at[R][E];
};

//: mma_ABt -- S += Q K^T
template <class A, class B> __device__ __forceinline__ void mma_ABt(scores &S, A Q, B K)
{
#pragma unroll 2
  for (i32 x = 0; x < D; x += W) {
    vec q[R], k[C];
#pragma unroll
    for (i32 r = 0; r < R; r++)
      q[r] = *(const vec *)(Q.row(row_of(r)) + x);
#pragma unroll
    for (i32 c = 0; c < C; c++)
      k[c] = *(const vec *)(K.row(column_of(c)) + x);
#pragma unroll
    for (i32 w = 0; w < W; w++)
#pragma unroll
      for (i32 r = 0; r < R; r++)
#pragma unroll
        for (i32 c = 0; c < C; c++)
          S.at[r][c] = fmaf(q[r].at[w], k[c].at[w], S.at[r][c]);
  }
}

//: put_scores -- P to shared memory, where the other lanes of its rows read it
template <class Tile> __device__ __forceinline__ void put_scores(Tile P, const scores &S)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 c = 0; c < C; c++)
      P.row(row_of(r))[column_of(c)] = S.at[r][c];
}

//: mma_AB -- O += P V
template <class A, class B> __device__ __forceinline__ void mma_AB(outputs &O, A P, B V)
{
#pragma unroll 1
  for (i32 j = 0; j < Bc; j += W) {
    vec p[R];
#pragma unroll
    for (i32 r = 0; r < R; r++)
      p[r] = *(const vec *)(P.row(row_of(r)) + j);
#pragma unroll
    for (i32 w = 0; w < W; w++) {
      vec v[E];
#pragma unroll
      for (i32 e = 0; e < E; e++)
        v[e] = *(const vec *)(V.row(j + w) + chunk_of(e));
#pragma unroll
      for (i32 r = 0; r < R; r++)
#pragma unroll
        for (i32 e = 0; e < E; e++)
#pragma unroll
          for (i32 u = 0; u < W; u++)
            O.at[r][e].at[u] = fmaf(p[r].at[w], v[e].at[u], O.at[r][e].at[u]);
    }
  }
}

//: scale_rows -- O = diag(f) O
__device__ __forceinline__ void scale_rows(outputs &O, const rowvec &f)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 e = 0; e < E; e++)
#pragma unroll
      for (i32 u = 0; u < W; u++)
        O.at[r][e].at[u] *= f.at[r];
}

//: load_outputs -- rows i0.. of O
__device__ __forceinline__ outputs load_outputs(const place &at, i32 i0)
{
  outputs O = {};
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 e = 0; e < E; e++)
      if (row_of(r) < at.nq - i0 && chunk_of(e) < Dv)
        O.at[r][e] = *(const vec *)(at.O + (i64(i0) + row_of(r)) * at.On + chunk_of(e));
  return O;
}

//: store_outputs -- rows i0.. of O
__device__ __forceinline__ void store_outputs(const outputs &O, const place &at, i32 i0)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 e = 0; e < E; e++)
      if (row_of(r) < at.nq - i0 && chunk_of(e) < Dv)
        *(vec *)(at.O + (i64(i0) + row_of(r)) * at.On + chunk_of(e)) = O.at[r][e];
}

//: load_rowvec -- one number a row from device memory, read by every lane of the row; 0 beyond n rows
__device__ __forceinline__ rowvec load_rowvec(const float *from, i32 i0, i32 n)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = row_of(r) < n - i0 ? from[i64(i0) + row_of(r)] : 0.f;
  return v;
}

//: store_rowvec -- one number a row to device memory, written by the first lane of the row
__device__ __forceinline__ void store_rowvec(const rowvec &v, float *to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
    if (lane_of() == 0 && row_of(r) < n - i0)
      to[i64(i0) + row_of(r)] = v.at[r];
}

//: row_finish -- the LSE of each row
__device__ __forceinline__ rowvec row_finish(const rowvec &m, const rowvec &l, float c)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = finish(m.at[r], l.at[r], c);
  return v;
}
