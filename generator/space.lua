-- space.lua -- problem + gpu + a kernel's table -> its valid configs, default first, and why others are not.
--
-- Walks the product of all tunables in the order of the table. A row of the table may name, after its meaning,
-- the values to walk, or a function of problem and GPU that does; the others are valid but only for who asks for them.
-- A tunable with `unsaid` has that value where a config, or a row of the defaults, says nothing of it: so a kernel
-- can gain tunables, and the configs from before stay what they were, in words and in code. A constraint is asked
-- as soon as the values that it reads are set, and a no cuts off all that would follow; it gives the reason. One
-- with `walk = true` only says what is worth a walk: who asks for such a config gets it. After the kernel's own
-- constraints come those of every kernel: it must fit the GPU. Results leave as lines of tab-separated text, read
-- by space.c.

local engine = ...
local fail, ceil_div = engine.fail, engine.ceil_div
local space = {}

-- The tensors of a problem and the members of the struct that a kernel takes, of "Q:q:d:in LSE:q:1:wanted | w/2". A
-- tensor: name; side "q", "k" or, of heads alone, "h" and in each batch "a", of batches "b", of a call "c", a table
-- "t"; width "d", "dv", "k" (keys) or 1; whether it holds whole numbers, whether it is written. Members: C
-- declarations, one a line.
local function tensors_of(text)
  local tensors, lines, last = {}, {}, nil
  local numbers = { w = "L, R", chunk = "chunk", paged = "page", split = "split", bs = "block_q, block_k", varlen = "total_q, total_k" }
  local function add(kind, names)
    if last == kind then lines[#lines] = lines[#lines] .. ", " .. names else lines[#lines + 1] = kind .. " " .. names end
    last = kind
  end
  for word in string.gmatch(text, "%S+") do
    local name, side, width, role = string.match(word, "^([%w_]+):(%a):(%w+):(%a+)$")
    if name then
      local whole = width == "1i"
      tensors[#tensors + 1] = { name = name, side = side, width = whole and 1 or tonumber(width) or width, whole = whole,
        is_out = role ~= "in" }
      add(whole and "whole_tensor" or width == "1" and "row_tensor" or "tensor", name)
    elseif word == "|" then
      for _, line in ipairs { "i32 b, h, hk", "i32 q, k", "float scale" } do lines[#lines + 1] = line end
      last = nil
    elseif string.match(word, "^float/") then
      add("float", string.match(word, "/(%a+)$"))
    else
      add("i32", numbers[string.match(word, "^%a+")])
    end
  end
  for i, line in ipairs(lines) do lines[i] = line .. ";" end
  return tensors, lines
end

-- What an expression is written as: its lines end in tabs.
local function lines_of(text)
  local lines = {}
  for line in string.gmatch(text or "", "([^\t]+)\t") do lines[#lines + 1] = line end
  return lines
end

-- "key=value" lines -> the problem p and the GPU g, numbers as whole numbers. p.has holds its features by name;
-- p.tq and p.tk are the rows of Q and of K of all batches; p.visits(Br, Bc, group) are the KV tiles of all tiles of Q, and the most of one.
function space.facts(text)
  local p, g = { has = {}, features = {} }, {}
  for where, key, value in string.gmatch(text, "(%l)%.([%w_]+)=([^\n]*)\n") do
    local into = where == "p" and p or g
    into[key] = math.tointeger(tonumber(value)) or value
  end
  for feature in string.gmatch(p.feature_list or "", "%S+") do
    p.features[#p.features + 1] = feature
    p.has[feature] = true
  end
  p.uneven = p.uneven == 1
  -- Which end of a row's keys masks cut: before the first key of all, behind the last.
  -- And whether by lines along the rows.
  p.cut = { left = p.has.w or p.has.chunk or p.has.iv or false, line = p.has.w or p.has.chunk or false }
  p.cut.line = p.cut.line or p.has.causal or p.has.causaltl or false
  p.cut.right = p.cut.left or p.cut.line
  -- Whether batches have lengths of their own, and whether their keys begin elsewhere than at the first.
  p.begins = p.has.lpad or p.has.varlen or false
  p.ragged = p.begins or p.has.used or false
  p.by_batch = p.ragged or p.has.prefix or p.has.iv or false
  local of_rows = {} -- tensors that lie somewhere for a batch and a head
  p.tensors, p.members = tensors_of(p.call or "")
  for _, t in ipairs(p.tensors) do of_rows[#of_rows + 1] = t.side ~= "c" and t.side ~= "t" and t.width ~= "k" and t or nil end
  -- Whether scores are more than products: then `score` gives them in base 2, with the scale in them, and what it gives
  -- has to know whether S is transposed.
  p.scored = p.has.softcap or p.has.alibi or p.has.mask or p.has.bias or p.has.modHASH or p.has.maskHASH or false
  p.keeps_slope = p.keeps_slope == 1
  p.words = {
    -- Scores and what mods make of them.
    c_is_cap = p.has.softcap and not (p.has.alibi or p.has.bias or p.has.modHASH) or false,
    c_of_call = p.scored and "unit_of(a)" or "base2(a.scale)",
    score_rows = p.scored and "score_rows" or "score",
    mod_lines = lines_of(p.mod),
    mask_lines = lines_of(p.mask),
    course_lines = lines_of(p.course),
    known_lines = lines_of(p.known),
    known_count = p.known_count,
    keeps_slope = p.keeps_slope,
    and_slopes = p.keeps_slope and ", slopes" or "",
    slopes_out = p.keeps_slope and ", Acc &slopes" or "",
    biases_in = "",
    and_biases = "",
    -- What some kernels say otherwise.
    ruled = false,
    shifts = false,
    grouped = false,
    told = false,
    rows_later = false,
    lengths_here = false,
    lots = false,
    in_line = false,
    key_splits = false,
    apart = false,
    side_by_side = false,
    -- Of a backward, whose weights keep what dropout takes from them.
    weigh_back = p.has.drop and "mark" or "weigh",
    weigh_rows = p.has.drop and "mark_rows" or "weigh",
    kept_S = p.has.drop and "kept(S)" or "S",
    and_boost = p.has.drop and ", boost(a)" or "",
    -- Where rows of Q, O and the like begin in a tensor map of them: row, head, batch.
    rows_of_Q = function(at, row)
      return string.format("%s%s, %s.h, %s", p.has.varlen and at .. ".q0 + " or "", row, at, p.has.varlen and "0" or at .. ".b")
    end,
    -- Places: tensors that have rows of their own for a batch and a head, and what `finish` takes beside m, l and c.
    tensors_of_rows = of_rows,
    ends_of = function(place) return p.has.drop and ", a, " .. place or p.has.sink and ", " .. place or "" end,
    -- Of a backward, launches beside its products.
    entries_beside = function(entry, lists, more, sinks)
      local all, begin = {}, 'extern "C" __global__ void __launch_bounds__(T) '
      if p.has.dsink then all[1] = begin .. entry "sinks" .. "(const call a" .. lists .. more .. ") { " .. sinks .. "; }" end
      if p.has.dbias then all[#all + 1] = begin .. entry "zeros" .. "(const call a" .. lists .. ") { clear_pairs(a, i32(block_id())); }" end
      return table.concat(all, "\n")
    end,
  }
  p.visits = function(Br, Bc, group) return engine.visits(p.text, Br, Bc, group) end
  return p, g
end

-- Gives a config the tunables that it does not speak of.
local function say_the_rest(kernel, c)
  for _, row in ipairs(kernel.tunables) do c[row[1]] = c[row[1]] or row.unsaid end
end

-- "fwd:Br128-Bc64" -> a table of values; every name and value must be in the kernel's table.
function space.config(kernel, text)
  local name, rest = string.match(text, "^([%w_]+):(.*)$")
  if name ~= kernel.name then fail("input", "config '%s' is not one of kernel %s", text, kernel.name) end
  local c, known, unsaid = {}, {}, {}
  for _, row in ipairs(kernel.tunables) do known[row[1]], unsaid[row[1]] = row[2], row.unsaid end
  for part in string.gmatch(rest .. "-", "(.-)%-") do
    local key, value = string.match(part, "^(%a+)(%d+)$")
    value = math.tointeger(tonumber(value))
    if not key or not known[key] then fail("input", "config '%s': '%s' is no tunable of %s", text, part, kernel.name) end
    local allowed = {}
    for _, v in ipairs(known[key]) do allowed[v] = true end
    if not allowed[value] then
      fail("input", "config '%s': %s is %d; allowed are %s", text, key, value, table.concat(known[key], ", "))
    end
    if value == unsaid[key] then
      fail("input", "config '%s': %s is %d where nothing is said of it: leave it out", text, key, value)
    end
    c[key] = value
  end
  say_the_rest(kernel, c)
  for _, row in ipairs(kernel.tunables) do
    if not c[row[1]] then fail("input", "config '%s' says nothing of %s (%s)", text, row[1], row[3]) end
  end
  return c
end

local function config_text(kernel, c)
  local parts = {}
  for _, row in ipairs(kernel.tunables) do
    if c[row[1]] ~= row.unsaid then parts[#parts + 1] = row[1] .. c[row[1]] end
  end
  return kernel.name .. ":" .. table.concat(parts, "-")
end

-- The constraints of every kernel, in the form of X.lua's own.
local function common(kernel, g)
  return {
    { function(c, p) return kernel.shared(c, p, g) <= g.shared_block end,
      string.format("the tiles fit the %d KB of shared memory that a block may have", g.shared_block // 1024) },
    { function(c, p) return kernel.threads(c) * math.min(255, kernel.registers(c, p, g)) <= g.regs_sm end,
      string.format("the threads of a block fit the %d registers of an SM", g.regs_sm) },
  }
end

-- The reason why a config is not valid, or nil.
local function rejected(kernel, c, p, g, also)
  for _, list in ipairs { kernel.constraints, also } do
    for _, constraint in ipairs(list) do
      if not constraint.walk and not constraint[1](c, p, g) then return constraint[2] end
    end
  end
end

-- Whether a kernel serves the family on this GPU at all; the reason if not.
local function unserved(kernel, p, g)
  local serves = kernel.serves
  if p.op ~= serves.op then return string.format("kernel %s does %s, not %s", kernel.name, serves.op, p.op) end
  local dtypes = table.concat(serves.dtypes, " ")
  if not string.find(" " .. g.dtypes .. " ", " " .. p.dtype .. " ", 1, true) then
    return string.format("%s (sm_%d) has no %s arithmetic; it has %s", g.name, g.sm, p.dtype, g.dtypes)
  end
  if not string.find(" " .. dtypes .. " ", " " .. p.dtype .. " ", 1, true) then
    return string.format("kernel %s has no %s; it has %s", kernel.name, p.dtype, dtypes)
  end
  if g.sm < serves.sm then return string.format("kernel %s needs sm_%d", kernel.name, serves.sm) end
  if g.sm > (serves.sm_last or g.sm) then
    return string.format("kernel %s is made of instructions that sm_%d alone has", kernel.name, serves.sm_last)
  end
  if p.slices > 1 and not serves.slices then
    return string.format("kernel %s makes no V of more than 256 columns", kernel.name)
  end
  local features = " " .. table.concat(serves.features, " ") .. " "
  for _, feature in ipairs(p.features) do
    if not string.find(features, " " .. feature .. " ", 1, true) then
      return string.format("kernel %s has no '%s'", kernel.name, feature)
    end
  end
end

function space.applies(kernel_name, facts)
  local kernel = engine.kernel(kernel_name)
  local p, g = space.facts(facts)
  local reason = unserved(kernel, p, g)
  if kernel.serves.op ~= p.op then return "-1 " .. reason end -- what others say of the problem is of more use
  if reason then fail("unsupported", "%s", reason) end
  local function say(word) return type(word) == "function" and word(p, g) or type(word) ~= "function" and word end
  return string.format("%d", say(kernel.picked) and 1 + (say(kernel.prefer) or 0) or 0)
end

-- The kernel that takes this problem's tensors where they are not aligned; "" for none.
function space.twin(kernel_name, facts)
  local p = space.facts(facts)
  local twin = engine.kernel(kernel_name).twin or ""
  return type(twin) == "function" and twin(p) or twin
end

-- Fails unless the config is valid: for renders of one given config.
function space.demand(kernel, c, p, g)
  local reason = unserved(kernel, p, g)
  if reason then fail("unsupported", "%s", reason) end
  reason = rejected(kernel, c, p, g, common(kernel, g))
  if reason then fail("unsupported", "%s does not fit: %s", config_text(kernel, c), reason) end
end

local fields = { "blocks", "threads", "shared", "registers", "fma", "tensor", "ex2", "shared_bytes", "issue", "visits",
  "steps", "uneven", "spills", "dram", "l2" } -- ORDER WORK: as in struct fat_work
local fields_form = string.rep("%.17g", #fields, "\t")

-- Launches that a recipe has ahead of those which the kernel's `work` tells of: of lists of tiles, and of zeros.
local function work_ahead(kernel, c, p)
  local all = {}
  local function add(blocks) all[#all + 1] = { blocks = blocks, threads = 32, registers = 40, visits = 1, steps = 2 } end
  for _, list in ipairs(engine.listings(kernel.lists and kernel.lists(c, p))) do
    add(p.b * p[list.heads] * ceil_div(p[list.along], list.tile))
  end
  if p.has.dbias then add(p.b * p.h * ceil_div(p.q, c.Br)) end
  return all
end

-- "P config launches" and one line of numbers for each launch.
local function point_lines(kernel, c, p, g, out)
  local launches, own = work_ahead(kernel, c, p), kernel.work(c, p, g)
  table.move(own, 1, #own, #launches + 1, launches)
  out[#out + 1] = string.format("P\t%s\t%d", config_text(kernel, c), #launches)
  for _, launch in ipairs(launches) do
    local numbers = {}
    for i, field in ipairs(fields) do numbers[i] = launch[field] or 0 end
    out[#out + 1] = string.format(fields_form, table.unpack(numbers))
  end
end

function space.point(kernel_name, facts, config)
  local p, g = space.facts(facts)
  local kernel = engine.kernel_for(kernel_name, p)
  local c, out = space.config(kernel, config), {}
  space.demand(kernel, c, p, g)
  point_lines(kernel, c, p, g, out)
  return table.concat(out, "\n") .. "\n"
end

-- The first of the kernel's defaults that is valid, and meant for heads of this dimension (`most` is the largest,
-- where it has one) and for this problem on this GPU (where `meant` asks); nil if none is.
local function default_of(kernel, p, g, also)
  for _, c in ipairs(kernel.defaults) do
    say_the_rest(kernel, c)
    local meant = (not c.most or math.max(p.d, p.dv) <= c.most) and (not c.meant or c.meant(p, g))
    if meant and not rejected(kernel, c, p, g, also) then return c end
  end
end

-- The default as a point; nothing where none of the defaults is valid.
function space.default(kernel_name, facts)
  local p, g = space.facts(facts)
  local kernel = engine.kernel_for(kernel_name, p)
  local reason = unserved(kernel, p, g)
  if reason then fail("unsupported", "%s", reason) end
  local default, out = default_of(kernel, p, g, common(kernel, g)), {}
  if not default then return "" end
  point_lines(kernel, default, p, g, out)
  return table.concat(out, "\n") .. "\n"
end

-- "1" where the default is `firm`: times of calls with these features chose it, which what won without them knows nothing of.
function space.firm(kernel_name, facts)
  local p, g = space.facts(facts)
  local kernel = engine.kernel_for(kernel_name, p)
  local default = default_of(kernel, p, g, common(kernel, g))
  return default and default.firm and "1" or ""
end

-- The tunables in the order in which they are walked, those with one value first: all constraints can be asked
-- of them at once. And how many points lie below the first i of them.
local function walked_rows(kernel, p, g)
  local rows, below, total = {}, {}, 1
  for pass = 1, 2 do
    for _, row in ipairs(kernel.tunables) do
      local values = type(row[4]) == "function" and row[4](p, g) or row[4] or row[2]
      if (#values == 1) == (pass == 1) then rows[#rows + 1] = { name = row[1], values = values } end
    end
  end
  for i = #rows, 0, -1 do
    below[i] = total
    total = total * (i > 0 and #rows[i].values or 1)
  end
  return rows, below
end

-- A config without values. Reading one of its tunables before it is set ends the question, and is told.
local later, missing = {}, nil
local function blank(rows)
  local is_tunable = {}
  for _, row in ipairs(rows) do is_tunable[row.name] = true end
  return setmetatable({}, { __index = function(_, name)
    if is_tunable[name] then
      missing = name
      error(later, 0)
    end
  end })
end

-- The constraints of a list that cannot be asked yet, each with a tunable that it waits for; nil where one says no, which counts
-- for all points below. To ask one that still waits took a tenth of a search's time.
local function undecided(list, c, p, g, counts, points)
  local open = {}
  for _, one in ipairs(list) do
    if one.waits and rawget(c, one.waits) == nil then
      open[#open + 1] = one
    else
      local constraint = one.constraint
      local asked, yes = pcall(constraint[1], c, p, g)
      if not asked and yes ~= later then error(yes, 0) end
      if not asked then
        open[#open + 1] = { constraint = constraint, waits = missing }
      elseif not yes then
        counts[constraint[2]] = (counts[constraint[2]] or 0) + points
        return nil
      end
    end
  end
  return open
end

function space.list(kernel_name, facts)
  local p, g = space.facts(facts)
  local kernel = engine.kernel_for(kernel_name, p)
  local reason = unserved(kernel, p, g)
  if reason then fail("unsupported", "%s", reason) end
  local also, out, counts = common(kernel, g), {}, {}
  local default = default_of(kernel, p, g, also)
  local default_text = default and config_text(kernel, default)
  if default then point_lines(kernel, default, p, g, out) end

  local rows, below = walked_rows(kernel, p, g)
  local total = below[0]
  local c = blank(rows)
  local function walk(i, open)
    open = undecided(open, c, p, g, counts, below[i])
    if not open then return end
    local row = rows[i + 1]
    if row then
      for _, value in ipairs(row.values) do
        c[row.name] = value
        walk(i + 1, open)
      end
      c[row.name] = nil
    elseif config_text(kernel, c) ~= default_text then
      point_lines(kernel, c, p, g, out)
    end
  end
  local open = {}
  for _, list in ipairs { kernel.constraints, also } do
    for _, constraint in ipairs(list) do open[#open + 1] = { constraint = constraint } end
  end
  walk(0, open)

  for _, list in ipairs { kernel.constraints, also } do
    for _, constraint in ipairs(list) do
      local count = counts[constraint[2]]
      if count then out[#out + 1] = string.format("R\t%d\t%s", count, constraint[2]) end
    end
  end
  out[#out + 1] = string.format("W\t%d", total)
  return table.concat(out, "\n") .. "\n"
end

return space
