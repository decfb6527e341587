"""Commands on all keys of a database. Source: https://valkey.io/commands/#generic."""

from __future__ import annotations

from engine.batch.transaction import Transaction
from engine.commands.registry import command
from engine.types import draws
from engine.values.glob import matcher
from engine.values.replies import Reply, bounded


@command(
    "KEYS pattern",
    group="generic",
    since="1.0.0",
    complexity="O(keys in the database)",
    by_wall=True,
    physical=True,
    sorted_in_scripts=True,
    categories=("keyspace", "dangerous"),
    tips=("request_policy:all_shards",),
)
def keys(tx: Transaction, args: list[bytes]) -> Reply:
    r"""Return all keys that match a pattern. It reads every key; SCAN does so in pieces.

    `*` is anything, `?` one byte, `[abc]` and `[a-c]` one of these, `[^a]` any other, and `\\*` the byte itself. In a
    script the keys are in the order of their bytes.

    > MSET one "1" two "2"
    OK
    > KEYS t[a-z]*
    1) "two"
    > KEYS three
    (empty array)
    """
    matches = None if args[0] == b"*" else matcher(args[0])
    now_ms = tx.now_ms
    found = (
        entry.name
        for entry in tx.keyspace().scan()
        if (matches is None or matches(entry.name)) and entry.is_alive(now_ms)
    )
    return bounded(found)


@command(
    "RANDOMKEY",
    group="generic",
    since="1.0.0",
    complexity="O(1): some 20 seeks, and the keys that are due on the way",
    by_wall=True,
    physical=True,
    tips=("request_policy:all_shards", "response_policy:special"),
)
def randomkey(tx: Transaction, args: list[bytes]) -> Reply:
    """Return a random key, nil when there is none. Not all keys are equally likely (`engine/types/draws.py`).

    > RANDOMKEY
    (nil)
    > SET a "1"
    OK
    > RANDOMKEY
    "a"
    """
    keyspace = tx.keyspace()
    drawn = draws.descend(tx, keyspace.records)
    if drawn is None:
        return None
    positions = draws.walk_around(keyspace.records, drawn)
    alive = (entry.name for entry in map(keyspace.entry, positions) if entry.is_alive(tx.now_ms))
    return next(alive, None)
