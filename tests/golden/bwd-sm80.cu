// Attention kernel written by fatune 0.1.0.
//   family     bwd-f16-d64-causal
//   config     bwd:Br32-Bc128-w4-wS4-wK4-wQ1-s2-V0-q1-b2-Z8-U0-W16
//   source     b6dbee16631fa64e47aa361baad443803173e98c97653809603c495add3e451a
//   target     sm_80
//   options    --std=c++17
//   rebuild    nvcc -cubin -arch=sm_80 --std=c++17 -o kernel.cubin kernel.cu
//   recipe     workspace b*h*ceildiv(q,32)*8448
//   recipe     reduces dQ
//   recipe     launch bwd_prepare_b6dbee16631fa64e grid b*h*ceildiv(q,32) block 128 shared 0 args call ws(0) ws(b*h*ceildiv(q,32)*8192)
//   recipe     launch bwd_b6dbee16631fa64e grid ceildiv(k,128)*b*hk block 128 shared 66048 args call ws(0) ws(b*h*ceildiv(q,32)*8192)
//   recipe     launch bwd_finish_b6dbee16631fa64e grid b*h*ceildiv(q,32) block 128 shared 4096 args call ws(0)

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
  tensor dO, dQ, dK, dV;
  i32 b, h, hk;
  i32 q, k;
  float scale;
} call;
typedef char call_is_304_bytes[sizeof(call) == 304 ? 1 : -1]; // as the host lays it out

//: LD_row -- of one row of Q: log2(e) LSE, and D = rowsum(dO O). Beyond the last row of a sequence LSE is inf, so that P is 0
typedef float2 LD_row;

//: overlap_next -- the launch behind may begin, where it overlaps
__device__ __forceinline__ void overlap_next()
{
}

//: ceil_div
__device__ __forceinline__ i32 ceil_div(i32 x, i32 y)
{
  return x / y + (x % y > 0);
}

constexpr i32 Br = 32;       // rows of Q of one tile
constexpr i32 per_chunk = 8; // elements of a chunk of 16 bytes
//: u32
typedef unsigned int u32;

//: shared_address -- where a pointer into shared memory points, as the 32-bit address that instructions take
__device__ __forceinline__ u32 shared_address(const void *p)
{
  return u32(__cvta_generic_to_shared(p));
}

//: tile -- rows x columns in shared memory
template <i32 rows_, i32 columns_> struct tile {
  static constexpr i32 count = rows_, columns = columns_;
  static constexpr i32 chunks = columns_ / per_chunk;                    // of a row
  static constexpr i32 orders = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2; // chunks that change places
  static constexpr i32 row = 16 * chunks, bytes = rows_ * row;
  u32 data;
  __device__ __forceinline__ explicit tile(void *p) : data(shared_address(p)) {}
  __device__ __forceinline__ explicit tile(u32 address) : data(address) {}
  // Rows 8 / orders apart start in the same bank, so every 8 / orders rows take the next order.
  static __device__ __forceinline__ i32 order(i32 i) { return i / (8 / orders) % orders; }
  __device__ __forceinline__ u32 chunk(i32 i, i32 x) const { return data + i * row + (x ^ order(i)) * 16; }
};

//: block_id -- index of the block in the grid [Special Registers: %ctaid]
__device__ __forceinline__ i64 block_id()
{
  return blockIdx.x;
}

//: sequence -- the rows of one batch and query head
struct sequence {
  i32 b, h, hk; // batch, query head, the head of K and V that it shares
  i32 nq, nk;   // how many rows
};

//: u16
typedef unsigned short u16;

//: elem
typedef u16 elem;

//: place -- a sequence, and where its rows lie: of a tensor X row 0, null where it is not wanted, and Xn, from row to row
struct place : sequence {
  const elem *Q;
  i64 Qn;
  const elem *K;
  i64 Kn;
  const elem *V;
  i64 Vn;
  const elem *O;
  i64 On;
  const float *LSE;
  const elem *dO;
  i64 dOn;
  elem *dQ;
  i64 dQn;
  elem *dK;
  i64 dKn;
  elem *dV;
  i64 dVn;
};

//: thread_id -- index of the thread in its block [Special Registers: %tid]
__device__ __forceinline__ i32 thread_id()
{
  return threadIdx.x;
}

constexpr i32 D = 64;        // head dimension of Q and K
constexpr i32 Dv = 64;       // head dimension of V and O
//: quad -- four registers of 32 bits: what one lane moves at once
struct alignas(16) quad {
  u32 at[4];
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
  my.dO = (elem *)a.dO.data + b * a.dO.b + h * a.dO.h;
  my.dOn = a.dO.n;
  my.dQ = (elem *)a.dQ.data + b * a.dQ.b + h * a.dQ.h;
  my.dQn = a.dQ.n;
  my.dK = (elem *)a.dK.data + b * a.dK.b + hk * a.dK.h;
  my.dKn = a.dK.n;
  my.dV = (elem *)a.dV.data + b * a.dV.b + hk * a.dV.h;
  my.dVn = a.dV.n;
  return my;
}

