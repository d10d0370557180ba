// fwd.cu -- FlashAttention-2, forward: a block holds one tile of Q and passes once over K and V.
//   O = softmax(scale Q K^T + mask) V,  LSE = log of the row sums of exp(scale Q K^T + mask)
// m, l and O stay on chip; a maximum m that grows scales l and O down. K and V come `in_turns` in one place, `alone`, one tile
// of each, or `in_flight`, some ahead. Where keys are split, O is made of what all splits have: within a cluster, or by `merge`.
%  for _, file in ipairs(libs) do use(file) end
%  local function own(tile) return parted and "part_of(" .. tile .. ")" or tile end -- a warp's keys of tile j
%  local first, keys, step = first_key "j" .. (parted and " + own_key()" or ""), parted and "own_keys" or "Bc", {}
extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "fwd")(const call a$(take_lists)$(merges == "later" and ", float *partial, i32 splits" or merges == "in a cluster" and ", i32 splits" or ""))
{
  const task my = task_of(a, i32(block_id())$(split and " / splits" or ""));
  const i32 i0 = my.i0;
  const place at = rows(a, my.head);                    // one batch, one head
  await_last();                                         // what tensors hold is here
  const spans visit = $(split and "split_of(" .. range_of "a, at, i0" .. ", i32(block_id()) % splits, splits, a)" or range_of "a, at, i0");
  const float c = $(c_of_call);

  const Q_tile Q_place(shared_memory());
  const ring<K_tile> K(shared_memory() + at_K);
  const ring<V_tile> V(shared_memory() + at_V);
  sums<Br, Dv> O = {};
  rowvec<Br> m(minus_inf()), l(0.f);

  auto Q_next = depart<D>(Q_place, at.Q, at.Qn, i0, at.nq);
%  if Q_held then
  land(Q_place, Q_next);
  block_sync();
  const query Q(Q_place);
  block_sync();                                         // all hold their Q: K and V take its place
%  end
%  if schedule == "in_flight" then
#pragma unroll
  for (i32 j = 0; j < stages - 1; j++)
    send_both(K, V, at, visit.first + j, $(to_last));
%  else
  auto K_next = depart<D>(K.slot(0), at.K, at.Kn, $(first_key "visit.first"), at.nk);
%    if not Q_held then
  land(Q_place, Q_next);
%    end
  land(K.slot(0), K_next);
  block_sync();
%  end
%  if not Q_held then
  const query Q(Q_place);
%  end
%  local function scores(masked)
    acc<Br, $(keys)> S = {};
    mma_ABt(S, Q, $(own "K.slot(j)"));                           // S = Q K^T
    score(S, a, at, i0, $(first));$(masked and " mask(S, a, at, i0, " .. first .. ");" or "")
%  end
%  local function softmax()
    const rowvec<Br> m_old = m;
    m = row_max(m, S);                                  // m = max(m, rowmax(S))
    $(rescale == "seldom" and "if (settle(m, m_old, c)) " or ""){
      const rowvec<Br> f = decay(m_old, m, c);
      l = f * l;                                        // l = exp(m_old - m) l
      scale_rows(O, f);                                 // O = exp(m_old - m) O
    }
    exp2_rows(S, m, c);                                 // P = exp(S - m)
    l = l + row_sum(S);                                 // l = l + rowsum(P)
    weigh(S, a, at, i0, $(first));
    const auto P = operand_of(S);
%  end
%  function step.in_turns(masked)
    auto V_next = depart<Dv>(V.slot(j), at.V, at.Vn, $(first_key "j"), at.nk); // travels while S is made
%  scores(masked)
    block_sync();                                       // all have read K: V takes its place
    land(V.slot(j), V_next);
    block_sync();
%  softmax()
    K_next = depart<D>(K.slot(j), at.K, at.Kn, $(first_key "(j + 1)"), at.nk); // travels while O is made
    mma_AB(O, P, $(own "V.slot(j)"));                            // O = O + P V
    block_sync();                                       // all have read V: K takes its place
    land(K.slot(j), K_next);
    block_sync();
%  end
%  function step.alone(masked)
    auto V_next = depart<Dv>(V.slot(j), at.V, at.Vn, $(first_key "j"), at.nk); // travels while S is made
%  scores(masked)
    land(V.slot(j), V_next);
    block_sync();                                       // V is here, and all have read K
    K_next = depart<D>(K.slot(j), at.K, at.Kn, $(first_key "(j + 1)"), at.nk); // travels while O is made
%  softmax()
    mma_AB(O, P, $(own "V.slot(j)"));                            // O = O + P V
    land(K.slot(j), K_next);
    block_sync();                                       // K is here, and all have read V
%  end
%  function step.in_flight(masked)
    copy_wait<stages - 2>();
    block_sync();                                       // tile j is here, and all are done with tile j - 1:
    send_both(K, V, at, j + stages - 1, $(to_last));    // another takes its place
%  scores(masked)
%  softmax()
    mma_AB(O, P, $(own "V.slot(j)"));                            // O = O + P V
%  end
  i32 j = visit.first;
%  if cut.left then
  for (; j < visit.free; j++) {                         // the left end of the window
%  step[schedule](true)
  }
%  end
  for (; j < visit.full; j++) {                         // tiles that no mask touches
%  step[schedule](false)
  }
  for (; j < visit.last; j++) {                         // the diagonal, the ragged end
%  step[schedule](true)
  }
%  if schedule == "in_flight" then
  copy_wait<0>();
  block_sync();                                         // all have read Q, K and V: O takes their place
%  end
  overlap_next();                                       // any earlier, blocks of the next launch would crowd some SMs
%  if merges and merges ~= "later" then
  merge_here(O, m, row_total(l), c, my, at, $(merges == "in a cluster" and "splits" or "1")); // O of all O_s and L_s
%  elseif merges then
  store_partial(O, m, row_total(l), c, partials(a, partial, splits$(parted and " * parts" or "")), my, at); // O_s and L_s of split s
}

extern "C" __global__ void __launch_bounds__(128, $(merges_of_sm))
$(entry "merge")(const call a$(take_lists), float *partial, i32 splits)
{
  merge_row(a, partials(a, partial, splits$(parted and " * parts" or ""))); // O of all O_s and L_s
%  else
  const ends<Br> end = finish(m, row_total(l), c$(ends_of "at, i0"));
  scale_rows(O, end.factor);                            // O = diag(l)^-1 O
  store(O, O_tile(shared_memory()), at.O, at.On, i0, at.nq);
  if (at.LSE)
    store_rowvec(end.LSE, at.LSE, i0, at.nq);
%  end
}
