-- What every script finds around it. Runs once in each thread's interpreter, over Lua 5.1's own libraries; `native` are the
-- functions written in Rust. What those raise is a userdata, which `translate` makes the string or table that scripts are to catch.
--
-- A table that scripts may read but not change is an empty stand-in in front of the real one: reading goes through __index, writing
-- meets __newindex. What looks at tables past metatables (next, rawset, table.insert ...) is replaced by something that knows of this.
local native, version, version_number = ...

local error, type, select, tostring = error, type, select, tostring
local rawget, rawset, setmetatable, getmetatable, setfenv = rawget, rawset, setmetatable, getmetatable, setfenv
local raw_next, raw_pcall, raw_xpcall, raw_loadstring = next, pcall, xpcall, loadstring
local raw_insert, raw_foreach, gsub, concat = table.insert, table.foreach, string.gsub, table.concat

-- What is raised in a script that is made to end.
local UNWIND = native.unwind

-- All that anybody gets of this library.
local clock = os.clock
os = nil

local READONLY = "Attempt to modify a readonly table"
local real, shown = {}, {}

local function refuse() error(READONLY, 2) end

local function protect(content, meta)
  local face = {}
  local guard = { __index = content, __newindex = refuse, __metatable = false }
  real[face] = content
  shown[face] = meta
  return setmetatable(face, guard), guard
end

-- What the C function would say about its arguments, said where its caller stands.
local function complain(name, f, ...)
  local ok, text = raw_pcall(f, ...)
  if ok then return end
  error(gsub(tostring(text), "'%?'", "'" .. name .. "'"), 3)
end

local function a_table(t, name)
  if type(t) ~= "table" then
    error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(t) .. ")", 3)
  end
end

local base = {}
for _, name in ipairs { "assert", "error", "gcinfo", "ipairs", "rawequal", "select", "tonumber", "tostring",
  "type", "unpack", "_VERSION" } do
  base[name] = _G[name]
end

function base.next(t, key)
  a_table(t, "next")
  return raw_next(real[t] or t, key)
end

function base.pairs(t)
  a_table(t, "pairs")
  local content = real[t]
  if content then
    return function(_, key) return raw_next(content, key) end, t, nil
  end
  return raw_next, t, nil
end

function base.rawget(t, key)
  a_table(t, "rawget")
  return rawget(real[t] or t, key)
end

function base.rawset(t, key, value)
  a_table(t, "rawset")
  if real[t] then error(READONLY, 0) end
  if key == nil or key ~= key then complain("rawset", rawset, t, key, value) end
  return rawset(t, key, value)
end

function base.getmetatable(value)
  if real[value] then return shown[value] end
  return getmetatable(value)
end

-- The tables of keys and arguments: most scripts leave them as they are, and then the next one has the same.
local keys, args, altered = { false }, { false, false }, false

function base.setmetatable(t, meta)
  if real[t] then error(READONLY, 0) end
  if type(t) ~= "table" or meta ~= nil and type(meta) ~= "table" or getmetatable(t) ~= nil then complain("setmetatable", setmetatable, t, meta) end
  altered = altered or t == keys or t == args
  return setmetatable(t, meta)
end

local function translate(thrown)
  if type(thrown) == "userdata" then return native.translate(thrown) end
  return thrown
end

-- As Redis: a caught table of an error becomes its text.
local function caught(ok, ...)
  if ok then return ok, ... end
  local thrown = translate((...))
  if type(thrown) == "table" then
    local text = thrown.err
    if type(text) == "string" or type(text) == "number" then return false, text end
  end
  return false, thrown
end

function base.pcall(...)
  return caught(raw_pcall(...))
end

-- What a script does to the collector would be the next one's burden.
local collect, collector_changed = collectgarbage, false

function base.collectgarbage(what, ...)
  local ok, answer = raw_pcall(collect, what, ...)
  if not ok then complain("collectgarbage", collect, what, ...) end
  collector_changed = collector_changed or what == "stop" or what == "setpause" or what == "setstepmul"
  return answer
end

local function mend_collector()
  collect("restart")
  collect("setpause", 200)
  collect("setstepmul", 200)
  collector_changed = false
end

function base.xpcall(f, handler)
  return raw_xpcall(f, function(thrown)
    thrown = translate(thrown)
    -- Who is made to end gets no more to say: here nobody would look at the time.
    if thrown == UNWIND then return thrown end
    return handler(thrown)
  end)
end

local coroutine_library = {}
for name, f in raw_next, coroutine do coroutine_library[name] = f end
local raw_resume = coroutine.resume

local function resumed(ok, ...)
  if ok then return ok, ... end
  return false, translate((...))
end

function coroutine_library.resume(...)
  return resumed(raw_resume(...))
end

local table_library, string_library, math_library = {}, {}, {}
for name, f in raw_next, table do table_library[name] = f end
for name, f in raw_next, string do string_library[name] = f end
for name, f in raw_next, math do math_library[name] = f end

local pattern = native.pattern
local sub = string.sub
string_library.find, string_library.match = pattern.find, pattern.match

