-- short.lua -- which forwards are so short that tiles of few rows by mma.sync come before those of warpgroups, where nothing is measured. All by times of
-- 398 shapes on H200s (bf16; bench/results/h200-short.tsv), each with 5 to 17 configs.
local short = {}

-- Rows of all heads that share K and V.
function short.rows(p) return p.q * (p.h // p.hk) end

-- Whether heads leave half of the SMs, or more, without a tile of 128 rows.
function short.are_few(p, g) return 2 * ceil_div(p.q, 128) * p.b * p.h * p.slices <= g.sms end

-- Up to 256 rows and keys. Up to d 64 tiles of 32 rows take 0 to 20 % more than the best under a mask, and full of few heads or up to 96 rows, where
-- warpgroups' take 5 to 60; up to d 128 under a mask of few heads or up to 96 rows, and full where both hold. Not full of many narrow heads, which tiles of 64 rows
-- pass sooner: 4,096 x 3 of 49 rows, d 32, in 71 us for 85 (14 x 33 of 52, d 64, 6.8 for 6.6).
function short.in_32s(p, g)
  local d, few = math.max(p.d, p.dv), short.are_few(p, g)
  if p.q <= 32 or p.q > 256 or p.k > 256 or p.scored or p.has.bs or p.has.drop then return false end
  if d <= 64 then return p.uneven or few or p.q <= 96 and d > 48 end
  return d <= 128 and (few and p.q <= 96 or p.uneven and (few or p.q <= 96))
end

-- Few rows on many keys, as decoding has: up to 32 of heads that share K and V, and up to 64 where several do. Of one head 33 to 64 rows take 7 to 20 % more than by
-- a tile of a warpgroup.
local function is_decode(p)
  return p.k >= 256 and (short.rows(p) <= 32 or p.h > p.hk and short.rows(p) <= 64)
end

-- 32 rows on few keys, which warpgroups pass 20 to 80 % slower up to d 128; above on up to 64 keys, 0 to 40 %. Up to d 64 it is so up to 64 rows: 131 us for 69
-- of 4,096 x 3 heads of 49 rows, d 32.
local function is_tiny(p)
  local d = math.max(p.d, p.dv)
  return p.q <= 32 and p.k <= (d > 128 and 64 or 255) or p.q <= 64 and p.k <= 128 and d <= 64
end

function short.by_mma(p, g) return is_decode(p) or is_tiny(p) or short.in_32s(p, g) end

return short
