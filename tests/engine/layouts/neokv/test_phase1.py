"""A state of `neokv1` goes on in `neokv`, and one that never was such a state pays nothing for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import TypeVar

import pytest

from engine.apply.machine import Machine
from engine.errors import StateMismatchError
from engine.layouts.layout import Kind
from engine.layouts.neokv import NeoKV
from engine.layouts.neokv.layout import NeoKVOverPhase1
from engine.layouts.neokv.phase1 import Phase1
from engine.layouts.records import metadata_records, scan_metadata
from engine.proof.audit import Audit
from engine.proof.digest import digest
from engine.store.memory import MemoryStore
from engine.store.store import Get
from engine.tables.adoption import has_mark, open_layout
from engine.tables.system import read_home
from engine.values.encoding import pack_u64
from tests.engine.harness import FAMILIES, FINGERPRINT, NOW_MS, event, new_store, open_machine, send
from tests.engine.stored import key_of
from tests.layouts import home_of

HOME = home_of()
OLD_HOME = replace(HOME, layout="neokv1")
Stored = TypeVar("Stored", bound=MemoryStore)
STATE = [
    *("SET a 1", "SET b two PX 5000", "SET {a}c 3 PX 900000", "HSET h f v", "RPUSH l x y", "SADD e S", "ZADD z 1 S"),
    *("HSETEX timed PX 7000 FIELDS 1 f v", "SETRANGE long 140000 x", "SET gone 1", "DEL gone"),
]


class CountingStore(MemoryStore):
    """Counts what is asked of the column family `data`."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.gets = self.scans = self.scanned = 0

    def getter(self, column_family: str) -> Get:
        """A function that counts its calls."""
        get = super().getter(column_family)

        def counted(key: bytes) -> bytes | None:
            self.gets += column_family == "data"
            return get(key)

        return counted

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Count the scan, and each record that it gives."""
        records = super().scan(column_family, start, end, reverse=reverse)
        if column_family != "data":
            return records
        self.scans += 1
        return self._counted(records)

    def _counted(self, records: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            self.scanned += 1
            yield record


def phase1(store: Stored, *more: str) -> Stored:
    """A state of `neokv1` with every type."""
    send(Machine(store, OLD_HOME), *STATE, *more)
    return store


def test_a_state_goes_on_where_it_stood() -> None:
    """Position, counts and content are the same under the new name, and the audit finds nothing wrong."""
    store = phase1(new_store())
    before = digest(store, open_layout(store, OLD_HOME), NOW_MS)
    old, new = Machine(store, OLD_HOME), Machine(store, HOME)

    assert old.position == new.position
    assert [] == list(map(str, Audit(store, HOME).violations()))
    assert str(before) == str(digest(store, new.layout, NOW_MS))
    assert [b"1", b"two", 140_001, {b"S"}] == [
        *send(new, "GET a", "GET b", "STRLEN long"),
        set(send(new, "SMEMBERS e")[0]),
    ]
    assert [] == list(map(str, Audit(store, HOME).violations()))


def test_the_first_batch_changes_the_name() -> None:
    """Not to read it, nor a batch that is thrown away: the name and the mark stand or fall with a batch."""
    store = phase1(new_store())
    machine = Machine(store, HOME)
    machine.apply([event(machine.next_offset, "SET a 2")], machine.next_offset)
    machine.rollback()
    assert (OLD_HOME, False) == (read_home(store), has_mark(store))

    send(machine, "SET a 2")
    assert (HOME, True) == (read_home(store), has_mark(store))
    assert [b"2", b"two"] == send(open_machine(store), "GET a", "GET b")
    with pytest.raises(StateMismatchError, match="its layout is neokv, not neokv1"):
        Machine(store, OLD_HOME)


@pytest.mark.parametrize("other", [{"topic": "other"}, {"partitions": 2}])
def test_a_state_of_something_else_is_refused(other: dict[str, str | int]) -> None:
    """The layout alone may be another one."""
    store = phase1(new_store())

    with pytest.raises(StateMismatchError, match="the state is another one"):
        Machine(store, replace(HOME, **other))  # type: ignore[arg-type]


def test_a_state_without_such_strings_is_not_asked_for_any() -> None:
    """A read or a write of a key that is not there asks the metadata alone; with the mark, `data` is asked as well."""
    store = CountingStore()
    machine = open_machine(store)
    send(machine, "SET a 1", "HSET h f v", "GET none", "DEL none", "SETNX none 1")
    machine.read(b"SCAN", [b"0"])
    assert (0, 0, None) == (store.gets, store.scans, machine.layout.earlier)

    store = phase1(CountingStore())
    machine, store.gets = Machine(store, HOME), 0
    send(machine, "GET none")
    assert 1 == store.gets


def test_a_walk_over_keys_passes_by_what_they_hold() -> None:
    """It costs seeks for each key that has subkeys, however many it has."""
    found = []
    for fields in (2, 2000):
        store = CountingStore()
        words = " ".join(f"f{number} v" for number in range(fields))
        phase1(store, *(f"HSET {name} {words}" for name in "mnopqr"))
        store.scanned = 0
        names = [NeoKV(0).parse_metadata_key(key)[2] for key, _ in metadata_records(store, NeoKVOverPhase1(0))]
        found.append((names, store.scanned))

    assert found[0] == found[1]
    assert 2 * len(found[0][0]) > found[0][1]


def test_a_part_of_a_walk_looks_no_further_than_its_part() -> None:
    """The first keys are there before the walk has come to the next string, behind a thousand collections."""
    store = CountingStore()
    phase1(store, *(f"SADD {{s}}{number} m" for number in range(1000)))
    store.scanned = 0
    walk = metadata_records(store, NeoKVOverPhase1(0))
    for _ in range(10):
        next(walk)

    assert 25 > store.scanned


@pytest.mark.parametrize("subkey", [b"", b"S"])
@pytest.mark.parametrize("version", [0x53 << 56, (0x53 << 56) - 1, 1, 2**64 - 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_subkey_is_no_string(subkey: bytes, version: int, *, reverse: bool) -> None:
    """Also one whose version begins with the byte of the tag; the string beside it is met, and so is the next one."""
    store = new_store()
    layout, form = NeoKVOverPhase1(0), Phase1()
    put = {form.key(key_of(name)): pack_u64(0) + name for name in (b"a", b"b", b"c")}
    put |= {layout.prefix(Kind.DATA, key_of(name), version) + subkey: b"S" for name in (b"a", b"orphan", b"c")}
    store._write_column_family("data", dict(put))
    found = [key for key, _ in scan_metadata(store, layout, key_of(b"a")[:16], None, reverse=reverse)]

    assert sorted(map(key_of, (b"a", b"b", b"c")), reverse=reverse) == found


def test_a_walk_begins_and_ends_anywhere() -> None:
    """Between any two bounds it gives the same strings upwards and downwards, whatever lies beside them."""
    store = new_store()
    layout, form = NeoKVOverPhase1(0), Phase1()
    keys = sorted(key_of(name) for name in (b"a", b"b", b"c"))
    put = {form.key(key): pack_u64(0) + key for key in keys}
    put |= {layout.prefix(Kind.DATA, key, version) + b"f": b"v" for key in keys for version in (1, 0x54 << 56)}
    store._write_column_family("data", dict(put))
    bounds = [key + tail for key in keys for tail in (b"", b"\0", b"S", b"S\0", b"T", b"\xff")]

    for start, end in product(bounds, bounds):
        expected = [key for key in keys if start <= key < end]
        assert expected == [key for key, _ in scan_metadata(store, layout, start, end)]
        assert expected[::-1] == [key for key, _ in scan_metadata(store, layout, start, end, reverse=True)]


def test_time_takes_a_string_that_is_still_there() -> None:
    """The log's mark stays; what was to die in the old layout dies in the new one, and is swept."""
    store = phase1(new_store())
    machine = Machine(store, HOME)

    assert [None, b"3"] == send(machine, "GET b", "GET {a}c", at_ms=NOW_MS + 6000)
    assert FINGERPRINT == machine.position.fingerprint
