-- ws.lua -- the space of the kernels for warpgroups: tunables, what lies where in shared memory, registers, and the
-- arithmetic of work that the model turns into time. Goes with ring.cuh and ws.cuh.
local libs, bias, simt, splits = include "lib/libs.lua", include "lib/bias_tiles.lua", include "lib/simt.lua", include "lib/ws_splits.lua"
local records, windows, packed = include "lib/ws_records.lua", include "lib/ws_windows.lua", include "lib/packed.lua"
local ws = {}

local function ceil_div(x, y) return (x + y - 1) // y end
local function up(x, y) return ceil_div(x, y) * y end

ws.libs = libs("lib/ends.cuh", "lib/softmax.cuh", "lib/late.cuh", "lib/matrix.cuh", "lib/packed.cuh", "lib/fragments.cuh",
  "lib/ring.cuh", "lib/ws_cluster.cuh", "lib/ws.cuh", "lib/ws_lists.cuh", "lib/ws_steps.cuh", "lib/ahead.cuh", "lib/ws_windows.cuh", "lib/ws_records.cuh", "lib/split.cuh", "lib/ws_splits.cuh", "lib/half.cuh", "lib/launches.cuh")

local Bc_values = {}
for Bc = 32, 256, 16 do Bc_values[#Bc_values + 1] = Bc end

-- Tried on an H200 in an earlier form of the kernel and left out, being slower in all shapes: one exponential of 8 by
-- multiply-adds (2 to 6 %; of 4, at d 64: 8 to 13 %; with L = 2 as much, and of 16 it is 4 %), clusters of two blocks
-- that share K and V by multicast (10 to 47 %; with today's addresses again: 7 to 70 %; M has another form of it). In today's (H200 and H100, 36 problems,
-- bench/results/hopper-ws-tried.tsv): Q, K and V of the next tile of Q asked for in L2 by TMA, 2 to 20 %; with that, O stored from registers
-- so that the one place of Q is free early, no faster; uneven tiles dealt in a fixed order, so that no counter is cleared, 14 to 60 %;
-- products of half a tile of keys at the diagonal, 0 to 1 % faster at d 128, which is not worth its text. Two ways to let products do what
-- threads do (H200, under load): rows of P summed by eight columns of ones behind V's 64, 2 to 5 % fewer clocks, but at a lower frequency, so
-- 0 to 2 % less time, and an LSE of rounded weights; and what grows evenly along a row added by 16 columns more of Q K^T, 2 to 5 % slower.
ws.tunables = {
  { "Br", { 64, 128, 192 }, "rows of Q of one tile: 64 for each warpgroup that computes" },
  { "Bc", Bc_values, "rows of K and V of one tile" },
  { "s", { 1, 2, 3, 4 }, "tiles of K and of V in shared memory" },
  { "q", { 1, 2 }, "tiles of Q in shared memory: with 2 the next one comes while this one is worked on" },
  { "Q", { 0, 1 }, "1 = products read Q from registers" },
  { "I", { 0, 1, 2 }, "1 = the next S = Q K^T starts before the softmax of this one, 2 = which ptxas is held to run beside O + P V "
    .. "(with L = 2 half of it, P being packed meanwhile)" },
  -- Turns of the softmax (H200, bf16, full, N = 4096, I = 2, against the best without): 34 % more clocks at d 64, 9 % at d 128,
  -- 0.4 % fewer at d 256, within noise. For who asks.
  { "P", { 0, 1, 2 }, "the warpgroups that compute take turns 1 = in starting their products, 2 = in their softmax: one's products run "
    .. "beside the other's softmax", { 0, 1 } },
  -- L = 2 against the best without (H200, bf16, full, N = 4096, normal data): 11 % fewer clocks at d 64, 13 % at d 96 and 128, 5 %
  -- at d 192, none at d 256 (bench/results/h200-ws-max.tsv). Where maxima keep growing it costs little: P is scaled down in registers,
  -- and the order of tiles (ring.cuh, nth_tile) meets the largest scores of most data within two tiles.
  { "L", { 0, 1, 2 }, "O and l are scaled down 0 = with every tile, 1 = when a maximum has outgrown the last by 2^8, 2 = when sums of "
    .. "weights show that: no maximum is sought" },
  records.tunable,
  { "Z", { 1, 2, 4, 8, 16, 64 }, "heads whose tiles of Q start together, the longest first" },
  -- Against the best with P in registers (H200, bf16, full, N = 4096): 1.4 % faster at d 128 with Br = 192; 4 % slower at d 64, 2.3 % at
  -- d 96. Of tiles that registers have room for: 3 to 12 % slower throughout (bench/results/h200-ws-turns.tsv).
  { "S", { 0, 1 }, "products read P from 0 = registers, 1 = shared memory, which leaves registers for more of Bc", unsaid = 0 },
  -- E = 1 against the best without (H200, bf16, N = 512 to 16k, ten kinds of data): full, 0.5 to 2.0 % faster at d 128, 0.9 to 3.5 % at
  -- d 64 (bench/results/h200-ws-ahead.tsv); causal, 4 to 7 % slower: tiles drawn two rounds ahead leave SMs waiting in the end.
  { "E", { 0, 1 }, "1 = the first S of the next tile of Q runs beside the end of this one", unsaid = 0 },
  -- M = 1 against the best without (H200, bf16, full, N = 512 to 16k, raced): on normal data 1 to 4 % faster at d 256 and d 128, 0 to 4 % at
  -- d 192, up to 1.4 % slower at d 64. It takes up to 2 % more clocks, which are 2 to 5 % higher, as half of what is read leaves L2 and power
  -- limits them; on wide data, which take less power, it wins less or loses. Under a causal mask, where the block that drew a tile told the
  -- other one, it was 1 % faster to 3 % slower on normal data and 1 to 4 % slower in the mean of all kinds: not kept.
  { "M", { 0, 1 }, "1 = two blocks of a cluster have tiles of Q side by side, and each copies half of each tile of K and V, for both", unsaid = 0 },
  -- With 2 to 4 one's products run beside another's beginning and end (H200, bf16, the best beside the best with 1, bench/results/h200-ws-blocks.tsv): d 64, windows of
  -- 128 keys 9 to 27 % faster, ragged texts of up to 512 rows 24 and 32 %, 128 to 1,024 keys, causal, 4 to 16 %, of more 2 to 4 % slower, full 128 and 197 keys level,
  -- 257 to 4,096 3 to 16 % slower; d 128, 256 to 8,192 keys, 4 to 14 % slower but for narrow windows and ragged texts. ws_beside.lua has more.
  { "b", { 1, 2, 3, 4 }, "blocks that an SM has at once", function(p)
    local d = simt.widest(p)
    return d <= 32 and { 1, 2, 3, 4 } or d == 64 and { 1, 2, 3 } or (d < 64 or d == 128) and { 1, 2 } or { 1 }
  end, unsaid = 1 },
  { "B", { 0, 1 }, "a bias comes 0 = to each thread by loads of its own, 1 = by way of shared memory, brought by warps that copy nothing else", unsaid = 0 },
  table.unpack(splits.tunables),
}

function ws.consumers(c) return c.Br // 64 end
function ws.Q_places(c) return c.q * ws.consumers(c) end -- of 64 rows, one for each warpgroup
function ws.threads(c) return 128 * (1 + ws.consumers(c)) end
function ws.boxes(d) return ceil_div(d, 64) end
function ws.Do(p) return up(p.dv, 8) end
-- Registers of a thread when a block begins, of the 64 K of an SM, which `b` blocks share; and of one that computes, 240 at most: what those that
-- copy leave. All in steps of 8.
local function down8(x) return x // 8 * 8 end
local function first_registers(c, b) return down8(65536 // (ws.threads(c) * b)) end
local function copying_registers(c, b) return b > 1 and 32 or ({ 56, 40, 32 })[ws.consumers(c)] end
local function computing_registers(c, b)
  local left = ws.threads(c) * first_registers(c, b) - 128 * copying_registers(c, b)
  return math.min(240, down8(left // (128 * ws.consumers(c))))
end
-- What the compiler reports.
function ws.registers(c) return first_registers(c, c.b) end

-- O is laid where Q was.
function ws.Q_boxes(p) return math.max(ws.boxes(p.d), ws.boxes(p.dv)) end
function ws.at_K(c, p) return c.q * ws.Q_boxes(p) * 128 * c.Br end
function ws.at_V(c, p) return ws.at_K(c, p) + c.s * ws.boxes(p.d) * 128 * c.Bc end
function ws.at_P(c, p) return ws.at_V(c, p) + c.s * ws.boxes(p.dv) * 128 * c.Bc end
function ws.P_bytes(c) return c.S * ws.boxes(c.Bc) * 128 * c.Br end
function ws.at_bias(c, p) return ws.at_P(c, p) + ws.P_bytes(c) end
function ws.bias_bytes(c) return c.B * c.s * bias.bytes(c.Br, c.Bc) end
function ws.at_signals(c, p) return ws.at_bias(c, p) + ws.bias_bytes(c) end
local function own_signals(c, p) return 2 * ws.Q_places(c) + 4 * c.s + (p.ragged and 1 or 0) end
function ws.signals(c, p) return own_signals(c, p) + records.signals(c, p) end
function ws.at_tasks(c, p) return up(ws.at_signals(c, p) + 8 * ws.signals(c, p), c.D == 1 and 16 or 8) end
local function task_bytes(c, p) return (p.has.bs or c.N > 0) and 16 or records.bytes(c, p) end
function ws.shared(c, p) return ws.at_tasks(c, p) + task_bytes(c, p) * ws.Q_places(c) + (p.has.bs and 4 * c.s or 0) end

-- Whether scores differ from products by what grows evenly along a row: ALiBi alone, where no key that is seen lies behind its row, or an
-- expression that says so.
local function adds_evenly(p)
  local has, alibi = p.has, p.has.alibi and p.has.causal and not p.has.prefix
  return (has.modHASH and p.adds_evenly == 1 and not has.alibi or alibi and not has.modHASH)
    and not (has.softcap or has.bias or has.mask or has.maskHASH) or false
end

-- Whether the exponential takes products then. Under a window maxima are sought of scores; of an expression more is asked while S is
-- awaited, when a list has not said yet which keys these are.
function ws.scores_late(c, p) return c.L == 2 and adds_evenly(p) and not (p.cut.left or p.has.bs and p.has.modHASH) end

-- Elsewhere E = 1 is as 0, so that what won without a feature may be given to one that has it: where rows begin with different tiles
-- of keys, and where weights are made of products.
function ws.can_be_ahead(p) return not (p.cut.left or p.ragged or p.has.bs or p.has.iv or p.has.alibi or adds_evenly(p)) end

-- Tiles of Q that differ in length are drawn by a counter, the longest first; lists bring one of their own.
function ws.counts(p) return p.uneven and not p.has.bs end

function ws.words(c, p)
  local S = { columns = c.Bc, held = c.Q == 1 }
  local O = { columns = ws.Do(p), held = c.S == 0 }
  local same = S.columns == O.columns and S.held == O.held
  local counts, late = ws.counts(p), ws.scores_late(c, p)
  local early = late and p.has.modHASH or false
  local ruled = p.has.alibi or p.has.drop or false
  local windowed = windows.are_told(p)
  local words = { libs = ws.libs, dtype = p.dtype, slices = p.slices, parted = false, aligned = 16, overlaps = true, stores_later = c.D == 1 and c.q == 2, stores_tails = false, storing_lane = "thread_id() % 32", drawn = p.uneven, in_line = simt.is_in_line(p), by_warp = p.ragged or p.has.iv or false,
    products = same and { S } or { S, O },
    producer_registers = copying_registers(c, c.b), consumer_registers = computing_registers(c, c.b), blocks_of_sm = c.b,
    ruled = ruled, rows_type = ruled and "ruled" or windowed and "windowed" or "sequence", rows_from = (p.has.drop or windowed) and ", i0" or "", windowed = windowed,
    shifts = windows.shift(c, p), lo_by_hi = windows.lo_by_hi(p), rows_later = p.has.alibi and p.has.causal and not (p.has.modHASH or p.has.prefix) or false, Q_held = c.Q == 1, halves = false, P_shared = c.S == 1,
    schedule = c.I == 0 and "in_order" or "overlapped", held = c.I == 2,
    scores_late = late, weights_late = late and "exp2_late" or "exp2_columns", late_of = late and "x, t" or "x.S, x.m",
    added_early = early, take_tile = early and ", const tile_at &t, float c" or "",
    take_counter = counts and ", i32 *counter" or "", and_counter = counts and ", counter" or "",
    turns = c.P == 0 and "none" or c.P == 1 and "products" or "softmax",
    ahead = c.E == 1 and ws.can_be_ahead(p), shares = c.M == 1, side_by_side = c.M == 1, range_of = c.M == 1 and "pair_range" or "range", read_by = c.M == 1 and "release_both" or "release",
    rescale = c.L == 1 and "seldom" or "always", seeks_late = c.L == 2,
    -- What scores take beside products would else be kept from the first time on, where registers have no room: 704 bytes of ALiBi's, full, d 64.
    tile_again = p.scored and "{t.a, t.at, t.i0, i32(anew(t.j0)), t.is_cut}" or "t",
    K_of_step = p.has.bs and "k" or "n + 1", take_K = p.has.bs and ", i32 k" or "", -- that of the tile behind the n-th, or of one farther on
    take_slot = c.B == 1 and ", i32 slot" or "", and_slot = c.B == 1 and ", K.slot" or "" }
  packed.words(words, c, p)
  bias.words(words, c.B == 1, "K")
  records.words(words, c, p)
  splits.words(words, c)
  return words
end

function ws.constants(c, p)
  local Q = ws.Q_places(c)
  local all = {
    { "Br", c.Br, "rows of Q of one tile" },
    { "Bc", c.Bc, "rows of K and V of one tile" },
    { "T", ws.threads(c), "threads of a block" },
    { "consumers", ws.consumers(c), "warpgroups that compute" },
    { "X", 4, "lanes that share a row" },
    { "D", p.d, "head dimension of Q and K" },
    { "Dv", p.dv, "head dimension of V and O" },
    { "Dp", up(p.d, 16), "columns of Q and K that products read" },
    { "boxes", ws.boxes(p.d), "boxes of 64 columns of Q and K" },
    { "V_boxes", ws.boxes(p.dv), "boxes of 64 columns of V" },
    { "Q_boxes", ws.Q_boxes(p), "boxes of the place of Q, which O takes over" },
    { "Q_stages", c.q, "tiles of Q in shared memory" },
    { "stages", c.s, "tiles of K and of V in shared memory" },
    { "at_K", ws.at_K(c, p), "where K lies in shared memory, bytes" },
    { "at_V", ws.at_V(c, p), "where V lies in shared memory, bytes" },
    { "P_boxes", ws.boxes(c.Bc), "boxes of 64 columns of P" },
    { "at_P", ws.at_P(c, p), "where P lies in shared memory, bytes" },
    { "at_signals", ws.at_signals(c, p), "where the barriers lie in shared memory, bytes" },
    -- Barriers: `full` = the bytes have come, `free` = all who read them have done so.
    { "Q_full", 0, "barrier of the first place of Q" },
    { "K_full", Q, "barrier of the first tile of the ring" },
    { "V_full", Q + c.s, "barrier of the first tile of the ring" },
    { "Q_free", Q + 2 * c.s, "barrier of the first place of Q" },
    { "K_free", 2 * Q + 2 * c.s, "barrier of the first tile of the ring" },
    { "V_free", 2 * Q + 3 * c.s, "barrier of the first tile of the ring" },
    { "V_tail", 2 * Q + 4 * c.s, "barrier of the tile of V in which a batch ends" },
    { "signals", ws.signals(c, p), "barriers" },
    { "at_tasks", ws.at_tasks(c, p), "where the records of which tile each place of Q holds lie, bytes" },
    { "Z", c.Z, "heads whose tiles of Q start together" },
    { "slices", p.slices, "blocks beside each other that make the columns of O" },
  }
  if p.has.bs then
    all[#all + 1] = { "at_entries", ws.at_tasks(c, p) + 16 * Q, "where the entries of the tiles of K in their list lie, bytes" }
  end
  if c.D == 1 then records.constants(all, c, p, own_signals(c, p)) end
  if c.B == 1 then bias.constants(all, ws.at_bias(c, p), c.Bc) end
  return all
end

-- The accumulators S and O, P, and about 28 for the rest: what a thread that computes needs. P takes the place of S
-- unless the next S is there before P has been read.
function ws.needs(c, p, S)
  local P = c.I > 0 and (S or c.S) == 0 and c.Bc // 4 or 0
  return c.Bc // 2 + ws.Do(p) // 2 + P + c.Q * up(p.d, 16) // 4 + 28
end
local function fits(c, p, b, S) return ws.needs(c, p, S) <= computing_registers(c, b) end

-- How much longer a launch takes than its products alone, in tensor cores' time. Logarithms of 808 times of configs on
-- an H200 (bf16 and f16, d 64, 128 and 256, N = 512 to 16k), as a sum of what a config and a problem bring in: 7 % off
-- in the mean; among the 8 shortest predicted there was one within 2.1 % of the best in each problem of 12 configs or
-- more. They were the most promising of their spaces, not drawn by lot. The terms of Br = 192 and L at wider rows and
-- that of Q were added by the clocks (not the times) of 246 configs of bf16, d 64 and 128, in a later run; that of L = 2
-- by those of the best with and without.
function ws.slack(c, p, visits)
  local short, small, wide = 128 / c.Bc, p.d <= 64, p.dv > 192
  local once = 0.1 + (c.q == 1 and 0.08 or 0) + (c.P == 0 and 0.18 or 0) + (p.uneven and 0.1 - 0.28 * c.Br / 128 or 0)
  local x = 0.3 - 0.17 * short + 0.085 * short * short + once / math.max(visits * c.b, 1)
  if small then x = x + 0.2 + 0.08 * short + (c.L == 1 and 0.04 or 0) + (c.Br == 192 and -0.17 or 0) end
  if wide then x = x + 0 - 0.16 * short end
  if not small and c.Br == 192 then x = x - 0.06 end
  if not small and c.L == 1 then x = x - 0.03 end
  if c.Q == 1 then x = x + (small and 0.02 or -0.025) end
  if c.I == 0 then x = x + (small and c.Br == 192 and c.L == 2 and -0.03 or 0.08) end
  if c.I == 2 then x = x + (small and 0.03 or -0.04) end
  if c.P == 0 then x = x + (small and -0.02 or -0.05) end
  if c.q == 1 then x = x + 0.03 end
  if c.s == 1 then x = x + 0.145 end
  if c.Br == 64 then x = x + 0.34 end
  if c.b > 1 then x = x - (c.Br == 64 and 0.1 * c.b or 0.2) end -- 300 times of 22 problems
  if c.D == 1 then x = x - 0.02 - 0.1 / math.max(visits, 1) end -- of 109 groups ranks correlate by 0.34, without by 0.30
  if c.M == 1 then x = x + (c.Br == 192 and 0.05 or 0.02) end -- by clocks; in time it is made up for where power limits these
  if c.E == 1 then x = x + (p.uneven and 0.05 or -0.02) end
  if c.L == 2 then x = x - (small and 0.125 or p.dv <= 128 and 0.19 or 0.06) end
  if p.uneven and (c.Z == 1 or c.Z == 64) then x = x + 0.02 end
  return 2.718281828459045 ^ x
end

ws.constraints = {
  -- Asked of one block first: b is set last, and waiting for it a walk saw 400 million instructions and more.
  { function(c, p) return fits(c, p, 1) end, "accumulators and operands of a thread fit its registers" },
  { function(c, p) return fits(c, p, c.b) end, "so they do beside other blocks of the SM" },
  { function(c, p) return c.S == 0 or not fits(c, p, 1, 0) end, "P goes to shared memory where registers have no room for it",
    walk = true },
  { function(c, p) return math.max(c.Bc, ws.Do(p)) // 2 + 26 <= first_registers(c, 1) end,
    "what one product writes fits the registers of a thread before they move" },
  { function(c, p) return math.max(c.Bc, ws.Do(p)) // 2 + 26 <= ws.registers(c) end, "so it does beside other blocks of the SM" },
  { function(c) return c.P == 0 or ws.consumers(c) > 1 and c.I > 0 end,
    "it takes two to take turns, and products that run beside a softmax" },
  { function(c, p, g) return c.b == 1 or c.M == 0 and c.N == 0 and c.b * (ws.shared(c, p) + g.shared_reserved) <= g.shared_sm end,
    "the blocks of an SM fit its shared memory, and are neither pairs nor counted by splits" },
  { function(c) return c.b == 1 or c.L == 2 and c.q == 2 and c.s > 1 and c.P == 0 and c.S == 0 and c.E == 0 and (c.Z == 1 or c.Z == 8) end,
    "of several blocks on an SM these forms won", walk = true },
  { function(c, p) return c.P == 0 or not p.has.bs end, "warpgroups whose rows see other tiles than those of others take no turns" },
  -- The first of them would await a V that is copied behind the next K, for whose place it keeps the others waiting.
  { function(c, p) return c.s > 1 or not p.has.bs end, "a warpgroup may pass by its first tile, with a place for the next" },
  { function(c) return c.P < 2 or c.I == 2 end, "a softmax that is not held to its place would run on beyond its turn" },
  { function(c) return c.E == 0 or c.q == 2 and c.Q == 0 and c.L == 2 and c.S == 0 end, "the next tile of Q has a place of its own" },
  { function(c, p) return c.E == 0 or not p.uneven or ceil_div(c.Br - 64, c.Bc) < c.s end,
    "a warpgroup that keeps its last V lets pass those that only others see" },
  { function(c, p, g) return c.M == 0 or c.B == 0 and g.sms % 2 == 0 and not (p.uneven or p.ragged or p.has.bs or p.has.iv or p.has.chunk or p.has.prefix) end,
    "two tiles of Q that share K and V see the same keys, and no more is copied than these" },
  { function(c, p) return c.E == 0 or ws.can_be_ahead(p) end, "E is 1 where all rows begin with the same tile of keys", walk = true },
  { function(c, p) return p.uneven or c.Z == 1 end, "tiles of Q differ in length only under a mask" },
  { function(c) return c.Z <= 2 or c.Z == 8 or c.L == 2 and c.Q == 0 end, "what seldom wins is walked with few numbers of heads", walk = true },
  { function(c, p) return c.B == 0 or bias.can_be(p) and c.s > 1 and (c.E == 0 or not ws.can_be_ahead(p)) end,
    "tiles of biases, of 16 bits and without paddings ahead, come with those of K" },
  { function(c) return c.B == 0 or c.Bc % 64 == 0 end, "boxes of biases are 64 columns wide: what is less is copied twice",
    walk = true },
  table.unpack(records.constraints),
}
for _, one in ipairs(splits.constraints) do ws.constraints[#ws.constraints + 1] = one end

return ws
