// half.cuh -- mma.cuh's elements of 16 bits: $(dtype). A pair of chunks is 16 elements, the depth of one product.

//: elem
typedef u16 elem;

//: left -- a left operand: 16 rows, 16 deep
typedef quad left;

//: float_of
__device__ __forceinline__ float float_of(elem x)
{
  return float_of_$(dtype)(x);
}

//: elem_of -- rounded
__device__ __forceinline__ elem elem_of(float x)
{
  return elem(pack_$(dtype)(x, 0.f));
}

//: left_of
__device__ __forceinline__ left left_of(const quad &a)
{
  return a;
}

//: right -- a right operand: 16 deep, 8 columns
struct right {
  u32 at[2];
};

//: right_of
__device__ __forceinline__ right right_of(u32 b0, u32 b1)
{
  return {b0, b1};
}

//: product -- C += A B of one 16x8 block
__device__ __forceinline__ void product(float &c0, float &c1, float &c2, float &c3, const left &a, const right &b)
{
  mma_$(dtype)(c0, c1, c2, c3, a, b.at[0], b.at[1]);
}

//: operand -- an accumulator as the left operand of a product: what a thread holds of it is what it must hold of A
template <i32 rows_, i32 columns_> struct operand {
  static constexpr i32 blocks = rows_of_thread<rows_> / 2, steps = columns_ / 16;
  quad part[steps][blocks];
  __device__ __forceinline__ left at(i32 k, i32 m) const { return part[k][m]; }
};

//: operand_of -- rounded
template <i32 rows_, i32 columns_>
__device__ __forceinline__ operand<rows_, columns_> operand_of(const acc<rows_, columns_> &S)
{
  operand<rows_, columns_> P;
#pragma unroll
  for (i32 k = 0; k < P.steps; k++)
#pragma unroll
    for (i32 m = 0; m < P.blocks; m++)
#pragma unroll
      for (i32 x = 0; x < 4; x++) { // rows g and g + 8 of the left 8 columns, then of the right
        const float *pair = &S.at[2 * m + x % 2][4 * k + x / 2 * 2];
        P.part[k][m].at[x] = pack_$(dtype)(pair[0], pair[1]);
      }
  return P;
}

//: turned
template <class Tile> struct turned {
  static constexpr i32 blocks = Tile::columns / (16 * warps), steps = Tile::count / 16;
  lane_view<Tile> view;
  __device__ __forceinline__ explicit turned(Tile from) : view(view_across(from)) {}
  __device__ __forceinline__ left at(i32 k, i32 m) const
  {
    return ldmatrix_trans(view.at(16 * k, warp_of() * blocks + m));
  }
};

//: mma_AB
template <class Acc, class Left, class Tile> __device__ __forceinline__ void mma_AB(Acc &C, const Left &A, Tile B)
{
  const lane_view<Tile> view = view_down(B, 0);
#pragma unroll
  for (i32 k = 0; k < Left::steps; k++)
#pragma unroll
    for (i32 n = 0; n < Tile::columns / 16; n++) {
      const quad x = ldmatrix_trans(view.at(16 * k, n));
#pragma unroll
      for (i32 m = 0; m < Left::blocks; m++) {
        mma_block(C, m, 2 * n, A.at(k, m), right_of(x.at[0], x.at[1]));
        if (16 * n + 8 < Acc::columns)
          mma_block(C, m, 2 * n + 1, A.at(k, m), right_of(x.at[2], x.at[3]));
      }
    }
}

//: lay -- an accumulator into a tile of its shape, rounded
template <class Acc, class Tile> __device__ __forceinline__ void lay(Tile to, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += 2)
      put4(to.chunk(Acc::row(r), c / 2) + 4 * lane_of(), pack_$(dtype)(S.at[r][c], S.at[r][c + 1]));
}

//: store -- rows i0.. of an accumulator to a tensor of n rows, rounded
template <class Acc, class Tile, class Stride>
__device__ __forceinline__ void store(const Acc &O, Tile through, elem *to, const Stride &stride, i32 i0, i32 n)
{
% if aligned == 1 then
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
    if (Acc::row(r) < n - i0) {
      elem *row = to + (i64(i0) + Acc::row(r)) * stride;
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
        row[column_of(c)] = elem_of(O.at[r][c]);
    }
% else
  // A warp lays its rows in the tile `through`, of which nobody else needs these any more, to write whole chunks.
  constexpr i32 rows = Acc::rows / warps, chunks = Tile::columns / per_chunk;
  warp_sync(); // all lanes have read them
  lay(through, O);
  warp_sync();
#pragma unroll
  for (i32 x = thread_id() % 32; x < rows * chunks; x += 32) {
    const i32 i = warp_of() * rows + x / chunks, chunk = x % chunks;
    if (i < n - i0 && chunk * per_chunk < Acc::columns)
      *(quad *)(to + (i64(i0) + i) * stride + chunk * per_chunk) = get16(through.chunk(i, chunk));
  }
% end
}

//: get_group
__device__ __forceinline__ void get_group(float *to, const elem *from)
{
  const u32 pair = *(const u32 *)from;
  to[0] = float_of_$(dtype)(u16(pair));
  to[1] = float_of_$(dtype)(u16(pair >> 16));
}

//: put_group
__device__ __forceinline__ void put_group(elem *to, const float *from)
{
  *(u32 *)to = pack_$(dtype)(from[0], from[1]);
}

//: float_of_bf16 -- the upper half of an f32
__device__ __forceinline__ float float_of_bf16(u16 x)
{
  return __uint_as_float(u32(x) << 16);
}
