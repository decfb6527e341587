"""Strings in earlier records are as any others, and each first write turns one into its metadata record."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from engine.apply.machine import Machine
from engine.batch.keys.fragments import INLINE_BYTES_MAX
from engine.batch.keyspace import Keyspace
from engine.cleaning.sweep import Sweeper
from engine.errors import CorruptionError, StoreBusyError
from engine.layouts import LAYOUTS
from engine.layouts.layout import Form, Kind
from engine.layouts.records import metadata_records, scan_metadata
from engine.proof.digest import digest
from engine.proof.walk import live_keys
from engine.store.memory import MemoryStore
from engine.store.store import Store
from engine.values.encoding import pack_u64
from slotlog.shared.slots import slot
from tests.consistency import problems
from tests.engine.harness import NOW_MS, WatchedStore, apply, event, new_store, open_machine, records_of, send, shape
from tests.engine.stored import described, key_of, put, stored
from tests.layouts import holds, layout_name, layout_of
from tests.layouts.earlier import FORM, LAYOUT, NAMES, make_earlier, put_earlier

pytestmark = pytest.mark.layout(*NAMES)

STATE = [
    *("SET a 1", "SET b two", "SET late x PX 5000", "SET {a}c 3 PX 900000", "SET empty x", "SETRANGE empty 0 y"),
    *("HSET h f v", "RPUSH l S", "SADD e S T", "ZADD z 1 S", "SET aS s", "SET gone 1", "DEL gone"),
]
STRINGS = [b"a", b"b", b"late", b"{a}c", b"empty", b"aS"]
KEYS = {*STRINGS, b"h", b"l", b"e", b"z"}


@pytest.fixture(autouse=True, scope="module")
def _earlier() -> Iterator[None]:
    """Everything in this file runs on the session's layout with earlier records, and so does the audit behind it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LAYOUTS, layout_name(), LAYOUT)
        yield


def lived(*, earlier: bool = True) -> WatchedStore:
    """A state with every type, whose strings are in earlier records, or the same state where all is written anew."""
    store = WatchedStore()
    send(open_machine(store), *STATE)
    if earlier:
        make_earlier(store)
    store.batches.clear()
    return store


def earlier_names(store: Store) -> set[bytes]:
    """The names of the strings that have an earlier record."""
    owners = {FORM.owner(key): key for key, _ in store.scan(LAYOUT.families[Kind.EARLIER], b"", None)}
    return {layout_of().parse_metadata_key(owner)[2] for owner in owners if owner is not None}


def ask(machine: Machine, line: str, db: int = 0) -> Any:
    """The reply of a command that cannot be an event."""
    name, *args = line.encode().split()
    return machine.read(name, args, db)


def test_strings_are_read_where_they_are() -> None:
    """Each command that reads answers as if there were metadata records, and writes nothing of the key."""
    old, new = lived(), lived(earlier=False)
    commands = [
        "GET a",
        "STRLEN b",
        "TYPE {a}c",
        "PTTL {a}c",
        "MGET a b none aS",
        "EXISTS a late none",
        "LRANGE l 0 -1",
    ]
    commands += ["DUMP b", "HGET a f", "SMEMBERS e", "GETRANGE b 1 1", "PTTL a"]
    expected, found = (list(map(shape, send(open_machine(store), *commands))) for store in (new, old))

    assert expected == found
    assert set(STRINGS) == earlier_names(old)


@pytest.mark.parametrize(
    "command",
    [
        *("SET {} 5", "SET {} v KEEPTTL", "APPEND {} 7", "SETRANGE {} 2 z", "GETSET {} n", "GETDEL {}", "DEL {}"),
        *("PEXPIRE {} 70000", "PERSIST {}", "GETEX {} PX 9000", "RENAME {} {{a}}new", "COPY {} a REPLACE", "INCR {}"),
        *("SETBIT {} 1 1", "PEXPIRE {} -1", "UNLINK {}", "SET {} v PX 1000", "SETNX {} no", "MSET {} 4 b 4"),
    ],
)
@pytest.mark.parametrize("batches", [1, 2])
def test_a_write_leaves_the_bytes_that_it_leaves_of_any_string(command: str, batches: int) -> None:
    """When all strings are changed, nothing tells the state from one that never had an earlier record."""
    stores = lived(), lived(earlier=False)
    found = []
    for store in stores:
        machine = open_machine(store)
        commands = [command.format(name.decode()) for name in STRINGS]
        reads = [["MGET a b late"]] if batches == 2 else []
        outcomes = [list(map(shape, send(machine, *part))) for part in (*reads, commands, ["GET a"])]
        found.append((outcomes, str(digest(store, layout_of(), NOW_MS)), ask(machine, "DBSIZE"), problems(store)))
        send(machine, *(f"SET {name.decode()} end" for name in STRINGS))
    old, new = found

    assert new == old
    assert [] == new[3]
    assert set() == earlier_names(stores[0])
    assert records_of(stores[1]) == records_of(stores[0])


