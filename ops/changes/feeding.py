"""Feeds a Kafka topic with the changes of keys, in a process of its own beside the service.

What was told is known from the topic alone: the last record of a partition says with which event to go on. The state
that this needs is built anew at each start, from the newest snapshot before that event. So a crash repeats the changes
of some events, and loses none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ops.changes.change import OFFSET_HEADER, Change, begun_record, change_record
from ops.changes.watching import Watching
from ops.config import Settings
from ops.logging import configure_logging
from ops.past.tail import follow
from ops.progress import show_nothing
from ops.snapshots.child import tell
from ops.state.rebuilding.replay_plan import Until, opened
from slotlog.clock import now_ms
from slotlog.errors import AppendUncertainError, LogUnavailableError
from slotlog.log import open_kafka
from slotlog.log.kafka.outgoing import Outgoing

if TYPE_CHECKING:
    from slotlog.log.kafka.kafka_log import KafkaLog

_POLL_SECONDS: Final = 0.01
_RETRY_SECONDS: Final = 1.0
_WAIT_MS: Final = 500
_SENT_AT_ONCE: Final = 500


class Fed(NamedTuple):
    """The progress of a partition's feed.

    Attributes:
        next_offset: changes of everything before it are in the topic.
        told: how many records were added since the last time.
    """

    partition: int
    next_offset: int
    told: int


def feed(settings: Settings, partitions: Sequence[int], applied: Any) -> None:
    """Feed the topic until the process is ended, and say how far it is (`tell`).

    Args:
        settings: of the service.
        partitions: those that it owns.
        applied: by partition: the offset up to which the service has applied everything, shared with it. Nothing is
            told before.

    Raises:
        LogMismatchError, LogUnavailableError, OSError, PartitionStoppedError: as `follow`.
    """
    configure_logging(settings.log_level)
    show_nothing()
    asyncio.run(_feed(settings, partitions, applied))


async def _feed(settings: Settings, partitions: Sequence[int], applied: Any) -> None:
    topic = changes_topic(settings)
    await topic.start()
    async with asyncio.TaskGroup() as tasks:
        for partition in partitions:
            tasks.create_task(_feed_one(settings, topic, partition, applied))


async def _feed_one(settings: Settings, topic: KafkaLog, partition: int, applied: Any) -> None:
    begin = await first_offset(settings, topic, partition)
    await follow(settings, partition, Until(offset=begin), Feeder(settings, topic, partition, applied))


def changes_topic(settings: Settings) -> KafkaLog:
    """The topic of the changes, not started, where the log is: it has as many partitions."""
    return open_kafka(
        settings.log_url.removeprefix("kafka://"),
        topic=settings.changes.topic,
        partitions=settings.partitions,
        settings=replace(settings.kafka, finite_retention=True),
    )


async def first_offset(settings: Settings, topic: KafkaLog, partition: int) -> int:
    """The event to go on with: that of the last record in the topic.

    A topic that is empty gets a record that says where its feed begins: at the log's end. Where its records have aged
    out, everything is told again that the log has.

    Raises:
        LogUnavailableError, AppendUncertainError: the cluster cannot be asked.
    """
    begin, end = await topic.begin_offset(partition), await topic.end_offset(partition)
    reader = topic.reader({partition: end})
    try:
        for at in range(end - 1, begin - 1, -1):
            reader.seek(partition, at)
            fetched = await reader.fetch(_WAIT_MS, 1)
            for offset, *_ in fetched.get(partition, ()):
                if text := dict(reader.headers(partition, offset)).get(OFFSET_HEADER):
                    return int(text)
    finally:
        await reader.close()
    log = opened(settings)
    await log.start()
    try:
        if end:
            return await log.begin_offset(partition)
        first = await log.end_offset(partition)
    finally:
        await log.close()
    await topic.send([begun_record(settings.topic, partition, first, now_ms())])
    return first


class Feeder(Watching):
    """Applies events as `Watching`, and sends what they change.

    Args:
        settings: of the service.
        topic: it gets the records.
        partition: of the events.
        applied: as `feed` takes it.
    """

    def __init__(self, settings: Settings, topic: KafkaLog, partition: int, applied: Any) -> None:
        super().__init__(partition, settings.changes.value_bytes_max, self._add)
        self._settings, self._topic, self._partition, self._applied_by = settings, topic, partition, applied
        self._records: list[Outgoing] = []

    async def may_apply(self, to_offset: int) -> None:
        """Wait for the service: no reader is to hear of a change before it can be read."""
        while self._applied_by[self._partition] < to_offset:  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(_POLL_SECONDS)

    async def applied(self, next_offset: int) -> None:
        """Send what is pending; a batch of which nobody knows whether it arrived is sent again."""
        told = len(self._records)
        for begin in range(0, told, _SENT_AT_ONCE):
            await self._send(self._records[begin : begin + _SENT_AT_ONCE])
        self._records.clear()
        tell(Fed(self._partition, next_offset, told))

    async def _send(self, records: Sequence[Outgoing]) -> None:
        while True:
            try:
                await self._topic.send(records)
            except (AppendUncertainError, LogUnavailableError):
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def _add(self, change: Change) -> None:
        self._records.append(change_record(self._settings.topic, change, self._settings.changes.value_bytes_max))
