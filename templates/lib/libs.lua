-- libs.lua -- the files that every kernel uses: its arguments, and the hooks with what features put into them. A file in
-- which a feature's functions stand is named here alone; what a kernel does not call is not in its text.
local hooks = { "lib/args.h", "lib/hooks.cuh", "lib/lengths.cuh", "lib/intervals.cuh", "lib/blocks.cuh", "lib/tasks.cuh", "lib/in_line.cuh", "lib/masks.cuh", "lib/pairs.cuh", "lib/bias_tiles.cuh", "lib/scores.cuh", "lib/drop.cuh", "lib/mods.cuh" }

return function(...)
  local all = { table.unpack(hooks) }
  for _, file in ipairs { ... } do all[#all + 1] = file end
  return all
end
