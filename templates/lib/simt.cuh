// simt.cuh -- tiles and products on CUDA cores, in fp32.
// T threads stand as T/X groups of X lanes; a group owns R rows of a tile. A thread holds, of each of its R
// rows, C columns of S (every X-th) and E chunks of W columns of O (every X-th chunk). So a row lives inside
// one warp, and S, P and O of a row never leave it.

//: elem
typedef float elem;

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

//: Q_tile
typedef tile<Br, D, W> Q_tile;

//: K_tile
typedef tile<Bc, D, W> K_tile;

//: V_tile
typedef tile<Bc, Dp, 0> V_tile;

//: query -- Q as the left operand of a product
typedef Q_tile query;

//: ring -- the one tile of K or of V
template <class Tile> struct ring {
  Tile only;
  __device__ __forceinline__ explicit ring(void *at) : only(at) {}
  __device__ __forceinline__ Tile slot(i32) const { return only; }
};

//: flight -- which rows a tile waits for; nothing is on its way before it lands
struct flight {
  const elem *from;
  i64 stride;
  i32 i0, n, d;
};

//: depart -- rows i0.. of a matrix of n rows and d columns are meant for a tile
template <i32 d, class Tile>
__device__ __forceinline__ flight depart(Tile, const elem *from, i64 stride, i32 i0, i32 n)
{
  return {from, stride, i0, n, d};
}

//: land -- the tile is filled; what lies beyond the rows or columns of the matrix becomes 0
template <class Tile> __device__ __forceinline__ void land(Tile to, const flight &f)
{
  constexpr i32 chunks = Tile::columns / W; // of a row
#pragma unroll 4
  for (i32 x = thread_id(); x < Tile::count * chunks; x += T) {
    const i32 i = x / chunks, column = x % chunks * W;
    vec value = {};
    if (i < f.n - f.i0 && column < f.d)
      value = *(const vec *)(f.from + (i64(f.i0) + i) * f.stride + column);
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

//: weights -- P in shared memory, where the other lanes of its rows read it
typedef tile<Br, Bc, X> weights;

//: weigh -- P of a row is written and read by one warp
__device__ __forceinline__ weights weigh(const scores &S)
{
  const weights P(shared_memory() + at_P);
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 c = 0; c < C; c++)
      P.row(row_of(r))[column_of(c)] = S.at[r][c];
  warp_sync();
  return P;
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

//: load_sums -- rows i0.. of O; what lies beyond n is 0
__device__ __forceinline__ outputs load_sums(const sums_at &from, i32 i0, i32 n)
{
  outputs O = {};
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 e = 0; e < E; e++)
      if (row_of(r) < n - i0 && chunk_of(e) < Dv)
        O.at[r][e] = *(const vec *)(from.data + (i64(i0) + row_of(r)) * from.row + chunk_of(e));
  return O;
}

//: store_sums -- rows i0.. of O
__device__ __forceinline__ void store_sums(const outputs &O, const sums_at &to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 e = 0; e < E; e++)
      if (row_of(r) < n - i0 && chunk_of(e) < Dv)
        *(vec *)(to.data + (i64(i0) + row_of(r)) * to.row + chunk_of(e)) = O.at[r][e];
}

//: store_outputs -- the same into the caller's tensor
__device__ __forceinline__ void store_outputs(const outputs &O, const place &at, i32 i0)
{
  store_sums(O, {at.O, at.On}, i0, at.nq);
}

//: group -- columns of S that lie side by side in a thread
constexpr i32 group = 1;

//: get_group
__device__ __forceinline__ void get_group(float *to, const elem *from)
{
  *to = *from;
}

//: put_group
__device__ __forceinline__ void put_group(elem *to, const float *from)
{
  *to = *from;
}
