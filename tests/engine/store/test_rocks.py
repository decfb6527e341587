"""The store in RocksDB where it is more than the Store protocol: opening, damage, crashes, write stalls."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from engine.errors import CorruptionError, StoreBusyError
from engine.store.iterators import SWEPT_FROM
from engine.store.options import SharedMemory, database_options
from engine.store.rocks import RocksStore
from engine.store.store import EXPIRY_CF, Changes
from tests.engine.harness import family
from tests.engine.store.families import FAMILIES

RECORDS = {b"%05d" % n: b"value of %d, " % n * 8 for n in range(2000)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store of a test lies."""
    return tmp_path / "0"


@pytest.fixture
def store(path: Path) -> Iterator[RocksStore]:
    """An open store."""
    store = RocksStore(path, FAMILIES)
    yield store
    store.close()


def write(store: RocksStore, values: dict[bytes, bytes | None], *names: str) -> None:
    """Write `values` as one batch to each of the column families."""
    changes = Changes()
    for name in names or ("data",):
        changes.of(name).update(values)
    store.write(changes)


def test_a_second_writer_is_refused(path: Path, store: RocksStore) -> None:
    """A directory that is open is not opened again; the message says what to do, and the first writer is unharmed."""
    with pytest.raises(BlockingIOError, match=r"0 is open in another process; stop it first, or read"):
        RocksStore(path, FAMILIES)
    write(store, {b"a": b"1"})

    assert {b"a": b"1"} == family(store, "data")


def test_another_process_is_refused(path: Path, store: RocksStore) -> None:
    """A second process gets the same refusal as a second opening in this one."""
    program = f"""
from pathlib import Path
from engine.store.rocks import RocksStore
try:
    RocksStore(Path({str(path)!r}), {FAMILIES!r})
except BlockingIOError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert f"{path} is open in another process; stop it first, or read beside it with `slotlog query`\n" == done.stdout


def test_reading_beside_a_writer(path: Path, store: RocksStore) -> None:
    """A read-only opening sees what the writer had written, flushed or not, as of its opening; it cannot write."""
    write(store, {b"a": b"1"})
    reader = RocksStore(path, FAMILIES, read_only=True)
    write(store, {b"b": b"2"})

    assert {b"a": b"1"} == family(reader, "data")
    with pytest.raises(Exception, match=r"read.only"):
        write(reader, {b"c": b"3"})
    reader.close()
    assert {b"a": b"1", b"b": b"2"} == family(store, "data")


def test_reading_makes_no_directory(path: Path) -> None:
    """A read-only opening of what is not there fails and leaves nothing behind."""
    with pytest.raises(FileNotFoundError, match="0 cannot be opened: no state is there"):
        RocksStore(path, FAMILIES, read_only=True)

    assert not path.exists()


def test_words_of_the_path_are_not_taken_for_the_error(tmp_path: Path) -> None:
    """A failure to open is judged by RocksDB's words, not by a path that happens to contain them."""
    path = tmp_path / "LOCK corruption"
    RocksStore(path, (*FAMILIES, "unknown")).close()

    with pytest.raises(OSError, match=r"cannot be opened: .*Column families not opened: unknown") as caught:
        RocksStore(path, FAMILIES)
    assert OSError is type(caught.value)


def test_a_scan_of_the_expiry_index_crosses_no_tombstones_behind_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends at the first entry behind its end, be it a deleted one; RocksDB's own statistics tell what it skipped."""
    options = database_options(SharedMemory())
    options.enable_statistics()
    monkeypatch.setattr("engine.store.rocks.database_options", lambda _: options)
    store = RocksStore(path, FAMILIES)
    for value in (b"", None):
        write(store, dict.fromkeys(RECORDS, value), EXPIRY_CF)
    found = list(store.scan(EXPIRY_CF, b"", b"00003"))
    store.close()
    skipped = re.search(r"rocksdb\.number\.iter\.skip COUNT : (\d+)", options.get_statistics() or "")

    assert [] == found
    assert skipped is not None
    assert int(skipped[1]) < 20


