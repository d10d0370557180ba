// ring.cuh -- how the warpgroups of a block work together: where tiles lie in shared memory, the barriers of their rings,
// copies, and the order in which warpgroups take their turns. The first warpgroup copies, the others compute: each owns 64
// rows of Q, a warp of it 16. A tile lies in shared memory as one box after another, each of 64 columns (128 bytes) and all
// rows; within a box the 16-byte chunks of a row are permuted by the row's number modulo 8 (the 128-byte swizzle, which
// copies write and products read).

//: box_bytes -- of one box of a tile
template <i32 rows_> constexpr i32 box_bytes = 128 * rows_;

//: Q_place -- 64 rows of Q, later of O; x counts the warpgroups of all slots
__device__ __forceinline__ u32 Q_place(i32 x)
{
  return shared_address(shared_memory()) + x * (Q_boxes * box_bytes<64>);
}

//: K_place
__device__ __forceinline__ u32 K_place(i32 slot)
{
  return shared_address(shared_memory()) + at_K + slot * (boxes * box_bytes<Bc>);
}

//: V_place
__device__ __forceinline__ u32 V_place(i32 slot)
{
  return shared_address(shared_memory()) + at_V + slot * (V_boxes * box_bytes<Bc>);
}

//: P_place -- where a warpgroup lays its rows of P
__device__ __forceinline__ u32 P_place(i32 me)
{
  return shared_address(shared_memory()) + at_P + me * (P_boxes * box_bytes<64>);
}

//: barrier_at -- where a barrier lies
__device__ __forceinline__ u32 barrier_at(i32 which)
{
  return shared_address(shared_memory()) + at_signals + 8 * which;
}

//: task_place -- the record of which tile a place of Q holds
__device__ __forceinline__ u32 task_place(i32 x)
{
  return shared_address(shared_memory()) + at_tasks + $((listed or key_splits) and 16 or 8) * x;
}

//: put_task -- behind the last task there is head -1
__device__ __forceinline__ void put_task(i32 x, const task &my$(listed and ", const spans &visit" or ""))
{
  put4(task_place(x), my.head);
  put4(task_place(x) + 4, my.i0);$(key_splits and "\n  put4(task_place(x) + 8, my.split);" or "")
% if listed then
  put4(task_place(x) + 8, visit.last);
  put4(task_place(x) + 12, visit.whole);
% end
}

//: get_task -- the first lane, which later says that its warp is done here, reads for all
__device__ __forceinline__ task get_task(i32 x)
{
  task my = {0, 0};
  if (thread_id() % 32 == 0)
    my = {i32(get4(task_place(x))), i32(get4(task_place(x) + 4))$(key_splits and ", i32(get4(task_place(x) + 8))" or "")};
  return {shfl_first(my.head), shfl_first(my.i0)$(key_splits and ", shfl_first(my.split)" or "")};
}

//: set_up -- one thread prepares the barriers. A copy arrives once; who has read it, with each of its warps
__device__ __forceinline__ void set_up()
{
  if (thread_id() == 0) {
    for (i32 x = 0; x < signals; x++)
      barrier_init(barrier_at(x), $(told and "x >= told ? 1 : x >= Q_free && x < K_free && (x - Q_free) % consumers == 0 ? 5 : " or "")$(placed and "x >= K_full && x < V_full ? 1 + bias_threads / 32 : x >= Q_free && x < K_free && (x - Q_free) % consumers == 0 ? 4 + bias_threads / 32 : " or "")x < Q_free$(ragged and " || x == V_tail" or "") ? 1 : x < K_free ? 4 : $(shares and "8" or "4") * consumers);
    barrier_init_fence();
  }
  $(shares and "meet_other" or "block_sync")();
}

//: step_of -- where the n-th tile of a ring lies, and the parity of the phase in which it does
template <i32 slots> struct step_of {
  i32 slot;
  u32 parity;
  __device__ __forceinline__ explicit step_of(i32 n) : slot(u32(n) % slots), parity(u32(n) / slots % 2) {}
};

//: wait
__device__ __forceinline__ void wait(i32 which, u32 parity)
{
  while (!barrier_passed(barrier_at(which), parity)) {
  }
}

