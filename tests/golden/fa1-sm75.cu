// Attention kernel written by fatune 0.1.0.
//   family     fwd-f32-d64-causal
//   config     fa1:Br64-Bc32-T128-R4-W4
//   source     880b2780655770e9117709770a052c67c6c11d57e2b89c8145388c3dd8f71879
//   target     sm_75
//   options    --std=c++17
//   rebuild    nvcc -cubin -arch=sm_75 --std=c++17 -o kernel.cubin kernel.cu
//   recipe     workspace 8*b*h*q
//   recipe     launch fa1_880b2780655770e9 grid b*h block 128 shared 44544 args call ws(0) ws(4*b*h*q)

//: i32
typedef int i32;

constexpr i32 T = 128;       // threads of a block
//: i64
typedef long long i64;

//: tensor -- rows of contiguous elements; strides in elements: from batch to batch, head to head, row to row
typedef struct tensor {
  void *data;
  i64 b, h, n;
} tensor;

//: row_tensor -- one number a row; rows are contiguous; data may be null: not wanted
typedef struct row_tensor {
  float *data;
  i64 b, h;
} row_tensor;

//: call -- the arguments of one call: its tensors; batch, query heads, KV heads; rows of Q and O, rows of K and V;
// S = scale * Q K^T; then, by feature, numbers (L, R: the keys of a window to the left and to the right of the diagonal)
// and tensors
typedef struct call {
  tensor Q, K, V, O;
  row_tensor LSE;
  i32 b, h, hk;
  i32 q, k;
  float scale;
} call;
typedef char call_is_176_bytes[sizeof(call) == 176 ? 1 : -1]; // as the host lays it out

//: sequence -- the rows of one batch and query head
struct sequence {
  i32 b, h, hk; // batch, query head, the head of K and V that it shares
  i32 nq, nk;   // how many rows
};

//: elem
typedef float elem;

//: place -- a sequence, and where its rows lie: of a tensor X row 0, null where it is not wanted, and Xn, from row to row
struct place : sequence {
  const elem *Q;
  i64 Qn;
  const elem *K;
  i64 Kn;
  const elem *V;
  i64 Vn;
  elem *O;
  i64 On;
  float *LSE;
};

//: sequence_of -- `head` counts the query heads of all batches; heads that share K and V lie side by side
__device__ __forceinline__ sequence sequence_of(const call &a, i32 head)
{
  const i32 h = head % a.h;
  return {head / a.h, h, h / (a.h / a.hk), a.q, a.k};
}

//: rows -- hook
__device__ __forceinline__ place rows(const call &a, i32 head)
{
  const sequence at = sequence_of(a, head);
  const i64 b = at.b, h = at.h, hk = at.hk;
  place my;
  (sequence &)my = at;
  my.Q = (elem *)a.Q.data + b * a.Q.b + h * a.Q.h;
  my.Qn = a.Q.n;
  my.K = (elem *)a.K.data + b * a.K.b + hk * a.K.h;
  my.Kn = a.K.n;
  my.V = (elem *)a.V.data + b * a.V.b + hk * a.V.h;
  my.Vn = a.V.n;
  my.O = (elem *)a.O.data + b * a.O.b + h * a.O.h;
  my.On = a.O.n;
  my.LSE = a.LSE.data ? a.LSE.data + b * a.LSE.b + h * a.LSE.h : nullptr;
  return my;
}

//: block_id -- index of the block in the grid [Special Registers: %ctaid]
__device__ __forceinline__ i64 block_id()
{
  return blockIdx.x;
}

//: sums_at -- where rows of an accumulator lie while they grow: floats, `row` from one to the next
struct sums_at {
  float *data;
  i64 row;
};

//: ceil_div
__device__ __forceinline__ i32 ceil_div(i32 x, i32 y)
{
  return x / y + (x % y > 0);
}

constexpr i32 Br = 64;       // rows of Q of one tile
constexpr i32 Bc = 32;       // rows of K and V of one tile
//: base2 -- the factor c; never 0, because c * -inf must stay -inf (scale 0 weighs all keys alike either way)
__device__ __forceinline__ float base2(float scale)
{
  constexpr float log2e = 1.44269504088896f, least = 1.17549435e-38f;
  return fmaxf(fabsf(scale) * log2e, least);
}

