// blocks.cuh -- block-sparse attention: a byte for each block of `block_q` rows and `block_k` keys of each head says whether
// its rows see its keys. A tile of a kernel may be a part of a block or hold several; where these differ, `mask` asks for
// each score. A launch ahead of the others lists for each tile of Q the tiles of K and V that it visits (and for each tile of
// K and V its tiles of Q), so that kernels step from one to the next and callers need no lists: it reads a byte a block.

//: no_block -- of a tile: none of its blocks is there
constexpr i32 no_block = 0;

//: all_blocks -- all are; what is neither has some
constexpr i32 all_blocks = 1;

//: some_blocks
constexpr i32 some_blocks = 2;

//: first_block -- where the bytes of a head begin
__device__ __forceinline__ const unsigned char *first_block(const call &a, const sequence &at)
{
  return (const unsigned char *)a.blocks.data + at.b * a.blocks.b + at.h * a.blocks.h;
}

//: blocks_at -- which blocks of a tile are there
template <i32 rows_ = Br> __device__ __forceinline__ i32 blocks_at(const call &a, const sequence &at, i32 i0, i32 j0)
{
  const i32 last_i = i0 + min(rows_, at.nq - i0) - 1, last_j = j0 + min(Bc, at.nk - j0) - 1;
  bool some = false, all = true;
  for (i32 I = i0 / a.block_q; I <= last_i / a.block_q; I++) {
    const unsigned char *row = first_block(a, at) + I * a.blocks.n;
    for (i32 J = j0 / a.block_k; J <= last_j / a.block_k; J++) {
      some = some || row[J];
      all = all && row[J];
    }
  }
  return all ? all_blocks : some ? some_blocks : no_block;
}

//: mask_blocks -- S = -inf in blocks that are not there; `transposed`: a row for a key. Block by block, of which a tile has few: what is asked and
// divided for each column made a forward take 11.4 ms for 5.0 (blocks of 64, tiles of 128 keys, d 64, H200)
template <bool transposed, class Acc>
__device__ __forceinline__ void mask_blocks(Acc &S, const call &a, const sequence &at, i32 i0, i32 j0)
{
  if (blocks_at(a, at, i0, j0) == all_blocks)
    return;
  const unsigned char *const all = first_block(a, at);
  i32 down[Acc::R]; // the block of a row of S, of rows or of keys
#pragma unroll
  for (i32 r = 0; r < Acc::R; r++)
    down[r] = transposed ? min(j0 + Acc::row(r), at.nk - 1) / a.block_k : min(i0 + Acc::row(r), at.nq - 1) / a.block_q;
  const i32 size = transposed ? a.block_q : a.block_k, start = transposed ? i0 : j0;
  const i32 last = (start + min(Acc::columns, (transposed ? at.nq : at.nk) - start) - 1) / size;
#pragma unroll 1
  for (i32 across = start / size; across <= last; across++) {
    const i32 first = across * size - start, behind = first > Acc::columns - size ? Acc::columns : first + size;
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      if (!all[(transposed ? across : down[r]) * a.blocks.n + (transposed ? down[r] : across)])
#pragma unroll
        for (i32 c = 0; c < Acc::C; c++)
          S.at[r][c] = Acc::column(c) >= first && Acc::column(c) < behind ? minus_inf() : S.at[r][c];
  }
}

//: list_of_keys -- where the list of a tile of Q begins: how many tiles no mask touches, how many there are, then these. Ahead of
// all lists is a word that is 0, for who counts tiles of Q that are drawn, alone in its line
template <class I> __device__ __forceinline__ I *list_of_keys(I *lists, const call &a, i64 tile)
{
  return lists + 32 + tile * (ceil_div(a.k, Bc) + 2);
}

//: list_of_rows -- that of a tile of K and V, behind those where there are both
template <class I> __device__ __forceinline__ I *list_of_rows(I *lists, const call &a, i64 tile)
{
% if lists == "both" then
  lists = list_of_keys(lists, a, i64(a.b) * a.h * ceil_div(a.q, Br));
% end
  return lists + tile * (a.h / a.hk * ceil_div(a.q, Br) + 2);
}

