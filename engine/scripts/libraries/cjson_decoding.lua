-- The reading half of the library `cjson`.

local host = ...
local tonumber = host.tonumber
local byte, char, find, format, match, sub =
    host.string.byte, host.string.char, host.string.find, host.string.format, host.string.match, host.string.sub
local concat, floor = host.table.concat, host.math.floor
local null = host.null

local MOST_SLOTS = 8000 -- the values that a C function of Lua 5.1 has room for

-- A token is its kind, its value, where it begins, and where the text goes on after it. Kinds are named as in the
-- errors of lua-cjson; a wrong token has the kind T_ERROR, the text of the error, and its place.

local SINGLE = {
    [123] = "T_OBJ_BEGIN",
    [125] = "T_OBJ_END",
    [91] = "T_ARR_BEGIN",
    [93] = "T_ARR_END",
    [44] = "T_COMMA",
    [58] = "T_COLON",
}
local UNESCAPES = {
    ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", t = "\t", n = "\n", f = "\f", r = "\r",
}

local function utf8_bytes(code)
    if code <= 127 then
        return char(code)
    elseif code <= 2047 then
        return char(192 + floor(code / 64), 128 + code % 64)
    elseif code <= 65535 then
        return char(224 + floor(code / 4096), 128 + floor(code / 64) % 64, 128 + code % 64)
    end
    return char(240 + floor(code / 262144), 128 + floor(code / 4096) % 64, 128 + floor(code / 64) % 64, 128 + code % 64)
end

-- The bytes of the escape \uXXXX, or of two that are a pair, at `at`, and where the text goes on; nil if it is wrong.
local function unicode_escape(text, at)
    local digits = match(text, "^[0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F]", at + 2)
    if not digits then
        return nil
    end
    local code = tonumber(digits, 16)
    if code < 55296 or code > 57343 then
        return utf8_bytes(code), at + 6
    end
    digits = match(text, "^\\u([0-9a-fA-F][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F])", at + 6)
    local low = digits and tonumber(digits, 16)
    if code > 56319 or not low or low < 56320 or low > 57343 then
        return nil
    end
    return utf8_bytes((code - 55296) * 1024 + low - 56320 + 65536), at + 12
end

-- The token of the string whose quote is at `start`.
local function string_token(text, start)
    local at = start + 1
    local stop = find(text, '["\\%z]', at)
    if stop and byte(text, stop) == 34 then
        return "T_STRING", sub(text, at, stop - 1), start, stop + 1
    end
    local parts, used = {}, 0
    while true do
        local code = stop and byte(text, stop)
        if not code or code == 0 then
            return "T_ERROR", "unexpected end of string", stop or #text + 1
        end
        used = used + 1
        parts[used] = sub(text, at, stop - 1)
        if code == 34 then
            return "T_STRING", concat(parts), start, stop + 1
        end
        local escape = sub(text, stop + 1, stop + 1)
        local bytes = UNESCAPES[escape]
        at = stop + 2
        if escape == "u" then
            bytes, at = unicode_escape(text, stop)
            if not bytes then
                return "T_ERROR", "invalid unicode escape code", stop
            end
        elseif not bytes then
            return "T_ERROR", "invalid escape code", stop
        end
        used = used + 1
        parts[used] = bytes
        stop = find(text, '["\\%z]', at)
    end
end

