"""Counts the entries of a stream that a group has read, and those that it has not: Redis' logical counters.

Where entries in the middle were deleted, nobody knows; then it is `UNKNOWN`. Sources: t_stream.c of valkey 9; for `lag`
the release notes of Redis 7.4.
"""

from __future__ import annotations

from typing import Final

from engine.batch.keys.key import Key
from engine.model import NO_ID
from engine.types.stream.stream_groups import Group
from engine.types.stream.streams import parts

UNKNOWN: Final = -1
"""`entries_read` where nobody knows it."""


def read_up_to(key: Key, group: Group, entry_id: bytes) -> None:
    """Let a group have read the entry behind its last one. To be saved."""
    if _is_exact(key, group) and group.last_id >= parts(key).first_id:
        group.entries_read += 1
    elif parts(key).entries_added:
        group.entries_read = position(key, entry_id)
    group.last_id = entry_id


def position(key: Key, entry_id: bytes) -> int:
    """How many entries were ever added up to this id; `UNKNOWN` where that does not follow."""
    stream = parts(key)
    if not stream.entries_added:
        return 0
    if not key.size and entry_id <= stream.last_id:
        return stream.entries_added
    if NO_ID != entry_id < stream.max_deleted_id:
        return UNKNOWN
    if entry_id == stream.last_id:
        return stream.entries_added
    if entry_id > stream.last_id:
        return UNKNOWN
    if stream.max_deleted_id == NO_ID or stream.max_deleted_id < stream.first_id:
        if entry_id < stream.first_id:
            return stream.entries_added - key.size
        if entry_id == stream.first_id:
            return stream.entries_added - key.size + 1
    return UNKNOWN


def lag(key: Key, group: Group) -> int | None:
    """How many entries a group has not read; None where nobody knows.

    As in Redis 7.4 and Valkey 9.1.4: entries that were trimmed before the group has read them do not count.
    """
    stream = parts(key)
    if not key.size:
        return 0
    if group.last_id < stream.first_id and stream.max_deleted_id < stream.first_id:
        return key.size
    if _is_exact(key, group):
        return stream.entries_added - group.entries_read
    read = position(key, group.last_id)
    return None if read == UNKNOWN else stream.entries_added - read


def _is_exact(key: Key, group: Group) -> bool:
    """Whether what a group says of itself goes on being right: nothing was deleted at or behind its last entry."""
    max_deleted_id = parts(key).max_deleted_id
    is_whole = not key.size or max_deleted_id == NO_ID or group.last_id > max_deleted_id
    return group.entries_read != UNKNOWN and is_whole
