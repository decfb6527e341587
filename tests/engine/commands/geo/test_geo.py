"""Members with positions beside the oracle's, in more places than the common random sequences know."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.errors import NO_SUCH_MEMBER
from engine.layouts.layout import Kind
from engine.store.memory import MemoryStore
from slotlog.shared.errors import CROSS_SLOT
from slotlog.shared.slots import partition_of, slot
from tests.consistency import problems
from tests.differential.wire import RESP2, wire
from tests.engine.harness import FAMILIES, FINGERPRINT, NOW_MS, apply, new_store, open_machine, send
from tests.engine.stored import is_of
from tests.layouts import home_of
from tests.real.oracle import Connection, ErrorReply

MEMBERS = [b"m%d" % n for n in range(40)]
UNITS = ("m", "KM", "ft", "mi")


class _CountingStore(MemoryStore):
    """A store in memory that counts the score records that scans give."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.scanned = 0

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records of the range, those of scores counted."""
        for record in super().scan(column_family, start, end, reverse=reverse):
            self.scanned += is_of(Kind.SCORES, column_family, start)
            yield record


def _in_words_of_redis(reply: Any) -> Any:
    """The oracle's reply as Redis 7.4 has it, which does not say who the member is that is not there."""
    if isinstance(reply, ErrorReply) and re.fullmatch(rb"ERR member .* does not exist", reply.text):
        return ErrorReply(NO_SUCH_MEMBER.encode())
    return reply


class _Sides:
    """An engine and an oracle that get the same commands."""

    def __init__(self, machine: Machine, oracle: Connection) -> None:
        self._machine = machine
        self._oracle = oracle

    def both(self, *words: str | bytes | float) -> tuple[Any, Any]:
        """Both replies."""
        name, *args = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        offset = self._machine.next_offset
        outcome = apply(self._machine, (offset, NOW_MS, name, args, 0, None, None)).outcomes[offset]
        self._machine.commit(FINGERPRINT)
        return wire(outcome, RESP2), self._oracle.call(name, *args)

    def same(self, *words: str | bytes | float) -> None:
        """Refuse different replies."""
        ours, theirs = self.both(*words)
        assert (words, _in_words_of_redis(theirs)) == (words, ours)


@pytest.fixture
def sides(oracle: Connection) -> _Sides:
    """Both empty."""
    return _Sides(open_machine(new_store()), oracle)


def _longitude(random: Random) -> float:
    return random.choice((random.uniform(-180, 180), random.uniform(10, 20), 180.0, -180.0, 179.9, -179.95, 0.0))


def _latitude(random: Random) -> float:
    return random.choice((random.uniform(-85, 85), random.uniform(30, 45), random.uniform(66, 85), 85.05112878, 80.1))


def _length(random: Random) -> float:
    return random.choice((0, 1, 100, 500.5, 5000, 1e5, 3e6, 2e7, random.expovariate(1e-4), random.uniform(0, 5000)))


def _fill(sides: _Sides, random: Random, number: int) -> None:
    """No two members at one place, so that the order of a search is not open."""
    for _ in range(number):
        longitude, latitude = _longitude(random) + random.random() / 99, _latitude(random) - random.random() / 99
        sides.same(
            "GEOADD",
            "k",
            *random.choice(((), ("NX",), ("XX", "CH"))),
            longitude % 180,
            latitude,
            random.choice(MEMBERS),
        )


def _middle(random: Random) -> tuple[Any, ...]:
    if random.randrange(2):
        return "FROMMEMBER", random.choice(MEMBERS)
    return "FROMLONLAT", _longitude(random), _latitude(random)


def _shape(random: Random) -> tuple[Any, ...]:
    if random.randrange(2):
        return "BYRADIUS", _length(random), random.choice(UNITS)
    return "BYBOX", _length(random), _length(random), random.choice(UNITS)


