-- bwd_ws.lua -- the space, the needs and the three launches of bwd_ws.cu.
local simt, ws, bias = include "lib/simt.lua", include "lib/ws_grad.lua", include "lib/bias_tiles.lua"
local slopes_from, parts = include "lib/slopes.lua".from, include "lib/ws_parts.lua"

local function consumers(c) return c.Bc // 64 end
local function registers_of(c, p) return select(2, ws.registers_of(consumers(c), c.B == 1, c.H > 0, p)) end

-- Of dQ each warpgroup makes its rows or its columns: whole boxes of K, which zeros fill behind the last column and which are not added,
-- or half of the columns (C = 1), and K's second box begins with the second's. Where tiles of Q are no multiple of 64 rows it makes its
-- columns as rows of dQ^T = K^T dS^T.
local function dQ_share(c, p) return c.Br == c.Bc and "rows" or c.Br > 64 and "turned" or "columns" end
local function sums(c, p) return c.Br == c.Bc and p.d or ws.up(p.d, 16) end
local function dQ_made(c, p) return c.Br == c.Bc and ws.up(p.d, 16) or c.C == 1 and sums(c, p) or 64 * ws.boxes(p.d) end -- columns, by all together
local function dQ_columns(c, p)
  local share = dQ_share(c, p)
  return share == "rows" and p.d or share == "turned" and c.Br or dQ_made(c, p) // consumers(c)
end

-- Registers that a thread which computes needs: dK and dV; what lives at once of S, dP, dQ and the operands made of them; the
-- rest.
local function needs(c, p)
  local S, operand, dQ, slopes = c.Br // 2, c.Br // 4, dQ_columns(c, p) // 2, slopes_from(p, c.O == 1)
  local room = slopes and 2 * S + ((c.O == 0 or slopes == "P") and operand or 0) or 0
  if c.O == 1 then
    return p.d // 2 + p.dv // 2 + math.max(S + (p.has.drop and 2 or 1) * operand, dQ, room) + 32
  end
  return p.d // 2 + p.dv // 2 + math.max(S + (p.has.drop and 3 or 2) * operand, operand + dQ + c.S * S, room) + 24
end

-- Slices of 16 columns of K, then of V, that registers have room for as left operands.
local function held(c, p)
  local room = c.K == 1 and (registers_of(c, p) - needs(c, p)) // 8 * 2 or 0
  local K = math.min(room, ceil_div(p.d, 16))
  return K, math.min(room - K, ceil_div(p.dv, 16))
end

local function of(c, p)
  local own, K, V = consumers(c), held(c, p)
  return {
    groups = own, all = own, row_readers = own, dS_readers = own, K_held = K, V_held = V,
    Q = c.s + c.S, dO = c.s, dS = c.t, P = 0, dQ = c.R == 0 and own * 256 * dQ_columns(c, p) or 0,
    sums = sums(c, p), made = dQ_made(c, p), partial = c.Br ~= c.Bc and sums(c, p) < dQ_made(c, p), halves = c.C == 1,
    turned = dQ_share(c, p) == "turned",
    stays = c.H > 0, owns = c.H == 1, parts = c.G, biases = c.B == 1,
    lays = c.T == 1, settles = c.T >= 2, last_first = c.T == 3, first_come = c.T == 4,
    lots = p.has.drop and not (p.has.softcap or p.has.dbias) and c.B == 0 and c.S == 0,
    tells = c.S == 0 and c.H == 0 and p.ragged and not (ws.listed(p) or p.scored or p.has.drop),
  }
end
local function shared(c, p) return ws.places(c, p, of(c, p)).last end

-- Whether heads fill the SMs, and those of all are so short that L2 holds them well: without a mask all is read more often.
local function few_keys(p, g)
  local heads = p.b * p.hk
  return p.k <= ws.short(p) and p.k * (p.d + p.dv) <= (p.uneven and 131072 or 65536) and 10 * heads >= 9 * g.sms * ceil_div(heads, g.sms)
end

-- Whether rows are so many that tiles of 96, of which the last is not whole, gain more than they lose; under a mask they spill with f16.
local function many_rows(p) return p.d > 96 and p.q >= 4096 and not (p.uneven or p.scored or p.has.det or p.has.bs or p.has.drop) end

