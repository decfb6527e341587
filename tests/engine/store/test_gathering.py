"""Batches that are gathered: reads see them at once, RocksDB later, and all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import native
from engine.errors import StoreBusyError, StoreFullError
from engine.store import gathering
from engine.store.gathered import Gathered, gather, merged
from engine.store.gathering import GatheringStore
from engine.store.memory import MemoryStore
from engine.store.options import SharedMemory
from engine.store.rocks import RocksStore
from engine.store.store import Changes
from tests.engine.harness import family
from tests.engine.store.families import FAMILIES

KEYS = st.binary(max_size=3)
VALUES = st.dictionaries(KEYS, st.one_of(st.none(), st.binary(max_size=2)), max_size=20)
BOUNDS = st.lists(st.tuples(KEYS, KEYS), max_size=1)


@pytest.fixture(params=[True, False], ids=["compiled", "Python alone"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run on what is compiled, or on Python alone."""
    monkeypatch.setattr(native, "_chosen", native.chosen() if request.param else None)


def opened(path: Path, stores: int = 1) -> GatheringStore:
    """A store in this directory, one of so many in its process, that gathers."""
    store = GatheringStore(path, FAMILIES, SharedMemory(stores=stores), 16_384)
    store.is_gathering = True
    return store


def stored(path: Path) -> dict[bytes, bytes]:
    """What RocksDB has, read beside the writer."""
    with closing(RocksStore(path, FAMILIES, read_only=True)) as store:
        return family(store, "data")


def changes(values: dict[bytes, bytes | None]) -> Changes:
    """A batch of one column family."""
    batch = Changes()
    batch.of("data").update(values)
    return batch


def refusing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Callable[[], None]:
    """Let RocksDB refuse every write; returns what lets it take them again."""
    write = RocksStore.write

    def refuse(_store: RocksStore, _changes: Changes) -> None:
        raise error

    monkeypatch.setattr(RocksStore, "write", refuse)
    return lambda: monkeypatch.setattr(RocksStore, "write", write)


@pytest.mark.usefixtures("build")
@given(
    steps=st.lists(st.tuples(BOUNDS, VALUES, st.booleans()), max_size=6), start=KEYS, end=KEYS, most=st.integers(0, 9)
)
def test_it_reads_as_a_store_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[list[tuple[bytes, bytes]], dict[bytes, bytes | None], bool]],
    start: bytes,
    end: bytes,
    most: int,
) -> None:
    """Whatever was written before, between and behind, each kind of read gives what a store in memory gives."""
    memory = MemoryStore(FAMILIES)
    with closing(opened(tmp_path_factory.mktemp("gathering") / "0")) as store:
        get, expected = store.getter("data"), memory.getter("data")
        for bounds, values, is_written in steps:
            batch = changes(values)
            batch.ranges += [("data", min(each), max(each)) for each in bounds]
            memory.write(batch)
            store.write(batch)
            assert memory.keys("data", start, end, most) == store.keys("data", start, end, most)
            if is_written:
                store.write_gathered()
            for reverse in (False, True):
                both = [list(each.scan("data", start, end, reverse=reverse)) for each in (memory, store)]
                assert both[0] == both[1]
            assert memory.records("data", start, end, most) == store.records("data", start, end, most)
            assert [expected(key) for key in values] == [get(key) for key in values]
        assert family(memory, "data") == family(store, "data")


@pytest.mark.usefixtures("build")
def test_rocksdb_has_it_when_it_is_written(tmp_path: Path) -> None:
    """Batches wait until `write_gathered`, a batch that is not gathered, or `close` writes all of them."""
    store = opened(tmp_path / "0")
    store.write(changes({b"a": b"1", b"b": b"1"}))
    store.write(changes({b"a": b"2", b"b": None}))
    before = stored(tmp_path / "0")
    store.write_gathered()
    after = stored(tmp_path / "0")
    store.write(changes({b"c": b"3"}))
    store.is_gathering = False
    store.write(changes({b"d": b"4"}))
    at_once = stored(tmp_path / "0")
    store.is_gathering = True
    store.write(changes({b"d": b"5"}))
    store.close()

    assert ({}, {b"a": b"2"}, {b"a": b"2", b"c": b"3", b"d": b"4"}) == (before, after, at_once)
    assert {b"a": b"2", b"c": b"3", b"d": b"5"} == stored(tmp_path / "0")


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_wide_scan_writes_what_is_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool) -> None:
    """Of more records than `MERGED_MAX` all are in RocksDB behind it, or merged, where it does not take them now."""
    values: dict[bytes, bytes | None] = {b"%03d" % number: b"" for number in range(gathering.MERGED_MAX + 1)}
    with closing(opened(tmp_path / "0")) as store:
        store.write(changes({b"000": b"old"}))
        store.write_gathered()
        store.write(changes(values))
        narrow, before = list(store.scan("data", b"000", b"%03d" % gathering.MERGED_MAX)), stored(tmp_path / "0")
        recover = refusing(monkeypatch, StoreBusyError("behind")) if is_refused else lambda: None
        wide = [list(store.scan("data", b"", None)), store.records("data", b"", b"z", 999)]
        keys = store.keys("data", b"", b"z", 2)
        recover()

        assert (gathering.MERGED_MAX, {b"000": b"old"}) == (len(narrow), before)
        assert [sorted(values.items())] * 2 == wide
        assert [b"000", b"001"] == keys
        assert ({b"000": b"old"} if is_refused else values) == stored(tmp_path / "0")


