"""Events of scripts for the log of the corpus that is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha1
from random import Random
from typing import Any, Final

SOURCES: Final = (
    b"return redis.call('SET', KEYS[1], ARGV[1])",
    b"local n = redis.call('INCRBY', KEYS[1], ARGV[1]) if n > 20 then redis.call('DEL', KEYS[1]) end return n",
    b"for n = 1, tonumber(ARGV[1]) do redis.call('RPUSH', KEYS[1], n * 1.5) end return redis.call('LLEN', KEYS[1])",
    b"redis.call('ZADD', KEYS[1], ARGV[1], 'm' .. ARGV[1]) return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
    b"redis.call('SADD', KEYS[1], unpack(ARGV)) return redis.call('SPOP', KEYS[1])",
    b"redis.call('SET', KEYS[1], 'half') return redis.call('LPUSH', KEYS[1], 'x')",
    b"redis.call('SELECT', 3) return redis.call('APPEND', 'elsewhere', ARGV[1])",
    b"#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], ARGV[1])",
    b"local t = redis.call('TIME') redis.call('HSET', KEYS[1], 'at', t[1], 'value', math.random(1000)) return t",
    b"return (",
)
CALLS: Final = 900


def script_events(random: Random) -> Iterator[tuple[int, bytes, list[Any]]]:
    """Scripts that write, fail half way, draw, select a database, lack rights, or stand in transactions.

    Each is (ms that have passed, command, arguments).
    """
    for number in range(CALLS):
        passed_ms = random.randrange(5)
        source = random.choice(SOURCES)
        key, value = b"%d" % random.randrange(12), b"%d" % random.randrange(1, 9)
        words = [source, b"1", key, value]
        kind = random.randrange(12)
        if kind < 6:
            yield passed_ms, b"EVAL", words
        elif kind < 8:
            yield passed_ms, b"EVALSHA", [sha1(source, usedforsecurity=False).hexdigest().encode(), *words[1:]]
        elif kind == 8:
            yield passed_ms, b"EXEC", [[b"EVAL", *words], [b"SCRIPT|LOAD", source], [b"DEL", key]]
        elif kind == 9:
            yield passed_ms, b"RUNAS", [b"ann", b"-rpush,spop ~1* ~2 ~3", b"EVAL", *words]
        else:
            yield passed_ms, *random.choice(((b"SCRIPT|LOAD", [source]), (b"DEL", [key]), (b"EVAL_RO", words)))
        if number in {200, 400, 600}:
            yield 0, b"SCRIPT|FLUSH", []


FULL_SOURCES: Final = (
    b"return redis.pcall('SET', KEYS[1], ARGV[1])",
    b"redis.call('DEL', KEYS[2]) return redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[1])",
    b"redis.pcall('APPEND', KEYS[1], 'x') redis.call('LPOP', KEYS[2]) return redis.call('LLEN', KEYS[2])",
    b"return redis.call('PEXPIRE', KEYS[1], 40 * ARGV[1])",
    b"local n = redis.call('EXISTS', KEYS[2]) if n == 1 then redis.call('RENAME', KEYS[2], KEYS[1]) end return n",
    b"return redis.call('INCRBY', KEYS[1], ARGV[1])",
)


def full_events(random: Random) -> Iterator[tuple[int, bytes, list[Any]]]:
    """Scripts that came above `maxmemory`: they write until a command needs memory, unless one has freed some before.

    Each is as of `script_events`.
    """
    for _ in range(300):
        passed_ms, value = random.randrange(5), b"%d" % random.randrange(1, 9)
        keys = [b"{q}%d" % random.randrange(6) for _ in range(2)]
        source, rights = random.choice(FULL_SOURCES), random.choice((b"- ~*", b"-rpush,rename ~{q}1* ~{q}2 ~{q}3"))
        kind = random.randrange(6)
        words = [b"ann", rights, b"EVAL", source, b"2", *keys, value]
        if kind < 3:
            yield passed_ms, b"RUNAS_OOM", words
        elif kind == 3:
            yield passed_ms, b"EXEC", [[b"RUNAS_OOM", *words], [b"RPUSH", keys[0], value]]
        else:
            yield passed_ms, *random.choice(((b"RPUSH", [keys[1], value]), (b"SET", [keys[1], value])))
