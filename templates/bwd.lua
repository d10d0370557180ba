-- bwd.lua -- the space, the needs and the three launches of bwd.cu.
local simt, mma, grad = include "lib/simt.lua", include "lib/mma.lua", include "lib/grad.lua"
local cores = include "lib/gradsimt.lua"

-- Where tiles lie in shared memory: K, V, Q, dO, LSE and D, dS, P. A held V leaves its place to those behind it.
local function places(c, p)
  local e, s = mma.bytes(p), grad.stages(c)
  local K, V = e * c.Bc * mma.Dp(p), e * c.Bc * mma.Dw(p)
  local at = { V = K, Q = c.V == 1 and K or K + V }
  at.dO = at.Q + s * e * c.Br * mma.Dp(p)
  at.LD = at.dO + s * e * c.Br * mma.Dw(p)
  at.dS = at.LD + s * 8 * c.Br
  at.P = at.dS + (c.G or 1 + c.q) * e * c.Bc * c.Br
  at.last = math.max(K + V, at.P + (grad.P_held(c) and c.A ~= 1 and 0 or e * c.Bc * c.Br))
  return at
end
local function shared(c, p) return places(c, p).last end

-- Bytes of dQ of one tile in the workspace.
local function dQ_bytes(c, p) return 4 * 32 * c.w * grad.sums_of(c.Br, p.d, c.w, c.wQ) end