def _polygon(random: Random) -> tuple[Any, ...]:
    longitude, latitude = random.uniform(-170, 170), random.uniform(-70, 70)
    size, corners = random.choice((0.5, 5, 9)), random.randint(3, 6)
    words = [centre + random.uniform(-size, size) for _ in range(corners) for centre in (longitude, latitude)]
    return ("BYPOLYGON", corners, *words)


def _options(random: Random, *, shown: bool = True) -> list[Any]:
    options: list[Any] = [word for word in ("WITHDIST", "WITHCOORD", "WITHHASH") if shown and not random.randrange(3)]
    options += random.choice(((), (), ("ASC",), ("DESC",)))
    options += random.choice(((), (), ("COUNT", random.randint(1, 9)), ("COUNT", random.randint(1, 9), "ANY")))
    return options


@pytest.mark.parametrize("seed", range(6))
def test_searches_find_what_the_oracle_finds(sides: _Sides, seed: int) -> None:
    """The same members in the same order, whatever the shape, over the ends of the map and near the poles."""
    random = Random(seed)
    _fill(sides, random, random.choice((4, 60, 120)))
    for _ in range(60):
        where = random.choice(((*_middle(random), *_shape(random)), _polygon(random)))
        sides.same("GEOSEARCH", "k", *where, *_options(random))
        sides.same("GEOSEARCHSTORE", "d", "k", *where, *_options(random, shown=False))
        sides.same("ZRANGE", "d", 0, -1, "WITHSCORES")
        circle = _length(random), random.choice(UNITS)
        sides.same("GEORADIUS", "k", _longitude(random), _latitude(random), *circle, *_options(random))
        sides.same("GEORADIUSBYMEMBER", "k", random.choice(MEMBERS), *circle, *_options(random))


@pytest.mark.parametrize("seed", range(2))
def test_positions_and_distances_are_the_oracles(sides: _Sides, seed: int) -> None:
    """In all their digits, those of members whose score is no position included."""
    random = Random(seed)
    _fill(sides, random, 30)
    for score in (
        "-1",
        "0.5",
        "1e300",
        "-inf",
        "inf",
        "9007199254740993",
        "18446744073709551616",
        "-9223372036854775808",
    ):
        sides.same("ZADD", "k", score, random.choice(MEMBERS))
    for _ in range(200):
        one, other = random.choice(MEMBERS), random.choice(MEMBERS)
        sides.same("GEOPOS", "k", one, other)
        sides.same("GEOHASH", "k", one, other)
        sides.same("GEODIST", "k", one, other, random.choice(UNITS))


def test_stored_distances_are_nearly_the_oracles(sides: _Sides) -> None:
    """Less than a millionth of a millionth away: the oracle has them from the C library, in all digits."""
    random = Random(7)
    _fill(sides, random, 60)
    for _ in range(40):
        unit = random.choice(UNITS)
        sides.same("GEOSEARCHSTORE", "d", "k", *_middle(random), "BYRADIUS", 3000, "KM", "STOREDIST")
        sides.same("GEORADIUS", "k", 15, 37, 1e6, unit, "STOREDIST", "e")
        for name in ("d", "e"):
            ours, theirs = (
                dict(zip(side[::2], side[1::2], strict=True))
                for side in sides.both("ZRANGE", name, 0, -1, "WITHSCORES")
            )

            assert ours.keys() == theirs.keys()
            assert all(math.isclose(float(ours[member]), float(theirs[member]), rel_tol=1e-12) for member in ours)


