-- mma_usual.lua -- what `fwd` on tensor cores is given where nothing is measured: the first row that is meant and fits.
local mma, short = include "lib/mma.lua", include "lib/short.lua"

-- Rows of Br, Bc, w, s, Q and the largest d that each is meant for, with what else they have in common.
local defaults = {}
local function add(meant, rows, more)
  for _, row in ipairs(rows) do
    for _, Z in ipairs { 8, 1 } do -- the former under a causal mask
      defaults[#defaults + 1] = { Br = row[1], Bc = row[2], w = row[3], s = row[4], Q = row[5], b = 1, Z = Z, W = 16, most = row[6],
        G = more.G, L = more.L, N = more.N, M = more.M, k = more.k, meant = function(p, g) return meant(p, g, row[1]) end }
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
local function rows_of(p) return has_few(p) and short.rows(p) or p.q end -- that may fill a tile
-- Whether splits of keys are worth their merge: where 97 % of the SMs had a tile they took 2.2 to 2.9 times the best time, where 66 % had none 1.3 times.
local function has_room_for_splits(p, g) return is_idle(p, g) and 4 * mma.shared_tiles(p) <= 3 * g.sms end
local function in_one(p, g, Br) return has_room_for_splits(p, g) and rows_of(p) <= Br end
add(function(p) return p.has.split end, { { 64, 64, 4, 2, 0, 128 }, { 64, 64, 4, 1, 0 }, { 64, 64, 4, 0, 1 } }, { L = 0 })

-- Few rows on few keys, those of each head by themselves: of 68 shapes by lot (H200, d 64 to 256) with up to 32 keys the first is 1 to 3 % behind the
-- best that was timed and tiles of 128 rows 60 to 100; parts of the keys are the best of all of 90 keys and more, up to 16 rows; else tiles of
-- 48 keys are 0 to 27 % behind. Heads that share K and V are put together all the same where they would read more than 40 MB by themselves: of 512 heads on 300 keys these
-- take 36 to 53 % more time than together at d 128 (79 MB) and 4 to 13 % less at d 64 but for one row (39 MB), 560 on 208 keys at d 96 70 % more (45 MB).
local function shares_little(p)
  return p.h == p.hk or p.b * p.h * p.k * (p.d + p.dv) * mma.bytes(p) <= 40e6
end
local function is_short(p, most) return p.q <= 32 and p.k <= most and shares_little(p) and not p.has.split end
add(function(p) return is_short(p, 32) end, { { 32, 16, 2, 2, 0 }, { 32, 16, 2, 1, 0 } }, {})
add(function(p) return is_short(p, 255) and p.q <= 16 and p.k >= 80 and p.slices == 1 and not p.has.drop end, part_rows, { k = 2 })
add(function(p) return is_short(p, 255) end, { { 32, 48, 2, 2, 0 }, { 32, 32, 2, 2, 0, 128 }, { 32, 32, 2, 1, 0, 128 }, { 32, 16, 2, 2, 0 }, { 32, 16, 2, 1, 0 } }, {})
-- Rows that warpgroups would pass slower, up to 256 (short.lua): of few heads, up to d 64, tiles of 64 keys, else of 32. Turing, whose K and V travel through registers, keeps tiles
-- of 128 rows: a model has it 2 to 25 % faster by these, an A100 and an RTX 4090 as fast or up to 29 % slower.
local function in_32s(p, g) return mma.bytes(p) == 2 and g.sm >= 80 and short.in_32s(p, g) end
add(function(p, g) return in_32s(p, g) and short.are_few(p, g) end, { { 32, 64, 2, 2, 0, 64 } }, {})
add(in_32s, { { 32, 32, 2, 2, 0 }, { 32, 32, 2, 1, 0 } }, {})

