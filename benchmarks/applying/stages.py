"""Measures the stages of applying events on both builds: CPU time, and instructions where valgrind is installed.

    take     records come out of the batches that a broker gave; the socket is no part of it
    decode   a record's value becomes the tuple that a machine takes
    apply    the commands run against the overlay of their batch; RocksDB's point reads are part of it
    commit   the batch becomes the records to be written, and is ended
    write    they are gathered, and RocksDB writes those of a fetch together

CPU time is that of the one thread, and of all batches the 10th percentile counts: other work on the machine only ever
adds to it. Of `write` it is the mean, as the last batch of a fetch writes what the others have gathered. Instructions
are those of the whole process, counted by callgrind, which starts this module as a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time_ns
from typing import Final

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from benchmarks.applying.subject import open_machine, open_store
from benchmarks.applying.workloads import LARGE, WORKLOADS, Size, measured
from engine import native
from engine.store.store import Changes
from ingest.applying.batches.batch_size import BATCH_RECORDS_MAX
from ingest.applying.batches.decoding import decode_batch
from ops.config import load_settings
from ops.serving.process import tune_collector
from slotlog.log import LogRecord
from slotlog.log.kafka.batches import Batches, is_compiled

STAGES: Final = ("take", "decode", "apply", "commit", "write")
STAGED: Final = tuple(name for name in WORKLOADS if name != "hset_cold")
"""The workloads that begin with an empty state."""

Mark = Callable[[str], None]
"""Takes the name of the step that has just ended."""

_STEPS: Final = ("between", *STAGES, "end")
"""What there are marks for, in this order in each batch; the end of a batch is part of its commit."""

_BROKERS_BATCH: Final = 150  # records: a producer's batch of 16 KiB
_FETCHED_BATCHES: Final = 9  # of 1,000 records: about 1 MiB
_COUNTED_EVENTS: Final = 20_000


class Laps:
    """Notes the CPU time of each stage of each batch, in nanoseconds."""

    def __init__(self) -> None:
        self.spent: dict[str, list[int]] = {step: [] for step in _STEPS}
        self._since = thread_time_ns()

    def __call__(self, step: str) -> None:
        """A step ends; the next one begins."""
        self.spent[step].append(thread_time_ns() - self._since)
        self._since = thread_time_ns()

    def low(self) -> dict[str, float]:
        """The 10th percentile of each stage, of `write` the mean, in nanoseconds a batch."""
        commits = list(map(add, self.spent["commit"], self.spent["end"]))
        found = {stage: commits if stage == "commit" else self.spent[stage] for stage in STAGES}
        low: dict[str, float] = {stage: sorted(values[:-1])[len(values) // 10] for stage, values in found.items()}
        low["write"] = sum(self.spent["write"]) / (len(commits) - 1)  # the last one is of no batch
        return low


class _MarkingStore:
    """RocksDB, with a mark before and behind each write; batches are gathered as those of a fetch from Kafka are."""

    def __init__(self, path: Path, mark: Mark) -> None:
        store = self._store = open_store(path)
        self._mark = mark
        self._batches = 0
        self.getter, self.scan, self.close = store.getter, store.scan, store.close
        self.keys, self.records, self.write_gathered = store.keys, store.records, store.write_gathered

    def write(self, changes: Changes) -> None:
        """Write, which is a stage of its own."""
        self._batches += 1
        self._store.is_gathering = self._batches % _FETCHED_BATCHES != 0
        self._mark("commit")
        self._store.write(changes)
        self._mark("write")


@dataclass(frozen=True, slots=True)
class StagesResult:
    """One line of output: a workload on one build, with the CPU time of its stages and perhaps their instructions.

    Both are for an event. What is compiled is left out in Python alone.
    """

    workload: str
    compiled: bool
    events: int
    us: dict[str, float]
    instructions: dict[str, int] = field(default_factory=dict)

    def line(self) -> str:
        """The result as JSON."""
        build = "" if self.compiled else "_python"
        facts: dict[str, object] = {"name": f"stages_{self.workload}{build}", "compiled": self.compiled}
        facts |= {f"{stage}_us": round(us, 2) for stage, us in self.us.items()}
        facts["sum_us"] = round(sum(self.us.values()), 2)
        facts |= {f"{stage}_instructions": count for stage, count in self.instructions.items()}
        if self.instructions:
            facts["sum_instructions"] = sum(self.instructions.values())
        return json.dumps({**facts, "events": self.events, "load": round(os.getloadavg()[0], 2)})


def run_stages(size: Size, *, counts: bool) -> Iterator[StagesResult]:
    """Measure every workload, in Python alone and, if it is installed, compiled; with `counts` instructions, too."""
    before = native.chosen() is not None
    builds = (False, True) if before else (False,)
    try:
        for name, compiled in product(STAGED, builds):
            native.choose(native=compiled)
            laps = Laps()
            events = apply_in_stages(name, size, laps)
            us = {stage: ns / 1000 / min(BATCH_RECORDS_MAX, events) for stage, ns in laps.low().items()}
            yield StagesResult(
                name, compiled, events, us, count_instructions(name, compiled=compiled) if counts else {}
            )
    finally:
        native.choose(native=before)


def _fetch(records: Sequence[LogRecord]) -> Batches:
    """What a broker would give of these records, in batches of `_BROKERS_BATCH`."""
    data = bytearray()
    for at in range(0, len(records), _BROKERS_BATCH):
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
        for delta, (_, time_ms, key, value) in enumerate(records[at : at + _BROKERS_BATCH]):
            builder.append(delta, time_ms, key, value, [])
        batch = builder.build()
        batch[:8] = records[at][0].to_bytes(8)
        data += batch
    whole = bytes(data)
    partition = TopicPartition("bench", 0)
    fetch = PartitionRecords(partition, MemoryRecords(whole), [], records[0][0], None, None, True, READ_COMMITTED)
    return Batches(fetch, whole if is_compiled() else None)


def _take(batches: Batches) -> list[LogRecord]:
    taken: list[LogRecord] = []
    while piece := batches.next_piece(BATCH_RECORDS_MAX):
        taken += piece.records
    return taken


def apply_in_stages(name: str, size: Size, mark: Mark) -> int:
    """Apply a workload to an empty state in the worker's largest batches. Returns how many events it has.

    Raises:
        RuntimeError: an event was not simply applied.
    """
    records = [(offset, event.time_ms, event.key(), event.value()) for offset, event in enumerate(measured(name, size))]
    with (
        TemporaryDirectory(prefix="slotlog-bench-") as directory,
        closing(_MarkingStore(Path(directory) / "state", mark)) as store,
    ):
        machine = open_machine(store)
        for at in range(0, len(records), BATCH_RECORDS_MAX):
            fetched = _fetch(records[at : at + BATCH_RECORDS_MAX])
            mark("between")
            batch = _take(fetched)
            mark("take")
            decoded = decode_batch(batch)
            mark("decode")
            applied = machine.apply(decoded, machine.next_offset)
            mark("apply")
            machine.commit(b"fingerprint")
            mark("end")
            if applied.rejected or applied.dead_letters or applied.records != len(batch):
                raise RuntimeError(f"not applied: {applied.rejections} {applied.dead_letters[:3]}")
        for step in _STEPS[: _STEPS.index("write")]:  # a batch of nothing
            mark(step)
        store.write_gathered()
        mark("write")
        mark("end")
    return len(records)


def count_instructions(name: str, *, compiled: bool) -> dict[str, int]:
    """Instructions for an event in each stage of a workload on one build, by a program of its own under callgrind.

    Raises:
        FileNotFoundError: valgrind is not installed.
        CalledProcessError: the program failed.
    """
    with TemporaryDirectory(prefix="slotlog-bench-") as directory:
        out = Path(directory) / "counts"
        callgrind = ["valgrind", "--tool=callgrind", "--dump-before=getpgid", f"--callgrind-out-file={out}"]
        program = [sys.executable, "-m", "benchmarks.applying.stages", name]
        variables = {**os.environ, "PYTHONHASHSEED": "0", "SLOTLOG_NATIVE": str(compiled).lower()}
        subprocess.run([*callgrind, *program], env=variables, check=True, capture_output=True)
        dumps = sorted(Path(directory).glob("counts.*"), key=lambda path: int(path.suffix[1:]))
        totals = [_total(dump) for dump in dumps]
    batches, left = divmod(len(totals), len(_STEPS))
    if left or not batches:
        raise RuntimeError(f"callgrind wrote {len(totals)} counts, for {len(_STEPS)} steps of each batch")
    counted = {step: sum(totals[at :: len(_STEPS)]) for at, step in enumerate(_STEPS)}
    counted["commit"] += counted["end"]
    return {stage: round(counted[stage] / _COUNTED_EVENTS) for stage in STAGES}


def _total(dump: Path) -> int:
    """The instructions of one dump of callgrind."""
    for line in dump.read_text().splitlines():
        if line.startswith(("totals:", "summary:")):
            return int(line.split()[1])
    raise RuntimeError(f"callgrind's {dump.name} has no total")


def _callgrind_mark(_step: str) -> None:
    """Let callgrind write its counts down and begin anew: a call in C that nothing else makes, for which it waits."""
    os.getpgid(0)


def main() -> None:
    """The program that runs under callgrind."""
    tune_collector()
    load_settings()  # SLOTLOG_NATIVE=false: Python alone
    size = replace(LARGE, events=_COUNTED_EVENTS)
    apply_in_stages(sys.argv[1], size, _callgrind_mark)


if __name__ == "__main__":
    main()
