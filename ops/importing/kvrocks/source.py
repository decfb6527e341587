"""Gives the keys of a directory of Kvrocks to an import, and lists what has no place here.

A key whose records make no sense is left out as a whole: it is read to its end before its first event is given. What
Kvrocks would not serve is passed by: keys that have expired, and collections of size 0, which it takes for absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.layouts.kvrocks.keys import Owner, parse_metadata_key
from engine.layouts.kvrocks.metadata import BITMAP, HYPERLOGLOG, TYPE_NAMES, KvrocksMetadata, parse
from engine.model import HASH, STREAM, STRING
from engine.model import TYPE_NAMES as OUR_TYPE_NAMES
from engine.values.rdb.content import Content
from ops.config import ConfigError
from ops.importing.key_events import events_of, too_large
from ops.importing.kvrocks.contents import HELD, elements_in, read_contents
from ops.importing.kvrocks.directory import METADATA, KvrocksDirectory, opened
from ops.importing.kvrocks.namespaces import parse_namespaces
from ops.importing.kvrocks.other_records import other_records
from ops.importing.kvrocks.slots import CLUSTER, PLAIN, has_slots
from ops.importing.source import ImportKey, LeftOut, Options
from slotlog.clock import now_ms
from slotlog.shared.slots import slot
from slotlog.wording import counted

_TYPE: Final = 0x0F
_BUFFERED_PARTS: Final = 4
_NAMED_MAX: Final = 10
_UNCOUNTED: Final = frozenset({STRING, BITMAP, HYPERLOGLOG})


class KvrocksSource:
    """The keys of one directory, in the order in which it has them.

    Args:
        path: what Kvrocks' setting `dir` names, or a backup.
        options: of the import; its layout is that of the directory, its namespaces are there beside the usual ones.
        at_ms: Kvrocks' time: what has expired by it is passed by.

    Attributes:
        total: about how many keys there are.
        done: how many of them are dealt with.

    Raises:
        ConfigError: it is no such directory, or cannot be told how to be read.
        CorruptionError: it is damaged, or of a RocksDB that is too new.
        OSError: a file cannot be read.
    """

    unit: Final = "keys"

    def __init__(self, path: Path, options: Options, *, at_ms: int | None = None) -> None:
        if options.layout not in {PLAIN, CLUSTER}:
            raise ConfigError(f"--layout {options.layout} is none of a directory; it is {PLAIN} or {CLUSTER}")
        self._options = options
        self._databases = parse_namespaces(options.namespaces)
        self._now_ms = now_ms() if at_ms is None else at_ms
        self._stack = ExitStack()
        with ExitStack() as opening:
            self._directory: KvrocksDirectory = opening.enter_context(opened(path))
            self._has_slot = has_slots(self._directory, options.layout)
            self._stack = opening.pop_all()
        self.label = str(self._directory.path)
        self.identity = f"kvrocks {self._directory.identity}{options.selection}"
        self.total = self._directory.estimated_count(METADATA)
        self.done = 0
        self._expired = self._absent = 0
        self._uneven = 0
        self._first_uneven: list[bytes] = []

    def keys(self, mark: str | None) -> Iterator[ImportKey | LeftOut]:
        """Everything behind `mark`; what is in no key first.

        Raises:
            CorruptionError: the directory is damaged, and cannot be read on.
        """
        yield from other_records(self._directory)
        start = b"" if mark is None else bytes.fromhex(mark) + b"\0"
        for record, value in self._directory.scan(METADATA, start):
            found = self._key(record, value)
            if found is not None:
                yield found
            self.done += 1

    def appending(self) -> None:
        """Nothing: see `appended`."""

    def appended(self, keys: int) -> None:
        """Nothing to do: a key's mark is its place."""

    def notes(self) -> Sequence[str]:
        """How the directory was read, and what was passed by."""
        layout = f"{CLUSTER}: keys name their slots" if self._has_slot else f"{PLAIN}: keys name no slots"
        notes = [f"read as {layout}"]
        if self._expired:
            notes.append(f"{counted(self._expired, 'key')} had expired")
        if self._absent:
            notes.append(f"{counted(self._absent, 'record')} of size 0 stood for no key")
        if self._uneven:
            names = ", ".join(map(repr, self._first_uneven))
            notes.append(
                f"{counted(self._uneven, 'key')} had another number of elements than Kvrocks had counted, and came over"
                f" with those that were there: {names}{', …' if self._uneven > len(self._first_uneven) else ''}"
            )
        return notes

    def close(self) -> None:
        """Let go of the directory."""
        self._stack.close()

    # ------------------------------------------------------------------ keys

    def _key(self, record: bytes, value: bytes) -> ImportKey | LeftOut | None:
        """What becomes of one metadata record; None when it stands for nothing."""
        try:
            owner = parse_metadata_key(record, has_slot=self._has_slot)
        except CorruptionError as error:
            return LeftOut(None, record, "damaged record", str(error))
        db = self._databases.get(owner.namespace)
        if db is not None and self._options.databases and db not in self._options.databases:
            return None
        code = value[0] & _TYPE if value else 0
        if code and code not in TYPE_NAMES:
            return LeftOut(db, owner.name, f"type {code}", "a type of a newer Kvrocks, which is not known")
        try:
            metadata = parse(value)
        except CorruptionError as error:
            return LeftOut(db, owner.name, "damaged record", str(error))
        if 0 < metadata.expire_ms < self._now_ms:
            self._expired += 1
            return None
        if metadata.is_absent:
            self._absent += 1
            return None
        if (left_out := self._misplaced(owner, db, metadata)) is not None or db is None:
            return left_out
        return self._held(record, owner, db, metadata)

    def _misplaced(self, owner: Owner, db: int | None, metadata: KvrocksMetadata) -> LeftOut | None:
        """A key that has no place here, whatever it holds."""
        if metadata.type not in HELD:
            return LeftOut(db, owner.name, TYPE_NAMES[metadata.type], "slotlog does not have this type")
        if db is None:
            namespace = owner.namespace.decode(errors="backslashreplace")
            reason = f"it is in namespace {namespace!r}: give it a database with --namespace NAME=DB"
            return LeftOut(None, owner.name, "key of another namespace", reason)
        if db and self._options.partitions > 1:
            return LeftOut(
                db, owner.name, "key of another database", "a log of several partitions has database 0 alone"
            )
        if owner.slot is not None and owner.slot != slot(owner.name):
            reason = f"it is filed under slot {owner.slot} and belongs to {slot(owner.name)}: Kvrocks does not see it"
            return LeftOut(db, owner.name, "key in a wrong slot", reason)
        return None

    def _held(self, record: bytes, owner: Owner, db: int, metadata: KvrocksMetadata) -> ImportKey | LeftOut | None:
        """A key of a type that we have, whose content was read once."""
        try:
            content = self._examine(owner, metadata)
        except CorruptionError as error:
            return LeftOut(db, owner.name, f"damaged {TYPE_NAMES[metadata.type]}", str(error))
        if content.reason:
            return LeftOut(db, owner.name, f"large {TYPE_NAMES[metadata.type]}", content.reason)
        if not content.elements and metadata.type != STREAM:  # all of them are dead: else it were damaged
            self._expired += 1
            return None
        if not _is_timed(metadata) and metadata.type not in _UNCOUNTED and content.elements != metadata.size:
            self._uneven += 1
            if len(self._first_uneven) < _NAMED_MAX:
                self._first_uneven.append(owner.name)
        events = events_of(owner.name, metadata.expire_ms, content.parts)
        return ImportKey(db, owner.name, OUR_TYPE_NAMES[HELD[metadata.type]], events, record.hex())

    def _examine(self, owner: Owner, metadata: KvrocksMetadata) -> _Examined:
        """Read a key to its end. Its first parts are kept, and all of them where there are no more."""
        kept: list[Content] = []
        elements = 0
        is_whole = True
        reason = ""
        for part in read_contents(self._directory, owner, metadata, self._now_ms):
            elements += elements_in(part)
            reason = reason or too_large(owner.name, part)
            if len(kept) < _BUFFERED_PARTS:
                kept.append(part)
            else:
                is_whole = False
        if not elements and not _is_timed(metadata) and metadata.type != STREAM:
            raise CorruptionError(f"it has no elements, and Kvrocks has counted {metadata.size}")
        parts = kept if is_whole else read_contents(self._directory, owner, metadata, self._now_ms)
        return _Examined(parts, elements, reason)


class _Examined(NamedTuple):
    """The content of a key that was read once; `reason` says why no event can hold it."""

    parts: Iterable[Content]
    elements: int
    reason: str


def _is_timed(metadata: KvrocksMetadata) -> bool:
    """Whether it is a hash whose fields may have times to live."""
    return metadata.type == HASH and bool(metadata.tail)
