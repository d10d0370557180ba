// bwd_two.cu -- the backward without reductions: one kernel for dK and dV, whose blocks keep a tile of K and V and pass over
// the rows of Q that see it, and one for dQ, whose blocks keep a tile of Q and dO and pass over the keys that it sees.
//   P = exp(S - LSE),  dV = P^T dO,  dP = dO V^T,  dS = P (dP - D),  dQ = scale dS K,  dK = scale dS^T Q,  D = rowsum(dO O)
// Seven products for five, since S and dP are made twice; but one thread takes each sum, in one order: equal calls have equal
// bits. In `keys` S, P, dP and dS are transposed, a row for each key, as in bwd.cu.
%  for _, file in ipairs(libs) do use(file) end
extern "C" __global__ void __launch_bounds__(T)
$(entry "prepare")(const call a$(take_lists), LD_row *LD_all)
{
  overlap_next();
  $(tile_of_block "")
  make_LD(LD_all + i64(tile) * Br, rows(a, $(tile_head)), $(tile_row));         // D = rowsum(dO O)
}

extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "keys")(const call a$(take_lists), const LD_row *LD_all)
{
  const key_task my = key_task_of(a, i32(block_id()));
  const i32 j0 = my.j0;
  const place kv = rows(a, my.head);
  const spans visit = $(rows_of "a, kv, j0");
  const row_tiles from(a, my.head, visit, LD_all);      // step n: a tile of Q and dO of one of the heads
  const float c = $(c_of_call);

  const K_tile K(shared_memory());
  const V_tile V(shared_memory() + at_V);
%  if not P_held then
  const dS_tile P(shared_memory() + at_P), dS(shared_memory() + at_dS);
%  end
  dK_part dK = {};
  dV_part dV = {};
  const auto K_next = depart<D>(K, kv.K, kv.Kn, j0, kv.nk);
  const auto V_next = depart<Dv>(V, kv.V, kv.Vn, j0, kv.nk);
%  if travels then
  land(K, K_next);
  land(V, V_next);
%  end
  await_last();                                         // D is here
  begin(from, 0);
  for (i32 n = 0; n < from.steps; n++) {
    const auto next = arrive(from, n);                  // its tiles are here, all are done with step n - 1
    const i32 i = from.tile_of(n), i0 = i * Br;
    const place at = rows(a, from.head_of(n));
%  if S_idle then
    if (S_part::has(0)) {                               // of S the last warps have no part
%  end
    S_part $(keeps_slope and "slopes, " or "")S = {}, dP = {};
    add_ABt(S, rows_for<S_part>(K), from.Q(n));         // S^T = K Q^T
    $(score_rows)(S, a, at, i0, j0$(and_slopes));
    if (is_cut(visit, $(listed and "n" or "i")))
      mask_rows(S, a, at, i0, j0);
    exp2_minus_LSE(S, from.LD(n), c);                   // P^T = exp(S^T - LSE)
    $(weigh_rows)(S, a, at, i0, j0);
    $(P_held and "add_AB(dV, left_from(" .. kept_S .. "), from.dO(n))" or "lay_part(P, " .. kept_S .. ")"); // dV = dV + P^T dO
    add_ABt(dP, rows_for<S_part>(V), from.dO(n));       // dP^T = V dO^T
%  if has.softcap and not keeps_slope then
    times_slope(S, from.LD(n), a, at, i0, j0);
%  end
    times_dP_minus_D(S, dP, from.LD(n)$(and_boost));                // dS^T = P^T (dP^T - D)
%  if keeps_slope then
    times_kept(S, slopes);
%  end
%  if P_held then
    add_AB(dK, left_from(S), from.Q(n));                // dK = dK + dS^T Q
%  else
    lay_part(dS, S);
%  if S_idle then
    }
%  end
    block_sync();                                       // P^T and dS^T are here
    add_AB(dV, rows_for<dV_part>(P), from.dO(n));       // dV = dV + P^T dO
    add_AB(dK, rows_for<dK_part>(dS), from.Q(n));       // dK = dK + dS^T Q
%  end
    leave(from, n, next);
  }
  finish_steps();                                       // all have read K and V
  store_part(dK, a.scale, K, kv.dK, kv.dKn, j0, kv.nk);
  store_part(dV, $(has.drop and "boost(a)" or "1.f"), V, kv.dV, kv.dVn, j0, kv.nk);
}

extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "queries")(const call a$(take_lists), const LD_row *LD_all)
{
  const task my = task_of(a, i32(block_id()));
  const i32 i0 = my.i0;
  const place at = rows(a, my.head);
  const spans visit = $(range_of "a, at, i0");
  const key_tiles from(at, visit);                      // step j: a tile of K and V
  const float c = $(c_of_call);

  const Q_tile Q(shared_memory());
  const dO_tile dO(shared_memory() + at_own_dO);
  dQ_part dQ = {};
  const auto Q_next = depart<D>(Q, at.Q, at.Qn, i0, at.nq);
  const auto dO_next = depart<Dv>(dO, at.dO, at.dOn, i0, at.nq);
%  if travels then
  land(Q, Q_next);
  land(dO, dO_next);
%  end
  begin(from, visit.first);
  await_last();                                         // D is here
  const LD_rows<dQ_part> LD(LD_all, a, my);
  for (i32 j = visit.first; j < visit.last; j++) {
    const auto next = arrive(from, j);                  // its tiles are here, all are done with step j - 1
    part<Br, Bc, warps> $(keeps_slope and "slopes, " or "")S = {}, dP = {};
    add_ABt(S, rows_for<dQ_part>(Q), from.K(j));        // S = Q K^T
    score(S, a, at, i0, $(first_key "j")$(and_slopes));
    if (is_cut(visit, j))
      mask(S, a, at, i0, $(first_key "j"));
    exp2_minus_LSE(S, LD, c);                           // P = exp(S - LSE)
    $(weigh_back)(S, a, at, i0, $(first_key "j"));
    add_ABt(dP, rows_for<dQ_part>(dO), from.V(j));      // dP = dO V^T
%  if has.softcap and not keeps_slope then
    times_slope_in_rows(S, LD, a, at, i0, $(first_key "j"));
%  end
    times_dP_minus_D(S, dP, LD$(and_boost));                        // dS = P (dP - D)
%  if keeps_slope then
    times_kept(S, slopes);
%  end
    $(has.dbias and "tell(S, a, at, i0, " .. first_key "j" .. "); " or "")add_AB(dQ, left_from(S), from.K(j));                // dQ = dQ + dS K
    leave(from, j, next);
  }
  finish_steps();                                       // all have read Q and dO
  store_part(dQ, a.scale, Q, at.dQ, at.dQn, i0, at.nq);
}
%  if has.dsink or has.dbias then
$(entries_beside(entry, take_lists, ", const LD_row *LD_all", "dsink_by_LD(a, LD_all, i32(block_id()))"))
%  end
