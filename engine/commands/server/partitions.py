"""Commands without a key: an event acts on the partition that it is in.

Sources: https://redis.io/docs/latest/commands/flushall/, …/flushdb/, …/dbsize/. TICK, RULES and
SETCLOCK are slotlog's own.
"""

from __future__ import annotations

from engine.batch.transaction import Transaction
from engine.commands.options import read_option
from engine.commands.registry import command
from engine.errors import SYNTAX, ClockSetBackError, CommandError, UnknownRulesError
from engine.tables.system import RULES
from engine.values.numbers import parse_int
from engine.values.replies import OK, Reply


def _check_flush_mode(args: list[bytes]) -> None:
    """Redis takes one word, ASYNC or SYNC; here both are O(1) and mean the same."""
    if len(args) > 1 or (args and read_option(args[0]) not in {b"ASYNC", b"SYNC"}):
        raise CommandError(SYNTAX)


@command(
    "FLUSHALL [ASYNC|SYNC]",
    group="server",
    since="1.0.0",
    complexity="O(1): range deletes",
    write=True,
    categories=("keyspace", "dangerous"),
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
    database="every",
    notifies="",
)
def flushall(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete all keys of all databases.

    > SET a "1"
    OK
    > FLUSHALL
    OK
    > EXISTS a
    (integer) 0
    """
    _check_flush_mode(args)
    tx.flush(sorted({stored for stored, _ in tx.counts}))
    return OK


@command(
    "FLUSHDB [ASYNC|SYNC]",
    group="server",
    since="1.0.0",
    complexity="O(1): range deletes; O(keys with a time to live) while other databases hold keys",
    write=True,
    categories=("keyspace", "dangerous"),
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
    notifies="",
)
def flushdb(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete all keys of the selected database.

    > SET a "1"
    OK
    > FLUSHDB
    OK
    > EXISTS a
    (integer) 0
    """
    _check_flush_mode(args)
    tx.flush([tx.stored_db])
    return OK


@command(
    "DBSIZE",
    group="server",
    since="1.0.0",
    complexity="O(1)",
    physical=True,
    fast=True,
    tips=("request_policy:all_shards", "response_policy:agg_sum"),
)
def dbsize(tx: Transaction, args: list[bytes]) -> Reply:
    """Return the number of keys in the database, O(1). Expired keys count until they are cleaned up.

    > DBSIZE
    (integer) 0
    """
    return sum(count for (stored, _), count in tx.counts.items() if stored == tx.stored_db)


@command(
    "TICK",
    group="slotlog",
    since="1",
    complexity="O(1)",
    write=True,
    transactional=False,
    internal=True,
    of="slotlog",
    notifies="",
)
def tick(tx: Transaction, args: list[bytes]) -> Reply:
    """Change nothing: the record's time moves the partition's clock, so that keys of an idle partition expire.

    > TICK
    OK
    """
    return OK


@command(
    "RULES number",
    group="slotlog",
    since="1",
    complexity="O(1)",
    write=True,
    transactional=False,
    for_operators="moves a partition on to other rules",
    internal=True,
    of="slotlog",
    notifies="",
)
def rules(tx: Transaction, args: list[bytes]) -> Reply:
    """Make the partition follow newer rules from this record on.

    > RULES 1
    OK
    """
    number = parse_int(args[0])
    if number is None:
        message = "ERR the rules number is not an integer"
        raise CommandError(message)
    if number < tx.rules:
        message = f"ERR the partition follows rules {tx.rules} already"
        raise CommandError(message)
    if number > RULES:
        message = f"the log asks for rules {number}, this slotlog knows {RULES}; use a newer release"
        raise UnknownRulesError(message)
    tx.rules = number
    return OK


@command(
    "SETCLOCK from-ms to-ms",
    group="slotlog",
    since="1",
    complexity="O(1), and the removal of what is due",
    write=True,
    transactional=False,
    for_operators="sets a partition's clock back",
    internal=True,
    of="slotlog",
    notifies="",
)
def setclock(tx: Transaction, args: list[bytes]) -> Reply:
    """Set the partition's clock back from `from-ms` to `to-ms`. Keys due at the old clock are deleted first.

    Only who knows where the clock stands can set it, only back, and only once.

    > SETCLOCK 1 0
    (error) ERR the partition's clock stands at 1700000000000 ms, not at 1
    """
    from_ms, to_ms = (parse_int(arg) for arg in args)
    if from_ms is None or to_ms is None or to_ms < 0:
        message = "ERR a time is not an integer of milliseconds since 1970"
        raise CommandError(message)
    if from_ms != tx.now_ms:
        message = f"ERR the partition's clock stands at {tx.now_ms} ms, not at {from_ms}"
        raise CommandError(message)
    if to_ms >= from_ms:
        message = "ERR a partition's clock can only be set back"
        raise CommandError(message)
    raise ClockSetBackError(to_ms)
