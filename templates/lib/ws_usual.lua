-- ws_usual.lua -- what `fwd_ws` is given where nothing is measured: rows in the order in which they are asked.
local simt, ws, bias, splits, short, beside = include "lib/simt.lua", include "lib/ws.lua", include "lib/bias_tiles.lua", include "lib/ws_splits.lua", include "lib/short.lua", include "lib/ws_beside.lua"

local d_of = simt.widest

-- What a row of Q takes by the best config of each Br, where tiles are many (H200, N = 4096, full). Up to 2,048 rows under a mask, above d 64: so that the
-- Br that is through soonest loses least at 57 causal shapes of 300 to 1,200 rows, 1.5 to 2.6 % for 2 to 6 by what holds for long ones.
local function is_brief(p) return p.uneven and p.q <= 2048 end
local function row_time(Br, p)
  local d, briefly = d_of(p), is_brief(p)
  if Br < 192 then return Br == 64 and 1.5 or 1 end
  if d <= 64 then return 0.88 elseif d <= 96 then return briefly and 1 or 0.88 end
  return d <= 128 and (briefly and 0.88 or 1.04) or math.huge -- wider heads leave it no room
end

-- The Br that is through soonest: all SMs take rounds of tiles, and the last round is as long as any. Of unlike tiles three make room for one more.
local function soonest(p, g)
  local best, least = 64, nil
  for _, Br in ipairs { 192, 128, 64 } do
    local tiles = ceil_div(p.q, Br) * p.b * p.h * p.slices
    local rounds = is_brief(p) and ceil_div(3 * tiles, 4 * g.sms) or ceil_div(tiles, g.sms)
    local time = rounds * Br * row_time(Br, p)
    if p.q > 64 and (not least or time < least) then best, least = Br, time end
  end
  return best
end

-- Whether tiles of 192 rows leave room for what is done to scores beside the products: spills otherwise take what they gain. Of d 64, causal,
-- 8192 keys (H200): ALiBi 1.05 ms for 1.18 with 128 rows, dropout 1.32 for 1.38, softcap 1.51 for 1.55; of d 128 ALiBi 0.73 for 0.77, with 80 keys.
-- An expression that adds what grows evenly goes by such tiles too, at d 64 with 112 keys (1.12 ms for 1.15 with 128, which spill).
local function adds_a_line(p, name) return name == "alibi" or name == "modHASH" and p.adds_evenly == 1 end
local function has_room(Bc, p)
  local some
  for _, name in ipairs { "alibi", "softcap", "drop", "mask", "bias", "modHASH", "maskHASH", "bs" } do
    if p.has[name] then
      if some then return false end
      some = name
    end
  end
  if not some then return true end
  if adds_a_line(p, some) then return Bc == 80 or d_of(p) <= 64 and (some == "alibi" or Bc <= 112) end
  return d_of(p) <= 64 and Bc == 96 and (some == "softcap" or some == "drop")
end

local function with_biases(p) return bias.can_be(p) and p.q > 64 end
-- Tiles of 64 keys under a block mask: blocks of 128 take 5 to 9 % more time than with 128 keys, but blocks of 64 two fifths (d 64 and 128, H200).
local function of_blocks(p) return p.has.bs or false end

-- Calls that the rows below were timed for (bench/results/h200-short.tsv), of more than `d` columns.
local function plain(p, d) return d_of(p) > (d or 0) and not (p.scored or p.has.bs or p.has.drop) end
-- Rows on up to 96 keys, in tiles of 48 or 64: 0 to 9 % behind the best, where tiles of 128 keys take 28 to 65 % more.
local function are_few_keys(p, d, Bc)
  return plain(p, d) and p.q > 64 and p.k <= 96 and (Bc == 64) == (p.k > 48 and p.k <= 64)
end
local function few_keys(Br, Bc)
  return function(p, g) return are_few_keys(p, 0, Bc) and soonest(p, g) == Br end
end
-- Up to 256 rows and keys, which warpgroups pass sooner than tiles of 32 rows do (short.lua).
local function are_short(p, d, least, most) return plain(p, d) and p.q > least and p.q <= most and p.k <= 256 end
-- 257 to 2,048 rows under a mask: the rows below are 2 to 3 % behind the best, those of long calls 6 to 12. Fewer on more keys, too: 178 rows on 7,151 keys, d 128,
-- fill a tile of 192 rows and took 1.8 times as long by two of 128.
local function are_medium(p, d) return plain(p, d) and p.uneven and p.q > 64 and math.max(p.q, p.k) > 256 and p.q <= 2048 end

-- 257 to 640 keys without a mask: the tile of keys that leaves least of the last one empty, where each takes the time of 24 keys beside its own. Of 403 and
-- 413 keys, d 64, tiles of 128 take 11 and 15 % more than the best, these 0 and 4; of 285, d 128, 23, these 2; of 257, d 64, 17, where the best are of 96 (H200).
local function least_empty(p)
  local best, least
  for _, Bc in ipairs { 128, 112, 96 } do
    local time = ceil_div(p.k, Bc) * (Bc + 24)
    if not least or time < least then best, least = Bc, time end
  end
  return best
end
local function fills(Br, Bc, d)
  return function(p, g)
    return plain(p, d) and not p.uneven and p.q > 64 and p.k > 256 and p.k <= 640 and least_empty(p) == Bc and soonest(p, g) == Br
  end
end

