// ws_steps.cuh -- a step of a warpgroup that computes: O = O + P V with the P of the tile before, S = Q K^T of the next
// tile, and its softmax, which makes the next P. One section for each schedule:
//   in_order    both products are done before the softmax begins
//   overlapped  S comes first; the softmax runs beside O + P V
// and for each way to a maximum:
//   softmax     seeks it in each tile
//   late        computes P by the m of the tiles before, whose sums show where weights outgrew that: only then is S
//               made again, by the products of a warp, and its maximum sought

//: online -- what a warpgroup holds of its 64 rows
struct online {
  acc<Br, Bc> S;
  weights P;
  sums<Br, Dv> O;
  rowvec<Br> m, l;
  __device__ __forceinline__ explicit online(i32 me) : P(me), O{}, m(minus_inf()), l(0.f) {}
};

//: tile_at -- a tile of S: its sequence, first row and first key
struct tile_at {
  const call &a;
  const sequence &at;
  i32 i0, j0;
};

//: growth -- by what O and l shrink; where that is seldom, whether they do
struct growth {
  rowvec<Br> f;
% if rescale == "seldom" then
  bool is_needed;
% end
};

//: grow -- the softmax of a tile of scores: m = max(m, rowmax(S)), S becomes P = exp(S - m),
// l = exp(m_old - m) l + rowsum(P)
__device__ __forceinline__ growth grow(online &x, float c)
{
  const rowvec<Br> m_old = x.m;
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

//: softmax_of -- S of a tile becomes P
template <bool masked> __device__ __forceinline__ growth softmax_of(online &x, const tile_at &t, float c)
{
  score(x.S, t.a, t.at, t.i0, t.j0);
  if (masked)
    mask(x.S, t.a, t.at, t.i0, t.j0);
  const growth by = grow(x, c);
  weigh(x.S, t.a, t.at, t.i0, t.j0);
  return by;
}

//: first_step -- S and P of the first tile
template <bool masked>
__device__ __forceinline__ void first_step(online &x, const query &Q, const tile_at &t, float c, i32 n)
{
  const step_of<stages> K(n);
  wait(K_full + K.slot, K.parity);
  start_ABt(x.S, Q, K_place(K.slot));                   // S = Q K^T
  products_wait<0>();
  release(K_free + K.slot);
  softmax_of<masked>(x, t, c);
  set_weights(x.P, x.S);
}

//: last_step -- the last O = O + P V
__device__ __forceinline__ void last_step(online &x, i32 n)
{
  const step_of<stages> V(n);
  wait(V_full + V.slot, V.parity);
  start_AB(x.O, x.P, V_place(V.slot));                  // O = O + P V
  products_wait<0>();
  release(V_free + V.slot);
}

//: start_in_order
__device__ __forceinline__ void start_in_order(online &x, const query &Q, i32 n, i32)
{
  const step_of<stages> V(n), K(n + 1);
  wait(V_full + V.slot, V.parity);
  start_AB(x.O, x.P, V_place(V.slot));                  // O = O + P V
  wait(K_full + K.slot, K.parity);
  start_ABt(x.S, Q, K_place(K.slot));                   // the next S = Q K^T
  products_wait<0>();
}

//: softmax_in_order
template <bool masked>
__device__ __forceinline__ void softmax_in_order(online &x, const tile_at &t, float c, i32 n, i32, i32)
{
  const step_of<stages> V(n), K(n + 1);
  release(V_free + V.slot);
  release(K_free + K.slot);
  const growth by = softmax_of<masked>(x, t, c);
  shrink(x.O, by);                                      // O = exp(m_old - m) O
  set_weights(x.P, x.S);
}

//: start_overlapped
__device__ __forceinline__ void start_overlapped(online &x, const query &Q, i32 n, i32 me)
{
  const step_of<stages> K(n + 1), V(n);
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
  products_wait<1>();                                   // S is there
}

//: softmax_overlapped
template <bool masked>
__device__ __forceinline__ void softmax_overlapped(online &x, const tile_at &t, float c, i32 n, i32 me, i32)
{
  const step_of<stages> K(n + 1), V(n);
% if turns == "softmax" then
  take_turn(me);
% end
  release(K_free + K.slot);
  const growth by = softmax_of<masked>(x, t, c);
% if held then
  hold(x.l);                                            // while O + P V runs
% end
% if turns == "softmax" then
  pass_turn(me);
% end
  products_wait<0>();                                   // O is there
  release(V_free + V.slot);
  shrink(x.O, by);                                      // O = exp(m_old - m) O
  set_weights(x.P, x.S);
}

//: softmax_late -- after either start; `own`: the place of this warpgroup's rows of Q
template <bool masked>
__device__ __forceinline__ void softmax_late(online &x, const tile_at &t, float c, i32 n, i32 me, i32 own)
{
  constexpr i32 columns = acc<Br, Bc>::C; // of a thread
  const step_of<stages> K(n + 1), V(n);
% if turns == "softmax" then
  take_turn(me);
% end
  score(x.S, t.a, t.at, t.i0, t.j0);
  exp2_columns<0, columns / 2>(x.S, x.m, c);             // P = exp(S - m), whose maximum m need not be
% if held then
  hold_half(x.l, x.S);                                  // while O + P V runs
% end
  products_wait<0>();                                   // O is there
  release(V_free + V.slot);
  exp2_columns<columns / 2, columns>(x.S, x.m, c);
  const rowvec<Br> sums_of_P = row_sum(x.S);
  weigh(x.S, t.a, t.at, t.i0, t.j0);
  set_weights(x.P, x.S);
  if (any_lane(overgrown(x.m, sums_of_P))) {            // too far from it: from S on again
    warp_ABt<Dp>(x.S, Q_place(own), K_place(K.slot));
    const growth by = softmax_of<false>(x, t, c);
    shrink(x.O, by);                                    // O = exp(m_old - m) O
    set_weights(x.P, x.S);
  } else
    x.l = x.l + sums_of_P;                              // l = l + rowsum(P)
  release(K_free + K.slot);
% if turns == "softmax" then
  pass_turn(me);
% end
}
