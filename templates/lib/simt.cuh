// simt.cuh -- tiles and products on CUDA cores, in fp32.
// T threads stand as T/X groups of X lanes; groups share the rows of an accumulator. A thread holds, of each of its
// rows, every X-th column of S and every X-th chunk of W columns of O. So a row lives inside one warp, and S, P and O
// of a row never leave it.

//: elem
typedef float elem;

//: rows_of_thread -- rows of an accumulator that one thread has a part of
template <i32 rows_> constexpr i32 rows_of_thread = rows_ / (T / X);

//: rows_of_warp -- rows that those of one warp lie among: all
template <i32 rows_> constexpr i32 rows_of_warp = rows_;

//: first_row -- the first of them
template <i32 rows_> __device__ __forceinline__ i32 first_row()
{
  return 0;
}

//: row_of -- the r-th row of this thread; neighbouring groups hold neighbouring rows
template <i32 rows_> __device__ __forceinline__ i32 row_of(i32 r)
{
  return thread_id() / X + r * (T / X);
}

//: lane_of -- which of the X lanes of its rows this thread is
__device__ __forceinline__ i32 lane_of()
{
  return thread_id() % X;
}

//: acc -- a thread's part of a matrix of sums: every X-th column, or every X-th chunk of W columns
template <i32 rows_, i32 columns_, i32 group_ = 1> struct acc {
  static constexpr i32 rows = rows_, columns = columns_;
  static constexpr i32 group = group_; // columns side by side
  static constexpr i32 R = rows_of_thread<rows_>, C = (columns_ + X * group_ - 1) / (X * group_) * group_;
  float at[R][C];
  static __device__ __forceinline__ i32 row(i32 r) { return row_of<rows_>(r); }
  static __device__ __forceinline__ i32 column(i32 c) { return (lane_of() + c / group * X) * group + c % group; }
};

//: sums -- an accumulator of mma_AB or mma_AtB, whose columns are those of a tile's rows: whole chunks of them
template <i32 rows_, i32 columns_> using sums = acc<rows_, columns_, W>;

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
typedef tile<Br, Dk, W> Q_tile;

//: K_tile
typedef tile<Bc, Dk, W> K_tile;

//: V_tile
typedef tile<Bc, Dp, 0> V_tile;

//: O_tile -- nothing is laid there
typedef Q_tile O_tile;

//: dO_tile
typedef tile<Br, Dp, W> dO_tile;

//: S_tile
typedef tile<Br, Bc, W> S_tile;

//: dS_tile -- transposed
typedef tile<Bc, Br, X> dS_tile;

//: left_rows -- the rows of a tile as the left operand of a product
template <class Tile> __device__ __forceinline__ Tile left_rows(Tile from)
{
  return from;
}

//: float_of
__device__ __forceinline__ float float_of(elem x)
{
  return x;
}

//: query -- Q as the left operand of S = Q K^T
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

//: mma_ABt -- C += A B^T
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void mma_ABt(Acc &S, TileA A, TileB B)
{
#pragma unroll 2
  for (i32 x = 0; x < TileB::columns; x += W) {
    vec a[Acc::R], b[Acc::C];
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      a[r] = *(const vec *)(A.row(Acc::row(r)) + x);
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      b[c] = *(const vec *)(B.row(Acc::column(c)) + x);
#pragma unroll
    for (i32 w = 0; w < W; w++)
#pragma unroll
      for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
        for (i32 c = 0; c < Acc::C; c++)
          S.at[r][c] = fmaf(a[r].at[w], b[c].at[w], S.at[r][c]);
  }
}

//: lay -- an accumulator into a tile of its shape
template <class Acc, class Tile> __device__ __forceinline__ void lay(Tile to, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      to.row(Acc::row(r))[Acc::column(c)] = S.at[r][c];
}

//: operand_of -- an accumulator as the left operand of a product: in shared memory, where the other lanes of its rows
// read it. A row is written and read by one warp
template <class Acc> __device__ __forceinline__ tile<Acc::rows, Acc::columns, X> operand_of(const Acc &S)
{
  const tile<Acc::rows, Acc::columns, X> P(shared_memory() + at_P);
  lay(P, S);
  warp_sync();
  return P;
}

//: mma_AB -- C += A B
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void mma_AB(Acc &O, TileA A, TileB B)
{
#pragma unroll 1
  for (i32 j = 0; j < TileB::count; j += W) {
    vec a[Acc::R];
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      a[r] = *(const vec *)(A.row(Acc::row(r)) + j);
#pragma unroll
    for (i32 w = 0; w < W; w++) {
      vec b[Acc::C / W];
#pragma unroll
      for (i32 e = 0; e < Acc::C / W; e++)
        b[e] = *(const vec *)(B.row(j + w) + Acc::column(e * W));
#pragma unroll
      for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
        for (i32 c = 0; c < Acc::C; c++)
          O.at[r][c] = fmaf(a[r].at[w], b[c / W].at[c % W], O.at[r][c]);
    }
  }
}

//: mma_AtB -- C += A^T B
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void mma_AtB(Acc &O, TileA A, TileB B)
{
#pragma unroll 1
  for (i32 j = 0; j < TileB::count; j++) {
    vec b[Acc::C / W];
#pragma unroll
    for (i32 e = 0; e < Acc::C / W; e++)
      b[e] = *(const vec *)(B.row(j) + Acc::column(e * W));
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++) {
      const float a = A.row(j)[Acc::row(r)];
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
        O.at[r][c] = fmaf(a, b[c / W].at[c % W], O.at[r][c]);
    }
  }
}

//: vec_of -- W columns of an accumulator
template <class Acc> __device__ __forceinline__ vec vec_of(const Acc &O, i32 r, i32 c)
{
  vec v;
#pragma unroll
  for (i32 u = 0; u < W; u++)
    v.at[u] = O.at[r][c + u];
  return v;
}

//: load_sums -- an accumulator from device memory, rows i0..; what lies beyond n is 0
template <class Acc> __device__ __forceinline__ Acc load_sums(const sums_at &from, i32 i0, i32 n)
{
  Acc O = {};
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += W)
      if (Acc::row(r) < n - i0 && Acc::column(c) < Acc::columns) {
        const vec v = *(const vec *)(from.data + (i64(i0) + Acc::row(r)) * from.row + Acc::column(c));
#pragma unroll
        for (i32 u = 0; u < W; u++)
          O.at[r][c + u] = v.at[u];
      }
  return O;
}

//: store_sums -- and back
template <class Acc> __device__ __forceinline__ void store_sums(const Acc &O, const sums_at &to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += W)
      if (Acc::row(r) < n - i0 && Acc::column(c) < Acc::columns)
        *(vec *)(to.data + (i64(i0) + Acc::row(r)) * to.row + Acc::column(c)) = vec_of(O, r, c);
}

//: store -- rows i0.. of an accumulator to a tensor of n rows
template <class Acc, class Tile>
__device__ __forceinline__ void store(const Acc &O, Tile, elem *to, i64 stride, i32 i0, i32 n)
{
  store_sums(O, {to, stride}, i0, n);
}

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
