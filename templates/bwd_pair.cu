// bwd_pair.cu -- bwd_wide.cu by pairs: two blocks of a cluster have 64 keys each, hand each other their dS, and make each half of dQ's columns for the
// keys of both: half as much is added in device memory. One warpgroup makes S, P and dV, the other dP, dS and dK; of dQ each a quarter, a step late.
//   P = exp(S - LSE),  dV = P^T dO,  dP = dO V^T,  dS = P (dP - D),  dQ = scale dS K,  dK = scale dS^T Q,  D = rowsum(dO O)
%  for _, file in ipairs(libs) do use(file) end
extern "C" __global__ void __launch_bounds__(prepare_threads)
$(entry "prepare")(const call a, float *dQ_all, LD_row *LD_all$(take_counts)$(take_ends))
{
  overlap_next();
  $(tile_of_block "")
  make_LD(LD_all + i64(tile) * Br, rows(a, $(tile_head)), $(tile_row));         // D = rowsum(dO O)
  $(ends_cleared)clear_sums(dQ_all, tile$(and_counts));$(settles and "" or "                                                     // dQ = 0")
}

__device__ __forceinline__ void make_dV(const call &a, float *dQ_all, const key_task &my, const row_steps &from,
                                        const tensor_map &dV_map$(take_ends))
{
  const quarter_of_dQ<0> own(dQ_all$(settles and ", a, my, from" or ""));
  acc<Bc, Dv> dV = {};
  if (from.steps > 0) {
    row_step of(from);
    rounded<Br> $(W_and)P;
    i32 last_tile = 0;
    await_last();                                       // $(settles and "nobody has counted\n    settle_unseen(own, from);" or "dQ is 0")
    wait(K_full, $(round_parity));
    const K_rows K(K_of(0));
    for (i32 n = $(first_step); n < $(behind_last); n++) {
      acc<Bc, Br> $(keeps_slope and "slopes, " or "")S;
      start_S(S, K, n, false);                          // S^T = K Q^T
      products_wait<0>();                               // S is there
      set_P(S, a, of.at(a), my.j0, n$(and_slopes));                  // P = exp(S - LSE)
      $(round_P);
      lend_P(n, $(W));
      release_Q(n);
      await_full(dO_full, dO_place_of(n), false);
      if (n > $(first_step)) {
        acc<Bc, own.width> dQ;
        start_pair_dQ(dQ, own, n - 1);                  // dQ = dS K
        start_AB(dV, P, dO_of(n));                      // dV = dV + P^T dO
        products_wait<1>();                             // dQ is there, and leaves beside dV
        end_quarter(own, n - 1, last_tile, dQ);
      } else
        start_AB(dV, P, dO_of(n));
      products_wait<0>();                               // dV is there
      $(read_by)(dO_free + dO_place_of(n).slot);
      last_tile = of.number();
      of.go_on();
    }
    $(leave_V)last_quarter(own, $(last_step), last_tile);
    $(leave_K)
  }
$(store_at_end("dV", "V_of(0)", "1.f"))}

__device__ __forceinline__ void make_dK(const call &a, float *dQ_all, const key_task &my, const row_steps &from,
                                        const tensor_map &dK_map$(take_ends))
{
  const quarter_of_dQ<1> own(dQ_all$(settles and ", a, my, from" or ""));
  acc<Bc, D> dK = {};
  if (from.steps > 0) {
    row_step of(from);
    rounded<Br> P;                                      // then dS
    i32 last_tile = 0;
    await_last();$(settles and "\n    settle_unseen(own, from);" or "")
    see_full(K_full, $(round_parity));
    wait(V_full, $(round_parity));
    const V_rows V(V_of(0));
    for (i32 n = $(first_step); n < $(behind_last); n++) {
      acc<Bc, Br> dP;
      start_dP(dP, V, n, false);                        // dP^T = V dO^T
      see_full(Q_full + Q_place_of(n).slot, Q_place_of(n).parity);
      products_wait<0>();                               // dP is there, and dK
      $(read_by)(dO_free + dO_place_of(n).slot);
      release_Q(n - 1);
      take_lent_P(n, P);
      minus_D_times(dP, P, D_of_rows(LD_of(n)));$(tell_dS)        // dS = P (dP - D)
      P.round(dP);
      lay_dS(n, own_rank(), P);
      show_both(n);
      if (n > $(first_step)) {
        acc<Bc, own.width> dQ;
        start_pair_dQ(dQ, own, n - 1);                  // dQ = dS K
        start_AB(dK, P, Q_of(n));                       // dK = dK + dS^T Q
        products_wait<1>();                             // dQ is there
        end_quarter(own, n - 1, last_tile, dQ);
      } else
        start_AB(dK, P, Q_of(n));
      last_tile = of.number();
      of.go_on();
    }
    $(end_dK)
    $(leave_K)
  }
$(store_at_end("dK", "K_of(0)", "a.scale"))}

extern "C" __global__ void __launch_bounds__(T, 1)
$(entry "bwd_pair")(const call a, float *dQ_all, const LD_row *LD_all, const __grid_constant__ tensor_map Q_map,
  const __grid_constant__ tensor_map K_map, const __grid_constant__ tensor_map V_map, const __grid_constant__ tensor_map dO_map,
  const __grid_constant__ tensor_map dK_map, const __grid_constant__ tensor_map dV_map$(take_counts)$(take_ends))
{
%  if not pairs_stay then
  key_task my = key_task_of(a, $(block));               // of both
  const row_steps from(a, my);$(steps_parted and " if (!has_part(my, from)) return;" or "")
  my.j0 += 64 * own_rank();
%  end
  set_up_steps();
  if (warp_of() < 4) {
    registers_less<$(producer_registers)>();
    produce$(pairs_stay and "_pairs" or "")(a, LD_all, $(pairs_stay and "" or "my, from, ")Q_map, K_map, V_map, dO_map);$(ordered and " keep_turns(a, counts, my, from);" or "")
  } else {
    registers_more<$(consumer_registers)>();
    if (own_group() == 0)
      $(each_task)make_dV(a, dQ_all, $(own)my, $(own)from, dV_map$(and_ends));
    else
      $(each_task)make_dK(a, dQ_all, $(own)my, $(own)from, dK_map$(and_ends));
    end_stores();
  }
  meet_other();
}

%  if not settles then
extern "C" __global__ void __launch_bounds__(2 * Br)
$(entry "finish")(const call a, const float *dQ_all, const __grid_constant__ tensor_map dQ_map)
{
  $(tile_of_block ", group = warp_of() / 4")
  await_last();                                         // dQ is whole
  acc<Bc, D> dQ = whole_dQ(dQ_all, tile);
  store_scaled(K_of(group), dQ, a.scale, dQ_map, sequence_of(a, $(tile_head)), $(tile_row) + 64 * group);
  end_stores();
}
%  end
$(entries_beside(entry, take_lists, ", const LD_row *LD_all", "dsink_by_LD(a, LD_all, i32(block_id()))"))
