"""Commands on the members of one set. Source: https://valkey.io/commands/#set.

Replies list members in byte order.
"""

from __future__ import annotations

from engine.batch.transaction import Transaction
from engine.commands.registry import command
from engine.errors import OUT_OF_RANGE_POSITIVE, SYNTAX, CommandError
from engine.model import SET
from engine.types import sets
from engine.values.numbers import parse_int
from engine.values.replies import Reply, Set, bounded


@command(
    "SADD key member [member ...]",
    group="set",
    since="1.0.0",
    complexity="O(members)",
    write=True,
    fast=True,
    grows=True,
    access="RW insert",
    notifies="sadd",
)
def sadd(tx: Transaction, args: list[bytes]) -> Reply:
    """Add members to a set. Returns how many are new.

    > SADD s a b
    (integer) 2
    > SADD s b c
    (integer) 1
    """
    name = args[0]
    return sets.add(tx, name, tx.find_to_write(name, SET), args[1:])


@command(
    "SREM key member [member ...]",
    group="set",
    since="1.0.0",
    complexity="O(members)",
    write=True,
    fast=True,
    access="RW delete",
    notifies="srem",
)
def srem(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete members. Returns how many existed.

    > SADD s a b
    (integer) 2
    > SREM s b c
    (integer) 1
    """
    key = tx.find_to_write(args[0], SET)
    return 0 if key is None else sets.remove(tx, key, args[1:])


@command(
    "SPOP key [count]",
    group="set",
    since="1.0.0",
    complexity="O(count) descents of some 20 seeks each; O(n) when n is at most 256, or 256 times the count",
    write=True,
    fast=True,
    access="RW access delete",
    large_reply=True,
    notifies="spop",
)
def spop(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove and return a random member, or up to `count` of them: the same ones at every replay.

    Uniformly at random up to 256 members; `engine/types/draws.py` says how larger sets are drawn from.

    > SADD s a
    (integer) 1
    > SPOP s
    "a"
    > SPOP s
    (nil)
    > SADD s b
    (integer) 1
    > SPOP s 2
    1) "b"
    """
    if len(args) == 1:
        key = tx.find_typed(args[0], SET)
        return None if key is None else sets.pop(tx, key, 1)[0]
    if len(args) > 2:
        raise CommandError(SYNTAX)
    count = parse_int(args[1])
    if count is None or count < 0:
        raise CommandError(OUT_OF_RANGE_POSITIVE)
    key = tx.find_typed(args[0], SET)
    return Set() if key is None or count == 0 else Set(sets.pop(tx, key, count))


@command("SCARD key", group="set", since="1.0.0", complexity="O(1)", fast=True, access="RO")
def scard(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the number of members, O(1).

    > SADD s a b
    (integer) 2
    > SCARD s
    (integer) 2
    """
    key = tx.find_typed(args[0], SET)
    return 0 if key is None else key.count()


@command("SISMEMBER key member", group="set", since="1.0.0", complexity="O(1)", fast=True, access="RO")
def sismember(tx: Transaction, args: list[bytes]) -> Reply:
    """Return 1 if the member exists, else 0.

    > SADD s a
    (integer) 1
    > SISMEMBER s a
    (integer) 1
    > SISMEMBER s b
    (integer) 0
    """
    return int(sets.contains(tx.find_typed(args[0], SET), args[1]))


@command("SMISMEMBER key member [member ...]", group="set", since="6.2.0", complexity="O(members)", fast=True)
def smismember(tx: Transaction, args: list[bytes]) -> Reply:
    """Return for each member 1 if it exists, else 0.

    > SADD s a b
    (integer) 2
    > SMISMEMBER s a c b
    1) (integer) 1
    2) (integer) 0
    3) (integer) 1
    """
    key = tx.find_typed(args[0], SET)
    return [int(sets.contains(key, member)) for member in args[1:]]


@command("SMEMBERS key", group="set", since="1.0.0", complexity="O(n)")
def smembers(tx: Transaction, args: list[bytes]) -> Reply:
    """Return all members.

    > SADD s a b
    (integer) 2
    > SMEMBERS s
    1) "a"
    2) "b"
    """
    key = tx.find_typed(args[0], SET)
    return Set() if key is None else Set(bounded(sets.members(key)))
