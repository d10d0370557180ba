// fwd_ws.cu -- FlashAttention-3, forward: a warpgroup that copies, and warpgroups that compute, each 64 rows of Q.
//   O = softmax(scale Q K^T + mask) V,  LSE = log of the row sums of exp(scale Q K^T + mask)
// A block stays on its SM and does one tile of Q after another. K and V come through rings of `stages` tiles, whose
// barriers say full (bytes have come) and free (all have read). The next S = Q K^T and O += P V run on the tensor
// cores while the softmax of S is computed. Each warpgroup goes on to the next tile of Q when its rows are done.
%  for _, file in ipairs(libs) do use(file) end
%  local next_block = causal and "round == 0 ? i32(block_id()) : grid_size() + atomic_add(counter, 1)" or "nth_block(round)"
%  local grown, laid = L == 1 and "        if (grown) " or "        ", S == 1 and "lay(P, S)" or "P = weigh(S)"

// One thread: which tile comes next, its Q for each warpgroup, and K and V of each step, K a step ahead. Under a
// causal mask blocks draw their tiles from a counter, the longest first: an order fixed beforehand was up to 7 % slower.
__device__ __forceinline__ void produce(const call &a, $(causal and "i32 *counter, " or "")const tensor_map &Q_map,
                                        const tensor_map &K_map, const tensor_map &V_map)
{
  i32 n = 0;                                            // tiles of K and V
  for (i32 round = 0;; round++) {                       // tiles of Q
    const i32 block = $(next_block);
    const bool last = block >= blocks_of(a);
    const turn my = turn_of(a, last ? 0 : block);
    const heads at = heads_of(a, my.head);
    const tiles visit = last ? tiles{} : range(lengths_of(a), my.i0);
    for (i32 x = 0; x < consumers; x++) {
      const step_of<Q_stages> Q(round);
      const i32 place = Q.slot * consumers + x;
      wait(Q_free + place, Q.parity ^ 1);
      put_turn(place, {last ? -1 : my.head, my.i0});
      if (visit.first >= visit.last) {
        barrier_arrive(barrier_at(Q_full + place));     // nothing to copy
        continue;
      }
      copy_tile<boxes, 64>(Q_place(place), Q_map, my.i0 + 64 * x, at.h, at.b, Q_full + place);
      if (x == 0)
        copy_K(K_map, n, visit.first * Bc, at);         // while the other warpgroups finish
    }
    if (last)
      return;
    for (i32 j = visit.first; j < visit.last; j++, n++) {
      if (j + 1 < visit.last)
        copy_K(K_map, n + 1, (j + 1) * Bc, at);
      copy_V(V_map, n, j * Bc, at);
    }
  }
}

