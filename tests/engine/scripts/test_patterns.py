"""The matcher in Lua finds what C's matcher finds, whatever the pattern."""

from __future__ import annotations

import random
from pkgutil import get_data
from typing import Any

from lupa import lua51  # noqa: TID251 - the two matchers without the sandbox

PIECES = ["a", "b", ".", "%a", "%d", "%s", "%w", "%W", "[ab]", "[^a]", "[a-c]", "[%d_]", "%.", "()", "%f[%w]", "%bab"]
REPEATS = ["", "", "", "*", "+", "-", "?"]
CALLS = """
local raw, ours = ...
local function outcome(...)
    local all = {pcall(...)}
    for i = 1, 40 do all[i] = tostring(all[i]):gsub("^[^ ]+:%d+: ", "") end
    return table.concat(all, "|")
end
local function each(gmatch, text, pattern)
    local all = {}
    for a, b in gmatch(text, pattern) do all[#all + 1] = tostring(a) .. "," .. tostring(b) end
    return table.concat(all, ";")
end
return function(library, text, pattern)
    local used = library == "raw" and raw or ours
    return table.concat({
        outcome(used.find, text, pattern), outcome(used.find, text, pattern, 3), outcome(used.match, text, pattern, -2),
        outcome(used.gsub, text, pattern, "<%0>"), outcome(used.gsub, text, pattern, {a = 1, ab = "x"}, 2),
        outcome(used.gsub, text, pattern, function(x) return x ~= "a" and x end),
        outcome(each, used.gmatch, text, pattern),
    }, "\\n")
end
"""


def both_matchers() -> Any:
    """A Lua function that shows what C's functions, or ours with the matcher in Lua, make of a text and a pattern."""
    lua = lua51.LuaRuntime(encoding=None, register_eval=False, unpack_returned_tuples=True)
    load = lua.eval(b"loadstring")
    host = lua.eval(b"function() local host = {} for k, v in pairs(_G) do host[k] = v end return host end")()
    host[b"charge"] = lua.eval(b"function() end")
    host[b"check"] = host[b"charge"]
    host[b"unwrap"] = lua.eval(b"function(t) return t end")
    for name in ("libraries/support", "matcher", "patterns"):
        source = get_data("engine.scripts", f"{name}.lua")
        assert source is not None
        host[name.rpartition("/")[2].encode()] = load(source.replace(b"STEPS_MAX = 20000", b"STEPS_MAX = -1"), b"=e")(
            host
        )
    return load(CALLS.encode())(lua.globals()[b"string"], host[b"patterns"])


def pattern(chance: random.Random) -> str:
    """A random pattern: anchors, captures, references to them, and now and then a mistake."""
    parts = [chance.choice(PIECES) + chance.choice(REPEATS) for _ in range(chance.randint(1, 4))]
    if chance.random() < 0.4:
        at = chance.randrange(len(parts))
        parts[at] = f"({parts[at]})"
    if chance.random() < 0.1:
        parts.append("%1")
    if chance.random() < 0.05:
        parts.insert(chance.randrange(len(parts)), chance.choice(["(", ")", "%", "[", "%f", "%b", "\0"]))
    return "^" * (chance.random() < 0.2) + "".join(parts) + "$" * (chance.random() < 0.2)


def test_both_matchers_find_the_same() -> None:
    """Three thousand random patterns: find, match, gsub in its three forms, and gmatch give the same."""
    outcome = both_matchers()
    chance = random.Random(5)
    wrong = []
    for _ in range(3_000):
        text = "".join(chance.choices("aabbc1_ .", k=chance.randint(0, 9))).encode()
        given = pattern(chance).encode()
        expected, actual = outcome(b"raw", text, given), outcome(b"ours", text, given)
        if expected != actual:
            wrong.append((text, given, expected, actual))

    assert [] == wrong[:3]
