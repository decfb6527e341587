"""The keys of a directory that Kvrocks wrote come over as they are, and what cannot is named."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import rocksdict as rd  # noqa: TID251 - makes the directory of a Kvrocks with blob files

from engine.layouts.layout import Form
from engine.model import HASH, LIST, SET, STRING, ZSET
from ops.importing.source import LeftOut
from tests.engine.harness import send
from tests.ops.importing.kvrocks.imported import NOW_MS, import_all
from tests.ops.importing.kvrocks.written import MIDDLE, NAMESPACE, KvrocksWriter

LATER_MS = NOW_MS + 3_600_000


def test_every_type_comes_over(tmp_path: Path) -> None:
    """Strings, hashes, lists, sets and sorted sets have their contents and, to the millisecond, their times."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"s", b"\x00\xffvalue", expire_ms=LATER_MS + 1)
        kvrocks.hash(b"h", {b"": b"", b"f": b"v"})
        kvrocks.list(b"l", [b"a", b"b", b"a"], head=MIDDLE - 2)
        kvrocks.set(b"m", [b"x", b"\x00"])
        kvrocks.zset(b"z", {b"one": 1.0, b"minus": -1.5, b"far": float("inf")})
        kvrocks.string(b"", b"")

    imported = import_all(tmp_path)

    assert {
        (0, b"s"): (STRING, LATER_MS + 1, b"\x00\xffvalue", {}),
        (0, b"h"): (HASH, 0, {b"": b"", b"f": b"v"}, {}),
        (0, b"l"): (LIST, 0, [b"a", b"b", b"a"], {}),
        (0, b"m"): (SET, 0, [b"\x00", b"x"], {}),
        (0, b"z"): (ZSET, 0, {b"one": 1.0, b"minus": -1.5, b"far": float("inf")}, {}),
        (0, b""): (STRING, 0, b"", {}),
    } == imported.state
    assert [] == imported.left_out
    assert ["read as kvrocks: keys name no slots"] == imported.notes


def test_tables_and_log_are_both_read(tmp_path: Path) -> None:
    """What Kvrocks has flushed comes over, and what only its write-ahead log has."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"flushed", b"1")
        kvrocks.flush()
        kvrocks.string(b"logged", b"2")

    assert {b"flushed": b"1", b"logged": b"2"} == import_all(tmp_path).values


def test_old_narrow_metadata_is_read(tmp_path: Path) -> None:
    """Values of 32 bits have their times in seconds, rounded as Kvrocks did."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.narrow_string(b"s", b"v", 1_900_000_000)
        kvrocks.collection(2, b"h", {b"f": b"v"}, narrow=True, expire_ms=1_900_000_000_600)
        kvrocks.list(b"l", [b"a", b"b"], narrow=True)
        kvrocks.set(b"m", [b"x"], narrow=True)
        kvrocks.zset(b"z", {b"x": 2.0}, narrow=True)

    assert {
        (0, b"s"): (STRING, 1_900_000_000_000, b"v", {}),
        (0, b"h"): (HASH, 1_900_000_001_000, {b"f": b"v"}, {}),
        (0, b"l"): (LIST, 0, [b"a", b"b"], {}),
        (0, b"m"): (SET, 0, [b"x"], {}),
        (0, b"z"): (ZSET, 0, {b"x": 2.0}, {}),
    } == import_all(tmp_path).state


def test_expired_by_kvrocks_rule(tmp_path: Path) -> None:
    """A key has expired when its time lies before now; in its last millisecond it still comes over, and dies in it."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"dead", b"", expire_ms=NOW_MS - 1)
        kvrocks.string(b"last", b"", expire_ms=NOW_MS)
        kvrocks.string(b"alive", b"", expire_ms=NOW_MS + 1)
        kvrocks.hash(b"old", {b"f": b"v"}, expire_ms=5)

    imported = import_all(tmp_path)

    assert [b"alive", b"last"] == [key.name for key in imported.keys]
    assert [b"alive"] == list(imported.values)
    assert "2 keys had expired" in imported.notes


@pytest.mark.parametrize("code", [2, 3, 4, 5, 6, 7])
def test_size_zero_is_absent(tmp_path: Path, code: int) -> None:
    """A collection of size 0 is no key, whatever lies under its version still."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.collection(code, b"gone", {b"left": b"over"}, size=0, tail=bytes(16) if code == 3 else b"")

    imported = import_all(tmp_path)

    assert ({}, []) == (imported.state, imported.left_out)
    assert "1 record of size 0 stood for no key" in imported.notes


