"""Chunks without tail calls do the same, and name the script's line where a call fails."""

from __future__ import annotations

from typing import Any, Final

import pytest
from lupa import lua51  # noqa: TID251 - what Lua itself compiles

from engine.scripts.bytecode import BytecodeError, without_tail_calls

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
    assert plain == lua.eval(b"loadstring")(without_tail_calls(_dump(lua, _PROGRAM)))()


def test_a_chunk_without_tail_calls_stays_as_it_is() -> None:
    """Nothing else than tail calls is changed, in chunks with constants of every type, upvalues and inner functions."""
    source = b"local a, b = nil, true local function f() return a or b or 'text' or 1.5 end local x = f() return x"
    dump = _dump(_lua(), source)
    assert dump == without_tail_calls(dump)


def test_the_frame_of_the_caller_stays() -> None:
    """An error at the level of the caller names the line of the script, though the script returns what is called."""
    lua = _lua()
    lua.execute(b"function failing() error('failed', 2) end")
    dump = _dump(lua, b"\n\nreturn failing()")
    run = lua.eval(b"function(dump) return select(2, pcall(loadstring(dump))) end")
    assert (b"failed", b"user_script:3: failed") == (run(dump), run(without_tail_calls(dump)))


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
        without_tail_calls(damaged)
