"""Acknowledges, lists and hands over what consumers of a group have got. Source: https://valkey.io/commands/#stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.options import read_integer, read_option
from engine.commands.registry import command
from engine.commands.streams.ids import parse_id, parse_interval
from engine.errors import SYNTAX, CommandError, quoted
from engine.model import STREAM
from engine.types.stream import stream_groups
from engine.types.stream.stream_groups import Group
from engine.types.stream.streams import show_id
from engine.values.replies import NIL_ARRAY, Reply, bounded

_SUMMARY_ARGUMENTS: Final = 2
_LIST_ARGUMENTS: Final = range(5, 9)
_IDLE_ARGUMENTS_MIN: Final = 7

_Listed = tuple[bytes, bytes, int, int]


@command(
    "XACK key group id [id ...]",
    group="stream",
    since="5.0.0",
    complexity="O(ids)",
    write=True,
    keeps_watches=True,
    fast=True,
    notifies="",
)
def xack(tx: Transaction, args: list[bytes]) -> Reply:
    """Take entries out of what is pending in a group. Returns how many were.

    > XADD s 1000-1 name ann
    "1000-1"
    > XGROUP CREATE s crew 0
    OK
    > XREADGROUP GROUP crew bob STREAMS s >
    1) 1) "s"
       2) 1) 1) "1000-1"
             2) 1) "name"
                2) "ann"
    > XACK s crew 1000-1 1000-2
    (integer) 1
    """
    key = tx.find_typed(args[0], STREAM)
    group = None if key is None else stream_groups.find(key, args[1])
    if group is None:
        return 0
    ids = [parse_id(text) for text in args[2:]]
    acknowledged = sum(group.acknowledge(entry_id) for entry_id in ids)
    if acknowledged:
        group.save()
    return acknowledged


@command(
    "XPENDING key group [[IDLE min-idle-time] start end count [consumer]]",
    group="stream",
    since="5.0.0",
    complexity="O(n) with n entries that are looked at; O(consumers) for the summary",
    by_wall=True,
)
def xpending(tx: Transaction, args: list[bytes]) -> Reply:
    """Say what is pending in a group: how many entries, the lowest and highest id, and how many of each consumer.

    With an interval and a count, for each entry: its id, its consumer, the milliseconds since it was delivered, and how
    often that was.

    > XADD s 1000-1 name ann
    "1000-1"
    > XGROUP CREATE s crew 0
    OK
    > XREADGROUP GROUP crew bob STREAMS s >
    1) 1) "s"
       2) 1) 1) "1000-1"
             2) 1) "name"
                2) "ann"
    > XPENDING s crew
    1) (integer) 1
    2) "1000-1"
    3) "1000-1"
    4) 1) 1) "bob"
          2) "1"
    """
    asked = None if len(args) == _SUMMARY_ARGUMENTS else _parse_asked(args)
    _, group = find_group(tx, args)
    return _summary(group) if asked is None else _listed(tx, group, asked)


class _Asked(NamedTuple):
    """Which pending entries XPENDING is asked for."""

    min_idle_ms: int
    low: bytes
    high: bytes
    most: int
    consumer: bytes | None


def _parse_asked(args: list[bytes]) -> _Asked:
    if len(args) not in _LIST_ARGUMENTS:
        raise CommandError(SYNTAX)
    at, min_idle_ms = 2, 0
    if read_option(args[2]) == b"IDLE":
        min_idle_ms = read_integer(args[3])
        if len(args) < _IDLE_ARGUMENTS_MIN:
            raise CommandError(SYNTAX)
        at = 4
    count = read_integer(args[at + 2])
    low, high = parse_interval(args[at], args[at + 1])
    return _Asked(min_idle_ms, low, high, max(count, 0), args[at + 3] if len(args) > at + 3 else None)


def _summary(group: Group) -> Reply:
    if not group.pending:
        return [0, None, None, NIL_ARRAY]
    first = next(group.pending_entries())[0]
    last = next(group.pending_entries(reverse=True))[0]
    consumers = [[each.name, b"%d" % each.pending] for each in group.all_consumers() if each.pending]
    return [group.pending, show_id(first), show_id(last), consumers]


def _listed(tx: Transaction, group: Group, asked: _Asked) -> Reply:
    found = bounded(islice(_asked_for(tx, group, asked), asked.most), _measure)
    return [[show_id(entry_id), *rest] for entry_id, *rest in found]


def _asked_for(tx: Transaction, group: Group, asked: _Asked) -> Iterator[_Listed]:
    """The id, the consumer, the idle time and the deliveries of each entry that XPENDING is asked for."""
    if asked.consumer is None:
        found = group.pending_entries(asked.low, asked.high)
    else:
        found = group.pending_of(asked.consumer, asked.low, asked.high)
    for entry_id, record in found:
        idle_ms = tx.now_ms - record.delivered_ms
        if not asked.min_idle_ms or idle_ms >= asked.min_idle_ms:
            yield entry_id, record.consumer, max(idle_ms, 0), record.deliveries


def _measure(some: list[_Listed]) -> int:
    return sum(64 * 3 + len(consumer) for _, consumer, _, _ in some)


def find_group(tx: Transaction, args: Sequence[bytes]) -> tuple[Key, Group]:
    """The stream and the group that a command about pending entries names.

    Raises:
        CommandError: there is none.
    """
    key = tx.find_typed(args[0], STREAM)
    group = None if key is None else stream_groups.find(key, args[1])
    if key is None or group is None:
        raise CommandError(f"NOGROUP No such key '{quoted(args[0])}' or consumer group '{quoted(args[1])}'")
    return key, group