//: release -- this warp has read it
__device__ __forceinline__ void release(i32 which)
{
  if (thread_id() % 32 == 0)
    barrier_arrive(barrier_at(which));
}

//: pass_by -- the n-th tile of K and V, of which the rows of this warpgroup see no key
__device__ __forceinline__ void pass_by(i32 n)
{
  const step_of<stages> at(n);
  wait(K_full + at.slot, at.parity);
  $(read_by)(K_free + at.slot);
  wait(V_full + at.slot, at.parity);
  $(read_by)(V_free + at.slot);
}

//: pass_before -- tiles that come before those which the rows of this warpgroup see
__device__ __forceinline__ void pass_before(i32 me, i32 &n, i32 count)
{
  for (i32 x = 0; x < count; x++, n++) {
    pass_by(n);
% if turns ~= "none" then
    take_turn(me); // a turn for each: its own first tile, unlike that of others, has none
    pass_turn(me);
% end
  }
}

//: pass_behind -- tiles that come behind them; where these are all of the tile of Q, the first has no turn
__device__ __forceinline__ void pass_behind(i32 me, i32 &n, i32 count, bool all)
{
  for (i32 x = 0; x < count; x++, n++) {
% if turns ~= "none" then
    if (x > 0 || !all) {
      take_turn(me);
      pass_turn(me);
    }
% end
    pass_by(n);
  }
}

//: nth_tile -- the n-th tile of K and V, in the order in which a tile of Q visits them
% if cut.left then
// From the right to the left: in most models the nearest keys weigh most, and a maximum that does not grow costs nothing.
% else
// The very first, then those that no mask cuts from the right to the left, then those that one cuts. Whether scores rise or
// fall along the keys, or the first few outweigh all others, two tiles have nearly the largest.
% end
__device__ __forceinline__ i32 nth_tile(const spans &visit, i32 n)
{
  return $(cut.left and "visit.last - 1 - n" or key_splits and "visit.base + (n == 0 || n >= visit.full ? n : visit.full - n)" or "n == 0 || n >= visit.full ? n : visit.full - n");
}

//: drawn_block -- which tile a block does next, where they differ: an order fixed beforehand was up to 7 % slower. Of two
// tiles a block the longest and the shortest are one's; then nothing is drawn, and the recipe does not clear the counter
__device__ __forceinline__ i32 drawn_block(i32 *counter, i32 round, i32 tiles)
{
  if (tiles <= 2 * grid_size())
    return nth_block(round);
% local draw = "atomic_add(counter, 1)"
  return round == 0 ? i32(block_id()) : grid_size() + $((by_warp or told) and "shfl_first(thread_id() " .. (told and "% 32 " or "") .. "== 0 ? " .. draw .. " : 0)" or draw);
}

//: own_group -- which of the warpgroups that compute this one is. What is made of it is the same for a whole warp, and
// computed once for it, not by each thread
__device__ __forceinline__ i32 own_group()
{
  return shfl_first(warp_of() / 4 - 1);
}

//: first_turn -- the last warpgroup gives the first one the word
__device__ __forceinline__ void first_turn(i32 me)
{
  if (me == consumers - 1)
    named_arrive(1, 256);
}

//: take_turn -- until the warpgroup before has given this one the word
__device__ __forceinline__ void take_turn(i32 me)
{
  named_sync(1 + me, 256);
}

//: pass_turn -- to the next warpgroup
__device__ __forceinline__ void pass_turn(i32 me)
{
  named_arrive(me == consumers - 1 ? 1 : me + 2, 256);
}

//: await_start -- in the first tile of Q of a block a warpgroup begins when the one before has its first P
% if turns == "none" and not cut.left then
// From then on one's products run beside the other's softmax. Those that begin together may stay so: 590 TFLOP/s instead of
// 690 (d 128, full, N = 4096, H200), and by chance one or the other with every change of the text.
% end
__device__ __forceinline__ void await_start(i32 me, i32 round)
{
% if turns == "none" and not cut.left then
  if (round == 0 && me > 0)
    take_turn(me);
% end
}

//: give_start -- to the next warpgroup
__device__ __forceinline__ void give_start(i32 me, i32 round)
{
% if turns == "none" and not cut.left then
  if (round == 0 && me < consumers - 1)
    pass_turn(me);
% end
}