def test_orphans_of_older_versions_are_not_seen(tmp_path: Path) -> None:
    """Subkeys of another version than that of the metadata belong to nobody."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.hash(b"h", {b"old": b"1", b"both": b"1"})
        kvrocks.hash(b"h", {b"both": b"2", b"new": b"2"})

    assert {b"h": {b"both": b"2", b"new": b"2"}} == import_all(tmp_path).values


def test_bitmaps_become_strings(tmp_path: Path) -> None:
    """Bits keep their numbers: Kvrocks counts them from the right of a byte, Redis from the left."""
    bits = [0, 9, 8191, 8192, 81_920]
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.bitmap(b"b", bits)

    imported = import_all(tmp_path)

    assert 10_241 == len(imported.values[b"b"])
    assert [1] * len(bits) == send(imported.machine, *(f"GETBIT b {bit}" for bit in bits))
    assert [len(bits)] == send(imported.machine, "BITCOUNT b")


def test_a_fragment_beyond_the_size_is_cut(tmp_path: Path) -> None:
    """A bitmap is as long as its size says: a shorter fragment counts as zeros, of a longer one the rest as nothing."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.collection(6, b"cut", {b"0": b"\x01\x80\xff"}, size=2)
        kvrocks.collection(6, b"padded", {b"0": b"\x01", b"1024": b"\x02"}, size=1026)

    assert {
        b"cut": b"\x80\x01",
        b"padded": b"\x80" + bytes(1023) + b"\x40\x00",
    } == import_all(tmp_path).values


def test_a_long_bitmap_comes_in_parts(tmp_path: Path) -> None:
    """One of more than a MiB, whose fragments lie in the order of their digits, has each bit in its place."""
    bits = [0, 8_388_607, 8_388_608, 8_400_000, 20_000_001]
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.bitmap(b"b", bits)

    value = import_all(tmp_path).values[b"b"]

    assert (20_000_001 // 8 + 1, bits) == (
        len(value),
        [8 * at + bit for at, byte in enumerate(value) if byte for bit in range(8) if byte << bit & 0x80],
    )


def test_hyperloglogs_become_dense_strings(tmp_path: Path) -> None:
    """The registers of Kvrocks' HyperLogLog are those of Redis': PFADD of the same element changes nothing."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.hyperloglog(b"h", {12_711: 2})
        kvrocks.hyperloglog(b"none", {})

    imported = import_all(tmp_path)

    assert [1, 0, 0] == send(imported.machine, "PFCOUNT h", "PFADD h a", "PFCOUNT none")
    assert 12_304 == len(imported.values[b"h"])


@pytest.mark.form(Form.FIELD_TIMES)
def test_fields_with_times(tmp_path: Path) -> None:
    """A hash of the newer form has its fields' times; those that are over stay away, and with the last one the key."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.timed_hash(b"h", {b"a": (0, b"1"), b"b": (LATER_MS, b"2"), b"c": (NOW_MS - 1, b"3")})
        kvrocks.timed_hash(b"over", {b"c": (1, b"3")})

    imported = import_all(tmp_path)

    assert {(0, b"h"): (HASH, 0, {b"a": b"1", b"b": b"2"}, {b"b": LATER_MS})} == imported.state
    assert "1 key had expired" in imported.notes


def test_minus_zero_is_zero(tmp_path: Path) -> None:
    """A score of -0.0, which Kvrocks keeps apart, is 0."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.zset(b"z", {b"m": -0.0})

    assert ["0.0"] == [str(reply) for reply in send(import_all(tmp_path).machine, "ZSCORE z m")]


def test_types_that_are_not_held_are_named(tmp_path: Path) -> None:
    """JSON, bloom filters, sorted integers and whatever is newer are listed, and do not come over."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.json(b"js", b'{"a":1}')
        kvrocks.collection(9, b"bl", {b"\0\0": b"x"}, tail=bytes(20))
        kvrocks.collection(7, b"si", {struct.pack(">Q", 5): b""})
        kvrocks.collection(12, b"td", {}, tail=b"??")
        kvrocks.collection(13, b"ts", {}, tail=b"??")
        kvrocks.collection(14, b"n", {}, tail=b"??")
        kvrocks.string(b"kept", b"v")

    imported = import_all(tmp_path)

    assert {b"kept": b"v"} == imported.values
    assert [
        (b"bl", "bloom filter"),
        (b"js", "JSON"),
        (b"n", "type 14"),
        (b"si", "sortedint"),
        (b"td", "t-digest"),
        (b"ts", "time series"),
    ] == [(each.name, each.what) for each in imported.left_out]


