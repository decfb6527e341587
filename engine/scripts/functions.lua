-- Libraries of functions: what their code sees while it is loaded, and what it registers.
--
-- A library is loaded anew for each call, so that nothing is left for the next one. While its code runs, it has the
-- table `redis` with little in it, and nothing else; its functions see what scripts see. What code registers, and the
-- texts of errors: https://redis.io/docs/latest/develop/programmability/functions-intro/.

local host = ...
local error, getmetatable, next, setmetatable = host.error, host.getmetatable, host.next, host.setmetatable
local select, tostring, type = host.select, host.tostring, host.type
local find, lower, match = host.string.find, host.string.lower, host.string.match
local compile, globals, missing, read_only = host.compile, host.globals, host.missing, host.read_only

local FLAGS = { ["no-writes"] = 1, ["allow-oom"] = 2, ["allow-stale"] = 4, ["no-cluster"] = 8,
    ["allow-cross-slot-keys"] = 16 }
local ADDRESSED = { ["function"] = true, table = true, thread = true, userdata = true }
local NO_NAME = "named argument key given to redis.register_function is not a string"
local OF_SCRIPTS = { breakpoint = true, debug = true, replicate_commands = true }

local seen = {} -- what functions see
for name, value in next, globals do seen[name] = value end
local redis = {}
for name, value in next, host.redis do
    if not OF_SCRIPTS[name] then redis[name] = value end
end
seen.redis = read_only(redis)
seen.server = seen.redis
setmetatable(seen, { __index = missing })
seen._G = read_only(seen, read_only({ __index = missing }))

local registered, count -- by name, while code is loaded

local function fail(text) error({ err = "ERR " .. text }, 0) end

-- A string, or a number as one; nothing else.
local function text_of(value)
    local kind = type(value)
    if kind == "string" or kind == "number" then return tostring(value) end
end

local function flags_of(names)
    local flags, at = 0, 1
    while names[at] ~= nil do
        local name = text_of(names[at])
        local flag = name and FLAGS[lower(match(name, "^[^%z]*"))]
        if not flag then fail("unknown flag given") end
        if flags % (2 * flag) < flag then flags = flags + flag end
        at = at + 1
    end
    return flags
end

local readers = {}

function readers.function_name(value)
    return text_of(value) or fail("function_name argument given to redis.register_function must be a string")
end

function readers.description(value)
    return text_of(value) or fail("description argument given to redis.register_function must be a string")
end

function readers.callback(value)
    if type(value) ~= "function" then
        fail("callback argument given to redis.register_function must be a function")
    end
    return value
end

function readers.flags(value)
    if type(value) ~= "table" then
        fail("flags argument to redis.register_function must be a table representing function flags")
    end
    return flags_of(value)
end

-- The arguments by their names, from the table that holds them.
local function named(t)
    if type(t) ~= "table" then
        fail("calling redis.register_function with a single argument is only applicable to Lua table "
            .. "(representing named arguments).")
    end
    for key in next, t do -- before all else, as the order of such keys is that of addresses
        if ADDRESSED[type(key)] then fail(NO_NAME) end
    end
    local given = {}
    for key, value in next, t do
        local name = text_of(key)
        if not name then fail(NO_NAME) end
        name = lower(match(name, "^[^%z]*"))
        if not readers[name] then fail("unknown argument given to redis.register_function") end
        given[name] = readers[name](value)
    end
    if not given.function_name then fail("redis.register_function must get a function name argument") end
    if not given.callback then fail("redis.register_function must get a callback argument") end
    return given
end

local function positional(name, callback)
    name = text_of(name) or fail("first argument to redis.register_function must be a string")
    if type(callback) ~= "function" then fail("second argument to redis.register_function must be a function") end
    return { function_name = name, callback = callback }
end

local function register_function(...)
    if not registered then fail("redis.register_function can only be called on FUNCTION LOAD command") end
    local arguments = select("#", ...)
    if arguments < 1 or arguments > 2 then fail("wrong number of arguments to redis.register_function") end
    local given = arguments == 1 and named(...) or positional(...)
    local name = given.function_name
    if not find(name, "^[%w_]+$") then
        fail("Library names can only contain letters, numbers, or underscores(_) and must be at least one character "
            .. "long")
    end
    -- FCALL finds a function in any case, so two that differ in nothing else would be one.
    if registered[lower(name)] then fail("Function already exists in the library") end
    registered[lower(name)] = given
    count = count + 1
end

local strict = { __index = missing }
local loading = setmetatable({}, strict) -- what code sees while it is loaded
local little = setmetatable({ register_function = register_function, log = host.redis.log }, strict)
for name, value in next, host.redis do
    if find(name, "^LOG_") or find(name, "^REDIS_") then little[name] = value end
end
loading.redis = read_only(little)
loading.server = loading.redis

local environment = read_only(seen)
local sight = getmetatable(environment)

-- What a library that was not loaded to its end has left.
function host.forget_library()
    registered = nil
end

local function load(code)
    registered, count = {}, 0
    sight.__index = loading
    code()
    sight.__index = seen
    local functions = registered
    registered = nil
    return functions
end

local function compile_library(source, name) return compile(source, name, environment) end

-- A script that runs one function of a library.
local function function_of(code, name)
    return function()
        local keys, args = globals.KEYS, globals.ARGV
        globals.KEYS, globals.ARGV = nil, nil
        return load(code)[name].callback(keys, args)
    end
end

-- A script that returns what a library registers: name, description or false, and flags of each function.
local function list_of(code)
    return function()
        local list = {}
        for _, each in next, load(code) do
            list[#list + 1] = { each.function_name, each.description or false, each.flags or 0 }
        end
        return list
    end
end

return compile_library, function_of, list_of
