"""Reads from Kafka: a consumer outside of any group, with `assign` and `seek` alone.

A group consumer fetches from the group's committed offset while the state is still being opened, and then skips events
in silence; one with the default `auto_offset_reset` jumps to the end when its position is gone. Neither happens here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CorruptRecordException, KafkaError, OffsetOutOfRangeError, UnsupportedCodecError

from slotlog.errors import LogRecordError, LogUnavailableError
from slotlog.log.identity import check_range
from slotlog.log.kafka.batches import piece_of
from slotlog.log.kafka.clients import is_dead, open_consumer, stop_consumer, told, unavailable
from slotlog.log.kafka.requests import Incarnation, fetch_once, incarnations
from slotlog.log.kafka.settings import KafkaSettings
from slotlog.log.kafka.unpacking import Unpacker
from slotlog.log.log import Headers, LogRecord
from slotlog.log_lines import LineLogger

_PROBE_SECONDS: Final = 5.0  # without a record for so long, ask whether there is one
_PROBE_TIMEOUT_SECONDS: Final = 5.0

_Headers: TypeAlias = dict[tuple[int, int], Headers]
"""By partition and offset."""


class _Fetched(NamedTuple):
    """Records by partition, with the headers of those that have some, and the positions behind them."""

    records: dict[int, list[LogRecord]]
    headers: _Headers
    positions: dict[int, int]


logger = LineLogger(__name__)


class KafkaReader:
    """See `slotlog.log.log.Reader` for every method.

    A consumer of aiokafka can stay silent for ever after a broker was restarted, and says nothing of it
    (https://github.com/aio-libs/aiokafka/issues/1154). So after some silence the end offsets are asked for. When they
    do not come, or show records that do not come, the consumer is replaced by a new one at the same positions.

    Nor does it say when the topic was deleted and created again: it reads on in the new one, if that is long enough.
    So after every fetch the leaders are asked for topic id and leader epoch, about 1 ms each time. Where these are not
    those of the last `Log.check` (or fetch), the records are thrown away and LogUnavailableError is raised, once: the
    caller checks the log again, seeks and reads on. No window remains, but for brokers before Kafka 2.8, which have no
    topic ids: there a new topic is noticed by the next check of the last applied record alone.

    Args:
        servers: bootstrap servers.
        topic: the topic.
        positions: partition -> offset.
        settings: how to reach the servers.
        checked: partition -> what the log was when it was last held against a state; read at each fetch.
        closed: told when the reader is closed.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        positions: Mapping[int, int],
        settings: KafkaSettings,
        checked: Mapping[int, Incarnation | None],
        closed: Callable[[KafkaReader], None],
    ) -> None:
        self._servers = servers
        self._settings = settings
        self._topic = topic
        self._partitions = {partition: TopicPartition(topic, partition) for partition in positions}
        self._positions = dict(positions)
        self._paused: dict[int, None] = {}
        self._consumer: AIOKafkaConsumer | None = None
        self._unpacker: Unpacker | None = None  # of the consumer
        self._checked = checked
        self._given: dict[int, Incarnation | None] = {}  # what gave the records since the last seek
        self._closed = closed
        self._open = True
        self._heard_at = monotonic()
        self._stalled_at: dict[int, int] | None = None  # positions at the last probe, if records were missing then
        self._headers: list[_Headers] = [{}, {}]  # of the last two fetches

    async def fetch(self, wait_ms: int, records_max: int) -> dict[int, list[LogRecord]]:
        """What the consumer has fetched ahead, or gets within `wait_ms`."""
        consumer, unpacker = await self._ready()
        try:
            fetched = await self._get(consumer, unpacker, wait_ms, records_max)
            moved = [p for p, offset in fetched.positions.items() if offset != self._positions[p]]
            async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
                await self._verify(consumer, moved)
        except OffsetOutOfRangeError:
            await self._drop()
            await self._explain()
            return {}
        except LogUnavailableError:
            await self._drop()  # and with it what was fetched: the next consumer begins at the positions that stand
            raise
        except Exception as error:
            await self._drop()
            raise unavailable(f"Kafka at {self._servers} failed", error) from error
        self._positions = fetched.positions  # all or none: one that moved alone would skip what was fetched
        if not fetched.records:
            await self._watch(consumer)
            return {}
        self._heard_at = monotonic()
        self._stalled_at = None
        self._headers = [fetched.headers, self._headers[0]]
        return fetched.records

    def position(self, partition: int) -> int:
        """The consumer's position as of the last fetch or seek."""
        return self._positions[partition]

    def headers(self, partition: int, offset: int) -> Headers:
        """From the side table: most records have none, so they are no part of a record."""
        place = (partition, offset)
        return self._headers[0].get(place) or self._headers[1].get(place) or ()

    def seek(self, partition: int, offset: int) -> None:
        """Move the consumer, now or when it is opened. From here on the last check says which log is the right one."""
        self._positions[partition] = offset
        self._given.pop(partition, None)
        if self._consumer is not None:
            self._consumer.seek(self._partitions[partition], offset)

    def pass_by(self, partition: int, offset: int) -> None:
        """Nothing: a seek would throw away what was fetched ahead."""

    def pause(self, partition: int) -> None:
        """What was fetched ahead is dropped, and fetched again after `resume`."""
        self._paused[partition] = None
        if self._consumer is not None:
            self._consumer.pause(self._partitions[partition])

    def resume(self, partition: int) -> None:
        """Fetch again."""
        self._paused.pop(partition, None)
        if self._consumer is not None:
            self._consumer.resume(self._partitions[partition])

    async def close(self) -> None:
        """Stop the consumer."""
        if self._open:
            self._open = False
            self._closed(self)
        await self._drop()

    async def _ready(self) -> tuple[AIOKafkaConsumer, Unpacker]:
        if not self._open:
            raise RuntimeError("the reader is closed")
        if self._consumer is None or self._unpacker is None:
            consumer = await open_consumer(self._servers, self._settings)
            # No await from here to the last seek: without a position the fetcher would look for a committed one.
            consumer.assign(list(self._partitions.values()))
            for partition, topic_partition in self._partitions.items():
                consumer.seek(topic_partition, self._positions[partition])
            for partition in self._paused:
                consumer.pause(self._partitions[partition])
            self._consumer, self._unpacker = consumer, Unpacker(consumer)
            self._heard_at = monotonic()
        return self._consumer, self._unpacker

    async def _drop(self) -> None:
        consumer, self._consumer, self._unpacker = self._consumer, None, None
        if consumer is not None:
            await stop_consumer(consumer)

    async def _get(self, consumer: AIOKafkaConsumer, unpacker: Unpacker, wait_ms: int, records_max: int) -> _Fetched:
        try:
            records = await unpacker.get(wait_ms, records_max)
        except (CorruptRecordException, UnsupportedCodecError) as error:
            return await self._get_leniently(consumer, records_max, error)
        except (KafkaError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - header names that are not UTF-8, and whatever else a decoder raises
            return await self._get_leniently(consumer, records_max, error)
        positions = {partition: await consumer.position(tp) for partition, tp in self._partitions.items()}
        return _Fetched(records, unpacker.headers, positions)

    async def _get_leniently(self, consumer: AIOKafkaConsumer, records_max: int, cause: Exception) -> _Fetched:
        """After a record that aiokafka cannot decode, which it says without a position: one fetch by other means.

        Raises:
            LogRecordError: it cannot be decoded by these either, and no other partition has records.
            LogUnavailableError: there is no record at all, so it was something else that failed.
        """
        logger.warning("kafka_records_read_leniently", topic=self._topic, error=told(cause))
        fetched = _Fetched({}, {}, dict(self._positions))
        failure: LogRecordError | None = None
        for partition, tp in self._partitions.items():
            if partition in self._paused or records_max <= 0:
                continue
            try:
                async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
                    found = await fetch_once(consumer, tp, self._positions[partition])
            except LogRecordError as error:
                failure = error
                continue
            records, headers, fetched.positions[partition] = piece_of(found.records[:records_max], found.next_offset)
            if len(found.records) > records_max:
                fetched.positions[partition] = records[-1][0] + 1
            if records:
                fetched.records[partition] = records
                fetched.headers.update({(partition, offset): its for offset, its in headers})
                records_max -= len(records)
        if not fetched.records and fetched.positions == self._positions:
            text = f"aiokafka failed to fetch from {self._topic}: {told(cause)}"
            raise failure or LogUnavailableError(text) from cause
        for partition, tp in self._partitions.items():
            consumer.seek(tp, fetched.positions[partition])  # also those that aiokafka has moved, losing their records
        return fetched

    async def _verify(self, consumer: AIOKafkaConsumer, moved: list[int]) -> None:
        """What moved the positions of `moved` must come from the log that was checked."""
        if not moved:
            return
        found = await incarnations(consumer, [self._partitions[partition] for partition in moved])
        changed = []
        for partition, incarnation in found.items():
            known = self._given.get(partition) or self._checked.get(partition)
            self._given[partition] = incarnation
            if known is not None and incarnation is not None and known != incarnation:
                changed.append(partition)
        if changed:
            raise LogUnavailableError(
                f"the topic {self._topic} was created again, or has another leader, for partition "
                f"{', '.join(map(str, sorted(changed)))}: to be checked before anything of it is applied"
            )

    async def _explain(self) -> None:
        """A position is out of the log's range: say on which side, as LogMismatchError."""
        consumer = await open_consumer(self._servers, self._settings)
        try:
            tps = list(self._partitions.values())
            begins, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        except Exception as error:
            raise unavailable(f"Kafka at {self._servers} failed", error) from error
        finally:
            await stop_consumer(consumer)
        for partition, tp in self._partitions.items():
            if partition not in self._paused:
                name = f"partition {partition} of the topic {self._topic}"
                check_range(name, self._positions[partition], begins[tp], ends[tp])

    async def _watch(self, consumer: AIOKafkaConsumer) -> None:
        """After a long silence: is the broker there, and are there records that do not come?"""
        if is_dead(consumer):
            await self._drop()
            raise LogUnavailableError(f"Kafka at {self._servers} failed: the consumer of {self._topic} ended by itself")
        reading = {partition: tp for partition, tp in self._partitions.items() if partition not in self._paused}
        if monotonic() - self._heard_at < _PROBE_SECONDS or not reading:
            return
        self._heard_at = monotonic()
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
                ends = await consumer.end_offsets(list(reading.values()))
        except Exception as error:
            await self._drop()
            raise unavailable(f"Kafka at {self._servers} does not answer", error) from error
        behind = {p: self._positions[p] for p, tp in reading.items() if self._positions[p] < ends[tp]}
        if behind and self._stalled_at is not None and behind.items() & self._stalled_at.items():
            logger.warning("kafka_reader_replaced", topic=self._topic, positions=behind)
            await self._drop()
        self._stalled_at = behind
