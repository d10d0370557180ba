// mma.cuh -- tiles and products on tensor cores, with fp32 accumulators; half.cuh and tf32.cuh know the elements.
// The warps of a block share the rows of an accumulator, in blocks of 16. In each 16x8 block a thread holds, with
// g = lane / 4 and t = lane % 4, the elements (g, 2t), (g, 2t + 1) and (g + 8, 2t), (g + 8, 2t + 1): X = 4 lanes a
// row. A tile lies in shared memory in chunks of 16 bytes; a row's chunks are permuted so that the 8 rows that one
// instruction reads lie in different banks, whatever the length of a row.
//
// Products add to an accumulator C of `rows` x `columns`: mma_ABt(C, A, B) A B^T, mma_AB(C, A, B) A B, mma_AtB(C, A, B)
// A^T B. B is a tile. A is a left operand, one of these, `blocks` of 16 rows to a warp and `steps` deep:
//   held<Tile>         rows of a tile, in registers
//   read<Tile>         rows of a tile, read with each product
//   turned<Tile>       columns of a tile, read with each product
//   operand_of(P)      an accumulator

//: rows_of_thread -- rows of an accumulator that one thread has a part of
template <i32 rows_> constexpr i32 rows_of_thread = rows_ / (8 * warps);

//: rows_of_warp -- rows of an accumulator that one warp has, side by side
template <i32 rows_> constexpr i32 rows_of_warp = rows_ / warps;

//: first_row -- the first of them
template <i32 rows_> __device__ __forceinline__ i32 first_row()
{
  return warp_of() * (rows_ / warps);
}

//: row_of -- the r-th row of this thread
template <i32 rows_> __device__ __forceinline__ i32 row_of(i32 r)
{
  return warp_of() * (rows_ / warps) + r / 2 * 16 + r % 2 * 8 + thread_id() % 32 / 4;
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
  static __device__ __forceinline__ i32 order(i32 i) { return i / $(dtype == "f32" and "4" or "(8 / orders)") % orders; }
  __device__ __forceinline__ u32 chunk(i32 i, i32 x) const { return data + i * row + (x ^ order(i)) * 16; }
};

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

//: view_down -- for ldmatrix: lanes 0-15 name the 16 rows of a pair's first chunk, lanes 16-31 those of the second
template <class Tile> __device__ __forceinline__ lane_view<Tile> view_down(Tile from, i32 i)
{
  const i32 lane = thread_id() % 32;
  return {from.chunk(i + lane % 16, lane / 16)};
}

//: view_across -- for ldmatrix: lanes 0-7 name 8 rows of the first chunk, 8-15 of the second; 16-31 the next 8 rows
template <class Tile> __device__ __forceinline__ lane_view<Tile> view_across(Tile from)
{
  const i32 lane = thread_id() % 32;
  return {from.chunk(lane / 16 * 8 + lane % 8, lane / 8 % 2)};
}

//: share -- how the threads of a block divide the chunks of a tile: each keeps its chunk of a row, every `step`
// rows. With a step of 4 rows or a multiple, the order of a row's chunks changes by a constant from step to step.
template <class Tile> struct share {
  static constexpr i32 $(apart and "T = ::T / 2, " or "")most = T / Tile::chunks, step = most >= 4 ? most / 4 * 4 : most;
  static constexpr i32 count = (Tile::count + step - 1) / step;
  i32 i, x; // first row, chunk
  __device__ __forceinline__ share() : i(thread_id() $(apart and "% T " or "")/ Tile::chunks), x(thread_id() $(apart and "% T " or "")% Tile::chunks) {}
  // Whether the k-th is one of the tile; decided by the compiler where the shares are even.
  __device__ __forceinline__ bool has(i32 k) const
  {
    return (T == step * Tile::chunks || i < step) && ((k + 1) * step <= Tile::count || i + k * step < Tile::count);
  }
  // Where the k-th lies.
  __device__ __forceinline__ u32 at(Tile to, i32 k) const
  {
    if (step % $(dtype == "f32" and 16 or 4))
      return to.chunk(i + k * step, x);
    return to.chunk(i, x ^ Tile::order(k * step)) + k * step * Tile::row;
  }
};

//: flight -- a thread's share of a tile on its way from device memory: in registers, or copies that do without it
template <class Tile> struct flight {
% if travels then
  quad chunk[share<Tile>::count];
% end
};

//: depart -- rows i0.. of a matrix of n rows and d columns set out for a tile; what lies beyond either is 0
template <i32 d, class Tile>
__device__ __forceinline__ flight<Tile> depart(Tile to, const elem *from, i64 stride, i32 i0, i32 n)
{
% if travels then
  flight<Tile> f;
  const share<Tile> my;
  const elem *p = from + (i64(i0) + my.i) * stride + my.x * per_chunk;
#pragma unroll
  for (i32 k = 0; k < share<Tile>::count; k++) {
    f.chunk[k] = {};
    if (my.has(k) && my.i < n - i0 - k * share<Tile>::step && my.x * per_chunk < d)
      f.chunk[k] = get_chunk(p);
    p += stride * share<Tile>::step;
  }
  return f;
% else
  send<d>(to, from, stride, i0, n);
  copy_commit();
  return {};
% end
}
% if packed then
// The rows of several heads do not lie at one distance: where each is, is worked out by itself.
template <i32 d, class Tile>
__device__ __forceinline__ flight<Tile> depart(Tile to, const elem *from, const packed_rows &stride, i32 i0, i32 n)
{
  flight<Tile> f;
  const share<Tile> my;
#pragma unroll
  for (i32 k = 0; k < share<Tile>::count; k++) {
    const i32 i = my.i + k * share<Tile>::step;
    const bool real = i < n - i0 && my.x * per_chunk < d;
    const elem *p = real ? from + (i64(i0) + i) * stride + my.x * per_chunk : from;
%  if travels then
    f.chunk[k] = {};
    if (my.has(k) && real)
      f.chunk[k] = get_chunk(p);
  }
%  else
    if (my.has(k))
      copy_async(my.at(to, k), p, real);
  }
  copy_commit();
