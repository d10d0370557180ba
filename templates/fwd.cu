// fwd.cu -- FlashAttention-2, forward: a block holds one tile of Q and passes once over K and V.
//   O = softmax(scale Q K^T + mask) V,  LSE = log of the row sums of exp(scale Q K^T + mask)
// m, l and O stay on chip; when the maximum m of a row grows, l and O are scaled down to it.
%  for _, file in ipairs(libs) do use(file) end
extern "C" __global__ void __launch_bounds__(T, $(b))
$(entry "fwd")(const call a)
{
  const turn my = turn_of(a, i32(block_id()));
  const i32 i0 = my.i0;
  const place at = rows(a, my.head);                    // one batch, one head
  const tiles visit = range(at, i0);
  const float c = base2(a.scale);

  const Q_tile Q_place(shared_memory());
  const ring<K_tile> K(shared_memory() + at_K);
  const ring<V_tile> V(shared_memory() + at_V);
  outputs O = {};
  rowvec m = row_fill(minus_inf()), l = row_fill(0.f);

  auto Q_next = depart<D>(Q_place, at.Q, at.Qn, i0, at.nq);
%  if Q == 1 then
  land(Q_place, Q_next);
  block_sync();
  const query Q(Q_place);
  block_sync();                                         // all hold their Q: K and V take its place
%  end
%  if s <= 1 then
  auto K_next = depart<D>(K.slot(0), at.K, at.Kn, visit.first * Bc, at.nk);
%    if Q == 0 then
  land(Q_place, Q_next);
%    end
  land(K.slot(0), K_next);
  block_sync();
%  else
#pragma unroll
  for (i32 j = 0; j < stages - 1; j++)
    send_both(K, V, at, visit.first + j, visit.last);
%  end
%  if Q == 0 then
  const query Q(Q_place);
%  end
%  local function step(masked)
%    if s <= 1 then
    auto V_next = depart<Dv>(V.slot(j), at.V, at.Vn, j * Bc, at.nk); // travels while S is made
%    else
    copy_wait<stages - 2>();
    block_sync();                                       // tile j is here, and all are done with tile j - 1:
    send_both(K, V, at, j + stages - 1, visit.last);    // another takes its place
%    end
    scores S = {};
    mma_ABt(S, Q, K.slot(j));                           // S = Q K^T
    orient(S, a.scale);
%    if scored then
    score(S, a, at, i0, j * Bc);
%    end
%    if masked then
    mask(S, at, i0, j * Bc);
%    end
%    if s == 0 then
    block_sync();                                       // all have read K: V takes its place
%    end
%    if s <= 1 then
    land(V.slot(j), V_next);
    block_sync();
%      if s == 1 then
    K_next = depart<D>(K.slot(j), at.K, at.Kn, (j + 1) * Bc, at.nk); // travels while O is made
%      end
%    end
    const rowvec m_old = m;
    m = row_max(m, S);                                  // m = max(m, rowmax(S))
    if (settle(m, m_old, c)) {
      const rowvec f = decay(m_old, m, c);
      l = times(f, l);                                  // l = exp(m_old - m) l
      scale_rows(O, f);                                 // O = exp(m_old - m) O
    }
    exp2_rows(S, m, c);                                 // P = exp(S - m)
    l = plus(l, row_sum(S));                            // l = l + rowsum(P)
    const weights P = weigh(S);
%    if s == 0 then
    K_next = depart<D>(K.slot(j), at.K, at.Kn, (j + 1) * Bc, at.nk);
%    end
    mma_AB(O, P, V.slot(j));                            // O = O + P V
%    if s == 0 then
    block_sync();                                       // all have read V: K takes its place
%    end
%    if s <= 1 then
    land(K.slot(j), K_next);
    block_sync();
%    end
%  end
  i32 j = visit.first;
  for (; j < visit.full; j++) {                         // tiles that no mask touches
%  step(false)
  }
  for (; j < visit.last; j++) {                         // the diagonal, the ragged end
%  step(true)
  }
%  if s >= 2 then
  copy_wait<0>();
  block_sync();                                         // all have read Q, K and V: O takes their place
%  end
  l = row_total(l);
  scale_rows(O, row_inverse(l));                        // O = diag(l)^-1 O
  store_outputs(O, at, i0);
  if (at.LSE)
    store_rowvec(row_finish(m, l, c), at.LSE, i0, at.nq);
}
