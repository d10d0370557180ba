// walk.cuh -- how a block of the backward goes over tiles: which it keeps, which come by, and who waits for whom.
//   for (begin(from, 0); n < ...; n++) { way = arrive(from, n); ... products of from.Q(n) ... leave(from, n, way); }
// Of the tiles that come by, `stages` lie in shared memory. By schedule, a step's tiles
//   in_flight  are copied `stages - 1` steps ahead: one barrier a step, at its beginning
//   alone      are copied when all have read the last step's: a second barrier, at its end
//   carried    travel through registers during the step before, and are written behind such a second barrier
//   fetched    travel through registers behind that barrier, where no register is to spare during a step

//: key_task -- what one block does: a tile of K and V for all query heads that share it, of which `head` is the first
struct key_task {
  i32 head, j0;
% if both_ways then
  bool reversed; // whether those of its head go the other way: the first keys first, each from the last rows on
% end
% if steps_parted then
  i32 part, number; // of its steps it has some (ws_parts.cuh), which part this is; the tile's number among those of all
% end
};

//: key_task_of -- $(last_first and "the last" or "the first") tiles of K and V$(last_first and "" or ", which the most rows see under a causal mask,") come first$(both_ways and ", but of the last heads" or "")
% if last_first then
// Blocks begin with the first rows that see their keys. So under a causal mask, of blocks that begin together each is a tile of Q behind
// the one whose turn is before its own, and hardly one waits. As many heads go together as 32 MB of L2 hold with Q, dO and sums of dQ: blocks
// of fewer would wait for each other, and rows of more come from device memory again for each round of tiles of keys. H200, d 64, causal,
// 16384 keys: 5.36 ms with four heads, 5.47 with two, 5.78 with eight; first keys first, from the last rows on, 5.72 with eight, 5.83 with 32
% end
% if both_ways then
// The last group of heads goes the other way, so that the longest tiles are not left for the end. By then blocks begin one after another, as others
// end, so hardly one waits there either
% end
__device__ __forceinline__ key_task key_task_of(const call &a, i32 block)
{
% if in_line then
  const line<Bc> keys(key_line(a));
% end
% local by, tiles = steps_parted and " * parts" or "", in_line and "keys.all" or "ceil_div(a.k, Bc)"
% if both_ways then
  const i32 most = $(together);
  const portion mine = portion_of(block, $(key_heads), $(tiles), most);
  const bool reversed = mine.head >= max(most, $(key_heads) - most);
% else
  const portion mine = portion_of(block, $(key_heads)$(by), $(tiles), $(together));
% end
% local head, nth, which = "mine.head", both_ways and "(reversed ? mine.nth : " .. tiles .. " - 1 - mine.nth)" or last_first and "(" .. tiles .. " - 1 - mine.nth)" or "mine.nth", both_ways and ", reversed" or ""
% if steps_parted then
%   head, which = "mine.head / parts", string.format(", mine.head %% parts, mine.head / parts * %s + mine.nth", tiles)
% end
% if in_line then
  const i32 b = keys.batch_of($(nth));
  return {(b * a.hk + $(head)) * (a.h / a.hk), keys.tile_begin(b, $(nth))$(which)};
% else
  return {$(head) * (a.h / a.hk), Bc * $(nth)$(which)};
% end
}

//: directed -- tiles that come from the last one on are counted upwards, too: as the complement of their number, which is below 0
__device__ __forceinline__ spans directed(const spans &visit, bool reversed)
{
  return reversed ? spans{-visit.last, visit.free, visit.full, -visit.first} : visit;
}

//: sequence_behind -- that of a query head so many behind the first of those that share K and V: what divides hangs on the first alone
__device__ __forceinline__ sequence sequence_behind(const call &a, i32 first, i32 more)
{
  sequence my = sequence_of(a, first);
  my.h += more;
  return my;
}