constexpr i32 warps = 4;     // warps of a block
//: warp_of -- which warp of the block
__device__ __forceinline__ i32 warp_of()
{
  return thread_id() / 32;
}

//: first_row -- the first of them
template <i32 rows_> __device__ __forceinline__ i32 first_row()
{
  return warp_of() * (rows_ / warps);
}

//: lane_of -- which of the X lanes of its rows this thread is
__device__ __forceinline__ i32 lane_of()
{
  return thread_id() % 4;
}

//: column_of -- the c-th column of this thread
__device__ __forceinline__ i32 column_of(i32 c)
{
  return c / 2 * 8 + lane_of() * 2 + c % 2;
}

//: part -- what a warp's thread holds of an accumulator: `down` warps share its rows, `warps / down` its columns, in blocks
// of 16 rows and 16 columns. Warps with the same rows are `down` apart
template <i32 rows_, i32 columns_, i32 down_> struct part {
  static constexpr i32 rows = rows_, columns = columns_, across = warps / down_;
  static constexpr i32 R = rows_ / (8 * down_);
  static constexpr i32 C = across == 1 ? columns_ / 4 : (columns_ + 16 * across - 1) / (16 * across) * 4;
  static constexpr bool is_even = columns_ == 4 * C * across; // else the last warps have less
  float at[R][C];
  static __device__ __forceinline__ i32 first_row() { return (across == 1 ? warp_of() : warp_of() % down_) * (8 * R); }
  static __device__ __forceinline__ i32 first_column() { return across == 1 ? 0 : warp_of() / down_ * (4 * C); }
  static __device__ __forceinline__ i32 row(i32 r) { return first_row() + r / 2 * 16 + r % 2 * 8 + thread_id() % 32 / 4; }
  static __device__ __forceinline__ i32 column(i32 c) { return first_column() + column_of(c); }
  // Whether the columns that the c-th is one of are there, eight side by side.
  static __device__ __forceinline__ bool has(i32 c) { return is_even || first_column() + c / 2 * 8 < columns; }
};

//: float_of_f16 [cvt.f32.f16]
__device__ __forceinline__ float float_of_f16(u16 x)
{
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

//: float_of
__device__ __forceinline__ float float_of(elem x)
{
  return float_of_f16(x);
}

//: dot_of -- of 16 bytes of two matrices
__device__ __forceinline__ float dot_of(const quad &a, const quad &b)
{
  union {
    quad whole;
    elem part[per_chunk];
  } x = {a}, y = {b};
  float sum = 0.f;
#pragma unroll
  for (i32 i = 0; i < per_chunk; i++)
    sum = fmaf(float_of(x.part[i]), float_of(y.part[i]), sum);
  return sum;
}

//: get_chunk -- 16 bytes of device memory
__device__ __forceinline__ quad get_chunk(const elem *p)
{
  return *(const quad *)p;
}

//: shfl_xor -- x of the thread whose lane number differs in the bits `lanes` [shfl.sync.bfly]
__device__ __forceinline__ float shfl_xor(float x, i32 lanes)
{
  return __shfl_xor_sync(0xffffffffu, x, lanes);
}

//: minus_inf
__device__ __forceinline__ float minus_inf()
{
  return __int_as_float(0xff800000);
}

//: make_LD -- LSE and D of the rows of a tile, eight lanes to a row
__device__ __forceinline__ void make_LD(LD_row *to, const place &at, i32 i0)
{
  constexpr float log2e = 1.44269504088896f;
  for (i32 r = thread_id() / 8; r < Br; r += T / 8) {
    const bool real = r < at.nq - i0;
    const i64 i = i64(i0) + r;
    float D = 0.f;
    for (i32 x = thread_id() % 8; real && x < Dv / per_chunk; x += 8)
      D += dot_of(get_chunk(at.dO + i * at.dOn + x * per_chunk), get_chunk(at.O + i * at.On + x * per_chunk));
#pragma unroll
    for (i32 lanes = 1; lanes < 8; lanes *= 2)
      D += shfl_xor(D, lanes);
    if (thread_id() % 8 == 0)
      to[r] = {real ? log2e * at.LSE[i] : -minus_inf(), D};
  }
}

//: shares -- sums of all blocks in device memory, in the order in which threads hold them: a thread's n-th lies beside
// those of its neighbours, so that a warp adds to 128 bytes side by side
template <class Acc> struct shares {
  static constexpr i32 count = Acc::R * Acc::C * T;
  float *data;
  __device__ __forceinline__ shares(float *all, i64 tile) : data(all + tile * count) {}
  __device__ __forceinline__ float *at(i32 r, i32 c) const { return data + (r * Acc::C + c) * T + thread_id(); }
};

//: clear -- all become 0
template <class Acc> __device__ __forceinline__ void clear(const shares<Acc> &all)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      *all.at(r, c) = 0.f;
}

