"""Moves an element between lists, or pops from the first list that has one.

Source: https://valkey.io/commands/#list.
"""

from __future__ import annotations

from engine.batch.transaction import Transaction
from engine.commands import fills, keyspace_events
from engine.commands.keyspace_events import popped
from engine.commands.lists.notifications import of_lmove, of_rpoplpush
from engine.commands.multi_pop import LIST_ENDS, parse_end, parse_multi_pop
from engine.commands.registry import command
from engine.model import LIST
from engine.types import lists
from engine.values.replies import NIL_ARRAY, Reply


@command(
    "LMOVE source destination <LEFT|RIGHT> <LEFT|RIGHT>",
    group="list",
    since="6.2.0",
    complexity="O(1)",
    write=True,
    grows=True,
    access="RW access delete, RW insert",
    large_reply=True,
    fills=fills.moved,
    notifies=of_lmove,
)
def lmove(tx: Transaction, args: list[bytes]) -> Reply:
    """Move an element from an end of one list to an end of another or the same. Returns it, or nil.

    > RPUSH l a b c
    (integer) 3
    > LMOVE l m LEFT RIGHT
    "a"
    > LMOVE l l RIGHT LEFT
    "c"
    > LRANGE l 0 -1
    1) "c"
    2) "b"
    > LMOVE none m LEFT LEFT
    (nil)
    """
    return _move(tx, args, from_head=parse_end(args[2], LIST_ENDS), to_head=parse_end(args[3], LIST_ENDS))


@command(
    "RPOPLPUSH source destination",
    group="list",
    since="1.2.0",
    complexity="O(1)",
    write=True,
    grows=True,
    access="RW access delete, RW insert",
    large_reply=True,
    fills=fills.moved,
    notifies=of_rpoplpush,
)
def rpoplpush(tx: Transaction, args: list[bytes]) -> Reply:
    """Move the last element of a list to the head of another or the same. Returns it, or nil.

    > RPUSH l a b c
    (integer) 3
    > RPOPLPUSH l m
    "c"
    > LRANGE m 0 -1
    1) "c"
    """
    return _move(tx, args, from_head=False, to_head=True)


@command(
    "LMPOP numkeys key [key ...] <LEFT|RIGHT> [COUNT count]",
    group="list",
    since="7.0.0",
    complexity="O(keys + elements taken)",
    write=True,
    access="RW access delete",
    large_reply=True,
    notifies=popped(keyspace_events.LIST, {b"LEFT": b"lpop", b"RIGHT": b"rpop"}),
)
def lmpop(tx: Transaction, args: list[bytes]) -> Reply:
    """Remove up to `count` elements from the first list that exists. Returns its key and them, or nil.

    > RPUSH l a b c
    (integer) 3
    > LMPOP 2 none l RIGHT COUNT 2
    1) "l"
    2) 1) "c"
       2) "b"
    > LMPOP 1 none LEFT
    (nil)
    """
    names, from_head, count = parse_multi_pop(args, LIST_ENDS)
    pop = lists.pop_head if from_head else lists.pop_tail
    for name in names:
        key = tx.find_typed(name, LIST)
        if key is not None:
            return [name, pop(tx, key, count)]
    return NIL_ARRAY


def _move(tx: Transaction, args: list[bytes], *, from_head: bool, to_head: bool) -> bytes | None:
    """Redis looks at the destination only when there is something to move."""
    source = tx.find_typed(args[0], LIST)
    if source is None:
        return None
    name = args[1]
    return lists.move(tx, source, name, tx.find_typed(name, LIST), from_head=from_head, to_head=to_head)
