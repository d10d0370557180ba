-- ws_grad.lua -- what the backward kernels for warpgroups have in common: where tiles lie, words, constants, the three launches
-- and their work. Goes with ws_grad.cuh and ws_sums.cuh. `of` says what of this a kernel decides:
--   groups   warpgroups that have 64 keys of their own; all: those that compute
--   Q dO dS  tiles of each in shared memory; P: bytes of P there; dQ: bytes of dQ there
--   paired   whether two blocks of a cluster have 64 of the keys each (ws_pairs.cuh); shares: and copy Q and dO for each other
--   sums     columns of dQ in its sums, where that is not d; partial: whether warpgroups make more; halves: whether each makes half, and
--            K's second box begins with those of the second; made: columns of dQ that all make together
--   turned   whether sums are those of dQ^T
--   lots     whether dropout is drawn while S is awaited (ws_drop.cuh)
--   biases   whether biases come by way of shared memory, a tile with each of Q
--   K_held, V_held   slices of 16 columns of each in registers, where there are any
--   lays     whether of blocks that add in turns the first lays dQ down; settles: and the last rounds it, which without det
--            is all the order there is; last_first: where that begins with the last keys, as det does; first_come: or whichever comes first
--            lays dQ down, and whichever comes last rounds it (ws_comers.cuh)
--   pairs_stay   whether pairs stay for many tiles of keys, with one place for K and one for V, and one for dK on its way (ws_pairs_stay.cuh)
--   stays    whether a block stays for many tiles of keys, with places for two; owns: and has whole heads, whose dQ it sums
--   tells    whether who copies a tile of Q tells those that compute which it is: they need not count, nor ask for lengths
--   row_readers, dS_readers   warpgroups that read a tile of Q or dO, of dS; parts: blocks that have a tile of keys together (ws_parts.lua)
local libs, slopes = include "lib/libs.lua", include "lib/slopes.lua"
local simt, bias, parts, order = include "lib/simt.lua", include "lib/bias_tiles.lua", include "lib/ws_parts.lua", include "lib/ws_order.lua"
local ws = {}

function ws.up(x, y) return ceil_div(x, y) * y end
-- Whether a kernel steps by lists of tiles of Q.
function ws.listed(p) return p.has.bs or p.has.iv or false end
function ws.boxes(d) return ceil_div(d, 64) end
function ws.threads(of) return 128 * (1 + of.all) end
-- Registers of a thread that copies and of one that computes: 64 K of an SM, in steps of 8.
local moved = { { 24, 232 }, { 24, 240 }, { 32, 160 } }
-- `all`: warpgroups that compute. Beside two of them warps that copy need more where they bring biases or tasks, too (`more`), or stay (`stays`) and follow
-- lists or lengths of batches: with 24 they spilled 648 bytes in ragged batches of d 64, with 40 still 160.
function ws.registers_of(all, more, stays, p)
  if stays and (p.ragged or ws.listed(p)) then return 56, 224 end
  return table.unpack(more and { 40, 232 } or moved[all])
end
-- What the compiler reports is the share of a thread before registers move.
function ws.registers(of) return 65536 // ws.threads(of) // 8 * 8 end

-- What a store takes beside its tile where a batch may end amid one.
local function rows_to(p, words)
  return function(name)
    return p.ragged and string.format(", stored_%s(rows(a, %s))", name, name == "dQ" and words.tile_head or "my.head") or ""
  end
end

-- The bytes, behind LSE and D, of what blocks count in device memory: four numbers.
local function counters(p, of) return order.counts(p, of) and "+16" or "" end

-- Groups of 64 keys whose rows of K and V a block has.
local function own_groups(of) return of.paired and 1 or of.groups end

-- Warpgroups of a block that have the same keys, and so a turn each; and those that add to a tile of dQ at once, a pair's together.
local function sharers(of) return of.all // own_groups(of) end
local function adders(of) return of.paired and 2 * sharers(of) or sharers(of) end

-- What is said of a block's last two steps where whoever comes first lays dQ down: bytes.
local function comers(of) return of.first_come and 64 or 0 end

-- Barriers of the order in which blocks add to dQ.
local function turns(p, of) return order.waits(p, of) and 4 * sharers(of) or 0 end
-- And of tiles in which a batch ends: of each warp that copies.
local function tails(p, of) return p.ragged and (of.stays and 3 or 2) or 0 end
-- And of blocks that stay: of each place of K and V that it is free, and told; and where tiles are drawn that one is wanted.
local function stay_signals(of) return of.stays and (order.draws(of) and 5 or 4) or of.pairs_stay and 2 or 0 end

