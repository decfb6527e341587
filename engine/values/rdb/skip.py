"""Goes past values of modules, which are not supported.

    type    value
    7       [module] ([1] signed | [2] unsigned | [3] float:4 | [4] double:8 | [5] string) … [0]

What is in brackets is a length. Source: rdb.c of Valkey 9 and Redis 7.2. The first nine letters of a module's name are
the upper 54 bits of its number, 6 bits a letter.
"""

from __future__ import annotations

from typing import Final

from engine.values.rdb.errors import FormatError
from engine.values.rdb.reader import Reader

MODULE: Final = 7

_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

_END, _SIGNED, _UNSIGNED, _FLOAT, _DOUBLE, _STRING = range(6)
_WIDTHS: Final = {_FLOAT: 4, _DOUBLE: 8}


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
