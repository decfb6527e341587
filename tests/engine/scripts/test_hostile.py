"""Scripts that want to run for ever, take all memory, or change what others see.

Each ends, and the next one is whole.

Those that concern an advisory of Redis name it. The limits are lower here, so that the tests are quick.
"""

from __future__ import annotations

from typing import Final

import pytest

from engine.errors import CommandError
from engine.scripts import runtime as limits
from engine.scripts.host import ScriptLimitError
from engine.scripts.runtime import ScriptRuntime
from tests.engine.scripts.host import run

_ENDLESS: Final = (
    "while true do end",
    "repeat until false",
    "for i = 1, 1e12 do end",
    "while true do pcall(function() while true do end end) end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "xpcall(function() while true do end end, function() return 1 end) while true do end",
    "local function f() pcall(f) while true do end end f()",
    "coroutine.wrap(function() while true do end end)()",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "return coroutine.wrap(function() return pcall(function() while true do end end) end)()",
    "return setmetatable({}, {__index = function() while true do end end})[1].x",
    "return setmetatable({}, {__index = function() while true do end end})[1]",
    "return setmetatable({}, {__concat = function() while true do end end}) .. 'x'",
    "string.gsub('aaaa', 'a', function() while true do end end)",
    "table.sort({3, 2, 1, 5, 4}, function() while true do end end)",
    "load(function() while true do end end)",
    "while true do loadstring('return 1') end",
    "while true do math.random() end",
    "while true do os.clock() end",
    "local s = ('a'):rep(1e6) while true do s:find('b', 1, true) end",
    "return ('a'):rep(50):find(('a*'):rep(30) .. 'b')",
    "return ('a'):rep(1e5):find('.-.-.-.-b')",
    "return ('a'):rep(5e4):find('a*a*a*b')",
    "return ('a'):rep(3e5):gsub('.-b', 'x')",
    "return ('('):rep(1e6):find('%b()')",
    "for word in ('a'):rep(1e5):gmatch('.-b') do end",
    "local t = {} for i = 1, 1e4 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
    "local t = {} for i = 1, 1e4 do t[i] = i end while true do table.insert(t, '1', 1) table.remove(t, '1') end",
    "table.insert({}, 2^31, 1)",
    "table.insert({}, '-2147483648', 1)",
    "local t = {} for i = 1, 1e4 do t[i] = i end while true do table.foreachi(t, coroutine.running) end",
    "error(setmetatable({}, {__index = function() while true do end end}))",
    "local e = {} function e.__index(t, k) while k ~= 1 do end error(t) end return setmetatable({}, e)[2]",
    "return xpcall(error, setmetatable({}, {__call = function() while true do end end}))",
    "load(coroutine.wrap(function() while true do coroutine.yield('x') end end))",
    "local c = coroutine.wrap(function() while true do pcall(coroutine.yield) end end) while true do c() end",
    "local s = '\"' .. ('x'):rep(1e5) for i = 1, 100 do pcall(cjson.decode, s) end",
    "local s = (' '):rep(1e5) for i = 1, 100 do pcall(cjson.decode, s) end",
    "local s = ('x'):rep(1e5) for i = 1, 100 do cjson.encode(s) end",
    "local s = ('x'):rep(1e5) for i = 1, 100 do cmsgpack.pack(s) end",
    "local s = ('x'):rep(1e5) for i = 1, 100 do struct.pack('s', s) end",
    "local s = ('x'):rep(1e5) .. '\\0' for i = 1, 100 do struct.unpack('s', s) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end for i = 1, 100 do table.maxn(t) end",
    "local t = {} for i = 1, 1e4 do t[i] = i end for i = 1, 300 do unpack(t, 1, 7000) end",
    "local t = {} for i = 1, 1e4 do t[i] = i end for i = 1, 100 do table.sort(t) end",
    "local s = ('x'):rep(1e6) for i = 1, 30 do local x = s:upper(), s:reverse(), s:sub(2), redis.sha1hex(s) end",
    "return cmsgpack.unpack('\\221\\255\\255\\255\\255' .. ('\\192'):rep(1e6))",
)

