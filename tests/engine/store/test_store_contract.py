"""RocksDB, with batches gathered or not, and the store in memory keep the same contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import native
from engine.store.gathering import GatheringStore
from engine.store.iterators import FEW_KEYS
from engine.store.memory import MemoryStore
from engine.store.options import SharedMemory
from engine.store.rocks import RocksStore
from engine.store.store import SHARED_CFS, Changes, MaintainedStore, Store
from tests.engine.harness import family
from tests.engine.store.families import FAMILIES

Opener = Callable[[], MaintainedStore]


def gathering(path: Path) -> GatheringStore:
    """A store that gathers all that it can."""
    store = GatheringStore(path, FAMILIES, SharedMemory(), 16_384)
    store.is_gathering = True
    return store


@pytest.fixture(params=["memory", "rocks", "gathering", "gathering in Python"])
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opener:
    """A function that opens one and the same store, which must be closed before it is opened again."""
    if request.param == "memory":
        store = MemoryStore(FAMILIES)
        return lambda: store
    if request.param != "rocks":
        monkeypatch.setattr(native, "_chosen", native.chosen() if request.param == "gathering" else None)
        return lambda: gathering(tmp_path / "0")
    return lambda: RocksStore(tmp_path / "0", FAMILIES)


@pytest.fixture
def store(opener: Opener) -> Iterator[Store]:
    """An empty open store."""
    store = opener()
    yield store
    store.close()


def put(store: Store, values: dict[bytes, bytes | None], name: str = "data") -> None:
    """Write `values` to one column family as one batch."""
    changes = Changes()
    changes.of(name).update(values)
    store.write(changes)


def keys(store: Store, start: bytes, end: bytes | None, *, reverse: bool = False) -> list[bytes]:
    """The keys that a scan gives."""
    return [key for key, _ in store.scan("data", start, end, reverse=reverse)]


def test_every_column_family_is_there(store: Store) -> None:
    """The shared column families and those of the layout can be written, read and scanned."""
    for name in (*SHARED_CFS, *FAMILIES):
        put(store, {b"k": name.encode()}, name)

    for name in (*SHARED_CFS, *FAMILIES):
        assert name.encode() == store.getter(name)(b"k")
        assert {b"k": name.encode()} == family(store, name)


def test_reads_see_what_was_written(store: Store) -> None:
    """A getter bound before the writes gives the newest value, None for a key that is absent or deleted."""
    get = store.getter("data")
    put(store, {b"a": b"1", b"b": b"", b"c": b"3"})
    put(store, {b"a": b"2", b"c": None, b"never there": None})

    assert [b"2", b"", None, None] == [get(key) for key in (b"a", b"b", b"c", b"d")]


def test_scan_bounds(store: Store) -> None:
    """The start is inside, the end is not, None is beyond the last key, and bounds need not be keys."""
    put(store, dict.fromkeys((b"a", b"b", b"b\0", b"c", b"\xff\xff"), b""))

    assert [b"a", b"b", b"b\0", b"c", b"\xff\xff"] == keys(store, b"", None)
    assert [b"b", b"b\0"] == keys(store, b"b", b"c")
    assert [b"b\0", b"c"] == keys(store, b"b\0", b"d")
    assert [b"\xff\xff"] == keys(store, b"c\0", None)
    assert [] == keys(store, b"c\0", b"\xff")
    assert [] == keys(store, b"c", b"b")
    assert [] == keys(store, b"b", b"b")


def test_scan_bounds_in_reverse(store: Store) -> None:
    """Against the order the bounds mean the same: start inside, end not."""
    put(store, dict.fromkeys((b"a", b"b", b"b\0", b"c", b"\xff\xff"), b""))

    assert [b"\xff\xff", b"c", b"b\0", b"b", b"a"] == keys(store, b"", None, reverse=True)
    assert [b"b\0", b"b"] == keys(store, b"b", b"c", reverse=True)
    assert [b"c", b"b\0"] == keys(store, b"b\0", b"d", reverse=True)
    assert [b"b"] == keys(store, b"aa", b"b\0", reverse=True)
    assert [] == keys(store, b"c", b"b", reverse=True)


def test_scan_of_nothing(store: Store) -> None:
    """A scan of an empty column family ends at once, both ways."""
    assert [] == keys(store, b"", None)
    assert [] == keys(store, b"", None, reverse=True)


def test_the_first_keys_of_a_range(store: Store) -> None:
    """`keys` gives those of `scan`, no more than are asked for, and what is deleted is not among them."""
    put(store, dict.fromkeys((b"a", b"b", b"b\0", b"c", b"d"), b""))
    put(store, {b"b": None})

    assert [b"a", b"b\0", b"c"] == store.keys("data", b"", b"d", 9)
    assert [b"a", b"b\0"] == store.keys("data", b"", b"d", 2)
    assert [b"c"] == store.keys("data", b"c", b"d", 2)
    assert [] == store.keys("data", b"d", b"b", 2)
    assert [] == store.keys("data", b"b", b"b", 2)


def test_the_first_keys_are_those_of_a_scan_however_many(store: Store) -> None:
    """However many are asked for, and whatever was written between two questions, `keys` begins as `scan` does."""
    for turn in range(3):
        put(store, {b"%03d" % number: b"" if number % 7 else None for number in range(turn, 200, turn + 1)})
        for most in (0, 1, FEW_KEYS - 1, FEW_KEYS, FEW_KEYS + 1, 300):
            for start, end in ((b"", b"\xff"), (b"050", b"061"), (b"199", b"3")):
                assert keys(store, start, end)[:most] == store.keys("data", start, end, most)


def test_the_first_records_are_those_of_a_scan(store: Store) -> None:
    """However many are asked for, and whatever was written between two questions, `records` begins as `scan` does."""
    for turn in range(3):
        put(store, {b"%03d" % number: b"v%d" % turn if number % 7 else None for number in range(turn, 600, turn + 1)})
        for most in (0, 1, 100, 300, 1000):
            for start, end in ((b"", b"\xff"), (b"050", b"061"), (b"599", b"7"), (b"5", b"4"), (b"", b"")):
                assert list(store.scan("data", start, end))[:most] == store.records("data", start, end, most)


def test_keys_sort_by_unsigned_bytes(store: Store) -> None:
    """Order is that of unsigned bytes, a prefix before what it begins."""
    disordered = [b"\x80", b"", b"\x00", b"\x7f", b"a", b"\x00\x00", b"\xff", b"ab"]
    put(store, dict.fromkeys(disordered, b""))

    assert sorted(disordered) == keys(store, b"", None)


def test_scan_sees_the_store_of_its_call(store: Store) -> None:
    """Writes after the call of `scan` do not show, whether or not the first record was taken."""
    put(store, {b"a": b"1", b"b": b"1", b"c": b"1"})
    unstarted, started = store.scan("data", b"", None), store.scan("data", b"", None)
    first = next(started)
    put(store, {b"a": b"2", b"b": None, b"bb": b"2", b"d": b"2"})

    assert [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")] == list(unstarted)
    assert [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")] == [first, *started]
    assert [(b"a", b"2"), (b"bb", b"2"), (b"c", b"1"), (b"d", b"2")] == list(store.scan("data", b"", None))


def test_scans_of_one_column_family_nest(store: Store) -> None:
    """A scan inside a scan of the same column family disturbs neither, ended early or not."""
    put(store, dict.fromkeys((b"a", b"b", b"c"), b""))
    seen = []
    for outer, _ in store.scan("data", b"", None):
        next(store.scan("data", b"b", None))
        seen += [outer + inner for inner, _ in store.scan("data", b"b", None, reverse=True)]

    assert [b"ac", b"ab", b"bc", b"bb", b"cc", b"cb"] == seen


def test_scan_after_an_abandoned_one(store: Store) -> None:
    """An iterator that an abandoned scan gave back starts anew, and not before the writes since."""
    put(store, {b"a": b"1", b"b": b"1"})
    next(store.scan("data", b"", None))
    assert [b"a", b"b"] == keys(store, b"", None)
    put(store, {b"0": b"2"})

    assert [b"0", b"a", b"b"] == keys(store, b"", None)


def test_range_deletes_come_before_puts(store: Store) -> None:
    """In one batch a range delete takes what was stored, not what the batch puts into the same range."""
    put(store, dict.fromkeys((b"a", b"b", b"c", b"d"), b"old"))
    changes = Changes()
    changes.of("data")[b"b"] = b"new"
    changes.ranges.append(("data", b"a", b"d"))
    store.write(changes)

    assert {b"b": b"new", b"d": b"old"} == family(store, "data")
    assert b"new" == store.getter("data")(b"b")
    assert store.getter("data")(b"c") is None


def test_range_delete_is_of_one_column_family(store: Store) -> None:
    """A range delete leaves the same keys of other column families alone."""
    put(store, {b"a": b"1"})
    put(store, {b"a": b"1"}, "metadata")
    changes = Changes()
    changes.ranges.append(("metadata", b"a", b"b"))
    store.write(changes)

    assert ({b"a": b"1"}, {}) == (family(store, "data"), family(store, "metadata"))


def test_an_empty_batch_is_fine(store: Store) -> None:
    """A batch without anything in it changes nothing."""
    put(store, {b"a": b"1"})
    store.write(Changes())

    assert {b"a": b"1"} == family(store, "data")


def test_content_stays_when_the_store_is_opened_again(opener: Opener) -> None:
    """`close` really closes, getters and ended scans notwithstanding: the same process opens the same content again."""
    for round_ in range(3):
        store = opener()
        get = store.getter("data")
        put(store, {b"%d" % round_: b"x"})
        assert round_ + 1 == len(keys(store, b"", None))
        assert b"x" == get(b"0")
        store.close()


def test_changes_copies_are_independent() -> None:
    """What is added to a copy of a batch is not in the batch, nor the other way round."""
    batch = Changes()
    batch.of("data")[b"a"] = b"1"
    copy = batch.copy()
    copy.of("data")[b"b"] = b"2"
    batch.ranges.append(("data", b"", b"z"))

    assert ({"data": {b"a": b"1"}}, [("data", b"", b"z")]) == (batch.values, batch.ranges)
    assert ({"data": {b"a": b"1", b"b": b"2"}}, []) == (copy.values, copy.ranges)


KEYS = st.binary(max_size=3)
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(KEYS, KEYS), max_size=2),
        st.dictionaries(KEYS, st.one_of(st.none(), st.binary(max_size=2)), max_size=6),
    ),
    max_size=8,
)


@given(batches=BATCHES, start=KEYS, end=st.one_of(st.none(), KEYS), reverse=st.booleans())
def test_memory_store_equals_rocksdb(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[tuple[bytes, bytes]], dict[bytes, bytes | None]]],
    start: bytes,
    end: bytes | None,
    reverse: bool,
) -> None:
    """After random batches both stores hold the same and give the same records in any range, either way."""
    memory, rocks = MemoryStore(["data"]), RocksStore(tmp_path_factory.mktemp("rocks") / "0", ["data"])
    try:
        for ranges, values in batches:
            changes = Changes()
            changes.ranges += [("data", min(bounds), max(bounds)) for bounds in ranges]
            changes.of("data").update(values)
            memory.write(changes)
            rocks.write(changes)

        assert family(memory, "data") == family(rocks, "data")
        assert keys(memory, start, end, reverse=reverse) == keys(rocks, start, end, reverse=reverse)
    finally:
        rocks.close()


def test_what_a_service_asks(opener: Opener) -> None:
    """A store that was opened again is the same one, and can be flushed, compacted and measured at any time."""
    store = opener()
    put(store, {b"a": b"1"})
    same = store.sameness()
    store.flush_all()
    is_compacted = store.compact("data", b"", b"z")
    store.close()
    store = opener()

    assert (True, True) == (same(), is_compacted)
    assert 0 <= store.wal_bytes() <= store.stored_bytes()
    assert 0 == store.number_of("background-errors")
    assert store.properties().keys() in ({*SHARED_CFS, *FAMILIES}, set())
    store.close()
