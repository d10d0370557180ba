-- mma.lua -- what the kernels on tensor cores have in common: tunables, what a thread holds, and the arithmetic of
-- work that the model turns into time. Goes with mma.cuh, half.cuh and tf32.cuh.
local libs, split = include "lib/libs.lua", include "lib/split.lua"
local mma = {}

local function ceil_div(x, y) return (x + y - 1) // y end
local function up(x, y) return ceil_div(x, y) * y end

mma.libs = function(p)
  return libs("lib/ends.cuh", "lib/packed.cuh", "lib/softmax.cuh", "lib/matrix.cuh", "lib/fragments.cuh",
    "lib/mma.cuh",
    mma.bytes(p) == 2 and "lib/half.cuh" or "lib/tf32.cuh", "lib/split.cuh", "lib/launches.cuh")
end

mma.tunables = {
  { "Br", { 16, 32, 64, 96, 128, 192, 256 }, "rows of Q of one tile" },
  { "Bc", { 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256 }, "rows of K and V of one tile" },
  { "w", { 1, 2, 4, 6, 8 }, "warps of a block; they share the rows of Q" },
  -- Few rows leave one or two warps of a block something to do; the others' part is then some of a tile's keys.
  { "k", { 1, 2, 4, 8 }, "parts of a tile's keys; for each there are warps that have all rows",
    function(p) return mma.may_part(p) and { 1, 2, 4, 8 } or { 1 } end, unsaid = 1 },
  { "s", { 0, 1, 2, 3, 4 }, "tiles of K and of V in shared memory; 0 = they take turns in one place" },
  { "Q", { 0, 1 }, "Q is read from 0 = shared memory, 1 = registers, and K and V lie where it lay" },
  { "b", { 1, 2, 3, 4 }, "blocks of an SM that the registers of a thread must leave room for" },
  -- Few rows make few tiles, all of nearly a length: with parts and splits of keys, other Z took a walk beyond its limit.
  { "Z", { 1, 8, 64 }, "heads whose tiles of Q start together, the longest first",
    function(p) return mma.may_part(p) and { 1 } or { 1, 8, 64 } end },
  -- Elements one by one are for tensors that allow nothing else: never faster, so not worth a walk.
  { "W", { 1, 16 }, "bytes that tensors are aligned to: 16, or 1 = elements one by one", { 16 } },
  { "G", { 0, 1 }, "tiles of Q hold rows of 0 = one head, 1 = all heads that share K and V",
    function(p) return mma.has_few_rows(p) and { 1, 0 } or { 0 } end, unsaid = 0 },
  -- By the compiler's figures (bf16, sm_90, 12 configs, d 64 to 256) a loop spares 0 to 14 registers and up to 36 bytes
  -- of spills, or costs 4: too little for a walk, which would show the same configs twice.
  { "U", { 0, 1, 2 }, "steps of 32 bytes of S = Q K^T that are laid out one after another; 0 = all of them", { 0 },
    unsaid = 0 },
  -- The less is done to O the better, so 0 is for who wants the textbook's every step, or to see what it costs.
  { "L", { 0, 1 }, "O and l are scaled down 0 = with every tile, 1 = when a maximum has outgrown the last by 2^8",
    function(p) return p.has.split and { 0 } or { 1 } end, unsaid = 1 },
  { "N", { 0, 1, 2, 3, 4, 6, 8 }, "blocks for each SM that rows are split for by their keys; 0 = they are not",
    function(p, g) return mma.has_idle_SMs(p, g) and { 0, 1, 2, 3, 4, 6, 8 } or { 0 } end, unsaid = 0 },
  { "M", { 0, 8 }, "splits of a row are merged by 0 = a second launch, else the blocks of a cluster, which are so many at most",
    function(p, g) return g.sm >= 90 and mma.has_idle_SMs(p, g) and { 0, 8 } or { 0 } end, unsaid = 0 },
}

-- Whether a problem has so few rows of Q that those of several heads are worth putting together: alone, those of a head would fill
-- half of a tile at most.
function mma.has_few_rows(p) return p.h > p.hk and p.q <= 32 and p.slices == 1 end