def test_what_comes_while_a_write_is_suspended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is gathered while RocksDB is being written is not taken for written with the others."""
    write, suspensions = RocksStore.write, [1]

    def suspended(store: RocksStore, batch: Changes) -> None:
        write(store, batch)
        if suspensions:
            suspensions.pop()
            store.write(changes({b"a": b"2", b"b": b"2"}))

    with closing(opened(tmp_path / "0")) as store:
        store.write(changes({b"a": b"1"}))
        monkeypatch.setattr(RocksStore, "write", suspended)
        store.write_gathered()
        meanwhile = family(store, "data")
        store.write_gathered()

        assert {b"a": b"2", b"b": b"2"} == meanwhile == stored(tmp_path / "0")


@pytest.mark.usefixtures("build")
def test_what_is_much_is_written(tmp_path: Path) -> None:
    """With more than its part of the records or bytes the next batch writes those before it, not itself."""
    with closing(opened(tmp_path / "0", stores=64)) as store:
        store.write(changes({b"%06d" % number: b"" for number in range(300)}))
        store.write(changes({b"a": b"1"}))
        by_records = stored(tmp_path / "0")
        store.write(changes({b"b": bytes(gathering.BYTES_MAX // 64)}))
        store.write(changes({b"c": b"1"}))

        assert ({b"%06d" % number for number in range(300)}, 300) == (set(by_records), len(by_records))
        assert (b"a" in stored(tmp_path / "0"), b"c" in stored(tmp_path / "0")) == (True, False)


def test_a_range_delete_comes_behind_what_was_gathered(tmp_path: Path) -> None:
    """It takes gathered records, not those that its own batch puts, and is in RocksDB at once."""
    with closing(opened(tmp_path / "0")) as store:
        store.write(changes({b"a": b"1", b"b": b"1", b"x": b"1"}))
        batch = changes({b"b": b"2"})
        batch.ranges.append(("data", b"a", b"c"))
        store.write(batch)

        assert {b"b": b"2", b"x": b"1"} == family(store, "data") == stored(tmp_path / "0")


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("error", [StoreBusyError("behind"), StoreFullError("full"), Exception("IO error: broken")])
def test_a_write_that_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """What was gathered stays, and is read. Later batches are refused as a whole until it is written."""
    with closing(opened(tmp_path / "0")) as store:
        store.write(changes({b"a": b"1"}))
        recover = refusing(monkeypatch, error)
        with pytest.raises(type(error)):
            store.write_gathered()
        with pytest.raises(type(error)):
            store.write(changes({b"a": b"2", b"b": b"2"}))
        meanwhile = (family(store, "data"), store.getter("data")(b"b"), stored(tmp_path / "0"))
        recover()
        store.write(changes({b"b": b"3"}))

        assert ({b"a": b"1"}, None, {}) == meanwhile
        assert {b"a": b"1"} == stored(tmp_path / "0")
        assert {b"a": b"1", b"b": b"3"} == family(store, "data")


@pytest.mark.parametrize(
    ("error", "is_raised"), [(StoreBusyError("behind"), False), (StoreFullError("full"), False), (Exception("x"), True)]
)
def test_closing_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, is_raised: bool
) -> None:
    """A store that is busy or full is closed without what was gathered, which the log gives again; else it is told."""
    store = opened(tmp_path / "0")
    store.write(changes({b"a": b"1"}))
    store.write_gathered()
    store.write(changes({b"a": b"2"}))
    recover = refusing(monkeypatch, error)
    try:
        store.close()
        raised = False
    except OSError as failure:
        raised = "not closed well" in str(failure)
    recover()

    assert is_raised is raised
    with closing(opened(tmp_path / "0")) as again:
        assert {b"a": b"1"} == family(again, "data")


def test_a_checkpoint_is_what_was_written(tmp_path: Path) -> None:
    """What waits is not in a checkpoint: batches are there to the last one that was written, each as a whole."""
    with closing(opened(tmp_path / "0")) as store:
        store.write(changes({b"a": b"1"}))
        store.write_gathered()
        store.write(changes({b"a": b"2", b"b": b"2"}))
        store.checkpoint(str(tmp_path / "copy"))

    with closing(RocksStore(tmp_path / "copy", FAMILIES)) as copy:
        assert {b"a": b"1"} == family(copy, "data")


def test_memory_that_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a batch is never written, nor what was gathered before it: what is stored ends at a batch's position."""
    store = opened(tmp_path / "store")
    store.write(changes({b"a": b"1"}))
    store.write_gathered()
    store.write(changes({b"a": b"2", b"b": b"2"}))

    def half(values: dict[str, dict[bytes, bytes | None]], _: object) -> int:
        values["data"][b"a"] = b"3"
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(gathering, "gather", half)
        with pytest.raises(MemoryError):
            store.write(changes({b"a": b"3", b"c": b"3"}))
    with pytest.raises(OSError, match="open it again"):
        store.write(changes({b"d": b"4"}))
    store.close()
    assert {b"a": b"1"} == stored(tmp_path / "store")


