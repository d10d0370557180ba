// fwd.cu -- FlashAttention-2, forward: a block holds one tile of Q and passes once over K and V.
//   O = softmax(scale Q K^T + mask) V,  LSE = log of the row sums of exp(scale Q K^T + mask)
// m, l and O stay on chip; when the maximum m of a row grows, l and O are scaled down to it.
%  use "lib/args.h"; use "lib/hooks.cuh"; use "lib/softmax.cuh"; use "lib/simt.cuh"
extern "C" __global__ void __launch_bounds__(T, 1)
$(entry "fwd")(const call a)
{
  const i32 Tr = ceil_div(a.q, Br);
  const place at = rows(a, i32(block_id() / Tr));       // one batch, one head
  const i32 i0 = Br * (Tr - 1 - i32(block_id() % Tr));  // its tile of Q: the last, longest under causal, first
  const float c = base2(a.scale);

  tile<Br, D, W> Q(shared_memory());
  tile<Br, Bc, X> P(Q.end());
  tile<Bc, D, W> K(P.end());
  tile<Bc, Dp, 0> V($(B == 2 and "K.end()" or "P.end()"));
  outputs O = {};
  rowvec m = row_fill(minus_inf()), l = row_fill(0.f);

  load_tile<D>(Q, at.Q, at.Qn, i0, at.nq);
  const tiles visit = range(at, i0);
%  local function step(masked)
    load_tile<D>(K, at.K, at.Kn, j * Bc, at.nk);
%    if B == 2 then
    load_tile<Dv>(V, at.V, at.Vn, j * Bc, at.nk);
%    end
    block_sync();
    scores S = {};
    mma_ABt(S, Q, K);                                   // S = Q K^T
    orient(S, a.scale);
%    if scored then
    score(S, a, at, i0, j * Bc);
%    end
%    if masked then
    mask(S, at, i0, j * Bc);
%    end
    const rowvec m_old = m;
    m = row_max(m, S);                                  // m = max(m, rowmax(S))
    exp2_rows(S, m, c);                                 // P = exp(S - m)
    const rowvec f = decay(m_old, m, c);
    l = plus(times(f, l), row_sum(S));                  // l = exp(m_old - m) l + rowsum(P)
    scale_rows(O, f);                                   // O = exp(m_old - m) O
    put_scores(P, S);
%    if B == 1 then
    block_sync();                                       // all have read K: V takes its place
    load_tile<Dv>(V, at.V, at.Vn, j * Bc, at.nk);
    block_sync();
%    else
    warp_sync();                                        // P of a row is written and read by one warp
%    end
    mma_AB(O, P, V);                                    // O = O + P V
    block_sync();                                       // all have read K, V and P
%  end
  i32 j = visit.first;
  for (; j < visit.full; j++) {                         // tiles that no mask touches
%  step(false)
  }
  for (; j < visit.last; j++) {                         // the diagonal, the ragged end
%  step(true)
  }
  l = row_total(l);
  scale_rows(O, row_inverse(l));                        // O = diag(l)^-1 O
  store_outputs(O, at, i0);
  if (at.LSE)
    store_rowvec(row_finish(m, l, c), at.LSE, i0, at.nq);
}
