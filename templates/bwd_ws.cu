// bwd_ws.cu -- FlashAttention-2's backward for Hopper: a warpgroup copies, others compute, each with 64 keys.
//   P = exp(S - LSE),  dV = P^T dO,  dP = dO V^T,  dS = P (dP - D),  dQ = scale dS K,  dK = scale dS^T Q,  D = rowsum(dO O)
// A block keeps a tile of K and V and goes once over the tiles of Q and dO whose rows see it, which come through rings. S, P, dP
// and dS are transposed: P^T and dS^T go from registers into the products for dV and dK, dS through shared memory for dQ alone,
// which is added to fp32 sums in device memory. While a warpgroup computes P or dS, tensor cores have the other's products, and
// those of the step before. A block may stay for all tiles of keys of a head, whose dQ it sums, or for some steps of a tile.
%  for _, file in ipairs(libs) do use(file) end
extern "C" __global__ void __launch_bounds__(prepare_threads)
$(entry "prepare")(const call a$(take_lists), float *dQ_all, LD_row *LD_all$(take_counts)$(take_ends))
{
  overlap_next();
  $(tile_of_block "")
  make_LD(LD_all + i64(tile) * Br, rows(a, $(tile_head)), $(tile_row)$(lots and ", 1.f - a.dropout" or ""));         // D = rowsum(dO O)
  $(ends_cleared)$(sums_cleared)
}

%  if not stays then
__device__ __forceinline__ void consume(const call &a, float *dQ_all, const key_task &my, const row_steps &from,
                                        const tensor_map &dK_map, const tensor_map &dV_map$(take_ends))
{
  const i32 me = own_group(), last = from.before + from.steps - 1;
  acc<Bc, D> dK = {}; acc<Bc, Dv> dV = {};
  await_keys(from);
  if (from.steps > 0) {
    const share_of_dQ share(me, dQ_all$((lays or settles) and ", my, from, a" or ""));$(settles_by_keys and "\n    settle_unseen(share, from);" or "")
    i32 last_tile = -1;
    rounded<Br> P, dS;                                  // as products read them
    $(own_step) of(from);
    await_last();                                       // dQ is 0
    const K_rows K(K_of(me, from.round));
    const V_rows V(V_of(me, from.round));
    lay_dS(from.dS(from.before), me, rounded<Br>{});     // zeros: in the first step dQ = dS K has no step before
    show_dS(from.dS(from.before));
    await_start(me, 0);                                 // the warpgroup before has its first P
    bool dO_here = false;
%  if S_early then
    acc<Bc, Br> $(keeps_slope and "slopes, " or "")S;
    start_S(S, K, from.before, false);
    products_wait<0>();
%  end
    for (i32 n = from.before; $(has_more); n++) {
%  if sliced then                                        -- O = 1: the step below, but dV starts slice by slice as P comes (lib/ws_slices.cuh)
      sliced_step(dK, dV, dO_here, a, my, from, of, K, V, share, me, n, last_tile$(lots and ", dS" or ""));
%  else
      acc<Bc, Br> dP;
      dQ_part dQ;
%  if not S_early then
      acc<Bc, Br> $(keeps_slope and "slopes, " or "")S;
      start_S(S, K, n, false);$(draw_lots)                          // S^T = K Q^T
      products_wait<0>();                               // S is there, and dK of the step before
      release_Q(n - 1);
%  end
      set_P(S, a, of.$(at_of)(a), my.j0, n$(and_slopes));                  // P = exp(S - LSE)
      P.round(S);$(keeps_slope and " times_kept(S, slopes);" or "")
      start_dP(dP, V, n, dO_here);                      // dP^T = V dO^T
      $(has.drop and "rounded<Br> Z; " .. draw .. "; start_AB(dV, Z, dO_of(n));" or "start_AB(dV, P, dO_of(n));                       ") // dV = dV + P^T dO
      give_start(me, n - from.before);
      const bool dS_here = is_full(dS_full, dS_place_of(from.dS(n)))$(Q_here);
%  if S_early then
      const D_of_rows D(LD_of(n));
      products_wait<1>();                               // dP is there, and dK of the step before
      release_Q(n - 1);
%  else
      products_wait<1>();                               // dP is there
      const D_of_rows D(LD_of(n));
%  end
      set_slope(S, a, of.$(at_of)(a), my.j0, n);
      $(minus_D);$(tell_dS) // dS = P (dP - D)
      dS.round(dP);
      lay_dS(from.dS(n) + 1, me, dS);
      products_wait<0>();                               // dV is there
      release(dO_free + dO_place_of(n).slot);
      start_dQ(dQ, share, from.dS(n), dS_here);         // dQ = dS K, of the step before
%  if S_early then
      start_S(S, K, min(n + 1, last), Q_here);          // the next S^T = K Q^T, after the last tile that one again
%  end
      start_AB(dK, dS, Q_of(n));                        // dK = dK + dS^T Q
      dO_here = is_full(dO_full, dO_place_of(n + 1));
      products_wait<$(S_early and 2 or 1)>();           // dQ is there
      end_dQ(share, from.dS(n), last_tile, dQ);
%  if S_early then
      products_wait<1>();                               // S is there
%  end
%  end
      last_tile = of.number();
      of.go_on();
    }
    last_dQ(share, from.dS(last + 1), last_tile);       // dK is there, too
    named_sync(1, 128 * consumers);                     // all have read K
  }
  $(steps_parted and "if (!has_all_sums(a, ends, my, from, dK, dV)) return;\n  " or "")const sequence keys = of_keys(sequence_of(a, my.head));
  store_scaled(V_of(me, from.round), dV, $(has.drop and "boost(a)" or "1.f"), dV_map, keys, my.j0 + 64 * me$(rows_to "dV"));
  store_scaled(K_of(me, from.round), dK, $(scale), dK_map, keys, my.j0 + 64 * me$(rows_to "dK"));
  give_keys(from);
}
%  end

