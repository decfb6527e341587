"""Records beside the keys, by hand: modules, slots, functions, old times, databases; and where a second run goes on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from engine.values.rdb.crc64 import crc64
from engine.values.rdb.encode import pack_length, pack_string
from ops.importing.rdb.records import RdbError
from ops.importing.source import ImportKey, LeftOut, Options
from slotlog.shared.limits import RECORD_BYTES_MAX
from tests.ops.importing.rdb.files import ANY, FAR_MS, MODULE_VALUES, module, source_of

MODULE = module("ABCDEFGHI")


def text(name: bytes, value: bytes = b"v") -> bytes:
    """A string under `name`."""
    return b"\x00" + pack_string(name) + pack_string(value)


def file_of(path: Path, *records: bytes, version: bytes = b"REDIS0011") -> Path:
    """A whole file of these records."""
    data = version + b"".join(records) + b"\xff"
    path.write_bytes(data + crc64(data).to_bytes(8, "little"))
    return path


def walked(
    path: Path, options: Options = ANY, mark: str | None = None
) -> tuple[list[tuple[int, bytes]], list[LeftOut]]:
    """The keys, and what is left out; no event is asked for."""
    with closing(source_of(path, options)) as source:
        found = list(source.keys(mark))
    return (
        [(each.db, each.name) for each in found if isinstance(each, ImportKey)],
        [each for each in found if isinstance(each, LeftOut)],
    )


def test_records_that_are_no_keys_are_gone_past(tmp_path: Path) -> None:
    """Sizes, slots, access times, and what a server says of itself; modules and functions are listed by name."""
    path = file_of(
        tmp_path / "dump.rdb",
        b"\xfa" + pack_string(b"valkey-ver") + pack_string(b"9.1.0"),
        b"\xfa" + pack_string(b"ctime") + pack_string(b"1700000000"),
        b"\xf7" + MODULE + b"\x02\x01" + MODULE_VALUES,
        b"\xf5" + pack_string(b"#!lua engine=lua name=tools\nreturn 1"),
        b"\xf3" + pack_string(b"job") + b"\x02\x00\x05\x07\x09",
        b"\xfe\x00\xfb\x03\x01\xf4\x00\x03\x01",
        b"\xf9\x07" + text(b"a"),
        b"\xf8\x40\x80" + text(b"b"),
        b"\x07" + pack_string(b"of a module") + MODULE + MODULE_VALUES,
        b"\xfd" + (2_000_000_000).to_bytes(4, "little") + text(b"c"),
        version=b"VALKEY080",
    )
    with closing(source_of(path)) as source:
        notes = source.notes()
    keys, left_out = walked(path)

    assert [(0, b"a"), (0, b"b"), (0, b"c")] == keys
    assert [
        (None, b"ABCDEFGHI", "data of a module"),
        (None, b"tools", "library of functions"),
        (0, b"of a module", "module value of ABCDEFGHI"),
    ] == [each[:3] for each in left_out]
    assert [
        "RDB version 80, written by Valkey 9.1.0 at 2023-11-14 22:13:20 UTC",
        "the server was taking over the slots 0-5, 7-9 when it saved: their keys may be incomplete",
    ] == notes


def test_times_of_keys_come_in_both_forms(tmp_path: Path) -> None:
    """In seconds and in milliseconds; one that is past, or before the epoch, leaves its key behind, and is counted."""
    path = file_of(
        tmp_path / "dump.rdb",
        b"\xfd" + (2_000_000_000).to_bytes(4, "little") + text(b"seconds"),
        b"\xfc" + FAR_MS.to_bytes(8, "little") + text(b"milliseconds"),
        text(b"none"),
        b"\xfc" + (1).to_bytes(8, "little") + text(b"past"),
        b"\xfc" + (-5).to_bytes(8, "little", signed=True) + text(b"before"),
    )
    with closing(source_of(path)) as source:
        events = {each.name: list(each.events) for each in source.keys(None) if isinstance(each, ImportKey)}
        notes = source.notes()

    assert {
        b"seconds": [(b"SET", [b"seconds", b"v", b"PXAT", b"2000000000000"])],
        b"milliseconds": [(b"SET", [b"milliseconds", b"v", b"PXAT", b"%d" % FAR_MS])],
        b"none": [(b"SET", [b"none", b"v"])],
    } == events
    assert "2 keys had expired, and a server would not load them either" in notes


def test_databases(tmp_path: Path) -> None:
    """All that slotlog has, or those that are chosen; a key in another one is listed."""
    path = file_of(
        tmp_path / "dump.rdb", b"\xfe\x00", text(b"a"), b"\xfe\x0f", text(b"b"), b"\xfe\x10", text(b"c"), text(b"d")
    )

    keys, left_out = walked(path)
    assert [(0, b"a"), (15, b"b")] == keys
    assert [(16, b"c", "string"), (16, b"d", "string")] == [each[:3] for each in left_out]
    assert ([(15, b"b")], []) == walked(path, only(15))
    assert ([(0, b"a")], []) == walked(path, Options(None, frozenset({0}), 4, once=True, layout=""))
    with pytest.raises(RdbError, match="has keys in database 15, 16; a log of several partitions"):
        source_of(path, Options(None, frozenset(), 4, once=True, layout=""))


def only(*databases: int) -> Options:
    """The options of an import of these databases."""
    return Options(None, frozenset(databases), 1, once=True, layout="")


def test_a_second_run_goes_on_behind_any_key(tmp_path: Path) -> None:
    """From each mark on the rest comes, in the right database, whatever was asked for of the key at the mark."""
    path = file_of(
        tmp_path / "dump.rdb",
        text(b"a"),
        b"\xfe\x03",
        b"\x02" + pack_string(b"b") + pack_length(200) + b"".join(pack_string(b"m%d" % n) for n in range(200)),
        b"\x02" + pack_string(b"empty") + pack_length(0),
        b"\xfc" + FAR_MS.to_bytes(8, "little") + text(b"c"),
        text(b"d"),
    )
    with closing(source_of(path)) as source:
        first = [each for each in source.keys(None) if isinstance(each, ImportKey)]
    names = [(each.db, each.name) for each in first]

    assert [(0, b"a"), (3, b"b"), (3, b"c"), (3, b"d")] == names
    for at, each in enumerate(first, 1):
        assert names[at:] == walked(path, mark=each.mark)[0]


def test_keys_without_elements_are_listed(tmp_path: Path) -> None:
    """Servers had bugs that left some, and pass over them when they load."""
    path = file_of(
        tmp_path / "dump.rdb",
        *(bytes((kind,)) + pack_string(b"empty %d" % kind) + b"\x00" for kind in (1, 2, 4, 5, 14, 18)),
        text(b"a"),
    )
    keys, left_out = walked(path)

    assert [(0, b"a")] == keys
    assert [b"empty %d" % kind for kind in (1, 2, 4, 5, 14, 18)] == [each.name for each in left_out]


def test_what_no_event_can_hold_is_listed(tmp_path: Path) -> None:
    """An element larger than a record, wherever it stands in its key, is known before the key's first event."""
    large = b"x" * RECORD_BYTES_MAX
    path = file_of(
        tmp_path / "dump.rdb",
        b"\x01" + pack_string(b"list") + pack_length(200) + pack_string(b"a") * 199 + pack_string(large),
        b"\x04" + pack_string(b"hash") + pack_length(1) + pack_string(b"f") + pack_string(large),
        text(b"text", large),
        text(b"n" * (2 << 20)),
    )
    keys, left_out = walked(path)

    assert [(0, b"text")] == keys
    assert [
        (b"list", "an element of 8.0 MiB: an event takes at most 8.0 MiB"),
        (b"hash", "an element of 8.0 MiB: an event takes at most 8.0 MiB"),
        (b"n" * (2 << 20), "a name of 2.0 MiB: an event takes at most 8.0 MiB"),
    ] == [(each.name, each.reason) for each in left_out]
