// fwd_ws.cu -- FlashAttention-3, forward: a warpgroup that copies, and warpgroups that compute, each 64 rows of Q.
//   O = softmax(scale Q K^T + mask) V,  LSE = log of the row sums of exp(scale Q K^T + mask)
// A block stays on its SM and does one tile of Q after another. K and V come through rings of `stages` tiles, whose
// barriers say full (bytes have come) and free (all have read). Products run on the tensor cores while a warpgroup computes
// its softmax (lib/ws_steps.cuh), and each goes on to the next tile of Q when its rows are done. Most configs (L = 2) seek a maximum
// in the first tile alone: then P is made by the m of earlier tiles, and corrected where sums of P exceed 2^12 (softmax_late).
%  for _, file in ipairs(libs) do use(file) end
%  if not (listed or ahead or told) then -- else lib/ws_lists.cuh, lib/ahead.cuh or lib/ws_records.cuh has it
// One $(by_warp and "warp" or "thread"): which tile comes next, its Q for each warpgroup, and K and V of each step, K a step ahead.
__device__ __forceinline__ void produce(const call &a$(take_counter)$(key_splits and ", i32 splits" or ""), const tensor_map &Q_map, const tensor_map &K_map,
                                        const tensor_map &V_map)
{
  i32 n = 0;                                            // tiles of K and V
$(ragged and "  i32 tails = 0;\n" or "")  for (i32 round = 0;; round++) {                       // tiles of Q
    const i32 block = $(uneven and "drawn_block(counter, round, " .. all_blocks .. ")" or "nth_block(round)");
    const bool last = block >= $(all_blocks);
    const task my = $(task_of)(a, last ? 0 : block$(and_splits));
    const sequence at = $(shifts and "window_of(a, my.head, my.i0)" or "sequence_of(a, my.head)");
    const spans visit = last ? spans{} : $(visited "my.i0");
    const i32 tiles = visit.last - visit.first;
    for (i32 x = 0; x < consumers; x++) {
      copy_Q(Q_map, round, x, {last ? -1 : my.head, my.i0$(key_splits and ", my.split" or "")}, at, visit);
      if (x == 0 && tiles > 0)
        copy_K(K_map, n, nth_tile(visit, 0) * Bc, at);  // while the other warpgroups finish
    }
    if (last)
      return;
    for (i32 x = 0; x < tiles; x++, n++) {
      if (x + 1 < tiles)
        copy_K(K_map, n + 1, nth_tile(visit, x + 1) * Bc, at);
      copy_V(V_map, n, nth_tile(visit, x) * Bc, at$(ragged and ", tails" or ""));
    }
  }
}
%  end
%  if not (listed or ahead) then

