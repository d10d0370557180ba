// fwd_ws.cu -- FlashAttention-3, forward: a warpgroup that copies, and warpgroups that compute, each 64 rows of Q.
//   O = softmax(scale Q K^T + mask) V,  LSE = log of the row sums of exp(scale Q K^T + mask)
// A block stays on its SM and does one tile of Q after another. K and V come through rings of `stages` tiles, whose
// barriers say full (bytes have come) and free (all have read). Products run on the tensor cores while a warpgroup
// computes its softmax: lib/ws_steps.cuh has a step of each schedule. Each warpgroup goes on to the next tile of Q when
// its rows are done.
%  for _, file in ipairs(libs) do use(file) end
%  local counter = uneven and "i32 *counter, " or "" -- tiles of Q that differ in length are drawn, the longest first

// One thread: which tile comes next, its Q for each warpgroup, and K and V of each step, K a step ahead.
__device__ __forceinline__ void produce(const call &a, $(counter)const tensor_map &Q_map, const tensor_map &K_map,
                                        const tensor_map &V_map)
{
  i32 n = 0;                                            // tiles of K and V
  for (i32 round = 0;; round++) {                       // tiles of Q
    const i32 block = $(uneven and "drawn_block(counter, round)" or "nth_block(round)");
    const bool last = block >= blocks_of(a);
    const task my = task_of(a, last ? 0 : block);
    const sequence at = sequence_of(a, my.head);
    const spans visit = last ? spans{} : range(a, at, my.i0);
    for (i32 x = 0; x < consumers; x++) {
      copy_Q(Q_map, round, x, {last ? -1 : my.head, my.i0}, at, visit);
      if (x == 0 && visit.first < visit.last)
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
%  local function step(masked) local maximum = seeks_late and not masked and "late" or schedule
      start_$(schedule)(x, Q, n, me);
      softmax_$(maximum)<$(masked and "true" or "false")>(x, {a, at, i0, j * Bc}, c, n, me, own);
      n++;
%  end
  const float c = base2(a.scale);
  const i32 me = own_group();
  i32 n = 0;
%  if turns ~= "none" then
  first_turn(me);
%  end
  for (i32 round = 0;; round++) {
    const step_of<Q_stages> slot(round);
    const i32 own = slot.slot * consumers + me;         // the place of this warpgroup's rows
    wait(Q_full + own, slot.parity);
    const task my = get_task(own);
    if (my.head < 0)
      return;
    const i32 i0 = my.i0;
    const sequence at = sequence_of(a, my.head);
    const spans all = range(a, at, i0), visit = range<64>(a, at, i0 + 64 * me);
    online x(me);
    if (visit.first < visit.last) {
      const query Q(Q_place(own));
%  if cut.left then
      pass_before(me, n, visit.first - all.first);      // other rows of the tile see these keys
%  end
      i32 j = visit.first;
      if (j >= visit.free && j < visit.full)
        first_step<false>(x, Q, {a, at, i0, j * Bc}, c, n);
      else
        first_step<true>(x, Q, {a, at, i0, j * Bc}, c, n);
      j++;
%  if cut.left then
      for (; j < visit.free; j++) {                     // the left end of the window
%  step(true)
      }
%  end
      for (; j < visit.full; j++) {                     // tiles that no mask touches
%  step(false)
      }
      for (; j < visit.last; j++) {                     // the diagonal, the ragged end
%  step(true)
      }
      last_step(x, n);
      n++;
      x.l = row_total(x.l);
      scale_rows(x.O, finish(x.m, x.l, c$(has.sink and ", rows(a, my.head), i0" or "")).factor); // O = diag(l)^-1 O
      store_from(Q_place(own), x.O, O_map, at, i0 + 64 * me);
    } else {                                            // no key is seen
      const place rows_at = rows(a, my.head);
      store_zeros<sums<Br, Dv>>(rows_at.O, rows_at.On, i0, at.nq);
    }
    release(Q_free + own);
    const place rows_at = rows(a, my.head);             // asked for above the loops, it costs up to 4 % (d 64, H200)
    if (rows_at.LSE)
      store_rowvec(finish(x.m, x.l, c$(has.sink and ", rows_at, i0" or "")).LSE, rows_at.LSE, i0, at.nq);
    pass_behind(me, n, max(visit.last, all.first), all); // and these
  }
}

extern "C" __global__ void __launch_bounds__(T, 1)
$(entry "fwd_ws")(const call a, $(counter)const __grid_constant__ tensor_map Q_map,
  const __grid_constant__ tensor_map K_map, const __grid_constant__ tensor_map V_map,
  const __grid_constant__ tensor_map O_map)
{
  set_up();
  if (warp_of() < 4) {
    registers_less<$(producer_registers)>();
    if (thread_id() == 0)
      produce(a, $(uneven and "counter, " or "")Q_map, K_map, V_map);
  } else {
    registers_more<$(consumer_registers)>();
    consume(a, O_map);
  }
}