constexpr i32 down_Q = 1;    // warps that share the rows of dQ
//: dQ_part
typedef part<Br, D, down_Q> dQ_part;

//: key_task -- what one block does: a tile of K and V for all query heads that share it, of which `head` is the first
struct key_task {
  i32 head, j0;
};

//: portion -- a head, and which of its tiles
struct portion {
  i32 head, nth;
};

//: portion_of -- what a block does of `heads` heads with as many tiles each. Blocks start in the order of their numbers: as
// many heads together, which share L2, and of these their first tiles first. The last of them are as many as any: where
// few were left, SMs would wait for their long tiles
__device__ __forceinline__ portion portion_of(i32 block, i32 heads, i32 tiles, i32 together)
{
  const i32 most = min(together, heads), odd = heads % most, behind = block - tiles * odd;
  if (behind < 0)
    return {block % odd, block / odd};
  const i32 first = behind / (tiles * most) * most, x = behind - tiles * first;
  return {odd + first + x % most, x / most};
}

constexpr i32 Bc = 128;      // rows of K and V of one tile
constexpr i32 Z = 8;         // heads whose tiles start together
//: key_task_of -- the first tiles of K and V, which the most rows see under a causal mask, come first
__device__ __forceinline__ key_task key_task_of(const call &a, i32 block)
{
  const portion mine = portion_of(block, a.b * a.hk, ceil_div(a.k, Bc), Z);
  return {mine.head * (a.h / a.hk), Bc * mine.nth};
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

//: seen_by -- hook: the rows that see key j, the transpose of `sees`; none where there is no such key
__device__ __forceinline__ interval seen_by(const call &a, const sequence &at, i32 j)
{
  if (u32(j) >= u32(at.nk))
    return {0, 0};
  const i32 behind = max(0, at.nk - 1 - j); // keys that follow key j
  return {max(0, at.nq - 1 - behind), at.nq};
}

//: range_rows -- hook: the tiles of Q that keys [j0, j0 + Bc) are seen by
__device__ __forceinline__ spans range_rows(const call &a, const sequence &at, i32 j0)
{
  const interval top = seen_by(a, at, j0), bottom = seen_by(a, at, j0 + min(Bc, at.nk - j0) - 1);
  const i32 last = ceil_div(bottom.hi, Br), first = min(top.lo / Br, last);
  if (at.nk - j0 < Bc)
    return {first, last, last, last}; // keys beyond the end are masked
  const i32 free = min(max(first, ceil_div(bottom.lo, Br)), last);
  return {first, free, min(max(free, top.hi / Br), last), last};
}

constexpr i32 Dp = 64;       // columns of Q and K in shared memory
//: Q_tile
typedef tile<Br, Dp> Q_tile;

constexpr i32 stages = 2;    // tiles of Q and of dO in shared memory
//: ring -- tiles one behind the other; step j uses tile j % count
template <class Tile, i32 count = stages> struct ring {
  u32 data;
  __device__ __forceinline__ explicit ring(void *p) : data(shared_address(p)) {}
  __device__ __forceinline__ Tile slot(i32 j) const { return Tile(data + u32(j) % count * Tile::bytes); }
};

//: shared_memory -- the block's dynamic shared memory; swizzled tiles begin at multiples of 1024 bytes
// [.shared state space]
__device__ __forceinline__ char *shared_memory()
{
  extern __shared__ __align__(1024) char shared_memory_[];
  return shared_memory_;
}

constexpr i32 at_Q = 32768;  // where Q lies in shared memory, bytes
constexpr i32 Dw = 64;       // columns of V and dO in shared memory
//: dO_tile
typedef tile<Br, Dw> dO_tile;

constexpr i32 at_dO = 40960; // where dO lies in shared memory, bytes
//: get16 -- 16 bytes out of shared memory [ld.shared.v4.b32]
__device__ __forceinline__ quad get16(u32 from)
{
  quad x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.at[0]), "=r"(x.at[1]), "=r"(x.at[2]), "=r"(x.at[3])
               : "r"(from)
               : "memory");
  return x;
}