__device__ __forceinline__ void consume(const call &a$(take_partial), const tensor_map &O_map)
{
  const float c = $(c_of_call);
  const i32 me = own_group();
  i32 n = 0;$(stores_later and "\n  i32 leaving = -1;                                     // the place from which rows of O are still copied" or "")
$(turns ~= "none" and "  first_turn(me);\n" or "")  for (i32 round = 0;; round++) {
    const step_of<Q_stages> slot(round);
    const i32 own = slot.slot * consumers + me;         // the place of this warpgroup's rows
    wait(Q_full + own, slot.parity);
    const $(take_task);
    if (my.head < 0)
      return$(stores_later and " free_place(leaving)" or "");
    const i32 i0 = my.i0;
    const $(rows_type) at = $(told and (windowed and "windowed_by(a, my.at, i0)" or "my.at") or rows_type .. "_of(a, my.head" .. rows_from .. ")");
    const spans all = $(told and "my.all" or visited "i0"), visit = $(told and "my.visit" or visited_by_me);
    const i32 tiles = max(0, visit.last - visit.first);
    i32 others = all.last - all.first - tiles;          // tiles of keys that only the other warpgroups' rows see: released all the same
    online x(me);$(added_early and " x.known = known_of(a, pair_of<false, acc<Br, Bc>>(at, i0, 0, 0, 0));" or "")
    $(packed and not grouped and "lay_Q(Q_place(own), rows(a, my.head), i0, me);\n    " or "")await_start(me, round);
    if (tiles > 0) {
      const query Q(Q_place(own));
%  local order = cut.left and "visit" or "all"           -- whose order of tiles is this warpgroup's
%  if cut.left then
      others -= all.last - visit.last;
      pass_before(me, n, all.last - visit.last);
%  end
%  local function step(is_cut)
        const i32 j = nth_tile($(order), y);
        // S = Q K^T of tile j, beside O = O + P V of the tile before; then its P, and m and l with it
        start_$(schedule)(x, Q, n, me$(added_early and ", {a, at, i0, j * Bc, " .. is_cut .. "}, c" or ""));
        softmax_$(seeks_late and "late" or schedule)(x, {a, at, i0, j * Bc, $(is_cut)}, c, n, me, own);
%  end
      const i32 first = nth_tile($(order), 0);
      if (is_cut(visit, first))                         // with one call for both, ptxas spills
        first_step(x, Q, {a, at, i0, first * Bc, true}, c, n);
      else
        first_step(x, Q, {a, at, i0, first * Bc, false}, c, n);
      give_start(me, round);$(stores_later and "\n      free_place(leaving);" or "")
      i32 y = 1;
%  if not cut.left then
      for (; y < all.full; y++, n++) {                  // tiles that no mask touches
%  step "false"
      }
%  end
      for (; y < tiles; y++, n++) {                     // $(cut.left and "all of a window" or "the diagonal, the ragged end")
%  step "is_cut(visit, j)"
      }
      last_step(x, n);
      n++;
      x.l = row_total(x.l);$(rows_later and " place_rows(x.m, at);" or "")
%  if not key_splits then
      scale_rows(x.O, finish(x.m, x.l, c$(ends_of("rows(a, " .. rows_by .. "), i0"))).factor); // O = diag(l)^-1 O
      $(ragged and "if (at.nq - i0 < Br)\n        store_rows(x.O, rows(a, " .. rows_by .. "), i0);\n      else\n      " or "")store_from(Q_place(own), x.O, O_map, at, i0 + 64 * me); // what lies behind a ragged batch's rows is another's, or nobody's
%  end
    } else {                                            // no key is seen
      give_start(me, round);$(stores_later and "\n      free_place(leaving);" or "")
%  if not key_splits then
      const place rows_at = rows(a, $(rows_by));
      store_zeros<sums<Br, Dv>>(rows_at.O, rows_at.On, i0, at.nq);
%  end
    }
%  if key_splits then
    store_split(x.O, x.m, x.l, c, partials(a, partial, splits), my, at, own); // O_s and L_s
%  end
    $(stores_later and "leaving = own" or "release(Q_free + own)");
%  if not key_splits then
    const place rows_at = rows(a, $(rows_by));             // asked for above the loops, it costs up to 4 % (d 64, H200)
    if (rows_at.LSE)
      store_rowvec(finish(x.m, x.l, c$(ends_of "rows_at, i0")).LSE, rows_at.LSE, i0, at.nq);
%  end
    pass_behind(me, n, others, tiles == 0);
  }
}
%  end

extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "fwd_ws")(const call a$(take_lists)$(take_counter)$(take_partial), const __grid_constant__ tensor_map Q_map,
  const __grid_constant__ tensor_map K_map, const __grid_constant__ tensor_map V_map,
  const __grid_constant__ tensor_map O_map$(take_biases))
{
  overlap_next();
  set_up();
  await_last();                                         // what tensors hold is here
  if (warp_of() < 4) {                                  // the first warpgroup copies
    registers_less<$(producer_registers)>();
    if ($(by_warp and "warp_of() == 0" or "thread_id() == 0"))
      $(told and tell_and_produce or "produce" .. (listed and "_listed" or ahead and "_ahead" or "") .. "(a" .. and_lists .. and_counter .. and_splits .. ", Q_map, K_map, V_map);")
$(placed and "    if (warp_of() > 1)\n      produce_biases(a, bias_map);\n" or "")  } else {
    registers_more<$(consumer_registers)>();
    consume$(listed and "_listed" or ahead and "_ahead" or "")(a$(and_partial), O_map);
  }$(shares and "\n  meet_other();" or "")
}
$(key_splits and 'extern "C" __global__ void __launch_bounds__(128, 6)\n' .. entry "merge" .. "(const call a, float *partial, i32 splits) { merge_row(a, partials(a, partial, splits)); }\n" or "")
