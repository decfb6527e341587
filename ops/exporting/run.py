"""Runs an export: gives the live keys of a state, as it is or was, to a writer of files."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.model import TYPE_NAMES
from engine.proof.walk import LiveKey, live_keys
from engine.tables.system import Position
from ops.config import ConfigError, Settings
from ops.exporting.exporter import Export, NotExported
from ops.progress import Advance, progress
from ops.snapshots.starting import start_from_snapshot
from ops.state.opening.directories import reading
from ops.state.rebuilding.replay import replay_at_once
from ops.state.rebuilding.replay_plan import Until
from ops.state.reports.standing import Ends, Standing, log_ends, standing_of

_PROGRESS_KEYS: Final = 1000


@dataclass(slots=True)
class Exported:
    """The results of an export.

    Attributes:
        ends: of the log.
        types: keys by type.
        positions: what each partition had applied.
        standings: how far that is from the ends.
        missing: what was told to be missing, in numbers by what it is.
        left_out: keys that are missing as a whole.
    """

    ends: Ends
    types: Counter[str] = field(default_factory=Counter)
    positions: dict[int, Position] = field(default_factory=dict)
    standings: list[Standing] = field(default_factory=list)
    missing: Counter[str] = field(default_factory=Counter)
    left_out: int = 0


def export(settings: Settings, to: Path, writer: Export, told: Callable[[NotExported], None]) -> Exported:
    """Write the live keys of every owned partition to `to`.

    Args:
        settings: the state; its clock says what is alive.
        to: where; see `ops.exporting.exporter`.
        writer: the format.
        told: told of what it cannot hold.

    Raises:
        ConfigError: there is no state of a partition.
        CorruptionError, OSError: it cannot be read, or written; `to` is as it was.
    """
    ends, libraries = log_ends(settings, settings.owned), dict[bytes, bytes]()
    exported = Exported(ends)
    for partition in settings.owned:
        with reading(settings, partition) as (_, machine):
            exported.positions[partition] = machine.position
            exported.standings.append(standing_of(settings, ends, partition, machine.next_offset))
            libraries = machine.kept[1].codes  # each partition has them all

    def note(missing: NotExported) -> None:
        exported.missing[missing.what] += 1
        exported.left_out += missing.is_whole_key
        told(missing)

    time_ms = max(position.clock_ms for position in exported.positions.values())
    keys = sum(sum(position.counts.values()) for position in exported.positions.values())
    with progress("export", keys, "keys") as advance:
        writer(to, _keys(settings, exported, advance), libraries, time_ms, note)
    return exported


@contextmanager
def state_at(settings: Settings, until: Until, beside: Path) -> Iterator[Settings]:
    """The settings of a state that is rebuilt up to `until`, in a directory in `beside` that is gone afterwards.

    Raises:
        ConfigError: as a replay; or records cannot be applied any more that the state had applied.
    """
    with tempfile.TemporaryDirectory(prefix=".export-", dir=beside) as directory:
        data = Path(directory) / "state"
        for result in replay_at_once(settings, data, until, start=start_from_snapshot):
            if damaged := result.not_applied.newly_dead:
                raise ConfigError(
                    f"partition {result.partition}: offset {damaged[0]} cannot be applied any more:"
                    " `slotlog replay` says more"
                )
        yield settings.model_copy(update={"data": data, "log": settings.log_url})


def _keys(settings: Settings, exported: Exported, advance: Advance) -> Iterator[LiveKey]:
    for partition in settings.owned:
        with reading(settings, partition) as (store, machine):
            exported.positions[partition] = machine.position  # a service may have gone on
            for key in live_keys(store, machine.layout, machine.clock_ms):
                left_out = exported.left_out
                yield key
                if left_out == exported.left_out:
                    exported.types[TYPE_NAMES[key.type]] += 1
                if exported.types.total() % _PROGRESS_KEYS == 0:
                    advance(exported.types.total())
