"""A lane's group on the machine: runs of writes, the reads between them, and the reply of each."""

from __future__ import annotations

from itertools import groupby, islice
from typing import Final

import structlog

from engine.applied import Applied, Record
from engine.errors import CommandError, EventError
from engine.machine import Machine
from engine.replies import Reply
from ingest.clock import ReadClock
from ingest.log import Position
from ingest.resp.items import Item
from ingest.seat import Seat

BROKEN: Final = CommandError("ERR internal error: see the log of slotlog")

Answers = list[tuple[Item, Reply]]
"""Items and their replies, in order."""

logger = structlog.get_logger(__name__)


class UnusualError(Exception):
    """A batch that the quick way does not take: dead letters, or more than one commit may hold."""


def apply_group(
    seat: Seat, items: list[Item], positions: list[Position], read_clock: ReadClock
) -> tuple[Answers, list[Applied]]:
    """Evaluate a group whose first write is the partition's next record: the replies, and what each run of writes did.

    Nothing is committed.

    Raises:
        UnusualError, Exception: as `Machine.apply`; roll back.
    """
    machine = seat.worker.machine
    answers: Answers = []
    done: list[Applied] = []
    if len(items) == len(positions):  # writes only, as usual
        done.append(_apply_run(machine, items, positions, answers))
        return answers, done
    places = iter(positions)
    for is_read, some in groupby(items, _is_read):
        together = list(some)
        if is_read:
            answers += [(item, evaluated(seat, item, read_clock)) for item in together]
        else:
            done.append(_apply_run(machine, together, list(islice(places, len(together))), answers))
    return answers, done


def _is_read(item: Item) -> bool:
    return item.entry is None


def _apply_run(machine: Machine, items: list[Item], positions: list[Position], answers: Answers) -> Applied:
    """Apply a run of writes, and add the outcome of each to `answers`."""
    records: list[Record] = []
    for item, (_, offset, time_ms) in zip(items, positions, strict=True):
        item.offset = offset
        records.append((offset, time_ms, item.name, item.args, item.db, item.event_id, item.watch_id))
    first, last = records[0][0], records[-1][0]
    applied = machine.apply(records, first, range(first, last + 1))
    applied.first_time_ms = records[0][1]
    if applied.dead_letters or applied.records != len(records):
        raise UnusualError
    if applied.skipped:
        answers += [(item, outcome(applied, record[0])) for item, record in zip(items, records, strict=True)]
    else:
        answers += zip(items, applied.outcomes.values(), strict=True)
    return applied


def outcome(applied: Applied, offset: int) -> Reply:
    """The reply to the write at `offset`; a dead letter or a skipped record is an error."""
    if offset in applied.outcomes:
        return applied.outcomes[offset]
    reasons = [reason for letter, reason in applied.dead_letters if letter == offset]
    reason = reasons[0].removeprefix("ERR ") if reasons else "an operator decided to skip this write"
    return CommandError(f"ERR {reason}")


def evaluated(seat: Seat, item: Item, read_clock: ReadClock, *, by_wall: bool = False) -> Reply:
    """The reply of a read that waited; `by_wall`, with what is due by the read clock gone, whatever the command."""
    spec = item.spec
    assert spec is not None
    if not item.is_wanted:
        return None
    at_ms = max(seat.worker.machine.clock_ms, read_clock.now_ms()) if by_wall or spec.by_wall else 0
    try:
        return seat.evaluate(spec, item.args, item.db, at_ms=at_ms)
    except CommandError as error:
        return error
    except EventError as error:
        return CommandError(f"ERR {error.reason}")
    except Exception:  # a read changes nothing: it fails alone, and the writes around it go on
        logger.exception("read_failed", command=item.name)
        return BROKEN
