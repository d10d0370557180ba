// Attention kernel written by fatune 0.1.0.
//   family     fwd-f32-d64-causal
//   config     fwd:Br64-Bc32-T128-R4-W4-s1
//   source     fb4315540f99b27fbbc2d522e28f75c12a31098914fa398cc38ab54d618d64d5
//   target     sm_75
//   options    --std=c++17
//   rebuild    nvcc -cubin -arch=sm_75 --std=c++17 -o kernel.cubin kernel.cu
//   recipe     launch fwd_fb4315540f99b27f grid ceildiv(q,64)*b*h block 128 shared 44544 args call

#line 5 "templates/lib/args.h"
//: i32
typedef int i32;

#line 3 "templates/fwd.lua"
constexpr i32 T = 128;       // threads of a block
#line 8 "templates/lib/args.h"
//: i64
typedef long long i64;

#line 20 "templates/lib/args.h"
//: tensor -- rows of contiguous elements; strides in elements: from batch to batch, head to head, row to row
typedef struct tensor {
  void *data;
  i64 b, h, n;
} tensor;

//: lse_tensor -- one float a row; rows are contiguous; data may be null: not wanted
typedef struct lse_tensor {
  float *data;
  i64 b, h;
} lse_tensor;

//: call -- the arguments of one attention call
typedef struct call {
  tensor Q, K, V, O;
  lse_tensor LSE;
  i32 b, h, hk; // batch, query heads, KV heads
  i32 q, k;     // rows of Q and O; rows of K and V
  float scale;  // S = scale * Q K^T
} call;
typedef char call_is_176_bytes[sizeof(call) == 176 ? 1 : -1]; // the host lays out the same struct

#line 103 "templates/lib/hooks.cuh"
//: turn -- what one block does: a tile of Q of one head; `head` counts the query heads of all batches
#line 107 "templates/lib/hooks.cuh"
struct turn {
  i32 head, i0;
};

#line 97 "templates/lib/hooks.cuh"
//: ceil_div
__device__ __forceinline__ i32 ceil_div(i32 x, i32 y)
{
  return x / y + (x % y > 0);
}

#line 1 "templates/fwd.lua"
constexpr i32 Br = 64;       // rows of Q of one tile
#line 28 "templates/lib/hooks.cuh"
//: heads -- one batch, one query head and the head of K and V that it shares
struct heads {
  i32 b, h, hk;
#line 34 "templates/lib/hooks.cuh"
};

#line 15 "templates/fwd.lua"
constexpr i32 Z = 1;         // heads whose tiles of Q start together
#line 111 "templates/lib/hooks.cuh"
//: turn_of -- blocks start in the order of their numbers: Z heads together, of these the last tiles of Q, the
// longest under a causal mask, first. Heads together share L2; the longest first leaves short ones for the end.
__device__ __forceinline__ turn turn_of(const call &a, i32 block)
{
#line 118 "templates/lib/hooks.cuh"
  const i32 Tr = ceil_div(a.q, Br), heads = a.b * a.h, most = min(Z, heads);
#line 120 "templates/lib/hooks.cuh"
  const i32 first = block / (Tr * most) * most, x = block - Tr * first;
  const i32 together = min(most, heads - first);
  return {first + x % together, Br * (Tr - 1 - x / together)};
}

#line 11 "templates/arch/sm75.cuh"
//: block_id -- index of the block in the grid [Special Registers: %ctaid]
__device__ __forceinline__ i64 block_id()
{
  return blockIdx.x;
}

#line 6 "templates/lib/simt.cuh"
//: elem
typedef float elem;

#line 9 "templates/lib/hooks.cuh"
//: place -- the rows of one batch and head
struct place {
  const elem *Q, *K, *V; // row 0
  elem *O;
#line 22 "templates/lib/hooks.cuh"
  float *LSE;         // null: not wanted
  i64 Qn, Kn, Vn, On; // from row to row
  i32 nq, nk;         // how many rows
#line 26 "templates/lib/hooks.cuh"
};

