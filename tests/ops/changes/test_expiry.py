"""Expired keys on the change feed, and copies of the data that are made of the feed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from engine.apply.machine import Machine, Record
from engine.errors import PartitionStoppedError, StoreBusyError
from engine.store.memory import MemoryStore
from engine.store.store import GRAVEYARD_CF
from ops.changes import watching
from ops.changes.change import Change, document
from ops.changes.watching import Watching
from ops.past.history import value_of
from slotlog.events import decode
from tests.engine.harness import WatchedStore
from tests.layouts import column_families
from tests.ops.past.logs import HOME, START_MS, Line, entry

KEYS = [b"k%d" % number for number in range(8)]
DATABASES = range(3)


def records(lines: Sequence[Line], db: int = 0) -> list[Record]:
    """The events of a log."""
    return [decode(at, START_MS + line[0], entry(line, db=db).value) for at, line in enumerate(lines)]


class Feed:
    """A feed of a partition, from an event on.

    Attributes:
        told: its changes.
        machine, store: of the state that it builds.
    """

    def __init__(self, events: Sequence[Record], begin: int = 0) -> None:
        self.store = store = MemoryStore(column_families())
        self.machine = Machine(store, HOME)
        self.told: list[Change] = []
        if begin:
            self.machine.apply(events[:begin], 0)
            self.machine.commit(None)
        self._watching = Watching(0, 1000, self.told.append)
        self._watching.begin(self.machine, store)
        while left := [each for each in events if each[0] >= self.machine.next_offset]:
            self._watching.step(self.machine, left)

    def brief(self) -> list[tuple[int, int, bytes | None, bool]]:
        """Offset, number, key, and whether it is time's doing."""
        return [(each.offset, each.number, each.key, each.expired) for each in self.told]


def test_a_death_is_told_before_the_event_that_brings_the_time() -> None:
    """At its offset, once, in the order of the deaths; a TICK does so, too, and what is set anew dies anew."""
    lines: list[Line] = [
        (0, "SET", ["late", "1", "PX", "30"]),
        (0, "SET", ["soon", "1", "PX", "10"]),
        (9, "SET", ["other", "1"]),
        (40, "SET", ["soon", "2", "PX", "10"]),
        (41, "LPUSH", ["late", "x"]),
        (90, "TICK", []),
        (99, "TICK", []),
    ]
    feed = Feed(records(lines))

    expected = [
        *[(0, 0, b"late", False), (1, 0, b"soon", False), (2, 0, b"other", False)],
        *[(3, 0, b"soon", True), (3, 1, b"late", True), (3, 2, b"soon", False)],
        *[(4, 0, b"late", False), (5, 0, b"soon", True)],
    ]
    assert expected == feed.brief()
    assert {None} == {document(each, 1000)["after"] for each in feed.told if each.expired}
    assert {()} == {each.commands for each in feed.told if each.expired}


