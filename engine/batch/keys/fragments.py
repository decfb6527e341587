"""Large strings in fragments, so that changing some bytes of many MiB, or reading them, costs what it touches.

    [index:8]  ->  the bytes of the value from `index * FRAGMENT_BYTES` on, as many as a fragment has, without the
                   zero bytes at their end

A fragment of zeros has no record, so the records follow from the value alone, whatever led to it, and a bit far behind
the end costs one record. The metadata's `size` is the length in bytes. A string of up to INLINE_BYTES_MAX is in its
metadata record instead; which of the two follows from its length. In a layout without fragments every string is there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

from engine.batch.keys.key import Key
from engine.batch.overlaid import Records
from engine.layouts.layout import Form
from engine.limits import FRAGMENT_BYTES
from engine.values.encoding import pack_u64, parse_u64

# Up to here a value is set and read whole more often than changed a bit at a time: a SET of 100 KiB takes 115 us, in
# fragments 300 and leaves the old ones behind; a bit of 100 KiB costs at most 225 us, in fragments 30.
INLINE_BYTES_MAX: Final = 128 * 1024

_GETS_MAX: Final = 2  # so many fragments are cheaper to get than to scan

Stretch = tuple[int, bytes]
"""Bytes of a value and the offset of the first one."""


def is_fragmented(size: int, forms: Container[Form]) -> bool:
    """Whether a string of so many bytes is in fragments, in a layout that has these forms."""
    return size > INLINE_BYTES_MAX and Form.FRAGMENTS in forms


def length(key: Key) -> int:
    """The length of a string in bytes."""
    return key.size if key.version else len(key.value)


def stretches(key: Key, start: int, stop: int) -> Iterator[Stretch]:
    """What is stored of the bytes `start … stop - 1`, which must be there, in order; what is left out is zero."""
    if not key.version:
        return iter([(start, key.value[start:stop])])
    first, last = start // FRAGMENT_BYTES, (stop - 1) // FRAGMENT_BYTES
    few = last - first < _GETS_MAX
    found = _got(key, first, last) if few else key.data.scan(pack_u64(first), pack_u64(last + 1))
    return _clipped(found, start, stop)


def read(key: Key, start: int, stop: int) -> bytes:
    """The bytes `start … stop - 1` of a string, those of them that it has."""
    if not key.version:
        return key.value[start:stop]
    stop = min(stop, key.size)
    return joined(stretches(key, start, stop), start, stop) if start < stop else b""


def write(key: Key, offset: int, content: bytes) -> int:
    """Put `content` at `offset` into a string in fragments, which grows as needed. Returns how many bytes were stored.

    The key is modified even where nothing changes, as in Redis.
    """
    get, changed = key.data.get, key.data.changed
    index, skip = divmod(offset, FRAGMENT_BYTES)
    at = stored = 0
    while at < len(content):
        piece = content[at : at + FRAGMENT_BYTES - skip]
        at += len(piece)
        subkey = pack_u64(index)
        old = get(subkey)
        if len(piece) < FRAGMENT_BYTES:
            around = old or b""
            piece = b"".join((around[:skip].ljust(skip, b"\0"), piece, around[skip + len(piece) :]))
        piece = piece.rstrip(b"\0")
        if piece or old is not None:
            changed[subkey] = piece or None
            stored += len(piece)
        index, skip = index + 1, 0
    key.size = max(key.size, offset + len(content))
    key.changed = True
    return stored


def of_records(records: Iterable[tuple[bytes, bytes]]) -> Iterator[Stretch]:
    """The stretches that records are, given by their subkeys."""
    return ((parse_u64(subkey) * FRAGMENT_BYTES, content) for subkey, content in records)


def joined(found: Iterable[Stretch], start: int, stop: int) -> bytes:
    """All bytes `start … stop - 1` of a value of which these stretches are stored."""
    parts, at = [], start
    for offset, content in found:
        if offset > at:
            parts.append(bytes(offset - at))
        parts.append(content)
        at = offset + len(content)
    parts.append(bytes(stop - at))
    return b"".join(parts)


def _got(key: Key, first: int, last: int) -> Records:
    for index in range(first, last + 1):
        subkey = pack_u64(index)
        content = key.data.get(subkey)
        if content is not None:
            yield subkey, content


def _clipped(records: Records, start: int, stop: int) -> Iterator[Stretch]:
    for offset, content in of_records(records):
        begin, end = max(start - offset, 0), min(stop - offset, len(content))
        if begin < end:
            yield offset + begin, content if end - begin == len(content) else content[begin:end]
