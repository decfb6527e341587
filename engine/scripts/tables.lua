-- Tables that scripts share cannot be changed, and what has no order but that of addresses is not walked.
--
-- A shared table is an empty one, whose metatable reads the real one. The functions of Lua that would see through that
-- are replaced here. The texts of errors are those of Redis, whose tables can be read-only by themselves.

local host = ...
local error, next, rawget, rawset, select, tostring, type = host.error, host.next, host.rawget, host.rawset,
    host.select, host.tostring, host.type
local getmetatable, setmetatable, pcall = host.getmetatable, host.setmetatable, host.pcall
local argument_error, type_error = host.support.argument_error, host.support.type_error
local check_integer, optional_integer, to_int =
    host.support.check_integer, host.support.optional_integer, host.support.to_int
local unpack = host.unpack
local charge = host.charge

local C_VALUES_MAX = 8000 -- a C function has room for as many, its arguments among them

local READ_ONLY = "Attempt to modify a readonly table"
local real = {} -- of each shared table
local shown = {} -- the metatable that a script sees of a shared table, or of strings
local ADDRESSED = { ["function"] = true, table = true, thread = true, userdata = true }

local function refuse() error(READ_ONLY, 2) end

function host.unwrap(t) return real[t] or t end

-- Returns the shared table that shows `t`, for ever.
function host.read_only(t, metatable)
    local proxy = setmetatable({}, { __index = t, __newindex = refuse })
    real[proxy] = t
    shown[proxy] = metatable or false
    return proxy
end

local tables = {}
host.tables = tables

function tables.getmetatable(...)
    if select("#", ...) == 0 then argument_error(1, "value expected", 0) end
    local value = ...
    if type(value) == "string" then return shown.string end
    if real[value] then return shown[value] or nil end
    return (getmetatable(value))
end

-- What a script sees as the metatable of every string.
function host.show_string_metatable(metatable) shown.string = metatable end

function tables.setmetatable(...)
    local t, metatable = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    if select("#", ...) < 2 or (metatable ~= nil and type(metatable) ~= "table") then
        argument_error(2, "nil or table expected", 0)
    end
    if real[t] then error(READ_ONLY, 0) end
    local old = getmetatable(t)
    if type(old) == "table" and rawget(old, "__metatable") ~= nil or (old ~= nil and type(old) ~= "table") then
        error("cannot change a protected metatable", 2)
    end
    return setmetatable(t, real[metatable] or metatable)
end

function tables.rawget(...)
    local t, key = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    if select("#", ...) < 2 then argument_error(2, "value expected", 0) end
    return (rawget(real[t] or t, key))
end

function tables.rawset(...)
    local t, key, value = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    if select("#", ...) < 3 then argument_error(select("#", ...) + 1, "value expected", 0) end
    if real[t] then error(READ_ONLY, 0) end
    if key == nil then error("table index is nil", 0) end
    if key ~= key then error("table index is NaN", 0) end
    return rawset(t, key, value)
end

-- The keys of a table in the order of Lua, which is the same everywhere unless one of them is an address.
local function keys_of(t)
    local keys, count = {}, 0
    for key in next, t do
        if ADDRESSED[type(key)] then
            error("keys that are tables, functions, threads or null have no order: a table with one cannot be walked", 3)
        end
        count = count + 1
        keys[count] = key
    end
    return keys, count
end

function tables.pairs(...)
    local t = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    local walked = real[t] or t
    local keys, count = keys_of(walked)
    local at = 0
    return function()
        while at < count do
            at = at + 1
            local key = keys[at]
            local value = rawget(walked, key)
            if value ~= nil then return key, value end
        end
    end, t
end

local last, last_keys, last_count, last_at -- what `next` is walking through

function host.forget_walk() last, last_keys = nil, nil end

function tables.next(...)
    local t, key = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    local walked = real[t] or t
    if key == nil then
        last, last_at = walked, 0
        last_keys, last_count = keys_of(walked)
    elseif last ~= walked or last_keys[last_at] ~= key then
        last, last_at = walked, 0
        last_keys, last_count = keys_of(walked)
        repeat last_at = last_at + 1 until last_at > last_count or last_keys[last_at] == key
        if last_at > last_count then error("invalid key to 'next'", 0) end
    end
    while last_at < last_count do
        last_at = last_at + 1
        local value = rawget(walked, last_keys[last_at])
        if value ~= nil then return last_keys[last_at], value end
    end
    return nil
end

-- As C's, whose count of results overflows for a range of more than 2^31.
function tables.unpack(...)
    local t = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    local first, last = optional_integer(2, 1, 0, ...), optional_integer(3, #t, 0, ...)
    if select("#", ...) + last - first >= C_VALUES_MAX then error("too many results to unpack", 2) end
    if last - first > 100 then charge(last - first) end
    return unpack(...)
end

local numbers, numbered = {}, 0 -- of tables, functions and threads, in the order in which they were first shown

function host.forget_numbers()
    if numbered > 0 then
        numbers, numbered = {}, 0
    end
end

function tables.tostring(...)
    if select("#", ...) == 0 then argument_error(1, "value expected", 0) end
    local value = ...
    local kind = type(value)
    if not ADDRESSED[kind] then return tostring(value) end
    if value == host.null then return "userdata: (nil)" end
    local metatable = not real[value] and getmetatable(value)
    if type(metatable) == "table" and metatable.__tostring then return (metatable.__tostring(value)) end
    if not numbers[value] then
        numbered = numbered + 1
        numbers[value] = host.string.format("%s: 0x%08x", kind, numbered)
    end
    return numbers[value]
end

local lib = {}
for name, called in next, host.table do lib[name] = called end
tables.table = lib

function lib.foreach(...)
    local t, called = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    if type(called) ~= "function" then type_error(2, "function", 0, ...) end
    local walked = real[t] or t
    local keys, count = keys_of(walked)
    for at = 1, count do
        local result = called(keys[at], rawget(walked, keys[at]))
        if result ~= nil then return result end
    end
end

-- As C's, which calls some functions at once, and the hook sees none of them.
function lib.foreachi(...)
    local t, called = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    if type(called) ~= "function" then type_error(2, "function", 0, ...) end
    return host.table.foreachi(real[t] or t, function(at, value) return called(at, value) end)
end

-- Charges the elements that C moves from `position`, the second argument, to the end. It reads an int, which may be negative.
local function charge_moved(t, ...)
    local count = #t - to_int(check_integer(2, 1, ...))
    if count > 100 then charge(count) end
end

-- Raises the error of a C function that was called in its place, under the name by which the script called it.
local function relay(ended, ...)
    if ended then return ... end
    local problem = ...
    host.check(problem)
    local index, message = host.string.match(problem, "^bad argument #(%d+) to '%?' %((.*)%)$")
    if index then argument_error(index + 0, message, 1) end
    error(problem, 3)
end
host.relay = relay

function lib.insert(...)
    local t = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    if real[t] then error(READ_ONLY, 0) end
    if select("#", ...) == 3 then charge_moved(t, ...) end
    relay(pcall(host.table.insert, ...))
end

function lib.remove(...)
    local t, position = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    if position ~= nil then charge_moved(t, ...) end
    local removed = relay(pcall(host.table.remove, ...))
    return removed
end
