-- What the libraries share: argument errors as Lua's C functions word them, and numbers as bytes.
--
-- A library function raises its errors at the level of its caller, as a C function does: the text then begins with the
-- line of the script. So each of these takes `depth`, the number of frames between it and the library function.

local host = ...
local error, getinfo, select = host.error, host.debug.getinfo, host.select
local tonumber, tostring, type, unpack = host.tonumber, host.tostring, host.type, host.unpack
local byte, char, format = host.string.byte, host.string.char, host.string.format
local floor, frexp, huge, ldexp = host.math.floor, host.math.frexp, host.math.huge, host.math.ldexp

local support = {}

-- Raises "bad argument #index to 'name' (message)", with the name by which the script called the function.
function support.argument_error(index, message, depth)
    local called = getinfo(2 + depth, "n")
    local name = called.name or "?"
    if called.namewhat == "method" then
        index = index - 1
        if index == 0 then
            error(format("calling '%s' on bad self (%s)", name, message), 3 + depth)
        end
    end
    error(format("bad argument #%d to '%s' (%s)", index, name, message), 3 + depth)
end
local argument_error = support.argument_error

-- Raises that argument `index`, of the arguments `...`, is of another type than `expected`.
function support.type_error(index, expected, depth, ...)
    local got = "no value"
    if index <= select("#", ...) then
        got = type((select(index, ...)))
    end
    argument_error(index, expected .. " expected, got " .. got, depth + 1)
end
local type_error = support.type_error

-- Argument `index` as a string; a number is one, too.
function support.check_string(index, depth, ...)
    local value = (select(index, ...))
    local kind = type(value)
    if kind == "string" then
        return value
    end
    if kind == "number" then
        return tostring(value)
    end
    type_error(index, "string", depth + 1, ...)
end

-- Returns the first `count` items, of which a C function of Lua 5.1 can return 8000: unpack() has room for fewer.
function support.results(items, count)
    if count < 7990 then
        return unpack(items, 1, count)
    end
    return items[1], items[2], items[3], unpack(items, 4, count)
end

-- A number as C's cast to a signed integer of 64 bits gives it.
function support.to_integer(number)
    if number >= 9223372036854775808 or number < -9223372036854775808 or number ~= number then
        return -9223372036854775808
    end
    return number < 0 and -floor(-number) or floor(number)
end
local to_integer = support.to_integer

-- An integer as C's cast to a signed one of 32 bits gives it.
function support.to_int(number)
    number = number % 4294967296
    return number >= 2147483648 and number - 4294967296 or number
end

-- Argument `index` as an integer, of the arguments `...`; the text of a number is one, too.
function support.check_integer(index, depth, ...)
    local value = (select(index, ...))
    local number = (type(value) == "number" or type(value) == "string") and tonumber(value)
    if not number then
        type_error(index, "number", depth + 1, ...)
    end
    return to_integer(number)
end
local check_integer = support.check_integer

-- Argument `index` as an integer, `default` if it is nil or not there.
function support.optional_integer(index, default, depth, ...)
    if index > select("#", ...) or (select(index, ...)) == nil then
        return default
    end
    local number = check_integer(index, depth + 1, ...)
    return number
end

local NAN, NEGATIVE_NAN = tonumber("nan"), tonumber("-nan")

-- Sign, exponent field and fraction of an IEEE 754 number with so many bits of each, rounded to the nearest, ties to
-- even. The payload of a NaN is that of the quiet NaN: Lua cannot see another.
local function fields(number, fraction_bits, bias)
    local sign = 0
    if number < 0 or (number == 0 and 1 / number < 0) then
        sign, number = 1, -number
    end
    if number ~= number then
        return tostring(number) == "-nan" and 1 or 0, 2 * bias + 1, ldexp(1, fraction_bits - 1)
    end
    if number == 0 then
        return sign, 0, 0
    end
    if number == huge then
        return sign, 2 * bias + 1, 0
    end
    local _, exponent = frexp(number)
    local field = exponent - 1 + bias
    if field < 1 then
        field = 0
    end
    -- Numbers whose field is 0 are as far apart as those whose field is 1.
    local steps = ldexp(number, bias + fraction_bits - (field == 0 and 1 or field))
    local whole = floor(steps)
    local rest = steps - whole
    if rest > 0.5 or (rest == 0.5 and whole % 2 == 1) then
        whole = whole + 1
    end
    if field == 0 then
        -- A carry gives the smallest number of field 1 by itself.
        local one = ldexp(1, fraction_bits)
        return sign, whole >= one and 1 or 0, whole % one
    end
    if whole == ldexp(1, fraction_bits + 1) then
        field, whole = field + 1, whole / 2
    end
    if field > 2 * bias then
        return sign, 2 * bias + 1, 0
    end
    return sign, field, whole - ldexp(1, fraction_bits)
end

-- Eight bytes of a double, the most significant first.
function support.double_bytes(number)
    local sign, field, fraction = fields(number, 52, 1023)
    local high = floor(fraction / 4294967296)
    local low = fraction % 4294967296
    local top = floor(high / 65536)
    return char(
        sign * 128 + floor(field / 16),
        field % 16 * 16 + top,
        floor(high / 256) % 256,
        high % 256,
        floor(low / 16777216),
        floor(low / 65536) % 256,
        floor(low / 256) % 256,
        low % 256
    )
end

-- Four bytes of the nearest float, the most significant first.
function support.float_bytes(number)
    local sign, field, fraction = fields(number, 23, 127)
    return char(
        sign * 128 + floor(field / 2),
        field % 2 * 128 + floor(fraction / 65536),
        floor(fraction / 256) % 256,
        fraction % 256
    )
end

local function from_fields(sign, field, fraction, fraction_bits, bias)
    if field == 2 * bias + 1 then
        if fraction ~= 0 then
            return sign == 1 and NEGATIVE_NAN or NAN
        end
        return sign == 1 and -huge or huge
    end
    local number
    if field == 0 then
        number = ldexp(fraction, 1 - bias - fraction_bits)
    else
        number = ldexp(fraction + ldexp(1, fraction_bits), field - bias - fraction_bits)
    end
    return sign == 1 and -number or number
end

-- The double of eight bytes, the most significant first.
function support.read_double(data)
    local a, b, c, d, e, f, g, h = byte(data, 1, 8)
    local fraction = ((b % 16 * 256 + c) * 256 + d) * 4294967296 + ((e * 256 + f) * 256 + g) * 256 + h
    return from_fields(floor(a / 128), a % 128 * 16 + floor(b / 16), fraction, 52, 1023)
end

-- The float of four bytes, the most significant first.
function support.read_float(data)
    local a, b, c, d = byte(data, 1, 4)
    return from_fields(floor(a / 128), a % 128 * 2 + floor(b / 128), (b % 128 * 256 + c) * 256 + d, 23, 127)
end

return support
