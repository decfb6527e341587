"""Appends to Kafka: one idempotent producer, `acks=all`, no linger, one batch per partition and call.

An idempotent aiokafka producer retries a batch for ever. So an append has a time of its own; when it is over, the batch
is still under way: its producer has a few seconds to end, and what a broker has in its socket by then may arrive at any
time, also behind what is appended later. Its outcome is uncertain.

A producer is used until anything goes wrong with it, then it is replaced. aiokafka's may fail for good: once its sender
task has died, or a batch has left a hole in the sequence numbers of its partition, it refuses whatever comes later,
however well the broker is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)

from slotlog.clock import WALL, now_ms
from slotlog.errors import AppendUncertainError, LogUnavailableError, RecordTooLargeError
from slotlog.log.kafka.clients import client_arguments, ended, unavailable
from slotlog.log.kafka.metadata import pause_between_metadata
from slotlog.log.kafka.outgoing import Outgoing
from slotlog.log.kafka.settings import KafkaSettings
from slotlog.log.kafka.topic import MESSAGE_BYTES_MAX
from slotlog.log.log import RecordPosition
from slotlog.wording import sized

_BATCH_BYTES: Final = 1024 * 1024  # a larger record has a batch of its own
_PENDING_BYTES_MAX: Final = 64 * 1024 * 1024  # sent and not acknowledged; with the broker away nothing more is taken
_FLUSH_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 5.0
_LOG_APPEND_TIME: Final = 1  # else the record keeps the time that it was sent with
_REFUSALS: Final = (TopicAuthorizationFailedError, ClusterAuthorizationFailedError)


@dataclass(slots=True)
class _Batch:
    """Records of one partition that go out together; where they stand in the call's order, and their times.

    `queued` is what aiokafka makes of it when it is sent: that counts how often it went to a broker.
    """

    partition: int
    builder: Any
    places: list[tuple[int, int]] = field(default_factory=list)
    queued: Any = None


@dataclass(slots=True, eq=False)
class _Line:
    """A producer, and the bytes of each batch that it has taken and not answered."""

    producer: AIOKafkaProducer
    pending: dict[asyncio.Future[Any], int] = field(default_factory=dict)

    @property
    def is_dead(self) -> bool:
        """Whether a task has ended without which what is appended waits for ever: it sends, or knows leaders."""
        client, sender = self.producer.client, self.producer._sender  # noqa: SLF001 - it never says
        return bool(client._sync_task.done() or sender.sender_task.done())  # noqa: SLF001 - as above

    async def send(self, topic: str, batch: _Batch) -> asyncio.Future[Any]:
        """Hand a batch over, in its turn; the future is what the broker says of it."""
        future: asyncio.Future[Any] = await self.producer.send_batch(batch.builder, topic, partition=batch.partition)
        # Still the last one: nothing was awaited since it was queued.
        batches = self.producer._message_accumulator._batches  # noqa: SLF001 - its only trace
        batch.queued = batches[TopicPartition(topic, batch.partition)][-1]
        return future

    async def room(self) -> None:
        """Wait until it may take another batch."""
        while sum(self.pending.values()) > _PENDING_BYTES_MAX:
            await asyncio.wait(list(self.pending), return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        """Finish what is under way, for a few seconds; what is left then is given up, and whoever waits for it told."""
        await _stop(self.producer)
        for future in list(self.pending):
            future.cancel()


class KafkaAppender:
    """Appends to any topic.

    Args:
        servers: bootstrap servers.
        settings: how to reach them.
    """

    def __init__(self, servers: str, settings: KafkaSettings) -> None:
        self._servers = servers
        self._settings = settings
        self._seconds = settings.request_timeout_ms / 1000
        self._line: _Line | None = None
        self._sending = asyncio.Lock()  # first come, first sent: calls keep their order
        self._retiring: dict[asyncio.Task[None], None] = {}
        self._closed = False

    async def append(self, topic: str, records: Sequence[Outgoing]) -> list[RecordPosition]:
        """Append `records`, in order per partition.

        Raises:
            LogUnavailableError: nothing was appended.
            RecordTooLargeError: the topic does not take the one batch that this was; nothing was appended.
            AppendUncertainError: some, all or none of them were, or will be.
        """
        if not records:
            return []
        until = asyncio.get_running_loop().time() + self._seconds
        sent: list[tuple[_Batch, asyncio.Future[Any]]] = []
        local_ms = WALL.local_ms()
        line: _Line | None = None
        try:
            async with asyncio.timeout_at(until):
                async with self._sending:
                    line = await self._ready()
                    for batch in _batches(line.producer, records):
                        future = await line.send(topic, batch)
                        self._keep(line, future, batch.builder.size())
                        sent.append((batch, future))
                await asyncio.wait([future for _, future in sent])
        except LogUnavailableError:  # of `_ready`: nothing was sent
            raise
        except Exception as error:
            self._retire(line)
            failure = unavailable(
                f"Kafka at {self._servers} did not take an append within {self._seconds:.0f} s", error
            )
            raise (AppendUncertainError(str(failure)) if sent else failure) from error
        return self._positions(sent, len(records), local_ms)

    async def close(self) -> None:
        """Finish what is under way, for a few seconds. Later appends fail: nothing was appended."""
        self._closed = True
        self._retire(self._line)
        if self._retiring:
            await asyncio.wait(list(self._retiring))

    async def _ready(self) -> _Line:
        """The producer, once it is connected and has room.

        Raises:
            LogUnavailableError: closed, also meanwhile; or a certificate cannot be read.
        """
        self._check_open()
        if self._line is not None and self._line.is_dead:
            self._retire(self._line)
        if self._line is not None:
            line = self._line
            await line.room()
            if line is self._line:
                return line
        producer = AIOKafkaProducer(
            enable_idempotence=True,
            acks="all",
            linger_ms=0,
            max_batch_size=_BATCH_BYTES,
            **client_arguments(self._servers, self._settings),
        )
        pause_between_metadata(producer.client)
        try:
            await producer.start()
            self._check_open()
        except BaseException:
            await _stop(producer)
            raise
        self._line = _Line(producer)
        return self._line

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailableError(f"the log on Kafka at {self._servers} is closed")

    def _keep(self, line: _Line, future: asyncio.Future[Any], size: int) -> None:
        line.pending[future] = size

        def forget(done: asyncio.Future[Any]) -> None:
            del line.pending[done]
            if done.cancelled() or done.exception() is not None:
                # Also when the call that waited for it is gone: the sequence numbers of that partition have a hole now,
                # or the sender is dead. Only a producer with a new id can go on.
                self._retire(line)

        future.add_done_callback(forget)

    def _positions(
        self, sent: list[tuple[_Batch, asyncio.Future[Any]]], count: int, local_ms: int
    ) -> list[RecordPosition]:
        """The positions of `count` records, from what the broker said of their batches.

        This machine's clock, at `local_ms` before they were sent, is held against the broker's.
        """
        positions = [RecordPosition(-1, -1, -1)] * count
        for batch, future in sent:
            if future.cancelled():
                raise AppendUncertainError(f"Kafka at {self._servers} did not answer before the producer was replaced")
            error = future.exception()
            if error is not None:
                # A refusal of what was sent twice is one of the second time: of the first only the answer may be lost.
                once = len(sent) == 1 and batch.queued.retry_count == 1
                if once and isinstance(error, MessageSizeTooLargeError):
                    raise RecordTooLargeError(
                        f"the topic takes no batch of {sized(batch.builder.size())}: set its max.message.bytes to"
                        f" {MESSAGE_BYTES_MAX} at least"
                    ) from error
                refused = once and isinstance(error, _REFUSALS)
                raise (LogUnavailableError if refused else AppendUncertainError)(f"Kafka: {error!r}") from error
            base = future.result().offset
            if base < 0:  # a retry of a batch that the broker has, and whose offset it has forgotten
                raise AppendUncertainError("Kafka has the append, but cannot say at which offset")
            appended_ms = future.result().timestamp if future.result().timestamp_type == _LOG_APPEND_TIME else None
            if appended_ms is not None:
                WALL.compare(local_ms, appended_ms)
            for place, (index, sent_ms) in enumerate(batch.places):
                positions[index] = RecordPosition(batch.partition, base + place, appended_ms or sent_ms)
        return positions

    def _retire(self, line: _Line | None) -> None:
        """End this producer in the background, unless that has begun; the next append makes another."""
        if line is None or line is not self._line:
            return
        self._line = None
        task = asyncio.create_task(line.end())
        self._retiring[task] = None
        task.add_done_callback(self._retiring.pop)


def _batches(producer: AIOKafkaProducer, records: Sequence[Outgoing]) -> list[_Batch]:
    """The records in batches, the first of all partitions before the second: a partition sends one at a time."""
    rounds: list[list[_Batch]] = []
    newest: dict[int, tuple[int, _Batch]] = {}
    now = now_ms()
    for place, (partition, key, value, time_ms, headers) in enumerate(records):
        sent_ms = now if time_ms is None else time_ms
        arguments = {
            "timestamp": sent_ms,
            "key": key,
            "value": value,
            "headers": list(headers),
        }
        number, batch = newest.get(partition, (-1, None))
        if batch is None or batch.builder.append(**arguments) is None:
            batch = _Batch(partition, producer.create_batch())
            batch.builder.append(**arguments)  # the first record of a batch always fits
            number += 1
            newest[partition] = number, batch
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(batch)
        batch.places.append((place, sent_ms))
    for batch in (batch for batches in rounds for batch in batches):
        batch.builder.close()
    return [batch for batches in rounds for batch in batches]


async def _stop(producer: AIOKafkaProducer) -> None:
    """Stop a producer, whatever state it is in. `stop` alone waits for ever, in a task of its own that nobody ends."""
    flushed = await ended(producer._message_accumulator.close(), _FLUSH_SECONDS)  # noqa: SLF001 - as `stop` does
    if flushed and await ended(producer.stop(), _CLOSE_SECONDS):
        return
    producer._closed = True  # noqa: SLF001 - or it complains when it is collected
    sender = asyncio.create_task(ended(producer._sender.close(), _CLOSE_SECONDS))  # noqa: SLF001 - as `stop` does
    await ended(producer.client.close(), _CLOSE_SECONDS)  # now requests under way end
    _release(producer.client)
    await sender


def _release(client: Any) -> None:
    """Let a closed client's metadata be known: requests that have failed wait for it, and nobody brings it any more."""
    client.force_metadata_update()
    waited = client._md_update_fut  # noqa: SLF001 - it has no other end
    if not waited.done():
        waited.set_result(False)
