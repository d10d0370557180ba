-- bwd_pair.lua -- the space, the needs and the three launches of bwd_pair.cu.
local parts = include "lib/ws_parts.lua"
local simt, ws, slopes_from = include "lib/simt.lua", include "lib/ws_grad.lua", include "lib/slopes.lua".from

local function of(c)
  return { groups = 2, paired = true, all = 2, Q = c.s, dO = c.o, dS = c.t, P = 0, dQ = 0, row_readers = c.M == 1 and 4 or 2, dS_readers = 4, shares = c.M == 1, settles = c.T >= 2, last_first = c.T == 3, parts = c.G, pairs_stay = c.H == 2 }
end
local function shared(c, p) return ws.places(c, p, of(c)).last end
-- Whether it gains that the first pair lays dQ down and the last rounds it (T = 2), ms without and with it, H200, bf16: 512 keys d 256 full 0.537 and 0.523,
-- causal 0.419 and 0.391, d 192 0.521 and 0.513, 0.402 and 0.399 (level with wide scores); behind that it loses 1 to 7 %, but d 256 causal at 1024 gains 1 %. With det
-- 512 keys 0.598 and 0.533 (d 192), 0.624 and 0.553 (d 256), causal 0.516 and 0.421, 0.534 and 0.430; 1024 keys 6 %, causal 11 %; 2048 keys 1 to 3 %, causal 6 %. On an H100
-- 512 keys 3 to 14 %, with det 20 to 27 %, 11 to 17 at 1024.
local function rounds_well(p)
  return p.k <= (p.has.det and 2048 or 512) and not (p.scored or p.has.dbias)
end
-- With the last keys first (T = 3), causal, 512 keys: d 256 0.392 and 0.382, d 192 0.402 and 0.392, with d 128 of V 0.575 and 0.563; 1024 keys d 256 0.551 and
-- 0.535, d 192 level, with d 128 of V 2 % more. All had 15 tiles for each SM or more; of fewer than 6 no such config is valid (ws.recipe).
local function rounds_last_first(p, g)
  return p.uneven and 2 * p.b * p.hk * ceil_div(p.k, 128) >= 8 * g.sms and not p.has.det and p.k <= (p.d == 256 and 1024 or 512) and not (p.scored or p.has.dbias)
end
-- Whether it gains that pairs stay (H = 2), H200, bf16, 32 x 10 heads of 512 and 16 x 10 of 1024 keys, full, d 192, ms: 0.512 and 0.503 (in the mean of normal and wide scores 0.511
-- and 0.492), 0.797 and 0.793 (0.792 and 0.783); 2048 keys are level. Causal it is untimed.
local function stays_well(p, g)
  return not (p.uneven or p.scored or p.has.dbias or p.has.det) and p.k <= 1024 and 2 * p.b * p.hk * ceil_div(p.k, 128) >= 8 * g.sms
end
-- What pairs that stay do for each tile of keys, whose steps are counted on from those of the tile before (lib/ws_pairs_stay.cuh).
local function words_of_stay(words, stays)
  words.first_step, words.last_step, words.behind_last = "0", "from.steps - 1", "from.steps"
  words.round_parity, words.each_task, words.own, words.leave_V = "0", "", "", ""
  words.leave_K = "named_sync(1, 256);                                 // both have read K and V"
  words.end_dK = "last_quarter(own, from.steps - 1, last_tile);       // dK is there, too"
  function words.store_at_end(sums, place, scale)
    local parted = words.steps_parted and string.format("if (has_all_sums<%s>(a, ends, my, from, %s))\n    ", sums == "dV", sums) or ""
    return stays and "" or string.format("  %sstore_scaled(%s, %s, %s, %s_map, of_keys(sequence_of(a, my.head)), my.j0);\n", parted, place, sums, scale, sums)
  end
  if not stays then return end
  words.first_step, words.last_step, words.behind_last = "from.before", "from.before + from.steps - 1", "from.before + from.steps"
  words.round_parity, words.own, words.each_task = "from.round % 2", "own.", "for (pair_tasks own(a); own.is_one(); own.go_on())\n        "
  words.leave_V = string.format("leave_V(dV, a, my, %s, dV_map);\n    ", words.last_step)
  words.leave_K = "release(K_free);"
  words.end_dK = string.format("last_beside(own, dK, a, my, %s, last_tile, dK_map);", words.last_step)
end

-- Lists are of tiles of 64 keys.
local features = simt.without(simt.closed_and("dbias", "dsink", "dlse", "det"), "bs")

