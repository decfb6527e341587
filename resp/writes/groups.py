"""A write pipeline's group on the machine: runs of writes, the reads between them, and the reply of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from engine import native
from engine.apply.machine import Machine
from engine.apply.records import Applied, Record
from engine.errors import CommandError
from engine.values.replies import Reply
from ingest.applying.partitions.owned_partition import OwnedPartition
from resp.writes.items import Item, Replies
from slotlog.log import RecordPosition

BROKEN: Final = CommandError("ERR internal error: see the log of slotlog")

PART_SECONDS: Final = 0.01
"""A group is cut after this time of its own, and answered so far; while it was suspended the time stands still."""

_PART_BYTES: Final = 1024 * 1024  # likewise, of the values that its reads have given: they are held twice meanwhile
_RUN_EVENTS_MAX: Final = 256

logger = structlog.get_logger(__name__)


class UnusualError(Exception):
    """A batch that the fast path does not take: dead letters, or more than one commit may hold."""


class Part(NamedTuple):
    """The beginning of a group, or all of it, evaluated and not committed.

    Attributes:
        replies: of its items, in order.
        done: what each run of writes did.
        written: how many of its items were writes.
    """

    replies: Replies
    done: list[Applied]
    written: int


def apply_group(
    owned: OwnedPartition, items: list[Item], positions: list[RecordPosition], evaluate: Callable[[Item], Reply]
) -> Part:
    """Apply at least one item of a group whose first write is the partition's next record; as many as a turn allows.

    Args:
        owned: the partition.
        items: the group's.
        positions: of the writes among them.
        evaluate: gives the reply of a read.

    Raises:
        UnusualError, Exception: as `Machine.apply`; roll back.
    """
    machine = owned.worker.machine
    if positions and owned.worker.is_held(positions[-1].offset, positions[-1].time_ms):
        raise UnusualError
    replies: Replies = []
    if len(items) == len(positions) <= _RUN_EVENTS_MAX:  # writes only, and one run of them: as usual
        return Part(replies, [_apply_run(machine, items, positions, replies)], len(items))
    done: list[Applied] = []
    running_seconds = owned.worker.gate.slices.running_seconds
    ends = running_seconds() + PART_SECONDS
    at = written = size = 0
    while at < len(items):
        item = items[at]
        if item.entry is None:
            reply = evaluate(item)
            replies.append((item, reply))
            if type(reply) is bytes:
                size += len(reply)
            at += 1
        else:
            end = _end_of_run(items, at, len(positions) - written)
            run = positions[written : written + end - at]
            done.append(_apply_run(machine, items[at:end], run, replies))
            written += end - at
            at = end
        if size > _PART_BYTES or (at < len(items) and running_seconds() > ends):
            break
    return Part(replies, done, written)


def _end_of_run(items: list[Item], at: int, writes: int) -> int:
    """Where the writes end that begin at `at` and are applied at once; `writes` is how many there are from there on."""
    limit = min(len(items), at + _RUN_EVENTS_MAX)
    if len(items) - at == writes:  # writes only, as usual
        return limit
    return next((end for end in range(at, limit) if items[end].entry is None), limit)


def _apply_run(machine: Machine, items: list[Item], positions: list[RecordPosition], replies: Replies) -> Applied:
    """Apply a run of writes, and add the outcome of each to `replies`."""
    hot = native.chosen()
    records: list[Record] | None = None if hot is None else hot.records_of(items, positions)
    if records is None:
        records = records_of(items, positions)
    first, last = records[0][0], records[-1][0]
    applied = machine.apply(records, first, range(first, last + 1))
    if applied.dead_letters or applied.records != len(records):
        raise UnusualError
    if applied.skipped:
        replies += [(item, outcome(applied, record[0])) for item, record in zip(items, records, strict=True)]
    else:
        replies += zip(items, applied.outcomes.values(), strict=True)
    return applied


def records_of(items: list[Item], positions: list[RecordPosition]) -> list[Record]:
    """The records of writes, which learn their offsets; the part in C does the same for those of clients."""
    records: list[Record] = []
    for item, (_, offset, time_ms) in zip(items, positions, strict=True):
        item.offset = offset
        records.append((offset, time_ms, item.name, item.args, item.db, item.event_id, item.watch_id))
    return records


def outcome(applied: Applied, offset: int) -> Reply:
    """The reply to the write at `offset`; a dead letter or a skipped record is an error."""
    if offset in applied.outcomes:
        return applied.outcomes[offset]
    reasons = [reason for letter, reason in applied.dead_letters if letter == offset]
    reason = reasons[0].removeprefix("ERR ") if reasons else "an operator decided to skip this write"
    return CommandError(f"ERR {reason}")
