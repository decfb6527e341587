-- The library `cjson`: JSON as lua-cjson 2.1.0 of Redis writes and reads it.
--
-- The configuration belongs to one run of a script: `reset` restores the defaults. In Redis it stays for the scripts
-- that come later, so that what they do depends on which ones ran before them.

local host = ...
local support, string = host.support, host.string
local argument_error, check_string = support.argument_error, support.check_string
local check_integer = support.check_integer
local error, next, select = host.error, host.next, host.select
local find, format, match, concat = string.find, string.format, string.match, host.table.concat
local append, decode, null = host.cjson_encoding, host.cjson_decoding, host.null

local BIGGEST_C_INT = 2147483647
local DEFAULTS = {
    sparse_convert = 0,
    sparse_ratio = 2,
    sparse_safe = 10,
    encode_max_depth = 1000,
    decode_max_depth = 1000,
    encode_invalid_numbers = 0, -- 1: as they are, 2: as null
    decode_invalid_numbers = 1,
    keep_buffer = 1,
    precision = 14,
}

local BOOLEANS = { [0] = "off", [1] = "on" }
local WITH_NULL = { [0] = "off", [1] = "on", [2] = "null" }

-- Sets an option that has names, argument `index` of `...`. Returns it as lua-cjson does.
local function named_option(config, name, names, index, ...)
    local value = (select(index, ...))
    if value == true or value == false then
        config[name], config.changed = value and 1 or 0, true
    elseif value ~= nil then
        local text = match(check_string(index, 1, ...), "^[^%z]*")
        local found
        for code, known in next, names do
            if known == text then
                found = code
            end
        end
        if not found then
            argument_error(index, "invalid option '" .. text .. "'", 1)
        end
        config[name], config.changed = found, true
    end
    local code = config[name]
    if code < 2 then
        return code == 1
    end
    return names[code]
end

-- Sets an option that is an integer, argument `index` of `...`.
local function integer_option(config, name, lowest, highest, index, ...)
    if (select(index, ...)) ~= nil then
        local value = (check_integer(index, 1, ...) + 2147483648) % 4294967296 - 2147483648
        if value < lowest or value > highest then
            argument_error(1, format("expected integer between %d and %d", lowest, highest), 1)
        end
        config[name], config.changed = value, true
    end
    return config[name]
end

local function check_count(most, ...)
    if select("#", ...) > most then
        argument_error(most + 1, "found too many arguments", 1)
    end
end

local function new_config()
    local config = {}
    for name, value in next, DEFAULTS do
        config[name] = value
    end
    return config
end

local new

local function library(config)
    local cjson = { _NAME = "cjson", _VERSION = "2.1.0", null = null, new = new }

    -- encode(value): its JSON.
    function cjson.encode(...)
        if select("#", ...) ~= 1 then
            argument_error(1, "expected 1 argument", 0)
        end
        local parts = {}
        append(parts, 0, (...), 0, 1, config, 2)
        local text = concat(parts)
        host.charge(#text) -- what C's searches look at, and what it copies
        return text
    end

    -- decode(text): the value whose JSON it is.
    function cjson.decode(...)
        if select("#", ...) ~= 1 then
            argument_error(1, "expected 1 argument", 0)
        end
        local text = check_string(1, 0, ...)
        host.charge(#text) -- what C's searches look at
        if #text >= 2 and find(text, "^.?%z") then
            error("JSON parser does not support UTF-16 or UTF-32", 2)
        end
        local result, problem = decode(text, config)
        if problem then
            error(problem, 2)
        end
        return result
    end

    function cjson.encode_sparse_array(...)
        check_count(3, ...)
        local convert = named_option(config, "sparse_convert", BOOLEANS, 1, ...)
        local ratio = integer_option(config, "sparse_ratio", 0, BIGGEST_C_INT, 2, ...)
        return convert, ratio, (integer_option(config, "sparse_safe", 0, BIGGEST_C_INT, 3, ...))
    end

    function cjson.encode_max_depth(...)
        check_count(1, ...)
        return (integer_option(config, "encode_max_depth", 1, BIGGEST_C_INT, 1, ...))
    end

    function cjson.decode_max_depth(...)
        check_count(1, ...)
        return (integer_option(config, "decode_max_depth", 1, BIGGEST_C_INT, 1, ...))
    end

    function cjson.encode_number_precision(...)
        check_count(1, ...)
        return (integer_option(config, "precision", 1, 14, 1, ...))
    end

    -- There is no buffer to keep: the setting is there to be read.
    function cjson.encode_keep_buffer(...)
        check_count(1, ...)
        return (named_option(config, "keep_buffer", BOOLEANS, 1, ...))
    end

    function cjson.encode_invalid_numbers(...)
        check_count(1, ...)
        return (named_option(config, "encode_invalid_numbers", WITH_NULL, 1, ...))
    end

    function cjson.decode_invalid_numbers(...)
        check_count(1, ...)
        return (named_option(config, "decode_invalid_numbers", BOOLEANS, 1, ...))
    end

    return cjson
end

-- new(): another instance, with the default configuration.
function new()
    return library(new_config())
end

local shared = new_config()

local function reset()
    if not shared.changed then return end
    shared.changed = false
    for name, value in next, DEFAULTS do
        shared[name] = value
    end
end

return library(shared), reset
