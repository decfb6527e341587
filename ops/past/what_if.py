"""Compares the state of a partition with what it would be without some events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.apply.machine import Machine, Record
from engine.proof.differences import View, differences, sums_of
from engine.proof.digest import KEY, Item
from engine.tables.system import Skips
from ops.config import Settings
from ops.past.history import Value
from ops.past.left_out import Choice, chosen
from ops.past.proof.parting import value_of_large
from ops.past.walk import apply_all, walked
from ops.progress import progress
from ops.state.opening.directories import reading
from ops.state.rebuilding.replay_plan import Until

if TYPE_CHECKING:
    from slotlog.log import LogRecord


@dataclass(frozen=True, slots=True)
class Otherwise:
    """A key, script or library that would be another one. The values are those of a key, else None."""

    item: Item
    live: Value | None
    without: Value | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The result for one partition.

    Attributes:
        partition: its number.
        next_offset: where the state stands.
        left_out: the offsets of the events that were left out.
        differences: what would be different, the first of it.
        is_whole: whether that is all.
    """

    partition: int
    next_offset: int
    left_out: Skips
    differences: Sequence[Otherwise]
    is_whole: bool


async def what_if(settings: Settings, partition: int, choice: Choice, named_max: int) -> WhatIf:
    """Replay a partition up to the position of its state without some events, and compare the two.

    It begins with the newest verified snapshot before the first of these events, if there is one. Of an event that is
    left out nothing happens at all, as of one that an operator skips.

    Raises:
        As `walked`, `chosen` and `reading`.
    """
    with reading(settings, partition) as (store, machine):
        end = machine.next_offset
        left_out = await chosen(settings, partition, choice, Until(offset=end))
        if not left_out:
            return WhatIf(partition, end, left_out, [], is_whole=True)

        def step(replaying: Machine, records: Sequence[Record], _raw: Sequence[LogRecord]) -> None:
            gone = left_out.within(replaying.next_offset, records)
            apply_all(replaying, [record for record in records if record[0] not in gone])

        alone = settings.model_copy(update={"snapshots": settings.snapshots.model_copy(update={"url": ""})})
        first = Until(offset=left_out[0][0])
        async with (
            walked(settings, partition, first, apply_all, from_snapshot=True) as before,
            walked(alone, partition, Until(offset=end), step, from_snapshot=True, base=before) as without,
        ):
            clock_ms = max(machine.clock_ms, without.machine.clock_ms)
            views = [View(store, machine.layout, clock_ms), View(without.store, without.machine.layout, clock_ms)]
            with progress("compare", None, "keys") as advance:
                sums = [sums_of(view, advance) for view in views]
            items = differences(views[0], sums[0], views[1], sums[1], named_max + 1)
            named = [_otherwise(item, machine, without.machine, clock_ms) for item in items[:named_max]]
            return WhatIf(partition, end, left_out, named, len(items) <= named_max)


def _otherwise(item: Item, machine: Machine, without: Machine, clock_ms: int) -> Otherwise:
    db, name, kind = item
    if kind != KEY:
        return Otherwise(item, None, None)
    live, other = (value_of_large(each, db, name, clock_ms) for each in (machine, without))
    return Otherwise(item, live, other)
