"""The libraries that Redis gives its scripts beside those of Lua: `bit`, `cjson`, `cmsgpack`, `struct`.

They are written in Lua. So the limit of instructions counts them, their errors are Lua's own, and no object of Python
is within reach of a script. A call from Lua into Python would cost more than most of these functions.
"""

from __future__ import annotations

from pkgutil import get_data
from typing import Any, Final

_PARTS: Final = ("support", "cjson_encoding", "cjson_decoding")
"""What the libraries use. Scripts do not see it."""

_CHUNK_NAME: Final = b"=engine"
"""By it the sandbox knows what is no line of a script."""

_LIBRARIES: Final = ("bit", "cjson", "cmsgpack", "struct")


def load_libraries(lua: Any, host: Any) -> tuple[dict[bytes, Any], Any]:
    """Load the libraries into a Lua state.

    Args:
        lua: a runtime of `lupa.lua51`, whose `loadstring` is still there.
        host: a Lua table with Lua's functions and libraries as Lua made them. It gets what the libraries share, and
            must have `charge`, which counts instructions, before a library is called.

    Returns:
        The libraries' tables by name, and a Lua function without arguments. It has to be called before each run of a
        script: it restores what a script may have configured.
    """
    load = lua.eval(b"function(source, name, host) return assert(loadstring(source, name))(host) end")
    host[b"null"] = lua.eval(b"newproxy(false)")
    for part in _PARTS:
        host[part.encode()] = load(_source(part), _CHUNK_NAME, host)
    tables = {}
    for name in _LIBRARIES:
        tables[name.encode()] = load(_source(name), _CHUNK_NAME, host)
    cjson, reset = tables[b"cjson"]
    return {**tables, b"cjson": cjson}, reset


def _source(name: str) -> bytes:
    source = get_data(__name__, f"{name}.lua")
    assert source is not None
    return source
