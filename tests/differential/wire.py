"""A reply of the engine in the shape in which the oracle's plain connection returns its own."""

from __future__ import annotations

from typing import Any

from engine.errors import CommandError
from engine.values.replies import NIL_ARRAY, Digits, Map, Named, Pairs, Reply, Set, Status
from slotlog.shared.doubles import format_double
from tests.real.oracle import ErrorReply, MapReply, NullArray, SetReply, SimpleString

RESP2 = 2
RESP3 = 3


def wire(reply: Reply, protocol: int) -> Any:
    """`reply` as a client of that protocol sees it; see `tests.real.oracle`."""
    if isinstance(reply, CommandError):
        return ErrorReply(reply.message.encode(errors="surrogateescape"))
    if isinstance(reply, Status):
        return SimpleString(bytes(reply))
    if reply is NIL_ARRAY:
        return NullArray() if protocol == RESP2 else None
    if isinstance(reply, Digits):
        return bytes(reply) if protocol == RESP2 else float(reply)
    if isinstance(reply, float):
        return format_double(reply) if protocol == RESP2 else reply
    if isinstance(reply, Map):
        pairs = [(wire(name, protocol), wire(value, protocol)) for name, value in reply]
        return [part for pair in pairs for part in pair] if protocol == RESP2 else MapReply(pairs)
    if isinstance(reply, Named):
        pairs = [(wire(name, protocol), wire(value, protocol)) for name, value in reply]
        return list(map(list, pairs)) if protocol == RESP2 else MapReply(pairs)
    if isinstance(reply, Set):
        members = [wire(member, protocol) for member in reply]
        return members if protocol == RESP2 else SetReply(members)
    if isinstance(reply, Pairs):
        scored = [[wire(member, protocol), wire(score, protocol)] for member, score in reply]
        return [part for pair in scored for part in pair] if protocol == RESP2 else scored
    if isinstance(reply, list):
        return [wire(element, protocol) for element in reply]
    return reply
