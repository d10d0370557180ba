-- fwd.lua -- the space, the needs and the launch of fwd.cu.
local simt, mma, split, packed = include "lib/simt.lua", include "lib/mma.lua", include "lib/split.lua", include "lib/packed.lua"

-- The work of a launch, of which `of` says what differs by the units that do it.
local function launch(c, p, bytes, row, splits, of)
  of.blocks = packed.tiles(c, p) * splits
  of.l2 = bytes * of.blocks * (of.visits * c.Bc + c.Br) * row
  of.dram = bytes * (p.tq * p.h + p.tk * p.hk) * (p.d + p.slices * p.dv)
  return { of }
end

local cores = {
  tunables = simt.tunables_and { "s", { 0, 1 }, "tiles of K and of V in shared memory; 0 = they take turns in one place" },
  -- The first that fits: d up to 96; d 128 and 192; d that X*W = 32 would pad too much; d up to 256; the rest.
  defaults = {
    { Br = 64, Bc = 32, T = 128, R = 4, W = 4, s = 1 },
    { Br = 32, Bc = 32, T = 128, R = 4, W = 4, s = 0 },
    { Br = 64, Bc = 32, T = 128, R = 2, W = 4, s = 0 },
    { Br = 32, Bc = 16, T = 128, R = 2, W = 4, s = 0 },
    { Br = 16, Bc = 16, T = 64, R = 1, W = 4, s = 0 },
  },
  words = simt.words,
  constants = simt.constants,
  constraints = { { function(c, p) return not p.has.split end, "keys are split where tensor cores multiply" },
    table.unpack(simt.constraints) },
  threads = simt.threads,
  shared = simt.tiles_QPKV,
  registers = simt.registers,

  work = function(c, p)
    local visits, Dp, row = simt.visits(c, p), simt.padded(c, p), p.d + p.dv
    local tile_words = c.Bc * row
    return launch(c, p, 4, row, 1, {
      visits = visits, threads = c.T, shared = simt.tiles_QPKV(c, p), registers = simt.registers(c, p),
      fma = visits * c.Br * c.Bc * (p.d + Dp + 1) + visits * c.Br * Dp,
      ex2 = visits * c.Br * (c.Bc + simt.lanes(c)),
      shared_bytes = visits * (simt.QK_bytes(c, p) + simt.PV_bytes(c, p) + 4 * (tile_words + c.Br * c.Bc)),
      issue = visits * (simt.score_issue(c, p) + simt.load_issue(c, tile_words)),
      steps = visits * (c.s == 0 and 4 or 2),
    })
  end,
}

local tensor = {
  tunables = mma.tunables,
  defaults = include "lib/mma_usual.lua",
  words = mma.words,
  constants = mma.constants,
  constraints = mma.constraints,
  threads = mma.threads,
  shared = mma.shared,
  registers = mma.registers,

  work = function(c, p, g)
    local group, row = packed.group(c, p), p.d + p.dv
    local splits = split.count(c, p, g, packed.tiles(c, p))
    local visits = math.max(1, simt.visits(c, p, group) / splits)
    local launches = launch(c, p, mma.bytes(p), row, splits, {
      visits = visits, threads = mma.threads(c), shared = mma.shared(c, p), registers = mma.registers(c, p, g),
      spills = mma.spills(c, p, g), uneven = simt.uneven(c, p, group) / math.sqrt(c.Z),
      tensor = visits * mma.flop(c, p, g),
      fma = visits * c.Br * (c.Bc + p.dv),
      ex2 = visits * c.Br * (c.Bc + 4),
      shared_bytes = visits * mma.tile_bytes(c, p),
      issue = visits * mma.tile_issue(c, p),
      steps = visits * mma.steps(c),
    })
    if split.is_made(c, p) and c.M == 0 then
      local rows, part = p.b * p.h * p.q, 4 * c.k * splits * (p.dv + 1)
      launches[1].l2 = launches[1].l2 + rows * part
      launches[2] = split.merge_work(p, c.k * splits, part, mma.bytes(p))
    end
    return launches
  end,
}

local function tiles(c, p) return packed.tiles_text(c, string.format("ceildiv(q,%d)*b*h%s", c.Br, simt.slices(p))) end

-- What begins before the work ahead has ended: of a call of microseconds the beginning is a part (H200, calls one after another:
-- 0.6 us of 3.8 to 20).
local function overlap(words) return words.overlaps and " overlap" or "" end

-- Two launches over a workspace of what each split gives each row: O_s, Dv numbers, and L_s; or one, of clusters that keep these in
-- shared memory.
local function split_recipe(c, p, g, entry)
  local splits, soon = split.text(c, p, tiles(c, p)), overlap(mma.words(c, p, g))
  if c.M > 0 then
    return packed.valid(c) .. string.format("launch %s grid %s*%s block %d shared %d cluster %s%s args call int(%s)\n", entry "fwd",
      tiles(c, p), splits, mma.threads(c), mma.shared(c, p), splits, soon, splits)
  end
  local parts = p.has.split and "b*h*q*" .. splits or (c.k > 1 and c.k .. "*" or "") .. split.rows(c, tiles(c, p))
  return string.format("workspace %d*%s\n", 4 * (p.dv + 1), parts) .. packed.valid(c) .. split.valid
    .. string.format("launch %s grid %s*%s block %d shared %d%s args call ws(0) int(%s)\n", entry "fwd", tiles(c, p), splits,
      mma.threads(c), mma.shared(c, p), soon, splits)
    .. split.merge(p, entry, soon, string.format(" ws(0) int(%s)", splits), splits, c.k)
end

return {
  about = "FlashAttention-2 forward: one tile of Q a block, one pass over K and V",
  picked = true, -- a call may be given this kernel unasked
  serves = { op = "fwd", dtypes = { "f16", "bf16", "f32", "tf32", "f32x3" }, features = { "split", table.unpack(simt.features) },
    slices = true, sm = 75 },
  on = function(p) return p.dtype == "f32" and cores or tensor end,
  lists = simt.lists "keys",
  recipe = function(c, p, g, entry)
    local half = p.dtype == "f32" and cores or tensor
    if half == tensor and split.is_made(c, p) then return split_recipe(c, p, g, entry) end
    return packed.valid(c) .. string.format("launch %s grid %s block %d shared %d%s args call\n", entry "fwd", tiles(c, p),
      half.threads(c), half.shared(c, p, g), overlap(half.words(c, p, g)))
  end,
}
