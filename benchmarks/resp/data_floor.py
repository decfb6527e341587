"""Measures the floor of rows of `benchmarks.resp.data`: what RocksDB takes for their gets, scans and puts.

    {"name": "data_zadd_1000000_floor", "us": …, "cpu_us": …, "growth": …, "cpu_growth": …, "reads": …, "writes": …}

The same commands as those of the rows, in the same rounds and batches, are applied to a state that is written down as
it is asked (`benchmarks.applying.trace`). Then rocksdict does what it was asked, on another state of the same contents.
So the growth of a line here is that of RocksDB: members that are in no memtable, blocks of the order that are read for
the first time, and more records to write where 100 members fall into more blocks of rank counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.applying.floor import Floor
from benchmarks.applying.sources import ENGINE
from benchmarks.applying.subject import COLUMN_FAMILIES, open_machine, open_store
from benchmarks.applying.trace import Batch, RecordingStore, Trace
from benchmarks.measure import Stopwatch
from benchmarks.resp.data import Cost, DataResult, Engine, wanted
from benchmarks.resp.data_works import DataSize, Work, drawn, filling

FLOORED: Final = frozenset({"zrank", "zrange", "zcount", "zlimit", "zadd", "hget", "hset"})
"""The kinds that have a floor."""

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
    """A line for each size of these kinds, if `sources` have the engine, and `rows` ask for it as `run_data` has it."""
    works = [kind for kind in wanted(size, rows) if kind[0].kind in FLOORED]
    if ENGINE in sources and works:
        for result in _floors(size, works):
            yield result


def _floors(size: DataSize, works: list[list[Work]]) -> Iterator[FloorResult]:
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        traces = _traced(size, works, Path(directory) / "traced")
        _fill(size, works, Path(directory) / "state")
        floor = Floor(Path(directory) / "state", COLUMN_FAMILIES, Trace([]))
        for kind in works:
            yield from _floor(size, kind, traces, floor)
        floor.close()


def _floor(
    size: DataSize, kind: list[Work], traces: dict[tuple[str, int], Trace], floor: Floor
) -> Iterator[FloorResult]:
    costs: dict[str, list[Cost]] = {work.name: [] for work in kind}
    for round_ in range(size.pairs):
        for work in kind:
            trace = traces[work.name, round_]
            watch = Stopwatch()
            floor.do(trace.batches)
            wall, cpu = watch.read()
            costs[work.name].append(Cost(wall / trace.records * 1e6, cpu / trace.records * 1e6))
    asks = any(batch.gets or batch.scans or batch.puts for batch in traces[kind[0].name, 0].batches)
    smallest = {"floor": costs[kind[0].name]} if asks else {}  # nothing does not grow
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


def _fill(size: DataSize, works: list[list[Work]], path: Path) -> None:
    with closing(open_store(path)) as store:
        engine = Engine(open_machine(store))
        for command in filling(size, works):
            engine.write([command])


def _traced(size: DataSize, works: list[list[Work]], path: Path) -> dict[tuple[str, int], Trace]:
    """What each run asks of the store, by row and round."""
    _fill(size, works, path)
    traces: dict[tuple[str, int], Trace] = {}
    with closing(RecordingStore(open_store(path))) as store:
        engine = Engine(open_machine(store))
        for kind in works:
            for round_, work in product(range(size.pairs), kind):
                batches = []
                commands = drawn(work, round_)
                for at in range(0, len(commands), _BATCH):
                    some = commands[at : at + _BATCH]
                    store.batch = Batch(len(some))
                    engine.do(some)
                    batches.append(store.batch)
                traces[work.name, round_] = Trace(batches)
    return traces