extern "C" __global__ void __launch_bounds__(T, 1)
$(entry "bwd_ws")(const call a$(take_lists), float *dQ_all, const LD_row *LD_all, const __grid_constant__ tensor_map Q_map,
  const __grid_constant__ tensor_map K_map, const __grid_constant__ tensor_map V_map, const __grid_constant__ tensor_map dO_map,
  const __grid_constant__ tensor_map dK_map, const __grid_constant__ tensor_map dV_map$(take_counts)$(take_ends)$(take_biases))
{
  $(stays and "" or "const key_task my = key_task_of(a, " .. block .. ");\n  const row_steps from(a, my" .. and_lists .. ");")$(ragged and not stays and " if (!has_keys(a, my)) return;" or "")$(steps_parted and " if (!has_part(my, from)) return;" or "")
  set_up_steps();
  if (warp_of() < 4) {
    registers_less<$(producer_registers)>();
    $(stays and "produce_all" or "produce")(a$(stays and and_lists or ""), LD_all$(stays and "" or ", my, from"), Q_map, K_map, V_map, dO_map$(stays and and_counts or placed and ", bias_map" or ""));
    $(first_come and "keep_comers(a, counts" .. (stays and "" or ", from") .. ");" or ordered and "keep_turns(a, counts" .. (stays and "" or ", my, from") .. ");" or "")
  } else {
    registers_more<$(consumer_registers)>();
    $(stays and "consume_all(a, dQ_all, dK_map, dV_map)" or "consume(a, dQ_all, my, from, dK_map, dV_map" .. and_ends .. ")");
  }
}

%  if not settles then
extern "C" __global__ void __launch_bounds__($(dQ_share == "turned" and "128 * consumers" or "2 * Br"))
$(entry "finish")(const call a$(take_lists), const float *dQ_all, const __grid_constant__ tensor_map dQ_map)
{
  $(tile_of_block ", group = warp_of() / 4")
  await_last();$(ragged and " if (!" .. has_rows .. ") return;" or "")                                         // dQ is whole
  $(dQ_share == "turned" and "store_turned(dQ_all, tile, group, " .. scale .. ", dQ_map, sequence_of(a, " .. tile_head .. "), " .. tile_row .. rows_to "dQ" .. ");" or "acc<Bc, D> dQ = whole_dQ(dQ_all, tile);")
%  if dQ_share ~= "turned" then
  store_scaled(K_of(group), dQ, $(scale), dQ_map, sequence_of(a, $(tile_head)), $(tile_row) + 64 * group$(rows_to "dQ"));
%  end
  end_stores();
}
%  end
$(entries_beside(entry, take_lists, ", const LD_row *LD_all", "dsink_by_LD(a, LD_all, i32(block_id()))"))
