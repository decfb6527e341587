"""Events of the log of the corpus that crosses from rules 1 to rules 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_BEFORE: Final = ("ZADD z 0x10 a", "ZADD z 1 a 0x2 b", "ZINCRBY z 0x1p-1 a", "ZADD z 3 c")
_BEHIND: Final = (
    *("RULES 1", "ZADD z 0x10 a", "ZADD z 1 b 0X1.8P3 c -0xa d +0x.8 e", "ZINCRBY z 0x1p-1 a"),
    *("ZADD z NX CH INCR 0xff f", "ZADD z 0x g", "ZADD z 0x1p2000 g", "ZADD z 0x1p-2000 g", "ZADD z 0x0p9 g"),
    *("ZADD z 0x1_0 g", "ZADD z 1x10 g", "ZCOUNT z 0x1 0x2", "ZUNIONSTORE u 1 z WEIGHTS 0x2", "RULES 2"),
)
_ONCE: Final = b"ZADD", [b"once", b"0x1", b"m"], {"id": "older than rules 2"}


def rules_events() -> Iterator[tuple[bytes, list[Any], dict[str, Any]]]:
    """What rules 2 changed, on both sides of the event; one with an id that had its outcome before.

    Each is (command, arguments, further fields).
    """
    yield from map(_event, _BEFORE)
    yield _ONCE
    yield _event("RULES 2")
    yield _ONCE
    yield from map(_event, _BEHIND)
    yield b"EXEC", [[b"ZADD", b"z", b"0x20", b"h"], [b"ZINCRBY", b"z", b"0x1", b"h"]], {}


def _event(line: str) -> tuple[bytes, list[Any], dict[str, Any]]:
    name, *args = line.encode().split()
    return name, args, {}
