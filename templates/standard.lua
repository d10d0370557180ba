-- standard.lua -- the space, the needs and the three launches of standard.cu.
local simt, mma = include "lib/simt.lua", include "lib/mma.lua"

-- What the units that do the work say of it; the work of the three launches, `of` saying what differs by them.
local function launches(c, p, bytes, of)
  local Tr, heads = ceil_div(p.q, c.Br), p.b * p.h
  local visits, blocks = simt.visits(c, p), Tr * heads
  local tile = c.Br * c.Bc
  local S_bytes = bytes * blocks * visits * tile
  local function launch(fields)
    fields.threads, fields.registers, fields.spills = of.threads, of.registers, of.spills
    return fields
  end
  return {
    launch { -- S = Q K^T: one block for each tile of S
      blocks = blocks * visits, shared = of.shared, fma = of.QK_fma, tensor = of.QK_tensor,
      shared_bytes = of.QK_bytes, issue = of.QK_issue, visits = 1, steps = 1,
      l2 = bytes * blocks * visits * (c.Br + c.Bc) * p.d + S_bytes,
      dram = bytes * (heads * p.q + p.b * p.hk * p.k) * p.d + S_bytes,
    },
    launch { -- P = softmax(S): S is read three times (the later two from L2 where a tile's rows fit), written once
      blocks = blocks, shared = 0,
      fma = 2 * visits * tile, ex2 = 2 * visits * tile, issue = 12 * visits * tile, visits = visits,
      steps = 3 * visits,
      l2 = 4 * S_bytes, dram = 2 * S_bytes,
    },
    launch { -- O = P V
      blocks = blocks, shared = of.shared, fma = visits * of.PV_fma, tensor = visits * of.PV_tensor,
      shared_bytes = visits * of.PV_bytes, issue = visits * of.PV_issue, visits = visits, steps = 2 * visits,
      l2 = S_bytes + bytes * blocks * (visits * c.Bc + c.Br) * p.dv,
      dram = S_bytes + bytes * (heads * p.q + p.b * p.hk * p.k) * p.dv,
    },
  }
end

local cores = {
  tunables = simt.tunables,
  -- The first that fits, in the order of fwd.lua's.
  defaults = {
    { Br = 64, Bc = 64, T = 256, R = 4, W = 4 },
    { Br = 64, Bc = 32, T = 128, R = 4, W = 4 },
    { Br = 32, Bc = 32, T = 128, R = 4, W = 4 },
    { Br = 64, Bc = 32, T = 128, R = 2, W = 4 },
    { Br = 32, Bc = 16, T = 128, R = 2, W = 4 },
    { Br = 16, Bc = 16, T = 64, R = 2, W = 4 },
    { Br = 16, Bc = 16, T = 64, R = 1, W = 4 },
  },
  words = simt.words,
  constants = simt.constants,
  constraints = simt.constraints,
  threads = simt.threads,
  shared = simt.tiles_QPKV,
  registers = simt.registers,

  work = function(c, p)
    local tile, Dp = c.Br * c.Bc, simt.padded(c, p)
    return launches(c, p, 4, {
      threads = c.T, registers = simt.registers(c, p), shared = simt.tiles_QPKV(c, p),
      QK_fma = tile * p.d, QK_tensor = 0, QK_bytes = simt.QK_bytes(c, p) + 4 * (c.Br + c.Bc) * p.d,
      QK_issue = 4 * tile + simt.load_issue(c, (c.Br + c.Bc) * p.d),
      PV_fma = tile * Dp, PV_tensor = 0, PV_bytes = simt.PV_bytes(c, p) + 4 * (c.Bc * p.dv + tile),
      PV_issue = 2 * tile + simt.load_issue(c, c.Bc * p.dv),
    })
  end,
}

local tensor = {
  tunables = mma.plain_tunables,
  defaults = mma.plain_defaults,
  words = mma.plain_words,
  constants = mma.plain_constants,
  constraints = mma.plain_constraints,
  threads = mma.threads,
  shared = mma.plain(mma.shared),
  registers = mma.plain(mma.registers),

  work = mma.plain(function(c, p, g)
    local tile = c.Br * c.Bc
    local flop, bytes, issue = mma.flop(c, p, g), mma.tile_bytes(c, p), mma.tile_issue(c, p)
    return launches(c, p, mma.bytes(p), { -- each product is half of a visit of the fused kernel
      threads = mma.threads(c), registers = mma.registers(c, p, g), spills = mma.spills(c, p, g),
      shared = mma.shared(c, p),
      QK_fma = tile, QK_tensor = flop / 2, QK_bytes = bytes / 2, QK_issue = issue / 2,
      PV_fma = tile, PV_tensor = flop / 2, PV_bytes = bytes / 2, PV_issue = issue / 2,
    })
  end),
}

return {
  about = "standard attention: S and P in device memory, one launch for each line of Algorithm 0",
  picked = false, -- only when asked for
  serves = { op = "fwd", dtypes = { "f16", "bf16", "f32", "tf32", "f32x3" }, features = simt.features, sm = 75 },
  on = function(p) return p.dtype == "f32" and cores or tensor end,
  recipe = function(c, p, g, entry)
    local half = p.dtype == "f32" and cores or tensor
    local threads, shared = half.threads(c), half.shared(c, p, g)
    local tiles = string.format("ceildiv(q,%d)*b*h", c.Br)
    return string.format("workspace %d*b*h*q*ceildiv(k,%d)*%d\n", mma.bytes(p), c.Bc, c.Bc)
      .. string.format("launch %s grid %s*ceildiv(k,%d) block %d shared %d args call ws(0)\n", entry "scores", tiles,
        c.Bc, threads, shared)
      .. string.format("launch %s grid %s block %d shared 0 args call ws(0)\n", entry "softmax", tiles, threads)
      .. string.format("launch %s grid %s block %d shared %d args call ws(0)\n", entry "output", tiles, threads, shared)
  end,
}
