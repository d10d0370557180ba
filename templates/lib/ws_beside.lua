-- ws_beside.lua -- what fwd_ws is given where nothing is measured and several blocks are to share an SM (b): calls of so many short rows that
-- a tile's beginning and end take as long as its products. By races of 91 problems on H200s (bf16; bench/results/h200-ws-blocks.tsv).
local simt = include "lib/simt.lua"
local beside, d_of = {}, simt.widest

-- Two tiles of 128 rows for each of two blocks: with fewer, 12 heads of 2,048 rows and 32 of 1,024, causal, d 64, were 25 and 2 % slower.
local function are_many(p, g) return ceil_div(p.q, 128) * p.b * p.h * p.slices >= 4 * g.sms end

-- Keys that a tile passes in the mean. At d 64 windows of 128 to 512 keys were 6 to 27 % faster, of 1,024 2 % slower; causal calls of 128 to 1,024 4 to 16 %
-- faster, of 2,048 4 % slower. At d 128 windows of 128 were 6 % faster, of 512 4 % slower.
local function passed(p) return 64 * simt.visits({ Br = 128, Bc = 64 }, p) end
local function passes_few(p, keys) return p.uneven and not p.ragged and p.q > 96 and passed(p) <= keys end

-- Ragged batches of texts of up to 2,048, d 64: 3 to 32 % faster, of 4,096 and more 3 to 9 % slower; up to 96 rows are for fwd (short.lua), up to 256
-- without a mask, too. At d 128 texts of up to 512 were 9 and 13 % faster, of 1,024 level, of 2,048 7 % slower.
local function is_ragged(p, most) return p.ragged and p.q > 256 and p.q <= most end

-- Scores that threads make of what they load: 197 keys and biases 19 % faster, 512 and a mask 5 %; 300 and biases, causal, 24 % by small tiles.
local function loads(p) return p.has.bias and p.k % 8 ~= 0 or p.has.mask or false end

-- What takes registers beside the products: one of these leaves enough of 128 for a thread of three blocks; several do not, nor may an expression.
local function wants(p)
  local count = (p.has.modHASH or p.has.maskHASH) and 2 or 0
  for _, name in ipairs { "softcap", "alibi", "mask", "bias", "drop", "iv" } do count = count + (p.has[name] and 1 or 0) end
  return count
end
local function is_plain(p) return wants(p) == 0 end

-- Of heads of 64 columns: rows of one length, those of many lengths or with more to do for a score, full calls that load.
local function plain_64(p) return d_of(p) == 64 and passes_few(p, 700) and is_plain(p) end
local function other_64(p) return d_of(p) == 64 and (is_ragged(p, 2048) or passes_few(p, 700)) end
local function loads_64(p) return d_of(p) == 64 and loads(p) and not p.uneven and p.q > 96 and p.q <= 512 end
-- Of up to 32: 512 rows, causal, 23 % faster, ragged 37; 49 rows 6 to 13 %, with biases 7, by three blocks 5; four leave threads 96 registers, of which a
-- mask takes more. 128 and 256 rows, or 256 keys, 2 to 14 %.
local function small_32(p)
  return d_of(p) <= 32 and (is_ragged(p, 2048) or p.q > 256 and passes_few(p, 700) or not p.uneven and p.q > 32 and p.q <= 64 and p.k <= 64)
end
local function tiny_32(p) return small_32(p) and is_plain(p) end
local function short_32(p) return d_of(p) <= 32 and is_plain(p) and not p.uneven and p.q > 64 and p.k > 64 and p.k <= 256 end
local function wide(p) return d_of(p) == 128 and (is_ragged(p, 512) or p.cut.left and passes_few(p, 320)) end

-- Br, Bc, s, I, b.
local rows = {
  { 128, 64, 3, 0, 2, plain_64 }, { 64, 64, 3, 1, 3, other_64 }, { 128, 48, 2, 1, 2, loads_64 },
  { 64, 64, 2, 1, 4, tiny_32 }, { 64, 64, 2, 1, 3, small_32 }, { 128, 64, 2, 1, 2, short_32 }, { 64, 64, 2, 2, 2, wide },
}

-- Whether such a row is meant for a call. Lists of blocks, biases that come as tiles and split keys have defaults of their own.
local function is_for(row, p, g)
  return are_many(p, g) and wants(p) < 2 and not (p.has.bs or p.has.split or p.has.bias and not loads(p)) and row[6](p)
end
function beside.are_meant(p, g)
  for _, row in ipairs(rows) do
    if is_for(row, p, g) then return true end
  end
  return false
end

beside.defaults = {}
for _, row in ipairs(rows) do
  for _, Z in ipairs { 8, 1 } do
    beside.defaults[#beside.defaults + 1] = { Br = row[1], Bc = row[2], s = row[3], q = 2, Q = 0, I = row[4], P = 0, L = 2, Z = Z, b = row[5], firm = true,
      meant = function(p, g) return is_for(row, p, g) end }
  end
end

return beside
