-- simt.lua -- what the kernels on CUDA cores have in common: their tunables, how threads share a tile, and the
-- arithmetic of work that the model turns into time. Goes with simt.cuh.
local libs = include "lib/libs.lua"
local simt = {}

local function ceil_div(x, y) return (x + y - 1) // y end

simt.tunables = {
  { "Br", { 16, 32, 64, 128 }, "rows of Q of one tile" },
  { "Bc", { 16, 32, 64, 128 }, "rows of K and V of one tile" },
  { "T", { 64, 128, 256 }, "threads of a block" },
  { "R", { 1, 2, 4, 8 }, "rows of a tile that one thread works on" },
  { "W", { 1, 2, 4 }, "floats moved at once" },
}

function simt.tunables_and(row)
  local all = { table.unpack(simt.tunables) }
  all[#all + 1] = row
  return all
end
function simt.threads(c) return c.T end

-- The features that hooks.cuh knows: masks, which every kernel serves, and with those of the forward every forward kernel does.
simt.masks = { "causal", "causaltl", "w", "bs" }
simt.batches = { "varlen", "used", "prefix", "iv", "lpad" } -- by batch, which all serve whose tiles end where a batch does
simt.scores = { "alibi", "softcap", "sink", "mask", "bias", "bias32", "maskHASH", "modHASH" } -- which every kernel serves too
function simt.masks_and(...)
  local all = { "drop", ... } -- not in bwd_wide, which rounds weights before they could be marked
  for _, feature in ipairs(simt.batches) do all[#all + 1] = feature end
  return simt.closed_and(table.unpack(all))
end
function simt.closed_and(...)
  local all = { table.unpack(simt.scores) }
  for _, feature in ipairs { ... } do all[#all + 1] = feature end
  for _, mask in ipairs(simt.masks) do all[#all + 1] = mask end
  return all
end
function simt.without(features, ...)
  local out, left = {}, {}
  for _, feature in ipairs { ... } do out[feature] = true end
  for _, feature in ipairs(features) do
    if not out[feature] then left[#left + 1] = feature end
  end
  return left
end
simt.features = simt.masks_and("chunk")

function simt.words(c, p)
  return { libs = libs("lib/ends.cuh", "lib/softmax.cuh", "lib/matrix.cuh", "lib/simt.cuh", "lib/launches.cuh"),
    dtype = p.dtype, slices = p.slices, drawn = false, packed = false, parted = false, merges = false, Q_held = false, rescale = "seldom", blocks_of_sm = 1,
    O_apart = false, split = false, overlaps = false, aligned = 4 * c.W, schedule = c.s == 0 and "in_turns" or "alone" }
end

-- Lanes that share a row, columns of S of a thread, chunks of O of a thread, padded width of V.
function simt.lanes(c) return c.T * c.R // c.Br end
function simt.columns(c) return c.Bc // simt.lanes(c) end
function simt.chunks(c, p) return ceil_div(p.dv, simt.lanes(c) * c.W) end
function simt.padded(c, p) return simt.chunks(c, p) * simt.lanes(c) * c.W end

-- Numbers that the CUDA text uses by name; each is written once, on first use.
function simt.constants(c, p)
  return {
    { "Br", c.Br, "rows of Q of one tile" },
    { "Bc", c.Bc, "rows of K and V of one tile" },
    { "T", c.T, "threads of a block" },
    { "W", c.W, "floats moved at once" },
    { "D", p.d, "head dimension of Q and K" },
    { "Dv", p.dv, "head dimension of V and O" },
    { "Dk", p.d, "columns of Q and K as they lie in shared memory" },
    { "Dp", simt.padded(c, p), "columns of V as they lie in shared memory" },
    { "X", simt.lanes(c), "lanes that share a row" },
    { "at_P", simt.at_P(c, p), "where P lies in shared memory, bytes" },
    { "at_K", simt.at_K(c, p), "where K lies in shared memory, bytes" },
    { "at_V", simt.at_V(c, p), "where V lies in shared memory, bytes" },
    { "Z", c.Z or 1, "heads whose tiles of Q start together" },
    { "slices", p.slices, "blocks beside each other that make the columns of O" },
  }
end

-- Bytes of the tiles in shared memory, as simt.cuh lays them out.
function simt.rows_tile(rows, columns, pad) return 4 * rows * (columns + pad) end
function simt.at_P(c, p) return simt.rows_tile(c.Br, p.d, c.W) end
function simt.at_K(c, p) return simt.at_P(c, p) + simt.rows_tile(c.Br, c.Bc, simt.lanes(c)) end
function simt.at_V(c, p) return simt.at_K(c, p) + (c.s == 0 and 0 or simt.rows_tile(c.Bc, p.d, c.W)) end
function simt.tiles_QPKV(c, p)
  local K, V = simt.rows_tile(c.Bc, p.d, c.W), simt.rows_tile(c.Bc, simt.padded(c, p), 0)
  return math.max(simt.at_K(c, p) + K, simt.at_V(c, p) + V)
end

-- Registers of a thread: accumulators of S and O, the operands of one step, and about 40 for the rest
-- (addresses, loop counters, m and l). An estimate for pruning; the compiler's figure replaces it.
function simt.registers(c, p)
  local S, O = c.R * simt.columns(c), c.R * simt.chunks(c, p) * c.W
  local operands = math.max((c.R + simt.columns(c)) * c.W, c.R * c.W + simt.chunks(c, p) * c.W)
  return S + O + operands + 40
end

simt.constraints = {
  { function(c) return c.T * c.R % c.Br == 0 and simt.lanes(c) >= 4 and simt.lanes(c) <= 32 end,
    "4 to 32 lanes share a row (T*R/Br), so that a row lives in one warp" },
  { function(c) return simt.lanes(c) & (simt.lanes(c) - 1) == 0 end,
    "the lanes of a row are a power of two, for butterfly sums" },
  { function(c) return c.Bc % simt.lanes(c) == 0 end, "Bc is a multiple of the lanes of a row" },
  { function(c) return simt.lanes(c) >= c.W end, "a row of P is padded by its lanes, in whole vectors" },
  { function(c, p) return simt.padded(c, p) < p.dv + math.max(16, p.dv // 4) end,
    "padding V to whole chunks wastes less than a quarter of the work" },
  { function(c, p) return simt.registers(c, p) <= 232 end,
    "accumulators and operands of a thread fit 255 registers" },
}

-- The launch behind all others that makes dsink where it is wanted.
function simt.sinks(p, entry, threads, arguments)
  return p.has.dsink and string.format("launch %s grid h block %d shared %d args call%s\n", entry "sinks", threads, 4 * threads,
    arguments) or ""
end

-- The launch ahead of all others that clears dbias where it is wanted.
function simt.zeros(c, p, entry, threads)
  return p.has.dbias and string.format("launch %s grid b*h*ceildiv(q,%d) block %d shared 0 args call\n", entry "zeros", c.Br, threads) or ""
end

-- Whether tiles of ragged batches are numbered one batch behind the other (lib/in_line.cuh): lists are of as many for each, and
-- so are slices of V.
function simt.is_in_line(p) return p.has.varlen and not (p.has.iv or p.has.bs) and p.slices == 1 or false end

-- Tiles of so many rows of all batches and of so many heads, along q or k, `times` as many rows where several heads lie in one.
function simt.tiles(p, heads, along, rows, times)
  along = along .. (times or "")
  if not simt.is_in_line(p) then return string.format("ceildiv(%s,%d)*b*%s", along, rows, heads) end
  return string.format("%s*min(b*ceildiv(%s,%d),ceildiv(t%s+1,%d)+b-1)", heads, along, rows, along, rows)
end

-- The same of Q, as launches ahead of a backward's products and behind them have a block for each.
function simt.row_tiles(c, p)
  return simt.is_in_line(p) and simt.tiles(p, "h", "q", c.Br) or string.format("b*h*ceildiv(q,%d)", c.Br)
end

-- Heads whose Q, dO and sums of dQ so many megabytes of L2 hold, as CUDA.
function simt.heads_in_L2(megabytes) return string.format("i32(%d / (max(a.q, 1) * 4 * i64(D + Dv)))", megabytes << 20) end

-- Words of such a launch: what says which tile a block has, `more` declared beside it; its head, its first row. With det as many heads begin
-- together as L2 has room for, of which causal masks leave half idle; kernels that sum dQ in order have a number of their own.
function simt.tile_words(words, p)
  local in_line = simt.is_in_line(p)
  words.together = p.has.det and string.format("max(Z, %s)", simt.heads_in_L2(p.uneven and 64 or 32)) or "Z"
  words.steps_parted, words.last_first, words.both_ways = words.steps_parted or false, words.last_first or false, words.both_ways or false
  words.key_heads = in_line and "a.hk" or "a.b * a.hk" -- a line has the tiles of all batches
  words.in_line, words.tile_head, words.tile_row = in_line, in_line and "my.head" or "tile / Tr", in_line and "my.i0" or "tile % Tr * Br"
  function words.tile_of_block(more)
    return in_line and string.format("const i32 tile = i32(block_id())%s;\n  const task my = row_task_of(a, tile);", more)
      or string.format("const i32 Tr = ceil_div(a.q, Br), tile = i32(block_id())%s;", more)
  end
  return words
end

-- What a grid has more of where V is made in slices.
function simt.slices(p) return p.slices > 1 and "*" .. p.slices or "" end

-- The wider of both head dimensions, by which defaults are chosen.
function simt.widest(p) return math.max(p.d, p.dv) end

-- KV tiles visited by each tile of Q on average. Kept: a space asks for it with the same tiles many times. `group`:
-- heads that share the rows of a tile, where not one alone has them.
local kept = {}
local function visits(c, p, group)
  if kept.p ~= p then kept = { p = p } end
  local key = ((group or 1) * 65536 + c.Br) * 65536 + c.Bc
  if not kept[key] then
    local all, most = p.visits(c.Br, c.Bc, group or 1)
    kept[key] = { all / math.max(ceil_div(p.q * (group or 1), c.Br), 1), most }
  end
  return kept[key]
end
function simt.visits(c, p, group) return visits(c, p, group)[1] end
-- What the tile with the most visits has above the mean, as a part of the mean.
function simt.uneven(c, p, group)
  local v = visits(c, p, group)
  return p.uneven and math.max(v[2] / math.max(v[1], 1) - 1, 0) or 0
end

-- Bytes that cross shared memory for the two products of one visit. A warp reads R rows of Q for each of its
-- 32/X groups and C columns of K for each lane; equal addresses are one read, and a read of W floats by every
-- lane takes at least W*16 bytes of the 128 a clock delivers (a quarter warp at a time for W = 4).
function simt.product_bytes(c, rows, columns, depth, vectors_a, vectors_b)
  local warps, steps = c.T // 32, depth // c.W
  local groups = 32 // simt.lanes(c)
  local a = vectors_a * math.max(groups * c.W * 4, 128)
  local b = vectors_b * math.max(simt.lanes(c) * c.W * 4, 128)
  return warps * steps * (a + b)
end
function simt.QK_bytes(c, p)
  return simt.product_bytes(c, c.Br, c.Bc, p.d, c.R, simt.columns(c))
end
function simt.PV_bytes(c, p)
  return simt.product_bytes(c, c.Br, simt.padded(c, p), c.Bc, c.R, c.W * simt.chunks(c, p))
end

-- Instructions of a visit beside the products, in lanes: mask, max, subtract, sum and conversion of a score
-- (6 each), loads and stores of tiles, and the loop.
function simt.score_issue(c, p) return 6 * c.Br * c.Bc end
function simt.load_issue(c, words) return 6 * words // c.W end

-- The lists that a kernel steps by under a block mask, and `where` it says so: of keys that tiles of Q visit, of rows, or both.
function simt.lists(which, where, Bc)
  return function(c, p) return (p.has.bs or p.has[where or "bs"]) and { lists = which, Br = c.Br, Bc = Bc or c.Bc } end
end

return simt
