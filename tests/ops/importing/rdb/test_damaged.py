"""Files that are none, or not whole: refused with what to do, before anything of them is imported."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import pytest

from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.proof.walk import LiveKey
from engine.values.encoding import pack_score
from engine.values.rdb.crc64 import crc64
from engine.values.rdb.encode import pack_length, pack_string
from ops.exporting.rdb.file import export
from ops.importing.rdb.records import RdbError
from tests.ops.importing.rdb.files import FAR_MS, source_of

FLIPS: Final = int(os.environ.get("RDB_FLIPS", "300"))


def keys(many: int) -> list[LiveKey]:
    """A key of each type, and a list of `many` elements."""
    score = pack_score(1.5)
    return [
        LiveKey(0, b"text", STRING, 0, iter([b"v"])),
        LiveKey(0, b"dying", STRING, FAR_MS, iter([b"12345"])),
        LiveKey(3, b"list", LIST, 0, iter([b"a", b"5", b"x" * 70])),
        LiveKey(3, b"set", SET, 0, iter([b"1", b"2", b"70000"])),
        LiveKey(3, b"other set", SET, 0, iter([b"a", b"b"])),
        LiveKey(3, b"hash", HASH, 0, iter([b"f", b"v"])),
        LiveKey(3, b"timed", HASH, 0, iter([b"f", b"v", b"g", b"w"]), [(b"g", FAR_MS)]),
        LiveKey(3, b"zset", ZSET, 0, iter([b"m", score])),
        LiveKey(15, b"long", LIST, 0, (b"element %d" % number for number in range(many))),
    ]


def written(path: Path, version: int = 80, many: int = 3) -> bytes:
    """The bytes of a file that is whole."""
    export(path, keys(many), {}, FAR_MS, lambda _: None, version=version)
    return path.read_bytes()


def sealed(data: bytes) -> bytes:
    """With a checksum that is right."""
    return data + crc64(data).to_bytes(8, "little")


def refusal(path: Path, data: bytes) -> str:
    """Why a file of these bytes is refused."""
    path.write_bytes(data)
    with pytest.raises(RdbError) as refused:
        source_of(path)
    return str(refused.value)


@pytest.mark.parametrize("version", [9, 10, 80])
def test_a_file_that_is_cut_anywhere_is_refused(version: int, tmp_path: Path) -> None:
    """Behind every byte: the message says that it is cut short, or that it is no RDB file; and what to do."""
    path = tmp_path / "dump.rdb"
    data = written(path, version)
    for length in range(len(data)):
        message = refusal(path, data[:length])
        assert ("cut short" in message and "nothing was imported" in message) or "is no RDB file" in message, length


def test_a_file_with_flipped_bits_is_refused(tmp_path: Path) -> None:
    """One bit or more anywhere: refused by its structure or by its checksum, and never read as something else."""
    path = tmp_path / "dump.rdb"
    data = written(path)
    random = Random(7)
    for _ in range(FLIPS):
        damaged = bytearray(data)
        for _ in range(random.choice((1, 1, 2, 8))):
            damaged[random.randrange(len(data))] ^= 1 << random.randrange(8)
        if bytes(damaged) != data:
            assert str(path) in refusal(path, bytes(damaged))


def test_any_bytes_with_a_right_checksum_are_read_or_refused(tmp_path: Path) -> None:
    """Damage from before the checksum, as a server with broken memory writes it: no error but the one of damage."""
    path = tmp_path / "dump.rdb"
    data = written(path)[:-8]
    random = Random(11)
    refused = 0
    for _ in range(FLIPS):
        damaged = bytearray(data)
        for _ in range(random.choice((1, 2, 4))):
            damaged[random.randrange(9, len(data))] = random.choice((0, 1, 0x7F, 0x80, 0x81, 0xC3, 0xFE, 0xFF))
        path.write_bytes(sealed(bytes(damaged)))
        try:
            source = source_of(path)
        except RdbError:
            refused += 1
            continue
        for each in source.keys(None):
            list(getattr(each, "events", ()))
        source.close()

    assert 0 < refused < FLIPS


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no RDB file: it has 0 bytes"),
        (b"REDIS", "is no RDB file: it has 5 bytes"),
        (b"\x1f\x8b\x08\x00" * 9, "a compressed file is to be decompressed first"),
        (b"*2\r\n$6\r\nSELECT\r\n", "is no RDB file: it begins with b'*2"),
        (b"REDIS00xx", "is no RDB file"),
        (b"REDIS0013\xff" + bytes(8), "RDB version 13; those that are read are 1 to 12, and 80 of Valkey"),
        (b"REDIS0080\xff" + bytes(8), "RDB version 80;"),
        (b"VALKEY081\xff" + bytes(8), "RDB version 81 of Valkey;"),
        (b"VALKEY011\xff" + bytes(8), "RDB version 11 of Valkey;"),
        (b"REDIS0000\xff" + bytes(8), "RDB version 0;"),
        (sealed(b"REDIS0011\xf6\x01x\xff"), "the record 246 is of no kind that is known, before byte 10"),
        (sealed(b"REDIS0011\x63\x01x\x01v\xff"), "unknown type, before byte 12"),
        (sealed(b"REDIS0011\x06\x01x\x01v\xff"), "whose end only that module knows"),
        (b"REDIS0011\xff" + b"\1" * 8, "its checksum is 0101010101010101, and that of its contents"),
        (sealed(b"REDIS0011\xff") + b"*1\r\n", "4 bytes follow its end: it is the beginning of an append-only file"),
        (sealed(b"REDIS0011\x00\x01k\x81\x7f" + b"\xff" * 7), "cut short"),
    ],
)
def test_each_refusal_says_what_is_wrong(data: bytes, message: str, tmp_path: Path) -> None:
    """No file of an RDB, a version that is not read, a record of no kind, a wrong checksum, bytes behind the end."""
    assert message in refusal(tmp_path / "dump.rdb", data)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """What it lacks is named."""
    with pytest.raises(RdbError, match="is a directory; --layout names what wrote it"):
        source_of(tmp_path)


@pytest.mark.parametrize("version", [1, 4])
def test_old_files_have_no_checksum(version: int, tmp_path: Path) -> None:
    """Those of Redis 2.4 and 2.6 end without one, and are read."""
    path = tmp_path / "dump.rdb"
    path.write_bytes(b"REDIS%04d\xfe\x00\x00\x01k\x01v\xff" % version)
    with closing(source_of(path)) as source:
        assert [b"k"] == [each.name for each in source.keys(None)]


def test_a_checksum_that_is_switched_off_is_not_compared(tmp_path: Path) -> None:
    """`rdbchecksum no` writes a zero."""
    path = tmp_path / "dump.rdb"
    path.write_bytes(b"REDIS0011" + b"\x00" + pack_string(b"k") + pack_length(1) + b"v\xff" + bytes(8))
    with closing(source_of(path)) as source:
        assert [b"k"] == [each.name for each in source.keys(None)]
