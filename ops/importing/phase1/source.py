"""Gives the strings of a directory that Phase 1 of NeoKV wrote to an import.

What has no place here is listed. Phase 1 had its records in the column family `data`
(engine/layouts/neokv/phase1.py). All regions of a directory are read: they are shards of one key space, and here the
slot says where a key belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.layouts.neokv.phase1 import Phase1
from engine.model import STRING
from engine.store.plain import PlainReader
from engine.store.store import SYSTEM_CF
from engine.values.rdb.content import Content
from ops.config import ConfigError
from ops.importing.key_events import events_of, too_large
from ops.importing.linked import CURRENT, identity_of, opened_by_links
from ops.importing.source import ImportKey, LeftOut, Options
from slotlog.clock import now_ms
from slotlog.shared.limits import DATABASES
from slotlog.shared.slots import slot
from slotlog.wording import counted

LAYOUT: Final = "neokv1"
_DATA: Final = "data"
_METADATA: Final = "metadata"
_HEADER: Final = Struct(">QQHI")
_OTHER_TAGS: Final = {b"H": "hash", b"L": "list", b"E": "set", b"Z": "zset"}
_FORM: Final = Phase1()


class _Owner(NamedTuple):
    """What the key of a record says."""

    region: int
    db: int
    slot: int
    name: bytes
    tag: bytes


class Phase1Source:
    """The strings of one directory, in the order in which it has them.

    Args:
        path: of the RocksDB database.
        options: of the import.
        at_ms: what has expired by it is passed by; None: by the wall clock.

    Attributes:
        total: about how many records there are.
        done: how many of them are dealt with.

    Raises:
        ConfigError: it is no such directory.
        CorruptionError: it is damaged, or of a RocksDB that is too new.
        OSError: a file cannot be read.
    """

    unit: Final = "keys"

    def __init__(self, path: Path, options: Options, *, at_ms: int | None = None) -> None:
        self._options = options
        self._now_ms = now_ms() if at_ms is None else at_ms
        self._stack = ExitStack()
        with ExitStack() as opening:
            database = _database(path)
            reader = opening.enter_context(opened_by_links(database, "NeoKV"))
            _check(database, reader)
            self._stack = opening.pop_all()
        self._reader = reader
        self.label = str(database)
        self.identity = f"{LAYOUT} {identity_of(database, reader)}{options.selection}"
        self.total = reader.estimated_count(_DATA)
        self.done = 0
        self._expired = 0
        self._regions: set[int] = set()

    def keys(self, mark: str | None) -> Iterator[ImportKey | LeftOut]:
        """Everything behind `mark`.

        Raises:
            CorruptionError: the directory is damaged, and cannot be read on.
        """
        start = b"" if mark is None else bytes.fromhex(mark) + b"\0"
        for record, value in self._reader.scan(_DATA, start):
            found = self._key(record, value)
            if found is not None:
                yield found
            self.done += 1

    def appending(self) -> None:
        """Nothing: see `appended`."""

    def appended(self, keys: int) -> None:
        """Nothing to do: a key's mark is its place."""

    def notes(self) -> Sequence[str]:
        """Of which regions the keys were, and what was passed by."""
        notes = [f"{counted(len(self._regions), 'region')}: {', '.join(map(str, sorted(self._regions)))}"]
        if self._expired:
            notes.append(f"{counted(self._expired, 'key')} had expired")
        return notes

    def close(self) -> None:
        """Let go of the directory."""
        self._stack.close()

    def _key(self, record: bytes, value: bytes) -> ImportKey | LeftOut | None:
        """What becomes of one record; None when it stands for nothing, or was not asked for."""
        owner = _parse(record)
        if owner is None:
            return LeftOut(None, record, "damaged record", "its key is none that Phase 1 wrote")
        if self._options.databases and owner.db not in self._options.databases:
            return None
        if (reason := self._misplaced(owner)) is not None:
            return LeftOut(owner.db, owner.name, *reason)
        try:
            metadata = _FORM.parse(value)
        except CorruptionError as error:
            return LeftOut(owner.db, owner.name, "damaged record", str(error))
        if 0 < metadata.expire_ms <= self._now_ms:
            self._expired += 1
            return None
        content = Content(STRING, [metadata.value])
        if why := too_large(owner.name, content):
            return LeftOut(owner.db, owner.name, "large string", why)
        self._regions.add(owner.region)
        events = events_of(owner.name, metadata.expire_ms, [content])
        return ImportKey(owner.db, owner.name, "string", events, record.hex())

    def _misplaced(self, owner: _Owner) -> tuple[str, str] | None:
        """What a record is that has no place here, and why; None when it has one."""
        if owner.tag in _OTHER_TAGS:
            return _OTHER_TAGS[owner.tag], "Phase 1 named this type and had no form for it"
        if owner.slot != slot(owner.name):
            return "key in a wrong slot", f"it is filed under slot {owner.slot} and belongs to {slot(owner.name)}"
        if owner.db >= DATABASES:
            return "key of another database", f"it is in database {owner.db}, and slotlog has 0 to {DATABASES - 1}"
        if owner.db and self._options.partitions > 1:
            return "key of another database", "a log of several partitions has database 0 alone"
        return None


def _database(path: Path) -> Path:
    if not (path / CURRENT).is_file():
        raise ConfigError(f"{path} is no RocksDB database: name the directory of one that Phase 1 wrote")
    return path.resolve()


def _check(database: Path, reader: PlainReader) -> None:
    """Refuse what Phase 1 did not write, by its column families.

    Raises:
        ConfigError: it is of something else.
    """
    names = set(reader.column_families)
    if SYSTEM_CF in names:
        raise ConfigError(
            f"{database} is a state of slotlog, whose log has the events; a state of {LAYOUT} goes on as it is:"
            " start the service without --layout"
        )
    if _DATA not in names:
        raise ConfigError(
            f"{database} is no directory of Phase 1: it has no column family {_DATA}, but {', '.join(sorted(names))}"
        )
    if _METADATA in names and next(reader.scan(_METADATA), None) is not None:
        raise ConfigError(
            f"{database} has records of Phase 2 (column family {_METADATA}), and only a directory of Phase 1 alone can"
            " be imported"
        )


def _parse(record: bytes) -> _Owner | None:
    """What the key of a Phase 1 record says; None when it is none."""
    if len(record) < _HEADER.size:
        return None
    region, db, key_slot, length = _HEADER.unpack_from(record)
    name, tag = record[_HEADER.size : -1], record[-1:]
    if len(name) != length or tag not in {*_OTHER_TAGS, b"S"}:
        return None
    return _Owner(region, db, key_slot, name, tag)
