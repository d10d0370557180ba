-- ws_records.lua -- fwd_ws with D = 1: what a record of a tile of Q holds, and which configs have one. Goes with ws_records.cuh.
local windows, simt = include "lib/ws_windows.lua", include "lib/simt.lua"
local records = {}

-- Of tiles that differ in length D = 1 is walked, too, where blocks have two or more and rows see up to 2,048 keys.
records.can_be = windows.rows_are_plain
local function has_many(p, g) return ceil_div(p.q, 128) * p.b * p.h * p.slices >= 2 * g.sms end
local function is_walked(p, g) return records.can_be(p) and p.uneven and has_many(p, g) and math.min(p.q, simt.visits({ Br = 128, Bc = 64 }, p) * 64) <= 2048 end
records.tunable = { "D", { 0, 1 }, "tiles of Q are drawn 0 = by the thread that copies K and V, 1 = by another warp, which tells all others what they would ask for",
  function(p, g) return is_walked(p, g) and { 0, 1 } or { 0 } end, unsaid = 0 }

-- Numbers that differ from one tile of Q to the next.
local function words_of(c, p)
  local shifts = windows.shift(c, p)
  local all = { "head", "i0", "at.b", "at.h", "at.hk", "all.full", "all.last", "visit.full", "visit.last" }
  local function also(when, ...)
    if when then for _, word in ipairs { ... } do all[#all + 1] = word end end
  end
  also(p.cut.left, "all.first", "visit.first", "visit.free")
  also(p.ragged, "at.nq")
  also(p.ragged or shifts, "at.nk")
  also(p.begins or shifts, "at.k0")
  also(p.has.varlen, "at.q0")
  also(p.has.prefix, "at.prefix")
  also(p.slices > 1, "at.v0")
  also(c.G == 1, "at.peers.log")
  also(c.G == 1 and p.ragged, "at.q")
  return all
end

function records.bytes(c, p) return c.D == 1 and ceil_div(#words_of(c, p), 4) * 16 or 8 end

-- Barriers: a record is there, for each place of Q; the next is asked for.
function records.signals(c, p) return c.D == 1 and c.q + (p.uneven and 1 or 0) or 0 end

-- `first`: the barriers before them.
function records.constants(all, c, p, first)
  all[#all + 1] = { "told", first, "barrier of the first place of Q: its records are there" }
  if p.uneven then all[#all + 1] = { "asked", first + c.q, "barrier: the next tile of Q may be drawn" } end
  all[#all + 1] = { "record_bytes", records.bytes(c, p), "bytes of a record" }
end

function records.words(words, c, p)
  local told = c.D == 1
  words.told, words.rows_by = told, told and "at" or "my.head"
  words.take_task = told and "tile_record my = get_record<false>(a, own)" or "task my = get_task(own)"
  if not told then return end
  local record, rest = words_of(c, p), {}
  words.record_words = record
  words.tell_and_produce = "produce_told(a, K_map, V_map);\n    else if (warp_of() == 1)\n      draw_tiles(a" .. words.and_counter .. ", Q_map);"
  function words.record_quad(first)
    local part = {}
    for n = first, first + 3 do part[#part + 1] = record[n] and string.format("u32(my.%s)", record[n]) or "0" end
    return table.concat(part, ", ")
  end
  if c.G == 1 and not p.ragged then rest[#rest + 1] = { "at.q", "a.q" } end
  if not p.ragged then rest[#rest + 1] = { "at.nq", c.G == 1 and "a.q * my.at.peers" or "a.q" } end
  if not (p.ragged or words.shifts) then rest[#rest + 1] = { "at.nk", "a.k" } end
  words.record_rest = rest
end

-- Each by itself, so that a walk asks it early.
records.constraints = {
  { function(c, p) return c.D == 0 or records.can_be(p) end, "a record tells of a tile whose rows see keys by a line, and whose scores ask for nothing" },
  { function(c, p) return c.D == 0 or c.Q == 0 and c.s > 1 and (c.q == 2 or simt.widest(p) > 128) end, "of what is short these forms won", walk = true },
  { function(c) return c.D == 0 or c.L == 2 and (c.P == 0 or c.Br == 192) end, "and these", walk = true },
  { function(c) return c.D == 0 or c.Z == 1 or c.Z == 8 end, "so did these", walk = true },
  { function(c) return c.D == 0 or c.S == 0 end, "and these", walk = true },
  { function(c) return c.D == 0 or c.E == 0 end, "a record tells of a tile that has not begun" },
  { function(c) return c.D == 0 or c.M == 0 end, "a record is for one block" },
  { function(c) return c.D == 0 or c.B == 0 end, "the warps that copy biases ask for themselves" },
  { function(c) return c.D == 0 or c.N == 0 end, "a record tells of all keys" },
}

return records
