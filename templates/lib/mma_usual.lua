-- mma_usual.lua -- what `fwd` on tensor cores is given where nothing is measured: rows in the order in which they are asked.
local mma = include "lib/mma.lua"

-- The first that fits: rows of Br, Bc, w, s, Q and the largest d that each is meant for, with what else they have in common.
local defaults = {}
local function add_defaults(meant, rows, more)
  for _, row in ipairs(rows) do
    for _, Z in ipairs { 8, 1 } do -- the former under a causal mask
      local c = { Br = row[1], Bc = row[2], w = row[3], s = row[4], Q = row[5], b = 1, Z = Z, W = 16, most = row[6],
        G = more.G, L = more.L, N = more.N, k = more.k, meant = function(p, g) return meant(p, g, row[1]) end }
      defaults[#defaults + 1] = c
    end
  end
end
local few_rows = { { 64, 64, 4, 4, 0, 128 }, { 64, 64, 4, 2, 0, 128 }, { 64, 32, 4, 4, 0 }, { 64, 32, 4, 2, 0 },
  { 64, 64, 4, 1, 0, 128 }, { 64, 32, 4, 1, 0, 192 }, { 64, 16, 4, 1, 0 }, { 32, 16, 2, 1, 0 } }
-- 32 rows of a warp while d leaves it the registers: on an H200 within a tenth of the best for d 40 to 128, the rows below
-- for d 192 and 256; the rest are for less shared memory and for f32 tensors.
local many_rows = { { 128, 64, 4, 1, 0, 128 }, { 64, 64, 4, 1, 0 }, { 64, 32, 4, 1, 0 }, { 64, 32, 4, 1, 1 },
  { 64, 16, 4, 1, 1 }, { 32, 16, 2, 1, 0 }, { 64, 64, 4, 0, 1 }, { 64, 32, 4, 0, 1 }, { 64, 16, 4, 0, 1 },
  { 32, 16, 2, 0, 1 }, { 64, 16, 4, 0, 0 }, { 32, 16, 2, 0, 0 } }
-- Of nine shapes of decoding (d 128, bf16, H200) within 7 % of the best of 16 configs in each: 1 x 512 to 64 x 8192 keys.
local split_rows = { { 32, 64, 2, 3, 0, 128 }, { 32, 64, 2, 2, 0, 128 }, { 32, 32, 2, 3, 0 }, { 32, 32, 2, 2, 0 }, { 32, 32, 2, 1, 0 },
  { 32, 16, 2, 1, 0 } }
-- Parts of a tile's keys by warps of their own (d 128, bf16, H200): within 1 % of the best of 26 to 256 configs for 1 x 8192, 1 x 65536,
-- 32 x 4096 and 64 x 8192 keys, 15 and 19 % behind for 8 x 8192 and 1 x 2048, where clusters merge; 2 to 14 % ahead of none.
local part_rows = { { 16, 64, 2, 3, 0, 128 }, { 16, 32, 2, 3, 0 }, { 16, 32, 2, 2, 0 }, { 16, 32, 2, 1, 0 } }
local has_few, is_idle = mma.has_few_rows, mma.has_idle_SMs
local function rows_of(p) return p.q * (has_few(p) and p.h // p.hk or 1) end -- that may fill a tile
local function in_one(p, g, Br) return is_idle(p, g) and rows_of(p) <= Br end
add_defaults(function(p) return p.has.split end, { { 64, 64, 4, 2, 0, 128 }, { 64, 64, 4, 1, 0 }, { 64, 64, 4, 0, 1 } }, { L = 0 })
-- Few rows on few keys, those of each head by themselves: of 68 shapes by lot (H200, d 64 to 256) with up to 32 keys the first is 1 to 3 % behind the
-- best that was timed and tiles of 128 rows 60 to 100; parts of the keys are the best of all of 90 keys and more, up to 16 rows; else tiles of
-- 48 keys are 0 to 27 % behind. Heads that share more K and V than these shapes, 16 MB, are put together all the same: each would read all of it.
local function is_short(p, most)
  local shared = p.h > p.hk and p.b * p.hk * p.k * (p.d + p.dv) * mma.bytes(p) or 0
  return p.q <= 32 and p.k <= most and shared <= 2 ^ 24 and not p.has.split
end
add_defaults(function(p) return is_short(p, 32) end, { { 32, 16, 2, 2, 0 }, { 32, 16, 2, 1, 0 } }, {})
add_defaults(function(p) return is_short(p, 255) and p.q <= 16 and p.k >= 80 and p.slices == 1 and not p.has.drop end, part_rows, { k = 2 })
add_defaults(function(p) return is_short(p, 255) end, { { 32, 48, 2, 2, 0 }, { 32, 32, 2, 2, 0, 128 }, { 32, 32, 2, 1, 0, 128 }, { 32, 16, 2, 2, 0 }, { 32, 16, 2, 1, 0 } }, {})
local function in_16(p) return mma.may_part(p) and rows_of(p) <= 16 end
add_defaults(function(p, g) return in_16(p) and has_few(p) and is_idle(p, g) end, part_rows, { G = 1, N = 1, k = 2 })
add_defaults(function(p) return in_16(p) and has_few(p) end, part_rows, { G = 1, k = 2 })
add_defaults(function(p, g) return in_16(p) and is_idle(p, g) end, part_rows, { N = 1, k = 2 })
add_defaults(in_16, part_rows, { k = 2 })
-- Few rows of heads that share K and V, put together: one tile, and as much of K and V on its way as fits. Where that leaves
-- SMs idle the keys are split.
add_defaults(function(p, g, Br) return has_few(p) and in_one(p, g, Br) end, split_rows, { G = 1, N = 2 })
add_defaults(function(p, g) return has_few(p) and is_idle(p, g) end, few_rows, { G = 1, N = 2 })
add_defaults(has_few, few_rows, { G = 1 })
add_defaults(in_one, split_rows, { N = 2 })
-- Turing, where K and V travel through registers, leaves 32 rows of a warp none beyond d 64, nor where scores take some: 208 to
-- 600 bytes of spills.
local function has_wide_warps(p, g)
  return mma.is_wide(p) and (g.sm >= 80 or math.max(p.d, p.dv) <= 64 and not (p.scored or p.has.drop or p.has.bs))
end
local function has_room(p, g, Br) return Br < 128 or has_wide_warps(p, g) end
-- Many short heads, as windows of images have: 4,096 x 3 of 49 rows, d 32, take 71 us, with tiles of 64 rows and keys 94, of 128 rows half as
-- long again (H200).
local function is_window(p) return rows_of(p) > 16 and rows_of(p) <= 64 and p.k <= 128 end
add_defaults(function(p, g) return is_window(p) and has_wide_warps(p, g) end, { { 64, 32, 2, 2, 0, 64 }, { 64, 32, 2, 1, 0, 64 } }, {})
add_defaults(is_window, { { 64, 32, 4, 2, 0, 128 }, { 64, 32, 4, 1, 0, 128 }, { 64, 64, 4, 1, 0 } }, {})
add_defaults(function(p, g, Br) return is_idle(p, g) and has_room(p, g, Br) end, many_rows, { N = 2 })
add_defaults(has_room, many_rows, {})

return defaults
