// ws_steps.cuh -- a step of a warpgroup that computes: O = O + P V with the P of the tile before, S = Q K^T of the next
// tile, and its softmax, which makes the next P. One section for each schedule:
//   in_order    both products are done before the softmax begins
//   overlapped  S comes first; the softmax runs beside O + P V: FlashAttention-3's overlap within a warpgroup (its Algorithm 2).
// Its ping-pong between warpgroups is P = 2 (turns == "softmax"); P = 0 only staggers the first tile (await_start).
// And for each way to a maximum:
//   softmax     seeks it in each tile
//   late        (L = 2) computes P by the m of the tiles before, and seeks no maximum. Where a row's sum of P exceeds 2^12, m is
//               raised, and P, l and O are scaled down in registers; beyond 1e30 S is made again, by the products of a warp.
//               Under a window, whose first tile some rows see nothing of, a warp with such rows seeks the next maximum, and
//               so does one whose m has grown twice in a row

//: online -- what a warpgroup holds of its 64 rows
struct online {
  acc<Br, Bc> S;
  weights P;
  sums<Br, Dv> O;
  rowvec<Br> m, l;
% if seeks_late and cut.left then
  i32 growths; // successive tiles in which m has grown, in this warp
% end
% if added_early then
  known_numbers known;
  added_along<acc<Br, Bc>> added[acc<Br, Bc>::R]; // to scores of this tile, less m
% end
  __device__ __forceinline__ explicit online(i32 me) : P(me), O{}, m(minus_inf()), l(0.f) {}
};

//: tile_at -- a tile of S: its sequence, first row and first key, and whether a mask cuts it
struct tile_at {
  const call &a;
  const $(rows_type) &at;
  i32 i0, j0;
  bool is_cut;
};

//: growth -- by what O and l shrink; where that is seldom, whether they do
struct growth {
  rowvec<Br> f;
% if rescale == "seldom" then
  bool is_needed;
% end
};

//: set_scores -- products become scores$(placed and "; `slot`: of the tile of K, with which biases have come" or "")
__device__ __forceinline__ void set_scores(acc<Br, Bc> &S, const tile_at &t$(take_slot))
{
  score(S, t.a, t.at, t.i0, t.j0$(placed and ", bias_place(slot)" or ""));
  if (t.is_cut)
    $(windowed and "mask_window(S, t.a, t.at, t.j0)" or "mask(S, t.a, t.at, t.i0, t.j0)");
}

//: softmax_of -- the softmax of a tile: m = max(m, rowmax(S)), S becomes P = exp(S - m), l = exp(m_old - m) l + rowsum(P)
__device__ __forceinline__ growth softmax_of(online &x, const tile_at &t, float c$(take_slot))
{
  const rowvec<Br> m_old = x.m;
  set_scores(x.S, t$(placed and ", slot" or ""));
% if placed then
  $(read_by)(K_free + slot);
% end
  x.m = row_max(x.m, x.S);
% if rescale == "seldom" then
  const bool grown = settle(x.m, m_old, c);
  const growth by = {decay(m_old, x.m, c), grown};
  if (grown)
    x.l = by.f * x.l;
% else
  const growth by = {decay(m_old, x.m, c)};
  x.l = by.f * x.l;
% end
  exp2_rows(x.S, x.m, c);
  x.l = x.l + row_sum(x.S);
  weigh(x.S, t.a, t.at, t.i0, t.j0);
  return by;
}

//: shrink -- O = exp(m_old - m) O
__device__ __forceinline__ void shrink(sums<Br, Dv> &O, const growth &by)
{
% if rescale == "seldom" then
  if (by.is_needed)
% end
  scale_rows(O, by.f);
}

//: move -- the softmax goes on from another m: l = exp(m_old - m) l$(cut.left and "; the factor, by which O is to shrink when it is there" or ", O = exp(m_old - m) O; the factor")
__device__ __forceinline__ rowvec<Br> move(online &x, const rowvec<Br> &m, float c)
{
  const rowvec<Br> f = decay(x.m, m, c);
  x.m = m;
  x.l = f * x.l;
% if cut.left then
  x.growths = any_lane(grown(f)) ? x.growths + 1 : 0;
% else
  scale_rows(x.O, f);
% end
  return f;
}

