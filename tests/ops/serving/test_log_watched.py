"""A running service notices a truncated log and changed settings of its topic."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from ops.config import load_settings
from ops.snapshots.starting import start_from_snapshot
from ops.state.rebuilding.replay import replay
from ops.state.rebuilding.replay_plan import Until
from slotlog.log.kafka.topic import TopicRules
from tests.faults.topics import administered
from tests.ingest.applying.test_consumer import until
from tests.ops.metrics.test_sources import scraped
from tests.ops.serving.test_health import Served, served
from tests.ops.state.opening.test_set_aside import asked
from tests.real.oracle import SimpleString

BEGIN = 'slotlog_log_begin_offset{partition="0"}'
WRONG = "slotlog_topic_settings_wrong"


async def metric(it: Served, name: str, value: float) -> None:
    """Wait until a metric has that value."""
    while (await scraped(it.service.metrics)).get(name) != value:  # noqa: ASYNC110 - as Prometheus
        await asyncio.sleep(0.05)


async def test_a_log_cut_behind_the_state(kafka_bootstrap: str, tmp_path: Path) -> None:
    """Records deleted that the state has applied: it goes on and is ready; log line, metric and `/readyz` say it."""
    topic, options = f"t-{uuid4().hex}", {"identity_check_seconds": 0.2}
    where = {"log": f"kafka://{kafka_bootstrap}", "topic": topic}
    async with served(tmp_path, **where, **options) as it:
        await it.until("/readyz", 200)
        await asked(it, (b"SET", b"a", b"1"), (b"SET", b"b", b"2"))
        await metric(it, BEGIN, 0)
        assert (await it.until("/readyz", 200))["log"]["warnings"] == []
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
        await admin.start()
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=1)})
        await admin.close()
        await metric(it, BEGIN, 1)
        said = (await it.until("/readyz", 200))["log"]["warnings"]
        replies = await asked(it, (b"GET", b"a"), (b"SET", b"c", b"3"))

    lost = "no verified snapshot is known that reaches it: the state cannot be built again"
    assert [f"partition 0 begins at offset 1, and {lost}"] == said
    assert [b"1", SimpleString(b"OK")] == replies
    with pytest.raises(Exception, match="begins at offset 1, so a replay has to start from a snapshot"):
        await replay(
            load_settings(data=tmp_path / "data", **where), tmp_path / "to", Until(), start=start_from_snapshot
        )


async def test_a_topic_whose_settings_change(kafka_bootstrap: str, tmp_path: Path) -> None:
    """A setting that harms later is a warning, the service is ready; one that harms now stops it, until mended."""
    topic, good = f"t-{uuid4().hex}", TopicRules("any", 1).settings(1)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()

    async def change(setting: str, value: str) -> None:
        settings = {**good, setting: value}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, settings)])

    async with served(tmp_path, log=f"kafka://{kafka_bootstrap}", topic=topic, identity_check_seconds=0.2) as it:
        await it.until("/readyz", 200)
        await change("max.message.bytes", "1048588")
        await metric(it, WRONG, 1)
        warned = await it.until("/readyz", 200)
        await change("message.timestamp.type", "CreateTime")
        stopped = await it.until("/readyz", 503)
        await change("max.message.bytes", good["max.message.bytes"])
        mended = await it.until("/readyz", 200)
    await admin.close()

    text = "max.message.bytes=1048588: set it to 9437184 at least"
    assert [f"a start would be refused: {text}"] == warned["log"]["warnings"]
    (partition,) = stopped["partitions"]
    assert partition["condition"] == "stopped"
    assert partition["reason"].startswith(f"the topic {topic} cannot be used: message.timestamp.type=CreateTime: ")
    assert mended["log"]["warnings"] == []


async def test_the_dead_letters_topic_whose_settings_change(kafka_bootstrap: str, tmp_path: Path) -> None:
    """Whatever is changed there, the service is ready and warns, with the topic's name, until it is mended."""
    topic, good = f"t-{uuid4().hex}", {"retention_ms": "-1", "max_message_bytes": "20000000"}
    good["message_timestamp_type"] = "LogAppendTime"
    async with served(tmp_path, log=f"kafka://{kafka_bootstrap}", topic=topic, identity_check_seconds=0.2) as it:
        await it.until("/readyz", 200)
        async with administered(kafka_bootstrap, f"{topic}.dlq") as letters:
            await letters.configure(**{**good, "retention_ms": "1000", "max_message_bytes": "1048588"})
            await metric(it, WRONG, 2)
            warned = await it.until("/readyz", 200)
            await letters.configure(**good)
            await metric(it, WRONG, 0)
        mended = await it.until("/readyz", 200)

    assert [
        f"a start would be refused: {topic}.dlq: retention.ms=1000: events would age out of the log; set it to -1",
        f"a start would be refused: {topic}.dlq: max.message.bytes=1048588: set it to 10485760 at least",
    ] == warned["log"]["warnings"]
    assert mended["log"]["warnings"] == []


async def test_a_dead_letters_topic_that_is_deleted(kafka_bootstrap: str, tmp_path: Path) -> None:
    """It is created again, as a start would: no broker makes one whose letters age out, and the next letter is kept."""
    topic = f"t-{uuid4().hex}"
    async with served(tmp_path, log=f"kafka://{kafka_bootstrap}", topic=topic, identity_check_seconds=0.2) as it:
        await it.until("/readyz", 200)
        async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap) as producer:
            await producer.send_and_wait(topic, b"no event", key=b"\0\0", partition=0)
            await until(lambda: it.service.metrics.counts[0].dead == 1)
            async with administered(kafka_bootstrap, f"{topic}.dlq") as letters:
                await letters.delete()
            await producer.send_and_wait(topic, b"no event either", key=b"\0\0", partition=0)
            await until(lambda: it.service.metrics.counts[0].dead == 2)
        kept = await it.service._dead_letters.read()
        ready = await it.until("/readyz", 200)

    assert [1] == [letter.offset for letter in kept]
    assert ready["log"]["warnings"] == []
