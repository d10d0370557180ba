-- bwd_ws.lua -- the space, the needs and the three launches of bwd_ws.cu.
local simt, grad = include "lib/simt.lua", include "lib/grad.lua"

local function up(x, y) return ceil_div(x, y) * y end
local function boxes(d) return ceil_div(d, 64) end
local function consumers(c) return c.Bc // 64 end
local function threads(c) return 128 * (1 + consumers(c)) end
-- Registers of a thread that copies and of one that computes: 64 K of an SM, in steps of 8.
local registers_of = { { 24, 232 }, { 24, 240 }, { 32, 160 } }

-- Who makes dQ of a tile: each warpgroup its rows or its columns, or they take turns.
local function dQ_share(c, p)
  if c.G == 1 then return "turns" end
  return c.Br == c.Bc and "rows" or "columns"
end
local function dQ_columns(c, p) return dQ_share(c, p) == "columns" and p.d // consumers(c) or p.d end

-- Where tiles lie in shared memory.
local function places(c, p)
  local at = { V = consumers(c) * boxes(p.d) * 8192 }
  at.Q = at.V + consumers(c) * boxes(p.dv) * 8192
  at.dO = at.Q + c.s * boxes(p.d) * 128 * c.Br
  at.dS = at.dO + c.s * boxes(p.dv) * 128 * c.Br
  at.dQ = at.dS + c.t * consumers(c) * 128 * c.Br
  at.LD = at.dQ + (c.R == 0 and consumers(c) * 256 * dQ_columns(c, p) or 0)
  at.signals = at.LD + c.s * 8 * c.Br
  at.last = at.signals + 8 * (2 + 5 * c.s + 2 * c.t)
  return at
end
local function shared(c, p) return places(c, p).last end

-- Registers that a thread which computes needs: dK and dV, K and V where they are held, and what lives at once of S, dP,
-- dQ and the operands made of them; the rest.
local function needs(c, p)
  local kept = p.d // 2 + p.dv // 2 + (c.H & 1) * up(p.d, 16) // 4 + (c.H >> 1) * up(p.dv, 16) // 4
  local softmax, dQ = c.Br // 2 * 2 + c.Br // 4, (c.S == 1 and c.Br // 2 or 0) + dQ_columns(c, p) // 2 + c.Br // 4
  return kept + math.max(softmax, dQ) + 14
end

