"""Commands on the ends of a list and on its indexes. Source: https://valkey.io/commands/#list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands import fills
from engine.commands.options import read_integer
from engine.commands.registry import command
from engine.errors import INDEX_OUT_OF_RANGE, NO_SUCH_KEY, OUT_OF_RANGE_POSITIVE, CommandError
from engine.model import LIST
from engine.types import lists
from engine.values.numbers import parse_int
from engine.values.replies import NIL_ARRAY, OK, Reply
from slotlog.shared.errors import wrong_arity

_INT32_HALF: Final = 1 << 31

# ------------------------------------------------------------------ pushing and popping


@command(
    "LPUSH key element [element ...]",
    group="list",
    since="1.0.0",
    complexity="O(elements)",
    write=True,
    fast=True,
    grows=True,
    access="RW insert",
    fills=fills.pushed,
    notifies="lpush",
)
def lpush(tx: Transaction, args: list[bytes]) -> Reply:
    """Insert elements at the head, one after the other. Returns the new length.

    > LPUSH l a b
    (integer) 2
    > LRANGE l 0 -1
    1) "b"
    2) "a"
    """
    name = args[0]
    return lists.push_head(tx, name, tx.find_typed(name, LIST), args[1:])


@command(
    "RPUSH key element [element ...]",
    group="list",
    since="1.0.0",
    complexity="O(elements)",
    write=True,
    fast=True,
    grows=True,
    access="RW insert",
    fills=fills.pushed,
    notifies="rpush",
)
def rpush(tx: Transaction, args: list[bytes]) -> Reply:
    """Append elements at the tail, one after the other. Returns the new length.

    > RPUSH l a b
    (integer) 2
    > LRANGE l 0 -1
    1) "a"
    2) "b"
    """
    name = args[0]
    return lists.push_tail(tx, name, tx.find_typed(name, LIST), args[1:])


@command(
    "LPUSHX key element [element ...]",
    group="list",
    since="2.2.0",
    complexity="O(elements)",
    write=True,
    fast=True,
    grows=True,
    access="RW insert",
    notifies="lpush",
)
def lpushx(tx: Transaction, args: list[bytes]) -> Reply:
    """Insert elements at the head of a list that exists. Returns the new length, 0 when there is no list.

    > LPUSHX l a
    (integer) 0
    > LPUSH l a
    (integer) 1
    > LPUSHX l b
    (integer) 2
    """
    name = args[0]
    key = tx.find_typed(name, LIST)
    return 0 if key is None else lists.push_head(tx, name, key, args[1:])


@command(
    "RPUSHX key element [element ...]",
    group="list",
    since="2.2.0",
    complexity="O(elements)",
    write=True,
    fast=True,
    grows=True,
    access="RW insert",
    notifies="rpush",
)
def rpushx(tx: Transaction, args: list[bytes]) -> Reply:
    """Append elements at the tail of a list that exists. Returns the new length, 0 when there is no list.

    > RPUSHX l a
    (integer) 0
    > RPUSH l a
    (integer) 1
    > RPUSHX l b
    (integer) 2
    """
    name = args[0]
    key = tx.find_typed(name, LIST)
    return 0 if key is None else lists.push_tail(tx, name, key, args[1:])


@command(
    "LPOP key [count]",
    group="list",
    since="1.0.0",
    complexity="O(elements taken)",
    write=True,
    fast=True,
    access="RW access delete",
    large_reply=True,
    notifies="lpop",
)
def lpop(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove and return the first element, or up to `count` elements; nil when there is no list.

    > RPUSH l a b c d
    (integer) 4
    > LPOP l
    "a"
    > LPOP l 2
    1) "b"
    2) "c"
    """
    return _pop(tx, args, "lpop", lists.pop_head)


