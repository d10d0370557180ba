// ws_sums.cuh -- dQ of bwd_ws.cu: products of dS and K, and the fp32 sums of all blocks in device memory. The sums of a tile
// of Q lie in blocks of 16 rows and 8 columns, each as 32 threads hold it, four numbers of a thread side by side; the blocks
// of 16 rows one behind the other.

//: share_of_dQ -- a warpgroup's part of dQ = dS K of a tile: 64 rows, and columns
% local rows, columns, turned = dQ_share == "rows", dQ_share == "columns", dQ_share == "turned"
struct share_of_dQ {
  static constexpr i32 width = $(turned and "Br" or columns and (partial and "64 * boxes" or "Ds") .. " / consumers" or "Ds");
  i32 me, row, column; // the warpgroup; the first
  float *dQ_all;
% if settles and not owns then
  const call &a;
% end
% if not owns and (lays or settles_by_keys) then
%  if last_first then
  // Blocks of a head come one after another, those of the last keys first: who comes first at a tile of Q, which sees no later keys, lays
  // its part down$(settles and ", and those of the first keys round the whole" or "").$(both_ways and " Of the last heads it is the other way round." or "")
%  else
  // Those of the first keys lay their part down, and those of the last keys round the whole.
%  end
  i32 tiles, ended; // tiles of Q of a head; those that see no later keys
%  if settles or both_ways then
  bool is_first;$(both_ways and " // whether it has the first keys\n  bool reversed;" or "")
%  end
  __device__ __forceinline__ void come(const key_task &my, const row_steps &from$(settles and "" or ", const call &a"))
  {
    $((settles or both_ways) and "is_first = my.j0 == 0;\n    " or "")$(both_ways and "reversed = my.reversed;\n    " or "")tiles = from.tiles;
    ended = my.j0 + Bc < a.k ? range_rows(a, sequence_of(a, my.head), my.j0 + Bc).first : tiles;
  }
%  if lays then
  __device__ __forceinline__ bool comes_first(i32 number) const { return $(both_ways and "reversed ? is_first : " or "")i32(u32(number) % u32(tiles)) < ended; }
%  end
% end
% if stays then
  u32 K; // of the step before, whose tile of keys may be the one before
%  if owns then
  // Sums are a block's own, its heads' tiles in the same place each time: of the first tile of keys that a tile of Q sees they
  // are laid down; of the last one they are read, rounded and stored. No other thread touches what a thread does of them.
  const call &a;
  float *const own_sums;
  bool is_first;
  i32 tiles, ended; // tiles of Q of a head; those that see no later keys
%  end
  __device__ __forceinline__ share_of_dQ(i32 me_, float *all, const own_tasks &own)
      : me(me_), row($(rows and "64 * me_" or "0")), column($(columns and "me_ * width" or turned and "64 * me_" or "0")), dQ_all(all)$(owns and ", a(own.a), own_sums(all)" or settles and ", a(own.a)" or "")
  {
    turn_to(own);
  }
  __device__ __forceinline__ void turn_to(const own_tasks &own)
  {
    K = K_of(0, own.from.round);
%  if owns then
    tiles = own.from.tiles;
    dQ_all = own_sums + i64(i32(block_id()) * (a.h / a.hk) - own.my.head) * tiles * (Br * Ds);
    is_first = own.my.j0 == 0;
    ended = own.my.j0 + Bc < a.k ? range_rows(a, sequence_of(a, own.my.head), own.my.j0 + Bc).first : tiles;
%  elseif lays or settles_by_keys then
    come(own.my, own.from$(settles and "" or ", own.a"));
%  end
  }
% elseif lays or settles then
  __device__ __forceinline__ share_of_dQ(i32 me_, float *all, const key_task &my, const row_steps &from, const call &a_)
      : me(me_), row($(rows and "64 * me_" or "0")), column($(columns and "me_ * width" or turned and "64 * me_" or "0")), dQ_all(all)$(settles and ", a(a_)" or "")
  {$(first_come and "" or "\n    come(my, from" .. (settles and "" or ", a_") .. ");")
  }
% else
  __device__ __forceinline__ share_of_dQ(i32 me_, float *all)
      : me(me_), row($(rows and "64 * me_" or "0")), column($(columns and "me_ * width" or turned and "64 * me_" or "0")), dQ_all(all)
  {
  }
% end
  // Where those of one of its warps, or of this one, begin.
  __device__ __forceinline__ float *sums(i32 number, i32 warp) const
  {
    return dQ_all + i64(number) * (Br * Ds) + $(turned and "(column / 16 + warp % 4) * (Br / 8 * 128)" or "((row / 16 + warp % 4) * (Ds / 8) + column / 8) * 128");
  }
  __device__ __forceinline__ float *sums(i32 number) const { return sums(number, warp_of()); }
% if partial then
  // Columns of its accumulator that are summed: behind them K has zeros.
  __device__ __forceinline__ i32 some() const { return $(turned and "column + 16 * (warp_of() % 4) < Ds ? Br : 0" or "min(width, Ds - column)"); }
% end
};

