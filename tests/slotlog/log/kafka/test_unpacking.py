"""Records taken out of a consumer of aiokafka are those that its own `getmany` gives."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchError, FetchResult, PartitionRecords
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import CorruptRecordException, OffsetOutOfRangeError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

from slotlog.log.kafka.unpacking import Unpacker

TP: Final = TopicPartition("topic", 0)
OTHER: Final = TopicPartition("topic", 1)

_ATTRIBUTES: Final = slice(21, 23)
_CRC: Final = slice(17, 21)
_CONTROL: Final = 0x20
_ABORT, _COMMIT = b"\0\0\0\0", b"\0\0\0\1"
_GZIP: Final = 1


class Batch(NamedTuple):
    """Records of one batch, before they have bytes: how many, of which producer (0: of none), in which form."""

    records: int
    producer: int = 0
    codec: int = 0
    left_out: int = 0
    legacy: bool = False
    marker: bytes | None = None


def packed(batch: Batch, base: int) -> bytes:
    """The bytes of a batch as a broker gives them, from offset `base` on."""
    if batch.legacy:
        old = LegacyRecordBatchBuilder(1, batch.codec, 1 << 20)
        for number in range(batch.records):
            old.append(number if batch.codec else base + number, 7, b"key", b"%d" % (base + number))
        whole = bytes(old.build())  # compressed, the broker gives it the offset of its last record
        return (base + batch.records - 1).to_bytes(8) + whole[8:] if batch.codec else whole
    builder = DefaultRecordBatchBuilder(2, batch.codec, int(bool(batch.producer)), batch.producer or -1, 0, 0, 1 << 20)
    headers = [("name", b"content")] if batch.records == 2 else []
    for number in range(batch.left_out, batch.left_out + batch.records):
        builder.append(number, 7, batch.marker or b"key", b"%d" % (base + number), headers)
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8)
    if batch.marker is not None:
        data[_ATTRIBUTES] = (int.from_bytes(data[_ATTRIBUTES]) | _CONTROL).to_bytes(2)
        data[_CRC] = calc_crc32c(bytes(data[_ATTRIBUTES.start :])).to_bytes(4)
    return bytes(data)


class Log(NamedTuple):
    """The bytes of a log, where its batches begin, and its aborted transactions as (producer, first offset)."""

    data: bytes
    begins: list[int]
    aborted: list[tuple[int, int]]


def log_of(batches: list[Batch]) -> Log:
    """The log that has these batches one behind the other."""
    data, at, begins, aborted = b"", 0, [], []
    opened: dict[int, int] = {}
    for batch in batches:
        data += packed(batch, at)
        begins.append(at)
        if batch.marker is not None:
            first = opened.pop(batch.producer, None)
            if batch.marker == _ABORT and first is not None:
                aborted.append((batch.producer, first))
        elif batch.producer:
            opened.setdefault(batch.producer, at)
        at += batch.left_out + batch.records
    return Log(data, [*begins, at], aborted)


class Consumer:
    """As much of a consumer as records are taken from, with what it has fetched."""

    def __init__(self) -> None:
        self._subscriptions = SubscriptionState()
        self._subscriptions.assign_from_user([TP, OTHER])
        self._fetcher = SimpleNamespace(
            _records=OrderedDict(), _closed=False, _wait_consume_future=None, _notify=self._notify, notified=0
        )
        self._fetcher._create_fetch_waiter = self._wait
        self._coordinator = SimpleNamespace(check_errors=lambda: None)
        self.waiters: list[asyncio.Future[None]] = []
        self.waits = asyncio.Event()

    def fetched(self, log: Log, offset: int = 0, tp: TopicPartition = TP, data: bytes | None = None) -> FetchResult:
        """Let it have fetched `log` from `offset` on, or these bytes of it."""
        assignment = self._subscriptions.subscription.assignment
        assignment.state_value(tp).seek(offset)
        records = MemoryRecords(log.data if data is None else data)
        unpacked = PartitionRecords(tp, records, log.aborted, offset, None, None, True, READ_COMMITTED)
        result = FetchResult(tp, partition_records=unpacked, assignment=assignment, backoff=0)
        self._fetcher._records[tp] = result
        return result

    def position(self, tp: TopicPartition = TP) -> int:
        """Where it stands."""
        position: int = self._subscriptions.subscription.assignment.state_value(tp).position
        return position

    def _notify(self, _future: object) -> None:
        self._fetcher.notified += 1

    def _wait(self) -> asyncio.Future[None]:
        self.waiters.append(asyncio.get_running_loop().create_future())
        self.waits.set()
        return self.waiters[-1]


def facts(records: list[Any]) -> list[tuple[Any, ...]]:
    """What counts of records."""
    return [(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in records]


_codecs = st.sampled_from([0, _GZIP])
_bare = st.tuples(st.integers(1, 4), st.integers(0, 2), _codecs, st.integers(0, 2)).map(lambda made: Batch(*made))
_markers = st.tuples(st.integers(1, 2), st.sampled_from([_ABORT, _COMMIT])).map(
    lambda made: Batch(1, made[0], marker=made[1])
)
_old = st.tuples(st.integers(1, 3), _codecs).map(lambda made: Batch(made[0], codec=made[1], legacy=True))
_logs = st.one_of(  # aiokafka knows no log of both forms
    st.lists(st.one_of(_bare, _markers), min_size=1, max_size=8), st.lists(_old, min_size=1, max_size=8)
)


@given(_logs, st.data())
def test_as_getmany(batches: list[Batch], data: st.DataObject) -> None:
    """Of any log, however few records are taken at a time, come the records and the position of aiokafka's own way."""
    log = log_of(batches)
    start = data.draw(st.integers(0, log.begins[-1] - 1))
    seed = data.draw(st.integers(0, 1000))

    async def compare() -> None:
        theirs, ours, rooms = Consumer(), Consumer(), Random(seed)
        expected = facts(theirs.fetched(log, start).getall())
        ours.fetched(log, start)
        unpacker = Unpacker(ours)
        found: list[tuple[Any, ...]] = []
        while TP in ours._fetcher._records:
            before, room = ours.position(), rooms.randint(1, 5)
            taken = (await unpacker.get(0, room)).get(TP, [])
            assert len(taken) <= room
            assert ours.position() >= (taken[-1].offset + 1 if taken else before)
            found += facts(taken)

        assert expected == found
        assert theirs.position() == ours.position()

    asyncio.run(compare())


