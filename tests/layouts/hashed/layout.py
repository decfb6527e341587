"""The `hashed` layout: everything in one column family, keys by a hash of their names, no form of our own.

    CF records   k [place] [length:4] [name] [~version:8] [score:8] [member]   -> empty             a score record
                 m [place] [name]                                              -> metadata value    (codec.py)
                 s [place] [length:4] [name] [~version:8] [subkey]             -> subkey value

    place        [db ^ a5:1] [hash:1]

The hash is BLAKE2b's of the name, one byte, so that names share it: keys of one hash lie by name among the metadata and
by length and name everywhere else. A slot is nowhere, nor is the partition. `~version` is the version with all of its
bits turned, so that newer ones come first. Integers of keys are big-endian.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import ClassVar, Final

from engine.errors import CorruptionError
from engine.layouts.layout import Difference, Earlier, Form, IsAbsent, Kind
from engine.values.encoding import prefix_end
from slotlog.shared.slots import slot as slot_of
from slotlog.shared.slots import slot_range
from tests.layouts.hashed import codec

_TAGS: Final = {Kind.SCORES: b"k", Kind.METADATA: b"m", Kind.DATA: b"s"}
_SCRAMBLED: Final = 0xA5
_HASHES: Final = 256
_PLACE: Final = slice(1, 3)
_NAME: Final = slice(3, None)
_LENGTH: Final = Struct(">I")
_VERSION: Final = Struct(">Q")
_HEAD_BYTES: Final = 1 + 2 + _LENGTH.size


class Hashed:
    """The layout; see the module's first lines for the bytes."""

    name: ClassVar[str] = "hashed"
    forms: ClassVar[frozenset[Form]] = frozenset()
    differences: ClassVar[frozenset[Difference]] = frozenset()
    families: ClassVar[Mapping[Kind, str]] = dict.fromkeys(_TAGS, "records")
    is_in_one_order: ClassVar[bool] = False
    earlier: ClassVar[Earlier | None] = None
    is_absent: ClassVar[IsAbsent | None] = None
    stamps_fields: ClassVar[bool] = False
    packs_as: ClassVar[str | None] = None

    pack_metadata = staticmethod(codec.pack_metadata)
    parse_metadata = staticmethod(codec.parse_metadata)

    def __init__(self, partition: int, partitions: int = 1, /) -> None:
        self._first_slot, last = slot_range(partition, partitions)
        self._slots = last + 1 - self._first_slot

    def metadata_key(self, db: int, slot: int, name: bytes) -> bytes:
        """`m [place] [name]`; the slot follows from the name."""
        return self.kind_prefix(Kind.METADATA, db) + _hash(name) + name

    def parse_metadata_key(self, key: bytes) -> tuple[int, int, bytes]:
        """The (db, slot, name) of a metadata key."""
        name = key[_NAME]
        if key[:1] != _TAGS[Kind.METADATA] or key[2:3] != _hash(name):
            message = f"metadata key {key.hex()} is none of the hashed layout"
            raise CorruptionError(message)
        return key[1] ^ _SCRAMBLED, slot_of(name), name

    def prefix(self, kind: Kind, metadata_key: bytes, version: int | None = None) -> bytes:
        """`[kind] [place] [length:4] [name] [~version:8]`."""
        name = metadata_key[_NAME]
        packed = b"" if version is None else _VERSION.pack(~version & (2**64 - 1))
        return _TAGS[kind] + metadata_key[_PLACE] + _LENGTH.pack(len(name)) + name + packed

    def owner(self, kind: Kind, record: bytes) -> tuple[bytes, int]:
        """The metadata key and the version in front of a subkey."""
        try:
            end = _HEAD_BYTES + _LENGTH.unpack_from(record, _HEAD_BYTES - _LENGTH.size)[0]
            version = ~_VERSION.unpack_from(record, end)[0] & (2**64 - 1)
        except StructError as error:
            message = f"record {record.hex()} is too short to have a version"
            raise CorruptionError(message) from error
        return _TAGS[Kind.METADATA] + record[_PLACE] + record[_HEAD_BYTES:end], version

    def kind_prefix(self, kind: Kind, db: int | None = None) -> bytes:
        """The letter of the kind, and the scrambled database."""
        return _TAGS[kind] if db is None else _TAGS[kind] + bytes((db ^ _SCRAMBLED,))

    def slot_prefix(self, db: int, slot: int) -> bytes | None:
        """None: keys of one slot lie anywhere."""

    def cursor_slot(self, metadata_key: bytes) -> int:
        """The slots of the partition, shared out among the hashes in their order."""
        return self._first_slot + metadata_key[2] * self._slots // _HASHES

    def cursor_start(self, db: int, slot: int) -> bytes:
        """The lowest hash that has this slot or a later one."""
        database = self.kind_prefix(Kind.METADATA, db)
        lowest = -(-max(slot - self._first_slot, 0) * _HASHES // self._slots)
        return database + bytes((lowest,)) if lowest < _HASHES else prefix_end(database)


def _hash(name: bytes) -> bytes:
    return blake2b(name, digest_size=1).digest()
