"""Unions, intersections and differences of sets. Source: https://valkey.io/commands/#set.

Replies list members in byte order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands import keyspace_events
from engine.commands.keyspace_events import Change, KeyspaceEvent, stored
from engine.commands.options import parse_limit
from engine.commands.registry import command
from engine.errors import NUMKEYS_NOT_POSITIVE, TOO_MANY_KEYS, CommandError
from engine.model import SET
from engine.types import sets
from engine.types.algebra import set_algebra
from engine.values.numbers import parse_int
from engine.values.replies import Reply, Set, bounded

_Combine = Callable[[list[Key | None]], Iterator[bytes]]


def _smove_events(args: list[bytes], changes: list[Change]) -> Iterator[KeyspaceEvent]:
    by_key = {change.key: change for change in changes}
    source, destination = by_key.get(args[0]), by_key.get(args[1])
    if source is not None:
        yield from source.happened(keyspace_events.SET, b"srem")
    if destination is not None:
        yield from destination.happened(keyspace_events.SET, b"sadd")


@command(
    "SMOVE source destination member",
    group="set",
    since="1.0.0",
    complexity="O(1)",
    write=True,
    fast=True,
    access="RW access delete, RW insert",
    notifies=_smove_events,
)
def smove(tx: Transaction, args: list[bytes]) -> Reply:
    """Move a member from one set to another. Returns 1, or 0 when it was absent.

    > SADD s a b
    (integer) 2
    > SMOVE s t a
    (integer) 1
    > SMEMBERS t
    1) "a"
    > SMOVE s t a
    (integer) 0
    """
    source = tx.find_typed(args[0], SET)
    if source is None:
        return 0
    destination = tx.find_typed(args[1], SET)
    if destination is source:
        return int(sets.contains(source, args[2]))
    if not sets.take(tx, source, args[2]):
        return 0
    sets.add(tx, args[1], destination, args[2:])
    return 1


@command("SINTER key [key ...]", group="set", since="1.0.0", complexity="O(smallest set · sets)")
def sinter(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the members that all sets have. O(smallest set * number of sets).

    > SADD s a b
    (integer) 2
    > SADD t b c
    (integer) 2
    > SINTER s t
    1) "b"
    """
    return Set(bounded(_combined(tx, args, _intersect)))


@command("SUNION key [key ...]", group="set", since="1.0.0", complexity="O(m log m) for m members of all sets")
def sunion(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the members that any of the sets has. O(all members).

    > SADD s a b
    (integer) 2
    > SADD t b c
    (integer) 2
    > SUNION s t
    1) "a"
    2) "b"
    3) "c"
    """
    return Set(bounded(_combined(tx, args, _unite)))


@command("SDIFF key [key ...]", group="set", since="1.0.0", complexity="O(first set · sets)")
def sdiff(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the members of the first set that no other set has. O(first set * number of sets).

    > SADD s a b
    (integer) 2
    > SADD t b c
    (integer) 2
    > SDIFF s t
    1) "a"
    """
    return Set(bounded(_combined(tx, args, _subtract)))


@command(
    "SINTERSTORE destination key [key ...]",
    group="set",
    since="1.0.0",
    complexity="O(smallest set · sets)",
    write=True,
    grows=True,
    access="OW update, RO access",
    notifies=stored(keyspace_events.SET, b"sinterstore"),
)
def sinterstore(tx: Transaction, args: list[bytes]) -> Reply:
    """Store the result of SINTER; the destination is replaced. Returns how many members it has.

    > SADD s a b
    (integer) 2
    > SADD t b c
    (integer) 2
    > SINTERSTORE d s t
    (integer) 1
    > SMEMBERS d
    1) "b"
    """
    return set_algebra.store(tx, args[0], _combined(tx, args[1:], _intersect))


@command(
    "SUNIONSTORE destination key [key ...]",
    group="set",
    since="1.0.0",
    complexity="O(m log m) for m members of all sets",
    write=True,
    grows=True,
    access="OW update, RO access",
    notifies=stored(keyspace_events.SET, b"sunionstore"),
)
def sunionstore(tx: Transaction, args: list[bytes]) -> Reply:
    """Store the result of SUNION; the destination is replaced. Returns how many members it has.

    > SADD s a b
    (integer) 2
    > SADD t b c
    (integer) 2
    > SUNIONSTORE d s t
    (integer) 3
    """
    return set_algebra.store(tx, args[0], _combined(tx, args[1:], _unite))


@command(
    "SDIFFSTORE destination key [key ...]",
    group="set",
    since="1.0.0",
    complexity="O(first set · sets)",
    write=True,
    grows=True,
    access="OW update, RO access",
    notifies=stored(keyspace_events.SET, b"sdiffstore"),
)
def sdiffstore(tx: Transaction, args: list[bytes]) -> Reply:
    """Store the result of SDIFF; the destination is replaced. Returns how many members it has.

    > SADD s a b
    (integer) 2
    > SADD t b c
    (integer) 2
    > SDIFFSTORE d s t
    (integer) 1
    > SDIFFSTORE d s s
    (integer) 0
    > EXISTS d
    (integer) 0
    """
    return set_algebra.store(tx, args[0], _combined(tx, args[1:], _subtract))


@command(
    "SINTERCARD numkeys key [key ...] [LIMIT limit]",
    group="set",
    since="7.0.0",
    complexity="O(smallest set · sets); less with a LIMIT",
)
def sintercard(tx: Transaction, args: list[bytes]) -> Reply:
    """Count the members that all sets have, up to `limit` (0: all). O(smallest set * number of sets).

    > SADD s a b c
    (integer) 3
    > SADD t b c d
    (integer) 3
    > SINTERCARD 2 s t
    (integer) 2
    > SINTERCARD 2 s t LIMIT 1
    (integer) 1
    """
    number = parse_int(args[0])
    if number is None or number < 1:
        raise CommandError(NUMKEYS_NOT_POSITIVE)
    if number > len(args) - 1:
        raise CommandError(TOO_MANY_KEYS)
    limit = parse_limit(args[1 + number :])
    keys = _find(tx, args[1 : 1 + number])
    present = [key for key in keys if key is not None]
    if len(present) < len(keys):
        return 0
    return sum(1 for _ in islice(set_algebra.in_all(set_algebra.sources(present)), limit or None))


def _combined(tx: Transaction, names: list[bytes], combine: _Combine) -> Iterator[bytes]:
    return combine(_find(tx, names))


def _find(tx: Transaction, names: list[bytes]) -> list[Key | None]:
    """The sets of these names, None for each that is not there. All of them must be sets, whatever the result."""
    return [tx.find_typed(name, SET) for name in names]


def _intersect(keys: list[Key | None]) -> Iterator[bytes]:
    present = set_algebra.sources(key for key in keys if key is not None)
    return set_algebra.in_all(present) if len(present) == len(keys) else iter(())


def _unite(keys: list[Key | None]) -> Iterator[bytes]:
    return set_algebra.in_any(set_algebra.sources(key for key in keys if key is not None))


def _subtract(keys: list[Key | None]) -> Iterator[bytes]:
    first, *others = keys
    if first is None:
        return iter(())
    own, *rest = set_algebra.sources(key for key in (first, *others) if key is not None)
    return set_algebra.in_first_alone(own, rest)
