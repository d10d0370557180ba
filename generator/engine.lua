-- engine.lua -- the template engine: a kernel's two files and a config become one CUDA text.
--
-- A template is CUDA text. A line whose first mark is `%` is Lua, `$(e)` is a hole, all else is output. In
-- lib/ and arch/ a line `//: name -- meaning` opens a section; a section is emitted on first use, in front of
-- what uses it. A template is turned into Lua line for line, so Lua's own messages name the template's line,
-- and each output line remembers where it came from, for `#line` marks.
-- Runs inside script.c, which passes `host`: read(name), names(), and hands text in and out.

local host = ...
local engine = {}

-- The string metatable is narrowed for templates below, so nothing here calls a string's method.
local find, match, gmatch, gsub, sub, rep = string.find, string.match, string.gmatch, string.gsub, string.sub, string.rep

-- Raises an error whose kind the host turns into a status: "template", "unsupported" or "input".
local function fail(kind, format, ...)
  error("\1" .. kind .. "\1" .. string.format(format, ...), 0)
end

-- A list of values on the stack is copied as one instruction, so none is long.
local function demand_few(first, last)
  if last - first >= 1000 then error("above 1000 values at once", 3) end
end

-- The words a template may use. No pairs and no randomness: a render is the same every time.
local safe_string = {}
for _, name in ipairs { "format", "sub", "char", "len", "lower", "upper" } do
  safe_string[name] = string[name]