_BOMBS: Final = (
    "local s = 'x' while true do s = s .. s end",
    "local s = 'x' for i = 1, 1e9 do s = s .. 'x' end",
    "local items = {} while true do items[#items + 1] = {} end",
    "local items = {} for i = 1, 1e9 do items['k' .. i] = 1 end",
    "pcall(function() local s = 'x' while true do s = s .. s end end) return 1",
    "return string.rep('x', 1e9)",
    "local items = {} for i = 1, 1e4 do items[i] = ('x'):rep(1e4) end return table.concat(items)",
    "return ('x'):rep(1e5):gsub('', ('y'):rep(1e4))",
    "local s = ('a'):rep(1e5) return s:gsub('a', function() return s end)",
    "while true do coroutine.resume(coroutine.create(function() coroutine.yield() end)) end",
    "local weak = setmetatable({}, {__mode = 'k'}) while true do weak[{}] = 1 end",
    "while true do loadstring('return ' .. math.random()) end",
    "cjson.encode_sparse_array(false, 0, 2147483647) return cjson.encode({[2^30] = 1})",
    "local s = cjson.encode({('x'):rep(1e6)}) while true do cjson.decode(s:sub(1, -3) .. math.random() .. '\"]') end",
    "return struct.pack(('x'):rep(1e7))",
    "error(setmetatable({}, {__index = function() local s = 'x' while true do s = s .. s end end}))",
    "return cjson.encode(('\\0'):rep(1.5e7))",  # CVE-2022-24834
    "return cjson.decode('\"' .. ('\\\\u0000'):rep(1e7) .. '\"')",  # CVE-2022-24834
    "return cmsgpack.pack(string.rep('x', 1e8))",
)

_REFUSED: Final = (
    ("local function f() return 1 + f() end f()", "stack overflow"),
    ("local function f() coroutine.wrap(f)() end f()", "C stack overflow"),
    ("local t = {} setmetatable(t, {__index = t}) return t.x", "loop in gettable"),
    ("table.sort({3, 2, 1, 5, 4, 3, 2, 1}, function() return true end)", "invalid order function"),
    ("return unpack({}, 1, 1e8)", "too many results to unpack"),
    ("return unpack({}, -2147483648, 2147483647)", "too many results to unpack"),  # CVE-2025-46817
    ("return {unpack({1}, 1, 2^31)}", "too many results to unpack"),  # CVE-2025-46817
    ("return ('x'):rep(1e6):byte(1, -1)", "string slice too long"),
    ("return string.find('x', ('('):rep(1e5))", "pattern too complex"),
    ("return string.format('%99999d', 1)", "invalid format"),
    ("return string.format('%.100f', 1)", "invalid format"),
    ("return struct.pack('>I2147483648', '10')", "integral size overflow"),  # CVE-2015-8080, CVE-2020-14147
    ("return struct.unpack('>I2147483647', '10')", "larger than limit"),  # CVE-2015-8080, CVE-2020-14147
    ("return struct.unpack('I', 'xxxx', 2^31)", "data string too short"),  # CVE-2018-11219
    ("return struct.unpack('I', 'xxxx', -2^31)", "data string too short"),  # CVE-2018-11219
    ("return cmsgpack.unpack(('\\192'):rep(1e5))", "stack overflow"),  # CVE-2018-11218
    ("local t = {} for i = 1, 7900 do t[i] = i end cmsgpack.pack(unpack(t))", "Too many arguments"),  # CVE-2018-11218
    ("return cmsgpack.unpack('\\219\\255\\255\\255\\255')", "Missing bytes"),
    ("error(setmetatable({}, {__index = function(t) error(t) end}))", "C stack overflow"),
    ("local f f = coroutine.wrap(function() f() end) f()", "cannot resume running coroutine"),
    ("local f = coroutine.wrap(function() error('x') end) pcall(f) f()", "cannot resume dead coroutine"),
    ("table.sort({3, 2, 1}, function() coroutine.yield() end)", "attempt to yield across"),
    ("string.gsub('x', 'x', function() coroutine.yield() end)", "attempt to yield across"),
    ("return table.concat({}, '', -2^31, 2^31)", "invalid value"),
    ("return select(-2147483648, 1)", "index out of range"),
    ("return redis.call(setmetatable({}, {__tostring = function() end}))", "must be strings or integers"),
    ("getmetatable(_G).__newindex = nil", "readonly table"),
    ("getmetatable('').__add = 1", "readonly table"),  # CVE-2025-46818
    ("cjson.decode_max_depth(2147483647) return cjson.decode(('['):rep(1e5))", "too many nested data structures"),
    ("local t = {} t[1] = t return cjson.encode(t)", "excessive nesting"),
    ("return cjson.decode(('['):rep(1e5))", "too many nested data structures"),
    ("return string.dump(function() end)", "unable to dump"),
    ("getmetatable('').__index = {}", "readonly table"),  # CVE-2025-46818
    ("getmetatable('').__index.upper = 1", "readonly table"),  # CVE-2025-46818
    ("string.upper = function() return 'changed' end", "readonly table"),  # CVE-2022-24735
    ("rawset(string, 'upper', 1)", "readonly table"),  # CVE-2022-24735
    ("setmetatable(string, {})", "readonly table"),
    ("setmetatable(_G, {})", "readonly table"),  # CVE-2022-24735
    ("rawset(_G, 'left', 1)", "readonly table"),
    ("left = 1", "readonly table"),
    ("redis.call = function() end", "readonly table"),
    ("cjson.null = 1", "readonly table"),
    ("getmetatable(_G).__index = function() return 1 end", "readonly table"),
    ("return setfenv", "nonexistent global"),
    ("return getfenv", "nonexistent global"),
    ("return debug", "nonexistent global"),
    ("return io", "nonexistent global"),
    ("return require", "nonexistent global"),
    ("return package", "nonexistent global"),
    ("return dofile", "nonexistent global"),
    ("return loadfile", "nonexistent global"),
    ("return newproxy", "nonexistent global"),
    ("return python", "nonexistent global"),
    ("return os.execute('true')", "attempt to call field 'execute'"),
    ("return string.gsub('x', 'x', '%2')", "invalid capture index"),
    ("error({err = 'ERR mine'})", "ERR mine"),
    ("error(('x'):rep(1e6))", "xxx"),
)