@command(
    "RPOP key [count]",
    group="list",
    since="1.0.0",
    complexity="O(elements taken)",
    write=True,
    fast=True,
    access="RW access delete",
    large_reply=True,
    notifies="rpop",
)
def rpop(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove and return the last element, or up to `count`, the last one first; nil when there is no list.

    > RPUSH l a b c d
    (integer) 4
    > RPOP l
    "d"
    > RPOP l 2
    1) "c"
    2) "b"
    """
    return _pop(tx, args, "rpop", lists.pop_tail)


def _pop(
    tx: Transaction, args: list[bytes], command_name: str, pop: Callable[[Transaction, Key, int], list[bytes]]
) -> Reply:
    if len(args) == 1:
        key = tx.find_typed(args[0], LIST)
        return None if key is None else pop(tx, key, 1)[0]
    if len(args) > 2:
        raise CommandError(wrong_arity(command_name))
    count = parse_int(args[1])
    if count is None or count < 0:
        raise CommandError(OUT_OF_RANGE_POSITIVE)
    key = tx.find_typed(args[0], LIST)
    return NIL_ARRAY if key is None else pop(tx, key, count)


# ------------------------------------------------------------------ reading and changing by index


@command("LLEN key", group="list", since="1.0.0", complexity="O(1)", fast=True, access="RO")
def llen(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the length of a list, O(1).

    > RPUSH l a b
    (integer) 2
    > LLEN l
    (integer) 2
    """
    key = tx.find_typed(args[0], LIST)
    return 0 if key is None else key.size


@command("LINDEX key index", group="list", since="1.0.0", complexity="O(1)")
def lindex(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the element at an index, from 0 at the head or -1 at the tail; nil outside the list. One read.

    > RPUSH l a b c
    (integer) 3
    > LINDEX l 0
    "a"
    > LINDEX l -1
    "c"
    > LINDEX l 3
    (nil)
    """
    key = tx.find_typed(args[0], LIST)
    if key is None:
        return None
    position = _position(key, read_integer(args[1]))
    return None if position is None else lists.element(key, position)


@command(
    "LSET key index element", group="list", since="1.0.0", complexity="O(1)", write=True, grows=True, notifies="lset"
)
def lset(tx: Transaction, args: list[bytes]) -> Reply:
    """Replace the element at an index, from 0 at the head or -1 at the tail.

    > RPUSH l a b c
    (integer) 3
    > LSET l -1 "z"
    OK
    > LRANGE l 0 -1
    1) "a"
    2) "b"
    3) "z"
    > LSET l 3 "z"
    (error) ERR index out of range
    """
    key = tx.find_typed(args[0], LIST)
    if key is None:
        raise CommandError(NO_SUCH_KEY)
    # Redis keeps this one index in a 32-bit C integer: what does not fit wraps around, so 4294967295 is -1.
    index = (read_integer(args[1]) + _INT32_HALF) % (2 * _INT32_HALF) - _INT32_HALF
    position = _position(key, index)
    if position is None:
        raise CommandError(INDEX_OUT_OF_RANGE)
    lists.replace(key, position, args[2])
    return OK


@command("LRANGE key start stop", group="list", since="1.0.0", complexity="O(elements returned)")
def lrange(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the elements from one index to another, both included; negative ones count from the tail.

    > RPUSH l a b c d
    (integer) 4
    > LRANGE l 1 2
    1) "b"
    2) "c"
    > LRANGE l -2 100
    1) "c"
    2) "d"
    > LRANGE l 5 9
    (empty array)
    """
    start, stop = read_integer(args[1]), read_integer(args[2])
    key = tx.find_typed(args[0], LIST)
    return [] if key is None else lists.elements(key, *_span(key, start, stop))


@command(
    "LTRIM key start stop",
    group="list",
    since="1.0.0",
    complexity="O(elements removed); O(1) when none is left",
    write=True,
    access="RW delete",
    notifies="ltrim",
)
def ltrim(tx: Transaction, args: list[bytes]) -> Reply:
    """Keep the elements from one index to another, both included; negative ones count from the tail.

    > RPUSH l a b c d
    (integer) 4
    > LTRIM l 1 -2
    OK
    > LRANGE l 0 -1
    1) "b"
    2) "c"
    """
    start, stop = read_integer(args[1]), read_integer(args[2])
    key = tx.find_typed(args[0], LIST)
    if key is not None:
        lists.trim(tx, key, *_span(key, start, stop))
    return OK


def _position(key: Key, index: int) -> int | None:
    """Where a Redis index points to, counted from the head; None outside the list."""
    position = index + key.size if index < 0 else index
    return position if 0 <= position < key.size else None


def _span(key: Key, start: int, stop: int) -> tuple[int, int]:
    """The positions, first and exclusive end, of a Redis range of indexes; equal when it is empty."""
    size = key.size
    first = max(start + size, 0) if start < 0 else start
    end = min(stop + size + 1 if stop < 0 else stop + 1, size)
    return (first, end) if first < end else (0, 0)
