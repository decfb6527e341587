"""Reads the graveyard, which is ordered by time, in the order of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Final

from engine.errors import CorruptionError
from engine.layouts.layout import Kind
from engine.model import HASH, KEY_TYPES, STREAM, TYPE_NAMES, UNCOUNTED_FROM, ZSET
from engine.proof.audit.violation import State, Violation, Violations, several
from engine.proof.audit.walk import RecordCursor, in_order
from engine.store.store import GRAVEYARD_CF, LOCAL_CF
from engine.tables.graveyard import CURSOR, Grave, parse_grave

_GRAVE: Final = Struct(">QBQ")


class Graves:
    """The graves of one state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def check(self) -> Violations:
        """Each grave by itself."""
        state = self._state
        cursor = state.store.getter(LOCAL_CF)(CURSOR) or b""
        for record, content in state.store.scan(GRAVEYARD_CF, b"", None):
            grave = self._parsed(record, content)
            if grave is None:
                yield Violation("unreadable", GRAVEYARD_CF, record, f"the grave {record.hex()} cannot be read")
                continue
            name = state.name_of(grave.metadata_key)
            if state.is_future(grave.died_ms):
                text = f"the grave of {name} is of {grave.died_ms} ms, the clock stands at {state.clock_ms}"
                yield Violation("graveyard", GRAVEYARD_CF, record, text)
            if record < cursor:
                text = f"the grave of {name} is of {grave.died_ms} ms, behind the cursor: no reclaimer will meet it"
                yield Violation("graveyard", GRAVEYARD_CF, record, text)
            if state.last_version is not None and grave.version > state.last_version:
                text = f"the grave of {name} has version {grave.version}, the newest taken is {state.last_version}"
                yield Violation("versions", GRAVEYARD_CF, record, text)

    def readable(self) -> Iterator[Grave]:
        """The graves that can be read, by time."""
        for record, content in self._state.store.scan(GRAVEYARD_CF, b"", None):
            grave = self._parsed(record, content)
            if grave is not None:
                yield grave

    def in_order(self) -> Iterator[Grave]:
        """The graves that can be read, in the order of what is stored under them."""
        owner = self._state.layout.owner
        for packed in in_order(self._packed):
            died_ms, type_code, size = _GRAVE.unpack(packed[-_GRAVE.size :])
            metadata_key, version = owner(Kind.DATA, packed[: -_GRAVE.size])
            yield Grave(died_ms, version, type_code, size, metadata_key)

    def check_buried(self, grave: Grave, cursors: Sequence[RecordCursor], prefixes: Mapping[Kind, bytes]) -> Violations:
        """Take what is stored under a grave; less than its size may be left, by a flush or a reclaimer.

        Args:
            grave: whose records are taken.
            cursors: on all kinds of records.
            prefixes: what its records begin with, by kind.
        """
        bounds = {
            Kind.DATA: None if grave.size >= UNCOUNTED_FROM else 0 if grave.type == STREAM else grave.elements,
            Kind.SCORES: grave.size if grave.type == ZSET else 0,
            Kind.RANKS: None if grave.type == ZSET else 0,
            Kind.TIMES: 2 * grave.size if grave.type == HASH else 0,
            Kind.MEMBERS: grave.size if grave.type == ZSET else 0,
            Kind.COUNTS: 1 if grave.type == ZSET else 0,
            Kind.NAMES: grave.size if grave.type == ZSET else 0,
            Kind.STREAM: None if grave.type == STREAM else 0,
            Kind.STREAM_INDEX: None if grave.type == STREAM else 0,
        }
        for cursor in cursors:
            prefix, most = prefixes[cursor.kind], bounds[cursor.kind]
            count = cursor.skip(prefix)
            if most is not None and count > most:
                text = f"{several(count, 'record')} in {cursor.column_family}, by its grave a {TYPE_NAMES[grave.type]}"
                text = f"the dead {self._state.name_of(grave.metadata_key)} has {text} of size {grave.size}"
                yield Violation("graveyard", cursor.column_family, prefix, text)

    def _packed(self) -> Iterator[bytes]:
        prefix = self._state.layout.prefix
        for grave in self.readable():
            content = _GRAVE.pack(grave.died_ms, grave.type, grave.size)
            yield prefix(Kind.DATA, grave.metadata_key, grave.version) + content

    def _parsed(self, record: bytes, content: bytes) -> Grave | None:
        try:
            grave = parse_grave(record, content)
            self._state.layout.parse_metadata_key(grave.metadata_key)
        except CorruptionError:
            return None
        return grave if grave.type in KEY_TYPES and grave.size and grave.version else None
