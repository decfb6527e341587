"""Reads entries of streams by their ids. Source: https://valkey.io/commands/#stream."""

from __future__ import annotations

from itertools import islice

from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.commands.streams.ids import parse_interval, shown
from engine.errors import SYNTAX, CommandError
from engine.model import STREAM
from engine.types.stream import streams
from engine.values.replies import NIL_ARRAY, Reply


@command("XLEN key", group="stream", since="5.0.0", complexity="O(1)", fast=True, access="RO")
def xlen(tx: Transaction, args: list[bytes]) -> Reply:
    """Count the entries of a stream.

    > XADD s 1000-1 name ann
    "1000-1"
    > XLEN s
    (integer) 1
    """
    key = tx.find_typed(args[0], STREAM)
    return 0 if key is None else key.size


@command(
    "XRANGE key start end [COUNT count]",
    group="stream",
    since="5.0.0",
    complexity="O(n) with n entries that are returned",
)
def xrange(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the entries from one id to another, in order. `-` is the lowest id, `+` the highest, `(` leaves one out.

    > XADD s 1000-1 name ann
    "1000-1"
    > XADD s 1000-2 name bob
    "1000-2"
    > XRANGE s - + COUNT 1
    1) 1) "1000-1"
       2) 1) "name"
          2) "ann"
    > XRANGE s (1000-1 1000
    1) 1) "1000-2"
       2) 1) "name"
          2) "bob"
    """
    return _range(tx, args, args[1], args[2], reverse=False)


@command(
    "XREVRANGE key end start [COUNT count]",
    group="stream",
    since="5.0.0",
    complexity="O(n) with n entries that are returned",
)
def xrevrange(tx: Transaction, args: list[bytes]) -> Reply:
    """As XRANGE, from the highest id to the lowest.

    > XADD s 1000-1 name ann
    "1000-1"
    > XADD s 1000-2 name bob
    "1000-2"
    > XREVRANGE s + - COUNT 1
    1) 1) "1000-2"
       2) 1) "name"
          2) "bob"
    """
    return _range(tx, args, args[2], args[1], reverse=True)


def _range(tx: Transaction, args: list[bytes], start: bytes, end: bytes, *, reverse: bool) -> Reply:
    low, high = parse_interval(start, end)
    count = None
    for at in range(3, len(args), 2):
        if read_option(args[at]) != b"COUNT" or at + 1 == len(args):
            raise CommandError(SYNTAX)
        count = read_integer(args[at + 1])
    key = tx.find_typed(args[0], STREAM)
    if key is None:
        return []
    if count is not None and count <= 0:
        return NIL_ARRAY
    return shown(islice(streams.entries(key, low, high, reverse=reverse), count))