_HARMLESS: Final = (
    ("return bit.tohex(1, -2147483648)", b"00000001"),  # CVE-2024-31449
    ("return tostring(loadstring('\\27Lua'))", b"nil"),  # CVE-2022-24736: no bytecode
    (
        "local n = 0 return tostring(load(function() n = n + 1 return ({'\\27', 'LuaQ'})[n] end))",
        b"nil",
    ),  # CVE-2022-24736, in two pieces
    ("return bit.rshift(1, 2^31) + bit.lshift(1, -2147483648) + bit.arshift(1, 1e308)", 3),
    ("return bit.tohex(1, 2^31) .. bit.tohex(1, -2^53)", b"00000001"),  # CVE-2024-31449
    ("return tostring(xpcall(1, 2)) .. tostring(xpcall(error, nil))", b"falsefalse"),
    ("return ('x'):rep(-2^63) .. ('x'):rep(0/0) .. ('x'):sub(-2^63, 2^63)", b""),
    ("return tostring(getmetatable(1)) .. tostring(getmetatable(type))", b"nilnil"),  # CVE-2025-46818
    ("return tostring(loadstring('return [' .. ('='):rep(1e5) .. '['))", b"nil"),  # CVE-2025-46819
    ("return tostring(loadstring(('('):rep(1e5)))", b"nil"),
    ("return tostring(loadstring('return 1', ('x'):rep(1e5)) ~= nil)", b"true"),  # CVE-2025-49844: the name of a chunk
    ("setmetatable({}, {__gc = function() while true do end end}) collectgarbage() return 'x'", b"x"),  # CVE-2024-46981
    ("local t = setmetatable({}, {__index = string}) t.upper = 1 return ('x'):upper()", b"X"),
    (
        "local c c = coroutine.create(function() return coroutine.resume(c) end) return tostring(coroutine.resume(c))",
        b"true",
    ),
    ("return select('#', pcall(error))", 2),
)

_PROBE: Final = """
local names = {}
for name in pairs(_G) do names[#names + 1] = name end
table.sort(names)
local text = ("x"):upper() .. string.format("%d", 5) .. cjson.encode({1}) .. bit.tohex(1) .. #redis.sha1hex("")
return {table.concat(names, " "), text, tostring(pcall(function() return left end)), cmsgpack.pack(1), math.floor(1.5)}
"""


@pytest.fixture
def lua(monkeypatch: pytest.MonkeyPatch) -> ScriptRuntime:
    """A runtime with lower limits: 2,000,000 instructions and 24 MiB."""
    monkeypatch.setattr(limits, "INSTRUCTIONS_MAX", 2_000_000)
    monkeypatch.setattr(limits, "SHARED_MEMORY_BYTES", 24 * 1024 * 1024)
    return ScriptRuntime()


@pytest.mark.parametrize("source", [*_ENDLESS, *_BOMBS])
def test_what_would_not_end_hits_a_limit(lua: ScriptRuntime, source: str) -> None:
    """No loop and no bomb gets by the limits, whatever catches errors in it. The next script finds all unchanged."""
    before = run(_PROBE, runtime=lua)
    with pytest.raises(ScriptLimitError):
        run(source, runtime=lua)
    assert before == run(_PROBE, runtime=lua)


@pytest.mark.parametrize(("source", "text"), _REFUSED)
def test_what_would_reach_further_is_refused(lua: ScriptRuntime, source: str, text: str) -> None:
    """What would change shared things, leave the sandbox or overflow a stack has its error, and changes nothing."""
    before = run(_PROBE, runtime=lua)
    with pytest.raises(CommandError, match=text):
        run(source, runtime=lua)
    assert before == run(_PROBE, runtime=lua)


@pytest.mark.parametrize(("source", "reply"), _HARMLESS)
def test_what_once_did_harm_does_none(lua: ScriptRuntime, source: str, reply: bytes | int) -> None:
    """Scripts of advisories that are valid Lua reply what they should, and leave nothing behind."""
    before = run(_PROBE, runtime=lua)
    assert reply == run(source, runtime=lua)
    assert before == run(_PROBE, runtime=lua)
