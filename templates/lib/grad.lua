-- grad.lua -- what the backward kernels on tensor cores have in common: tunables, where tiles lie, what a thread holds, and
-- the work of their products. Goes with grid.cuh and grad.cuh.
local libs = include "lib/libs.lua"
local simt, mma = include "lib/simt.lua", include "lib/mma.lua"
local grad = {}

grad.features = simt.masks_and("dbias", "dsink", "dlse")
function grad.features_and(more) return simt.masks_and("dbias", "dsink", "dlse", more) end

-- The rows of the tables of tunables, by letter.
grad.tunable = {
  Br = { "Br", { 16, 32, 64, 128 }, "rows of Q and dO of one tile" },
  Bc = { "Bc", { 16, 32, 48, 64, 96, 128 }, "rows of K and V of one tile" },
  w = { "w", { 2, 4, 6, 8 }, "warps of a block" },
  wS = { "wS", { 1, 2, 3, 4, 6, 8 }, "warps that share the keys of S and dP; the others share their rows of Q" },
  wK = { "wK", { 1, 2, 3, 4, 6, 8 }, "warps that share the rows of dK and dV; the others share their columns" },
  wQ = { "wQ", { 1, 2, 4, 8 }, "warps that share the rows of dQ; the others share its columns" },
  s = { "s", { 0, 1, 2, 3 }, "tiles that a loop goes over in shared memory: of Q and dO, of K and V; 0 = one, fetched behind a step" },
  V = { "V", { 0, 1 }, "V is read from 0 = shared memory, 1 = registers, and Q and dO lie where it lay" },
  q = { "q", { 0, 1 }, "dQ of a tile is made 0 = in its own step, behind a barrier, 1 = in the next, without one" },
  b = { "b", { 1, 2 }, "blocks of an SM that the registers of a thread must leave room for" },
  Z = { "Z", { 1, 8, 64 }, "heads whose tiles start together, the longest first" },
  A = { "A", { 0, 1 }, "0 = all warps make S, dP, dV and dK; 1 = half of them S and dV, the others dP and dK", unsaid = 0 },
  U = { "U", { 0, 2, 4 }, "steps of 32 bytes of S and dP that are laid out one after another; 0 = all of them" },
  W = { "W", { 1, 16 }, "bytes that tensors are aligned to: 16, or 1 = elements one by one", { 16 } },
}
function grad.tunables(...)
  local all = {}
  for i, letter in ipairs { ... } do all[i] = grad.tunable[letter] end
  return all
end

-- Warps that share S, dP, dV or dK.
function grad.sharers(c) return c.A == 1 and c.w // 2 or c.w end

-- P^T and dS^T go from registers into products where a warp has whole rows of them, and of dK and dV.
function grad.P_held(c) return c.wS == grad.sharers(c) and c.wK == grad.sharers(c) end

