"""Measures the floor of ZADD among the rows of `benchmarks.resp.data`: what RocksDB takes for its gets, scans and puts.

    {"name": "data_zadd_1000000_floor", "us": …, "cpu_us": …, "growth": …, "cpu_growth": …, "reads": …, "writes": …}

The same commands as those of the row, in the same rounds and batches, are applied to a state that is written down as it
is asked (`benchmarks.applying.trace`). Then rocksdict does what it was asked, on another state of the same contents. So
the growth of a line here is that of RocksDB, which has more records to write where 100 members fall into more blocks of
rank counts, and members that are in no memtable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.applying.floor import Floor
from benchmarks.applying.sources import ENGINE
from benchmarks.applying.subject import COLUMN_FAMILIES, HOME, open_store
from benchmarks.applying.trace import Batch, RecordingStore, Trace
from benchmarks.measure import Stopwatch
from benchmarks.resp.data import Cost, DataResult, Engine, wanted
from benchmarks.resp.data_works import DataSize, Work, drawn, filling
from engine.apply.machine import Machine

FLOORED: Final = "zadd"
"""The kind that has a floor."""

_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class FloorResult(DataResult):
    """One line of output.

    Attributes:
        reads, writes: of the store, by a command: gets and records that scans give; puts and deletions.
    """

    reads: float = 0.0
    writes: float = 0.0

    def figures(self) -> dict[str, float]:
        """Those of its line alone."""
        return {"reads": round(self.reads, 2), "writes": round(self.writes, 2)}


async def run_floor(size: DataSize, sources: Sequence[str], rows: str = "") -> AsyncIterator[FloorResult]:
    """A line for each size of ZADD, if `sources` have the engine, and `rows` ask for it as `run_data` has it."""
    for kind in wanted(size, rows):
        if ENGINE in sources and kind[0].kind == FLOORED:
            for result in _floor(size, kind):
                yield result


def _floor(size: DataSize, kind: list[Work]) -> Iterator[FloorResult]:
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        traces = _traced(size, kind, Path(directory) / "traced")
        _fill(size, Path(directory) / "state")
        floor = Floor(Path(directory) / "state", COLUMN_FAMILIES, Trace([]))
        costs: dict[str, list[Cost]] = {work.name: [] for work in kind}
        for round_ in range(size.pairs):
            for work in kind:
                trace = traces[work.name, round_]
                watch = Stopwatch()
                floor.do(trace.batches)
                wall, cpu = watch.read()
                costs[work.name].append(Cost(wall / trace.records * 1e6, cpu / trace.records * 1e6))
        floor.close()
    smallest = {"floor": costs[kind[0].name]}
    for work in kind:
        each = [traces[work.name, round_] for round_ in range(size.pairs)]
        records = sum(trace.records for trace in each)
        scanned = sum(
            scan.records
            for trace in each
            for batch in trace.batches
            for scans in batch.scans.values()
            for scan in scans
        )
        yield FloorResult(
            f"data_{work.name}_floor",
            each[0].records,
            {"floor": costs[work.name]},
            smallest,
            reads=(sum(trace.gets for trace in each) + scanned) / records,
            writes=sum(trace.puts for trace in each) / records,
        )


def _fill(size: DataSize, path: Path) -> None:
    with closing(open_store(path)) as store:
        engine = Engine(Machine(store, HOME))
        for command in filling(size):
            engine.write([command])


def _traced(size: DataSize, kind: list[Work], path: Path) -> dict[tuple[str, int], Trace]:
    """What each run asks of the store, by row and round."""
    _fill(size, path)
    traces: dict[tuple[str, int], Trace] = {}
    with closing(RecordingStore(open_store(path))) as store:
        engine = Engine(Machine(store, HOME))
        for round_ in range(size.pairs):
            for work in kind:
                batches = []
                commands = drawn(work, round_)
                for at in range(0, len(commands), _BATCH):
                    some = commands[at : at + _BATCH]
                    store.batch = Batch(len(some))
                    engine.write(some)
                    batches.append(store.batch)
                traces[work.name, round_] = Trace(batches)
    return traces