async def test_a_producer_that_goes_on_after_an_abort() -> None:
    """An aborted transaction is left out, and the next one of the same producer is given, when both are fetched."""
    log = log_of([Batch(2, 1), Batch(1, 1, marker=_ABORT), Batch(2, 1), Batch(1, 1, marker=_COMMIT), Batch(1)])
    consumer = Consumer()
    consumer.fetched(log)

    assert [3, 4, 6] == [record.offset for record in (await Unpacker(consumer).get(0, 100))[TP]]
    assert 7 == consumer.position()


async def test_a_damaged_batch_is_no_record() -> None:
    """A batch with another CRC raises, the position stands, and the consumer fetches anew."""
    log = log_of([Batch(2), Batch(2)])
    consumer = Consumer()
    consumer.fetched(log, data=log.data[:-1] + b"\x7f")

    with pytest.raises(CorruptRecordException, match="CRC"):
        await Unpacker(consumer).get(0, 100)

    assert (0, {}, 1) == (consumer.position(), consumer._fetcher._records, consumer._fetcher.notified)


async def test_what_was_sought_elsewhere_is_not_given() -> None:
    """Records that were fetched for another position, or of a partition that is paused, are thrown away."""
    log = log_of([Batch(4)])
    consumer = Consumer()
    unpacker = Unpacker(consumer)
    consumer.fetched(log)
    assert [0] == [record.offset for record in (await unpacker.get(0, 1))[TP]]
    state = consumer._subscriptions.subscription.assignment.state_value(TP)
    state.seek(3)
    assert {} == await unpacker.get(0, 100)
    consumer.fetched(log, 3)
    assert [3] == [record.offset for record in (await unpacker.get(0, 100))[TP]]
    consumer.fetched(log)
    state.pause()
    assert {} == await unpacker.get(0, 100)

    assert {} == consumer._fetcher._records


async def test_an_error_waits_for_records_of_others() -> None:
    """What was fetched of one partition is given before the error of another one is raised, once."""
    consumer = Consumer()
    consumer.fetched(log_of([Batch(1)]))
    consumer._fetcher._records[OTHER] = FetchError(error=OffsetOutOfRangeError({OTHER: 5}), backoff=0)
    unpacker = Unpacker(consumer)

    assert [TP] == list(await unpacker.get(0, 100))
    with pytest.raises(OffsetOutOfRangeError):
        await unpacker.get(0, 100)
    assert {} == await unpacker.get(0, 100)


async def test_it_waits_until_something_is_fetched() -> None:
    """Without records it waits for the consumer to fetch some, again when those were none to give."""
    consumer = Consumer()
    waiting = asyncio.create_task(Unpacker(consumer).get(60_000, 100))
    for log in (log_of([Batch(1, 1), Batch(1, 1, marker=_ABORT)]), log_of([Batch(1)])):
        await consumer.waits.wait()
        consumer.waits.clear()
        consumer.fetched(log)
        consumer.waiters[-1].set_result(None)

    assert [b"0"] == [record.value for record in (await waiting)[TP]]
    assert {} == await Unpacker(consumer).get(1, 100)
    assert all(waiter.done() for waiter in consumer.waiters)
