-- What a script returns, as one flat list for Python: for each value a letter and what belongs to it. An item is set
-- when those before it are: Python walks through the table, and only an array without holes has the order of its numbers.
--
--     $ text    : number    + text    - text    _    t    f    , digits    ( digits    = format text
--     ! text: an error of a command that the script has called, which is counted already
--     * count elements    % count keys and values    ~ count members

local host = ...
local rawget, type, unpack = host.rawget, host.type, host.unpack
local unwrap = host.unwrap
local format, gsub = host.string.format, host.string.gsub
local pairs = host.tables.pairs

local VALUES_MAX = 200
local DEPTH_MAX = 128 -- Redis' depends on its stack; deeper replies would overflow that of encoders

local add

local function add_pairs(out, size, value, depth, letter)
    local head, count = size + 1, 0
    out[head], out[head + 1] = letter, 0
    size = size + 2
    for key, element in pairs(value) do
        count = count + 1
        size = add(out, size, key, depth)
        if letter == "%" then size = add(out, size, element, depth) end
    end
    out[head + 1] = count
    return size
end

local function add_elements(out, size, value, depth)
    local head, count = size + 1, 0
    out[head], out[head + 1] = "*", 0
    size = size + 2
    while true do
        local element = rawget(value, count + 1)
        if element == nil then break end
        count = count + 1
        size = add(out, size, element, depth)
    end
    out[head + 1] = count
    return size
end

local function one_line(text) return (gsub(text, "[\r\n]", " ")) end

local function add_two(out, size, letter, value)
    out[size + 1], out[size + 2] = letter, value
    return size + 2
end

-- As Redis, without metatables: none is asked, and a shared table is what it shows.
local function add_table(out, size, value, depth)
    value = unwrap(value)
    local err, ok, double = rawget(value, "err"), rawget(value, "ok"), rawget(value, "double")
    if type(err) == "string" then
        return add_two(out, size, rawget(value, "ignore_error_stats_update") and "!" or "-", one_line(err))
    end
    if type(ok) == "string" then return add_two(out, size, "+", one_line(ok)) end
    if type(double) == "number" then return add_two(out, size, ",", format("%.17g", double)) end
    local map, set, big = rawget(value, "map"), rawget(value, "set"), rawget(value, "big_number")
    if type(map) == "table" then return add_pairs(out, size, map, depth, "%") end
    if type(set) == "table" then return add_pairs(out, size, set, depth, "~") end
    if type(big) == "string" then return add_two(out, size, "(", one_line(big)) end
    local verbatim = rawget(value, "verbatim_string")
    if type(verbatim) == "table" then
        local text, form = rawget(verbatim, "string"), rawget(verbatim, "format")
        if type(text) == "string" and type(form) == "string" then
            size = add_two(out, size, "=", form)
            out[size + 1] = text
            return size + 1
        end
    end
    return add_elements(out, size, value, depth)
end

-- Adds a value behind the first `size` items; returns how many there are now.
function add(out, size, value, depth)
    local kind = type(value)
    if kind == "string" then return add_two(out, size, "$", value) end
    if kind == "number" then return add_two(out, size, ":", value) end
    if kind == "table" then
        if depth == 0 then return add_two(out, size, "-", "ERR reached lua stack limit") end
        return add_table(out, size, value, depth - 1)
    end
    local letter = "_"
    if kind == "boolean" then
        if host.resp == 3 then
            letter = value and "t" or "f"
        elseif value then
            return add_two(out, size, ":", 1)
        end
    end
    out[size + 1] = letter
    return size + 1
end

-- Returns how many items there are, and the items, or a table of them if they are many.
return function(value)
    local out = {}
    local size = add(out, 0, value, DEPTH_MAX)
    if size > VALUES_MAX then return size, out end
    return size, unpack(out, 1, size)
end
