-- Puts together what scripts see, and runs them. Returns the functions that Python calls.
--
-- `host` holds Lua's own functions, which no script gets, and what the files before this one have made.

local host = ...
local collectgarbage, getinfo, loadstring = host.collectgarbage, host.debug.getinfo, host.loadstring
local setupvalue = host.debug.setupvalue
local error, next, pcall, setfenv, setmetatable, tostring, type, xpcall = host.error, host.next, host.pcall,
    host.setfenv, host.setmetatable, host.tostring, host.type, host.xpcall
local dump, gsub = host.string.dump, host.string.gsub
local argument_error, check_string = host.support.argument_error, host.support.check_string
local forget_draws, forget_numbers, forget_walk = host.random.forget, host.forget_numbers, host.forget_walk
local begin, finish, to_list = host.begin, host.finish, host.to_list
local read_only, reset_libraries, tables = host.read_only, host.reset_libraries, host.tables

local KEPT_KIB = 16 * 1024 -- what earlier scripts may leave before it is collected: 5 ms, once in thousands of scripts

-- Compiles, and rewrites what it has compiled: see bytecode.py.
function host.compile(source, name, environment)
    local called, problem = loadstring(source, name)
    if not called then return nil, problem end
    called = loadstring(host.python.rewritten(dump(called)), name)
    setupvalue(called, 1, host.joined)
    return setfenv(called, environment or host.environment)
end
local compile = host.compile

local globals = { _VERSION = host._VERSION }
for _, name in host.ipairs { "assert", "error", "ipairs", "rawequal", "select", "type" } do
    globals[name] = host[name]
end
for _, name in host.ipairs { "getmetatable", "next", "pairs", "rawget", "rawset", "setmetatable", "tostring",
    "unpack" } do
    globals[name] = tables[name]
end
globals.pcall, globals.xpcall = host.limited.pcall, host.limited.xpcall

local function copied(library, replaced)
    local copy = {}
    for name, value in next, library do copy[name] = value end
    for name, value in next, replaced do copy[name] = value end
    return copy
end

local function no_dump() error("unable to dump given function", 2) end

globals.tonumber, host.strings.tonumber = host.strings.tonumber, nil
local strings = copied(host.string, copied(host.patterns, copied(host.strings, { dump = no_dump })))
local maths = copied(host.math, { random = host.random.random, randomseed = host.random.randomseed })
local shared = {
    bit = host.libraries.bit, cjson = host.libraries.cjson, cmsgpack = host.libraries.cmsgpack,
    coroutine = host.limited.coroutine, math = maths, os = { clock = function() return 0 end }, redis = host.redis,
    string = strings, struct = host.libraries.struct, table = copied(tables.table, host.lists),
}
for name, library in next, shared do globals[name] = read_only(library) end
globals.server = globals.redis

-- Methods of strings go to the real table, which nobody can reach.
host.getmetatable("").__index = strings
host.show_string_metatable(read_only { __index = globals.string })

local collecting = {
    collect = 0, count = 0, restart = 0, setpause = 200, setstepmul = 200, step = false, stop = 0,
}

-- Says what Redis would, and does nothing: what is in memory depends on the scripts before this one.
function globals.collectgarbage(...)
    local option = host.select("#", ...) == 0 and "collect" or check_string(1, 0, ...)
    local result = collecting[option]
    if result == nil then argument_error(1, "invalid option '" .. option .. "'", 0) end
    return result
end

function globals.gcinfo() return 0 end