return {
  about = "FlashAttention-2 backward for Hopper: one warpgroup copies, the others compute; dQ by asynchronous reductions",
  picked = true,
  prefer = 2,
  twin = "bwd", -- TMA reads only what is 16-byte aligned: other tensors are that kernel's
  serves = { op = "bwd", dtypes = { "f16", "bf16" }, features = simt.closed_and("dsink"), sm = 90, sm_last = 90 },
  tunables = {
    { "Br", { 64, 128 }, "rows of Q and dO of one tile" },
    { "Bc", { 64, 128, 192 }, "rows of K and V of one tile: 64 for each warpgroup that computes" },
    { "s", { 2, 3 }, "tiles of Q and of dO in shared memory" },
    { "t", { 1, 2, 3 }, "tiles of dS in shared memory" },
    { "S", { 0, 1 }, "S of a tile starts 0 = in its own step, 1 = in the step before, behind dS" },
    { "q", { 0, 1 }, "dQ of a tile is made 0 = in its own step, 1 = in the next" },
    { "G", { 0, 1 }, "dQ of a tile is made by 0 = all warpgroups, 1 = one of them, in turns" },
    { "R", { 0, 1 }, "dQ is added to its sums 0 = from shared memory, by copies, 1 = from registers" },
    { "H", { 0, 1, 2, 3 }, "held in registers: 1 = K, 2 = V, 3 = both" },
    { "P", { 0, 1 }, "operands made of P and of dS have 0 = registers of their own, 1 = the same, dV being done before dS is rounded" },
    { "Z", { 1, 8, 64 }, "heads whose tiles start together, the longest first" },
  },
  constraints = {
    { function(c, p) return c.G == 1 and c.Br == 64 or c.G == 0 and (c.Br == c.Bc or c.Br == 64 and p.d % (64 * consumers(c)) == 0) end,
      "dQ is shared out by whole 64 rows or by whole boxes of 64 columns, or made of 64 rows in turns" },
    { function(c) return c.G == 0 or c.Bc > 64 end, "it takes two to take turns" },
    { function(c) return c.t > c.q end, "dS that is read a step late lies beside that of the step" },
    { function(c, p) return needs(c, p) <= registers_of[consumers(c)][2] end, "accumulators and operands of a thread fit its registers" },
    { function(c, p) return math.max(c.Br, p.d, p.dv) // 2 + 26 <= 65536 // threads(c) // 8 * 8 end,
      "what one product writes fits the registers of a thread before they move" },
    { function(c, p) return p.uneven or c.Z == 1 end, "tiles differ in length only under a mask" },
  },
  threads = threads,
  shared = shared,
  registers = function(c) return 65536 // threads(c) // 8 * 8 end,

  defaults = (function()
    local all = {}
    for _, row in ipairs {
      { Br = 128, Bc = 128, s = 2, t = 1, S = 0, q = 0, G = 0, R = 0, H = 0, P = 0, most = 64 },
      { Br = 64, Bc = 128, s = 2, t = 2, S = 1, q = 1, G = 1, R = 0, H = 0, P = 1, most = 96 },
      { Br = 64, Bc = 128, s = 2, t = 2, S = 1, q = 1, G = 0, R = 0, H = 0, P = 1, most = 128 },
      { Br = 64, Bc = 128, s = 2, t = 2, S = 1, q = 1, G = 1, R = 0, H = 0, P = 1, most = 128 },
    } do
      for _, Z in ipairs { 8, 1 } do
        local c = { Z = Z }
        for _, name in ipairs { "Br", "Bc", "s", "t", "S", "q", "G", "R", "H", "P", "most" } do c[name] = row[name] end
        all[#all + 1] = c
      end
    end
    return all
  end)(),

  words = function(c, p)
    local r, products, known = registers_of[consumers(c)], {}, {}
    local function product(columns, held)
      local name = columns * 2 + (held and 1 or 0)
      if not known[name] then products[#products + 1] = { columns = columns, held = held } end
      known[name] = true
    end
    product(c.Br, c.H & 1 == 1)
    product(c.Br, c.H & 2 == 2)
    product(p.dv, true)
    product(p.d, true)
    product(dQ_columns(c, p), false)
    return { libs = { "lib/args.h", "lib/hooks.cuh", "lib/tasks.cuh", "lib/masks.cuh", "lib/scores.cuh", "lib/softmax.cuh", "lib/fragments.cuh", "lib/ring.cuh", "lib/ws.cuh",
        "lib/half.cuh", "lib/grad.cuh", "lib/walk.cuh", "lib/ws_grad.cuh", "lib/ws_sums.cuh",
        "lib/launches.cuh" },
      dtype = p.dtype, slices = 1, packed = false, drawn = false, aligned = 16, overlaps = true, travels = false, products = products,
      LD_threads = "prepare_threads", producer_registers = r[1], consumer_registers = r[2], P_shared = false, Q_held = false,
      turns = "none", schedule = "in_flight", K_held = c.H & 1 == 1, V_held = c.H & 2 == 2, S_early = c.S == 1, dQ_late = c.q == 1,
      one_operand = c.P == 1,
      dQ_share = dQ_share(c, p), reduces = c.R == 0 and "bulk" or "red" }
  end,

  constants = function(c, p)
    local at = places(c, p)
    return {
      { "Br", c.Br, "rows of Q of one tile" },
      { "Bc", c.Bc, "rows of K and V of one tile" },
      { "T", threads(c), "threads of a block" },
      { "prepare_threads", 512, "threads of a block that makes D" },
      { "consumers", consumers(c), "warpgroups that compute" },
      { "X", 4, "lanes that share a row" },
      { "per_chunk", 8, "elements of a chunk of 16 bytes" },
      { "D", p.d, "head dimension of Q and K" },
      { "Dv", p.dv, "head dimension of V and O" },
      { "Dp", up(p.d, 16), "columns of Q and K that products read" },
      { "Dw", up(p.dv, 16), "columns of V and dO that products read" },
      { "boxes", boxes(p.d), "boxes of 64 columns of Q and K" },
      { "V_boxes", boxes(p.dv), "boxes of 64 columns of V and dO" },
      { "stages", c.s, "tiles of Q and of dO in shared memory" },
      { "dS_tiles", c.t, "tiles of dS in shared memory" },
      { "dS_readers", c.G == 1 and 1 or consumers(c), "warpgroups that read a tile of dS" },
      { "at_V", at.V, "where V lies in shared memory, bytes" },
      { "at_Q", at.Q, "where Q lies in shared memory, bytes" },
      { "at_dO", at.dO, "where dO lies in shared memory, bytes" },
      { "at_dS", at.dS, "where dS lies in shared memory, bytes" },
      { "at_dQ", at.dQ, "where dQ lies in shared memory, bytes" },
      { "at_LD", at.LD, "where LD lies in shared memory, bytes" },
      { "at_signals", at.signals, "where the barriers lie in shared memory, bytes" },
      { "K_full", 0, "barrier of K" },
      { "V_full", 1, "barrier of V" },
      { "Q_full", 2, "barrier of the first tile of the ring" },
      { "dO_full", 2 + c.s, "barrier of the first tile of the ring" },
      { "LD_full", 2 + 2 * c.s, "barrier of the first tile of the ring" },
      { "Q_free", 2 + 3 * c.s, "barrier of the first tile of the ring, and of its LSE and D" },
      { "dO_free", 2 + 4 * c.s, "barrier of the first tile of the ring" },
      { "dS_full", 2 + 5 * c.s, "barrier of the first tile of dS" },
      { "dS_free", 2 + 5 * c.s + c.t, "barrier of the first tile of dS" },
      { "signals", 2 + 5 * c.s + 2 * c.t, "barriers" },
      { "Z", c.Z, "heads whose tiles start together" },
    }
  end,

  recipe = function(c, p, g, entry)
    local tiles, tile = string.format("b*h*ceildiv(q,%d)", c.Br), 4 * c.Br * p.d
    local dQ_LD = string.format("ws(0) ws(%s*%d)", tiles, tile)
    return string.format("workspace %s*%d\n", tiles, tile + 8 * c.Br)
      .. string.format("launch %s grid %s block 512 shared 0 args call %s\n", entry "prepare", tiles, dQ_LD)
      .. string.format("launch %s grid ceildiv(k,%d)*b*hk block %d shared %d overlap args call %s mapQ(%d) mapK(64) mapV(64) "
        .. "mapdO(%d) mapdK(16) mapdV(16)\n", entry "bwd_ws", c.Bc, threads(c), shared(c, p), dQ_LD, c.Br, c.Br)
      .. string.format("launch %s grid %s block %d shared %d overlap args call ws(0) mapdQ(16)\n", entry "finish", tiles, 2 * c.Br,
        c.Br * boxes(p.d) * 128)
      .. simt.sinks(p, entry, threads(c), string.format(" ws(%s*%d)", tiles, tile))
  end,

  work = function(c, p, g)
    local visits, Dp, Dw = grad.visits_of_keys(c, p), up(p.d, 16), up(p.dv, 16)
    local S, tile, rows = c.Br * c.Bc, 4 * c.Br * p.d, 2 * c.Br * (Dp + Dw)
    local blocks, tiles = p.b * p.hk * ceil_div(p.k, c.Bc), p.b * p.h * ceil_div(p.q, c.Br)
    local own = consumers(c)
    local lefts = 2 * c.Bc * ((1 - (c.H & 1)) * Dp + (1 - (c.H >> 1)) * Dw) -- left operands of S and dP
    local dQ = 2 * S * (c.G == 0 and dQ_share(c, p) == "columns" and own or 1) + 2 * c.Bc * p.d * (dQ_share(c, p) == "rows" and own or 1)
    local dc = { Br = c.Br, w = 4 }
    return {
      { blocks = tiles, threads = 512, shared = 0, registers = 40, visits = 1, steps = 2, fma = c.Br * p.dv, issue = c.Br * p.dv,
        l2 = tiles * (4 * c.Br * p.dv + tile), dram = p.b * p.h * p.q * 4 * p.dv + tiles * tile },
      { blocks = blocks, threads = threads(c), shared = shared(c, p), registers = 65536 // threads(c) // 8 * 8, visits = visits,
        uneven = simt.uneven(c, p), steps = visits * (1.6 - 0.4 * c.S - 0.4 * c.q),
        tensor = visits * 2 * S * (3 * Dp + 2 * Dw), fma = visits * 3 * S, ex2 = visits * S, issue = visits * 3 * S,
        shared_bytes = visits * (lefts + own * 2 * rows + dQ + 2 * S + rows + (c.R == 0 and 2 * tile or 0)),
        l2 = blocks * visits * (rows + tile) + blocks * 2 * c.Bc * (Dp + Dw),
        dram = 2 * (p.b * p.h * p.q + 2 * p.b * p.hk * p.k) * (p.d + p.dv) + tiles * tile },
      { blocks = tiles, threads = 2 * c.Br, shared = c.Br * boxes(p.d) * 128, registers = 128, visits = 1, steps = 2,
        fma = c.Br * Dp, issue = 2 * c.Br * Dp, l2 = tiles * (tile + 2 * c.Br * p.d), dram = tiles * tile + 2 * p.b * p.h * p.q * p.d },
    }
  end,
}
