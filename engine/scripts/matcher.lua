-- Lua's pattern matching, written in Lua: as slow as it must be, but each step is counted, and none uses the C stack.
--
-- Source: lstrlib.c of Lua 5.1, function by function, its texts included.

local host = ...
local byte, sub, lower = host.string.byte, host.string.sub, host.string.lower
local error, type = host.error, host.type

local CAPTURES_MAX = 32
local UNFINISHED, POSITION = -1, -2
local CARET, DASH, PERCENT, DOLLAR, DOT, OPEN, CLOSE = 94, 45, 37, 36, 46, 40, 41
local STAR, PLUS, QUESTION, BRACKET, BRACKET_END, BALANCED, FRONTIER = 42, 43, 63, 91, 93, 98, 102

-- The classes of the C locale: CLASSES[letter][byte] is true for its members.
local CLASSES = {}
do
    local function class(letter, contains)
        local small, large = {}, {}
        for code = 0, 255 do
            small[code] = contains(code)
            large[code] = not small[code]
        end
        CLASSES[byte(letter)], CLASSES[byte(letter) - 32] = small, large
    end
    local function within(first, last) return function(code) return code >= first and code <= last end end
    local digit, small, large = within(48, 57), within(97, 122), within(65, 90)
    local function letter(code) return small(code) or large(code) end
    local function word(code) return letter(code) or digit(code) end
    class("a", letter)
    class("c", function(code) return code < 32 or code == 127 end)
    class("d", digit)
    class("l", small)
    class("p", function(code) return code > 32 and code < 127 and not word(code) end)
    class("s", function(code) return code == 32 or (code >= 9 and code <= 13) end)
    class("u", large)
    class("w", word)
    class("x", function(code)
        return digit(code) or (code >= 65 and code <= 70) or (code >= 97 and code <= 102)
    end)
    class("z", function(code) return code == 0 end)
end

local source, length, pattern, pattern_length -- of the match under way; the pattern ends before a NUL
local level, starts, lengths
local sets -- by position in the pattern: the bytes that match the class there

local match

local function class_end(p)
    local code = byte(pattern, p)
    p = p + 1
    if code == PERCENT then
        if p > pattern_length then error("malformed pattern (ends with '%')", 0) end
        return p + 1
    end
    if code == BRACKET then
        if byte(pattern, p) == CARET then p = p + 1 end
        repeat
            if p > pattern_length then error("malformed pattern (missing ']')", 0) end
            code = byte(pattern, p)
            p = p + 1
            if code == PERCENT and p <= pattern_length then p = p + 1 end
        until byte(pattern, p) == BRACKET_END
        return p + 1
    end
    return p
end

local function add(set, code, wanted)
    local class = CLASSES[code]
    if class then
        for member = 0, 255 do
            if class[member] then set[member] = wanted end
        end
    else
        set[code] = wanted
    end
end

-- The bytes of the class in brackets that begins at `p` and ends before `last`.
local function bracket_set(p, last)
    local set, wanted = {}, true
    if byte(pattern, p + 1) == CARET then
        wanted = false
        p = p + 1
    end
    for code = 0, 255 do set[code] = not wanted end
    p = p + 1
    while p < last do
        local code = byte(pattern, p)
        if code == PERCENT then
            p = p + 1
            add(set, byte(pattern, p), wanted)
        elseif byte(pattern, p + 1) == DASH and p + 2 < last then
            for member = code, byte(pattern, p + 2) do set[member] = wanted end
            p = p + 2
        else
            set[code] = wanted
        end
        p = p + 1
    end
    return set
end

local function set_at(p, ending)
    local code = byte(pattern, p)
    local set
    if code == BRACKET then
        set = bracket_set(p, ending - 1)
    elseif code == PERCENT then
        set = CLASSES[byte(pattern, p + 1)] or { [byte(pattern, p + 1)] = true }
    elseif code == DOT then
        set = {}
        for member = 0, 255 do set[member] = true end
    else
        set = { [code] = true }
    end
    sets[p] = set
    return set
end

local function capture(p)
    local index = byte(pattern, p) - 48
    if index < 1 or index > level or lengths[index] == UNFINISHED then error("invalid capture index", 0) end
    return index
end

local function balanced(s, p)
    if p + 1 > pattern_length then error("unbalanced pattern", 0) end
    local first, last = byte(pattern, p, p + 1)
    if byte(source, s) ~= first then return nil end
    local depth = 1
    for at = s + 1, length do
        local code = byte(source, at)
        if code == last then
            depth = depth - 1
            if depth == 0 then return at + 1 end
        elseif code == first then
            depth = depth + 1
        end
    end
    return nil
