"""Directories of other programs: what `PlainWriter` writes, `PlainReader` and any RocksDB read."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import CorruptionError
from engine.store.plain import PlainReader, PlainWriter


def fill(path: Path, count: int, value: bytes = b"") -> None:
    """A database with `count` records in one column family."""
    writer = PlainWriter(path, ["things"])
    for at in range(count):
        writer.put("things", b"%06d" % at, value)
    writer.finish()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Records of many batches come back in order, by bounds, with about their number."""
    fill(tmp_path / "db", 20_000, b"x" * 1000)
    reader = PlainReader(tmp_path / "db")

    assert ("default", "things") == reader.column_families
    assert [b"%06d" % at for at in range(20_000)] == [key for key, _ in reader.scan("things")]
    assert [b"000005", b"000006"] == [key for key, _ in reader.scan("things", b"000005", b"000007")]
    assert (20_000, 0) == (reader.estimated_count("things"), reader.estimated_count("default"))
    reader.close()


def test_column_families_keep_their_order(tmp_path: Path) -> None:
    """They are made in the order in which they are given, which is that of their numbers."""
    names = ["z", "a", "m"]
    PlainWriter(tmp_path / "db", names).finish()
    reader = PlainReader(tmp_path / "db")

    assert ("default", *names) == reader.column_families
    reader.close()


def test_nothing_of_rocksdict_is_left(tmp_path: Path) -> None:
    """In a finished database there are RocksDB's own files alone."""
    fill(tmp_path / "db", 10)

    assert [] == list((tmp_path / "db").glob("*.json"))


def test_a_writer_that_is_closed_writes_no_more(tmp_path: Path) -> None:
    """`close` lets go of the lock, whatever is unfinished, and a second call does nothing."""
    writer = PlainWriter(tmp_path / "db", ["things"])
    writer.put("things", b"k", b"v")
    writer.close()
    writer.close()

    PlainWriter(tmp_path / "other", []).finish()
    reader = PlainReader(tmp_path / "db")
    assert [] == list(reader.scan("things"))
    reader.close()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Where no directory can be made the error is the file system's, with the path."""
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match=r"file/db cannot be written"):
        PlainWriter(tmp_path / "file" / "db", [])


@pytest.mark.damaging
def test_a_damaged_table_is_named_at_opening_or_reading(tmp_path: Path) -> None:
    """A scan that meets a damaged block raises, and does not end as if it had come to the end."""
    fill(tmp_path / "db", 1000, b"x" * 100)
    (table,) = (tmp_path / "db").glob("*.sst")
    content = bytearray(table.read_bytes())
    content[30_000:30_064] = bytes(64)
    table.write_bytes(content)
    reader = PlainReader(tmp_path / "db")

    with pytest.raises(CorruptionError, match="damaged"):
        list(reader.scan("things"))
    reader.close()
