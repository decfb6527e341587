"""Metadata values of the `camellia` layouts (seed 002). Every integer is big-endian.

    [encode_version:1][key_type:1][key_version:8][expire_ms:8][extra]

    string   version 0, extra = [value]
    hash, set, zset   version 0, extra = [count:4]
    list     version 0, extra = [count:4][head:8][tail:8]

    hash, set, zset   version 1, no extra: the layout camellia-v1 keeps no count of them

`key_type` is string 1, hash 2, zset 3, list 4, set 5. `expire_ms` is -1 for never. Example: the hash of version 1 with
two fields that never expires is 00 02 0000000000000001 ffffffffffffffff 00000002.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name, `error`, says nothing here
from typing import Any, Final

from engine.errors import CorruptionError
from engine.model import HASH, LIST, SET, STRING, TYPE_NAMES, UNCOUNTED, ZSET, Metadata
from slotlog.shared.errors import InvariantError

_HEAD: Final = Struct(">BBQQ")
_COLLECTION: Final = Struct(">BBQQI")
_LIST: Final = Struct(">BBQQIQQ")

_KEY_TYPES: Final = {STRING: 1, HASH: 2, ZSET: 3, LIST: 4, SET: 5}
_TYPES: Final = {key_type: type_code for type_code, key_type in _KEY_TYPES.items()}

_COUNTED: Final = 0  # the encode versions
_UNCOUNTED: Final = 1
_UNCOUNTED_TYPES: Final = frozenset({HASH, SET, ZSET})
_NO_FORM: Final = "the camellia layouts hold no form of our own"
_NEVER: Final = 2**64 - 1  # -1 as 64 bits
_EXPIRE_MS_MAX: Final = 2**63 - 1
COUNT_MAX: Final = 2**32 - 1
"""The largest collection that a count can say."""


def pack_metadata(metadata: Any) -> bytes:
    """The metadata value of anything with the attributes of `Metadata`.

    Raises:
        InvariantError: it has a form of our own, or more elements than the count can say.
    """
    m = metadata
    if m.ranked or m.times is not None or (m.type == STRING and m.version):
        raise InvariantError(_NO_FORM)
    expire_ms = m.expire_ms or _NEVER
    if m.type == STRING:
        return pack_string(0, m.expire_ms, m.value)
    if m.size > COUNT_MAX:
        text = f"a {TYPE_NAMES[m.type]} of {m.size} elements: the layout camellia-v0 counts {COUNT_MAX} at most"
        raise InvariantError(f"{text}; rebuild the state on another layout, with `slotlog replay --layout`")
    if m.type == LIST:
        return _LIST.pack(_COUNTED, _KEY_TYPES[LIST], m.version, expire_ms, m.size, m.head, m.tail)
    return _COLLECTION.pack(_COUNTED, _KEY_TYPES[m.type], m.version, expire_ms, m.size)


def pack_without_count(metadata: Any) -> bytes:
    """As `pack_metadata`, but that hashes, sets and sorted sets have no count."""
    m = metadata
    if m.type not in _UNCOUNTED_TYPES:
        return pack_metadata(m)
    if m.ranked or m.times is not None:
        raise InvariantError(_NO_FORM)
    return _HEAD.pack(_UNCOUNTED, _KEY_TYPES[m.type], m.version, m.expire_ms or _NEVER)


def pack_string(version: int, expire_ms: int, value: bytes) -> bytes:
    """The metadata value of a string. Here its version is 0: it has no subkeys that a version would have to tell."""
    return _HEAD.pack(_COUNTED, _KEY_TYPES[STRING], version, expire_ms or _NEVER) + value


def parse_metadata(value: bytes) -> Metadata:
    """The metadata that `pack_metadata` wrote. The version of a string, whatever it is, is not in it.

    Raises:
        CorruptionError: it wrote nothing like that.
    """
    try:
        encode_version, key_type, version, packed_ms = _HEAD.unpack_from(value)
        type_code = _TYPES[key_type]
        expire_ms = _parse_expire(packed_ms, value)
        if encode_version != _COUNTED:
            raise _foreign(value)
        if type_code == STRING:
            return Metadata(STRING, expire_ms, value=value[_HEAD.size :])
        if type_code == LIST:
            *_, size, head, tail = _LIST.unpack(value)
            return Metadata(LIST, expire_ms, version, size, head, tail)
        return Metadata(type_code, expire_ms, version, _COLLECTION.unpack(value)[-1])
    except (KeyError, StructError) as error:
        raise _foreign(value) from error


def parse_without_count(value: bytes) -> Metadata:
    """What `pack_without_count` wrote.

    Raises:
        CorruptionError: it wrote nothing like that.
    """
    if value[:1] != bytes((_UNCOUNTED,)):
        metadata = parse_metadata(value)
        if metadata.type in _UNCOUNTED_TYPES:
            raise _foreign(value)
        return metadata
    try:
        _, key_type, version, packed_ms = _HEAD.unpack(value)
    except StructError as error:
        raise _foreign(value) from error
    type_code = _TYPES.get(key_type)
    if type_code not in _UNCOUNTED_TYPES:
        raise _foreign(value)
    return Metadata(type_code, _parse_expire(packed_ms, value), version, UNCOUNTED)


def _parse_expire(packed_ms: int, value: bytes) -> int:
    """When a key dies, 0 for never."""
    if packed_ms == _NEVER:
        return 0
    if not 0 < packed_ms <= _EXPIRE_MS_MAX:
        raise _foreign(value)
    return packed_ms


def _foreign(value: bytes) -> CorruptionError:
    # No more of it than its head: behind that a string has its content.
    head = value[: _HEAD.size].hex()
    return CorruptionError(f"metadata value {head}… of {len(value)} bytes is not of the camellia layout")
