"""Keeps a note of each deleted range until a compaction has given its disk space back.

CF local   compact/[column family]/[start]  ->  [end]     start <= key < end

A range delete costs the same for ten records and for ten million, and leaves all of them on the disk. The note is in
the same batch, so that a crash loses neither; it is of this directory alone, and in no dump and no digest.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.store.store import LOCAL_CF, Changes, Store
from engine.values.encoding import prefix_end
from slotlog.shared.errors import InvariantError

NOTE: Final = b"compact/"
"""What the notes begin with."""

RANGES_MAX: Final = 64
"""Of one column family, at a time: more of them are taken together, each with its neighbours."""

NOTES_MAX: Final = 1024
"""How many notes are read at a time: some milliseconds. The rest follows when these are done with."""

_RANGES_MAX_OF_MANY: Final = 8
"""Instead of `RANGES_MAX`, when there are more notes than are read: each compaction begins with a flush."""


class DeletedRange(NamedTuple):
    """Records to compact: `start <= key < end`."""

    column_family: str
    start: bytes
    end: bytes


def delete_range(changes: Changes, deleted: DeletedRange) -> None:
    """Add to a batch that these records go, and that they are to be compacted.

    Raises:
        InvariantError: no key is in the range.
    """
    if deleted.start >= deleted.end:
        raise InvariantError(f"a range to delete in {deleted.column_family} ends at or before its start")
    changes.ranges.append(deleted)
    changes.of(LOCAL_CF)[_key(deleted.column_family, deleted.start)] = deleted.end


def notes_in(changes: Changes) -> list[bytes]:
    """The keys of the notes that a batch writes."""
    return [key for key, end in changes.of(LOCAL_CF).items() if end is not None and key.startswith(NOTE)]


def noted(store: Store) -> tuple[list[DeletedRange], frozenset[bytes]]:
    """The ranges that wait for their compaction, at most `RANGES_MAX` of each column family, in order; and their notes.

    Raises:
        CorruptionError: a note cannot be read.
    """
    notes: dict[str, list[DeletedRange]] = {}
    records = list(islice(store.scan(LOCAL_CF, NOTE, prefix_end(NOTE)), NOTES_MAX))
    for key, end in records:
        deleted = parse_note(key, end)
        ranges = notes.setdefault(deleted.column_family, [])
        if ranges and deleted.start <= ranges[-1].end:
            ranges[-1] = ranges[-1]._replace(end=max(deleted.end, ranges[-1].end))
        else:
            ranges.append(deleted)
    ranges_max = RANGES_MAX if len(records) < NOTES_MAX else _RANGES_MAX_OF_MANY
    found = [deleted for ranges in notes.values() for deleted in _together(ranges, ranges_max)]
    return found, frozenset(key for key, _ in records)


def compacted(store: Store, deleted: DeletedRange, known: Container[bytes]) -> Changes:
    """The batch that deletes the notes of `deleted`, which `noted` returned, as far as `known`.

    What was noted since may have been deleted after the compaction began.
    """
    name, start, end = deleted
    changes = Changes()
    notes = changes.of(LOCAL_CF)
    inside = store.scan(LOCAL_CF, _key(name, start), _key(name, end))
    notes.update((key, None) for key, _ in inside if key in known)
    return changes


def parse_note(key: bytes, end: bytes) -> DeletedRange:
    """What `delete_range` noted.

    Raises:
        CorruptionError: it is no note.
    """
    name, slash, start = key[len(NOTE) :].partition(b"/")
    if not slash or not name.isascii() or start >= end:
        message = f"the note {key.hex()} names no range; rebuild the state with `slotlog replay --swap`"
        raise CorruptionError(message)
    return DeletedRange(name.decode(), start, end)


def _key(column_family: str, start: bytes) -> bytes:
    return NOTE + column_family.encode() + b"/" + start


def _together(ranges: list[DeletedRange], ranges_max: int) -> list[DeletedRange]:
    size = -(-len(ranges) // ranges_max)
    groups = [ranges[at : at + size] for at in range(0, len(ranges), size)]
    return [group[0]._replace(end=group[-1].end) for group in groups]