def test_another_type_takes_the_place() -> None:
    """A key that is deleted and made anew, with elements, has no earlier record left."""
    store = lived()

    assert [1, 1, [(b"f", b"v")]] == send(open_machine(store), "DEL a", "HSET a f v", "HGETALL a")
    assert [2, 2, [b"S", b"T"]] == send(open_machine(store), "SADD {a}s S T", "SUNIONSTORE {a}c {a}s", "SMEMBERS {a}c")
    assert set(STRINGS) - {b"a", b"{a}c"} == earlier_names(store)
    assert [] == problems(store)


@pytest.mark.parametrize("command", ["SET a 2", "APPEND a 2", "PEXPIRE a 9000", "DEL a", "INCR a", "SADD e U"])
def test_one_batch_holds_both(command: str) -> None:
    """The batch that writes or deletes the metadata record deletes the earlier one; no other batch does."""
    store = lived()
    send(open_machine(store), command)
    key, column_family = key_of(b"a"), LAYOUT.families[Kind.EARLIER]
    (batch,) = store.batches
    deleted = batch.values.get(column_family, {}).get(FORM.key(key), b"there") is None

    assert deleted == (key in batch.values.get(LAYOUT.families[Kind.METADATA], {}))
    assert deleted == (command != "SADD e U")


def test_what_was_not_written_is_there_again() -> None:
    """A process that dies before its batch, and a batch that is thrown away, leave the earlier record readable."""
    store = lived()
    machine = open_machine(store)
    apply(machine, event(machine.next_offset, "SET a 2"))
    assert [b"1"] == send(open_machine(store), "GET a")

    machine = open_machine(store)
    apply(machine, event(machine.next_offset, "DEL a"))
    store.failures.append(StoreBusyError("busy"))
    with pytest.raises(StoreBusyError):
        machine.commit(None)
    machine.rollback()
    assert [b"two"] == send(machine, "GET b")
    assert set(STRINGS) == earlier_names(store)
    assert [b"1", 1] == send(machine, "GET a", "DEL a")
    assert b"a" not in earlier_names(store)


def test_a_key_in_memory_knows_where_it_is() -> None:
    """Read in one batch, written in the next one, deleted in a third: the earlier record does not come back."""
    store = lived()
    machine = open_machine(store)

    assert [b"1"] == send(machine, "GET a")
    assert [2] == send(machine, "INCR a")
    assert b"a" not in earlier_names(store)
    assert [b"2", 1, None] == send(machine, "GET a", "DEL a", "GET a")
    assert [None] == send(open_machine(store), "GET a")


def test_a_string_dies_when_its_time_has_come() -> None:
    """It is not seen from then on, and a sweep takes the record, the entry and the count."""
    store = lived()
    machine = open_machine(store)

    assert [None] == send(machine, "GET late", at_ms=NOW_MS + 5000)
    assert len(KEYS) == ask(machine, "DBSIZE")
    assert [(0, b"late")] == Sweeper(machine, store).expire(10).keys
    assert b"late" not in earlier_names(store)
    assert len(KEYS) - 1 == ask(machine, "DBSIZE")
    assert [] == problems(store)


def test_a_walk_over_keys_meets_each_once() -> None:
    """KEYS, SCAN in any steps, RANDOMKEY and the walk of the proofs, with changes that are not written yet."""
    store = lived()
    machine = open_machine(store)
    assert sorted(KEYS) == sorted(ask(machine, "KEYS *"))
    apply(machine, *(event(machine.next_offset + n, text) for n, text in enumerate(["DEL a", "SET b 5", "SET new 1"])))

    expected = sorted(KEYS - {b"a"} | {b"new"})
    for count in (1, 3, 100):
        cursor, names = ask(machine, f"SCAN 0 COUNT {count}")
        while cursor != b"0":
            cursor, some = ask(machine, f"SCAN {cursor.decode()} COUNT {count}")
            names += some
        assert expected == sorted(names)
    drawn = set()
    for _ in range(100):  # a draw is the same one until an event comes
        apply(machine, event(machine.next_offset, "GET a"))
        drawn.add(ask(machine, "RANDOMKEY"))
    assert set(expected) == drawn
    machine.commit(None)
    assert expected == sorted(key.name for key in live_keys(store, layout_of(), NOW_MS))


def test_a_keyspace_gets_what_it_walks_over() -> None:
    """The record of each key that a walk gives is found by its position, too."""
    records = Keyspace(lived(), layout_of(), 0, [], flushed=False).records

    assert len(KEYS) == len(list(records.scan()))
    assert dict(records.scan()) == {position: records.get(position) for position, _ in records.scan()}


