-- standard_bwd.lua -- the space, the needs and the four launches of standard_bwd.cu.
local simt, mma, slopes, fa1_bwd = include "lib/simt.lua", include "lib/mma.lua", include "lib/slopes.lua", include "fa1_bwd.lua"

-- Whether derivatives of scores are kept beside P. Told from P as the other kernels tell those of capped scores, 1 - tanh^2, they would come of a
-- P that was rounded to 16 bits: where scores are near the cap an error of P's is larger than what is right.
local function keeps_slope(p) return p.keeps_slope or p.has.softcap end

-- Where tiles lie in shared memory: Q, dO, then K and V, or P and dS in their place. The operand of dQ's product, on CUDA
-- cores, lies where Q and dO do.
local function places(bytes)
  local at = { dO = bytes.Q, K = math.max(bytes.Q + bytes.dO, bytes.P), P = 0 }
  at.V, at.dS = at.K + bytes.K, at.K + bytes.S
  return at, at.K + math.max(bytes.K + bytes.V, 2 * bytes.S)
end
local function constants(rows, bytes)
  local at, all = places(bytes), {}
  for _, row in ipairs(rows) do
    if not at[string.sub(row[1], 4)] or string.sub(row[1], 1, 3) ~= "at_" then all[#all + 1] = row end
  end
  for _, name in ipairs { "dO", "K", "V", "dS", "P" } do
    all[#all + 1] = { "at_" .. name, at[name], "where " .. name .. " lies in shared memory, bytes" }
  end
  return all
end

-- The four launches; `of` says what differs by the units: for a product of depth or width 1, and for a score.
local function launches(c, p, bytes, of)
  local heads, Tr, Tc = p.b * p.h, ceil_div(p.q, c.Br), ceil_div(p.k, c.Bc)
  local visits, S = simt.visits(c, p), c.Br * c.Bc
  local all, row = Tr * heads * visits, p.d + p.dv
  local S_bytes = bytes * all * S
  local function launch(fields)
    fields.threads, fields.registers = of.threads, of.registers
    return fields
  end
  local function products(width) return { fma = of.fma * width, tensor = of.tensor * width, shared_bytes = of.bytes * width } end
  local one, three, four = products(row), products(row), products(p.d)
  return {
    launch { blocks = all, shared = of.shared, visits = 1, steps = 2, fma = one.fma + 3 * S, tensor = one.tensor, ex2 = S,
      shared_bytes = one.shared_bytes, issue = 8 * S, l2 = all * bytes * (c.Br + c.Bc) * row + 2 * S_bytes,
      dram = bytes * (heads * p.q + p.b * p.hk * p.k) * row + 2 * S_bytes },
    launch { blocks = Tr * heads, shared = 0, visits = visits, steps = 2 * visits, fma = 2 * visits * S, issue = 7 * visits * S,
      l2 = 3 * S_bytes, dram = 3 * S_bytes },
    launch { blocks = Tc * p.b * p.hk, shared = of.shared, visits = all / (Tc * p.b * p.hk), steps = 2 * all / (Tc * p.b * p.hk),
      fma = three.fma * all / (Tc * p.b * p.hk), tensor = three.tensor * all / (Tc * p.b * p.hk),
      shared_bytes = three.shared_bytes * all / (Tc * p.b * p.hk), issue = 4 * S * all / (Tc * p.b * p.hk),
      l2 = 2 * S_bytes + all * bytes * c.Br * row, dram = 2 * S_bytes + bytes * (heads * p.q + 2 * p.b * p.hk * p.k) * row },
    launch { blocks = Tr * heads, shared = of.shared, visits = visits, steps = 2 * visits, fma = four.fma * visits,
      tensor = four.tensor * visits, shared_bytes = four.shared_bytes * visits, issue = 4 * S * visits,
      l2 = S_bytes + all * bytes * c.Bc * p.d, dram = S_bytes + bytes * (heads * p.q + p.b * p.hk * p.k) * p.d },
  }
end

-- The same tunables and tiles as fa1_bwd, but for where tiles lie; of its constraints all but the last, on registers: here
-- dK and dV are all that a thread keeps.
local function half(of, own)
  local units = { tunables = of.tunables, defaults = of.defaults, threads = of.threads }
  units.words = function(c, p, g)
    local words = of.words(c, p, g)
    if keeps_slope(p) then slopes.keep(words) end
    return words
  end
  local function wants(c, p) return own.sums(c, p) + 70 end
  units.registers = function(c, p) return math.min(255, wants(c, p)) end
  units.constraints = { table.unpack(of.constraints, 1, #of.constraints - 1) }
  table.insert(units.constraints, { function(c, p) return wants(c, p) <= 340 end,
    "dK and dV of a thread fit its registers, or nearly" })
  units.shared = function(c, p) return (select(2, places(own.bytes(c, p)))) end
  units.constants = function(c, p) return constants(of.constants(c, p), own.bytes(c, p)) end
  units.work = function(c, p, g)
    local few = own.work(c, p, g)
    few.threads, few.registers, few.shared = of.threads(c), units.registers(c, p), units.shared(c, p)
    return launches(c, p, own.element(p), few)
  end
  return units
end

local cores = half(fa1_bwd.halves.cores, {
  bytes = function(c, p)
    local bytes = fa1_bwd.halves.core_bytes(c, p)
    bytes.S = 4 * c.Br * (c.Bc + c.W)
    bytes.P = 4 * c.Br * (c.Bc + simt.lanes(c))
    return bytes
  end,
  sums = function(c, p) -- whole chunks of a row's lanes
    local X = simt.lanes(c)
    return c.Bc // (c.T // X) * (ceil_div(p.d, X * c.W) + ceil_div(p.dv, X * c.W)) * c.W
  end,
  element = function() return 4 end,
  work = function(c) return { fma = c.Br * c.Bc, tensor = 0, bytes = c.Br * c.Bc // 2 } end,
})

local tensor = half(fa1_bwd.halves.tensor, {
  bytes = function(c, p)
    local bytes = fa1_bwd.halves.tensor_bytes(c, p)
    bytes.S = mma.bytes(p) * c.Br * c.Bc
    return bytes
  end,
  sums = function(c, p) return c.Bc // (8 * c.w) * (p.d + p.dv) // 4 end,
  element = mma.bytes,
  work = mma.plain(function(c, p, g)
    return { fma = 0, tensor = mma.flop(c, p, g) / (mma.Dp(p) + mma.Do(p)), bytes = (c.w + 1) * c.Bc * mma.bytes(p) }
  end),
})

return {
  about = "standard attention's backward (Algorithm 3): P and dS in device memory, one launch for each line",
  picked = false, -- only when asked for
  serves = { op = "bwd", dtypes = { "f16", "bf16", "f32", "tf32", "f32x3" }, features = simt.masks_and("dbias", "dsink", "dlse", "det"), sm = 75 },
  on = function(p) return p.dtype == "f32" and cores or tensor end,
  recipe = function(c, p, g, entry)
    local units = p.dtype == "f32" and cores or tensor
    local threads, shared = units.threads(c), units.shared(c, p, g)
    local bytes = string.format("%d*b*h*q*ceildiv(k,%d)*%d", p.dtype == "f32" and 4 or mma.bytes(p), c.Bc, c.Bc)
    local tiles, both = string.format("ceildiv(q,%d)*b*h", c.Br), string.format("ws(0) ws(%s)", bytes)
    local all = both .. (keeps_slope(p) and string.format(" ws(2*(%s))", bytes) or "") -- derivatives of scores too
    return string.format("workspace %d*(%s)\n", keeps_slope(p) and 3 or 2, bytes) .. simt.zeros(c, p, entry, threads)
      .. string.format("launch %s grid %s*ceildiv(k,%d) block %d shared %d args call %s\n", entry "weights", tiles, c.Bc, threads,
        shared, all)
      .. string.format("launch %s grid %s block %d shared 0 args call %s\n", entry "differences", tiles, threads, all)
      .. string.format("launch %s grid ceildiv(k,%d)*b*hk block %d shared %d args call %s\n", entry "keys", c.Bc, threads, shared,
        both)
      .. string.format("launch %s grid %s block %d shared %d args call ws(%s)\n", entry "queries", tiles, threads, shared, bytes)
      .. simt.sinks(p, entry, threads, "")
  end,
}