//: LD_tile -- those of the rows of a tile
struct LD_tile {
  static constexpr i32 bytes = 8 * Br;
  u32 data;
  __device__ __forceinline__ explicit LD_tile(u32 address) : data(address) {}
  // Of two rows side by side: LSE, D, LSE, D.
  __device__ __forceinline__ quad rows(i32 i) const { return get16(data + 8 * i); }
};

constexpr i32 at_LD = 49152; // where LD lies in shared memory, bytes
//: flight -- a thread's share of a tile on its way from device memory: in registers, or copies that do without it
template <class Tile> struct flight {
};

//: share -- how the threads of a block divide the chunks of a tile: each keeps its chunk of a row, every `step`
// rows. With a step of 4 rows or a multiple, the order of a row's chunks changes by a constant from step to step.
template <class Tile> struct share {
  static constexpr i32 most = T / Tile::chunks, step = most >= 4 ? most / 4 * 4 : most;
  static constexpr i32 count = (Tile::count + step - 1) / step;
  i32 i, x; // first row, chunk
  __device__ __forceinline__ share() : i(thread_id() / Tile::chunks), x(thread_id() % Tile::chunks) {}
  // Whether the k-th is one of the tile; decided by the compiler where the shares are even.
  __device__ __forceinline__ bool has(i32 k) const
  {
    return (T == step * Tile::chunks || i < step) && ((k + 1) * step <= Tile::count || i + k * step < Tile::count);
  }
  // Where the k-th lies.
  __device__ __forceinline__ u32 at(Tile to, i32 k) const
  {
    if (step % 4)
      return to.chunk(i + k * step, x);
    return to.chunk(i, x ^ Tile::order(k * step)) + k * step * Tile::row;
  }
};

//: copy_async -- starts to copy 16 bytes to shared memory; where `real` is false, zeros, and nothing is read
// [cp.async.cg.shared.global, with its source size]
__device__ __forceinline__ void copy_async(u32 to, const void *from, bool real)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(real ? 16 : 0) : "memory");
}

//: send -- starts the copies of rows i0.. of a matrix of n rows and d columns to a tile
template <i32 d, class Tile>
__device__ __forceinline__ void send(Tile to, const elem *from, i64 stride, i32 i0, i32 n)
{
  const share<Tile> my;
  const elem *p = from + (i64(i0) + my.i) * stride + my.x * per_chunk;
#pragma unroll
  for (i32 k = 0; k < share<Tile>::count; k++) {
    if (my.has(k))
      copy_async(my.at(to, k), p, my.i < n - i0 - k * share<Tile>::step && my.x * per_chunk < d);
    p += stride * share<Tile>::step;
  }
}

//: copy_commit -- this thread's copies since the last call are one group [cp.async.commit_group]
__device__ __forceinline__ void copy_commit()
{
  asm volatile("cp.async.commit_group;" ::: "memory");
}

//: depart -- rows i0.. of a matrix of n rows and d columns set out for a tile; what lies beyond either is 0
template <i32 d, class Tile>
__device__ __forceinline__ flight<Tile> depart(Tile to, const elem *from, i64 stride, i32 i0, i32 n)
{
  send<d>(to, from, stride, i0, n);
  copy_commit();
  return {};
}

//: row_tiles -- the tiles of Q that see a tile of keys, head after head, with dO, LSE and D of their rows: one step each
struct row_tiles {
  const call &a;
  const LD_row *LD_all;
  i32 head, first, count, steps; // the first query head; the first tile, how many, of all heads
  __device__ __forceinline__ row_tiles(const call &a_, i32 head_, const spans &visit, const LD_row *LD_all_)
      : a(a_), LD_all(LD_all_), head(head_), first(visit.first), count(visit.last - visit.first), steps(count * (a_.h / a_.hk))
  {
  }
  __device__ __forceinline__ i32 head_of(i32 n) const { return head + heads_before(n); }
  __device__ __forceinline__ i32 tile_of(i32 n) const { return first + n - count * heads_before(n); }
  // Heads that are done before step n; nothing is divided where there is one.
  __device__ __forceinline__ i32 heads_before(i32 n) const { return count == steps ? 0 : i32(u32(n) / u32(count)); }
  // Among the tiles of all heads and batches.
  __device__ __forceinline__ i64 number_of(i32 n) const { return i64(head_of(n)) * ceil_div(a.q, Br) + tile_of(n); }
  __device__ __forceinline__ Q_tile Q(i32 n) const { return ring<Q_tile>(shared_memory() + at_Q).slot(n); }
  __device__ __forceinline__ dO_tile dO(i32 n) const { return ring<dO_tile>(shared_memory() + at_dO).slot(n); }
  __device__ __forceinline__ LD_tile LD(i32 n) const { return ring<LD_tile>(shared_memory() + at_LD).slot(n); }
  struct way {};
  // The tiles of step n set out; none do behind the last.
  __device__ __forceinline__ way depart(i32 n) const
  {
    way w = {};
    if (n >= steps)
      return w;
    const i32 i0 = tile_of(n) * Br;
    const place at = rows(a, head_of(n));
    const quad *pairs = (const quad *)(LD_all + number_of(n) * Br) + thread_id(); // LSE and D of two rows each
    send<D>(Q(n), at.Q, at.Qn, i0, at.nq);
    send<Dv>(dO(n), at.dO, at.dOn, i0, at.nq);
    if (thread_id() < Br / 2)
      copy_async(LD(n).data + 16 * thread_id(), pairs, true);
    return w;
  }
};