-- Whether a call has nothing beside its mask and its scores' features.
local function bare(p) return not (p.has.drop or p.has.bs or p.has.det or p.has.dbias) end

-- Whether a call has nothing beside its mask.
local function plain(p) return not p.scored and bare(p) end

-- Whether it may have an order of its sums (det), too.
local function masked(p) return not (p.scored or p.has.drop or p.has.bs or p.has.dbias) end

-- Whether an SM gets so many tiles of keys; many are four or more. With one or two, 16 heads, blocks that stay took 0.0532 ms for 0.0496 (1,024 keys) and 0.1065
-- for 0.1043 (2,048) at d 128, causal; at d 64 0.0334 for 0.0326 and 0.0595 for 0.0613, causal, and 0.1005 for 0.0981 (2,048, full).
local function has_tiles(p, g, each) return p.b * p.hk * ceil_div(p.k, 128) >= each * g.sms end
local function has_many_tiles(p, g) return has_tiles(p, g, 4) end

-- Whether tiles of keys are unlike, and more than one for each SM, whose share hangs on which begin first: of 2,048 rows and more 0.38 ms for 0.50
-- (32 heads on 8, 4,096 keys, causal, d 64), 0.80 for 1.00 (64 on 8).
local function has_unlike_tiles(p, g) return p.uneven and plain(p) and p.q >= 2048 and p.b * p.hk * ceil_div(p.k, 128) > g.sms end

-- Whether halves of dQ's columns are less than whole boxes.
local function halves_are_less(p) return p.d > 64 and p.d <= 112 end

-- Whether blocks gain by going on with another tile of keys, d 64: up to 4096 keys 4 to 9 %, causal 0.5 to 7 %; at 8192 and 16384,
-- where power limits the clocks, 2 to 4 %. Under a window of 1024 keys, causal, 10 %: 0.85 ms for 0.94 at 8192, d 128 with K = 1 1.5 to 3 %. At d 128: 2 to 6 %
-- at 512 to 2048 keys, causal 2 to 4 % at 512 and 1024; behind that they lose 1 to 5 %. At d 96, with
-- halves of dQ's columns, they take 0 to 5 % less at 800 to 1024 keys than tiles of dS in three places, and are level at 2048, causal.
local function stays_well(p, g) return plain(p) and has_many_tiles(p, g) and (not p.has.w or p.k <= p.q) end
local function stays_well_wide(p, g)
  local most = (p.uneven or halves_are_less(p)) and 1024 or 2048
  return p.d > 64 and has_many_tiles(p, g) and plain(p) and not (p.has.w or p.by_batch) and p.k <= most
end

-- Whether blocks that go on gain where dQ is summed in order: d 64 9 and 3 % at 1024 and 2048 keys, then they take 10 to 18 % more clocks. Causal, where
-- they leave the longest tiles for the end, as others do not (walk.cuh), 5 and 2 % at 4096 and 8192 keys, 31 tiles for each SM; they lose 2 % at 16384, and
-- 21 % of 8 heads of 4096 keys, two tiles for each. d 96 causal 9 and 3 % at 1024 and 2048 with T = 2, behind that they lose, 1 to 5 %. d 128 10 and 1 % at 512
-- and 1024, causal 6 % at 1024.
local function orders_plainly(p) return p.has.det and not (p.scored or p.has.drop or p.has.dbias or p.has.w) end
local function stays_in_order(p, g)
  local most = p.d > 96 and 1024 or p.d > 64 and 2048 or p.uneven and 8192 or 2048
  return orders_plainly(p) and has_tiles(p, g, p.uneven and 8 or 4) and (p.uneven or p.d <= 64 or p.d > 96) and p.k <= most
end

-- Whether it also gains that the first block lays dQ down and the last rounds it (T = 2): d 64 causal 13 % of the clocks at 1024 keys, 3 to 6 % at 2048, level at
-- 4096, full 3 % at 512; d 128 causal 10 % at 1024, full 8 and 3 % at 512 and 1024. By laying alone (T = 1) d 64 full gains 1 % at 1024, d 128 full 7 and 4 %.
local function rounds_well(p, g) return stays_in_order(p, g) and p.k <= (p.d > 96 and 1024 or p.uneven and 2048 or 512) end
local function lays_well(p, g) return stays_in_order(p, g) and not p.uneven and p.k <= 1024 end
-- Where blocks do not stay, causal, d 64: 2 to 5 % less than without at 1024 to 4096 keys with 3 to 4 tiles for each SM.
local function rounds_apart(p) return orders_plainly(p) and p.uneven and p.k <= 4096 end

