-- packed.lua -- tiles of Q of a call, in fwd and fwd_ws; with G = 1 they hold rows of all heads that share K and V. Goes with packed.cuh.
local packed = {}

-- Heads whose rows lie in one tile of Q.
function packed.group(c, p) return c.G == 1 and p.h // p.hk or 1 end

-- Tiles as a number, and as an expression; `apart`: that of tiles of single heads.
function packed.tiles(c, p)
  local group = packed.group(c, p)
  return ceil_div(p.q * group, c.Br) * p.b * p.h // group * p.slices
end
function packed.tiles_text(c, apart) return c.G == 1 and string.format("ceildiv(q*ceildiv(h,hk),%d)*b*hk", c.Br) or apart end

-- A kernel counts rows of all such heads in 32 bits: where there are more, no size is valid.
function packed.valid(c) return c.G == 1 and "valid 2-ceildiv(q*ceildiv(h,hk),2147483647)\n" or "" end

return packed
