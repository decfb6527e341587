"""The measured streams of events, the same at every run.

    hset       HSET of one field, uniformly random, to 10,000 hashes of 20 fields, 40-byte values
    hset_cold  the same over 1,000,000 hashes that are on disk already: no metadata is in memory
    set        SET of 40 bytes to 100,000 keys
    incr       INCR of 10,000 counters
    zadd       ZADD of one member with a random score, to 1,000 sorted sets of 200 members
    lpush      LPUSH of 40 bytes to 1,000 lists
    flights    what the demo sends: HSET and PEXPIRE in an EXEC, INCR and LPUSH with idempotency keys, ZADD, SADD

The figures are those of the large size; `Size` has the small one too, with which the tests run all of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, Final, NamedTuple

from engine.commands.registry import keys_of
from ops.demo.flights import events, read_flights
from slotlog.events import encode
from slotlog.shared.slots import slot

SEED: Final = 20130101
START_MS: Final = 1_356_998_400_000  # 2013-01-01
VALUE_BYTES: Final = 40


class Event(NamedTuple):
    """One event of a workload; `args` of an EXEC are its commands, each `[name, argument…]`."""

    time_ms: int
    name: str
    args: list[Any]
    event_id: str | None = None

    def key(self) -> bytes:
        """The record's key: the slot of the (first) key."""
        name, *args = self.args[0] if self.name == "EXEC" else [self.name, *self.args]
        first, *_ = keys_of(name.encode(), [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args])
        return slot(first).to_bytes(2, "big")

    def value(self) -> bytes:
        """The record's value."""
        return encode(self.name, self.args, id=self.event_id)


@dataclass(frozen=True, slots=True)
class Size:
    """The parameters; each has a small value, for the tests, and a large one.

    Attributes:
        events: in a measured pass.
        pairs: how often engine and floor are run in turn.
        hashes, cold_hashes, keys, collections: how many there are in `hset` and `incr`, `hset_cold`, `set`, the others.
        big_fields, big_hashes: DEL of how many hashes with how many fields.
        popped: members that are popped from a sorted set twice as large.
    """

    events: int
    pairs: int
    hashes: int
    cold_hashes: int
    keys: int
    collections: int
    big_fields: int
    big_hashes: int
    popped: int


SMOKE: Final = Size(
    events=300,
    pairs=1,
    hashes=20,
    cold_hashes=500,
    keys=50,
    collections=10,
    big_fields=2_000,
    big_hashes=2,
    popped=1_000,
)
LARGE: Final = Size(
    events=200_000,
    pairs=5,
    hashes=10_000,
    cold_hashes=1_000_000,
    keys=100_000,
    collections=1_000,
    big_fields=1_000_000,
    big_hashes=5,
    popped=20_000,
)


def hset(size: Size, random: Random) -> Iterator[Event]:
    """See the module's first lines."""
    while True:
        name, field = random.randrange(size.hashes), random.randrange(20)
        yield Event(START_MS, "HSET", [b"hash:%07d" % name, b"field:%02d" % field, random.randbytes(VALUE_BYTES)])


def hset_cold(size: Size, random: Random) -> Iterator[Event]:
    """See the module's first lines. Fields 1 to 19 are new, field 0 is there (`cold_state`)."""
    while True:
        name, field = random.randrange(size.cold_hashes), random.randrange(20)
        yield Event(START_MS, "HSET", [b"hash:%07d" % name, b"field:%02d" % field, random.randbytes(VALUE_BYTES)])


def cold_state(size: Size, random: Random) -> Iterator[Event]:
    """What `hset_cold` finds: every hash with one field."""
    for name in range(size.cold_hashes):
        yield Event(START_MS, "HSET", [b"hash:%07d" % name, b"field:00", random.randbytes(VALUE_BYTES)])


def set_(size: Size, random: Random) -> Iterator[Event]:
    """See the module's first lines."""
    while True:
        yield Event(START_MS, "SET", [b"string:%06d" % random.randrange(size.keys), random.randbytes(VALUE_BYTES)])


def incr(size: Size, random: Random) -> Iterator[Event]:
    """See the module's first lines."""
    while True:
        yield Event(START_MS, "INCR", [b"counter:%05d" % random.randrange(size.hashes)])


def zadd(size: Size, random: Random) -> Iterator[Event]:
    """See the module's first lines."""
    while True:
        name, member = random.randrange(size.collections), random.randrange(200)
        yield Event(START_MS, "ZADD", [b"zset:%04d" % name, random.randrange(1_000_000), b"member:%03d" % member])


def lpush(size: Size, random: Random) -> Iterator[Event]:
    """See the module's first lines."""
    while True:
        yield Event(
            START_MS, "LPUSH", [b"list:%04d" % random.randrange(size.collections), random.randbytes(VALUE_BYTES)]
        )


def flights(size: Size, random: Random) -> Iterator[Event]:
    """See the module's first lines. At most 134,000 events."""
    for event in events(read_flights()):
        yield Event(event.time_ms, event.name, event.args, event.event_id)


WORKLOADS: Final[dict[str, Callable[[Size, Random], Iterator[Event]]]] = {
    "hset": hset,
    "hset_cold": hset_cold,
    "set": set_,
    "incr": incr,
    "zadd": zadd,
    "lpush": lpush,
    "flights": flights,
}


def before(name: str, size: Size) -> Iterator[Event]:
    """The events that lead to the state which the workload `name` begins with; none for an empty one."""
    return cold_state(size, Random(SEED)) if name == "hset_cold" else iter(())


def measured(name: str, size: Size) -> Iterator[Event]:
    """The events of the workload `name`."""
    return islice(WORKLOADS[name](size, Random(SEED)), size.events)
