"""Writes a state anew in another layout, into a fresh directory: each partition in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stamina import retry_context

from engine import conversion
from engine.errors import CommandError, CorruptionError, StoreBusyError
from engine.layouts import make_layout
from engine.proof.digest import Digest, running_digest
from engine.store.store import Changes, Store
from engine.tables.system import Position
from ops.config import ConfigError, Settings
from ops.processes import each_in_process, shared_between
from ops.progress import Advance, progress
from ops.state.opening.directories import home_of, prepare_data, reading, store_opener
from ops.state.rebuilding.building import begin_building, finish_building, refuse_used, settings_of_new
from ops.state.rebuilding.building_mark import clear_unfinished, marked

_PROGRESS_KEYS: Final = 1000
_ROUNDS: Final = 3
"""How often each key is looked at: to write it, and for the digests of both states."""


@dataclass(frozen=True, slots=True)
class Converted:
    """The result for one partition; `digest` is that of both states."""

    partition: int
    position: Position
    digest: Digest


def convert(
    settings: Settings,
    partitions: list[int],
    to: Path,
    layout: str,
    processes: int | None = None,
    index: str | None = None,
) -> list[Converted]:
    """Write the state of `partitions` into `to` in another layout, with progress.

    A partition counts as a state once its digest is that of its source.

    Args:
        settings: of the source, which may be that of a running service: it is read as it is at the start.
        partitions: those that are there.
        to: a directory that is empty, or not there, or that a conversion has left which was broken off.
        layout: of the new state.
        processes: how many at a time; None: one for each processor.
        index: of the new state; None: it has its sorted sets in itself.

    Raises:
        ConfigError: `to` is not empty, there is no such layout, or it has no form for a value; that key is named.
        CorruptionError: the source is damaged, or the new state has another digest.
        StateMismatchError, OSError: a state cannot be opened or written.
    """
    target = settings_of_new(settings, to, layout, index)
    total = 0
    for partition in partitions:
        with reading(settings, partition) as (_, machine):
            total += sum(machine.position.counts.values())
    clear_unfinished(to)
    refuse_used(to)
    prepare_data(target)
    with marked(to):
        for partition in partitions:
            store = store_opener(target, to, replaying=True)(partition)
            begin_building(store)
            store.close()
        processes = min(len(partitions), processes or os.cpu_count() or 1)
        with progress(f"convert to {layout}", _ROUNDS * total, "keys read") as advance:
            if processes == 1:
                return _one_by_one(settings, target, partitions, advance)
            source, new = (shared_between(each, processes) for each in (settings, target))
            pieces = [(source, new, partition) for partition in partitions]
            return each_in_process(_convert_piece, pieces, processes, settings.log_level, advance)


def _one_by_one(settings: Settings, target: Settings, partitions: list[int], advance: Advance) -> list[Converted]:
    converted: list[Converted] = []
    before = 0

    def behind(done: int) -> None:
        advance(before + done)

    for partition in partitions:
        converted.append(_convert(settings, target, partition, behind))
        before += _ROUNDS * sum(converted[-1].position.counts.values())
    return converted


# ---------------------------------------------------------------------- one partition


def _convert_piece(piece: tuple[Settings, Settings, int], advance: Advance) -> Converted:
    return _convert(*piece, advance)


def _convert(settings: Settings, target: Settings, partition: int, advance: Advance) -> Converted:
    home = home_of(target, partition)
    with reading(settings, partition) as (source, machine):
        position, layout = machine.position, machine.layout
        keys = sum(position.counts.values())
        store = store_opener(target, target.data, replaying=True)(partition)
        try:
            try:
                conversion.convert(source, layout, position, _Patient(store), home, advance)
            except CommandError as error:
                text = error.message.removeprefix("ERR ")
                raise ConfigError(f"partition {partition}: {text}; choose another layout") from error
            old = _digest(running_digest(source, layout, position.clock_ms), lambda done: advance(keys + done))
            new_layout = make_layout(home.layout, partition, home.partitions)
            found = running_digest(store, new_layout, position.clock_ms)
            new = _digest(found, lambda done: advance(2 * keys + done))
            if old != new:
                raise CorruptionError(
                    f"partition {partition}: the new state has the digest {new} and not {old}, so it does not count;"
                    " see `slotlog check`"
                )
            finish_building(store)
        finally:
            store.close()
    return Converted(partition, position, new)


def _digest(running: Iterator[Digest], advance: Callable[[int], None]) -> Digest:
    result = Digest()
    for result in running:
        if result.keys % _PROGRESS_KEYS == 0:
            advance(result.keys)
    return result


class _Patient:
    """A store whose writes wait while RocksDB is behind with its compactions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.getter = store.getter
        self.scan, self.keys, self.records = store.scan, store.keys, store.records
        self.close = store.close

    def write(self, changes: Changes) -> None:
        """As that of the store.

        Raises:
            StoreBusyError: RocksDB has been behind for a minute.
        """
        for attempt in retry_context(StoreBusyError, attempts=None, timeout=60.0, wait_initial=0.01, wait_max=1.0):
            with attempt:
                self._store.write(changes)
