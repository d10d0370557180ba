-- fwd_ws.lua -- the space, the needs and the launch of fwd_ws.cu.
local simt, ws = include "lib/simt.lua", include "lib/ws.lua"

return {
  about = "FlashAttention-3 forward: one warpgroup copies, the others compute; for Hopper",
  picked = true, -- a call may be given this kernel unasked
  serves = { op = "fwd", dtypes = { "f16", "bf16" }, features = { "causal" }, sm = 90, sm_last = 90 },
  tunables = ws.tunables,
  defaults = ws.defaults,
  words = ws.words,
  constants = ws.constants,
  constraints = ws.constraints,
  threads = ws.threads,
  shared = ws.shared,
  registers = ws.registers,

  work = function(c, p, g)
    local visits, row, Tr = simt.visits(c, p), p.d + p.dv, ceil_div(p.q, c.Br)
    local blocks = Tr * p.b * p.h
    local Dp, Do = ceil_div(p.d, 16) * 16, ws.Do(p)
    local products = c.Br // 64 * (Dp // 16 * (64 + c.Bc) * 32 + c.Bc // 16 * Do * 32) -- bytes read by them
    return {
      {
        blocks = blocks, threads = ws.threads(c), shared = ws.shared(c, p), registers = ws.registers(c),
        tensor = visits * 2 * c.Br * c.Bc * (Dp + Do),
        fma = visits * c.Br * (c.Bc + p.dv),
        ex2 = visits * c.Br * (c.Bc + 4),
        shared_bytes = visits * (products + 2 * c.Bc * row),
        issue = visits * 4 * c.Br * c.Bc,
        steps = visits,
        l2 = 2 * blocks * (visits * c.Bc + c.Br) * row,
        dram = 2 * (p.b * p.h * p.q + p.b * p.hk * p.k) * row,
      },
    }
  end,

  recipe = function(c, p, g, entry)
    return string.format(
      "launch %s grid min(SMs,ceildiv(q,%d)*b*h) block %d shared %d args call mapQ(%d) mapK(%d) mapV(%d) mapO(16)\n",
      entry "fwd_ws", c.Br, ws.threads(c), ws.shared(c, p), c.Br, c.Bc, c.Bc)
  end,
}
