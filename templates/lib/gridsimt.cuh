// gridsimt.cuh -- the backward's accumulators and products on CUDA cores, in fp32: grid.cuh's verbs where T threads multiply.
// T / lanes groups of threads share the rows of an accumulator, `lanes` threads the columns of a row. A thread holds blocks of 4
// rows by 4 columns (of S also of the one or two rows, the two columns that it has): what it reads of any tile are 16 bytes, for
// four steps of a product's depth or for four of its rows or columns. Tiles are mma.cuh's, in chunks of 16 bytes: neighbours read
// rows four apart, so every four rows take the next order of chunks.

//: part -- what a thread holds of an accumulator; `lanes` threads share a row, each has chunks of `chunk` columns. `depths`
// such grids beside each other share the depth of a product, and each has a sum of its own
template <i32 rows_, i32 columns_, i32 lanes_, i32 chunk_ = 4, i32 depths_ = 1> struct part {
  static constexpr i32 rows = rows_, columns = columns_, lanes = lanes_, groups = T / depths_ / lanes_;
  static constexpr i32 R = rows_ / groups;
  static constexpr i32 C = (columns_ + chunk_ * lanes_ - 1) / (chunk_ * lanes_) * chunk_;
  static constexpr i32 block = R < 4 ? R : 4, chunk = chunk_; // rows, columns side by side
  static constexpr bool is_even = columns_ == C * lanes_; // else the last lanes have less
  float at[R][C];
  // Blocks of rows, chunks of columns: neighbours have neighbouring ones.
  static __device__ __forceinline__ i32 row_block(i32 r) { return thread_id() % (T / depths_) / lanes + r / block * groups; }
  static __device__ __forceinline__ i32 column_chunk(i32 c) { return thread_id() % lanes + c / chunk * lanes; }
  static __device__ __forceinline__ i32 row(i32 r) { return block * row_block(r) + r % block; }
  static __device__ __forceinline__ i32 column(i32 c) { return chunk * column_chunk(c) + c % chunk; }
  static __device__ __forceinline__ bool has(i32 c) { return is_even || column(c) < columns; }
};

//: S_part -- of S, P, dP and dS, transposed
typedef part<Bc, Br, lanes_S, (Br < 4 * lanes_S ? 2 : 4)> S_part;

//: S_wide -- the same while it is summed up: fewer threads have more of it, each a part of the depth
typedef part<Bc, Br, lanes_S, (Br < 4 * lanes_S ? 2 : 4), depths> S_wide;

//: dK_part
typedef part<Bc, D, lanes_K> dK_part;

//: dV_part
typedef part<Bc, Dv, lanes_K> dV_part;

//: dQ_part
typedef part<Br, D, lanes_Q> dQ_part;

//: four -- 16 bytes of a tile as numbers
struct four {
  float at[4];
};

//: get_four
__device__ __forceinline__ four get_four(u32 from)
{
  const quad x = get16(from);
  return {__uint_as_float(x.at[0]), __uint_as_float(x.at[1]), __uint_as_float(x.at[2]), __uint_as_float(x.at[3])};
}

//: chunk_view -- chunks of a tile by one address: that of a thread's first. Others lie whole blocks of rows and numbers of
// chunks further, which are powers of two and above what threads differ in: so they only flip bits of the chunk's place
template <class Tile> struct chunk_view {
  u32 base;
  __device__ __forceinline__ chunk_view(Tile from, i32 i, i32 x) : base(anew(from.chunk(i, x))) {}
  // `i` rows and `x` chunks on.
  __device__ __forceinline__ four at(i32 i, i32 x) const
  {
    constexpr i32 flips = 16 * Tile::orders - 1;
    return get_four((base ^ ((16 * x ^ 16 * Tile::order(i)) & flips)) + (16 * x & ~flips) + i * Tile::row);
  }
};

//: rows_for -- a tile as a left operand: any thread reads any row
template <class Acc, class Tile> __device__ __forceinline__ Tile rows_for(Tile from)
{
  return from;
}

//: left_rows_of -- a chunk of each of a thread's rows: four steps of depth
template <class Acc> struct left_rows_of {
  four row[Acc::R];
  template <class View> __device__ __forceinline__ void take(const View &view, i32 x)
  {
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      row[r] = view.at(r / Acc::block * Acc::block * Acc::groups + r % Acc::block, x);
  }
};

//: right_columns_of -- a chunk of each row of B that stands for one of a thread's columns: four steps of depth
template <class Acc> struct right_columns_of {
  four column[Acc::C];
  template <class View> __device__ __forceinline__ void take(const View &view, i32 x)
  {
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      column[c] = view.at(c / Acc::chunk * Acc::chunk * Acc::lanes + c % Acc::chunk, x);
  }
};

//: right_row_of -- the chunks of a row of B that stand for a thread's columns: one step of depth
template <class Acc> struct right_row_of {
  four chunk[Acc::C / 4];
  template <class View> __device__ __forceinline__ void take(const View &view, i32 j)
  {
#pragma unroll
    for (i32 e = 0; e < Acc::C / 4; e++)
      if (Acc::has(4 * e))
        chunk[e] = view.at(j, e * Acc::lanes);
  }
};

//: add_step -- C += a b^T of one step of depth
template <class Acc> __device__ __forceinline__ void add_step(Acc &C, const float (&a)[Acc::R], const right_row_of<Acc> &b)
{
#pragma unroll
  for (i32 c = 0; c < Acc::C; c++)
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      C.at[r][c] = fmaf(a[r], b.chunk[c / 4].at[c % 4], C.at[r][c]);
}

