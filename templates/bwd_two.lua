-- bwd_two.lua -- the space, the needs and the three launches of bwd_two.cu.
local simt, mma, grad = include "lib/simt.lua", include "lib/mma.lua", include "lib/grad.lua"

-- Where tiles lie in shared memory. In `keys` K, V, then Q, dO, LSE and D of some steps, dS, P; in `queries` Q, dO, then K
-- and V of some steps.
local function places(c, p)
  local e, s = mma.bytes(p), grad.stages(c)
  local K, V, Q, dO = e * c.Bc * mma.Dp(p), e * c.Bc * mma.Dw(p), e * c.Br * mma.Dp(p), e * c.Br * mma.Dw(p)
  local at = { V = K, Q = K + V, own_dO = Q, K_ring = Q + dO }
  at.dO = at.Q + s * Q
  at.LD = at.dO + s * dO
  at.dS = at.LD + s * 8 * c.Br
  at.P = at.dS + (grad.P_held(c) and 0 or e * c.Bc * c.Br)
  at.V_ring = at.K_ring + s * K
  at.keys_last = at.P + (grad.P_held(c) and 0 or e * c.Bc * c.Br)
  at.queries_last = at.V_ring + s * V
  return at
end
local function shared(c, p)
  local at = places(c, p)
  return math.max(at.keys_last, at.queries_last)
end

-- Registers that a thread would like, of either kernel. An estimate for pruning; the compiler's figure replaces it.
local function keys_want(c, p, g)
  return grad.sums_of(c.Bc, p.d, c.w, c.wK) + grad.sums_of(c.Bc, p.dv, c.w, c.wK)
    + 2 * grad.sums_of(c.Bc, c.Br, c.w, c.wS) + grad.way(c, p, g, c.Br) + 44
end
local function queries_want(c, p, g)
  return grad.sums_of(c.Br, p.d, c.w, c.w) + 2 * grad.sums_of(c.Br, c.Bc, c.w, c.w) + grad.way(c, p, g, c.Bc) + 44
end
local function wants(c, p, g) return math.max(keys_want(c, p, g), queries_want(c, p, g)) end
local function registers(c, p, g) return math.min(wants(c, p, g), mma.most_registers(c)) end

return {
  about = "FlashAttention-2 backward in two kernels, one for dK and dV, one for dQ: no reductions, equal bits",
  picked = true,
  serves = { op = "bwd", dtypes = { "f16", "bf16", "tf32", "f32x3" }, features = grad.features_and "det", sm = 75 },
  lists = simt.lists "both",
  tunables = grad.tunables("Br", "Bc", "w", "wS", "wK", "s", "b", "Z", "U", "W"),
  constraints = grad.constraints(wants, shared),
  threads = mma.threads,
  shared = shared,
  registers = registers,

  -- The first that fits; where tiles are fetched behind a step, for Turing.
  defaults = grad.defaults({ "Br", "Bc", "w", "wS", "wK", "s", "U", "b" }, { [2] = {
    { 64, 64, 4, 4, 4, 2, 0, 1, 64 }, { 64, 64, 4, 4, 4, 1, 2, 1, 64 }, { 64, 64, 4, 4, 4, 0, 2, 1, 128 },
    { 64, 64, 4, 4, 4, 1, 2, 1, 128 }, { 64, 32, 4, 2, 2, 2, 0, 1, 256 }, { 64, 32, 4, 2, 1, 1, 0, 1, 128 },
    { 64, 32, 4, 2, 1, 0, 0, 1, 256 }, { 64, 32, 4, 2, 1, 1, 0, 1, 256 }, { 64, 16, 4, 1, 1, 0, 0, 1, 256 },
    { 64, 16, 4, 1, 1, 1, 0, 1, 256 }, { 32, 16, 2, 1, 1, 0, 0, 1, 256 }, { 32, 16, 2, 1, 1, 1, 0, 1, 256 },
  }, [4] = {
    { 64, 64, 4, 4, 4, 1, 2, 1, 64 }, { 64, 32, 4, 2, 2, 1, 2, 1, 128 }, { 64, 16, 4, 1, 1, 1, 0, 1, 256 },
    { 32, 16, 2, 1, 1, 1, 2, 1, 256 },
  } }),

  words = grad.words,

  constants = function(c, p)
    local rows = grad.constants(c, p)
    for _, row in ipairs(grad.places(places(c, p))) do rows[#rows + 1] = row end
    return rows
  end,

  recipe = function(c, p, g, entry)
    local tiles, at = simt.row_tiles(c, p), places(c, p)
    local threads, overlap = mma.threads(c), g.sm >= 90 and " overlap" or ""
    return string.format("workspace %s*%d\n", tiles, 8 * c.Br) .. simt.zeros(c, p, entry, threads)
      .. string.format("launch %s grid %s block %d shared 0 args call ws(0)\n", entry "prepare", tiles, threads)
      .. string.format("launch %s grid %s block %d shared %d%s args call ws(0)\n", entry "keys", simt.tiles(p, "hk", "k", c.Bc), threads,
        at.keys_last, overlap)
      .. string.format("launch %s grid %s block %d shared %d args call ws(0)\n", entry "queries", tiles, threads,
        at.queries_last)
      .. simt.sinks(p, entry, threads, " ws(0)")
  end,

  work = function(c, p, g)
    local Dp, Dw, e, S = mma.Dp(p), mma.Dw(p), mma.bytes(p), c.Br * c.Bc
    local blocks, tiles = p.b * p.hk * ceil_div(p.k, c.Bc), p.b * p.h * ceil_div(p.q, c.Br)
    local rows, keys, at = c.Br * (Dp + Dw) * e, c.Bc * (Dp + Dw) * e, places(c, p)
    local function launch(wants, visits, of)
      of.threads, of.registers = mma.threads(c), math.min(wants(c, p, g), mma.most_registers(c))
      of.spills, of.uneven = 3 * math.max(0, wants(c, p, g) - mma.most_registers(c)), simt.uneven(c, p)
      of.visits, of.steps, of.ex2, of.fma = visits, visits * (c.s > 1 and 1.3 or 4), visits * S, visits * 3 * S
      of.dram = e * (p.b * p.h * p.q + p.b * p.hk * p.k) * (p.d + p.dv)
      return of
    end
    local of_keys, of_rows = grad.visits_of_keys(c, p), simt.visits(c, p)
    return {
      grad.prepare_work(c, p, 0),
      launch(keys_want, of_keys, { blocks = blocks, shared = at.keys_last,
        tensor = of_keys * 4 * S * (Dp + Dw) * grad.rate(p, g), shared_bytes = of_keys * (grad.key_bytes(c, p) + rows),
        issue = of_keys * (3 * S + rows // 4 + grad.conversions(c, p, grad.key_bytes(c, p))), l2 = blocks * (of_keys * rows + 2 * keys) }),
      launch(queries_want, of_rows, { blocks = tiles, shared = at.queries_last,
        tensor = of_rows * 2 * S * (2 * Dp + Dw) * grad.rate(p, g),
        shared_bytes = of_rows * (rows + c.w * c.Bc * (2 * Dp + Dw) * e + keys),
        issue = of_rows * (3 * S + keys // 4 + grad.conversions(c, p, c.w * c.Bc * (2 * Dp + Dw) * e)), l2 = tiles * (of_rows * keys + 2 * rows) }),
    }
  end,
}
