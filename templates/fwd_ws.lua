-- fwd_ws.lua -- the space, the needs and the launch of fwd_ws.cu.
local simt, ws, bias = include "lib/simt.lua", include "lib/ws.lua", include "lib/bias_tiles.lua"
local splits, packed, short, beside = include "lib/ws_splits.lua", include "lib/packed.lua", include "lib/short.lua", include "lib/ws_beside.lua"

return {
  about = "FlashAttention-3 forward: one warpgroup copies, the others compute; for Hopper",
  picked = true, -- a call may be given this kernel unasked
  -- Before the others that may, where nothing is measured, but for short calls.
  prefer = function(p, g) return short.by_mma(p, g) and not (splits.are_many(p) or beside.are_meant(p, g)) and 0 or 1 end,
  twin = "fwd", -- TMA reads only what is 16-byte aligned: other tensors are that kernel's
  serves = { op = "fwd", dtypes = { "f16", "bf16" }, features = simt.features, slices = true, sm = 90, sm_last = 90 },
  lists = function(c, p)
    local of = simt.lists "keys"(c, p)
    if of then of.pieces = ws.consumers(c) end
    return of
  end,
  tunables = ws.tunables,
  defaults = include "lib/ws_usual.lua",
  words = ws.words,
  constants = ws.constants,
  constraints = ws.constraints,
  threads = ws.threads,
  shared = ws.shared,
  registers = ws.registers,

  work = function(c, p, g)
    local count, row = splits.count(c, p, g), p.d + p.dv
    local tiles, visits = packed.tiles(c, p) * count, math.max(1, simt.visits(c, p, packed.group(c, p)) / count)
    local blocks = math.max(math.min(tiles, c.b * g.sms), 1) -- each does its share of the tiles, one after another
    local share = p.uneven and tiles / blocks or ceil_div(tiles, blocks)
    local Dp, Do = ceil_div(p.d, 16) * 16, ws.Do(p)
    local scores = share * visits * c.Br * c.Bc
    return {
      {
        blocks = blocks, threads = ws.threads(c), shared = ws.shared(c, p), registers = ws.registers(c),
        visits = share * visits,
        tensor = 2 * scores * (Dp + Do) * ws.slack(c, p, visits),
        fma = scores, ex2 = scores, steps = 0,
        -- K and V come once and are read by each warpgroup; where P is laid, it is written and read.
        shared_bytes = share * visits * 2 * (c.Br // 64 + 1) * c.Bc * row + c.S * 4 * scores,
        l2 = 2 * tiles * (visits * c.Bc + c.Br) * row + (c.N > 0 and splits.part(p, count) * p.b * p.h * p.q or 0),
        dram = 2 * (p.tq * p.h + p.tk * p.hk) * (p.d + p.slices * p.dv),
      },
      c.N > 0 and splits.merge_work(p, count) or nil,
    }
  end,

  -- The kernel counts tiles in 32 bits, and beyond the last one by as many as there are blocks.
  recipe = function(c, p, g, entry)
    local two, copied = c.M == 1, c.M == 1 and c.Bc // 2 or c.Bc -- rows of K and V of one copy
    local tiles = (two and "2*" or "") .. simt.tiles(p, packed.heads(c), "q", two and 2 * c.Br or c.Br, packed.times(c)) .. simt.slices(p)
    -- Where blocks have two tiles each at most, nothing is drawn; so it is where tiles have splits, which are as many as N times SMs.
    local cleared = string.format("clear 0 4*min(1,max(0,%s-%d*SMs))\n", tiles, 2 * c.b)
    local blocks = (c.b > 1 and c.b .. "*" or "") .. "SMs"
    local counts, room, more, merge = ws.counts(p), ws.counts(p) and "4" or nil, "", ""
    if c.N > 0 then tiles, room, more, merge = splits.recipe(c, p, entry, tiles) end -- behind the counter O_s and L_s
    return (room and "workspace " .. room .. "\n" or "") .. packed.valid(c, simt.is_in_line(p)) .. packed.boxes_valid(c) .. splits.valid(c) .. bias.valid(c) .. string.format("valid 2147483647-%s-%s\n", blocks, tiles)
      .. (counts and cleared or "") .. string.format(
      "launch %s grid min(%s,%s) block %d shared %d%s%s overlap args call%s%s mapQ(%d) mapK(%d) mapV(%d) mapO(16)%s\n",
      entry "fwd_ws", blocks, tiles, ws.threads(c), ws.shared(c, p), two and " cluster 2" or "", packed.boxes(c), counts and " ws(0)" or "", more, 64, copied, copied, bias.map(c))
      .. merge
  end,
}