-- Whether of rows that see a tile of keys all is said that their steps ask: of ragged batches, whose lengths lie in device memory.
local function rows_told(p, of) return of.stays and simt.is_in_line(p) and not (p.scored or p.has.drop) or false end

-- What is said of a tile of keys to those that did not draw it (ws_told.cuh).
local function told_bytes(p, of) return rows_told(p, of) and 64 or 48 end

-- What is said of a step to those that compute, where they would ask for it (ws_steps_told.cuh).
local step_bytes = 32

-- Barriers of P: full and free; of a pair, where it lies in dS's place, full for each of these.
local function P_signals(of) return of.paired and of.dS or 2 end

-- Where tiles lie in shared memory; of a pair two boxes of the other block's K behind its own.
function ws.places(c, p, of)
  local keys = of.stays and 2 or 1
  local at = { V = keys * own_groups(of) * (of.halves and 2 or ws.boxes(p.d)) * 8192 + (of.paired and 2 * 8192 or 0) }
  at.Q = at.V + keys * own_groups(of) * ws.boxes(p.dv) * 8192
  at.dO = at.Q + of.Q * ws.boxes(p.d) * 128 * c.Br
  at.dS = at.dO + of.dO * ws.boxes(p.dv) * 128 * c.Br
  at.bias = at.dS + of.dS * of.groups * 128 * c.Br
  at.P = at.bias + (of.biases and of.Q * bias.bytes(c.Br, 64 * of.groups) or 0)
  at.dQ = at.P + of.P
  at.dK = at.dQ + of.dQ
  at.lots = at.dK + (of.pairs_stay and ws.boxes(p.d) * 8192 or 0)
  at.LD = at.lots + (of.lots and 2 * 2 * of.groups * ceil_div(c.Br, 64) * 2048 or 0)
  at.steps = at.LD + of.Q * 8 * c.Br
  at.comers = at.steps + (of.tells and of.Q * step_bytes or 0)
  at.signals = at.comers + comers(of)
  at.last = at.signals + 8 * (P_signals(of) + 2 * keys + stay_signals(of) + 2 * (of.Q + of.dO + of.dS) + turns(p, of) + tails(p, of))
  at.told = ws.up(at.last, 16)
  if of.stays then at.last = at.told + keys * told_bytes(p, of) end
  return at
end

