"""Walks over the records of an RDB file.

    REDIS0011 | VALKEY080      magic and version: digits, nine bytes together
    record …                   [opcode:1] and what follows it, or a key
    [255] [CRC-64:8]           the end; the checksum, which is 0 where the server computes none, since version 5

    250 string string          AUX: a name and its value, such as the server's version
    254 [db]                   SELECTDB: the database of the keys that follow
    251 [keys] [expiring]      RESIZEDB: how many follow
    253 seconds:4  252 ms:8    EXPIRETIME, EXPIRETIME_MS: when the next key dies
    249 [1]  248 [seconds]     FREQ, IDLE: how the next key was used
    247 module                 MODULE_AUX: what a module keeps beside the keys (`engine.values.rdb.skip`)
    245 string                 FUNCTION2: the source of a library of functions
    244 [slot] [keys] [expiring]   SLOT_INFO, of a node of a cluster
    243 string [n] ([first] [last]) …   SLOT_IMPORT, of Valkey 9: slots that were on their way to this node
    type string value          a key (`engine.values.rdb.parts`)

What is in brackets is a length. Source: rdb.h and rdb.c of Valkey 9 and Redis 7.4; files of valkey-server 9.1 and
redis-server 7.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from engine.values.rdb.parts import is_known
from engine.values.rdb.skip import skip_module
from ops.importing.rdb.file_reader import CutError, FileReader
from ops.importing.source import SourceError

HEADER_BYTES: Final = 9

AUX, SELECTDB, _RESIZEDB = 250, 254, 251
_EXPIRETIME, EXPIRETIME_MS, _FREQ, _IDLE = 253, 252, 249, 248
_MODULE_AUX, _FUNCTION2, _FUNCTION_PRE_GA = 247, 245, 246
_SLOT_INFO, _SLOT_IMPORT, EOF = 244, 243, 255
_TYPES_MAX: Final = 242

_VALKEY: Final = 80
_CHECKSUM_SINCE: Final = 5
_CHECKSUM_BYTES: Final = 8


class RdbError(SourceError):
    """The file is none, or cannot be read. The message says what to do."""


class KeyRecord(NamedTuple):
    """A key, whose value stands at the reader's position.

    The value has to be read before the next record is asked for. `expire_ms` is absolute, 0 for never; `kind` is the
    number of the type, which stands at `position`.
    """

    position: int
    db: int
    name: bytes
    expire_ms: int
    kind: int


class Other(NamedTuple):
    """A record beside the keys: `what` is aux, library, module or import."""

    what: str
    name: bytes
    text: bytes = b""


class End(NamedTuple):
    """The end. `checksum` is that of everything before it; None of a reader that does not compute it."""

    checksum: int | None


def read_header(path: Path, reader: FileReader) -> int:
    """The version of the file.

    Raises:
        RdbError: it is no RDB file, or of a version that is not read.
    """
    try:
        magic = reader.take(HEADER_BYTES)
    except CutError:
        raise RdbError(f"{path} is no RDB file: it has {reader.left()} bytes") from None
    of_valkey = magic.startswith(b"VALKEY")
    digits = magic[6:] if of_valkey else magic[5:]
    if not (of_valkey or magic.startswith(b"REDIS")) or not digits.isdigit():
        raise RdbError(
            f"{path} is no RDB file: it begins with {magic!r}, and one of Redis or Valkey with REDIS or VALKEY and its"
            " version; a compressed file is to be decompressed first"
        )
    version = int(digits)
    if not is_known(version) or of_valkey != (version >= _VALKEY):
        raise RdbError(
            f"{path} has RDB version {version}{' of Valkey' if of_valkey else ''}; those that are read are 1 to 12, and"
            " 80 of Valkey. Import from the running server (`slotlog import redis://HOST:PORT`)"
        )
    return version


def records(reader: FileReader, version: int, db: int = 0) -> Iterator[KeyRecord | Other | End]:
    """The records from the reader's position up to the end, which lies behind the checksum.

    Args:
        reader: at a record.
        version: of the file.
        db: the database that was selected last.

    Raises:
        RdbError, FormatError: what follows is none of these, or the checksum is another one. `damaged` makes a message
            of a FormatError.
    """
    expire_ms = 0
    while (opcode := reader.byte()) != EOF:
        if opcode <= _TYPES_MAX:
            yield KeyRecord(reader.position - 1, db, reader.string(), expire_ms, opcode)
            expire_ms = 0
        elif opcode == EXPIRETIME_MS:
            expire_ms = max(1, reader.integer(8))
        elif opcode == _EXPIRETIME:
            expire_ms = max(1, reader.integer(4) * 1000)
        elif opcode == SELECTDB:
            db = reader.length()
        elif (other := _other(opcode, reader)) is not None:
            yield other
    actual = reader.checksum
    if version >= _CHECKSUM_SINCE:
        stated = int.from_bytes(reader.take(_CHECKSUM_BYTES), "little")
        if actual is not None and stated not in (0, actual):
            raise RdbError(f"its checksum is {stated:016x}, and that of its contents {actual:016x}")
    if reader.left():
        raise RdbError(
            f"{reader.left()} bytes follow its end: it is the beginning of an append-only file, or something was"
            " appended to it; save it anew with SAVE or BGSAVE"
        )
    yield End(actual)


def _other(opcode: int, reader: FileReader) -> Other | None:
    """A record that is no key, nor about the keys that follow; None for one that says nothing to us."""
    if opcode == AUX:
        return Other("aux", reader.string(), reader.string())
    if opcode == _MODULE_AUX:
        return Other("module", skip_module(reader).encode())
    if opcode == _FUNCTION2:
        return _library(reader.string())
    if opcode == _SLOT_IMPORT:
        name = reader.string()
        ranges = [(reader.length(), reader.length()) for _ in range(reader.count(2))]
        return Other("import", name, ", ".join(f"{first}-{last}" for first, last in ranges).encode())
    if opcode == _FREQ:
        reader.take(1)
    elif opcode == _IDLE:
        reader.length()
    elif opcode == _RESIZEDB:
        reader.length(), reader.length()
    elif opcode == _SLOT_INFO:
        reader.length(), reader.length(), reader.length()
    else:
        raise RdbError(f"the record {opcode} is of no kind that is known")
    return None


def _library(source: bytes) -> Other:
    """The name stands in the first line, such as `#!lua name=counters`."""
    words = source.split(b"\n", 1)[0].split()
    return Other("library", next((word[5:] for word in words if word.startswith(b"name=")), b"?"), source)
