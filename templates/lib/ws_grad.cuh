// ws_grad.cuh -- the warpgroups of bwd_ws.cu: where tiles lie in shared memory, their copies, dS, and the sums of dQ. Each
// warpgroup that computes owns 64 keys: its rows of K and V, of S, P, dP and dS, which are transposed, and of dK and dV.
// Tiles lie as ring.cuh says; K and V in pieces of 64 rows, one for each warpgroup.

//: K_of -- 64 rows of K$(stays and "" or ", later of dK"); `round`: tiles of keys that the block has done before, where it stays
__device__ __forceinline__ u32 K_of(i32 group, i32 round = 0)
{
  return shared_address(shared_memory()) + $(stays and "(keys_place_of(round).slot * consumers + group)" or "group") * ($(K_boxes) * box_bytes<64>);
}

//: V_of -- 64 rows of V, later of dV$(stays and ", then of dK" or "")
__device__ __forceinline__ u32 V_of(i32 group, i32 round = 0)
{
  return shared_address(shared_memory()) + at_V + $(stays and "(keys_place_of(round).slot * consumers + group)" or "group") * (V_boxes * box_bytes<64>);
}

//: Q_place_of -- of the n-th tile of Q, and of LSE and D of its rows
typedef step_of<Q_tiles> Q_place_of;

//: dO_place_of -- of the n-th tile of dO
typedef step_of<dO_tiles> dO_place_of;

//: dS_place_of -- of the n-th tile of dS
typedef step_of<dS_tiles> dS_place_of;

//: Q_of -- the n-th tile of Q
__device__ __forceinline__ u32 Q_of(i32 n)
{
  return shared_address(shared_memory()) + at_Q + Q_place_of(n).slot * (boxes * box_bytes<Br>);
}

//: dO_of -- the n-th tile of dO
__device__ __forceinline__ u32 dO_of(i32 n)
{
  return shared_address(shared_memory()) + at_dO + dO_place_of(n).slot * (V_boxes * box_bytes<Br>);
}

//: LD_of -- LSE and D of its rows
__device__ __forceinline__ LD_tile LD_of(i32 n)
{
  return LD_tile(shared_address(shared_memory()) + at_LD + Q_place_of(n).slot * LD_tile::bytes);
}

//: dS_of -- the n-th tile of dS, a row for each row of Q: of each warpgroup one box of its 64 keys
__device__ __forceinline__ u32 dS_of(i32 n)
{
  return shared_address(shared_memory()) + at_dS + dS_place_of(n).slot * (consumers * box_bytes<Br>);
}

//: is_full -- whether the n-th tile of a ring is here, without waiting: what is asked ahead costs no time later
template <class Place> __device__ __forceinline__ bool is_full(i32 first, const Place &at)
{
  return barrier_tested(barrier_at(first + at.slot), at.parity);
}

//: await_full -- unless it was there when asked
template <class Place> __device__ __forceinline__ void await_full(i32 first, const Place &at, bool is_there)
{
  if (!is_there)
    wait(first + at.slot, at.parity);
}

//: see_full -- that a tile is here which another warpgroup, whose word came first, has waited for: what copies wrote each asks for that reads it
__device__ __forceinline__ void see_full(i32 which, u32 parity)
{
  while (!barrier_passed(barrier_at(which), parity)) {
  }
}

//: release_Q -- this warp has read the n-th tile of Q, and LSE and D of its rows
__device__ __forceinline__ void release_Q(i32 n)
{
$(steps_told and "  warp_sync(); // what was told last all lanes have read\n" or "")  if (n >= 0)
    $(read_by)(Q_free + Q_place_of(n).slot);
}

//: of_keys -- a sequence whose head is that of K and V$(has.varlen and ", and whose rows are theirs" or "")
__device__ __forceinline__ sequence of_keys(sequence at)
{
  at.h = at.hk;
% if has.varlen then
  at.q0 = at.k0;
% end
  return at;
}

//: set_up_steps -- one thread prepares the barriers: who fills a place arrives at `full`, who has read it at `free`, with
// each of its warps; a copy arrives once, and with Q come LSE and D
% local with_Q, of_P = placed and "2 + bias_threads / 32" or "2", paired and "x < P_full ? 1 : 4" or "4 * consumers"
% local of_tails = ragged and "x >= signals - " .. (stays and 3 or 2) .. " ? 1 : " or ""
% local of_turns = ordered and "x >= turn ? x < added ? 1 : " .. (paired and "4" or "4 * consumers") .. " : " or ""
% local of_tasks = stays and "x >= told_full ? 1 : " or pairs_stay and "x == V_free ? 4 : " or ""
% local of_others = of_tails .. of_turns .. of_tasks
__device__ __forceinline__ void set_up_steps()
{
  if (thread_id() == 0) {
    for (i32 x = 0; x < signals; x++)
      barrier_init(barrier_at(x), x < Q_full ? 1 : x < dO_full ? $(with_Q) : x < Q_free ? 1 : x < dS_full ? 4 * row_readers : x < dS_free ? $(of_P) : $(of_others)$(pairs_stay and "x == K_free ? 8 : " or "")4 * dS_readers);
    barrier_init_fence();
  }
  $(paired and "meet_other" or "block_sync")();
}

//: copy_keys -- the rows of K or of V of all warpgroups$(halves and "; `next`: the first column of the second box" or "")
template <i32 boxes_$(halves and ", i32 next = 64" or "")>
__device__ __forceinline__ void copy_keys(u32 to, const tensor_map &from, i32 j0, const sequence &at, i32 full)
{
  barrier_expect(barrier_at(full), $(own_groups) * boxes_ * box_bytes<64>);
#pragma unroll
  for (i32 w = 0; w < $(own_groups); w++)
#pragma unroll
    for (i32 x = 0; x < boxes_; x++)
      copy_box(to + (w * boxes_ + x) * box_bytes<64>, from, $(halves and "next" or "64") * x, j0 + 64 * w, at.hk, at.b, barrier_at(full));
}

