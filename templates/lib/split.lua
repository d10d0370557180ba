-- split.lua -- how many blocks share a row's keys, for fwd and fwd_ws: as an expression of the recipe, and as a number.
local split = {}

-- Shared bytes of the launch that merges splits: of 4 warps a maximum, a sum and 4 columns of each 128 for each lane.
function split.merge_bytes(p) return 4 * 32 * 4 * (4 * ceil_div(p.dv, 128) + 2) end

-- Rows of at most so many splits, or parts of these, two of which a block of that launch has. merge_row decides the same (split.cuh).
local few = 16

-- And its work: of each row what its splits, or all their parts, have left.
function split.merge_work(p, splits, part, bytes)
  local rows = p.b * p.h * p.q
  local of_block = (splits > few or p.has.split) and 1 or 2
  return { blocks = ceil_div(rows, of_block), threads = 128, shared = split.merge_bytes(p), registers = 80, visits = 1, steps = 3,
    fma = of_block * splits * p.dv, ex2 = of_block * splits, issue = of_block * splits * p.dv, l2 = rows * part, dram = rows * p.dv * bytes }
end

-- Rows of all splits, as an expression: what a call of some sizes needs must be enough for smaller ones, which may have more splits.
function split.rows(c, tiles)
  return string.format("min(b*h*q*ceildiv(k,%d),%d*max(SMs*%d,%s))", c.Bc, c.Br, c.N, tiles)
end

-- The launch that merges, two rows by a block or one; `args`: where O_s and L_s lie, and of how many splits, each of so many parts.
function split.merge(p, entry, soon, args, splits, parts)
  local rows = p.has.split and "b*h*q" or string.format("ceildiv(b*h*q,2-min(1,max(0,%d*%s-%d)))", parts, splits, few)
  return string.format("launch %s grid %s block 128 shared %d%s args call%s\n", entry "merge", rows, split.merge_bytes(p), soon, args)
end

-- It counts rows in 32 bits: where there are more, no size is valid.
split.valid = "valid 2147483647-b*h*q\n"

function split.is_made(c, p) return p.has.split or c.N > 0 end

-- With `splitN` each split has N keys. Else there are as many as tiles of Q leave room for, where each SM has N blocks, and single
-- tiles of keys at most.
--   The blocks of a cluster lie in one GPC, of 18 SMs or fewer, so clusters are as large as lets all of them run at once. 20 tiles in
-- clusters of 6 blocks, one on an SM, for which 132 SMs have room, took two rounds and 28 us; in clusters of 5 they take 14 (H200, 10
-- heads of 60 rows, 6,275 keys, d 64). Which SMs a chip lacks differs, and 132 are not always eight GPCs of 16 or more: on one H200 16
-- clusters of 8 took 25.4 us, 8 of the same 15.4. So GPCs are taken to have 16 SMs, and N times two tiles more are counted than there
-- are. On 132 SMs 14 tiles get clusters of 8, 22 of 5, 31 of 4, 39 of 3, 64 of 2.
local gpc, spare, quarter = 16, 2, 4 -- SMs; tiles; SMs of a quarter of a GPC, of which 132 SMs are 33

function split.text(c, p, tiles)
  if p.has.split then return "ceildiv(k,split)" end
  local most = string.format("ceildiv(SMs*%d+1,max(1,%s))-1", c.N, tiles)
  if c.M > 0 then
    local in_a_gpc = string.format("ceildiv(%d*(%s+%d),%d*ceildiv(SMs,%d))", gpc // quarter, tiles, spare * c.N, c.N, quarter)
    most = string.format("min(%d,ceildiv(%d,%s)-1)", c.M, gpc + 1, in_a_gpc)
  end
  return string.format("max(1,min(ceildiv(k,%d),%s))", c.Bc, most)
end

function split.count(c, p, g, tiles)
  if p.has.split then return ceil_div(p.k, 4096) end -- what N is does not reach a kernel's text
  if c.N == 0 then return 1 end
  local most = g.sms * c.N // math.max(tiles, 1)
  if c.M > 0 then
    local in_a_gpc = ceil_div(gpc // quarter * (tiles + spare * c.N), c.N * ceil_div(g.sms, quarter))
    most = math.min(c.M, gpc // in_a_gpc)
  end
  return math.max(1, math.min(ceil_div(p.k, c.Bc), most))
end

return split
