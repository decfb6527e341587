"""Reads the content of a key of Kvrocks, in parts of a bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, TypeVar

from engine.errors import CorruptionError
from engine.layouts.kvrocks.fragments import BITMAP_FRAGMENT_BYTES, bitmap_fragment, join_registers
from engine.layouts.kvrocks.keys import Owner, subkey_prefix
from engine.layouts.kvrocks.metadata import (
    BITMAP,
    HYPERLOGLOG,
    HYPERLOGLOG_TAIL,
    KvrocksMetadata,
    parse_ends,
    parse_field,
    parse_field_times,
    parse_stream,
)
from engine.limits import STRING_BYTES_MAX
from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET
from engine.values.encoding import U64, pack_u64, parse_score, prefix_end
from engine.values.hyperloglog.values import of_packed_registers
from engine.values.rdb.content import Content
from engine.values.stream_walk import parts_of
from ops.importing.kvrocks.directory import DEFAULT, KvrocksDirectory
from ops.importing.kvrocks.directory import STREAM as STREAM_CF

_PART_ELEMENTS: Final = 1024
_PART_BYTES: Final = 1024 * 1024

HELD: Final = {
    **{each: each for each in (STRING, HASH, LIST, SET, ZSET, STREAM)},
    BITMAP: STRING,
    HYPERLOGLOG: STRING,
}
"""The types of Kvrocks that we have, and what each is here."""

Records = Iterable[tuple[bytes, bytes]]
Element = TypeVar("Element", bound=tuple[bytes, ...])


def read_contents(
    directory: KvrocksDirectory, owner: Owner, metadata: KvrocksMetadata, now_ms: int
) -> Iterator[Content]:
    """The content of a key of a type in HELD, without fields that are dead at `now_ms`, in parts.

    A part of a collection has at most 1,024 elements and 1 MiB, or one element; one of a bitmap has 1 MiB. Another
    string is one part.

    Raises:
        CorruptionError: stored bytes are not what Kvrocks writes.
    """
    if metadata.type == STRING:
        yield Content(STRING, [metadata.tail])
    elif metadata.type == BITMAP:
        yield from _bitmap(directory, owner, metadata)
    elif metadata.type == HYPERLOGLOG:
        yield Content(STRING, [_hyperloglog(_subkeys(directory, owner, metadata), metadata)])
    elif metadata.type == STREAM:
        yield from _stream(directory, owner, metadata)
    elif metadata.type == ZSET:
        yield from _sorted_set(_subkeys(directory, owner, metadata))
    elif metadata.type == HASH and parse_field_times(metadata.tail) is not None:
        yield from _timed_hash(_subkeys(directory, owner, metadata), now_ms)
    else:
        for records in _parts(_ELEMENTS[metadata.type](directory, owner, metadata)):
            yield Content(metadata.type, [text for record in records for text in record])


def elements_in(content: Content) -> int:
    """How many elements a part has."""
    if content.stream is not None:
        return len(content.stream.entries)
    return len(content.texts) // 2 if content.type == HASH else len(content.texts)


def _subkeys(directory: KvrocksDirectory, owner: Owner, metadata: KvrocksMetadata) -> Iterator[tuple[bytes, bytes]]:
    prefix = subkey_prefix(owner, metadata.version)
    skip = len(prefix)
    return ((key[skip:], value) for key, value in directory.scan(DEFAULT, prefix, prefix_end(prefix)))


def _list_elements(directory: KvrocksDirectory, owner: Owner, metadata: KvrocksMetadata) -> Iterator[tuple[bytes]]:
    prefix = subkey_prefix(owner, metadata.version)
    head, tail = parse_ends(metadata.tail)
    if head > tail:
        raise CorruptionError(f"a list from {head} to {tail}")
    for key, value in directory.scan(DEFAULT, prefix + pack_u64(head), prefix + pack_u64(tail)):
        if len(key) != len(prefix) + U64.size:
            raise CorruptionError(f"a list has no index {key[len(prefix) :].hex()}")
        yield (value,)


def _members(directory: KvrocksDirectory, owner: Owner, metadata: KvrocksMetadata) -> Iterator[tuple[bytes]]:
    return ((member,) for member, _ in _subkeys(directory, owner, metadata))


_ELEMENTS: Final[dict[int, Callable[[KvrocksDirectory, Owner, KvrocksMetadata], Iterator[tuple[bytes, ...]]]]] = {
    LIST: _list_elements,
    SET: _members,
    HASH: _subkeys,
}


def _sorted_set(records: Records) -> Iterator[Content]:
    for part in _parts(records):
        yield Content(ZSET, [member for member, _ in part], [_score(score) for _, score in part])


def _stream(directory: KvrocksDirectory, owner: Owner, metadata: KvrocksMetadata) -> Iterator[Content]:
    prefix = subkey_prefix(owner, metadata.version)
    tail = parse_stream(metadata.tail)
    records = directory.scan(STREAM_CF, prefix, prefix_end(prefix))
    pieces = (piece for key, value in records for piece in (key[len(prefix) :], value))
    state = (tail.last_id, tail.max_deleted_id, pack_u64(tail.entries_added))
    return (Content(STREAM, [], stream=part) for part in parts_of(chain(state, pieces)))


def _score(stored: bytes) -> float:
    if len(stored) != U64.size or (score := parse_score(stored)) != score:
        raise CorruptionError(f"{stored.hex()} is no score")
    return score


def _timed_hash(records: Records, now_ms: int) -> Iterator[Content]:
    """A field dies as a key does: when its time lies before now."""
    for part in _parts(record for record in records if not 0 < parse_field(record[1])[0] < now_ms):
        fields = [(field, *parse_field(stored)) for field, stored in part]
        texts = [text for field, _, value in fields for text in (field, value)]
        times = [expire_ms for _, expire_ms, _ in fields]
        yield Content(HASH, texts, expires_ms=times if any(times) else ())


def _bitmap(directory: KvrocksDirectory, owner: Owner, metadata: KvrocksMetadata) -> Iterator[Content]:
    """The fragments lie in the order of their decimal digits, so each is looked up."""
    if metadata.size > STRING_BYTES_MAX:
        raise CorruptionError(f"a bitmap of {metadata.size} bytes")
    prefix = subkey_prefix(owner, metadata.version)
    for start in range(0, metadata.size, _PART_BYTES):
        part = bytearray(min(_PART_BYTES, metadata.size - start))
        for at in range(0, len(part), BITMAP_FRAGMENT_BYTES):
            stored = directory.get(DEFAULT, prefix + b"%d" % (start + at))
            if stored is not None:
                fragment = bitmap_fragment(stored)[: len(part) - at]
                part[at : at + len(fragment)] = fragment
        yield Content(STRING, [bytes(part)])


def _hyperloglog(records: Records, metadata: KvrocksMetadata) -> bytes:
    if metadata.tail != HYPERLOGLOG_TAIL:
        raise CorruptionError(f"a HyperLogLog of encoding {metadata.tail.hex()}, which is not known")
    return of_packed_registers(join_registers(records))


def _parts(records: Iterable[Element]) -> Iterator[list[Element]]:
    part: list[Element] = []
    taken = 0
    for record in records:
        size = sum(map(len, record))
        if part and (len(part) == _PART_ELEMENTS or taken + size > _PART_BYTES):
            yield part
            part, taken = [], 0
        part.append(record)
        taken += size
    if part:
        yield part
