// tf32.cuh -- mma.cuh's elements of 32 bits: f32 tensors, products of tf32. A pair of chunks is 8 elements, the
// depth of one product.
// For f32x3 an f32 x is big + small, both tf32: big big + big small + small big keeps 21 or more of its 24 bits.

//: elem
typedef float elem;

//: left -- a left operand: 16 rows, 8 deep
struct left {
  quad big$(dtype == "f32x3" and ", small" or "");
};

//: right -- a right operand: 8 deep, 8 columns
struct right {
  u32 big[2]$(dtype == "f32x3" and ", small[2]" or "");
};

//: elem_of
__device__ __forceinline__ elem elem_of(float x)
{
  return x;
}

//: float_of
__device__ __forceinline__ float float_of(elem x)
{
  return x;
}

//: rest -- what its nearest tf32 leaves of x; the product ignores the lower bits of it
__device__ __forceinline__ u32 rest(u32 x, u32 big)
{
  return __float_as_uint(__uint_as_float(x) - __uint_as_float(big));
}

//: left_of -- rounded
__device__ __forceinline__ left left_of(const quad &a)
{
  left l;
#pragma unroll
  for (i32 x = 0; x < 4; x++) {
    l.big.at[x] = round_tf32(__uint_as_float(a.at[x]));
% if dtype == "f32x3" then
    l.small.at[x] = rest(a.at[x], l.big.at[x]);
% end
  }
  return l;
}

//: right_of -- rounded
__device__ __forceinline__ right right_of(u32 b0, u32 b1)
{
  const u32 b[2] = {b0, b1};
  right r;
#pragma unroll
  for (i32 x = 0; x < 2; x++) {
    r.big[x] = round_tf32(__uint_as_float(b[x]));
% if dtype == "f32x3" then
    r.small[x] = rest(b[x], r.big[x]);
% end
  }
  return r;
}

//: product -- C += A B of one 16x8 block
__device__ __forceinline__ void product(float &c0, float &c1, float &c2, float &c3, const left &a, const right &b)
{
% if dtype == "f32x3" then
  mma_tf32(c0, c1, c2, c3, a.small, b.big[0], b.big[1]); // the small terms first
  mma_tf32(c0, c1, c2, c3, a.big, b.small[0], b.small[1]);
% end
  mma_tf32(c0, c1, c2, c3, a.big, b.big[0], b.big[1]);
}

//: operand -- an accumulator as the left operand of a product. A thread holds columns 2t and 2t + 1 of it where A wants t
// and t + 4: the depth is counted in that order, and mma_AB reads the rows of B in it
template <i32 rows_, i32 columns_> struct operand {
  static constexpr i32 blocks = rows_of_thread<rows_> / 2, steps = columns_ / 8;
  static constexpr bool is_pairs = true;
  const acc<rows_, columns_> &P;
  __device__ __forceinline__ left at(i32 k, i32 m) const
  {
    return left_of({__float_as_uint(P.at[2 * m][2 * k]), __float_as_uint(P.at[2 * m + 1][2 * k]),
                    __float_as_uint(P.at[2 * m][2 * k + 1]), __float_as_uint(P.at[2 * m + 1][2 * k + 1])});
  }
};

//: operand_of
template <i32 rows_, i32 columns_>
__device__ __forceinline__ operand<rows_, columns_> operand_of(const acc<rows_, columns_> &S)
{
  return {S};
}

//: turned
template <class Tile> struct turned {
  static constexpr i32 blocks = Tile::columns / (16 * warps), steps = Tile::count / 8;
  static constexpr bool is_pairs = false;
  Tile from;
  __device__ __forceinline__ explicit turned(Tile from_) : from(from_) {}
  __device__ __forceinline__ left at(i32 k, i32 m) const
  {
    const i32 g = thread_id() % 32 / 4, column = (warp_of() * blocks + m) * 16 + g;
    quad a;
#pragma unroll
    for (i32 x = 0; x < 4; x++) // columns g, g + 8 of row t, then of row t + 4
      a.at[x] = get4(from.chunk(8 * k + lane_of() + x / 2 * 4, (column + x % 2 * 8) / 4) + 4 * (column % 4));
    return left_of(a);
  }
};

//: mma_AB
template <class Acc, class Left, class Tile> __device__ __forceinline__ void mma_AB(Acc &C, const Left &A, Tile B)
{
  const i32 g = thread_id() % 32 / 4, t = lane_of(), first = Left::is_pairs ? 2 * t : t, second = Left::is_pairs ? 2 * t + 1 : t + 4;
  const lane_view<Tile> even = {B.chunk(first, g / 4) + 4 * (g % 4)}, odd = {B.chunk(second, g / 4) + 4 * (g % 4)};
#pragma unroll
  for (i32 k = 0; k < Left::steps; k++) {
    left a[Left::blocks];
#pragma unroll
    for (i32 m = 0; m < Left::blocks; m++)
      a[m] = A.at(k, m);
#pragma unroll
    for (i32 n = 0; n < Acc::C / 2; n++) {
      const right b = right_of(get4(even.at(8 * k, n)), get4(odd.at(8 * k, n)));
#pragma unroll
      for (i32 m = 0; m < Left::blocks; m++)
        mma_block(C, m, n, a[m], b);
    }
  }
}

//: lay -- an accumulator into a tile of its shape
template <class Acc, class Tile> __device__ __forceinline__ void lay(Tile to, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++) {
      const i32 column = column_of(c);
      put4(to.chunk(Acc::row(r), column / 4) + 4 * (column % 4), __float_as_uint(S.at[r][c]));
    }
}

//: store -- rows i0.. of an accumulator to a tensor of n rows
template <class Acc, class Tile, class Stride>
__device__ __forceinline__ void store(const Acc &O, Tile, elem *to, const Stride &stride, i32 i0, i32 n)
{
  store_sums(O, {to, stride}, i0, n);
}

//: get_group
__device__ __forceinline__ void get_group(float *to, const elem *from)
{
  to[0] = from[0];
  to[1] = from[1];
}

//: put_group
__device__ __forceinline__ void put_group(elem *to, const float *from)
{
  *(float2 *)to = {from[0], from[1]};
}
