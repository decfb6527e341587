"""Reads a value in any encoding, part by part: a collection of any size takes little memory.

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
    15, 19, 21           stream      see `engine.values.rdb.streams`
    23, 25  12 (Redis)   hash        a listpack of field, value, expire time or 0 …; 25 with [earliest time:8] before it

n is a length, everything else without a width a string; integers of a fixed width are little-endian, times
milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import unpack
from typing import Final

from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET
from engine.values.numbers import parse_double, parse_int
from engine.values.rdb.content import Content
from engine.values.rdb.errors import FormatError, UnsupportedError
from engine.values.rdb.packed import intset, listpack, ziplist, zipmap
from engine.values.rdb.reader import Reader
from engine.values.rdb.streams import STREAMS, read_parts

NOT_SUPPORTED: Final = frozenset((6, 7))
"""Types of values of modules; `engine.values.rdb.skip` goes past one."""

_REDIS_7_4_VERSION: Final = 12
_VALKEY_9_VERSION: Final = 80

_ELEMENTS: Final = 64  # of a part, where they stand one by one: each may be long

_PLAIN_NODE: Final = 1
_PACKED_NODE: Final = 2

REDIS_EXPIRE_MS_MAX: Final = (1 << 48) - 2
"""The last moment at which a field of Redis may expire."""

_NEVER: Final = -1

Load = Callable[[Reader], Iterable[Content]]


def is_known(version: int) -> bool:
    """Whether it is an RDB version that is read: those of Redis up to 8.0, those of Valkey up to 9.1."""
    return 1 <= version <= _REDIS_7_4_VERSION or version == _VALKEY_9_VERSION


def parts(kind: int, version: int, reader: Reader) -> Iterator[Content]:
    """The parts of the value of type `kind` at `reader`, which together are all of it, none of them empty.

    Within a part no member or field need be unlike the others. A value without any element has no part.

    Raises:
        FormatError: a type that is not known, or bytes that are none. UnsupportedError, TooLargeError: see there.
    """
    if kind in NOT_SUPPORTED:
        raise UnsupportedError("a value of a module")
    if kind in STREAMS:
        return (Content(STREAM, [], stream=part) for part in read_parts(kind, reader))
    load = (_LOADS_OF_REDIS_7_4 if version == _REDIS_7_4_VERSION else _LOADS).get(kind)
    if load is None:
        raise FormatError("unknown type")
    return (part for part in load(reader) if part.texts)


# ------------------------------------------------------------------------------------------------- element by element


def _pieces(count: int) -> Iterator[range]:
    """`count` elements, in ranges of the size of a part."""
    for start in range(0, count, _ELEMENTS):
        yield range(min(_ELEMENTS, count - start))


def _string(reader: Reader) -> Iterable[Content]:
    return (Content(STRING, [reader.string()]),)


def _list(reader: Reader) -> Iterator[Content]:
    for piece in _pieces(reader.count(1)):
        yield Content(LIST, [reader.string() for _ in piece])


def _set(reader: Reader) -> Iterator[Content]:
    for piece in _pieces(reader.count(1)):
        yield Content(SET, [reader.string() for _ in piece])


def _sorted_set(reader: Reader) -> Iterator[Content]:
    for piece in _pieces(reader.count(9, 2)):
        members, scores = [], []
        for _ in piece:
            members.append(reader.string())
            (score,) = unpack("<d", reader.take(8))
            scores.append(score)
        yield _of_scored(members, scores)


def _old_sorted_set(reader: Reader) -> Iterator[Content]:
    for piece in _pieces(reader.count(2, 2)):
        members, scores = [], []
        for _ in piece:
            members.append(reader.string())
            scores.append(_text_score(reader))
        yield _of_scored(members, scores)


def _text_score(reader: Reader) -> float:
    size = reader.byte()
    if size == 0xFE:
        return float("inf")
    if size == 0xFF:
        return float("-inf")
    return _score(reader.take(size) if size != 0xFD else b"nan")


def _hash(reader: Reader) -> Iterator[Content]:
    for piece in _pieces(reader.count(2, 2)):
        yield _of_pairs([text for _ in piece for text in (reader.string(), reader.string())])


def _valkey_hash(reader: Reader) -> Iterator[Content]:
    for piece in _pieces(reader.count(10, 2)):
        texts: list[bytes] = []
        expires_ms = []
        for _ in piece:
            texts += (reader.string(), reader.string())
            expire_ms = reader.integer(8)
            if expire_ms < _NEVER:
                raise FormatError("a time before the epoch")
            expires_ms.append(max(expire_ms, 1) if expire_ms != _NEVER else 0)
        yield _of_pairs(texts, expires_ms)


def _redis_hash(reader: Reader) -> Iterator[Content]:
    return _redis_fields(reader, 1)


def _redis_hash_with_earliest(reader: Reader) -> Iterator[Content]:
    return _redis_fields(reader, reader.integer(8))


def _redis_fields(reader: Reader, earliest_ms: int) -> Iterator[Content]:
    for piece in _pieces(reader.count(3, 2)):
        texts: list[bytes] = []
        expires_ms = []
        for _ in piece:
            left_ms = reader.length()
            expires_ms.append(_redis_time(left_ms + earliest_ms - 1 if left_ms else 0))
            texts += (reader.string(), reader.string())
        yield _of_pairs(texts, expires_ms)


# ------------------------------------------------------------------------------------------------------------- packed


def _quicklist(reader: Reader) -> Iterator[Content]:
    for _ in range(reader.count(1)):
        yield Content(LIST, ziplist(_node(reader)))


def _quicklist_2(reader: Reader) -> Iterator[Content]:
    for _ in range(reader.count(2)):
        kind = reader.length()
        if kind not in (_PLAIN_NODE, _PACKED_NODE):
            raise FormatError("unknown node")
        node = _node(reader)
        yield Content(LIST, [node] if kind == _PLAIN_NODE else listpack(node))


def _node(reader: Reader) -> bytes:
    node = reader.string()
    if not node:
        raise FormatError("an empty node")
    return node


def _packed(of: Callable[[list[bytes]], Content], parse: Callable[[bytes], list[bytes]]) -> Load:
    """What is one string, which `parse` takes apart."""

    def load(reader: Reader) -> Iterable[Content]:
        return (of(parse(reader.string())),)

    return load


def _redis_listpack_with_earliest(reader: Reader) -> Iterable[Content]:
    reader.take(8)  # the times in the listpack are whole ones
    return (_of_triples(listpack(reader.string())),)


# ---------------------------------------------------------------------------------------------------------- validated


def _of_elements(elements: list[bytes]) -> Content:
    return Content(LIST, elements)


def _of_members(members: list[bytes]) -> Content:
    return Content(SET, members)


def _of_pairs(texts: list[bytes], expires_ms: list[int] | None = None) -> Content:
    if len(texts) % 2:
        raise FormatError("a field without a value")
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
    if any(score != score for score in scores):  # noqa: PLR0124 - NaN differs from itself
        raise FormatError("a score that is no number")
    return Content(ZSET, members, scores)


def _score(text: bytes) -> float:
    score = parse_double(text)
    if score is None:
        raise FormatError("a score that is no number")
    return score


def _redis_time(expire_ms: int) -> int:
    if not 0 <= expire_ms <= REDIS_EXPIRE_MS_MAX:
        raise FormatError("a time that Redis cannot have")
    return expire_ms


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