//: first_step -- S and P of the first tile
__device__ __forceinline__ void first_step(online &x, const query &Q, const tile_at &t, float c, i32 n)
{
  const step_of<stages> K(n);
  wait(K_full + K.slot, K.parity);
  start_ABt(x.S, Q, K_place(K.slot));                   // S = Q K^T
  products_wait<0>();
% if not placed then
  $(read_by)(K_free + K.slot);
% end
  softmax_of(x, t, c$(and_slot));
% if seeks_late and cut.left then
  x.growths = any_lane(unset(x.m)) ? 2 : 0;
% end
  set_weights(x.P, x.S$(has.drop and ", t" or ""));
}

//: last_step -- the last O = O + P V
__device__ __forceinline__ void last_step(online &x, i32 n)
{
  const step_of<stages> V(n);
  wait(V_full + V.slot, V.parity);
  start_AB(x.O, x.P, V_place(V.slot));                  // O = O + P V
  products_wait<0>();
  $(read_by)(V_free + V.slot);
}

//: set_added -- before S is awaited: tables lie in device memory
__device__ __forceinline__ void set_added(online &x, const tile_at &t, float c)
{
  if (!t.is_cut)
#pragma unroll
    for (i32 r = 0; r < x.m.R; r++) {
      x.added[r] = added_along<acc<Br, Bc>>(t.a, x.known, t.at, t.i0, t.j0, r);
      x.added[r].first -= c * origin(x.m.at[r]);
    }
}

//: start_in_order
__device__ __forceinline__ void start_in_order(online &x, const query &Q, i32 n$(take_K), i32$(take_tile))
{
  const step_of<stages> V(n), K($(K_of_step));
  wait(V_full + V.slot, V.parity);
  start_AB(x.O, x.P, V_place(V.slot));                  // O = O + P V
  wait(K_full + K.slot, K.parity);
  start_ABt(x.S, Q, K_place(K.slot));                   // the next S = Q K^T
% if added_early then
  set_added(x, t, c);
% end
  products_wait<0>();
}

//: softmax_in_order
__device__ __forceinline__ void softmax_in_order(online &x, const tile_at &t, float c, i32 n$(take_K), i32, i32)
{
  const step_of<stages> V(n), K($(K_of_step));
  $(read_by)(V_free + V.slot);
% if not placed then
  $(read_by)(K_free + K.slot);
% end
  const growth by = softmax_of(x, t, c$(and_slot));
  shrink(x.O, by);                                      // O = exp(m_old - m) O
  set_weights(x.P, x.S$(has.drop and ", t" or ""));
}

//: start_overlapped
__device__ __forceinline__ void start_overlapped(online &x, const query &Q, i32 n$(take_K), i32 me$(take_tile))
{
  const step_of<stages> K($(K_of_step)), V(n);
  wait(K_full + K.slot, K.parity);
% if turns == "products" then
  take_turn(me);
% end
  start_ABt(x.S, Q, K_place(K.slot));                   // the next S = Q K^T
  wait(V_full + V.slot, V.parity);
  start_AB(x.O, x.P, V_place(V.slot));                  // O = O + P V
% if turns == "products" then
  pass_turn(me);
% end
% if added_early then
  set_added(x, t, c);
% end
  products_wait<1>();                                   // S is there
}

//: softmax_overlapped
__device__ __forceinline__ void softmax_overlapped(online &x, const tile_at &t, float c, i32 n$(take_K), i32 me, i32)
{
  const step_of<stages> K($(K_of_step)), V(n);
% if turns == "softmax" then
  take_turn(me);
% end
% if not placed then
  $(read_by)(K_free + K.slot);
% end
  const growth by = softmax_of(x, t, c$(and_slot));
% if held then
  hold(x.l);                                            // while O + P V runs
% end
% if turns == "softmax" then
  pass_turn(me);
% end
  products_wait<0>();                                   // O is there
  $(read_by)(V_free + V.slot);
  shrink(x.O, by);                                      // O = exp(m_old - m) O
  set_weights(x.P, x.S$(has.drop and ", t" or ""));
}

