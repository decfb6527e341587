"""Streams of the commands that the part in C has."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from engine.apply.machine import Record
from tests.engine.harness import NOW_MS

_KINDS: Final = [
    *(
        b"SET",
        b"SET PX",
        b"HSET",
        b"HMANY",
        b"HINCRBY",
        b"HDEL",
        b"INCR",
        b"LPUSH",
        b"RPUSH",
        b"LTRIM",
        b"SADD",
        b"SREM",
    ),
    *(b"ZADD", b"ZADD", b"ZADD", b"ZINCRBY", b"ZREM", b"PEXPIRE", b"DEL", b"ZPOPMIN"),
]


def _usual(random: Random) -> list[Any]:
    """A command to one of a few keys, its name first."""
    name = random.choice(_KINDS)
    key = name[:1] + b"%d" % random.randrange(8)
    number, word, later = b"%d" % random.randrange(50), b"w%d" % random.randrange(700), b"%d" % (10**9)
    few = b"w%d" % random.randrange(9)
    return {
        b"SET": [name, random.choice([key, b"I1", b"H1"]), number],
        b"SET PX": [b"SET", b"S1", word, b"PX", later],
        b"HSET": [name, key, word, number],
        b"HMANY": [b"HSET", key, few, number, b"w1", number],
        b"HINCRBY": [name, key, few, number],
        b"HDEL": [name, key, few],
        b"SREM": [name, key, few],
        b"ZADD": [
            *(name, b"Z1" if random.random() < 0.8 else key, number, word),  # beyond the size that is counted
            *((number, few) if random.random() < 0.3 else ()),
        ],
        b"ZINCRBY": [name, key, number, few],
        b"ZREM": [name, key, few],
        b"LTRIM": [name, key, b"0", b"5"],
        b"PEXPIRE": [name, random.choice([b"H1", b"L1", b"I2"]), later],
        b"INCR": [name, key],
        b"DEL": [name, key],
        b"ZPOPMIN": [name, b"Z2"],  # it leaves a hint, with which C leaves the set to Python
    }.get(name, [name, key, word])


def of_kinds(seed: int, count: int) -> list[Record]:
    """A long stream of usual commands to a few keys, with some unusual ones between them."""
    random = Random(seed)
    records: list[Record] = []
    for offset in range(count):
        name, *args = _usual(random)
        if random.random() < 0.2:
            name, args = b"EXEC", [_usual(random) for _ in range(3)]
        event_id = b"id%d" % random.randrange(2 * count) if random.random() < 0.3 else None
        records.append((offset, NOW_MS + offset // 7, name, args, 0, event_id, None))
    return records