-- Whether the last warps have no part of S: where tiles are few rows because they are wide, they help with dK, dV and dQ.
function grad.S_idle(c) return c.Br < 16 * (grad.sharers(c) // c.wS) end

-- Registers of an accumulator in a grid of `down` warps below each other.
function grad.sums_of(rows, columns, w, down)
  local across = w // down
  local width = across == 1 and columns or 16 * ceil_div(columns, 16 * across) -- of a warp
  return rows // (8 * down) * width // 4
end

-- Tiles of one kind in shared memory that a loop goes over, and who waits for whom.
function grad.stages(c) return math.max(1, c.s) end
function grad.schedule(c, p, g)
  return c.s > 1 and "in_flight" or not mma.travels(c, p, g) and "alone" or c.s == 1 and "carried" or "fetched"
end

-- Of a tile on its way through registers during a step, two matrices wide.
function grad.way(c, p, g, rows)
  return mma.travels(c, p, g) and c.s > 0 and rows * (mma.Dp(p) + mma.Dw(p)) * mma.bytes(p) // (4 * mma.threads(c)) or 0
end

function grad.words(c, p, g)
  local is_half = mma.bytes(p) == 2
  return simt.tile_words({ libs = libs("lib/softmax.cuh", "lib/fragments.cuh", "lib/mma.cuh",
      is_half and "lib/half.cuh" or "lib/tf32.cuh", "lib/grid.cuh", is_half and "lib/grid16.cuh" or "lib/grid32.cuh",
      "lib/parts.cuh", "lib/grad.cuh", "lib/walk.cuh", "lib/apart.cuh", "lib/launches.cuh"),
    travels = mma.travels(c, p, g), dtype = p.dtype, slices = 1, drawn = false, packed = false, parted = false, aligned = c.W, unrolled = c.U,
    blocks_of_sm = c.b, overlaps = g.sm >= 90, P_held = grad.P_held(c),
    S_idle = grad.S_idle(c), LD_threads = "T", LD_apart = false, schedule = grad.schedule(c, p, g) }, p)
end

function grad.constants(c, p)
  return {
    { "Br", c.Br, "rows of Q of one tile" },
    { "Bc", c.Bc, "rows of K and V of one tile" },
    { "T", mma.threads(c), "threads of a block" },
    { "warps", c.w, "warps of a block" },
    { "down_S", c.wS, "warps that share the keys of S" },
    { "down_K", c.wK, "warps that share the rows of dK and dV" },
    { "down_Q", c.wQ or c.w, "warps that share the rows of dQ" },
    { "X", 4, "lanes that share a row" },
    { "per_chunk", mma.chunk(p), "elements of a chunk of 16 bytes" },
    { "D", p.d, "head dimension of Q and K" },
    { "Dv", p.dv, "head dimension of V and O" },
    { "Dp", mma.Dp(p), "columns of Q and K in shared memory" },
    { "Dw", mma.Dw(p), "columns of V and dO in shared memory" },
    { "stages", grad.stages(c), "tiles of Q and of dO in shared memory" },
    { "Z", c.Z, "heads whose tiles start together" },
  }
end
function grad.places(at) -- as constants
  local rows = {}
  for _, name in ipairs { "V", "Q", "dO", "LD", "dS", "P", "K_ring", "V_ring", "own_dO" } do
    rows[#rows + 1] = at[name] and { "at_" .. name, at[name], "where " .. name .. " lies in shared memory, bytes" } or nil
  end
  return rows
end

-- Constraints that hold for all kernels, on whichever units, behind those that come `first`; `wants` is the kernel's own, and by
-- how many registers it may be `over` what a thread may have.
function grad.blocks(first, wants, over, shared)
  local all = { table.unpack(first) }
  for _, constraint in ipairs {
    { function(c, p) return math.max(mma.Dp(p), mma.Dw(p)) // mma.chunk(p) <= mma.threads(c) end,
      "a row of a tile has at most one chunk of 16 bytes for each thread" },
    { function(c) return c.Br <= 2 * mma.threads(c) end, "LSE and D of two rows are one copy of a thread" },
    { function(c, p, g) return c.s <= 1 or not mma.travels(c, p, g) end,
      "more than one tile ahead needs asynchronous copies: sm_80, and tensors aligned to 16 bytes" },
    { function(c, p, g) return c.s > 0 or mma.travels(c, p, g) end,
      "tiles are fetched behind a step only as they go through registers: copies need none" },
    { function(c, p) return p.uneven or c.Z == 1 end, "tiles differ in length only under a mask" },
    { function(c, p, g) return wants(c, p, g) <= mma.most_registers(c) + over end,
      "accumulators and operands of a thread fit its registers, or nearly" },
    { function(c, p, g) return wants(c, p, g) <= mma.most_registers(c) + 8 end,
      "accumulators and operands of a thread fit its registers", walk = true },
    { function(c, p, g) return c.b * (shared(c, p) + g.shared_reserved) <= g.shared_sm end,
      "the blocks of an SM fit its shared memory" },
    { function(c, p, g) return c.b * mma.threads(c) <= g.threads_sm end, "the blocks of an SM fit its threads" },
  } do
    all[#all + 1] = constraint
  end
  return all
end

-- Those of tensor cores.
function grad.constraints(wants, shared)
  return grad.blocks({
    { function(c) return grad.sharers(c) % c.wS == 0 and grad.sharers(c) % c.wK == 0 and c.w % (c.wQ or 1) == 0 end,
      "warps stand as a grid: those that share rows (wS, wK, wQ) divide all (w)" },
    { function(c) return c.Bc % (16 * c.wS) == 0 and (c.Br % (16 * (grad.sharers(c) // c.wS)) == 0 or grad.S_idle(c)) end,
      "a warp owns whole blocks of 16 keys and 16 rows of S (Bc/wS, Br/(w/wS)), or nothing of it" },
    { function(c, p, g) return not grad.S_idle(c) or g.sm < 80 and math.max(p.d, p.dv) > 128 end,
      "warps are without a part of S only where 64 KB of shared memory leave tiles few rows", walk = true },
    { function(c) return c.Bc % (16 * c.wK) == 0 end, "a warp owns whole blocks of 16 rows of dK and dV (Bc/wK)" },
    { function(c) return c.Br % (16 * (c.wQ or c.w)) == 0 end, "a warp owns whole blocks of 16 rows of dQ (Br/wQ)" },
    { function(c, p)
      return math.min(mma.Dp(p), mma.Dw(p)) >= 16 * (grad.sharers(c) // c.wK) and mma.Dp(p) >= 16 * (c.wQ and c.w // c.wQ or 1)
    end, "each warp has columns of dK, dV and dQ (16 for each of w/wK, w/wQ)", walk = true },
    { function(c, p) return 32 * c.U < math.max(mma.Dp(p), mma.Dw(p)) * mma.bytes(p) end,
      "some steps of S and dP in a loop: there are more" },
  }, wants, 120, shared)
end

-- Tables of defaults, for elements of 2 and of 4 bytes: rows of what `names` says, the largest d that each is meant for, the most
-- rows of Q and the most keys. Twice, for under a mask the longest begin first.
function grad.defaults(names, tables)
  local all = {}
  for bytes = 2, 4, 2 do
    for _, row in ipairs(tables[bytes]) do
      local rows, keys = row[#names + 2] or math.huge, row[#names + 3] or math.huge
      local function meant(p) return mma.bytes(p) == bytes and p.q <= rows and p.k <= keys end
      for _, Z in ipairs { 8, 1 } do
        local c = { Z = Z, W = 16, most = row[#names + 1], meant = meant }
        for i, name in ipairs(names) do c[name] = row[i] end
        all[#all + 1] = c
      end
    end
  end
  return all
end

---- Work -------------------------------------------------------------------------------------------------------------

-- Visits of a tile of Q by a tile of keys, of a block that keeps the latter.
function grad.visits_of_keys(c, p)
  return simt.visits(c, p) * ceil_div(p.q, c.Br) * p.h // p.hk / ceil_div(p.k, c.Bc)
end

-- Bytes that cross shared memory in a visit for S, dP, dV and dK.
function grad.key_bytes(c, p)
  local e, S, width = mma.bytes(p), c.Br * c.Bc, mma.Dp(p) + mma.Dw(p)
  return grad.sharers(c) // c.wS * c.Bc * width * e + c.wS * c.Br * width * e + c.wK * c.Br * width * e
    + (grad.P_held(c) and 0 or 2 * (grad.sharers(c) // c.wK + 1) * S * e)
end

-- Operations of tensor cores for one of a product, counted as 16-bit ones: tf32 has half their rate, and 3xTF32 does three.
-- From Hopper on mma.sync reaches half of the rate that the architecture's row names.
function grad.rate(p, g)
  return (mma.bytes(p) == 2 and 1 or p.dtype == "tf32" and 2 or 6) * (g.sm >= 90 and g.sm < 120 and 2 or 1)
end

-- Conversions to tf32, of each operand that a warp reads: instructions of a visit, in lanes.
function grad.conversions(c, p, bytes)
  return mma.bytes(p) == 2 and 0 or (p.dtype == "f32x3" and 2 or 1) * bytes / 4
end

-- The launch that makes D, and clears `clears` bytes for each tile of Q.
function grad.prepare_work(c, p, clears)
  local e, tiles = mma.bytes(p), p.b * p.h * ceil_div(p.q, c.Br)
  return { blocks = tiles, threads = mma.threads(c), shared = 0, registers = 40, visits = 1, steps = 2, fma = c.Br * p.dv,
    issue = c.Br * p.dv, l2 = tiles * (2 * c.Br * p.dv * e + clears), dram = p.b * p.h * p.q * 2 * p.dv * e + tiles * clears }
end

return grad
