"""Decodes payloads from Valkey 9.1, Redis 7.4 and older servers.

    type    since RDB    value
    0       1            string
    1       1            list        [n] element …
    2       1            set         [n] member …
    3       1            sorted set  [n] (member, score as text) …: [bytes:1][text], fd NaN, fe inf, ff -inf
    4       1            hash        [n] (field, value) …
    5       8            sorted set  [n] (member, score:8, IEEE-754) …
    9-13    2-4          a string that is a zipmap (hash), ziplist (list), intset, ziplist (sorted set, hash)
    14      7            list        [n] ziplist …
    16, 17  10           a string that is a listpack: hash, sorted set
    18      10           list        [n] ([1] element | [2] listpack) …
    20      11           a string that is a listpack: set
    22      80 (Valkey)  hash        [n] (field, value, expire time:8, -1 for never) …
    22      12 (Redis)   hash        [n] (expire time or 0 as a length, field, value) …
    24      12 (Redis)   hash        [earliest time:8] [n] (time - earliest + 1, or 0, as a length; field, value) …
    23, 25  12 (Redis)   hash        a listpack of field, value, expire time or 0 …; 25 with [earliest time:8] before it

n is a length, everything else without a width a string; integers of a fixed width are little-endian, times
milliseconds since the epoch.
What follows the value is ignored, as in Redis.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import unpack
from typing import Final

from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.values.numbers import parse_double, parse_int
from engine.values.rdb.content import Content
from engine.values.rdb.crc64 import crc64
from engine.values.rdb.errors import FormatError, UnsupportedError, VersionError
from engine.values.rdb.packed import intset, listpack, ziplist, zipmap
from engine.values.rdb.reader import PayloadReader, check_count

FOOTER_BYTES: Final = 10
_CHECKSUM_BYTES: Final = 8

_REDIS_OPEN_VERSION_MAX: Final = 11  # of Redis 7.2, and of Valkey before 9
_REDIS_7_4_VERSION: Final = 12
_VALKEY_9_VERSION: Final = 80

_NOT_SUPPORTED: Final = frozenset((6, 7, 15, 19, 21))  # values of modules; streams

_PLAIN_NODE: Final = 1
_PACKED_NODE: Final = 2

_REDIS_EXPIRE_MS_MAX: Final = (1 << 48) - 2
_NEVER: Final = -1

Load = Callable[[PayloadReader], Content]


def decode(payload: bytes) -> Content:
    """The content of a payload.

    Raises:
        VersionError, FormatError, UnsupportedError, TooLargeError: see there. Nothing else, whatever the bytes are.
    """
    version = int.from_bytes(payload[-FOOTER_BYTES:-_CHECKSUM_BYTES], "little")
    known = 1 <= version <= _REDIS_7_4_VERSION or version == _VALKEY_9_VERSION
    if len(payload) < FOOTER_BYTES or not known:
        raise VersionError("version")
    if crc64(payload[:-_CHECKSUM_BYTES]) != int.from_bytes(payload[-_CHECKSUM_BYTES:], "little"):
        raise VersionError("checksum")
    reader = PayloadReader(payload[:-FOOTER_BYTES])
    kind = reader.byte()
    if kind in _NOT_SUPPORTED:
        raise UnsupportedError("a stream, or a value of a module")
    load = (_LOADS_OF_REDIS_7_4 if version == _REDIS_7_4_VERSION else _LOADS).get(kind)
    if load is None:
        raise FormatError("unknown type")
    return load(reader)


# ------------------------------------------------------------------------------------------------- element by element


def _string(reader: PayloadReader) -> Content:
    return Content(STRING, [reader.string()])


def _list(reader: PayloadReader) -> Content:
    return Content(LIST, [reader.string() for _ in range(reader.count(1))])


def _set(reader: PayloadReader) -> Content:
    return _of_members([reader.string() for _ in range(reader.count(1))])


def _sorted_set(reader: PayloadReader) -> Content:
    members, scores = [], []
    for _ in range(reader.count(9, 2)):
        members.append(reader.string())
        (score,) = unpack("<d", reader.take(8))
        scores.append(score)
    return _of_scored(members, scores)


def _old_sorted_set(reader: PayloadReader) -> Content:
    members, scores = [], []
    for _ in range(reader.count(2, 2)):
        members.append(reader.string())
        scores.append(_text_score(reader))
    return _of_scored(members, scores)


def _text_score(reader: PayloadReader) -> float:
    size = reader.byte()
    if size == 0xFE:
        return float("inf")
    if size == 0xFF:
        return float("-inf")
    return _score(reader.take(size) if size != 0xFD else b"nan")


def _hash(reader: PayloadReader) -> Content:
    return _of_pairs([reader.string() for _ in range(2 * reader.count(2, 2))])


def _valkey_hash(reader: PayloadReader) -> Content:
    texts: list[bytes] = []
    expires_ms = []
    for _ in range(reader.count(10, 2)):
        texts += (reader.string(), reader.string())
        expire_ms = reader.integer(8)
        if expire_ms < _NEVER:
            raise FormatError("a time before the epoch")
        expires_ms.append(max(expire_ms, 1) if expire_ms != _NEVER else 0)
    return _of_pairs(texts, expires_ms)


def _redis_hash(reader: PayloadReader) -> Content:
    return _redis_fields(reader, 1)


def _redis_hash_with_earliest(reader: PayloadReader) -> Content:
    return _redis_fields(reader, reader.integer(8))


def _redis_fields(reader: PayloadReader, earliest_ms: int) -> Content:
    texts: list[bytes] = []
    expires_ms = []
    for _ in range(reader.count(3, 2)):
        left_ms = reader.length()
        expires_ms.append(_redis_time(left_ms + earliest_ms - 1 if left_ms else 0))
        texts += (reader.string(), reader.string())
    return _of_pairs(texts, expires_ms)


# ------------------------------------------------------------------------------------------------------------- packed


def _quicklist(reader: PayloadReader) -> Content:
    elements: list[bytes] = []
    for _ in range(reader.count(1)):
        _add_node(elements, ziplist(_node(reader)))
    return _of_elements(elements)


def _quicklist_2(reader: PayloadReader) -> Content:
    elements: list[bytes] = []
    for _ in range(reader.count(2)):
        kind = reader.length()
        if kind not in (_PLAIN_NODE, _PACKED_NODE):
            raise FormatError("unknown node")
        node = _node(reader)
        _add_node(elements, [node] if kind == _PLAIN_NODE else listpack(node))
    return _of_elements(elements)


def _node(reader: PayloadReader) -> bytes:
    node = reader.string()
    if not node:
        raise FormatError("an empty node")
    return node


def _add_node(elements: list[bytes], node: list[bytes]) -> None:
    check_count(len(elements) + len(node))
    elements += node


def _packed(of: Callable[[list[bytes]], Content], parse: Callable[[bytes], list[bytes]]) -> Load:
    """What is one string, which `parse` takes apart."""

    def load(reader: PayloadReader) -> Content:
        return of(parse(reader.string()))

    return load


def _redis_listpack_with_earliest(reader: PayloadReader) -> Content:
    reader.take(8)  # the times in the listpack are whole ones
    return _of_triples(listpack(reader.string()))


# ---------------------------------------------------------------------------------------------------------- validated


def _of_elements(elements: list[bytes]) -> Content:
    if not elements:
        raise FormatError("an empty list")
    return Content(LIST, elements)


def _of_members(members: list[bytes]) -> Content:
    _check_different(members)
    return Content(SET, members)


def _of_pairs(texts: list[bytes], expires_ms: list[int] | None = None) -> Content:
    if len(texts) % 2:
        raise FormatError("a field without a value")
    _check_different(texts[::2])
    return Content(HASH, texts, expires_ms=expires_ms if expires_ms and any(expires_ms) else ())


def _of_triples(texts: list[bytes]) -> Content:
    if len(texts) % 3:
        raise FormatError("a field without a value or a time")
    pairs = [text for at, text in enumerate(texts) if at % 3 != 2]
    times = [parse_int(text) for text in texts[2::3]]
    return _of_pairs(pairs, [_redis_time(-1 if time is None else time) for time in times])


def _of_members_and_scores(texts: list[bytes]) -> Content:
    if len(texts) % 2:
        raise FormatError("a member without a score")
    return _of_scored(texts[::2], [_score(text) for text in texts[1::2]])


def _of_scored(members: list[bytes], scores: list[float]) -> Content:
    _check_different(members)
    if any(score != score for score in scores):  # noqa: PLR0124 - NaN differs from itself
        raise FormatError("a score that is no number")
    return Content(ZSET, members, scores)


def _score(text: bytes) -> float:
    score = parse_double(text)
    if score is None:
        raise FormatError("a score that is no number")
    return score


def _redis_time(expire_ms: int) -> int:
    if not 0 <= expire_ms <= _REDIS_EXPIRE_MS_MAX:
        raise FormatError("a time that Redis cannot have")
    return expire_ms


def _check_different(texts: list[bytes]) -> None:
    if not texts or len(dict.fromkeys(texts)) != len(texts):
        raise FormatError("none, or one twice")


_LOADS: Final[dict[int, Load]] = {
    0: _string,
    1: _list,
    2: _set,
    3: _old_sorted_set,
    4: _hash,
    5: _sorted_set,
    9: _packed(_of_pairs, zipmap),
    10: _packed(_of_elements, ziplist),
    11: _packed(_of_members, intset),
    12: _packed(_of_members_and_scores, ziplist),
    13: _packed(_of_pairs, ziplist),
    14: _quicklist,
    16: _packed(_of_pairs, listpack),
    17: _packed(_of_members_and_scores, listpack),
    18: _quicklist_2,
    20: _packed(_of_members, listpack),
    22: _valkey_hash,
}
_LOADS_OF_REDIS_7_4: Final[dict[int, Load]] = {
    **_LOADS,
    22: _redis_hash,
    23: _packed(_of_triples, listpack),
    24: _redis_hash_with_earliest,
    25: _redis_listpack_with_earliest,
}
