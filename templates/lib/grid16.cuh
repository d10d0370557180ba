// grid16.cuh -- grid.cuh's elements of 16 bits: $(dtype). A pair of chunks is 16 elements, the depth of one product.

//: left_operand -- an accumulator, rounded: what a thread holds of it is what it must hold of A
template <i32 blocks, i32 steps_> struct left_operand {
  static constexpr i32 steps = steps_;
  left part[steps_][blocks];
  __device__ __forceinline__ left at(i32 k, i32 m) const { return part[k][m]; }
};

//: left_from
template <class Acc> __device__ __forceinline__ left_operand<Acc::R / 2, Acc::columns / 16> left_from(const Acc &P)
{
  static_assert(Acc::across == 1, "a warp has whole rows");
  left_operand<Acc::R / 2, Acc::columns / 16> A;
#pragma unroll
  for (i32 k = 0; k < A.steps; k++)
#pragma unroll
    for (i32 m = 0; m < Acc::R / 2; m++)
#pragma unroll
      for (i32 x = 0; x < 4; x++) { // rows g and g + 8 of the left 8 columns, then of the right
        const float *pair = &P.at[2 * m + x % 2][4 * k + x / 2 * 2];
        A.part[k][m].at[x] = pack_$(dtype)(pair[0], pair[1]);
      }
  return A;
}

//: add_AB
template <class Acc, class Left, class Tile> __device__ __forceinline__ void add_AB(Acc &C, const Left &A, Tile B)
{
  const lane_view<Tile> view = here(view_down(B, 0));
  const i32 first = Acc::first_column() / 16;
#pragma unroll
  for (i32 k = 0; k < Left::steps; k++) {
    left a[Acc::R / 2];
#pragma unroll
    for (i32 m = 0; m < Acc::R / 2; m++)
      a[m] = A.at(k, m);
#pragma unroll
    for (i32 n = 0; n < (Acc::C + 2) / 4; n++)
      if (Acc::has(4 * n)) {
        const quad x = ldmatrix_trans(view.at(16 * k, first + n));
#pragma unroll
        for (i32 m = 0; m < Acc::R / 2; m++) {
          mma_block(C, m, 2 * n, a[m], right_of(x.at[0], x.at[1]));
          if (4 * n + 2 < Acc::C)
            mma_block(C, m, 2 * n + 1, a[m], right_of(x.at[2], x.at[3]));
        }
      }
  }
}

//: columns_of_tile -- a left operand, read with each product
template <class Acc, class Tile> struct columns_of_tile {
  static constexpr i32 steps = Tile::count / 16;
  lane_view<Tile> view;
  __device__ __forceinline__ explicit columns_of_tile(Tile from) : view(here(view_across(from))) {}
  __device__ __forceinline__ left at(i32 k, i32 m) const
  {
    return ldmatrix_trans(view.at(16 * k, Acc::first_row() / 16 + m));
  }
};

//: lay_part -- an accumulator into a tile of its shape, rounded
template <class Acc, class Tile> __device__ __forceinline__ void lay_part(Tile to, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += 2)
      if (Acc::has(c))
        put4(to.chunk(Acc::row(r), Acc::first_column() / 8 + c / 2) + 4 * lane_of(), pack_$(dtype)(S.at[r][c], S.at[r][c + 1]));
}