-- Registers that a thread would like: dK and dV all the time; S and dP, or dQ; V where it is held; tiles on their way; the
-- rest. Of a half with tasks of its own dK or dV, fitted to what the compiler spilled of 813 configs (sm_90). An estimate for
-- pruning; the compiler's figure replaces it.
local function wants(c, p, g)
  local half = grad.sharers(c)
  local S, dQ = grad.sums_of(c.Bc, c.Br, half, c.wS), grad.sums_of(c.Br, p.d, c.w, c.wQ)
  local dK, dV = grad.sums_of(c.Bc, p.d, half, c.wK), grad.sums_of(c.Bc, p.dv, half, c.wK)
  if c.A == 1 then return math.max(dK, dV) + math.max(5 * S // 2, dQ + 3 * S // 2) + 34 end
  local V = c.V == 1 and c.Bc // (16 * c.wS) * mma.Dw(p) * mma.bytes(p) * (p.dtype == "f32x3" and 2 or 1) // 8 or 0
  return dK + dV + math.max(2 * S, dQ + S // 2) + V + grad.way(c, p, g, c.Br) + 44
end
local function registers(c, p, g) return math.min(wants(c, p, g), mma.most_registers(c)) end

local constraints = grad.constraints(wants, shared)
table.insert(constraints, { function(c) return c.q == 0 or grad.P_held(c) and c.s > 1 end,
  "dQ waits for the next step where nothing else needs the barrier: P in registers, and a tile ahead" })
table.insert(constraints, { function(c, p, g) return c.A == 0 or not mma.travels(c, p, g) and c.s > 0 and c.V + c.q == 0 end,
  "halves of a block with tasks of their own copy on their own, and have named barriers: sm_80, V in shared memory" })
table.insert(constraints, { function(c, p)
  return c.A == 0 or mma.bytes(p) == 2 and not (p.has.drop or p.has.softcap or p.has.dbias or p.keeps_slope)
end, "a half makes dS of P as it was rounded to 16 bits: no mark of dropped weights, no slope of scores, and nobody is told of it" })

-- What both halves launch: threads of a block and bytes of dQ of one tile, by config and problem.
local function recipe_of(tile_bytes)
  return function(c, p, g, entry)
    local tiles, tile = simt.row_tiles(c, p), tile_bytes(c, p)
    local threads, overlap = mma.threads(c), g.sm >= 90 and " overlap" or ""
    local dQ_LD = string.format("ws(0) ws(%s*%d)", tiles, tile)
    return string.format("workspace %s*%d\nreduces dQ\n", tiles, tile + 8 * c.Br) .. simt.zeros(c, p, entry, threads)
      .. string.format("launch %s grid %s block %d shared 0 args call %s\n", entry "prepare", tiles, threads, dQ_LD)
      .. string.format("launch %s grid %s block %d shared %d%s args call %s\n", entry "bwd", simt.tiles(p, "hk", "k", c.Bc), threads,
        shared(c, p), overlap, dQ_LD)
      .. string.format("launch %s grid %s block %d shared %d%s args call ws(0)\n", entry "finish", tiles, threads,
        mma.bytes(p) * c.Br * mma.Dp(p), overlap)
      .. simt.sinks(p, entry, threads, string.format(" ws(%s*%d)", tiles, tile))
  end
end

-- The work of the three launches: what is said of the products, and what they share.
local function work_of(c, p, tile, products)
  local e, Dp, Dw, S = mma.bytes(p), mma.Dp(p), mma.Dw(p), c.Br * c.Bc
  local blocks, tiles = p.b * p.hk * ceil_div(p.k, c.Bc), p.b * p.h * ceil_div(p.q, c.Br)
  local visits, rows = products.visits, c.Br * (Dp + Dw) * e
  products.blocks, products.threads, products.shared = blocks, mma.threads(c), shared(c, p)
  products.uneven, products.ex2 = simt.uneven(c, p), visits * S
  products.l2 = blocks * visits * (rows + tile) + blocks * c.Bc * (Dp + Dw) * e
  products.dram = e * (p.b * p.h * p.q + 2 * p.b * p.hk * p.k) * (p.d + p.dv) + tiles * tile
  return {
    grad.prepare_work(c, p, tile),
    products,
    { blocks = tiles, threads = mma.threads(c), shared = e * c.Br * Dp, registers = 80, visits = 1, steps = 2,
      fma = c.Br * Dp, issue = 2 * c.Br * Dp, l2 = tiles * (tile + c.Br * p.d * e),
      dram = tiles * tile + p.b * p.h * p.q * p.d * e },
  }
end

---- fp32 on CUDA cores -----------------------------------------------------------------------------------------------

local function core_dQ_bytes(c, p) return 4 * mma.threads(c) * cores.sums_of(c, c.Br, p.d, cores.lanes_Q(c)) end
local function core_registers(c, p, g) return math.min(cores.wants(c, p, g), mma.most_registers(c)) end

local on_cores = {
  tunables = cores.tunables("Br", "Bc", "w", "X", "Y", "G", "s", "b", "Z", "W"),
  constraints = cores.constraints(shared),
  threads = mma.threads,
  shared = shared,
  registers = core_registers,
  recipe = recipe_of(core_dQ_bytes),
  words = cores.words,

  -- The first that fits. Those for d 64, 128 and 256 were the fastest of what was tried on an H200 (7 to 14 configs each).
  defaults = grad.defaults({ "Br", "Bc", "w", "X", "Y", "G", "s", "b" }, { [2] = {}, [4] = {
    { 64, 64, 4, 16, 16, 1, 1, 2, 64 }, { 32, 64, 4, 8, 16, 1, 1, 2, 64 }, { 32, 32, 2, 8, 16, 1, 1, 1, 64 },
    { 32, 64, 4, 8, 16, 1, 1, 1, 128 }, { 16, 64, 4, 4, 16, 1, 1, 1, 128 },
    { 16, 32, 4, 4, 16, 1, 1, 1, 128 }, { 32, 64, 8, 8, 32, 2, 1, 1, 256 }, { 16, 32, 4, 4, 16, 1, 1, 1, 256 },
    { 16, 16, 2, 4, 16, 1, 1, 1, 256 }, { 16, 16, 4, 8, 32, 1, 0, 1, 256 }, { 16, 8, 2, 8, 16, 1, 0, 1, 256 },
  } }),

  constants = function(c, p)
    local rows = cores.constants(c, p)
    for _, row in ipairs(grad.places(places(c, p))) do rows[#rows + 1] = row end
    return rows
  end,

  work = function(c, p, g)
    local visits, S, D, Dv = grad.visits_of_keys(c, p), c.Br * c.Bc, mma.Dp(p), mma.Dw(p)
    local bytes = cores.product_bytes
    return work_of(c, p, core_dQ_bytes(c, p), { visits = visits, registers = core_registers(c, p, g),
      spills = 3 * math.max(0, cores.wants(c, p, g) - mma.most_registers(c)), steps = visits * (c.s > 1 and 2.3 or 4),
      fma = visits * S * (3 * D + 2 * Dv),
      shared_bytes = visits * (bytes(c, c.Bc, c.Br, D + Dv, c.X, c.G) + bytes(c, c.Bc, p.d, c.Br, c.Y, 1)
        + bytes(c, c.Bc, p.dv, c.Br, c.Y, 1) + bytes(c, c.Br, p.d, c.Bc, cores.lanes_Q(c), 1)
        + (c.G > 1 and 2 * 4 * c.G * S * 2 or 0)),
      issue = visits * (8 * S + 3 * c.Br * D + S * (3 * D + 2 * Dv) // 8) })
  end,
}

---- Tensor cores -----------------------------------------------------------------------------------------------------

-- Clocks of a step on tensor cores beside its products, in waits of the model: this, what `issue` says of S, dQ and shared memory,
-- and that a byte spilled moves twice in a step, were fitted to 550 timings of 16-bit configs with d 64, 128 and 192 on an H200.
local function waits(c) return c.A == 1 and (c.s > 1 and 1.2 or 2) or c.q == 1 and 3.3 or c.s > 1 and 3.1 or 4.3 end

-- Whether there are so few rows that warpgroups' tiles, of 64 rows, are slower than those of this kernel, where nothing is measured: their best takes
-- 1.2 to 1.9 times as long with up to 16 rows, with 32 rows and keys 1.1 to 1.7 above d 64; there 1.7 and 2.2 with 512 and 2,048 heads, 1.06 with fewer (188 shapes, H200).
local function is_tiny(p, g)
  return not p.has.det and (p.q <= 16 or math.max(p.q, p.k) <= 32 and (math.max(p.d, p.dv) > 64 or p.b * p.hk >= 2 * g.sms))
end

return {
  about = "FlashAttention-2 backward: one tile of K and V a block, one pass over the rows of Q; dQ by reductions",
  picked = true,
  prefer = function(p, g) return is_tiny(p, g) and 4 or 1 end, -- bwd_pair has 3
  serves = { op = "bwd", dtypes = { "f16", "bf16", "f32", "tf32", "f32x3" }, features = grad.features, sm = 75 },
  lists = simt.lists "rows",
  on = function(p) return p.dtype == "f32" and on_cores end,
  tunables = grad.tunables("Br", "Bc", "w", "A", "wS", "wK", "wQ", "s", "V", "q", "b", "Z", "U", "W"),
  constraints = constraints,
  threads = mma.threads,
  shared = shared,
  registers = registers,

  -- The first that fits. Of 16 bits: 32 keys of a warp while d leaves it the registers, halves with tasks of their own above
  -- that (the best of 49 to 293 configs for each d in an A100's or RTX 4090's shared memory, by PTX on an H200: h200-bwd-half.tsv),
  -- then, where P must be exact, as many keys of a block as shared memory holds; those with one tile of Q (s = 1) are for Turing; the
  -- last two for its d above 176. Bytes that threads spill, stored: on sm_80 12 to 44 at d 64 to 96 and 84 at d 192, in 99 KB 40 at
  -- d 256 and 168 to 212 at d 128; else none but f32 tensors' above d 192.
  -- Before them those of few rows: up to 24 and 32, and as many keys, within 1 to 7 % of the best of 79 shapes by lot (H200), up to 16 on more keys within
  -- 4 % of 25.
  defaults = grad.defaults({ "Br", "Bc", "w", "A", "wS", "wK", "wQ", "s", "V", "q", "U", "b" }, { [2] = {
    { 16, 32, 4, 1, 2, 2, 1, 2, 0, 0, 0, 1, 128, 24, 24 }, { 16, 32, 4, 1, 2, 1, 1, 2, 0, 0, 0, 1, 256, 16, 16 },
    { 32, 32, 4, 1, 1, 1, 1, 2, 0, 0, 0, 1, 128, 32, 32 }, { 32, 16, 4, 1, 1, 1, 1, 2, 0, 0, 0, 1, 256, 32, 32 },
    { 16, 128, 4, 1, 2, 2, 1, 2, 0, 0, 0, 1, 64, 16 }, { 16, 96, 6, 1, 3, 3, 1, 2, 0, 0, 0, 2, 96, 16 },
    { 16, 64, 4, 1, 2, 2, 1, 2, 0, 0, 0, 1, 128, 16 }, { 16, 64, 8, 1, 4, 1, 1, 2, 0, 0, 0, 1, 256, 16 },
    { 16, 32, 4, 1, 2, 1, 1, 2, 0, 0, 0, 1, 256, 16 },
    { 32, 128, 4, 0, 4, 4, 1, 2, 0, 1, 0, 2, 64 }, { 64, 128, 8, 0, 8, 8, 2, 2, 0, 1, 0, 1, 64 },
    { 32, 128, 4, 0, 4, 4, 1, 2, 0, 1, 2, 2, 80 }, { 64, 128, 8, 1, 4, 4, 4, 2, 0, 0, 0, 1, 96 },
    { 64, 96, 8, 1, 2, 2, 1, 2, 0, 0, 0, 1, 128 }, { 64, 96, 8, 1, 2, 2, 4, 1, 0, 0, 0, 1, 160 },
    { 64, 96, 8, 1, 2, 1, 2, 1, 0, 0, 0, 1, 192 }, { 64, 64, 4, 1, 2, 1, 1, 1, 0, 0, 0, 1, 128 },
    { 64, 64, 8, 1, 2, 1, 1, 1, 0, 0, 0, 1, 256 }, { 32, 32, 4, 1, 1, 1, 1, 1, 0, 0, 0, 1, 256 },
    { 64, 128, 8, 0, 8, 8, 2, 2, 0, 1, 2, 1, 128 }, { 32, 128, 8, 0, 8, 8, 2, 2, 0, 0, 0, 1, 96 },
    { 32, 96, 6, 0, 6, 6, 2, 2, 0, 1, 2, 1, 128 }, { 64, 64, 8, 0, 4, 4, 2, 2, 0, 0, 0, 1, 160 },
    { 64, 64, 8, 0, 4, 2, 2, 2, 0, 0, 0, 1, 192 }, { 32, 64, 8, 0, 4, 2, 2, 2, 0, 0, 0, 1, 256 },
    { 64, 64, 8, 0, 4, 4, 2, 1, 0, 0, 0, 1, 64 }, { 32, 64, 8, 0, 4, 4, 2, 1, 0, 0, 0, 1, 128 },
    { 32, 64, 8, 0, 4, 2, 2, 1, 0, 0, 0, 1, 192 }, { 32, 48, 6, 0, 3, 3, 2, 1, 0, 0, 2, 1, 176 },
    { 32, 48, 6, 0, 3, 3, 2, 0, 0, 0, 2, 1, 256 }, { 32, 48, 6, 0, 3, 3, 2, 1, 0, 0, 2, 1, 256 },
    { 32, 32, 8, 0, 2, 1, 2, 1, 0, 0, 0, 1, 256 }, { 32, 32, 8, 0, 2, 1, 2, 0, 1, 0, 0, 1, 256 },
  }, [4] = {
    { 32, 128, 8, 0, 8, 8, 2, 2, 0, 1, 0, 1, 64 }, { 32, 64, 8, 0, 4, 4, 2, 2, 0, 0, 0, 1, 128 },
    { 32, 48, 6, 0, 3, 3, 2, 1, 0, 0, 2, 1, 128 }, { 32, 64, 8, 0, 4, 2, 2, 1, 0, 0, 2, 1, 256 },
    { 32, 32, 4, 0, 2, 2, 2, 1, 0, 0, 2, 1, 256 }, { 32, 16, 2, 0, 1, 1, 2, 1, 0, 0, 2, 1, 256 },
  } }),

  words = function(c, p, g)
    local words = grad.words(c, p, g)
    words.V_held, words.dQ_late, words.apart = c.V == 1, c.q == 1, c.A == 1
    return words
  end,

  constants = function(c, p)
    local rows = grad.constants(c, p)
    rows[#rows + 1] = { "dS_tiles", 1 + c.q, "tiles of dS in shared memory" }
    for _, row in ipairs(grad.places(places(c, p))) do rows[#rows + 1] = row end
    return rows
  end,

  recipe = recipe_of(dQ_bytes),

  work = function(c, p, g)
    local visits, Dp, Dw, e = grad.visits_of_keys(c, p), mma.Dp(p), mma.Dw(p), mma.bytes(p)
    local S, rows = c.Br * c.Bc, c.Br * (Dp + Dw) * e
    local dQ = c.w // c.wQ * S * e + c.wQ * c.Bc * Dp * e
    local launches = work_of(c, p, dQ_bytes(c, p), { visits = visits, registers = registers(c, p, g),
      spills = 3 * math.max(0, wants(c, p, g) - mma.most_registers(c)), steps = visits * waits(c),
      tensor = visits * 2 * S * (3 * Dp + 2 * Dw) * grad.rate(p, g), fma = visits * 3 * S,
      shared_bytes = visits * (grad.key_bytes(c, p) + dQ + rows + S * e),
      issue = visits * (9 * S + 10 * c.Br * Dp + (grad.key_bytes(c, p) + dQ + rows + S * e) // 4
        + grad.conversions(c, p, grad.key_bytes(c, p) + dQ)) })
    launches[2].visits = 2 * visits -- of what is spilled
    return launches
  end,
}