-- And without det, with as many heads begun together as L2 has room for: at 512 keys d 64 full 6 % less than whole heads, d 128 causal 5 %, d 96
-- 4 %, causal 11 % (d 64 causal 2 % more); causal d 128 3 % at 647 and 768, d 96 4 % at 802. Causal with few tiles, 1.5 to 4 for each SM, beside the best without at
-- 1024 keys d 64 5 to 10 %, d 96 4 %, d 128 6 and 13 %; with 1.3 d 96 4 % more, with 5 and 6 level, at 2048 keys 3 to 16 % more. With the last keys first (T = 3),
-- which begin with blocks of few steps and lose where tiles are few: d 64, causal, 9, 5 and 2 % at 768, 1024 and 1280 (T = 2: 5 and 2 %), d 96 2 % at 1024; level at
-- 512, and d 128 at 1024 4 % more.
local function rounds_plainly(p) return plain(p) and not (p.has.w or p.by_batch or p.has.iv) end
local function rounds_loosely(p, g)
  if not rounds_plainly(p) or p.d <= 64 and p.uneven and few_keys(p, g) then return false end
  local few = p.uneven and has_tiles(p, g, 1.4) and not has_tiles(p, g, 5)
  return few and p.k <= 1024 or has_many_tiles(p, g) and p.k <= (p.uneven and p.d > 64 and 832 or 512)
end
local function rounds_last_first(p, g)
  local above, most = 832, p.d <= 96 and 1024 or 0
  if p.d <= 64 then above, most = 512, 1280 end
  return rounds_plainly(p) and p.uneven and has_tiles(p, g, 8) and p.k > above and p.k <= most
end

-- Whether it gains that whichever block comes first lays dQ down and whichever comes last rounds it (T = 4), beside the best of the others, less time in the mean
-- of normal and wide scores: d 128 causal 3, 5, 6 and 2 % at 512, 768, 1,024 and 1,536 keys, with 32 heads begun together (with eight they take 1 to 3 % more), level
-- at 2,048; full 7, 5, 3 and 0 %; windows of 1,024 3 and 2 %; d 96 causal 6, full 2 % at 1,024. d 64 takes 1 to 5 % more.
local function rounds_as_it_comes(p, g)
  if not plain(p) or p.by_batch or p.d <= 64 or not has_tiles(p, g, 8) or p.k <= 384 then return false end
  if p.has.w then return p.d > 96 and stays_well(p, g) end
  return p.k <= (p.uneven and 1536 or 1280) and (p.d > 96 or p.k > 832)
end
local function rounds_evenly(p, g) return not p.uneven and rounds_as_it_comes(p, g) end
-- 32 heads of K and V that others share were not timed: for each of them L2 has to hold Q, dO and sums of several.
local function rounds_with_many_heads(p, g) return p.h == p.hk and rounds_as_it_comes(p, g) end

-- Whether it gains at d 128 that the next Q is sent for before S starts (E = 2), with K in registers, beside S = 1 in the mean of normal and wide scores: 3 and 4 % less
-- at 1,024 to 16,384 keys, full, 2 to 7 causal. Beside E = 1 it takes 1 to 3 % less at d 64 where blocks stay, under a window and with det, too, 2 to 5 at d 96;
-- level in ragged batches, 3 % more with ALiBi and where the last keys come first (T = 3) at d 64.
local function is_wide_and_long(p) return p.d > 96 and p.q >= 1024 and p.k >= 1024 and not (p.by_batch or p.has.w or p.has.iv) end
local function frees_well(p) return plain(p) and is_wide_and_long(p) end

-- The same with det beside S = 1 at d 128, from 2,048 keys on, full and causal.
local function frees_in_order(p) return orders_plainly(p) and is_wide_and_long(p) end

