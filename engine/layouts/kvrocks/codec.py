"""The metadata values of a live state, which are those of Kvrocks (metadata.py), as fast as every event needs it.

Wide values alone are written. A narrow one is read; the next write of its key makes it wide. Of the types of Kvrocks a
state has those that Redis has: string, hash, list, set, zset, stream.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Any, Final

from engine.errors import CorruptionError
from engine.layouts.kvrocks.metadata import (
    TYPE_NAMES,
    WIDE,
    FieldTimes,
    KvrocksMetadata,
    StreamTail,
    pack_field_times,
    pack_stream,
    parse,
    parse_ends,
    parse_field_times,
    parse_stream,
)
from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET, Metadata, StreamMetadata, Times
from slotlog.shared.errors import InvariantError

_STRING: Final = Struct(">BQ")
_COLLECTION: Final = Struct(">BQQQ")
_LIST: Final = Struct(">BQQQQQ")

_STRING_FLAGS: Final = WIDE | STRING
_LIST_FLAGS: Final = WIDE | LIST
_HASH_FLAGS: Final = WIDE | HASH
_COLLECTION_FLAGS: Final = {WIDE | type_code: type_code for type_code in (HASH, SET, ZSET)}
_TYPE: Final = 0x0F
_HELD: Final = frozenset({STRING, HASH, LIST, SET, ZSET, STREAM})


def pack_metadata(metadata: Any) -> bytes:
    """The metadata value of anything with the attributes of `Metadata`.

    Raises:
        InvariantError: it has a form of our own, for which there is no place.
    """
    m = metadata
    if m.type == STRING:
        if m.version:
            raise InvariantError("Kvrocks has no place for a string in fragments")
        value: bytes = m.value
        return _STRING.pack(_STRING_FLAGS, m.expire_ms) + value
    if m.type == LIST:
        return _LIST.pack(_LIST_FLAGS, m.expire_ms, m.version, m.size, m.head, m.tail)
    if m.type == STREAM:
        s = m.stream
        ids = s.last_id, s.first_id, s.max_deleted_id, s.first_id, s.end_id
        tail = pack_stream(StreamTail(*ids, s.entries_added, s.groups))
        return _COLLECTION.pack(WIDE | STREAM, m.expire_ms, m.version, m.size) + tail
    if m.ranked:
        raise InvariantError("Kvrocks has no place for a sorted set with rank counts")
    if m.times is not None:
        times = m.times
        tail = pack_field_times(FieldTimes(m.size - times.timed, times.soonest_ms, times.latest_ms))
        return _COLLECTION.pack(_HASH_FLAGS, times.own_expire_ms, m.version, m.size) + tail
    return _COLLECTION.pack(WIDE | m.type, m.expire_ms, m.version, m.size)


def parse_metadata(value: bytes) -> Metadata:
    """The metadata that `pack_metadata` or Kvrocks wrote.

    Raises:
        CorruptionError: neither writes anything like that, or it is of a type that no key has here.
    """
    try:
        flags = value[0]
        if flags == _STRING_FLAGS:
            return Metadata(STRING, _STRING.unpack_from(value)[1], value=value[_STRING.size :])
        if flags == _LIST_FLAGS:
            _, expire_ms, version, size, head, tail = _LIST.unpack(value)
            return Metadata(LIST, expire_ms, version, size, head, tail)
        _, expire_ms, version, size = _COLLECTION.unpack(value)
        return Metadata(_COLLECTION_FLAGS[flags], expire_ms, version, size)
    except (IndexError, KeyError, StructError):
        return _of_kvrocks(parse(value))


def is_absent(value: bytes) -> bool:
    """Whether the record with this metadata value stands for no key: its size is 0, as Kvrocks leaves it."""
    if value[:1] and value[0] & _TYPE == STRING:
        return False
    try:
        return parse(value).is_absent
    except CorruptionError:
        return False


def _of_kvrocks(found: KvrocksMetadata) -> Metadata:
    """What is said in another form than ours."""
    if found.type not in _HELD:
        message = f"metadata value of a {TYPE_NAMES[found.type]}, which no key of a live state is"
        raise CorruptionError(message)
    if found.type == STRING:
        return Metadata(STRING, found.expire_ms, value=found.tail)
    if found.type == LIST:
        return Metadata(LIST, found.expire_ms, found.version, found.size, *parse_ends(found.tail))
    if found.type == STREAM:
        tail = parse_stream(found.tail)
        state = tail.last_id, tail.first_id, tail.end_id, tail.max_deleted_id, tail.entries_added, tail.groups
        return Metadata(STREAM, found.expire_ms, found.version, found.size, stream=StreamMetadata(*state))
    times = parse_field_times(found.tail) if found.type == HASH else None
    if times is not None:
        return _timed(found, times)
    return Metadata(found.type, found.expire_ms, found.version, found.size)


def _timed(found: KvrocksMetadata, times: FieldTimes) -> Metadata:
    """A hash with field times: it dies with its last field when each of them has one and that comes first."""
    if times.persist > found.size:
        message = f"metadata value of a hash of {found.size} fields, of which {times.persist} never die"
        raise CorruptionError(message)
    own_ms, latest_ms = found.expire_ms, times.upper_ms
    expire_ms = own_ms if times.persist or not found.size else min(own_ms or latest_ms, latest_ms)
    ours = Times(found.size - times.persist, own_ms, times.lower_ms, latest_ms)
    return Metadata(HASH, expire_ms, found.version, found.size, times=ours)
