"""Records taken out of a consumer of aiokafka are those that its own `getmany` gives."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchError, FetchResult, PartitionRecords
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import CorruptRecordException, OffsetOutOfRangeError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from slotlog.log.kafka import _batches
from slotlog.log.kafka.batches import is_compiled
from slotlog.log.kafka.unpacking import Unpacker
from tests.engine.native.twins import running

TP: Final = TopicPartition("topic", 0)
OTHER: Final = TopicPartition("topic", 1)

_ATTRIBUTES: Final = slice(21, 23)
_CRC: Final = slice(17, 21)
_LOG_TIME, _CONTROL = 0x08, 0x20
_RECORDS_AT: Final = 61
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
    log_time: bool = False


def with_crc(data: bytearray) -> bytes:
    """The bytes of a batch of magic 2, with the CRC that they should have."""
    data[_CRC] = calc_crc32c(bytes(data[_ATTRIBUTES.start :])).to_bytes(4)
    return bytes(data)


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
        key = b"key" if number % 2 else None
        value = b"%d" % (base + number) if number % 3 < 2 else None
        builder.append(number, 7 + number, batch.marker or key, value, headers)
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8)
    bits = (_CONTROL if batch.marker is not None else 0) | (_LOG_TIME if batch.log_time else 0)
    data[_ATTRIBUTES] = (int.from_bytes(data[_ATTRIBUTES]) | bits).to_bytes(2)
    return with_crc(data)


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
        self._fetcher._client = SimpleNamespace(send=self._answer)
        self._coordinator = SimpleNamespace(check_errors=lambda: None)
        self.waiters: list[asyncio.Future[None]] = []
        self.waits = asyncio.Event()

    def fetched(self, log: Log, offset: int = 0, tp: TopicPartition = TP, data: bytes | None = None) -> FetchResult:
        """Let it have fetched `log` from `offset` on, or these bytes of it."""
        assignment = self._subscriptions.subscription.assignment
        assignment.state_value(tp).seek(offset)
        data = log.data if data is None else data
        wanted = [(tp.topic, [(tp.partition, offset, 1 << 20)])]
        self._answers: list[tuple[str, list[tuple[Any, ...]]]] = [(tp.topic, [(tp.partition, 0, 0, 0, [], data)])]
        with suppress(StopIteration):
            self._fetcher._client.send(0, FetchRequest(0, 1, 1, READ_COMMITTED, wanted)).send(None)
        unpacked = PartitionRecords(tp, MemoryRecords(data), log.aborted, offset, None, None, True, READ_COMMITTED)
        result = FetchResult(tp, partition_records=unpacked, assignment=assignment, backoff=0)
        self._fetcher._records[tp] = result
        return result

    def position(self, tp: TopicPartition = TP) -> int:
        """Where it stands."""
        position: int = self._subscriptions.subscription.assignment.state_value(tp).position
        return position

    async def _answer(self, _node: int, _request: FetchRequest) -> SimpleNamespace:
        return SimpleNamespace(topics=self._answers)

    def _notify(self, _future: object) -> None:
        self._fetcher.notified += 1

    def _wait(self) -> asyncio.Future[None]:
        self.waiters.append(asyncio.get_running_loop().create_future())
        self.waits.set()
        return self.waiters[-1]


def facts(records: list[Any]) -> list[tuple[Any, ...]]:
    """What counts of aiokafka's records."""
    return [(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in records]


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def compiled(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether plain batches are read in C: each fact is shown of both."""
    with running(natively=request.param):
        assert is_compiled() == request.param
        yield request.param


_codecs = st.sampled_from([0, _GZIP])
_bare = st.tuples(
    st.integers(1, 4), st.integers(0, 2), st.integers(0, 4), st.integers(0, 2), st.just(False), st.none(), st.booleans()
).map(lambda made: Batch(*made))
_markers = st.tuples(st.integers(1, 2), st.sampled_from([_ABORT, _COMMIT])).map(
    lambda made: Batch(1, made[0], marker=made[1])
)
_old = st.tuples(st.integers(1, 3), _codecs).map(lambda made: Batch(made[0], codec=made[1], legacy=True))
_logs = st.one_of(  # aiokafka knows no log of both forms
    st.lists(st.one_of(_bare, _markers), min_size=1, max_size=8), st.lists(_old, min_size=1, max_size=8)
)


@pytest.mark.usefixtures("compiled")
@given(_logs, st.data())
def test_as_getmany(batches: list[Batch], data: st.DataObject) -> None:
    """Of any log, however few records are taken at a time, come the records and the position of aiokafka's own way."""
    log = log_of(batches)
    start = data.draw(st.integers(0, log.begins[-1] - 1))
    seed = data.draw(st.integers(0, 1000))

    async def compare() -> None:
        theirs, ours, rooms = Consumer(), Consumer(), Random(seed)
        expected = facts(theirs.fetched(log, start).getall())
        unpacker = Unpacker(ours)
        ours.fetched(log, start)
        found: list[tuple[Any, ...]] = []
        while TP in ours._fetcher._records:
            before, room = ours.position(), rooms.randint(1, 5)
            taken = (await unpacker.get(0, room)).get(TP.partition, [])
            assert len(taken) <= room
            assert ours.position() >= (taken[-1][0] + 1 if taken else before)
            found += [(*each, unpacker.headers.get((TP.partition, each[0]), ())) for each in taken]

        assert expected == found
        assert theirs.position() == ours.position()

    asyncio.run(compare())


DAMAGED: Final = Batch(6, left_out=1)


@example(82, 1)  # an offset of the batch before
@given(st.integers(_RECORDS_AT, len(packed(DAMAGED, 0)) - 1), st.integers(0, 255))
def test_a_record_that_is_wrong_is_so_for_both(at: int, byte: int) -> None:
    """Where any byte of the records is another one, under a right CRC, C gives what Python gives, or as little."""
    data = bytearray(packed(Batch(2), 0) + packed(DAMAGED, 2))
    begin = len(packed(Batch(2), 0))
    data[begin + at] = byte
    whole = bytes(data[:begin]) + with_crc(data[begin:])

    async def taken(*, natively: bool) -> object:
        with running(natively=natively):
            consumer = Consumer()
            unpacker = Unpacker(consumer)
            consumer.fetched(Log(whole, [], []))
            try:
                return await unpacker.get(0, 100), consumer.position(), unpacker.headers
            except Exception as error:  # noqa: BLE001 - whatever aiokafka's decoder raises
                return type(error), consumer.position()

    assert asyncio.run(taken(natively=False)) == asyncio.run(taken(natively=True))


@pytest.mark.usefixtures("compiled")
async def test_a_batch_that_is_cut_off_waits() -> None:
    """What a broker has cut off at the end of a fetch is asked for again, from its beginning on."""
    log = log_of([Batch(2), Batch(2)])
    consumer = Consumer()
    unpacker = Unpacker(consumer)
    for missing in (1, 40, len(packed(Batch(2), 2)) - 3):
        consumer.fetched(log, data=log.data[:-missing])

        assert [0, 1] == [record[0] for record in (await unpacker.get(0, 100))[TP.partition]]
        assert (2, {}) == (consumer.position(), consumer._fetcher._records)


def test_bytes_of_a_batch_that_is_no_usual_one_are_left() -> None:
    """C stops before a batch of another magic, codec, length or CRC, and takes nothing of it."""
    plain, odd = packed(Batch(2), 0), bytearray(packed(Batch(2), 2))
    cases = [bytes(odd[:-1]), bytes(odd[:17])]
    for at, byte in ((16, 1), (16, 3), (11, 255), (8, 255), (20, odd[20] ^ 1), (22, 0x40), (60, 3), (60, 1), (57, 255)):
        changed = bytearray(odd)
        changed[at] = byte
        cases.append(bytes(changed) if at in range(*_CRC.indices(99)) else with_crc(changed))

    for case in cases:
        records, _, at, next_offset = _batches.take(plain + case, 0, 0, 100, calc_crc32c)

        assert ([0, 1], len(plain), 2) == ([record[0] for record in records], at, next_offset)


@pytest.mark.usefixtures("compiled")
async def test_a_producer_that_goes_on_after_an_abort() -> None:
    """An aborted transaction is left out, and the next one of the same producer is given, when both are fetched."""
    log = log_of([Batch(2, 1), Batch(1, 1, marker=_ABORT), Batch(2, 1), Batch(1, 1, marker=_COMMIT), Batch(1)])
    consumer = Consumer()
    unpacker = Unpacker(consumer)
    consumer.fetched(log)

    assert [3, 4, 6] == [record[0] for record in (await unpacker.get(0, 100))[TP.partition]]
    assert 7 == consumer.position()


@pytest.mark.usefixtures("compiled")
async def test_a_damaged_batch_is_no_record() -> None:
    """A batch with another CRC raises, the position stands, and the consumer fetches anew."""
    log = log_of([Batch(2), Batch(2)])
    consumer = Consumer()
    unpacker = Unpacker(consumer)
    consumer.fetched(log, data=log.data[:-1] + b"\x7f")

    with pytest.raises(CorruptRecordException, match="CRC"):
        await unpacker.get(0, 100)

    assert (0, {}, 1) == (consumer.position(), consumer._fetcher._records, consumer._fetcher.notified)


@pytest.mark.usefixtures("compiled")
async def test_what_was_sought_elsewhere_is_not_given() -> None:
    """Records that were fetched for another position, or of a partition that is paused, are thrown away."""
    log = log_of([Batch(4)])
    consumer = Consumer()
    unpacker = Unpacker(consumer)
    consumer.fetched(log)
    assert [0] == [record[0] for record in (await unpacker.get(0, 1))[TP.partition]]
    state = consumer._subscriptions.subscription.assignment.state_value(TP)
    state.seek(3)
    assert {} == await unpacker.get(0, 100)
    consumer.fetched(log, 3)
    assert [3] == [record[0] for record in (await unpacker.get(0, 100))[TP.partition]]
    consumer.fetched(log)
    state.pause()
    assert {} == await unpacker.get(0, 100)

    assert {} == consumer._fetcher._records


@pytest.mark.usefixtures("compiled")
async def test_an_error_waits_for_records_of_others() -> None:
    """What was fetched of one partition is given before the error of another one is raised, once."""
    consumer = Consumer()
    unpacker = Unpacker(consumer)
    consumer.fetched(log_of([Batch(1)]))
    consumer._fetcher._records[OTHER] = FetchError(error=OffsetOutOfRangeError({OTHER: 5}), backoff=0)

    assert [TP.partition] == list(await unpacker.get(0, 100))
    with pytest.raises(OffsetOutOfRangeError):
        await unpacker.get(0, 100)
    assert {} == await unpacker.get(0, 100)


@pytest.mark.usefixtures("compiled")
async def test_it_waits_until_something_is_fetched() -> None:
    """Without records it waits for the consumer to fetch some, again when those were none to give."""
    consumer = Consumer()
    unpacker = Unpacker(consumer)
    waiting = asyncio.create_task(unpacker.get(60_000, 100))
    for log in (log_of([Batch(1, 1), Batch(1, 1, marker=_ABORT)]), log_of([Batch(1)])):
        await consumer.waits.wait()
        consumer.waits.clear()
        consumer.fetched(log)
        consumer.waiters[-1].set_result(None)

    assert [b"0"] == [record[3] for record in (await waiting)[TP.partition]]
    assert {} == await unpacker.get(1, 100)
    assert all(waiter.done() for waiter in consumer.waiters)