-- The first that fits, each under a causal mask first. With `most`: for d up to that, where Br is through soonest; each
-- is among the best of its Br at a d where that was measured.
local defaults = { table.unpack(splits.defaults) }
for _, c in ipairs(beside.defaults) do defaults[#defaults + 1] = c end
for _, row in ipairs {
  { 64, 128, 2, 2, 0, 2, B = 1, most = 128, meant = function(p, g) return with_biases(p) and soonest(p, g) == 64 end },
  { 128, 128, 2, 1, 1, 2, B = 1, s = 3, most = 64, meant = with_biases }, { 128, 128, 1, 1, 1, 2, B = 1, most = 128, meant = with_biases },
  { 128, 64, 2, 2, 0, 2, s = 4, most = 128, meant = of_blocks }, { 128, 64, 2, 2, 0, 2, most = 192, meant = of_blocks },
  { 192, 48, 2, 1, 1, 2, most = 64, meant = few_keys(192, 48) }, { 192, 64, 2, 1, 1, 2, most = 64, meant = few_keys(192, 64) },
  { 128, 48, 2, 1, 1, 2, most = 64, meant = few_keys(128, 48) }, { 128, 64, 2, 1, 1, 2, most = 64, meant = few_keys(128, 64) },
  { 64, 48, 2, 1, 0, 2, most = 64, meant = few_keys(64, 48) }, { 64, 64, 2, 1, 0, 2, most = 64, meant = few_keys(64, 64) },
  { 64, 64, 2, 1, 0, 2, most = 96, meant = function(p, g) return are_short(p, 64, 0, 64) or are_short(p, 64, 64, 256) and short.are_few(p, g) end },
  { 64, 64, 2, 2, 0, 2, most = 128, meant = function(p, g) return are_short(p, 96, 0, 64) or are_short(p, 96, 64, 256) and short.are_few(p, g) end },
  { 64, 48, 2, 2, 0, 2, most = 256, meant = function(p, g) return are_short(p, 128, 0, 64) or are_short(p, 128, 64, 256) and short.are_few(p, g) end },
  { 128, 48, 2, 2, 0, 2, most = 256, meant = function(p) return are_few_keys(p, 64, 48) and p.k <= 48 or are_short(p, 128, 64, 200) end },
  { 192, 48, 2, 2, 0, 2, most = 128, meant = function(p) return are_few_keys(p, 64, 48) and p.q > 256 end },
  { 128, 64, 2, 2, 0, 2, most = 128, meant = function(p) return are_few_keys(p, 64, 64) and p.q > 256 end },
  { 192, 96, 2, 1, 1, 2, most = 64, meant = function(p) return are_short(p, 0, 128, 192) end },
  { 128, 64, 2, 2, 0, 2, Q = 1, s = 4, Z = 2, most = 96, meant = function(p, g) return are_short(p, 64, 64, 256) or are_medium(p, 64) and soonest(p, g) == 128 end },
  { 128, 64, 2, 2, 0, 2, Q = 1, s = 3, Z = 2, most = 128, meant = function(p) return are_short(p, 96, 64, 256) end },
  { 192, 64, 2, 2, 0, 2, s = 4, Z = 2, most = 128, meant = function(p, g) return are_medium(p, 96) and soonest(p, g) == 192 end },
  { 192, 112, 2, 1, 1, 2, most = 64, meant = fills(192, 112) }, { 192, 96, 2, 1, 1, 2, most = 64, meant = fills(192, 96) },
  { 128, 112, 2, 1, 1, 2, most = 64, meant = fills(128, 112) }, { 128, 96, 2, 1, 1, 2, most = 64, meant = fills(128, 96) },
  { 128, 112, 2, 2, 1, 2, most = 128, meant = fills(128, 112, 96) }, { 128, 96, 2, 2, 1, 2, most = 128, meant = fills(128, 96, 96) },
  { 128, 128, 2, 1, 1, 2, most = 64 }, { 64, 128, 2, 1, 0, 2, most = 64 },
  { 128, 128, 2, 1, 0, 2, most = 96 }, { 64, 128, 2, 2, 0, 2, most = 128 },
  { 64, 112, 2, 2, 0, 2, most = 192 }, { 64, 80, 1, 2, 0, 2, most = 256 },
  { 192, 128, 2, 1, 1, 0, most = 64, meant = function(p) return p.cut.left and not p.has.causal end }, -- without spills
  -- 8192 keys, causal: 0.84 ms for 0.90 by the plain call's 128 x 128, which does not spill either (H200).
  { 192, 80, 2, 1, 0, 2, most = 128, firm = true, meant = function(p, g) return ws.scores_late({ L = 2 }, p) and not p.ragged and d_of(p) > 96 and soonest(p, g) ~= 64 end },
  { 192, 128, 2, 1, 1, 2 }, -- d up to 64
  { 192, 112, 2, 1, 1, 2 }, -- d up to 96
  { 192, 96, 2, 1, 1, 2, most = 64 },
  { 128, 128, 2, 2, 0, 2 }, -- d up to 128
  { 128, 80, 2, 2, 0, 2 }, -- d up to 192
  { 128, 64, 1, 2, 0, 2 }, { 64, 64, 1, 2, 0, 1 }, -- d up to 256
} do
  local meant = row.meant or row.most and function(p, g) return soonest(p, g) == row[1] end or function() return true end
  for _, Z in ipairs { row.Z or 8, 1 } do
    -- Blocks of 128 rows fit no tile of 192: 2.4 times the dense time at half of the blocks (d 64, H200). Blocks that are there by chance need few heads at once, whose K and V stay in L2: at a tenth 14 % less time (d 128, N = 16k).
    defaults[#defaults + 1] = { Br = row[1], Bc = row[2], s = row.s or 2, q = row[3], Q = row.Q or 0, I = row[4], P = row[5], L = row[6],
      Z = Z, B = row.B, most = row.most, firm = row.firm,
      meant = function(p, g) return (row[1] < 192 or has_room(row[2], p)) and (Z == 1 or not p.has.bs) and meant(p, g) end }
  end
end

return defaults
