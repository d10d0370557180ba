// standard_bwd.cu -- Algorithm 3 of the first paper, in four launches: P and dS go through device memory.
//   1: P = exp(Q K^T - LSE), dP = dO V^T    2: dS = P (dP - D), in the place of dP
//   3: dV = P^T dO, dK = scale dS^T Q       4: dQ = scale dS K
// The paper reads P from the forward; here it is made again from LSE. And D = rowsum(dO O), as in all other kernels: the paper's
// rowsum(P dP) is the same number only where O is P V to the last bit, and a call may bring any O.
// P and dP have, for each batch and head, q rows of `row` elements: k rounded up to whole tiles.
%  for _, file in ipairs(libs) do use(file) end
extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "weights")(const call a, elem *P_all, elem *dP_all$(keeps_slope and ", elem *slopes_all" or ""))
{
  const i32 Tr = ceil_div(a.q, Br), Tc = ceil_div(a.k, Bc);
  const i32 j = i32(block_id() % Tc), i = i32(block_id() / Tc % Tr), head = i32(block_id() / Tc / Tr);
  const i32 i0 = i * Br, j0 = j * Bc;
  const place at = rows(a, head);
  const spans visit = range(a, at, i0);
  if (j < visit.first || j >= visit.last)
    return;                                             // no row of this tile sees a key of that one
  const Q_tile Q(shared_memory());
  const dO_tile dO(shared_memory() + at_dO);
  const K_tile K(shared_memory() + at_K);
  const V_tile V(shared_memory() + at_V);
  const auto Q_next = depart<D>(Q, at.Q, at.Qn, i0, at.nq);
  const auto K_next = depart<D>(K, at.K, at.Kn, j0, at.nk);
  land(Q, Q_next);
  land(K, K_next);
  const auto dO_next = depart<Dv>(dO, at.dO, at.dOn, i0, at.nq);
  const auto V_next = depart<Dv>(V, at.V, at.Vn, j0, at.nk);
  land(dO, dO_next);
  land(V, V_next);
  block_sync();
  acc<Br, Bc> $(keeps_slope and "slopes, " or "")P = {}, dP = {};
  mma_ABt(P, left_rows(Q), K);                          // S = Q K^T
  score(P, a, at, i0, j0$(and_slopes));
  if (is_cut(visit, j))
    mask(P, a, at, i0, j0);
  exp2_from(P, load_rowvec<Br>(at.LSE, i0, at.nq), $(c_of_call));             // P = exp(S - LSE)
  $(weigh_back)(P, a, at, i0, j0);
  store_scores(P, matrix_of(P_all, head, at), i0, j0, at.nq);$(keeps_slope and " store_scores(slopes, matrix_of(slopes_all, head, at), i0, j0, at.nq);" or "")
  mma_ABt(dP, left_rows(dO), V);                        // dP = dO V^T
  store_scores(dP, matrix_of(dP_all, head, at), i0, j0, at.nq);
}

extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "differences")(const call a, const elem *P_all, elem *dP_all$(keeps_slope and ", const elem *slopes_all" or ""))
{
  const i32 Tr = ceil_div(a.q, Br), head = i32(block_id() / Tr), i0 = Br * i32(block_id() % Tr);
  const place at = rows(a, head);
  const spans visit = range(a, at, i0);
  const matrix P_here = matrix_of((elem *)P_all, head, at), dP_here = matrix_of(dP_all, head, at);
%  local P_of_tile, total = "load_scores<acc<Br, Bc>>(P_here, i0, j * Bc, at.nq)", "row_dot<Br, Dv>(at.dO, at.dOn, at.O, at.On, i0, at.nq)"
  const rowvec<Br> d = $(has.dlse and "D_of(" .. total .. ", at, i0)" or total); // D = rowsum(dO O)
  for (i32 j = visit.first; j < visit.last; j++) {
    acc<Br, Bc> dS = load_scores<acc<Br, Bc>>(dP_here, i0, j * Bc, at.nq);
%  if has.drop then
    times_marked(dS, $(P_of_tile), d, boost(a));
%  else
    subtract_rows(dS, d);
    multiply(dS, $(P_of_tile));                         // dS = P (dP - D)
%  end
%  if has.drop then
    store_scores(kept($(P_of_tile)), P_here, i0, j * Bc, at.nq); // for dV
%  end
    $(keeps_slope and "times_kept(dS, load_scores<acc<Br, Bc>>(matrix_of((elem *)slopes_all, head, at), i0, j * Bc, at.nq)); " or "")$(has.dbias and "tell(dS, a, at, i0, j * Bc); " or "")store_scores(dS, dP_here, i0, j * Bc, at.nq);
  }
}

extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "keys")(const call a, const elem *P_all, const elem *dS_all)
{
  const i32 Tc = ceil_div(a.k, Bc), group = a.h / a.hk; // query heads that share K and V
  const i32 j0 = Bc * i32(block_id() % Tc), first = i32(block_id() / Tc) * group;
  const place kv = rows(a, first);
  const spans visit = range_rows(a, kv, j0);
  const Q_tile Q(shared_memory());
  const dO_tile dO(shared_memory() + at_dO);
  const S_tile P(shared_memory() + at_K), dS(shared_memory() + at_dS);
  sums<Bc, D> dK = {};
  sums<Bc, Dv> dV = {};
  for (i32 head = first; head < first + group; head++) {
    const place at = rows(a, head);
    const matrix P_here = matrix_of((elem *)P_all, head, at), dS_here = matrix_of((elem *)dS_all, head, at);
    for (i32 i0 = visit.first * Br; i0 < visit.last * Br; i0 += Br) {
      $(has.iv and "if (passes_by(a, at, i0, j0)) continue; " or "")const auto P_next = depart<Bc>(P, P_here.data + j0, P_here.row, i0, at.nq);
      const auto dO_next = depart<Dv>(dO, at.dO, at.dOn, i0, at.nq);
      land(P, P_next);
      land(dO, dO_next);
      const auto dS_next = depart<Bc>(dS, dS_here.data + j0, dS_here.row, i0, at.nq);
      const auto Q_next = depart<D>(Q, at.Q, at.Qn, i0, at.nq);
      land(dS, dS_next);
      land(Q, Q_next);
      block_sync();
      mma_AtB(dV, P, dO);                               // dV = dV + P^T dO
      mma_AtB(dK, dS, Q);                               // dK = dK + dS^T Q
      block_sync();                                     // all have read the tiles
    }
  }
  scale_rows(dK, rowvec<Bc>(a.scale));$(has.drop and " scale_rows(dV, rowvec<Bc>(boost(a)));" or "")
  store(dK, K_tile(shared_memory() + at_K), kv.dK, kv.dKn, j0, kv.nk);
  store(dV, V_tile(shared_memory() + at_V), kv.dV, kv.dVn, j0, kv.nk);
}

extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "queries")(const call a, const elem *dS_all)
{
  const i32 Tr = ceil_div(a.q, Br), head = i32(block_id() / Tr), i0 = Br * i32(block_id() % Tr);
  const place at = rows(a, head);
  const spans visit = range(a, at, i0);
  const K_tile K(shared_memory() + at_K);
  sums<Br, D> dQ = {};
  for (i32 j = visit.first; j < visit.last; j++) {
    const auto K_next = depart<D>(K, at.K, at.Kn, j * Bc, at.nk);
    const auto dS = load_scores<acc<Br, Bc>>(matrix_of((elem *)dS_all, head, at), i0, j * Bc, at.nq);
    land(K, K_next);
    block_sync();
    mma_AB(dQ, operand_of(dS), K);                      // dQ = dQ + dS K
    block_sync();                                       // all have read dS and K
  }
  scale_rows(dQ, rowvec<Br>(a.scale));
  store(dQ, Q_tile(shared_memory()), at.dQ, at.dQn, i0, at.nq);
}
%  if has.dsink or has.dbias then
$(entries_beside(entry, take_lists, "", "dsink_by_rows(a, i32(block_id()))"))
%  end
