"""Sends events to a log in batches, from an event loop or from threads.

The worker's own decoder and the signatures of its commands judge an event before it is queued, so what can only become
a dead letter is refused here. Events go to the log in batches, one at a time, in the order of their sending. When a
batch fails, so do all events that wait behind it: nothing overtakes a failed event that is sent again. An event whose
failure is uncertain may be in the log: give it an `id`, and it can be sent again safely.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from slotlog.errors import ProducerClosedError
from slotlog.events import decode, encode
from slotlog.log.log import Entry, Log, RecordPosition
from slotlog.routing import find, route
from slotlog.sealing import Sealer, sealed_in
from slotlog.shared.errors import EventError
from slotlog.shared.signature import Signature

if TYPE_CHECKING:
    from slotlog.log.tracing import Tracing

_BATCH_EVENTS_MAX: Final = 5000
_BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
_QUEUED_EVENTS_MAX: Final = 20_000
_QUEUED_BYTES_MAX: Final = 32 * 1024 * 1024

T = TypeVar("T")


class _Queued(NamedTuple):
    """An event that waits: its entries, one per partition, and whoever waits for their positions."""

    entries: list[Entry]
    size: int
    done: asyncio.Future[list[RecordPosition]]


def prepare(
    partitions: int,
    cmd: str | bytes,
    args: Sequence[Any],
    *,
    id: str | bytes | None = None,  # noqa: A002 - the field's name in the event
    db: int = 0,
    meta: Mapping[str, Any] | None = None,
    time_ms: int | None = None,
) -> list[Entry]:
    """The log entries of an event: one, or one for each partition when it has no keys.

    Raises:
        EventError: it could never be applied: unknown command, wrong number of arguments, a limit or type broken, a
            command that cannot be an event or part of a transaction, or needs a session. Or it is RULES or SETCLOCK,
            which no service may send.
        CrossSlotError: in cluster mode, its keys lie in several slots.
    """
    return prepare_value(partitions, encode(cmd, args, id=id, db=db, meta=meta), time_ms)


def prepare_value(partitions: int, value: bytes | None, time_ms: int | None = None) -> list[Entry]:
    """`prepare` for an event that is there as bytes.

    Raises:
        EventError, CrossSlotError: as `prepare`.
    """
    _, _, name, arguments, db, _, session = decode(0, 0, value)
    if not name or value is None:
        raise EventError(arguments[0].decode())
    _check_commands(name, arguments, partitions, session)
    targets, key = route(name, arguments, partitions, db)
    return [Entry(partition, key, value, time_ms) for partition in targets]


def _check_commands(name: bytes, arguments: list[Any], partitions: int, session: bytes | None) -> None:
    """Refuse commands that no event may have, as the engine would, and what makes no sense for a service to send."""
    in_exec = name == b"EXEC"
    if in_exec and not arguments:
        raise EventError("an EXEC without commands")
    for command in arguments if in_exec else [[name]]:
        signature = find(command[0])
        text = signature.name.decode()
        if signature.physical:
            raise EventError(f"{text} reads what is physically there: it cannot be an event")
        if signature.standalone and partitions > 1:
            raise EventError(f"ERR {text} is not allowed in cluster mode")
        if in_exec:
            _check_in_exec(signature, text, partitions)
        else:
            _check_alone(signature, text, session)
        if signature.for_operators:
            raise EventError(f"{text} {signature.for_operators}: it is for operators alone")


def _check_in_exec(signature: Signature, text: str, partitions: int) -> None:
    everywhere = partitions > 1 and signature.keyless and not signature.sessional
    if everywhere or not signature.transactional:
        raise EventError(f"{text} cannot be part of a transaction")


def _check_alone(signature: Signature, text: str, session: bytes | None) -> None:
    if not signature.alone:
        raise EventError(f"{text} is no event of its own: give each event its db, or put {text} into an EXEC")
    if signature.sessional and session is None:
        raise EventError(f"{text} needs the session of a connection: send it with a Redis client")


class Producer:
    """Sends events to a log, from one event loop.

    Args:
        log: started, and closed by whoever started it.
        tracing: makes a span of each event (slotlog/log/tracing.py); None: no spans.
        sealer: seals the arguments that are `Personal`; None: there may be none.

    Example:
        >>> from slotlog import open_log
        >>> async def sign_up() -> None:
        ...     log = open_log("sqlite:///sign-up.sqlite3", topic="board", partitions=1)
        ...     await log.start()
        ...     async with Producer(log) as producer:
        ...         queued = await producer.send("HSET", "user:42", "name", "Ann", id="signup-42")
        ...         await producer.exec([["LPUSH", "recent", "user:42"], ["LTRIM", "recent", 0, 9]])
        ...         positions = await producer.send_and_wait("INCR", "users")  # durable, as is what came before
        ...         print([each.offset for each in await queued + positions])
        ...     await log.close()
        >>> asyncio.run(sign_up())
        [0, 2]
    """

    def __init__(self, log: Log, tracing: Tracing | None = None, *, sealer: Sealer | None = None) -> None:
        self._log = log
        self._sealer = sealer
        self._tracing = tracing
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._turn = asyncio.Lock()  # who waits for room keeps its place in the order
        self._room = asyncio.Event()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self._failure: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self._log.partitions

    async def send(
        self,
        cmd: str | bytes,
        *args: Any,
        id: str | bytes | None = None,  # noqa: A002 - the field's name in the event
        db: int = 0,
        meta: Mapping[str, Any] | None = None,
        time_ms: int | None = None,
    ) -> asyncio.Future[list[RecordPosition]]:
        """Queue one command, waiting only while the queue is full.

        Args:
            cmd: its name, in any case.
            args: bytes, str, int or float; or `Personal`, where the producer has a sealer.
            id: idempotency key, at most 64 bytes.
            db: logical database (one partition only).
            meta: carried along, not interpreted.
            time_ms: the record's time, for the embedded log alone.

        Returns:
            A future of the positions once they are durable: one, or one per partition for a command without keys.
            It fails with LogUnavailableError (not in the log) or AppendUncertainError.

        Raises:
            EventError, CrossSlotError: as `prepare`.
            ProducerClosedError: too late.
        """
        entries = prepare(self.partitions, cmd, sealed_in(args, self._sealer), id=id, db=db, meta=meta, time_ms=time_ms)
        return await self.enqueue(cmd, entries)

    async def send_and_wait(self, cmd: str | bytes, *args: Any, **options: Any) -> list[RecordPosition]:
        """`send`, and wait until the event is durable."""
        return await (await self.send(cmd, *args, **options))

    async def exec(self, commands: Sequence[Sequence[Any]], **options: Any) -> asyncio.Future[list[RecordPosition]]:
        """Queue a transaction, `[[name, arg, …], …]`; it takes the options of `send` and returns the same.

        It is checked whole, as the worker does; then each command stands or falls alone.
        """
        return await self.send("EXEC", *map(list, commands), **options)

    async def enqueue(self, cmd: str | bytes, entries: list[Entry]) -> asyncio.Future[list[RecordPosition]]:
        """Queue what `prepare` made of `cmd`."""
        size = sum(len(entry.value) for entry in entries)
        done: asyncio.Future[list[RecordPosition]] = asyncio.get_running_loop().create_future()
        if self._tracing is not None:
            entries = self._tracing.send(entries, done, cmd)
        async with self._turn:
            while len(self._queue) >= _QUEUED_EVENTS_MAX or self._queued_bytes > _QUEUED_BYTES_MAX:
                self._room.clear()
                await self._room.wait()
            if self._closing:
                raise ProducerClosedError("the producer is closed")
            self._queue.append(_Queued(entries, size, done))
            self._queued_bytes += size
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        self._idle.clear()
        self._work.set()
        return done

    async def flush(self) -> None:
        """Wait until everything queued is durable.

        Raises:
            LogUnavailableError: the first failure since the last flush; its events' futures have it too.
        """
        await self._idle.wait()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Flush, and take no more. Can be called twice."""
        self._closing = True
        try:
            await self.flush()
        finally:
            task, self._task = self._task, None
            if task is not None:
                task.cancel()
                await asyncio.wait([task])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self) -> None:
        """Append one batch after another, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            while self._queue:
                await self._append(self._next_batch())
            self._idle.set()

    def _next_batch(self) -> list[_Queued]:
        batch: list[_Queued] = []
        size = 0
        while self._queue and len(batch) < _BATCH_EVENTS_MAX and size < _BATCH_BYTES_MAX:
            queued = self._queue.popleft()
            size += queued.size
            batch.append(queued)
        return batch

    async def _append(self, batch: list[_Queued]) -> None:
        try:
            positions = iter(await self._log.append([entry for queued in batch for entry in queued.entries]))
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who wait for their events
            self._fail(batch, error)
        else:
            for queued in batch:
                of_event = [next(positions) for _ in queued.entries]
                if not queued.done.done():
                    queued.done.set_result(of_event)
        self._queued_bytes -= sum(queued.size for queued in batch)
        self._room.set()

    def _fail(self, batch: list[_Queued], error: Exception) -> None:
        """The batch failed, and with it what waits behind it."""
        behind = list(self._queue)
        self._queue.clear()
        self._queued_bytes -= sum(queued.size for queued in behind)
        self._failure = self._failure or error
        for queued in batch + behind:
            if not queued.done.done():
                queued.done.set_exception(error)
                queued.done.exception()  # seen: `flush` raises it for those who do not look


class SyncProducer:
    """The same for code without an event loop; may be used from several threads.

    Args:
        open_log: makes the log; it is started, used and closed in a thread of the producer's.
        tracing: as for `Producer`.
        sealer: likewise.

    Example:
        >>> from slotlog import open_log
        >>> with SyncProducer(lambda: open_log("sqlite:///sync.sqlite3", topic="board", partitions=1)) as producer:
        ...     queued = producer.send("HSET", "user:42", "name", "Ann", id="signup-42")
        ...     print(producer.send_and_wait("INCR", "users")[0].offset, queued.result()[0].offset)
        1 0
    """

    def __init__(
        self, open_log: Callable[[], Log], tracing: Tracing | None = None, *, sealer: Sealer | None = None
    ) -> None:
        self._sealer = sealer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slotlog-producer", daemon=True)
        self._thread.start()
        self._room = threading.BoundedSemaphore(_QUEUED_EVENTS_MAX)
        self._outstanding: dict[concurrent.futures.Future[list[RecordPosition]], None] = {}
        try:
            self._log, self._producer = self._call(_open(open_log, tracing))
        except BaseException:
            self._stop()
            raise

    def send(self, cmd: str | bytes, *args: Any, **options: Any) -> concurrent.futures.Future[list[RecordPosition]]:
        """As `Producer.send`; the future is one of `concurrent.futures`."""
        if self._loop.is_closed():
            raise ProducerClosedError("the producer is closed")
        entries = prepare(self._producer.partitions, cmd, sealed_in(args, self._sealer), **options)
        self._room.acquire()
        future = asyncio.run_coroutine_threadsafe(self._append(cmd, entries), self._loop)
        self._outstanding[future] = None
        future.add_done_callback(self._settled)
        return future

    def send_and_wait(self, cmd: str | bytes, *args: Any, **options: Any) -> list[RecordPosition]:
        """As `Producer.send_and_wait`."""
        return self.send(cmd, *args, **options).result()

    def exec(
        self, commands: Sequence[Sequence[Any]], **options: Any
    ) -> concurrent.futures.Future[list[RecordPosition]]:
        """As `Producer.exec`."""
        return self.send("EXEC", *map(list, commands), **options)

    def flush(self) -> None:
        """As `Producer.flush`."""
        concurrent.futures.wait(list(self._outstanding))
        self._call(self._producer.flush())

    def close(self) -> None:
        """Flush, close the log, end the thread. Can be called twice."""
        if self._loop.is_closed():
            return
        concurrent.futures.wait(list(self._outstanding))
        try:
            self._call(_close(self._producer, self._log))
        finally:
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _settled(self, future: concurrent.futures.Future[list[RecordPosition]]) -> None:
        del self._outstanding[future]
        self._room.release()

    async def _append(self, cmd: str | bytes, entries: list[Entry]) -> list[RecordPosition]:
        return await (await self._producer.enqueue(cmd, entries))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _open(open_log: Callable[[], Log], tracing: Tracing | None) -> tuple[Log, Producer]:
    log = open_log()
    await log.start()
    return log, Producer(log, tracing)


async def _close(producer: Producer, log: Log) -> None:
    try:
        await producer.close()
    finally:
        await log.close()
