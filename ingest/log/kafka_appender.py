"""Appending to Kafka: one idempotent producer, `acks=all`, no linger, one batch per partition and call.

An idempotent aiokafka producer retries a batch for ever. So an append has a time of its own; when it is over, the batch
is still under way and may arrive, in its order, at any time: its outcome is uncertain.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)

from ingest.clock import now_ms
from ingest.errors import AppendUncertainError, LogUnavailableError, RecordTooLargeError
from ingest.log.base import Headers, Position
from ingest.log.kafka_settings import KafkaSettings

_BATCH_BYTES: Final = 1024 * 1024  # a larger record has a batch of its own
_PENDING_BYTES_MAX: Final = 64 * 1024 * 1024  # sent and not acknowledged; with the broker away nothing more is taken
_CLOSE_SECONDS: Final = 5.0
_LOG_APPEND_TIME: Final = 1  # else the record keeps the time that it was sent with
_REFUSALS: Final = (TopicAuthorizationFailedError, ClusterAuthorizationFailedError)


class Outgoing(NamedTuple):
    """A record for a topic; `time_ms` counts with CreateTime only, and None is now."""

    partition: int
    key: bytes | None
    value: bytes | None
    time_ms: int | None = None
    headers: Headers = ()


@dataclass(slots=True)
class _Batch:
    """Records of one partition that go out together; where they stand in the call's order, and their times."""

    partition: int
    builder: Any
    places: list[tuple[int, int]] = field(default_factory=list)


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
        self._producer: AIOKafkaProducer | None = None
        self._sending = asyncio.Lock()  # first come, first sent: calls keep their order
        self._pending: dict[asyncio.Future[Any], int] = {}  # -> bytes
        self._retiring: dict[asyncio.Task[None], None] = {}

    async def append(self, topic: str, records: Sequence[Outgoing]) -> list[Position]:
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
        try:
            async with asyncio.timeout_at(until):
                async with self._sending:
                    producer = await self._ready()
                    for batch in _batches(producer, records):
                        future = await producer.send_batch(batch.builder, topic, partition=batch.partition)
                        self._keep(future, batch.builder.size())
                        sent.append((batch, future))
                await asyncio.wait([future for _, future in sent])
        except (KafkaError, OSError) as error:  # OSError: TimeoutError is one
            text = f"Kafka at {self._servers} did not take an append within {self._seconds:.0f} s: {error!r}"
            raise (AppendUncertainError if sent else LogUnavailableError)(text) from error
        return self._positions(sent, len(records))

    async def close(self) -> None:
        """Finish what is under way, for a few seconds."""
        self._retire()
        if self._retiring:
            await asyncio.wait(list(self._retiring))

    async def _ready(self) -> AIOKafkaProducer:
        """The producer, once it is connected and has room."""
        while sum(self._pending.values()) > _PENDING_BYTES_MAX:
            await asyncio.wait(list(self._pending), return_when=asyncio.FIRST_COMPLETED)
        if self._producer is None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._servers,
                enable_idempotence=True,
                acks="all",
                linger_ms=0,
                max_batch_size=_BATCH_BYTES,
                **self._settings.client_arguments(),
            )
            try:
                await producer.start()
            except BaseException:
                await _stop(producer)
                raise
            self._producer = producer
        return self._producer

    def _keep(self, future: asyncio.Future[Any], size: int) -> None:
        self._pending[future] = size

        def forget(done: asyncio.Future[Any]) -> None:
            del self._pending[done]
            if not done.cancelled():
                done.exception()  # seen, also when the call that waited for it is gone

        future.add_done_callback(forget)

    def _positions(self, sent: list[tuple[_Batch, asyncio.Future[Any]]], count: int) -> list[Position]:
        """The positions of `count` records, from what the broker said of their batches."""
        positions = [Position(-1, -1, -1)] * count
        for batch, future in sent:
            error = future.exception()
            if error is not None:
                # The sequence numbers of that partition have a hole now: only a producer with a new id can go on.
                self._retire()
                if len(sent) == 1 and isinstance(error, MessageSizeTooLargeError):
                    raise RecordTooLargeError(f"Kafka: {error!r}") from error
                refused = len(sent) == 1 and isinstance(error, _REFUSALS)
                raise (LogUnavailableError if refused else AppendUncertainError)(f"Kafka: {error!r}") from error
            base = future.result().offset
            if base < 0:  # a retry of a batch that the broker has, and whose offset it has forgotten
                raise AppendUncertainError("Kafka has the append, but cannot say at which offset")
            appended_ms = future.result().timestamp if future.result().timestamp_type == _LOG_APPEND_TIME else None
            for place, (index, sent_ms) in enumerate(batch.places):
                positions[index] = Position(batch.partition, base + place, appended_ms or sent_ms)
        return positions

    def _retire(self) -> None:
        """Stop the producer in the background; the next append makes another."""
        producer, self._producer = self._producer, None
        if producer is not None:
            task = asyncio.create_task(_stop(producer))
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
    """Stop a producer, whatever state it is in. `stop` alone waits for the broker for ever."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await producer.stop()
    except (KafkaError, OSError):
        with contextlib.suppress(KafkaError, OSError):
            await producer.client.close()  # first, so that requests under way end
            await producer._sender.close()  # noqa: SLF001 - `stop` is the public way, and has just failed
