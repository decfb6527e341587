"""The keys of an RDB file, as a source of an import."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from engine.model import TYPE_NAMES
from engine.values.rdb.content import Content
from engine.values.rdb.parts import NOT_SUPPORTED, parts
from ops.importing.key_events import events_of
from ops.importing.libraries import library
from ops.importing.rdb.check import Checked, check, refused, skip
from ops.importing.rdb.file_reader import FileReader
from ops.importing.rdb.records import KeyRecord, RdbError, records
from ops.importing.source import ImportKey, LeftOut, Options
from ops.progress import progress
from slotlog.clock import WALL
from slotlog.shared.limits import DATABASES
from slotlog.wording import counted

_NOT_HELD: Final = "slotlog has no such values"


def open_source(source: str, options: Options) -> RdbSource:
    """The file as a source, walked over and found to be whole.

    Raises:
        RdbError, OSError: it is none, damaged, or cannot be read.
    """
    path = Path(source)
    if path.is_dir():
        raise RdbError(f"{path} is a directory; --layout names what wrote it, or name an RDB file")
    file = path.open("rb")
    try:
        size = os.fstat(file.fileno()).st_size
        with progress("check", size, "bytes") as advance:
            checked = check(path, file, size, advance)
        _refuse_databases(path, checked, options)
    except BaseException:
        file.close()
        raise
    return RdbSource(path, file, size, checked, options)


def _refuse_databases(path: Path, checked: Checked, options: Options) -> None:
    others = [db for db in sorted(checked.databases) if db and (not options.databases or db in options.databases)]
    if others and options.partitions > 1:
        raise RdbError(
            f"{path} has keys in database {', '.join(map(str, others))}; a log of several partitions, as a cluster, has"
            " database 0 alone: --db 0 imports that one. Nothing was imported"
        )


class RdbSource:
    """An RDB file that was found to be whole. A mark is `database:position` of the last key.

    Args:
        path: for messages.
        file: open for reading.
        size: of it.
        checked: what the first walk has found.
        options: of the import.
    """

    unit = "bytes"

    def __init__(self, path: Path, file: BinaryIO, size: int, checked: Checked, options: Options) -> None:
        self._path = path
        self._file = file
        self._size = size
        self._checked = checked
        self._options = options
        self._now_ms = WALL.now_ms()
        self._expired = 0
        self._position = 0

    @property
    def identity(self) -> str:
        """As `Source.identity`: that of the contents, wherever the file lies."""
        return f"rdb-{self._checked.checksum:016x}-{self._size}{self._options.selection}"

    @property
    def label(self) -> str:
        """As `Source.label`."""
        return str(self._path)

    @property
    def total(self) -> int:
        """As `Source.total`."""
        return self._size

    @property
    def done(self) -> int:
        """As `Source.done`."""
        return self._position

    def keys(self, mark: str | None) -> Iterator[ImportKey | LeftOut]:
        """As `Source.keys`."""
        db, position = map(int, mark.split(":")) if mark else (0, self._checked.first)
        if mark is None:
            yield from self._beside_the_keys()
        reader = FileReader(self._file, self._size, position)
        with refused(self._path, reader):
            for record in records(reader, self._checked.version, db):
                if isinstance(record, KeyRecord):
                    value = _Value(record, self._checked.version, reader)
                    if mark is None or record.position != position:
                        yield from self._key(record, value)
                    value.pass_by()
                self._position = reader.position

    def appending(self) -> None:
        """Nothing: see `appended`."""

    def appended(self, keys: int) -> None:
        """As `Source.appended`."""

    def notes(self) -> Sequence[str]:
        """As `Source.notes`."""
        found = []
        if self._expired:
            found.append(f"{counted(self._expired, 'key')} had expired, and a server would not load them either")
        found += [
            f"the server was taking over the slots {other.text.decode()} when it saved: their keys may be incomplete"
            for other in self._checked.others
            if other.what == "import"
        ]
        return [*self._written_by(), *found]

    def close(self) -> None:
        """As `Source.close`."""
        self._file.close()

    def _written_by(self) -> list[str]:
        aux = {other.name: other.text.decode(errors="replace") for other in self._checked.others if other.what == "aux"}
        server = next((f"{name} {aux[key]}" for key, name in _SERVERS.items() if key in aux), "an unknown server")
        saved = ""
        if (ctime := aux.get(b"ctime", "")).isdecimal():
            saved = f" at {datetime.fromtimestamp(int(ctime), UTC):%Y-%m-%d %H:%M:%S} UTC"
        return [f"RDB version {self._checked.version}, written by {server}{saved}"]

    def _beside_the_keys(self) -> Iterator[ImportKey | LeftOut]:
        for other in self._checked.others:
            if other.what == "library":
                yield library(other.name, other.text)
            elif other.what == "module":
                yield LeftOut(None, other.name, "data of a module", "slotlog has no modules")

    def _key(self, record: KeyRecord, value: _Value) -> Iterator[ImportKey | LeftOut]:
        db, name = record.db, record.name
        if self._options.databases and db not in self._options.databases:
            return
        if 0 < record.expire_ms <= self._now_ms:
            self._expired += 1
        elif value.not_held:
            yield LeftOut(db, name, value.not_held, _NOT_HELD)
        elif value.type is None:
            yield LeftOut(db, name, "key without elements", "no server would load it either")
        elif db >= DATABASES:
            yield LeftOut(db, name, value.type, f"slotlog has the databases 0 to {DATABASES - 1}")
        elif reason := self._checked.too_large.get(record.position):
            yield LeftOut(db, name, value.type, reason)
        else:
            events = events_of(name, record.expire_ms, value.contents)
            yield ImportKey(db, name, value.type, events, f"{db}:{record.position}")


class _Value:
    """The value of a key, at which the reader is.

    Attributes:
        not_held: what it is where slotlog has none such, else empty.
        type: as TYPE answers; None of one that has no element.
        contents: all of it, in parts.
    """

    def __init__(self, record: KeyRecord, version: int, reader: FileReader) -> None:
        self.not_held = skip(record, reader) if record.kind in NOT_SUPPORTED else ""
        rest = iter(()) if self.not_held else parts(record.kind, version, reader)
        first = next(rest, None)
        self.type = None if first is None else TYPE_NAMES[first.type]
        self.contents: Iterator[Content] = iter(()) if first is None else chain((first,), rest)

    def pass_by(self) -> None:
        """Let the reader go past what was not asked for."""
        for _ in self.contents:
            pass


_SERVERS: Final = {b"valkey-ver": "Valkey", b"redis-ver": "Redis", b"slotlog-ver": "slotlog"}