//: bring_Q -- the n-th tile of Q, and LSE and D of its rows, when their place is free; `number` counts the tiles of all heads
__device__ __forceinline__ void bring_Q(const tensor_map &Q_map, const LD_row *LD_all, i32 n, const rows_at &at, i32 number$(steps_told and ", bool is_last" or "")$(ragged and ", i32 &tails" or ""))
{
  const Q_place_of to(n);
  wait(Q_free + to.slot, to.parity ^ 1);
% if ragged then
  if (thread_id() == 0) {
$(steps_told and "    tell_step(n, at, number, is_last);\n" or "")    barrier_expect(barrier_at(Q_full + to.slot), LD_tile::bytes);
    copy_bulk(LD_of(n).data, LD_all + i64(number) * Br, LD_tile::bytes, barrier_at(Q_full + to.slot));
  }
  copy_rows<boxes>(Q_of(n), Q_map, at, Q_full + to.slot, tails);
}
% else
  barrier_expect(barrier_at(Q_full + to.slot), LD_tile::bytes);
  copy_bulk(LD_of(n).data, LD_all + i64(number) * Br, LD_tile::bytes, barrier_at(Q_full + to.slot));
  $(shares and "copy_half" or "copy_tile")<boxes, Br>(Q_of(n), Q_map, at.i0, at.of.h, at.of.b, Q_full + to.slot);
}
% end

//: bring_dO -- the n-th tile of dO, when its place is free
__device__ __forceinline__ void bring_dO(const tensor_map &dO_map, i32 n, const rows_at &at$(ragged and ", i32 &tails" or ""))
{
  const dO_place_of to(n);
  wait(dO_free + to.slot, to.parity ^ 1);
  $(ragged and "copy_rows<V_boxes>(dO_of(n), dO_map, at, dO_full + to.slot, tails);" or (shares and "copy_half" or "copy_tile") .. "<V_boxes, Br>(dO_of(n), dO_map, at.i0, at.of.h, at.of.b, dO_full + to.slot);")
}

//: bring_queries -- one $(ragged and "warp" or "thread") copies $(goes_on and "" or "K, then ")Q with LSE and D, of each step
__device__ __forceinline__ void bring_queries(const call &a, const LD_row *LD_all, const key_task &my, const row_steps &from,
                                              const tensor_map &Q_map$(goes_on and (ragged and ", i32 &tails" or "") or ", const tensor_map &K_map"))
{
% if not goes_on then
$(ragged and "  i32 tails = 0;\n" or "")  if (from.steps > 0)
    $(paired and "copy_pair_keys" or copy_keys)<$(copied_K)>(K_of(0), K_map, my.j0, sequence_of(a, my.head), K_full$(and_tails));
% end
  await_last();                                         // D is here
  row_step of(from);
  for (i32 n = from.before; n < from.before + from.steps; n++) {
    bring_Q(Q_map, LD_all, n, of.$(copied)(a), of.number()$(steps_told and ", n + 1 == from.before + from.steps" or "")$(and_tails));
    of.go_on();
  }
}

//: bring_all_biases -- two more warps copy those of each step
__device__ __forceinline__ void bring_all_biases(const call &a, const key_task &my, const row_steps &from, const tensor_map &bias_map)
{
  const bool mapped = is_mapped(bias_map);
  row_step of(from);
  for (i32 n = 0; n < from.steps; n++) {
    const Q_place_of to(n);
    const rows_at at = of.at(a);
    wait(Q_free + to.slot, to.parity ^ 1);
    bring_biases(bias_place(to.slot), a, bias_map, mapped, at.of, at.i0, my.j0, barrier_at(Q_full + to.slot));
    of.go_on();
  }
}

//: produce -- what the warpgroup that copies does
__device__ __forceinline__ void produce(const call &a, const LD_row *LD_all, const key_task &my, const row_steps &from,
                                        const tensor_map &Q_map, const tensor_map &K_map, const tensor_map &V_map,
                                        const tensor_map &dO_map$(placed and ", const tensor_map &bias_map" or ""))
{
  if ($(ragged and "warp_of() == 0" or "thread_id() == 0"))
    bring_queries(a, LD_all, my, from, Q_map, K_map);
  if ($(ragged and "warp_of() == 1" or "thread_id() == 32"))
    bring_gradients(a, my, from, V_map, dO_map);
$(placed and "  if (warp_of() > 1)\n    bring_all_biases(a, my, from, bias_map);\n" or "")}

//: bring_gradients -- $(ragged and "another" or "one of another warp") copies $(goes_on and "dO" or "V, then dO")
% local before, behind = goes_on and "" or "const tensor_map &V_map,\n" .. (" "):rep(48), stays and ragged and ", i32 &tails" or ""
__device__ __forceinline__ void bring_gradients(const call &a, const key_task &my, const row_steps &from, $(before)const tensor_map &dO_map$(behind))
{
% if not goes_on then
$(ragged and "  i32 tails = 0;\n" or "")  if (from.steps > 0)
    $(copy_keys)<V_boxes>(V_of(0), V_map, my.j0, sequence_of(a, my.head), V_full$(and_tails));
% end
  row_step of(from);
  for (i32 n = from.before; n < from.before + from.steps; n++) {
    bring_dO(dO_map, n, of.$(copied)(a)$(and_tails));
    of.go_on();
  }
}
