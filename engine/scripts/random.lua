-- The generator of math.random: drand48 with 48 bits, as Redis carries it, so that every machine draws the same numbers.
--
-- Source: redisLrand48 in Redis' rand.c, math_random in Lua's lmathlib.c. Products of 24 bits are exact in a double.

local host = ...
local floor, select = host.math.floor, host.select
local argument_error, check_integer, to_int =
    host.support.argument_error, host.support.check_integer, host.support.to_int
local error = host.error

local HALF = 16777216
local HIGH, LOW, ADDED = 0x5DE, 0xECE66D, 11 -- the multiplier 0x5DEECE66D, and what is added
local DRAWN_MAX = 2147483647

local high, low -- nothing until the first number is drawn

local function seed(number)
    local start = number % 4294967296 * 65536 + 0x330E
    high, low = floor(start / HALF), start % HALF
end

local function forget() high = nil end

local function draw()
    if not high then seed(host.python.seed()) end
    local bottom = low * LOW + ADDED
    local top = high * LOW + low * HIGH + floor(bottom / HALF)
    high, low = top % HALF, bottom % HALF
    return (high * 128 + floor(low / 131072)) % DRAWN_MAX / DRAWN_MAX
end

local random = { forget = forget }

function random.random(...)
    local count = select("#", ...)
    local drawn = draw()
    if count == 0 then return drawn end
    if count > 2 then error("wrong number of arguments", 2) end
    local least, most = 1, to_int(check_integer(1, 0, ...))
    if count == 2 then
        least, most = most, to_int(check_integer(2, 0, ...))
    end
    if least > most then argument_error(count, "interval is empty", 0) end
    return floor(drawn * to_int(most - least + 1)) + least
end

function random.randomseed(...)
    seed(to_int(check_integer(1, 0, ...)))
end

return random
