-- fa1.lua -- the space, the needs and the launch of fa1.cu.
local simt = include "lib/simt.lua"

local function shared(c, p) return simt.tiles_QPKV(c, p, 2) end

return {
  about = "FlashAttention, first paper: outer loop over K and V, inner loop over Q; O, l, m in device memory",
  picked = false, -- only when asked for
  serves = { op = "fwd", dtypes = { "f32" }, features = { "causal" }, sm = 75 },
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
  constants = simt.constants,
  constraints = simt.constraints,
  shared = shared,
  registers = simt.registers,

  work = function(c, p)
    local Tr, blocks = ceil_div(p.q, c.Br), p.b * p.h
    local visits = simt.visits(c, p) * Tr -- of all tiles of Q: one block does them all
    local Dp, row = simt.padded(c, p), p.d + p.dv
    local Q_words, O_words = c.Br * p.d, c.Br * p.dv
    local KV_words = ceil_div(p.k, c.Bc) * c.Bc * row
    return {
      {
        blocks = blocks, threads = c.T, shared = shared(c, p), registers = simt.registers(c, p),
        fma = visits * c.Br * (c.Bc * (p.d + Dp + 1) + 2 * Dp),
        ex2 = visits * c.Br * (c.Bc + 2 * simt.lanes(c)),
        shared_bytes = visits * (simt.QK_bytes(c, p) + simt.PV_bytes(c, p) + 4 * (Q_words + c.Br * c.Bc))
          + 4 * KV_words,
        issue = visits * (simt.score_issue(c, p) + simt.load_issue(c, Q_words + 2 * O_words)),
        steps = visits * 3,
        -- Q and O and the row numbers are read, O and the row numbers written, at each visit.
        l2 = 4 * blocks * (visits * (Q_words + 2 * O_words + 4 * c.Br) + KV_words),
        dram = 4 * (p.b * p.h * p.q * (row + p.dv + 4) + p.b * p.hk * p.k * row),
      },
    }
  end,

  recipe = function(c, p, entry)
    return string.format("workspace 8*b*h*q\nlaunch %s grid b*h block %d shared %d args call ws(0) ws(4*b*h*q)\n",
      entry "fa1", c.T, shared(c, p))
  end,
}