#line 36 "templates/lib/hooks.cuh"
//: heads_of -- `head` counts the query heads of all batches; heads that share K and V lie side by side
#line 40 "templates/lib/hooks.cuh"
__device__ __forceinline__ heads heads_of(const call &a, i32 head)
{
#line 46 "templates/lib/hooks.cuh"
  const i32 h = head % a.h;
  return {head / a.h, h, h / (a.h / a.hk)};
#line 49 "templates/lib/hooks.cuh"
}

#line 62 "templates/lib/hooks.cuh"
//: rows -- hook
__device__ __forceinline__ place rows(const call &a, i32 head)
{
#line 79 "templates/lib/hooks.cuh"
  const heads at = heads_of(a, head);
  const i64 b = at.b, h = at.h, hk = at.hk;
  return {
      (const elem *)a.Q.data + b * a.Q.b + h * a.Q.h,
      (const elem *)a.K.data + b * a.K.b + hk * a.K.h,
      (const elem *)a.V.data + b * a.V.b + hk * a.V.h,
      (elem *)a.O.data + b * a.O.b + h * a.O.h,
#line 89 "templates/lib/hooks.cuh"
      a.LSE.data ? a.LSE.data + b * a.LSE.b + h * a.LSE.h : a.LSE.data,
#line 91 "templates/lib/hooks.cuh"
      a.Q.n, a.K.n, a.V.n, a.O.n,
      a.q, a.k,
  };
#line 95 "templates/lib/hooks.cuh"
}

#line 139 "templates/lib/hooks.cuh"
//: tiles -- KV tiles [first, full) that no mask touches, then [full, last) that one does
struct tiles {
  i32 first, full, last;
};

#line 2 "templates/fwd.lua"
constexpr i32 Bc = 32;       // rows of K and V of one tile
#line 144 "templates/lib/hooks.cuh"
//: range -- hook: the KV tiles that rows [i0, i0 + rows_) visit; none where no such row is
template <i32 rows_ = Br, class Lengths> __device__ __forceinline__ tiles range(const Lengths &at, i32 i0)
{
  if (i0 >= at.nq)
    return {0, 0, 0};
#line 155 "templates/lib/hooks.cuh"
  // Row i sees keys 0 .. i + nk - nq: the last row sees the last key.
  const i32 first_sees = max(0, i0 + 1 + at.nk - at.nq);
  const i32 last_sees = max(0, min(i0 + rows_, at.nq) + at.nk - at.nq);
#line 159 "templates/lib/hooks.cuh"
  return {0, first_sees / Bc, ceil_div(last_sees, Bc)};
#line 163 "templates/lib/hooks.cuh"
}

#line 11 "templates/lib/softmax.cuh"
//: base2 -- the factor c; never 0, because c * -inf must stay -inf (scale 0 weighs all keys alike either way)
__device__ __forceinline__ float base2(float scale)
{
  constexpr float log2e = 1.44269504088896f, least = 1.17549435e-38f;
  return fmaxf(fabsf(scale) * log2e, least);
}

#line 38 "templates/lib/simt.cuh"
//: tile -- rows x columns in shared memory; `pad` floats behind each row spread neighbours over the banks
template <i32 rows_, i32 columns_, i32 pad_> struct tile {
  static constexpr i32 count = rows_, columns = columns_, stride = columns_ + pad_;
  float *data;
  __device__ __forceinline__ explicit tile(void *at) : data((float *)at) {}
  __device__ __forceinline__ float *row(i32 i) const { return data + i * stride; }
  __device__ __forceinline__ void *end() const { return data + count * stride; }
};

#line 6 "templates/fwd.lua"
constexpr i32 D = 64;        // head dimension of Q and K
#line 5 "templates/fwd.lua"
constexpr i32 W = 4;         // floats moved at once
#line 47 "templates/lib/simt.cuh"
//: Q_tile
typedef tile<Br, D, W> Q_tile;

#line 69 "templates/arch/sm75.cuh"
//: shared_memory -- the block's dynamic shared memory; swizzled tiles begin at multiples of 1024 bytes
// [.shared state space]
__device__ __forceinline__ char *shared_memory()
{
  extern __shared__ __align__(1024) char shared_memory_[];
  return shared_memory_;
}