//: exp2_late -- P = exp(S - m) in a thread's columns from `first` to before `last`
// Where no mask cuts the tile S holds products still: of what grows evenly along a row, the tile's first key and m one number is made for
// each row, so that it costs a multiply-add for each score, not two and a half
template <i32 first, i32 last> __device__ __forceinline__ void exp2_late(online &x, const tile_at &t, float c)
{
  if (!t.is_cut) {
    constexpr float log2e = 1.44269504088896f;
    const float scale = log2e * t.a.scale;
#pragma unroll
    for (i32 r = 0; r < x.m.R; r++) {
% if has.alibi then
      terms<false, acc<Br, Bc>> added(t.at, t.i0, t.j0, r);
      added.first -= origin(x.m.at[r]);
% else
      const added_along<acc<Br, Bc>> &added = x.added[r];
% end
#pragma unroll
      for (i32 n = first; n < last; n++)
        x.S.at[r][n] = ex2(fmaf(scale, x.S.at[r][n], added.at(n)));
    }
    return;
  }
  exp2_columns<first, last>(x.S, x.m, c);
}

//: softmax_late -- after either start; `own`: the place of this warpgroup's rows of Q
__device__ __forceinline__ void softmax_late(online &x, const tile_at &t, float c, i32 n$(take_K), i32 me, i32 own)
{
  constexpr i32 columns = acc<Br, Bc>::C; // of a thread
  const step_of<stages> K($(K_of_step)), V(n);
% if turns == "softmax" then
  take_turn(me);
% end
  $(scores_late and "if (t.is_cut)\n    " or "")set_scores(x.S, t$(and_slot));
% if cut.left then
  const bool seeks = x.growths > 1;                     // this warp alone: for O waits the whole warpgroup, by one instruction
  rowvec<Br> by(1.f);
  if (seeks)
    by = move(x, row_max(x.m, x.S), c);
% end
  $(weights_late)<0, columns / 2>($(late_of), c);             // P = exp(S - m), whose maximum m need not be
% if held then
  hold_half(x.l, x.S);                                  // while O + P V runs
% end
  products_wait<0>();                                   // O is there
  $(read_by)(V_free + V.slot);
% if cut.left then
  if (seeks)
    scale_rows(x.O, by);
% end
  $(weights_late)<columns / 2, columns>($(late_of), c);
  rowvec<Br> sums_of_P = row_sum(x.S);
  weigh(x.S, t.a, t.at, t.i0, t.j0);
  set_weights(x.P, x.S$(has.drop and ", t" or ""));
  // Weights by an m far below have a rounding error of their own where one by its maximum is exactly 1: up to 2^12 (and
  // wide scores) the RMS error is 1.28 times that, up to 2^16 it is 1.34. 65504 is the most that f16 holds.
% local unset = cut.left and "" or " || unset(x.m)"
  if (any_lane(above(sums_of_P, 4096.f)$(unset))) {     // m is too far below
    const bool finite = !any_lane(above(sums_of_P, 1e30f)$(unset));
    rowvec<Br> m;
    if (finite)
      m = above_by(x.m, x.S, c);
    else {                                              // farther than P can tell: from S on again
      warp_ABt<Dp>(x.S, Q_place(own), K_place(K.slot));
      set_scores(x.S, $(tile_again)$(and_slot));
      m = row_max(x.m, x.S);
    }
    const rowvec<Br> f = move(x, m, c);
% if cut.left then
    scale_rows(x.O, f);
% end
    if (finite) {
      scale_rows(x.S, f);
      sums_of_P = f * sums_of_P;
    } else {
      exp2_rows(x.S, x.m, c);
      sums_of_P = row_sum(x.S);
      weigh(x.S, t.a, t.at, t.i0, t.j0);
    }
    set_weights(x.P, x.S$(has.drop and ", t" or ""));
  }
% if cut.left then
  else if (x.growths < 2)
    x.growths = 0;
% end
  $(read_by)(K_free + K.slot);
  x.l = x.l + sums_of_P;                                // l = l + rowsum(P)
% if turns == "softmax" then
  pass_turn(me);
% end
}
