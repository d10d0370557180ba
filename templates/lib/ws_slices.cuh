// ws_slices.cuh -- another schedule of a step of bwd_ws.cu: dV = dV + P^T dO starts slice by slice, 16 rows of Q each, as P comes, and
// dP behind it, when S is gone. Threads have room then for wider tiles of Q, or for K and V as left operands: both cross shared
// memory less, which is what a step of d 128 takes most of.

//: start_slices -- start_AB whose left operand is still being made; awaited with the product that starts next
template <class Acc, class Left> __device__ __forceinline__ void start_slices(Acc &C, const Left &A, u32 B)
{
  const descriptor b(B, box_bytes<16 * Left::steps>, 1024);
#pragma unroll
  for (i32 k = 0; k < Left::steps; k++) {
    products_fence();
    wgmma<1>(C.at, A.at(k), b.at(k * 2048), true);
  }
}

//: LSE_of_rows -- LSE of the rows of a tile, as a thread needs it
struct LSE_of_rows {
  quad at[Br / 16];
  __device__ __forceinline__ explicit LSE_of_rows(LD_tile LD)
  {
#pragma unroll
    for (i32 x = 0; x < Br / 16; x++)
      at[x] = LD.LSE(4 * x);
  }
};

//: exp2_minus_rows -- exp2_minus_LSE of what has been loaded
template <class Acc> __device__ __forceinline__ void exp2_minus_rows(Acc &S, const LSE_of_rows &L, float c)
{
#pragma unroll
  for (i32 x = 0; x < Acc::C; x++)
#pragma unroll
    for (i32 r = 0; r < Acc::R; r++)
      S.at[r][x] = ex2(fmaf(c, S.at[r][x], -__uint_as_float(L.at[x / 4].at[x % 4])));
}

//: weigh_capped -- of scores T = tanh in units of the cap: P, and W = P (1 - T^2), which dS is made of, both rounded, pair by pair: a thread
// has no room for W beside all of S and P. Where a mask was T is -inf
__device__ __forceinline__ void weigh_capped(rounded<Br> &P, rounded<Br> &W, const acc<Bc, Br> &T, const $(rows_ahead and "LSE_of_rows &L" or "LD_tile &LD"), float c)
{
#pragma unroll
  for (i32 x = 0; x < T.C; x += 2) {
    const quad four = $(rows_ahead and "L.at[x / 4]" or "LD.LSE(x / 4 * 4)");
#pragma unroll
    for (i32 r = 0; r < T.R; r++) {
      float p[2], w[2];
#pragma unroll
      for (i32 y = 0; y < 2; y++) {
        const float t = T.at[r][x + y];
        p[y] = ex2(fmaf(c, t, -__uint_as_float(four.at[x % 4 + y])));
        w[y] = p[y] * fmaxf(fmaf(-t, t, 1.f), 0.f);
      }
      P.part[x / 4][0].at[r + x % 4] = pack_$(dtype)(p[0], p[1]);
      W.part[x / 4][0].at[r + x % 4] = pack_$(dtype)(w[0], w[1]);
    }
  }
}

//: round_sloped -- P, and W = P times the derivatives of its scores, both rounded
__device__ __forceinline__ void round_sloped(rounded<Br> &P, rounded<Br> &W, acc<Bc, Br> &S, const acc<Bc, Br> &slopes)
{
  P.round(S);
  times_kept(S, slopes);
  W.round(S);
}

//: sliced_step
% if stays then
// A first step of a tile of keys ends the tile before.
__device__ __forceinline__ void sliced_step(acc<Bc, D> &dK, acc<Bc, Dv> &dV, bool &dO_here, const call &a, const own_tasks &own,
                                            const $(own_step) &of, const K_rows &K, const V_rows &V, share_of_dQ &share,
                                            i32 me, i32 n, i32 last_tile, const tensor_map &dK_map, const tensor_map &dV_map$(lots and ", rounded<Br> &dS" or ""))
{
  const key_task &my = own.my;
  const row_steps &from = own.from;
% else
__device__ __forceinline__ void sliced_step(acc<Bc, D> &dK, acc<Bc, Dv> &dV, bool &dO_here, const call &a, const key_task &my,
                                            const row_steps &from, const $(own_step) &of, const K_rows &K, const V_rows &V,
                                            const share_of_dQ &share, i32 me, i32 n, i32 last_tile$(lots and ", rounded<Br> &dS" or ""))
{
% end
  acc<Bc, Br> $(keeps_slope and "slopes, " or "")S, dP;
  dQ_part dQ;
  rounded<Br> $(W_and)P$(lots and "; // dS is read until the next step's wait, beyond the draw" or ", dS;")
% if frees_early then
  // dK is there, and its Q is free. Half a step ahead of the other, a warpgroup else waits for the next Q: 9 % of its time at d 128, causal, 1,024 keys (H200).
  products_wait<0>();
  release_Q(n - 1);
% end
  start_S(S, K, n, false);                              // S^T = K Q^T
% if rows_ahead then
  const LSE_of_rows L(LD_of(n));
% end
% if lots then
  await_full(dO_full, dO_place_of(n), dO_here);         // a branch: ptxas would draw between the products of S, and have S wait
 $(draw_lots)
% end
  products_wait<0>();                                   // S is there$(frees_early and "" or ", and dK")
$(frees_early and "" or "  release_Q(n - 1);\n")  set_P(S, a, of.$(at_of)(a), my.j0, n$(rows_ahead and ", L" or "")$(and_slopes));                      // P = exp(S - LSE)
% if not lots then
  await_full(dO_full, dO_place_of(n), dO_here);
% end
  $(round_P);
% if has.drop then
  rounded<Br> Z;
  $(draw);
% end
  start_slices(dV, $(has.drop and "Z" or "P"), dO_of(n));                       // dV = dV + P^T dO
  start_dP(dP, V, n, true);                             // dP^T = V dO^T
  give_start(me, $(stays and "n" or "n - from.before"));
% if stays then
  if (own.is_first(n))
    store_dK(dK, a, from.round - 1, me, dK_map);
% end
  const bool dS_here = is_full(dS_full, dS_place_of(from.dS(n)));
% if rows_ahead then
  const D_of_rows D(LD_of(n));
  products_wait<0>();                                   // dP is there, and dV
% else
  products_wait<0>();                                   // dP is there, and dV
  const D_of_rows D(LD_of(n));
% end
  release(dO_free + dO_place_of(n).slot);
  set_slope(S, a, of.$(at_of)(a), my.j0, n);
  $(minus_D);$(tell_dS)        // dS = P (dP - D)
  dS.round(dP);
  lay_dS(from.dS(n) + 1, me, dS);
  start_dQ(dQ, share, from.dS(n), dS_here);             // dQ = dS K, of the step before
  start_AB(dK, dS, Q_of(n));                            // dK = dK + dS^T Q
% if stays then
  if (own.is_last(n))
    store_dV(dV, a, own, me, dV_map);
% end
  dO_here = is_full(dO_full, dO_place_of(n + 1));
  products_wait<1>();                                   // dQ is there
  end_dQ(share, from.dS(n), last_tile, dQ);
% if stays then
  if (own.is_first(n)) {
    share.turn_to(own);
    leave_keys(from.round - 1);
%  if settles_by_keys then
    settle_unseen(share, from);
%  end
  }
% end
}
