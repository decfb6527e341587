"""Directories that are not Kvrocks', or damaged, are refused with what to do; slots are found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import rocksdict as rd  # noqa: TID251 - makes directories of other programs

from engine.errors import CorruptionError
from engine.store.rocks import RocksStore
from ops.config import ConfigError
from ops.importing.kvrocks.directory import METADATA, opened
from ops.importing.kvrocks.slots import has_slots
from tests.layouts import column_families
from tests.ops.importing.kvrocks.imported import import_all
from tests.ops.importing.kvrocks.written import KvrocksWriter
from tests.ops.state.opening.test_manifest import LONGER, UNKNOWN_TYPE, flip, manifest_of, records


def _nothing(path: Path) -> None:
    path.rmdir()


def _empty(_path: Path) -> None:
    pass


def _other_files(path: Path) -> None:
    (path / "dump.rdb").write_bytes(b"REDIS0011")


def _slotlog(path: Path) -> None:
    RocksStore(path, column_families()).close()


def _another_rocksdb(path: Path) -> None:
    with KvrocksWriter(path, families=("things",)):
        pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_nothing, "is not there"),
        (_empty, "is no directory of Kvrocks: neither it nor its directory db holds a RocksDB database"),
        (_other_files, "is no directory of Kvrocks"),
        (_slotlog, "is a state of slotlog"),
        (_another_rocksdb, "it has no column family metadata, but default, things"),
    ],
)
def test_a_foreign_directory_is_refused(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    """What Kvrocks did not write is not read: the error says what it is, or what to name."""
    path = tmp_path / "from"
    path.mkdir()
    make(path)

    with pytest.raises(ConfigError, match=message):
        import_all(path)


def _without_current(database: Path) -> None:
    (database / "CURRENT").unlink()


def _without_a_table(database: Path) -> None:
    for table in database.glob("*.sst"):
        table.unlink()


def _of_a_newer_format(database: Path) -> None:
    """The version in a table's footer is one that no RocksDB has."""
    for table in database.glob("*.sst"):
        content = table.read_bytes()
        table.write_bytes(content[:-12] + b"\x63\0\0\0" + content[-8:])


def _broken_manifest(database: Path) -> None:
    (manifest,) = database.glob("MANIFEST-*")
    manifest.write_bytes(b"x" * manifest.stat().st_size)


@pytest.mark.damaging
@pytest.mark.parametrize("damage", [_without_current, _without_a_table, _of_a_newer_format, _broken_manifest])
def test_a_damaged_directory_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """One that cannot be opened, or whose tables cannot be read, is an error that names it."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"k", b"v")
        kvrocks.flush()
    damage(tmp_path / "db")

    with pytest.raises((CorruptionError, OSError), match=r"damaged|cannot be"):
        import_all(tmp_path)


@pytest.mark.damaging
@pytest.mark.parametrize("flipped", [LONGER, UNKNOWN_TYPE])
def test_a_list_of_tables_with_a_flipped_bit_is_refused(tmp_path: Path, flipped: tuple[int, int]) -> None:
    """RocksDB would leave out the tables behind it in silence, or read on at it for ever."""
    with KvrocksWriter(tmp_path) as kvrocks:
        for key in (b"k", b"l"):
            kvrocks.string(key, b"v")
            kvrocks.flush()
    database = tmp_path / "db"
    *_, (last, _) = records(manifest_of(database).read_bytes())
    flip(database, last + flipped[0], flipped[1])

    with pytest.raises(CorruptionError, match=rf"{database} is damaged \(its list of tables .*; bring it back from a"):
        import_all(tmp_path)


@pytest.mark.damaging
def test_a_comparator_of_its_own_is_refused(tmp_path: Path) -> None:
    """A database whose keys lie in another order than that of their bytes is not Kvrocks'."""
    rd.Rdict(str(tmp_path / "db")).close()

    with pytest.raises(CorruptionError, match="not of Kvrocks"):
        import_all(tmp_path)


