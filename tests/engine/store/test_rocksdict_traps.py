"""One guard for each trap of rocksdict 0.3.29 that `engine/store/rocks.py` is written around.

A failure here after an upgrade is good news or bad: a trap is gone, so its workaround may go too; or it has moved.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rocksdict as rd  # noqa: TID251 - the library itself is what is tested here

from engine.store import rocks
from engine.store.store import EXPIRY_CF, Changes

VALUE = b"x" * 100


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the database of a test lies."""
    return str(tmp_path / "db")


def options() -> rd.Options:
    """Options of a raw database that makes what is missing."""
    result = rd.Options(raw_mode=True)
    result.create_if_missing(True)
    result.create_missing_column_families(True)
    return result


def open_database(path: str, *names: str) -> rd.Rdict:
    """A raw database with the column families `names`."""
    families = {name: rd.Options(raw_mode=True) for name in ("default", *names)}
    return rd.Rdict(path, options(), column_families=families)


def sst_files(path: str) -> int:
    """How many SST files there are."""
    return len(list(Path(path).glob("*.sst")))


def test_snapshot_iterators_read_live_data(path: str) -> None:
    """An iterator of a snapshot ignores it, while a point read of the same snapshot heeds it. Not used by the store."""
    database = open_database(path)
    database[b"a"] = b"old"
    snapshot = database.snapshot()
    database[b"a"] = b"new"

    assert (b"old", [b"new"]) == (snapshot[b"a"], list(snapshot.values()))


def test_plain_iterators_are_points_in_time(path: str) -> None:
    """An iterator sees its database as it was when it was made, also after it seeks anew. Scans rely on it."""
    database = open_database(path)
    database[b"a"] = b"old"
    iterator = database.iter()
    database[b"a"] = b"new"
    database[b"b"] = b"new"
    iterator.seek(b"")
    first = (iterator.key(), iterator.value())
    iterator.next()

    assert ((b"a", b"old"), False) == (first, iterator.valid())


def test_values_replaced_in_place_are_no_points_in_time(path: str) -> None:
    """A value takes the place of one that a deleted range hides, and is hidden, too; an iterator sees a later value.

    The store says so of `counters`, and rank counts that were staged are deleted one by one.
    """
    database_options, family = options(), rd.Options(raw_mode=True)
    database_options.set_allow_concurrent_memtable_write(False)
    family.set_inplace_update_support(True)
    database = rd.Rdict(path, database_options, column_families={"default": family})
    for key in (b"a", b"b", b"c"):
        database[key] = b"old"
    iterator = database.iter()
    database[b"a"] = b"new"
    iterator.seek(b"a")
    database.delete_range(b"b", b"c")
    database[b"b"] = b"new"
    del database[b"c"]
    database[b"c"] = b"new"

    assert (b"new", None, b"new") == (iterator.value(), database.get(b"b"), database[b"c"])


def test_an_iterator_that_stands_nowhere_has_no_key(path: str) -> None:
    """Before its first seek, behind the last record and before the first: scans end there without asking `valid`."""
    database = open_database(path)
    database[b"b"] = b""
    iterator = database.iter()
    keys = [iterator.key()]
    iterator.seek(b"a")
    keys.append(iterator.key())
    iterator.next()
    keys.append(iterator.key())
    iterator.seek_for_prev(b"a")
    keys.append(iterator.key())

    assert [None, b"b", None, None] == keys


def test_the_lower_bound_is_an_upper_bound(path: str) -> None:
    """`set_iterate_lower_bound` bounds the upper end. The store compares keys by itself."""
    database = open_database(path)
    for key in (b"a", b"b", b"c"):
        database[key] = b""
    read_options = rd.ReadOptions()
    read_options.set_iterate_lower_bound(b"b")

    assert [b"a"] == list(database.keys(read_opt=read_options))


def test_an_upper_bound_is_read_after_it_is_freed(path: str) -> None:
    """An iterator whose bound and read options are both gone reads whatever lies there now, and ends elsewhere."""
    database = open_database(path)
    for n in range(1000):
        database[b"%05d" % n] = b""
    counts = []
    for kept in (True, False):
        read_options, bound = rd.ReadOptions(), b"%05d" % 500
        read_options.set_iterate_upper_bound(bound)
        iterator = database.iter(read_options)
        if not kept:
            del read_options, bound
        others = [b"%05d" % n for n in range(100)]
        iterator.seek(b"")
        count = 0
        while iterator.valid():
            count += 1
            iterator.next()
        counts.append(count == 500)
        del iterator, others

    assert [True, False] == counts