//: base2 -- the factor c; never 0, because c * -inf must stay -inf (scale 0 weighs all keys alike either way)
__device__ __forceinline__ float base2(float scale)
{
  constexpr float log2e = 1.44269504088896f, least = 1.17549435e-38f;
  return fmaxf(fabsf(scale) * log2e, least);
}

//: K_tile
typedef tile<Bc, Dp> K_tile;

//: V_tile
typedef tile<Bc, Dw> V_tile;

constexpr i32 at_V = 16384;  // where V lies in shared memory, bytes
//: dS_tile -- transposed
typedef tile<Bc, Br> dS_tile;

constexpr i32 dS_tiles = 2;  // tiles of dS in shared memory
constexpr i32 at_dS = 49664; // where dS lies in shared memory, bytes
constexpr i32 down_K = 4;    // warps that share the rows of dK and dV
//: dK_part
typedef part<Bc, D, down_K> dK_part;

//: dV_part
typedef part<Bc, Dv, down_K> dV_part;

//: await_last -- what the launch before wrote is here
__device__ __forceinline__ void await_last()
{
}

//: begin -- the tiles of the first steps set out, from step n on
template <class Tiles> __device__ __forceinline__ void begin(const Tiles &from, i32 n)
{
#pragma unroll
  for (i32 x = 0; x < max(stages - 1, 1); x++) {
    from.depart(n + x);
    copy_commit(); // a group for each step, empty behind the last
  }
}

//: left -- a left operand: 16 rows, 16 deep
typedef quad left;

//: copy_wait -- until all but the `left` youngest groups of this thread have landed [cp.async.wait_group]
template <i32 left> __device__ __forceinline__ void copy_wait()
{
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

//: block_sync -- all threads of the block meet, and see what the others wrote before [bar.sync]
__device__ __forceinline__ void block_sync()
{
  __syncthreads();
}

//: arrive -- the tiles of step n are here, and all threads are done with the step before; others set out
template <class Tiles> __device__ __forceinline__ typename Tiles::way arrive(const Tiles &from, i32 n)
{
  copy_wait<(stages > 2 ? stages - 2 : 0)>();
  block_sync();
  from.depart(n + stages - 1);
  copy_commit();
  return {};
}

//: lane_view -- an address in a tile that a lane reads with every block of 16 rows and every pair of chunks:
// the pair only flips bits that are the lane's own, because rows start at multiples of 16 `orders` bytes
template <class Tile> struct lane_view {
  u32 base;
  __device__ __forceinline__ u32 at(i32 i, i32 pair) const
  {
    constexpr i32 flips = 16 * Tile::orders - 1;
    return (base ^ (pair * 32 & flips)) + (pair * 32 & ~flips) + i * Tile::row;
  }
};

//: anew -- x, of which compilers cannot know that it is what it was before: what is made of it is not kept in registers over
// a loop, but made again [mov.b32]
__device__ __forceinline__ u32 anew(u32 x)
{
  u32 y;
  asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

//: here -- a view that is used now; the few addresses that it is made of would take a fourth of the registers, were those of
// all products kept
template <class Tile> __device__ __forceinline__ lane_view<Tile> here(lane_view<Tile> view)
{
  return {anew(view.base)};
}

//: view_down -- for ldmatrix: lanes 0-15 name the 16 rows of a pair's first chunk, lanes 16-31 those of the second
template <class Tile> __device__ __forceinline__ lane_view<Tile> view_down(Tile from, i32 i)
{
  const i32 lane = thread_id() % 32;
  return {from.chunk(i + lane % 16, lane / 16)};
}

//: ldmatrix_trans -- the same, transposed: elements (2t, g) and (2t + 1, g) go to lane 4 g + t
// [ldmatrix.sync.aligned.m8n8.x4.trans]
__device__ __forceinline__ quad ldmatrix_trans(u32 row)
{
  quad x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.at[0]), "=r"(x.at[1]), "=r"(x.at[2]), "=r"(x.at[3])
               : "r"(row)
               : "memory");
  return x;
}