//: listing -- a list that a warp makes: each lane adds a tile or none, in the order of lanes
struct listing {
  i32 *to;
  i32 room, whole, cut;
  __device__ __forceinline__ listing(i32 *list, i32 room_) : to(list), room(room_), whole(0), cut(0) {}
  __device__ __forceinline__ void add(i32 tile, i32 blocks)
  {
    i32 sum = blocks == no_block ? 0 : blocks == all_blocks ? 1 : 65536, before = 0; // two counts
#pragma unroll
    for (i32 lanes = 1; lanes < 32; lanes *= 2) {
      const i32 other = from_lane(sum, lanes);
      before += thread_id() & lanes ? other : 0;
      sum += other;
    }
    if (blocks == all_blocks)
      to[2 + whole + before % 65536] = tile;
    if (blocks == some_blocks)
      to[1 + room - cut - before / 65536] = tile;
    whole += sum % 65536;
    cut += sum / 65536;
  }
  __device__ __forceinline__ void end()
  {
    if (thread_id() == 0) {
      to[0] = whole;
      to[1] = whole + cut;
    }
  }
};

//: blocks_below -- the same of a tile that masks may cut or leave out
template <i32 rows_ = Br>
__device__ __forceinline__ i32 blocks_below(const call &a, const sequence &at, i32 i0, i32 j0, const spans &visit, i32 n)
{
  const i32 blocks = n < visit.last ? blocks_at<rows_>(a, at, i0, j0) : no_block;
  return blocks != no_block && is_cut(visit, n) ? some_blocks : blocks;
}

//: piece_bit -- from here on an entry of such a list says of each warpgroup's 64 rows two things: whether they see keys of the tile, and
// whether a mask cuts what they see
constexpr i32 piece_bit = 26;

//: is_seen_by
__device__ __forceinline__ bool is_seen_by(i32 entry, i32 piece)
{
  return entry >> (piece_bit + 2 * piece) & 1;
}

//: is_cut_for
__device__ __forceinline__ bool is_cut_for(i32 entry, i32 piece)
{
  return entry >> (piece_bit + 2 * piece) & 2;
}

//: list_pieces -- a warp lists the tiles of K and V that a tile of Q visits, and which of its rows do
__device__ __forceinline__ void list_pieces(const call &a, i32 *lists, i32 block)
{
  const i32 Tr = ceil_div(a.q, Br), i0 = block % Tr * Br;
  if (block == 0 && thread_id() == 0)
    lists[0] = 0;
  const sequence at = sequence_of(a, block / Tr$(slices > 1 and " * slices" or ""));
  const spans all = range(a, at, i0);
  listing list(list_of_keys(lists, a, block), ceil_div(a.k, Bc));
  for (i32 first = all.first; first < all.last; first += 32) {
    const i32 j = first + thread_id();
    i32 entry = j;
    bool some = false, whole = true;
#pragma unroll
    for (i32 x = 0; x < $(pieces); x++) {
      const spans visit = range<64>(a, at, i0 + 64 * x);
      const i32 blocks = j < visit.first ? no_block : blocks_below<64>(a, at, i0 + 64 * x, j * Bc, visit, j);
      entry |= blocks == no_block ? 0 : (blocks == all_blocks ? 1 : 3) << (piece_bit + 2 * x);
      some = some || blocks != no_block;
      whole = whole && blocks == all_blocks;
    }
    list.add(entry, !some ? no_block : whole ? all_blocks : some_blocks);
  }
  list.end();
}

//: list_keys -- a warp lists the tiles of K and V that a tile of Q visits
__device__ __forceinline__ void list_keys(const call &a, i32 *lists, i32 block)
{
  const i32 Tr = ceil_div(a.q, Br), i0 = block % Tr * Br;
  if (block == 0 && thread_id() == 0)
    lists[0] = 0;
  const sequence at = sequence_of(a, block / Tr$(slices > 1 and " * slices" or ""));
  const spans visit = range(a, at, i0);
  listing list(list_of_keys(lists, a, block), ceil_div(a.k, Bc));
  for (i32 first = visit.first; first < visit.last; first += 32) {
    const i32 j = first + thread_id();
    list.add(j, blocks_below(a, at, i0, j * Bc, visit, j));
  }
  list.end();
}

