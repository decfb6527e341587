-- What a script may use, and the functions through which it could hide that it has used too much.
--
-- Instructions are counted by a hook; what a C function does at once is charged. When there are no more, every function
-- that catches errors raises the same error again, until the script has ended. The same holds for memory, and for what
-- `host.stop` says. Nothing is collected while a script runs, so a weak table loses nothing.

local host = ...
local error, pcall, xpcall, type, getfield = host.error, host.pcall, host.xpcall, host.type, host.getfield
local create, resume = host.coroutine.create, host.coroutine.resume
local sethook, pause = host.debug.sethook, host.python.pause
local select, tostring = host.select, host.tostring

local PERIOD = 1000 -- instructions from one call of the hook to the next: 7 us, of which the hook takes 3 %
local PAUSE = 10000 -- instructions from one pause to the next: 0.1 ms, also where C functions take the time
local OUT_OF_MEMORY = "not enough memory"

local used, most, due = 0, host.math.huge, PAUSE -- due: what is used when the next pause comes
local stopped -- why, once it is
local killed -- the text of the error of a script that was ended from outside

function host.stop(why)
    stopped = stopped or why
    error(stopped, 0)
end
local stop = host.stop

function host.charge(instructions)
    used = used + instructions
    if used > most then stop("instructions") end
    if used >= due then
        due = used + PAUSE
        killed = pause()
        if killed then stop("killed") end
    end
end
local charge = host.charge

local function hook()
    if stopped then error(stopped, 0) end
    charge(PERIOD)
end

-- Begins a run that may use so many instructions. The hook begins to count anew before it may charge anything.
function host.begin(instructions)
    sethook(hook, "", PERIOD)
    used, most, due, stopped = 0, instructions, PAUSE, nil
end

-- Ends it; returns why it was stopped, and the text of the error if that was from outside. The hook stays, and counts
-- nothing until the next run begins.
function host.finish()
    local why = stopped
    most, stopped = host.math.huge, nil
    return why, killed
end

-- Whether a Python function raised this: lupa hands the exception to Lua, and no script may have it.
local function is_exception(problem) return type(problem) == "userdata" and problem ~= host.null end

-- Raises the error again if no script may catch it.
local function check(problem)
    if stopped then error(stopped, 0) end
    if is_exception(problem) then
        host.exception = problem
        stop("raised")
    end
    if problem == OUT_OF_MEMORY then stop("memory") end
end
host.check, host.is_exception = check, is_exception

-- As Redis' own `pcall`, which gives the text of an error table that has one.
local function caught(ended, ...)
    if ended then return true, ... end
    local problem = ...
    check(problem)
    if type(problem) == "table" then
        local text = problem.err
        if type(text) == "string" or type(text) == "number" then return false, text end
    end
    return false, problem
end

local limited = {}
host.limited = limited

function limited.pcall(...)
    if select("#", ...) == 0 then return false, "attempt to call a boolean value" end
    return caught(pcall(...))
end

local function passed(ended, ...)
    if not ended then check((...)) end
    return ended, ...
end

function limited.xpcall(...)
    local called, handler = ...
    if select("#", ...) < 2 then host.support.argument_error(2, "value expected", 0) end
    return passed(xpcall(called, function(problem)
        if stopped or problem == OUT_OF_MEMORY or is_exception(problem) then return problem end
        return handler(problem)
    end))
end

limited.coroutine = { running = host.coroutine.running, status = host.coroutine.status, yield = host.coroutine.yield }

local function counted(called)
    charge(PERIOD) -- its own count begins at 0
    local thread = create(called)
    sethook(thread, hook, "", PERIOD)
    return thread
end

local function is_lua_function(called)
    return type(called) == "function" and host.debug.getinfo(called, "S").what ~= "C"
end

function limited.coroutine.create(called)
    if not is_lua_function(called) then host.support.argument_error(1, "Lua function expected", 0) end
    return counted(called)
end

function limited.coroutine.resume(...)
    if type((...)) ~= "thread" then host.support.argument_error(1, "coroutine expected", 0) end
    return passed(resume(...))
end

local function unwrapped(ended, ...)
    if ended then return ... end
    local problem = ...
    check(problem)
    if type(problem) == "string" or type(problem) == "number" then
        -- The frame of the wrapped function is gone by its tail call.
        error(problem, 3)
    end
    error(problem, 0)
end

function limited.coroutine.wrap(called)
    if not is_lua_function(called) then host.support.argument_error(1, "Lua function expected", 0) end
    local thread = counted(called)
    return function(...) return unwrapped(resume(thread, ...)) end
end
