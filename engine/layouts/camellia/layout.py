"""The `camellia` layouts (seed 002): every kind of record in one column family, keys by the MD5 of their names.

    CF camellia   k#…   -> empty             a score record, in camellia-v0
                  m#…   -> metadata value    (codec.py)
                  s#…   -> subkey value
    CF index      k#…   -> empty             a score record, in camellia-v1
                  n#…   -> [count:8]         the members of a sorted set
                  s#…   -> [score:8]         a member of it

What follows these two bytes, keys.py says. Among the metadata, keys lie by database, MD5 and name; elsewhere the length
of the name stands between the two last ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from engine.layouts.camellia import codec, keys
from engine.layouts.layout import Difference, Earlier, Form, IsAbsent, Kind
from engine.values.encoding import pack_u64, prefix_end
from slotlog.shared.slots import slot as slot_of
from slotlog.shared.slots import slot_range

_TAGS: Final = {
    Kind.METADATA: keys.METADATA,
    Kind.DATA: keys.SUBKEY,
    Kind.SCORES: keys.SCORE,
    Kind.MEMBERS: keys.SUBKEY,
    Kind.COUNTS: keys.COUNT,
    Kind.NAMES: keys.NAME,
}
_STORED: Final = "camellia"
_INDEX: Final = "index"
_HASHES: Final = 1 << 64


class CamelliaV0:
    """Collections with a count in their metadata, so that replies are exact; see the module's first lines."""

    name: ClassVar[str] = "camellia-v0"
    forms: ClassVar[frozenset[Form]] = frozenset()
    differences: ClassVar[frozenset[Difference]] = frozenset()
    families: ClassVar[Mapping[Kind, str]] = dict.fromkeys((Kind.METADATA, Kind.DATA, Kind.SCORES), _STORED)
    is_in_one_order: ClassVar[bool] = False
    is_absent: ClassVar[IsAbsent | None] = None
    stamps_fields: ClassVar[bool] = False
    packs_as: ClassVar[str | None] = None
    earlier: ClassVar[Earlier | None] = None

    pack_metadata = staticmethod(codec.pack_metadata)
    parse_metadata = staticmethod(codec.parse_metadata)

    def __init__(self, partition: int, partitions: int = 1, /) -> None:
        self._first_slot, last = slot_range(partition, partitions)
        self._slots = last + 1 - self._first_slot
        self._namespaces: dict[int, bytes] = {}

    def metadata_key(self, db: int, slot: int, name: bytes) -> bytes:
        """`m# [ns][md5(key)[0:8]][key]`; the slot follows from the name."""
        namespace = self._namespaces.get(db)
        if namespace is None:
            namespace = self._namespaces[db] = keys.namespace_of(db)
        return keys.metadata_key(namespace, name)

    def parse_metadata_key(self, key: bytes) -> tuple[int, int, bytes]:
        """The (db, slot, name) of a metadata key."""
        db, name = keys.parse_metadata_key(key)
        return db, slot_of(name), name

    def prefix(self, kind: Kind, metadata_key: bytes, version: int | None = None) -> bytes:
        """The two bytes of the kind, `[ns][md5(key)[0:8]][key_len:4][key][key_version:8]`."""
        return keys.prefix_of(_TAGS[kind], metadata_key, version)

    def owner(self, kind: Kind, record: bytes) -> tuple[bytes, int]:
        """What stands in front of a subkey."""
        return keys.owner(record)

    def kind_prefix(self, kind: Kind, db: int | None = None) -> bytes:
        """The two bytes of the kind, and the namespace."""
        return _TAGS[kind] if db is None else _TAGS[kind] + keys.namespace_of(db)

    def slot_prefix(self, db: int, slot: int) -> bytes | None:
        """None: keys of one slot lie anywhere."""

    def cursor_slot(self, metadata_key: bytes) -> int:
        """The slots of the partition, shared out among the MD5 sums in their order."""
        return self._first_slot + keys.hash_of(metadata_key) * self._slots // _HASHES

    def cursor_start(self, db: int, slot: int) -> bytes:
        """The lowest MD5 sum that has this slot or a later one."""
        database = self.kind_prefix(Kind.METADATA, db)
        lowest = -(-max(slot - self._first_slot, 0) * _HASHES // self._slots)
        return database + pack_u64(lowest) if lowest < _HASHES else prefix_end(database)


class CamelliaV1(CamelliaV0):
    """Collections without a count in their metadata: hashes and sets are written without a read.

    Sorted sets are in an index: in a column family beside that of all other records.
    """

    name: ClassVar[str] = "camellia-v1"
    differences: ClassVar[frozenset[Difference]] = frozenset({Difference.UNCOUNTED})
    families: ClassVar[Mapping[Kind, str]] = {
        Kind.METADATA: _STORED,
        Kind.DATA: _STORED,
        Kind.SCORES: _INDEX,
        Kind.MEMBERS: _INDEX,
        Kind.COUNTS: _INDEX,
        Kind.NAMES: _STORED,
    }

    pack_metadata = staticmethod(codec.pack_without_count)
    parse_metadata = staticmethod(codec.parse_without_count)

    def index_name(self, metadata_key: bytes, version: int) -> bytes:
        """`c# [ns][key][key_version]`."""
        return keys.index_name(metadata_key, version)

    def index_owner(self, name: bytes) -> tuple[bytes, int] | None:
        """The metadata key and the version, of a key of this partition."""
        owner = keys.index_owner(name)
        if owner is None:
            return None
        db, key, version = owner
        slot = slot_of(key)
        is_here = self._first_slot <= slot < self._first_slot + self._slots
        return (self.metadata_key(db, slot, key), version) if is_here else None

    def index_item(self, member: bytes) -> bytes:
        """`00 [member]`, or `01 [md5(member)]` of one of 15 bytes or more."""
        return keys.index_item(member)

    def index_member(self, item: bytes) -> bytes | None:
        """What follows the first byte, where that is 00."""
        return item[1:] if item.startswith(keys.SHORT) else None
