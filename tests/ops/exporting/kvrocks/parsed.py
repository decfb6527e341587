"""A second reader of Kvrocks' directories, for what an export wrote: each byte is accounted for.

It shares no code with ours. Kvrocks' compaction filter parses keys without looking at their length, so here a key that
is too short for its own lengths is an error, as is a subkey that belongs to no key.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final, NamedTuple

import rocksdict as rd  # noqa: TID251 - a second implementation uses the library itself

from tests.ops.importing.kvrocks.written import FAMILIES, MIDDLE, ordered, slot_of

MAGIC: Final = bytes.fromhex("f7cff485b741e288")
"""The last bytes of a table of RocksDB."""


class Exported(NamedTuple):
    """One key as Kvrocks sees it."""

    type: int
    expire_ms: int
    value: Any


def records(database: Path) -> dict[str, dict[bytes, bytes]]:
    """All records by column family; the column families are those of Kvrocks, made in its order."""
    assert ["default", *FAMILIES] == rd.Rdict.list_cf(str(database))
    options = {name: rd.Options(raw_mode=True) for name in ("default", *FAMILIES)}
    db = rd.Rdict(
        str(database), rd.Options(raw_mode=True), column_families=options, access_type=rd.AccessType.read_only()
    )
    found: dict[str, Any] = {name: dict(db.get_column_family(name).items()) for name in options}
    db.close()
    (database / "rocksdict-config.json").unlink()
    return found


def check_files(database: Path) -> None:
    """Tables of format 5 without compression, keys in the order of their bytes, and nothing that is not RocksDB's."""
    (manifest,) = database.glob("MANIFEST-*")
    assert 1 + len(FAMILIES) == manifest.read_bytes().count(b"leveldb.BytewiseComparator")
    stored_options = max(database.glob("OPTIONS-*")).read_text()
    assert 1 + len(FAMILIES) == stored_options.count("merge_operator=nullptr")
    for table in database.glob("*.sst"):
        content = table.read_bytes()
        assert (5, MAGIC) == (struct.unpack("<I", content[-12:-8])[0], content[-8:])
        assert b"NoCompression" in content
    assert 0 == sum(log.stat().st_size for log in database.glob("*.log"))
    known = ("CURRENT", "IDENTITY", "LOCK", "LOG", "MANIFEST-", "OPTIONS-")
    others = [file.name for file in database.iterdir() if file.suffix not in {".sst", ".log"}]
    assert [] == [name for name in others if not name.startswith(known)]


def parse(database: Path, *, cluster: bool = False) -> dict[tuple[bytes, bytes], Exported]:
    """(namespace, name) -> key. Every record belongs to one of them."""
    found = records(database)
    assert {name: {} for name in ("pubsub", "propagate", "search")} == {
        name: found[name] for name in ("pubsub", "propagate", "search")
    }
    subkeys = {family: _by_owner(found[family], cluster=cluster) for family in ("default", "zset_score", "stream")}
    keys = {}
    versions = set()
    for record, value in found["metadata"].items():
        namespace, rest = _head(record, cluster=cluster)
        owner = (namespace, rest)
        code, expire_ms = value[0], struct.unpack(">Q", value[1:9])[0]
        assert code & 0x80
        if code == 0x81:
            keys[owner] = Exported(1, expire_ms, value[9:])
            continue
        version, size = struct.unpack(">QQ", value[9:25])
        versions.add(version)
        mine = subkeys["default"].pop((*owner, version), {})
        scores = subkeys["zset_score"].pop((*owner, version), {})
        if code == 0x88:
            mine = subkeys["stream"].pop((*owner, version), {})
        keys[owner] = Exported(code & 0x7F, expire_ms, _value(code & 0x7F, size, value[25:], mine, scores))
    assert {"default": {}, "zset_score": {}, "stream": {}} == subkeys
    assert len(versions) == sum(1 for key in keys.values() if key.type != 1)
    return keys


def _value(code: int, size: int, tail: bytes, mine: dict[bytes, bytes], scores: dict[bytes, bytes]) -> Any:
    if code == 11:
        assert (0, b"\0") == (size, tail)
        assert {768} >= {len(part) for part in mine.values()}
        return b"".join(mine.pop(b"%d" % at, bytes(768)) for at in range(16)) + b"".join(mine)
    if code == 8:
        return _stream(size, tail, mine)
    assert size == len(mine) > 0
    if code == 3:
        head, end = struct.unpack(">QQ", tail)
        assert (MIDDLE, size) == (head, end - head)
        return [mine[struct.pack(">Q", index)] for index in range(head, end)]
    if code == 5:
        assert (b"", {score + member: b"" for member, score in mine.items()}) == (tail, scores)
        return mine
    if tail:
        return _timed(size, tail, mine)
    return mine


def _stream(size: int, tail: bytes, mine: dict[bytes, bytes]) -> tuple[tuple[str, ...], int, int, dict[bytes, bytes]]:
    """The last id and the highest deleted one, entries ever and groups, and the records."""
    entries = sorted(key for key in mine if len(key) == 16)
    last, first_ever, deleted, first, end, added, groups = struct.unpack(">16s16s16s16s16sQQ", tail)
    assert size == len(entries)
    assert (first, first, end) == (first_ever, min(entries, default=bytes(16)), max(entries, default=bytes(16)))
    assert groups == sum(key.startswith(b"\xff" * 8 + b"\x01") for key in mine)
    return (last.hex(), deleted.hex()), added, groups, mine


def _timed(size: int, tail: bytes, mine: dict[bytes, bytes]) -> dict[bytes, tuple[int, bytes]]:
    fields = {field: (struct.unpack(">Q", stored[:8])[0], stored[8:]) for field, stored in mine.items()}
    times = [expire_ms for expire_ms, _ in fields.values() if expire_ms]
    assert (1, size - len(times), min(times), max(times)) == struct.unpack(">BQQQ", tail)
    return fields


def _by_owner(found: dict[bytes, bytes], *, cluster: bool) -> dict[tuple[bytes, bytes, int], dict[bytes, bytes]]:
    owners: dict[tuple[bytes, bytes, int], dict[bytes, bytes]] = {}
    for record, value in found.items():
        head = 1 + record[0] + 2 * cluster
        (length,) = struct.unpack(">I", record[head : head + 4])
        end = head + 4 + length
        assert len(record) >= end + 8
        namespace, name = _head(record[:head] + record[head + 4 : end], cluster=cluster)
        (version,) = struct.unpack(">Q", record[end : end + 8])
        owners.setdefault((namespace, name, version), {})[record[end + 8 :]] = value
    return owners


def _head(record: bytes, *, cluster: bool) -> tuple[bytes, bytes]:
    end = 1 + record[0]
    assert len(record) >= end + 2 * cluster
    name = record[end + 2 * cluster :]
    if cluster:
        assert struct.pack(">H", slot_of(name)) == record[end : end + 2]
    return record[1:end], name


def score(value: float) -> bytes:
    """What stands for a score."""
    return ordered(value)
