-- The library `struct`: R. Ierusalimschy's struct 0.2 as Redis carries it, on a 64-bit little-endian machine.
--
-- Formats: > < !n (order of bytes, alignment), x (a zero), b B h H l L T i In (integers), cn s (strings), f d, blank.

local host = ...
local support, string = host.support, host.string
local argument_error, check_string, to_integer = support.argument_error, support.check_string, support.to_integer
local optional_integer, results = support.optional_integer, support.results
local double_bytes, float_bytes = support.double_bytes, support.float_bytes
local read_double, read_float = support.read_double, support.read_float
local error, next, select, tonumber, tostring, type, unpack =
    host.error, host.next, host.select, host.tonumber, host.tostring, host.type, host.unpack
local byte, char, find, format, match, rep, reverse, sub =
    string.byte, string.char, string.find, string.format, string.match, string.rep, string.reverse, string.sub
local concat, floor = host.table.concat, host.math.floor

local MOST_INTEGER_BYTES = 32
local BIGGEST_C_INT = 2147483647
local MOST_SLOTS = 8000 -- the values that a C function of Lua 5.1 has room for

local SIZES = { b = 1, B = 1, h = 2, H = 2, l = 8, L = 8, T = 8, f = 4, d = 8, x = 1 }
local INTEGERS = { b = true, B = true, h = true, H = true, l = true, L = true, T = true, i = true, I = true }
local ITEMS = { c = true, s = true, f = true, d = true }
for option in next, INTEGERS do
    ITEMS[option] = true
end
local SIGNED = { b = true, h = true, l = true, i = true }

-- The functions below raise their errors at a fixed level: `number_in` is called by what a library function calls, all
-- others by a library function.

-- The number in `fmt` at `at`, `default` if there is none, and where the format goes on.
local function number_in(fmt, at, default)
    local digits = match(fmt, "^[0-9]+", at)
    if not digits then
        return default, at
    end
    local number = tonumber(digits)
    if number > BIGGEST_C_INT then
        error("integral size overflow", 4)
    end
    return number, at + #digits
end

-- The bytes that `option` takes, and where the format goes on.
local function size_of(option, fmt, at)
    local size = SIZES[option]
    if size then
        return size, at
    end
    if option == "c" then
        size, at = number_in(fmt, at, 1)
    elseif option == "i" or option == "I" then
        size, at = number_in(fmt, at, 4)
        if size > MOST_INTEGER_BYTES then
            error(format("integral size %d is larger than limit of %d", size, MOST_INTEGER_BYTES), 3)
        end
    else
        size = 0
    end
    return size, at
end

local function bitwise_and(a, b)
    local result, place = 0, 1
    while a > 0 and b > 0 do
        if a % 2 == 1 and b % 2 == 1 then
            result = result + place
        end
        a, b, place = floor(a / 2), floor(b / 2), place * 2
    end
    return result
end

-- The zeros before an item of `size` bytes at position `length`.
local function padding(length, align, option, size)
    if size == 0 or option == "c" then
        return 0
    end
    if size > align then
        size = align
    end
    if size == 1 then
        return 0
    end
    return bitwise_and(size - bitwise_and(length % 64, size - 1), size - 1)
end

-- Takes an option that has no item. Returns the order of bytes and the alignment after it, and where the format goes
-- on.
local function control(option, fmt, at, little, align)
    if option == " " then
        return little, align, at
    end
    if option == ">" or option == "<" then
        return option == "<", align, at
    end
    if option ~= "!" then
        argument_error(1, "invalid format option '" .. option .. "'", 1)
    end
    align, at = number_in(fmt, at, 8)
    local power = 1
    while power < align do
        power = power * 2
    end
    if power ~= align then
        error(format("alignment %d is not a power of 2", align), 3)
    end
    return little, align, at
end

-- A number as C casts it to 64 bits: through the signed type if it is negative, else through the unsigned one.
local function integer_bytes(number, size, little)
    if number < 0 then
        number = to_integer(number)
    elseif number < 18446744073709551616 then
        number = floor(number)
    else
        number = number == number and 0 or -9223372036854775808
    end
    local bytes = {}
    for place = 1, size do
        if place > 8 then
            bytes[place] = 0
        else
            local low = number % 256
            bytes[place] = low
            number = (number - low) / 256
        end
    end
    local text = char(unpack(bytes))
    return little and text or reverse(text)
end

-- Argument `index`, which is `value`, as the bytes of `option`, and the bytes that count for what comes after it.
local function packed(option, size, little, value, index)
    if option == "c" or option == "s" then
        if type(value) == "number" then
            value = tostring(value)
        elseif type(value) ~= "string" then
            argument_error(index, "string expected, got " .. type(value), 1)
        end
        if size == 0 then
            size = #value
        end
        if #value < size then
            argument_error(index + 1, "string too short", 1)
        end
        if option == "s" then
            return value .. "\0", size + 1
        end
        return sub(value, 1, size), size
    end
    local number = (type(value) == "number" or type(value) == "string") and tonumber(value)
    if not number then
        argument_error(index, "number expected, got " .. type(value), 1)
    end
    if INTEGERS[option] then
        return integer_bytes(number, size, little), size
    end
    local text = option == "f" and float_bytes(number) or double_bytes(number)
    return little and reverse(text) or text, size
