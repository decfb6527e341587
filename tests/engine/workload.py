"""Random records for the engine's tests."""

from __future__ import annotations

from random import Random

from engine.apply.machine import Record
from engine.limits import DEDUP_WINDOW_MS
from tests.engine.harness import NOW_MS

KEYS = [b"a", b"b", b"c", b"{tag}d", b"", b"\x00\xff"]
FIELDS = [b"f", b"g", b"h", b"", b"\xff"]
NUMBERS = [b"1", b"-1", b"2.5", b"0", b"-0", b"inf", b"9223372036854775807", b"1e3", b"x"]
COMMANDS = [
    *(b"SET K V", b"SET K V PX T", b"SET K V KEEPTTL", b"SET K V NX GET", b"GETSET K V", b"GETDEL K", b"GETEX K PX T"),
    *(b"APPEND K V", b"SETRANGE K 3 V", b"INCR K", b"INCRBYFLOAT K N", b"MSET K V K V", b"MSETNX K V K V", b"GET K"),
    *(b"SETRANGE K 131072 V", b"SETRANGE K 135168 V", b"SETBIT K 1048576 1", b"BITFIELD K SET i9 32763 N"),
    *(b"BITOP XOR K K K", b"BITOP OR K K K", b"SETRANGE K 4095 V"),
    *(b"HSET K F V", b"HSET K F V F V F V", b"HDEL K F F", b"HINCRBY K F N", b"HINCRBYFLOAT K F N", b"HGETALL K"),
    *(b"HPEXPIRE K T FIELDS 2 F F", b"HPEXPIRE K T FIELDS 1 F", b"HPEXPIRE K T LT FIELDS 1 F", b"HLEN K"),
    *(b"HSETEX K PX T FIELDS 1 F V", b"HSETEX K KEEPTTL FIELDS 1 F V", b"HGETEX K PX T FIELDS 1 F"),
    *(b"HSETEX K PX T FIELDS 2 F V F V", b"HGETDEL K FIELDS 1 F", b"HPTTL K FIELDS 2 F F", b"HPERSIST K FIELDS 1 F"),
    *(b"HRANDFIELD K 3 WITHVALUES", b"HRANDFIELD K -2"),
    *(b"LPUSH K V V", b"RPUSH K V V V", b"LPOP K", b"RPOP K 2", b"LSET K -1 V", b"LTRIM K 1 -2", b"RPUSHX K V"),
    *(b"SADD K F F", b"SREM K F F", b"SPOP K", b"SPOP K 2", b"SMEMBERS K"),
    *(b"ZADD K N F N F", b"ZADD K GT CH N F", b"ZINCRBY K N F", b"ZREM K F F", b"ZPOPMIN K", b"ZPOPMAX K 2"),
    *(b"SUNIONSTORE K K K", b"SINTERSTORE K K K", b"SDIFFSTORE K K K", b"RENAME K K", b"COPY K K REPLACE", b"MOVE K 1"),
    *(b"ZUNIONSTORE K 2 K K WEIGHTS N N", b"ZINTERSTORE K 2 K K", b"ZDIFFSTORE K 2 K K", b"COPY K K DB 2 REPLACE"),
    *(b"DEL K", b"UNLINK K K", b"PEXPIRE K T", b"PEXPIRE K T NX", b"EXPIRE K -1", b"PERSIST K", b"TYPE K", b"TICK"),
]
"""Commands with places for a key, a value, a field, a number and a time to live."""

RARE = [b"FLUSHDB", b"FLUSHALL", b"NOSUCH K", b"GET", b"DBSIZE", b"SET K V SYNTAX"]


def random_records(seed: int, count: int, *, flushes: bool = True) -> list[Record]:
    """`count` records of all kinds: transactions, ids sent again, times that jump, and what cannot be applied."""
    random = Random(seed)
    rare = [line for line in RARE if flushes or not line.startswith(b"FLUSH")]
    records: list[Record] = []
    offset, at_ms = 0, NOW_MS
    for _ in range(count):
        offset += random.choice([1, 1, 1, 2])
        at_ms += random.choice([0, 0, 1, 3, 20, -2]) if random.random() < 0.99 else DEDUP_WINDOW_MS // 2
        event_id = b"id%d" % random.randrange(30) if random.random() < 0.2 else None
        time_ms = at_ms if random.random() < 0.99 else -1
        name, args = b"EXEC", [_command(random, rare) for _ in range(random.randrange(4))]
        if random.random() < 0.9:
            name, *args = _command(random, rare)  # type: ignore[assignment] # the arguments of one command
        records.append((offset, time_ms, name, args, random.choice([0, 0, 0, 1, 2]), event_id, None))
    return records


def _command(random: Random, rare: list[bytes]) -> list[bytes]:
    words = random.choice(COMMANDS if random.random() < 0.97 else rare).split(b" ")
    places = {
        b"K": KEYS,
        b"F": FIELDS,
        b"N": NUMBERS,
        b"V": [b"", b"v", b"7", b"x" * 60, b"\xff\x00"],
        b"T": [b"1", b"5", b"40", b"100000"],
    }
    return [words[0], *(random.choice(places[word]) if word in places else word for word in words[1:])]