@pytest.mark.damaging
def test_damage_within_the_keys_ends_the_import(tmp_path: Path) -> None:
    """Where a block of metadata is damaged the keys end with an error, not as if there were no more."""
    with KvrocksWriter(tmp_path) as kvrocks:
        for at in range(1000):
            kvrocks.string(b"%04d" % at, b"value" * 20)
        kvrocks.flush()
    table = max((tmp_path / "db").glob("*.sst"), key=lambda file: file.stat().st_size)
    content = bytearray(table.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    table.write_bytes(content)

    with pytest.raises(CorruptionError):
        import_all(tmp_path)


def test_a_backup_is_read_as_well(tmp_path: Path) -> None:
    """The database itself may be named: a backup of Kvrocks is one."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"k", b"v")

    assert {b"k": b"v"} == import_all(tmp_path / "db").values


def test_a_checkpoint_has_no_identity_and_is_read_as_well(tmp_path: Path) -> None:
    """Kvrocks makes its backups as checkpoints of RocksDB, in which the file IDENTITY is missing."""
    with KvrocksWriter(tmp_path / "kvrocks") as kvrocks:
        kvrocks.string(b"k", b"v")
        for backup in ("backup", "later"):
            kvrocks.checkpoint(tmp_path / backup)
            kvrocks.string(b"l", b"v")
    identities = []
    for backup in ("backup", "backup", "later"):
        with opened(tmp_path / backup) as directory:
            identities.append(directory.identity)

    assert not (tmp_path / "backup" / "IDENTITY").exists()
    assert {b"k": b"v"} == import_all(tmp_path / "backup").values
    assert identities[0] == identities[1] != identities[2]


def test_an_older_kvrocks_lacks_column_families(tmp_path: Path) -> None:
    """Before 2.8 there is no `search`, and an old one may have no `stream`: they count as empty."""
    with KvrocksWriter(tmp_path, families=("metadata", "zset_score", "pubsub", "propagate")) as kvrocks:
        kvrocks.string(b"k", b"v")

    assert {b"k": b"v"} == import_all(tmp_path).values


def test_beside_a_kvrocks_that_runs(tmp_path: Path) -> None:
    """A directory that is open for writing is read as of the moment of opening."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"before", b"v")
        with opened(tmp_path) as directory:
            kvrocks.string(b"after", b"v")
            kvrocks.flush()

            assert [b"before"] == [key[-6:] for key, _ in directory.scan(METADATA)]


def _slots_of(path: Path, layout: str = "kvrocks") -> bool:
    with opened(path) as directory:
        return has_slots(directory, layout)


def test_few_keys_may_look_as_if_they_named_slots(tmp_path: Path) -> None:
    """One key in 16,384 begins with its slot by accident: one of two hundred does not make them name theirs."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"\x2f\x96foo", b"")
        for at in range(200):
            kvrocks.string(b"k%d" % at, b"")

    assert not _slots_of(tmp_path)


def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    """Where some keys name their slots and others do not, the user must say how to read them."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"\x2f\x96foo", b"bar")
        kvrocks.string(b"plain", b"")

    with pytest.raises(ConfigError, match=r"1 of the first 2 keys .*say --layout kvrocks-cluster"):
        _slots_of(tmp_path)
    assert {b"foo": b"bar"} == import_all(tmp_path, layout="kvrocks-cluster").values


def test_a_layout_that_cannot_be_right_is_refused(tmp_path: Path) -> None:
    """`--layout kvrocks-cluster` is refused where no key names its slot; an empty directory may be either."""
    with KvrocksWriter(tmp_path / "plain") as kvrocks:
        kvrocks.string(b"plain", b"")
    with KvrocksWriter(tmp_path / "empty"):
        pass

    with pytest.raises(ConfigError, match=r"say --layout kvrocks$"):
        _slots_of(tmp_path / "plain", "kvrocks-cluster")
    assert (True, False) == (_slots_of(tmp_path / "empty", "kvrocks-cluster"), _slots_of(tmp_path / "empty"))
