-- ws_grad_work.lua -- what the launches of a backward for warpgroups take: the work that the model judges configs by. Goes with ws_grad.lua.
local simt, grad, parts = include "lib/simt.lua", include "lib/grad.lua", include "lib/ws_parts.lua"

return function(ws, own_groups)
  -- `bytes`: that cross shared memory in a visit beside the tiles' own; `steps`: what a visit waits for.
  return function(c, p, of, bytes, steps)
    local tiled = { Br = c.Br, Bc = 64 * of.groups }
    local visits, Dp, Dw = grad.visits_of_keys(tiled, p), ws.up(p.d, 16), ws.up(p.dv, 16)
    local S, tile, rows = c.Br * 64 * own_groups(of), 4 * c.Br * (of.sums or p.d), 2 * c.Br * (Dp + Dw)
    local blocks, tiles = p.b * p.hk * ceil_div(p.k, tiled.Bc), p.b * p.h * ceil_div(p.q, c.Br)
    if of.owns then visits, blocks, tile = visits * ceil_div(p.k, tiled.Bc), p.b * p.hk, 0 end
    local added = tile
    if of.paired then blocks, added = 2 * blocks, tile // 2 end
    local all = {
      { blocks = tiles, threads = 512, shared = 0, registers = 40, visits = 1, steps = 2, fma = c.Br * p.dv, issue = c.Br * p.dv,
        l2 = tiles * (4 * c.Br * p.dv + tile), dram = p.b * p.h * p.q * 4 * p.dv + tiles * tile },
      { blocks = blocks, threads = ws.threads(of), shared = ws.places(c, p, of).last, registers = ws.registers(of), visits = visits,
        uneven = simt.uneven(tiled, p), steps = visits * steps, tensor = visits * 2 * S * (2 * Dp + (of.made or Dp) + 2 * Dw), fma = visits * 3 * S,
        ex2 = visits * S, issue = visits * 3 * S, shared_bytes = visits * (bytes + own_groups(of) * 2 * rows + 2 * S + rows),
        l2 = blocks * visits * (rows + added) + blocks * 2 * 64 * own_groups(of) * (Dp + Dw),
        dram = 2 * (p.b * p.h * p.q + 2 * p.b * p.hk * p.k) * (p.d + p.dv) + tiles * tile },
      { blocks = tiles, threads = 2 * c.Br, shared = c.Br * ws.boxes(p.d) * 128, registers = 128, visits = 1, steps = 2,
        fma = c.Br * Dp, issue = 2 * c.Br * Dp, l2 = tiles * (tile + 2 * c.Br * p.d), dram = tiles * tile + 2 * p.b * p.h * p.q * p.d },
    }
    if of.lays or of.settles then all[1].l2, all[1].dram = all[1].l2 - tiles * tile, all[1].dram - tiles * tile end
    if of.owns or of.settles then all[3] = nil end
    return parts.work(all, p, of)
  end
end
