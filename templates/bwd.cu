// bwd.cu -- FlashAttention-2, backward: a block holds one tile of K and V and passes once over the rows of Q that see it.
//   P = exp(S - LSE),  dV = P^T dO,  dP = dO V^T,  dS = P (dP - D),  dQ = scale dS K,  dK = scale dS^T Q,  D = rowsum(dO O)
// dK and dV stay on chip, over all query heads that share K and V; to dQ every block adds its share, in fp32 in device
// memory. S, P, dP and dS are transposed, a row for each key: so P^T and dS^T go from registers into products, where a warp
// has whole rows of them (P_held). Three launches: D, all products, dQ rounded. Above d 80 most configs have A = 1: the same five
// products, divided between the halves of a block (lib/apart.cuh).
%  for _, file in ipairs(libs) do use(file) end
extern "C" __global__ void __launch_bounds__(T)
$(entry "prepare")(const call a$(take_lists), float *dQ_all, LD_row *LD_all)
{
  overlap_next();
  $(tile_of_block "")
  make_LD(LD_all + i64(tile) * Br, rows(a, $(tile_head)), $(tile_row));         // D = rowsum(dO O)
  clear(shares<dQ_part>(dQ_all, tile));                                         // dQ = 0
}

extern "C" __global__ void __launch_bounds__(T, $(blocks_of_sm))
$(entry "bwd")(const call a$(take_lists), float *dQ_all, const LD_row *LD_all)
{
  const key_task my = key_task_of(a, i32(block_id()));
  const i32 j0 = my.j0;
  const place kv = rows(a, my.head);
  const spans visit = $(rows_of "a, kv, j0");
  const row_tiles from(a, my.head, visit, LD_all);      // step n: a tile of Q and dO of one of the heads
  const float c = $(c_of_call);

  const K_tile K(shared_memory());
  const V_tile V(shared_memory() + at_V);
%  if apart then
  make_apart({a, dQ_all, kv, visit, from, j0, c, K, V, dS_tile(shared_memory() + at_P), dS_tile(shared_memory() + at_dS)});
}
%  else
  const ring<dS_tile, dS_tiles> dS(shared_memory() + at_dS);
%  if not P_held then
  const dS_tile P(shared_memory() + at_P);
%  end
  dK_part dK = {};
  dV_part dV = {};

  const auto K_next = depart<D>(K, kv.K, kv.Kn, j0, kv.nk);
  const auto V_next = depart<Dv>(V, kv.V, kv.Vn, j0, kv.nk);
%  if V_held or travels then
  land(K, K_next);
  land(V, V_next);
%  end
%  if V_held then
  block_sync();
  const auto V_rows = held_for<S_part>(V);
  block_sync();                                         // all hold their V: Q and dO take its place
%  end
  await_last();                                         // D is here, and dQ is 0
  begin(from, 0);

%  local function add_to_dQ(n)
    dQ_part dQ = {};
    add_AtB(dQ, dS.slot($(n)), K);                // dQ = dS K
    reduce(shares<dQ_part>(dQ_all, from.number_of($(n))), dQ);
%  end
  for (i32 n = 0; n < from.steps; n++) {
    const auto next = arrive(from, n);                  // its tiles are here, all are done with step n - 1
%  if dQ_late then
    if (n > 0) {
%  add_to_dQ "n - 1"
    }
%  end
    const i32 i = from.tile_of(n), i0 = i * Br;
    const place at = rows(a, from.head_of(n));
%  if S_idle then
    if (S_part::has(0)) {                               // of S the last warps have no part
%  end
%  if keeps_slope then
    S_part slopes;
%  end
    S_part S = {};
    add_ABt(S, rows_for<S_part>(K), from.Q(n));         // S^T = K Q^T
    $(score_rows)(S, a, at, i0, j0$(and_slopes));
    if (is_cut(visit, $(listed and "n" or "i")))
      mask_rows(S, a, at, i0, j0);
    exp2_minus_LSE(S, from.LD(n), c);                   // P^T = exp(S^T - LSE), in the place of S^T
    $(weigh_rows)(S, a, at, i0, j0);
    $(P_held and "add_AB(dV, left_from(" .. kept_S .. "), from.dO(n))" or "lay_part(P, " .. kept_S .. ")"); // dV = dV + P^T dO
    S_part dP = {};
    add_ABt(dP, $(V_held and "V_rows" or "rows_for<S_part>(V)"), from.dO(n)); // dP^T = V dO^T
%  if has.softcap and not keeps_slope then
    times_slope(S, from.LD(n), a, at, i0, j0);
%  end
    times_dP_minus_D(S, dP, from.LD(n)$(and_boost));                // dS^T = P^T (dP^T - D), in the place of P^T
%  if keeps_slope then
    times_kept(S, slopes);
%  end
    $(has.dbias and "tell_rows(S, a, at, i0, j0); " or "")lay_part(dS.slot(n), S);
%  if S_idle then
    }
%  end
%  if not dQ_late then
    block_sync();                                       // dS^T is here
%    if not P_held then
    add_AB(dV, rows_for<dV_part>(P), from.dO(n));       // dV = dV + P^T dO
%    end
%    if schedule ~= "alone" then add_to_dQ "n" end
%  end
    add_AB(dK, $(P_held and "left_from(S)" or "rows_for<dK_part>(dS.slot(n))"), from.Q(n)); // dK = dK + dS^T Q
    leave(from, n, next);
%  if schedule == "alone" then add_to_dQ "n" end -- while the next tiles are on their way
  }
  finish_steps();                                       // the last dS^T is here; all have read K and V
%  if dQ_late then
  if (from.steps > 0) {
%  add_to_dQ "from.steps - 1"
  }
  block_sync();
%  end
  store_part(dK, a.scale, K, kv.dK, kv.dKn, j0, kv.nk);
  store_part(dV, $(has.drop and "boost(a)" or "1.f"), V, kv.dV, kv.dVn, j0, kv.nk);
}
%  end

extern "C" __global__ void __launch_bounds__(T)
$(entry "finish")(const call a$(take_lists), const float *dQ_all)
{
  $(tile_of_block "")
  const place at = rows(a, $(tile_head));
  await_last();                                         // dQ is whole
  dQ_part dQ = total(shares<dQ_part>((float *)dQ_all, tile));
  store_part(dQ, a.scale, Q_tile(shared_memory()), at.dQ, at.dQn, $(tile_row), at.nq);
}
%  if has.dsink or has.dbias then
$(entries_beside(entry, take_lists, ", const LD_row *LD_all", "dsink_by_LD(a, LD_all, i32(block_id()))"))
%  end
