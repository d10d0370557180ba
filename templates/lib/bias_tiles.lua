-- bias_tiles.lua -- words and constants of bias_tiles.cuh, for kernels whose biases come as tiles by way of shared memory.
local tiles = {}

-- Whether a problem's biases can: a thread finds two in a register; lists of tiles have warps of their own; and behind a padding tiles of
-- keys begin anywhere, where copies must not: at what is no multiple of 16 bytes they end with an illegal instruction (H200). Nor do copies
-- read rows of another length that lie side by side: those that threads bring in their stead took 3 times as long as loads by who adds them
-- (196 and 197 keys, d 64).
function tiles.can_be(p) return p.has.bias and p.k % 8 == 0 and not (p.has.bias32 or p.has.bs or p.has.lpad) or false end

function tiles.bytes(rows, keys) return ceil_div(keys, 64) * 128 * rows end

-- What tells the hook of scores where its biases lie; `with`: the tile that each of theirs comes with.
function tiles.words(words, placed, with)
  words.placed, words.take_biases = placed, placed and ", const __grid_constant__ tensor_map bias_map" or ""
  if placed then words.biases_with, words.biases_in, words.and_biases = with, ", u32 biases_at", ", biases_at" end
end

function tiles.constants(all, at, keys)
  all[#all + 1] = { "at_bias", at, "where biases lie in shared memory, bytes" }
  all[#all + 1] = { "bias_boxes", ceil_div(keys, 64), "boxes of 64 columns of a tile of biases" }
  all[#all + 1] = { "bias_threads", 64, "threads that bring biases" }
end

-- What a recipe says of keys, and what it adds to a launch that takes them.
function tiles.valid(c) return c.B == 1 and "valid k-8*ceildiv(k,8)+1\n" or "" end
function tiles.map(c) return c.B == 1 and string.format(" mapbias(%d)", c.Br) or "" end

return tiles
