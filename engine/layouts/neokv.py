"""The `neokv` layout, Phase 2 (seeds 000 and 003). Every integer is big-endian.

    prefix        = [region_id:8][index_id:8][slot:2][user_key_len:4][user_key]
    CF metadata     prefix                                    -> metadata value
    CF data         prefix [version:8][subkey]                -> subkey value
    CF zset_score   prefix [version:8][score:8][member]       -> empty
    CF zset_rank    prefix [version:8]…                       -> counts of members, of large sorted sets
    CF field_time   prefix [version:8]…                       -> when fields of a hash die

    string   [flags:1][expire_ms:8][value]
    hash, set, zset   [flags:1][expire_ms:8][version:8][size:8]
    list     [flags:1][expire_ms:8][version:8][size:8][head:8][tail:8]

    with bit 4 of the flags set, forms of our own:
    string in fragments   [flags:1][expire_ms:8][version:8][size:8]   size in bytes
    zset with rank counts   as zset
    hash with field times   [flags:1][expire_ms:8][version:8][size:8][timed:8][own_expire_ms:8][soonest_ms:8]

`region_id` is the partition, `index_id` the logical database, `flags` is 0x80 | type code: bit 7 says 64-bit fields,
bits 5 and 6 are zero. Example: the empty list of version 1 that never expires is
83 0000000000000000 0000000000000001 0000000000000000 7fffffffffffffff 7fffffffffffffff.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Any, ClassVar, Final

from engine.errors import CorruptionError
from engine.model import HASH, LIST, SET, STRING, ZSET, Metadata, Times
from engine.values.encoding import U64, pack_u64, prefix_end

_DATABASE: Final = Struct(">QQ")
_KEY_HEADER: Final = Struct(">QQHI")
_SLOT_AND_LENGTH: Final = Struct(">HI")
_STRING: Final = Struct(">BQ")
_COLLECTION: Final = Struct(">BQQQ")
_LIST: Final = Struct(">BQQQQQ")
_TIMED_HASH: Final = Struct(">BQQQQQQ")

_WIDE: Final = 0x80
_STRING_FLAGS: Final = _WIDE | STRING
_LIST_FLAGS: Final = _WIDE | LIST
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


class NeoKV:
    """The default layout; see the module's first lines for the bytes."""

    name: ClassVar[str] = "neokv"
    metadata_cf: ClassVar[str] = "metadata"
    data_cf: ClassVar[str] = "data"
    score_cf: ClassVar[str] = "zset_score"
    rank_cf: ClassVar[str] = "zset_rank"
    time_cf: ClassVar[str] = "field_time"
    column_families: ClassVar[tuple[str, ...]] = (metadata_cf, data_cf, score_cf, rank_cf, time_cf)

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._database_prefixes: dict[int, bytes] = {}

    def metadata_key(self, db: int, slot: int, name: bytes) -> bytes:
        """`[region_id:8][index_id:8][slot:2][user_key_len:4][user_key]`."""
        prefix = self._database_prefixes.get(db)
        if prefix is None:
            prefix = self._database_prefixes[db] = _DATABASE.pack(self._partition, db)
        return prefix + _SLOT_AND_LENGTH.pack(slot, len(name)) + name

    def parse_metadata_key(self, key: bytes) -> tuple[int, int, bytes]:
        """The (db, slot, name) of a metadata key."""
        name = key[_KEY_HEADER.size :]
        try:
            partition, db, slot, length = _KEY_HEADER.unpack_from(key)
        except StructError as error:
            message = f"metadata key {key.hex()} is too short"
            raise CorruptionError(message) from error
        if partition != self._partition or length != len(name):
            message = f"metadata key {key.hex()} is not one of partition {self._partition}"
            raise CorruptionError(message)
        return db, slot, name

    def database_range(self, db: int) -> tuple[bytes, bytes]:
        """First key and exclusive end of all keys of `db`."""
        prefix = _DATABASE.pack(self._partition, db)
        return prefix, prefix_end(prefix)

    def subkey_prefix(self, metadata_key: bytes, version: int) -> bytes:
        """`prefix [version:8]`."""
        return metadata_key + pack_u64(version)

    def score_prefix(self, metadata_key: bytes, version: int) -> bytes:
        """`prefix [version:8]`; the column family tells a score record from a subkey."""
        return metadata_key + pack_u64(version)

    def owner_bytes(self, record: bytes) -> int:
        """The length of `prefix [version:8]` in front of a record."""
        end = _KEY_HEADER.size + U64.size
        if len(record) >= _KEY_HEADER.size:
            end += _KEY_HEADER.unpack_from(record)[3]
        if len(record) < end:
            message = f"record {record.hex()} is too short to have a version"
            raise CorruptionError(message)
        return end

    def pack_metadata(self, metadata: Any) -> bytes:
        """The metadata value of anything with the attributes of `Metadata`."""
        m = metadata
        if m.type == STRING:
            if m.version:
                return _COLLECTION.pack(_FRAGMENTS_FLAGS, m.expire_ms, m.version, m.size)
            value: bytes = m.value
            return _STRING.pack(_STRING_FLAGS, m.expire_ms) + value
        if m.type == LIST:
            return _LIST.pack(_LIST_FLAGS, m.expire_ms, m.version, m.size, m.head, m.tail)
        if m.times is not None:
            times = m.times
            of_fields = times.timed, times.own_expire_ms, times.soonest_ms
            return _TIMED_HASH.pack(_TIMED_FLAGS, m.expire_ms, m.version, m.size, *of_fields)
        flags = _RANKED_FLAGS if m.ranked else _WIDE | m.type
        return _COLLECTION.pack(flags, m.expire_ms, m.version, m.size)

    def parse_metadata(self, value: bytes) -> Metadata:
        """The metadata that `pack_metadata` wrote."""
        try:
            flags = value[0]
            if flags == _STRING_FLAGS:
                return Metadata(STRING, _STRING.unpack_from(value)[1], value=value[_STRING.size :])
            if flags == _LIST_FLAGS:
                _, expire_ms, version, size, head, tail = _LIST.unpack(value)
                return Metadata(LIST, expire_ms, version, size, head, tail)
            if flags == _TIMED_FLAGS:
                _, expire_ms, version, size, *of_fields = _TIMED_HASH.unpack(value)
                return Metadata(HASH, expire_ms, version, size, times=Times(*of_fields))
            _, expire_ms, version, size = _COLLECTION.unpack(value)
            return Metadata(_COLLECTION_FLAGS[flags], expire_ms, version, size, ranked=flags == _RANKED_FLAGS)
        except (IndexError, KeyError, StructError) as error:
            # No more of it than its kind: behind that a string has its content.
            message = f"metadata value {value[:1].hex()}… of {len(value)} bytes is not of the neokv layout"
            raise CorruptionError(message) from error
