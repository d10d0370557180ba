// split.cuh -- the keys of a row cut into splits, each of them another block's, for calls whose tiles of Q leave SMs idle.
// What a block then has of a row is partial: O_s = P V / l, and L_s = c m + log2(l), the LSE of the split in base 2. A
// second launch merges: m = max L_s, l = sum of 2^(L_s - m), O = sum of 2^(L_s - m) O_s / l. Where one cluster has all splits of a
// row, or one block the parts of a tile's keys, they merge through shared memory instead (merge_here).

//: partials -- in the workspace, of all rows of all heads: O_s split after split, then L_s
struct partials {
  float *data;
  i64 rows;   // of all heads and batches
  i32 splits;
  __device__ __forceinline__ partials(const call &a, float *data_, i32 splits_)
      : data(data_), rows(i64(a.b) * a.h * a.q), splits(splits_)
  {
  }
  __device__ __forceinline__ float *O(i32 s, i64 row) const { return data + (s * rows + row) * Dv; }
  __device__ __forceinline__ float *L(i32 s, i64 row) const { return data + splits * rows * Dv + s * rows + row; }
};

//: split_of -- of the tiles that rows visit, those of split s
__device__ __forceinline__ spans split_of(const spans &all, i32 s, i32 splits, const call &a)
{
% if split == "by keys" then
  const i32 tiles = a.split / Bc, lo = s * tiles, hi = lo + tiles; // the same keys, whatever rows see
% else
  const i32 tiles = ceil_div(all.last - all.first, splits), lo = all.first + s * tiles, hi = lo + tiles;
% end
  const i32 first = min(max(all.first, lo), all.last), last = min(max(hi, first), all.last);
  return {first, min(max(all.free, first), last), min(max(all.full, first), last), last$(listed and ", all.list, all.whole, all.room" or "")};
}

//: end_split -- O_s, in place of P V, and L_s of the rows of a split; of one in which a row sees no key, L_s = -inf
template <class Acc>
__device__ __forceinline__ rowvec<Acc::rows> end_split(Acc &O, const rowvec<Acc::rows> &m, const rowvec<Acc::rows> &l, float c)
{
  rowvec<Acc::rows> factor, L;
#pragma unroll
  for (i32 r = 0; r < m.R; r++) {
    factor.at[r] = inverse(l.at[r]);
    L.at[r] = fmaf(c, m.at[r], lg2(l.at[r]));
  }
  scale_rows(O, factor);
  return L;
}

//: store_partial -- what this block has of its rows
template <class Acc>
__device__ __forceinline__ void store_partial(Acc &O, const rowvec<Acc::rows> &m, const rowvec<Acc::rows> &l, float c,
                                              const partials &to, const task &my, const sequence &at)
{
  const i32 s = i32(block_id())$(parted and " % (to.splits / parts) * parts + own_part()" or " % to.splits");
  const i64 first = i64(my.head) * at.$(ragged and "all_q" or "nq"); // row of the head
  const rowvec<Acc::rows> L = end_split(O, m, l, c);
% if packed then
  store_sums(O, {to.O(s, first), {at.peers * Dv, Dv, at.peers}}, my.i0, at.nq);
  store_rowvec(L, {to.L(s, first), {at.peers, 1, at.peers}}, my.i0, at.nq);
% else
  store_sums(O, {to.O(s, first), Dv}, my.i0, at.nq);
  store_rowvec(L, to.L(s, first), my.i0, at.nq);
% end
}

//: merged -- a lane's part of O of one row while splits come in, with m and l
template <i32 chunks> struct merged {
  float m, l, O[chunks][4];
  // Gains what has maximum m_s, sum l_s and O_s; where that is nothing, no bit changes.
  __device__ __forceinline__ void gain(float m_s, float l_s, const float (&O_s)[chunks][4])
  {
    const float m_old = m;
    m = fmaxf(m, m_s);
    const float f = ex2(m_old - origin(m)), f_s = ex2(m_s - origin(m));
    l = f * l + f_s * l_s;
#pragma unroll
    for (i32 x = 0; x < chunks; x++)
#pragma unroll
      for (i32 y = 0; y < 4; y++)
        O[x][y] = f * O[x][y] + f_s * O_s[x][y];
  }
% if key_splits or merges == "later" then
  // The same of several, each with maximum L_s and sum 1.
  template <i32 many> __device__ __forceinline__ void gain_all(const float (&L_s)[many], const float (&O_s)[many][chunks][4])
  {
    const float m_old = m;
#pragma unroll
    for (i32 s = 0; s < many; s++)
      m = fmaxf(m, L_s[s]);
    const float f = ex2(m_old - origin(m));
    float f_s[many];
    l *= f;
#pragma unroll
    for (i32 s = 0; s < many; s++)
      l += f_s[s] = ex2(L_s[s] - origin(m));
#pragma unroll
    for (i32 x = 0; x < chunks; x++)
#pragma unroll
      for (i32 y = 0; y < 4; y++) {
        O[x][y] *= f;
#pragma unroll
        for (i32 s = 0; s < many; s++)
          O[x][y] = fmaf(f_s[s], O_s[s][x][y], O[x][y]);
      }
  }
% end
};

