-- fa1.lua -- the space, the needs and the launch of fa1.cu.
local simt, mma = include "lib/simt.lua", include "lib/mma.lua"

-- The work of the launch, of which `of` says what differs by the units that do it.
local function launch(c, p, bytes, of)
  local row, blocks = p.d + p.dv, p.b * p.h
  local Q_words, O_words = c.Br * p.d, c.Br * p.dv
  local KV_words = ceil_div(p.k, c.Bc) * c.Bc * row
  of.blocks = blocks -- one of them does all tiles of Q
  of.steps = of.visits * 3
  -- Q and O and the row numbers are read, O and the row numbers written, at each visit.
  of.l2 = blocks * (of.visits * (bytes * Q_words + 4 * (2 * O_words + 4 * c.Br)) + bytes * KV_words)
  of.dram = bytes * (p.b * p.h * p.q * row + p.b * p.hk * p.k * row) + 4 * p.b * p.h * p.q * (p.dv + 4)
  return { of }
end

local function visits_of(c, p) return simt.visits(c, p) * ceil_div(p.q, c.Br) end

local cores = {
  tunables = simt.tunables,
  -- The first that fits, in the order of fwd.lua's.
  defaults = {
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
    local visits, Dp = visits_of(c, p), simt.padded(c, p)
    return launch(c, p, 4, {
      visits = visits, threads = c.T, shared = simt.tiles_QPKV(c, p), registers = simt.registers(c, p),
      fma = visits * c.Br * (c.Bc * (p.d + Dp + 1) + 2 * Dp),
      ex2 = visits * c.Br * (c.Bc + 2 * simt.lanes(c)),
      shared_bytes = visits * (simt.QK_bytes(c, p) + simt.PV_bytes(c, p) + 4 * (c.Br * p.d + c.Br * c.Bc))
        + 4 * ceil_div(p.k, c.Bc) * c.Bc * (p.d + p.dv),
      issue = visits * (simt.score_issue(c, p) + simt.load_issue(c, c.Br * (p.d + 2 * p.dv))),
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
    local visits = visits_of(c, p)
    return launch(c, p, mma.bytes(p), {
      visits = visits, threads = mma.threads(c), shared = mma.shared(c, p), registers = mma.registers(c, p, g),
      spills = mma.spills(c, p, g),
      tensor = visits * mma.flop(c, p, g),
      fma = visits * c.Br * (c.Bc + 2 * p.dv),
      ex2 = visits * c.Br * (c.Bc + 8),
      shared_bytes = visits * mma.tile_bytes(c, p),
      issue = visits * (mma.tile_issue(c, p) + 2 * c.Br * p.dv),
    })
  end),
}

return {
  about = "FlashAttention, first paper: outer loop over K and V, inner loop over Q; O, l, m in device memory",
  picked = false, -- only when asked for
  serves = { op = "fwd", dtypes = { "f16", "bf16", "f32", "tf32", "f32x3" }, features = simt.features, sm = 75 },
  on = function(p) return p.dtype == "f32" and cores or tensor end,
  recipe = function(c, p, g, entry)
    local half = p.dtype == "f32" and cores or tensor
    local apart = mma.O_apart(p)
    return string.format("workspace %s\nlaunch %s grid b*h block %d shared %d args call ws(0) ws(4*b*h*q)%s\n",
      apart and string.format("8*b*h*q+%d*b*h*q", 4 * p.dv) or "8*b*h*q", entry "fa1", half.threads(c), half.shared(c, p),
      apart and " ws(8*b*h*q)" or "")
  end,
}
