"""Commands for transactions: watches, and the database of each step of an EXEC.

EXEC itself is an event with many commands and stands in `engine.apply.machine`. A session is named by the event (field
`session`). Source: https://valkey.io/commands/#transactions.
"""

from __future__ import annotations

from typing import Final

from engine.batch.transaction import Transaction
from engine.commands.options import read_integer
from engine.commands.registry import command
from engine.errors import DB_OUT_OF_RANGE, CommandError
from engine.types.generic import sessions
from engine.values.numbers import parse_int
from engine.values.replies import OK, Reply
from slotlog.shared.limits import DATABASES

_C_INT_MIN: Final = -(2**31)
_C_INT_MAX: Final = 2**31 - 1


@command(
    "WATCH key [key ...]",
    group="transactions",
    since="2.2.0",
    complexity="O(keys)",
    write=True,
    transactional=False,
    sessional=True,
    access="RO",
    notifies="",
)
def watch(tx: Transaction, args: list[bytes]) -> Reply:
    """Watch keys for the session: its next EXEC does nothing and answers nil if one was modified or has expired.

    An EXEC that names a session which watches nothing does nothing either: what it has watched is forgotten.

    > WATCH a b
    OK
    """
    if tx.session is not None:
        sessions.watch(tx, tx.session, args)
    return OK


@command(
    "UNWATCH",
    group="transactions",
    since="2.2.0",
    complexity="O(watched keys)",
    write=True,
    sessional=True,
    notifies="",
)
def unwatch(tx: Transaction, args: list[bytes]) -> Reply:
    """End the session's watches. In a transaction it changes nothing: EXEC has ended them already.

    > UNWATCH
    OK
    """
    if tx.session is not None:
        sessions.end_watches(tx, tx.session)
    return OK


@command(
    "SELECT index",
    group="connection",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    alone=False,
    standalone=True,
    database="named",
    databases=lambda args: args[:1],
    notifies="",
)
def select(tx: Transaction, args: list[bytes]) -> Reply:
    """Run the transaction's further commands in that database. It is no event by itself: an event names its database.

    > SELECT 3
    OK
    > SELECT 16
    (error) ERR DB index is out of range
    """
    index = read_integer(args[0])
    if not _C_INT_MIN <= index <= _C_INT_MAX:
        message = f"ERR value is out of range, value must between {_C_INT_MIN} and {_C_INT_MAX}"
        raise CommandError(message)
    _check_index(index)
    tx.select(index)
    return OK


@command(
    "SWAPDB index1 index2",
    group="server",
    since="4.0.0",
    complexity="O(1)",
    write=True,
    standalone=True,
    fast=True,
    categories=("keyspace", "dangerous"),
    database="named",
    databases=lambda args: args[:2],
    notifies="",
)
def swapdb(tx: Transaction, args: list[bytes]) -> Reply:
    """Swap two databases: the clients of each see the keys of the other. O(1).

    > SET a "1"
    OK
    > SWAPDB 0 1
    OK
    > EXISTS a
    (integer) 0
    > SWAPDB 0 x
    (error) ERR invalid second DB index
    """
    first, second = _parse_index(args[0], "first"), _parse_index(args[1], "second")
    _check_index(first)
    _check_index(second)
    sessions.swap_databases(tx, first, second)
    return OK


def _parse_index(text: bytes, which: str) -> int:
    index = parse_int(text)
    if index is None or not _C_INT_MIN <= index <= _C_INT_MAX:
        message = f"ERR invalid {which} DB index"
        raise CommandError(message)
    return index


def _check_index(index: int) -> None:
    if not 0 <= index < DATABASES:
        raise CommandError(DB_OUT_OF_RANGE)