//: merge_row -- two rows by a block, or one of more than 16 splits: the warps of a row take its splits in turns, `ahead` of them read
// at once, then the first puts together what they have. $(split == "by keys" and "One row, however many splits a call has: sums have one order, whatever a row's neighbours are" or "Sums have one order, of the sizes alone")
__device__ __forceinline__ void merge_row(const call &a, const partials &from)
{
  constexpr i32 chunks = (Dv + 127) / 128, ahead = 8 / chunks, room = 4 * chunks + 2; // of 4 columns for each lane; floats
  const i32 by = $(split == "by keys" and "4" or "from.splits > 16 ? 4 : 2"); // warps
  const i32 warp = thread_id() / 32 % by, lane = thread_id() % 32, own_row = i32(block_id()) * (4 / by) + thread_id() / (32 * by);
  const i32 row = min(own_row, i32(from.rows) - 1);
  overlap_next();
  const float *O_s = from.O(warp, row) + 4 * lane, *L_s = from.L(warp, row); // of the warp's next split
  const i64 next = by * from.rows;
% local function whose_row()
  const i32 head = row / $(packed and "(a.q * (a.h / a.hk))" or "a.q");
  const place at = rows(a, head);
  const i32 i = row - head * at.$(ragged and "all_q" or "nq");
% end
% if not ragged then
%  whose_row()
% end
  await_last(); // all O_s and L_s are here
% if ragged then
%  whose_row()
% end
  const i32 splits = $(ragged and "i < at.nq ? from.splits : 0" or "from.splits");$(ragged and " // a shorter batch has no such row" or "")
  merged<chunks> sum = {minus_inf(), 0.f, {}};
  for (i32 s0 = warp; s0 < splits; s0 += ahead * by) {
    float L[ahead], O[ahead][chunks][4] = {};
#pragma unroll
    for (i32 n = 0; n < ahead; n++, O_s += next * Dv)
#pragma unroll
      for (i32 x = 0; x < chunks; x++)
        if (s0 + n * by < splits && 128 * x + 4 * lane < Dv)
          get_quad(O[n][x], O_s + 128 * x);
    keep_order(); // all are asked for before the first is awaited, which ptxas would do to save registers
#pragma unroll
    for (i32 n = 0; n < ahead; n++, L_s += next)
      L[n] = s0 + n * by < splits ? *L_s : minus_inf();
    sum.gain_all(L, O);
  }
  float *own = (float *)shared_memory() + thread_id() * room;
  own[0] = sum.m;
  own[1] = sum.l;
#pragma unroll
  for (i32 x = 0; x < 4 * chunks; x++)
    own[2 + x] = sum.O[x / 4][x % 4];
  block_sync();
  if (warp > 0 || own_row > row$(ragged and " || i >= at.nq" or ""))
    return;
  for (i32 w = 1; w < by; w++) {
    float O[chunks][4];
    own += 32 * room;
#pragma unroll
    for (i32 x = 0; x < 4 * chunks; x++)
      O[x / 4][x % 4] = own[2 + x];
    sum.gain(own[0], own[1], O);
  }

  const ending end = end_row(sum.m, sum.l, 1.f$(has.sink and ", " .. (packed and "at.sink[i]" or "*at.sink") or ""));
  elem *const to = at.O + i * at.On + 4 * lane;
#pragma unroll
  for (i32 x = 0; x < chunks; x++)
    if (128 * x + 4 * lane < Dv) {
% if aligned == 16 and (dtype == "f16" or dtype == "bf16") then
      *(float2 *)(to + 128 * x) = {__uint_as_float(pack_$(dtype)(end.factor * sum.O[x][0], end.factor * sum.O[x][1])),
                                   __uint_as_float(pack_$(dtype)(end.factor * sum.O[x][2], end.factor * sum.O[x][3]))};
% else
#pragma unroll
      for (i32 y = 0; y < 4; y++)
        to[128 * x + y] = elem_of(end.factor * sum.O[x][y]);
% end
    }
  if (at.LSE && lane == 0)
    at.LSE[i] = end.LSE;
}

