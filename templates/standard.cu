// standard.cu -- Algorithm 0 as it stands: S and P go through device memory, one launch for each line.
//   1: S = Q K^T    2: P = softmax(S), in the place of S    3: O = P V
// S has, for each batch and head, q rows of `row` elements: k rounded up to whole tiles. It is kept in base 2,
// S = c Q K^T = log2(e) scale Q K^T: Q K^T itself may be more than f16 holds where the scaled scores are not.
%  for _, file in ipairs(libs) do use(file) end
extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "scores")(const call a, elem *S_all)
{
  const i32 Tr = ceil_div(a.q, Br), Tc = ceil_div(a.k, Bc);
  const i32 j = i32(block_id() % Tc), i = i32(block_id() / Tc % Tr), head = i32(block_id() / Tc / Tr);
  const place at = rows(a, head);
  const spans visit = range(a, at, i * Br);
  if (j < visit.first || j >= visit.last)
    return;                                             // no row of this tile sees a key of that one

  const Q_tile Q_place(shared_memory());
  const K_tile K(shared_memory() + at_K);
  const auto Q_next = depart<D>(Q_place, at.Q, at.Qn, i * Br, at.nq);
  const auto K_next = depart<D>(K, at.K, at.Kn, j * Bc, at.nk);
  land(Q_place, Q_next);
  land(K, K_next);
  block_sync();
  const query Q(Q_place);
  acc<Br, Bc> S = {};
  mma_ABt(S, Q, K);
  score(S, a, at, i * Br, j * Bc);
  scale_rows(S, rowvec<Br>($(c_of_call)));
  if (is_cut(visit, j))
    mask(S, a, at, i * Br, j * Bc);
  store_scores(S, matrix_of(S_all, head, at), i * Br, j * Bc, at.nq);
}

extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "softmax")(const call a, elem *S_all)
{
  const float c = 1.f;                                  // S is in base 2 already
  const i32 Tr = ceil_div(a.q, Br);
  const place at = rows(a, i32(block_id() / Tr));
  const i32 i0 = Br * i32(block_id() % Tr);
  const spans visit = range(a, at, i0);
  const matrix S = matrix_of(S_all, i32(block_id() / Tr), at);

  rowvec<Br> m(minus_inf()), l(0.f);
  for (i32 j = visit.first; j < visit.last; j++)
    m = row_max(m, load_scores<acc<Br, Bc>>(S, i0, j * Bc, at.nq));
  for (i32 j = visit.first; j < visit.last; j++) {
    acc<Br, Bc> P = load_scores<acc<Br, Bc>>(S, i0, j * Bc, at.nq);
    exp2_rows(P, m, c);
    l = l + row_sum(P);
  }
  const ends<Br> end = finish(m, row_total(l), c$(ends_of "at, i0"));
  for (i32 j = visit.first; j < visit.last; j++) {
    acc<Br, Bc> P = load_scores<acc<Br, Bc>>(S, i0, j * Bc, at.nq);
    exp2_rows(P, m, c);
    weigh(P, a, at, i0, j * Bc);
    scale_rows(P, end.factor);
    store_scores(P, S, i0, j * Bc, at.nq);
  }
  if (at.LSE)
    store_rowvec(end.LSE, at.LSE, i0, at.nq);
}

extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "output")(const call a, elem *S_all)
{
  const i32 Tr = ceil_div(a.q, Br);
  const place at = rows(a, i32(block_id() / Tr));
  const i32 i0 = Br * i32(block_id() % Tr);
  const spans visit = range(a, at, i0);

  const V_tile V(shared_memory() + at_V);
  sums<Br, Dv> O = {};
  for (i32 j = visit.first; j < visit.last; j++) {
    const auto V_next = depart<Dv>(V, at.V, at.Vn, j * Bc, at.nk);
    const auto S = load_scores<acc<Br, Bc>>(matrix_of(S_all, i32(block_id() / Tr), at), i0, j * Bc, at.nq);
    land(V, V_next);
    block_sync();
    const auto P = operand_of(S);
    mma_AB(O, P, V);
    block_sync();                                       // all have read P and V
  }
  store(O, O_tile(shared_memory()), at.O, at.On, i0, at.nq);
}
