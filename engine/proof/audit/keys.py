"""Audits keys and graves against their records: merges the metadata with all other column families."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from struct import Struct
from typing import Final, NamedTuple

from engine.batch.keys.fragments import is_fragmented
from engine.batch.staging import MARK
from engine.errors import CorruptionError
from engine.layouts.layout import Kind
from engine.layouts.records import metadata_records, prefixes_of
from engine.model import STRING, TYPE_NAMES, Metadata
from engine.proof.audit.contents import Contents
from engine.proof.audit.graves import Graves
from engine.proof.audit.readable import marks, parsed
from engine.proof.audit.violation import Live, State, Violation, Violations, several
from engine.proof.audit.walk import RecordCursor, in_order
from engine.store.store import LOCAL_CF, SYSTEM_CF
from engine.tables.graveyard import Grave
from engine.values.encoding import U64, parse_u64
from slotlog.shared.limits import DATABASES
from slotlog.shared.slots import partition_of, slot

Advance = Callable[[int], None]
"""Called with how many keys have been looked at."""

_UNREAD, _KEY, _GRAVE, _STAGED = range(4)
_STEP_KEYS: Final = 1000
_OWNER: Final = Struct(">?QI")


class Owner(NamedTuple):
    """The owner of the next records: their prefix in DATA, its kind, key, version and content."""

    prefix: bytes
    what: int
    metadata_key: bytes
    version: int | None
    of: Live | Grave | None = None


class KeyAudit:
    """The keys of one state, and what is left of others.

    Attributes:
        graves: of dead ones.
    """

    def __init__(self, state: State, advance: Advance) -> None:
        self.graves = Graves(state)
        self._state = state
        self._advance = advance
        self._found: list[Violation] = []  # by the sources of the merge, which can only give owners

    # ------------------------------------------------------------------ keys, graves, subkeys

    def check(self) -> Violations:
        """Every metadata record, every record of a subkey, what is stored under graves; and the counts of keys."""
        contents = Contents(self._state)
        layout = self._state.layout
        keys = self._keys() if layout.is_in_one_order else self._sorted_keys()
        for owner in merge(keys, self._buried(), self._staged()):
            yield from self._told()
            prefixes = prefixes_of(layout, owner.metadata_key, owner.version)
            for cursor in contents.cursors:
                if cursor.key is not None and cursor.key < prefixes[cursor.kind]:
                    yield from self._orphans(cursor, prefixes[cursor.kind])
            if isinstance(owner.of, Live):
                yield from contents.check(owner.of)
            elif isinstance(owner.of, Grave):
                yield from self.graves.check_buried(owner.of, contents.cursors, prefixes)
            else:
                for cursor in contents.cursors:
                    cursor.skip(prefixes[cursor.kind])
        yield from self._told()
        for cursor in contents.cursors:
            yield from self._orphans(cursor, None)
        yield from self._check_counts()

    def _told(self) -> list[Violation]:
        if not self._found:
            return self._found
        found, self._found = self._found, []
        return found

    def _keys(self) -> Iterator[Owner]:
        """The keys with subkeys; of those whose metadata cannot be read everything, of any version."""
        state = self._state
        get_current = state.store.getter(state.metadata_cf)  # an earlier record holds a string of any length
        writes_earlier = state.layout.earlier is not None and state.layout.earlier.is_written
        for key, value in metadata_records(state.store, state.layout):
            state.keys += 1
            if state.keys % _STEP_KEYS == 0:
                self._advance(state.keys)
            db = self._placed(key)
            if db is None:
                continue
            metadata = self._parsed(key, value)
            if metadata is None:
                state.unread[db] = state.unread.get(db, 0) + 1
                yield self._owner(_UNREAD, key, None)
                continue
            counted = db, metadata.type
            state.found[counted] = state.found.get(counted, 0) + 1
            if metadata.version:
                live = Live(key, metadata, prefixes_of(state.layout, key, metadata.version))
                yield self._owner(_KEY, key, metadata.version, live)
            elif is_fragmented(len(metadata.value), state.layout.forms) and get_current(key) is not None:
                text = f"{state.name_of(key)} has {len(metadata.value)} bytes in its metadata"
                self._say("fragments", key, text)
            elif writes_earlier and metadata.type == STRING and get_current(key) is not None:
                self._say("unreadable", key, f"{state.name_of(key)} has a metadata record, as no string here has")

    def _sorted_keys(self) -> Iterator[Owner]:
        """As `_keys`, where what belongs to keys lies in another order than their metadata."""
        for _ in self._keys():  # once, for what it says of the metadata: what is sorted may be read several times
            pass
        get_key = self._state.store.getter(self._state.metadata_cf)
        for packed in in_order(self._packed_keys):
            is_read, version, length = _OWNER.unpack(packed[-_OWNER.size :])
            key = packed[-_OWNER.size - length : -_OWNER.size]
            if not is_read:
                yield self._owner(_UNREAD, key, None)
                continue
            metadata = self._state.layout.parse_metadata(get_key(key) or b"")
            yield self._owner(_KEY, key, version, Live(key, metadata, prefixes_of(self._state.layout, key, version)))

    def _packed_keys(self) -> Iterator[bytes]:
        """What the records of a key begin with, the key, whether it can be read, and its version."""
        state = self._state
        for key, value in metadata_records(state.store, state.layout):
            try:
                state.layout.parse_metadata_key(key)
            except CorruptionError:
                continue
            metadata = parsed(state, value)
            is_read = metadata is not None and not _lacks_version(metadata)
            version = metadata.version if metadata is not None and is_read else None
            if version != 0:
                packed = _OWNER.pack(is_read, version or 0, len(key))
                yield state.layout.prefix(Kind.DATA, key, version) + key + packed

    def _owner(self, what: int, key: bytes, version: int | None, of: Live | Grave | None = None) -> Owner:
        return Owner(self._state.layout.prefix(Kind.DATA, key, version), what, key, version, of)

    def _placed(self, key: bytes) -> int | None:
        """The stored database of a metadata key, which may be in the wrong place; None when it is no metadata key."""
        state, home = self._state, self._state.home
        try:
            db, key_slot, name = state.layout.parse_metadata_key(key)
        except CorruptionError as error:
            self._say("place", key, str(error))
            return None
        own_slot = slot(name)
        if key_slot != own_slot:
            self._say("place", key, f"{state.name_of(key)} is in slot {key_slot}, not {own_slot}")
        elif home.partitions > 1 and partition_of(key_slot, home.partitions) != home.partition:
            text = f"is of partition {partition_of(key_slot, home.partitions)}, not {home.partition}"
            self._say("place", key, f"{state.name_of(key)} {text}")
        if db >= (DATABASES if home.partitions == 1 else 1):
            self._say("place", key, f"{state.name_of(key)}: there is no such database")
        return db

    def _parsed(self, key: bytes, value: bytes) -> Metadata | None:
        state = self._state
        try:
            metadata = state.layout.parse_metadata(value)
        except CorruptionError as error:
            self._say("unreadable", key, f"{state.name_of(key)}: {error}")
            return None
        if _lacks_version(metadata):
            what = "fragments" if metadata.type == STRING else "elements"
            self._say("unreadable", key, f"{state.name_of(key)} has {what} and no version")
            return None
        if state.last_version is not None and metadata.version > state.last_version:
            text = f"has version {metadata.version}, the newest taken is {state.last_version}"
            self._say("versions", key, f"{state.name_of(key)} {text}")
        return metadata

    def _say(self, kind: str, key: bytes, message: str) -> None:
        self._found.append(Violation(kind, self._state.metadata_cf, key, message))

    def _buried(self) -> Iterator[Owner]:
        for grave in self.graves.in_order():
            yield self._owner(_GRAVE, grave.metadata_key, grave.version, grave)

    def _staged(self) -> Iterator[Owner]:
        """What is written ahead of a batch that has not come: a few versions."""
        owners = []
        for mark, key in marks(self._state):
            try:
                self._state.layout.parse_metadata_key(key)
                if len(mark) == len(MARK) + U64.size:
                    owners.append(self._owner(_STAGED, key, parse_u64(mark[len(MARK) :])))
                    continue
            except CorruptionError:
                pass
            self._found.append(Violation("unreadable", LOCAL_CF, mark, f"the mark {mark.hex()} names no version"))
        yield from sorted(owners)

    def _orphans(self, cursor: RecordCursor, end: bytes | None) -> Violations:
        """Take what is left below `end`, to which no owner has come."""
        for beginning, owner, count in cursor.below(end):
            try:
                name = None if owner is None else self._state.name_of(owner[0])
            except CorruptionError:
                name = None
            if owner is None or name is None:
                text = f"the record {beginning.hex()} in {cursor.column_family} names no key"
                yield Violation("unreadable", cursor.column_family, beginning, text)
                continue
            text = f"{several(count, 'record')} in {cursor.column_family} of {name},"
            text += f" version {owner[1]}, which no key, grave or mark names"
            yield Violation("orphans", cursor.column_family, beginning, text)

    def _check_counts(self) -> Violations:
        state = self._state
        for db, type_code in {**state.counted, **state.found}:
            counted, found = state.counted.get((db, type_code), 0), state.found.get((db, type_code), 0)
            # A key whose metadata cannot be read was counted among those of one type or another.
            if counted == found or 0 < counted - found <= state.unread.get(db, 0):
                continue
            text = f"{several(found, 'key')} of type {TYPE_NAMES[type_code]} in stored database {db}, counted {counted}"
            yield Violation("counts", SYSTEM_CF, b"count/%d/%d" % (db, type_code), text)


def _lacks_version(metadata: Metadata) -> bool:
    """Whether it has elements, or fragments, and no version that says which."""
    return not metadata.version and (metadata.type != STRING or metadata.size > 0)
