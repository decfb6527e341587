"""Encodes small values as servers hold them: in one packed piece, which takes less room and loads faster.

    type                     since RDB   bounds
    11  intset: set          2           512 members, all of them integers of 64 bits
    16  listpack: hash       10          512 fields, texts of 64 bytes
    17  listpack: zset       10          128 members of 64 bytes
    18  list of listpacks    10          8 KiB in one node
    20  listpack: set        11          128 members of 64 bytes

The bounds are servers' defaults; what is beyond them is theirs to unpack. `engine.values.rdb.packed` has the formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.model import HASH, LIST, SET, ZSET
from engine.values.numbers import parse_int
from engine.values.rdb.content import Content
from engine.values.rdb.encode import pack_length
from engine.values.rdb.packed import backlen
from slotlog.shared.doubles import format_double

LISTPACK_VERSION: Final = 10
_SET_LISTPACK_VERSION: Final = 11

_TEXT_BYTES_MAX: Final = 64
_FIELDS_MAX: Final = 512
_MEMBERS_MAX: Final = 128
_INTEGERS_MAX: Final = 512
_NODE_BYTES_MAX: Final = 8192

_INTSET, _HASH, _ZSET, _LIST, _SET = 11, 16, 17, 18, 20
_LISTPACK_HEADER: Final = 6
_COUNT_UNKNOWN: Final = 0xFFFF
_WIDTHS: Final = ((0xF1, 2), (0xF2, 3), (0xF3, 4), (0xF4, 8))


def compact(content: Content, version: int) -> bytes | None:
    """Type and value in one piece, in a file of that RDB version; None of what is not small, or has no such form."""
    if content.type == LIST:
        return _list(content.texts) if version >= LISTPACK_VERSION else None
    if content.type == SET and (packed := _integers(content.texts)) is not None:
        return packed
    if version < (_SET_LISTPACK_VERSION if content.type == SET else LISTPACK_VERSION) or content.expires_ms:
        return None
    kind, texts_max = _FORMS.get(content.type, (0, 0))
    if len(content.texts) > texts_max or any(len(text) > _TEXT_BYTES_MAX for text in content.texts):
        return None
    if content.type == ZSET:
        ordered = sorted(zip(content.scores, content.texts, strict=True))
        return _piece(kind, listpack([text for score, member in ordered for text in (member, format_double(score))]))
    return _piece(kind, listpack(content.texts))


_FORMS: Final = {HASH: (_HASH, 2 * _FIELDS_MAX), SET: (_SET, _MEMBERS_MAX), ZSET: (_ZSET, _MEMBERS_MAX)}


def listpack(elements: Sequence[bytes]) -> bytes:
    """A listpack; integers take as few bytes as they can. Its header counts fewer than 65,535 elements only."""
    body = bytearray()
    for element in elements:
        entry = _entry(element)
        body += entry + backlen(len(entry))
    size = _LISTPACK_HEADER + len(body) + 1
    return size.to_bytes(4, "little") + min(len(elements), _COUNT_UNKNOWN).to_bytes(2, "little") + bytes(body) + b"\xff"


def _list(elements: Sequence[bytes]) -> bytes | None:
    if sum(map(len, elements)) > _NODE_BYTES_MAX or len(elements) > _NODE_BYTES_MAX:
        return None
    node = listpack(elements)
    return bytes((_LIST, 1, 2)) + pack_length(len(node)) + node


def _integers(members: Sequence[bytes]) -> bytes | None:
    """An intset in the smallest width."""
    if len(members) > _INTEGERS_MAX:
        return None
    numbers = []
    for member in members:
        number = parse_int(member)
        if number is None:
            return None
        numbers.append(number)
    numbers.sort()
    width = next(width for width in (2, 4, 8) if all(_fits(number, width) for number in (numbers[0], numbers[-1])))
    header = width.to_bytes(4, "little") + len(numbers).to_bytes(4, "little")
    return _piece(_INTSET, header + b"".join(number.to_bytes(width, "little", signed=True) for number in numbers))


def _piece(kind: int, packed: bytes) -> bytes:
    return bytes((kind,)) + pack_length(len(packed)) + packed


def _fits(number: int, width: int) -> bool:
    return -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1


def _entry(element: bytes) -> bytes:
    number = parse_int(element)
    if number is not None:
        if 0 <= number < 1 << 7:
            return bytes((number,))
        if -(1 << 12) <= number < 1 << 12:
            return (0xC000 | number & 0x1FFF).to_bytes(2, "big")
        first, width = next((first, width) for first, width in _WIDTHS if _fits(number, width))
        return bytes((first,)) + number.to_bytes(width, "little", signed=True)
    size = len(element)
    if size < 1 << 6:
        return bytes((0x80 | size,)) + element
    if size < 1 << 12:
        return (0xE000 | size).to_bytes(2, "big") + element
    return b"\xf0" + size.to_bytes(4, "little") + element
