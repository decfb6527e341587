"""Learns from Kafka how far the owners of partitions have applied them: what they commit for lag tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from slotlog.log.kafka.clients import open_consumer, stop_consumer, told
from slotlog.log.kafka.settings import KafkaSettings

_LOOK_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 5.0

logger = structlog.get_logger(__name__)


class OwnerOffsets:
    """Asks again and again.

    Args:
        servers: bootstrap servers.
        kafka: how to reach them, and the group of the offsets.
        topic, partitions: of what.
        told_of: told of the offset before which a partition's owner has applied everything.
    """

    def __init__(
        self, servers: str, kafka: KafkaSettings, topic: str, partitions: int, told_of: Callable[[int, int], None]
    ) -> None:
        self._servers = servers
        self._kafka = kafka
        self._asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._told_of = told_of

    async def run(self) -> None:
        """Ask every second, until cancelled."""
        while True:
            consumer: AIOKafkaConsumer | None = None
            try:
                consumer = await open_consumer(self._servers, self._kafka, group=self._kafka.group)
                consumer.assign(self._asked[:1])  # nothing is fetched; without any it has no coordinator
                consumer.seek(self._asked[0], 0)
                consumer.pause(*self._asked[:1])
                while True:
                    await self._ask(consumer)
                    await asyncio.sleep(_LOOK_SECONDS)
            except Exception as error:  # noqa: BLE001 - followers wait, and it is tried again
                logger.warning("owner_offsets_unknown", error=told(error))
            finally:
                if consumer is not None:
                    await stop_consumer(consumer)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _ask(self, consumer: AIOKafkaConsumer) -> None:
        async with asyncio.timeout(_ANSWER_SECONDS):
            found: dict[TopicPartition, Any] = await consumer._coordinator.fetch_committed_offsets(self._asked)  # noqa: SLF001 - the public part asks one by one
        for topic_partition, committed in found.items():
            if committed.offset >= 0:
                self._told_of(topic_partition.partition, committed.offset)