//: get_quad -- four floats side by side
__device__ __forceinline__ void get_quad(float *to, const float *from)
{
  const quad four = *(const quad *)from;
#pragma unroll
  for (i32 x = 0; x < 4; x++)
    to[x] = __uint_as_float(four.at[x]);
}

//: own_keys -- keys of a tile that a warp has, and those rows of a tile of K or V
% if parted then
constexpr i32 own_keys = Bc / parts;
% end

//: own_part -- which part of a tile's keys is this warp's
__device__ __forceinline__ i32 own_part()
{
  return $(parted and "thread_id() / (32 * warps)" or "0");
}

//: own_key -- the first key of a tile that this warp has
__device__ __forceinline__ i32 own_key()
{
  return own_part() * own_keys;
}

//: part_of -- the rows of a tile that this warp has
template <i32 rows_, i32 columns_> __device__ __forceinline__ tile<rows_ / parts, columns_> part_of(tile<rows_, columns_> of)
{
  return tile<rows_ / parts, columns_>(of.data + own_part() * (rows_ / parts) * of.row);
}

//: merge_here -- O of all parts of the keys and all splits, which are the blocks of one cluster: each warp leaves its O_s and L_s
// in shared memory, and each block merges its share of the tile's numbers, which it reads from all
template <class Acc>
__device__ __forceinline__ void merge_here(Acc &O, const rowvec<Acc::rows> &m, const rowvec<Acc::rows> &l, float c, const task &my,
                                           const place &at, i32 splits)
{
  constexpr i32 quads = Dv / 4, groups = $(parted and "parts" or "1");
  rowvec<Acc::rows> factor, L;
#pragma unroll
  for (i32 r = 0; r < m.R; r++) {
    factor.at[r] = inverse(l.at[r]);
    L.at[r] = fmaf(c, m.at[r], lg2(l.at[r]));
  }
  scale_rows(O, factor);
  float *const O_s = (float *)shared_memory(), *const L_s = O_s + groups * Acc::rows * Dv;
  const i32 rows = min(Acc::rows, at.nq - my.i0), place_of = own_part() * Acc::rows;
% if packed then
  store_sums(O, {O_s + place_of * Dv, {Dv, 0, 1}}, 0, rows);
  store_rowvec(L, packed_floats{L_s + place_of, {1, 0, 1}}, 0, rows);
% else
  store_sums(O, {O_s + place_of * Dv, Dv}, 0, rows);
  store_rowvec(L, L_s + place_of, 0, rows);
% end
% if merges == "in a cluster" then
  cluster_arrive();
  cluster_wait();
  const i32 block = i32(block_id()) % splits;
% else
  block_sync();
  const i32 block = 0;
% end
  for (i32 x = block * T + thread_id(); x < rows * quads; x += splits * T) {
    const i32 r = x / quads, column = x % quads * 4;
    merged<1> sum = {minus_inf(), 0.f, {}};
#pragma unroll 8
    for (i32 s = 0; s < splits; s++)
#pragma unroll
      for (i32 y = 0; y < groups; y++) {
        const i32 row = y * Acc::rows + r;
        float O_r[1][4];
        get_quad(O_r[0], $(merges == "in a cluster" and "peer(O_s + row * Dv + column, s)" or "O_s + row * Dv + column"));
        sum.gain($(merges == "in a cluster" and "*peer(L_s + row, s)" or "L_s[row]"), 1.f, O_r);
      }
    const i64 i = i64(my.i0) + r;
    const ending end = end_row(sum.m, sum.l, 1.f$(has.sink and ", " .. (packed and "at.sink[i]" or "*at.sink") or ""));
#pragma unroll
    for (i32 y = 0; y < 4; y++)
      at.O[i * at.On + column + y] = elem_of(end.factor * sum.O[0][y]);
    if (at.LSE && column == 0)
      at.LSE[i] = end.LSE;
  }
% if merges == "in a cluster" then
  cluster_arrive();
  cluster_wait(); // nobody leaves while another reads what it has
% end
}
