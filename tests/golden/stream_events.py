"""Events of streams for the log of the corpus that is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from tests.simulation.stream_events import STREAMS

CALLS: Final = 1200
KEYS: Final = (b"x", b"y")
LARGE: Final = 2200
_KEY_AT: Final = {b"XREADGROUP": 6}


def stream_events(random: Random) -> Iterator[tuple[int, bytes, list[Any]]]:
    """Commands on two streams, alone, in transactions and in scripts, and one stream with blocks and deleted ranges.

    Each is (ms that have passed, command, arguments).
    """
    for _ in range(CALLS):
        passed_ms = random.randrange(400)
        kind = random.randrange(16)
        if kind < 12:
            yield passed_ms, *_command(random)
        elif kind == 12:
            steps = (_command(random) for _ in range(random.randrange(5)))
            yield passed_ms, b"EXEC", [[name, *args] for name, args in steps]
        elif kind == 13:
            words = [b"return redis.call('XADD', KEYS[1], '*', 'n', ARGV[1])", b"1"]
            yield passed_ms, b"EVAL", [*words, random.choice(KEYS), b"%d" % random.randrange(99)]
        elif kind == 14:
            yield passed_ms, b"COPY", [*random.sample(KEYS, 2), b"REPLACE"]
        else:
            key = random.choice(KEYS)
            yield passed_ms, *random.choice(((b"DEL", [key]), (b"PEXPIRE", [key, b"3000"]), (b"XLEN", [key])))
    yield from _large()


def _command(random: Random) -> tuple[bytes, list[Any]]:
    name = random.choice((*[b"XADD"] * 8, *[b"XREADGROUP"] * 6, *[b"XGROUP|CREATE"] * 3, *STREAMS))
    args = STREAMS[name](random)
    args[_KEY_AT.get(name, 0)] = random.choice(KEYS)
    return name, args


def _large() -> Iterator[tuple[int, bytes, list[Any]]]:
    for start in range(0, LARGE, 100):
        yield 1, b"EXEC", [[b"XADD", b"large", b"%d-1" % (start + n + 1), b"f", b"v"] for n in range(100)]
    for group in (b"crew", b"watch"):
        yield 1, b"XGROUP|CREATE", [b"large", group, b"0"]
        yield 1, b"XREADGROUP", [b"GROUP", group, b"ann", b"STREAMS", b"large", b">"]
    yield 1, b"XCLAIM", [b"large", b"watch", b"bob", b"0", b"3-1", b"2100-1"]
    yield 1, b"XDEL", [b"large", b"5-1", b"1500-1", b"2200-1"]
    yield 1, b"XGROUP|DELCONSUMER", [b"large", b"watch", b"ann"]
    yield 1, b"XGROUP|DESTROY", [b"large", b"crew"]
    yield 1, b"XTRIM", [b"large", b"MAXLEN", b"~", b"2000"]
    yield 1, b"XTRIM", [b"large", b"MAXLEN", b"300"]
    yield 1, b"XTRIM", [b"large", b"MINID", b"2000", b"ACKED"]
