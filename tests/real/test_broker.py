"""The Kafka broker that the tests start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import UnknownTopicOrPartitionError

from tests.real import broker as broker_module
from tests.real.broker import KafkaBroker, lists_a_broker
from tests.real.fixtures import RUNNING_BROKER_VARIABLE, session_broker
from tests.real.process import ServerError

TOPIC = "broker-test"
PARTITION = TopicPartition(TOPIC, 0)


async def create_topic(bootstrap: str) -> None:
    """Make TOPIC with one partition that takes records of 9 MiB."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        settings = {"max.message.bytes": str(9 << 20)}
        response = await client.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=settings)])
        assert [error[:2] for error in response.topic_errors] == [(TOPIC, 0)]
    finally:
        await client.close()


async def append(bootstrap: str, values: list[bytes]) -> None:
    """Send values to PARTITION, acknowledged one by one."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, max_request_size=9 << 20)
    async with producer:
        for value in values:
            await producer.send_and_wait(TOPIC, value, partition=0)


async def read_all(bootstrap: str) -> list[bytes]:
    """Every value in PARTITION."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none", enable_auto_commit=False)
    async with consumer:
        consumer.assign([PARTITION])
        consumer.seek(PARTITION, 0)
        end = (await consumer.end_offsets([PARTITION]))[PARTITION]
        values: list[bytes] = []
        while await consumer.position(PARTITION) < end:
            fetched = await consumer.getmany(timeout_ms=1_000)
            values += [record.value for record in fetched.get(PARTITION, [])]
        return values


async def test_acknowledged_records_outlive_a_kill(own_broker: KafkaBroker) -> None:
    """What the broker has acknowledged is there after SIGKILL and restart, at the same address, an 8 MiB record too."""
    values = [b"first", bytes(8 << 20), b"last"]
    await create_topic(own_broker.bootstrap)
    await append(own_broker.bootstrap, values)

    own_broker.kill()
    was_running = own_broker.running
    await asyncio.to_thread(own_broker.start)

    assert (False, True) == (was_running, own_broker.running)
    assert values == await read_all(own_broker.bootstrap)


async def test_restart_keeps_topics_and_makes_none(own_broker: KafkaBroker) -> None:
    """A broker restarted in order has its records, and makes no topic by accident, with settings that nobody chose."""
    await create_topic(own_broker.bootstrap)
    await append(own_broker.bootstrap, [b"kept"])

    await asyncio.to_thread(own_broker.restart)

    assert [b"kept"] == await read_all(own_broker.bootstrap)
    async with AIOKafkaProducer(bootstrap_servers=own_broker.bootstrap, request_timeout_ms=1_000) as producer:
        with pytest.raises(UnknownTopicOrPartitionError):
            await producer.send_and_wait("nobody-made-this", b"", partition=0)


async def test_session_broker_answers(kafka_bootstrap: str) -> None:
    """The broker of the session takes requests, whether it was started for it or was there before."""
    assert await lists_a_broker(kafka_bootstrap)


def test_running_broker_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SLOTLOG_TEST_KAFKA set the session uses the broker that it names, and starts none."""
    monkeypatch.setenv(RUNNING_BROKER_VARIABLE, "kafka.test:9092")

    with session_broker(tmp_path) as bootstrap:
        assert ("kafka.test:9092", []) == (bootstrap, list(tmp_path.iterdir()))


def test_broker_that_cannot_start_fails_with_its_log(tmp_path: Path) -> None:
    """A setting that Kafka refuses is an error that quotes Kafka's words."""
    with pytest.raises(ServerError, match=r"process\.roles"):
        KafkaBroker(tmp_path, {"process.roles": "nonsense"}).start()


def test_classes_are_archived(kafka_bootstrap: str, tmp_path: Path) -> None:
    """With a session's broker the archive is made, once; each later one begins with it, but one that is measured."""
    made = broker_module.ARCHIVE.stat().st_mtime_ns

    broker_module.make_archive()

    option = f"-XX:SharedArchiveFile={broker_module.ARCHIVE}"
    assert made == broker_module.ARCHIVE.stat().st_mtime_ns
    for is_measured in (False, True):
        (tmp_path / str(is_measured)).mkdir()
        broker = KafkaBroker(tmp_path / str(is_measured), measured=is_measured)
        assert is_measured == (option not in broker._java)


def test_missing_jars_name_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the jars the error says which make target brings them."""
    monkeypatch.setattr(broker_module, "JARS", tmp_path)

    with pytest.raises(ServerError, match="make kafka"):
        KafkaBroker(tmp_path)
