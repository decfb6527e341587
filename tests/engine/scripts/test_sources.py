"""Loading: a Lua state in a locale that would change what scripts do is refused."""

from __future__ import annotations

import pytest
from lupa import lua51  # noqa: TID251 - a state as another locale would make it

from engine.scripts.sources import load


@pytest.mark.parametrize(
    "change",
    [
        b"string.upper = function(text) return (text:gsub('\\228', '\\196')) end",
        b"local find = string.find string.find = function(text, p) return find(text, '\\228') end",
    ],
)
def test_an_8_bit_locale_is_refused(change: bytes) -> None:
    """Where a byte above 127 is a letter, upper case and patterns would differ from one machine to the next."""
    lua = lua51.LuaRuntime(encoding=None, register_eval=False)
    lua.execute(change)

    with pytest.raises(RuntimeError, match=r"LC_ALL=C\.UTF-8"):
        load(lua, {})
