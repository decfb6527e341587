"""BITOP combines bitmaps. Source: https://redis.io/docs/latest/commands/bitop/."""

from __future__ import annotations

from typing import Final

from engine.batch.transaction import Transaction
from engine.commands import keyspace_events
from engine.commands.keyspace_events import stored
from engine.commands.options import read_option
from engine.commands.registry import command
from engine.errors import BITOP_NOT_ONE_SOURCE, SYNTAX, CommandError
from engine.model import STRING
from engine.types.string import bitmaps, strings
from engine.values.replies import Reply

_OF_FIRST_AND_OTHERS: Final = frozenset({b"DIFF", b"DIFF1", b"ANDOR"})
_SOURCES_MIN: Final = 2
_OPERATIONS: Final = frozenset({b"AND", b"OR", b"XOR", b"NOT", b"ONE"}) | _OF_FIRST_AND_OTHERS


@command(
    "BITOP <AND|OR|XOR|NOT|DIFF|DIFF1|ANDOR|ONE> destination key [key ...]",
    group="bitmap",
    since="2.6.0",
    complexity="O(bytes of all sources that are not in a run of zeros); NOT: O(bytes)",
    write=True,
    grows=True,
    access="OW update, RO access",
    notifies=stored(keyspace_events.STRING, b"set"),
)
def bitop(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Combine strings bit by bit; shorter ones are padded with zeros. Returns the length of the result.

    DIFF has the bits of the first string that no other has, ANDOR those that another has too, DIFF1 those of the others
    that the first has not, and ONE those that exactly one string has. An empty result deletes the destination.

    > SET a "abc"
    OK
    > SET b "AB"
    OK
    > BITOP AND to a b
    (integer) 3
    > GET to
    "AB\x00"
    > BITOP NOT to b
    (integer) 2
    > GET to
    "\xbe\xbd"
    """
    operation, destination, names = read_option(args[0]), args[1], args[2:]
    if operation not in _OPERATIONS:
        raise CommandError(SYNTAX)
    if operation == b"NOT" and len(names) > 1:
        raise CommandError(BITOP_NOT_ONE_SOURCE)
    if operation in _OF_FIRST_AND_OTHERS and len(names) < _SOURCES_MIN:
        raise CommandError(f"ERR BITOP {operation.decode()} must be called with at least two source keys.")
    sources = [tx.find_typed(name, STRING) for name in names]
    size = max(0 if key is None else strings.length(key) for key in sources)
    if size:
        strings.put_stretches(tx, destination, size, bitmaps.combined(operation, sources))
        return size
    old = tx.find(destination)
    if old is not None:
        tx.delete(old)
    return 0
