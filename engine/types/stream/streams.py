"""Streams: entries by their id in records of the kind STREAM; groups are in `stream_groups`, counts in `stream_index`.

An id is 16 bytes, `[ms:8][seq:8]`, so ids compare as bytes. The metadata says which entry is the first one and which
the last, so that no walk crosses what was deleted in front of it or behind it. A stream may be empty: it stays until it
is deleted, as in Redis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.keys.stream_parts import StreamParts
from engine.batch.transaction import Transaction
from engine.layouts.layout import Form
from engine.model import NO_ID, STREAM
from engine.types.stream import stream_index
from engine.values.encoding import pack_u64
from engine.values.stream_records import ENTRIES_END, ID_BYTES, pack_entry

MAX_ID: Final = b"\xff" * ID_BYTES
"""The highest id."""

_SEQ_MAX: Final = (1 << 64) - 1
_MS_BYTES: Final = 8

POINTS_MAX: Final = 1024
"""So many records are deleted one by one; more of them by one range, which costs the same for any number."""


class Trim(NamedTuple):
    """The extent of a trim.

    Attributes:
        length: keep the newest of them, so many; None: it does not matter how many are kept.
        min_id: keep those from this id on.
        most: delete so many at most; None: any number.
    """

    length: int | None = None
    min_id: bytes = NO_ID
    most: int | None = None


def parts(key: Key) -> StreamParts:
    """The state and the records of a stream."""
    stream = key.stream
    assert stream is not None, "a key of this type has them"
    return stream


def create(tx: Transaction, name: bytes) -> Key:
    """A new, empty stream in the place of whatever `name` held.

    Raises:
        CommandError: the layout holds no streams. Nothing has changed then.
    """
    tx.require(Form.STREAMS)
    return tx.create(name, STREAM)


# ---------------------------------------------------------------------- ids


def make_id(ms: int, seq: int) -> bytes:
    """The id of these two numbers."""
    return pack_u64(ms) + pack_u64(seq)


def split_id(entry_id: bytes) -> tuple[int, int]:
    """The milliseconds and the sequence number of an id."""
    return int.from_bytes(entry_id[:_MS_BYTES]), int.from_bytes(entry_id[_MS_BYTES:])


def show_id(entry_id: bytes) -> bytes:
    """An id as Redis shows it, such as `1000-1`."""
    return b"%d-%d" % split_id(entry_id)


def id_after(entry_id: bytes) -> bytes | None:
    """The next id; None behind the highest."""
    return None if entry_id == MAX_ID else (int.from_bytes(entry_id) + 1).to_bytes(ID_BYTES)


def id_before(entry_id: bytes) -> bytes | None:
    """The id in front of it; None in front of the lowest."""
    return None if entry_id == NO_ID else (int.from_bytes(entry_id) - 1).to_bytes(ID_BYTES)


def next_id(last_id: bytes, now_ms: int) -> bytes | None:
    """The id of a new entry that names none: of this time, or behind the last one. None: that is the highest."""
    last_ms, _ = split_id(last_id)
    return make_id(now_ms, 0) if now_ms > last_ms else id_after(last_id)


def next_id_of(last_id: bytes, ms: int) -> bytes | None:
    """The id of a new entry that names its milliseconds alone; None: there is none left behind the last one."""
    last_ms, last_seq = split_id(last_id)
    if ms == last_ms:
        return make_id(ms, last_seq + 1) if last_seq < _SEQ_MAX else None
    return make_id(ms, 0)


# ---------------------------------------------------------------------- reading


def entries(
    key: Key, start: bytes = NO_ID, end: bytes = MAX_ID, *, reverse: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """The ids and values (see `stream_records.parse_entry`) of the entries with `start <= id <= end`, in their order.

    Collect what is needed before changing the stream.
    """
    stream = parts(key)
    low, high = max(start, stream.first_id), min(end, stream.end_id)
    if not key.size or low > high:
        return iter(())
    found = stream.records.scan(low, high + b"\0", reverse=reverse)
    if high < ENTRIES_END:
        return found
    return (record for record in found if len(record[0]) == ID_BYTES)  # other records lie between


def entry(key: Key, entry_id: bytes) -> bytes | None:
    """The value of an entry; None when it is not there."""
    stream = parts(key)
    if not stream.first_id <= entry_id <= stream.end_id:
        return None
    return stream.records.get(entry_id)


# ---------------------------------------------------------------------- writing


def add(tx: Transaction, key: Key, entry_id: bytes, texts: Sequence[bytes]) -> None:
    """Append an entry, whose id is above all others; fields and values alternate in `texts`. Hot path."""
    stream = parts(key)
    stream.records.changed[entry_id] = pack_entry(texts)
    if not key.size:
        stream.first_id = entry_id
    key.size += 1
    stream.end_id = stream.last_id = entry_id
    stream.entries_added += 1
    stream_index.count_in(tx, stream, entry_id)
    key.changed = True


def delete(tx: Transaction, key: Key, ids: Iterable[bytes]) -> int:
    """Delete entries. Returns how many were there. The stream stays, even when it is empty."""
    stream = parts(key)
    deleted = 0
    for entry_id in ids:
        if entry(key, entry_id) is None:
            continue
        stream.records.remove(entry_id)
        stream_index.count_out(tx, stream, entry_id)
        stream.max_deleted_id = max(stream.max_deleted_id, entry_id)
        key.size -= 1
        deleted += 1
    if deleted:
        stream.oldest = None
        key.changed = True
        _find_ends(key)
    return deleted


def trim(tx: Transaction, key: Key, how: Trim) -> int:
    """Delete the oldest entries. Returns how many.

    It costs what is deleted, and from `POINTS_MAX` entries on no more than that: where the layout counts entries.
    """
    most = key.size if how.length is None else key.size - how.length
    if how.most is not None:
        most = min(most, how.most)
    stream = parts(key)
    below = MAX_ID + b"\0" if how.length is not None else how.min_id
    if most <= 0 or not key.size or stream.first_id >= below:
        return 0
    if most == key.size and stream.end_id < below:
        blocks, behind, walked = list(stream_index.blocks(stream)), stream.end_id + b"\0", stream.tail_count
        count = key.size
    else:
        blocks, count = _whole_blocks(stream, most, below)
        start = blocks[-1][0] + b"\0" if blocks else stream.first_id
        behind, walked = _walk(key, start, most - count, below)
        count += walked
    if not count:
        return 0
    _remove_below(tx, key, behind, count)
    stream_index.drop(tx, stream, blocks, behind, walked)
    key.size -= count
    stream.first_id, stream.oldest = behind, None
    key.changed = True
    _find_ends(key)
    return count


def set_last_id(key: Key, last_id: bytes, entries_added: int | None, max_deleted_id: bytes) -> None:
    """Set what XSETID sets; None and `NO_ID` leave it as it is."""
    stream = parts(key)
    stream.last_id = last_id
    if entries_added is not None:
        stream.entries_added = entries_added
    if max_deleted_id != NO_ID:
        stream.max_deleted_id = max_deleted_id
    key.changed = True


# ---------------------------------------------------------------------- inside


def _find_ends(key: Key) -> None:
    """Find the first and the last entry again, after some were deleted: from where the old ones were."""
    stream = parts(key)
    if not key.size:
        stream.first_id = stream.end_id = NO_ID
        return
    stream.first_id = next(entries(key))[0]
    stream.end_id = next(entries(key, reverse=True))[0]


def _whole_blocks(stream: StreamParts, most: int, below: bytes) -> tuple[list[tuple[bytes, int]], int]:
    """The oldest counted blocks of which every entry goes, and how many entries they have."""
    found, count = [], 0
    for last_id, size in stream_index.blocks(stream):
        if last_id >= below or count + size > most:
            break
        found.append((last_id, size))
        count += size
    return found, count


def _walk(key: Key, start: bytes, most: int, below: bytes) -> tuple[bytes, int]:
    """Where the first entry is that stays, from `start` on, and how many there are before it."""
    walked = 0
    for entry_id, _ in entries(key, start):
        if walked >= most or entry_id >= below:
            return entry_id, walked
        walked += 1
    return parts(key).end_id + b"\0", walked


def _remove_below(tx: Transaction, key: Key, behind: bytes, count: int) -> None:
    """Delete the `count` entries in front of `behind`."""
    stream = parts(key)
    records = stream.records
    if count <= POINTS_MAX or behind > ENTRIES_END:
        for entry_id in [entry_id for entry_id, _ in islice(entries(key), count)]:
            records.remove(entry_id)
        return
    records.remove_range(tx.batch, stream.first_id, behind)
