-- The library `cmsgpack`: MessagePack as lua-cmsgpack 0.4.0 of Redis writes and reads it.
--
-- A number that is a whole one becomes an integer, another one the shorter of float and double that holds it. A table
-- with the keys 1 to n alone becomes an array, another one a map, and one that is nested 16 deep nil.

local host = ...
local support, string = host.support, host.string
local argument_error, check_string = support.argument_error, support.check_string
local check_integer, optional_integer = support.check_integer, support.optional_integer
local double_bytes, float_bytes = support.double_bytes, support.float_bytes
local read_double, read_float, results = support.read_double, support.read_float, support.results
local error, next, select, type = host.error, host.next, host.select, host.type
local byte, char, format, sub = string.byte, string.char, string.format, string.sub
local concat, floor, huge = host.table.concat, host.math.floor, host.math.huge

local BIGGEST_C_INT = 2147483647
local MOST_NESTED = 16
local MOST_SLOTS = 8000 -- the values that a C function of Lua 5.1 has room for
local BYTES = {}
for code = 0, 255 do
    BYTES[code] = char(code)
end

local function two_bytes(number)
    return BYTES[floor(number / 256)] .. BYTES[number % 256]
end

local function four_bytes(number)
    return char(floor(number / 16777216), floor(number / 65536) % 256, floor(number / 256) % 256, number % 256)
end

-- Eight bytes of a whole number from -2^63 to 2^63 - 1.
local function eight_bytes(number)
    local low = number % 4294967296
    return four_bytes((number - low) / 4294967296 % 4294967296) .. four_bytes(low)
end

local function integer_text(number)
    if number >= 0 then
        if number <= 127 then
            return BYTES[number]
        elseif number <= 255 then
            return "\204" .. BYTES[number]
        elseif number <= 65535 then
            return "\205" .. two_bytes(number)
        elseif number <= 4294967295 then
            return "\206" .. four_bytes(number)
        end
        return "\207" .. eight_bytes(number)
    end
    if number >= -32 then
        return BYTES[256 + number]
    elseif number >= -128 then
        return "\208" .. BYTES[256 + number]
    elseif number >= -32768 then
        return "\209" .. two_bytes(65536 + number)
    elseif number >= -2147483648 then
        return "\210" .. four_bytes(4294967296 + number)
    end
    return "\211" .. eight_bytes(number)
end

local function number_text(number)
    if number % 1 == 0 and number >= -9223372036854775808 and number < 9223372036854775808 then
        return integer_text(number)
    end
    local float = float_bytes(number)
    if read_float(float) == number then
        return "\202" .. float
    end
    return "\203" .. double_bytes(number)
end

-- What goes before the bytes of a string.
local function string_head(length)
    if length < 32 then
        return BYTES[160 + length]
    elseif length <= 255 then
        return "\217" .. BYTES[length]
    elseif length <= 65535 then
        return "\218" .. two_bytes(length)
    end
    return "\219" .. four_bytes(length)
end

-- What goes before the items of an array or a map: `fixed` plus the count, or the code of one with two or four bytes.
local function table_head(count, fixed, code)
    if count <= 15 then
        return BYTES[fixed + count]
    elseif count <= 65535 then
        return BYTES[code] .. two_bytes(count)
    end
    return BYTES[code + 1] .. four_bytes(count)
end

local ORDERED = { string = true, number = true, boolean = true }

-- How many keys a table has, and whether they are 1 to that number. Raises an error at `level` if the order of the keys
-- would differ in each run, because it depends on the addresses of some of them.
local function shape(items, level)
    local count, biggest, is_array, is_ordered = 0, 0, true, true
    for key in next, items do
        count = count + 1
        local kind = type(key)
        if kind == "number" and key > 0 and key % 1 == 0 and key <= BIGGEST_C_INT then
            if key > biggest then
                biggest = key
            end
        else
            is_array = false
            is_ordered = is_ordered and ORDERED[kind]
        end
    end
    if not is_ordered and count > 1 then
        error("a table with a key that is a table, a function, a thread or userdata has no order to pack it in", level + 1)
    end
    return count, is_array and biggest == count
end

