"""Metadata values of the `hashed` layout. Every integer is little-endian.

string           [expire_ms:8] S [value]
hash, set, zset  [expire_ms:8] H, E or Z [size:8] [version:8]
list             [expire_ms:8] L [size:8] [version:8] [tail:8] [head:8]
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Any, Final

from engine.errors import CorruptionError
from engine.model import HASH, LIST, SET, STRING, ZSET, Metadata
from slotlog.shared.errors import InvariantError

_HEAD: Final = Struct("<Qc")
_COLLECTION: Final = Struct("<QcQQ")
_LIST: Final = Struct("<QcQQQQ")
_LETTERS: Final = {STRING: b"S", HASH: b"H", LIST: b"L", SET: b"E", ZSET: b"Z"}
_TYPES: Final = {letter: type_code for type_code, letter in _LETTERS.items()}


def pack_metadata(metadata: Any) -> bytes:
    """The metadata value of anything with the attributes of `Metadata`.

    Raises:
        InvariantError: it has a form of our own, for which there is no place.
    """
    m = metadata
    if m.ranked or m.times is not None or (m.type == STRING and m.version):
        raise InvariantError("the hashed layout holds no form of our own")
    letter = _LETTERS[m.type]
    if m.type == STRING:
        value: bytes = m.value
        return _HEAD.pack(m.expire_ms, letter) + value
    if m.type == LIST:
        return _LIST.pack(m.expire_ms, letter, m.size, m.version, m.tail, m.head)
    return _COLLECTION.pack(m.expire_ms, letter, m.size, m.version)


def parse_metadata(value: bytes) -> Metadata:
    """The metadata that `pack_metadata` wrote.

    Raises:
        CorruptionError: it wrote nothing like that.
    """
    try:
        expire_ms, letter = _HEAD.unpack_from(value)
        type_code = _TYPES[letter]
        if type_code == STRING:
            return Metadata(STRING, expire_ms, value=value[_HEAD.size :])
        if type_code == LIST:
            _, _, size, version, tail, head = _LIST.unpack(value)
            return Metadata(LIST, expire_ms, version, size, head, tail)
        _, _, size, version = _COLLECTION.unpack(value)
        return Metadata(type_code, expire_ms, version, size)
    except (KeyError, StructError) as error:
        message = f"metadata value {value[:9].hex()}… of {len(value)} bytes is not of the hashed layout"
        raise CorruptionError(message) from error
