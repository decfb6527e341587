"""Facts of Kafka alone: compression, headers, transactions, absent brokers, secrets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from slotlog.errors import AppendUncertainError, LogUnavailableError
from slotlog.log import Entry, KafkaSettings, open_log
from slotlog.log.kafka.kafka_log import KafkaLog
from tests.real.broker import KafkaBroker
from tests.slotlog.fixtures import MakeKafkaLog
from tests.slotlog.log.reading import append, read, read_values

# ------------------------------------------------------------------ records of others


@pytest.mark.parametrize("compression", [None, "gzip", "lz4", "zstd"])
async def test_compression(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str, compression: str | None) -> None:
    """Batches of foreign producers are read whatever they are compressed with."""
    log = make_log()
    await log.start()
    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, compression_type=compression) as producer:
        for number in range(100):
            await producer.send(topic, b"value %d" % number * 10, partition=0)

    assert [b"value %d" % number * 10 for number in range(100)] == await read_values(log, 100)


async def test_headers(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str) -> None:
    """Headers can be asked for by position as long as the record belongs to one of the last two fetches."""
    log = make_log()
    await log.start()
    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap) as producer:
        for number in range(3):
            headers = [("trace", b"%d" % number), ("empty", None)] if number else []
            await producer.send_and_wait(topic, b"x", partition=0, headers=headers)
    reader = log.reader({0: 0})
    for _ in range(3):
        await read(reader, 1, records_max=1)

    assert () == reader.headers(0, 0)
    assert (("trace", b"1"), ("empty", None)) == reader.headers(0, 1)
    assert (("trace", b"2"), ("empty", None)) == reader.headers(0, 2)


async def test_tombstone(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str) -> None:
    """A record without a value comes as one: what becomes of it is not the log's business."""
    log = make_log()
    await log.start()
    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap) as producer:
        await producer.send_and_wait(topic, None, key=b"k", partition=0)
    record = (await read(log.reader({0: 0}), 1))[0][0]

    assert (b"k", None) == record[2:]
    await log.check(0, 1, log.fingerprint(0, record))


async def test_transactions(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str) -> None:
    """Aborted records are never given; the position passes them and the markers, up to the log's end."""
    log = make_log()
    await log.start()
    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=topic) as producer:
        for value, fails in ((b"committed", False), (b"aborted", True)):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, value, partition=0)
            await (producer.abort_transaction() if fails else producer.commit_transaction())
    reader = log.reader({0: 0})

    assert [b"committed"] == [record[3] for record in (await read(reader, 1))[0]]
    while reader.position(0) < 4:  # two records, two markers
        assert {} == await reader.fetch(100, 10)
    assert reader.position(0) == await log.end_offset(0) == 4


async def test_open_transaction(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str) -> None:
    """Records of an open transaction, and those behind it, lie behind the log's end until it is decided."""
    log = make_log()
    await log.start()
    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open", partition=0)
        await append(log, b"behind")
        assert await log.end_offset(0) == 0
        assert {} == await log.reader({0: 0}).fetch(200, 10)
        await producer.commit_transaction()

    assert [b"open", b"behind"] == await read_values(log, 2)


async def test_commit_is_for_lag_tools(make_log: MakeKafkaLog, kafka_bootstrap: str, topic: str) -> None:
    """Commits can be seen in the group of the settings, again and again."""
    log = make_log(group=f"lag-{topic}")
    await log.start()
    await append(log, b"a", b"b")
    await log.commit({})
    await log.commit({0: 1})
    await log.commit({0: 2})
    async with AIOKafkaConsumer(bootstrap_servers=kafka_bootstrap, group_id=f"lag-{topic}") as consumer:
        assert await consumer.committed(TopicPartition(topic, 0)) == 2


# ------------------------------------------------------------------ a broker that goes away


@pytest.mark.parametrize("servers", ["b:0", "b:65536", "b:99999", "b:port", "a:1,b:-1", "a:1,", "[::1]:65536", "[::1"])
def test_a_port_that_there_is_not(servers: str) -> None:
    """An address without a host, or whose port is no number from 1 to 65535, is refused, and named."""
    with pytest.raises(ValueError, match=f"{re.escape(repr(servers.rpartition(',')[2]))} is no HOST:PORT; a port is"):
        KafkaLog(servers, topic="t", partitions=1)


@pytest.mark.parametrize(
    "servers", ["b", "b:1", "a:65535,b:9092", "a:1, b:2", "127.0.0.1:1", "[::1]:1", "[::1]", "::1"]
)
def test_ports_that_there_are(servers: str) -> None:
    """Hosts with a port, or Kafka's own, are taken as they are."""
    assert servers == KafkaLog(servers, topic="t", partitions=1).servers