#line 59 "templates/lib/simt.cuh"
//: ring -- the one tile of K or of V
template <class Tile> struct ring {
  Tile only;
  __device__ __forceinline__ explicit ring(void *at) : only(at) {}
  __device__ __forceinline__ Tile slot(i32) const { return only; }
};

#line 50 "templates/lib/simt.cuh"
//: K_tile
typedef tile<Bc, D, W> K_tile;

#line 13 "templates/fwd.lua"
constexpr i32 at_K = 27648;  // where K lies in shared memory, bytes
#line 8 "templates/fwd.lua"
constexpr i32 Dp = 64;       // columns of V as they lie in shared memory
#line 53 "templates/lib/simt.cuh"
//: V_tile
typedef tile<Bc, Dp, 0> V_tile;

#line 14 "templates/fwd.lua"
constexpr i32 at_V = 36352;  // where V lies in shared memory, bytes
#line 33 "templates/lib/simt.cuh"
//: vec -- W floats, moved as one
struct alignas(4 * W) vec {
  float at[W];
};

#line 4 "templates/fwd.lua"
constexpr i32 R = 4;         // rows of a tile that one thread works on
#line 11 "templates/fwd.lua"
constexpr i32 E = 2;         // chunks of W columns of O of one thread
#line 99 "templates/lib/simt.cuh"
//: outputs -- a thread's part of O
struct outputs {
  vec at[R][E];
};

#line 24 "templates/lib/softmax.cuh"
//: rowvec -- one number for each row of a thread
struct rowvec {
  float at[R];
};

//: row_fill -- the same number for each row
__device__ __forceinline__ rowvec row_fill(float x)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = x;
  return v;
}

#line 5 "templates/lib/softmax.cuh"
//: minus_inf
__device__ __forceinline__ float minus_inf()
{
  return __int_as_float(0xff800000);
}

#line 66 "templates/lib/simt.cuh"
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

#line 5 "templates/arch/sm75.cuh"
//: thread_id -- index of the thread in its block [Special Registers: %tid]
__device__ __forceinline__ i32 thread_id()
{
  return threadIdx.x;
}

#line 80 "templates/lib/simt.cuh"
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

#line 17 "templates/arch/sm75.cuh"
//: block_sync -- all threads of the block meet, and see what the others wrote before [bar.sync]
__device__ __forceinline__ void block_sync()
{
  __syncthreads();
}

#line 56 "templates/lib/simt.cuh"
//: query -- Q as the left operand of a product
typedef Q_tile query;

#line 7 "templates/fwd.lua"
constexpr i32 Dv = 64;       // head dimension of V and O
#line 10 "templates/fwd.lua"
constexpr i32 C = 4;         // columns of S of one thread
#line 94 "templates/lib/simt.cuh"
//: scores -- a thread's part of S or P
struct scores {
  float at[R][C];
};

#line 9 "templates/fwd.lua"
constexpr i32 X = 8;         // lanes that share a row
#line 9 "templates/lib/simt.cuh"
//: row_of -- the r-th row of this thread in its tile; neighbouring groups hold neighbouring rows
__device__ __forceinline__ i32 row_of(i32 r)
{
  return thread_id() / X + r * (T / X);
}

//: lane_of -- which of the X lanes of its rows this thread is
__device__ __forceinline__ i32 lane_of()
{
  return thread_id() % X;
}

//: column_of -- the c-th column of S of this thread
__device__ __forceinline__ i32 column_of(i32 c)
{
  return lane_of() + c * X;
}

#line 104 "templates/lib/simt.cuh"
//: mma_ABt -- S += Q K^T
template <class A, class B> __device__ __forceinline__ void mma_ABt(scores &S, A Q, B K)
{
#pragma unroll 2
  for (i32 x = 0; x < D; x += W) {
    vec q[R], k[C];
#pragma unroll
    for (i32 r = 0; r < R; r++)
      q[r] = *(const vec *)(Q.row(row_of(r)) + x);
#pragma unroll
    for (i32 c = 0; c < C; c++)
      k[c] = *(const vec *)(K.row(column_of(c)) + x);
#pragma unroll
    for (i32 w = 0; w < W; w++)
#pragma unroll
      for (i32 r = 0; r < R; r++)
#pragma unroll
        for (i32 c = 0; c < C; c++)
          S.at[r][c] = fmaf(q[r].at[w], k[c].at[w], S.at[r][c]);
  }
}