//: right -- a right operand: 16 deep, 8 columns
struct right {
  u32 at[2];
};

//: mma_f16 -- a 16x8 tile C += A B, A 16x16 and B 16x8 of f16. With g = lane / 4, t = lane % 4:
// c0 c1 = C(g, 2t..), c2 c3 = C(g + 8, 2t..); a = A(g, 2t..), A(g + 8, 2t..), A(g, 2t + 8..), A(g + 8, 2t + 8..);
// b0 = B(2t.., g), b1 = B(2t + 8.., g) [mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32]
__device__ __forceinline__ void mma_f16(float &c0, float &c1, float &c2, float &c3, const quad &a, u32 b0, u32 b1)
{
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
}

//: product -- C += A B of one 16x8 block
__device__ __forceinline__ void product(float &c0, float &c1, float &c2, float &c3, const left &a, const right &b)
{
  mma_f16(c0, c1, c2, c3, a, b.at[0], b.at[1]);
}

//: mma_block -- one 16x8 block: rows 16 m.., columns 8 n.. of an accumulator gain a b
template <class Acc>
__device__ __forceinline__ void mma_block(Acc &C, i32 m, i32 n, const left &a, const right &b)
{
  product(C.at[2 * m][2 * n], C.at[2 * m][2 * n + 1], C.at[2 * m + 1][2 * n], C.at[2 * m + 1][2 * n + 1], a, b);
}

//: right_of
__device__ __forceinline__ right right_of(u32 b0, u32 b1)
{
  return {b0, b1};
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

//: view_across -- for ldmatrix: lanes 0-7 name 8 rows of the first chunk, 8-15 of the second; 16-31 the next 8 rows
template <class Tile> __device__ __forceinline__ lane_view<Tile> view_across(Tile from)
{
  const i32 lane = thread_id() % 32;
  return {from.chunk(lane / 16 * 8 + lane % 8, lane / 8 % 2)};
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

//: add_AtB
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void add_AtB(Acc &C, TileA A, TileB B)
{
  add_AB(C, columns_of_tile<Acc, TileA>(A), B);
}

//: reduce_add -- adds to a number in device memory, sooner or later [red.global.add.f32]
__device__ __forceinline__ void reduce_add(float *to, float x)
{
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}

//: reduce -- adds this block's
template <class Acc> __device__ __forceinline__ void reduce(const shares<Acc> &all, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      if (Acc::has(c))
        reduce_add(all.at(r, c), S.at[r][c]);
}

constexpr i32 down_S = 4;    // warps that share the keys of S
//: S_part -- of S, P, dP and dS, transposed
typedef part<Bc, Br, down_S> S_part;

//: rows_below -- a tile from row i on, a multiple of 8
template <class Tile> __device__ __forceinline__ Tile rows_below(Tile from, i32 i)
{
  return Tile(from.data + i * Tile::row);
}

//: ldmatrix -- four 8x8 matrices of 16-bit elements; lane 8 i + r names row r of matrix i (16 bytes); element
// (g, 2t) and (g, 2t + 1) of each go to lane 4 g + t, one register a matrix [ldmatrix.sync.aligned.m8n8.x4]
__device__ __forceinline__ quad ldmatrix(u32 row)
{
  quad x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.at[0]), "=r"(x.at[1]), "=r"(x.at[2]), "=r"(x.at[3])
               : "r"(row)
               : "memory");
  return x;
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

//: left_of
__device__ __forceinline__ left left_of(const quad &a)
{
  return a;
}

//: rows_of_tile -- a left operand, read with each product
template <class Acc, class Tile> struct rows_of_tile {
  static constexpr bool is_pairs = false;
  static constexpr i32 steps = Tile::columns / (2 * per_chunk), in_a_row = steps;
  lane_view<Tile> view;
  __device__ __forceinline__ explicit rows_of_tile(Tile from) : view(here(view_down(from, Acc::first_row()))) {}
  __device__ __forceinline__ left at(i32 k, i32 m) const { return left_of(ldmatrix(view.at(16 * m, k))); }
};

//: rows_for
template <class Acc, class Tile> __device__ __forceinline__ rows_of_tile<Acc, Tile> rows_for(Tile from)
{
  return rows_of_tile<Acc, Tile>(from);
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

//: keep -- hook: whether a row that sees these keys sees key j, as far as the upper end decides. Without a sign, since j
// counts on beyond the last key: where that is near 2^31, to what no i32 holds
__device__ __forceinline__ bool keep(const interval &seen, u32 j)
{
  return j < u32(seen.hi);
}

//: keep_from -- hook: the same, as far as the lower end does
__device__ __forceinline__ bool keep_from(const interval &seen, u32 j)
{
  return j >= u32(seen.lo);
}

//: mask_rows -- the same of S^T, a row for each key: by the rows that see it
template <class Acc> __device__ __forceinline__ void mask_rows(Acc &S, const call &a, const sequence &at, i32 i0, i32 j0)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++) {
    const interval by = seen_by(a, at, j0 + Acc::row(r));
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] = keep(by, u32(i0) + Acc::column(c)) && keep_from(by, u32(i0) + Acc::column(c)) ? S.at[r][c] : minus_inf();
  }
}

