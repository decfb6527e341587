"""Every layout keeps to the contract of `engine/layouts/layout.py`, whatever its bytes."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from engine.errors import CorruptionError
from engine.layouts.layout import Difference, Form, Kind
from engine.layouts.records import all_records, has_index
from engine.model import HASH, LIST, SET, STRING, UNCOUNTED, ZSET, Metadata
from engine.types.generic.scans import cursor_at
from slotlog.shared.limits import SLOTS
from slotlog.shared.slots import slot, slot_range
from tests.engine.harness import FINGERPRINT, NOW_MS, new_store, open_machine
from tests.layouts import holds, home_of, layout_of

NAMES = [b"", b"\x00", b"a", b"aa", b"ab", b"b", b"a\xff", b"\xff\xff", b"{a}b", b"x" * 70_000]
NAMES += [b"key-%d" % number for number in range(300)]
VERSIONS = [1, 2, 1_700_000_000_000 * 1000 << 11, 2**64 - 1]
LAYOUT = layout_of()
KINDS = [kind for kind in LAYOUT.families if kind not in {Kind.METADATA, Kind.EARLIER}]


def metadata_key(name: bytes, db: int = 0) -> bytes:
    """The metadata key of a name."""
    return LAYOUT.metadata_key(db, slot(name), name)


@pytest.mark.parametrize("db", [0, 1, 15])
def test_a_metadata_key_says_whose_it_is(db: int) -> None:
    """It is parsed to what it was made of, and no two names have one."""
    keys = [metadata_key(name, db) for name in NAMES]

    assert [(db, slot(name), name) for name in NAMES] == list(map(LAYOUT.parse_metadata_key, keys))
    assert len(NAMES) == len(set(keys))


@pytest.mark.parametrize(
    "metadata",
    [
        *(Metadata(STRING, 0), Metadata(STRING, 7, value=b"\x00\xff"), Metadata(HASH, 0, 1, 2)),
        *(Metadata(SET, 2**63 - 1, 3, 4), Metadata(ZSET, 1, 2**64 - 1, 1), Metadata(LIST, 5, 6, 2, 7, 9)),
    ],
    ids=str,
)
def test_metadata_is_what_was_packed(metadata: Metadata) -> None:
    """Every field of it comes back, but for a count that the layout does not keep."""
    uncounted = {HASH, SET} if Difference.UNCOUNTED in LAYOUT.differences else set()
    if metadata.type in uncounted | ({ZSET} if has_index(LAYOUT) else set()):
        metadata = metadata._replace(size=UNCOUNTED)

    assert metadata == LAYOUT.parse_metadata(LAYOUT.pack_metadata(metadata))


@pytest.mark.parametrize("value", [b"", b"\xff", b"\xff" * 17, b"\xff" * 200])
def test_what_is_no_metadata_is_damage(value: bytes) -> None:
    """It is named, never guessed at."""
    with pytest.raises(CorruptionError, match="metadata value"):
        LAYOUT.parse_metadata(value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_says_whose_it_is(kind: Kind) -> None:
    """Behind the prefix of a version anything may follow: key and version are told from all of it."""
    for name in NAMES:
        for version in VERSIONS:
            key = metadata_key(name, 3)
            for subkey in (b"", b"f", b"\x00" * 9, b"\xff"):
                assert (key, version) == LAYOUT.owner(kind, LAYOUT.prefix(kind, key, version) + subkey)


@pytest.mark.parametrize("kind", KINDS)
def test_no_prefix_begins_with_another(kind: Kind) -> None:
    """So the records of one version of a key are a range in which there are no others; all of its versions are one."""
    keys = [metadata_key(name, db) for name in NAMES for db in (0, 1)]
    prefixes = sorted(LAYOUT.prefix(kind, key, version) for key in keys for version in VERSIONS)

    assert [] == [pair for pair in pairwise(prefixes) if pair[1].startswith(pair[0])]
    for key in keys:
        assert all(LAYOUT.prefix(kind, key, version).startswith(LAYOUT.prefix(kind, key)) for version in VERSIONS)


def test_the_ranges_of_kinds_and_databases_are_apart() -> None:
    """A kind's records of a database lie in its range, and in that of no other database or kind."""
    kinds = [kind for kind in LAYOUT.families if kind != Kind.EARLIER]  # which may lie among others: test_earlier.py
    ranges = [all_records(LAYOUT, kind, db) for kind in kinds for db in range(16)]
    key = metadata_key(b"name", 5)

    for one, other in combinations(ranges, 2):
        apart = not one.prefix.startswith(other.prefix) and not other.prefix.startswith(one.prefix)
        assert apart or one.column_family != other.column_family
    assert key.startswith(LAYOUT.kind_prefix(Kind.METADATA, 5))
    for kind in KINDS:
        assert LAYOUT.prefix(kind, key, 1).startswith(LAYOUT.kind_prefix(kind, 5))
        assert LAYOUT.kind_prefix(kind, 5).startswith(LAYOUT.kind_prefix(kind))