@pytest.mark.usefixtures("build")
def test_a_batch_is_gathered_as_a_whole() -> None:
    """Where one of its column families is not there, or a value is no bytes in C, nothing of it is gathered."""
    values: dict[str, dict[bytes, bytes | None]] = {"data": {b"a": b"1"}, "metadata": {}}

    with pytest.raises(KeyError):
        gather(values, {"data": {b"a": b"2"}, "nowhere": {b"b": b"2"}})
    size = gather(values, {"metadata": {b"key": b"value", b"gone": None}})

    assert (3 + 5 + 4, {"data": {b"a": b"1"}, "metadata": {b"key": b"value", b"gone": None}}) == (size, values)


@pytest.mark.usefixtures("build")
@given(steps=st.lists(VALUES, max_size=6), start=KEYS, end=KEYS)
def test_gathered_records_are_in_order(steps: list[dict[bytes, bytes | None]], start: bytes, end: bytes) -> None:
    """After each batch the records of a range come in order, each once with its newest value; and when cleared none."""
    gathered, plain = Gathered(), dict[bytes, bytes | None]()
    for values in steps:
        gather({"data": gathered.values}, {"data": values})
        plain.update(values)
        inside = sorted(record for record in plain.items() if start <= record[0] < end)
        assert inside == gathered.between(start, end, len(inside))
        assert not inside or gathered.between(start, end, len(inside) - 1) is None
        assert sorted(plain.items()) == gathered.between(b"", None, len(plain))
    gathered.clear()

    assert [] == gathered.between(b"", None, 0)


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("count", [150, 2_500])
def test_records_go_to_rocksdb_in_any_number(tmp_path: Path, count: int) -> None:
    """A write of few records, or of many, which are sorted, some of them deleted, leaves what a store in memory has."""
    memory, number = MemoryStore(FAMILIES), 7
    with closing(opened(tmp_path / "0")) as store:
        for _ in range(4):
            values: dict[bytes, bytes | None] = {}
            for _ in range(count):
                number = number * 1_103_515_245 % (2**31 - 1)
                values[b"a common beginning %d" % (number % 5_000)] = None if number % 3 == 0 else b"%d" % number
            memory.write(changes(values))
            store.write(changes(values))
        store.write_gathered()

        assert family(memory, "data") == family(store, "data")


def test_a_merge_takes_what_it_needs() -> None:
    """It reads no stored record ahead of those that it gives."""
    read: list[bytes] = []

    def records() -> Iterator[tuple[bytes, bytes]]:
        for key in (b"b", b"d", b"f"):
            read.append(key)
            yield key, b"stored"

    both = merged(records(), [(b"a", b"new"), (b"b", None), (b"c", b"new")])

    assert [(b"a", b"new"), (b"c", b"new"), (b"d", b"stored")] == [next(both) for _ in range(3)]
    assert [b"b", b"d"] == read
