// fa1.cu -- FlashAttention, Algorithms 1 and 2 of the first paper: the outer loop goes over K and V, the inner
// one over Q; O, l and m live in device memory and are read, rescaled and written at each step.
// One block for each batch and head. Numbers on the right are the lines of Algorithm 1.
%  use "lib/args.h"; use "lib/hooks.cuh"; use "lib/softmax.cuh"; use "lib/simt.cuh"
extern "C" __global__ void __launch_bounds__(T, 1)
$(entry "fa1")(const call a, float *l_all, float *m_all)
{
  const place at = rows(a, i32(block_id()));
  float *const l_head = l_all + block_id() * a.q, *const m_head = m_all + block_id() * a.q;
  const i32 Tr = ceil_div(at.nq, Br), Tc = ceil_div(at.nk, Bc);               // 3, 4
  const float c = base2(a.scale);

  tile<Br, D, W> Q(shared_memory());
  tile<Br, Bc, X> P(Q.end());
  tile<Bc, D, W> K(P.end());
  tile<Bc, Dp, 0> V(K.end());

  for (i32 i = 0; i < Tr; i++) {                                               // 2
    store_outputs({}, at, i * Br);
    store_rowvec(row_fill(0.f), l_head, i * Br, at.nq);
    store_rowvec(row_fill(minus_inf()), m_head, i * Br, at.nq);
  }
  for (i32 j = 0; j < Tc; j++) {                                               // 5
    block_sync();                                       // all are done with the last K, V
    load_tile<D>(K, at.K, at.Kn, j * Bc, at.nk);                               // 6
    load_tile<Dv>(V, at.V, at.Vn, j * Bc, at.nk);
    for (i32 i = 0; i < Tr; i++) {                                             // 7
      const tiles visit = range(at, i * Br);
      if (j < visit.first || j >= visit.last)
        continue;                                       // no row of this tile sees a key of that one
      block_sync();                                     // all are done with the last Q; its O, l, m are written
      load_tile<D>(Q, at.Q, at.Qn, i * Br, at.nq);                             // 8
      outputs O = load_outputs(at, i * Br);
      const rowvec l = load_rowvec(l_head, i * Br, at.nq), m = load_rowvec(m_head, i * Br, at.nq);
      block_sync();
      scores S = {};
      mma_ABt(S, Q, K);                                                        // 9: S = Q K^T
      orient(S, a.scale);
%      if scored then
      score(S, a, at, i * Br, j * Bc);
%      end
      if (j >= visit.full)
        mask(S, at, i * Br, j * Bc);
      const rowvec m_ij = row_max(row_fill(minus_inf()), S);                   // 10: m_ij = rowmax(S)
      exp2_rows(S, m_ij, c);                                                   //     P = exp(S - m_ij)
      const rowvec l_ij = row_total(row_sum(S));                              //     l_ij = rowsum(P)
      const rowvec m_new = row_larger(m, m_ij);                                // 11
      const rowvec f = decay(m, m_new, c), f_ij = decay(m_ij, m_new, c);
      const rowvec l_new = plus(times(f, l), times(f_ij, l_ij));
      scale_rows(O, times(f, l));                                              // 12: O = diag(l_new)^-1
      scale_scores(S, f_ij);                                                   //     (diag(l) exp(m - m_new) O
      put_scores(P, S);                                                        //      + exp(m_ij - m_new) P V)
      warp_sync();                                      // P of a row is written and read by one warp
      mma_AB(O, P, V);
      scale_rows(O, row_inverse(l_new));
      store_outputs(O, at, i * Br);
      store_rowvec(l_new, l_head, i * Br, at.nq);                              // 13
      store_rowvec(m_new, m_head, i * Br, at.nq);
    }
  }
  if (at.LSE) {
    block_sync();
    for (i32 i = 0; i < Tr; i++) {
      const rowvec l = load_rowvec(l_head, i * Br, at.nq), m = load_rowvec(m_head, i * Br, at.nq);
      store_rowvec(row_finish(m, l, c), at.LSE, i * Br, at.nq);
    }
  }
}