//: tile -- rows x columns in shared memory; `pad` floats behind each row spread neighbours over the banks
template <i32 rows_, i32 columns_, i32 pad_> struct tile {
  static constexpr i32 count = rows_, columns = columns_, stride = columns_ + pad_;
  float *data;
  __device__ __forceinline__ explicit tile(void *at) : data((float *)at) {}
  __device__ __forceinline__ float *row(i32 i) const { return data + i * stride; }
  __device__ __forceinline__ void *end() const { return data + count * stride; }
};

constexpr i32 Dk = 64;       // columns of Q and K as they lie in shared memory
constexpr i32 W = 4;         // floats moved at once
//: Q_tile
typedef tile<Br, Dk, W> Q_tile;

//: shared_memory -- the block's dynamic shared memory; swizzled tiles begin at multiples of 1024 bytes
// [.shared state space]
__device__ __forceinline__ char *shared_memory()
{
  extern __shared__ __align__(1024) char shared_memory_[];
  return shared_memory_;
}

//: K_tile
typedef tile<Bc, Dk, W> K_tile;

constexpr i32 at_K = 27648;  // where K lies in shared memory, bytes
constexpr i32 Dp = 64;       // columns of V as they lie in shared memory
//: V_tile
typedef tile<Bc, Dp, 0> V_tile;

constexpr i32 at_V = 36352;  // where V lies in shared memory, bytes
//: vec -- W floats, moved as one
struct alignas(4 * W) vec {
  float at[W];
};

//: vec_of -- W columns of an accumulator
template <class Acc> __device__ __forceinline__ vec vec_of(const Acc &O, i32 r, i32 c)
{
  vec v;
#pragma unroll
  for (i32 u = 0; u < W; u++)
    v.at[u] = O.at[r][c + u];
  return v;
}

//: store_sums -- and back
template <class Acc> __device__ __forceinline__ void store_sums(const Acc &O, const sums_at &to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += W)
      if (Acc::row(r) < n - i0 && Acc::column(c) < Acc::columns)
        *(vec *)(to.data + (i64(i0) + Acc::row(r)) * to.row + Acc::column(c)) = vec_of(O, r, c);
}

constexpr i32 X = 8;         // lanes that share a row
//: rows_of_thread -- rows of an accumulator that one thread has a part of
template <i32 rows_> constexpr i32 rows_of_thread = rows_ / (T / X);

//: thread_id -- index of the thread in its block [Special Registers: %tid]
__device__ __forceinline__ i32 thread_id()
{
  return threadIdx.x;
}

//: row_of -- the r-th row of this thread; neighbouring groups hold neighbouring rows
template <i32 rows_> __device__ __forceinline__ i32 row_of(i32 r)
{
  return thread_id() / X + r * (T / X);
}

//: lane_of -- which of the X lanes of its rows this thread is
__device__ __forceinline__ i32 lane_of()
{
  return thread_id() % X;
}

//: acc -- a thread's part of a matrix of sums: every X-th column, or every X-th chunk of W columns
template <i32 rows_, i32 columns_, i32 group_ = 1> struct acc {
  static constexpr i32 rows = rows_, columns = columns_;
  static constexpr i32 group = group_; // columns side by side
  static constexpr i32 R = rows_of_thread<rows_>, C = (columns_ + X * group_ - 1) / (X * group_) * group_;
  float at[R][C];
  static __device__ __forceinline__ i32 row(i32 r) { return row_of<rows_>(r); }
  static __device__ __forceinline__ i32 column(i32 c) { return (lane_of() + c / group * X) * group + c % group; }
};

//: sums -- an accumulator of mma_AB or mma_AtB, whose columns are those of a tile's rows: whole chunks of them
template <i32 rows_, i32 columns_> using sums = acc<rows_, columns_, W>;

constexpr i32 Dv = 64;       // head dimension of V and O
//: rowvec -- one number for each row of a tile; a thread holds those of its rows
template <i32 rows_> struct rowvec {
  static constexpr i32 R = rows_of_thread<rows_>;
  float at[R];
  rowvec() = default;
  __device__ __forceinline__ explicit rowvec(float x)
  {
#pragma unroll
    for (i32 r = 0; r < R; r++)
      at[r] = x;
  }
};
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> operator*(const rowvec<rows_> &x, const rowvec<rows_> &y)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = x.at[r] * y.at[r];
  return v;
}
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> operator+(const rowvec<rows_> &x, const rowvec<rows_> &y)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = x.at[r] + y.at[r];
  return v;
}

