"""A topic that is exchanged, or cannot be decoded, under a reader that is running."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from engine.apply.machine import Applied
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.reporting.observer import Cleaned, Condition
from slotlog.errors import LogMismatchError, LogRecordError, LogUnavailableError, Mismatch
from slotlog.events import encode
from slotlog.log.kafka.kafka_log import KafkaLog
from slotlog.log.kafka.requests import Incarnation
from tests.engine.harness import new_store
from tests.faults.topics import Topic
from tests.layouts import home_of
from tests.slotlog.fixtures import MakeKafkaLog
from tests.slotlog.lines import captured_lines
from tests.slotlog.log.reading import append, read, read_values

# Puts a record into partition 0 whose header's name is the bytes FF FE; only aiokafka without its extension can.
_BAD_HEADER = """
import asyncio, sys
from aiokafka import AIOKafkaProducer
class Name(str):
    def encode(self, *_):
        return b"\\xff\\xfe"
async def main():
    async with AIOKafkaProducer(bootstrap_servers=sys.argv[1]) as producer:
        headers = [("good", b"1"), (Name("x"), b"2"), ("none", None)]
        await producer.send_and_wait(sys.argv[2], b"bad", key=b"k", partition=0, headers=headers)
asyncio.run(main())
"""


async def _append_bad_header(bootstrap: str, topic: str) -> None:
    command = [sys.executable, "-c", _BAD_HEADER, bootstrap, topic]
    await asyncio.to_thread(subprocess.run, command, check=True, env={**os.environ, "AIOKAFKA_NO_EXTENSIONS": "1"})


async def test_header_name_that_is_not_utf8(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str) -> None:
    """A record whose header has a name of any bytes comes whole, with those around it; no log line repeats the name."""
    log = make_log(partitions=2)
    await log.start()
    await append(log, b"before")
    await _append_bad_header(kafka_bootstrap, topic)
    await append(log, b"after")
    await append(log, b"beside", partition=1)
    reader = log.reader({0: 0, 1: 0})
    with captured_lines() as said:
        found = await read(reader, 4)
    bad = found[0][1]

    assert [b"before", b"bad", b"after"] == [record[3] for record in found[0]]
    assert [b"beside"] == [record[3] for record in found[1]]
    assert (("good", b"1"), ("\\xff\\xfe", b"2"), ("none", None)) == reader.headers(0, 1)
    assert (b"k", b"bad") == bad[2:]
    assert (3, 1) == (reader.position(0), reader.position(1))
    await log.check(0, 2, log.fingerprint(0, bad))
    assert "UnicodeDecodeError" in str(said)
    assert "xff" not in str(said)


async def test_bad_header_names_one_by_one(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str) -> None:
    """Such records also come when fewer are asked for than there are, none twice and none skipped."""
    log = make_log()
    await log.start()
    await _append_bad_header(kafka_bootstrap, topic)
    await append(log, b"a")
    await _append_bad_header(kafka_bootstrap, topic)
    reader = log.reader({0: 0})
    values = [(await read(reader, 1, records_max=1))[0][0][3] for _ in range(3)]

    assert [b"bad", b"a", b"bad"] == values


async def test_record_that_cannot_be_decoded(
    make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can read a record, the error names its partition and offset; all others' records come."""

    def broken(_: object) -> None:
        raise IndexError("broken")

    monkeypatch.setattr("slotlog.log.kafka.requests._Batch._read_leniently", broken)
    log = make_log(partitions=2)
    await log.start()
    await append(log, b"before")
    await _append_bad_header(kafka_bootstrap, topic)
    await append(log, b"beside", partition=1)
    reader = log.reader({0: 0, 1: 0})
    found = await read(reader, 2)
    with pytest.raises(LogRecordError, match=r"partition 0: the record at offset 1 cannot be read: .*broken") as caught:
        await read(reader, 1)

    assert {0: [b"before"], 1: [b"beside"]} == {p: [record[3] for record in records] for p, records in found.items()}
    assert (0, 1) == (caught.value.partition, caught.value.offset)
    assert (1, 1) == (reader.position(0), reader.position(1))
    reader.pause(0)
    await append(log, b"goes on", partition=1)
    assert [b"goes on"] == [record[3] for record in (await read(reader, 1))[1]]


# ---------------------------------------------------------------------- exchanged

Recreate = Callable[[int], Awaitable[None]]


@pytest.fixture
def recreate(admin: AIOKafkaAdminClient, topic: str, make_log: MakeKafkaLog) -> Recreate:
    """Deletes the test's topic, creates it again and fills it with as many events."""

    async def delete_and_refill(count: int) -> None:
        await Topic(admin, topic).delete()
        log = make_log()
        await log.start()
        await append(log, *[encode("INCR", ["new"])] * count)

    return delete_and_refill