#line 39 "templates/lib/softmax.cuh"
//: orient -- a negative scale turns the order of the scores round; negated, their maximum is a maximum again
__device__ __forceinline__ void orient(scores &S, float scale)
{
  if (scale < 0.f) {
#pragma unroll
    for (i32 r = 0; r < R; r++)
#pragma unroll
      for (i32 c = 0; c < C; c++)
        S.at[r][c] = -S.at[r][c];
  }
}

#line 29 "templates/arch/sm75.cuh"
//: shfl_xor -- x of the thread whose lane number differs in the bits `lanes` [shfl.sync.bfly]
__device__ __forceinline__ float shfl_xor(float x, i32 lanes)
{
  return __shfl_xor_sync(0xffffffffu, x, lanes);
}

#line 61 "templates/lib/softmax.cuh"
//: row_max -- max(m, rowmax(S)), the same in all X lanes of a row
__device__ __forceinline__ rowvec row_max(const rowvec &m, const scores &S)
{
  rowvec v = m;
#pragma unroll
  for (i32 r = 0; r < R; r++) {
#pragma unroll
    for (i32 c = 0; c < C; c++)
      v.at[r] = fmaxf(v.at[r], S.at[r][c]);
#pragma unroll
    for (i32 lanes = 1; lanes < X; lanes *= 2)
      v.at[r] = fmaxf(v.at[r], shfl_xor(v.at[r], lanes));
  }
  return v;
}

#line 47 "templates/arch/sm75.cuh"
//: any_lane -- whether x holds in one of the 32 threads of the warp [vote.sync.any]
__device__ __forceinline__ bool any_lane(bool x)
{
  return __any_sync(0xffffffffu, x);
}

#line 87 "templates/lib/softmax.cuh"
//: settle -- takes m back to what it was unless a row of this warp has outgrown that by 2^8; whether one has. Any
// number near the maximum serves as origin: P then stays below 256, and most tiles need no rescaling of O and l
__device__ __forceinline__ bool settle(rowvec &m, const rowvec &m_old, float c)
{
  bool outgrown = false;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    outgrown = outgrown || c * (m.at[r] - m_old.at[r]) > 8.f;
  if (any_lane(outgrown))
    return true;
  m = m_old;
  return false;
}

#line 53 "templates/arch/sm75.cuh"
//: ex2 -- 2^x, relative error 2^-22; -inf gives 0 [ex2.approx.ftz.f32]
__device__ __forceinline__ float ex2(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#line 18 "templates/lib/softmax.cuh"
//: origin -- a maximum to subtract: -inf (no key seen yet) counts as 0, so that -inf - m stays -inf
__device__ __forceinline__ float origin(float m)
{
  return m == minus_inf() ? 0.f : m;
}

#line 171 "templates/lib/softmax.cuh"
//: decay -- 2^(c (m_old - m_new)): what was gathered under an old maximum, seen from the new one. The difference
// comes first: it makes exactly 1 where m did not grow. A multiply-add of c m_old and c m_new does not, and its
// rounding error, always of one sign, would count again with every tile.
__device__ __forceinline__ rowvec decay(const rowvec &m_old, const rowvec &m_new, float c)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = ex2(c * (m_old.at[r] - origin(m_new.at[r])));
  return v;
}

#line 193 "templates/lib/softmax.cuh"
//: times -- elementwise product
__device__ __forceinline__ rowvec times(const rowvec &x, const rowvec &y)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = x.at[r] * y.at[r];
  return v;
}

#line 168 "templates/lib/simt.cuh"
//: scale_rows -- O = diag(f) O
__device__ __forceinline__ void scale_rows(outputs &O, const rowvec &f)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 e = 0; e < E; e++)
#pragma unroll
      for (i32 u = 0; u < W; u++)
        O.at[r][e].at[u] *= f.at[r];
}