REFUSED = """
GEOADD k|GEOADD k 1 1|GEOADD k nx xx 1 1 a|GEOADD k NX CH CH|GEOADD k 1 1 a 2|GEOADD k 1 1 a 2 x b|GEOADD k 181 1 a
GEOADD k 1 86 a|GEOADD k 1e300 1 a|GEOADD k nan 1 a|GEOADD k gt 1 a|GEOADD k ch gt 1 1 a|GEOADD s 1 1 a|GEOADD s x 1 a
GEODIST k p q xx|GEODIST s p q xx|GEODIST k p q km x|GEODIST s p q|GEOPOS s p|GEOHASH s p|GEODIST none p q xx
GEOSEARCH k ASC DESC WITHDIST WITHCOORD WITHHASH|GEOSEARCH k FROMLONLAT 1 2 ASC ASC ASC
GEOSEARCH k FROMMEMBER nope BYRADIUS 1 km|GEOSEARCH k FROMMEMBER p FROMLONLAT 1 2 BYRADIUS 1 km
GEOSEARCH k FROMMEMBER p BYRADIUS 1 km ANY|GEOSEARCH k FROMMEMBER p BYRADIUS 1 km COUNT 0
GEOSEARCH k FROMMEMBER p BYRADIUS 1 km COUNT x|GEOSEARCH k FROMMEMBER p BYRADIUS 1 km COUNT
GEOSEARCH k FROMMEMBER p BYRADIUS -1 km|GEOSEARCH k FROMMEMBER p BYRADIUS x km|GEOSEARCH k FROMMEMBER p BYRADIUS 1 x
GEOSEARCH k FROMMEMBER p BYBOX x 1 km|GEOSEARCH k FROMMEMBER p BYBOX 1 x km|GEOSEARCH k FROMMEMBER p BYBOX 1 -1 km
GEOSEARCH k FROMMEMBER p BYBOX 1 1 kk|GEOSEARCH k FROMLONLAT 1 2 BYRADIUS 1 km BYBOX 1 2 km
GEOSEARCH k FROMLONLAT 1 2 BYPOLYGON 3 1 1 2 2 3 1|GEOSEARCH k FROMMEMBER p BYPOLYGON 3 1 1 2 2 3 1
GEOSEARCH k BYPOLYGON 3 1 1 2 2 3 1 FROMMEMBER p|GEOSEARCH k BYPOLYGON 3 1 1 2 2 3 1 BYRADIUS 1 km
GEOSEARCH k BYRADIUS 1 km BYPOLYGON 3 1 1 2 2 3 1|GEOSEARCH k BYPOLYGON 2 1 1 2 2 3 1
GEOSEARCH k BYPOLYGON 4 1 1 2 2 3 1
GEOSEARCH k BYPOLYGON x 1 1 2 2 3 1|GEOSEARCH k BYPOLYGON 2147483648 1 1 2 2 3 1|GEOSEARCH k BYPOLYGON -1 1 1 2 2
GEOSEARCH k BYPOLYGON 3 1 1 2 2 3 x|GEOSEARCH k BYPOLYGON 3 1 1 2 2 3 99|GEOSEARCH none BYPOLYGON 3 1 1 2 2 3 99
GEOSEARCH s FROMMEMBER p BYRADIUS 1 km|GEOSEARCH k STORE x FROMMEMBER p BYRADIUS 1 km|GEOSEARCH k FROMMEMBER p q q q q
GEOSEARCH k STOREDIST FROMMEMBER p BYRADIUS 1 km|GEOSEARCHSTORE d k FROMMEMBER p BYRADIUS 1 km WITHDIST
GEOSEARCHSTORE d k BYRADIUS 1 km ASC ASC|GEOSEARCHSTORE d k FROMMEMBER p ASC ASC ASC|GEOSEARCHSTORE d s a b c d e
GEORADIUS k 1 2 3 km STORE|GEORADIUS k 1 2 3 km WITHDIST STORE x|GEORADIUS_RO k 1 2 3 km STORE x|GEORADIUS k 1 86 3 km
GEORADIUS k 1 2 x km|GEORADIUS k 1 2 -3 km|GEORADIUS k 1 2 3 xm|GEORADIUS s 1 2 x km|GEORADIUS none 1 2 x km
GEORADIUSBYMEMBER k nope 1 km|GEORADIUSBYMEMBER none p x xm FOO|GEORADIUSBYMEMBER_RO k p 1 km STOREDIST x
"""