%  end
  return f;
}
% end

//: land -- the tile is written; or all copies of this thread have landed
template <class Tile> __device__ __forceinline__ void land(Tile to, const flight<Tile> &f)
{
% if travels then
  const share<Tile> my;
#pragma unroll
  for (i32 k = 0; k < share<Tile>::count; k++)
    if (my.has(k))
      put16(my.at(to, k), f.chunk[k]);
% else
  copy_wait<0>();
% end
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

//: send_both -- tile j of K and of V, as one group; an empty one beyond the last tile, so that groups count tiles
__device__ __forceinline__ void send_both(const ring<K_tile> &K, const ring<V_tile> &V, const place &at, i32 j, $(listed and "const spans &visit" or "i32 last"))
{
  if (j < $(to_last == "visit" and "visit.last" or "last")) {
    send<D>(K.slot(j), at.K, at.Kn, $(first_key "j"), at.nk);
    send<Dv>(V.slot(j), at.V, at.Vn, $(first_key "j"), at.nk);
  }
  copy_commit();
}

//: get_chunk -- 16 bytes of device memory
__device__ __forceinline__ quad get_chunk(const elem *p)
{
% if aligned == 1 then
  union {
    elem part[per_chunk];
    quad whole;
  } u;
#pragma unroll
  for (i32 x = 0; x < per_chunk; x++)
    u.part[x] = p[x];
  return u.whole;
% else
  return *(const quad *)p;
% end
}

//: ring -- tiles one behind the other; step j uses tile j % count
template <class Tile, i32 count = stages> struct ring {
  u32 data;
  __device__ __forceinline__ explicit ring(void *p) : data(shared_address(p)) {}
  __device__ __forceinline__ Tile slot(i32 j) const { return Tile(data + u32(j) % count * Tile::bytes); }
};

//: Q_tile
typedef tile<Br, Dp> Q_tile;

//: K_tile
typedef tile<Bc, Dp> K_tile;

//: V_tile
typedef tile<Bc, Dw> V_tile;

//: O_tile
typedef tile<Br, Dw> O_tile;

//: dO_tile
typedef tile<Br, Dw> dO_tile;

//: S_tile
typedef tile<Br, Bc> S_tile;

//: dS_tile -- transposed
typedef tile<Bc, Br> dS_tile;

//: held
template <class Tile> struct held {
  static constexpr i32 blocks = Tile::count / (16 * warps), steps = Tile::columns / (2 * per_chunk);
  static constexpr bool is_pairs = false;
  quad part[steps][blocks];
  __device__ __forceinline__ explicit held(Tile from)
  {
    const lane_view<Tile> view = view_down(from, warp_of() * (16 * blocks));
#pragma unroll
    for (i32 k = 0; k < steps; k++)
#pragma unroll
      for (i32 m = 0; m < blocks; m++)
        part[k][m] = ldmatrix(view.at(16 * m, k));
  }
  __device__ __forceinline__ left at(i32 k, i32 m) const { return left_of(part[k][m]); }
};

//: read
template <class Tile> struct read {
  static constexpr i32 blocks = Tile::count / (16 * warps), steps = Tile::columns / (2 * per_chunk);
  static constexpr bool is_pairs = false;
  lane_view<Tile> view;
  __device__ __forceinline__ explicit read(Tile from) : view(view_down(from, warp_of() * (16 * blocks))) {}
  __device__ __forceinline__ left at(i32 k, i32 m) const { return left_of(ldmatrix(view.at(16 * m, k))); }
};

//: left_rows -- the rows of a tile as the left operand of a product
template <class Tile> __device__ __forceinline__ read<Tile> left_rows(Tile from)
{
  return read<Tile>(from);
}

//: query -- Q as the left operand of S = Q K^T
typedef $(Q_held and "held" or "read")<Q_tile> query;

//: mma_block -- one 16x8 block: rows 16 m.., columns 8 n.. of an accumulator gain a b
template <class Acc>
__device__ __forceinline__ void mma_block(Acc &C, i32 m, i32 n, const left &a, const right &b)
{
  product(C.at[2 * m][2 * n], C.at[2 * m][2 * n + 1], C.at[2 * m + 1][2 * n], C.at[2 * m + 1][2 * n + 1], a, b);
}

//: mma_ABt
template <class Acc, class Left, class Tile> __device__ __forceinline__ void mma_ABt(Acc &C, const Left &A, Tile B)
{
  const lane_view<Tile> view = view_across(B);
#pragma unroll$(unrolled > 0 and " " .. unrolled or "")
  for (i32 k = 0; k < Left::steps; k++) {
    left a[Left::blocks];
#pragma unroll
    for (i32 m = 0; m < Left::blocks; m++)
      a[m] = A.at(k, m);
#pragma unroll
    for (i32 n = 0; n < Tile::count / 16; n++) {
      const quad x = ldmatrix(view.at(16 * n, k));
      const right b0 = right_of(x.at[0], x.at[1]), b1 = right_of(x.at[2], x.at[3]);
#pragma unroll
      for (i32 m = 0; m < Left::blocks; m++) {
        mma_block(C, m, 2 * n, a[m], b0);
        mma_block(C, m, 2 * n + 1, a[m], b1);
      }
    }
  }
}

//: mma_AtB
template <class Acc, class TileA, class TileB> __device__ __forceinline__ void mma_AtB(Acc &C, TileA A, TileB B)
{
  mma_AB(C, turned<TileA>(A), B);
}