-- Compiles what a script has made. The name is one that lives on: Lua's compiler does not hold it itself.
local function loaded(source, name)
    host.charge(#source)
    name = gsub(name, "%z.*", "")
    if host.string.byte(source) ~= 27 then return compile(source, name) end
    -- A compiled chunk could do anything. Lua has the same words for another byte that begins no program.
    local _, problem = compile("\1", name)
    return nil, (gsub(problem, "char%(1%)", "char(27)"))
end

function globals.loadstring(...)
    local source = check_string(1, 0, ...)
    local name = host.select(2, ...) ~= nil and check_string(2, 0, ...) or source
    local called, problem = loaded(source, name)
    if called then return called end
    return nil, problem
end

local function pieces(reader)
    local all = {}
    while true do
        local piece = reader()
        if piece == nil or piece == "" then break end
        if type(piece) ~= "string" then error("reader function must return a string", 4) end
        all[#all + 1] = piece
    end
    return host.table.concat(all)
end

function globals.load(...)
    local reader = ...
    if type(reader) ~= "function" then host.support.type_error(1, "function", 0, ...) end
    local name = host.select(2, ...) ~= nil and check_string(2, 0, ...) or "=(load)"
    local read, source = pcall(pieces, reader)
    if not read then
        host.check(source)
        return nil, type(source) == "string" and { err = "ERR " .. source } or source
    end
    local called, problem = loaded(source, name)
    if called then return called end
    return nil, problem
end

function host.missing(_, name)
    error("Script attempted to access nonexistent global variable '" .. tables.tostring(name) .. "'", 2)
end

setmetatable(globals, { __index = host.missing })
host.environment = read_only(globals, read_only { __index = host.missing })
globals._G = host.environment
host.globals = globals

-- Says where an error was raised, as Redis' own handler does.
local function handler(problem)
    local kind, text, counted = type(problem), nil, nil
    if kind == "table" then
        text = problem.err -- here, where it counts: it may be what a function of the script returns
        if type(text) ~= "string" and type(text) ~= "number" then text = "ERR unknown error" end
        counted = host.rawget(problem, "ignore_error_stats_update")
    else
        if problem == "not enough memory" or host.is_exception(problem) then return problem end
        text = "ERR " .. tables.tostring(problem)
    end
    local level = 2
    local info = getinfo(level, "Sl")
    if info and info.what == "C" then
        level = 3
        info = getinfo(level, "Sl")
    end
    while info and (info.source == "=engine" or info.what == "tail") do
        level = level + 1
        info = getinfo(level, "Sl")
        if info and info.what == "C" then
            level = level + 1
            info = getinfo(level, "Sl")
        end
    end
    local source, line = info and info.source, info and info.currentline
    return { text = tostring(text), source = source, line = line, counted = counted and true or false }
end

local current, result_of_current -- the script that runs, and what it has returned

-- By a tail call, so that `error` with level 2 finds no place in this file.
local function body() return current() end

local function convert() return to_list(result_of_current) end

-- Returns the tables KEYS and ARGV of so many keys and what follows them.
local function split(key_count, ...)
    local args = { ... }
    if key_count == 0 then return {}, args end
    local keys, count = {}, #args
    for at = 1, key_count do keys[at] = args[at] end
    for at = 1, count do args[at] = args[at + key_count] end
    return keys, args
end

local function prepare(script, instructions, ...)
    collectgarbage("stop")
    forget_numbers()
    forget_walk()
    host.forget_library()
    forget_draws()
    reset_libraries()
    host.resp = 2
    current = script
    globals.KEYS, globals.ARGV = ...
    begin(instructions)
end

-- Returns "done" and what `to_list` does; "failed", text, source, line and whether it is
-- an error that is counted; "stopped" and why; or "raised" and what.
local function outcome(ended, result, ...)
    local stopped, killed = finish()
    current, result_of_current, globals.KEYS, globals.ARGV = nil, nil, nil, nil
    if collectgarbage("count") > KEPT_KIB then collectgarbage("collect") end
    if host.is_exception(result) then host.exception = result end
    if host.exception then
        result, host.exception = host.exception, nil
        return "raised", result
    end
    if stopped == "killed" then
        local place = type(result) == "table" and result or {}
        return "failed", killed, place.source, place.line
    end
    if stopped or result == "not enough memory" then return "stopped", stopped or "memory" end
    if ended then return "done", result, ... end
    if type(result) ~= "table" then return "failed", tostring(result) end -- an error within the handler
    return "failed", result.text, result.source, result.line, result.counted
end

local function execute()
    local ended, result = xpcall(body, handler)
    if not ended then return outcome(false, result) end
    local kind = type(result)
    if kind == "string" then return outcome(true, 2, "$", result) end
    if kind == "number" then return outcome(true, 2, ":", result) end
    result_of_current = result
    return outcome(xpcall(convert, handler))
end

-- A script may meet its limit when it is over, and nothing catches that any more. The hook has just been called then, and
-- will not be again before this is through.
local function concluded(ended, ...)
    if ended then return ... end
    return outcome(false, (...))
end

-- Runs a script that may use so many instructions. Keys and arguments follow.
local function run(script, instructions, key_count, ...)
    prepare(script, instructions, split(key_count, ...))
    return concluded(pcall(execute))
end

-- The same, with tables of many keys and arguments.
local function run_with(script, instructions, keys, args)
    prepare(script, instructions, keys, args)
    return concluded(pcall(execute))
end

return run, run_with, compile