//: ex2 -- 2^x, relative error 2^-22; -inf gives 0 [ex2.approx.ftz.f32]
__device__ __forceinline__ float ex2(float x)
{
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//: exp2_minus_LSE -- S becomes P = 2^(c S - log2(e) LSE)
template <class Acc> __device__ __forceinline__ void exp2_minus_LSE(Acc &S, LD_tile LD, float c)
{
#pragma unroll
  for (i32 x = 0; x < Acc::C; x += 2) {
    const quad at = LD.rows(Acc::column(x));
    const float L[2] = {__uint_as_float(at.at[0]), __uint_as_float(at.at[2])};
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
      for (i32 y = 0; y < 2; y++)
        S.at[r][x + y] = ex2(fmaf(c, S.at[r][x + y], -L[y]));
  }
}

//: weigh -- hook: what happens to P after the row sum, on every tile: dropout
template <class Acc> __device__ __forceinline__ void weigh(Acc &, const call &, const sequence &, i32, i32)
{
}

//: left_operand -- an accumulator, rounded: what a thread holds of it is what it must hold of A
template <i32 blocks, i32 steps_> struct left_operand {
  static constexpr i32 steps = steps_;
  left part[steps_][blocks];
  __device__ __forceinline__ left at(i32 k, i32 m) const { return part[k][m]; }
};

//: pack_f16 -- two f16 in a register, `low` at the lower address [cvt.rn.f16x2.f32]
__device__ __forceinline__ u32 pack_f16(float low, float high)
{
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

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
        A.part[k][m].at[x] = pack_f16(pair[0], pair[1]);
      }
  return A;
}

//: times_dP_minus_D -- P becomes dS = P (dP - D)
template <class Acc> __device__ __forceinline__ void times_dP_minus_D(Acc &P, const Acc &dP, LD_tile LD)
{
#pragma unroll
  for (i32 x = 0; x < Acc::C; x += 2) {
    const quad at = LD.rows(Acc::column(x));
    const float D[2] = {__uint_as_float(at.at[1]), __uint_as_float(at.at[3])};
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
      for (i32 y = 0; y < 2; y++)
        P.at[r][x + y] *= dP.at[r][x + y] - D[y];
  }
}

//: put4 -- 4 bytes into shared memory [st.shared.b32]
__device__ __forceinline__ void put4(u32 to, u32 x)
{
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

//: lay_part -- an accumulator into a tile of its shape, rounded
template <class Acc, class Tile> __device__ __forceinline__ void lay_part(Tile to, const Acc &S)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c += 2)
      if (Acc::has(c))
        put4(to.chunk(Acc::row(r), Acc::first_column() / 8 + c / 2) + 4 * lane_of(), pack_f16(S.at[r][c], S.at[r][c + 1]));
}

//: leave -- all threads have read the tiles of step n, where the next take their place
template <class Tiles> __device__ __forceinline__ void leave(const Tiles &from, i32 n, const typename Tiles::way &next)
{
}

//: finish_steps -- no copy is under way, and all threads are done with the last step
__device__ __forceinline__ void finish_steps()
{
  copy_wait<0>();
  block_sync();
}

//: store_part -- rows i0.. of `scale` times an accumulator to a tensor of n rows, rounded; through a tile that nobody else
// needs any more
template <class Acc, class Tile>
__device__ __forceinline__ void store_part(Acc &S, float scale, Tile through, elem *to, i64 stride, i32 i0, i32 n)
{
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] *= scale;
  constexpr i32 chunks = Acc::columns / per_chunk;
  lay_part(through, S);
  block_sync();
  for (i32 x = thread_id(); x < Acc::rows * chunks; x += T) {
    const i32 i = x / chunks, chunk = x % chunks;
    if (i < n - i0)
      *(quad *)(to + (i64(i0) + i) * stride + chunk * per_chunk) = get16(through.chunk(i, chunk));
  }
}

//: total -- the sums
template <class Acc> __device__ __forceinline__ Acc total(const shares<Acc> &all)
{
  Acc S;
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
#pragma unroll
    for (i32 c = 0; c < Acc::C; c++)
      S.at[r][c] = *all.at(r, c);
  return S;
}