//: dQ_part
typedef acc<Bc, share_of_dQ::width> dQ_part;

//: half_of_dQ -- where two warpgroups have the same keys: the columns of each, in whole boxes of K
template <i32 group> struct half_of_dQ {
  static constexpr i32 first = (boxes + 1) / 2 * 64, width = group == 0 ? first : D - first;
  static constexpr i32 row = 0, column = group * first;
  float *dQ_all;
  __device__ __forceinline__ float *sums(i32 number) const
  {
    return dQ_all + i64(number) * (Br * D) + (warp_of() % 4 * (D / 8) + column / 8) * 128;
  }
};

//: start_dQ -- dQ = dS K: of dS keys are the contiguous ones, of K columns
template <class Acc, class Share>
__device__ __forceinline__ void start_dQ(Acc &dQ, const Share &my, i32 n, bool is_here)
{
% if dQ_share == "turned" then
  const descriptor a($(stays and "my.K" or "K_of(0)") + my.column / 64 * box_bytes<64>, box_bytes<64>, 1024), b(dS_of(n), 16, 1024);
  await_full(dS_full, dS_place_of(n), is_here);
  products_fence();
#pragma unroll
  for (i32 k = 0; k < Bc / 16; k++)
    wgmma_turned<0>(dQ.at, a.at(k / 4 * (boxes * box_bytes<64>) + k % 4 * 2048), b.at(k / 4 * box_bytes<Br> + k % 4 * 32), k > 0);
% else
  const descriptor a(dS_of(n) + my.row * 128, 16, 1024), b($(stays and "my.K" or "K_of(0)") + $(halves and "my.me * box_bytes<64>" or "my.column / 64 * box_bytes<64> + my.column % 64 * 2"), box_bytes<64>, 1024);
  await_full(dS_full, dS_place_of(n), is_here);
  products_fence();
#pragma unroll
  for (i32 k = 0; k < Bc / 16; k++)
    wgmma<1>(dQ.at, a.at(k / 4 * box_bytes<Br> + k % 4 * 32), b.at(k / 4 * ($(K_boxes) * box_bytes<64>) + k % 4 * 2048), k > 0);
% end
  products_commit();
}

//: add_to_sums -- numbers of an accumulator to those of all blocks, from registers
template <class Acc> __device__ __forceinline__ void add_to_sums(float *to, const Acc &dQ)
{
$(own_sums)#pragma unroll
  for (i32 c = 0; c < Acc::C; c += 2)
    reduce_add4($(nth_sums), dQ.at[0][c], dQ.at[0][c + 1], dQ.at[1][c], dQ.at[1][c + 1]);
}

//: add_some_to_sums -- of its first columns
template <class Acc> __device__ __forceinline__ void add_some_to_sums(float *to, const Acc &dQ, i32 some)
{
$(own_sums)#pragma unroll
  for (i32 c = 0; c < Acc::C; c += 2)
    if (c / 2 * 8 < some)
      reduce_add4($(nth_sums), dQ.at[0][c], dQ.at[0][c + 1], dQ.at[1][c], dQ.at[1][c + 1]);
}

//: lay_sums -- the first that there are
template <class Acc> __device__ __forceinline__ void lay_sums(float *to, const Acc &dQ$(partial and ", i32 some" or ""))
{
  quad *const sums = (quad *)to + thread_id() % 32; // by a pointer to single numbers the compiler stores these one by one
#pragma unroll
  for (i32 c = 0; c < Acc::C; c += 2)
$(partial and "    if (c / 2 * 8 < some)\n  " or "")    sums[c / 2 * 32] = {{__float_as_uint(dQ.at[0][c]), __float_as_uint(dQ.at[0][c + 1]), __float_as_uint(dQ.at[1][c]),
                         __float_as_uint(dQ.at[1][c + 1])}};
}

//: end_dQ -- its product is done: it is added to the sums of the n-th tile but one, and the dS laid meanwhile, of the n-th tile,
// can be read. `number`: of the tile of Q
% if reduces == "bulk" then
// Each warp lays its quads, one fence serving both, and its first lane has them added from there while all go on.
% end
__device__ __forceinline__ void end_dQ(const share_of_dQ &my, i32 n, i32 number, $(settles and "" or "const ")dQ_part &dQ)
{
  release(dS_free + dS_place_of(n).slot);
% if reduces == "bulk" then
  const i32 lane = thread_id() % 32;
  const u32 place = laid_sums(warp_of() - 4);
  if (lane == 0)
    store_wait(); // the last have been read
  warp_sync();
#pragma unroll
  for (i32 c = 0; c < dQ.C; c += 2)
    put16(place + (c / 2 * 32 + lane) * 16, {{__float_as_uint(dQ.at[0][c]), __float_as_uint(dQ.at[0][c + 1]),
                                              __float_as_uint(dQ.at[1][c]), __float_as_uint(dQ.at[1][c + 1])}});
  show_dS(n + 1);
  if (lane == 0 && number >= 0$(partial and " && my.some() > 0" or "")) {
    reduce_bulk(my.sums(number), place, $(partial and "my.some() / 8" or "dQ_part::C / 2") * 512);
    store_commit();
  }
% else
  show_dS(n + 1);
  if (number >= 0)
    $(sum_dQ);
% end
}

