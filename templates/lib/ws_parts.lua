-- ws_parts.lua -- heads that share K and V parted among blocks (ws_parts.cuh): its words, its room, its work.
-- `of.parts`: into how many parts; nil or 1: not.
local parts = {}

function parts.of(of) return of.parts or 1 end

function parts.constants(all, of)
  if parts.of(of) > 1 then all[#all + 1] = { "parts", of.parts, "parts of the heads that share K and V" } end
  return all
end

function parts.words(words, of)
  words.heads_parted = parts.of(of) > 1
  return words
end

-- What the workspace has behind all else: two counts for each warp that computes and tile of keys, then sums; the argument that says where that
-- begins; and the blocks of the products. `blocks`: tiles of keys; `at`: the bytes ahead.
function parts.recipe(p, of, blocks, at)
  if parts.of(of) == 1 then return "", "", blocks end
  local counts, sums = 8 * 4 * of.groups, of.parts * 4 * 64 * of.groups * (p.d + p.dv)
  return string.format("+%d*%s", counts + sums, blocks), string.format(" ws(%s)", at), of.parts .. "*" .. blocks
end

-- Tables of launches: that of the products has more blocks, each with fewer heads. All parts but one lay sums down, which the last reads.
function parts.work(all, p, of)
  local n, products = parts.of(of), all[2]
  if n == 1 then return all end
  local tiles, busy = products.blocks, math.min(n, math.max(1, p.h // p.hk))
  products.blocks = tiles * busy
  for _, name in ipairs { "visits", "steps", "tensor", "fma", "ex2", "issue", "shared_bytes" } do products[name] = products[name] / busy end
  products.l2 = products.l2 + 2 * tiles * (n - 1) * 4 * 64 * of.groups * (p.d + p.dv)
  return all
end

return parts