def test_the_store_keeps_an_upper_bound_as_long_as_its_scan(tmp_path: Path) -> None:
    """A scan of the store, whose bound nobody else keeps, ends where it should, whatever memory is used again."""
    store = rocks.RocksStore(tmp_path / "0", ["data"])
    changes = Changes()
    changes.of(EXPIRY_CF).update({b"%05d" % n: b"" for n in range(1000)})
    store.write(changes)
    found, expected = [], []
    for n in range(200):
        scan = store.scan(EXPIRY_CF, b"", b"%05d" % (500 + n))
        others = [b"%05d" % other for other in range(100)]
        found.append(len(list(scan)))
        expected.append(500 + n)
        del others
    store.close()

    assert expected == found


def test_dropping_a_column_family_handle_flushes_it(path: str) -> None:
    """Each `get_column_family` that is dropped again writes an SST. The store gets each once and keeps it."""
    database = open_database(path, "data")
    for n in range(5):
        family = database.get_column_family("data")
        family[b"%d" % n] = VALUE
        del family

    assert 5 == sst_files(path)


def test_close_leaves_the_lock_to_whoever_holds_a_handle(path: str) -> None:
    """`close` does not close while a handle or an iterator lives. The store lets go of all of its own."""
    database = open_database(path, "data")
    handle = database.get_column_family_handle("data")
    database.close()
    with pytest.raises(Exception, match="lock hold by current process"):
        open_database(path, "data")
    del handle
    database = open_database(path, "data")
    iterator = database.iter()
    database.close()
    with pytest.raises(Exception, match="lock hold by current process"):
        open_database(path, "data")
    del iterator

    assert [] == list(open_database(path, "data").keys())


def test_delete_range_ignores_the_default_column_family_of_a_batch(path: str) -> None:
    """`delete_range` without a handle goes to `default`, whatever the batch was told. The store passes the handle."""
    database = open_database(path, "data")
    data = database.get_column_family("data")
    handle = database.get_column_family_handle("data")
    database[b"a"] = data[b"a"] = VALUE
    batch = rd.WriteBatch(raw_mode=True)
    batch.set_default_column_family(handle)
    batch.delete_range(b"a", b"b")
    batch[b"c"] = VALUE
    database.write(batch)

    assert ([], [b"a", b"c"]) == (list(database.keys()), list(data.keys()))


def test_writing_through_a_column_family_does_not_aim_a_batch(path: str) -> None:
    """`family.write(batch)` writes to `default` all the same. The store aims each batch by handle."""
    database = open_database(path, "data")
    data = database.get_column_family("data")
    batch = rd.WriteBatch(raw_mode=True)
    batch[b"a"] = VALUE
    data.write(batch)

    assert ([b"a"], []) == (list(database.keys()), list(data.keys()))


def test_a_raw_database_opens_without_raw_mode(path: str) -> None:
    """Opened without raw mode it reads None for what is there, and its settings are rewritten: always pass raw mode."""
    database = open_database(path)
    database[b"a"] = VALUE
    database.close()
    config = Path(path) / "rocksdict-config.json"
    assert json.loads(config.read_text())["raw_mode"]
    pickling = rd.Options(raw_mode=False)
    database = rd.Rdict(path, pickling)

    assert database.get(b"a") is None
    database.close()
    assert not json.loads(config.read_text())["raw_mode"]


def test_options_of_a_column_family_are_not_kept(path: str) -> None:
    """Reopened without its options a column family has lost its cache. The store passes them at each opening."""
    cache = rd.Cache(64 << 20)
    table = rd.BlockBasedOptions()
    table.set_block_cache(cache)
    with_cache = rd.Options(raw_mode=True)
    with_cache.set_block_based_table_factory(table)

    def capacity(families: dict[str, rd.Options] | None) -> int | None:
        database = rd.Rdict(path, options(), column_families=families)
        data = database.get_column_family("data")
        result = data.property_int_value("rocksdb.block-cache-capacity")
        data.close()
        database.close()
        return result

    families = {"default": rd.Options(raw_mode=True), "data": with_cache}
    assert 64 << 20 == capacity(families)
    assert 64 << 20 == capacity(families)
    assert 64 << 20 != capacity(None)


