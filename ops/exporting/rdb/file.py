"""Writes an RDB file that redis-server and valkey-server load. `ops.importing.rdb.records` has the format."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from engine.proof.walk import LiveKey
from engine.values.rdb.content import Content
from engine.values.rdb.crc64 import crc64
from engine.values.rdb.encode import pack_length, pack_string
from engine.values.rdb.functions import library_record
from engine.values.rdb.parts import REDIS_EXPIRE_MS_MAX
from ops.config import ConfigError
from ops.exporting.exporter import NotExported, Tell
from ops.exporting.rdb.values import REDIS_TIMES_VERSION, TIMED_KINDS, VALKEY_TIMES_VERSION, value
from ops.importing.key_events import contents_of
from ops.importing.rdb.records import AUX, EOF, EXPIRETIME_MS, SELECTDB
from ops.version import VERSION
from slotlog.disk import sync

VERSIONS: Final = {
    9: "Redis 5 and later",
    10: "Redis 7.0 and later",
    11: "Redis 7.2 and later",
    12: "Redis 7.4 and later",
    80: "Valkey 9 and later",
}
"""The versions of RDB that are written, and who loads them. Every Valkey loads 9 to 11, and none loads 12."""

_FUNCTIONS_VERSION: Final = 10
_BUFFER_BYTES: Final = 256 * 1024
_MODE: Final = 0o600


def export(
    to: Path, keys: Iterable[LiveKey], libraries: Mapping[bytes, bytes], time_ms: int, tell: Tell, *, version: int
) -> None:
    """Write the keys to a file for its owner alone, `to`; for the rest see `ops.exporting.exporter.Export`."""
    partial = to.with_name(f".{to.name}.partial")
    with _claimed(partial) as file:
        try:
            summed = _Summed(file)
            _begin(summed, libraries, time_ms, version, tell)
            _write(summed, keys, version, tell, to.parent)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(to)
        except BaseException:
            partial.unlink()
            raise
    sync(to.parent)


def _claimed(partial: Path) -> BinaryIO:
    """The file, empty and locked; one that a killed export has left is used again.

    Raises:
        ConfigError: another export writes it.
    """
    while True:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, _MODE)
        file = os.fdopen(descriptor, "wb")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise ConfigError(f"another export writes {partial}: let it end, or name another file") from None
        try:
            still_there = os.path.samestat(partial.lstat(), os.fstat(descriptor))
        except FileNotFoundError:
            still_there = False
        if still_there:
            os.fchmod(descriptor, _MODE)
            os.ftruncate(descriptor, 0)
            return file
        file.close()  # since it was opened, its export has ended


def _begin(file: _Summed, libraries: Mapping[bytes, bytes], time_ms: int, version: int, tell: Tell) -> None:
    """Write what stands before the keys."""
    magic = b"VALKEY%03d" if version >= VALKEY_TIMES_VERSION else b"REDIS%04d"
    file.write(magic % version)
    for name, text in (("slotlog-ver", VERSION), ("redis-bits", "64"), ("ctime", str(time_ms // 1000))):
        file.write(bytes((AUX,)), pack_string(name.encode()), pack_string(text.encode()))
    for library, code in libraries.items():
        if version < _FUNCTIONS_VERSION:
            reason = f"RDB version {version} has none; --rdb-version {_FUNCTIONS_VERSION} (Redis 7.0) and later have"
            tell(NotExported(None, library, "functions", reason))
        else:
            file.write(library_record(code))


def _write(file: _Summed, keys: Iterable[LiveKey], version: int, tell: Tell, directory: Path) -> None:
    db = -1
    for key in keys:
        if key.db != db:
            db = key.db
            file.write(bytes((SELECTDB,)), pack_length(db))
        if key.expire_ms:
            file.write(bytes((EXPIRETIME_MS,)), key.expire_ms.to_bytes(8, "little"))
        kept, timed = _with_times_that_fit(key, version, tell)
        pieces = value(kept, version, directory, timed=timed)
        file.write(next(pieces), pack_string(key.name))
        for piece in pieces:
            file.write(piece)
    file.write(bytes((EOF,)))
    file.end()


def _with_times_that_fit(key: LiveKey, version: int, tell: Tell) -> tuple[Iterator[Content], bool]:
    """The content of a key, and whether fields of it have times that are written."""
    times = iter(key.field_times)
    first = next(times, None)
    if first is not None and version in TIMED_KINDS:
        parts = contents_of(key._replace(field_times=chain((first,), times)))
        return (parts if version != REDIS_TIMES_VERSION else _as_redis(parts, key, tell)), True
    if first is not None:
        reason = f"RDB version {version} has none; --rdb-version 80 (Valkey 9) and 12 (Redis 7.4) do"
        tell(NotExported(key.db, key.name, "times of fields", reason))
    return contents_of(key._replace(field_times=())), False


def _as_redis(parts: Iterator[Content], key: LiveKey, tell: Tell) -> Iterator[Content]:
    """The parts of a hash, without times of which Redis refuses the whole file."""
    told = False
    for part in parts:
        if any(expire_ms > REDIS_EXPIRE_MS_MAX for expire_ms in part.expires_ms):
            kept = [expire_ms if expire_ms <= REDIS_EXPIRE_MS_MAX else 0 for expire_ms in part.expires_ms]
            yield part._replace(expires_ms=kept)
            if not told:
                tell(NotExported(key.db, key.name, "times of fields", "Redis has none after the year 10889"))
                told = True
        else:
            yield part


class _Summed:
    """Writes to a file, and its checksum at the end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._crc = 0
        self._waiting: list[bytes] = []
        self._bytes = 0

    def write(self, *pieces: bytes) -> None:
        """Write them one after another; a long one goes past the buffer."""
        for piece in pieces:
            if len(piece) >= _BUFFER_BYTES:
                self._flush()
                self._put(piece)
                continue
            self._waiting.append(piece)
            self._bytes += len(piece)
            if self._bytes >= _BUFFER_BYTES:
                self._flush()

    def end(self) -> None:
        """Write the checksum of everything."""
        self._flush()
        self._file.write(self._crc.to_bytes(8, "little"))

    def _flush(self) -> None:
        self._put(b"".join(self._waiting))
        self._waiting, self._bytes = [], 0

    def _put(self, data: bytes) -> None:
        self._crc = crc64(data, self._crc)
        self._file.write(data)
