"""Replies as redis-cli prints them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from engine.errors import CommandError
from engine.values.replies import NIL_ARRAY, Map, Named, Pairs, Reply, Status
from slotlog.shared.doubles import format_double

_DATE_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999


def flat(reply: Reply) -> Reply:
    """The reply as RESP2 shapes it: maps and scored members as flat lists, doubles as strings."""
    if isinstance(reply, Map | Pairs):
        return [flat(element) for pair in reply for element in pair]
    if isinstance(reply, Named):
        return [[name, flat(value)] for name, value in reply]
    if isinstance(reply, list):
        return [flat(element) for element in reply]
    if isinstance(reply, float):
        return format_double(reply)
    return reply


def as_text(reply: Reply) -> str:
    """The lines that redis-cli prints on a terminal."""
    return "\n".join(_lines(flat(reply)))


def _lines(reply: Reply) -> list[str]:
    if reply is None or reply is NIL_ARRAY:
        return ["(nil)"]
    if isinstance(reply, CommandError):
        return [f"(error) {reply.message}"]
    if isinstance(reply, int):
        return [f"(integer) {reply}"]
    if isinstance(reply, Status):
        return [reply.decode()]
    if isinstance(reply, bytes):
        return [quoted(reply)]
    if not reply:
        return ["(empty array)"]
    width = len(str(len(reply)))
    lines: list[str] = []
    for index, element in enumerate(reply, 1):
        head = f"{index:>{width}}) "
        first, *rest = _lines(element)
        lines.append(head + first)
        lines.extend(" " * len(head) + line for line in rest)
    return lines


_ESCAPES = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x07: "\\a", 0x08: "\\b"}


def quoted(value: bytes) -> str:
    """`value` in double quotes, with redis-cli's escapes."""
    shown = [_ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in value]
    return '"' + "".join(shown) + '"'


def moment_text(time_ms: int) -> str:
    """A time in ms since 1970 as ISO 8601, or its number where no calendar has it."""
    if not 0 <= time_ms <= _DATE_MS_MAX:
        return f"{time_ms} ms"
    seconds, ms = divmod(time_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