-- Few rows on 256 keys and more, d 64 and 128, one to 64 rows of heads that share K and V. Up to 511 keys none is split, nor put together where little is shared.
-- Then, where SMs are idle, clusters of splits, of which each SM has two blocks: up to 4,096 keys at d 64 and 2,048 at d 128 6 to 17 % behind the best in the mean, for 27 to 47
-- of one block for each SM and a second launch, which is ahead of them on longer caches.
local function are_parts(p) return mma.may_part(p) and (rows_of(p) <= 16 or p.h > p.hk) end
local function is_cluster(p, g) return has_room_for_splits(p, g) and mma.may_part(p) and (rows_of(p) <= 32 or p.h > p.hk) and p.k * (p.d + p.dv) <= 2 ^ 19 end
local function in_16(p) return mma.may_part(p) and rows_of(p) <= 16 end
add(function(p) return are_parts(p) and p.k < 512 and shares_little(p) end, part_rows, { k = 2 })
add(function(p, g) return is_cluster(p, g) and has_few(p) end, part_rows, { G = 1, N = 2, M = 8, k = 2 })
add(is_cluster, part_rows, { N = 2, M = 8, k = 2 })
-- One block for each SM leaves a quarter of the SMs' tiles, or more, three splits at most: 64 take 2 to 16 % more than with two, 87 30 %.
local function wants_two(p, g) return has_room_for_splits(p, g) and 4 * mma.shared_tiles(p) > g.sms end
add(function(p, g) return in_16(p) and has_few(p) and wants_two(p, g) end, part_rows, { G = 1, N = 2, k = 2 })
add(function(p, g) return in_16(p) and has_few(p) and has_room_for_splits(p, g) end, part_rows, { G = 1, N = 1, k = 2 })
add(function(p, g) return mma.may_part(p) and has_few(p) and (in_16(p) or rows_of(p) <= 32 and not has_room_for_splits(p, g)) end, part_rows, { G = 1, k = 2 })
add(function(p, g) return in_16(p) and wants_two(p, g) end, part_rows, { N = 2, k = 2 })
add(function(p, g) return in_16(p) and has_room_for_splits(p, g) end, part_rows, { N = 1, k = 2 })
add(in_16, part_rows, { k = 2 })
-- Few rows of heads that share K and V, put together: one tile, and as much of K and V on its way as fits. Where that leaves
-- SMs idle the keys are split.
add(function(p, g, Br) return has_few(p) and in_one(p, g, Br) end, split_rows, { G = 1, N = 2 })
add(function(p, g) return has_few(p) and has_room_for_splits(p, g) end, few_rows, { G = 1, N = 2 })
add(has_few, few_rows, { G = 1 })
add(in_one, split_rows, { N = 2 })
-- Of heads by themselves: tiles of 128 rows take 1.5 to 2.2 times as long.
add(function(p) return p.q <= 32 and p.k >= 256 end, { { 32, 64, 2, 2, 0, 128 }, { 32, 32, 2, 2, 0 }, { 32, 32, 2, 1, 0 } }, {})
local sixty_four_rows = { { 64, 64, 4, 2, 0, 128 }, { 64, 32, 4, 2, 0 } }
add(function(p, g) return p.q <= 64 and is_idle(p, g) end, sixty_four_rows, { N = 2 })
add(function(p) return p.q <= 64 and p.k >= 256 end, sixty_four_rows, {})

-- Turing, where K and V travel through registers, leaves 32 rows of a warp none beyond d 64, nor where scores take some: 208 to
-- 600 bytes of spills.
local function has_wide_warps(p, g)
  return mma.is_wide(p) and (g.sm >= 80 or math.max(p.d, p.dv) <= 64 and not (p.scored or p.has.drop or p.has.bs))
end
local function has_room(p, g, Br) return Br < 128 or has_wide_warps(p, g) end
-- Many short heads, as windows of images have: 4,096 x 3 of 49 rows, d 32, take 71 us, with tiles of 64 rows and keys 94, of 128 rows half as
-- long again (H200).
local function is_window(p) return rows_of(p) > 16 and rows_of(p) <= 64 and p.k <= 128 end
add(function(p, g) return is_window(p) and has_wide_warps(p, g) end, { { 64, 32, 2, 2, 0, 64 }, { 64, 32, 2, 1, 0, 64 } }, {})
add(is_window, { { 64, 32, 4, 2, 0, 128 }, { 64, 32, 4, 1, 0, 128 }, { 64, 64, 4, 1, 0 } }, {})
add(function(p, g, Br) return is_idle(p, g) and has_room(p, g, Br) end, many_rows, { N = 2 })
add(has_room, many_rows, {})

return defaults
