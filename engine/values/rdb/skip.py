"""Goes past values that are not supported: streams, and those of modules.

    type    value
    15      stream    [n] (id, listpack) … [elements] [last id: 2] [n] group …
    19      stream    as 15, with [first id: 2] [highest deleted id: 2] [elements ever] before the groups
    21      stream    as 19, with the time of its last success behind that of each consumer
    7       module    [module] ([1] signed | [2] unsigned | [3] float:4 | [4] double:8 | [5] string) … [0]

    group     name [last id: 2] [elements read, not in 15] [n] (id:16, time:8, [deliveries]) … [n] consumer …
    consumer  name, seen:8, [n] id:16 …

What is in brackets is a length, an id there two of them. Source: rdb.c of Valkey 9 and Redis 7.2. The first nine
letters of a module's name are the upper 54 bits of its number, 6 bits a letter.
"""

from __future__ import annotations

from typing import Final

from engine.values.rdb.errors import FormatError
from engine.values.rdb.reader import Reader

STREAMS: Final = frozenset((15, 19, 21))
MODULE: Final = 7

_OLDEST: Final = 15
_NEWEST: Final = 21
_ID_BYTES: Final = 16
_TIME_BYTES: Final = 8
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

_END, _SIGNED, _UNSIGNED, _FLOAT, _DOUBLE, _STRING = range(6)
_WIDTHS: Final = {_FLOAT: 4, _DOUBLE: 8}


def skip_stream(kind: int, reader: Reader) -> None:
    """Go past a stream of type `kind`.

    Raises:
        FormatError: it is none.
    """
    for _ in range(reader.count(2)):
        reader.string()
        reader.string()
    for _ in range(3 if kind == _OLDEST else 8):
        reader.length()
    for _ in range(reader.count(4)):
        reader.string()
        for _ in range(2 if kind == _OLDEST else 3):
            reader.length()
        for _ in range(reader.count(_ID_BYTES + _TIME_BYTES + 1)):
            reader.take(_ID_BYTES + _TIME_BYTES)
            reader.length()
        for _ in range(reader.count(_TIME_BYTES + 2)):
            reader.string()
            reader.take(2 * _TIME_BYTES if kind == _NEWEST else _TIME_BYTES)
            for _ in range(reader.count(_ID_BYTES)):
                reader.take(_ID_BYTES)


def skip_module(reader: Reader) -> str:
    """Go past what a module has written, number of the module included. Returns the module's name.

    Raises:
        FormatError: it is none.
    """
    name = _module_name(reader.length())
    while (kind := reader.length()) != _END:
        if kind in (_SIGNED, _UNSIGNED):
            reader.length()
        elif kind in _WIDTHS:
            reader.take(_WIDTHS[kind])
        elif kind == _STRING:
            reader.string()
        else:
            raise FormatError("a module's value of unknown kind")
    return name


def _module_name(number: int) -> str:
    letters = bytes(_LETTERS[number >> shift & 0x3F] for shift in range(58, 9, -6))
    return letters.decode()
