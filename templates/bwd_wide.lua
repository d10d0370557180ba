-- bwd_wide.lua -- the space, the needs and the three launches of bwd_wide.cu.
local simt, ws, slopes_from = include "lib/simt.lua", include "lib/ws_grad.lua", include "lib/slopes.lua".from

local function of(c)
  return { groups = 1, all = 2, Q = c.s, dO = c.s, dS = c.t, P = 128 * c.Br, dQ = 0, row_readers = 2, dS_readers = 2 }
end
local function shared(c, p) return ws.places(c, p, of(c)).last end
-- Columns of dQ that the first warpgroup makes; the second makes the others.
local function first(p) return ceil_div(ws.boxes(p.d), 2) * 64 end
local features = simt.closed_and("dbias", "dsink", "dlse", "det", table.unpack(simt.batches))

return {
  about = "FlashAttention-2 backward for Hopper and wide heads: two warpgroups with the same keys, one has dV, one dK",
  picked = true,
  prefer = 2,
  lists = simt.lists("rows", "iv", 64),
  twin = function(p) return p.has.det and "bwd_two" or "bwd" end,
  serves = { op = "bwd", dtypes = { "f16", "bf16" }, features = features, sm = 90, sm_last = 90 },
  tunables = {
    { "Br", { 64 }, "rows of Q and dO of one tile" },
    { "s", { 2, 3 }, "tiles of Q and of dO in shared memory" },
    { "t", { 1, 2 }, "tiles of dS in shared memory" },
    { "Z", { 1, 2, 4, 8, 64 }, "heads whose tiles start together, the longest first" },
  },
  constraints = {
    { function(c, p) return not (p.has.det and (p.has.bs or p.has.iv)) end, "det and bs or iv exclude each other here: sums in order go by tiles side by side" },
    { function(c, p) return slopes_from(p, true) ~= "P" end, "who makes dS has none but rounded weights to tell the derivatives of capped scores from" },
    { function(c, p) return math.max(p.d, p.dv) > 128 and p.d > 64 end, "one warpgroup has no room for dK and dV; of dQ each makes columns" },
    { function(c, p) return c.Z == 1 or p.uneven and not p.has.det end, "tiles differ in length only under a mask; in order as many heads begin together as L2 has room for" },
  },
  threads = function(c) return ws.threads(of(c)) end,
  shared = shared,
  registers = function(c) return ws.registers(of(c)) end,
  defaults = (function()
    local all = {}
    for _, row in ipairs { { 2, 2 }, { 2, 1 } } do
      for _, Z in ipairs { 8, 1 } do all[#all + 1] = { Br = 64, s = row[1], t = row[2], Z = Z } end
    end
    return all
  end)(),

  words = function(c, p)
    return ws.words(c, p, of(c), { slopes = slopes_from(p, true), dQ_share = "halves", reduces = "red",
      products = ws.shapes { { c.Br, false }, { p.dv, true }, { p.d, true }, { first(p), false }, { math.max(p.d - first(p), 8), false } } })
  end,
  constants = function(c, p) return ws.constants(c, p, of(c)) end,
  recipe = function(c, p, g, entry) return ws.recipe("bwd_wide", c, p, of(c), entry) end,

  work = function(c, p, g)
    local S = c.Br * 64
    return ws.work(c, p, of(c), 2 * 64 * (ws.up(p.d, 16) + ws.up(p.dv, 16)) + 6 * S + 2 * 64 * p.d, 2)
  end,
}