end
function safe_string.byte(s, first, last)
  first = first or 1
  last = last or first
  demand_few(first < 0 and #s + first or first, last < 0 and #s + last or last)
  return string.byte(s, first, last)
end
function safe_string.rep(s, n, separator)
  if n > 65536 or (#s + #(separator or "")) * n > 65536 then error("string.rep: result above 65536 bytes", 2) end
  return rep(s, n, separator)
end
-- What walks a whole list in C counts as so many instructions.
local safe_table = {}
function safe_table.unpack(list, first, last)
  demand_few(first or 1, last or #list)
  return table.unpack(list, first or 1, last or #list)
end
for _, name in ipairs { "concat", "insert", "remove", "sort" } do
  local call = table[name]
  safe_table[name] = function(list, ...)
    if name == "sort" then host.spend(16 * #list) -- comparisons of each
    elseif name ~= "insert" or select("#", ...) > 1 then host.spend(#list) end
    return call(list, ...)
  end
end
local safe_math = {}
for _, name in ipairs { "abs", "ceil", "floor", "fmod", "huge", "log", "max", "maxinteger", "min", "mininteger", "modf",
  "sqrt", "tointeger", "type", "ult" } do
  safe_math[name] = math[name]
end
host.protect_strings(safe_string)

-- Templates share these tables, so none of them may write there.
local function read_only(words)
  return setmetatable({}, {
    __index = words, __metatable = false,
    __newindex = function(_, name) error(string.format("'%s' cannot be set here", tostring(name)), 2) end,
  })
end
local shared = { string = read_only(safe_string), table = read_only(safe_table), math = read_only(safe_math) }

local function ceil_div(x, y) return (x + y - 1) // y end

-- A fresh environment: reading an unknown name and making a global are errors.
local function environment(words)
  local env = {
    string = shared.string, table = shared.table, math = shared.math,
    assert = assert, error = error, ipairs = ipairs, select = select, tonumber = tonumber, tostring = tostring,
    type = type, ceil_div = ceil_div,
  }
  for name, value in pairs(words) do env[name] = value end
  return setmetatable(env, {
    __index = function(_, name) error(string.format("undefined name '%s'", tostring(name)), 2) end,
    __newindex = function(_, name) error(string.format("'%s' is no local: write `local %s`", tostring(name),
      tostring(name)), 2) end,
    __metatable = false,
  })
end

local function load_lua(text, name, env)
  local chunk, message = load(text, "@" .. name, "t", env or _G)
  if not chunk then fail("template", "%s", message) end
  return chunk
end

local function read(name)
  local text = host.read(name)
  if not text then fail("template", "%s: there is no such file", name) end
  return text
end

---- Lua files of templates/ ----------------------------------------------------------------------------------------

local included = {}
local function include(name)
  if included[name] == nil then
    local path = "templates/" .. name
    included[name] = load_lua(read(path), path, environment { include = include })()
    if included[name] == nil then fail("template", "%s returns nothing", path) end
  end
  return included[name]
end

-- What X.lua says of a kernel, and what it says of it on the units that a problem is solved on: the latter stands
-- beside the former, or is what its function `on(p)` returns.
local of_kernel = { about = "string", serves = "table", recipe = "function" }
local of_units = { tunables = "table", defaults = "table", words = "function", constants = "function",
  constraints = "table", threads = "function", shared = "function", registers = "function", work = "function" }
local function check_shape(path, k, shape)
  for field, kind in pairs(shape) do
    if type(k) ~= "table" or type(k[field]) ~= kind then fail("template", "%s: '%s' is no %s", path, field, kind) end
  end
  return k
end

local kernels = {}
-- The table that templates/<name>.lua returns, with its shape checked once.
function engine.kernel(name)
  if kernels[name] then return kernels[name] end
  local path = "templates/" .. name .. ".lua"
  if not match(name, "^%l[%l%d_]*$") or not host.read(path) then
    fail("unsupported", "there is no kernel '%s': the templates have %s", name, table.concat(engine.kernels(), ", "))
  end
  local k = include(name .. ".lua")
  check_shape(path, k, of_kernel)
  -- Of a problem, or always: whether it may be picked; where several may, those that prefer more come first; and which kernel takes
  -- the tensors that it cannot take.
  for field, kind in pairs { picked = "boolean", prefer = "number", twin = "string" } do
    if type(k[field]) ~= "function" and (k[field] ~= nil or field == "picked") then check_shape(path, k, { [field] = kind }) end
  end
  k.name, k.path = name, path
  kernels[name] = k
  return k
end

-- The same with the half that serves a problem.
local halves = {}
function engine.kernel_for(name, p)
  local k = engine.kernel(name)
  local units = k.on and k.on(p) or k
  if not halves[units] then
    check_shape(k.path, units, of_units)
    halves[units] = setmetatable({}, { __index = function(_, key)
      if units[key] ~= nil then return units[key] end
      return k[key]
    end })
  end
  return halves[units]
end

-- Names of all kernels: the Lua files directly in templates/.
function engine.kernels()
  local list = {}
  for _, name in ipairs(host.names()) do
    local kernel = match(name, "^templates/([%l%d_]+)%.lua$")
    if kernel then list[#list + 1] = kernel end
  end
  table.sort(list)
  return list
end

---- Templates --------------------------------------------------------------------------------------------------------

-- The Lua statement for one line of text: _o(line, "text", hole, "text", ...).
local function text_statement(line, number, path)
  local parts, at = { "_o(" .. number }, 1
  while true do
    local open = find(line, "$(", at, true)
    parts[#parts + 1] = string.format("%q", sub(line, at, (open or 0) - 1))
    if not open then break end
    local close = match(line, "^%b()()", open + 1)
    if not close then fail("template", "%s:%d: a hole $( is not closed", path, number) end
    local hole = sub(line, open + 2, close - 2)
    if not find(hole, "%S") then fail("template", "%s:%d: empty hole $()", path, number) end
    parts[#parts + 1] = "(" .. hole .. ")"
    at = close
  end
  return table.concat(parts, ",") .. ") "
end

-- Patterns that end in `%s+$` try every run of blanks to its end; this walks once.
local function without_end_blanks(line)
  local last = #line
  while last > 0 and find(" \t\r\v\f", sub(line, last, last), 1, true) do last = last - 1 end
  return sub(line, 1, last)
end

-- A file as a list of sections { name, path, chunk }; what precedes the first mark is the section "".
local files = {}
local function template(path)
  if files[path] then return files[path] end
  local sections, current, number = {}, nil, 0
  local function open(name)
    current = { name = name, path = path, code = { "local _ENV, _o = ... ", rep("\n", number - 1) } }
    sections[#sections + 1] = current
  end
  for line in gmatch(read(path) .. "\n", "(.-)\r?\n") do
    number = number + 1
    local mark = match(line, "^//: ([%a_][%w_]*)")
    if mark or number == 1 then open(mark or "") end
    local lua = match(line, "^%s*%%(.*)$")
    local code = current.code
    code[#code + 1] = (lua or text_statement(without_end_blanks(line), number, path)) .. "\n"
  end
  for _, section in ipairs(sections) do
    section.chunk = load_lua(table.concat(section.code), path)
    section.code = nil
  end
  files[path] = sections
  return sections
end

-- Runs one section; returns its lines as { text, path, number }.
local function run(section, env)
  local lines = {}
  local function emit(number, ...)
    local count = select("#", ...)
    if count == 1 then -- no hole: the text as it stands
      lines[#lines + 1] = { (...), section.path, number }
      return
    end
    local parts = {}
    for i = 1, count do
      local value = (select(i, ...))
      if value == nil then error("a hole is nil", 2) end
      if i % 2 == 0 and math.type(value) ~= "integer" and type(value) ~= "string" then
        error(string.format("a hole is a %s; a hole takes a string or a whole number",
          math.type(value) or type(value)), 2)
      end
      parts[i] = tostring(value)
    end
    lines[#lines + 1] = { table.concat(parts), section.path, number }
  end
  section.chunk(env, emit)
  return lines
end

-- Identifiers of a line, in order, without comments and strings. Kept, as one render has most lines of another; what is
-- kept is forgotten when it becomes much.
local kept, keeps = {}, 0
local function identifiers(line)
  if kept[line] then return kept[line] end
  local list = {}
  local code = gsub(gsub(line, '"[^"]*"', " "), "//.*", "")
  for name in gmatch(code, "[%a_][%w_]*") do list[#list + 1] = name end
  if keeps == 8192 then kept, keeps = {}, 0 end
  kept[line], keeps = list, keeps + 1
  return list
end

-- The arch files that a GPU understands, newest first; sm90_cluster.cuh is one of sm90.
local function arch_files(sm)
  local list = {}
  for _, name in ipairs(host.names()) do
    local number = tonumber(match(name, "^templates/arch/sm(%d+)[%a_]*%.cuh$") or "")
    if number and number <= sm then list[#list + 1] = { number, name } end
  end
  table.sort(list, function(x, y) return x[1] > y[1] end)
  return list
end

-- Makes the sections of a lib file known under their names; a name stands in one lib file only.
local function index_lib(index, path)
  for _, section in ipairs(template(path)) do
    local old = index[section.name]
    if section.name ~= "" then
      if old and old.path ~= path then
        fail("template", "%s: '%s' stands in %s already", path, section.name, old.path)
      end
      index[section.name] = section
    end
  end
end

-- Makes each constant of X.lua a section of one line.
local function index_constants(index, kernel, constants)
  for number, row in ipairs(constants) do
    local name, value, meaning = row[1], row[2], row[3]
    if math.type(value) ~= "integer" then
      fail("template", "%s: constant %s is no whole number", kernel.path, tostring(name))
    end
    local text = string.format("%-28s // %s", string.format("constexpr i32 %s = %d;", name, value), meaning)
    index[name] = { name = name, path = kernel.path, lines = { { text, kernel.path, number } } }
  end
end

-- All lines of a kernel's text: sections in order of first use, then the kernel itself.
local function assemble(kernel, words, sm, constants)
  local index, out, state = {}, {}, {}
  for _, file in ipairs(arch_files(sm)) do
    for _, section in ipairs(template(file[2])) do
      if section.name ~= "" and not index[section.name] then index[section.name] = section end
    end
  end
  index_constants(index, kernel, constants)
  words.use = function(name) index_lib(index, "templates/" .. name) end
  local env = environment(words)
  local function need(lines)
    for _, line in ipairs(lines) do
      for _, name in ipairs(identifiers(line[1])) do
        local section = index[name]
        if section and not state[name] then
          state[name] = true
          local own = section.lines or run(section, env)
          need(own)
          table.move(own, 1, #own, #out + 1, out)
        end
      end
    end
  end
  local main = run(template("templates/" .. kernel.name .. ".cu")[1], env)
  if words.listed then
    local lists = run(template("templates/lib/lists.cuh")[1], env)
    table.move(lists, 1, #lists, #main + 1, main)
  end
  need(main)
  for _, line in ipairs(main) do out[#out + 1] = line end
  return out
end

-- Text with a #line mark wherever the origin is not simply the next line. Runs of blank lines become one.
local function with_marks(lines)
  local parts, path, number, blank = {}, nil, 0, true
  for _, line in ipairs(lines) do
    local empty = line[1] == ""
    if not (empty and blank) then
      if line[2] ~= path or line[3] ~= number then
        parts[#parts + 1] = string.format("#line %d \"%s\"", line[3], line[2])
      end
      parts[#parts + 1] = line[1]
      path, number = line[2], line[3] + 1
    end
    blank = empty
  end
  return table.concat(parts, "\n") .. "\n"
end

-- Where kernels step by lists of tiles, what they are told of them; and the recipe with the launches that make these,
-- in a workspace whose first bytes they have. `of` says which lists, and the tiles.
local function list_words(of)
  local listed = of and true or false
  local function by(hook) return function(x) return listed and string.format("listed_%s(%s, lists)", hook, x) end end
  -- Kernels whose blocks stay, which go by a tile with an empty list, say so themselves.
  return {
    listed = listed,
    lists = of and of.lists or "none",
    stays = false,
    pieces = of and of.pieces or 0,
    take_lists = listed and ", const i32 *lists" or "",
    and_lists = listed and ", lists" or "",
    to_last = listed and "visit" or "visit.last",
    range_of = listed and by "range" or function(x) return "range(" .. x .. ")" end,
    rows_of = listed and by "rows" or function(x) return "range_rows(" .. x .. ")" end,
    first_key = function(x) return listed and "first_key(visit, " .. x .. ")" or x .. " * Bc" end,
  }
end

-- The launches that make lists: their entries, and whose lists they are: of so many heads, of tiles so long along which size.
function engine.listings(of)
  local all = {}
  if of and of.lists ~= "rows" then all[#all + 1] = { entry = "lists", heads = "h", along = "q", tile = of.Br } end
  if of and of.lists ~= "keys" then all[#all + 1] = { entry = "turned", heads = "hk", along = "k", tile = of.Bc } end
  return all
end

-- Line by line and word by word: no expression has a blank.
local function with_lists(recipe, of, entry)
  if not of then return recipe end
  local longest = { lists = string.format("ceildiv(k,%d)", of.Bc), turned = string.format("ceildiv(h,hk)*ceildiv(q,%d)", of.Br) }
  local ahead, sizes, out = {}, of.lists ~= "rows" and { "32" } or {}, {} -- the counter's line
  for _, list in ipairs(engine.listings(of)) do
    local grid = string.format("b*%s*ceildiv(%s,%d)", list.heads, list.along, list.tile)
    sizes[#sizes + 1] = string.format("%s*(%s+2)", grid, longest[list.entry])
    ahead[#ahead + 1] = string.format("launch %s grid %s block 32 shared 0 args call ws(0)", entry(list.entry), grid)
  end
  local bytes = string.format("256*ceildiv(%s,64)+", table.concat(sizes, "+"))
  if not find(recipe, "^workspace") then recipe = "workspace 0\n" .. recipe end
  for line in gmatch(recipe, "[^\n]+") do
    local words = {}
    for word in gmatch(line, "%S+") do
      words[#words + 1] = word == "call" and "call ws(0)" or sub(word, 1, 3) == "ws(" and "ws(" .. bytes .. sub(word, 3) .. ")" or word
    end
    local kind = words[1]
    if kind == "workspace" or kind == "clear" then words[2] = bytes .. words[2] end
    if kind == "clear" or kind == "launch" then
      table.move(ahead, 1, #ahead, #out + 1, out)
      ahead = {}
    end
    out[#out + 1] = table.concat(words, " ")
  end
  return table.concat(out, "\n") .. "\n"
end

-- Recipe, form feed, code. The 16 zeros in entry names stand for the source's hash, which source.c makes of the code
-- without its comments and fills in.
function engine.render(kernel_name, facts, config)
  local space = engine.space
  local p, g = space.facts(facts)
  local kernel = engine.kernel_for(kernel_name, p)
  local c = space.config(kernel, config)
  space.demand(kernel, c, p, g)
  local function entry(name)
    return (name == kernel.name and name or kernel.name .. "_" .. name) .. "_0000000000000000"
  end
  local words = {
    entry = entry, sm = g.sm,
    has = p.has, cut = p.cut, begins = p.begins, by_batch = p.by_batch,
    ragged = p.ragged, uneven = p.uneven, scored = p.scored,
    tensors = p.tensors, call_members = p.members, call_bytes = p.call_bytes,
  }
  local listed = kernel.lists and kernel.lists(c, p)
  for name, value in pairs(list_words(listed)) do words[name] = value end
  for name, value in pairs(p.words) do words[name] = value end
  for name, value in pairs(kernel.words(c, p, g)) do words[name] = value end
  local lines = assemble(kernel, words, g.sm, kernel.constants(c, p))
  local recipe = kernel.recipe(c, p, g, entry)
  if type(recipe) ~= "string" then fail("template", "%s: recipe gives no text", kernel.path) end
  return with_lists(recipe, listed, entry) .. "\f" .. with_marks(lines)
end

engine.fail, engine.ceil_div = fail, ceil_div
engine.visits = host.visits
engine.space = load_lua(read "generator/space.lua", "generator/space.lua")(engine)

-- What script.c may call: every argument and result is text.
return {
  kernels = function() return table.concat(engine.kernels(), "\n") end,
  render = engine.render,
  applies = function(kernel, facts) return engine.space.applies(kernel, facts) end,
  twin = function(kernel, facts) return engine.space.twin(kernel, facts) end,
  default = function(kernel, facts) return engine.space.default(kernel, facts) end,
  firm = function(kernel, facts) return engine.space.firm(kernel, facts) end,
  space = function(kernel, facts) return engine.space.list(kernel, facts) end,
  point = function(kernel, facts, config) return engine.space.point(kernel, facts, config) end,
}
