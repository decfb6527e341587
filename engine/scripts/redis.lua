-- The library `redis`, which is `server` as well. Texts and arguments: https://redis.io/docs/latest/develop/programmability/lua-api/.

local host = ...
local python = host.python
local error, select, tonumber, tostring, type = host.error, host.select, host.tonumber, host.tostring, host.type
local gsub, match, sub = host.string.gsub, host.string.match, host.string.sub
local concat, floor = host.table.concat, host.math.floor
local charge = host.charge

local CALL = 50 -- instructions that a call of a command counts as
local WORDS = 10 -- of a command; one with more of them counts as a call for each
local ARGUMENTS_MAX = 7900 -- that Python is called with: a C function has room for 8000 values

local redis = {
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
    REDIS_VERSION = python.version, REDIS_VERSION_NUM = python.version_number,
}

local function fail(text) error({ err = "ERR " .. text }, 0) end

-- Python says 0 and the reply, 1 and the text of a command's error, 2 and why the script must end, 3 and the text of an
-- error in the arguments, which is no command's, or 4 and a status. What it raises, no script can catch.
local function problem_of(outcome, text)
    if outcome == 2 then host.stop(text) end
    if outcome == 3 then return { err = text } end
    return { err = text, ignore_error_stats_update = true }
end

local function call_command(...)
    local words = select("#", ...)
    charge(words > WORDS and CALL * words or CALL)
    if words > ARGUMENTS_MAX then return python.call_long_command({ ... }, words) end
    return python.call_command(...)
end

function redis.call(...)
    local outcome, value = call_command(...)
    if outcome == 0 then return value end
    if outcome == 4 then return { ok = value } end
    error(problem_of(outcome, value), 0)
end

function redis.pcall(...)
    local outcome, value = call_command(...)
    if outcome == 0 then return value end
    if outcome == 4 then return { ok = value } end
    return (problem_of(outcome, value))
end

local function one_string(...)
    local text = ...
    if select("#", ...) == 1 and type(text) == "string" then return text end
end

function redis.error_reply(...)
    local text = one_string(...)
    if not text then return { err = "ERR wrong number or type of arguments" } end
    text = match(text, "^[^%z]*") -- Redis reads it as a text of C
    if sub(text, 1, 1) == "-" then text = sub(text, 2) end
    local code, message = match(text, "^([^ ]*) (.*)$")
    if not code then code, message = "ERR", text end
    message = gsub(gsub(message, "^[\r\n]+", ""), "[\r\n]+$", "")
    return { err = code .. " " .. message }
end

function redis.status_reply(...)
    local text = one_string(...)
    if not text then return { err = "ERR wrong number or type of arguments" } end
    return { ok = text }
end

function redis.sha1hex(...)
    if select("#", ...) ~= 1 then fail("wrong number of arguments") end
    local value = ...
    local kind = type(value)
    if kind == "string" then charge(#value / 10) end
    return (python.sha1hex(kind == "string" and value or kind == "number" and tostring(value) or ""))
end

function redis.log(...)
    local count = select("#", ...)
    if count < 2 then fail("redis.log() requires two arguments or more.") end
    local level = tonumber((...))
    if not level then fail("First argument must be a number (log level).") end
    level = level < 0 and -floor(-level) or floor(level)
    if not (level >= 0 and level <= 3) then fail("Invalid debug level.") end
    local words, given = {}, { ... }
    for at = 2, count do
        local kind = type(given[at])
        if kind == "string" or kind == "number" then words[#words + 1] = tostring(given[at]) end
    end
    python.log(level, concat(words, " "))
end

function redis.setresp(...)
    if select("#", ...) ~= 1 then fail("redis.setresp() requires one argument.") end
    local version = tonumber((...))
    version = version and floor(version)
    if version ~= 2 and version ~= 3 then fail("RESP version must be 2 or 3.") end
    host.resp = version
    python.setresp(version)
end

function redis.set_repl(...)
    if select("#", ...) ~= 1 then fail("redis.set_repl() requires two arguments.") end
    local flags = tonumber((...)) or 0
    if flags < 0 or flags >= 4 then
        fail("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
    end
end

function redis.acl_check_cmd(...)
    local outcome, value = python.check_acl(...)
    if outcome == 0 then return value end
    if outcome == 2 then host.stop(value) end
    fail(value)
end

function redis.replicate_commands() return true end

function redis.breakpoint() return false end

function redis.debug() end

return redis
