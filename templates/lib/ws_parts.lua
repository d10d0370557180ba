-- ws_parts.lua -- heads that share K and V parted among blocks (ws_parts.cuh): its words, its room, the launch that gathers, its work.
-- `of.parts`: into how many parts; nil or 1: not.
local parts = {}

function parts.of(of) return of.parts or 1 end

function parts.constants(all, of)
  if parts.of(of) > 1 then all[#all + 1] = { "parts", of.parts, "parts of the heads that share K and V" } end
  return all
end

-- Words, among them the launch that gathers, which stands beside those of all backwards.
function parts.words(words, p, of)
  words.heads_parted = parts.of(of) > 1
  if not words.heads_parted then return words end
  function words.entries_beside(entry, ...)
    local begin = 'extern "C" __global__ void __launch_bounds__(128)\n'
    local maps = "const __grid_constant__ tensor_map dK_map, const __grid_constant__ tensor_map dV_map"
    return begin .. entry "gather" .. "(const call a, float *parts_all, " .. maps .. ")\n{\n  gather_parts(a, parts_all, dK_map, dV_map);\n}\n"
      .. p.words.entries_beside(entry, ...)
  end
  return words
end

-- What the workspace has of sums, behind all else; what the products take in place of maps of dK and dV; the launch behind them. `blocks`: tiles of
-- keys without parts; `at`: where the sums begin.
function parts.recipe(p, of, entry, blocks, at)
  if parts.of(of) == 1 then return "", blocks, " mapdK(16) mapdV(16)", "" end
  local rows = 64 * of.groups
  local gather = string.format("launch %s grid %d*%s block 128 shared %d overlap args call ws(%s) mapdK(16) mapdV(16)\n", entry "gather", 2 * of.groups, blocks,
    64 * ceil_div(math.max(p.d, p.dv), 64) * 128, at)
  return string.format("+%d*%s*%d", of.parts, blocks, 4 * rows * (p.d + p.dv)), of.parts .. "*" .. blocks, string.format(" ws(%s)", at), gather
end

-- Tables of launches: that of the products, whose blocks have fewer heads each, and a fourth.
function parts.work(all, p, of)
  local n, products = parts.of(of), all[2]
  if n == 1 then return all end
  local heads, tiles = math.max(1, p.h // p.hk), products.blocks
  local busy, sums = math.min(n, heads), 4 * 64 * of.groups * (p.d + p.dv)
  products.blocks = tiles * busy
  for _, name in ipairs { "visits", "steps", "tensor", "fma", "ex2", "issue", "shared_bytes" } do products[name] = products[name] / busy end
  products.l2, products.dram = products.l2 + tiles * n * sums, products.dram + tiles * n * sums
  all[#all + 1] = { blocks = 2 * of.groups * tiles, threads = 128, shared = 0, registers = 128, visits = n, steps = n, fma = n * sums // 16, issue = n * sums // 16,
    l2 = tiles * n * sums, dram = tiles * n * sums }
  return all
end

return parts
