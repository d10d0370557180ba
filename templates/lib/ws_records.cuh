// ws_records.cuh -- fwd_ws with D = 1, where little is between one tile of Q and the next. A warp of its own draws tiles and copies Q; it
// leaves a record for each warpgroup and for the warp that copies K and V, none of which asks or divides for itself. For one thread that does
// all of it the end of a tile is four hundred instructions, one after another: half of its time where tiles of Q see few keys.

//: tile_record -- a tile of Q as one warpgroup has it
struct tile_record : task {
  sequence at;
  spans all, visit; // tiles of keys that its rows see, and that the 64 rows of this warpgroup do
};

//: record_place
__device__ __forceinline__ u32 record_place(i32 x)
{
  return shared_address(shared_memory()) + at_tasks + record_bytes * x;
}

//: put_record
__device__ __forceinline__ void put_record(i32 x, const tile_record &my)
{
% for n = 1, #record_words, 4 do
  put16(record_place(x) + $(4 * (n - 1)), {{$(record_quad(n))}});
% end
}

//: get_record -- the first lane, which later says that its warp is done here, reads for all; or a thread that is alone
template <bool alone> __device__ __forceinline__ tile_record get_record(const call &a, i32 x)
{
  quad part[record_bytes / 16] = {};
  if (alone || thread_id() % 32 == 0)
#pragma unroll
    for (i32 n = 0; n < record_bytes / 16; n++)
      part[n] = get16(record_place(x) + 16 * n);
  tile_record my = {};
% for n, word in ipairs(record_words) do
  my.$(word) = i32(part[$((n - 1) // 4)].at[$((n - 1) % 4)]);
  if (!alone)
    my.$(word) = shfl_first(my.$(word));
% end
% for _, one in ipairs(record_rest) do
  my.$(one[1]) = $(one[2]);
% end
  return my;
}

//: draw_tiles -- one warp: which tile comes next, its record for each warpgroup, and its Q
__device__ __forceinline__ void draw_tiles(const call &a$(take_counter), const tensor_map &Q_map)
{
  const i32 lane = thread_id() % 32;
  for (i32 round = 0;; round++) {                       // tiles of Q
    const step_of<Q_stages> slot(round);
    const i32 first = slot.slot * consumers;
% if uneven then
    if (round > 0)
      wait(asked, (round - 1) % 2);                     // drawn earlier, long tiles would be left for the end
% end
    const i32 block = $(uneven and "drawn_block(counter, round, blocks_of(a))" or "nth_block(round)");
    const bool last = block >= blocks_of(a);
    tile_record my;
    (task &)my = task_of(a, last ? 0 : block);
    my.at = $(shifts and "window_of(a, my.head, my.i0)" or "sequence_of(a, my.head)");
    my.all = last ? spans{} : range(a, my.at, my.i0);
    my.visit = range<64>(a, my.at, my.i0 + 64 * (lane % consumers));
    my.head = last ? -1 : my.head;
    for (i32 x = 0; x < consumers; x++)
      wait(Q_free + first + x, slot.parity ^ 1);
    if (lane < consumers) {                             // a lane for each warpgroup: who arrives has written what others then read
      put_record(first + lane, my);
      if (lane == 0)
        barrier_arrive(barrier_at(told + slot.slot));
      if (my.all.first < my.all.last)
        copy_tile<boxes, 64>(Q_place(first + lane), Q_map, $(rows_of_Q("my.at", "my.i0 + 64 * lane")), Q_full + first + lane);
      else
        barrier_arrive(barrier_at(Q_full + first + lane)); // nothing to copy
    }
    if (last)
      return;
  }
}

//: produce_told -- another $(by_warp and "warp" or "thread"): K and V of each step, K a step ahead
__device__ __forceinline__ void produce_told(const call &a, const tensor_map &K_map, const tensor_map &V_map)
{
  i32 n = 0;                                            // tiles of K and V
$(ragged and "  i32 tails = 0;\n" or "")  for (i32 round = 0;; round++) {                       // tiles of Q
    const step_of<Q_stages> slot(round);
    wait(told + slot.slot, slot.parity);
    const tile_record my = get_record<$(by_warp and "false" or "true")>(a, slot.slot * consumers);
    release(Q_free + slot.slot * consumers);
    if (my.head < 0)
      return;
    const spans visit = my.all;
    const i32 tiles = visit.last - visit.first;
% if uneven then
    const i32 asks = max(0, tiles - 4);                 // so many steps before the next Q is wanted it is asked for
    if (tiles == 0)
      release(asked);
% end
    if (tiles > 0)
      copy_K(K_map, n, nth_tile(visit, 0) * Bc, my.at);
    for (i32 x = 0; x < tiles; x++, n++) {
% if uneven then
      if (x == asks)
        release(asked);
% end
      if (x + 1 < tiles)
        copy_K(K_map, n + 1, nth_tile(visit, x + 1) * Bc, my.at);
      copy_V(V_map, n, nth_tile(visit, x) * Bc, my.at$(ragged and ", tails" or ""));
    }
  }
}
