"""Replies of Redis 7.4 that differ from the oracle, Valkey 9.1: slotlog follows Redis.

Where one of the two does something that the other refuses, a command is not drawn at all, or its literal reply stands
in a test of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from engine.commands.options import read_option
from engine.errors import (
    FIELD_TIME_NEGATIVE,
    FIELDS_MISSING,
    FIELDS_NOT_MATCHING,
    NO_SUCH_MEMBER,
    NOT_AN_INTEGER,
    NUMFIELDS_NOT_POSITIVE,
    NUMFIELDS_TOO_SMALL,
    SYNTAX,
    WRONG_TYPE,
)

_OF_FIELDS: Final = frozenset(
    b"HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HPERSIST HTTL HPTTL HEXPIRETIME HPEXPIRETIME".split()
)
_FIELD_ERRORS: Final = frozenset(
    text.encode()
    for text in (
        *(FIELDS_MISSING, FIELDS_NOT_MATCHING, NUMFIELDS_TOO_SMALL, NUMFIELDS_NOT_POSITIVE, FIELD_TIME_NEGATIVE),
        *(WRONG_TYPE, NOT_AN_INTEGER),  # the key and the time are looked at before the words behind them
    )
)
_SORTS: Final = frozenset((b"SORT", b"SORT_RO"))
_NO_NUMBER: Final = b"-ERR One or more scores can't be converted into double\r\n"
_ROUNDED_UP: Final = frozenset((b"HTTL", b"HEXPIRETIME"))


def is_of_redis(request: Sequence[bytes], oracle: bytes, slotlog: bytes) -> bool:
    """Whether two replies to one command, encoded, differ as Redis 7.4 and the oracle do."""
    name, args = request[0].upper(), request[1:]
    if name in _SORTS and b"STORE" not in map(read_option, args):
        return oracle == _NO_NUMBER and not slotlog.startswith(b"-")
    if name == b"BITCOUNT" and len(args) == 2:
        return slotlog == b"-%b\r\n" % SYNTAX.encode()
    if name == b"SCAN" and b"TYPE" in map(read_option, args):
        return oracle.startswith(b"-ERR unknown type name '")
    if not (oracle.startswith(b"-") and slotlog.startswith(b"-")):
        return False
    text = slotlog[1:-2]
    if name in _OF_FIELDS:
        return text in _FIELD_ERRORS or b"invalid expire time in" in text
    return text == NO_SUCH_MEMBER.encode() and oracle.startswith(b"-ERR member ")


def are_rounded(name: bytes, expected: Any, actual: Any) -> bool:
    """Whether two times of fields in seconds are the same, which Redis 7.4 rounds up and the oracle to the nearest."""
    sides = [[side] if isinstance(side, int) else side for side in (expected, actual)]
    return name in _ROUNDED_UP and all(
        ours == theirs or (theirs >= 0 and ours == theirs + 1) for theirs, ours in zip(*sides, strict=True)
    )
