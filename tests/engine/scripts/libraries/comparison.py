"""Runs many small pieces of Lua here and in a real server, and shows where the outcomes differ.

A piece is the body of a function. Its outcome is what `pcall` of it returns, as text. Of a table with a key that is one
itself, a function, a thread or null no more is compared than that it is one: here it is not walked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from engine.scripts.host import ScriptLimitError
from engine.scripts.runtime import ScriptRuntime
from tests.engine.scripts.host import run
from tests.real.oracle import Connection

RANDOM_PIECES: Final = int(os.environ.get("SCRIPT_PIECES", "0"))
"""Of each kind, and new ones at each run; 0: as many as each test says, the same ones at each run."""

_ADDRESS: Final = re.compile(rb"(table|function|thread|userdata): 0x[0-9a-f]+")

_SHOW: Final = rb"""
local ordered = %s
local ADDRESSED = { ["function"] = true, table = true, thread = true, userdata = true }
local function show(value, depth)
    local kind = type(value)
    if kind == "number" then return string.format("%%.17g", value) end
    if kind == "string" then return string.format("%%q", value) end
    if kind == "userdata" or kind == "function" then return kind end
    if kind ~= "table" then return tostring(value) end
    if depth > 8 then return "{deep}" end
    local items = {}
    local walked, following, state, first = pcall(pairs, value)
    if not walked then return "{without an order}" end
    for key, item in following, state, first do
        if ADDRESSED[type(key)] then return "{without an order}" end
        items[#items + 1] = "[" .. show(key, depth + 1) .. "]=" .. show(item, depth + 1)
    end
    if not ordered then table.sort(items) end
    return "{" .. table.concat(items, ",") .. "}"
end
local function outcome(...)
    local items = {}
    for index = 1, select("#", ...) do items[index] = show((select(index, ...)), 0) end
    return table.concat(items, " | ")
end
local outcomes = {}
local function piece(body) outcomes[#outcomes + 1] = outcome(pcall(body)) end
"""


def script_of(pieces: Sequence[str], *, ordered: bool) -> bytes:
    """One script that returns the outcomes of all pieces."""
    bodies = b"\n".join(b"piece(function() %b end)" % piece.encode("latin-1") for piece in pieces)
    return b"%b%b\nreturn outcomes" % (_SHOW % (b"true" if ordered else b"false"), bodies)


def without_addresses(outcome: bytes) -> bytes:
    """The outcome with the type of each table, function or thread alone, where it shows an address."""
    return _ADDRESS.sub(rb"\1", outcome)


def differences(
    server: Connection, pieces: Sequence[str], *, at_once: int = 200, ordered: bool = False
) -> list[tuple[str, bytes, bytes]]:
    """Each piece whose outcome differs, with the outcome there and the one here.

    One that meets a limit here is not sent there, where it would run as long as it wants.

    Args:
        server: takes EVAL.
        pieces: each byte of Lua is the character of that number.
        at_once: how many are sent as one script.
        ordered: the order in which `pairs` gives keys belongs to the outcome.
    """
    found = []
    for first in range(0, len(pieces), at_once):
        batch = pieces[first : first + at_once]
        source = script_of(batch, ordered=ordered)
        try:
            outcomes = _outcomes(source)
        except ScriptLimitError:
            if at_once > 1:
                found += differences(server, batch, at_once=1, ordered=ordered)
            continue
        theirs = server.call("EVAL", source, 0)
        assert isinstance(theirs, list), theirs
        found += [
            (piece, there, ours)
            for piece, there, ours in zip(batch, theirs, outcomes, strict=True)
            if without_addresses(there) != without_addresses(ours)
        ]
    return found


def _outcomes(source: bytes) -> list[bytes]:
    reply = run(source, runtime=ScriptRuntime(fresh=True))
    assert isinstance(reply, list), reply
    return [outcome for outcome in reply if isinstance(outcome, bytes)]


def drawn(draw: Callable[[Random], str], count: int) -> list[str]:
    """`count` random pieces, or as many new ones as the environment says."""
    random = Random() if RANDOM_PIECES else Random(0)
    return [draw(random) for _ in range(RANDOM_PIECES or count)]


def quoted(data: bytes) -> str:
    """A string of Lua with these bytes."""
    escaped = "".join(f"\\{byte:03d}" for byte in data)
    return f'"{escaped}"'
