"""Libraries of functions as FUNCTION DUMP gives them and FUNCTION RESTORE takes them.

    ([245] string) … [RDB version:2, little-endian][CRC-64 of all before it:8, little-endian]

Each string is the code of a library. Source: rdb.h and functions.c of Valkey 9; payloads of redis-server 7.0 and
valkey-server 9.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from engine.values.rdb.decode import opened
from engine.values.rdb.encode import pack_string, seal
from engine.values.rdb.errors import FormatError

LIBRARY: Final = 245
_EARLY: Final = 246
_VERSION: Final = 10
"""That of Redis 7.0, the first with functions."""


def library_record(code: bytes) -> bytes:
    """One library, as it stands in a payload and in a file."""
    return bytes((LIBRARY,)) + pack_string(code)


def dump(codes: Iterable[bytes]) -> bytes:
    """The payload of these libraries. O(their bytes).

    Raises:
        TooLargeError: it would be longer than the longest string.
    """
    return seal(map(library_record, codes), _VERSION)


def restored(payload: bytes) -> Iterator[bytes]:
    """The code of each library in a payload.

    Raises:
        VersionError, FormatError, TooLargeError: see there. Nothing else, whatever the bytes are.
    """
    _, reader = opened(payload)
    while reader.left():
        kind = reader.byte()
        if kind == _EARLY:
            raise FormatError("Pre-GA function format not supported")
        if kind != LIBRARY:
            raise FormatError("given type is not a function")
        try:
            code = reader.string()
        except FormatError:
            raise FormatError("Failed loading library payload") from None
        yield code