//: store_rowvec -- one number a row to device memory, written by the first lane of the row
template <i32 rows_>
__device__ __forceinline__ void store_rowvec(const rowvec<rows_> &v, float *to, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    if (lane_of() == 0 && row_of<rows_>(r) < n - i0)
      to[i64(i0) + row_of<rows_>(r)] = v.at[r];
}

//: minus_inf
__device__ __forceinline__ float minus_inf()
{
  return __int_as_float(0xff800000);
}

//: block_sync -- all threads of the block meet, and see what the others wrote before [bar.sync]
__device__ __forceinline__ void block_sync()
{
  __syncthreads();
}

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

constexpr i32 D = 64;        // head dimension of Q and K
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

//: spans -- tiles [first, last): up to `free` the lower end of masks cuts them, up to `full` no mask touches them, then
// the upper end does
struct spans {
  i32 first, free, full, last;
};

//: interval -- from lo to before hi
struct interval {
  i32 lo, hi;
};

//: sees -- hook: the keys that row i sees. Counted from the end, where the last row stands at the last key, so that
// nothing overflows 32 bits, whatever the lengths are
__device__ __forceinline__ interval sees(const call &a, const sequence &at, i32 i)
{
  const i32 behind = max(0, at.nq - 1 - i); // rows that follow row i
  return {0, max(0, at.nk - behind)};
}

//: range -- hook: the KV tiles that rows [i0, i0 + rows_) visit; none where no such row is
template <i32 rows_ = Br> __device__ __forceinline__ spans range(const call &a, const sequence &at, i32 i0)
{
  if (i0 >= at.nq)
    return {0, 0, 0, 0};
  const interval top = sees(a, at, i0), bottom = sees(a, at, i0 + min(rows_, at.nq - i0) - 1);
  const i32 last = ceil_div(bottom.hi, Bc);
  return {0, 0, top.hi / Bc, last};
}

//: load_sums -- an accumulator from device memory, rows i0..; what lies beyond n is 0
template <class Acc> __device__ __forceinline__ Acc load_sums(const sums_at &from, i32 i0, i32 n)
{
  Acc O = {};
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += W)
      if (Acc::row(r) < n - i0 && Acc::column(c) < Acc::columns) {
        const vec v = *(const vec *)(from.data + (i64(i0) + Acc::row(r)) * from.row + Acc::column(c));
#pragma unroll
        for (i32 u = 0; u < W; u++)
          O.at[r][c + u] = v.at[u];
      }
  return O;
}

//: load_rowvec -- one number a row from device memory, read by every lane of the row; 0 beyond n rows
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> load_rowvec(const float *from, i32 i0, i32 n)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = row_of<rows_>(r) < n - i0 ? from[i64(i0) + row_of<rows_>(r)] : 0.f;
  return v;
}

//: query -- Q as the left operand of S = Q K^T
typedef Q_tile query;

//: mma_ABt -- C += A B^T
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void mma_ABt(Acc &S, TileA A, TileB B)
{
#pragma unroll 2
  for (i32 x = 0; x < TileB::columns; x += W) {
    vec a[Acc::R], b[Acc::C];
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      a[r] = *(const vec *)(A.row(Acc::row(r)) + x);
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      b[c] = *(const vec *)(B.row(Acc::column(c)) + x);
#pragma unroll
    for (i32 w = 0; w < W; w++)
#pragma unroll
      for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
        for (i32 c = 0; c < Acc::C; c++)
          S.at[r][c] = fmaf(a[r].at[w], b[c].at[w], S.at[r][c]);
  }
}

//: score -- hook: plain products become scores, for every tile and before masks. In a family without features of the
// score these are the products themselves, and c = base2(scale) enters with the exponential; where the scale is
// negative they change their sign, so that their maximum is a maximum again
template <class Acc> __device__ __forceinline__ void score(Acc &S, const call &a, const sequence &, i32, i32)
{
  if (a.scale < 0.f) {
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
      for (i32 c = 0; c < Acc::C; c++)
        S.at[r][c] = -S.at[r][c];
  }
}

