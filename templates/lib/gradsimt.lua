-- gradsimt.lua -- what grad.lua says of tensor cores, of CUDA cores: the backward of f32 tensors in fp32. Goes with
-- gridsimt.cuh.
local libs = include "lib/libs.lua"
local simt, mma, grad = include "lib/simt.lua", include "lib/mma.lua", include "lib/grad.lua"
local cores = {}

cores.tunable = {
  Br = { "Br", { 16, 32, 64, 128 }, "rows of Q and dO of one tile" },
  Bc = { "Bc", { 8, 16, 32, 64, 128 }, "rows of K and V of one tile" },
  w = { "w", { 2, 4, 8 }, "warps of a block" },
  X = { "X", { 4, 8, 16, 32 }, "threads that share a key's row of S and dP" },
  Y = { "Y", { 4, 8, 16, 32 }, "threads that share a row of dK, dV and, where there are rows enough, of dQ" },
  G = { "G", { 1, 2, 4 }, "grids of threads that share the depth of S and dP, so that each thread has more of them" },
  s = { "s", { 0, 1, 2 }, "tiles of Q and dO in shared memory; 0 = one, fetched behind a step" },
  b = { "b", { 1, 2, 3, 4 }, "blocks of an SM that the registers of a thread must leave room for" },
  Z = grad.tunable.Z,
  W = grad.tunable.W,
}
function cores.tunables(...)
  local all = {}
  for i, letter in ipairs { ... } do all[i] = cores.tunable[letter] end
  return all
end

-- Threads that share a row of dQ: a thread has four rows at least.
function cores.lanes_Q(c) return math.max(c.Y, 4 * mma.threads(c) // c.Br) end

-- Numbers of an accumulator that a thread has: rows, columns in whole chunks.
local function share(c, rows, columns, lanes)
  return rows * lanes // mma.threads(c), 4 * ceil_div(columns, 4 * lanes)
end
function cores.sums_of(c, rows, columns, lanes)
  local R, C = share(c, rows, columns, lanes)
  return R * C
end

-- Registers that a thread would like: dK and dV all the time; S and dP with what a product reads, or dQ; tiles on their way; the
-- rest. An estimate for pruning; the compiler's figure replaces it.
function cores.wants(c, p, g)
  local kept = cores.sums_of(c, c.Bc, p.d, c.Y) + cores.sums_of(c, c.Bc, p.dv, c.Y)
  local R, C = share(c, c.Bc, c.Br, c.X)
  local S = R * C + (c.G > 1 and c.G * R * C or R * C) + 6 * (c.G * R + C)
  local Q = cores.sums_of(c, c.Br, p.d, cores.lanes_Q(c))
  return kept + math.max(S, Q + 16, 8 * (c.Bc * c.Y // mma.threads(c)) + 16) + grad.way(c, p, g, c.Br) + 30
end

function cores.words(c, p, g)
  return simt.tile_words({ libs = libs("lib/softmax.cuh", "lib/mma.cuh", "lib/tf32.cuh", "lib/gridsimt.cuh",
      "lib/parts.cuh", "lib/grad.cuh", "lib/walk.cuh", "lib/launches.cuh"),
    depths = c.G, travels = mma.travels(c, p, g), dtype = p.dtype, slices = 1, drawn = false, packed = false, aligned = c.W,
    blocks_of_sm = c.b, overlaps = g.sm >= 90, LD_threads = "T", LD_apart = false, P_held = false, S_idle = false, V_held = false, dQ_late = false,
    schedule = grad.schedule(c, p, g) }, p)
end

function cores.constants(c, p)
  return {
    { "Br", c.Br, "rows of Q of one tile" },
    { "Bc", c.Bc, "rows of K and V of one tile" },
    { "T", mma.threads(c), "threads of a block" },
    { "lanes_S", c.X, "threads that share a row of S" },
    { "depths", c.G, "grids of threads that share the depth of S" },
    { "lanes_K", c.Y, "threads that share a row of dK and dV" },
    { "lanes_Q", cores.lanes_Q(c), "threads that share a row of dQ" },
    { "per_chunk", 4, "elements of a chunk of 16 bytes" },
    { "D", p.d, "head dimension of Q and K" },
    { "Dv", p.dv, "head dimension of V and O" },
    { "Dp", mma.Dp(p), "columns of Q and K in shared memory" },
    { "Dw", mma.Dw(p), "columns of V and dO in shared memory" },
    { "stages", grad.stages(c), "tiles of Q and of dO in shared memory" },
    { "Z", c.Z, "heads whose tiles of Q start together" },
    { "dS_tiles", 1, "tiles of dS in shared memory" },
  }
end

function cores.constraints(shared)
  local function whole(rows, lanes, c) -- 1, 2 or a multiple of 4
    local R = rows * lanes // mma.threads(c)
    return R * mma.threads(c) == rows * lanes and (R % 4 == 0 or R <= 2)
  end
  -- Work on columns that are not there.
  local function waste(c, width) return select(2, share(c, 4, width, c.Y)) * c.Y < width + math.max(8, width // 4) end
  return grad.blocks({
    { function(c) return whole(c.Bc, c.X, c) and c.Br % (2 * c.X) == 0 and (c.Br % (4 * c.X) == 0 or c.Br == 2 * c.X) end,
      "a thread owns whole blocks of keys and of rows of S (Bc*X/T, Br/X)" },
    { function(c) return mma.threads(c) % (c.G * c.X) == 0 end, "each grid of threads has whole rows of S (T/G, X)" },
    { function(c) return whole(c.Bc, c.Y, c) end, "a thread owns whole blocks of rows of dK and dV (Bc*Y/T)" },
    { function(c, p) return waste(c, p.d) and waste(c, p.dv) end,
      "padding dK and dV to whole blocks of a row's threads wastes less than a quarter of the work", walk = true },
  }, cores.wants, 24, shared)
end

-- Bytes that cross shared memory for a product C += A B of R x C numbers of a thread, `depth` deep. A read of 16 bytes by each
-- lane counts for 430 of the 512, also where lanes read the same: fitted to 37 configs of six problems on an H200
-- (bench/results/h200-bwd-f32.tsv), whose times are then 0.95 to 1.06 of the forecasts in the mean of a problem.
function cores.product_bytes(c, rows, columns, depth, lanes, depths)
  local R, C = share(c, rows, columns, lanes)
  return c.w * depth // depths // 4 * (R * depths + C) * 430
end

return cores
