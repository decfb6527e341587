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

_TYPES: Final = {STRING: 0, LIST: 1, SET: 2, HASH: 4, ZSET: 5}
_HASH_WITH_TIMES: Final = 22

_INTEGER_DIGITS_MAX: Final = 11
_INTEGER_STARTS: Final = frozenset(b"%c" % byte for byte in b"-0123456789")
_INTEGER_WIDTHS: Final = ((0xC0, 1), (0xC1, 2), (0xC2, 4))

_DOUBLE: Final = Struct("<d")
_TIME: Final = Struct("<q")
_NEVER: Final = -1


def encode(content: Content) -> bytes:
    """The payload of a content. O(its bytes).

    Raises:
        TooLargeError: it would be longer than the longest string.
    """
    texts, timed = content.texts, bool(content.expires_ms)
    head = bytes((_HASH_WITH_TIMES if timed else _TYPES[content.type],))
    if content.type != STRING:
        head += pack_length(len(texts) // 2 if content.type == HASH else len(texts))
    if content.type == ZSET:
        pieces = _alternating(map(pack_string, texts), map(_DOUBLE.pack, content.scores))
    elif timed:
        pairs = map(b"".join, zip(map(pack_string, texts[::2]), map(pack_string, texts[1::2]), strict=True))
        pieces = _alternating(pairs, (_TIME.pack(expire_ms or _NEVER) for expire_ms in content.expires_ms))
    else:
        pieces = map(pack_string, texts)
    return seal(chain((head,), pieces), _VERSION_OF_FIELD_TIMES if timed else _VERSION)


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