async def test_exchanged_topic_gives_nothing(make_log: MakeKafkaLog, recreate: Recreate) -> None:
    """A reader gives no record of a topic that was created again; the check then says why, and a new one is read."""
    log = make_log()
    await log.start()
    await append(log, b"a", b"b", b"c")
    reader = log.reader({0: 0})
    await log.check(0, 0, None)
    last = (await read(reader, 3))[0][-1]
    await recreate(5)
    with pytest.raises(LogUnavailableError, match="was created again, or has another leader, for partition 0"):
        await read(reader, 1)
    assert reader.position(0) == 3
    with pytest.raises(LogMismatchError) as caught:
        await log.check(0, 3, log.fingerprint(0, last))
    assert caught.value.kind is Mismatch.RECREATED
    await log.check(0, 0, None)  # as a fresh state does
    reader.seek(0, 0)

    assert [encode("INCR", ["new"])] * 5 == [record[3] for record in (await read(reader, 5))[0]]


async def test_exchanged_between_check_and_first_fetch(make_log: MakeKafkaLog, recreate: Recreate) -> None:
    """The check of a state holds for the log that it saw: a reader opened on another one gives nothing."""
    log = make_log()
    await log.start()
    await append(log, b"a", b"b", b"c")
    await log.check(0, 0, None)
    await recreate(5)
    with pytest.raises(LogUnavailableError, match="was created again"):
        await read(log.reader({0: 2}), 1)


async def test_new_leader_is_checked_and_goes_on(make_log: MakeKafkaLog) -> None:
    """Another leader epoch, as after a restart of the broker, takes one failed fetch and a check; nothing is lost."""
    log = make_log()
    await log.start()
    await append(log, b"a", b"b")
    await log.check(0, 0, None)
    checked = log._checked[0]
    assert checked is not None
    log._checked[0] = Incarnation(checked.topic_id, checked.leader_epoch - 1)
    reader = log.reader({0: 0})
    with pytest.raises(LogUnavailableError, match="another leader"):
        await read(reader, 1)
    await log.check(0, 0, None)
    reader.seek(0, 0)

    assert [b"a", b"b"] == [record[3] for record in (await read(reader, 2))[0]]


async def test_old_broker(make_log: MakeKafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a broker that knows no topic ids, records are read all the same; the last one applied tells the log."""
    monkeypatch.setattr("slotlog.log.kafka.requests._MetadataRequest10.API_VERSION", 1000)
    log = make_log()
    await log.start()
    await append(log, b"a")
    await log.check(0, 0, None)

    assert [b"a"] == await read_values(log, 1)
    assert {0: None} == log._checked


async def test_failing_fetcher(make_log: MakeKafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else aiokafka raises while there is no record, the log is unavailable; a new consumer then goes on."""
    log = make_log()
    await log.start()
    reader = log.reader({0: 0})
    assert {} == await reader.fetch(0, 1)

    async def broken(*_: object) -> None:
        raise AssertionError("broken")

    monkeypatch.setattr(reader._unpacker, "get", broken)
    with pytest.raises(LogUnavailableError, match=r"aiokafka failed to fetch from .*broken") as caught:
        await reader.fetch(0, 1)
    await append(log, b"a")

    assert type(caught.value) is LogUnavailableError
    assert [b"a"] == [record[3] for record in (await read(reader, 1))[0]]


class _Silent:
    """Nobody watches."""

    def applied(self, partition: int, applied: Applied, value_bytes: int, seconds: float) -> None:
        """Nothing."""

    def condition(self, partition: int, condition: Condition, reason: str) -> None:
        """Nothing."""

    def lag(self, partition: int, events: int, seconds: float) -> None:
        """Nothing."""

    def cleaned(self, partition: int, cleaned: Cleaned) -> None:
        """Nothing."""


async def test_exchanged_topic_stops_a_running_consumer(make_log: MakeKafkaLog, topic: str, recreate: Recreate) -> None:
    """Deleted, created again and filled beyond the position: the partition stops, and no foreign event is applied.

    The consumer's own check, every minute, has no part in it.
    """
    log: KafkaLog = make_log()
    await log.start()
    await append(log, *[encode("INCR", ["old"])] * 10)
    store = new_store()
    worker = Worker(home_of(topic, 0, 1), log, lambda _: store, None, _Silent())
    consumer = Consumer(log, {0: worker}, _Silent())
    await consumer.open()
    machine = worker.machine
    stop = asyncio.Event()
    running = asyncio.create_task(consumer.run(stop))
    while machine.position.next_offset < 10:  # noqa: ASYNC110 - the consumer sends no event
        await asyncio.sleep(0.02)
    await recreate(25)
    while consumer.partitions[0].condition is not Condition.STOPPED:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.02)
    stop.set()
    await running

    assert "it was recreated" in consumer.partitions[0].reason
    assert (10, b"10", None) == (
        machine.position.next_offset,
        machine.read(b"GET", [b"old"]),
        machine.read(b"GET", [b"new"]),
    )


async def test_high_watermark(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str) -> None:
    """An open transaction shows as a high watermark beyond the log's end, until it is decided."""
    log = make_log()
    await log.start()
    await append(log, b"a")
    assert (1, 1) == (await log.end_offset(0), await log.high_watermark(0))
    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open", partition=0)
        assert (1, 2) == (await log.end_offset(0), await log.high_watermark(0))
        assert ({0: 1}, {0: 2}) == (await log.ends([0]), await log.ends([0], written=True))
        await producer.commit_transaction()
    await read_values(log, 2)

    assert await log.end_offset(0) == await log.high_watermark(0) == 3  # and the transaction's marker