#line 112 "templates/lib/softmax.cuh"
//: exp2_rows -- S becomes P = 2^(c S - c m)
__device__ __forceinline__ void exp2_rows(scores &S, const rowvec &m, float c)
{
#pragma unroll
  for (i32 r = 0; r < R; r++) {
    const float cm = c * origin(m.at[r]);
#pragma unroll
    for (i32 x = 0; x < C; x++)
      S.at[r][x] = ex2(fmaf(c, S.at[r][x], -cm));
  }
}

#line 203 "templates/lib/softmax.cuh"
//: plus -- elementwise sum
__device__ __forceinline__ rowvec plus(const rowvec &x, const rowvec &y)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = x.at[r] + y.at[r];
  return v;
}

#line 146 "templates/lib/softmax.cuh"
//: row_sum -- rowsum(P) over this thread's own columns. A tile is summed by itself before it is added to l:
// beside one large P, many small ones would be lost one by one.
__device__ __forceinline__ rowvec row_sum(const scores &P)
{
  rowvec v = row_fill(0.f);
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 c = 0; c < C; c++)
      v.at[r] += P.at[r][c];
  return v;
}

#line 126 "templates/lib/simt.cuh"
//: weights -- P in shared memory, where the other lanes of its rows read it
typedef tile<Br, Bc, X> weights;

#line 12 "templates/fwd.lua"
constexpr i32 at_P = 17408;  // where P lies in shared memory, bytes
#line 23 "templates/arch/sm75.cuh"
//: warp_sync -- the 32 threads of the warp meet, and see what the others wrote before [bar.warp.sync]
__device__ __forceinline__ void warp_sync()
{
  __syncwarp();
}

#line 129 "templates/lib/simt.cuh"
//: weigh -- P of a row is written and read by one warp
__device__ __forceinline__ weights weigh(const scores &S)
{
  const weights P(shared_memory() + at_P);
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 c = 0; c < C; c++)
      P.row(row_of(r))[column_of(c)] = S.at[r][c];
  warp_sync();
  return P;
}

#line 27 "templates/lib/simt.cuh"
//: chunk_of -- first column of the e-th chunk of O of this thread
__device__ __forceinline__ i32 chunk_of(i32 e)
{
  return (lane_of() + e * X) * W;
}

#line 142 "templates/lib/simt.cuh"
//: mma_AB -- O += P V
template <class A, class B> __device__ __forceinline__ void mma_AB(outputs &O, A P, B V)
{
#pragma unroll 1
  for (i32 j = 0; j < Bc; j += W) {
    vec p[R];
#pragma unroll
    for (i32 r = 0; r < R; r++)
      p[r] = *(const vec *)(P.row(row_of(r)) + j);
#pragma unroll
    for (i32 w = 0; w < W; w++) {
      vec v[E];
#pragma unroll
      for (i32 e = 0; e < E; e++)
        v[e] = *(const vec *)(V.row(j + w) + chunk_of(e));
#pragma unroll
      for (i32 r = 0; r < R; r++)
#pragma unroll
        for (i32 e = 0; e < E; e++)
#pragma unroll
          for (i32 u = 0; u < W; u++)
            O.at[r][e].at[u] = fmaf(p[r].at[w], v[e].at[u], O.at[r][e].at[u]);
    }
  }
}

#line 165 "templates/lib/hooks.cuh"
//: keep -- hook: whether row i may see key j
template <class Lengths> __device__ __forceinline__ bool keep(const Lengths &at, i32 i, i32 j)
{
#line 171 "templates/lib/hooks.cuh"
  return j <= i + at.nk - at.nq; // and so j < nk for every row there is
#line 175 "templates/lib/hooks.cuh"
}

#line 51 "templates/lib/softmax.cuh"
//: mask -- S = -inf where `keep` says no; by select, so that a NaN there is gone too
template <class Lengths> __device__ __forceinline__ void mask(scores &S, const Lengths &at, i32 i0, i32 j0)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 c = 0; c < C; c++)
      S.at[r][c] = keep(at, i0 + row_of(r), j0 + column_of(c)) ? S.at[r][c] : minus_inf();
}

