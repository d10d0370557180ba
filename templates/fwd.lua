-- fwd.lua -- the space, the needs and the launch of fwd.cu.
local simt = include "lib/simt.lua"

local tunables = { table.unpack(simt.tunables) }
tunables[#tunables + 1] = { "B", { 1, 2 }, "buffers of K and V: 1 = V takes the place of K, 2 = one each" }

local function shared(c, p) return simt.tiles_QPKV(c, p, c.B) end

return {
  about = "FlashAttention-2 forward: one tile of Q a block, one pass over K and V",
  picked = true, -- a call may be given this kernel unasked
  serves = { op = "fwd", dtypes = { "f32" }, features = { "causal" }, sm = 75 },
  tunables = tunables,
  -- The first that fits: d up to 96; d 128 and 192; d that X*W = 32 would pad too much; d up to 256; the rest.
  defaults = {
    { Br = 64, Bc = 32, T = 128, R = 4, W = 4, B = 2 },
    { Br = 32, Bc = 32, T = 128, R = 4, W = 4, B = 1 },
    { Br = 64, Bc = 32, T = 128, R = 2, W = 4, B = 1 },
    { Br = 32, Bc = 16, T = 128, R = 2, W = 4, B = 1 },
    { Br = 16, Bc = 16, T = 64, R = 1, W = 4, B = 1 },
  },
  constants = simt.constants,
  constraints = simt.constraints,
  shared = shared,
  registers = simt.registers,

  work = function(c, p)
    local visits, Tr = simt.visits(c, p), ceil_div(p.q, c.Br)
    local blocks = Tr * p.b * p.h
    local Dp, row = simt.padded(c, p), p.d + p.dv
    local tile_words = c.Bc * row
    return {
      {
        blocks = blocks, threads = c.T, shared = shared(c, p), registers = simt.registers(c, p),
        fma = visits * c.Br * c.Bc * (p.d + Dp + 1) + visits * c.Br * Dp,
        ex2 = visits * c.Br * (c.Bc + simt.lanes(c)),
        shared_bytes = visits * (simt.QK_bytes(c, p) + simt.PV_bytes(c, p) + 4 * (tile_words + c.Br * c.Bc)),
        issue = visits * (simt.score_issue(c, p) + simt.load_issue(c, tile_words)),
        steps = visits * (c.B == 1 and 4 or 2),
        l2 = 4 * blocks * (visits * tile_words + c.Br * row),
        dram = 4 * (p.b * p.h * p.q * row + p.b * p.hk * p.k * row),
      },
    }
  end,

  recipe = function(c, p, entry)
    return string.format("launch %s grid ceildiv(q,%d)*b*h block %d shared %d args call\n", entry "fwd", c.Br, c.T,
      shared(c, p))
  end,
}