def test_write_options_are_attributes() -> None:
    """`disable_wal` and `no_slowdown` are properties, whatever the type stub says of the former."""
    write_options: Any = rd.WriteOptions()
    before = (write_options.disable_wal, write_options.no_slowdown)
    write_options.disable_wal = True
    write_options.no_slowdown = True

    assert (False, False) == before
    assert (True, True) == (write_options.disable_wal, write_options.no_slowdown)


def test_without_the_wal_column_families_tear(path: str) -> None:
    """A batch of two column families, no WAL, one of them flushed, the process killed: only that one has the batch."""
    program = f"""
import os
import rocksdict as rd
from tests.engine.store.test_rocksdict_traps import open_database
database = open_database({path!r}, "a", "b")
families = [database.get_column_family(name) for name in "ab"]
batch = rd.WriteBatch(raw_mode=True)
for name in "ab":
    batch.put(b"k", b"v", database.get_column_family_handle(name))
write_options = rd.WriteOptions()
write_options.disable_wal = True
database.write(batch, write_options)
families[0].flush()
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])
    database = open_database(path, "a", "b")

    assert [[b"k"], []] == [list(database.get_column_family(name).keys()) for name in "ab"]


def test_an_iteration_ends_at_damage_in_silence(path: str) -> None:
    """`items` of a damaged file stops early and says nothing; the iterator's status tells. The store asks for it."""
    database = open_database(path)
    for n in range(1000):
        database[b"%04d" % n] = VALUE
    database.close()
    (file,) = Path(path).glob("*.sst")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x55
    file.write_bytes(content)
    database = open_database(path)
    iterator = database.iter()
    iterator.seek_to_first()
    while iterator.valid():
        iterator.next()

    assert 0 < len(list(database.items())) < 1000
    with pytest.raises(Exception, match="checksum mismatch"):
        iterator.status()


def test_a_scan_from_the_head_crosses_its_tombstones(path: str) -> None:
    """Deleted keys are walked over one by one, so what pops from the head keeps a floor and seeks there."""
    database = open_database(path)
    for n in range(1000):
        database[b"%04d" % n] = VALUE
    database.flush()
    for n in range(900):
        del database[b"%04d" % n]
    few = rd.ReadOptions()
    few.set_max_skippable_internal_keys(500)
    iterator = database.iter(few)
    iterator.seek(b"")
    with pytest.raises(Exception, match="Too many internal keys skipped"):
        iterator.status()
    iterator.seek(b"0900")

    assert b"0900" == iterator.key()


def test_live_files_are_those_of_all_column_families(path: str) -> None:
    """A handle's `live_files` names the files of every column family, and not of which: pieces are cut by all."""
    database = open_database(path, "a", "b")
    for name in "ab":
        family = database.get_column_family(name)
        family[name.encode()] = VALUE
        family.flush()
    files = [(file["start_key"], file["end_key"]) for file in database.get_column_family("a").live_files()]

    assert [(b"a", b"a"), (b"b", b"b")] == sorted(files)
    assert not any("column_family_name" in file for file in database.live_files())


def test_a_range_delete_is_one_deletion_of_a_file(path: str) -> None:
    """So a file that holds nothing but range deletes counts as full of deletions, and is compacted by itself."""
    database = open_database(path)
    database.delete_range(b"a", b"z")
    database.flush()
    (file,) = database.live_files()

    assert (1, 1, b"a", b"z") == (file["num_entries"], file["num_deletions"], file["start_key"], file["end_key"])


def test_a_database_that_is_only_read_gets_a_file(path: str) -> None:
    """Even where it only reads a database, rocksdict writes a file of its own beside it: hence directories of links."""
    open_database(path).close()
    file = Path(path) / "rocksdict-config.json"
    file.unlink()
    rd.Rdict(path, rd.Options(raw_mode=True), access_type=rd.AccessType.read_only()).close()

    assert file.exists()