// bwd.cu -- FlashAttention-2, backward: a block holds one tile of K and V and passes once over the rows of Q that see it.
//   P = exp(S - LSE),  dV = P^T dO,  dP = dO V^T,  dS = P (dP - D),  dQ = scale dS K,  dK = scale dS^T Q,  D = rowsum(dO O)
// dK and dV stay on chip, over all query heads that share K and V; to dQ every block adds its share, in fp32 in device
// memory. S, P, dP and dS are transposed, a row for each key: so P^T and dS^T go from registers into products, where a warp
// has whole rows of them (P_held). Three launches: D, all products, dQ rounded. Above d 80 most configs have A = 1: the same five
// products, divided between the halves of a block (lib/apart.cuh).
extern "C" __global__ void __launch_bounds__(T)
bwd_prepare_b6dbee16631fa64e(const call a, float *dQ_all, LD_row *LD_all)
{
  overlap_next();
  const i32 Tr = ceil_div(a.q, Br), tile = i32(block_id());
  make_LD(LD_all + i64(tile) * Br, rows(a, tile / Tr), tile % Tr * Br);         // D = rowsum(dO O)
  clear(shares<dQ_part>(dQ_all, tile));                                         // dQ = 0
}

extern "C" __global__ void __launch_bounds__(T, 2)
bwd_b6dbee16631fa64e(const call a, float *dQ_all, const LD_row *LD_all)
{
  const key_task my = key_task_of(a, i32(block_id()));
  const i32 j0 = my.j0;
  const place kv = rows(a, my.head);
  const spans visit = range_rows(a, kv, j0);
  const row_tiles from(a, my.head, visit, LD_all);      // step n: a tile of Q and dO of one of the heads
  const float c = base2(a.scale);

  const K_tile K(shared_memory());
  const V_tile V(shared_memory() + at_V);
  const ring<dS_tile, dS_tiles> dS(shared_memory() + at_dS);
  dK_part dK = {};
  dV_part dV = {};

  const auto K_next = depart<D>(K, kv.K, kv.Kn, j0, kv.nk);
  const auto V_next = depart<Dv>(V, kv.V, kv.Vn, j0, kv.nk);
  await_last();                                         // D is here, and dQ is 0
  begin(from, 0);

  for (i32 n = 0; n < from.steps; n++) {
    const auto next = arrive(from, n);                  // its tiles are here, all are done with step n - 1
    if (n > 0) {
    dQ_part dQ = {};
    add_AtB(dQ, dS.slot(n - 1), K);                // dQ = dS K
    reduce(shares<dQ_part>(dQ_all, from.number_of(n - 1)), dQ);
    }
    const i32 i = from.tile_of(n), i0 = i * Br;
    const place at = rows(a, from.head_of(n));
    S_part S = {};
    add_ABt(S, rows_for<S_part>(K), from.Q(n));         // S^T = K Q^T
    score(S, a, at, i0, j0);
    if (is_cut(visit, i))
      mask_rows(S, a, at, i0, j0);
    exp2_minus_LSE(S, from.LD(n), c);                   // P^T = exp(S^T - LSE), in the place of S^T
    weigh(S, a, at, i0, j0);
    add_AB(dV, left_from(S), from.dO(n)); // dV = dV + P^T dO
    S_part dP = {};
    add_ABt(dP, rows_for<S_part>(V), from.dO(n)); // dP^T = V dO^T
    times_dP_minus_D(S, dP, from.LD(n));                // dS^T = P^T (dP^T - D), in the place of P^T
    lay_part(dS.slot(n), S);
    add_AB(dK, left_from(S), from.Q(n)); // dK = dK + dS^T Q
    leave(from, n, next);
  }
  finish_steps();                                       // the last dS^T is here; all have read K and V
  if (from.steps > 0) {
    dQ_part dQ = {};
    add_AtB(dQ, dS.slot(from.steps - 1), K);                // dQ = dS K
    reduce(shares<dQ_part>(dQ_all, from.number_of(from.steps - 1)), dQ);
  }
  block_sync();
  store_part(dK, a.scale, K, kv.dK, kv.dKn, j0, kv.nk);
  store_part(dV, 1.f, V, kv.dV, kv.dVn, j0, kv.nk);
}

extern "C" __global__ void __launch_bounds__(T)
bwd_finish_b6dbee16631fa64e(const call a, const float *dQ_all)
{
  const i32 Tr = ceil_div(a.q, Br), tile = i32(block_id());
  const place at = rows(a, tile / Tr);
  await_last();                                         // dQ is whole
  dQ_part dQ = total(shares<dQ_part>((float *)dQ_all, tile));
  store_part(dQ, a.scale, Q_tile(shared_memory()), at.dQ, at.dQn, tile % Tr * Br, at.nq);
}