@pytest.mark.parametrize("command", REFUSED.replace("\n", "|").strip("|").split("|"))
def test_refusals_are_the_oracles(oracle: Connection, command: str) -> None:
    """The first thing that is wrong decides about the text, and nothing changes."""
    machine = open_machine(new_store())
    send(machine, "GEOADD k 13 38 p 15 37 q", "SET s x")
    oracle.call("GEOADD", "k", 13, 38, "p", 15, 37, "q")
    oracle.call("SET", "s", "x")
    (outcome,) = send(machine, command)
    theirs = _in_words_of_redis(oracle.call(*command.split()))

    assert theirs.text.decode() == (outcome if isinstance(outcome, str) else outcome.message)


@pytest.mark.parametrize(
    "command",
    [
        "GEOSEARCHSTORE k k FROMMEMBER p BYRADIUS 1 KM",
        "GEORADIUSBYMEMBER k p 1 KM STORE k",
        "GEORADIUS k 13 38 1 KM STOREDIST x STORE k",
    ],
)
def test_the_source_may_be_the_destination(command: str) -> None:
    """The search is over before its result takes the place."""
    store = new_store()
    machine = open_machine(store)
    send(machine, "GEOADD k 13 38 p 15 37 q")

    assert [1] == send(machine, command)
    assert [b"p"] == machine.read(b"ZRANGE", [b"k", b"0", b"-1"])
    assert [] == problems(store)


@pytest.mark.parametrize("source", ["k", "none"])
def test_a_search_that_finds_nothing_deletes_the_destination(source: str) -> None:
    """Whatever type it had."""
    machine = open_machine(new_store())
    send(machine, "GEOADD k 13 38 p", "SET d x")

    assert [0] == send(machine, f"GEOSEARCHSTORE d {source} FROMLONLAT 100 10 BYRADIUS 1 KM")
    assert 0 == machine.read(b"EXISTS", [b"d"])


def test_the_destination_in_an_option_is_a_key() -> None:
    """On a topic of several partitions it has to be in the slot of the source."""
    partition = partition_of(slot(b"k"), 4)
    machine = open_machine(new_store(), home_of("topic", partition, 4))
    send(machine, "GEOADD k 13 38 p")

    assert [CROSS_SLOT, 1] == send(
        machine, "GEORADIUS k 13 38 1 KM STORE d", "GEORADIUSBYMEMBER k p 1 KM STORE d STORE {k}d"
    )


def test_a_search_reads_the_cells_around_it_alone() -> None:
    """Of a thousand members far and wide it looks at a few."""
    store = _CountingStore()
    machine = open_machine(store, key_cache_bytes=0)
    random = Random(8)
    send(machine, *(f"GEOADD k {random.uniform(-180, 180)} {random.uniform(-80, 80)} m{n}" for n in range(1000)))
    send(machine, "GEOADD k 13.3 38.1 p 13.4 38.2 q")
    store.scanned = 0

    assert [b"p", b"q"] == machine.read(b"GEOSEARCH", [b"k", b"FROMLONLAT", b"13", b"38", b"BYRADIUS", b"100", b"KM"])
    assert store.scanned < 10


def test_equally_far_members_keep_their_order() -> None:
    """ASC and DESC give those at one place in the order of their bytes, as a search without them does."""
    machine = open_machine(new_store())
    send(machine, "GEOADD k 13 38 c 13 38 a 13 38 b 14 38 d")
    search = [b"k", b"FROMLONLAT", b"12", b"38", b"BYRADIUS", b"500", b"KM"]

    assert [b"a", b"b", b"c", b"d"] == machine.read(b"GEOSEARCH", [*search, b"ASC"])
    assert [b"d", b"a", b"b", b"c"] == machine.read(b"GEOSEARCH", [*search, b"DESC"])
