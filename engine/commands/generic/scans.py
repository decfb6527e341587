"""SCAN, HSCAN, SSCAN and ZSCAN.

The cursor of a call comes from the one before it; 0 begins and ends. What is there during all of it is returned at
least once (`engine.batch.cursors`). Source: https://valkey.io/commands/scan/.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.batch.keyspace import StoredKey
from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.errors import INVALID_CURSOR, SYNTAX, CommandError
from engine.model import HASH, LIST, NONE, SET, STREAM, STRING, ZSET
from engine.types.generic import scans
from engine.types.hash import hash_fields
from engine.values.encoding import parse_score
from engine.values.glob import matcher
from engine.values.numbers import parse_int
from engine.values.replies import Reply
from slotlog.shared.doubles import format_double

_COUNT: Final = 10
_UINT64: Final = 1 << 64
_C_INTEGER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?)([0-9]+)")

_TYPES: Final = {
    b"STRING": STRING,
    b"LIST": LIST,
    b"SET": SET,
    b"ZSET": ZSET,
    b"HASH": HASH,
    b"STREAM": STREAM,
}
_FOR_HASHES: Final = "ERR NOVALUES option can only be used in HSCAN"
_FOR_SORTED_SETS: Final = "ERR NOSCORES option can only be used in ZSCAN"


class _Options(NamedTuple):
    """What follows the cursor: how many to look at, which are wanted (None: all), and whether values are left out."""

    wanted: int
    matches: Callable[[bytes], bool] | None
    type: int | None
    bare: bool


@command(
    "SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]",
    group="generic",
    since="2.8.0",
    complexity="O(COUNT) for a call",
    by_wall=True,
    physical=True,
    tips=("request_policy:special", "response_policy:special"),
)
def scan(tx: Transaction, args: list[bytes]) -> Reply:
    """Return some keys and the cursor of the next call, which is 0 at the end.

    COUNT, 10 unless said, is how many keys a call looks at; MATCH and TYPE choose among these.

    > SET a "1"
    OK
    > SCAN 0 MATCH a* COUNT 100 TYPE string
    1) "0"
    2) 1) "a"
    """
    cursor = parse_cursor(args[0])
    options = _parse_options(args[1:], None)
    now_ms, type_code, matches = tx.now_ms, options.type, options.matches

    def is_wanted(entry: StoredKey) -> bool:
        if type_code is not None and entry.metadata.type != type_code:
            return False
        return (matches is None or matches(entry.name)) and entry.is_alive(now_ms)

    cursor, names = scans.keys(tx, cursor, options.wanted, is_wanted)
    return [b"%d" % cursor, names]


@command(
    "HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
    group="hash",
    since="2.8.0",
    complexity="O(COUNT) for a call",
    physical=True,
    whole_in_scripts=True,
)
def hscan(tx: Transaction, args: list[bytes]) -> Reply:
    """Return some fields of a hash with their values (NOVALUES: without), and the cursor of the next call.

    > HSET h f "1" g "2"
    (integer) 2
    > HSCAN h 0 MATCH f*
    1) "0"
    2) 1) "f"
       2) "1"
    > HSCAN h 0 NOVALUES
    1) "0"
    2) 1) "f"
       2) "g"
    """
    return _scan_collection(tx, args, HASH, bytes)


@command(
    "SSCAN key cursor [MATCH pattern] [COUNT count]",
    group="set",
    since="2.8.0",
    complexity="O(COUNT) for a call",
    physical=True,
    whole_in_scripts=True,
)
def sscan(tx: Transaction, args: list[bytes]) -> Reply:
    """Return some members of a set, and the cursor of the next call.

    > SADD s 1 2
    (integer) 2
    > SSCAN s 0 COUNT 100
    1) "0"
    2) 1) "1"
       2) "2"
    """
    return _scan_collection(tx, args, SET, None)


@command(
    "ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]",
    group="sorted-set",
    since="2.8.0",
    complexity="O(COUNT) for a call",
    physical=True,
    whole_in_scripts=True,
)
def zscan(tx: Transaction, args: list[bytes]) -> Reply:
    """Return some members of a sorted set with their scores (NOSCORES: without), and the cursor of the next call.

    In the order of the members' bytes; all of them at once by score, as Redis gives a small sorted set.

    > ZADD z 1 "a" 2.5 "b"
    (integer) 2
    > ZSCAN z 0 MATCH b
    1) "0"
    2) 1) "b"
       2) "2.5"
    """
    return _scan_collection(tx, args, ZSET, lambda packed: format_double(parse_score(packed)))


def _scan_collection(
    tx: Transaction, args: list[bytes], type_code: int, show: Callable[[bytes], bytes] | None
) -> Reply:
    """Redis reads the options only when there is a key. `show` makes the reply of a value, None for no values."""
    cursor = parse_cursor(args[1])
    key = hash_fields.find(tx, args[0]) if type_code == HASH else tx.find_typed(args[0], type_code)
    if key is None:
        return [b"0", []]
    options = _parse_options(args[2:], type_code)
    begins = not cursor
    if tx.runner.runs_event:  # a cursor would depend on what this process remembers
        cursor, found = 0, scans.rest(key, cursor)
    else:
        cursor, found = scans.subkeys(tx, key, cursor, options.wanted)
    if type_code == ZSET and begins and not cursor:
        found = sorted(found, key=lambda pair: (parse_score(pair[1]), pair[0]))
    if options.matches is not None:
        found = [pair for pair in found if options.matches(pair[0])]
    if show is None or options.bare:
        return [b"%d" % cursor, [subkey for subkey, _ in found]]
    return [b"%d" % cursor, [part for subkey, value in found for part in (subkey, show(value))]]


def parse_cursor(text: bytes) -> int:
    """A number as C's strtoull reads it, wrapped where it is negative, though a plain one must not be.

    Raises:
        CommandError: it is none.
    """
    plain = parse_int(text.partition(b"\0")[0])
    if plain is not None and plain < 0:
        raise CommandError(INVALID_CURSOR)
    found = _C_INTEGER.fullmatch(text.partition(b"\0")[0])
    number = int(found[2]) if found and len(found[2]) < 1000 else _UINT64
    if found is None or number >= _UINT64:
        raise CommandError(INVALID_CURSOR)
    return -number % _UINT64 if found[1] == b"-" else number


def _parse_options(words: list[bytes], type_code: int | None) -> _Options:
    """The options in a collection of that type, None for those of SCAN."""
    count, matches, wanted, bare = _COUNT, None, None, False
    at = 0
    while at < len(words):
        option, has_value = read_option(words[at]), at + 1 < len(words)
        if option == b"COUNT" and has_value:
            count = _parse_count(words[at + 1])
        elif option == b"MATCH" and has_value:
            pattern = words[at + 1]
            matches = None if pattern == b"*" else matcher(pattern)
        elif option == b"TYPE" and has_value and type_code is None:
            wanted = _parse_type(words[at + 1])
        elif option in {b"NOVALUES", b"NOSCORES"}:
            if type_code != (HASH if option == b"NOVALUES" else ZSET):
                raise CommandError(_FOR_HASHES if option == b"NOVALUES" else _FOR_SORTED_SETS)
            bare = True
            at -= 1
        else:
            raise CommandError(SYNTAX)
        at += 2
    return _Options(count, matches, wanted, bare)


def _parse_count(text: bytes) -> int:
    count = read_integer(text)
    if count < 1:
        raise CommandError(SYNTAX)
    return count


def _parse_type(word: bytes) -> int:
    """The code of the type; of a name that is none, one that no key has, as Redis finds nothing by it."""
    return _TYPES.get(read_option(word), NONE)
