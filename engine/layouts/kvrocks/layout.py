"""The `kvrocks` and `kvrocks-cluster` layouts (seed 001): the records of Apache Kvrocks in its own column families.

    head            = [ns_len:1][ns]            kvrocks
                      [ns_len:1][ns][slot:2]    kvrocks-cluster
    CF metadata     head [name]                                            -> metadata value (codec.py)
    CF default      head [name_len:4][name][version:8][subkey]             -> subkey value
    CF zset_score   head [name_len:4][name][version:8][score:8][member]    -> empty
    CF stream       head [name_len:4][name][version:8]…                    -> entries, groups, what is pending
    CF field_time   head [name_len:4][name][version:8]…                    -> when fields of a hash die; ours
    CF stream_index head [name_len:4][name][version:8]…                    -> what is pending by consumer; ours

Database 0 is the namespace `__namespace`, database n the namespace `db<n>`. The partition is in no key. Within
`metadata`, keys lie by (slot and) name; in the other column families by (slot,) length of the name and name.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import ClassVar, Final

from engine.errors import CorruptionError
from engine.layouts.kvrocks import codec
from engine.layouts.kvrocks.keys import DEFAULT_NAMESPACE, namespace_prefix
from engine.layouts.layout import Difference, Earlier, Form, IsAbsent, Kind
from engine.values.encoding import U32, U64, parse_u64, prefix_end
from engine.values.numbers import parse_int
from slotlog.shared.slots import slot as slot_of
from slotlog.shared.slots import slot_range

_DATABASE: Final = b"db"
_SLOT: Final = Struct(">H")
_PLACE_BYTES: Final = 2
_PLACES: Final = 1 << 8 * _PLACE_BYTES


def namespace_of(db: int) -> bytes:
    """The namespace of a database, as Kvrocks names it where its `redis-databases` is set."""
    return _DATABASE + b"%d" % db if db else DEFAULT_NAMESPACE


def database_of(namespace: bytes) -> int | None:
    """The database whose namespace this is; None when it is that of none."""
    if namespace == DEFAULT_NAMESPACE:
        return 0
    number = parse_int(namespace[len(_DATABASE) :]) if namespace.startswith(_DATABASE) else None
    return number if number is not None and number > 0 else None


class _Prefixes(dict[int, bytes]):
    """What the keys of a database begin with, by its number."""

    def __missing__(self, db: int) -> bytes:
        prefix = self[db] = namespace_prefix(namespace_of(db))
        return prefix


_PREFIXES: Final = _Prefixes()


class Kvrocks:
    """The layout without slots; see the module's first lines for the bytes."""

    name: ClassVar[str] = "kvrocks"
    forms: ClassVar[frozenset[Form]] = frozenset({Form.FIELD_TIMES, Form.STREAMS})
    differences: ClassVar[frozenset[Difference]] = frozenset()
    families: ClassVar[Mapping[Kind, str]] = {
        Kind.METADATA: "metadata",
        Kind.DATA: "default",
        Kind.SCORES: "zset_score",
        Kind.TIMES: "field_time",
        Kind.STREAM: "stream",
        Kind.STREAM_INDEX: "stream_index",
    }
    is_in_one_order: ClassVar[bool] = False
    earlier: ClassVar[Earlier | None] = None
    is_absent: ClassVar[IsAbsent | None] = staticmethod(codec.is_absent)
    stamps_fields: ClassVar[bool] = True
    packs_as: ClassVar[str | None] = None

    _slot_bytes: ClassVar[int] = 0

    pack_metadata = staticmethod(codec.pack_metadata)
    parse_metadata = staticmethod(codec.parse_metadata)

    def __init__(self, partition: int, partitions: int = 1, /) -> None:
        self._first_slot, last = slot_range(partition, partitions)
        self._slots = last + 1 - self._first_slot

    def metadata_key(self, db: int, slot: int, name: bytes) -> bytes:
        """`[ns_len:1][ns][name]`; the slot follows from the name."""
        return _PREFIXES[db] + name

    def parse_metadata_key(self, key: bytes) -> tuple[int, int, bytes]:
        """The (db, slot, name) of a metadata key."""
        head = self._head(key)
        name = key[head:]
        return _database(key), slot_of(name), name

    def prefix(self, kind: Kind, metadata_key: bytes, version: int | None = None) -> bytes:
        """The head, `[name_len:4][name][version:8]`, for records of any kind: the column family says which."""
        head = 1 + metadata_key[0] + self._slot_bytes
        name = metadata_key[head:]
        front = metadata_key[:head] + U32.pack(len(name)) + name
        return front if version is None else front + U64.pack(version)

    def owner(self, kind: Kind, record: bytes) -> tuple[bytes, int]:
        """The metadata key and the version in front of a subkey."""
        start = self._head(record) + U32.size
        end = start + U32.unpack(record[start - U32.size : start])[0] if len(record) >= start else start
        if len(record) < end + U64.size:
            message = f"record {record.hex()} is too short to have a version"
            raise CorruptionError(message)
        return record[: start - U32.size] + record[start:end], parse_u64(record[end : end + U64.size])

    def kind_prefix(self, kind: Kind, db: int | None = None) -> bytes:
        """`[ns_len:1][ns]`; every kind has its column family alone."""
        return b"" if db is None else _PREFIXES[db]

    def slot_prefix(self, db: int, slot: int) -> bytes | None:
        """None: keys of one slot lie anywhere."""

    def cursor_slot(self, metadata_key: bytes) -> int:
        """The slots of the partition, shared out among the first two bytes of names in their order."""
        head = self._head(metadata_key)
        place = int.from_bytes(metadata_key[head : head + _PLACE_BYTES].ljust(_PLACE_BYTES, b"\0"))
        return self._first_slot + place * self._slots // _PLACES

    def cursor_start(self, db: int, slot: int) -> bytes:
        """The lowest name whose first two bytes have this slot or a later one."""
        lowest = -(-max(slot - self._first_slot, 0) * _PLACES // self._slots)
        if lowest >= _PLACES:
            return prefix_end(_PREFIXES[db])
        return _PREFIXES[db] + lowest.to_bytes(_PLACE_BYTES).rstrip(b"\0")

    def _head(self, key: bytes) -> int:
        """How many bytes stand in front of a name, or of its length.

        Raises:
            CorruptionError: there are not so many.
        """
        head = 1 + key[0] + self._slot_bytes if key else 1
        if len(key) < head:
            message = f"metadata key or record {key.hex()} is too short"
            raise CorruptionError(message)
        return head


class KvrocksCluster(Kvrocks):
    """The layout with slots, as Kvrocks in its cluster mode has it."""

    name: ClassVar[str] = "kvrocks-cluster"

    _slot_bytes: ClassVar[int] = _SLOT.size

    def metadata_key(self, db: int, slot: int, name: bytes) -> bytes:
        """`[ns_len:1][ns][slot:2][name]`."""
        return _PREFIXES[db] + _SLOT.pack(slot) + name

    def parse_metadata_key(self, key: bytes) -> tuple[int, int, bytes]:
        """The (db, slot, name) of a metadata key."""
        head = self._head(key)
        return _database(key), self.cursor_slot(key), key[head:]

    def slot_prefix(self, db: int, slot: int) -> bytes | None:
        """`[ns_len:1][ns][slot:2]`."""
        return _PREFIXES[db] + _SLOT.pack(slot)

    def cursor_slot(self, metadata_key: bytes) -> int:
        """The key's own slot."""
        slot: int = _SLOT.unpack_from(metadata_key, 1 + metadata_key[0])[0]
        return slot

    def cursor_start(self, db: int, slot: int) -> bytes:
        """The first key of the slot; slot 16,384 is behind all others."""
        return _PREFIXES[db] + _SLOT.pack(slot)


def _database(key: bytes) -> int:
    """The database in whose namespace a key lies.

    Raises:
        CorruptionError: it is none of a database.
    """
    namespace = key[1 : 1 + key[0]]
    db = database_of(namespace)
    if db is None:
        message = f"metadata key {key.hex()} is in the namespace {namespace!r}, which is no database"
        raise CorruptionError(message)
    return db