//: row_tiles -- the tiles of Q that see a tile of keys, head after head, with dO, LSE and D of their rows: one step each
struct row_tiles {
  const call &a;
  const LD_row *LD_all;
% if listed then
  spans visit;
  i32 head, tiles, steps; // the first query head; tiles of a head, of all heads
  __device__ __forceinline__ row_tiles(const call &a_, i32 head_, const spans &visit_, const LD_row *LD_all_)
      : a(a_), LD_all(LD_all_), visit(visit_), head(head_), tiles(ceil_div(a_.q, Br)), steps(visit_.last)
  {
  }
  __device__ __forceinline__ i32 head_of(i32 n) const { return head + ::listed_tile(visit, n) / tiles; }
  __device__ __forceinline__ i32 tile_of(i32 n) const { return ::listed_tile(visit, n) % tiles; }
  // Among the tiles of all heads and batches.
  __device__ __forceinline__ i64 number_of(i32 n) const { return i64(head) * tiles + ::listed_tile(visit, n); }
% else
  i32 head, first, count, steps; // the first query head; the first tile, how many, of all heads
% if in_line then
  i32 number, tiles; // of the head's first tile; numbers of a head
% end
  __device__ __forceinline__ row_tiles(const call &a_, i32 head_, const spans &visit, const LD_row *LD_all_)
      : a(a_), LD_all(LD_all_), head(head_), first(visit.first), count(visit.last - visit.first), steps(count * (a_.h / a_.hk))$(in_line and ", number(first_number(a_, head_)), tiles(row_line(a_).all)" or "")
  {
  }
  __device__ __forceinline__ i32 head_of(i32 n) const { return head + heads_before(n); }
  __device__ __forceinline__ i32 tile_of(i32 n) const { return first + n - count * heads_before(n); }
  // Heads that are done before step n; nothing is divided where there is one.
  __device__ __forceinline__ i32 heads_before(i32 n) const { return count == steps ? 0 : i32(u32(n) / u32(count)); }
  // Among the tiles of all heads and batches.
  __device__ __forceinline__ i64 number_of(i32 n) const { return $(in_line and "i64(number) + i64(heads_before(n)) * tiles" or "i64(head_of(n)) * ceil_div(a.q, Br)") + tile_of(n); }
% end
  __device__ __forceinline__ Q_tile Q(i32 n) const { return ring<Q_tile>(shared_memory() + at_Q).slot(n); }
  __device__ __forceinline__ dO_tile dO(i32 n) const { return ring<dO_tile>(shared_memory() + at_dO).slot(n); }
  __device__ __forceinline__ LD_tile LD(i32 n) const { return ring<LD_tile>(shared_memory() + at_LD).slot(n); }
% if travels then
  struct way {
    flight<Q_tile> Q;
    flight<dO_tile> dO;
    quad LD;
  };
  __device__ __forceinline__ void land(i32 n, const way &w) const
  {
    ::land(Q(n), w.Q);
    ::land(dO(n), w.dO);
    if (thread_id() < Br / 2)
      put16(LD(n).data + 16 * thread_id(), w.LD);
  }
% else
  struct way {};
% end
% if apart then
  // What either half of the block copies for step n: a group for each step, empty behind the last.
  __device__ __forceinline__ void send_Q(i32 n) const
  {
    if (n < steps) {
      const place at = rows(a, head_of(n));
      send<D>(Q(n), at.Q, at.Qn, tile_of(n) * Br, at.nq);
      if (thread_id() < Br / 2)
        copy_async(LD(n).data + 16 * thread_id(), (const quad *)(LD_all + number_of(n) * Br) + thread_id(), true);
    }
    copy_commit();
  }
  __device__ __forceinline__ void send_dO(i32 n) const
  {
    if (n < steps) {
      const place at = rows(a, head_of(n));
      send<Dv>(dO(n), at.dO, at.dOn, tile_of(n) * Br, at.nq);
    }
    copy_commit();
  }
% end
% if schedule == "fetched" then
  // The tiles of step n one behind the other: half of the registers.
  __device__ __forceinline__ void fetch(i32 n) const
  {
    if (n >= steps)
      return;
    const i32 i0 = tile_of(n) * Br;
    const place at = rows(a, head_of(n));
    ::land(Q(n), ::depart<D>(Q(n), at.Q, at.Qn, i0, at.nq));
    ::land(dO(n), ::depart<Dv>(dO(n), at.dO, at.dOn, i0, at.nq));
    if (thread_id() < Br / 2)
      put16(LD(n).data + 16 * thread_id(), ((const quad *)(LD_all + number_of(n) * Br))[thread_id()]);
  }
% end
  // The tiles of step n set out; none do behind the last.
  __device__ __forceinline__ way depart(i32 n) const
  {
    way w = {};
    if (n >= steps)
      return w;
    const i32 i0 = tile_of(n) * Br;
    const place at = rows(a, head_of(n));
    const quad *pairs = (const quad *)(LD_all + number_of(n) * Br) + thread_id(); // LSE and D of two rows each
% if travels then
    w.Q = ::depart<D>(Q(n), at.Q, at.Qn, i0, at.nq);
    w.dO = ::depart<Dv>(dO(n), at.dO, at.dOn, i0, at.nq);
    if (thread_id() < Br / 2)
      w.LD = *pairs;
% else
    send<D>(Q(n), at.Q, at.Qn, i0, at.nq);
    send<Dv>(dO(n), at.dO, at.dOn, i0, at.nq);
    if (thread_id() < Br / 2)
      copy_async(LD(n).data + 16 * thread_id(), pairs, true);
% end
    return w;
  }
};

