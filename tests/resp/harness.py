"""A RESP server in this process, on a log that can be slow, fail, or take others' appends.

Real are the server with its sockets, the consumer, the machine and the SQLite file; the state is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from engine.proof.digest import Digest, combine, digest
from engine.store.memory import MemoryStore
from engine.store.store import MaintainedStore
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.applying.partitions.conditions import Guard
from ingest.applying.slicing.slices import Slices
from ingest.cleaning.cleaner import Cleaner, CleaningSettings
from ingest.dead_letters.dead_letter import DeadLetters
from ingest.reporting.observer import NullObserver, Observer
from resp.server import Server
from resp.settings.startup import RespSettings
from slotlog.events import decode, encode
from slotlog.log import Entry, LogRecord, Reader, RecordPosition
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.shared.slots import partition_of, slot
from tests.layouts import column_families, home_of, layout_of
from tests.resp.host import Process
from tests.resp.pausing import PausingStore
from tests.wire.client import Client

TOPIC: Final = "t"
FAMILIES: Final = column_families()
PATIENCE_SECONDS: Final = 60.0
_WAIT_MS_MAX: Final = 20

MakeStore = Callable[[], MaintainedStore]
Stores = Mapping[int, MaintainedStore]


class PlayedLog(EmbeddedLog):
    """The embedded log, and what a test wants to happen to it.

    Attributes:
        at_once: whether it takes appends at once; else they take at least one turn of the loop, as Kafka's do.
        failure: raised by the next appends, and nothing is appended.
        uncertain: raised by the next appends after they were written.
        before, between: called before each append, and between two of its records.
        start_gate: appends wait here before they are written.
        end_gate: appends wait here after they were written and before their caller hears of it.
        fetch_gate: what was fetched waits here.
        repeats: its readers give own records again, which `pass_by` should have spared.
        given: the offset after the last record that a reader has given.
    """

    def __init__(self, path: Path, *, partitions: int) -> None:
        super().__init__(path, topic=TOPIC, partitions=partitions)
        self.at_once = True
        self.failure: Exception | None = None
        self.uncertain: Exception | None = None
        self.before: Callable[[], list[Entry]] | None = None
        self.between: Callable[[], list[Entry]] | None = None
        self.start_gate = _open_gate()
        self.end_gate = _open_gate()
        self.fetch_gate = _open_gate()
        self.repeats = False
        self.given = 0
        self.appends = 0
        self.entries = 0

    def append_at_once(self, entries: Sequence[Entry]) -> list[RecordPosition] | None:
        """As the embedded log, or not at all."""
        if not self.at_once or self.before or self.between or self.uncertain is not None:
            return None
        if self.failure is not None:
            raise self.failure
        self._count(entries)
        return super().append_at_once(entries)

    async def append(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        """As the embedded log, with what the test wants around it."""
        await self.start_gate.wait()
        if self.failure is not None:
            raise self.failure
        self._count(entries)
        if self.before is not None and (foreign := self.before()):
            await super().append(foreign)
        positions: list[RecordPosition] = []
        between = self.between
        if between is None:
            positions = await super().append(entries)
        else:
            for entry in entries:
                positions += await super().append([entry])
                if foreign := between():
                    await super().append(foreign)
        await self.end_gate.wait()
        if self.uncertain is not None:
            raise self.uncertain
        return positions

    async def append_as_another(self, *entries: Entry) -> None:
        """As another process would: another handle on the same file."""
        other = EmbeddedLog(self._path, topic=TOPIC, partitions=self.partitions)
        await other.start()
        try:
            await other.append(entries)
        finally:
            await other.close()

    def reader(self, positions: Mapping[int, int]) -> Any:
        """A reader, which reads everything if `repeats`, and does not wait long, so that tests end soon."""
        reader = super().reader(positions)
        fetch = reader.fetch

        async def fetch_soon(wait_ms: int, records_max: int) -> dict[int, list[LogRecord]]:
            fetched = await fetch(min(wait_ms, _WAIT_MS_MAX), records_max)
            await self.fetch_gate.wait()
            self.given = max(self.given, *(records[-1][0] + 1 for records in fetched.values() if records), 0)
            return fetched

        reader.fetch = fetch_soon  # type: ignore[method-assign]
        if self.repeats:
            reader.pass_by = lambda partition, offset: None  # type: ignore[method-assign]
        return reader

    def _count(self, entries: Sequence[Entry]) -> None:
        self.appends += 1
        self.entries += len(entries)


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


class Live:
    """A running server.

    Attributes:
        server, log, consumer: its parts.
        stores: by partition; what is in them outlives the server.
        clients: all that were connected through `client`.
    """

    def __init__(self, server: Server, log: PlayedLog, consumer: Consumer, stores: Stores) -> None:
        self.server = server
        self.log = log
        self.consumer = consumer
        self.stores = stores
        self.clients: list[Client] = []

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", self.server.port

    async def client(self) -> Client:
        """A new connection, closed after the test."""
        client = await Client.connect(self.address)
        self.clients.append(client)
        return client

    async def ask(self, *args: bytes | str | float) -> Any:
        """One command on a connection of its own."""
        client = await Client.connect(self.address)
        try:
            return await client.call(*args)
        finally:
            client.close()

    def digest(self) -> Digest:
        """Of the state as it is committed."""
        clocks = {partition: owned.committed for partition, owned in self.consumer.partitions.items()}
        return combine(
            digest(store, layout_of(partition), at.clock_ms if (at := clocks[partition]) else 0)
            for partition, store in self.stores.items()
        )

    async def replayed_digest(self) -> Digest:
        """Of a new state, made of the whole log by a worker that answers nobody; first the server must have it all."""
        ends = {partition: await self.log.end_offset(partition) for partition in self.stores}
        for partition, end in ends.items():
            await until(lambda: self.server.pipelines[partition].machine.next_offset >= end)  # noqa: B023 - called at once
        stores: dict[int, MaintainedStore] = {partition: MemoryStore(FAMILIES) for partition in self.stores}
        consumer = make_consumer(self.log, stores, NullObserver())
        await consumer.open()
        await consumer.run_to(ends)
        result = combine(
            digest(store, layout_of(partition), consumer.partitions[partition].worker.machine.clock_ms)
            for partition, store in stores.items()
        )
        consumer.close()
        return result

    async def events(self, partition: int = 0) -> list[tuple[bytes, list[Any]]]:
        """Name and arguments of everything in the log."""
        reader: Reader = self.log.reader({partition: 0})
        end = await self.log.end_offset(partition)
        found: list[tuple[bytes, list[Any]]] = []
        while len(found) < end:
            records = (await reader.fetch(0, 1000)).get(partition, [])
            found += [decode(offset, time_ms, value)[2:4] for offset, time_ms, _, value in records]
        await reader.close()
        return found


def make_consumer(
    log: EmbeddedLog,
    stores: Stores,
    observer: Observer,
    guard: Guard | None = None,
    dead_letters: DeadLetters | None = None,
    slices: Slices | None = None,
) -> Consumer:
    """A consumer of these partitions."""
    slices = slices or Slices()
    workers = {
        partition: Worker(
            home_of(TOPIC, partition, log.partitions),
            log,
            stores.__getitem__,
            dead_letters,
            observer,
            slices=slices,
        )
        for partition in stores
    }
    return Consumer(log, workers, observer, guard)


@asynccontextmanager
async def _cleaning(live: Live) -> AsyncIterator[None]:
    """What is due or dead goes meanwhile, as in a service."""
    consumer, observer = live.consumer, live.server.observer
    settings = CleaningSettings(interval_s=0.05)
    cleaner = Cleaner(live.log, consumer.partitions, observer, consumer.conditions.stop_outside, settings)
    cleaner.serve(observer.swept, lambda: observer.may_expire)
    task = asyncio.create_task(cleaner.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


@asynccontextmanager
async def serving(
    directory: Path,
    *,
    partitions: int = 1,
    own: Sequence[int] | None = None,
    port: int = 0,
    stores: Stores | None = None,
    guard: Guard | None = None,
    dead_letters: DeadLetters | None = None,
    begin: asyncio.Event | None = None,
    prepare: Callable[[PlayedLog], None] = lambda _: None,
    settings: Mapping[str, Any] | None = None,
    slices: Slices | None = None,
    cleans: bool = True,
    **config: str,
) -> AsyncIterator[Live]:
    """A server on the log in `directory`; a second one there goes on with the same log.

    Args:
        directory: of the log.
        partitions: of the log.
        own: which of them are served; all if None.
        port: to listen on; 0: any.
        stores: by partition; new ones in memory if None.
        guard: as the consumer's.
        dead_letters: as the worker's.
        begin: the consumer does nothing before this; None: it begins at once.
        prepare: what the log is told before it is read.
        settings: more of `RespSettings`.
        slices: in which commands run; without a timer if None.
        cleans: it removes what is due; if not, nobody but clients enters a machine.
        config: CONFIG's parameters, with `_` for `-`.
    """
    owned = tuple(range(partitions)) if own is None else tuple(own)
    log = PlayedLog(directory / "log.db", partitions=partitions)
    prepare(log)
    await log.start()
    parameters = {name.replace("_", "-"): value for name, value in config.items()}
    resp = RespSettings(
        address=("127.0.0.1", port), partitions=partitions, own=owned, config=parameters, **(settings or {})
    )
    server = Server(resp, Process(), log)
    kept = stores or {partition: MemoryStore(FAMILIES) for partition in owned}
    consumer = make_consumer(log, kept, server.observer, guard, dead_letters, slices)
    server.attach(consumer.partitions)
    await server.start()
    stop = asyncio.Event()
    live = Live(server, log, consumer, kept)
    await consumer.open()
    await server.open()
    running = asyncio.create_task(_run(consumer, stop, begin))
    try:
        async with _cleaning(live) if cleans else nullcontext():
            yield live
    finally:
        stop.set()
        if begin is not None:
            begin.set()
        await _end(live, running)


async def _end(live: Live, running: asyncio.Task[None]) -> None:
    for client in live.clients:
        client.close()
    live.log.start_gate.set()
    live.log.end_gate.set()
    for store in live.stores.values():  # a test that failed has not let go of what it has suspended
        if isinstance(store, PausingStore):
            store.go_on()
    await running
    await live.server.close()
    live.consumer.close()
    await live.log.close()


async def _run(consumer: Consumer, stop: asyncio.Event, begin: asyncio.Event | None) -> None:
    if begin is not None:
        await begin.wait()
    await consumer.run(stop)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - what is waited for is told to nobody
            await asyncio.sleep(0.002)


async def replies(client: Client, count: int) -> list[Any]:
    """The next replies."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [await client.reply() for _ in range(count)]


async def pipeline(client: Client, *commands: str) -> list[Any]:
    """Send commands, words apart by blanks, in one write; their replies."""
    client.send(*[command.split() for command in commands])
    return await replies(client, len(commands))


async def blocked(live: Live, count: int) -> None:
    """Wait until so many clients wait for an element."""
    await until(lambda: len(live.server.blocked.waiters) == count)


def event(*words: str | bytes, partitions: int = 1, key: bytes = b"") -> Entry:
    """An event as others send it; `key` says which partition it belongs to."""
    partition = partition_of(slot(key), partitions)
    return Entry(partition, slot(key).to_bytes(2, "big") if key else None, encode(words[0], list(words[1:])))
