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

//: rest -- what its nearest tf32 leaves of x; the product ignores the lower bits of it
__device__ __forceinline__ u32 rest(u32 x, u32 big)
{
  return __float_as_uint(__uint_as_float(x) - __uint_as_float(big));
}

//: as_left -- rounded
__device__ __forceinline__ left as_left(const quad &a)
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

//: as_right -- rounded
__device__ __forceinline__ right as_right(u32 b0, u32 b1)
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

//: weights -- P as the left operand of a product. A thread holds columns 2t and 2t + 1 of S where A wants t and
// t + 4: the depth is counted in that order, and mma_AB reads the rows of V in it
typedef scores weights;

//: weigh
__device__ __forceinline__ const weights &weigh(const scores &S)
{
  return S;
}

//: mma_AB -- O += P V
template <class Tile> __device__ __forceinline__ void mma_AB(outputs &O, const weights &P, Tile V)
{
  const i32 g = thread_id() % 32 / 4, t = lane_of();
  const lane_view<Tile> even = {V.chunk(2 * t, g / 4) + 4 * (g % 4)}, odd = {V.chunk(2 * t + 1, g / 4) + 4 * (g % 4)};
#pragma unroll
  for (i32 k = 0; k < Bc / 8; k++) {
    left a[M];
#pragma unroll
    for (i32 m = 0; m < M; m++)
      a[m] = as_left({__float_as_uint(P.at[2 * m][2 * k]), __float_as_uint(P.at[2 * m + 1][2 * k]),
                      __float_as_uint(P.at[2 * m][2 * k + 1]), __float_as_uint(P.at[2 * m + 1][2 * k + 1])});
#pragma unroll
    for (i32 n = 0; n < E / 2; n++) {
      const right b = as_right(get4(even.at(8 * k, n)), get4(odd.at(8 * k, n)));
#pragma unroll
      for (i32 m = 0; m < M; m++)
        mma_block(O, m, n, a[m], b);
    }
  }
}

//: store_outputs -- rows i0.. of O
__device__ __forceinline__ void store_outputs(const outputs &O, const place &at, i32 i0)
{
  store_sums(O, {at.O, at.On}, i0, at.nq);
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
