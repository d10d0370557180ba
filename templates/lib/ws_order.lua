-- ws_order.lua -- words for the sums of dQ in the backward kernels for warpgroups: who lays them down, in which order blocks add, and who rounds them.
-- Goes with ws_grad.lua, which says what `of` is made of.
local simt = include "lib/simt.lua"
local order = {}

-- Whether blocks wait for others before they add: where one has all of a head, nobody else adds.
function order.waits(p, of) return (p.has.det or of.settles) and not of.owns or false end

-- Whether tiles of keys are drawn from a counter.
function order.draws(of) return of.stays and not of.owns or false end

-- Whether blocks count in device memory what they have begun, drawn or added.
function order.counts(p, of) return order.waits(p, of) or order.draws(of) end

-- What becomes of a step's dQ, as CUDA.
local function sum_of(of, in_order)
  local some = of.partial and ", my.some()" or ""
  if of.owns then return "settle_dQ(my, number, dQ)" end
  if of.first_come then return "settle_as_it_comes(my, n - 1, number, dQ)" end
  if of.settles then return "settle_in_turn(my, n - 1, number, dQ)" end
  if in_order then
    return string.format("add_in_turn(0, n - 1, my.sums(number), dQ%s%s)", of.lays and ", my.comes_first(number)" or "", some)
  end
  return string.format("%s(my.sums(number), dQ%s)", of.partial and "add_some_to_sums" or "add_to_sums", some)
end

-- Into the words of a kernel, which know their tiles (simt.tile_words).
function order.words(words, p, of)
  local waits, counts = order.waits(p, of), order.counts(p, of)
  local in_order = waits and not of.first_come
  local last_first = in_order and (p.has.det or of.last_first) or false
  local both_ways = last_first and p.uneven and not of.stays

  -- who lays sums down and who rounds them
  words.lays, words.owns = of.lays or false, of.owns or false
  words.settles = of.owns or of.settles or false
  words.settles_by_keys = of.owns or of.settles and not of.first_come or false
  words.first_come = of.first_come or false
  words.sum_dQ = sum_of(of, in_order)
  words.and_keys = of.lays and string.format(", sees_keys(a, sequence_of(a, %s), %s)", words.tile_head, words.tile_row) or ""

  -- in which order: of keys, the first or the last first, both ways; without det only the first and the last block wait (loose)
  words.ordered = waits
  words.last_first, words.both_ways = last_first, both_ways
  words.loose = in_order and not p.has.det
  words.backwards = in_order and not last_first
  words.begins_apart = of.first_come and not p.uneven or false
  words.this_tile = both_ways and "(tile ^ tile >> 31)" or "tile"

  -- which tiles of keys a block has
  words.draws = order.draws(of)
  words.draws_late = words.draws and last_first and p.uneven or false
  words.block = of.paired and "i32(block_id()) / 2" or "i32(block_id())"
  if in_order then
    local fit = string.format(both_ways and "min(%s, (%s + 1) / 2)" or "%s", simt.heads_in_L2(32), words.key_heads)
    words.block = of.paired and "begun_pair(counts)" or "begun_block(counts)"
    words.together = string.format(p.has.det and "max(1, %s)" or "min(Z, 1 + %s)", fit)
  end
  words.take_counts, words.and_counts = counts and ", i32 *counts" or "", counts and ", counts" or ""
end

-- What `prepare` does of a tile of Q beside D, where no block has all of a head.
function order.cleared(words, of)
  if of.owns then return "" end
  local text = string.format("clear_sums(dQ_all, tile%s%s%s);%s", words.and_counts, words.and_rows, words.and_keys, of.settles and "" or " // dQ = 0")
  if of.first_come then text = string.format("%s\n  clear_unseen(a, rows(a, %s), %s);", text, words.tile_head, words.tile_row) end
  return text
end

return order