def test_keys_lie_in_the_order_that_the_layout_says() -> None:
    """Of all kinds but metadata in one, which is that of metadata, too, where it says so: elsewhere it need not be."""
    keys = sorted(map(metadata_key, NAMES))
    orders = [sorted(keys, key=lambda key, kind=kind: LAYOUT.prefix(kind, key, 1)) for kind in KINDS]  # type: ignore[misc]

    assert all(order == orders[0] for order in orders)
    assert not LAYOUT.is_in_one_order or keys == orders[0]


@pytest.mark.parametrize(("partition", "partitions"), [(0, 1), (0, 3), (1, 3), (2, 3), (15, 16)])
def test_a_cursor_finds_its_place_again(partition: int, partitions: int) -> None:
    """Its slot is one of the partition's, never falls along the keys, and leads to the first key that has it."""
    layout = layout_of(partition, partitions)
    first, last = slot_range(partition, partitions)
    own = [name for name in NAMES if first <= slot(name) <= last]
    keys = sorted(layout.metadata_key(0, slot(name), name) for name in own)
    slots = list(map(layout.cursor_slot, keys))

    assert sorted(slots) == slots
    assert all(first <= number <= last for number in slots)
    for number in {*slots, first, last, SLOTS}:
        start = layout.cursor_start(0, number)
        assert [key for key in keys if key >= start] == [key for key in keys if layout.cursor_slot(key) >= number]


def test_a_scan_goes_on_in_the_last_slot() -> None:
    """Of a partition whose keys all have one cursor slot, a process that remembers no cursor finds the place again."""
    name = b"{tag}%03d"
    home, store = home_of("topic", slot(name), SLOTS), new_store()
    names = [name % number for number in range(200)]
    machine = open_machine(store, home)
    machine.apply([(at, NOW_MS, b"SET", [each, b"v"], 0, None, None) for at, each in enumerate(names)], 0)
    machine.commit(FINGERPRINT)
    cursor, found = b"%d" % cursor_at(slot(name)), list[bytes]()
    while cursor != b"0" and len(found) <= len(names):
        cursor, part = open_machine(store, home).read(b"SCAN", [cursor])
        found += part

    assert names == sorted(found)


def test_a_slot_is_a_range_or_none() -> None:
    """Where the layout gives one, it holds the keys of that slot and no others."""
    for name in NAMES:
        prefix = LAYOUT.slot_prefix(0, slot(name))
        if prefix is not None:
            found = {other for other in NAMES if metadata_key(other).startswith(prefix)}
            assert {other for other in NAMES if slot(other) == slot(name)} == found


def test_kinds_follow_from_forms() -> None:
    """A layout has rank counts, times of fields and streams where it holds these; three kinds come with an index."""
    kinds = {Kind.METADATA, Kind.DATA, Kind.SCORES}
    kinds |= {Kind.RANKS} if holds(Form.RANK_COUNTS) else set()
    kinds |= {Kind.TIMES} if holds(Form.FIELD_TIMES) else set()
    kinds |= {Kind.STREAM, Kind.STREAM_INDEX} if holds(Form.STREAMS) else set()
    kinds |= {Kind.MEMBERS, Kind.COUNTS, Kind.NAMES} if has_index(LAYOUT) else set()

    assert kinds == LAYOUT.families.keys() - {Kind.EARLIER}