return {
  about = "FlashAttention-2 backward for Hopper and wide heads: two blocks of a cluster add to dQ together",
  picked = true,
  prefer = 3,
  twin = function(p) return p.has.det and "bwd_two" or "bwd" end,
  serves = { op = "bwd", dtypes = { "f16", "bf16" }, features = features, sm = 90, sm_last = 90 },
  tunables = {
    { "Br", { 64 }, "rows of Q and dO of one tile" },
    { "s", { 2, 3 }, "tiles of Q in shared memory" },
    { "o", { 1, 2 }, "tiles of dO in shared memory" },
    { "t", { 2, 3 }, "tiles of dS in shared memory: one is laid before the one before is read" },
    { "Z", { 1, 2, 4, 8, 64 }, "heads whose tiles start together, the longest first" },
    -- M = 1 against the best without (H200, bf16, N = 2048 to 16k, raced): d 256 2 to 4 % faster on normal data, -4 to 2 % in the mean with
    -- wide scores, which take less power; d 192 -2 to 3 % faster, 1 to 4 % slower in the mean (bench/results/h200-shared.tsv).
    { "M", { 0, 1 }, "1 = of each tile of Q and dO either block copies half, for both", unsaid = 0 },
    { "H", { 0, 2 }, "a pair has 0 = two tiles of keys, 2 = one such after another", unsaid = 0 },
    { "T", { 0, 2, 3 }, "the sums of dQ are 0 = cleared and rounded by launches of their own, 2 = laid down by the first pair that adds and rounded by the last, 3 = the same, and under a mask the last keys come first", unsaid = 0 },
    { "G", { 1, 2, 4, 8 }, "pairs that have two tiles of keys together, each some of their steps, the last of which has the sums of all", unsaid = 1 },
  },
  constraints = {
    { function(c, p) return p.d == 192 or p.d == 256 end, "four warpgroups share columns of dQ by whole boxes of 64, or halves" },
    { function(c, p) return slopes_from(p, true) ~= "P" end, "who makes dS has none but rounded weights to tell the derivatives of capped scores from" },
    { function(c, p) return c.T == 0 or not p.cut.left end, "which pair is the first and which the last at a tile of dQ is known where all rows that see a key see the first" },
    { function(c, p) return c.H == 0 or c.T == 0 and c.G == 1 and c.Z == 1 and not (p.has.det or p.cut.left or p.has.causaltl) end,
      "where pairs stay, each tile of keys is seen by a row, heads come one after another, and dQ is added in any order" },
    { function(c, p) return c.T ~= 3 or p.uneven and not p.has.det end, "without a mask either way is the same, and det has that order" },
    { function(c, p) return c.G == 1 or c.T == 0 and parts.can_be(p) end, "steps are parted among pairs that need no lists, and add in any order" },
    { function(c, p) return c.Z == 1 or not p.has.det and (p.uneven or c.T == 2) end, "tiles differ in length only under a mask; in order as many heads begin together as L2 has room for" },
  },
  threads = function(c) return ws.threads(of(c)) end,
  shared = shared,
  registers = function(c) return ws.registers(of(c)) end,
  -- H200, bf16, 4096 keys, under load, ms: d 256 full 2.70 (t = 2 and 3), causal 1.50 (t = 3) and 1.52, by bwd_wide 3.09 and 1.69;
  -- d 192 full 2.61 (o = 2, t = 2) and 2.62 (t = 3), by bwd_wide 3.13. With det, of another day: d 256 full 2.91 (t = 2), causal 1.66 (t = 3),
  -- d 192 full 2.81 (t = 3); by bwd_wide, not under load, which is faster, 3.01, 1.78 and 3.10.
  defaults = (function()
    local all = {}
    local function add(T, G, meant, M, H)
      for _, row in ipairs { { 2, 2 }, { 1, 3 } } do
        for _, Z in ipairs { 8, 1 } do all[#all + 1] = { Br = 64, s = 2, o = row[1], t = row[2], Z = Z, T = T, G = G, M = M, H = H, meant = meant } end
      end
    end
    for _, n in ipairs { 8, 4, 2 } do
      add(0, n, function(p, g) return parts.meant(p, g, 2) == n end)
    end
    add(3, 1, rounds_last_first)
    add(0, 1, stays_well, nil, 2)
    add(2, 1, rounds_well)
    add(0, 1, function(p) return p.has.det and p.uneven and p.d == 256 end, 1) -- 4096 and 16384 keys 6 and 4 % less on normal data, 2 and 1 % in the mean with wide scores; d 192 is level
    add(0, 1)
    return all
  end)(),

  words = function(c, p)
    local all = ws.words(c, p, of(c), { slopes = slopes_from(p, true), dQ_share = "quarters", reduces = "red", one_address = true,
      products = ws.shapes { { c.Br, false }, { p.dv, true }, { p.d, true }, { 64, false }, { p.d == 256 and 64 or 32, false } } })
    all.scale_of_my = "my.a.scale"
    words_of_stay(all, c.H == 2)
    return all
  end,
  constants = function(c, p) return ws.constants(c, p, of(c)) end,
  recipe = function(c, p, g, entry) return ws.recipe("bwd_pair", c, p, of(c), entry) end,

  work = function(c, p, g)
    local S = c.Br * 64 -- M = 1 takes as many clocks as M = 0, or 1 % more
    return ws.work(c, p, of(c), 2 * 64 * (ws.up(p.d, 16) + ws.up(p.dv, 16)) + 10 * S + 2 * 64 * p.d, 2)
  end,
}
