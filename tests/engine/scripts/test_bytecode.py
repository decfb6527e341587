"""Rewritten chunks do the same, name the script's line where a call fails, and tell what `..` has made."""

from __future__ import annotations

from typing import Any, Final

import pytest
from lupa import lua51  # noqa: TID251 - what Lua itself compiles

from engine.scripts.bytecode import BytecodeError, rewritten

_PROGRAM: Final = b"""
local function first(...) return select(1, ...) end
local function nested(depth)
    if depth == 0 then return first(1, nil, "three") end
    return nested(depth - 1)
end
local object = { value = 5 }
function object:get(more) return first(self.value, more) end
return first(nested(3)), object:get(true), (function(...) return ... end)(nil, nil)
"""


def _lua() -> Any:
    return lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True)


def _dump(lua: Any, source: bytes) -> bytes:
    dump: bytes = lua.eval(b"function(source) return string.dump(assert(loadstring(source, '@user_script'))) end")(
        source
    )
    return dump


def test_a_program_returns_the_same_values() -> None:
    """Results, their number, arguments and upvalues pass through calls that were tail calls."""
    lua = _lua()
    plain = lua.execute(_PROGRAM)
    assert plain == lua.eval(b"loadstring")(rewritten(_dump(lua, _PROGRAM)))()


def test_a_chunk_without_tail_calls_stays_as_it_is() -> None:
    """Nothing else than tail calls is changed, in chunks with constants of every type, upvalues and inner functions."""
    source = b"local a, b = nil, true local function f() return a or b or 'text' or 1.5 end local x = f() return x"
    dump = _dump(_lua(), source)
    assert dump == rewritten(dump)


_JOINING: Final = b"""
local log, unused = {}, 1
local function add(text) log[#log + 1] = text .. "!" .. unused return log[#log] end
for at = 1, 3 do
    local text = at > 1 and "a" .. at or "b"
    while #text < 3 do text = text .. (at < 3 and "c" or "d" .. at) end
    log[#log + 1] = add(text)
end
for _, name in ipairs({ "e", "f" }) do
    if name == "e" then name = name .. name else repeat name = "g" .. name until #name > 4 end
    log[#log + 1] = name
end
local function deep(...)
    local given = ...
    return function() return (function() return given .. "h" end)() .. "i" end
end
return table.concat(log, ",") .. deep("j")(), unused
"""


def _joined(lua: Any, source: bytes) -> tuple[Any, list[bytes]]:
    """What the rewritten source returns, and the texts that it has told."""
    told: list[bytes] = []
    run = lua.eval(
        b"function(dump, tell) local f = loadstring(dump) assert(debug.setupvalue(f, 1, tell)) return f() end"
    )
    return run(rewritten(_dump(lua, source)), told.append), told


def test_each_concatenation_is_told_once() -> None:
    """In loops, branches, inner functions and calls; the program returns what it did."""
    lua = _lua()
    result, told = _joined(lua, _JOINING)
    assert lua.execute(_JOINING) == result
    small = b"bc bcc bcc!1 a2 a2c a2c!1 a3 d3 a3d3 a3d3!1 ee gf ggf gggf ggggf jh jhi"
    assert [*small.split(b" "), result[0]] == told


def test_data_of_instructions_is_no_instruction() -> None:
    """A list so long that its place in the table stands behind an instruction keeps it, whatever number that is."""
    lua = _lua()
    values = b",".join(b"%d" % (number % 7) for number in range(60_000))
    source = b"local t = {" + values + b"} return #t .. '|' .. table.concat(t)"
    assert lua.execute(source) == _joined(lua, source)[0]


def test_many_registers_leave_room() -> None:
    """A concatenation in the last registers that a function can have."""
    lua = _lua()
    names = b",".join(b"a%d" % number for number in range(199))
    source = b"local " + names + b" = 1 return (" + b"..".join([b"'x'"] * 49) + b")"
    assert (b"x" * 49, [b"x" * 49]) == _joined(lua, source)


def test_an_error_names_line_and_variable() -> None:
    """The text of an error behind a rewritten operator is that of the program as it was."""
    lua = _lua()
    dump = _dump(lua, b"local a = 'x' .. 1\nlocal b\nif a then\nlocal c = a .. 'y' return b + c .. 'z' end")
    run = lua.eval(
        b"function(dump) local f = loadstring(dump) debug.setupvalue(f, 1, function() end)"
        b" return select(2, pcall(f)) end"
    )
    assert b"user_script:4: attempt to perform arithmetic on local 'b' (a nil value)" == run(dump)
    assert run(dump) == run(rewritten(dump))


def test_the_frame_of_the_caller_stays() -> None:
    """An error at the level of the caller names the line of the script, though the script returns what is called."""
    lua = _lua()
    lua.execute(b"function failing() error('failed', 2) end")
    dump = _dump(lua, b"\n\nreturn failing()")
    run = lua.eval(b"function(dump) return select(2, pcall(loadstring(dump))) end")
    assert (b"failed", b"user_script:3: failed") == (run(dump), run(rewritten(dump)))


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"return 1",
        _dump(_lua(), _PROGRAM)[:-1],
        _dump(_lua(), _PROGRAM) + b"\0",
        b"\x1bLua\x52" + _dump(_lua(), _PROGRAM)[5:],
        _dump(_lua(), b"return 1.5").replace(b"\x03" + b"\0" * 6 + b"\xf8\x3f", b"\x09" + b"\0" * 6 + b"\xf8\x3f"),
    ],
    ids=["nothing", "source", "cut", "more", "other version", "unknown constant"],
)
def test_what_is_no_chunk_is_refused(damaged: bytes) -> None:
    """Bytes that Lua 5.1 did not write never reach its loader, which believes what it reads."""
    with pytest.raises(BytecodeError):
        rewritten(damaged)
