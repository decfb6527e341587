"""Deletes entries of streams with regard to groups. Source: https://redis.io/commands/xdelex/ and xackdel."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.batch.transaction import Transaction
from engine.commands.options import read_option
from engine.commands.registry import command
from engine.commands.streams.ids import parse_id
from engine.errors import SYNTAX, CommandError
from engine.model import STREAM
from engine.types.stream import stream_groups
from engine.types.stream.stream_references import ABSENT, Deletion, References, references_of
from engine.values.numbers import parse_int
from engine.values.replies import Reply

_NOT_POSITIVE: Final = "ERR Number of IDs must be a positive integer"
_NO_MATCH: Final = "ERR The `numids` parameter must match the number of arguments"


class _Asked(NamedTuple):
    """Which entries to delete, and what becomes of the references to them."""

    ids: list[bytes]
    references: References


@command(
    "XDELEX key [KEEPREF|DELREF|ACKED] IDS numids id [id ...]",
    of="redis8",
    group="stream",
    since="8.2.0",
    complexity="O(ids * groups)",
    write=True,
    fast=True,
    access="RW delete",
    notifies="xdel",
)
def xdelex(tx: Transaction, args: list[bytes]) -> Reply:
    """Delete entries of a stream. Returns for each 1 if it is gone, -1 if it was not there, 2 if a group needs it.

    With KEEPREF, or none of the three words, what is pending stays pending, as with XDEL. With DELREF it goes too,
    even that of an entry that was not there. With ACKED an entry stays that a group has not got or not acknowledged.

    > XADD s 1000-1 name ann
    "1000-1"
    > XADD s 1000-2 name bob
    "1000-2"
    > XGROUP CREATE s crew 1000-1
    OK
    > XDELEX s ACKED IDS 3 1000-1 1000-2 1000-3
    1) (integer) 1
    2) (integer) 2
    3) (integer) -1
    """
    ids, references = _parse(args, 1)
    key = tx.find_typed(args[0], STREAM)
    if key is None:
        return [ABSENT] * len(ids)
    deletion = Deletion(tx, key, references, stream_groups.groups(key))
    replies: list[Reply] = [deletion.add(entry_id) for entry_id in ids]
    deletion.finish()
    return replies


@command(
    "XACKDEL key group [KEEPREF|DELREF|ACKED] IDS numids id [id ...]",
    of="redis8",
    group="stream",
    since="8.2.0",
    complexity="O(ids * groups)",
    write=True,
    fast=True,
    access="RW update delete",
    notifies="xdel",
)
def xackdel(tx: Transaction, args: list[bytes]) -> Reply:
    """Acknowledge entries in a group and delete them. Returns for each 1, -1 if it was not pending in the group, or 2.

    With KEEPREF, or none of the three words, what is pending in other groups stays so. With DELREF it goes too. With
    ACKED an entry stays that another group has not got or not acknowledged: its reply is 2.

    > XADD s 1000-1 name ann
    "1000-1"
    > XGROUP CREATE s crew 0
    OK
    > XREADGROUP GROUP crew bob STREAMS s >
    1) 1) "s"
       2) 1) 1) "1000-1"
             2) 1) "name"
                2) "ann"
    > XACKDEL s crew ACKED IDS 2 1000-1 1000-2
    1) (integer) 1
    2) (integer) -1
    > XLEN s
    (integer) 0
    """
    ids, references = _parse(args, 2)
    key = tx.find_typed(args[0], STREAM)
    groups = [] if key is None else stream_groups.groups(key)
    group = next((each for each in groups if each.name == args[1]), None)
    if key is None or group is None:
        return [ABSENT] * len(ids)
    deletion = Deletion(tx, key, references, groups)
    replies: list[Reply] = [deletion.add_acknowledged(group, entry_id) for entry_id in ids]
    deletion.finish()
    return replies


def _parse(args: list[bytes], at: int) -> _Asked:
    """The options from `args[at]` on, which may come in any order.

    Raises:
        CommandError: they cannot be read.
    """
    references: References | None = None
    ids: list[bytes] = []
    while at < len(args):
        word = read_option(args[at])
        found = references_of(word)
        if found is not None and references is None:
            references = found
            at += 1
        elif word == b"IDS" and not ids and at + 1 < len(args):
            count = parse_int(args[at + 1])
            if count is None or count < 1:
                raise CommandError(_NOT_POSITIVE)
            if count > len(args) - at - 2:
                raise CommandError(_NO_MATCH)
            ids = [parse_id(text) for text in args[at + 2 : at + 2 + count]]
            at += 2 + count
        else:
            raise CommandError(SYNTAX)
    if not ids:
        raise CommandError(SYNTAX)
    return _Asked(ids, references or References.KEEP)
