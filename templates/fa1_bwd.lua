-- fa1_bwd.lua -- the space, the needs and the launch of fa1_bwd.cu.
local simt, mma = include "lib/simt.lua", include "lib/mma.lua"

local function up(x, y) return ceil_div(x, y) * y end

-- What the text uses by name beside the constants of the library: others there of the same name give way.
local function with(rows, more)
  local all, own = {}, {}
  for _, row in ipairs(more) do own[row[1]] = true end
  for _, row in ipairs(rows) do
    if not own[row[1]] then all[#all + 1] = row end
  end
  for _, row in ipairs(more) do all[#all + 1] = row end
  return all
end

-- Where tiles lie in shared memory, one behind the other: Q, dO, K, V, dS, and P where it goes through memory.
local function places(bytes)
  local at, rows = 0, {}
  for _, name in ipairs { "Q", "dO", "K", "V", "dS", "P" } do
    rows[#rows + 1] = { "at_" .. name, at, "where " .. name .. " lies in shared memory, bytes" }
    at = at + bytes[name]
  end
  table.remove(rows, 1)
  return rows, at
end

-- The work of the launch: five products for each visit of a tile of Q, which is read and whose dQ is read and written.
local function launch(c, p, bytes, of)
  local row = p.d + p.dv
  of.blocks, of.steps = p.b * p.hk, 3 * of.visits
  of.l2 = of.blocks * of.visits * (bytes * c.Br * row + 8 * c.Br * p.d)
  of.dram = bytes * (p.b * p.h * p.q * (2 * row + p.d) + 2 * p.b * p.hk * p.k * row) + 8 * p.b * p.h * p.q * p.d
  return { of }
end
local function visits_of(c, p) return simt.visits(c, p) * ceil_div(p.q, c.Br) * p.h // p.hk end

local function core_padded(c, width) return up(width, simt.lanes(c) * c.W) end
local function core_bytes(c, p)
  local D, Dv, X = core_padded(c, p.d), core_padded(c, p.dv), simt.lanes(c)
  return { Q = 4 * c.Br * (D + c.W), dO = 4 * c.Br * (Dv + c.W), K = 4 * c.Bc * (D + c.W), V = 4 * c.Bc * Dv,
    dS = 4 * c.Bc * (c.Br + X), P = 4 * c.Bc * (c.Br + X) }
end
local function core_registers(c, p)
  local groups = c.T // simt.lanes(c)
  return 2 * c.Bc * c.Br // c.T + c.Bc // groups * (core_padded(c, p.d) + core_padded(c, p.dv)) // simt.lanes(c)
    + c.R * core_padded(c, p.d) // simt.lanes(c) + 60
end

local core_constraints = {
  { function(c) return c.Bc % (c.T // simt.lanes(c)) == 0 and c.Br % simt.lanes(c) == 0 end,
    "the groups of a block share the rows of K, the lanes of one those of Q" },
  { function(c, p) return core_registers(c, p) <= 400 end, "accumulators of a thread fit its registers, or nearly" },
}
for i = 1, 4 do table.insert(core_constraints, i, simt.constraints[i]) end

local cores = {
  tunables = simt.tunables,
  defaults = {
    { Br = 32, Bc = 32, T = 128, R = 4, W = 4 },
    { Br = 32, Bc = 32, T = 256, R = 2, W = 4 },
    { Br = 16, Bc = 16, T = 128, R = 2, W = 4 },
    { Br = 16, Bc = 16, T = 64, R = 2, W = 4 },
    { Br = 16, Bc = 16, T = 64, R = 1, W = 4 },
  },
  words = simt.words,
  constants = function(c, p)
    local rows = places(core_bytes(c, p))
    rows[#rows + 1] = { "Dk", core_padded(c, p.d), "columns of Q and K as they lie in shared memory" }
    rows[#rows + 1] = { "Dp", core_padded(c, p.dv), "columns of V and dO as they lie in shared memory" }
    return with(simt.constants(c, p), rows)
  end,
  constraints = core_constraints,
  threads = simt.threads,
  shared = function(c, p) return (select(2, places(core_bytes(c, p)))) end,
  registers = core_registers,

  work = function(c, p)
    local visits = visits_of(c, p)
    local all = c.Br * c.Bc * (3 * p.d + 2 * p.dv)
    return launch(c, p, 4, { visits = visits, threads = c.T, shared = (select(2, places(core_bytes(c, p)))),
      registers = math.min(255, core_registers(c, p)), fma = visits * all, ex2 = visits * c.Br * c.Bc,
      shared_bytes = visits * all // 2, issue = visits * 8 * c.Br * c.Bc })
  end,
}

local function tensor_bytes(c, p)
  local e = mma.bytes(p)
  return { Q = e * c.Br * mma.Dp(p), dO = e * c.Br * mma.Dw(p), K = e * c.Bc * mma.Dp(p), V = e * c.Bc * mma.Dw(p),
    dS = e * c.Bc * c.Br, P = 0 }
end
local function tensor_registers(c, p)
  local R = c.Bc // (8 * c.w)
  return 2 * R * c.Br // 4 + R * (p.d + p.dv) // 4 + c.Br // (8 * c.w) * p.d // 4 + 70
end

local tensor_constraints = {
  { function(c) return c.Bc % (16 * c.w) == 0 and c.Br % (16 * c.w) == 0 end,
    "a warp owns blocks of 16 rows of K, and of Q (Bc/w, Br/w)" },
  { function(c, p) return math.max(mma.Dp(p), mma.Dw(p)) // mma.chunk(p) <= mma.threads(c) end,
    "a row of a tile has at most one chunk of 16 bytes for each thread" },
  { function(c, p) return tensor_registers(c, p) <= 420 end, "accumulators of a thread fit its registers, or nearly" },
}

local tensor = {
  tunables = mma.plain_tunables,
  defaults = {
    { Br = 64, Bc = 64, w = 4, b = 1, W = 16 },
    { Br = 32, Bc = 32, w = 2, b = 1, W = 16 },
    { Br = 16, Bc = 16, w = 1, b = 1, W = 16 },
  },
  words = mma.plain_words,
  constants = function(c, p) return with(mma.plain_constants(c, p), (places(tensor_bytes(c, p)))) end,
  constraints = tensor_constraints,
  threads = mma.threads,
  shared = function(c, p) return (select(2, places(tensor_bytes(c, p)))) end,
  registers = function(c, p) return math.min(255, tensor_registers(c, p)) end,

  work = mma.plain(function(c, p, g)
    local visits = visits_of(c, p)
    local half = mma.flop(c, p, g) / (mma.Dp(p) + mma.Do(p)) -- of a product of depth or width 1
    return launch(c, p, mma.bytes(p), { visits = visits, threads = mma.threads(c),
      shared = (select(2, places(tensor_bytes(c, p)))), registers = math.min(255, tensor_registers(c, p)),
      spills = 3 * math.max(0, tensor_registers(c, p) - 255),
      tensor = visits * half * (3 * mma.Dp(p) + 2 * mma.Do(p)), fma = visits * 3 * c.Br * c.Bc, ex2 = visits * c.Br * c.Bc,
      shared_bytes = visits * 2.5 * mma.tile_bytes(c, p), issue = visits * 2 * mma.tile_issue(c, p) })
  end),
}

return {
  about = "FlashAttention's backward, first paper (Algorithm 4): outer loop over K and V, inner loop over Q; dQ in device memory",
  -- Only when asked for, or where no other does it: on CUDA cores, and f32 tensors for which others lack shared memory.
  picked = function(p) return mma.bytes(p) == 4 end,
  serves = { op = "bwd", dtypes = { "f16", "bf16", "f32", "tf32", "f32x3" }, features = simt.masks_and("dbias", "dsink", "dlse", "det"), sm = 75 },
  on = function(p) return p.dtype == "f32" and cores or tensor end,
  halves = { cores = cores, tensor = tensor, core_bytes = core_bytes, tensor_bytes = tensor_bytes }, -- for standard_bwd
  recipe = function(c, p, g, entry)
    local half = p.dtype == "f32" and cores or tensor
    local dQ = string.format("%d*b*h*q", 4 * p.d) -- before D, since it is read two and four floats at a time
    return string.format("workspace %s+4*b*h*q\n", dQ) .. simt.zeros(c, p, entry, half.threads(c))
      .. string.format("launch %s grid b*hk block %d shared %d args call ws(0) ws(%s)\n", entry "fa1_bwd", half.threads(c), half.shared(c, p), dQ) .. simt.sinks(p, entry, half.threads(c), "")
  end,
}