function string_library.gmatch(s, p)
  local text, each = pattern.each(s, p)
  local at = 1
  local function shown(from, behind, ...)
    if not from then
      at = #text + 2
      return
    end
    at = behind > from and behind or behind + 1
    return ...
  end
  return function()
    if at <= #text + 1 then return shown(pattern.next(text, each, at)) end
  end
end
string_library.gfind = string_library.gmatch

local function both(...) return ... end

-- What a table or a function has to say of a match.
local function answer(with, from, behind, first, ...)
  if not from then return nil end
  if type(with) == "table" then return from, behind, with[first] end
  return from, behind, (with(first, ...))
end

function string_library.gsub(s, p, with, most)
  if type(with) ~= "table" and type(with) ~= "function" then return both(pattern.substitute(s, p, with, most)) end
  local text, each, left, anchored = pattern.begin(s, p, with, most)
  local pieces, count, at = {}, 0, 1
  while count < left do
    local from, behind, value = answer(with, pattern.next(text, each, at, anchored))
    if not from then break end
    count = count + 1
    pieces[#pieces + 1] = sub(text, at, from - 1)
    if not value then
      pieces[#pieces + 1] = sub(text, from, behind - 1)
    elseif type(value) == "string" or type(value) == "number" then
      pieces[#pieces + 1] = value
    else
      error("invalid replacement value (a " .. type(value) .. ")", 2)
    end
    at = behind
    if behind == from then
      if at > #text then break end
      pieces[#pieces + 1] = sub(text, at, at)
      at = at + 1
    end
    if anchored then break end
  end
  pieces[#pieces + 1] = sub(text, at)
  return concat(pieces), count
end

function table_library.insert(t, ...)
  if real[t] then error(READONLY, 0) end
  local count = select("#", ...)
  if count == 1 and type(t) == "table" then return raw_insert(t, (...)) end
  if count ~= 2 or type(t) ~= "table" or type((...)) ~= "number" then complain("insert", raw_insert, t, ...) end
  return raw_insert(t, ...)
end

function table_library.foreach(t, f)
  a_table(t, "foreach")
  return raw_foreach(real[t] or t, f)
end

math_library.random, math_library.randomseed = native.random, native.randomseed

local function json(library)
  library.null, library._NAME, library._VERSION = native.null, "cjson", "2.1.0"
  function library.new() return json(native.new_cjson()) end
  return library
end

local cjson = json(native.cjson)
local cmsgpack = native.cmsgpack
cmsgpack._NAME, cmsgpack._VERSION = "cmsgpack", "lua-cmsgpack 0.4.0"
cmsgpack._COPYRIGHT, cmsgpack._DESCRIPTION = "Copyright (C) 2012, Salvatore Sanfilippo", "MessagePack C implementation for Lua"

-- The way to the world while something runs: `redis.call` itself.
local gate = native.call

-- A native can hold some 8,000 values in all, those of libraries with them. Who uses `unpack` may give as many: he comes by way of a table, and
-- finds this in the place of the gate.
local MANY = 2000

local function wide(...)
  local count = select("#", ...)
  local answer
  if count < MANY then answer = gate(...) else answer = native.call_many(count, { ... }) end
  return answer
end

local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  REDIS_VERSION = version, REDIS_VERSION_NUM = version_number,
}
for name, f in raw_next, native.redis do redis[name] = f end

local function tried(ok, ...)
  if ok then return ... end
  local thrown = translate((...))
  if thrown == UNWIND then error(thrown, 0) end
  return thrown
end

redis.call, redis.acl_check_cmd = gate, native.may

function redis.pcall(...)
  return tried(raw_pcall(gate, ...))
end

-- Functions of libraries have all of this but what concerns scripts alone.
local function_redis = {}
for name, value in raw_next, redis do function_redis[name] = value end

function redis.replicate_commands() return true end
function redis.breakpoint() return false end
function redis.debug() end

-- While a library is loaded, it sees nothing but this.
local load_redis = { log = redis.log, REDIS_VERSION = version, REDIS_VERSION_NUM = version_number }
for _, name in ipairs { "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING" } do load_redis[name] = redis[name] end
load_redis.register_function = native.register

local function absent(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local strings = protect(string_library)
local string_meta = getmetatable("")
string_meta.__index = string_library
string_meta.__metatable = protect { __index = strings }

local shared = {
  string = strings, table = protect(table_library), math = protect(math_library), coroutine = protect(coroutine_library), cjson = protect(cjson),
  os = protect { clock = clock }, cmsgpack = protect(cmsgpack), struct = protect(native.struct), bit = protect(native.bit),
}
for name, value in raw_next, shared do base[name] = value end

local function environment(redis)
  local content = {}
  for name, value in raw_next, base do content[name] = value end
  -- Valkey's name for it.
  content.redis, content.server = redis, redis
  setmetatable(content, { __index = absent })
  local face, guard = protect(content, (protect { __index = absent }))
  content._G = face

  function content.loadstring(text, name)
    if type(text) ~= "string" and type(text) ~= "number" then complain("loadstring", raw_loadstring, text, name) end
    text = tostring(text)
    if text:byte(1) == 27 then return nil, "attempt to load a binary chunk" end
    local f, wrong = raw_loadstring(text, name)
    if f then setfenv(f, face) end
    return f, wrong
  end

  function content.load(f, name)
    if type(f) ~= "function" then
      error("bad argument #1 to 'load' (function expected, got " .. (f == nil and "no value" or type(f)) .. ")", 2)
    end
    local pieces = {}
    while true do
      local ok, piece = raw_pcall(f)
      if not ok then return nil, piece end
      if piece == nil or piece == "" then break end
      if type(piece) ~= "string" and type(piece) ~= "number" then return nil, "reader function must return a string" end
      pieces[#pieces + 1] = piece
    end
    return content.loadstring(concat(pieces), name or "=(load)")
  end

  return face, content, guard
end

local script_face, script_globals = environment((protect(redis)))
local function_face, function_globals, function_guard = environment((protect(function_redis)))

-- The same for a program that uses `unpack`.
local function widened(face, redis)
  local more = { call = wide, pcall = function(...) return tried(raw_pcall(wide, ...)) end }
  local wide_redis = protect(setmetatable(more, { __index = redis }))
  local content = setmetatable({ redis = wide_redis, server = wide_redis }, { __index = face })
  return (protect(content)), content, wide_redis
end

local wide_script_face = widened(script_face, redis)
local wide_function_face, wide_function_globals, wide_function_redis = widened(function_face, function_redis)

local load_face = protect(setmetatable(load_redis, { __index = absent }))
local load_globals = setmetatable({ redis = load_face, server = load_face }, { __index = absent })

-- Where an error came about, as Redis's handler finds it: the function at fault, or who called it if it is not written in Lua.
local function handler(thrown)
  thrown = translate(thrown)
  if thrown == UNWIND then return thrown end
  if type(thrown) ~= "table" then thrown = { err = "ERR " .. tostring(thrown) } end
  local source, line = native.where()
  if source and not real[thrown] then
    rawset(thrown, "source", source)
    rawset(thrown, "line", line)
  end
  return thrown
end
script_globals.__redis__err__handler = handler

local M = { script = script_face, functions = function_face, unwind = UNWIND }
M.wide_script, M.wide_functions = wide_script_face, wide_function_face
local programs, libraries = {}, {}

function M.keep(number, f) programs[number] = f end
function M.knows(number) return programs[number] ~= nil end
function M.keep_function(number, name, f)
  local library = libraries[number]
  if not library then
    library = {}
    libraries[number] = library
  end
  library[name] = f
end
function M.forget_library(number) libraries[number] = nil end

-- How a run came out, as `Outcome` reads it. Texts and the status OK, which most runs answer, are told apart here: it is cheaper than from outside.
local FAILED, VALUE, TEXT, OK = 0, 1, 2, 3

-- What commands have answered OK with, for scripts that cannot tell it from a table of their own.
local okay = { ok = "OK" }

local function ended(ok, value)
  if collector_changed then mend_collector() end
  if not ok then return FAILED, nil, value end
  if value == okay then return OK end
  local kind = type(value)
  if kind == "string" then return TEXT, value end
  if kind == "table" and rawget(value, "ok") == "OK" and rawget(value, "err") == nil then return OK end
  return VALUE, nil, value
end

keys[1], args[1], args[2] = nil, nil, nil
script_globals.KEYS, script_globals.ARGV = keys, args

-- Runs a script with one key and two arguments at most; what is not there is nil.
function M.run(number, key, first, second)
  local k, a = keys, args
  if not altered then k[1], a[1], a[2] = nil, nil, nil end
  if altered or raw_next(k) ~= nil or raw_next(a) ~= nil then
    k, a = { false }, { false, false }
    keys, args, altered = k, a, false
    script_globals.KEYS, script_globals.ARGV = k, a
  end
  k[1], a[1], a[2] = key, first, second
  return ended(raw_xpcall(programs[number], handler))
end

-- The same where the last one has left the tables as they were.
function M.run_again(number, key, first, second)
  keys[1], args[1], args[2] = key, first, second
  return ended(raw_xpcall(programs[number], handler))
end

function M.run_with(number, some_keys, some_args)
  keys, args, altered = some_keys, some_args, false
  script_globals.KEYS, script_globals.ARGV = keys, args
  return ended(raw_xpcall(programs[number], handler))
end

function M.call(number, name, keys, args)
  local f = libraries[number][name]
  return ended(raw_xpcall(function() return f(keys, args) end, handler))
end

-- Runs a library's code, which sees nothing of the world.
function M.load(f)
  function_guard.__index, real[function_face] = load_globals, load_globals
  wide_function_globals.redis, wide_function_globals.server = nil, nil
  local ok, thrown = raw_xpcall(f, handler)
  function_guard.__index, real[function_face] = function_globals, function_globals
  wide_function_globals.redis, wide_function_globals.server = wide_function_redis, wide_function_redis
  return ended(ok, thrown)
end

M.okay = okay

return M
