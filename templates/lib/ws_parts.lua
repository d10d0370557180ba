-- ws_parts.lua -- tiles of keys that several blocks have together (ws_parts.cuh): words, room, work.
-- `of.parts`: how many; nil or 1: each has one.
local simt, grad = include "lib/simt.lua", include "lib/grad.lua"
local parts = {}

function parts.of(of) return of.parts or 1 end

-- Whether they can be: steps need no lists, and sums come in any order.
function parts.can_be(p) return not (p.has.det or p.has.bs or p.has.iv) end

function parts.constants(all, of)
  if parts.of(of) > 1 then all[#all + 1] = { "parts", of.parts, "blocks that have a tile of keys together" } end
  return all
end

function parts.words(words, of)
  words.steps_parted = parts.of(of) > 1
  words.take_ends, words.and_ends = words.steps_parted and ", key_ends *ends" or "", words.steps_parted and ", ends" or ""
  words.ends_cleared = words.steps_parted and "clear_ends(a, ends);\n  " or ""
  return words
end

-- What the workspace has behind all else: two counts for each warp that has keys of its own, of a pair for dK and dV each, then sums; the argument that says where that
-- begins; and the blocks of the products. `blocks`: tiles of keys; `at`: the bytes ahead.
function parts.recipe(p, of, blocks, at)
  if parts.of(of) == 1 then return "", "", blocks end
  local counts, sums = 8 * 4 * of.groups * (of.paired and 2 or 1), of.parts * 4 * 64 * of.groups * (p.d + p.dv)
  return string.format("+%d*%s", counts + sums, blocks), string.format(" ws(%s)", at), of.parts .. "*" .. blocks
end

-- Under a window a tile of keys is seen by 64 rows for each warpgroup and as many as the window is wide. Where that is less than a step for each
-- block, most blocks only begin and end: gpt-oss's window of 128 keys, d 64, took 233 us with four of 128 rows a step, and 175 with one (H200).
function parts.valid(p, of, Br)
  local wide = parts.of(of) * Br - 64 * of.groups * (of.paired and 2 or 1)
  if parts.of(of) == 1 or not p.has.w or wide <= 0 then return "" end
  return string.format("valid min(L,k)+min(R,k)-%d\n", wide - 1)
end

-- Tables of launches: that of the products has more blocks, each with fewer steps. Of several all lay sums down, which the last reads.
function parts.work(all, p, of)
  local n, products = parts.of(of), all[2]
  if n == 1 then return all end
  local tiles, blocks = products.blocks, math.max(1, math.min(n, products.visits / 2))
  products.blocks = tiles * blocks
  for _, name in ipairs { "visits", "steps", "tensor", "fma", "ex2", "issue", "shared_bytes" } do products[name] = products[name] / blocks end
  local laid = blocks > 1 and blocks or 0
  products.l2 = products.l2 + 2 * tiles * laid * 4 * 64 * (of.paired and 1 or of.groups) * (p.d + p.dv)
  return all
end

-- How many blocks a tile of keys should have, where tiles are few or a mask makes some of them long. Counted in steps of 64 rows of 128 columns for
-- 128 keys, of 1.8 to 2.7 us (H200): tiles that are alike come in whole rounds; of others the time is that of the longest, or of all shared by the SMs and
-- what the last leave idle. A block takes two for its beginning and its end, and one whose sums another adds up, five at d 128. The ms of G = 1, 2, 4, 8, bf16 (-: not tried):
-- causal, d 128, 8 heads on 1, 8192 keys 1.92, 1.34, 0.61, 0.64, 2048 keys 0.49, -, 0.14, 0.086; 28 on 4, 4096 keys 0.91, 0.61, 0.60, -, four times as many 2.57, 2.36, 2.36, -;
-- 32 on 8, 2048 keys 0.29, 0.21, 0.22, -, 4096 keys 0.71, 0.71, -, -; one for each, 8 of 2048 keys 0.079, 0.069, -, -, 4 of 4096 keys 0.144, 0.105, 0.123, -, 16 of 1024 keys 0.050, 0.060, -, -;
-- d 64, 4 times 71 on 1, 2048 keys 2.94, -, 1.03, 0.93; a window of 1024 keys, 8 on 1, 8192 keys 0.31, 0.21, 0.21, 0.23; d 256, 8 on 1, 2048 keys 0.56, 0.30, 0.17, 0.13.
-- Full, d 128, 8 on 1, 8192 keys 1.90, 1.10, 1.11, -; 28 on 4, 4096 keys 1.02, 1.03, -, -; 4 heads of 2048 keys 0.074, 0.054, 0.072, -; d 64, 16 of 512 keys 0.021, 0.023, 0.033, -.
-- `blocks`: that have 128 keys, as two of a pair.
function parts.meant(p, g, blocks)
  if not parts.can_be(p) or p.q * p.k == 0 then return 1 end
  local tiled = { Br = 64, Bc = 128 }
  local mean = grad.visits_of_keys(tiled, p) * p.d / 128 / blocks
  local tiles, longest, ends = blocks * p.b * p.hk * ceil_div(p.k, 128), mean * (1 + simt.uneven(tiled, p)), 5 * (p.d + p.dv) / 256 / blocks
  local function time(n)
    local more = n == 1 and 2 or ends
    if not p.uneven then return ceil_div(n * tiles, g.sms) * (mean / n + more) end
    return math.max(longest / n + more, tiles * (mean + n * more) / g.sms + (p.b * p.hk > 8 and 0.3 or 0.12) * longest / n)
  end
  local best = 1
  for _, n in ipairs { 2, 4, 8 } do
    if longest >= 4 * n and time(n) < 0.975 * time(best) then best = n end
  end
  return best
end

return parts
