"""Ranges that were deleted as one are noted until they are compacted, and compacted in pieces."""

from __future__ import annotations

import pytest

from engine.batch import staging
from engine.cleaning.reclaim import Reclaimer
from engine.layouts.layout import Kind
from engine.layouts.records import all_records
from engine.store.compaction_pieces import pieces
from engine.store.memory import MemoryStore
from engine.store.store import EXPIRY_CF, SYSTEM_CF, Changes, Store
from engine.tables import compaction_notes
from engine.tables.compaction_notes import DeletedRange
from tests.engine.harness import FAMILIES, apply, event, new_store, open_machine, send
from tests.engine.stored import is_of
from tests.layouts import layout_of

MIB = 1024 * 1024
FAMILY = FAMILIES[0]
"""Any one."""


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return new_store()


def note(store: Store, *ranges: DeletedRange) -> None:
    """Delete and note ranges."""
    changes = Changes()
    for deleted in ranges:
        compaction_notes.delete_range(changes, deleted)
    store.write(changes)


def test_a_flush_leaves_ranges_to_compact(store: MemoryStore) -> None:
    """Neighbours are one: databases side by side are a range of each kind of record, the index another."""
    machine = open_machine(store)
    send(machine, "SET s 1")
    send(machine, "SET s 1", "FLUSHALL", db=1)
    found = Reclaimer(machine, store).ranges()
    layout = layout_of()
    expected = set()
    for kind in layout.families:
        first, second = sorted(all_records(layout, kind, db) for db in (0, 1))
        if first.end == second.prefix:
            expected.add((first.column_family, first.prefix, second.end))
        else:
            expected |= {(each.column_family, each.prefix, each.end) for each in (first, second)}

    assert expected == {deleted for deleted in found if deleted.column_family != EXPIRY_CF}
    assert [b""] == [deleted.start for deleted in found if deleted.column_family == EXPIRY_CF]


def test_many_ranges_are_taken_together(store: MemoryStore) -> None:
    """At most 64 of a column family, each of them of neighbours, and none is forgotten; each takes its notes along."""
    single = [DeletedRange(FAMILY, b"%04d" % n, b"%04d\1" % n) for n in range(0, 1000, 2)]
    note(store, *single, DeletedRange(SYSTEM_CF, b"0000", b"9999"))
    ranges, notes = compaction_notes.noted(store)

    assert 63 + 1 == len(ranges)
    assert all(any(own.start <= deleted.start and deleted.end <= own.end for own in ranges) for deleted in single)
    for deleted in ranges[1:]:
        store.write(compaction_notes.compacted(store, deleted, notes))
    assert single[:8] == compaction_notes.noted(store)[0]


def test_ranges_that_overlap_are_one(store: MemoryStore) -> None:
    """A range within another one is not compacted twice."""
    note(
        store,
        DeletedRange(FAMILY, b"a", b"m"),
        DeletedRange(FAMILY, b"c", b"d"),
        DeletedRange(FAMILY, b"k", b"p"),
        DeletedRange(FAMILY, b"x", b"y"),
    )

    assert [(FAMILY, b"a", b"p"), (FAMILY, b"x", b"y")] == compaction_notes.noted(store)[0]


def test_what_is_noted_during_a_compaction_waits_for_the_next_one(store: MemoryStore) -> None:
    """Its records may have been deleted behind the place at which the compaction was."""
    reclaimer = Reclaimer(open_machine(store), store)
    note(store, DeletedRange(FAMILY, b"a", b"m"))
    assert [(FAMILY, b"a", b"m")] == reclaimer.ranges()
    note(store, DeletedRange(FAMILY, b"c", b"d"))
    reclaimer.compacted(DeletedRange(FAMILY, b"a", b"m"))

    assert [(FAMILY, b"c", b"d")] == reclaimer.ranges()
    reclaimer.compacted(DeletedRange(FAMILY, b"c", b"d"))
    assert [] == reclaimer.ranges()


def test_a_look_at_what_waits_is_bounded(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first notes alone are read, and taken together; the others follow when these are done with."""
    monkeypatch.setattr(compaction_notes, "NOTES_MAX", 10)
    note(store, *(DeletedRange(FAMILY, b"%02d" % n, b"%02d\1" % n) for n in range(15)))
    reclaimer = Reclaimer(open_machine(store), store)
    for count in (5, 5, 0):
        ranges = reclaimer.ranges()
        assert count == len(ranges)
        for deleted in ranges:
            reclaimer.compacted(deleted)


def files(*sizes: tuple[bytes, bytes, int]) -> list[dict[str, object]]:
    """Files as rocksdict describes them."""
    return [{"start_key": start, "end_key": end, "size": size} for start, end, size in sizes]


CASES: list[tuple[list[dict[str, object]], list[tuple[bytes, bytes, int]]]] = [
    ([], [(b"c", b"p", 0)]),
    (files((b"a", b"b", 50 * MIB), (b"p", b"q", 50 * MIB)), [(b"c", b"p", 0)]),
    (files((b"a", b"d", 30 * MIB), (b"e", b"f", 34 * MIB)), [(b"c", b"p", 64 * MIB)]),
    (files((b"a", b"d", 30 * MIB), (b"e", b"f", 35 * MIB)), [(b"c", b"e", 30 * MIB), (b"e", b"p", 35 * MIB)]),
    (files((b"c", b"z", 90 * MIB), (b"h", b"i", 1)), [(b"c", b"h", 90 * MIB), (b"h", b"p", 1)]),
]


@pytest.mark.parametrize(("found", "expected"), CASES)
def test_a_range_is_compacted_in_pieces(
    found: list[dict[str, object]], expected: list[tuple[bytes, bytes, int]]
) -> None:
    """Each of at most 64 MiB or one file, without a gap between them, and of files within the range alone."""
    assert expected == list(pieces(found, b"c", b"p"))


@pytest.mark.parametrize("flush", ["FLUSHDB", "FLUSHALL"])
def test_a_flush_of_what_is_being_compacted_waits_for_the_next_one(store: MemoryStore, flush: str) -> None:
    """Its notes are those that are there already, so that they say nothing new; they stay all the same."""
    machine = open_machine(store)
    reclaimer = Reclaimer(machine, store)
    send(machine, "SET s 1 PX 100", flush, "SET s 1 PX 100")
    waiting = reclaimer.ranges()
    send(machine, flush)

    assert {False} == {reclaimer.compacted(deleted) for deleted in waiting}
    assert waiting == reclaimer.ranges()
    assert {True} == {reclaimer.compacted(deleted) for deleted in waiting}
    assert [] == reclaimer.ranges()


def test_what_was_staged_for_nothing_is_compacted(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes by range deletes as what is dead does, whichever batch takes it away; rank counts go one by one."""
    monkeypatch.setattr(staging, "STAGED_BYTES", 0)
    machine = open_machine(store)
    reclaimer = Reclaimer(machine, store)
    send(machine, "ZADD z 1 a 2 b", "SADD s a b")
    subkeys = layout_of().families.keys() - {Kind.METADATA, Kind.EARLIER, Kind.RANKS}
    for form, before in (("COPY z copy", None), ("COPY s copy", "COPY z other")):
        apply(machine, event(machine.next_offset, form))
        machine.rollback()
        if before is not None:
            apply(machine, event(machine.next_offset, before))  # it is staged itself, and takes away what was left
        machine.commit(b"mark")
        assert subkeys == {kind for kind in Kind for deleted in reclaimer.ranges() if is_of(kind, *deleted[:2])}
        for deleted in reclaimer.ranges():
            reclaimer.compacted(deleted)
        assert [] == reclaimer.ranges()
