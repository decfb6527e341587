"""Commands that draw at random: what the oracle is asked instead, given what slotlog drew, and what must hold.

SPOP                                  members, no two alike; they are removed with SREM
SRANDMEMBER, HRANDFIELD, ZRANDMEMBER  elements, with their values; as many as were asked for
RANDOMKEY                             a key

PFCOUNT of one key draws nothing, but the oracle would write the count into the value: it is asked for the key and
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.wire.exceptions import Request
from tests.wire.frames import bulk, parts

_ONE: Final = b":1\r\n"
_LOOK_UPS: Final = {
    b"SPOP": (b"SMISMEMBER", b"SCARD"),
    b"SRANDMEMBER": (b"SMISMEMBER", b"SCARD"),
    b"HRANDFIELD": (b"HMGET", b"HLEN"),
    b"ZRANDMEMBER": (b"ZMSCORE", b"ZCARD"),
}


def questions(request: Request, outcome: bytes) -> list[Request]:
    """What to ask the oracle; the request itself when nothing was drawn."""
    name = request[0].upper()
    if name == b"PFCOUNT" and len(request) == 2:
        return [(*request, request[1])]
    drawn = [bulk(element) or b"" for element, _ in _drawn(request, outcome)]
    if not drawn:
        return [request]
    if name == b"RANDOMKEY":
        return [(b"EXISTS", *drawn)]
    look_up, size = _LOOK_UPS[name]
    removal = [(b"SREM", request[1], *drawn)] if name == b"SPOP" else []
    return [(look_up, request[1], *drawn), (size, request[1]), *removal]


def agrees(request: Request, outcome: bytes, replies: Sequence[bytes]) -> bool:
    """Whether the oracle's answers to these questions allow what was drawn."""
    name = request[0].upper()
    if name == b"PFCOUNT":
        return list(replies) == [outcome]
    if name == b"RANDOMKEY":
        return list(replies) == [_ONE]
    drawn = _drawn(request, outcome)
    count = int(request[2]) if len(request) > 2 else -1
    many = -count if count < 0 else min(count, int(replies[1][1:]))
    different = count < 0 or len({element for element, _ in drawn}) == len(drawn)
    one = outcome.startswith(b"$")
    return (
        (len(drawn), one) == (many, len(request) == 2)
        and different
        and all(_fits(name, value, found) for (_, value), found in zip(drawn, parts(replies[0]), strict=True))
    )


def _drawn(request: Request, outcome: bytes) -> list[tuple[bytes, bytes]]:
    """The frames of what was drawn, each with that of its value, empty where none was asked for."""
    if request[0].upper() not in {*_LOOK_UPS, b"RANDOMKEY"} or outcome.startswith((b"-", b"_", b"$-1", b"*-1", b"+")):
        return []
    elements = parts(outcome) if outcome[:1] in b"*~" else [outcome]
    if len(request) < 4:
        return [(element, b"") for element in elements]
    flat = [part for element in elements for part in (parts(element) or [element])]  # RESP3 has pairs
    return list(zip(flat[::2], flat[1::2], strict=True))


def _fits(name: bytes, value: bytes, found: bytes) -> bool:
    if name in {b"SPOP", b"SRANDMEMBER"}:
        return found == _ONE
    return value == found if value else not found.startswith((b"$-1", b"_"))
