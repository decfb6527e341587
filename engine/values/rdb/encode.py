"""Encodes payloads in the forms that most servers read: nothing is packed or compressed.

    string 0   list 1   set 2   hash 4   sorted set 5      RDB version 9: Redis 5 and later, every Valkey
    hash with expire times of fields 22                    RDB version 80: Valkey 9 and later

The same content always gives the same bytes. `engine.values.rdb.parts` has the formats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from struct import Struct
from typing import Final

from engine.limits import STRING_BYTES_MAX
from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.values.numbers import parse_int
from engine.values.rdb.content import Content
from engine.values.rdb.crc64 import crc64
from engine.values.rdb.decode import FOOTER_BYTES
from engine.values.rdb.errors import TooLargeError

_VERSION: Final = 9
_VERSION_OF_FIELD_TIMES: Final = 80

KINDS: Final = {STRING: 0, LIST: 1, SET: 2, HASH: 4, ZSET: 5}
"""The type that holds each value without times of fields, element by element."""

VALKEY_HASH: Final = 22
REDIS_HASH: Final = 24
"""A hash with times of fields, in Valkey from 9 and in Redis from 7.4 on."""

_INTEGER_DIGITS_MAX: Final = 11
_INTEGER_STARTS: Final = frozenset(b"%c" % byte for byte in b"-0123456789")
_INTEGER_WIDTHS: Final = ((0xC0, 1), (0xC1, 2), (0xC2, 4))

_DOUBLE: Final = Struct("<d")
_TIME: Final = Struct("<q")
_NEVER: Final = -1


def encode(content: Content) -> bytes:
    """The payload of a content that is no stream. O(its bytes).

    Raises:
        TooLargeError: it would be longer than the longest string.
    """
    timed = bool(content.expires_ms)
    kind = VALKEY_HASH if timed else KINDS[content.type]
    head = bytes((kind,)) if content.type == STRING else bytes((kind,)) + pack_length(count_of(content))
    return seal(chain((head,), elements(kind, content)), _VERSION_OF_FIELD_TIMES if timed else _VERSION)


def count_of(content: Content) -> int:
    """The number of its elements: of a hash, its fields."""
    return len(content.texts) // 2 if content.type == HASH else len(content.texts)


def elements(kind: int, content: Content) -> Iterator[bytes]:
    """The elements of a content, encoded one by one for a value of type `kind`.

    `kind` is one of those above. REDIS_HASH has no time before its first field: its times are those since the epoch,
    and the earliest is 1.
    """
    texts = content.texts
    if content.type == ZSET:
        return _alternating(map(pack_string, texts), map(_DOUBLE.pack, content.scores))
    if kind in (VALKEY_HASH, REDIS_HASH):
        pairs = map(b"".join, zip(map(pack_string, texts[::2]), map(pack_string, texts[1::2]), strict=True))
        expires_ms = content.expires_ms or [0] * (len(texts) // 2)
        if kind == REDIS_HASH:
            return _alternating(map(pack_length, expires_ms), pairs)
        return _alternating(pairs, (_TIME.pack(expire_ms or _NEVER) for expire_ms in expires_ms))
    return map(pack_string, texts)


def seal(pieces: Iterable[bytes], version: int) -> bytes:
    """Type and value, with the footer behind them.

    Raises:
        TooLargeError: all of it would be longer than the longest string.
    """
    kept = []
    left = STRING_BYTES_MAX - FOOTER_BYTES
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise TooLargeError("longer than a string may be")
        kept.append(piece)
    payload = b"".join((*kept, version.to_bytes(2, "little")))
    return payload + crc64(payload).to_bytes(8, "little")


def pack_length(length: int) -> bytes:
    """A length; see `engine.values.rdb.reader`."""
    if length < 1 << 6:
        return bytes((length,))
    if length < 1 << 14:
        return (length | 1 << 14).to_bytes(2, "big")
    if length < 1 << 32:
        return b"\x80" + length.to_bytes(4, "big")
    return b"\x81" + length.to_bytes(8, "big")


def pack_string(text: bytes) -> bytes:
    """A string; one that is an integer of 32 bits as such."""
    if len(text) <= _INTEGER_DIGITS_MAX and text[:1] in _INTEGER_STARTS:
        number = parse_int(text)
        if number is not None:
            for first, width in _INTEGER_WIDTHS:
                if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1:
                    return bytes((first,)) + number.to_bytes(width, "little", signed=True)
    return pack_length(len(text)) + text


def _alternating(first: Iterable[bytes], second: Iterable[bytes]) -> Iterator[bytes]:
    return chain.from_iterable(zip(first, second, strict=True))
