"""The checksums of the embedded log's format 2, for the upgrade: 16 bytes of SHA-256 a record.

body  [position:8][time_ms:8 signed][key length:4 signed, -1 for none][key][value], big-endian
link  the first 16 bytes of SHA-256 over the link of the record before, then the body
seal  [link of the record before:16][own link:16]
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from struct import error as struct_error
from typing import Final

_LINK_BYTES: Final = 16
_BODY: Final = Struct(">Qqi")
_HEAD: Final = Struct(">QQqQI")


def was_sealed(position: int, time_ms: int, key: bytes | None, value: bytes, seal: bytes) -> bool:
    """Whether a row is what was written, as far as it can say so itself. Takes whatever a damaged file gives."""
    try:
        head = _BODY.pack(position, time_ms, -1 if key is None else len(key))
        own = sha256(seal[:_LINK_BYTES] + head + (key or b"") + value).digest()[:_LINK_BYTES]
    except (TypeError, struct_error):
        return False
    return own == seal[_LINK_BYTES:]


def sum_of_head(
    partition: int, next_offset: int, last_time_ms: int, begin_offset: int, begin_link: bytes, link: bytes
) -> bytes:
    """The checksum of a row of `partitions`.

    Raises:
        TypeError, struct.error: a damaged file gave other types.
    """
    packed = _HEAD.pack(partition, next_offset, last_time_ms, begin_offset, len(begin_link))
    return sha256(packed + begin_link + link).digest()[:_LINK_BYTES]