-- Writes `value`, nested `level` deep, behind the `used` parts. Returns how many they are then.
local function append(parts, used, value, level)
    local kind = type(value)
    if kind == "string" then
        parts[used + 1] = string_head(#value)
        parts[used + 2] = value
        return used + 2
    end
    used = used + 1
    if kind == "number" then
        parts[used] = number_text(value)
    elseif kind == "boolean" then
        parts[used] = value and "\195" or "\194"
    elseif kind == "table" and level < MOST_NESTED then
        local count, is_array = shape(value, level + 3)
        if is_array then
            parts[used] = table_head(count, 144, 220)
            for index = 1, count do
                used = append(parts, used, value[index], level + 1)
            end
        else
            parts[used] = table_head(count, 128, 222)
            for key, item in next, value do
                used = append(parts, used, key, level + 1)
                used = append(parts, used, item, level + 1)
            end
        end
    else
        parts[used] = "\192"
    end
    return used
end

local cmsgpack = {
    _NAME = "cmsgpack",
    _VERSION = "lua-cmsgpack 0.4.0",
    _COPYRIGHT = "Copyright (C) 2012, Redis Ltd.",
    _DESCRIPTION = "MessagePack C implementation for Lua",
}

-- pack(…): all arguments, one behind the other.
function cmsgpack.pack(...)
    local count = select("#", ...)
    local parts = {}
    if count == 1 then
        append(parts, 0, (...), 0)
    elseif count == 0 then
        argument_error(0, "MessagePack pack needs input.", 0)
    elseif 2 * count > MOST_SLOTS then
        argument_error(0, "Too many arguments for MessagePack pack.", 0)
    else
        local values, used = { ... }, 0
        for index = 1, count do
            used = append(parts, used, values[index], 0)
        end
    end
    local text = concat(parts)
    host.charge(#text) -- what C copies
    return text
end

local NOT_ENOUGH = "Missing bytes in input."
local NO_FORMAT = "Bad data format in input."
local TOO_MANY = "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)"
local TOO_NESTED = "stack overflow (in function mp_decode_to_lua_array)"

local function unsigned(data, at, bytes)
    local number = 0
    for place = at, at + bytes - 1 do
        number = number * 256 + byte(data, place)
    end
    return number
end

local function signed(data, at, bytes)
    local number = unsigned(data, at, bytes)
    local range = 256 ^ bytes
    return number >= range / 2 and number - range or number
end

-- Eight bytes as a signed integer, which a uint 64 becomes, too.
local function signed_64(data, at)
    return signed(data, at, 4) * 4294967296 + unsigned(data, at + 4, 4)
end

-- By code: the bytes of a value of fixed length, and what reads them.
local FIXED = {
    [204] = { 1, unsigned },
    [205] = { 2, unsigned },
    [206] = { 4, unsigned },
    [207] = { 8, signed_64 },
    [208] = { 1, signed },
    [209] = { 2, signed },
    [210] = { 4, signed },
    [211] = { 8, signed_64 },
    [202] = {
        4,
        function(data, at)
            return read_float(sub(data, at, at + 3))
        end,
    },
    [203] = {
        8,
        function(data, at)
            return read_double(sub(data, at, at + 7))
        end,
    },
}
-- By code: the bytes of the length of a string, of an array, and of a map.
local STRINGS = { [217] = 1, [218] = 2, [219] = 4 }
local ARRAYS = { [220] = 2, [221] = 4 }
local MAPS = { [222] = 2, [223] = 4 }

-- Those below return a value and where the data goes on after it. If they fail they return the text of the error and
-- nil, and then true if the text has no position. `slots`: the values that the C library would hold by then.
local decode

local function decode_array(data, at, count, slots)
    if slots + 2 > MOST_SLOTS then
        return TOO_NESTED
    end
    local items = {}
    for index = 1, count do
        local item, after, bare = decode(data, at, slots + 2)
        if not after then
            return item, nil, bare
        end
        items[index], at = item, after
    end
    return items, at
end

local function decode_map(data, at, count, slots)
    local items = {}
    for _ = 1, count do
        local key, after, bare = decode(data, at, slots + 1)
        if not after then
            return key, nil, bare
        end
        local item
        item, after, bare = decode(data, after, slots + 2)
        if not after then
            return item, nil, bare
        end
        if key == nil then
            return "table index is nil", nil, true
        elseif key ~= key then
            return "table index is NaN", nil, true
        end
        items[key], at = item, after
    end
    return items, at
end

-- A value whose code alone does not tell its length: a string, an array or a map with a length of its own.
local function decode_long(data, at, code, slots)
    local bytes = STRINGS[code] or ARRAYS[code] or MAPS[code]
    if not bytes then
        return NO_FORMAT
    end
    if at + bytes > #data then
        return NOT_ENOUGH
    end
    local length = unsigned(data, at + 1, bytes)
    at = at + 1 + bytes
    local item, after, bare
    if ARRAYS[code] then
        item, after, bare = decode_array(data, at, length, slots)
    elseif MAPS[code] then
        item, after, bare = decode_map(data, at, length, slots)
    elseif at + length - 1 > #data then
        return NOT_ENOUGH
    else
        return sub(data, at, at + length - 1), at + length
    end
    return item, after, bare
end

function decode(data, at, slots)
    local code = byte(data, at)
    if not code then
        return NOT_ENOUGH
    end
    if slots + 1 > MOST_SLOTS then
        return TOO_MANY
    end
    if code < 128 then
        return code, at + 1
    elseif code >= 224 then
        return code - 256, at + 1
    elseif code >= 160 and code < 192 then
        local last = at + code - 160
        if last > #data then
            return NOT_ENOUGH
        end
        return sub(data, at + 1, last), last + 1
    elseif code == 192 then
        return nil, at + 1
    elseif code == 194 or code == 195 then
        return code == 195, at + 1
    end
    local fixed = FIXED[code]
    if fixed then
        local bytes = fixed[1]
        if at + bytes > #data then
            return NOT_ENOUGH
        end
        return fixed[2](data, at + 1, bytes), at + 1 + bytes
    end
    local item, after, bare
    if code >= 144 and code < 160 then
        item, after, bare = decode_array(data, at + 1, code - 144, slots)
    elseif code < 144 then
        item, after, bare = decode_map(data, at + 1, code - 128, slots)
    else
        item, after, bare = decode_long(data, at, code, slots)
    end
    return item, after, bare
end

-- Up to `limit` values of `data` from byte `at` on, into a table; how many, and where the data goes on. `slots`: the
-- arguments that lie below them. An error has the position of `level`, counted from the function that calls this.
local function decode_many(data, at, limit, slots, level)
    local items, count = {}, 0
    while at <= #data and count < limit do
        local item, after, bare = decode(data, at, slots + count)
        if not after then
            error(item, bare and 0 or level + 1)
        end
        count = count + 1
        items[count], at = item, after
    end
    return items, count, at
end

-- unpack(data): all values.
function cmsgpack.unpack(...)
    local data = check_string(1, 0, ...)
    local items, count = decode_many(data, 1, huge, select("#", ...), 2)
    return results(items, count)
end

-- Some values of `data` from `offset` on, and before them where the next one begins: -1 at the end.
local function unpack_some(data, limit, offset)
    if offset < 0 or limit < 0 then
        error(format("Invalid request to unpack with offset of %d and limit of %d.", offset, #data), 3)
    elseif offset > #data then
        error(format("Start offset %d greater than input length %d.", offset, #data), 3)
    end
    local all = limit == 0 and offset == 0
    local items, count, at = decode_many(data, offset + 1, all and huge or limit, 1, 3)
    if not all and count + 2 > MOST_SLOTS then
        error("stack overflow (in function mp_unpack_full)", 3)
    end
    return items, count, at > #data and -1 or at - 1, all
end

-- unpack_one(data [, offset]): where the next value begins, and one value.
function cmsgpack.unpack_one(...)
    local offset = optional_integer(2, 0, 0, ...)
    local data = check_string(1, 0, ...)
    local items, count, next_offset = unpack_some(data, 1, offset)
    return next_offset, results(items, count)
end

-- unpack_limit(data, limit [, offset]): where the next value begins, and up to `limit` values.
function cmsgpack.unpack_limit(...)
    local limit = check_integer(2, 0, ...)
    local offset = optional_integer(3, 0, 0, ...)
    local data = check_string(1, 0, ...)
    local items, count, next_offset, all = unpack_some(data, limit, offset)
    if all then
        return results(items, count)
    end
    return next_offset, results(items, count)
end

return cmsgpack
