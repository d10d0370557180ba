-- bwd.lua -- the space, the needs and the three launches of bwd.cu.
local simt, mma = include "lib/simt.lua", include "lib/mma.lua"

local tunables = {
  { "Br", { 16, 32, 64, 128 }, "rows of Q and dO of one tile" },
  { "Bc", { 16, 32, 48, 64, 96, 128 }, "rows of K and V of one tile, which a block keeps" },
  { "w", { 1, 2, 4, 6, 8 }, "warps of a block" },
  { "wS", { 1, 2, 3, 4, 6, 8 }, "warps that share the keys of S and dP; the others share their rows of Q" },
  { "wK", { 1, 2, 3, 4, 6, 8 }, "warps that share the rows of dK and dV; the others share their columns" },
  { "wQ", { 1, 2, 4, 8 }, "warps that share the rows of dQ; the others share its columns" },
  { "s", { 1, 2, 3 }, "tiles of Q and of dO in shared memory" },
  { "V", { 0, 1 }, "V is read from 0 = shared memory, 1 = registers, and Q and dO lie where it lay" },
  { "q", { 0, 1 }, "dQ of a tile is made 0 = in its own step, behind a barrier, 1 = in the next, without one" },
  { "b", { 1, 2 }, "blocks of an SM that the registers of a thread must leave room for" },
  { "Z", { 1, 8, 64 }, "heads whose tiles of K start together, the longest first" },
  { "U", { 0, 2, 4 }, "steps of 16 columns of S and dP that are laid out one after another; 0 = all of them" },
  { "W", { 1, 16 }, "bytes that tensors are aligned to: 16, or 1 = elements one by one", { 16 } },
}

local travels = mma.travels
-- P^T and dS^T go from registers into products where a warp has whole rows of them, and of dK and dV.
local function P_held(c) return c.wS == c.w and c.wK == c.w end

-- Where tiles lie in shared memory: K, V, Q, dO, LSE and D, dS, P. A held V leaves its place to those behind it.
local function places(c, p)
  local e = mma.bytes(p)
  local K, V = e * c.Bc * mma.Dp(p), e * c.Bc * mma.Dw(p)
  local at = { V = K, Q = c.V == 1 and K or K + V }
  at.dO = at.Q + c.s * e * c.Br * mma.Dp(p)
  at.LD = at.dO + c.s * e * c.Br * mma.Dw(p)
  at.dS = at.LD + c.s * 8 * c.Br
  at.P = at.dS + (1 + c.q) * e * c.Bc * c.Br
  at.last = math.max(K + V, at.P + (P_held(c) and 0 or e * c.Bc * c.Br))
  return at
end
local function shared(c, p) return places(c, p).last end

-- Columns of an accumulator's row that a thread's warp has.
local function columns_of_warp(columns, across)
  return across == 1 and columns or 16 * ceil_div(columns, 16 * across)
end
local function sums_of(rows, columns, w, down) -- registers of an accumulator
  return rows // (8 * down) * columns_of_warp(columns, w // down) // 4
end
local function dQ_bytes(c, p) return 4 * 32 * c.w * sums_of(c.Br, p.d, c.w, c.wQ) end -- of one tile, in the workspace

