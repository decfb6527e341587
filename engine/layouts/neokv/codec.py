"""Metadata values of the `neokv` layout. Every integer is big-endian.

    string   [flags:1][expire_ms:8][value]
    hash, set, zset   [flags:1][expire_ms:8][version:8][size:8]
    list     [flags:1][expire_ms:8][version:8][size:8][head:8][tail:8]
    stream   [flags:1][expire_ms:8][version:8][size:8][last id:16][first id:16][end id:16][max deleted id:16]
             [entries added:8][groups:8][tail count:8], which are those of `engine.model.StreamMetadata`

    with bit 4 of the flags set, forms of our own:
    string in fragments   [flags:1][expire_ms:8][version:8][size:8]   size in bytes
    zset with rank counts   as zset
    hash with field times   [flags:1][expire_ms:8][version:8][size:8][timed:8][own_expire_ms:8][soonest_ms:8]

`flags` is 0x80 | type code: bit 7 says 64-bit fields, bits 5 and 6 are zero. Example: the empty list of version 1 that
never expires is 83 0000000000000000 0000000000000001 0000000000000000 7fffffffffffffff 7fffffffffffffff.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Any, Final

from engine.errors import CorruptionError
from engine.model import HASH, LIST, LIST_START, SET, STREAM, STRING, ZSET, Metadata, StreamMetadata, Times

_STRING: Final = Struct(">BQ")
_COLLECTION: Final = Struct(">BQQQ")
_LIST: Final = Struct(">BQQQQQ")
_TIMED_HASH: Final = Struct(">BQQQQQQ")
_STREAM: Final = Struct(">BQQQ16s16s16s16sQQQ")

_WIDE: Final = 0x80
_STRING_FLAGS: Final = _WIDE | STRING
_STRING_FOR_EVER: Final = _STRING.pack(_STRING_FLAGS, 0)  # what stands in front of one: most never expire
_LIST_FLAGS: Final = _WIDE | LIST
_STREAM_FLAGS: Final = _WIDE | STREAM
_EXTENDED: Final = 0x10
_FRAGMENTS_FLAGS: Final = _STRING_FLAGS | _EXTENDED
_RANKED_FLAGS: Final = _WIDE | _EXTENDED | ZSET
_TIMED_FLAGS: Final = _WIDE | _EXTENDED | HASH
_COLLECTION_FLAGS: Final = {
    _WIDE | HASH: HASH,
    _WIDE | SET: SET,
    _WIDE | ZSET: ZSET,
    _RANKED_FLAGS: ZSET,
    _FRAGMENTS_FLAGS: STRING,
}


# A Metadata without its own __new__, which is a function in Python: 0.28 us less of the 3.2 that a key takes to load.
_new: Final = tuple.__new__


def pack_metadata(metadata: Any) -> bytes:
    """The metadata value of anything with the attributes of `Metadata`."""
    m = metadata
    type_code = m.type
    if type_code == STRING:
        if m.version:
            return _COLLECTION.pack(_FRAGMENTS_FLAGS, m.expire_ms, m.version, m.size)
        value: bytes = m.value
        return (_STRING.pack(_STRING_FLAGS, m.expire_ms) if m.expire_ms else _STRING_FOR_EVER) + value
    if type_code == LIST:
        return _LIST.pack(_LIST_FLAGS, m.expire_ms, m.version, m.size, m.head, m.tail)
    if type_code == STREAM:
        s = m.stream
        ids = s.last_id, s.first_id, s.end_id, s.max_deleted_id
        counts = s.entries_added, s.groups, s.tail_count
        return _STREAM.pack(_STREAM_FLAGS, m.expire_ms, m.version, m.size, *ids, *counts)
    if m.times is not None:
        times = m.times
        of_fields = times.timed, times.own_expire_ms, times.soonest_ms
        return _TIMED_HASH.pack(_TIMED_FLAGS, m.expire_ms, m.version, m.size, *of_fields)
    flags = _RANKED_FLAGS if type_code == ZSET and m.ranked else _WIDE | type_code  # `ranked` is a call: 1 % of HSET
    return _COLLECTION.pack(flags, m.expire_ms, m.version, m.size)


def parse_metadata(value: bytes) -> Metadata:
    """The metadata that `pack_metadata` wrote.

    Raises:
        CorruptionError: it wrote nothing like that.
    """
    try:
        flags = value[0]
        if flags == _STRING_FLAGS:
            expire_ms = _STRING.unpack_from(value)[1]
            found = STRING, expire_ms, 0, 0, LIST_START, LIST_START, value[_STRING.size :], False, None, None
            return _new(Metadata, found)
        if flags == _LIST_FLAGS:
            _, expire_ms, version, size, head, tail = _LIST.unpack(value)
            return _new(Metadata, (LIST, expire_ms, version, size, head, tail, b"", False, None, None))
        if flags == _TIMED_FLAGS:
            _, expire_ms, version, size, *of_fields = _TIMED_HASH.unpack(value)
            return Metadata(HASH, expire_ms, version, size, times=Times(*of_fields))
        if flags == _STREAM_FLAGS:
            _, expire_ms, version, size, *of_stream = _STREAM.unpack(value)
            return Metadata(STREAM, expire_ms, version, size, stream=StreamMetadata(*of_stream))
        _, expire_ms, version, size = _COLLECTION.unpack(value)
        type_code, ranked = _COLLECTION_FLAGS[flags], flags == _RANKED_FLAGS
        return _new(Metadata, (type_code, expire_ms, version, size, LIST_START, LIST_START, b"", ranked, None, None))
    except (IndexError, KeyError, StructError) as error:
        # No more of it than its kind: behind that a string has its content.
        message = f"metadata value {value[:1].hex()}… of {len(value)} bytes is not of the neokv layout"
        raise CorruptionError(message) from error