__device__ __forceinline__ void consume(const call &a, const tensor_map &O_map)
{
  const float c = base2(a.scale);
  const i32 me = own_group();
  i32 n = 0;
%  if P > 0 then
  first_turn(me);
%  end
  for (i32 round = 0;; round++) {
    const step_of<Q_stages> slot(round);
    const i32 place = slot.slot * consumers + me;       // the place of this warpgroup's rows
    wait(Q_full + place, slot.parity);
    const turn my = get_turn(place);
    if (my.head < 0)
      return;
    const i32 i0 = my.i0;
    const heads at = heads_of(a, my.head);
    const lengths len = lengths_of(a);
    const tiles visit = range<64>(len, i0 + 64 * me);
    outputs O = {};
    rowvec m = row_fill(minus_inf()), l = row_fill(0.f);
    if (visit.first < visit.last) {
      const query Q(Q_place(place));
      i32 j = visit.first;
      scores S;
      $(S == 1 and "const laid_weights P(me)" or "weights P");
%  local function see(masked)
      orient(S, a.scale);
%    if scored then
      score(S, a, at, i0, j * Bc);
%    end
%    if masked then
      mask(S, len, i0, j * Bc);
%    end end
%  local function softmax(masked) see(masked)
      const rowvec m_old = m;
      m = row_max(m, S);                                // m = max(m, rowmax(S))
%    if L == 1 then
      const bool grown = settle(m, m_old, c);
%    end
      const rowvec f = decay(m_old, m, c);
$(grown)l = times(f, l);                                // l = exp(m_old - m) l
      exp2_rows(S, m, c);                               // P = exp(S - m)
      l = plus(l, row_sum(S));                          // l = l + rowsum(P)
%  end
%  local function softmax_by_old_m() see(false)
        exp2_columns<0, C / 2>(S, m, c);                // P = exp(S - m), whose maximum m need not be
%    if I == 2 then
        hold_half(l, S);                                // while O + P V runs
%    end
        products_wait<0>();                             // O is there
        release(V_free + V.slot);
        exp2_columns<C / 2, C>(S, m, c);
        $(laid);
        const rowvec sums = row_sum(S);
        if (any_lane(overgrown(m, sums))) {             // too far from it: from S on again
          score_again(S, Q_place(place), K_place(K.slot));
%    softmax(false)
          scale_rows(O, f);                             // O = exp(m_old - m) O
          $(laid);
        } else
          l = plus(l, sums);                            // l = l + rowsum(P)
        release(K_free + K.slot);
%  end
%  local function turn(verb, section) if P == section then
        $(verb)_turn(me);
%  end end
%  local function first(masked)
        const step_of<stages> K(n);
        wait(K_full + K.slot, K.parity);
        start_S(S, Q, K_place(K.slot));        // S = Q K^T
        products_wait<0>();
        release(K_free + K.slot);
%  softmax(masked)
        $(laid);
%  end
%  local function step(masked) local by_old_m = L == 2 and not masked
%    if I == 0 then
        const step_of<stages> V(n), K(n + 1);
        wait(V_full + V.slot, V.parity);
        start_O(O, P, V_place(V.slot));                 // O = O + P V
        wait(K_full + K.slot, K.parity);
        start_S(S, Q, K_place(K.slot));        // the next S = Q K^T
        products_wait<0>();
%      if by_old_m then softmax_by_old_m() else
        release(V_free + V.slot);
        release(K_free + K.slot);
%      softmax(masked)
$(grown)scale_rows(O, f);                               // O = exp(m_old - m) O
        $(laid);
%      end
%    else
        const step_of<stages> K(n + 1), V(n);
        wait(K_full + K.slot, K.parity);
%      turn("take", 1)
        start_S(S, Q, K_place(K.slot));        // the next S = Q K^T
        wait(V_full + V.slot, V.parity);
        start_O(O, P, V_place(V.slot));                 // O = O + P V
%      turn("pass", 1)
        products_wait<1>();                             // S is there
%      turn("take", 2) if by_old_m then softmax_by_old_m() turn("pass", 2) else
        release(K_free + K.slot);
%      softmax(masked)
%      if I == 2 then
        hold(l);                                        // while O + P V runs
%      end turn("pass", 2)
        products_wait<0>();                             // O is there
        release(V_free + V.slot);
$(grown)scale_rows(O, f);                               // O = exp(m_old - m) O
        $(laid);
%      end end
        n++;
%  end
      if (j < visit.full) {
%  first(false)
      } else {
%  first(true)
      }
      for (j++; j < visit.full; j++) {                  // tiles that no mask touches
%  step(false)
      }
      for (; j < visit.last; j++) {                     // the diagonal, the ragged end
%  step(true)
      }
      const step_of<stages> V(n);
      wait(V_full + V.slot, V.parity);
      start_O(O, P, V_place(V.slot));
      products_wait<0>();
      release(V_free + V.slot);
      n++;
      l = row_total(l);
      scale_rows(O, row_inverse(l));                    // O = diag(l)^-1 O
      store_outputs_from(Q_place(place), O, O_map, at, i0 + 64 * me);
    } else
      store_zeros(rows(a, my.head), i0);                // no key is seen
    release(Q_free + place);
    if ($(slices > 1 and "at.v0 == 0 && " or "")a.LSE.data)
      store_rowvec(row_finish(m, l, c), rows(a, my.head).LSE, i0, a.q);
    const tiles all = range(len, my.i0);
    for (i32 j = max(visit.last, all.first); j < all.last; j++, n++) {
%  if P > 0 then
      if (j > all.first) {
        take_turn(me);
        pass_turn(me);
      }
%  end
      pass_by(n);                                       // other rows of the tile see more keys
    }
  }
}

extern "C" __global__ void __launch_bounds__(T, 1)
$(entry "fwd_ws")(const call a, $(causal and "i32 *counter, " or "")const __grid_constant__ tensor_map Q_map,
  const __grid_constant__ tensor_map K_map, const __grid_constant__ tensor_map V_map,
  const __grid_constant__ tensor_map O_map)
{
  set_up();
  if (warp_of() < 4) {
    registers_less<$(producer_registers)>();
    if (thread_id() == 0)
      produce(a, $(causal and "counter, " or "")Q_map, K_map, V_map);
  } else {
    registers_more<$(consumer_registers)>();
    consume(a, O_map);
  }
}
