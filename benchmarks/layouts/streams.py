"""The streams of events that layouts are measured with, and what is read from the states that they make.

flights   what the demo sends: HSET and PEXPIRE in an EXEC, INCR and LPUSH with idempotency keys, ZADD, SADD
hashes    HSET of one field with 20 bytes, to hashes of 8 fields, each field written twice on average
lists     RPUSH of 20 bytes, to lists of 8 elements on average
zsets     ZADD of one member, to sorted sets of 8 members, each member written twice on average
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Final, NamedTuple

from benchmarks.applying.workloads import SEED, START_MS, Event
from engine.apply.machine import Record
from engine.model import HASH, LIST, SET, STRING, ZSET
from ops.demo.flights import events, read_flights
from slotlog.events import decode

_ELEMENTS: Final = 8
_VALUE_BYTES: Final = 20


class Command(NamedTuple):
    """A read: its name, and its arguments."""

    name: bytes
    args: list[bytes]


_READS: Final[dict[int, tuple[bytes, ...]]] = {
    STRING: (b"GET",),
    HASH: (b"HGETALL",),
    LIST: (b"LRANGE", b"0", b"-1"),
    SET: (b"SMEMBERS",),
    ZSET: (b"ZRANGE", b"0", b"-1", b"WITHSCORES"),
}
_COUNTS: Final = {STRING: b"STRLEN", HASH: b"HLEN", LIST: b"LLEN", SET: b"SCARD", ZSET: b"ZCARD"}


def read_of(name: bytes, type_code: int) -> Command:
    """The command that reads all of a key."""
    command, *options = _READS[type_code]
    return Command(command, [name, *options])


def count_of(name: bytes, type_code: int) -> Command:
    """The command that counts its elements."""
    return Command(_COUNTS[type_code], [name])


def _hashes(count: int) -> Iterator[Event]:
    random, keys = Random(SEED), max(1, count // (2 * _ELEMENTS))
    while True:
        name, field = random.randrange(keys), random.randrange(_ELEMENTS)
        yield Event(START_MS, "HSET", [b"hash:%07d" % name, b"field:%d" % field, random.randbytes(_VALUE_BYTES)])


def _lists(count: int) -> Iterator[Event]:
    random, keys = Random(SEED), max(1, count // _ELEMENTS)
    while True:
        yield Event(START_MS, "RPUSH", [b"list:%07d" % random.randrange(keys), random.randbytes(_VALUE_BYTES)])


def _zsets(count: int) -> Iterator[Event]:
    random, keys = Random(SEED), max(1, count // (2 * _ELEMENTS))
    while True:
        name, member = random.randrange(keys), random.randrange(_ELEMENTS)
        yield Event(START_MS, "ZADD", [b"zset:%07d" % name, random.randrange(1_000_000), b"member:%d" % member])


def _flights(count: int) -> Iterator[Event]:
    for event in events(read_flights()):
        yield Event(event.time_ms, event.name, event.args, event.event_id)


STREAMS: Final[dict[str, Callable[[int], Iterator[Event]]]] = {
    "flights": _flights,
    "hashes": _hashes,
    "lists": _lists,
    "zsets": _zsets,
}
"""Each with the number of events that will be taken; of flights there are at most 134,000."""


def records_of(stream: str, count: int) -> list[Record]:
    """The first events of the stream, decoded."""
    found = islice(STREAMS[stream](count), count)
    return [decode(offset, event.time_ms, event.value()) for offset, event in enumerate(found)]
