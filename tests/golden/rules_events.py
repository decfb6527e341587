"""Events of the logs of the corpus that cross from older rules to newer ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

_BEFORE: Final = ("ZADD z 0x10 a", "ZADD z 1 a 0x2 b", "ZINCRBY z 0x1p-1 a", "ZADD z 3 c")
_BEHIND: Final = (
    *("RULES 1", "ZADD z 0x10 a", "ZADD z 1 b 0X1.8P3 c -0xa d +0x.8 e", "ZINCRBY z 0x1p-1 a"),
    *("ZADD z NX CH INCR 0xff f", "ZADD z 0x g", "ZADD z 0x1p2000 g", "ZADD z 0x1p-2000 g", "ZADD z 0x0p9 g"),
    *("ZADD z 0x1_0 g", "ZADD z 1x10 g", "ZCOUNT z 0x1 0x2", "ZUNIONSTORE u 1 z WEIGHTS 0x2", "RULES 2"),
)
_TRIMS: Final = (
    *("XTRIM KEY MAXLEN ~ 160", "XTRIM KEY MAXLEN ~ 100 LIMIT 50", "XDEL KEY 150-1", "XTRIM KEY MAXLEN ~ 100"),
    *("XTRIM KEY MINID ~ 180", "XADD KEY MINID ~ 200-1 LIMIT 10 300-1 field v", "XTRIM KEY MAXLEN 77"),
    *("XADD KEY MAXLEN ~ 60 301-1 other v", "XGROUP|CREATE KEY crew 290-1", "XTRIM KEY MAXLEN ~ 0 DELREF LIMIT 0"),
    *("XTRIM KEY MINID ~ 250 ACKED", "XGROUP|DESTROY KEY crew", "XTRIM KEY MAXLEN ~ 0", "XADD KEY 302-1 field v"),
)
_SCAN: Final = b"return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"
_SCANS: Final = (
    *("HSCAN h 0", "HSCAN h 0 COUNT 10 MATCH m1*", "HSCAN h 0 NOVALUES", "HSCAN h 77", "HSCAN h x", "HSCAN s 0"),
    *("SSCAN s 0", "SSCAN s 0 COUNT 0", "SSCAN none 0", "ZSCAN z 0", "ZSCAN z 0 MATCH *9 NOSCORES", "SCAN 0"),
)
_ONCE: Final = b"ZADD", [b"once", b"0x1", b"m"], {"id": "older than rules 2"}


def _rules_2() -> Iterator[tuple[bytes, list[Any], dict[str, Any]]]:
    """What rules 2 changed, on both sides of the event; one with an id that had its outcome before.

    Each is (command, arguments, further fields).
    """
    yield from map(_event, _BEFORE)
    yield _ONCE
    yield _event("RULES 2")
    yield _ONCE
    yield from map(_event, _BEHIND)
    yield b"EXEC", [[b"ZADD", b"z", b"0x20", b"h"], [b"ZINCRBY", b"z", b"0x1", b"h"]], {}


def _rules_3() -> Iterator[tuple[bytes, list[Any], dict[str, Any]]]:
    """The same of rules 3: streams of short and of long entries, trimmed with `~` on both sides of the event."""
    for rules in (2, 3):
        yield _event(f"RULES {rules}")
        for key, value in (("short", "v"), ("long", "v" * 200)):
            yield from (_event(f"XADD {key}{rules} {number}-1 field {value}") for number in range(1, 251))
            yield from (_event(line.replace("KEY", f"{key}{rules}")) for line in _TRIMS)
    yield from (_event(line.replace("KEY", "short2")) for line in _TRIMS)


def _rules_4() -> Iterator[tuple[bytes, list[Any], dict[str, Any]]]:
    """The same of rules 4: scripts that scan collections, small and large, and a hash with fields that are due soon."""
    for rules in (3, 4):
        yield _event(f"RULES {rules}")
        for count in (20, 180):
            for number in range(count):
                yield _event(f"HSET h m{number} {number}")
                yield _event(f"SADD s m{number}")
                yield _event(f"ZADD z {number % 7} m{number}")
            yield _event("HPEXPIRE h 5 FIELDS 2 m1 m2")
            for line in _SCANS:
                name, key, *words = line.encode().split()
                yield b"EVAL", [_SCAN, b"1", key, name, *words], {}


def _event(line: str) -> tuple[bytes, list[Any], dict[str, Any]]:
    name, *args = line.encode().split()
    return name, args, {}


RULES_EVENTS: Final[dict[int, Callable[[], Iterator[tuple[bytes, list[Any], dict[str, Any]]]]]] = {
    2: _rules_2,
    3: _rules_3,
    4: _rules_4,
}
"""The newer rules -> the events of their log."""