#line 159 "templates/lib/softmax.cuh"
//: row_total -- the sum over all X lanes of a row
__device__ __forceinline__ rowvec row_total(const rowvec &l)
{
  rowvec v = l;
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 lanes = 1; lanes < X; lanes *= 2)
      v.at[r] += shfl_xor(v.at[r], lanes);
  return v;
}

#line 177 "templates/lib/hooks.cuh"
//: inverse -- 1 / l; a row that sees no key has l = 0 and gives O = 0
__device__ __forceinline__ float inverse(float l)
{
  return l == 0.f ? 0.f : 1.f / l;
}

#line 183 "templates/lib/softmax.cuh"
//: row_inverse -- 1 / l for each row
__device__ __forceinline__ rowvec row_inverse(const rowvec &l)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = inverse(l.at[r]);
  return v;
}

#line 55 "templates/lib/matrix.cuh"
//: sums_at -- where the rows of O lie while they grow: floats, `row` from one to the next
struct sums_at {
  float *data;
  i64 row;
};

#line 193 "templates/lib/simt.cuh"
//: store_sums -- rows i0.. of O
__device__ __forceinline__ void store_sums(const outputs &O, const sums_at &to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
#pragma unroll
    for (i32 e = 0; e < E; e++)
      if (row_of(r) < n - i0 && chunk_of(e) < Dv)
        *(vec *)(to.data + (i64(i0) + row_of(r)) * to.row + chunk_of(e)) = O.at[r][e];
}

//: store_outputs -- the same into the caller's tensor
__device__ __forceinline__ void store_outputs(const outputs &O, const place &at, i32 i0)
{
  store_sums(O, {at.O, at.On}, i0, at.nq);
}

#line 223 "templates/lib/softmax.cuh"
//: store_rowvec -- one number a row to device memory, written by the first lane of the row
__device__ __forceinline__ void store_rowvec(const rowvec &v, float *to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < R; r++)
    if (lane_of() == 0 && row_of(r) < n - i0)
      to[i64(i0) + row_of(r)] = v.at[r];
}

