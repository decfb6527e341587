"""Events of functions for the log of the corpus that is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from engine.values.rdb.functions import dump

BODIES: Final = (
    b"return redis.call('SET', keys[1], args[1])",
    b"local n = redis.call('INCRBY', keys[1], args[1]) if n > 20 then redis.call('DEL', keys[1]) end return n",
    b"for n = 1, tonumber(args[1]) do redis.call('RPUSH', keys[1], n * 1.5) end return redis.call('LLEN', keys[1])",
    b"redis.call('SADD', keys[1], unpack(args)) return redis.call('SPOP', keys[1])",
    b"redis.call('SET', keys[1], 'half') return redis.call('LPUSH', keys[1], 'x')",
    b"calls = calls + 1 redis.call('HSET', keys[1], 'calls', calls, 'drawn', math.random(1000)) return calls",
    b"return redis.call('GET', keys[1])",
    b"return shared(redis.call('INCR', keys[1]))",
    b"return nothing",
)
LIBRARIES: Final = (b"a", b"b", b"c")
NAMES: Final = (*(name + b"_" + library for name in (b"one", b"Two") for library in LIBRARIES), b"of_all")
FLAGS: Final = (b"", b"", b"'no-writes'", b"'allow-oom'", b"'allow-cross-slot-keys', 'allow-stale'")
HEAD: Final = b"local calls = 0\nlocal function shared(n) return 2 * n end\n"
BROKEN: Final = (b"return (", b"x = 1", b"redis.call('PING')", b"redis.register_function('a b', redis.log)", b"local n")
CALLS: Final = 900


def function_events(random: Random) -> Iterator[tuple[int, bytes, list[Any]]]:
    """Libraries that come, collide, fail and go, and calls of their functions, alone, with rights, in transactions.

    Each is (ms that have passed, command, arguments).
    """
    for number in range(CALLS):
        passed_ms = random.randrange(5)
        key, value = b"%d" % random.randrange(12), b"%d" % random.randrange(1, 9)
        call = [random.choice((random.choice(NAMES), b"two_a")), b"1", key, value]
        kind = random.randrange(16)
        if kind < 7:
            yield passed_ms, b"FCALL", call
        elif kind < 10:
            yield passed_ms, b"FUNCTION|LOAD", [*random.choice(([], *[[b"REPLACE"]] * 4)), _code(random)]
        elif kind == 10:
            yield passed_ms, b"RUNAS", [b"ann", b"-rpush,spop ~1* ~2 ~3", b"FCALL", *call]
        elif kind == 11:
            yield passed_ms, b"EXEC", [[b"FCALL", *call], [b"FUNCTION|LOAD", b"REPLACE", _code(random)], [b"DEL", key]]
        elif kind == 12:
            payload, policy = dump(_code(random) for _ in range(2)), random.choice((b"APPEND", b"REPLACE", b"FLUSH"))
            yield passed_ms, b"FUNCTION|RESTORE", [payload, policy]
        elif kind == 13:
            yield passed_ms, b"FUNCTION|DELETE", [random.choice(LIBRARIES)]
        else:
            reads: tuple[tuple[bytes, list[Any]], ...] = (
                (b"FCALL_RO", call),
                (b"FUNCTION|LIST", [b"WITHCODE"]),
                (b"FUNCTION|DUMP", []),
                (b"DEL", [key]),
            )
            yield passed_ms, *random.choice(reads)
        if number in {200, 400, 600}:
            yield 0, b"FUNCTION|FLUSH", []


def _code(random: Random) -> bytes:
    library = random.choice(LIBRARIES)
    if random.randrange(12) == 0:
        return b"#!lua name=%b\n%b" % (library, random.choice(BROKEN))
    names = [name for name in NAMES if name.endswith(library) or random.randrange(12) == 0]
    return b"#!lua name=%b\n%b%b" % (library, HEAD, b"\n".join(_function(random, name) for name in names))


def _function(random: Random, name: bytes) -> bytes:
    described = random.choice((b"", b"description = 'what it does', "))
    body, flags = random.choice(BODIES), random.choice(FLAGS)
    return b"redis.register_function{function_name = '%b', %bflags = {%b}, callback = function(keys, args) %b end}" % (
        name,
        described,
        flags,
        body,
    )
