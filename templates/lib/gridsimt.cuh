// gridsimt.cuh -- the backward's accumulators and products on CUDA cores, in fp32: grid.cuh's verbs where T threads multiply.
// T / lanes groups of threads share the rows of an accumulator, `lanes` threads the columns of a row. A thread holds blocks of 4
// rows by 4 columns (of S also of the one or two rows, the two columns that it has): what it reads of any tile are 16 bytes, for
// four steps of a product's depth or for four of its rows or columns. Tiles are mma.cuh's, in chunks of 16 bytes: neighbours read
// rows four apart, so every four rows take the next order of chunks.

//: part -- what a thread holds of an accumulator; `lanes` threads share a row, each has chunks of `chunk` columns
template <i32 rows_, i32 columns_, i32 lanes_, i32 chunk_ = 4> struct part {
  static constexpr i32 rows = rows_, columns = columns_, lanes = lanes_, groups = T / lanes_;
  static constexpr i32 R = rows_ / groups;
  static constexpr i32 C = (columns_ + chunk_ * lanes_ - 1) / (chunk_ * lanes_) * chunk_;
  static constexpr i32 block = R < 4 ? R : 4, chunk = chunk_; // rows, columns side by side
  static constexpr bool is_even = columns_ == C * lanes_; // else the last lanes have less
  float at[R][C];
  // Blocks of rows, chunks of columns: neighbours have neighbouring ones.
  static __device__ __forceinline__ i32 row_block(i32 r) { return thread_id() / lanes + r / block * groups; }
  static __device__ __forceinline__ i32 column_chunk(i32 c) { return thread_id() % lanes + c / chunk * lanes; }
  static __device__ __forceinline__ i32 row(i32 r) { return block * row_block(r) + r % block; }
  static __device__ __forceinline__ i32 column(i32 c) { return chunk * column_chunk(c) + c % chunk; }
  static __device__ __forceinline__ bool has(i32 c) { return is_even || column(c) < columns; }
};

//: S_part -- of S, P, dP and dS, transposed
typedef part<Bc, Br, lanes_S, (Br < 4 * lanes_S ? 2 : 4)> S_part;

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

//: rows_for -- a tile as a left operand: any thread reads any row
template <class Acc, class Tile> __device__ __forceinline__ Tile rows_for(Tile from)
{
  return from;
}

//: add_ABt -- four steps of depth at a time; where a row of Q or K ends within the tile, zeros follow
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void add_ABt(Acc &C, TileA A, TileB B)
{
#pragma unroll 2
  for (i32 x = 0; x < TileB::chunks; x++) {
    four a[Acc::R];
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      a[r] = get_four(A.chunk(Acc::row(r), x));
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++) {
      const four b = get_four(B.chunk(Acc::column(c), x));
#pragma unroll
      for (i32 w = 0; w < 4; w++)
#pragma unroll
        for (i32 r = 0; r < Acc::R; r++)
          C.at[r][c] = fmaf(a[r].at[w], b.at[w], C.at[r][c]);
    }
  }
}

//: add_row -- a step of depth: C += a b^T, with b of a row of a tile
template <class Acc, class Tile>
__device__ __forceinline__ void add_row(Acc &C, const float (&a)[Acc::R], Tile B, i32 j)
{
#pragma unroll
  for (i32 e = 0; e < Acc::C / 4; e++)
    if (Acc::has(4 * e)) {
      const four b = get_four(B.chunk(j, Acc::column_chunk(4 * e)));
#pragma unroll
      for (i32 c = 0; c < 4; c++)
#pragma unroll
        for (i32 r = 0; r < Acc::R; r++)
          C.at[r][4 * e + c] = fmaf(a[r], b.at[c], C.at[r][4 * e + c]);
    }
}

//: add_AB -- four steps of depth at a time
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void add_AB(Acc &C, TileA A, TileB B)
{
#pragma unroll 1
  for (i32 x = 0; x < TileA::chunks; x++) {
    four a[Acc::R];
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      a[r] = get_four(A.chunk(Acc::row(r), x));
#pragma unroll
    for (i32 w = 0; w < 4; w++) {
      float now[Acc::R];
#pragma unroll
      for (i32 r = 0; r < Acc::R; r++)
        now[r] = a[r].at[w];
      add_row(C, now, B, 4 * x + w);
    }
  }
}

//: add_AtB -- a step of depth at a time; a thread has whole chunks of C's rows
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void add_AtB(Acc &C, TileA A, TileB B)
{
#pragma unroll 4
  for (i32 j = 0; j < TileB::count; j++) {
    float now[Acc::R];
#pragma unroll
    for (i32 r = 0; r < Acc::R; r += 4) {
      const four a = get_four(A.chunk(j, Acc::row_block(r)));
#pragma unroll
      for (i32 w = 0; w < 4; w++)
        now[r + w] = a.at[w];
    }
    add_row(C, now, B, j);
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