//: add_chunks -- C += A B^T over n chunks of their columns from x0 on: four steps of depth at a time, whose numbers are read
// during the four before; the last read is of the first again
template <class Acc, class TileA, class TileB>
__device__ __forceinline__ void add_chunks(Acc &C, TileA A, TileB B, i32 x0, const i32 n)
{
  const chunk_view<TileA> of_A(A, Acc::row(0), 0);
  const chunk_view<TileB> of_B(B, Acc::column(0), 0);
  left_rows_of<Acc> a;
  right_columns_of<Acc> b;
  a.take(of_A, x0);
  b.take(of_B, x0);
#pragma unroll 2
  for (i32 x = 1; x <= n; x++) {
    const left_rows_of<Acc> a_now = a;
    const right_columns_of<Acc> b_now = b;
    a.take(of_A, x0 + x % n);
    b.take(of_B, x0 + x % n);
#pragma unroll
    for (i32 w = 0; w < 4; w++)
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
#pragma unroll
        for (i32 r = 0; r < Acc::R; r++)
          C.at[r][c] = fmaf(a_now.row[r].at[w], b_now.column[c].at[w], C.at[r][c]);
  }
}

//: add_ABt -- of S and dP
template <class TileA, class TileB> __device__ __forceinline__ void add_ABt(S_part &S, TileA A, TileB B)
{
% if depths == 1 then
  add_chunks(S, A, B, 0, TileB::chunks);
% else
  constexpr i32 n = TileB::chunks / depths;
  const i32 mine = thread_id() / (T / depths);
  S_wide sum = {};
  add_chunks(sum, A, B, mine * n, n);
  block_sync();                                         // all have read the sums of the product before
  lay_part(dS_tile(shared_memory() + at_dS + mine * dS_tile::bytes), sum);
  block_sync();
#pragma unroll
  for (i32 x = 0; x < depths; x++) {
    const dS_tile from(shared_memory() + at_dS + x * dS_tile::bytes);
#pragma unroll
    for (i32 r = 0; r < S_part::R; r++)
#pragma unroll
      for (i32 c = 0; c < S_part::C; c += S_part::chunk) {
        const u32 at = from.chunk(S_part::row(r), S_part::column(c) / 4) + 4 * (S_part::column(c) % 4);
#pragma unroll
        for (i32 w = 0; w < S_part::chunk; w++)
          S.at[r][c + w] += __uint_as_float(get4(at + 4 * w));
      }
  }
% end
}

//: add_AB -- the same, where each step reads its own row of B
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void add_AB(Acc &C, TileA A, TileB B)
{
  const chunk_view<TileA> of_A(A, Acc::row(0), 0);
  const chunk_view<TileB> of_B(B, 0, Acc::column_chunk(0));
  left_rows_of<Acc> a;
  right_row_of<Acc> b;
  a.take(of_A, 0);
  b.take(of_B, 0);
#pragma unroll 2
  for (i32 x = 1; x <= TileA::chunks; x++) {
    const left_rows_of<Acc> a_now = a;
    a.take(of_A, x % TileA::chunks);
#pragma unroll
    for (i32 w = 0; w < 4; w++) {
      const right_row_of<Acc> b_now = b;
      b.take(of_B, w < 3 ? 4 * x - 3 + w : 4 * x % TileB::count);
      float now[Acc::R];
#pragma unroll
      for (i32 r = 0; r < Acc::R; r++)
        now[r] = a_now.row[r].at[w];
      add_step(C, now, b_now);
    }
  }
}

//: add_AtB -- a step of depth at a time, whose numbers are read during the one before; a thread has whole chunks of C's rows
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void add_AtB(Acc &C, TileA A, TileB B)
{
  const chunk_view<TileA> of_A(A, 0, Acc::row_block(0));
  const chunk_view<TileB> of_B(B, 0, Acc::column_chunk(0));
  four a[Acc::R / 4];
  right_row_of<Acc> b;
#pragma unroll
  for (i32 r = 0; r < Acc::R / 4; r++)
    a[r] = of_A.at(0, r * Acc::groups);
  b.take(of_B, 0);
#pragma unroll 4
  for (i32 j = 1; j <= TileB::count; j++) {
    const right_row_of<Acc> b_now = b;
    float now[Acc::R];
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      now[r] = a[r / 4].at[r % 4];
#pragma unroll
    for (i32 r = 0; r < Acc::R / 4; r++)
      a[r] = of_A.at(j % TileB::count, r * Acc::groups);
    b.take(of_B, j % TileB::count);
    add_step(C, now, b_now);
  }
}

//: lay_part -- an accumulator into a tile of its shape
template <class Acc, class Tile> __device__ __forceinline__ void lay_part(Tile to, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += Acc::chunk)
      if (Acc::has(c)) {
        const u32 at = to.chunk(Acc::row(r), Acc::column(c) / 4) + 4 * (Acc::column(c) % 4);
        if (Acc::chunk == 4)
          put16(at, {__float_as_uint(S.at[r][c]), __float_as_uint(S.at[r][c + 1]), __float_as_uint(S.at[r][c + 2]),
                     __float_as_uint(S.at[r][c + 3])});
        else
          for (i32 w = 0; w < Acc::chunk; w++)
            put4(at + 4 * w, __float_as_uint(S.at[r][c + w]));
      }
}
