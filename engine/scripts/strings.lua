-- Functions of strings and lists that take as long as their texts are, which the hook does not see: they are charged.

local host = ...
local charge, relay = host.charge, host.relay
local error, next, pcall, select, type = host.error, host.next, host.pcall, host.select, host.type
local check_integer, check_string = host.support.check_integer, host.support.check_string
local optional_integer, type_error = host.support.optional_integer, host.support.type_error

local BYTES_OF_AN_INSTRUCTION = 10 -- of copying, or of C's loops over the letters
local REPEATED_BYTES_MAX = 134217728 -- more than any runtime has
local SORTED = 20 -- instructions for each element of a short list
local SORTED_MAX = 300 -- elements that C compares by itself: in a bad order as often as their number squared

local strings, lists = {}, {}

local function charge_bytes(count)
    if count > 100 then charge(count / BYTES_OF_AN_INSTRUCTION) end
end

-- Is called with what `..` has made, which a metamethod may have done.
function host.joined(text)
    if type(text) == "string" then charge_bytes(#text) end
end

for _, name in host.ipairs { "lower", "reverse", "upper" } do
    local raw = host.string[name]
    strings[name] = function(...)
        local text = check_string(1, 0, ...)
        charge_bytes(#text)
        return (raw(text))
    end
end

function strings.sub(...)
    local text, first, last = check_string(1, 0, ...), check_integer(2, 0, ...), optional_integer(3, -1, 0, ...)
    local part = host.string.sub(text, first, last)
    charge_bytes(#part)
    return part
end

function strings.rep(...)
    local text, count = check_string(1, 0, ...), check_integer(2, 0, ...)
    if text == "" or count <= 0 then return "" end -- C would count all the same
    if #text * count > REPEATED_BYTES_MAX then host.stop("memory") end
    charge(count)
    charge_bytes(#text * count)
    local repeated = relay(pcall(host.string.rep, text, count))
    return repeated
end

function strings.format(...)
    local text = relay(pcall(host.string.format, ...))
    charge_bytes(#text)
    return text
end

function strings.tonumber(...)
    local text = ...
    if type(text) == "string" then charge_bytes(#text) end
    local number = relay(pcall(host.tonumber, ...))
    return number
end

function lists.concat(...)
    local t = ...
    if type(t) == "table" then charge(#t) end
    local text = relay(pcall(host.table.concat, ...))
    charge_bytes(#text)
    return text
end

local function is_less(one, other) return one < other end

function lists.sort(...)
    local t, before = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    if before ~= nil and type(before) ~= "function" then type_error(2, "function", 0, ...) end
    local counted = not before and #t > SORTED_MAX
    charge(SORTED * #t)
    local sorted, problem = pcall(host.table.sort, t, counted and is_less or before)
    if sorted then return end
    host.check(problem)
    if counted and type(problem) == "string" then problem = host.string.gsub(problem, "^engine:%d+: ", "") end
    error(problem, problem == "invalid order function for sorting" and 2 or 0)
end

-- C's would walk all keys at once.
function lists.maxn(...)
    local t = ...
    if type(t) ~= "table" then type_error(1, "table", 0, ...) end
    local most = 0
    for key in next, t do
        if type(key) == "number" and key > most then most = key end
    end
    return most
end

return strings, lists
