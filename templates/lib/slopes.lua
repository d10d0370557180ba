-- slopes.lua -- where a backward for warpgroups gets the derivatives of scores from, and the words for it.
local slopes = {}

-- "T": of capped scores that are tanh and nothing else, pair by pair as P is made of them; "score": of what makes the scores, beside them;
-- "P": told from that again, since of dropout's weights a sign says which are gone, and what an expression does to it is not known; nil:
-- they are 1. `once`: dS is made of weights that are rounded when P is.
function slopes.from(p, once)
  if p.keeps_slope then return "score" end
  if not p.has.softcap then return nil end
  if p.has.drop or p.has.modHASH then return "P" end
  return p.words.c_is_cap and once and "T" or "score"
end

-- The words of a kernel whose derivatives are made beside scores and kept.
function slopes.keep(words)
  words.keeps_slope, words.and_slopes, words.slopes_out = true, ", slopes", ", Acc &slopes"
end

-- `round_P` makes P, and where derivatives are not 1 W, P times them; `W`: what dS is made of.
function slopes.words(words, from, c_of_call)
  local kept = from == "score"
  words.capped = from == "T"
  local weighs = kept or words.capped
  words.W_and, words.W = weighs and "W, " or "", weighs and "W" or "P"
  words.round_P = kept and "round_sloped(P, W, S, slopes)" or words.capped and
    string.format("weigh_capped(P, W, S, %s, %s)", words.rows_ahead and "L" or "LD_of(n)", c_of_call) or "P.round(S)"
  if kept then slopes.keep(words) end
end

return slopes
