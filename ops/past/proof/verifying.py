"""Holds a state against a replay of its log, or against another state at the same position."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.apply.machine import Machine
from engine.proof.differences import View, differences, sums_of
from engine.proof.digest import KEY, Digest, Item
from engine.store.store import Store
from engine.tables.system import Position
from ops.config import ConfigError, Settings
from ops.past.history import Value
from ops.past.narrow import walked_for
from ops.past.proof.parting import Parting, Partings, value_of_large
from ops.past.walk import Past, apply_all, walked
from ops.progress import progress
from ops.state.opening.directories import home_of, reading, store_opener
from ops.state.rebuilding.replay_plan import Until, opened
from slotlog.wording import counted

NAMED_MAX: Final = 10
"""Keys that differ are named up to so many, unless more are asked for."""


class State(NamedTuple):
    """A state of one partition that nothing writes to."""

    store: Store
    machine: Machine

    @property
    def view(self) -> View:
        """It, to be compared."""
        return View(self.store, self.machine.layout, self.machine.clock_ms)


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not the same in both states.

    Attributes:
        item: a key, script or library.
        live: the key in the state; None for a script or library.
        other: the key in the replay, or in the other state.
        parting: where the state parts from the log, of a key.
        other_parting: where the other state does, of a key, if that is no replay.
    """

    item: Item
    live: Value | None = None
    other: Value | None = None
    parting: Parting | None = None
    other_parting: Parting | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of one partition.

    Attributes:
        partition: its number.
        position: where both states stand, as the live one says.
        clock_ms: of the other one.
        rules: of the other one.
        digest: of the live state.
        other_digest: of the replay, or of the other state.
        begin: the offset that the replay began with; None: nothing was replayed.
        differences: the first of them.
        is_whole: whether these are all.
    """

    partition: int
    position: Position
    clock_ms: int
    rules: int
    digest: Digest
    other_digest: Digest
    begin: int | None
    differences: Sequence[Difference]
    is_whole: bool

    @property
    def is_equal(self) -> bool:
        """Whether the live state is what it has to be."""
        position = self.position
        return (self.digest, position.clock_ms, position.rules) == (self.other_digest, self.clock_ms, self.rules)


async def verify_partition(
    settings: Settings, partition: int, *, from_snapshot: bool = False, named_max: int = NAMED_MAX
) -> Compared:
    """Replay a partition up to the position of its state, in a scratch directory, and compare the two.

    The state is read as it is now, also while a service goes on with it.

    Args:
        settings: the log, the state, and where snapshots are.
        partition: one that has a state.
        from_snapshot: begin with the newest verified snapshot before that position, if there is one.
        named_max: how many differences are named.

    Raises:
        LogMismatchError: the log is not that of the state. CorruptionError: the state is damaged.
        Others: as `walked`, and as `reading`.
    """
    with reading(settings, partition) as live:
        state = State(*live)
        position = state.machine.position
        await _check_log(settings, partition, position)
        until = Until(offset=position.next_offset)
        async with walked(settings, partition, until, apply_all, from_snapshot=from_snapshot) as past:
            replayed = State(past.store, past.machine)
            return await _compared(settings, partition, state, replayed, named_max, begin=past.begin, is_replay=True)


async def compare_partition(
    settings: Settings, other: Settings, partition: int, *, named_max: int = NAMED_MAX
) -> Compared:
    """Compare the state of a partition with one in another directory, where both stand at the same offset.

    If one of them is behind, and no service has it open, a copy of it is brought up along the log first.

    Raises:
        ConfigError: they are of other logs. BlockingIOError: the one that is behind is open in a service.
        Others: as `verify_partition`.
    """
    if (settings.topic, settings.partitions) != (other.topic, other.partitions):
        raise ConfigError(
            f"{other.data} has a state of the topic {other.topic} with {counted(other.partitions, 'partition')}, not of"
            f" {settings.topic} with {settings.partitions}"
        )
    with reading(settings, partition) as live, reading(other, partition) as second:
        state, others = State(*live), State(*second)
        await _check_log(settings, partition, state.machine.position)
        end, others_end = state.machine.next_offset, others.machine.next_offset
        if end == others_end:
            return await _compared(settings, partition, state, others, named_max)
        if others_end < end:
            async with _brought_up(settings, other, partition, end) as past:
                up = State(past.store, past.machine)
                return await _compared(settings, partition, state, up, named_max, begin=past.begin)
        async with _brought_up(settings, settings, partition, others_end) as past:
            up = State(past.store, past.machine)
            return await _compared(settings, partition, up, others, named_max, begin=past.begin)


@asynccontextmanager
async def _brought_up(log: Settings, behind: Settings, partition: int, end: int) -> AsyncIterator[Past]:
    """A copy of a state that no service has open, with everything applied before `end`."""
    source = behind.model_copy(update={"log": log.log_url})
    alone = source.snapshots.model_copy(update={"url": ""})
    source = source.model_copy(update={"snapshots": alone})
    store = store_opener(source, source.data)(partition)
    try:
        machine = Machine(store, home_of(source, partition))
        base = Past(store, machine, machine.next_offset)
        async with walked(source, partition, Until(offset=end), apply_all, from_snapshot=True, base=base) as past:
            yield past
    finally:
        store.close()


async def _check_log(settings: Settings, partition: int, position: Position) -> None:
    log = opened(settings)
    await log.start()
    try:
        await log.check(partition, position.next_offset, position.fingerprint)
    finally:
        await log.close()


async def _compared(
    settings: Settings,
    partition: int,
    state: State,
    other: State,
    named_max: int,
    *,
    begin: int | None = None,
    is_replay: bool = False,
) -> Compared:
    """The comparison, with the differences narrowed down to events of the log."""
    views = state.view, other.view
    keys = [sum(each.machine.position.counts.values()) for each in (state, other)]
    with progress("compare", sum(keys), "keys") as advance:
        sums = sums_of(views[0], advance)
        other_sums = sums_of(views[1], lambda done: advance(keys[0] + done))
    items = differences(views[0], sums, views[1], other_sums, named_max + 1)
    named = items[:named_max]
    position = state.machine.position
    return Compared(
        partition,
        position,
        other.machine.clock_ms,
        other.machine.position.rules,
        sums.digest,
        other_sums.digest,
        begin,
        await _narrowed(settings, partition, named, state, other, is_replay=is_replay),
        len(items) == len(named),
    )


async def _narrowed(
    settings: Settings, partition: int, items: Sequence[Item], state: State, other: State, *, is_replay: bool
) -> list[Difference]:
    """Each difference with the events at which it begins."""
    end = state.machine.next_offset
    states = (state,) if is_replay else (state, other)
    keys = [(db, name) for db, name, kind in items if kind == KEY]
    partings = Partings({key: [value_of_large(each.machine, *key) for each in states] for key in keys})
    if keys:
        names, until = [name for _, name in keys], Until(offset=end)
        async with walked_for(settings, partition, until, partings.step, names, from_snapshot=False):
            pass  # what counts is the way there
    return [_difference(item, state, other, partings, is_replay=is_replay) for item in items]


def _difference(item: Item, state: State, other: State, partings: Partings, *, is_replay: bool) -> Difference:
    db, name, kind = item
    if kind != KEY:
        return Difference(item)
    return Difference(
        item,
        value_of_large(state.machine, db, name),
        value_of_large(other.machine, db, name),
        partings.of((db, name), 0),
        None if is_replay else partings.of((db, name), 1),
    )
