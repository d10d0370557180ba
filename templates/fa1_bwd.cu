// fa1_bwd.cu -- FlashAttention, Algorithm 4 of the first paper: the backward with an outer loop over K and V and an inner
// one over Q. dK and dV grow on chip, dQ in device memory. Two things are as in the second paper: P is made again from LSE, not
// from l and m, and D is computed once, ahead of the loops.
//   P = exp(S - LSE),  dV = P^T dO,  dP = dO V^T,  dS = P (dP - D),  dQ = scale dS K,  dK = scale dS^T Q,  D = rowsum(dO O)
// One block for each batch and head of K and V, which sums over the query heads that share it. S, P and dS are kept
// transposed, a row for each key: so P^T and dS^T go from registers into products.
%  for _, file in ipairs(libs) do use(file) end
extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "fa1_bwd")(const call a, float *dQ_all, float *D_all)
{
  const float c = $(c_of_call);
  const i32 group = a.h / a.hk, first = i32(block_id()) * group; // query heads of this block
  const Q_tile Q(shared_memory());
  const dO_tile dO(shared_memory() + at_dO);
  const K_tile K(shared_memory() + at_K);
  const V_tile V(shared_memory() + at_V);
  const dS_tile dSt_place(shared_memory() + at_dS);

  for (i32 head = first; head < first + group; head++) {
    const place at = rows(a, head);
    for (i32 i0 = 0; i0 < at.nq; i0 += Br) {
%  local D = "row_dot<Br, Dv>(at.dO, at.dOn, at.O, at.On, i0, at.nq)"
      store_rowvec($(has.dlse and "D_of(" .. D .. ", at, i0)" or D), D_all + i64(head) * a.q, i0, at.nq);
      store_sums(sums<Br, D>{}, {dQ_all + i64(head) * a.q * D, D}, i0, at.nq);
    }
  }
  const place kv = rows(a, first);
  for (i32 j0 = 0; j0 < kv.nk; j0 += Bc) {                                     // Algorithm 4, line 6
    const auto K_next = depart<D>(K, kv.K, kv.Kn, j0, kv.nk);
    const auto V_next = depart<Dv>(V, kv.V, kv.Vn, j0, kv.nk);
    land(K, K_next);
    land(V, V_next);
    block_sync();                                       // K and V are here, also where no row sees them
    sums<Bc, D> dK = {};
    sums<Bc, Dv> dV = {};
    for (i32 head = first; head < first + group; head++) {
      const place at = rows(a, head);
      const spans visit = range_rows(a, at, j0);
      const sums_at dQ_head = {dQ_all + i64(head) * a.q * D, D};
      for (i32 i = visit.first; i < visit.last; i++) {
        const i32 i0 = i * Br;
%  if has.bs then
        if (blocks_at(a, at, i0, j0) == no_block)
          continue;                                     // blocks that are not there, as in Algorithm 5
%  end
        const auto Q_next = depart<D>(Q, at.Q, at.Qn, i0, at.nq);
        const auto dO_next = depart<Dv>(dO, at.dO, at.dOn, i0, at.nq);
        land(Q, Q_next);
        land(dO, dO_next);
        block_sync();                                   // the tiles are here; D, and dQ of the tile before, are written
        acc<Bc, Br> $(keeps_slope and "slopes, " or "")S = {};
        mma_ABt(S, left_rows(K), Q);                    // S^T = K Q^T
        $(score_rows)(S, a, at, i0, j0$(and_slopes));
        if (is_cut(visit, i))
          mask_rows(S, a, at, i0, j0);
        exp2_by(S, load_colvec<Br>(at.LSE, i0, at.nq), c);                     // P^T = exp(S^T - LSE), in the place of S^T
        $(weigh_rows)(S, a, at, i0, j0);
        mma_AB(dV, operand_of($(kept_S)), dO);                  // dV = dV + P^T dO
        acc<Bc, Br> dP = {};
        mma_ABt(dP, left_rows(V), dO);                  // dP^T = V dO^T
%  if has.softcap and not keeps_slope then
        times_slope_by(S, load_colvec<Br>(at.LSE, i0, at.nq), a, at, i0, j0);
%  end
        times_difference(S, dP, load_colvec<Br>(D_all + i64(head) * a.q, i0, at.nq)$(and_boost)); // dS^T = P^T (dP^T - D), in the place of P^T
%  if keeps_slope then
        times_kept(S, slopes);
%  end
        $(has.dbias and "tell_rows(S, a, at, i0, j0); " or "")lay(dSt_place, S);
        block_sync();                                   // dS^T is here
        sums<Br, D> dQ = load_sums<sums<Br, D>>(dQ_head, i0, at.nq);
        mma_AtB(dQ, dSt_place, K);                      // dQ = dQ + dS K
        store_sums(dQ, dQ_head, i0, at.nq);
        mma_AB(dK, operand_of(S), Q);                   // dK = dK + dS^T Q
        block_sync();                                   // all have read Q, dO and dS
      }
    }
    scale_rows(dK, rowvec<Bc>(a.scale));
    store(dK, K, kv.dK, kv.dKn, j0, kv.nk);
%  if has.drop then
    scale_rows(dV, rowvec<Bc>(boost(a)));
%  end
    store(dV, V, kv.dV, kv.dVn, j0, kv.nk);
    block_sync();                                       // K and V make room for the next
  }
  for (i32 head = first; head < first + group; head++) {
    const place at = rows(a, head);
    for (i32 i0 = 0; i0 < at.nq; i0 += Br) {
      sums<Br, D> dQ = load_sums<sums<Br, D>>({dQ_all + i64(head) * a.q * D, D}, i0, at.nq);
      scale_rows(dQ, rowvec<Br>(a.scale));
      store(dQ, Q, at.dQ, at.dQn, i0, at.nq);
    }
  }
}
%  if has.dsink or has.dbias then
$(entries_beside(entry, take_lists, "", "dsink_by_rows(a, i32(block_id()))"))
%  end
