-- What scripts see, made once a runtime. Called with Python's functions; returns what Python calls.
-- A Python function returns its outcome and never raises: an exception would become a Lua error with a Python object.
local python = ...
local call_command = python.call_command

local error, pcall, select, setmetatable, tostring, type, xpcall, next, loadstring, setfenv =
    error, pcall, select, setmetatable, tostring, type, xpcall, next, loadstring, setfenv
local getinfo = debug.getinfo

local values = {} -- of the globals; KEYS and ARGV are set for each run
local environment = setmetatable({}, {
    __index = values,
    __newindex = function() error("Attempt to modify a readonly table", 2) end,
})
setmetatable(values, {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
})

for _, name in ipairs { "assert", "error", "ipairs", "pairs", "pcall", "select", "tonumber", "type", "unpack" } do
    values[name] = _G[name]
end

local function raise(message)
    error({ err = message }, 0)
end

local function call(...)
    local failed, value = call_command(...)
    if failed then raise(value) end
    return value
end

values.redis = setmetatable({}, { __index = { call = call } })
values._G = environment

-- Says where an error was raised, as Redis' own handler does.
local function handler(problem)
    if type(problem) ~= "table" then problem = { err = "ERR " .. tostring(problem) } end
    local level = 2
    local info = getinfo(level, "Sl")
    while info and (info.what == "C" or info.source == "=sandbox") do
        level = level + 1
        info = getinfo(level, "Sl")
    end
    if info then problem.source, problem.line = info.source, info.currentline end
    return problem
end

-- Returns what `xpcall` does: true and the first result, or false and the error's text, source and line.
local function run(script, keys, args)
    values.KEYS, values.ARGV = keys, args
    local ended, value = xpcall(script, handler)
    if ended then return true, value end
    return false, value.err, value.source, value.line
end

local function compile(source, name)
    local script, problem = loadstring(source, name)
    if not script then return nil, problem end
    return setfenv(script, environment)
end

return run, compile
