"""Deletes entries of streams with regard to the groups that have not done with them: KEEPREF, DELREF and ACKED.

A group needs an entry that it has not got yet, or that is pending in it. What is pending of an entry that is not there
is a dangling reference. Source: the pages of XDELEX, XACKDEL and XTRIM of Redis 8.2, and its tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.types.stream import stream_groups, streams
from engine.types.stream.stream_groups import Group
from engine.types.stream.streams import MAX_ID, Trim

ABSENT: Final = -1
DELETED: Final = 1
NEEDED: Final = 2


class References(Enum):
    """The choices for references to an entry that is to be deleted."""

    KEEP = b"KEEPREF"
    """They stay, and dangle."""
    DELETE = b"DELREF"
    """They go with it."""
    NONE = b"ACKED"
    """Where a group needs the entry, it stays."""


def references_of(word: bytes) -> References | None:
    """What an option says; None: it is another one."""
    try:
        return References(word)
    except ValueError:
        return None


class Deletion:
    """Entries of one stream, to be deleted together.

    Args:
        tx: the transaction.
        key: the stream.
        references: what becomes of them.
        groups: all groups of the stream, of which nothing is changed and not saved.
    """

    def __init__(self, tx: Transaction, key: Key, references: References, groups: Sequence[Group]) -> None:
        self._tx, self._key, self._references, self._groups = tx, key, references, groups
        self._deleted: dict[bytes, None] = {}
        self._changed: dict[Group, None] = {}

    def add(self, entry_id: bytes) -> int:
        """Delete an entry, if it may be. Returns `ABSENT`, `DELETED` or `NEEDED`."""
        if self._references is References.DELETE:
            self._drop(entry_id)
        if entry_id in self._deleted or streams.entry(self._key, entry_id) is None:
            return ABSENT
        if self._references is References.NONE and self.is_needed(entry_id):
            return NEEDED
        self._deleted[entry_id] = None
        return DELETED

    def add_acknowledged(self, group: Group, entry_id: bytes) -> int:
        """Acknowledge an entry in a group, one of `groups`, and delete it, if it may be. Returns as `add`."""
        if not self._acknowledge(group, entry_id):
            return ABSENT
        if self._references is References.NONE and self.is_needed(entry_id):
            return NEEDED
        self.add(entry_id)
        return DELETED

    def finish(self) -> None:
        """Write all of it."""
        self._save()
        streams.delete(self._tx, self._key, self._deleted)

    def trim(self, how: Trim) -> int:
        """Delete the oldest entries that may be; `how.most` says how many are looked at. Returns how many."""
        surplus = self._key.size if how.length is None else self._key.size - how.length
        below = how.min_id if how.length is None else MAX_ID + b"\0"
        ids: list[bytes] = []
        oldest: int | None = None  # so many of them have none in front that stays
        for looked_at, (entry_id, _) in enumerate(streams.entries(self._key)):
            if len(ids) >= surplus or entry_id >= below or looked_at == how.most:
                break
            if self._references is References.NONE and self.is_needed(entry_id):
                oldest = len(ids) if oldest is None else oldest
            else:
                ids.append(entry_id)
        if self._references is References.DELETE:
            for entry_id in ids:
                self._drop(entry_id)
            self._save()
        oldest = len(ids) if oldest is None else oldest
        streams.trim(self._tx, self._key, Trim(self._key.size - oldest))
        streams.delete(self._tx, self._key, ids[oldest:])
        return len(ids)

    def is_needed(self, entry_id: bytes) -> bool:
        """Whether a group has not done with an entry."""
        return any(entry_id > group.last_id or group.pending_entry(entry_id) is not None for group in self._groups)

    def _drop(self, entry_id: bytes) -> None:
        for group in self._groups:
            self._acknowledge(group, entry_id)

    def _acknowledge(self, group: Group, entry_id: bytes) -> bool:
        if not group.acknowledge(entry_id):
            return False
        self._changed[group] = None
        return True

    def _save(self) -> None:
        for group in self._changed:
            group.save()


def trim(tx: Transaction, key: Key, how: Trim, references: References) -> int:
    """Delete the oldest entries. Returns how many. Without groups it does not matter what becomes of references."""
    if references is References.KEEP or not streams.parts(key).groups:
        return streams.trim(tx, key, how)
    return Deletion(tx, key, references, stream_groups.groups(key)).trim(how)
