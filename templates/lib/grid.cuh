// grid.cuh -- accumulators of mma.cuh's products whose rows and columns are shared out to a grid of warps, for the backward,
// where one tile is now the left operand and now the right one. grid16.cuh and grid32.cuh know the elements.
//
// Products add to a part C of an accumulator: add_ABt(C, A, B) A B^T, add_AB(C, A, B) A B, add_AtB(C, A, B) A^T B. B is a
// tile, and so is A of add_AtB. Else A is a left operand of C's rows:
//   rows_for<Acc>(tile)  rows of a tile, read with each product
//   held_for<Acc>(tile)  rows of a tile, in registers
//   left_from(P)         an accumulator, where each warp has whole rows of it

//: part -- what a warp's thread holds of an accumulator: `down` warps share its rows, `warps / down` its columns, in blocks
// of 16 rows and 16 columns. Warps with the same rows are `down` apart
template <i32 rows_, i32 columns_, i32 down_$(apart and ", i32 warps_ = warps" or "")> struct part {
  static constexpr i32 rows = rows_, columns = columns_, across = $(apart and "warps_" or "warps") / down_;
  static constexpr i32 R = rows_ / (8 * down_);
  static constexpr i32 C = across == 1 ? columns_ / 4 : (columns_ + 16 * across - 1) / (16 * across) * 4;
  static constexpr bool is_even = columns_ == 4 * C * across; // else the last warps have less
  float at[R][C];
  static __device__ __forceinline__ i32 first_row() { return (across == 1$(apart and " && warps_ == warps" or "") ? warp_of() : warp_of() % down_) * (8 * R); }
  static __device__ __forceinline__ i32 first_column() { return across == 1 ? 0 : warp_of()$(apart and " % warps_" or "") / down_ * (4 * C); }
  static __device__ __forceinline__ i32 row(i32 r) { return first_row() + r / 2 * 16 + r % 2 * 8 + thread_id() % 32 / 4; }
  static __device__ __forceinline__ i32 column(i32 c) { return first_column() + column_of(c); }
  // Whether the columns that the c-th is one of are there, eight side by side.
  static __device__ __forceinline__ bool has(i32 c) { return is_even || first_column() + c / 2 * 8 < columns; }
};

//: S_part -- of S, P, dP and dS, transposed
typedef part<Bc, Br, down_S$(apart and ", warps / 2" or "")> S_part;

//: dK_part
typedef part<Bc, D, down_K$(apart and ", warps / 2" or "")> dK_part;

//: dV_part
typedef part<Bc, Dv, down_K$(apart and ", warps / 2" or "")> dV_part;

//: dQ_part
typedef part<Br, D, down_Q> dQ_part;

//: rows_below -- a tile from row i on, a multiple of 8
template <class Tile> __device__ __forceinline__ Tile rows_below(Tile from, i32 i)
{
  return Tile(from.data + i * Tile::row);
}

//: here -- a view that is used now; the few addresses that it is made of would take a fourth of the registers, were those of
// all products kept
template <class Tile> __device__ __forceinline__ lane_view<Tile> here(lane_view<Tile> view)
{
  return {anew(view.base)};
}

//: rows_of_tile -- a left operand, read with each product
template <class Acc, class Tile> struct rows_of_tile {
  static constexpr bool is_pairs = false;
  static constexpr i32 steps = Tile::columns / (2 * per_chunk), in_a_row = $(unrolled > 0 and unrolled or "steps");
  lane_view<Tile> view;
  __device__ __forceinline__ explicit rows_of_tile(Tile from) : view(here(view_down(from, Acc::first_row()))) {}
  __device__ __forceinline__ left at(i32 k, i32 m) const { return left_of(ldmatrix(view.at(16 * m, k))); }
};

//: rows_for
template <class Acc, class Tile> __device__ __forceinline__ rows_of_tile<Acc, Tile> rows_for(Tile from)
{
  return rows_of_tile<Acc, Tile>(from);
}

//: rows_held -- a left operand in registers
template <class Acc, class Tile> struct rows_held {
  static constexpr i32 steps = Tile::columns / (2 * per_chunk), in_a_row = steps; // registers are known by name alone
  left part[steps][Acc::R / 2];
  __device__ __forceinline__ left at(i32 k, i32 m) const { return part[k][m]; }
};

//: held_for
template <class Acc, class Tile> __device__ __forceinline__ rows_held<Acc, Tile> held_for(Tile from)
{
  rows_held<Acc, Tile> A;
  const rows_of_tile<Acc, Tile> rows(from);
#pragma unroll
  for (i32 k = 0; k < A.steps; k++)
#pragma unroll
    for (i32 m = 0; m < Acc::R / 2; m++)
      A.part[k][m] = rows.at(k, m);
  return A;
}

//: add_ABt
template <class Acc, class Left, class Tile> __device__ __forceinline__ void add_ABt(Acc &C, const Left &A, Tile B)
{
  const lane_view<Tile> view = here(view_across(rows_below(B, Acc::first_column())));
#pragma unroll Left::in_a_row
  for (i32 k = 0; k < Left::steps; k++) {
    left a[Acc::R / 2];
#pragma unroll
    for (i32 m = 0; m < Acc::R / 2; m++)
      a[m] = A.at(k, m);
#pragma unroll
    for (i32 n = 0; n < Acc::C / 4; n++) {
      const quad x = ldmatrix(view.at(16 * n, k));
#pragma unroll
      for (i32 m = 0; m < Acc::R / 2; m++) {
        mma_block(C, m, 2 * n, a[m], right_of(x.at[0], x.at[1]));
        mma_block(C, m, 2 * n + 1, a[m], right_of(x.at[2], x.at[3]));
      }
    }
  }
}

//: add_AtB
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void add_AtB(Acc &C, TileA A, TileB B)
{
  add_AB(C, columns_of_tile<Acc, TileA>(A), B);
}
