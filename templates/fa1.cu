// fa1.cu -- FlashAttention, Algorithms 1 and 2 of the first paper: the outer loop goes over K and V, the inner
// one over Q; O, l and m live in device memory and are read, rescaled and written at each step.
// One block for each batch and head. Numbers on the right are the lines of Algorithm 1.
%  for _, file in ipairs(libs) do use(file) end
extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "fa1")(const call a, float *l_all, float *m_all$(O_apart and ", float *O_all" or ""))
{
  const place at = rows(a, i32(block_id()));
  float *const l_head = l_all + block_id() * a.q, *const m_head = m_all + block_id() * a.q;
%  if O_apart then
  const sums_at O_head = {O_all + block_id() * a.q * Dv, Dv}; // in fp32 while it grows
%  else
  const sums_at O_head = {at.O, at.On};
%  end
  const i32 Tr = ceil_div(at.nq, Br), Tc = ceil_div(at.nk, Bc);               // 3, 4
  const float c = $(c_of_call);

  const Q_tile Q_place(shared_memory());
  const K_tile K(shared_memory() + at_K);
  const V_tile V(shared_memory() + at_V);

  for (i32 i = 0; i < Tr; i++) {                                               // 2
    store_sums(sums<Br, Dv>{}, O_head, i * Br, at.nq);
    store_rowvec(rowvec<Br>(0.f), l_head, i * Br, at.nq);
    store_rowvec(rowvec<Br>(minus_inf()), m_head, i * Br, at.nq);
  }
  for (i32 j = 0; j < Tc; j++) {                                               // 5
    block_sync();                                       // all are done with the last K, V
    const auto K_next = depart<D>(K, at.K, at.Kn, j * Bc, at.nk);              // 6
    land(K, K_next);
    const auto V_next = depart<Dv>(V, at.V, at.Vn, j * Bc, at.nk);
    land(V, V_next);
    for (i32 i = 0; i < Tr; i++) {                                             // 7
      const spans visit = range(a, at, i * Br);
      if (j < visit.first || j >= visit.last$(has.bs and " || blocks_at(a, at, i * Br, j * Bc) == no_block" or ""))
        continue;                                       // no row of this tile sees a key of that one; with a block mask: Algorithm 5
      block_sync();                                     // all are done with the last Q; its O, l, m are written
      const auto Q_next = depart<D>(Q_place, at.Q, at.Qn, i * Br, at.nq);      // 8
      sums<Br, Dv> O = load_sums<sums<Br, Dv>>(O_head, i * Br, at.nq);
      const rowvec<Br> l = load_rowvec<Br>(l_head, i * Br, at.nq), m = load_rowvec<Br>(m_head, i * Br, at.nq);
      land(Q_place, Q_next);
      block_sync();
      const query Q(Q_place);
      acc<Br, Bc> S = {};
      mma_ABt(S, Q, K);                                                        // 9: S = Q K^T
      score(S, a, at, i * Br, j * Bc);
      if (is_cut(visit, j))
        mask(S, a, at, i * Br, j * Bc);
      const rowvec<Br> m_ij = row_max(rowvec<Br>(minus_inf()), S);             // 10: m_ij = rowmax(S)
      exp2_rows(S, m_ij, c);                                                   //     P = exp(S - m_ij)
      const rowvec<Br> l_ij = row_total(row_sum(S));                           //     l_ij = rowsum(P)
      weigh(S, a, at, i * Br, j * Bc);
      const rowvec<Br> m_new = larger(m, m_ij);                                // 11
      const rowvec<Br> f = decay(m, m_new, c), f_ij = decay(m_ij, m_new, c);
      const rowvec<Br> l_new = f * l + f_ij * l_ij;
      scale_rows(O, f * l);                                                    // 12: O = diag(l_new)^-1
      scale_rows(S, f_ij);                                                     //     (diag(l) exp(m - m_new) O
      const auto P = operand_of(S);                                            //      + exp(m_ij - m_new) P V)
      mma_AB(O, P, V);
      scale_rows(O, finish(m_new, l_new, c).factor);
      store_sums(O, O_head, i * Br, at.nq);
      store_rowvec(l_new, l_head, i * Br, at.nq);                              // 13
      store_rowvec(m_new, m_head, i * Br, at.nq);
    }
  }
%  if has.sink or has.drop then
  block_sync();
  for (i32 i = 0; i < Tr; i++) {                        // O has been divided by l: sinks and dropout count once, at the end
    const rowvec<Br> l = load_rowvec<Br>(l_head, i * Br, at.nq), m = load_rowvec<Br>(m_head, i * Br, at.nq);
    sums<Br, Dv> O = load_sums<sums<Br, Dv>>(O_head, i * Br, at.nq);
    scale_rows(O, l * finish(m, l, c$(ends_of "at, i * Br")).factor);
    store_sums(O, O_head, i * Br, at.nq);
  }
%  end
%  if O_apart then
  block_sync();
  for (i32 i = 0; i < Tr; i++)
    store(load_sums<sums<Br, Dv>>(O_head, i * Br, at.nq), O_tile(shared_memory()), at.O, at.On, i * Br, at.nq);
%  end
  if (at.LSE) {
    block_sync();
    for (i32 i = 0; i < Tr; i++) {
      const rowvec<Br> l = load_rowvec<Br>(l_head, i * Br, at.nq), m = load_rowvec<Br>(m_head, i * Br, at.nq);
      store_rowvec(finish(m, l, c$(ends_of "at, i * Br")).LSE, at.LSE, i * Br, at.nq);
    }
  }
}
