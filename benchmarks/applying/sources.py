"""Sources of events: memory, the embedded log, Kafka. The engine and the floor each read them in their way.

A source holds first the records that lead to the state which a workload begins with, then those that are measured.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from aiokafka.admin import AIOKafkaAdminClient

from benchmarks.applying import floor, subject
from benchmarks.applying.floor import Floor
from benchmarks.applying.workloads import Event
from benchmarks.measure import Seconds
from engine.apply.machine import Record
from ingest.reporting.observer import Observer
from slotlog.events import decode
from slotlog.log import Entry, KafkaSettings, Log, LogRecord, open_log
from tests.real.broker import KafkaBroker

ENGINE: Final = "engine"
EMBEDDED: Final = "embedded"
KAFKA: Final = "kafka"
SOURCES: Final = (ENGINE, EMBEDDED, KAFKA)

_CHUNK: Final = 1000
_RUNNING_BROKER: Final = "SLOTLOG_TEST_KAFKA"


class Source(Protocol):
    """Records, ready to be applied.

    Attributes:
        start, end: offsets of the first measured record and after the last one.
    """

    start: int
    end: int

    def records(self) -> AsyncIterator[list[LogRecord]]:
        """All of them from offset 0 on, in pieces."""
        ...

    async def apply(self, state: Path, end: int, batches: Observer) -> Seconds:
        """Let the engine apply them to `state`, from where it stands up to offset `end`."""
        ...

    async def floor(self, floor: Floor) -> Seconds:
        """Read and unpack the measured ones, and do the gets and puts of `floor`."""
        ...


class Memory:
    """Decoded records: the engine proper, and RocksDB's work alone."""

    def __init__(self, before: Iterable[Event], measured: Iterable[Event]) -> None:
        self._records = [_record(offset, event) for offset, event in enumerate(before)]
        self.start = len(self._records)
        self._records += [_record(offset, event) for offset, event in enumerate(measured, self.start)]
        self.end = len(self._records)
        self._decoded: list[Record] = [decode(offset, time_ms, value) for offset, time_ms, _, value in self._records]

    async def records(self) -> AsyncIterator[list[LogRecord]]:
        """In one piece."""
        yield self._records

    async def apply(self, state: Path, end: int, batches: Observer) -> Seconds:
        """Machine.apply and commit, nothing else."""
        return subject.from_memory(state, self._decoded[0 if end == self.start else self.start : end], batches)

    async def floor(self, floor_: Floor) -> Seconds:
        """Gets and puts, nothing else."""
        return floor.from_memory(floor_)


class Logged:
    """What both logs have in common."""

    def __init__(self, log: Log, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self._log = log

    async def records(self) -> AsyncIterator[list[LogRecord]]:
        """Read back, so with the times that the log gave them."""
        reader = self._log.reader({0: 0})
        try:
            while reader.position(0) < self.end:
                yield (await reader.fetch(200, 20_000)).get(0, [])
        finally:
            await reader.close()

    async def apply(self, state: Path, end: int, batches: Observer) -> Seconds:
        """The whole worker."""
        return await subject.from_log(state, self._log, end, batches)


class Embedded(Logged):
    """The embedded log in the file `path`."""

    def __init__(self, log: Log, start: int, end: int, path: Path) -> None:
        super().__init__(log, start, end)
        self._path = path

    async def floor(self, floor_: Floor) -> Seconds:
        """Plain sqlite3."""
        return floor.from_sqlite(floor_, self._path, self.start, self.end)


class Kafka(Logged):
    """A topic of one partition."""

    def __init__(self, log: Log, start: int, end: int, bootstrap: str) -> None:
        super().__init__(log, start, end)
        self.bootstrap = bootstrap
        self.topic = log.topic

    async def floor(self, floor_: Floor) -> Seconds:
        """Plain aiokafka."""
        return await floor.from_kafka(floor_, self.bootstrap, self.topic, self.start, self.end)


@asynccontextmanager
async def open_embedded(directory: Path, before: Iterable[Event], measured: Iterable[Event]) -> AsyncIterator[Embedded]:
    """An embedded log with these events, in the file `log.db` of `directory`."""
    path = directory / "log.db"
    log = open_log(f"sqlite:///{path}", topic="bench", partitions=1)
    await log.start()
    try:
        start, end = await _fill(log, before, measured)
        yield Embedded(log, start, end, path)
    finally:
        await log.close()


@asynccontextmanager
async def open_kafka(bootstrap: str, before: Iterable[Event], measured: Iterable[Event]) -> AsyncIterator[Kafka]:
    """A topic with these events, deleted afterwards."""
    topic = f"bench-{secrets.token_hex(4)}"
    log = open_log(f"kafka://{bootstrap}", topic=topic, partitions=1, kafka=KafkaSettings(replicas=1))
    await log.start()
    try:
        start, end = await _fill(log, before, measured)
        yield Kafka(log, start, end, bootstrap)
    finally:
        await log.close()
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.delete_topics([topic])
        finally:
            await admin.close()


@asynccontextmanager
async def running_broker() -> AsyncIterator[str]:
    """HOST:PORT of the broker that SLOTLOG_TEST_KAFKA names, else of one started for the time being."""
    running = os.environ.get(_RUNNING_BROKER)
    if running:
        yield running
        return
    with (
        TemporaryDirectory(prefix="slotlog-bench-kafka-") as directory,
        KafkaBroker(Path(directory), measured=True) as broker,
    ):
        yield broker.bootstrap


async def _fill(log: Log, before: Iterable[Event], measured: Iterable[Event]) -> tuple[int, int]:
    """Append the events. Returns the offset of the first measured one, and the end."""
    start = await _append(log, before)
    return start, start + await _append(log, measured)


async def _append(log: Log, events: Iterable[Event]) -> int:
    count = 0
    for chunk in chunks(Entry(0, event.key(), event.value(), event.time_ms) for event in events):
        await log.append(chunk)
        count += len(chunk)
    return count


def chunks(entries: Iterator[Entry]) -> Iterator[Sequence[Entry]]:
    """The entries, as many at a time as are appended together."""
    while chunk := list(islice(entries, _CHUNK)):
        yield chunk


def _record(offset: int, event: Event) -> LogRecord:
    return offset, event.time_ms, event.key(), event.value()
