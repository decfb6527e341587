"""The reply of OBJECT ENCODING: how Redis would hold such a value in memory.

    string   int: a 64-bit integer in its canonical digits      embstr: at most 44 bytes      raw
    list     listpack: in one node of list-max-listpack-size    quicklist
    hash     listpack: few fields and values, none of them long      hashtable
    set      intset: few members, all integers    listpack: few and none of them long    hashtable
    zset     listpack: few members, none of them long    skiplist
    stream   stream

Here nothing is held like that. Redis' answer depends on how a value came about as well (a hash that was large once
stays a hashtable); this one is a function of the content alone, for a list as if its elements had been pushed one by
one. It reads no more elements than the thresholds allow for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final

from engine.batch.keys.fragments import length
from engine.batch.keys.key import Key
from engine.model import HASH, LIST, SET, STREAM, STRING, ZSET
from engine.values.numbers import parse_int

DEFAULT_KNOBS: Final[Mapping[str, int]] = {
    "hash-max-listpack-entries": 512,
    "hash-max-listpack-value": 64,
    "list-max-listpack-size": -2,
    "set-max-intset-entries": 512,
    "set-max-listpack-entries": 128,
    "set-max-listpack-value": 64,
    "zset-max-listpack-entries": 128,
    "zset-max-listpack-value": 64,
}
"""Redis' settings and their defaults: entries, bytes of an element; for list-max-listpack-size see `_fits_a_node`."""

_EMBEDDED_BYTES_MAX: Final = 44

# A listpack: 6 bytes of header and 1 at the end; an element takes its encoded bytes and 1 to 5 for going backwards.
_LISTPACK_BYTES: Final = 7
_NODE_BYTES_MAX: Final = {-1: 4096, -2: 8192, -3: 16384, -4: 32768, -5: 65536}
_COUNTED_NODE_BYTES_MAX: Final = 8192
_LEAST_ELEMENT_BYTES: Final = 2


def object_encoding(key: Key, knobs: Mapping[str, int]) -> bytes:
    """The encoding of a key that is alive."""
    return _ENCODINGS[key.type](key, knobs)


def _string(key: Key, knobs: Mapping[str, int]) -> bytes:
    if parse_int(key.value) is not None:
        return b"int"
    return b"embstr" if length(key) <= _EMBEDDED_BYTES_MAX else b"raw"


def _list(key: Key, knobs: Mapping[str, int]) -> bytes:
    return b"listpack" if _fits_a_node(key, knobs["list-max-listpack-size"]) else b"quicklist"


def _hash(key: Key, knobs: Mapping[str, int]) -> bytes:
    if key.times is not None:  # a listpack of Redis has no place for times to live
        return b"hashtable"
    texts = chain.from_iterable(key.data.scan())
    return b"listpack" if _is_small(key, "hash", texts, knobs) else b"hashtable"


def _set(key: Key, knobs: Mapping[str, int]) -> bytes:
    is_short = not key.has_more_than(knobs["set-max-intset-entries"])
    if is_short and all(parse_int(member) is not None for member in _members(key)):
        return b"intset"
    return b"listpack" if _is_small(key, "set", _members(key), knobs) else b"hashtable"


def _zset(key: Key, knobs: Mapping[str, int]) -> bytes:
    return b"listpack" if _is_small(key, "zset", _members(key), knobs) else b"skiplist"


_ENCODINGS: Final[dict[int, Callable[[Key, Mapping[str, int]], bytes]]] = {
    STRING: _string,
    LIST: _list,
    HASH: _hash,
    SET: _set,
    ZSET: _zset,
    STREAM: lambda _key, _knobs: b"stream",
}


def _members(key: Key) -> Iterator[bytes]:
    return (member for member, _ in key.data.scan())


def _is_small(key: Key, kind: str, texts: Iterator[bytes], knobs: Mapping[str, int]) -> bool:
    """Whether there are few enough elements, and none of them is too long."""
    longest = knobs[f"{kind}-max-listpack-value"]
    return not key.has_more_than(knobs[f"{kind}-max-listpack-entries"]) and all(len(text) <= longest for text in texts)


def _fits_a_node(key: Key, size: int) -> bool:
    """Whether a list fits one node: of so many elements (and 8 KiB), or below zero of 4, 8, 16, 32 or 64 KiB.

    What is compared is the listpack before the last push and the bare bytes of the last element.
    """
    bytes_max = _NODE_BYTES_MAX[max(size, -5)] if size < 0 else _COUNTED_NODE_BYTES_MAX
    if key.size > (max(size, 1) if size >= 0 else bytes_max // _LEAST_ELEMENT_BYTES):
        return False
    total, last = _LISTPACK_BYTES, b""
    for number, (_, element) in enumerate(key.data.scan()):
        total += _element_bytes(last) if number else 0
        last = element
        if total + len(last) > bytes_max:
            return False
    return True


def _element_bytes(element: bytes) -> int:
    """What an element takes in a listpack."""
    length = len(element)
    number = parse_int(element)
    if number is not None:
        encoded = _integer_bytes(number)
    elif length < 1 << 6:
        encoded = 1 + length
    else:
        encoded = (2 if length < 1 << 12 else 5) + length
    backwards = 1 + sum(encoded >= 1 << bits for bits in (7, 14, 21, 28))
    return encoded + backwards


def _integer_bytes(number: int) -> int:
    if 0 <= number < 1 << 7:
        return 1
    for encoded, bits in ((2, 13), (3, 16), (4, 24), (5, 32)):
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return encoded
    return 9
