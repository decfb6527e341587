"""Strings as Phase 1 of NeoKV wrote them (seed 000). Every integer is big-endian.

    CF data   [region_id:8][index_id:8][slot:2][user_key_len:4][user_key] S  ->  [expire_ms:8][value]

The subkeys of Phase 2 are in the same column family, and begin with the same bytes. Behind these a subkey has a version
of eight bytes, and a Phase 1 record its tag and nothing else. Its other tags (H, L, E, Z) were reserved, never written.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Any, ClassVar, Final

from engine.errors import CorruptionError
from engine.model import STRING, Metadata
from engine.values.encoding import U64, pack_u64, parse_u64

TAG: Final = b"S"
_BEHIND_TAG: Final = b"T"
_HEADER: Final = Struct(">QQHI")


class Phase1:
    """The form of these records: see the module's first lines."""

    is_written: ClassVar[bool] = False

    def key(self, metadata_key: bytes, /) -> bytes:
        """`[metadata key] S`."""
        return metadata_key + TAG

    def owner(self, record: bytes, /) -> bytes | None:
        """All but the tag, when the name has the length that stands in front of it."""
        return record[:-1] if record[-1:] == TAG and len(record) == _name_end(record) + 1 else None

    def beside(self, record: bytes, /) -> bytes:
        """What stands in front of the version of a subkey; of damage, all of it."""
        return record[: _name_end(record)]

    def place(self, bound: bytes, /) -> bytes:
        """The same bytes; behind the tag of a key with which they begin."""
        end = _name_end(bound)
        return bound[:end] + _BEHIND_TAG if len(bound) > end else bound

    def pack(self, metadata: Any, /) -> bytes:
        """`[expire_ms:8][value]`."""
        value: bytes = metadata.value
        return pack_u64(metadata.expire_ms) + value

    def parse(self, value: bytes, /) -> Metadata:
        """When the string dies, and the string."""
        if len(value) < U64.size:
            message = f"a Phase 1 record with a value of {len(value)} bytes has no time"
            raise CorruptionError(message)
        return Metadata(STRING, parse_u64(value[: U64.size]), value=value[U64.size :])


class WrittenPhase1(Phase1):
    """The same form, in a layout that writes it."""

    is_written: ClassVar[bool] = True


def _name_end(record: bytes) -> int:
    """Where the name ends with which a record begins; its own end when it is too short to say."""
    try:
        return _HEADER.size + int(_HEADER.unpack_from(record)[3])
    except StructError:
        return len(record)