//: is_cut -- whether a mask cuts the j-th tile
__device__ __forceinline__ bool is_cut(const spans &visit, i32 j)
{
  return j < visit.free || j >= visit.full;
}

//: u32
typedef unsigned int u32;

//: keep -- hook: whether a row that sees these keys sees key j, as far as the upper end decides. Without a sign, since j
// counts on beyond the last key: where that is near 2^31, to what no i32 holds
__device__ __forceinline__ bool keep(const interval &seen, u32 j)
{
  return j < u32(seen.hi);
}

//: mask -- S = -inf where `keep` says no; by select, so that a NaN there is gone too
template <class Acc> __device__ __forceinline__ void mask(Acc &S, const call &a, const sequence &at, i32 i0, i32 j0)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const interval seen = sees(a, at, i0 + Acc::row(r));
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] = keep(seen, u32(j0) + Acc::column(c)) ? S.at[r][c] : minus_inf();
  }
}

//: shfl_xor -- x of the thread whose lane number differs in the bits `lanes` [shfl.sync.bfly]
__device__ __forceinline__ float shfl_xor(float x, i32 lanes)
{
  return __shfl_xor_sync(0xffffffffu, x, lanes);
}

//: row_max -- max(m, rowmax(S)), the same in all X lanes of a row
template <class Acc>
__device__ __forceinline__ rowvec<Acc::rows> row_max(const rowvec<Acc::rows> &m, const Acc &S)
{
  rowvec<Acc::rows> v = m;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      v.at[r] = fmaxf(v.at[r], S.at[r][c]);
#pragma unroll
    for (i32 lanes = 1; lanes < X; lanes *= 2)
      v.at[r] = fmaxf(v.at[r], shfl_xor(v.at[r], lanes));
  }
  return v;
}

//: origin -- a maximum to subtract: -inf (no key seen yet) counts as 0, so that -inf - m stays -inf
__device__ __forceinline__ float origin(float m)
{
  return m == minus_inf() ? 0.f : m;
}

//: ex2 -- 2^x, relative error 2^-22; -inf gives 0 [ex2.approx.ftz.f32]
__device__ __forceinline__ float ex2(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//: exp2_columns -- S becomes P = 2^(c S - c m) in a thread's columns from `first` to before `last`
template <i32 first, i32 last, class Acc>
__device__ __forceinline__ void exp2_columns(Acc &S, const rowvec<Acc::rows> &m, float c)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const float cm = c * origin(m.at[r]);
#pragma unroll
    for (i32 x = first; x < last; x++)
      S.at[r][x] = ex2(fmaf(c, S.at[r][x], -cm));
  }
}

//: exp2_rows -- the same in all columns
template <class Acc> __device__ __forceinline__ void exp2_rows(Acc &S, const rowvec<Acc::rows> &m, float c)
{
  exp2_columns<0, Acc::C>(S, m, c);
}

//: row_total -- the sum over all X lanes of a row
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> row_total(const rowvec<rows_> &l)
{
  rowvec<rows_> v = l;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
#pragma unroll
    for (i32 lanes = 1; lanes < X; lanes *= 2)
      v.at[r] += shfl_xor(v.at[r], lanes);
  return v;
}

//: row_sum -- rowsum(P) over this thread's own columns. A tile is summed by itself before it is added to l:
// beside one large P, many small ones would be lost one by one.
template <class Acc> __device__ __forceinline__ rowvec<Acc::rows> row_sum(const Acc &P)
{
  rowvec<Acc::rows> v(0.f);
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      v.at[r] += P.at[r][c];
  return v;
}

//: weigh -- hook: what happens to P after the row sum, on every tile: dropout
template <class Acc> __device__ __forceinline__ void weigh(Acc &, const call &, const sequence &, i32, i32)
{
}

//: larger -- the larger of two, row by row
template <i32 rows_> __device__ __forceinline__ rowvec<rows_> larger(const rowvec<rows_> &x, const rowvec<rows_> &y)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = fmaxf(x.at[r], y.at[r]);
  return v;
}