-- Whether a head has one tile of keys, so that its block has all of dQ: of 34 shapes by lot within 1 to 14 % of the best that was timed (H200), of 12 more of d 128
-- with LSE and D loaded ahead (E = 1) within 0 to 7, where K in registers takes 2 to 22 % more.
local function has_one_tile(p) return plain(p) and p.k <= 128 end

-- Whether a call has dropout, and nothing beside it but its mask.
local function drops_alone(p) return p.has.drop and not (p.scored or p.has.det) end

-- Whether blocks can stay though tiles of keys have unlike rows: their lists say which, or their numbers.
local function can_stay_apart(p) return simt.is_in_line(p) or ws.listed(p) and not (p.ragged or p.has.prefix) end

-- Whether scores are changed by this alone, in a call without dropout and block masks whose sums may come in any order.
local function scored_by(p, feature)
  for _, other in ipairs { "softcap", "alibi", "mask", "bias", "modHASH", "maskHASH" } do
    if (p.has[other] or false) ~= (other == feature) then return false end
  end
  return bare(p)
end

-- Whether derivatives of scores are kept beside S (lib/slopes.lua).
local function sloped(p) return (p.keeps_slope or p.has.softcap or false) and not p.has.drop end

-- Rows of a table of defaults: under a mask the longest begin first. `parted`: for each number of blocks that a tile of keys may be meant to have.
-- Each row of 64 rows of Q stands for one with halves of dQ's columns, too, where these are less: d 72 to 96, 51 shapes, full and causal, 2 % less time than the
-- best without in the mean of up to 1,024 keys, 5 of more; d 96, causal, with a window 5, dropout 4, det 2, ALiBi 2, ragged 2.
local function defaults(rows)
  local all = {}
  local function add(row, Z, G, C)
    local c = { Z = Z, G = G, C = C }
    for _, name in ipairs { "Br", "Bc", "s", "t", "S", "R", "H", "O", "K", "E", "B", "T", "most" } do c[name] = row[name] end
    function c.meant(p, g) -- of blocks few heads at once, whose rows stay in L2
      return (C == 0 or halves_are_less(p)) and (Z == 1 or not p.has.bs) and (not row.listed or ws.listed(p)) and (not row.meant or row.meant(p, g)) and (G == 1 or parts.meant(p, g, 1) == G)
    end
    all[#all + 1] = c
  end
  for _, row in ipairs(rows) do
    for _, G in ipairs(row.parted and { 8, 4, 2 } or { 1 }) do
      for _, Z in ipairs(row.Z or { 8, 1 }) do
        if row.Br == 64 then add(row, Z, G, 1) end
        add(row, Z, G, 0)
      end
    end
  end
  return all
end

return {
  about = "FlashAttention-2 backward for Hopper: one warpgroup copies, the others compute; dQ by asynchronous reductions",
  picked = true,
  prefer = 2,
  lists = simt.lists("rows", "iv"),
  -- TMA reads only what is 16-byte aligned: other tensors are that kernel's.
  twin = function(p) return p.has.det and "bwd_two" or "bwd" end,
  serves = { op = "bwd", dtypes = { "f16", "bf16" }, features = simt.masks_and("dbias", "dsink", "dlse", "det"), sm = 90, sm_last = 90 },
  -- What else was tried, with what was predicted and found: docs/tried.md.
  tunables = {
    { "Br", { 64, 80, 96, 128 }, "rows of Q and dO of one tile" },
    { "Bc", { 128 }, "rows of K and V of one tile: 64 for each warpgroup that computes" },
    { "s", { 2, 3 }, "tiles of dO in shared memory, and of Q; where S starts early there is one more of Q" },
    { "t", { 2, 3 }, "tiles of dS in shared memory" },
    { "S", { 0, 1 }, "S of a tile starts 0 = in its own step, 1 = in the step before, beside dQ and dK" },
    { "R", { 0, 1 }, "dQ is added to its sums 0 = from shared memory, by copies, 1 = from registers" },
    { "Z", { 1, 2, 4, 8, 16, 32, 64 }, "heads whose tiles start together, the longest first" },
    { "O", { 0, 1 }, "dV starts 0 = when all of P is there, beside dP, 1 = slice by slice, as P comes, and dP behind it", unsaid = 0 },
    { "K", { 0, 1 }, "1 = of K, then of V, registers hold what they have room for", unsaid = 0 },
    { "E", { 0, 1, 2 }, "1 = LSE and D are loaded while S and dP are awaited, 2 = and a tile of Q is free before the next S starts, and dQ is added at one address", unsaid = 0 },
    { "H", { 0, 1, 2 }, "a block has 0 = a tile of keys, 1 = all those of a head, whose dQ it sums itself, 2 = one tile after another", unsaid = 0 },
    { "T", { 0, 1, 2, 3, 4 }, "the sums of dQ are 0 = cleared and rounded by launches of their own, 1 = with det laid down by the first block that adds, "
      .. "2 = laid down by the first and rounded by the last, 3 = the same, and under a mask the last keys come first, 4 = laid down by whichever block comes "
      .. "first, and rounded by whichever comes last", unsaid = 0 },
    { "B", { 0, 1 }, "a bias comes 0 = to each thread by loads of its own, 1 = by way of shared memory, brought by warps that copy nothing else", unsaid = 0 },
    { "C", { 0, 1 }, "of dQ each warpgroup makes 0 = its rows, or whole boxes of columns, 1 = half of the columns", unsaid = 0 },
    { "G", { 1, 2, 4, 8 }, "blocks that have a tile of keys together, each some of its steps, the last of which has the sums of all", unsaid = 1 },
  },
  constraints = {
    { function(c, p) return not (p.has.det and (p.has.bs or p.has.iv)) end, "det and bs or iv exclude each other here: sums in order go by tiles side by side" },
    { function(c, p) return not (p.keeps_slope and p.has.drop) end, "a dropped weight is told by its sign, which a derivative may change" },
    { function(c, p) return needs(c, p) <= registers_of(c, p) end, "accumulators and operands of a thread fit its registers" },
    { function(c, p) return dQ_share(c, p) ~= "turned" or c.O == 1 and c.H ~= 1 and ws.boxes(p.d) == consumers(c) end,
      "of dQ^T each warpgroup makes 64 rows, and a wide tile has room where S is gone before dP comes" },
    { function(c, p) return c.C == 0 or dQ_share(c, p) == "columns" and p.d < 128 and sums(c, p) % 128 ~= 0 end, "halves are of a head dimension that leaves a box of two half empty" },
    { function(c, p) return dQ_share(c, p) ~= "columns" or ws.boxes(p.d) ~= 3 end, "a product reads columns of K from the first of a box on, or half a box" },
    { function(c, p) return c.O == 0 or c.S == 0 end, "of one step S is gone when dP comes" },
    { function(c, p) return c.K == 0 or c.O == 1 and held(c, p) > 0 end, "K stays in registers that have room for it" },
    { function(c) return c.E == 0 or c.O == 1 end, "LSE and D have room where S is gone" },
    { function(c, p) return c.R == 1 or not p.has.det and c.T == 0 end, "in order registers are added: copies would be awaited by the warps that compute" },
    { function(c, p) return c.T == 0 or c.H ~= 1 end, "who has all of a head lays dQ down and rounds it anyhow" },
    { function(c, p) return c.T ~= 1 or p.has.det end, "to lay dQ down alone gains where blocks add in turns" },
    { function(c, p) return c.T ~= 4 or not p.has.det end, "which block comes first hangs on chance" },
    { function(c, p) return c.T ~= 3 or p.uneven and not p.has.det end, "without a mask either way is the same, and det has that order" },
    { function(c, p) return c.T < 2 or dQ_share(c, p) ~= "turned" end, "who rounds has rows or columns of dQ, not of dQ^T" },
    { function(c, p) return c.T == 0 or not (p.has.bs or p.has.iv or p.by_batch) end, "how many blocks add at a tile of dQ is known without lists and lengths" },
    { function(c, p) return c.T == 0 or c.T == 4 or not p.cut.left end, "which block is the first and which the last at a tile of dQ is known where all rows that see a key see the first" },
    { function(c, p) return c.H == 0 or c.R == 1 and c.O == 1 end, "where a block stays, dQ is added from registers, a step late as dK is" },
    { function(c, p) return c.H ~= 1 or c.Z == 1 end, "heads of one block come one after another" },
    { function(c, p) return c.H == 0 or ws.boxes(p.d) <= ws.boxes(p.dv) end, "where a block stays, dK goes out by way of V's place" },
    { function(c, p) return c.H == 0 or not p.has.causaltl and (not (p.by_batch or p.has.bs) or c.H == 2 and can_stay_apart(p)) end,
      "where a block stays, each tile of keys is seen by a row, and all batches are alike, or tiles are listed or numbered one batch behind the other" },
    { function(c, p) return c.H ~= 1 or not p.has.w end, "a block that sums dQ lays it down by the first tile of keys of a head" },
    { function(c, p) return c.H ~= 2 or not (p.has.det and p.ragged) end, "turns are kept by one thread, which is told what is next; a batch that may end amid a tile is told to a warp" },
    { function(c, p) return c.B == 0 or bias.can_be(p) and c.H == 0 and c.T == 0 and not p.has.det end,
      "tiles of biases, of 16 bits and without paddings ahead, come with those of Q, where blocks begin in any order and do not stay" },
    { function(c, p) return c.G == 1 or c.H == 0 and c.T == 0 and parts.can_be(p) end,
      "a tile's steps are parted among blocks that do not stay, need no lists, and add in any order" },
    { function(c, p) return c.G == 1 or c.R == 1 end, "of parted tiles few forms were tried" },
    { function(c, p) return c.Z == 1 or not p.has.det and (p.uneven or c.T == 2 or c.T == 4) end, "tiles differ in length only under a mask; in order as many heads begin together as L2 has room for" },
  },
  threads = function(c) return 128 * (1 + consumers(c)) end,
  shared = shared,
  registers = function(c) return 65536 // (128 * (1 + consumers(c))) // 8 * 8 end,

  -- H200, bf16, 4096 keys, ms: d 64 full 2.49 with R = 1, 2.53 with R = 0, 2.64 with S = 1; d 128 full S = 1, R = 1 2.17, S = 0,
  -- R = 0 2.18, others 2.20 to 2.25; causal 1.23 both. Of O = 1, K = 1 beside S = 1, R = 1 at d 128, full, 4096 and 16384 keys, clocks in
  -- two runs: Br = 96 2.5 to 3.7 and 3.4 to 5.2 % fewer (2.13 for 2.18 ms; at 16384, where power holds the clock down, 7.86 for 8.23 and
  -- 8.37 for 8.26), Br = 80 about 1 and 4 %, Br = 64 3 % more, level with E = 1; causal, 4096: Br = 96 0 to 0.4 % fewer. At d 64: 1 to 2 %
  -- more, causal 0.6 to 1.4 % fewer. E = 1 at Br = 96: level. dK slice by slice, too: 4 to 8 % more.
  -- Causal, 4096 keys, 32 heads, the fastest of five to eight: dropout d 64 O = 1, K = 1 0.53 (plain 0.36); biases O = 1 0.63 at d 64, Br = 80
  -- 0.94 at d 128 (plain 0.61); ALiBi d 128 Br = 96, K = 1 0.65, where S = 1 spills 216 bytes.
  -- Causal, 8192 and 2048 keys: softcap d 64 Br = 128, O = 1, H = 2 3.37 and 1.02, E = 1 3.42 and 1.09, Br = 64, S = 1 3.60 and 1.10 (3.75 and 1.18 where the slope
  -- was told from P), d 128 K = 1 2.84 and 0.87, S = 1 3.10 and 0.97 (2.86 and 0.92); 30 tanh(s / 30) as an expression d 64 Br = 64, S = 1 4.95 and 1.52, O = 1,
  -- H = 2 5.10 and 1.47, d 128 O = 1, K = 1 3.60 and 1.11, S = 1 4.03 and 1.25, where `bwd` took 7.19, 2.12, 6.35 and 1.83.
  -- 512 keys, O = 1, E = 1, before a thread told all others what is next: H = 1 0.36, H = 2 0.42, H = 0 0.45 (d 64 causal), 0.47, 0.49, 0.54 (d 64 full), 0.33, 0.38, 0.38 (d 128
  -- causal), 0.51, 0.46, 0.47 (d 128 full). 1024 keys: 0.56, 0.56, 0.59 (d 64 causal), 0.98, 0.76, 0.82 (d 64 full), 0.55, 0.51, 0.51 (d 128
  -- causal): sums of all SMs' heads no longer fit L2. 4096, d 64: H = 2 1.50, H = 0 1.51 (causal), 2.62 and 2.72 (full).
  -- Since then, under load, Z = 1 and 8, d 64 causal: H = 2 1.46 and 1.45 (4096), 2.73 and 2.66 (8192; H = 0 2.77 on a slower GPU), 5.19 and
  -- 5.12 (16384; H = 0 5.37). Full: H = 2 5.12, H = 0 5.25 (8192), 10.1 and 10.3. d 128, H = 2 and S = 1: 0.46, 0.48 (512), 0.74, 0.76 (1024),
  -- 1.32, 1.34 (2048), 2.50, 2.46 (4096); causal 0.37, 0.38, 0.50, 0.53, 0.81, 0.79, 1.37, 1.36.
  -- Documents of 28 to 4631 rows, 32 heads, d 64, a tile's blocks one head after another or eight together: 1.41 and 1.34; another day 1.23,
  -- and 1.18 where blocks stay (d 128: 0.91 for 0.80). As a tune draws them, d 128, 2048 and 8192 rows at most: K = 1 0.263 and 1.40, S = 1 0.275 and 1.44.
  defaults = defaults {
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, most = 64, parted = true, meant = function(p) return not p.uneven and plain(p) end },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, most = 64, parted = true },
    { Br = 96, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, most = 128, parted = true, meant = function(p) return p.d > 96 and p.q >= 4096 and plain(p) end },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 1, R = 1, most = 128, parted = true, meant = plain },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, most = 128, parted = true },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, H = 1, most = 96, meant = has_one_tile },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 1, most = 128, meant = has_one_tile },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 2, H = 2, T = 4, most = 128, Z = { 1 }, meant = rounds_evenly },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 2, H = 2, T = 4, most = 128, Z = { 32 }, meant = rounds_with_many_heads },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 2, H = 2, T = 4, most = 128, Z = { 8 }, meant = rounds_as_it_comes },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 2, T = 2, most = 64, Z = { 64 }, meant = rounds_loosely },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 2, H = 2, T = 2, most = 128, Z = { 64 }, meant = rounds_loosely },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 2, T = 3, most = 64, Z = { 64 }, meant = rounds_last_first },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 2, H = 2, T = 3, most = 128, Z = { 64 }, meant = rounds_last_first },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 1, most = 64, meant = function(p, g) return plain(p) and few_keys(p, g) end },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 1, most = 128, meant = function(p, g) return plain(p) and few_keys(p, g) end },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, H = 1, most = 64, meant = few_keys },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, H = 1, most = 128, meant = few_keys },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 2, most = 64, meant = function(p, g) return plain(p) and has_many_tiles(p, g) and simt.is_in_line(p) end },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 2, H = 2, most = 64, meant = stays_well },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 2, H = 2, most = 128, meant = stays_well_wide },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, H = 2, most = 128, meant = function(p, g) return p.has.w and p.d > 96 and stays_well(p, g) end },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 2, T = 2, most = 64, Z = { 1 }, meant = rounds_well },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 2, T = 1, most = 64, Z = { 1 }, meant = lays_well },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 2, H = 2, most = 64, Z = { 1 }, meant = stays_in_order },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, T = 2, most = 64, Z = { 1 }, meant = rounds_apart },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 2, T = 2, most = 128, Z = { 1 }, meant = rounds_well },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, H = 2, most = 128, Z = { 1 }, meant = stays_in_order },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, H = 2, most = 64, meant = function(p, g) return scored_by(p, "softcap") and has_many_tiles(p, g) and not p.has.w end },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, E = 1, most = 64, meant = function(p) return scored_by(p, "softcap") end },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, most = 128, meant = function(p) return p.d > 64 and sloped(p) end },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, most = 64, meant = drops_alone },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, most = 128, meant = drops_alone },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, B = 1, most = 64, meant = bias.can_be },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, B = 1, most = 128, meant = bias.can_be },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, most = 64, meant = function(p) return scored_by(p, "bias") end },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, most = 64, meant = function(p) return p.has.varlen or false end },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, most = 64, Z = { 8 }, meant = has_unlike_tiles },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 1, most = 64, Z = { 1 } },
    { Br = 128, Bc = 128, s = 2, t = 2, S = 0, R = 0, most = 64 },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, most = 128, meant = function(p) return p.d > 112 and p.has.varlen and plain(p) end },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, most = 128, listed = true }, -- with S = 1 it spills there
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, most = 128, meant = function(p) return halves_are_less(p) and p.ragged and plain(p) end },
    { Br = 64, Bc = 128, s = 2, t = 3, S = 0, R = 1, O = 1, K = 1, E = 2, most = 96, meant = function(p) return halves_are_less(p) and masked(p) and not (p.ragged or p.dtype == "f16" and p.d > 80 and p.uneven) end }, -- f16 spills
    { Br = 96, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, most = 128, meant = many_rows },
    { Br = 96, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, most = 128, meant = function(p) return p.d > 96 and p.q >= 4096 and scored_by(p, "alibi") end },
    { Br = 80, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, most = 128, meant = function(p) return p.d > 96 and scored_by(p, "bias") end },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, E = 2, most = 128, meant = frees_well },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, E = 2, T = 1, most = 128, Z = { 1 }, meant = function(p) return frees_in_order(p) and p.k <= 2048 end },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 0, R = 1, O = 1, K = 1, E = 2, most = 128, Z = { 1 }, meant = frees_in_order },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 1, R = 1, T = 1, most = 128, meant = function(p) return p.has.det and p.d > 96 and (not p.uneven or p.k <= 2048) end }, -- 1 % full; causal none to 2 at 2048 keys, 2 to 3 % more from 4096 on
    { Br = 64, Bc = 128, s = 2, t = 2, S = 1, R = 1, most = 128 },
    { Br = 64, Bc = 128, s = 2, t = 2, S = 1, R = 0, most = 128 },
  },

  words = function(c, p)
    local share, K, slopes = dQ_share(c, p), held(c, p), slopes_from(p, c.O == 1)
    local dQ, turned = { dQ_columns(c, p), false }, share == "turned"
    local all = ws.words(c, p, of(c, p), { S_early = c.S == 1, sliced = c.O == 1, slopes = slopes, rows_ahead = c.E > 0, frees_early = c.E == 2, one_address = c.E == 2, dQ_share = share, reduces = c.R == 0 and "bulk" or "red",
      products = ws.shapes { { c.Br, false }, { p.dv, true }, { p.d, true }, K > 0 and { c.Br, true } or { c.Br, false }, not turned and dQ or nil },
      turned_products = turned and { c.Br } or {} })
    local drawn = all.lots
    all.draw_lots, all.draw = drawn and " const lots by(a, of.at(a), my.j0, n);" or "", drawn and "draw(Z, P, by)" or "Z.keep(P)"
    local weights = slopes and (c.O == 0 or slopes == "P") and "S" or all.W
    all.minus_D = drawn and "minus_D_drawn(dP, P, Z, D)" or string.format("minus_D_times(dP, %s, D%s)", weights, p.words.and_boost)
    all.scale, all.scale_of_my = drawn and "scale_boosted(a)" or "a.scale", drawn and "scale_boosted(my.a)" or "my.a.scale"
    return all
  end,
  constants = function(c, p) return ws.constants(c, p, of(c, p)) end,
  recipe = function(c, p, g, entry) return ws.recipe("bwd_ws", c, p, of(c, p), entry) end,

  work = function(c, p, g)
    local S, own = c.Br * c.Bc, consumers(c)
    local K, V = held(c, p)
    local lefts = 2 * c.Bc * (ws.up(p.d, 16) + ws.up(p.dv, 16) - 16 * (K + V)) -- left operands of S and dP
    local dQ = 2 * S * (dQ_share(c, p) == "columns" and own or 1) + 2 * c.Bc * p.d * (dQ_share(c, p) == "rows" and own or 1)
    return ws.work(c, p, of(c, p), lefts + dQ + (c.R == 0 and 8 * c.Br * p.d or 0), 1.2 - 0.2 * c.S - (c.E == 2 and 0.1 or 0))
  end,
}
