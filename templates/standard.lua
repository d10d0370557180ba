-- standard.lua -- the space, the needs and the three launches of standard.cu.
local simt = include "lib/simt.lua"

local function shared_scores(c, p) return simt.rows_tile(c.Br, p.d, c.W) + simt.rows_tile(c.Bc, p.d, c.W) end
local function shared_output(c, p)
  return simt.rows_tile(c.Br, c.Bc, simt.lanes(c)) + simt.rows_tile(c.Bc, simt.padded(c, p), 0)
end

return {
  about = "standard attention: S and P in device memory, one launch for each line of Algorithm 0",
  picked = false, -- only when asked for
  serves = { op = "fwd", dtypes = { "f32" }, features = { "causal" }, sm = 75 },
  tunables = simt.tunables,
  -- The first that fits, in the order of fwd.lua's.
  defaults = {
    { Br = 64, Bc = 64, T = 256, R = 4, W = 4 },
    { Br = 32, Bc = 32, T = 128, R = 4, W = 4 },
    { Br = 64, Bc = 32, T = 128, R = 2, W = 4 },
    { Br = 32, Bc = 16, T = 128, R = 2, W = 4 },
    { Br = 16, Bc = 16, T = 64, R = 2, W = 4 },
    { Br = 16, Bc = 16, T = 64, R = 1, W = 4 },
  },
  constants = simt.constants,
  constraints = simt.constraints,
  shared = function(c, p) return math.max(shared_scores(c, p), shared_output(c, p)) end,
  registers = simt.registers,

  work = function(c, p)
    local visits, Tr = simt.visits(c, p), ceil_div(p.q, c.Br)
    local heads = p.b * p.h
    local blocks, Dp = Tr * heads, simt.padded(c, p)
    local tile = c.Br * c.Bc
    local S_bytes = 4 * blocks * visits * tile
    local registers = simt.registers(c, p)
    return {
      { -- S = Q K^T: one block for each tile of S
        blocks = blocks * visits, threads = c.T, shared = shared_scores(c, p), registers = registers,
        fma = tile * p.d, shared_bytes = simt.QK_bytes(c, p) + 4 * (c.Br + c.Bc) * p.d,
        issue = 4 * tile + simt.load_issue(c, (c.Br + c.Bc) * p.d), steps = 1,
        l2 = 4 * blocks * visits * (c.Br + c.Bc) * p.d + S_bytes,
        dram = 4 * (heads * p.q + p.b * p.hk * p.k) * p.d + S_bytes,
      },
      { -- P = softmax(S): S is read three times (the later two from L2 where a tile's rows fit), written once
        blocks = blocks, threads = c.T, shared = 0, registers = registers,
        fma = 2 * visits * tile, ex2 = 2 * visits * tile, issue = 12 * visits * tile, steps = 3 * visits,
        l2 = 4 * S_bytes, dram = 2 * S_bytes,
      },
      { -- O = P V
        blocks = blocks, threads = c.T, shared = shared_output(c, p), registers = registers,
        fma = visits * tile * Dp, shared_bytes = visits * (simt.PV_bytes(c, p) + 4 * (c.Bc * p.dv + tile)),
        issue = visits * (2 * tile + simt.load_issue(c, c.Bc * p.dv)), steps = 2 * visits,
        l2 = S_bytes + 4 * blocks * (visits * c.Bc + c.Br) * p.dv,
        dram = S_bytes + 4 * (heads * p.q + p.b * p.hk * p.k) * p.dv,
      },
    }
  end,

  recipe = function(c, p, entry)
    local tiles = string.format("ceildiv(q,%d)*b*h", c.Br)
    return string.format("workspace 4*b*h*q*ceildiv(k,%d)*%d\n", c.Bc, c.Bc)
      .. string.format("launch %s grid %s*ceildiv(k,%d) block %d shared %d args call ws(0)\n", entry "scores", tiles,
        c.Bc, c.T, shared_scores(c, p))
      .. string.format("launch %s grid %s block %d shared 0 args call ws(0)\n", entry "softmax", tiles, c.T)
      .. string.format("launch %s grid %s block %d shared %d args call ws(0)\n", entry "output", tiles, c.T,
        shared_output(c, p))
  end,
}
