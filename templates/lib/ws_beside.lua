-- ws_beside.lua -- what fwd_ws is given where nothing is measured and a tile's beginning and end take as long as its products: several blocks
-- share an SM (b), another warp draws tiles (D), heads that share K and V share tiles (G). By races of 91 problems on H200s (bf16;
-- bench/results/h200-ws-blocks.tsv) and 27 since D and G (bench/results/h200-ws-records.tsv).
local simt, packed, records = include "lib/simt.lua", include "lib/packed.lua", include "lib/ws_records.lua"
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

-- Rows of all heads that share K and V in a tile: at d 64 windows of 128 to 512 keys are 10 to 20 % faster than by the best tiles of one head, causal 256 to
-- 2,048 rows 2 to 6, of 4,096 4 % slower, windows of 1,024 keys 2 %; ragged texts 1 to 6 % faster, at d 96 and 128 10 to 24, windows of 128 and 512 keys 4 to 8, of 1,024 level.
local function can_group(p) return p.h > p.hk and not p.scored and records.can_be(p) and packed.can_be_boxed(p) end
local function grouped_64(p) return can_group(p) and d_of(p) == 64 and (passes_few(p, p.cut.left and 720 or 1100) or is_ragged(p, 2048) and p.cut.left) end
local function ragged_64(p) return can_group(p) and d_of(p) == 64 and is_ragged(p, 2048) end
local function grouped_wide(p) return can_group(p) and d_of(p) > 64 and d_of(p) <= 128 and is_ragged(p, 2048) end
local function grouped_128(p) return can_group(p) and d_of(p) == 128 and p.cut.left and passes_few(p, 1200) end
-- And those of one head, drawn by another warp: windows of 1,024 keys are 3 to 10 % faster than the best without, ragged texts of d 96 and 128 2 to 4.
local function windows(p, d, keys) return records.can_be(p) and d_of(p) == d and p.cut.left and passes_few(p, keys) end
local function windows_64(p) return windows(p, 64, 1300) and not passes_few(p, 700) end
local function windows_128(p) return windows(p, 128, 1300) and not passes_few(p, 320) end
local function ragged_96(p) return records.can_be(p) and d_of(p) > 80 and d_of(p) <= 96 and is_ragged(p, 2048) end
local function ragged_128(p) return records.can_be(p) and d_of(p) == 128 and is_ragged(p, 4096) and p.q > 512 end

-- Where nothing is said of it b is 1; P, D and G are 0. D is 1 where a record tells of tiles and these differ in length, G with it.
local rows = {
  { grouped_64, Br = 128, Bc = 48, s = 3, I = 1, b = 2, D = 1, G = 1 },
  { ragged_64, Br = 64, Bc = 64, s = 3, I = 1, b = 3, D = 1, G = 1 },
  { grouped_wide, Br = 192, Bc = 64, s = 4, I = 2, D = 1, G = 1 },
  { grouped_128, Br = 192, Bc = 64, s = 4, I = 2, D = 1, G = 1 },
  { plain_64, Br = 128, Bc = 64, s = 3, I = 0, b = 2, D = 1 },
  { other_64, Br = 64, Bc = 64, s = 3, I = 1, b = 3, D = 1 },
  { loads_64, Br = 128, Bc = 48, s = 2, I = 1, b = 2 },
  { tiny_32, Br = 64, Bc = 64, s = 2, I = 1, b = 4, D = 1 },
  { small_32, Br = 64, Bc = 64, s = 2, I = 1, b = 3, D = 1 },
  { short_32, Br = 128, Bc = 64, s = 2, I = 1, b = 2 },
  { wide, Br = 64, Bc = 64, s = 2, I = 2, b = 2, D = 1 },
  { windows_64, Br = 192, Bc = 128, s = 2, I = 1, P = 1, D = 1 },
  { windows_128, Br = 192, Bc = 64, s = 4, I = 2, D = 1 },
  { ragged_96, Br = 192, Bc = 64, s = 4, I = 2, D = 1 },
  { ragged_128, Br = 128, Bc = 128, s = 2, I = 2, D = 1 },
}

-- Whether such a row is meant for a call. Lists of blocks, biases that come as tiles and split keys have defaults of their own.
local function is_for(row, p, g)
  return are_many(p, g) and wants(p) < 2 and not (p.has.bs or p.has.split or p.has.bias and not loads(p)) and row[1](p)
end
function beside.are_meant(p, g)
  for _, row in ipairs(rows) do
    if is_for(row, p, g) then return true end
  end
  return false
end

-- Several blocks are for what no record tells of, too, and for full calls.
beside.defaults = {}
for _, row in ipairs(rows) do
  for D = row.D or 0, row.b and 0 or 1, -1 do
    for _, Z in ipairs { 8, 1 } do
      beside.defaults[#beside.defaults + 1] = { Br = row.Br, Bc = row.Bc, s = row.s, q = 2, Q = 0, I = row.I, P = row.P or 0, L = 2, D = D, Z = Z, b = row.b,
        G = D * (row.G or 0), firm = true, meant = function(p, g) return (D == 0 or p.uneven) and is_for(row, p, g) end }
    end
  end
end

return beside