//: rows_seeing -- of a tile, where tensors give intervals: whether its rows see all of its keys, some or none; each is asked
__device__ __forceinline__ i32 rows_seeing(const call &a, const sequence &at, i32 i0, i32 j0)
{
  bool some = false, all = at.nq - i0 >= Br && at.nk - j0 >= Bc;
#pragma unroll 4
  for (i32 i = i0; i < i0 + min(Br, at.nq - i0); i++) {
    const interval seen = sees(a, at, i);
    some = some || max(seen.lo, j0) < min(seen.hi - j0, Bc) + j0;
    all = all && seen.lo <= j0 && seen.hi - j0 >= Bc;
  }
  return all ? all_blocks : some ? some_blocks : no_block;
}

//: row_blocks_below -- the same of rows that masks may cut or leave out, and of blocks
__device__ __forceinline__ i32 row_blocks_below(const call &a, const sequence &at, i32 i0, i32 j0, const spans &visit, i32 n)
{
% if has.iv then
  const i32 blocks = $(has.bs and "n < visit.last ? blocks_at(a, at, i0, j0) : no_block" or "n < visit.last ? all_blocks : no_block");
  const i32 rows = blocks == no_block ? no_block : rows_seeing(a, at, i0, j0);
  return blocks == all_blocks || rows == no_block ? rows : some_blocks;
% else
  return blocks_below(a, at, i0, j0, visit, n);
% end
}

//: list_rows -- a warp lists the tiles of Q that visit a tile of K and V, of all heads that share it
__device__ __forceinline__ void list_rows(const call &a, i32 *lists, i32 block)
{
  const i32 Tr = ceil_div(a.q, Br), Tc = ceil_div(a.k, Bc), group = a.h / a.hk, j0 = block % Tc * Bc;
  listing list(list_of_rows(lists, a, block), group * Tr);
  for (i32 x = 0; x < group; x++) {
    const sequence at = sequence_of(a, block / Tc * group + x);
% if has.iv then
    const spans visit = {0, 0, 0, ceil_div(at.nq, Br)};
% else
    const spans visit = range_rows(a, at, j0);
% end
    for (i32 first = visit.first; first < visit.last; first += 32) {
      const i32 i = first + thread_id();
      list.add(x * Tr + i, row_blocks_below(a, at, i * Br, j0, visit, i));
    }
  }
  list.end();
% if stays then
  if (list.whole + list.cut == 0)
    clear_keys(a, {block / Tc * group, j0}); // blocks that stay go by
% end
}

//: list_of -- that of the tile of Q from row i0 on
__device__ __forceinline__ const i32 *list_of(const call &a, const sequence &at, i32 i0, const i32 *lists)
{
  return list_of_keys(lists, a, (i64(at.b) * a.h + at.h) * ceil_div(a.q, Br) + i0 / Br);
}

//: listed_range -- hook: the tiles of K and V that a tile of Q visits, by its list
__device__ __forceinline__ spans listed_range(const call &a, const sequence &at, i32 i0, const i32 *lists)
{
  await_last(); // lists are the launch before's
  const i32 *const list = list_of(a, at, i0, lists);
  return {0, 0, list[0], list[1], list + 2, list[0], ceil_div(a.k, Bc)};
}

//: listed_rows -- hook: the tiles of Q, of all heads that share them, that visit a tile of K and V
__device__ __forceinline__ spans listed_rows(const call &a, const sequence &at, i32 j0, const i32 *lists)
{
  await_last();
  const i32 *const list = list_of_rows(lists, a, (i64(at.b) * a.hk + at.hk) * ceil_div(a.k, Bc) + j0 / Bc);
  return {0, 0, list[0], list[1], list + 2, list[0], a.h / a.hk * ceil_div(a.q, Br)};
}

//: listed_tile -- the n-th of a list; any behind the last. The first that no mask touches, then from the right to the left, then
// those that one does
__device__ __forceinline__ i32 listed_tile(const spans &visit, i32 n)
{
  if (n >= visit.last)
    return 0;
  return visit.list[n >= visit.whole ? visit.room - 1 - (n - visit.whole) : n == 0 ? 0 : visit.whole - n];
}

//: first_key -- of that tile
__device__ __forceinline__ i32 first_key(const spans &visit, i32 n)
{
  return Bc * listed_tile(visit, n);
}

//: key_of -- of the tile that such an entry is of
__device__ __forceinline__ i32 key_of(i32 entry)
{
  return Bc * (entry & ((1 << piece_bit) - 1));
}