-- The longest text at `at` that C's strtod() takes for a number; nil if none.
local function number_at(text, at)
    local sign, rest = match(text, "^([+-]?)()", at)
    local hex = match(text, "^0[xX][0-9a-fA-F]+%.?[0-9a-fA-F]*", rest) or match(text, "^0[xX]%.[0-9a-fA-F]+", rest)
    if hex then
        return sign .. hex .. (match(text, "^[pP][+-]?[0-9]+", rest + #hex) or "")
    end
    local decimal = match(text, "^[0-9]+%.?[0-9]*", rest) or match(text, "^%.[0-9]+", rest)
    if decimal then
        return sign .. decimal .. (match(text, "^[eE][+-]?[0-9]+", rest + #decimal) or "")
    end
    local word = match(text, "^[iI][nN][fF][iI][nN][iI][tT][yY]", rest)
        or match(text, "^[iI][nN][fF]", rest)
        or match(text, "^[nN][aA][nN]%([0-9a-zA-Z_]*%)", rest)
        or match(text, "^[nN][aA][nN]", rest)
    return word and sign .. word
end

-- Whether what is at `at` looks like a number that strtod() takes and JSON has not.
local function is_invalid_number(text, at)
    return find(text, "^%+", at)
        or find(text, "^%-?0[xX0-9]", at)
        or find(text, "^%-?[iI][nN][fF]", at)
        or find(text, "^%-?[nN][aA][nN]", at)
end

local function number_token(text, start)
    local number = number_at(text, start)
    if not number then
        return "T_ERROR", "invalid number", start
    end
    return "T_NUMBER", tonumber(number), start, start + #number
end

local function next_token(text, at, config)
    local code = byte(text, at)
    while code == 32 or code == 10 or code == 13 or code == 9 do
        at = at + 1
        code = byte(text, at)
    end
    if code == 34 then
        return string_token(text, at)
    end
    local kind = SINGLE[code]
    if kind then
        return kind, nil, at, at + 1
    elseif not code or code == 0 then
        return "T_END", nil, at, at
    elseif code == 45 or (code >= 48 and code <= 57) then
        -- Most numbers: nothing that looks like one goes on behind the digits.
        local digits, after = match(text, "^(%-?[1-9][0-9]*)()[,%]} ]", at)
        if digits then
            return "T_NUMBER", tonumber(digits), at, after
        end
        if config.decode_invalid_numbers == 0 and is_invalid_number(text, at) then
            return "T_ERROR", "invalid number", at
        end
        return number_token(text, at)
    elseif find(text, "^true", at) then
        return "T_BOOLEAN", true, at, at + 4
    elseif find(text, "^false", at) then
        return "T_BOOLEAN", false, at, at + 5
    elseif find(text, "^null", at) then
        return "T_NULL", null, at, at + 4
    elseif config.decode_invalid_numbers == 1 and find(text, "^[iInN+]", at) and is_invalid_number(text, at) then
        return number_token(text, at)
    end
    return "T_ERROR", "invalid token", at
end

local function expected(what, kind, value, at)
    return nil, nil, format("Expected %s but found %s at character %d", what, kind == "T_ERROR" and value or kind, at)
end

local function too_nested(depth, slots, needed, config, at)
    if depth > config.decode_max_depth or slots + needed > MOST_SLOTS then
        return format("Found too many nested data structures (%d) at character %d", depth, at)
    end
end

-- Those below return a value and where the text goes on, or nil, nil and the text of an error.
local decode_value

local function decode_object(text, start, depth, slots, config)
    local problem = too_nested(depth, slots, 3, config, start)
    if problem then
        return nil, nil, problem
    end
    local items = {}
    local kind, key, at, after = next_token(text, start + 1, config)
    if kind == "T_OBJ_END" then
        return items, after
    end
    while true do
        if kind ~= "T_STRING" then
            return expected("object key string", kind, key, at)
        end
        local value
        kind, value, at, after = next_token(text, after, config)
        if kind ~= "T_COLON" then
            return expected("colon", kind, value, at)
        end
        kind, value, at, after = next_token(text, after, config)
        local item
        item, after, problem = decode_value(text, kind, value, at, after, depth, slots + 2, config)
        if problem then
            return nil, nil, problem
        end
        items[key] = item
        kind, value, at, after = next_token(text, after, config)
        if kind == "T_OBJ_END" then
            return items, after
        elseif kind ~= "T_COMMA" then
            return expected("comma or object end", kind, value, at)
        end
        kind, key, at, after = next_token(text, after, config)
    end
end

local function decode_array(text, start, depth, slots, config)
    local problem = too_nested(depth, slots, 2, config, start)
    if problem then
        return nil, nil, problem
    end
    local items, count = {}, 0
    local kind, value, at, after = next_token(text, start + 1, config)
    if kind == "T_ARR_END" then
        return items, after
    end
    while true do
        local item
        item, after, problem = decode_value(text, kind, value, at, after, depth, slots + 1, config)
        if problem then
            return nil, nil, problem
        end
        count = count + 1
        items[count] = item
        kind, value, at, after = next_token(text, after, config)
        if kind == "T_ARR_END" then
            return items, after
        elseif kind ~= "T_COMMA" then
            return expected("comma or array end", kind, value, at)
        end
        kind, value, at, after = next_token(text, after, config)
    end
end

function decode_value(text, kind, value, at, after, depth, slots, config)
    local problem
    if kind == "T_STRING" or kind == "T_NUMBER" or kind == "T_BOOLEAN" or kind == "T_NULL" then
        return value, after
    elseif kind == "T_OBJ_BEGIN" then
        value, after, problem = decode_object(text, at, depth + 1, slots, config)
        return value, after, problem
    elseif kind == "T_ARR_BEGIN" then
        value, after, problem = decode_array(text, at, depth + 1, slots, config)
        return value, after, problem
    end
    return expected("value", kind, value, at)
end

-- The value of the JSON `text`, or nil and the text of an error.
local function decode(text, config)
    local kind, value, at, after = next_token(text, 1, config)
    local result, problem
    result, after, problem = decode_value(text, kind, value, at, after, 0, 1, config)
    if problem then
        return nil, problem
    end
    kind, value, at = next_token(text, after, config)
    if kind ~= "T_END" then
        result, after, problem = expected("the end", kind, value, at)
    end
    return result, problem
end

return decode
