"""Commands that count, and that read or change a part of a string. Source: https://valkey.io/commands/#string."""

from __future__ import annotations

from engine.batch.transaction import Transaction
from engine.commands.options import read_integer
from engine.commands.registry import command
from engine.errors import (
    DECREMENT_OVERFLOW,
    INCREMENT_NAN,
    NOT_A_FLOAT,
    OFFSET_OUT_OF_RANGE,
    STRING_TOO_LONG,
    CommandError,
)
from engine.limits import STRING_BYTES_MAX
from engine.model import STRING
from engine.types.string import strings
from engine.values.numbers import INT_MIN, ZERO, add_long_doubles, format_long_double, parse_long_double
from engine.values.replies import Reply

# ------------------------------------------------------------------ numbers


@command(
    "INCR key",
    group="string",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW access update",
    notifies="incrby",
)
def incr(tx: Transaction, args: list[bytes]) -> Reply:
    """Add 1 to the integer in a string; an absent key counts as 0. Returns the sum.

    > INCR a
    (integer) 1
    > INCR a
    (integer) 2
    > SET a "two"
    OK
    > INCR a
    (error) ERR value is not an integer or out of range
    """
    return strings.increment(tx, args[0], 1)


@command(
    "DECR key",
    group="string",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW access update",
    notifies="incrby",
)
def decr(tx: Transaction, args: list[bytes]) -> Reply:
    """Subtract 1 from the integer in a string; an absent key counts as 0. Returns the difference.

    > DECR a
    (integer) -1
    """
    return strings.increment(tx, args[0], -1)


@command(
    "INCRBY key increment",
    group="string",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW access update",
    notifies="incrby",
)
def incrby(tx: Transaction, args: list[bytes]) -> Reply:
    """Add to the integer in a string; an absent key counts as 0. Returns the sum.

    > INCRBY a 40
    (integer) 40
    > INCRBY a 9223372036854775807
    (error) ERR increment or decrement would overflow
    """
    return strings.increment(tx, args[0], read_integer(args[1]))


@command(
    "DECRBY key decrement",
    group="string",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW access update",
    notifies="incrby",
)
def decrby(tx: Transaction, args: list[bytes]) -> Reply:
    """Subtract from the integer in a string; an absent key counts as 0. Returns the difference.

    > DECRBY a 40
    (integer) -40
    """
    decrement = read_integer(args[1])
    if decrement == INT_MIN:
        raise CommandError(DECREMENT_OVERFLOW)
    return strings.increment(tx, args[0], -decrement)


@command(
    "INCRBYFLOAT key increment",
    group="string",
    since="2.6.0",
    complexity="O(1)",
    write=True,
    fast=True,
    grows=True,
    access="RW access update",
    notifies="incrbyfloat",
)
def incrbyfloat(tx: Transaction, args: list[bytes]) -> Reply:
    """Add to the number in a string, with the precision of an 80-bit float; an absent key counts as 0.

    > SET a "10.5"
    OK
    > INCRBYFLOAT a 0.1
    "10.6"
    > INCRBYFLOAT a -5.0e3
    "-4989.39999999999999991"
    """
    key = tx.find_typed(args[0], STRING)
    old = ZERO if key is None else parse_long_double(strings.spelled(key))
    increment = parse_long_double(args[1])
    if old is None or increment is None:
        raise CommandError(NOT_A_FLOAT)
    total = add_long_doubles(old, increment)
    if total is None:
        raise CommandError(INCREMENT_NAN)
    value = format_long_double(total)
    strings.replace(tx, args[0], key, value)
    return value


# ------------------------------------------------------------------ parts of a value


@command(
    "APPEND key value",
    group="string",
    since="2.0.0",
    complexity="O(bytes appended)",
    write=True,
    fast=True,
    grows=True,
    access="RW insert",
    notifies="append",
)
def append(tx: Transaction, args: list[bytes]) -> Reply:
    """Append bytes to a string. Returns its new length.

    > APPEND a "Hello"
    (integer) 5
    > APPEND a " World"
    (integer) 11
    > GET a
    "Hello World"
    """
    name, tail = args
    key = tx.find_typed(name, STRING)
    length = 0 if key is None else strings.length(key)
    _check_length(length + len(tail))
    return strings.write_range(tx, name, key, length, tail)


@command("STRLEN key", group="string", since="2.2.0", complexity="O(1)", fast=True, access="RO")
def strlen(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the length of a string in bytes, 0 for an absent key.

    > SET a "Hello"
    OK
    > STRLEN a
    (integer) 5
    """
    key = tx.find_typed(args[0], STRING)
    return 0 if key is None else strings.length(key)


@command("GETRANGE key start end", group="string", since="2.4.0", complexity="O(bytes returned)")
def getrange(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the bytes of a string from `start` to `end`, both included; negative ones count from the end.

    > SET a "Hello World"
    OK
    > GETRANGE a 0 4
    "Hello"
    > GETRANGE a -5 -1
    "World"
    > GETRANGE a 5 1
    ""
    """
    start, end = read_integer(args[1]), read_integer(args[2])
    key = tx.find_typed(args[0], STRING)
    if key is None or (start < 0 and end < 0 and start > end):
        return b""
    length = strings.length(key)
    start = max(start + length, 0) if start < 0 else start
    end = max(end + length, 0) if end < 0 else end
    return strings.read_range(tx, key, start, end + 1)


@command("SUBSTR key start end", group="string", since="1.0.0", complexity="O(bytes returned)")
def substr(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a part of a string, as GETRANGE does: its old name.

    > SET a "hello"
    OK
    > SUBSTR a 1 2
    "el"
    """
    return getrange(tx, args)


@command(
    "SETRANGE key offset value",
    group="string",
    since="2.2.0",
    complexity="O(bytes written)",
    write=True,
    grows=True,
    notifies="setrange",
)
def setrange(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Overwrite a string from `offset` on; zero bytes fill the gap after its end. Returns its new length.

    > SET a "Hello World"
    OK
    > SETRANGE a 6 "Redis"
    (integer) 11
    > GET a
    "Hello Redis"
    > SETRANGE b 2 "x"
    (integer) 3
    > GET b
    "\x00\x00x"
    """
    name, patch = args[0], args[2]
    offset = read_integer(args[1])
    if offset < 0:
        raise CommandError(OFFSET_OUT_OF_RANGE)
    key = tx.find_typed(name, STRING)
    if not patch:
        return 0 if key is None else strings.length(key)
    _check_length(offset + len(patch))
    return strings.write_range(tx, name, key, offset, patch)


def _check_length(length: int) -> None:
    if length > STRING_BYTES_MAX:
        raise CommandError(STRING_TOO_LONG)
