"""Measures each layout on each stream: writes, reads, counts, and what a key takes on disk.

Machines are noisy, so the layouts take turns: in each round every layout has one pass, and the order moves on by one.
A pass applies the events into an empty state in the worker's batches, opens the state again, reads and counts keys
drawn at random, and compacts all of it. All layouts must come to one digest: a pass that leaves work out is refused.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.applying.workloads import SEED
from benchmarks.layouts.streams import STREAMS, Command, count_of, read_of, records_of
from benchmarks.measure import Seconds, Stopwatch
from engine.apply.machine import Machine, Record
from engine.layouts import DEFAULT_LAYOUT, LAYOUTS
from engine.layouts.records import column_families
from engine.proof.digest import digest
from engine.proof.walk import live_keys
from engine.store.store import Store
from ingest.applying.batches.batch_size import BATCH_RECORDS_MAX
from ops.config import Settings
from ops.state.opening.directories import home_of, store_opener
from ops.state.opening.indexed_state import StateStore

_LAST: Final = b"\xff" * 64
"""Behind every key."""


@dataclass(frozen=True, slots=True)
class LayoutsSize:
    """Events of a pass, keys that are read and counted, and rounds."""

    events: int
    reads: int
    rounds: int


LAYOUTS_LARGE: Final = LayoutsSize(events=100_000, reads=20_000, rounds=5)
LAYOUTS_SMOKE: Final = LayoutsSize(events=300, reads=50, rounds=1)


class Pass(NamedTuple):
    """What one pass came to; `stored_bytes` are those of the layout's column families, `keys` those that are alive."""

    writes: Seconds
    reads: Seconds
    counts: Seconds
    stored_bytes: int
    keys: int
    digest: str


@dataclass(frozen=True, slots=True)
class LayoutResult:
    """One line of output: a layout on a stream."""

    stream: str
    layout: str
    size: LayoutsSize
    events: int
    passes: list[Pass]
    default: list[Pass]

    def line(self) -> str:
        """The result as JSON: rates of the median pass, and ratios by the default layout's CPU time in each round."""
        facts: dict[str, object] = {"name": f"layouts_{self.stream}_{self.layout}"}
        for kind, count in (("writes", self.events), ("reads", self.size.reads), ("counts", self.size.reads)):
            own, default = ([getattr(each, kind) for each in passes] for passes in (self.passes, self.default))
            facts[f"{kind}_per_second"] = round(count / median(each.wall for each in own))
            ratios = (other.cpu / each.cpu for each, other in zip(own, default, strict=True))
            facts[f"{kind}_ratio"] = round(median(ratios), 3)
        facts["bytes_per_key"] = round(median(each.stored_bytes / each.keys for each in self.passes), 1)
        facts |= {"keys": self.passes[0].keys, "events": self.events}
        return json.dumps({**facts, "reads": self.size.reads, "rounds": self.size.rounds})


async def run_layouts(size: LayoutsSize) -> AsyncIterator[LayoutResult]:
    """Measure every layout on every stream."""
    for stream in STREAMS:
        records = records_of(stream, size.events)
        passes: dict[str, list[Pass]] = {name: [] for name in LAYOUTS}
        for turn in range(size.rounds):
            names = [*LAYOUTS]
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                with TemporaryDirectory(prefix="slotlog-bench-") as directory:
                    passes[name].append(run_pass(name, Path(directory), records, size.reads))
        if len({each.digest for found in passes.values() for each in found}) != 1:
            raise RuntimeError(f"the layouts come to other digests on the stream {stream}")
        for name, found in passes.items():
            yield LayoutResult(stream, name, size, len(records), found, passes[DEFAULT_LAYOUT])


def run_pass(layout: str, directory: Path, records: list[Record], reads: int) -> Pass:
    """Write, read, count and compact once."""
    settings = Settings(data=directory, layout=layout)
    open_store = store_opener(settings, directory)
    with closing(open_store(0)) as store:
        writes = _write(Machine(store, home_of(settings, 0)), records)
    with closing(open_store(0)) as store:
        machine = Machine(store, home_of(settings, 0))
        keys = sorted((key.name, key.type) for key in live_keys(store, machine.layout, machine.clock_ms))
        drawn = Random(SEED).choices(keys, k=reads)
        read = _read(machine, [read_of(*key) for key in drawn])
        counted = _read(machine, [count_of(*key) for key in drawn])
        _compact(store)
        own = store.disk_bytes()
        stored_bytes = sum(own[family] for family in column_families(LAYOUTS[layout]))
        return Pass(writes, read, counted, stored_bytes, len(keys), _digest(store, machine))


def _write(machine: Machine, records: list[Record]) -> Seconds:
    watch = Stopwatch()
    at = 0
    while at < len(records):
        applied = machine.apply(records[at : at + BATCH_RECORDS_MAX], machine.next_offset)
        if applied.dead_letters or applied.rejected:
            raise RuntimeError(f"not applied: {applied.rejections} {applied.dead_letters[:3]}")
        machine.commit(b"fingerprint")
        at += applied.records
    return watch.read()


def _read(machine: Machine, commands: list[Command]) -> Seconds:
    watch = Stopwatch()
    for name, args in commands:
        machine.read(name, args)
    return watch.read()


def _compact(store: StateStore) -> None:
    store.flush_all()
    for family in store.disk_bytes():
        store.compact(family, b"", _LAST)


def _digest(store: Store, machine: Machine) -> str:
    return str(digest(store, machine.layout, machine.clock_ms))
