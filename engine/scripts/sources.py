"""Loads the programs beside it into a Lua state, in the order in which they need each other."""

from __future__ import annotations

from pkgutil import get_data
from typing import Any, Final, NamedTuple

from engine.scripts.libraries import load_libraries

VERSION: Final = b"7.4.0"
"""`redis.REDIS_VERSION`; INFO says the same."""

_VERSION_NUMBER: Final = 0x00070400

_IS_PLAIN: Final = rb"""function()
    local bytes = {}
    for code = 128, 255 do bytes[#bytes + 1] = string.char(code) end
    local text = table.concat(bytes)
    local small, large = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return text:upper() == text and text:lower() == text and not text:find("[%a%c%p%s%w]")
        and small:upper() == large and large:lower() == small and "B" < "a"
        and tostring(1 / 2) == "0.5" and tonumber("0.5") == 1 / 2
end"""

# Each file gets the table `host`, and adds to it; what it returns is kept there under the second name.
_FILES: Final = (
    ("limits", ""),
    ("tables", ""),
    ("random", "random"),
    ("redis", "redis"),
    ("replies", "to_list"),
    ("matcher", "matcher"),
    ("patterns", "patterns"),
)


class Sandbox(NamedTuple):
    """The functions of Lua that Python calls: those that sandbox.lua and functions.lua return, in their order."""

    run: Any
    run_with: Any
    compile: Any
    compile_library: Any
    function_of: Any
    list_of: Any


def load(lua: Any, functions: dict[bytes, Any]) -> Sandbox:
    """Make the sandbox in `lua`, a new state.

    Args:
        lua: the state.
        functions: what the sandbox calls of Python, by name. What one of them raises ends the run.

    Raises:
        RuntimeError: the process has a locale in which scripts would do something else.
    """
    if not lua.eval(_IS_PLAIN)():
        raise RuntimeError("scripts need the letters, order and decimal point of the C locale: set LC_ALL=C.UTF-8")
    compile_ = lua.eval(b"loadstring")

    def do(name: str) -> Any:
        source = get_data("engine.scripts", f"{name}.lua")
        assert source is not None
        return compile_(source, b"=engine")(host)

    host = lua.eval(b"function() local host = {} for k, v in pairs(_G) do host[k] = v end return host end")()
    host[b"python"] = lua.table_from({**functions, b"version": VERSION, b"version_number": _VERSION_NUMBER})
    libraries, host[b"reset_libraries"] = load_libraries(lua, host)
    host[b"libraries"] = lua.table_from(libraries)
    for name, kept_as in _FILES:
        result = do(name)
        if kept_as:
            host[kept_as.encode()] = result
    host[b"strings"], host[b"lists"] = do("strings")
    return Sandbox(*do("sandbox"), *do("functions"))