//: laid_sums -- where a warp lays its part of dQ
__device__ __forceinline__ u32 laid_sums(i32 warp)
{
  return shared_address(shared_memory()) + at_dQ + warp * (dQ_part::C / 2 * 512);
}

//: end_half
template <class Half, class Acc> __device__ __forceinline__ void end_half(const Half &my, i32 n, i32 number, const Acc &dQ)
{
  release(dS_free + dS_place_of(n).slot);
  $(has.det and "add_in_turn" or "add_to_sums")($(has.det and "Half::column != 0, n, " or "")my.sums(number), dQ);
}

//: last_dQ -- of the last step, with nothing beside it
__device__ __forceinline__ void last_dQ(const share_of_dQ &my, i32 n, i32 number)
{
  dQ_part dQ;
  start_dQ(dQ, my, n, false);
  products_wait<0>();
% if stays then
  $(sum_dQ);
% else
  end_dQ(my, n, number, dQ);
% end
}

//: clear_sums -- $(settles and "no sums, for who adds first lays them down" or lays and "dQ = 0 of a tile that sees no key" or "dQ = 0 of a tile")$(ordered and "; nobody has added to it, and no block has begun" or "")
__device__ __forceinline__ void clear_sums(float *dQ_all, i64 number$(take_counts)$(ragged and ", bool has_rows" or lays and ", bool has_keys" or ""))
{
% if ordered then
  if (thread_id() < $(paired and "adders" or "sharers"))
    counts[4 + number * $(paired and "adders" or "sharers") + thread_id()] = 0;
% end
% if ordered or draws then
  if (number == 0 && thread_id() == 0)
    counts[0] = 0;
% end
% if ragged then
  if (!has_rows)
    return; // of a shorter batch
% end
% if lays then
  if (has_keys)
    return; // the first block lays them down
% end
% if not settles then
  quad *to = (quad *)(dQ_all + number * (Br * Ds));
  for (i32 x = thread_id(); x < Br * Ds / 4; x += prepare_threads)
    to[x] = {};
% end
}

//: store_turned -- dQ of a tile whose sums are those of dQ^T: each warpgroup stores 64 columns
__device__ __forceinline__ void store_turned(const float *dQ_all, i64 number, i32 group, float scale, const tensor_map &to,
                                             const sequence &at, i32 i0$(ragged and ", const stored_rows &rows_to" or ""))
{
  const i32 lane = thread_id() % 32, warp = warp_of() % 4, row = lane / 16 * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
  const quad *from = (const quad *)(dQ_all + number * (Br * Ds) + (4 * group + warp) * (Br / 8 * 128)) + lane;
  const u32 place = shared_address(shared_memory()) + group * box_bytes<Br>;
#pragma unroll
  for (i32 k = 0; k < Br / 16; k++) {
    u32 x[4];
#pragma unroll
    for (i32 y = 0; y < 2; y++) {
      const quad sums = $(partial and "16 * (4 * group + warp) >= Ds ? quad{} : " or "")from[(2 * k + y) * 32];
#pragma unroll
      for (i32 r = 0; r < 2; r++)
        x[2 * y + r] = pack_$(dtype)(scale * __uint_as_float(sums.at[2 * r]), scale * __uint_as_float(sums.at[2 * r + 1]));
    }
    stmatrix_trans(place + (16 * k + row) * 128 + (chunk ^ row % 8) * 16, x[0], x[1], x[2], x[3]);
  }
  copies_fence();
  block_sync();
% if ragged then
  for (i32 x = thread_id() % 128; x < Br * 8 && rows_to.n - i0 < Br; x += 128) { // one by one: what lies behind is another's
    const i32 i = x / 8, j = 64 * group + x % 8 * 8;
    if (i < rows_to.n - i0 && j < D)
      *(quad *)(rows_to.data + (i64(i0) + i) * rows_to.stride + j) = get16(place + i * 128 + (x % 8 ^ i % 8) * 16);
  }
% end
  if (lane == 0$(ragged and " && rows_to.n - i0 >= Br" or "")) {
    for (i32 k = warp; k < Br / 16; k += 4)
      store_box(to, 64 * group, $(rows_of_Q("at", "i0 + 16 * k")), place + 16 * k * 128);
    store_commit();
  }
}

//: whole_dQ -- the sums of 64 rows
__device__ __forceinline__ acc<Bc, D> whole_dQ(const float *dQ_all, i64 number)
{
  acc<Bc, D> dQ;
  const quad *from = (const quad *)(dQ_all + number * (Br * Ds) + warp_of() * (Ds / 8 * 128)) + thread_id() % 32;
#pragma unroll
  for (i32 c = 0; c < D / 4; c += 2) {
    const quad x = from[c / 2 * 32];
#pragma unroll
    for (i32 y = 0; y < 4; y++)
      dQ.at[y / 2][c + y % 2] = __uint_as_float(x.at[y]);
  }
  return dQ;
}