def test_scripts_and_namespaces_are_named_without_their_tokens(tmp_path: Path) -> None:
    """What Kvrocks keeps beside keys is listed; the tokens of namespaces, which are passwords, are not shown."""
    with KvrocksWriter(tmp_path, families=("metadata", "propagate", "search", "zset_score", "tsindex")) as kvrocks:
        kvrocks.raw("propagate", b"lua_f_abc", b"return 1")
        kvrocks.raw("propagate", b"lua_func_lib_f", b"lib")
        kvrocks.raw("propagate", b"lua_lib_code_lib", b"#!lua")
        kvrocks.raw("propagate", b"__namespace_keys__", b'{"secret":"ns"}')
        kvrocks.raw("propagate", b"replication_id_", b"x" * 16)
        kvrocks.raw("propagate", b"else", b"")
        kvrocks.raw("search", b"idx", b"")
        kvrocks.raw("tsindex", b"row", b"")

    left_out = import_all(tmp_path).left_out

    assert [
        ("namespaces", b"__namespace_keys__"),
        ("propagated record", b"else"),
        ("script", b"abc"),
        ("function", b"f"),
        ("function library", b"lib"),
        ("search index", b"search"),
        ("column family", b"tsindex"),
    ] == [(each.what, each.name) for each in left_out]
    assert "secret" not in str(left_out)


def test_namespaces_are_databases(tmp_path: Path) -> None:
    """`db3` is database 3, another namespace the one that the user gives it, and without one its keys are listed."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"k", b"0")
        kvrocks.string(b"k", b"3", namespace=b"db3")
        kvrocks.hash(b"h", {b"f": b"v"}, namespace=b"tenant")
        kvrocks.string(b"other", b"?", namespace=b"nobody")

    imported = import_all(tmp_path, namespaces=("tenant=7",))

    assert [(0, b"k"), (3, b"k"), (7, b"h")] == sorted(imported.state)
    assert [(None, b"other")] == [(each.db, each.name) for each in imported.left_out]
    assert "--namespace" in imported.left_out[0].reason


def test_a_cluster_log_has_database_0_alone(tmp_path: Path) -> None:
    """Into a log of several partitions the keys of other databases do not go: they are listed."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"k", b"0")
        kvrocks.string(b"k", b"1", namespace=b"db1")

    imported = import_all(tmp_path, partitions=4)

    assert {(0, b"k")} == set(imported.state)
    assert [(1, b"k", "key of another database")] == [(each.db, each.name, each.what) for each in imported.left_out]


def test_only_the_databases_that_are_asked_for(tmp_path: Path) -> None:
    """Keys of other databases are passed by when the user names some, also those that would else be listed."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"k", b"0")
        kvrocks.json(b"j", b"{}")
        kvrocks.string(b"k", b"1", namespace=b"db1")
    one = import_all(tmp_path, databases=frozenset({1}))

    assert ({(1, b"k")}, []) == (set(one.state), one.left_out)
    assert [b"j"] == [each.name for each in import_all(tmp_path, databases=frozenset({0}), partitions=2).left_out]


ENDS = struct.Struct(">QQ")
TIMES = struct.Struct(">BQQQ")

DAMAGED: dict[bytes, dict[str, Any]] = {
    b"a score that is cut short": {"code": 5, "subkeys": {b"m": b"short"}},
    b"a score that is no number": {"code": 5, "subkeys": {b"m": b"\xff" * 8}},
    b"an index that is too long": {"code": 3, "subkeys": {bytes(8) + b"x": b"e"}, "tail": ENDS.pack(0, 1)},
    b"a list that ends before it begins": {"code": 3, "subkeys": {}, "size": 1, "tail": ENDS.pack(6, 5)},
    b"a field without its time": {"code": 2, "subkeys": {b"f": b"short"}, "tail": TIMES.pack(1, 1, 0, 0)},
    b"a mode that is not known": {"code": 2, "subkeys": {b"f": bytes(8)}, "tail": TIMES.pack(2, 1, 0, 0)},
    b"a fragment that is too long": {"code": 6, "subkeys": {b"0": b"x" * 1025}, "size": 8},
    b"a bitmap beyond all bounds": {"code": 6, "subkeys": {b"0": b"x"}, "size": 2**40},
    b"registers that are cut short": {"code": 11, "subkeys": {b"0": b"x" * 767}, "size": 0, "tail": b"\0"},
    b"registers of another form": {"code": 11, "subkeys": {}, "size": 0, "tail": b"\1"},
    b"no elements": {"code": 4, "subkeys": {}, "size": 3},
    b"damage behind much": {"code": 5, "subkeys": {**{b"%05d" % at: b"?" * 8 for at in range(8000)}, b"x": b"short"}},
}
"""Keys whose records Kvrocks does not write, by names that say what is wrong."""


def test_damaged_keys_are_named_and_left_out_whole(tmp_path: Path) -> None:
    """A key whose records make no sense is listed with what is wrong; no part of it comes over, and all others do."""
    with KvrocksWriter(tmp_path) as kvrocks:
        for at, (name, records) in enumerate(sorted(DAMAGED.items())):
            kvrocks.string(b"%c" % (ord("a") + at), b"kept")
            kvrocks.collection(name=name, **records)
        kvrocks.raw("metadata", b"\x0b" + NAMESPACE + b"metadata that is cut short", b"\x82short")
        kvrocks.raw("metadata", b"\xf0a key that is shorter than its namespace", b"\x81" + bytes(8))

    imported = import_all(tmp_path)

    assert [b"%c" % (ord("a") + at) for at in range(len(DAMAGED))] == sorted(imported.values)
    assert sorted([*DAMAGED, b"metadata that is cut short", b"\xf0a key that is shorter than its namespace"]) == sorted(
        each.name for each in imported.left_out
    )
    assert [] == [each for each in imported.left_out if not each.reason or "damaged" not in each.what]


def test_another_number_of_elements_is_told(tmp_path: Path) -> None:
    """A collection with more or fewer elements than its size comes over with those that are there, and is named."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.collection(4, b"m", {b"x": b"", b"y": b""}, size=3)

    imported = import_all(tmp_path)

    assert {b"m": [b"x", b"y"]} == imported.values
    assert any("b'm'" in note for note in imported.notes)


