"""Metadata values as Kvrocks writes them, of all its types. Every integer is big-endian.

    [flags:1][expire:8][version:8][size:8][tail]     wide: bit 7 of the flags is set, expire in ms
    [flags:1][expire:4][version:8][size:4][tail]     narrow: it is clear, expire in seconds; read, never written
    [flags:1][expire][tail]                          string and JSON, either width

Bits 4 to 6 of the flags are zero, bits 0 to 3 are the type. The tail by type:

    string                          the content
    hash                            empty, or field times: 01 [persist:8][lower:8][upper:8]
    list                            [head:8][tail:8]
    set, zset, bitmap, sortedint    empty
    stream                          [last id:16][first id ever:16][highest deleted id:16][first id:16]
                                    [last entry's id:16][entries_added:8], [groups:8] but in old values
    bloom filter                    [filters:2][expansion:2][capacity:4][error:8][bytes:4]
    JSON                            [format:1] and the document
    HyperLogLog                     00

A time of 0 means never. Example: the empty list of version 1 is 83 0000000000000000 0000000000000001
0000000000000000 7fffffffffffffff 7fffffffffffffff. Source: redis_metadata.cc of Kvrocks 2.10.1 (and, for the field
times of hashes, of the versions behind it).
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Final, NamedTuple

from engine.errors import CorruptionError
from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET
from engine.values.encoding import U64, parse_u64

BITMAP: Final = 6
SORTEDINT: Final = 7
BLOOM: Final = 9
JSON: Final = 10
HYPERLOGLOG: Final = 11
TDIGEST: Final = 12
TIME_SERIES: Final = 13

TYPE_NAMES: Final[Mapping[int, str]] = {
    STRING: "string",
    HASH: "hash",
    LIST: "list",
    SET: "set",
    ZSET: "zset",
    BITMAP: "bitmap",
    SORTEDINT: "sortedint",
    STREAM: "stream",
    BLOOM: "bloom filter",
    JSON: "JSON",
    HYPERLOGLOG: "HyperLogLog",
    TDIGEST: "t-digest",
    TIME_SERIES: "time series",
}
"""All types of Kvrocks. It knows the last two only behind 2.10."""

HYPERLOGLOG_TAIL: Final = b"\0"
"""What follows the header of a HyperLogLog."""

WIDE: Final = 0x80
"""The bit of the flags that says 64-bit fields."""

_RESERVED: Final = 0x70
_TYPE: Final = 0x0F
_SINGLE: Final = frozenset({STRING, JSON})
_ABSENT_WHEN_EMPTY: Final = frozenset({HASH, LIST, SET, ZSET, BITMAP, SORTEDINT})

_WIDE_SINGLE: Final = Struct(">BQ")
_NARROW_SINGLE: Final = Struct(">BI")
_WIDE_COLLECTION: Final = Struct(">BQQQ")
_NARROW_COLLECTION: Final = Struct(">BIQI")
_ENDS: Final = Struct(">QQ")
_FIELD_TIMES: Final = Struct(">BQQQ")

_STREAM: Final = Struct(">16s16s16s16s16sQQ")

_FIELD_EXPIRATION: Final = 1
_TAIL_SIZES: Final[Mapping[int, frozenset[int]]] = {
    HASH: frozenset({0, _FIELD_TIMES.size}),
    LIST: frozenset({_ENDS.size}),
    SET: frozenset({0}),
    ZSET: frozenset({0}),
    BITMAP: frozenset({0}),
    SORTEDINT: frozenset({0}),
    STREAM: frozenset({88, 96}),
    BLOOM: frozenset({20}),
    HYPERLOGLOG: frozenset({len(HYPERLOGLOG_TAIL)}),
}


class KvrocksMetadata(NamedTuple):
    """A metadata value, taken apart.

    `expire_ms` is absolute, 0 means never. `version` and `size` are 0 for a string and JSON. `is_wide`: how it was
    written; `pack` writes wide values alone.
    """

    type: int
    expire_ms: int
    version: int = 0
    size: int = 0
    tail: bytes = b""
    is_wide: bool = True

    @property
    def is_absent(self) -> bool:
        """Whether it stands for no key: Kvrocks leaves such a record where the last element was removed."""
        return self.size == 0 and self.type in _ABSENT_WHEN_EMPTY


class FieldTimes(NamedTuple):
    """The tail of a hash whose fields can have times to live; all in ms.

    `persist` fields have none, of those that are stored. The others die between `lower_ms` and `upper_ms`, which are 0
    where there are no others.
    """

    persist: int
    lower_ms: int
    upper_ms: int


class StreamTail(NamedTuple):
    """The tail of a stream; ids as in `engine.values.streams`."""

    last_id: bytes
    first_ever_id: bytes
    max_deleted_id: bytes
    first_id: bytes
    end_id: bytes
    entries_added: int
    groups: int


def pack(metadata: KvrocksMetadata) -> bytes:
    """The wide value of it."""
    flags, expire_ms = WIDE | metadata.type, metadata.expire_ms
    if metadata.type in _SINGLE:
        return _WIDE_SINGLE.pack(flags, expire_ms) + metadata.tail
    return _WIDE_COLLECTION.pack(flags, expire_ms, metadata.version, metadata.size) + metadata.tail


def parse(value: bytes) -> KvrocksMetadata:
    """Take a value of any type and either width apart.

    Raises:
        CorruptionError: Kvrocks writes nothing like that.
    """
    flags = value[0] if value else 0
    type_code, is_wide = flags & _TYPE, bool(flags & WIDE)
    if flags & _RESERVED or type_code not in TYPE_NAMES:
        raise _foreign(value)
    single, collection = (
        (_WIDE_SINGLE, _WIDE_COLLECTION) if is_wide else (_NARROW_SINGLE, _NARROW_COLLECTION)
    )  # fmt: skip
    version = size = 0
    try:
        if type_code in _SINGLE:
            _, expire = single.unpack_from(value)
            tail = value[single.size :]
        else:
            _, expire, version, size = collection.unpack_from(value)
            tail = value[collection.size :]
    except StructError as error:
        raise _foreign(value) from error
    if type_code in _TAIL_SIZES and len(tail) not in _TAIL_SIZES[type_code]:
        raise _foreign(value)
    return KvrocksMetadata(type_code, expire if is_wide else expire * 1000, version, size, tail, is_wide)


# ---------------------------------------------------------------------- tails


def pack_ends(head: int, tail: int) -> bytes:
    """The tail of a list, whose elements stand at the indexes `head … tail - 1`."""
    return _ENDS.pack(head, tail)


def parse_ends(tail: bytes) -> tuple[int, int]:
    """The (head, tail) that `pack_ends` wrote, of a value that `parse` took apart."""
    head, end = _ENDS.unpack(tail)
    return head, end


def pack_field_times(times: FieldTimes) -> bytes:
    """The tail of a hash with field times."""
    return _FIELD_TIMES.pack(_FIELD_EXPIRATION, *times)


def parse_field_times(tail: bytes) -> FieldTimes | None:
    """The field times of a hash that `parse` took apart; None of a plain one, which has no tail.

    Raises:
        CorruptionError: it is of an encoding that this program does not know.
    """
    if not tail:
        return None
    mode, *times = _FIELD_TIMES.unpack(tail)
    if mode != _FIELD_EXPIRATION:
        message = f"a hash of encoding mode {mode}, which is not known"
        raise CorruptionError(message)
    return FieldTimes(*times)


def pack_field(expire_ms: int, value: bytes) -> bytes:
    """What is stored for a field of a hash with field times: `[expire_ms:8][value]`; 0 means never."""
    return U64.pack(expire_ms) + value


def parse_field(stored: bytes) -> tuple[int, bytes]:
    """The (expire_ms, value) that `pack_field` wrote.

    Raises:
        CorruptionError: it is too short.
    """
    if len(stored) < U64.size:
        message = f"a field of a hash with field times has {len(stored)} bytes: too few for a time"
        raise CorruptionError(message)
    return parse_u64(stored[: U64.size]), stored[U64.size :]


def pack_stream(stream: StreamTail) -> bytes:
    """The tail of a stream."""
    return _STREAM.pack(*stream)


def parse_stream(tail: bytes) -> StreamTail:
    """The tail of a stream that `parse` took apart; an old one counts no groups."""
    return StreamTail(*_STREAM.unpack(tail.ljust(_STREAM.size, b"\0")))


def _foreign(value: bytes) -> CorruptionError:
    """What to say of a value. No more of it than its kind: behind that a string has its content."""
    return CorruptionError(f"metadata value {value[:1].hex()}… of {len(value)} bytes is not of the kvrocks layout")
