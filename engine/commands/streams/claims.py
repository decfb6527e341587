"""Hands pending entries over to another consumer. Source: https://valkey.io/commands/#stream."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.batch.keys.key import Key
from engine.batch.transaction import Transaction
from engine.commands.keyspace_events import CONSUMER_MADE, further
from engine.commands.options import read_option
from engine.commands.registry import command
from engine.commands.streams.ids import parse_bound, parse_id, shown
from engine.commands.streams.pending import find_group
from engine.errors import SYNTAX, CommandError, quoted
from engine.model import NO_ID
from engine.types.stream import streams
from engine.types.stream.stream_groups import Consumer, Group
from engine.types.stream.streams import id_after, show_id
from engine.values.numbers import INT_MAX, parse_int
from engine.values.replies import Reply
from engine.values.stream_records import PendingRecord

_COUNT: Final = 100
_COUNT_MAX: Final = INT_MAX // 16
_LOOKED_AT: Final = 10
"""Of each entry that XAUTOCLAIM may return it looks at so many."""


class _Claim(NamedTuple):
    """What XCLAIM is given behind the consumer.

    Attributes:
        ids: of the entries.
        min_idle_ms: leave what was delivered within that time.
        delivered_ms: when they shall have been delivered.
        deliveries: how often; None: once more, with `only_ids` as often as before.
        force: take entries that are not pending, too.
        only_ids: reply without fields and values.
        last_id: the last one that the group has got, if it is higher.
    """

    ids: list[bytes]
    min_idle_ms: int
    delivered_ms: int
    deliveries: int | None
    force: bool
    only_ids: bool
    last_id: bytes


@command(
    "XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] "
    "[FORCE] [JUSTID] [LASTID lastid]",
    group="stream",
    since="5.0.0",
    complexity="O(ids)",
    write=True,
    keeps_watches=True,
    fast=True,
    notifies=further,
)
def xclaim(tx: Transaction, args: list[bytes]) -> Reply:
    """Hand pending entries over to a consumer, if they were delivered so many milliseconds ago. Returns them.

    An entry that was deleted is no longer pending then. With FORCE an entry becomes pending that is not.

    > XADD s 1000-1 name ann
    "1000-1"
    > XGROUP CREATE s crew 0
    OK
    > XCLAIM s crew bob 0 1000-1
    (empty array)
    > XCLAIM s crew bob 0 1000-1 FORCE JUSTID
    1) "1000-1"
    """
    key, group = find_group(tx, args)
    claim = _parse_claim(args, tx.now_ms)
    wanted = dict.fromkeys(claim.ids)
    texts = {entry_id: value for entry_id in wanted if (value := streams.entry(key, entry_id)) is not None}
    claimed = [entry_id for entry_id in claim.ids if entry_id in texts]
    reply = {} if claim.only_ids else dict(zip(claimed, shown((each, texts[each]) for each in claimed), strict=True))
    group.last_id = max(group.last_id, claim.last_id)
    consumer = _consumer(tx, args[0], group, args[2])
    replies: list[Reply] = []
    for entry_id in claim.ids:
        if entry_id not in texts:
            group.acknowledge(entry_id)
        elif _claim(tx, group, consumer, entry_id, claim):
            replies.append(show_id(entry_id) if claim.only_ids else reply[entry_id])
    group.save()
    return replies


def _claim(tx: Transaction, group: Group, consumer: Consumer, entry_id: bytes, claim: _Claim) -> bool:
    """Give an entry, which is there, to a consumer. Returns whether it got it."""
    old = group.pending_entry(entry_id)
    if old is None:
        if not claim.force:
            return False
        old = PendingRecord(tx.now_ms, 1, b"")
    elif claim.min_idle_ms and tx.now_ms - old.delivered_ms < claim.min_idle_ms:
        return False
    deliveries = old.deliveries + (not claim.only_ids) if claim.deliveries is None else claim.deliveries
    group.give(entry_id, consumer, claim.delivered_ms, deliveries)
    consumer.active_ms = tx.now_ms
    return True


def _parse_claim(args: list[bytes], now_ms: int) -> _Claim:
    min_idle_ms = _number(args[3], "ERR Invalid min-idle-time argument for XCLAIM")
    ids: list[bytes] = []
    for text in args[4:]:
        try:
            ids.append(parse_id(text))
        except CommandError:
            break
    claim = _Claim(ids, max(min_idle_ms, 0), now_ms, None, force=False, only_ids=False, last_id=NO_ID)
    at = 4 + len(ids)
    while at < len(args):
        option = read_option(args[at])
        value = args[at + 1] if at + 1 < len(args) else None
        if option == b"FORCE":
            claim = claim._replace(force=True)
        elif option == b"JUSTID":
            claim = claim._replace(only_ids=True)
        elif value is None or option not in {b"IDLE", b"TIME", b"RETRYCOUNT", b"LASTID"}:
            raise CommandError(f"ERR Unrecognized XCLAIM option '{quoted(args[at])}'")
        else:
            claim = _with_value(claim, option, value, now_ms)
            at += 1
        at += 1
    if not 0 <= claim.delivered_ms <= now_ms:
        return claim._replace(delivered_ms=now_ms)
    return claim


def _with_value(claim: _Claim, option: bytes, value: bytes, now_ms: int) -> _Claim:
    """What is asked with one more option that has a value."""
    if option == b"LASTID":
        return claim._replace(last_id=parse_id(value))
    number = _number(value, f"ERR Invalid {option.decode()} option argument for XCLAIM")
    if option == b"IDLE":
        return claim._replace(delivered_ms=now_ms - number)
    if option == b"TIME":
        return claim._replace(delivered_ms=number)
    return claim._replace(deliveries=number if number >= 0 else None)


def _number(text: bytes, otherwise: str) -> int:
    number = parse_int(text)
    if number is None:
        raise CommandError(otherwise)
    return number


def _consumer(tx: Transaction, stream: bytes, group: Group, name: bytes) -> Consumer:
    """The consumer of that name, new or not, who is seen now."""
    consumer = group.consumer(name)
    if consumer is None:
        consumer = group.add_consumer(name, tx.now_ms)
        tx.note_done(stream, CONSUMER_MADE)
    consumer.seen_ms = tx.now_ms
    return consumer


# ---------------------------------------------------------------------- XAUTOCLAIM


class _Walk(NamedTuple):
    """What XAUTOCLAIM found: entries to hand over, with how often they were delivered; deleted ones; where to go on."""

    claimed: list[tuple[bytes, int]]
    values: dict[bytes, bytes]
    deleted: list[bytes]
    next_id: bytes


@command(
    "XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]",
    group="stream",
    since="6.2.0",
    complexity="O(count)",
    write=True,
    keeps_watches=True,
    fast=True,
    access="RW delete",
    notifies=further,
)
def xautoclaim(tx: Transaction, args: list[bytes]) -> Reply:
    """Hand what was delivered so many milliseconds ago over to a consumer, from an id on.

    Returns the id to go on from, `0-0` at the end; the entries; and the ids of those that were deleted, which are no
    longer pending. It looks at ten times as many entries as COUNT says, 100 without it, and returns that many at most.

    > XADD s 1000-1 name ann
    "1000-1"
    > XGROUP CREATE s crew 0
    OK
    > XREADGROUP GROUP crew bob STREAMS s >
    1) 1) "s"
       2) 1) 1) "1000-1"
             2) 1) "name"
                2) "ann"
    > XAUTOCLAIM s crew cy 0 0 JUSTID
    1) "0-0"
    2) 1) "1000-1"
    3) (empty array)
    """
    min_idle_ms = max(_number(args[3], "ERR Invalid min-idle-time argument for XAUTOCLAIM"), 0)
    start = _parse_start(args[4])
    count, only_ids = _parse_options(args)
    key, group = find_group(tx, args)
    walk = _walk(tx, key, group, start, min_idle_ms, count)
    ids = [entry_id for entry_id, _ in walk.claimed]
    replies = [show_id(each) for each in ids] if only_ids else shown((each, walk.values[each]) for each in ids)
    consumer = _consumer(tx, args[0], group, args[2])
    for entry_id in walk.deleted:
        group.acknowledge(entry_id)
    for entry_id, deliveries in walk.claimed:
        group.give(entry_id, consumer, tx.now_ms, deliveries + (not only_ids))
        consumer.active_ms = tx.now_ms
    group.save()
    return [show_id(walk.next_id), replies, [show_id(entry_id) for entry_id in walk.deleted]]


def _walk(tx: Transaction, key: Key, group: Group, start: bytes, min_idle_ms: int, count: int) -> _Walk:
    """Look at pending entries, `count` times `_LOOKED_AT` of them at most, until `count` are found."""
    claimed: list[tuple[bytes, int]] = []
    values: dict[bytes, bytes] = {}
    deleted: list[bytes] = []
    for looked_at, (entry_id, record) in enumerate(group.pending_entries(start)):
        if looked_at >= count * _LOOKED_AT or len(claimed) + len(deleted) >= count:
            return _Walk(claimed, values, deleted, entry_id)
        value = streams.entry(key, entry_id)
        if value is None:
            deleted.append(entry_id)
        elif not min_idle_ms or tx.now_ms - record.delivered_ms >= min_idle_ms:
            claimed.append((entry_id, record.deliveries))
            values[entry_id] = value
    return _Walk(claimed, values, deleted, NO_ID)


def _parse_start(text: bytes) -> bytes:
    if not text.startswith(b"(") or len(text) == 1:
        return parse_bound(text)
    start = id_after(parse_id(text[1:]))
    if start is None:
        raise CommandError("ERR invalid start ID for the interval")
    return start


def _parse_options(args: list[bytes]) -> tuple[int, bool]:
    """The count, and whether ids are enough."""
    count, only_ids, at = _COUNT, False, 5
    while at < len(args):
        option = read_option(args[at])
        if option == b"JUSTID":
            only_ids = True
        elif option == b"COUNT" and at + 1 < len(args):
            number = parse_int(args[at + 1])
            if number is None or not 0 < number <= _COUNT_MAX:
                raise CommandError("ERR COUNT must be > 0")
            count = number
            at += 1
        else:
            raise CommandError(SYNTAX)
        at += 1
    return count, only_ids