def test_fields_that_expire_are_told() -> None:
    """A hash that loses fields is told as it is then, and as gone with its last one."""
    lines: list[Line] = [
        (0, "HSET", ["h", "a", "1", "b", "2", "c", "3"]),
        (0, "HPEXPIRE", ["h", "10", "FIELDS", "2", "a", "b"]),
        (0, "HPEXPIRE", ["h", "20", "FIELDS", "1", "c"]),
        (10, "GET", ["x"]),
        (20, "GET", ["x"]),
    ]
    expired = [document(each, 1000) for each in Feed(records(lines)).told if each.expired]

    assert [(3, [["c", "3"]]), (4, None)] == [
        (each["offset"], each["after"] and each["after"]["value"]) for each in expired
    ]


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_many_that_die_at_once_are_told_in_parts(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is told at once and swept at once, it is the same, numbers included; a large hash is told once."""
    monkeypatch.setattr(watching, "_TOLD_AT_ONCE", at_once)
    monkeypatch.setattr(watching, "_SWEPT_KEYS_MAX", min(at_once, 10))
    fields = [f"f{number}" for number in range(30)]
    lines: list[Line] = [
        (0, "HSET", ["h", *(part for field in fields for part in (field, "v")), "stays", "v"]),
        (0, "HPEXPIRE", ["h", "5", "FIELDS", "30", *fields]),
        *((0, "SET", [f"k{number:02}", "v", "PX", "5"]) for number in range(25)),
        (9, "INCR", ["n"]),
    ]
    last = [each for each in Feed(records(lines)).brief() if each[0] == 27]

    assert list(range(27)) == [number for _, number, _, _ in last]
    assert [b"h", *(b"k%02d" % number for number in range(25))] == sorted(key for _, _, key, by in last if key and by)
    assert (27, 26, b"n", False) == last[-1]


def random_lines(random: Random, count: int) -> Iterator[tuple[Line, int]]:
    """Writes with short times to live, and what makes them harder: copies, swaps, flushes, transactions."""
    after_ms = 0

    def key() -> bytes:
        return random.choice(KEYS)

    def ttl() -> str:
        return str(random.randrange(1, 40))

    def write() -> tuple[str, list[Any]]:
        field = random.choice("abc")
        writes: list[tuple[str, list[Any]]] = [
            ("SET", [key(), "v", "PX", ttl()]),
            ("SET", [key(), random.choice("12")]),
            ("APPEND", [key(), "x"]),
            ("PEXPIRE", [key(), ttl()]),
            ("PERSIST", [key()]),
            ("GETEX", [key(), "PX", ttl()]),
            ("HSET", [key(), field, "1", "z", "2"]),
            ("HPEXPIRE", [key(), ttl(), "FIELDS", "1", field]),
            ("HPEXPIRE", [key(), ttl(), "FIELDS", "4", "a", "b", "c", "z"]),
            ("HSETEX", [key(), "PX", ttl(), "FIELDS", "1", field, "9"]),
            ("HDEL", [key(), field]),
            ("RPUSH", [key(), "x"]),
            ("SADD", [key(), field]),
            ("RENAME", [key(), key()]),
            ("COPY", [key(), key(), "REPLACE"]),
            ("COPY", [key(), key(), "DB", str(random.choice(DATABASES)), "REPLACE"]),
            ("MOVE", [key(), str(random.choice(DATABASES))]),
            ("DEL", [key()]),
            ("PEXPIREAT", [key(), "5"]),
        ]
        return random.choice(writes)

    rare: list[tuple[str, list[Any]]] = [("FLUSHDB", []), ("FLUSHALL", []), ("SWAPDB", ["0", "1"])]
    for _ in range(count):
        after_ms += random.choice([0, 0, 1, 5, 30])
        name, args = write()
        choice = random.randrange(30)
        if choice == 0:
            name, args = random.choice([*rare, ("TICK", [])])
        elif choice == 1:
            now_ms = START_MS + after_ms
            name, args = "SETCLOCK", [str(now_ms), str(now_ms - 20)]
            after_ms -= 20
        elif choice < 5:
            some = [random.choice([*rare, *(write() for _ in range(8)), ("SELECT", ["2"])]) for _ in range(4)]
            name, args = "EXEC", [[inner, *rest] for inner, rest in some]
        elif choice == 5:
            body = "redis.call('SET', KEYS[1], 'v', 'PX', ARGV[1]) redis.call('SWAPDB', 0, 2)"
            name, args = "EVAL", [body, "1", key(), ttl()]
        yield (after_ms, name, args), random.choice(DATABASES)


def copy_of(told: Sequence[Change]) -> dict[tuple[int, bytes], dict[str, Any]]:
    """What a consumer that knows the documents alone makes of them."""
    copy: dict[tuple[int, bytes], dict[str, Any]] = {}
    for each in [document(change, 1000) for change in told]:
        if each["commands"] == ["SWAPDB"] and each["key"] is None:
            first, second = each["databases"]
            other = {first: second, second: first}
            copy = {(other.get(db, db), key): value for (db, key), value in copy.items()}
        elif each["key"] is None:
            copy = {place: value for place, value in copy.items() if place[0] not in each["databases"]}
        elif each["after"] is None:
            copy.pop((each["db"], each["key"].encode()), None)
        else:
            copy[each["db"], each["key"].encode()] = each["after"]
    return copy


def state_of(machine: Machine) -> dict[tuple[int, bytes], dict[str, Any]]:
    """All keys that are alive, as documents."""
    found = {}
    for db in DATABASES:
        for key in KEYS:
            value = value_of(machine, db, key)
            change = Change(0, 0, 0, 0, db, key, (), None, value, (), expired=False)
            if (after := document(change, 1000)["after"]) is not None:
                found[db, key] = after
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_made_of_the_feed_is_the_state(seed: int) -> None:
    """At every moment, whatever the log is; each key dies once for each life; and a second run tells the same."""
    random = Random(seed)
    lines = list(random_lines(random, 250))
    events = [decode(at, START_MS + line[0], entry(line, db=db).value) for at, (line, db) in enumerate(lines)]
    feed = Feed(events)

    for end in (*range(10, len(events), 40), len(events)):
        state = Feed(events[:end])
        assert state_of(state.machine) == copy_of([each for each in feed.told if each.offset < end])
    assert feed.told == Feed(events).told
    assert any(each.expired for each in feed.told)
    begin = random.randrange(next((event[0] for event in events if event[2] == b"SETCLOCK"), len(events)) + 1)
    assert [each for each in feed.told if each.offset >= begin] == Feed(events, begin).told


def test_the_copy_is_what_an_engine_without_a_feed_has() -> None:
    """A feed sweeps, and it applies in its own pieces: the state is that of a plain run."""
    lines = list(random_lines(Random(99), 250))
    events = [decode(at, START_MS + line[0], entry(line, db=db).value) for at, (line, db) in enumerate(lines)]
    plain = Machine(MemoryStore(column_families()), HOME)
    for event in events:
        if event[2] != b"SETCLOCK":
            plain.apply([event], plain.next_offset)
            plain.commit(None)
    feed = Feed([event for event in events if event[2] != b"SETCLOCK"])

    assert state_of(plain) == copy_of(feed.told)


def test_dead_collections_are_removed() -> None:
    """The state of a feed does not grow by what is gone: elements of dead collections are cleaned away."""
    one_life: list[Line] = [(0, "SADD", ["s", "a", "b"]), (0, "DEL", ["s"])]
    lines = one_life * 600
    store = Feed(records(lines)).store
    graves = list(store.scan(GRAVEYARD_CF, b"", None))

    assert len(graves) < 600


def test_what_comes_before_a_stop_is_told() -> None:
    """An event that this engine cannot apply ends the feed, behind the changes of those before it."""
    store, told = MemoryStore(column_families()), list[Change]()
    feed, machine = Watching(0, 1000, told.append), Machine(store, HOME)
    feed.begin(machine, store)
    with pytest.raises(PartitionStoppedError):
        feed.step(machine, records([(0, "SET", ["a", "1"]), (0, "SET", ["b", "1"]), (0, "RULES", ["99"])]))

    assert [b"a", b"b"] == [each.key for each in told]


def test_what_is_taken_back_is_not_told() -> None:
    """Where the store refuses a commit, the events are applied anew, and their changes told once."""
    store = WatchedStore()
    machine, told = Machine(store, HOME), list[Change]()
    feed = Watching(0, 1000, told.append)
    feed.begin(machine, store)
    events = records([(0, "INCR", ["a"]), (0, "INCR", ["a"])])
    store.failures = [StoreBusyError("busy")]
    with pytest.raises(StoreBusyError):
        feed.step(machine, events)
    assert [] == told
    machine.rollback()
    feed.step(machine, events)

    assert [b"1", b"2"] == [each.value.content for each in told if each.value]
