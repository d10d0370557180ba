// half.cuh -- mma.cuh's elements of 16 bits: $(dtype). A pair of chunks is 16 elements, the depth of one product.

//: elem
typedef u16 elem;

//: left -- a left operand: 16 rows, 16 deep
typedef quad left;

//: as_left
__device__ __forceinline__ left as_left(const quad &a)
{
  return a;
}

//: right -- a right operand: 16 deep, 8 columns
struct right {
  u32 at[2];
};

//: as_right
__device__ __forceinline__ right as_right(u32 b0, u32 b1)
{
  return {b0, b1};
}

//: product -- C += A B of one 16x8 block
__device__ __forceinline__ void product(float &c0, float &c1, float &c2, float &c3, const left &a, const right &b)
{
  mma_$(dtype)(c0, c1, c2, c3, a, b.at[0], b.at[1]);
}

//: weights -- P as the left operand of a product: what a thread holds of S is what it must hold of A
struct weights {
  quad at[Bc / 16][M];
};

//: weigh -- P, rounded
__device__ __forceinline__ weights weigh(const scores &S)
{
  weights P;
#pragma unroll
  for (i32 k = 0; k < Bc / 16; k++)
#pragma unroll
    for (i32 m = 0; m < M; m++)
#pragma unroll
      for (i32 x = 0; x < 4; x++) { // rows g and g + 8 of the left 8 columns, then of the right
        const float *pair = &S.at[2 * m + x % 2][4 * k + x / 2 * 2];
        P.at[k][m].at[x] = pack_$(dtype)(pair[0], pair[1]);
      }
  return P;
}

//: mma_AB -- O += P V
template <class Tile> __device__ __forceinline__ void mma_AB(outputs &O, const weights &P, Tile V)
{
  const lane_view<Tile> view = view_down(V, 0);
#pragma unroll
  for (i32 k = 0; k < Bc / 16; k++)
#pragma unroll
    for (i32 n = 0; n < Dw / 16; n++) {
      const quad x = ldmatrix_trans(view.at(16 * k, n));
#pragma unroll
      for (i32 m = 0; m < M; m++) {
        mma_block(O, m, 2 * n, P.at[k][m], as_right(x.at[0], x.at[1]));
        if (16 * n + 8 < Dv)
          mma_block(O, m, 2 * n + 1, P.at[k][m], as_right(x.at[2], x.at[3]));
      }
    }
}

//: store_outputs -- rows i0.. of O
__device__ __forceinline__ void store_outputs(const outputs &O, const place &at, i32 i0)
{
% if W == 1 then
#pragma unroll
  for (i32 r = 0; r < R; r++)
    if (row_of(r) < at.nq - i0) {
      elem *to = at.O + (i64(i0) + row_of(r)) * at.On;
#pragma unroll
      for (i32 e = 0; e < E; e++)
        if (column_of(e) < Dv)
          to[column_of(e)] = elem(pack_$(dtype)(O.at[r][e], 0.f));
    }
% else
  // A warp lays its rows where its rows of Q lay, to write whole chunks.
  const tile<Br, Dw> to(shared_memory());
  warp_sync(); // all lanes have read Q
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 e = 0; e < E; e += 2)
      put4(to.chunk(row_of(r), e / 2) + 4 * lane_of(), pack_$(dtype)(O.at[r][e], O.at[r][e + 1]));
  warp_sync();
#pragma unroll
  for (i32 x = thread_id() % 32; x < 16 * M * (Dw / A); x += 32) {
    const i32 i = warp_of() * (16 * M) + x / (Dw / A), chunk = x % (Dw / A);
    if (i < at.nq - i0 && chunk * A < Dv)
      *(quad *)(at.O + (i64(i0) + i) * at.On + chunk * A) = get16(to.chunk(i, chunk));
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