-- Registers that a thread would like: dK and dV all the time; S and dP, or dQ; V where it is held; tiles on their way; the
-- rest. An estimate for pruning; the compiler's figure replaces it.
local function wants(c, p, g)
  local S = sums_of(c.Bc, c.Br, c.w, c.wS)
  local kept = sums_of(c.Bc, p.d, c.w, c.wK) + sums_of(c.Bc, p.dv, c.w, c.wK)
  local V = c.V == 1 and c.Bc // (16 * c.wS) * mma.Dw(p) // 4 or 0
  local way = travels(c, p, g) and c.Br * (mma.Dp(p) + mma.Dw(p)) * mma.bytes(p) // (4 * mma.threads(c)) or 0
  return kept + math.max(2 * S, sums_of(c.Br, p.d, c.w, c.wQ) + S // 2) + V + way + 44
end
local function registers(c, p, g) return math.min(wants(c, p, g), mma.most_registers(c)) end

local constraints = {
  { function(c) return c.w % c.wS == 0 and c.w % c.wK == 0 and c.w % c.wQ == 0 end,
    "warps stand as a grid: those that share rows (wS, wK, wQ) divide all (w)" },
  { function(c) return c.Bc % (16 * c.wS) == 0 and c.Br % (16 * (c.w // c.wS)) == 0 end,
    "a warp owns whole blocks of 16 keys and 16 rows of S (Bc/wS, Br/(w/wS))" },
  { function(c) return c.Bc % (16 * c.wK) == 0 end, "a warp owns whole blocks of 16 rows of dK and dV (Bc/wK)" },
  { function(c) return c.Br % (16 * c.wQ) == 0 end, "a warp owns whole blocks of 16 rows of dQ (Br/wQ)" },
  { function(c, p) return math.min(mma.Dp(p), mma.Dw(p)) >= 16 * (c.w // c.wK) and mma.Dp(p) >= 16 * (c.w // c.wQ) end,
    "each warp has columns of dK, dV and dQ (16 for each of w/wK, w/wQ)", walk = true },
  { function(c, p) return math.max(mma.Dp(p), mma.Dw(p)) // mma.chunk(p) <= mma.threads(c) end,
    "a row of a tile has at most one chunk of 16 bytes for each thread" },
  { function(c) return c.Br <= 2 * mma.threads(c) end, "LSE and D of two rows are one copy of a thread" },
  { function(c, p, g) return c.s == 1 or not travels(c, p, g) end,
    "more than one tile ahead needs asynchronous copies: sm_80, and tensors aligned to 16 bytes" },
  { function(c) return c.q == 0 or P_held(c) and c.s > 1 end,
    "dQ waits for the next step where nothing else needs the barrier: P in registers, and a tile ahead" },
  { function(c, p) return 16 * c.U < math.max(mma.Dp(p), mma.Dw(p)) end,
    "some steps of S and dP in a loop: there are more" },
  { function(c, p) return p.uneven or c.Z == 1 end, "tiles of K differ in length only under a mask" },
  { function(c, p, g) return wants(c, p, g) <= mma.most_registers(c) + 120 end,
    "accumulators and operands of a thread fit its registers, or nearly" },
  { function(c, p, g) return wants(c, p, g) <= mma.most_registers(c) + 8 end,
    "accumulators and operands of a thread fit its registers", walk = true },
  { function(c, p, g) return c.b * (shared(c, p) + g.shared_reserved) <= g.shared_sm end,
    "the blocks of an SM fit its shared memory" },
  { function(c, p, g) return c.b * mma.threads(c) <= g.threads_sm end, "the blocks of an SM fit its threads" },
}

-- The first that fits: Br, Bc, w, wS, wK, wQ, s, V, q, U, b, and the largest d it is meant for. 32 keys of a
-- warp while d leaves it the registers, then as many keys of a block as shared memory holds; the last four are Turing's. None
-- spills, but those of Turing for d above 160.
local defaults = {}
for _, row in ipairs {
  { 32, 128, 4, 4, 4, 2, 2, 0, 1, 2, 2, 64 }, { 64, 128, 8, 8, 8, 2, 2, 0, 1, 0, 1, 64 },
  { 64, 128, 8, 8, 8, 2, 2, 0, 1, 2, 1, 128 }, { 32, 128, 8, 8, 8, 2, 2, 0, 0, 0, 1, 96 },
  { 32, 128, 8, 8, 8, 2, 2, 1, 0, 4, 1, 128 }, { 64, 64, 8, 4, 4, 2, 2, 0, 0, 0, 1, 160 },
  { 64, 64, 8, 4, 2, 2, 2, 0, 0, 0, 1, 192 }, { 32, 64, 8, 4, 4, 2, 2, 0, 0, 0, 1, 256 },
  { 32, 64, 8, 4, 2, 2, 1, 0, 0, 0, 1, 192 }, { 32, 48, 6, 3, 3, 2, 1, 0, 0, 2, 1, 256 },
  { 64, 64, 8, 4, 4, 2, 1, 0, 0, 0, 1, 64 }, { 32, 64, 8, 4, 4, 2, 1, 0, 0, 0, 1, 128 },
  { 32, 64, 8, 4, 4, 2, 1, 1, 0, 0, 1, 192 }, { 32, 32, 4, 2, 1, 2, 1, 1, 0, 0, 1, 256 },
} do
  for _, Z in ipairs { 8, 1 } do -- the former under a causal mask
    defaults[#defaults + 1] = { Br = row[1], Bc = row[2], w = row[3], wS = row[4], wK = row[5], wQ = row[6], s = row[7],
      V = row[8], q = row[9], U = row[10], b = row[11], most = row[12], Z = Z, W = 16 }
  end
end

return {
  about = "FlashAttention-2 backward: one tile of K and V a block, one pass over the rows of Q; dQ by reductions",
  picked = true,
  serves = { op = "bwd", dtypes = { "f16", "bf16" }, features = { "causal", "w" }, sm = 75 },
  tunables = tunables,
  defaults = defaults,
  constraints = constraints,
  threads = mma.threads,
  shared = shared,
  registers = registers,

  words = function(c, p, g)
    return { libs = { "lib/args.h", "lib/hooks.cuh", "lib/softmax.cuh", "lib/fragments.cuh", "lib/mma.cuh", "lib/half.cuh",
        "lib/grid.cuh", "lib/grad.cuh" },
      travels = travels(c, p, g), dtype = p.dtype, slices = 1, packed = false, aligned = c.W, unrolled = c.U, blocks_of_sm = c.b,
      overlaps = g.sm >= 90, P_held = P_held(c), V_held = c.V == 1, dQ_late = c.q == 1,
      schedule = c.s > 1 and "in_flight" or travels(c, p, g) and "carried" or "alone" }
  end,

  constants = function(c, p)
    local at = places(c, p)
    return {
      { "Br", c.Br, "rows of Q of one tile" },
      { "Bc", c.Bc, "rows of K and V of one tile" },
      { "T", mma.threads(c), "threads of a block" },
      { "warps", c.w, "warps of a block" },
      { "down_S", c.wS, "warps that share the keys of S" },
      { "down_K", c.wK, "warps that share the rows of dK and dV" },
      { "down_Q", c.wQ, "warps that share the rows of dQ" },
      { "X", 4, "lanes that share a row" },
      { "per_chunk", mma.chunk(p), "elements of a chunk of 16 bytes" },
      { "D", p.d, "head dimension of Q and K" },
      { "Dv", p.dv, "head dimension of V and O" },
      { "Dp", mma.Dp(p), "columns of Q and K in shared memory" },
      { "Dw", mma.Dw(p), "columns of V and dO in shared memory" },
      { "stages", c.s, "tiles of Q and of dO in shared memory" },
      { "dS_tiles", 1 + c.q, "tiles of dS in shared memory" },
      { "at_V", at.V, "where V lies in shared memory, bytes" },
      { "at_Q", at.Q, "where Q lies in shared memory, bytes" },
      { "at_dO", at.dO, "where dO lies in shared memory, bytes" },
      { "at_LD", at.LD, "where LSE and D lie in shared memory, bytes" },
      { "at_dS", at.dS, "where dS lies in shared memory, bytes" },
      { "at_P", at.P, "where P lies in shared memory, bytes" },
      { "Z", c.Z, "heads whose tiles of K start together" },
    }
  end,

  recipe = function(c, p, g, entry)
    local tiles, tile, e = string.format("b*h*ceildiv(q,%d)", c.Br), dQ_bytes(c, p), mma.bytes(p)
    local threads, overlap = mma.threads(c), g.sm >= 90 and " overlap" or ""
    local dQ_LD = string.format("ws(0) ws(%s*%d)", tiles, tile)
    return string.format("workspace %s*%d\n", tiles, tile + 8 * c.Br)
      .. string.format("launch %s grid %s block %d shared 0 args call %s\n", entry "prepare", tiles, threads, dQ_LD)
      .. string.format("launch %s grid ceildiv(k,%d)*b*hk block %d shared %d%s args call %s\n", entry "bwd", c.Bc, threads,
        shared(c, p), overlap, dQ_LD)
      .. string.format("launch %s grid %s block %d shared %d%s args call ws(0)\n", entry "finish", tiles, threads,
        e * c.Br * mma.Dp(p), overlap)
  end,

  work = function(c, p, g)
    local visits = simt.visits(c, p) * ceil_div(p.q, c.Br) * p.h // p.hk / ceil_div(p.k, c.Bc) -- of a block
    local Dp, Dw, e, tile, S = mma.Dp(p), mma.Dw(p), mma.bytes(p), dQ_bytes(c, p), c.Br * c.Bc
    local blocks, tiles = p.b * p.hk * ceil_div(p.k, c.Bc), p.b * p.h * ceil_div(p.q, c.Br)
    local half = g.sm >= 90 and g.sm < 120 and 2 or 1
    local across_S, across_K, across_Q = c.w // c.wS, c.w // c.wK, c.w // c.wQ
    local rows, keys = c.Br * (Dp + Dw) * e, c.Bc * (Dp + Dw) * e
    local products = across_S * keys + c.wS * rows -- S, dP
      + (P_held(c) and 0 or 2 * across_K * S * e) + c.wK * rows -- dV, dK
      + across_Q * S * e + c.wQ * c.Bc * Dp * e -- dQ
    return {
      { blocks = tiles, threads = mma.threads(c), shared = 0, registers = 40, visits = 1, steps = 2,
        fma = c.Br * p.dv, issue = c.Br * p.dv, l2 = tiles * (2 * c.Br * p.dv * e + tile),
        dram = p.b * p.h * p.q * 2 * p.dv * e + tiles * tile },
      { blocks = blocks, threads = mma.threads(c), shared = shared(c, p), registers = registers(c, p, g), visits = visits,
        uneven = simt.uneven(c, p), spills = 3 * math.max(0, wants(c, p, g) - mma.most_registers(c)),
        steps = visits * (c.q == 1 and 1.3 or c.s > 1 and 2.3 or 4),
        tensor = visits * 2 * S * (3 * Dp + 2 * Dw) * half, fma = visits * 3 * S, ex2 = visits * S,
        shared_bytes = visits * (products + rows + 2 * S * e), issue = visits * (3 * S + c.Br * Dp + rows // 4),
        l2 = blocks * visits * (rows + tile) + blocks * keys,
        dram = e * (p.b * p.h * p.q + 2 * p.b * p.hk * p.k) * (p.d + p.dv) + tiles * tile },
      { blocks = tiles, threads = mma.threads(c), shared = e * c.Br * Dp, registers = 80, visits = 1, steps = 2,
        fma = c.Br * Dp, issue = 2 * c.Br * Dp, l2 = tiles * (tile + c.Br * p.d * e),
        dram = tiles * tile + p.b * p.h * p.q * p.d * e },
    }
  end,
}
