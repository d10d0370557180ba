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
-- What simt.tiles makes such an expression of: whose tiles they are, and how many times as many rows.
function packed.heads(c) return c.G == 1 and "hk" or "h" end
function packed.times(c) return c.G == 1 and "*ceildiv(h,hk)" or "" end

-- A kernel counts rows of all such heads in 32 bits: where there are more, no size is valid.
function packed.valid(c, in_line)
  return c.G == 1 and string.format("valid 2-ceildiv(%s*ceildiv(h,hk),2147483647)\n", in_line and "max(q,tq)" or "q") or ""
end

-- Whether copies bring the rows of all such heads: a box has as many of each, and a warp stores 16 rows by one. Lists are of a head's rows.
function packed.can_be_boxed(p)
  return 16 % (p.h // p.hk) == 0 and p.slices == 1 and not (p.has.bs or p.has.iv or p.has.drop)
end
function packed.is_boxed(c) return c.G == 1 and c.N == 0 end
function packed.boxes_valid(c) return packed.is_boxed(c) and "valid 17-ceildiv(h,hk)*ceildiv(16,ceildiv(h,hk))\n" or "" end
function packed.words(words, c, p)
  words.grouped = packed.is_boxed(c)
  if not words.grouped then return end
  function words.rows_of_Q(at, row) -- heads come before rows in such a map
    return string.format("%s.h, %s(%s) / %s.peers, %s", at, p.has.varlen and at .. ".q0 + " or "", row, at, p.has.varlen and "0" or at .. ".b")
  end
end
function packed.boxes(c) return packed.is_boxed(c) and " heads ceildiv(h,hk)" or "" end

return packed