def sst_of_data(path: Path) -> Path:
    """The one SST file that `RECORDS` make."""
    (file,) = (file for file in path.glob("*.sst") if file.stat().st_size > 4096)
    return file


def damage(file: Path, at: int) -> None:
    """Flip some bits of some bytes."""
    content = bytearray(file.read_bytes())
    for index in range(at, at + 8):
        content[index] ^= 0x55
    file.write_bytes(content)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_a_damaged_file_raises(path: Path, reverse: bool) -> None:
    """A scan that meets a damaged block raises, instead of ending early as if nothing more were there."""
    store = RocksStore(path, FAMILIES)
    write(store, {**RECORDS})
    store.close()
    file = sst_of_data(path)
    damage(file, file.stat().st_size // 3)
    store = RocksStore(path, FAMILIES)
    seen: list[tuple[bytes, bytes]] = []

    with pytest.raises(CorruptionError, match=r"damaged data: .*checksum mismatch"):
        seen.extend(store.scan("data", b"", None, reverse=reverse))
    assert 0 < len(seen) < len(RECORDS)
    store.close()


@pytest.mark.parametrize("count", [0, 1, SWEPT_FROM - 1, SWEPT_FROM, SWEPT_FROM + 1, SWEPT_FROM + 256, 1000])
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_a_scan_of_any_length_ends_at_its_end(store: RocksStore, count: int, is_last: bool, deleted: bool) -> None:
    """Scans that go over to lists give the same, whether others stand behind their end, and where much was deleted."""
    write(store, dict.fromkeys((b"a%05d" % n for n in range(2000)), b"x"))
    if deleted:
        write(store, dict.fromkeys(b"a%05d" % n for n in range(2000)))
    expected = [(b"b%05d" % n, b"%d" % n) for n in range(count)]
    write(store, {**dict(expected), **({} if is_last else {b"c": b"x"})})

    for _ in range(2):
        assert expected == list(store.scan("data", b"b", b"c"))
        assert expected == list(store.scan("data", b"b", None))[:count]


@pytest.mark.parametrize("taken", [0, 1, SWEPT_FROM - 1, SWEPT_FROM, SWEPT_FROM + 1, SWEPT_FROM + 300, 999])
def test_a_long_scan_gives_what_was_there_when_it_began(store: RocksStore, taken: int) -> None:
    """A write in the middle of a scan changes nothing of it, and other scans beside it do not either."""
    before: dict[bytes, bytes | None] = {b"b%05d" % n: b"old" for n in range(1000)}
    write(store, before)
    records = store.scan("data", b"b", b"c")
    found = list(islice(records, taken))
    assert list(before.items()) == list(store.scan("data", b"b", b"c"))
    write(store, {**dict.fromkeys(before, b"new"), **{b"b%05d+" % n: b"more" for n in range(1000)}, b"b00999": None})
    assert 1999 == len(list(store.scan("data", b"b", b"c")))
    found += records

    assert list(before.items()) == found


def test_a_read_of_a_damaged_block_raises(path: Path) -> None:
    """A point read in a damaged block raises, instead of saying that the key is absent; other blocks can be read."""
    store = RocksStore(path, FAMILIES)
    write(store, {**RECORDS})
    store.close()
    file = sst_of_data(path)
    damage(file, file.stat().st_size // 3)
    store = RocksStore(path, FAMILIES)
    get = store.getter("data")
    outcomes = []
    for key, value in RECORDS.items():
        try:
            outcomes.append(get(key) == value)
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more special
            outcomes.append("checksum mismatch" in str(error))

    assert [True] * len(RECORDS) == outcomes
    store.close()


@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*"])
@pytest.mark.damaging
def test_a_damaged_directory_is_named(path: Path, pattern: str) -> None:
    """A directory whose own files are damaged is not opened, and the message names the way out."""
    store = RocksStore(path, FAMILIES)
    write(store, {**RECORDS})
    store.close()
    (file,) = path.glob(pattern)
    damage(file, 0)

    with pytest.raises(CorruptionError, match=r"0 is damaged .*; rebuild it with `slotlog replay --swap`"):
        RocksStore(path, FAMILIES)


def test_a_torn_wal_leaves_whole_batches(path: Path, tmp_path: Path, store: RocksStore) -> None:
    """Wherever the write-ahead log is cut, every column family holds the same batches: the first ones, none in part."""
    for n in range(40):
        write(store, {b"%02d" % n: b"x" * (n * 5 % 37)}, *FAMILIES, "system")
    kept = set()
    (wal,) = path.glob("*.log")
    for cut in range(0, wal.stat().st_size, 97):
        torn = tmp_path / f"torn-{cut}"
        shutil.copytree(path, torn)
        (copy,) = torn.glob("*.log")
        with copy.open("r+b") as file:
            file.truncate(cut)
        reopened = RocksStore(torn, FAMILIES)
        batches = [b"%02d" % n for n in range(len(family(reopened, "system")))]
        assert [batches] * len(FAMILIES) == [list(family(reopened, name)) for name in FAMILIES]
        kept.add(len(batches))
        reopened.close()
        shutil.rmtree(torn)

    assert len(kept) > 20


@pytest.mark.parametrize("bulk", [False, True])
def test_what_a_killed_process_leaves(path: Path, bulk: bool) -> None:
    """A killed process loses nothing; of what it built without a WAL, nothing after `flush_all`."""
    program = f"""
import os
from pathlib import Path
from engine.store.store import EXPIRY_CF, Changes
from engine.store.rocks import RocksStore
store = RocksStore(Path({str(path)!r}), {FAMILIES!r}, bulk={bulk})
for n in range(100):
    changes = Changes()
    for name in ("data", "system"):
        changes.of(name)[b"%03d" % n] = b""
    store.write(changes)
    if n == 49:
        store.flush_all()
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    store = RocksStore(path, FAMILIES)

    assert [50 if bulk else 100] * 2 == [len(family(store, name)) for name in ("data", "system")]
    store.close()


def test_elements_and_the_order_of_sorted_sets_have_small_memtables(path: Path) -> None:
    """RocksDB has taken what the options say of these column families: small memtables, more files to a compaction."""
    families = ("data", "metadata", "zset_score", "zset_rank")
    RocksStore(path, families, scattered=families[2:], looked_up=("metadata",)).close()
    options = max(path.glob("OPTIONS-*")).read_text()
    of_family = re.findall(
        r'\[CFOptions "(\w+)"\].*?level0_file_num_compaction_trigger=(\d+)\n.*?write_buffer_size=(\d+)\n',
        options,
        re.DOTALL,
    )

    small = {name: (int(size) >> 20, int(files)) for name, files, size in of_family if int(size) < 32 << 20}
    assert {
        "data": (8, 8),
        "zset_score": (4, 8),
        "zset_rank": (4, 8),
        "expiry": (8, 4),
        "graveyard": (2, 4),
    } == small


def test_counters_are_replaced_in_place(path: Path) -> None:
    """A memtable of counters does not grow with what replaces them, and they are there after a crash."""
    store = RocksStore(path, ("data", "zset_rank"), counters=("zset_rank",))
    for n in range(1000):
        write(store, {b"a": b"%08d" % n, b"b": b"%08d" % n}, "data", "zset_rank")
    entries = {
        name: store._families[name].property_int_value("rocksdb.num-entries-active-mem-table")
        for name in ("data", "zset_rank")
    }
    shutil.copytree(path, path.with_name("crashed"))
    store.close()
    found = RocksStore(path.with_name("crashed"), ("data", "zset_rank"), counters=("zset_rank",))

    assert {"data": 2000, "zset_rank": 2} == entries
    assert {b"a": b"00000999", b"b": b"00000999"} == family(found, "data") == family(found, "zset_rank")
    found.close()


def filters(path: Path) -> dict[str, float]:
    """Which part of a memtable its filter is, by column family, where there is one."""
    options = max(path.glob("OPTIONS-*")).read_text()
    parts = re.findall(r'\[CFOptions "(\w+)"\].*?memtable_prefix_bloom_size_ratio=([\d.]+)\n', options, re.DOTALL)
    return {name: float(part) for name, part in parts if float(part)}


def test_memtables_that_are_looked_up_have_filters(tmp_path: Path) -> None:
    """Metadata and ids have them, stores share what one would take, and very many have none."""
    found = {}
    for stores in (1, 4, 100):
        path = tmp_path / str(stores)
        RocksStore(path, FAMILIES, SharedMemory(stores=stores), looked_up=("metadata",)).close()
        found[stores] = filters(path)

    assert {1: pytest.approx(1 / 256, rel=1e-3), 4: pytest.approx(1 / 1024, rel=1e-3)} == {
        stores: parts.get("metadata") for stores, parts in found.items() if parts
    }
    assert all(set(parts) <= {"metadata", "dedup"} and len(parts) != 1 for parts in found.values())


def test_a_filter_hides_nothing(path: Path) -> None:
    """What was put, replaced and deleted, one by one and as a range, is read as it was written last."""
    store = RocksStore(path, FAMILIES, looked_up=("data",))
    get = store.getter("data")
    write(store, {**RECORDS})
    changes = Changes()
    changes.ranges.append(("data", b"00003", b"00005"))
    changes.of("data").update({b"00001": b"new", b"00002": None})
    store.write(changes)

    assert [b"new", None, None, None, RECORDS[b"00005"]] == [get(b"%05d" % n) for n in range(1, 6)]
    assert get(b"absent") is None
    store.close()


def test_a_write_stall_is_a_busy_store(store: RocksStore) -> None:
    """A write that RocksDB would hold back fails before it writes anything, and passes when there is room."""
    data = store._families["data"]
    never = {"level0_file_num_compaction_trigger": "100"}
    data.set_options({**never, "level0_slowdown_writes_trigger": "2", "level0_stop_writes_trigger": "2"})
    for n in range(2):
        write(store, {b"%d" % n: b"x"})
        data.flush()

    with pytest.raises(StoreBusyError, match="behind with its compactions; try again"):
        write(store, {b"2": b"x"})
    assert [b"0", b"1"] == list(family(store, "data"))
    data.compact_range(None, None)
    write(store, {b"2": b"x"})
    assert [b"0", b"1", b"2"] == list(family(store, "data"))


def test_disk_bytes_by_column_family(store: RocksStore) -> None:
    """Sizes on disk are told by column family, and count what was flushed."""
    write(store, {**RECORDS})
    assert 0 == store.disk_bytes()["data"]
    store.flush_all()

    assert {"system", "expiry", "graveyard", "dedup", "local", *FAMILIES} == store.disk_bytes().keys()
    assert 4096 < store.disk_bytes()["data"]
    assert 0 == store.disk_bytes()["metadata"]


def test_partitions_share_one_cache(tmp_path: Path) -> None:
    """Stores opened with the same memory use one block cache and one budget of write buffers."""
    memory = SharedMemory(cache_bytes=8 << 20, memtable_bytes=8 << 20)
    stores = [RocksStore(tmp_path / str(n), FAMILIES, memory) for n in range(2)]
    write(stores[0], {**RECORDS})
    stores[0].flush_all()
    before = stores[1]._families["data"].property_int_value("rocksdb.block-cache-usage") or 0
    list(stores[0].scan("data", b"", None))

    assert before < (stores[1]._families["data"].property_int_value("rocksdb.block-cache-usage") or 0)
    for store in stores:
        store.close()


def test_a_point_read_takes_no_whole_filter(tmp_path: Path) -> None:
    """Opening a file of very many small records and reading one of them brings only small blocks into the cache.

    A filter of one piece would soon be larger than a shard of the cache, and read from disk at each read.
    """
    store = RocksStore(tmp_path, FAMILIES)
    write(store, {b"%08d" % n: b"" for n in range(200_000)})
    store.flush_all()
    store._families["data"].compact_range(None, None)  # the filters of level 0 are held in any case
    store.close()
    memory = SharedMemory(cache_bytes=64 << 20)
    store = RocksStore(tmp_path, FAMILIES, memory)

    assert b"" == store.getter("data")(b"%08d" % 123_456)
    assert memory.cache.get_usage() < 100_000
    store.close()
