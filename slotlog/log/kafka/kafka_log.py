"""The log on Apache Kafka, through aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Final, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.conn import get_ip_port_afi
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import OffsetAndMetadata

from slotlog.clock import stamp_ms
from slotlog.errors import LogMismatchError, LogUnavailableError
from slotlog.log.appends import Appends
from slotlog.log.identity import RecordMark, check_range, check_record, mark_of
from slotlog.log.kafka.appender import KafkaAppender
from slotlog.log.kafka.claims import KafkaClaims
from slotlog.log.kafka.clients import GONE, is_dead, open_consumer, stop_consumer, unavailable
from slotlog.log.kafka.outgoing import Outgoing
from slotlog.log.kafka.reader import KafkaReader
from slotlog.log.kafka.requests import Incarnation, fetch_once, incarnations
from slotlog.log.kafka.settings import KafkaSettings
from slotlog.log.kafka.sizes import topic_bytes
from slotlog.log.kafka.topic import MESSAGE_BYTES_MAX, KafkaTopics, TopicRules
from slotlog.log.log import Entry, LogRecord, RecordPosition, check_entries
from slotlog.log_lines import LineLogger

_LOOKUP_FETCH_BYTES: Final = 64 * 1024  # one record is wanted, not what follows it
_LOOKUP_WAIT_MS: Final = 200
_COMMIT_SECONDS: Final = 5.0
_PORT_MAX: Final = 65535

T = TypeVar("T")

logger = LineLogger(__name__)


class KafkaLog:
    """A log in a Kafka topic; see `slotlog.log.log.Log` for every method.

    Args:
        servers: HOST:PORT[,HOST:PORT…].
        topic: the topic.
        partitions: how many it has.
        settings: how to reach the servers.
        create: whether `start` may create the topic.
        message_bytes_max: the largest batch that the topic must take.
    """

    def __init__(
        self,
        servers: str,
        *,
        topic: str,
        partitions: int,
        settings: KafkaSettings | None = None,
        create: bool = True,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        if "@" in servers:
            raise ValueError(
                "user and password do not belong into a log's address: it is shown. Use the Kafka settings"
            )
        _check_addresses(servers)
        self.settings = settings or KafkaSettings()
        self.servers = servers
        self.create = create
        self._topics = KafkaTopics(servers, self.settings)
        self._appender = KafkaAppender(servers, self.settings)
        self._rules = TopicRules(
            topic,
            partitions,
            message_bytes_max,
            create_time=self.settings.create_time,
            finite_retention=self.settings.finite_retention,
        )
        self._readers: list[KafkaReader] = []
        self._checked: dict[int, Incarnation | None] = {}
        self._asking = asyncio.Lock()
        self._lookup: AIOKafkaConsumer | None = None
        self._committer: AIOKafkaConsumer | None = None
        self._claims = KafkaClaims()
        self.append_counts = Appends()
        self.stored_bytes: int | None = None
        self.scrubbed = None
        self.concerns: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """`kafka://` and the servers."""
        return f"kafka://{self.servers}"

    @property
    def topic(self) -> str:
        """The topic."""
        return self._rules.name

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return self._rules.partitions

    @property
    def retention_ms(self) -> int | None:
        """The age at which the brokers delete records, as it was looked at last; None: never. Not part of `Log`."""
        return self._topics.retention_ms

    async def start(self) -> None:
        """Create the topic if need be, and check its settings."""
        try:
            await self._topics.ensure(self._rules, create=self.create)
        except BaseException:
            await self._topics.close()
            raise

    async def close(self) -> None:
        """Finish appends, then let go of every connection."""
        await self._appender.close()
        await self._topics.close()
        for reader in list(self._readers):
            await reader.close()
        for consumer in (self._lookup, self._committer):
            if consumer is not None:
                await stop_consumer(consumer)
        self._lookup = self._committer = None

    async def append(self, entries: Sequence[Entry]) -> list[RecordPosition]:
        """One batch per partition, acknowledged by all in-sync replicas. The broker sets the times."""
        check_entries(entries, self.partitions)
        stamp_ms()  # the broker gives the times, but a machine whose clock was set is to write nothing
        return await self.send([Outgoing(entry[0], entry.key, entry.value, None, entry.headers) for entry in entries])

    def append_at_once(self, entries: Sequence[Entry]) -> None:
        """Never: a broker has to be waited for."""

    async def send(self, records: Sequence[Outgoing]) -> list[RecordPosition]:
        """`append` for records with headers and times. Not part of `Log`."""
        return await self.append_counts.measured(self._appender.append(self.topic, records), records)

    def reader(self, positions: Mapping[int, int]) -> KafkaReader:
        """A consumer of its own, opened by its first fetch."""
        reader = KafkaReader(self.servers, self.topic, positions, self.settings, self._checked, self._readers.remove)
        self._readers.append(reader)
        return reader

    async def begin_offset(self, partition: int) -> int:
        """The log start offset."""
        tp = TopicPartition(self.topic, partition)
        begins = await self._ask(lambda consumer: consumer.beginning_offsets([tp]))
        begin: int = begins[tp]
        return begin

    async def end_offset(self, partition: int) -> int:
        """The last stable offset: a transaction that is still open lies behind it."""
        tp = TopicPartition(self.topic, partition)
        ends = await self._ask(lambda consumer: consumer.end_offsets([tp]))
        end: int = ends[tp]
        return end

    async def ends(self, partitions: Sequence[int], *, written: bool = False) -> dict[int, int]:
        """One after the other."""
        end = self.high_watermark if written else self.end_offset
        return {partition: await end(partition) for partition in partitions}

    async def trim(self, partition: int, before_offset: int) -> int:
        """Have the brokers delete the records of `partition` before `before_offset`. Not part of `Log`.

        Returns:
            The offset that the partition now begins at. Of the disk, whole segments alone are freed.

        Raises:
            LogUnavailableError: the cluster cannot be asked, or refuses.
        """
        return await self._topics.delete_records(self.topic, partition, before_offset)

    async def give_back_some(self) -> int:
        """Nothing to do: the brokers delete whole segments. Not part of `Log`."""
        return 0

    async def high_watermark(self, partition: int) -> int:
        """From an empty fetch at the end."""
        tp = TopicPartition(self.topic, partition)
        end = await self.end_offset(partition)
        fetched = await self._ask(lambda consumer: fetch_once(consumer, tp, end, fetch_bytes=1))
        return fetched.high_watermark

    async def offset_at(self, partition: int, time_ms: int) -> int | None:
        """From the broker's time index."""
        tp = TopicPartition(self.topic, partition)
        found = await self._ask(lambda consumer: consumer.offsets_for_times({tp: time_ms}))
        at = found[tp]
        return None if at is None else int(at.offset)

    async def set_time_back(self, partition: int, to_ms: int, entries: Sequence[Entry]) -> list[RecordPosition]:
        """As `append`."""
        return await self.append(entries) if entries else []

    def fingerprint(self, partition: int, last: LogRecord) -> bytes:
        """The record's mark."""
        return mark_of(last, calc_crc32c).pack()

    async def check(self, partition: int, next_offset: int, fingerprint: bytes | None) -> None:
        """Topic, range, and the record that the state applied last."""
        mark = None if fingerprint is None else RecordMark.parse(fingerprint)
        self._note(await self._topics.check(self._rules, running=True))
        tp = TopicPartition(self.topic, partition)
        begin = await self.begin_offset(partition)
        # Before the record is read: if the topic is exchanged in between, this is the old one, and readers will notice.
        found = await self._ask(lambda consumer: incarnations(consumer, [tp]))
        end = await self.end_offset(partition)
        name = f"partition {partition} of the topic {self.topic}"
        check_range(name, next_offset, begin, end)
        if mark is not None and mark.offset >= begin:
            record = await self._ask(lambda consumer: self._record_at(consumer, partition, mark.offset))
            check_record(name, mark, None if record is None else mark_of(record, calc_crc32c))
        self._checked[partition] = found[partition]

    async def measure(self) -> None:
        """Ask every broker. One that does not let this user ask leaves it unknown."""
        self.stored_bytes = await self._ask(lambda consumer: topic_bytes(consumer, self.topic, self.partitions))

    async def look(self) -> None:
        """Note what is wrong with a topic that no state depends on; create it where it is gone. Not part of `Log`.

        Raises:
            LogUnavailableError: the cluster cannot be asked.
        """
        try:
            await self._topics.create_missing(self._rules)
            self._note(tuple(breach.text for breach in await self._topics.breaches(self._rules)))
        except LogMismatchError as error:
            self._note((str(error),))

    def _note(self, concerns: tuple[str, ...]) -> None:
        """Say what has changed in the topic's settings since they were looked at last."""
        if concerns != self.concerns:
            self.concerns = concerns
            if concerns:
                logger.warning(
                    "topic_settings", topic=self.topic, wrong=list(concerns), hint="a start would be refused"
                )
            else:
                logger.info("topic_settings", topic=self.topic, wrong=[])

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Commit to the group of the settings, which has no members."""
        offsets = {TopicPartition(self.topic, partition): offset for partition, offset in positions.items()}
        if not offsets:
            return
        try:
            async with asyncio.timeout(_COMMIT_SECONDS):
                if self._committer is None:
                    self._committer = await open_consumer(self.servers, self.settings, group=self.settings.group)
                if self._committer.assignment() != offsets.keys():
                    self._committer.assign(list(offsets))
                    for tp, offset in offsets.items():
                        self._committer.seek(tp, offset)
                    self._committer.pause(*offsets)
                claim = self._claims.next_text()
                await self._committer.commit({tp: OffsetAndMetadata(at, claim) for tp, at in offsets.items()})
        except Exception as error:  # noqa: BLE001 - nothing depends on it, whatever it was
            logger.warning("kafka_commit_failed", topic=self.topic, error=repr(error))
            consumer, self._committer = self._committer, None
            if consumer is not None:
                await stop_consumer(consumer)

    async def claims(self, owner: str, partitions: Sequence[int]) -> dict[int, list[str]] | None:
        """From the metadata of what is committed; None before this worker has committed anything."""
        self._claims.own(owner)
        if self._committer is None:
            return None
        everywhere = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        try:
            async with asyncio.timeout(_COMMIT_SECONDS):
                found = await self._committer._coordinator.fetch_committed_offsets(everywhere)  # noqa: SLF001 - the public part leaves the metadata out
        except Exception as error:  # noqa: BLE001 - nothing depends on it, whatever it was
            logger.warning("kafka_claims_failed", topic=self.topic, error=repr(error))
            return None
        return self._claims.heard({tp.partition: at.metadata or "" for tp, at in found.items()})

    async def _record_at(self, consumer: AIOKafkaConsumer, partition: int, offset: int) -> LogRecord | None:
        """The data record at `offset`; None if the log goes on without one."""
        tp = TopicPartition(self.topic, partition)
        until = monotonic() + self.settings.request_timeout_ms / 1000
        while monotonic() < until:
            fetched = await fetch_once(consumer, tp, offset, fetch_bytes=_LOOKUP_FETCH_BYTES, wait_ms=_LOOKUP_WAIT_MS)
            for record in fetched.records:
                if record.offset == offset:
                    return record.offset, record.timestamp, record.key, record.value
            if fetched.next_offset > offset:
                return None
        raise LogUnavailableError(f"Kafka at {self.servers} does not give the record at offset {offset}")

    async def _ask(self, question: Callable[[AIOKafkaConsumer], Awaitable[T]]) -> T:
        async with self._asking:
            if self._lookup is not None and is_dead(self._lookup):
                await self._forget_lookup()
            if self._lookup is not None:
                with contextlib.suppress(*GONE):  # the broker that it asks; a new consumer asks one that is there
                    return await self._ask_consumer(self._lookup, question)
            self._lookup = await open_consumer(self.servers, self.settings, fetch_bytes=_LOOKUP_FETCH_BYTES)
            try:
                return await self._ask_consumer(self._lookup, question)
            except GONE as error:
                raise unavailable(f"Kafka at {self.servers} cannot be asked", error) from error

    async def _ask_consumer(
        self, consumer: AIOKafkaConsumer, question: Callable[[AIOKafkaConsumer], Awaitable[T]]
    ) -> T:
        """Let go of the consumer after a failure.

        Raises:
            KafkaConnectionError, NodeNotReadyError: it is not connected to the broker that it has asked.
            LogUnavailableError: of all else that fails.
        """
        try:
            async with asyncio.timeout(self.settings.request_timeout_ms / 1000):
                return await question(consumer)
        except (LogUnavailableError, *GONE):
            await self._forget_lookup()
            raise
        except Exception as error:
            await self._forget_lookup()
            raise unavailable(f"Kafka at {self.servers} cannot be asked", error) from error

    async def _forget_lookup(self) -> None:
        consumer, self._lookup = self._lookup, None
        if consumer is not None:
            await stop_consumer(consumer)


def _check_addresses(servers: str) -> None:
    """Refuse a port that there is not: aiokafka would connect to another one, its remainder by 65536.

    Raises:
        ValueError: with the server.
    """
    for server in servers.split(","):
        try:
            host, port, _ = get_ip_port_afi(server)
        except ValueError:
            host, port = "", 0
        if not host or not 0 < port <= _PORT_MAX:
            raise ValueError(f"kafka://{servers}: {server!r} is no HOST:PORT; a port is a number from 1 to {_PORT_MAX}")