-- Tiles of 128 rows, which heads that share K and V may fill together.
function mma.shared_tiles(p)
  return p.b * (p.h > p.hk and ceil_div(p.q * p.h // p.hk, 128) * p.hk or ceil_div(p.q, 128) * p.h)
end

-- Whether these leave SMs without a block while there are keys to split.
function mma.has_idle_SMs(p, g)
  return p.slices == 1 and not p.has.split and p.k >= 256 and mma.shared_tiles(p) < g.sms
end

-- Whether rows are so few that parts of a tile's keys may have warps of their own.
function mma.may_part(p)
  return p.slices == 1 and not p.has.split and not p.has.drop and p.q * (p.h // p.hk) <= 64 and p.k >= 256
end

-- A window leaves little of a tile of many rows, and masking both its ends costs registers that such a tile lacks.
function mma.is_wide(p) return not p.cut.left end

function mma.bytes(p) return (p.dtype == "f16" or p.dtype == "bf16") and 2 or 4 end
function mma.chunk(p) return 16 // mma.bytes(p) end
function mma.rows(c) return c.Br * c.k // c.w end -- of a warp
function mma.threads(c) return 32 * c.w end
-- Tiles travel through registers where there is no asynchronous copy, or nothing aligned to copy.
function mma.travels(c, p, g) return g.sm < 80 or c.W == 1 end
-- Columns of Q and K, of V as they lie in shared memory, and of O as a thread holds it.
function mma.Dp(p) return up(p.d, 16) end
function mma.Dw(p) return up(p.dv, 16) end
function mma.Do(p) return up(p.dv, 8) end

function mma.constants(c, p)
  local constants = {
    { "Br", c.Br, "rows of Q of one tile" },
    { "Bc", c.Bc, "rows of K and V of one tile" },
    { "T", mma.threads(c), "threads of a block" },
    { "warps", c.w // c.k, c.k > 1 and "warps that share the rows of Q" or "warps of a block" },
    { "X", 4, "lanes that share a row" },
    { "per_chunk", mma.chunk(p), "elements of a chunk of 16 bytes" },
    { "D", p.d, "head dimension of Q and K" },
    { "Dv", p.dv, "head dimension of V and O" },
    { "Dp", mma.Dp(p), "columns of Q and K in shared memory" },
    { "Dw", mma.Dw(p), "columns of V in shared memory" },
    { "stages", math.max(1, c.s), "tiles of K and of V in shared memory" },
    { "at_K", mma.at_K(c, p), "where K lies in shared memory, bytes" },
    { "at_V", mma.at_V(c, p), "where V lies in shared memory, bytes" },
    { "Z", c.Z, "heads whose tiles of Q start together" },
    { "slices", p.slices, "blocks beside each other that make the columns of O" },
  }
  if c.k > 1 then constants[#constants + 1] = { "parts", c.k, "parts of a tile's keys, each of them other warps'" } end
  return constants
end

-- What the CUDA text asks for in its Lua lines.
function mma.words(c, p, g)
  return { libs = mma.libs(p), travels = mma.travels(c, p, g), dtype = p.dtype, slices = p.slices, drawn = false, packed = c.G == 1,
    unrolled = c.U, rescale = c.L == 1 and "seldom" or "always", Q_held = c.Q == 1, aligned = c.W, blocks_of_sm = c.b,
    schedule = c.s == 0 and "in_turns" or c.s == 1 and "alone" or "in_flight", overlaps = g.sm >= 90,
    split = p.has.split and "by keys" or c.N > 0 and "evenly", parted = c.k > 1,
    merges_of_sm = g.sm >= 100 and p.dv > 128 and 5 or 6, -- six spill 24 bytes there
    merges = p.has.split and "later" or c.M > 0 and "in a cluster" or c.N > 0 and "later" or c.k > 1 and "in a block" }
end

-- Bytes of tiles in shared memory.
function mma.Q_bytes(c, p) return c.Br * math.max(mma.Dp(p), mma.Dw(p)) * mma.bytes(p) end
function mma.KV_bytes(c, p)
  local K, V = c.Bc * mma.Dp(p) * mma.bytes(p), c.Bc * mma.Dw(p) * mma.bytes(p)
  return c.s == 0 and math.max(K, V) or c.s * (K + V)
end
function mma.at_K(c, p) return c.Q == 1 and 0 or mma.Q_bytes(c, p) end
function mma.at_V(c, p) return mma.at_K(c, p) + c.s * c.Bc * mma.Dp(p) * mma.bytes(p) end
function mma.shared(c, p)
  local Q, KV = mma.Q_bytes(c, p), mma.KV_bytes(c, p)
  local O = (c.M > 0 or c.k > 1) and 4 * c.k * c.Br * (p.dv + 1) or 0 -- O_s and L_s, when all else has been read
  return math.max(O, c.Q == 1 and math.max(Q, KV) or Q + KV)
end

-- Registers that a thread would like: the accumulators of S with the operands made of them, those of O, Q where it
-- is held, a tile on its way, and what is left: addresses, m and l, operands on their way. Fitted to what the
-- compiler gave 719 configs that had room (sm_90, d 40 to 256): 11 off in the mean. An estimate for pruning; the
-- compiler's figure replaces it.
function mma.wants(c, p, g)
  local R = mma.rows(c) // 8
  local S, O = R * (c.Bc // c.k // 4), R * (mma.Do(p) // 4)
  local Q = c.Q == 1 and R * mma.Dp(p) * mma.bytes(p) // 16 or 0
  local travels = mma.travels(c, p, g) and c.Bc * mma.Dp(p) * mma.bytes(p) // (4 * mma.threads(c)) or 0
  return 82 + 13 * S // 8 + O + 4 * Q // 5 + travels + (p.dtype == "f32x3" and 16 or 0)
end
-- What it may have, so that b blocks fit an SM; registers are handed out in eights.
function mma.most_registers(c) return math.min(255, 65536 // (c.b * mma.threads(c)) // 8 * 8) end
function mma.registers(c, p, g) return math.min(mma.wants(c, p, g), mma.most_registers(c)) end
-- Bytes of spill stores and loads: the compiler saves about 1.5 bytes, twice, for each register that is wanting.
function mma.spills(c, p, g) return 3 * math.max(0, mma.wants(c, p, g) - mma.most_registers(c)) end

-- Tensor-core operations of a visit of one tile, counted as 16-bit ones: tf32 has half their rate, and 3xTF32
-- does three. From Hopper on mma.sync reaches half of the rate that the architecture's row names.
function mma.flop(c, p, g)
  local factor = mma.bytes(p) == 2 and 1 or p.dtype == "tf32" and 2 or 6
  local half = g.sm >= 90 and g.sm < 120 and 2 or 1
  return 2 * c.Br * c.Bc * (mma.Dp(p) + mma.Do(p)) * factor * half
end

-- Bytes that cross shared memory with it: each warp reads all of K and V, and Q where it is not held.
function mma.tile_bytes(c, p)
  local KV = c.Bc * (mma.Dp(p) + mma.Dw(p)) * mma.bytes(p)
  return (c.w // c.k + 1) * KV + (c.Q == 0 and c.Br * mma.Dp(p) * mma.bytes(p) or 0)
end

-- Lanes of the instructions that copy a tile, as mma.cuh's `share` divides it: every thread takes a chunk of each
-- step's rows, idle or not. Where the order of a row's chunks changes otherwise than by a constant from step to step
-- each address is worked out anew: 12 instructions a chunk, fitted with the model's constants.
local function copy_lanes(c, p, columns)
  local most = mma.threads(c) // (columns // mma.chunk(p))
  local step = most >= 4 and most // 4 * 4 or math.max(most, 1)
  return ceil_div(c.Bc, step) * mma.threads(c) * (c.W == 1 and 40 or step % 4 == 0 and 4 or 12)
end

-- Instructions beside fma and ex2, in lanes: of a score the maximum, the sum, and half a conversion with its move;
-- copies; conversions to tf32; the loop over steps of S where there is one. Products are issued while tensor cores work.
function mma.tile_issue(c, p)
  local KV = c.Bc * (mma.Dp(p) + mma.Dw(p))
  local copies = copy_lanes(c, p, mma.Dp(p)) + copy_lanes(c, p, mma.Dw(p))
  local conversions = mma.bytes(p) == 2 and 0 or (p.dtype == "f32x3" and 2 or 1) * (c.w * KV + c.Br * (c.Bc + mma.Dp(p)))
  local loop = c.U > 0 and 4 * mma.threads(c) * ceil_div(mma.Dp(p) * mma.bytes(p), 32 * c.U) or 0
  return 2 * c.Br * c.Bc + copies + conversions + loop
end

-- Steps that a visit waits for: with a ring of tiles one barrier, and a third of a load that is under way for a
-- whole visit.
function mma.steps(c) return c.s == 0 and 4 or c.s == 1 and 2 or 1.3 end

mma.constraints = {
  { function(c) return c.w % c.k == 0 and c.Bc % (16 * c.k) == 0 end,
    "each part of a tile's keys has as many warps, and sixteens of keys (k)" },
  { function(c) return c.Br * c.k % c.w == 0 and (mma.rows(c) == 16 or mma.rows(c) == 32) end,
    "a warp owns 16 or 32 rows of Q (Br k/w)" },
  { function(c, p, g) return c.s <= 1 or not mma.travels(c, p, g) end,
    "more than one tile ahead needs asynchronous copies: sm_80, and tensors aligned to 16 bytes" },
  { function(c, p, g) return c.s ~= 0 or mma.travels(c, p, g) end,
    "K and V take turns in one place only as they travel through registers: a copy would not wait for its turn" },
  { function(c, p) return math.max(mma.Dp(p), mma.Dw(p)) // mma.chunk(p) <= mma.threads(c) end,
    "a row of a tile has at most one chunk of 16 bytes for each thread" },
  { function(c, p) return p.uneven or c.Z == 1 end, "tiles of Q differ in length only under a mask" },
  { function(c, p) return c.U == 0 or c.Q == 0 and c.U * 32 < mma.Dp(p) * mma.bytes(p) end,
    "some steps of S = Q K^T in a loop: there are more, and Q is not in registers, which are known by name alone" },
  { function(c, p) return not p.has.split or c.N == 0 and c.k == 1 and c.L == 0 and c.Bc == 64 end,
    "splits of so many keys give the same bits whatever the config: tiles of 64 keys (Bc64), every step as written (L0), "
      .. "no other splits (N), no parts (k)" },
  { function(c) return c.M == 0 or c.N > 0 end, "blocks merge what they have where keys are split evenly" },
  { function(c, p, g) return c.M == 0 or g.sm >= 90 end, "clusters of blocks are Hopper's" },
  { function(c, p) return not (p.has.split and p.has.bs) end, "split and bs exclude each other: keys of a list make no splits of so many" },
  { function(c, p) return not split.is_made(c, p) or p.slices == 1 end, "keys are split where V is made at once" },
  { function(c, p) return not p.has.drop or c.G ~= 1 and not split.is_made(c, p) end,
    "dropout draws for rows of one head, in one pass over its keys" },
  { function(c, p) return c.G ~= 1 or not (p.has.iv or p.has.bs) end, "rows of several heads share a tile where all see the same keys" },
  { function(c, p) return c.G ~= 1 or p.slices == 1 end, "rows of several heads share a tile where V is made at once" },
  { function(c, p, g) return mma.spills(c, p, g) <= 384 end,
    "accumulators and operands of a thread fit its registers, or nearly" },
  { function(c, p, g) return c.b * (mma.shared(c, p) + g.shared_reserved) <= g.shared_sm end,
    "the blocks of an SM fit its shared memory" },
  { function(c, p, g) return c.b * mma.threads(c) <= g.threads_sm end,
    "the blocks of an SM fit its threads" },
}

-- The kernels without a pipeline, fa1 and standard, have fewer choices: one tile of K and of V, Q in shared memory, and
-- none of what a config may leave unsaid.
mma.plain_tunables = {}
local fixed = { s = 1, Q = 0, Z = 1 }
for _, row in ipairs(mma.tunables) do
  fixed[row[1]] = fixed[row[1]] or row.unsaid
  if not fixed[row[1]] then mma.plain_tunables[#mma.plain_tunables + 1] = row end
end
local function whole(c)
  local all = {}
  for _, row in ipairs(mma.tunables) do all[row[1]] = fixed[row[1]] or c[row[1]] end
  return all
end
function mma.plain(of) return function(c, p, g) return of(whole(c), p, g) end end
mma.plain_constants = mma.plain(mma.constants)
mma.plain_constraints = {}
for i, row in ipairs(mma.constraints) do mma.plain_constraints[i] = { mma.plain(row[1]), row[2] } end
mma.plain_defaults = {}
for i, row in ipairs { { 64, 64, 4 }, { 64, 32, 4 }, { 64, 16, 4 }, { 32, 16, 2 } } do
  mma.plain_defaults[i] = { Br = row[1], Bc = row[2], w = row[3], b = 1, W = 16 }
end
-- O grows in fp32, which 16-bit tensors do not hold.
function mma.O_apart(p) return mma.bytes(p) == 2 end
function mma.plain_words(c, p, g)
  local words = mma.words(whole(c), p, g)
  words.O_apart = mma.O_apart(p)
  return words
end

return mma
