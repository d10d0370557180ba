-- ws_splits.lua -- fwd_ws for few rows of Q: where keys of a row are split among blocks (N), and, for few keys as well, where rows of heads
-- that share K and V share tiles (G): tunables, constraints, words, and the recipe's part. Goes with ws_splits.cuh and split.lua.
local packed, split = include "lib/packed.lua", include "lib/split.lua"
local splits = {}

splits.tunables = {
  -- 2 beside 1 (H200, 49 pairs of configs): up to 79 % slower, as splits of a second round read K and V again; faster in two, which N = 0 beats.
  { "N", { 0, 1, 2 }, "blocks for each SM, among which the keys of a row are split where tiles of Q are fewer; 0 = they are not", { 0, 1 }, unsaid = 0 },
  { "G", { 0, 1 }, "tiles of Q hold rows of 0 = one head, 1 = all heads that share K and V", unsaid = 0 },
}

-- Splits of each tile of Q.
function splits.count(c, p, g) return c.N > 0 and split.count(c, p, g, packed.tiles(c, p)) or 1 end

function splits.can_be(p) return p.slices == 1 and not (p.cut.left or p.ragged or p.has.bs or p.has.iv or p.has.drop) end

splits.constraints = {
  { function(c, p) return c.N == 0 or c.M == 0 and c.E == 0 and c.B == 0 and splits.can_be(p) end,
    "keys are split where rows see them from the first on, all batches are as long, and blocks are alike" },
  { function(c, p, g) return c.N == 0 or c.G == 1 and p.q <= 64 or p.q > 32 and splits.count(c, p, g) > 1 end,
    "keys are split where tiles of Q leave SMs idle, or hold the few rows of many heads", walk = true },
  { function(c, p) return c.G == 0 or p.h > p.hk and not p.scored and (c.N > 0 or c.M == 0 and c.E == 0 and c.B == 0 and packed.can_be_boxed(p)) end,
    "rows of several heads share a tile where they share K and V, all are scored alike, and each leaves its sums by itself or boxes hold rows of all" },
  { function(c, p) return c.G == 0 or c.N > 0 or c.D == 1 end, "tiles of several heads that see few keys are told of", walk = true },
}

-- Where nothing is measured: heads share tiles where that makes a quarter fewer (by a rounded tile fewer 5,200 rows took 1.8 times the best time), of 64 rows where 128 would leave 8 at most, with 4,096 keys or where keys are split;
-- these are where a third of the SMs have a tile, or fewer, and each split spares 1,500 keys.
local function is_meant(c, p, g)
  local function tiles(G) return packed.tiles({ G = G, Br = 128 }, p) end
  local count, fewer = splits.count(c, p, g), not p.scored and 4 * tiles(1) <= 3 * tiles(0)
  local small = p.q * packed.group(c, p) <= 64 or tiles(c.G) <= 8
  return c.G == (fewer and 1 or 0) and c.Br == (small and 64 or 128)
    and (fewer and p.k >= 4096 or count > 2 and p.k - p.k // count >= 1500)
end
splits.defaults = {}
for _, row in ipairs { { 128, 2, 128 }, { 128, 1, 192 }, { 80, 2, 192 }, { 64, 1 } } do -- of K and V, of Q; d up to
  for _, Br in ipairs { 128, 64 } do
    for x = 0, 3 do
      local c = { Br = Br, Bc = row[1], s = 2, q = row[2], Q = 0, I = 2, P = 0, L = 2, Z = x % 2 == 0 and 8 or 1, N = 1, G = x // 2, most = row[3] }
      c.meant = function(p, g) return is_meant(c, p, g) end
      splits.defaults[#splits.defaults + 1] = c
    end
  end
end

-- Few rows, which fwd has for its own, but not behind a long cache.
function splits.are_many(p) return p.q * (p.h // p.hk) > 32 and p.k >= 4096 and splits.can_be(p) and (p.q > 32 or not p.scored) end

function splits.words(words, c)
  local N = c.N > 0
  words.packed, words.key_splits, words.split = c.G == 1, N, "evenly"
  words.visited_by_me = string.format(N and "within(%s, all)" or "%s", "range<64>(a, at, i0 + 64 * me)")
  function words.visited(i0) return N and "split_range(a, at, my, splits)" or string.format("%s(a, at, %s)", words.range_of, i0) end
  words.all_blocks, words.task_of = N and "blocks_of(a) * splits" or "blocks_of(a)", N and "split_task_of" or "task_of"
  words.take_partial, words.and_partial, words.and_splits = N and ", float *partial, i32 splits" or "", N and ", partial, splits" or "", N and ", splits" or ""
end

-- Of a recipe whose first launch has `tiles` blocks of work: how many it has then, what the workspace holds behind its first 16 bytes,
-- further arguments, and the launch that merges.
function splits.recipe(c, p, entry, tiles)
  local count = split.text(c, p, tiles)
  local args = string.format(" ws(16) int(%s)", count)
  return tiles .. "*" .. count, string.format("16+%d*%s", 4 * (p.dv + 1), split.rows(c, tiles)), args, split.merge(p, entry, " overlap", args, count, 1)
end

function splits.valid(c) return c.N > 0 and split.valid or "" end

-- And the work of merging; `part`: bytes that a row leaves.
function splits.part(p, count) return 4 * count * (p.dv + 1) end
function splits.merge_work(p, count) return split.merge_work(p, count, splits.part(p, count), 2) end

return splits