def test_large_keys_come_in_parts(tmp_path: Path) -> None:
    """A key larger than an event, read part by part, has all of its elements."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.list(b"l", [b"%d" % at for at in range(20_000)])
        kvrocks.hash(b"h", {b"%d" % at: b"v" * 500 for at in range(9000)})

    imported = import_all(tmp_path)

    assert [b"%d" % at for at in range(20_000)] == imported.values[b"l"]
    assert {b"%d" % at: b"v" * 500 for at in range(9000)} == imported.values[b"h"]


def test_a_second_run_goes_on_behind_the_mark(tmp_path: Path) -> None:
    """From the mark of a key on, exactly the keys behind it are given."""
    names = [b"k%d" % at for at in range(5)]
    with KvrocksWriter(tmp_path) as kvrocks:
        for name in names:
            kvrocks.string(name, name)
    marks = [key.mark for key in import_all(tmp_path).keys]

    assert [names[at + 1 :] for at in range(5)] == [
        [key.name for key in import_all(tmp_path, mark=mark).keys] for mark in marks
    ]


def test_blob_files_are_read(tmp_path: Path) -> None:
    """Values that Kvrocks keeps in blob files come over."""
    options = rd.Options(raw_mode=True)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(4096)
    with KvrocksWriter(tmp_path, options=options) as kvrocks:
        kvrocks.string(b"s", b"x" * 5000)
        kvrocks.hash(b"h", {b"f": b"y" * 5000})
        kvrocks.flush()

    assert list((tmp_path / "db").glob("*.blob"))
    assert {b"s": b"x" * 5000, b"h": {b"f": b"y" * 5000}} == import_all(tmp_path).values


def test_cluster_mode_is_found_out(tmp_path: Path) -> None:
    """Where each key names its slot, the slot is no part of the key."""
    with KvrocksWriter(tmp_path, cluster=True) as kvrocks:
        kvrocks.string(b"foo", b"bar")
        kvrocks.zset(b"{foo}z", {b"m": 1.0})

    imported = import_all(tmp_path)

    assert {b"foo": b"bar", b"{foo}z": {b"m": 1.0}} == imported.values
    assert ["read as kvrocks-cluster: keys name their slots"] == imported.notes


def test_a_key_in_a_wrong_slot_is_named(tmp_path: Path) -> None:
    """Among keys that name their slots, one with another slot is listed: Kvrocks does not see it either."""
    with KvrocksWriter(tmp_path, cluster=True) as kvrocks:
        kvrocks.string(b"foo", b"bar")
        kvrocks.raw("metadata", b"\x0b" + NAMESPACE + b"\x00\x05lost", b"\x81" + bytes(8))

    imported = import_all(tmp_path, layout="kvrocks-cluster")

    assert {b"foo": b"bar"} == imported.values
    assert [LeftOut(0, b"lost", "key in a wrong slot", imported.left_out[0].reason)] == imported.left_out


def test_nothing_is_written_into_the_source(tmp_path: Path) -> None:
    """An import leaves every file as it is, makes none, and takes no lock."""
    with KvrocksWriter(tmp_path) as kvrocks:
        kvrocks.string(b"k", b"v")
        kvrocks.flush()
        kvrocks.string(b"k2", b"v")

    def seen() -> list[tuple[str, int, int, bytes]]:
        files = sorted((tmp_path / "db").iterdir())
        return [(file.name, file.stat().st_mtime_ns, file.stat().st_ino, file.read_bytes()) for file in files]

    before = seen()
    import_all(tmp_path)

    assert before == seen()
