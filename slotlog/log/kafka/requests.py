"""Asks brokers what aiokafka's consumer does not tell: the topic's id, and records with damaged headers.

Both go over a connection of their own: on the consumer's they would wait behind a fetch that waits for records.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import ConnectionGroup
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import LeaderNotAvailableError, NoError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields
from aiokafka.record.default_records import _DefaultRecordBatchPy, _DefaultRecordPy
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.memory_records import _MemoryRecordsPy
from aiokafka.record.util import decode_varint

from slotlog.errors import LogRecordError
from slotlog.log.kafka.decoding import TooLargeError, unpacked

_UUID_BYTES: Final = 16
_FETCH_BYTES_MAX: Final = 50 * 1024 * 1024
_MAGIC_AT: Final = 16  # of a batch: offset 8, length 4, leader epoch 4
_MAGIC_2: Final = 2


class Incarnation(NamedTuple):
    """The identity of a partition's log: topic ids are unique, and only a new leader truncates a log.

    Attributes:
        topic_id: 16 random bytes, given by the cluster when the topic is created.
        leader_epoch: goes up by at least 1 with each change of the partition's leader, and when a broker restarts.
    """

    topic_id: bytes
    leader_epoch: int


class Fetched(NamedTuple):
    """The result of one fetch.

    Attributes:
        records: aiokafka's `ConsumerRecord`s.
        next_offset: where to read on.
        high_watermark: the offset after the last record that is on all in-sync replicas, also in open transactions.
    """

    records: list[Any]
    next_offset: int
    high_watermark: int


async def incarnations(
    consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
) -> dict[int, Incarnation | None]:
    """Which log each of the partitions of one topic is now, as their leaders say; None from brokers before Kafka 2.8.

    A leader knows that it serves another log before it serves it: what was fetched earlier than this is asked, and
    this has not changed, belongs to the same log.

    Raises:
        KafkaError: no topic, no leader, no connection.
    """
    wanted: dict[int, list[int]] = {}
    for tp in partitions:
        wanted.setdefault(await _leader(consumer, tp), []).append(tp.partition)
    found: dict[int, Incarnation | None] = {}
    for node, numbers in wanted.items():
        request = _MetadataRequest(partitions[0].topic)
        try:
            answer = await consumer._client.send(node, request, group=ConnectionGroup.COORDINATION)  # noqa: SLF001 - the public part has no requests
        except NotImplementedError:  # what aiokafka raises when a broker does not know the version
            found.update(dict.fromkeys(numbers))
            continue
        code, _, topic_id, _, leaders, *_ = answer.topics[0]
        if for_code(code) is not NoError:
            raise for_code(code)(partitions[0].topic)
        epochs = {number: leader_epoch for _, number, _, leader_epoch, *_ in leaders}
        for number in numbers:
            if number not in epochs:
                raise UnknownTopicOrPartitionError(f"{partitions[0].topic}-{number}")
            found[number] = Incarnation(topic_id, epochs[number])
    return found


async def fetch_once(
    consumer: AIOKafkaConsumer, tp: TopicPartition, offset: int, *, fetch_bytes: int = 1024 * 1024, wait_ms: int = 0
) -> Fetched:
    """One fetch of committed records from `offset` on, outside of the consumer's own fetching.

    Header names that are not UTF-8, over which aiokafka's decoder stumbles, come with their wrong bytes escaped.

    Raises:
        LogRecordError: the first record cannot be decoded. What stands before such a record is given.
        KafkaError: no leader, no connection, an offset out of range.
    """
    wanted = [(tp.topic, [(tp.partition, offset, fetch_bytes)])]
    request = FetchRequest(wait_ms, 1, _FETCH_BYTES_MAX, READ_COMMITTED, wanted)
    leader = await _leader(consumer, tp)
    answer = await consumer._client.send(leader, request, group=ConnectionGroup.COORDINATION)  # noqa: SLF001 - as above
    _, code, high_watermark, *rest = answer.topics[0][1][0]
    if for_code(code) is not NoError:
        consumer._client.force_metadata_update()  # noqa: SLF001 - as above
        raise for_code(code)({tp: offset})
    aborted = rest[2] if answer.API_VERSION >= 11 else rest[-2]
    found = PartitionRecords(tp, _Records(rest[-1]), aborted, offset, None, None, True, READ_COMMITTED)
    records: list[Any] = []
    try:
        for record in found:
            records.append(record)  # noqa: PERF402 - those before a failure count
    except Exception as error:
        if not records:
            reason = str(error) if isinstance(error, TooLargeError) else repr(error)
            raise LogRecordError(tp.partition, found.next_fetch_offset, reason) from error
    return Fetched(records, found.next_fetch_offset, high_watermark)


async def _leader(consumer: AIOKafkaConsumer, tp: TopicPartition) -> int:
    client = consumer._client  # noqa: SLF001 - the public part does not name leaders
    leader: int | None = client.cluster.leader_for_partition(tp)
    if leader is None or leader < 0:
        client.add_topic(tp.topic)
        await client.force_metadata_update()
        leader = client.cluster.leader_for_partition(tp)
        if leader is None or leader < 0:
            raise LeaderNotAvailableError(tp)
    return leader


# ---------------------------------------------------------------------- records whose header names are not UTF-8


class _Records(_MemoryRecordsPy):  # type: ignore[misc] # aiokafka comes without types here
    """The batches of a fetch."""

    def next_batch(self) -> Any:
        """The next batch, decoded leniently."""
        batch = self._next_slice
        if batch is None:
            return None
        self._cache_next()
        magic = batch[_MAGIC_AT]
        return _Batch(batch) if magic >= _MAGIC_2 else LegacyRecordBatch(batch, magic)


class _Batch(_DefaultRecordBatchPy):  # type: ignore[misc] # as above
    """A batch whose records may have any bytes for header names."""

    _pos: int
    _buffer: bytearray
    _decompressed: bool

    def _maybe_uncompress(self) -> None:
        if not self._decompressed and self.compression_type:
            last, count = self.next_offset - 1, self._num_records
            data = bytes(self._buffer[self._pos :])
            found = unpacked(self.compression_type, data, first=self.base_offset, last=last, records=count)
            self._buffer, self._pos = bytearray(found), 0
        self._decompressed = True

    def _read_msg(self, *_: Any) -> Any:
        try:
            return super()._read_msg()
        except UnicodeDecodeError:
            return self._read_leniently()

    def _read_leniently(self) -> Any:
        """length, attributes, time and offset delta, key, value, count of headers; name and value of each header."""
        buffer = self._buffer
        length, at = decode_varint(buffer, self._pos)
        end = at + length
        _, at = decode_varint(buffer, at)
        time_delta, at = decode_varint(buffer, at)
        offset_delta, at = decode_varint(buffer, at)
        key, at = _bytes(buffer, at)
        value, at = _bytes(buffer, at)
        count, at = decode_varint(buffer, at)
        headers = []
        for _ in range(count):
            name, at = _bytes(buffer, at)
            content, at = _bytes(buffer, at)
            headers.append(((name or b"").decode("utf-8", "backslashreplace"), content))
        if at != end:
            raise ValueError(f"a record of {length} bytes ends {at - end} bytes beyond its length")
        self._pos = end
        appended = self.timestamp_type == self.LOG_APPEND_TIME
        time = self.max_timestamp if appended else self.first_timestamp + time_delta
        return _DefaultRecordPy(self.base_offset + offset_delta, time, self.timestamp_type, key, value, headers)


def _bytes(buffer: bytearray, at: int) -> tuple[bytes | None, int]:
    """A field behind its length, -1 for none."""
    length, at = decode_varint(buffer, at)
    return (None, at) if length < 0 else (bytes(buffer[at : at + length]), at + length)


# ---------------------------------------------------------------------- Metadata, version 10: aiokafka ends at 5


class _Uuid:
    """16 bytes as they are."""

    @staticmethod
    def encode(value: bytes) -> bytes:
        """As they are."""
        return value

    @staticmethod
    def decode(data: BytesIO) -> bytes:
        """As they are."""
        return data.read(_UUID_BYTES)


_API_KEY: Final = 3
_API_VERSION: Final = 10
_PARTITION: Final = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("in_sync", CompactArray(Int32)),
    ("offline", CompactArray(Int32)),
    ("tags", TaggedFields),
)
_TOPIC: Final = (
    ("error_code", Int16),
    ("name", CompactString()),
    ("topic_id", _Uuid),
    ("is_internal", Boolean),
    ("partitions", CompactArray(*_PARTITION)),
    ("operations", Int32),
    ("tags", TaggedFields),
)
_BROKER: Final = (
    ("node_id", Int32),
    ("host", CompactString()),
    ("port", Int32),
    ("rack", CompactString()),
    ("tags", TaggedFields),
)


class _MetadataResponse10(Response):  # type: ignore[misc] # as above
    API_KEY = _API_KEY
    API_VERSION = _API_VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(*_BROKER)),
        ("cluster_id", CompactString()),
        ("controller_id", Int32),
        ("topics", CompactArray(*_TOPIC)),
        ("cluster_operations", Int32),
        ("tags", TaggedFields),
    )


class _MetadataRequest10(RequestStruct):  # type: ignore[misc] # as above
    API_KEY = _API_KEY
    API_VERSION = _API_VERSION
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _MetadataResponse10
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", CompactString()), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_operations", Boolean),
        ("include_topic_operations", Boolean),
        ("tags", TaggedFields),
    )


class _MetadataRequest(Request[_MetadataRequest10]):  # type: ignore[misc] # as above
    """What the broker knows of one topic; the question never creates it."""

    API_KEY = _API_KEY

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[Any]) -> Any:
        """The request on the wire."""
        return request_struct_class([(bytes(_UUID_BYTES), self._topic, {})], False, False, False, {})