//: key_tiles -- the tiles of K and V that a tile of Q sees: step j is tile j
struct key_tiles {
  const place &at;
% if listed then
  const spans &visit;
  i32 last;
  __device__ __forceinline__ key_tiles(const place &at_, const spans &visit_) : at(at_), visit(visit_), last(visit_.last) {}
% else
  i32 last;
  __device__ __forceinline__ key_tiles(const place &at_, const spans &visit) : at(at_), last(visit.last) {}
% end
  __device__ __forceinline__ K_tile K(i32 j) const { return ring<K_tile>(shared_memory() + at_K_ring).slot(j); }
  __device__ __forceinline__ V_tile V(i32 j) const { return ring<V_tile>(shared_memory() + at_V_ring).slot(j); }
% if travels then
  struct way {
    flight<K_tile> K;
    flight<V_tile> V;
  };
  __device__ __forceinline__ void land(i32 j, const way &w) const
  {
    ::land(K(j), w.K);
    ::land(V(j), w.V);
  }
% else
  struct way {};
% end
% if schedule == "fetched" then
  __device__ __forceinline__ void fetch(i32 j) const
  {
    if (j >= last)
      return;
    ::land(K(j), ::depart<D>(K(j), at.K, at.Kn, $(first_key "j"), at.nk));
    ::land(V(j), ::depart<Dv>(V(j), at.V, at.Vn, $(first_key "j"), at.nk));
  }
% end
  __device__ __forceinline__ way depart(i32 j) const
  {
    way w = {};
    if (j >= last)
      return w;
% if travels then
    w.K = ::depart<D>(K(j), at.K, at.Kn, $(first_key "j"), at.nk);
    w.V = ::depart<Dv>(V(j), at.V, at.Vn, $(first_key "j"), at.nk);
% else
    send<D>(K(j), at.K, at.Kn, $(first_key "j"), at.nk);
    send<Dv>(V(j), at.V, at.Vn, $(first_key "j"), at.nk);
% end
    return w;
  }
};

//: begin -- the tiles of the first steps set out, from step n on
template <class Tiles> __device__ __forceinline__ void begin(const Tiles &from, i32 n)
{
% if schedule == "fetched" then
  from.fetch(n);
% elseif schedule == "carried" then
  from.land(n, from.depart(n));
% else
#pragma unroll
  for (i32 x = 0; x < max(stages - 1, 1); x++) {
    from.depart(n + x);
    copy_commit(); // a group for each step, empty behind the last
  }
% end
}

//: arrive -- the tiles of step n are here, and all threads are done with the step before; others set out
template <class Tiles> __device__ __forceinline__ typename Tiles::way arrive(const Tiles &from, i32 n)
{
% if schedule == "carried" then
  block_sync();
  return from.depart(n + 1);
% elseif schedule == "fetched" then
  block_sync();
  return {};
% else
  copy_wait<(stages > 2 ? stages - 2 : 0)>();
  block_sync();
%  if schedule == "in_flight" then
  from.depart(n + stages - 1);
  copy_commit();
%  end
  return {};
% end
}

//: leave -- all threads have read the tiles of step n, where the next take their place
template <class Tiles> __device__ __forceinline__ void leave(const Tiles &from, i32 n, const typename Tiles::way &next)
{
% if schedule == "carried" then
  block_sync();
  from.land(n + 1, next);
% elseif schedule == "fetched" then
  block_sync();
  from.fetch(n + 1);
% elseif schedule == "alone" then
  block_sync();
  from.depart(n + 1);
  copy_commit();
% end
}

//: finish_steps -- no copy is under way, and all threads are done with the last step
__device__ __forceinline__ void finish_steps()
{
% if not travels then
  copy_wait<0>();
% end
  block_sync();
}
