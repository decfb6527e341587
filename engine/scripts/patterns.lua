-- string.find, match, gmatch and gsub: C's own where its worst case is small, else the same written in Lua.
--
-- C's matcher runs without the hook, its time grows with the length to the power of the repetitions, and its depth with
-- the pattern. Which one runs depends on the two strings alone.

local host = ...
local matcher = host.matcher
local error, pcall, select, tostring, type, unpack = host.error, host.pcall, host.select, host.tostring, host.type,
    host.unpack
local byte, find, gmatch, gsub, match, sub = host.string.byte, host.string.find, host.string.gmatch, host.string.gsub,
    host.string.match, host.string.sub
local concat, min = host.table.concat, host.math.min
local check_string, optional_integer = host.support.check_string, host.support.optional_integer
local argument_error, charge = host.support.argument_error, host.charge

local STEPS_MAX = 20000 -- of C's matcher for one call: 0.1 ms
local STEPS_OF_AN_INSTRUCTION = 20
local PATTERN_BYTES_MAX = 100 -- C's matcher needs a frame for each item
local PATTERN_BYTES_REFUSED = 8000 -- ours needs two frames of Lua for each, and Lua has 20,000
local SPECIALS = "[%^%$%*%+%?%.%(%[%%%-]"

-- Whether C may do it; charges what that may take.
local function is_small(text, pattern)
    local size, patterns = #text + 1, #pattern
    if patterns > PATTERN_BYTES_REFUSED then error("pattern too complex", 4) end
    if patterns > PATTERN_BYTES_MAX then return false end
    local steps = byte(pattern) == 94 and patterns or size * patterns
    local _, repeats = gsub(pattern, "[%*%+%-]", "")
    local _, others = gsub(pattern, "%%[b%d]", "")
    local _, options = gsub(pattern, "%?", "")
    if find(pattern, "[%*%+]%)?$") then repeats = repeats - 1 end -- the last one takes what it can, and is done
    steps = steps * size ^ (repeats + others) * 2 ^ options
    if steps > STEPS_MAX then return false end
    charge(steps / STEPS_OF_AN_INSTRUCTION)
    return true
end

-- Where a search from `init` on begins.
local function start(init, size)
    if init < 0 then init = size + init + 1 end
    if init < 1 then return 1 end
    return min(init, size + 1)
end

-- The first match: its beginning, its end, and nothing if there is none.
local function search(text, pattern, init)
    matcher.prepare(text, pattern)
    local anchored = byte(pattern) == 94
    local from = start(init, #text)
    repeat
        local ending = matcher.at(from, anchored and 2 or 1)
        if ending then return from, ending end
        from = from + 1
    until anchored or from > #text + 1
    return nil
end

local patterns = {}

local function found(text, pattern, init)
    local from, ending = search(text, pattern, init)
    if not from then return nil end
    local all, count = matcher.captures(from, ending, false)
    return from, ending - 1, unpack(all, 1, count)
end

local function matched(text, pattern, init)
    local from, ending = search(text, pattern, init)
    if not from then return nil end
    local all, count = matcher.captures(from, ending, true)
    return unpack(all, 1, count)
end

-- Raises an error of a matcher as of the function that the script called.
local function given(ended, ...)
    if ended then return ... end
    host.check((...))
    error((...), type((...)) == "string" and not find((...), "^%S+:%d+: ") and 3 or 0)
end

function patterns.find(...)
    local text, pattern = check_string(1, 0, ...), check_string(2, 0, ...)
    local init = optional_integer(3, 1, 0, ...)
    local plain = select(4, ...)
    local nul = find(pattern, "\0", 1, true)
    if plain or not find(nul and sub(pattern, 1, nul - 1) or pattern, SPECIALS) then
        charge(#text * #pattern / 1000)
        return find(text, pattern, init, true)
    end
    return given(pcall(is_small(text, pattern) and find or found, text, pattern, init))
end

function patterns.match(...)
    local text, pattern = check_string(1, 0, ...), check_string(2, 0, ...)
    local init = optional_integer(3, 1, 0, ...)
    return given(pcall(is_small(text, pattern) and match or matched, text, pattern, init))
end

function patterns.gmatch(...)
    local text, pattern = check_string(1, 0, ...), check_string(2, 0, ...)
    if is_small(text, pattern) then
        local more = gmatch(text, pattern)
        return function() return given(pcall(more)) end
    end
    local from = 1
    local function following()
        matcher.prepare(text, pattern)
        while from <= #text + 1 do
            local first = from
            local ending = matcher.at(first, 1)
            from = ending and ending > first and ending or first + 1
            if ending then
                local all, count = matcher.captures(first, ending, true)
                return unpack(all, 1, count)
            end
        end
        return nil
    end
    return function() return given(pcall(following)) end
end

-- The text of a replacement string for a match.
local function expanded(text, replacement, first, ending)
    local parts, at = {}, 1
    while true do
        local percent = find(replacement, "%", at, true)
        if not percent then break end
        parts[#parts + 1] = sub(replacement, at, percent - 1)
        local code = byte(replacement, percent + 1)
        if code == 48 then
            parts[#parts + 1] = sub(text, first, ending - 1)
        elseif code and code >= 49 and code <= 57 then
            parts[#parts + 1] = matcher.capture(code - 48, first, ending)
        else
            parts[#parts + 1] = code and sub(replacement, percent + 1, percent + 1) or "\0"
        end
        at = percent + 2
    end
    parts[#parts + 1] = sub(replacement, at)
    return concat(parts)
end

local function replacement_for(text, first, ending, replacement)
    local kind = type(replacement)
    local value
    if kind == "string" then return expanded(text, replacement, first, ending) end
    if kind == "table" then
        value = replacement[matcher.capture(1, first, ending)]
    else
        local all, count = matcher.captures(first, ending, true)
        value = replacement(unpack(all, 1, count))
    end
    if not value then return sub(text, first, ending - 1) end
    if type(value) ~= "string" and type(value) ~= "number" then
        error("invalid replacement value (a " .. type(value) .. ")", 0)
    end
    return value
end

local function replaced(text, pattern, replacement, most)
    local anchored = byte(pattern) == 94
    local parts, at, count = {}, 1, 0
    while count < most do
        matcher.prepare(text, pattern) -- a function of the script may have searched meanwhile
        local ending = matcher.at(at, anchored and 2 or 1)
        if ending then
            count = count + 1
            parts[#parts + 1] = replacement_for(text, at, ending, replacement)
        end
        if ending and ending > at then
            at = ending
        elseif at <= #text then
            parts[#parts + 1] = sub(text, at, at)
            at = at + 1
        else
            break
        end
        if anchored then break end
    end
    parts[#parts + 1] = sub(text, at)
    return concat(parts), count
end

function patterns.gsub(...)
    local text, pattern, replacement = check_string(1, 0, ...), check_string(2, 0, ...), (select(3, ...))
    local kind = type(replacement)
    if kind == "number" then
        replacement = tostring(replacement)
    elseif kind ~= "string" and kind ~= "function" and kind ~= "table" then
        argument_error(3, "string/function/table expected", 0)
    end
    replacement = host.unwrap(replacement)
    local most = optional_integer(4, #text + 1, 0, ...)
    return given(pcall(is_small(text, pattern) and gsub or replaced, text, pattern, replacement, most))
end

patterns.gfind = patterns.gmatch

return patterns