#line 61 "templates/arch/sm75.cuh"
//: lg2 -- log2 x, absolute error 2^-22 near 1 [lg2.approx.ftz.f32]
__device__ __forceinline__ float lg2(float x)
{
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#line 183 "templates/lib/hooks.cuh"
//: finish -- hook: LSE = scale m + ln l; +inf for a row that sees no key
__device__ __forceinline__ float finish(float m, float l, float c)
{
  constexpr float ln2 = 0.693147180559945f;
  return l == 0.f ? -minus_inf() : (c * m + lg2(l)) * ln2;
}

#line 232 "templates/lib/softmax.cuh"
//: row_finish -- the LSE of each row
__device__ __forceinline__ rowvec row_finish(const rowvec &m, const rowvec &l, float c)
{
  rowvec v;
#pragma unroll
  for (i32 r = 0; r < R; r++)
    v.at[r] = finish(m.at[r], l.at[r], c);
  return v;
}

#line 1 "templates/fwd.cu"
// fwd.cu -- FlashAttention-2, forward: a block holds one tile of Q and passes once over K and V.
//   O = softmax(scale Q K^T + mask) V,  LSE = log of the row sums of exp(scale Q K^T + mask)
// m, l and O stay on chip; when the maximum m of a row grows, l and O are scaled down to it.
#line 5 "templates/fwd.cu"
extern "C" __global__ void __launch_bounds__(T, 1)
fwd_fb4315540f99b27f(const call a)
{
  const turn my = turn_of(a, i32(block_id()));
  const i32 i0 = my.i0;
  const place at = rows(a, my.head);                    // one batch, one head
  const tiles visit = range(at, i0);
  const float c = base2(a.scale);

  const Q_tile Q_place(shared_memory());
  const ring<K_tile> K(shared_memory() + at_K);
  const ring<V_tile> V(shared_memory() + at_V);
  outputs O = {};
  rowvec m = row_fill(minus_inf()), l = row_fill(0.f);

  auto Q_next = depart<D>(Q_place, at.Q, at.Qn, i0, at.nq);
#line 28 "templates/fwd.cu"
  auto K_next = depart<D>(K.slot(0), at.K, at.Kn, visit.first * Bc, at.nk);
#line 30 "templates/fwd.cu"
  land(Q_place, Q_next);
#line 32 "templates/fwd.cu"
  land(K.slot(0), K_next);
  block_sync();
#line 40 "templates/fwd.cu"
  const query Q(Q_place);
#line 91 "templates/fwd.cu"
  i32 j = visit.first;
  for (; j < visit.full; j++) {                         // tiles that no mask touches
#line 44 "templates/fwd.cu"
    auto V_next = depart<Dv>(V.slot(j), at.V, at.Vn, j * Bc, at.nk); // travels while S is made
#line 50 "templates/fwd.cu"
    scores S = {};
    mma_ABt(S, Q, K.slot(j));                           // S = Q K^T
    orient(S, a.scale);
#line 63 "templates/fwd.cu"
    land(V.slot(j), V_next);
    block_sync();
#line 66 "templates/fwd.cu"
    K_next = depart<D>(K.slot(j), at.K, at.Kn, (j + 1) * Bc, at.nk); // travels while O is made
#line 69 "templates/fwd.cu"
    const rowvec m_old = m;
    m = row_max(m, S);                                  // m = max(m, rowmax(S))
    if (settle(m, m_old, c)) {
      const rowvec f = decay(m_old, m, c);
      l = times(f, l);                                  // l = exp(m_old - m) l
      scale_rows(O, f);                                 // O = exp(m_old - m) O
    }
    exp2_rows(S, m, c);                                 // P = exp(S - m)
    l = plus(l, row_sum(S));                            // l = l + rowsum(P)
    const weights P = weigh(S);
#line 82 "templates/fwd.cu"
    mma_AB(O, P, V.slot(j));                            // O = O + P V
#line 87 "templates/fwd.cu"
    land(K.slot(j), K_next);
    block_sync();
#line 94 "templates/fwd.cu"
  }
  for (; j < visit.last; j++) {                         // the diagonal, the ragged end
#line 44 "templates/fwd.cu"
    auto V_next = depart<Dv>(V.slot(j), at.V, at.Vn, j * Bc, at.nk); // travels while S is made
#line 50 "templates/fwd.cu"
    scores S = {};
    mma_ABt(S, Q, K.slot(j));                           // S = Q K^T
    orient(S, a.scale);
#line 57 "templates/fwd.cu"
    mask(S, at, i0, j * Bc);
#line 63 "templates/fwd.cu"
    land(V.slot(j), V_next);
    block_sync();
#line 66 "templates/fwd.cu"
    K_next = depart<D>(K.slot(j), at.K, at.Kn, (j + 1) * Bc, at.nk); // travels while O is made
#line 69 "templates/fwd.cu"
    const rowvec m_old = m;
    m = row_max(m, S);                                  // m = max(m, rowmax(S))
    if (settle(m, m_old, c)) {
      const rowvec f = decay(m_old, m, c);
      l = times(f, l);                                  // l = exp(m_old - m) l
      scale_rows(O, f);                                 // O = exp(m_old - m) O
    }
    exp2_rows(S, m, c);                                 // P = exp(S - m)
    l = plus(l, row_sum(S));                            // l = l + rowsum(P)
    const weights P = weigh(S);
#line 82 "templates/fwd.cu"
    mma_AB(O, P, V.slot(j));                            // O = O + P V
#line 87 "templates/fwd.cu"
    land(K.slot(j), K_next);
    block_sync();
#line 97 "templates/fwd.cu"
  }
#line 102 "templates/fwd.cu"
  l = row_total(l);
  scale_rows(O, row_inverse(l));                        // O = diag(l)^-1 O
  store_outputs(O, at, i0);
  if (at.LSE)
    store_rowvec(row_finish(m, l, c), at.LSE, i0, at.nq);
}