//: copy_tile -- all boxes of a tile: `rows_` rows from `row` on
template <i32 boxes_, i32 rows_>
% if slices > 1 then
__device__ __forceinline__ void copy_tile(u32 to, const tensor_map &from, i32 row, i32 head, i32 batch, i32 full,
                                          i32 column = 0)
% else
__device__ __forceinline__ void copy_tile(u32 to, const tensor_map &from, i32 row, i32 head, i32 batch, i32 full)
% end
{
  barrier_expect(barrier_at(full), boxes_ * box_bytes<rows_>);
#pragma unroll
  for (i32 x = 0; x < boxes_; x++)
    copy_box(to + x * box_bytes<rows_>, from, $(slices > 1 and "column + " or "")64 * x, row, head, batch, barrier_at(full));
}

//: copy_Q -- the rows of Q of a warpgroup in a round, when their place is free, and the record of their task
__device__ __forceinline__ void copy_Q(const tensor_map &Q_map, i32 round, i32 x, const task &my, const sequence &at,
                                       const spans &visit)
{
  const step_of<Q_stages> Q(round);
  const i32 place = Q.slot * consumers + x;
  wait(Q_free + place, Q.parity ^ 1);
% if by_warp then
  if (thread_id() != 0)
    return;
% end
  put_task(place, my$(listed and ", visit" or ""));
  if ($(packed and not grouped and "false" or "visit.first < visit.last"))
    copy_tile<boxes, 64>(Q_place(place), Q_map, $(rows_of_Q("at", "my.i0 + 64 * x")), Q_full + place);
  else
    barrier_arrive(barrier_at(Q_full + place)); // nothing to copy$(packed and not grouped and ": who computes loads its rows" or "")
}

//: copy_K -- the n-th tile of K, when its place is free
__device__ __forceinline__ void copy_K(const tensor_map &K_map, i32 n, i32 j0, const sequence &at)
{
  const step_of<stages> K(n);
  wait(K_free + K.slot, K.parity ^ 1);
% local batch = has.varlen and "0" or "at.b"
  $(by_warp and "if (thread_id() == 0) " or "")$(shares and "copy_half" or "copy_tile")<boxes, Bc>(K_place(K.slot), K_map, $((begins or shifts) and "at.k0 + " or "")j0, at.hk, $(batch), K_full + K.slot);
}

//: copy_V -- the n-th tile of V, when its place is free
% if ragged then
// Behind the last key of a batch lie others, or nothing that is a number: a warp waits for a tile that reaches so far, at a
// barrier of its own, and clears these rows before it is full
% end
__device__ __forceinline__ void copy_V(const tensor_map &V_map, i32 n, i32 j0, const sequence &at$(ragged and ", i32 &tails" or ""))
{
  const step_of<stages> V(n);
  wait(V_free + V.slot, V.parity ^ 1);
% local full, batch = "V_full + V.slot", has.varlen and "0" or "at.b"
% if ragged then
  const bool is_tail = at.nk - j0 < Bc;
%   full = "is_tail ? V_tail : V_full + V.slot"
% end
  $(by_warp and "if (thread_id() == 0) " or "")$(shares and "copy_half" or "copy_tile")<V_boxes, Bc>(V_place(V.slot), V_map, $((begins or shifts) and "at.k0 + " or "")j0, at.hk, $(batch), $(full)$(slices > 1 and ", at.v0" or ""));
% if ragged then
  if (!is_tail)
    return;
  wait(V_tail, tails++ % 2);
  clear_rows(V_place(V.slot), at.nk - j0);
  copies_fence();
  warp_sync();
  if (thread_id() == 0)
    barrier_arrive(barrier_at(V_full + V.slot));
% end
}

//: clear_rows -- of a tile of V those from `first` on are 0
__device__ __forceinline__ void clear_rows(u32 tile, i32 first)
{
  const i32 chunks = (Bc - first) * 8; // of 16 bytes in a box
  for (i32 x = thread_id(); x < V_boxes * chunks; x += 32)
    put16(tile + x / chunks * box_bytes<Bc> + first * 128 + x % chunks * 16, quad{});
}
