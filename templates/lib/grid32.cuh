// grid32.cuh -- grid.cuh's elements of 32 bits: f32 tensors, products of tf32. A pair of chunks is 8 elements, the depth of one
// product.

//: left_pairs -- an accumulator as a left operand. A thread holds columns 2t and 2t + 1 of it where A wants t and t + 4: the
// depth is counted in that order, and add_AB reads the rows of B in it
template <class Acc> struct left_pairs {
  static constexpr i32 steps = Acc::columns / 8;
  static constexpr bool is_pairs = true;
  const Acc &P;
  __device__ __forceinline__ left at(i32 k, i32 m) const
  {
    return left_of({__float_as_uint(P.at[2 * m][2 * k]), __float_as_uint(P.at[2 * m + 1][2 * k]),
                    __float_as_uint(P.at[2 * m][2 * k + 1]), __float_as_uint(P.at[2 * m + 1][2 * k + 1])});
  }
};

//: left_from
template <class Acc> __device__ __forceinline__ left_pairs<Acc> left_from(const Acc &P)
{
  static_assert(Acc::across == 1, "a warp has whole rows");
  return {P};
}

//: add_AB
template <class Acc, class Left, class Tile> __device__ __forceinline__ void add_AB(Acc &C, const Left &A, Tile B)
{
  const i32 g = thread_id() % 32 / 4, t = lane_of(), column = Acc::first_column() / 8;
  const i32 first = Left::is_pairs ? 2 * t : t, second = Left::is_pairs ? 2 * t + 1 : t + 4;
  const lane_view<Tile> even = here(lane_view<Tile>{B.chunk(first, g / 4) + 4 * (g % 4)});
  const lane_view<Tile> odd = here(lane_view<Tile>{B.chunk(second, g / 4) + 4 * (g % 4)});
#pragma unroll
  for (i32 k = 0; k < Left::steps; k++) {
    left a[Acc::R / 2];
#pragma unroll
    for (i32 m = 0; m < Acc::R / 2; m++)
      a[m] = A.at(k, m);
#pragma unroll
    for (i32 n = 0; n < Acc::C / 2; n++)
      if (Acc::has(2 * n)) {
        const right b = right_of(get4(even.at(8 * k, column + n)), get4(odd.at(8 * k, column + n)));
#pragma unroll
        for (i32 m = 0; m < Acc::R / 2; m++)
          mma_block(C, m, n, a[m], b);
      }
  }
}

//: columns_of_tile -- a left operand, read with each product
template <class Acc, class Tile> struct columns_of_tile {
  static constexpr i32 steps = Tile::count / 8;
  static constexpr bool is_pairs = false;
  Tile from;
  __device__ __forceinline__ explicit columns_of_tile(Tile from_) : from(from_) {}
  __device__ __forceinline__ left at(i32 k, i32 m) const
  {
    const i32 column = Acc::first_row() + 16 * m + thread_id() % 32 / 4;
    quad a;
#pragma unroll
    for (i32 x = 0; x < 4; x++) // columns g, g + 8 of row t, then of row t + 4
      a.at[x] = get4(from.chunk(8 * k + lane_of() + x / 2 * 4, (column + x % 2 * 8) / 4) + 4 * (column % 4));
    return left_of(a);
  }
};

//: lay_part -- an accumulator into a tile of its shape
template <class Acc, class Tile> __device__ __forceinline__ void lay_part(Tile to, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      if (Acc::has(c))
        put4(to.chunk(Acc::row(r), Acc::column(c) / 4) + 4 * (Acc::column(c) % 4), __float_as_uint(S.at[r][c]));
}
