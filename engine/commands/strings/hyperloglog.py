"""Commands that estimate how many different elements were added. Source: https://valkey.io/commands/#hyperloglog.

The values are strings, and `engine.values.hyperloglog` says of which bytes. Counting writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.registry import command
from engine.model import STRING
from engine.types.string import strings
from engine.values.hyperloglog import values
from engine.values.replies import OK, Reply


@command(
    "PFADD key [element [element ...]]",
    group="hyperloglog",
    since="2.8.9",
    complexity="O(elements)",
    write=True,
    fast=True,
    grows=True,
    access="RW insert",
    notifies="pfadd",
)
def pfadd(tx: Transaction, args: list[bytes]) -> Reply:
    """Add elements. Returns 1 when the key is new or the estimate may have changed, else 0.

    > PFADD h a b c
    (integer) 1
    > PFADD h a b
    (integer) 0
    > PFCOUNT h
    (integer) 3
    """
    key, value = _find(tx, args[0])
    changed = values.added(values.EMPTY if value is None else value, args[1:])
    if changed is None and value is not None:
        return 0
    strings.replace(tx, args[0], key, changed or values.EMPTY)
    return 1


@command(
    "PFCOUNT key [key ...]",
    group="hyperloglog",
    since="2.8.9",
    complexity="O(keys)",
    access="RW access",
    like_write=True,
)
def pfcount(tx: Transaction, args: list[bytes]) -> Reply:
    """Estimate how many different elements were added to any of the keys.

    > PFADD y a b c
    (integer) 1
    > PFADD z c d
    (integer) 1
    > PFCOUNT y z
    (integer) 4
    """
    if len(args) > 1:
        return values.count(_find_all(tx, args))
    value = _find(tx, args[0])[1]
    if value is None:
        return 0
    known = values.known_count(value)
    return values.count([value]) if known is None else known


@command(
    "PFMERGE destination [key [key ...]]",
    group="hyperloglog",
    since="2.8.9",
    complexity="O(keys)",
    write=True,
    grows=True,
    access="RW access insert, RO access",
    notifies="pfadd",
)
def pfmerge(tx: Transaction, args: list[bytes]) -> Reply:
    """Merge the keys into the destination, as if their elements were added to it.

    > PFADD y a b c
    (integer) 1
    > PFADD z c d
    (integer) 1
    > PFMERGE z y
    OK
    > PFCOUNT z
    (integer) 4
    """
    key, value = _find(tx, args[0])
    strings.replace(tx, args[0], key, values.merged(value, _find_all(tx, args[1:])))
    return OK


def _find(tx: Transaction, name: bytes) -> tuple[Key | None, bytes | None]:
    """The key and its value, None when there is none.

    Raises:
        CommandError: WRONGTYPE, it is something else.
    """
    key = tx.find_typed(name, STRING)
    if key is None:
        return None, None
    values.check(strings.read_range(tx, key, 0, values.HEADER_BYTES), strings.length(key))
    return key, strings.read(tx, key)


def _find_all(tx: Transaction, names: list[bytes]) -> Iterator[bytes]:
    """The values of those that are there, each looked for when its turn comes."""
    return (value for _, value in (_find(tx, name) for name in names) if value is not None)