//: decay -- 2^(c (m_old - m_new)): what was gathered under an old maximum, seen from the new one. The difference
// comes first: it makes exactly 1 where m did not grow. A multiply-add of c m_old and c m_new does not, and its
// rounding error, always of one sign, would count again with every tile.
template <i32 rows_>
__device__ __forceinline__ rowvec<rows_> decay(const rowvec<rows_> &m_old, const rowvec<rows_> &m_new, float c)
{
  rowvec<rows_> v;
#pragma unroll
  for (i32 r = 0; r < v.R; r++)
    v.at[r] = ex2(c * (m_old.at[r] - origin(m_new.at[r])));
  return v;
}

//: scale_rows -- O = diag(f) O
template <class Acc> __device__ __forceinline__ void scale_rows(Acc &O, const rowvec<Acc::rows> &f)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      O.at[r][c] *= f.at[r];
}

constexpr i32 at_P = 17408;  // where P lies in shared memory, bytes
//: lay -- an accumulator into a tile of its shape
template <class Acc, class Tile> __device__ __forceinline__ void lay(Tile to, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      to.row(Acc::row(r))[Acc::column(c)] = S.at[r][c];
}

//: warp_sync -- the 32 threads of the warp meet, and see what the others wrote before [bar.warp.sync]
__device__ __forceinline__ void warp_sync()
{
  __syncwarp();
}

//: operand_of -- an accumulator as the left operand of a product: in shared memory, where the other lanes of its rows
// read it. A row is written and read by one warp
template <class Acc> __device__ __forceinline__ tile<Acc::rows, Acc::columns, X> operand_of(const Acc &S)
{
  const tile<Acc::rows, Acc::columns, X> P(shared_memory() + at_P);
  lay(P, S);
  warp_sync();
  return P;
}

//: mma_AB -- C += A B
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void mma_AB(Acc &O, TileA A, TileB B)
{
#pragma unroll 1
  for (i32 j = 0; j < TileB::count; j += W) {
    vec a[Acc::R];
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      a[r] = *(const vec *)(A.row(Acc::row(r)) + j);
#pragma unroll
    for (i32 w = 0; w < W; w++) {
      vec b[Acc::C / W];
#pragma unroll
      for (i32 e = 0; e < Acc::C / W; e++)
        b[e] = *(const vec *)(B.row(j + w) + Acc::column(e * W));
#pragma unroll
      for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
        for (i32 c = 0; c < Acc::C; c++)
          O.at[r][c] = fmaf(a[r].at[w], b[c / W].at[c % W], O.at[r][c]);
    }
  }
}

//: ending -- what a row ends with: O = factor O, and its LSE
struct ending {
  float factor, LSE;
};

//: ends -- what rows end with: O = diag(factor) O, and their LSE
template <i32 rows_> struct ends {
  rowvec<rows_> factor, LSE;
  __device__ __forceinline__ void set(i32 r, const ending &x)
  {
    factor.at[r] = x.factor;
    LSE.at[r] = x.LSE;
  }
};

//: inverse -- 1 / l; a row that sees no key has l = 0 and gives O = 0
__device__ __forceinline__ float inverse(float l)
{
  return l == 0.f ? 0.f : 1.f / l;
}