end

local struct = {}

-- pack(fmt, …): the items as one string.
function struct.pack(...)
    local fmt = match(check_string(1, 0, ...), "^[^%z]*")
    local values = { ... }
    local little, align = true, 1
    local parts, count, total, index, at = {}, 0, 0, 2, 1
    while at <= #fmt do
        local option = sub(fmt, at, at)
        local size, after = size_of(option, fmt, at + 1)
        at = after
        local zeros = padding(total, align, option, size)
        total = total + zeros
        if zeros > 0 then
            count = count + 1
            parts[count] = rep("\0", zeros)
        end
        if option == "x" then
            count = count + 1
            parts[count] = "\0"
        elseif ITEMS[option] then
            count = count + 1
            parts[count], size = packed(option, size, little, values[index], index)
            index = index + 1
        else
            little, align, at = control(option, fmt, at, little, align)
        end
        total = total + size
    end
    local text = concat(parts)
    host.charge(#fmt + #text) -- what C copies
    return text
end

-- The integer of `size` bytes at `at` as C reads it: it keeps the lowest 64 bits and makes a double of them.
local function read_integer(data, at, size, little, signed)
    local high, low = 0, 0
    for place = size < 8 and size or 8, 1, -1 do
        local part = byte(data, little and at + place - 1 or at + size - place)
        high, low = high * 256 + floor(low / 16777216), low % 16777216 * 256 + part
    end
    if not signed then
        return high * 4294967296 + low
    end
    -- The sign's place is a shift, of which the machine takes 6 bits: a wider integer has it within the lowest 64.
    local sign = (8 * size - 1) % 64
    if sign < 32 then
        local limit = 2 ^ sign
        if high > 0 or low >= limit then
            return low % limit - limit
        end
    else
        local limit = 2 ^ (sign - 32)
        if high >= limit then
            high = high % limit - limit
        end
    end
    return high * 4294967296 + low
end

-- The item of `option` at `at`, from 1, and the bytes that it takes.
local function unpacked(option, size, little, data, at)
    if option == "s" then
        local zero = find(data, "%z", at)
        if not zero then
            error("unfinished string in data", 3)
        end
        return sub(data, at, zero - 1), zero - at + 1
    end
    if option == "c" then
        return sub(data, at, at + size - 1), size
    end
    if INTEGERS[option] then
        return read_integer(data, at, size, little, SIGNED[option]), size
    end
    local text = sub(data, at, at + size - 1)
    if little then
        text = reverse(text)
    end
    return option == "f" and read_float(text) or read_double(text), size
end

-- The number before a c0, as the size that it gives.
local function size_before(value)
    local number = (type(value) == "number" or type(value) == "string") and tonumber(value)
    if not number then
        error("format 'c0' needs a previous size", 3)
    end
    -- What is beyond 64 bits becomes 0 on x86-64; what is negative is too long for any data.
    return number >= 18446744073709551616 and 0 or to_integer(number)
end

-- unpack(fmt, data [, position]): the items, and the position after them.
function struct.unpack(...)
    local fmt = match(check_string(1, 0, ...), "^[^%z]*")
    local data = check_string(2, 0, ...)
    host.charge(#fmt + #data) -- what C's searches look at
    local position = optional_integer(3, 1, 0, ...)
    if position == 0 then
        argument_error(3, "offset must be 1 or greater", 0)
    end
    local arguments = select("#", ...)
    local little, align = true, 1
    local items, count, at = {}, 0, 1
    position = position - 1
    while at <= #fmt do
        local option = sub(fmt, at, at)
        local size, after = size_of(option, fmt, at + 1)
        at = after
        position = position + padding(position, align, option, size)
        if position < 0 or position + size > #data then
            argument_error(2, "data string too short", 0)
        end
        if arguments + count + 2 > MOST_SLOTS then
            error("stack overflow (too many results)", 2)
        end
        if ITEMS[option] then
            if option == "c" and size == 0 then
                size = size_before(items[count])
                count = count - 1
                if size < 0 or position + size > #data then
                    argument_error(2, "data string too short", 0)
                end
            end
            count = count + 1
            items[count], size = unpacked(option, size, little, data, position + 1)
        elseif option ~= "x" then
            little, align, at = control(option, fmt, at, little, align)
        end
        position = position + size
    end
    count = count + 1
    items[count] = position + 1
    return results(items, count)
end

-- size(fmt): the bytes that pack would give.
function struct.size(...)
    local fmt = match(check_string(1, 0, ...), "^[^%z]*")
    host.charge(#fmt)
    local little, align = true, 1
    local total, at = 0, 1
    while at <= #fmt do
        local option = sub(fmt, at, at)
        local size, after = size_of(option, fmt, at + 1)
        at = after
        total = total + padding(total, align, option, size)
        if option == "s" then
            argument_error(1, "option 's' has no fixed size", 0)
        elseif option == "c" and size == 0 then
            argument_error(1, "option 'c0' has no fixed size", 0)
        end
        if not find(option, "^[0-9A-Za-z]") then
            little, align, at = control(option, fmt, at, little, align)
        end
        total = total + size
    end
    return total
end

return struct
