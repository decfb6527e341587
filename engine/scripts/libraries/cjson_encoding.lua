-- The writing half of the library `cjson`.

local host = ...
local error, next, rawget, type = host.error, host.next, host.rawget, host.type
local char, find, format, gsub = host.string.char, host.string.find, host.string.format, host.string.gsub
local huge = host.math.huge
local null = host.null

local BIGGEST_C_INT = 2147483647
local MOST_SLOTS = 8000 -- the values that a C function of Lua 5.1 has room for

local ESCAPED = '[%z\1-\31"\\/\127]'
local ESCAPES = {
    ['"'] = '\\"', ["\\"] = "\\\\", ["/"] = "\\/", ["\b"] = "\\b", ["\t"] = "\\t", ["\n"] = "\\n", ["\f"] = "\\f",
    ["\r"] = "\\r",
    ["\127"] = "\\u007f",
}
for code = 0, 31 do
    ESCAPES[char(code)] = ESCAPES[char(code)] or format("\\u%04x", code)
end

local function string_text(text)
    if find(text, ESCAPED) then
        return '"' .. gsub(text, ESCAPED, ESCAPES) .. '"'
    end
    return '"' .. text .. '"'
end

-- The functions that encode raise their errors at `level`, counted from the function that calls them.

local function cannot(kind, reason, level)
    error("Cannot serialise " .. kind .. ": " .. reason, level + 1)
end

local function number_text(number, config, level)
    if number ~= number or number == huge or number == -huge then
        if config.encode_invalid_numbers == 0 then
            cannot("number", "must not be NaN or Inf", level + 1)
        elseif config.encode_invalid_numbers == 2 then
            return "null"
        elseif number ~= number then
            return "nan"
        end
    end
    if config.precision == 14 then
        return number .. ""
    end
    return format("%." .. config.precision .. "g", number)
end

-- How many items an array has, and whether some of them may be nil. Returns nil if the table is an object: if it is
-- empty, or has a key that is no whole number from 1 on.
local function array_length(items, config, level)
    local biggest, count, overflown = 0, 0, false
    for key in next, items do
        if type(key) ~= "number" or key < 1 or (key % 1 ~= 0 and key ~= huge) then
            return nil
        end
        if key > BIGGEST_C_INT then
            -- lua-cjson keeps an int: what is too big for one becomes the smallest.
            biggest, overflown = -2147483648, true
        elseif key > biggest then
            biggest = key
        end
        count = count + 1
    end
    if biggest == count and not overflown then
        return count > 0 and count or nil
    end
    if config.sparse_ratio > 0 and biggest > config.sparse_safe then
        local most = (count * config.sparse_ratio + 2147483648) % 4294967296 - 2147483648
        if biggest > most then
            if config.sparse_convert == 0 then
                cannot("table", "excessively sparse array", level + 1)
            end
            return nil
        end
    end
    return biggest > 0 and biggest or nil, true
end

-- The type of a key that JSON has no text for. Tables have such keys in the order of their addresses, which differs in
-- each run: so it is the first type by name.
local function bad_key_type(items)
    local first
    for key in next, items do
        local kind = type(key)
        if kind ~= "string" and kind ~= "number" and not (first and first < kind) then
            first = kind
        end
    end
    return first
end

local append

local function append_object(parts, used, items, depth, slots, config, level)
    local separator = "{"
    for key, item in next, items do
        local kind = type(key)
        local name
        if kind == "string" then
            name = string_text(key) .. ":"
        elseif kind == "number" then
            name = '"' .. number_text(key, config, level + 1) .. '":'
        else
            cannot(bad_key_type(items), "table key must be a number or string", level + 1)
        end
        parts[used + 1] = separator
        parts[used + 2] = name
        used = append(parts, used + 2, item, depth, slots + 2, config, level + 1)
        separator = ","
    end
    parts[used + 1] = separator == "{" and "{}" or "}"
    return used + 1
end

-- Writes `value` behind the `used` parts. Returns how many they are then. `slots`: the values that the C library would
-- hold.
function append(parts, used, value, depth, slots, config, level)
    local kind = type(value)
    if kind == "string" then
        parts[used + 1] = string_text(value)
        return used + 1
    elseif kind == "number" then
        parts[used + 1] = number_text(value, config, level + 1)
        return used + 1
    elseif kind == "boolean" then
        parts[used + 1] = value and "true" or "false"
        return used + 1
    elseif kind == "nil" or value == null then
        parts[used + 1] = "null"
        return used + 1
    elseif kind ~= "table" then
        cannot(kind, "type not supported", level + 1)
    end
    depth = depth + 1
    if depth > config.encode_max_depth or slots + 3 > MOST_SLOTS then
        error(format("Cannot serialise, excessive nesting (%d)", depth), level + 1)
    end
    local length, has_holes = array_length(value, config, level + 1)
    if not length then
        used = append_object(parts, used, value, depth, slots, config, level + 1)
        return used
    end
    local separator = "["
    for index = 1, length do
        local item = value[index]
        if has_holes then
            item = rawget(value, index)
        end
        parts[used + 1] = separator
        used = append(parts, used + 1, item, depth, slots + 1, config, level + 1)
        separator = ","
    end
    parts[used + 1] = "]"
    return used + 1
end

return append
