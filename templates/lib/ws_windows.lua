-- ws_windows.lua -- fwd_ws under a window: where what rows see is asked once, and where tiles of keys begin anywhere. Goes with ws_windows.cuh.
local windows = {}

-- Whether rows see keys by a line alone, and nothing is asked for their scores.
function windows.rows_are_plain(p)
  local has = p.has
  return not (has.alibi or has.drop or has.iv or has.bs)
end
function windows.are_told(p) return p.cut.left and windows.rows_are_plain(p) end

-- Where masks and scores count keys from the end alone, and a tile of Q would else visit one more than its keys fill.
function windows.shift(c, p)
  local has = p.has
  local plain = not (has.chunk or has.causaltl or has.prefix or has.bias or has.mask or has.modHASH or has.maskHASH)
  return windows.are_told(p) and has.w and plain and (c.G == 1 or c.Br % c.Bc ~= 0) or false
end

-- Whether the lower end of what a row sees is so many keys before the upper one.
function windows.lo_by_hi(p) return p.has.w and p.has.causal and not (p.has.chunk or p.has.causaltl or p.has.prefix) or false end

return windows
