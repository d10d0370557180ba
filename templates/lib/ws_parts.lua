-- ws_parts.lua -- heads that share K and V parted among blocks (ws_parts.cuh): its words, its room, its work.
-- `of.parts`: into how many parts; nil or 1: not.
local parts = {}

function parts.of(of) return of.parts or 1 end

-- Whether they can be: tiles of keys are as long in all batches, steps need no lists, and sums come in any order.
function parts.can_be(p) return not (p.has.det or p.has.bs or p.by_batch) end

function parts.constants(all, of)
  if parts.of(of) > 1 then all[#all + 1] = { "parts", of.parts, "parts of the heads that share K and V" } end
  return all
end

function parts.words(words, of)
  words.heads_parted = parts.of(of) > 1
  words.take_ends, words.and_ends = words.heads_parted and ", key_ends *ends" or "", words.heads_parted and ", ends" or ""
  words.ends_cleared = words.heads_parted and "clear_ends(a, ends, tile, Tr * a.b * a.h);\n  " or ""
  return words
end

-- What the workspace has behind all else: two counts for each warp that has keys of its own, of a pair for dK and dV each, then sums; the argument that says where that
-- begins; and the blocks of the products. `blocks`: tiles of keys; `at`: the bytes ahead.
function parts.recipe(p, of, blocks, at)
  if parts.of(of) == 1 then return "", "", blocks end
  local counts, sums = 8 * 4 * of.groups * (of.paired and 2 or 1), of.parts * 4 * 64 * of.groups * (p.d + p.dv)
  return string.format("+%d*%s", counts + sums, blocks), string.format(" ws(%s)", at), of.parts .. "*" .. blocks
end

-- Tables of launches: that of the products has more blocks, each with fewer heads. All lay sums down, which the last reads.
function parts.work(all, p, of)
  local n, products = parts.of(of), all[2]
  if n == 1 then return all end
  local tiles, busy = products.blocks, math.min(n, math.max(1, p.h // p.hk))
  products.blocks = tiles * busy
  for _, name in ipairs { "visits", "steps", "tensor", "fma", "ex2", "issue", "shared_bytes" } do products[name] = products[name] / busy end
  products.l2 = products.l2 + 2 * tiles * n * 4 * 64 * (of.paired and 1 or of.groups) * (p.d + p.dv)
  return all
end

-- Into how many parts heads that share K and V go where tiles of keys are few. Without a mask all parts are alike: as many as leave few SMs idle in the
-- last round. Under a mask they are not, and more of them share out better: as long as each has a head until there are nearly two blocks for each SM,
-- and on to four or five if each keeps one and a half, and rows enough. Causal, G = 1, 2, 4, 8, ms (H200): d 128, 8 heads on 1, 16384 keys -, 2.53, 2.30, 2.34, 8192 1.92, -,
-- 0.61, 0.64, 4096 -, -, -, 0.18, 2048 0.49, -, 0.14, 0.09; 28 on 4, 4096 keys 0.91, 0.64, 0.61, four times as many 2.61, 2.38, 2.47; 32 on 8, 8192 keys, twice
-- as many 5.08, 5.09, 4096 keys 0.71, 0.69, 2048 keys 0.29, 0.20, 0.21; 8 x 16 on 8, 2048 keys 0.70, 0.79. d 64, 4 x 71 on 1, 2048 keys 2.94, -, 1.10, 1.01; 4096
-- keys, 64 on 8 0.83, 0.79, 0.78, 32 on 8 0.39, 0.41. Not of few rows in all heads, of which a block has few steps.
-- `blocks`: of a tile of keys.
function parts.meant(p, g, blocks)
  local heads, tiles, best = p.h // p.hk, blocks * p.b * p.hk * ceil_div(p.k, 128), 1
  if not parts.can_be(p) or heads * p.q < 1024 or tiles >= 5 * g.sms then return 1 end
  local function idle(n) return ceil_div(n * tiles, g.sms) * g.sms / (n * tiles) end
  local function gains(n)
    if n > heads then return false end
    if not p.uneven then return 2 * tiles < 3 * g.sms and 16 * idle(n) < 15 * idle(best) end
    return 8 * best * tiles < 15 * g.sms or 2 * best * tiles < 9 * g.sms and 3 * n <= 2 * heads and p.q * p.d * heads >= 900000 * n
  end
  for _, n in ipairs { 2, 4, 8 } do
    if gains(n) then best = n end
  end
  return best
end

return parts