//: lg2 -- log2 x, absolute error 2^-22 near 1 [lg2.approx.ftz.f32]
__device__ __forceinline__ float lg2(float x)
{
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//: end_row -- 1 / l, and LSE = scale m + ln l, +inf for a row that sees no key
__device__ __forceinline__ ending end_row(float m, float l, float c)
{
  constexpr float ln2 = 0.693147180559945f;
  return {inverse(l), l == 0.f ? -minus_inf() : (c * m + lg2(l)) * ln2};
}

//: finish -- hook: what rows end with
template <i32 rows_>
__device__ __forceinline__ ends<rows_> finish(const rowvec<rows_> &m, const rowvec<rows_> &l, float c)
{
  ends<rows_> end;
#pragma unroll
  for (i32 r = 0; r < m.R; r++)
    end.set(r, end_row(m.at[r], l.at[r], c));
  return end;
}

// fa1.cu -- FlashAttention, Algorithms 1 and 2 of the first paper: the outer loop goes over K and V, the inner
// one over Q; O, l and m live in device memory and are read, rescaled and written at each step.
// One block for each batch and head. Numbers on the right are the lines of Algorithm 1.
extern "C" __global__ void __launch_bounds__(T, 1)
fa1_880b2780655770e9(const call a, float *l_all, float *m_all)
{
  const place at = rows(a, i32(block_id()));
  float *const l_head = l_all + block_id() * a.q, *const m_head = m_all + block_id() * a.q;
  const sums_at O_head = {at.O, at.On};
  const i32 Tr = ceil_div(at.nq, Br), Tc = ceil_div(at.nk, Bc);               // 3, 4
  const float c = base2(a.scale);

  const Q_tile Q_place(shared_memory());
  const K_tile K(shared_memory() + at_K);
  const V_tile V(shared_memory() + at_V);

  for (i32 i = 0; i < Tr; i++) {                                               // 2
    store_sums(sums<Br, Dv>{}, O_head, i * Br, at.nq);
    store_rowvec(rowvec<Br>(0.f), l_head, i * Br, at.nq);
    store_rowvec(rowvec<Br>(minus_inf()), m_head, i * Br, at.nq);
  }
  for (i32 j = 0; j < Tc; j++) {                                               // 5
    block_sync();                                       // all are done with the last K, V
    const auto K_next = depart<D>(K, at.K, at.Kn, j * Bc, at.nk);              // 6
    land(K, K_next);
    const auto V_next = depart<Dv>(V, at.V, at.Vn, j * Bc, at.nk);
    land(V, V_next);
    for (i32 i = 0; i < Tr; i++) {                                             // 7
      const spans visit = range(a, at, i * Br);
      if (j < visit.first || j >= visit.last)
        continue;                                       // no row of this tile sees a key of that one; with a block mask: Algorithm 5
      block_sync();                                     // all are done with the last Q; its O, l, m are written
      const auto Q_next = depart<D>(Q_place, at.Q, at.Qn, i * Br, at.nq);      // 8
      sums<Br, Dv> O = load_sums<sums<Br, Dv>>(O_head, i * Br, at.nq);
      const rowvec<Br> l = load_rowvec<Br>(l_head, i * Br, at.nq), m = load_rowvec<Br>(m_head, i * Br, at.nq);
      land(Q_place, Q_next);
      block_sync();
      const query Q(Q_place);
      acc<Br, Bc> S = {};
      mma_ABt(S, Q, K);                                                        // 9: S = Q K^T
      score(S, a, at, i * Br, j * Bc);
      if (is_cut(visit, j))
        mask(S, a, at, i * Br, j * Bc);
      const rowvec<Br> m_ij = row_max(rowvec<Br>(minus_inf()), S);             // 10: m_ij = rowmax(S)
      exp2_rows(S, m_ij, c);                                                   //     P = exp(S - m_ij)
      const rowvec<Br> l_ij = row_total(row_sum(S));                           //     l_ij = rowsum(P)
      weigh(S, a, at, i * Br, j * Bc);
      const rowvec<Br> m_new = larger(m, m_ij);                                // 11
      const rowvec<Br> f = decay(m, m_new, c), f_ij = decay(m_ij, m_new, c);
      const rowvec<Br> l_new = f * l + f_ij * l_ij;
      scale_rows(O, f * l);                                                    // 12: O = diag(l_new)^-1
      scale_rows(S, f_ij);                                                     //     (diag(l) exp(m - m_new) O
      const auto P = operand_of(S);                                            //      + exp(m_ij - m_new) P V)
      mma_AB(O, P, V);
      scale_rows(O, finish(m_new, l_new, c).factor);
      store_sums(O, O_head, i * Br, at.nq);
      store_rowvec(l_new, l_head, i * Br, at.nq);                              // 13
      store_rowvec(m_new, m_head, i * Br, at.nq);
    }
  }
  if (at.LSE) {
    block_sync();
    for (i32 i = 0; i < Tr; i++) {
      const rowvec<Br> l = load_rowvec<Br>(l_head, i * Br, at.nq), m = load_rowvec<Br>(m_head, i * Br, at.nq);
      store_rowvec(finish(m, l, c).LSE, at.LSE, i * Br, at.nq);
    }
  }
}