async def test_dead_broker() -> None:
    """Where no broker answers, the log is unavailable, and the message says which and why."""
    log = KafkaLog("127.0.0.1:1", topic="t", partitions=1, settings=KafkaSettings(request_timeout_ms=2000))

    refused = r"no broker answers \(127\.0\.0\.1:1: Connection refused\)"
    with pytest.raises(LogUnavailableError, match=rf"Kafka at 127\.0\.0\.1:1 cannot be asked: {refused}"):
        await log.start()
    with pytest.raises(LogUnavailableError, match=r"127\.0\.0\.1:1"):
        await append(log, b"x")
    with pytest.raises(LogUnavailableError, match=r"127\.0\.0\.1:1"):
        await log.reader({0: 0}).fetch(100, 1)
    with pytest.raises(LogUnavailableError, match=r"127\.0\.0\.1:1"):
        await log.end_offset(0)
    await log.commit({0: 1})
    await log.close()


@pytest.fixture
async def own_log(own_broker: KafkaBroker) -> AsyncIterator[KafkaLog]:
    """A log on a broker of this test alone."""
    log = KafkaLog(own_broker.bootstrap, topic="t", partitions=1, settings=KafkaSettings(request_timeout_ms=3000))
    await log.start()
    yield log
    await log.close()


async def test_broker_killed(own_broker: KafkaBroker, own_log: KafkaLog) -> None:
    """With the broker killed, appends fail as uncertain or unavailable; when it is back, the same log goes on.

    What was acknowledged is there, and nothing is there that was not appended.
    """
    await append(own_log, b"before")
    reader = own_log.reader({0: 0})
    await read(reader, 1)
    await asyncio.to_thread(own_broker.kill)
    with pytest.raises(AppendUncertainError):
        await append(own_log, b"uncertain")
    with pytest.raises(LogUnavailableError):
        await own_log.end_offset(0)
    await asyncio.to_thread(own_broker.start)
    while True:
        try:
            await append(own_log, b"after")
            break
        except LogUnavailableError:
            await asyncio.sleep(0.1)
    values: list[bytes | None] = []
    while b"after" not in values:
        try:
            values += [record[3] for record in (await reader.fetch(500, 10)).get(0, [])]
        except LogUnavailableError:
            await asyncio.sleep(0.1)

    assert values in ([b"after"], [b"uncertain", b"after"], [b"uncertain", b"after", b"after"], [b"after", b"after"])


async def test_silent_consumer_is_replaced(make_log: MakeKafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that gives nothing though the log has records is replaced, and nothing is skipped."""
    monkeypatch.setattr("slotlog.log.kafka.reader._PROBE_SECONDS", 0.2)
    log = make_log()
    await log.start()
    await append(log, b"a", b"b")
    reader = log.reader({0: 0})
    await read(reader, 1, records_max=1)
    silent = reader._consumer
    assert silent is not None

    async def nothing(*_: object) -> dict[object, object]:
        await asyncio.sleep(0.1)
        return {}

    monkeypatch.setattr(reader._unpacker, "get", nothing)

    assert [b"b"] == [record[3] for record in (await read(reader, 1))[0]]
    assert reader._consumer is not silent


# ------------------------------------------------------------------ addresses and secrets


def test_secrets_do_not_show() -> None:
    """No text of the settings or of a log shows a password."""
    settings = KafkaSettings(
        security_protocol="SASL_SSL",
        sasl_username="u",
        sasl_password="hidden-1",
        ssl_key_password="hidden-2",
    )
    log = open_log("kafka://h:9092", topic="t", partitions=1, kafka=settings)

    assert log.url == "kafka://h:9092"
    for text in (repr(settings), str(settings), repr(log), repr(vars(log))):
        assert "hidden" not in text


def test_no_secrets_in_the_address() -> None:
    """An address with user and password is refused: addresses are shown."""
    with pytest.raises(ValueError, match="do not belong into a log's address"):
        open_log("kafka://user:password@h:9092", topic="t", partitions=1)


def test_security_reaches_the_client(tmp_path: Path) -> None:
    """SASL and TLS settings become the client's arguments, with the host name checked; half a login is refused."""
    settings = KafkaSettings(security_protocol="SASL_SSL", sasl_username="u", sasl_password="p")
    arguments = settings.client_arguments()
    context = arguments.pop("ssl_context")

    assert {
        "client_id": "slotlog",
        "request_timeout_ms": 30_000,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_password": "p",
        "sasl_plain_username": "u",
        "security_protocol": "SASL_SSL",
    } == arguments
    assert context.check_hostname
    with pytest.raises(ValueError, match="SASL_SSL needs sasl_username and sasl_password"):
        KafkaSettings(security_protocol="SASL_SSL").client_arguments()


async def test_many_partitions_in_one_append(make_log: MakeKafkaLog) -> None:
    """An append over many partitions, with more than one batch for some, puts each entry where its position says."""
    log = make_log(partitions=4)
    await log.start()
    entries = [Entry(n % 4, b"", b"%d" % n * (2000 if n % 4 == 1 else 1)) for n in range(2000)]
    positions = await log.append(entries)
    read_back = await read(log.reader(dict.fromkeys(range(4), 0)), 2000)
    found = {(p, record[0]): record[3] for p, records in read_back.items() for record in records}

    assert [entry.value for entry in entries] == [found[p.partition, p.offset] for p in positions]
