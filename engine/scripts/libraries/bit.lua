-- The library `bit`: Lua BitOp 1.0.2, on numbers alone, because Lua 5.1 has no bit operators.
--
-- A call into Python would cost twice as much, and would not be counted by the limit of instructions.

local host = ...
local type_error = host.support.type_error
local select, tonumber, type = host.select, host.tonumber, host.type
local floor, frexp, ldexp = host.math.floor, host.math.frexp, host.math.ldexp
local format, sub = host.string.format, host.string.sub

local bit = {}

-- AND[64 * a + b + 1] is a & b, for a and b of six bits.
local AND = {}
for a = 0, 63 do
    for b = 0, 63 do
        local both, place, x, y = 0, 1, a, b
        while x > 0 and y > 0 do
            both = both + (x % 2) * (y % 2) * place
            x, y, place = floor(x / 2), floor(y / 2), place * 2
        end
        AND[64 * a + b + 1] = both
    end
end

-- The 32 bits that BitOp takes of a value: those at the end of the double number + 2^52 + 2^51; nil if it is no number.
local function bits_of(value)
    if type(value) ~= "number" then
        -- tonumber(nil) would raise an error of its own.
        value = type(value) == "string" and tonumber(value)
        if not value then
            return nil
        end
    end
    local shifted = value + 6755399441055744
    if shifted >= 4503599627370496 and shifted < 9007199254740992 then
        return shifted % 4294967296
    end
    if shifted - shifted ~= 0 then
        return 0
    end
    local fraction = frexp(shifted)
    return ldexp(fraction < 0 and -fraction or fraction, 53) % 4294967296
end

local function signed(bits)
    return bits >= 2147483648 and bits - 4294967296 or bits
end

local function both(a, b)
    local result, place = 0, 1
    while a > 0 and b > 0 do
        local x, y = a % 64, b % 64
        result = result + AND[64 * x + y + 1] * place
        a, b, place = (a - x) / 64, (b - y) / 64, place * 64
    end
    return result
end

local function either(a, b)
    return a + b - both(a, b)
end

local function one_of(a, b)
    return a + b - 2 * both(a, b)
end

local function fold(operation)
    return function(...)
        local first, second = ...
        local result = bits_of(first) or type_error(1, "number", 0, ...)
        local count = select("#", ...)
        if count == 2 then
            result = operation(result, bits_of(second) or type_error(2, "number", 0, ...))
        elseif count > 2 then
            local values = { ... }
            for index = count, 2, -1 do
                result = operation(result, bits_of(values[index]) or type_error(index, "number", 0, ...))
            end
        end
        return result >= 2147483648 and result - 4294967296 or result
    end
end

bit.band = fold(both)
bit.bor = fold(either)
bit.bxor = fold(one_of)

function bit.tobit(...)
    local value = bits_of((...)) or type_error(1, "number", 0, ...)
    return value >= 2147483648 and value - 4294967296 or value
end

function bit.bnot(...)
    local value = 4294967295 - (bits_of((...)) or type_error(1, "number", 0, ...))
    return value >= 2147483648 and value - 4294967296 or value
end

local function left(bits, count)
    return bits * 2 ^ count % 4294967296
end

local function right(bits, count)
    return floor(bits / 2 ^ count)
end

local function rotate(bits, count)
    return left(bits, count) + (count == 0 and 0 or right(bits, 32 - count))
end

local function shift(operation)
    return function(...)
        local first, second = ...
        local bits = bits_of(first) or type_error(1, "number", 0, ...)
        local result = operation(bits, (bits_of(second) or type_error(2, "number", 0, ...)) % 32)
        return result >= 2147483648 and result - 4294967296 or result
    end
end

bit.lshift = shift(left)
bit.rshift = shift(right)
bit.arshift = shift(function(bits, count)
    return right(signed(bits), count)
end)
bit.rol = shift(rotate)
bit.ror = shift(function(bits, count)
    return rotate(bits, (32 - count) % 32)
end)

function bit.bswap(...)
    local bits = bits_of((...)) or type_error(1, "number", 0, ...)
    local a, b, c, d = floor(bits / 16777216), floor(bits / 65536) % 256, floor(bits / 256) % 256, bits % 256
    local result = ((d * 256 + c) * 256 + b) * 256 + a
    return result >= 2147483648 and result - 4294967296 or result
end

function bit.tohex(...)
    local bits = bits_of((...)) or type_error(1, "number", 0, ...)
    local digits, pattern = 8, "%08x"
    if select("#", ...) > 1 then
        digits = signed(bits_of((select(2, ...))) or type_error(2, "number", 0, ...))
        if digits < 0 then
            digits, pattern = -digits, "%08X"
        end
    end
    if digits == 0 then
        return ""
    end
    return sub(format(pattern, bits), digits < 8 and -digits or -8)
end

return bit