def test_a_place_divides_earlier_records_as_it_divides_keys() -> None:
    """So a scan from any bytes to any others gives the same keys, either way round, wherever these lie."""
    old, new = lived(), lived(earlier=False)
    layout = layout_of()
    keys = [key for key, _ in metadata_records(new, layout)]
    bounds = [
        key[:cut] + tail for key in keys for cut in (20, len(key)) for tail in (b"", b"\0", b"R", b"S\0", b"\xff")
    ]
    bounds = sorted({bound for bound in bounds if bound >= keys[0][:1]})

    for start, end in product(bounds, bounds):
        for reverse in (False, True):
            expected = list(scan_metadata(new, layout, start, end, reverse=reverse))
            assert expected == list(scan_metadata(old, layout, start, end, reverse=reverse))


@pytest.mark.parametrize(
    "commands", [["FLUSHDB"], ["GET a", "FLUSHDB"], ["APPEND a 1", "FLUSHDB", "SET b new"], ["FLUSHALL"]]
)
@pytest.mark.parametrize("others", [False, True])
def test_a_flush_takes_them(commands: list[str], *, others: bool) -> None:
    """Those of its database, whatever the batch did before; those of another one stay."""
    store = new_store()
    machine = open_machine(store)
    send(machine, *STATE)
    if others:
        send(machine, "SET other 1", db=1)
    make_earlier(store)
    machine = open_machine(store)
    send(machine, *commands)
    kept = others and commands != ["FLUSHALL"]

    assert [None] == send(machine, "GET a")
    assert ({b"other"} if kept else set()) == earlier_names(store)
    assert int("SET b new" in commands) == ask(machine, "DBSIZE")
    assert [] == problems(store)
    assert [b"1" if kept else None] == send(machine, "GET other", db=1)


def test_databases_are_swapped_with_them() -> None:
    """They go by the number under which their database is stored, as all records do."""
    store = lived()
    machine = open_machine(store)
    send(machine, "SWAPDB 0 1")

    assert [b"1", None] == [*send(machine, "GET a", db=1), *send(machine, "GET a")]
    assert [len(KEYS), 0] == [ask(machine, "DBSIZE", db) for db in (1, 0)]
    assert {0: set(), 1: KEYS} == {
        db: {key.name for key in live_keys(store, layout_of(), NOW_MS) if key.db == db} for db in (0, 1)
    }
    assert [] == problems(store)


def test_a_state_that_has_them_is_good() -> None:
    """The audit finds nothing wrong, and the digest is that of the state in which all of them are written anew."""
    assert [] == problems(lived())
    assert str(digest(lived(earlier=False), layout_of(), NOW_MS)) == str(digest(lived(), layout_of(), NOW_MS))


@pytest.mark.damaging
def test_damage_is_named() -> None:
    """A value that cannot be read, a string that is there twice, and one that nobody has counted."""
    store = lived()
    put_earlier(store, key_of(b"a"), b"short")
    assert ["unreadable: b'a' of database 0"] == [text[:30] for text in problems(store)]
    with pytest.raises(CorruptionError, match="metadata value"):
        send(open_machine(store), "GET a")

    store = lived()
    put(store, Kind.METADATA, (key_of(b"a"), LAYOUT(0).pack_metadata(FORM.parse(pack_u64(0) + b"2"))))
    assert ["orphans: an earlier record of b'a' of database 0, which has a metadata record"] == problems(store)
    assert sorted(KEYS) == sorted(key.name for key in live_keys(store, layout_of(), NOW_MS))

    store = lived()
    put_earlier(store, layout_of().metadata_key(0, slot(b"more"), b"more"), pack_u64(0))
    assert ["counts"] == [text.split(":")[0] for text in problems(store)]


@pytest.mark.parametrize("command", ["PEXPIRE a 9000", "APPEND a x", "SETRANGE a 0 x", "RENAME a {a}b", "PERSIST a"])
def test_a_large_string_takes_the_form_of_its_length(command: str) -> None:
    """An earlier record holds any length; with the first write it is in fragments, where the layout has them."""
    size = INLINE_BYTES_MAX + 1
    store: MemoryStore = new_store()
    send(open_machine(store), "SET a 1 PX 5000")
    make_earlier(store)
    put_earlier(store, key_of(b"a"), pack_u64(NOW_MS + 5000) + b"v" * size)
    machine = open_machine(store)

    assert [size, b"vv"] == send(machine, "STRLEN a", "GETRANGE a -2 -1")
    assert [] == problems(store)
    send(machine, command)
    assert [] == problems(store)
    assert set() == earlier_names(store)
    (metadata,) = described(store).values()
    assert holds(Form.FRAGMENTS) == (metadata.version > 0) == bool(stored(store, Kind.DATA))