-- The shapes of products: of columns, and whether the left operand is in registers, each once.
function ws.shapes(list)
  local shapes, known = {}, {}
  for _, row in ipairs(list) do
    local name = row[1] * 2 + (row[2] and 1 or 0)
    if not known[name] then shapes[#shapes + 1] = { columns = row[1], held = row[2] } end
    known[name] = true
  end
  return shapes
end

-- Files whose functions these kernels may need.
ws.libs = libs("lib/softmax.cuh", "lib/fragments.cuh", "lib/ring.cuh", "lib/ws.cuh", "lib/half.cuh", "lib/grad.cuh", "lib/walk.cuh", "lib/ws_grad.cuh",
  "lib/ws_grad_rows.cuh", "lib/ws_grad_steps.cuh", "lib/ws_drop.cuh", "lib/ws_sums.cuh", "lib/ws_settle.cuh", "lib/ws_turns.cuh", "lib/ws_comers.cuh",
  "lib/ws_tails.cuh", "lib/ws_slices.cuh", "lib/ws_told.cuh", "lib/ws_steps_told.cuh", "lib/ws_stays.cuh", "lib/ws_cluster.cuh", "lib/ws_pairs.cuh", "lib/ws_pairs_stay.cuh",
  "lib/ws_parts.cuh", "lib/launches.cuh")

function ws.words(c, p, of, own)
  local copier, computer = ws.registers_of(of.all, of.biases or of.pairs_stay, of.stays, p)
  local words = {
    libs = ws.libs, dtype = p.dtype, slices = 1, packed = false, parted = false, drawn = false, aligned = 16, overlaps = true, travels = false,
    LD_threads = "prepare_threads", LD_apart = true, producer_registers = copier, consumer_registers = computer, P_shared = false, Q_held = false,
    turns = "none", schedule = "in_flight",
    stays = of.stays or false, pairs_stay = of.pairs_stay or false, goes_on = of.stays or of.pairs_stay or false, stores_later = true, stores_tails = p.ragged, storing_lane = of.stays and "lane_again()" or "thread_id() % 32",
    paired = of.paired or false, shares = of.shares or false, read_by = of.shares and "release_both" or "release",
    own_groups = of.paired and "1" or "consumers",
    partial = of.partial or false, halves = of.halves or false,
    K_boxes = of.halves and "2" or "boxes", copied_K = of.halves and "2, share_of_dQ::width" or "boxes",
  }
  words.rows_ahead, words.frees_early, words.lots = own.rows_ahead or false, own.frees_early or false, of.lots or false
  words.own_sums = own.one_address and "  float *const own = to + thread_id() % 32 * 4;\n" or ""
  words.nth_sums = own.one_address and "own + c / 2 * 128" or "to + (c / 2 * 32 + thread_id() % 32) * 4"
  slopes.words(words, own.slopes, p.words.c_of_call)
  bias.words(words, of.biases or false, "Q")
  simt.tile_words(parts.words(words, of), p)
  order.words(words, p, of)
  words.has_rows = string.format("has_rows(a, {%s, %s})", words.tile_head, words.tile_row)
  function words.told_rows(name, head) -- where rows lie is asked only in a tile in which a batch ends
    return p.ragged and string.format(", at.nk - j0 < 64 ? stored_%s(rows(a, %s)) : stored_rows{nullptr, 0, at.nk}", name, head) or ""
  end
  words.rows_to, words.and_rows, words.and_tails = rows_to(p, words), p.ragged and ", " .. words.has_rows or "", p.ragged and ", tails" or ""
  words.sums_cleared = order.cleared(words, of)
  words.copy_keys, words.rows_told = p.ragged and "copy_some_keys" or "copy_keys", rows_told(p, of)
  words.steps_told, words.own_step, words.has_more = of.tells or false, of.tells and "told_step" or "row_step", of.tells and "of.more" or "n <= last"
  -- Of a sequence dropout takes its batch and head in each step; nobody there asks for the head of K.
  words.batch_kept = p.has.drop and not (p.scored or p.by_batch or p.has.bs or of.stays) or false
  words.at_of = (p.ragged or ws.listed(p)) and not (p.scored or p.has.drop) and "cut_at" or "at"
  words.copied = ws.listed(p) and not p.scored and "copied_at" or "at"
  words.lengths_here = p.ragged -- `prepare` waits for all before it, and later launches for that
  -- Rows of the second warpgroup count on from those of the first, though both have the same keys.
  words.tell_dS = p.has.dbias and string.format(" tell_dS(dP, a, of.at(a), my.j0%s);", of.paired and " - 64" or of.all > of.groups and " - Bc" or "") or ""
  words.Q_here = own.S_early and ", Q_here = is_full(Q_full, Q_place_of(n + 1))" or ""
  words.K_held, words.V_held = of.K_held or 0, of.V_held or 0
  for _, name in ipairs { "products", "turned_products", "sliced", "dQ_share", "reduces", "S_early" } do words[name] = own[name] end
  return words
end

function ws.constants(c, p, of)
  local keys = of.stays and 2 or 1
  local at, free = ws.places(c, p, of), 2 * keys + of.Q + of.dO
  local all = {
    { "Br", c.Br, "rows of Q of one tile" },
    { "Bc", 64 * of.groups, "rows of K and V of one tile" },
    { "T", ws.threads(of), "threads of a block" },
    { "prepare_threads", 512, "threads of a block that makes D" },
    { "consumers", of.groups, "warpgroups that have keys of their own" },
    { "X", 4, "lanes that share a row" },
    { "per_chunk", 8, "elements of a chunk of 16 bytes" },
    { "D", p.d, "head dimension of Q and K" },
    { "Ds", of.sums or p.d, "columns of dQ in its sums" },
    { "Dv", p.dv, "head dimension of V and O" },
    { "Dp", ws.up(p.d, 16), "columns of Q and K that products read" },
    { "Dw", ws.up(p.dv, 16), "columns of V and dO that products read" },
    { "boxes", ws.boxes(p.d), "boxes of 64 columns of Q and K" },
    { "V_boxes", ws.boxes(p.dv), "boxes of 64 columns of V and dO" },
    { "Q_tiles", of.Q, "tiles of Q in shared memory" },
    { "dO_tiles", of.dO, "tiles of dO in shared memory" },
    { "dS_tiles", of.dS, "tiles of dS in shared memory" },
    { "row_readers", of.row_readers, "warpgroups that read a tile of Q or dO" },
    { "dS_readers", of.dS_readers, "warpgroups that read a tile of dS" },
    { "at_V", at.V, "where V lies in shared memory, bytes" },
    { "at_Q", at.Q, "where Q lies in shared memory, bytes" },
    { "at_dO", at.dO, "where dO lies in shared memory, bytes" },
    { "at_dS", at.dS, "where dS lies in shared memory, bytes" },
    { "at_P", at.P, "where P lies in shared memory, bytes" },
    { "at_dQ", at.dQ, "where dQ lies in shared memory, bytes" },
    { "at_LD", at.LD, "where LD lies in shared memory, bytes" },
    { "at_signals", at.signals, "where the barriers lie in shared memory, bytes" },
    { "K_full", 0, "barrier of K" },
    { "V_full", keys, "barrier of V" },
    { "Q_full", 2 * keys, "barrier of the first tile of the ring, and of its LSE and D" },
    { "dO_full", 2 * keys + of.Q, "barrier of the first tile of the ring" },
    { "Q_free", free, "barrier of the first tile of the ring, and of its LSE and D" },
    { "dO_free", free + of.Q, "barrier of the first tile of the ring" },
    { "dS_full", free + of.Q + of.dO, "barrier of the first tile of dS" },
    { "P_full", free + of.Q + of.dO + of.dS, "barrier of P" },
    { "P_free", free + of.Q + of.dO + of.dS + 1, "barrier of P" },
    { "dS_free", free + of.Q + of.dO + of.dS + P_signals(of), "barrier of the first tile of dS" },
    { "signals", free + of.Q + of.dO + 2 * of.dS + P_signals(of) + stay_signals(of) + turns(p, of) + tails(p, of), "barriers" },
    { "Z", c.Z, "heads whose tiles start together" },
  }
  if of.biases then bias.constants(all, at.bias, 64 * of.groups) end
  if of.tells then
    all[#all + 1] = { "at_steps", at.steps, "where it is said what the tiles of Q of the ring are, in shared memory, bytes" }
    all[#all + 1] = { "step_bytes", step_bytes, "bytes of what is said of one" }
  end
  if of.pairs_stay then
    local first = free + of.Q + of.dO + 2 * of.dS + P_signals(of)
    all[#all + 1] = { "V_free", first, "barrier of V's place" }
    all[#all + 1] = { "K_free", first + 1, "barrier of K's place" }
    all[#all + 1] = { "at_dK", at.dK, "where dK lies in shared memory, bytes" }
  end
  if of.lots then all[#all + 1] = { "at_lots", at.lots, "where lots that warps draw for each other lie, bytes" } end
  for _, name in ipairs { "K_held", "V_held" } do
    if (of[name] or 0) > 0 then all[#all + 1] = { name, of[name], "slices of 16 columns of " .. name:sub(1, 1) .. " in registers" } end
  end
  if of.stays then
    all[#all + 1] = { "keys_tiles", keys, "tiles of K and V in shared memory" }
    all[#all + 1] = { "keys_free", free + of.Q + of.dO + 2 * of.dS + 2, "barrier of the first tile of K and V" }
    all[#all + 1] = { "told_full", free + of.Q + of.dO + 2 * of.dS + 2 + keys, "barrier of what is said of the first of them" }
    if order.draws(of) then all[#all + 1] = { "wanted", free + of.Q + of.dO + 2 * of.dS + 2 + 2 * keys, "barrier of who wants the next one" } end
    all[#all + 1] = { "told_bytes", told_bytes(p, of), "bytes of what is said of a tile of keys" }
    all[#all + 1] = { "at_told", at.told, "where it is said which tiles of keys these are, in shared memory, bytes" }
  end
  if order.waits(p, of) then
    local first = free + of.Q + of.dO + 2 * of.dS + P_signals(of) + stay_signals(of)
    all[#all + 1] = { "sharers", sharers(of), "warpgroups that have the same keys" }
    if of.first_come then all[#all + 1] = { "at_comers", at.comers, "where it is said as what a block comes to the tiles of dQ of its last two steps, bytes" } end
    if of.paired then all[#all + 1] = { "adders", adders(of), "warpgroups that add to a tile of dQ, each to columns of its own" } end
    all[#all + 1] = { "turn", first, "barrier of the first of them: it may add to dQ in even steps; then those of odd ones" }
    all[#all + 1] = { "added", first + 2 * sharers(of), "barrier of the first of them: it has added to dQ, the same way" }
  end
  return parts.constants(all, of)
end

-- Keys of heads so short that L2 holds those of all SMs, or that it does not matter.
function ws.short(p) return math.max(512, 65536 // (p.d + p.dv)) end

-- Where blocks have whole heads: D, then all else. Not for few heads, of which most SMs would have none, nor for long ones (d 64,
-- causal, 8192 keys: 5.6 ms for 2.6), though a shape that was tuned is the nearest there.
local function owned(name, c, p, of, entry)
  local rows = string.format("ceildiv(q,%d)", c.Br)
  local LD, dQ = string.format("b*h*%s*%d", rows, 8 * c.Br), string.format("min(SMs,b*hk)*ceildiv(h,hk)*%s*%d", rows, 4 * c.Br * of.sums)
  local lists = string.format("ws(%s) ws(0)", LD)
  return string.format("workspace %s+%s\nvalid max(3*b*hk-SMs+1,385-k)\nvalid %d-k\n", LD, dQ, ws.short(p) + 1)
    .. simt.zeros(c, p, entry, ws.threads(of))
    .. string.format("launch %s grid b*h*%s block 512 shared 0 args call %s\n", entry "prepare", rows, lists)
    .. string.format("launch %s grid min(SMs,b*hk) block %d shared %d overlap args call %s mapQ(%d) mapK(64) mapV(64) mapdO(%d) mapdK(16) mapdV(16)\n",
      entry(name), ws.threads(of), ws.places(c, p, of).last, lists, c.Br, c.Br)
    .. simt.sinks(p, entry, ws.threads(of), " ws(0)")
end

-- Blocks that make products: of tiles that are drawn as many as there are SMs for them.
local function grid(of, blocks)
  if of.pairs_stay then return string.format("2*min(max(1,ceildiv(SMs-1,2)),%s)", blocks) end
  if not order.draws(of) then return (of.paired and "2*" or "") .. blocks end
  return string.format("min(SMs,%s)", blocks)
end

-- D and zeros for dQ; the products; dQ rounded. Where blocks settle sums among themselves, D and the products alone.
function ws.recipe(name, c, p, of, entry)
  if of.owns then return owned(name, c, p, of, entry) end
  local tiles, tile = simt.row_tiles(c, p), 4 * c.Br * (of.sums or p.d)
  local dQ_LD = string.format("ws(0) ws(%s*%d)", tiles, tile)
  local room, ends, blocks = parts.recipe(p, of, simt.tiles(p, "hk", "k", 64 * of.groups), string.format("%s*%d", tiles, tile + 8 * c.Br))
  local counts = order.counts(p, of) and string.format(" ws(%s*%d)", tiles, tile + 8 * c.Br) or ""
  local copied = of.shares and c.Br // 2 or c.Br -- rows of Q and dO of one copy
  -- Each tile of keys is seen, by the first row at the latest. Where the longest tiles come last they decide if tiles are few: 1.3 and 1.4 times the time of
  -- T = 2 at 3 and 1.5 for an SM, and 1.2 times with T = 4 at 4. Up to 448 keys a head has but four.
  local valid = bias.valid(c) .. parts.valid(p, of, c.Br) .. (order.draws(of) and p.has.w and not p.ragged and "valid L+q-k+1\n" or "")
  if of.first_come then valid = valid .. string.format("valid %d-k\n", 32768 * 64 * of.groups + 1) end -- half a number counts the blocks that come
  if of.first_come or p.uneven and (of.last_first or p.has.det and order.draws(of)) then valid = string.format("%svalid max(%s%s-6*SMs+1,449-k)\n", valid, of.paired and "2*" or "", blocks) end
  local finish = string.format("launch %s grid %s block %d shared %d overlap args call ws(0) mapdQ(16)\n", entry "finish", tiles, of.turned and 128 * of.groups or 2 * c.Br,
    c.Br * ws.boxes(p.d) * 128)
  return string.format("workspace %s*%d%s\n%s%s", tiles, tile + 8 * c.Br + (order.waits(p, of) and 4 * adders(of) or 0), counters(p, of) .. room, valid, p.has.det and "" or "reduces dQ\n")
    .. simt.zeros(c, p, entry, ws.threads(of))
    .. string.format("launch %s grid %s block 512 shared 0 args call %s%s\n", entry "prepare", tiles, dQ_LD, counts .. ends)
    .. string.format("launch %s grid %s block %d shared %d%s overlap args call %s mapQ(%d) mapK(64) mapV(64) "
      .. "mapdO(%d) mapdK(16) mapdV(16)%s%s\n", entry(name), grid(of, blocks), ws.threads(of), ws.places(c, p, of).last, of.paired and " cluster 2" or "", dQ_LD, copied, copied, counts .. ends, bias.map(c))
    .. (of.settles and "" or finish)
    .. simt.sinks(p, entry, ws.threads(of), string.format(" ws(%s*%d)", tiles, tile))
end

ws.work = include "lib/ws_grad_work.lua"(ws, own_groups)

return ws
