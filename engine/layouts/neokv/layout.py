"""The `neokv` layout, Phase 2 (seeds 000 and 003). Every integer is big-endian.

    prefix        = [region_id:8][index_id:8][slot:2][user_key_len:4][user_key]
    CF metadata     prefix                                    -> metadata value (codec.py)
    CF data         prefix [version:8][subkey]                -> subkey value
    CF zset_score   prefix [version:8][score:8][member]       -> empty
    CF zset_rank    prefix [version:8]…                       -> counts of members, of large sorted sets
    CF field_time   prefix [version:8]…                       -> when fields of a hash die
    CF stream       prefix [version:8]…                       -> entries, groups, consumers and pending entries
    CF stream_index prefix [version:8]…                       -> pending entries by consumer, counts of entries

`region_id` is the partition, `index_id` the logical database. Keys lie by database, slot, length of the name and name.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import ClassVar, Final

from engine.errors import CorruptionError
from engine.layouts.layout import Difference, Earlier, Form, IsAbsent, Kind, Layout
from engine.layouts.neokv import codec
from engine.layouts.neokv.phase1 import Phase1
from engine.values.encoding import U64, pack_u64, parse_u64

_DATABASE: Final = Struct(">QQ")
_SLOT: Final = Struct(">H")
_KEY_HEADER: Final = Struct(">QQHI")


class NeoKV:
    """The default layout; see the module's first lines for the bytes."""

    name: ClassVar[str] = "neokv"
    forms: ClassVar[frozenset[Form]] = frozenset(Form)
    differences: ClassVar[frozenset[Difference]] = frozenset()
    families: ClassVar[Mapping[Kind, str]] = {
        Kind.METADATA: "metadata",
        Kind.DATA: "data",
        Kind.SCORES: "zset_score",
        Kind.RANKS: "zset_rank",
        Kind.TIMES: "field_time",
        Kind.STREAM: "stream",
        Kind.STREAM_INDEX: "stream_index",
    }
    is_in_one_order: ClassVar[bool] = True
    earlier: ClassVar[Earlier | None] = None
    is_absent: ClassVar[IsAbsent | None] = None
    stamps_fields: ClassVar[bool] = False
    adopts: ClassVar[str] = "neokv1"
    packs_as: ClassVar[str | None] = "neokv"

    pack_metadata = staticmethod(codec.pack_metadata)
    parse_metadata = staticmethod(codec.parse_metadata)

    def __init__(self, partition: int, partitions: int = 1, /) -> None:
        self._partition = partition

    def with_earlier(self) -> Layout:
        """`neokv` for a state that may have Phase 1 strings."""
        return NeoKVOverPhase1(self._partition)

    def metadata_key(self, db: int, slot: int, name: bytes) -> bytes:
        """`[region_id:8][index_id:8][slot:2][user_key_len:4][user_key]`."""
        return _KEY_HEADER.pack(self._partition, db, slot, len(name)) + name

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

    def prefix(self, kind: Kind, metadata_key: bytes, version: int | None = None) -> bytes:
        """`prefix [version:8]`, for records of any kind: the column family says which."""
        return metadata_key if version is None else metadata_key + pack_u64(version)

    def owner(self, kind: Kind, record: bytes) -> tuple[bytes, int]:
        """What stands in front of a subkey."""
        end = _KEY_HEADER.size
        if len(record) >= end:
            end += _KEY_HEADER.unpack_from(record)[3]
        if len(record) < end + U64.size:
            message = f"record {record.hex()} is too short to have a version"
            raise CorruptionError(message)
        return record[:end], parse_u64(record[end : end + U64.size])

    def kind_prefix(self, kind: Kind, db: int | None = None) -> bytes:
        """`[region_id:8][index_id:8]`; every kind has its column family alone."""
        return b"" if db is None else _DATABASE.pack(self._partition, db)

    def slot_prefix(self, db: int, slot: int) -> bytes | None:
        """`[region_id:8][index_id:8][slot:2]`."""
        return _DATABASE.pack(self._partition, db) + _SLOT.pack(slot)

    def cursor_slot(self, metadata_key: bytes) -> int:
        """The key's own slot."""
        slot: int = _SLOT.unpack_from(metadata_key, _DATABASE.size)[0]
        return slot

    def cursor_start(self, db: int, slot: int) -> bytes:
        """The first key of the slot; slot 16,384 is behind all others."""
        return _DATABASE.pack(self._partition, db) + _SLOT.pack(slot)


class NeoKVOverPhase1(NeoKV):
    """`neokv` in a state that may have Phase 1 strings: it reads them, and never writes any."""

    families: ClassVar[Mapping[Kind, str]] = {**NeoKV.families, Kind.EARLIER: NeoKV.families[Kind.DATA]}
    earlier: ClassVar[Earlier | None] = Phase1()