end

local function start_capture(s, p, what)
    if level >= CAPTURES_MAX then error("too many captures", 0) end
    level = level + 1
    starts[level], lengths[level] = s, what
    local ending = match(s, p)
    if not ending then level = level - 1 end
    return ending
end

local function end_capture(s, p)
    local index = level
    while index > 0 and lengths[index] ~= UNFINISHED do index = index - 1 end
    if index == 0 then error("invalid pattern capture", 0) end
    lengths[index] = s - starts[index]
    local ending = match(s, p)
    if not ending then lengths[index] = UNFINISHED end
    return ending
end

local function repeated(s, set, rest, how)
    if how == DASH then
        while true do
            local ending = match(s, rest)
            if ending then return ending end
            if s > length or not set[byte(source, s)] then return nil end
            s = s + 1
        end
    end
    local last = s
    while last <= length and set[byte(source, last)] do last = last + 1 end
    while last >= s do
        local ending = match(last, rest)
        if ending then return ending end
        last = last - 1
    end
    return nil
end

-- Returns where the match of the pattern from `p` on ends, if it begins at `s`.
function match(s, p)
    while p <= pattern_length do
        local code, following = byte(pattern, p, p + 1)
        if p == pattern_length then following = nil end
        if code == OPEN then
            if following == CLOSE then return (start_capture(s, p + 2, POSITION)) end
            return (start_capture(s, p + 1, UNFINISHED))
        elseif code == CLOSE then
            return (end_capture(s, p + 1))
        elseif code == DOLLAR and p == pattern_length then
            return s == length + 1 and s or nil
        elseif code == PERCENT and following == BALANCED then
            s = balanced(s, p + 2)
            if not s then return nil end
            p = p + 4
        elseif code == PERCENT and following == FRONTIER then
            p = p + 2
            if byte(pattern, p) ~= BRACKET then error("missing '[' after '%f' in pattern", 0) end
            local ending = class_end(p)
            local set = sets[p] or set_at(p, ending)
            if set[s > 1 and byte(source, s - 1) or 0] or not set[byte(source, s) or 0] then return nil end
            p = ending
        elseif code == PERCENT and following and following >= 48 and following <= 57 then
            local index = capture(p + 1)
            local size = lengths[index]
            local text = sub(source, starts[index], starts[index] + size - 1)
            if size < 0 or sub(source, s, s + size - 1) ~= text then return nil end
            s, p = s + size, p + 2
        else
            local ending = class_end(p)
            local set = sets[p] or set_at(p, ending)
            local how = byte(pattern, ending)
            if ending > pattern_length then how = nil end
            local fits = s <= length and set[byte(source, s)]
            if how == QUESTION then
                if fits then
                    local found = match(s + 1, ending + 1)
                    if found then return found end
                end
                p = ending + 1
            elseif how == STAR or how == DASH then
                return (repeated(s, set, ending + 1, how))
            elseif how == PLUS then
                return fits and (repeated(s + 1, set, ending + 1, how)) or nil
            else
                if not fits then return nil end
                s, p = s + 1, ending
            end
        end
    end
    return s
end

local matcher = {}

-- Returns a function that gives, for a position, the end of the match there, and one for its captures.
-- Both hold for the latest call alone, so callers make a new one after each function of a script that they call.
function matcher.prepare(text, given)
    local nul = host.string.find(given, "\0", 1, true)
    source, length = text, #text
    pattern, pattern_length = given, nul and nul - 1 or #given
    sets = {}
end

-- Where the match at `s` ends, of the pattern from `p` on.
function matcher.at(s, p)
    level, starts, lengths = 0, {}, {}
    return (match(s, p))
end

-- Capture `index` of a match from `s` to before `ending`; with none in the pattern, the first is the whole match.
local function one(index, s, ending)
    if index > level then
        if index == 1 then return sub(source, s, ending - 1) end
        error("invalid capture index", 0)
    end
    local size = lengths[index]
    if size == UNFINISHED then error("unfinished capture", 0) end
    if size == POSITION then return starts[index] end
    return sub(source, starts[index], starts[index] + size - 1)
end
matcher.capture = one

-- All captures, as a list and their number; `whole`: the whole match if there are none.
function matcher.captures(s, ending, whole)
    local all, count = {}, level
    if count == 0 and whole then count = 1 end
    for index = 1, count do all[index] = one(index, s, ending) end
    return all, count
end

return matcher
