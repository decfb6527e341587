"""Describes streams, groups and consumers. Source: https://valkey.io/commands/#stream."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.commands.streams.groups import no_group
from engine.commands.streams.ids import shown
from engine.errors import NO_SUCH_KEY, CommandError
from engine.model import NO_ID, STREAM
from engine.types.stream import stream_groups, streams
from engine.types.stream.stream_counters import UNKNOWN, lag
from engine.types.stream.stream_groups import NEVER, Group
from engine.types.stream.streams import MAX_ID, show_id
from engine.values.replies import Map, Reply, bounded

_USAGE: Final = "ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."
_FULL_COUNT: Final = 10
_NODE_ENTRIES: Final = 100
_FULL_ARGUMENTS: Final = (2, 4)


@command(
    "XINFO STREAM key [FULL [COUNT count]]",
    group="stream",
    since="5.0.0",
    complexity="O(1); with FULL O(n) with n entries, groups, consumers and pending entries that are returned",
    container=True,
)
def xinfo_stream(tx: Transaction, args: list[bytes]) -> Reply:
    """Describe a stream; with FULL its first entries too, and its groups with their consumers and what is pending.

    COUNT says how many entries, and how many pending ones of each, 10 without it and 0 for all. There is no radix tree
    here: `radix-tree-keys` and `radix-tree-nodes` are those that Redis would need for as many small entries.

    > XGROUP CREATE s crew 0 MKSTREAM
    OK
    > XINFO STREAM s
     1) "length"
     2) (integer) 0
     3) "radix-tree-keys"
     4) (integer) 0
     5) "radix-tree-nodes"
     6) (integer) 1
     7) "last-generated-id"
     8) "0-0"
     9) "max-deleted-entry-id"
    10) "0-0"
    11) "entries-added"
    12) (integer) 0
    13) "recorded-first-entry-id"
    14) "0-0"
    15) "groups"
    16) (integer) 1
    17) "first-entry"
    18) (nil)
    19) "last-entry"
    20) (nil)
    """
    key = _find(tx, args[0])
    full = len(args) > 1
    count = _parse_full(args) if full else 0
    stream = streams.parts(key)
    nodes = -(-key.size // _NODE_ENTRIES)
    described = Map(
        [
            (b"length", key.size),
            (b"radix-tree-keys", nodes),
            (b"radix-tree-nodes", nodes + 1),
            (b"last-generated-id", show_id(stream.last_id)),
            (b"max-deleted-entry-id", show_id(stream.max_deleted_id)),
            (b"entries-added", stream.entries_added),
            (b"recorded-first-entry-id", show_id(stream.first_id)),
        ]
    )
    if full:
        described.append((b"entries", shown(islice(streams.entries(key), count or None))))
        described.append((b"groups", [_full_group(key, group, count) for group in stream_groups.groups(key)]))
        return described
    described.append((b"groups", stream.groups))
    described.append((b"first-entry", _first(key, reverse=False)))
    described.append((b"last-entry", _first(key, reverse=True)))
    return described


@command("XINFO GROUPS key", group="stream", since="5.0.0", complexity="O(groups)", container=True)
def xinfo_groups(tx: Transaction, args: list[bytes]) -> Reply:
    """Describe the groups of a stream.

    > XGROUP CREATE s crew 0 MKSTREAM
    OK
    > XINFO GROUPS s
    1)  1) "name"
        2) "crew"
        3) "consumers"
        4) (integer) 0
        5) "pending"
        6) (integer) 0
        7) "last-delivered-id"
        8) "0-0"
        9) "entries-read"
       10) (nil)
       11) "lag"
       12) (integer) 0
    """
    key = _find(tx, args[0])
    return [
        Map(
            [
                (b"name", group.name),
                (b"consumers", group.consumers),
                (b"pending", group.pending),
                (b"last-delivered-id", show_id(group.last_id)),
                (b"entries-read", _entries_read(group)),
                (b"lag", lag(key, group)),
            ]
        )
        for group in stream_groups.groups(key)
    ]


@command(
    "XINFO CONSUMERS key group",
    group="stream",
    since="5.0.0",
    complexity="O(consumers)",
    container=True,
    by_wall=True,
)
def xinfo_consumers(tx: Transaction, args: list[bytes]) -> Reply:
    """Describe the consumers of a group.

    `idle` are the milliseconds since it last asked for entries, `inactive` since it last got some, -1 if it never did.

    > XGROUP CREATE s crew 0 MKSTREAM
    OK
    > XINFO CONSUMERS s crew
    (empty array)
    """
    key = _find(tx, args[0])
    group = stream_groups.find(key, args[1])
    if group is None:
        raise no_group(args[1], args[0])
    now_ms = tx.now_ms
    return [
        Map(
            [
                (b"name", each.name),
                (b"pending", each.pending),
                (b"idle", max(now_ms - each.seen_ms, 0)),
                (b"inactive", NEVER if each.active_ms == NEVER else max(now_ms - each.active_ms, 0)),
            ]
        )
        for each in group.all_consumers()
    ]


def _parse_full(args: list[bytes]) -> int:
    """How many entries XINFO STREAM FULL shows of each kind, 0 for all."""
    if read_option(args[1]) != b"FULL" or len(args) not in _FULL_ARGUMENTS:
        raise CommandError(_USAGE)
    if len(args) == _FULL_ARGUMENTS[0]:
        return _FULL_COUNT
    if read_option(args[2]) != b"COUNT":
        raise CommandError(_USAGE)
    count = read_integer(args[3])
    return count if count >= 0 else _FULL_COUNT


def _find(tx: Transaction, name: bytes) -> Key:
    key = tx.find_typed(name, STREAM)
    if key is None:
        raise CommandError(NO_SUCH_KEY)
    return key


def _first(key: Key, *, reverse: bool) -> Reply:
    found = shown(islice(streams.entries(key, reverse=reverse), 1))
    return found[0] if found else None


def _entries_read(group: Group) -> int | None:
    return None if group.entries_read == UNKNOWN else group.entries_read


def _full_group(key: Key, group: Group, count: int) -> Reply:
    pending = bounded(islice(group.pending_entries(), count or None), _measure)
    return Map(
        [
            (b"name", group.name),
            (b"last-delivered-id", show_id(group.last_id)),
            (b"entries-read", _entries_read(group)),
            (b"lag", lag(key, group)),
            (b"pel-count", group.pending),
            (b"pending", [[show_id(each), record.consumer, *record[:2]] for each, record in pending]),
            (b"consumers", _full_consumers(group, count)),
        ]
    )


def _full_consumers(group: Group, count: int) -> list[Reply]:
    found: list[Reply] = []
    for each in group.all_consumers():
        pending = bounded(islice(group.pending_of(each.name, NO_ID, MAX_ID), count or None), _measure)
        found.append(
            Map(
                [
                    (b"name", each.name),
                    (b"seen-time", each.seen_ms),
                    (b"active-time", each.active_ms),
                    (b"pel-count", each.pending),
                    (b"pending", [[show_id(entry_id), *record[:2]] for entry_id, record in pending]),
                ]
            )
        )
    return found


def _measure(some: list[Any]) -> int:
    return 64 * 3 * len(some)
