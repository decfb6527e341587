"""A Kafka topic is created for a log of record; one that was exchanged, cut or set up otherwise is refused."""

from __future__ import annotations

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from structlog.testing import capture_logs

from ingest.errors import LogMismatchError, Mismatch
from ingest.log import KafkaSettings
from ingest.log.kafka import KafkaLog
from ingest.log.kafka_topic import TopicRules
from tests.ingest.conftest import MakeKafkaLog
from tests.ingest.reading import append, last_record, read

GOOD = TopicRules("any", 1).settings(1)


async def create(admin: AIOKafkaAdminClient, topic: str, settings: dict[str, str], partitions: int = 1) -> None:
    """Create a topic as somebody else would."""
    answer = await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
    assert [0] == [error[1] for error in answer.topic_errors]


async def delete(admin: AIOKafkaAdminClient, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    await admin.delete_topics([topic])
    while topic in await admin.list_topics():
        pass


async def refused(log: KafkaLog) -> LogMismatchError:
    """What `start` raises."""
    with pytest.raises(LogMismatchError) as raised:
        await log.start()
    return raised.value


# ------------------------------------------------------------------ the topic


async def test_created_topic(make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str) -> None:
    """A topic is created with the partitions and settings of a log of record, said to be new, and passes its check."""
    log = make_log(partitions=3)
    with capture_logs() as lines:
        await log.start()
    await log.close()

    assert [(topic, 3)] == [(each["topic"], each["partitions"]) for each in lines if each["event"] == "topic_created"]

    described = {each["topic"]: each for each in await admin.describe_topics(None)}[topic]
    assert len(described["partitions"]) == 3
    await make_log(partitions=3).start()


@pytest.mark.parametrize(
    ("setting", "value", "kind", "said"),
    [
        ("cleanup.policy", "compact", Mismatch.COMPACTED, "it is compacted, so commands are lost"),
        ("cleanup.policy", "compact,delete", Mismatch.COMPACTED, "it is compacted, so commands are lost"),
        ("retention.ms", "604800000", Mismatch.RETENTION, "events would age out of the log"),
        ("retention.bytes", "1000000", Mismatch.RETENTION, "events would age out of the log"),
        ("message.timestamp.type", "CreateTime", Mismatch.SETTINGS, "a wrong clock could expire keys"),
        ("unclean.leader.election.enable", "true", Mismatch.SETTINGS, "acknowledged events could be lost"),
        ("max.message.bytes", "1048588", Mismatch.SETTINGS, "set it to 9437184 at least"),
    ],
)
async def test_wrong_setting(
    make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str, setting: str, value: str, kind: Mismatch, said: str
) -> None:
    """A topic with a setting that loses or refuses events is refused, with the setting and what to do."""
    await create(admin, topic, {**GOOD, setting: value})

    error = await refused(make_log())

    assert error.kind is kind
    assert f"the topic {topic} cannot be used: {setting}={value}: " in str(error)
    assert said in str(error)


def test_replicas() -> None:
    """With two replicas or more every append must be on two of them; with one that cannot be asked for."""
    rules = TopicRules("t", 1)

    assert ["1", "2", "2"] == [rules.settings(replicas)["min.insync.replicas"] for replicas in (1, 2, 3)]
    assert [] == rules.breaches(rules.settings(1), 1)
    assert [(Mismatch.SETTINGS, "min.insync.replicas=1: set it to 2 at least")] == rules.breaches(rules.settings(1), 3)


async def test_create_time_allowed(make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str) -> None:
    """CreateTime is accepted when it is asked for; so is LogAppendTime then."""
    await create(admin, topic, {**GOOD, "message.timestamp.type": "CreateTime"})
    await make_log(create_time=True).start()
    other = f"{topic}-other"
    await create(admin, other, GOOD)
    log = KafkaLog(make_log().servers, topic=other, partitions=1, settings=KafkaSettings(create_time=True))
    await log.start()
    await log.close()


# ------------------------------------------------------------------ identity


async def test_recreated_with_fewer_records(make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str) -> None:
    """A topic that was deleted and made again, with fewer records than were applied, is noticed."""
    log = make_log()
    await log.start()
    await append(log, b"a", b"b", b"c")
    fingerprint = log.fingerprint(0, await last_record(log))
    await log.close()
    await delete(admin, topic)
    again = make_log()
    await again.start()
    await append(again, b"a")

    with pytest.raises(
        LogMismatchError, match="ends at offset 1, but the state has applied everything before 3"
    ) as raised:
        await again.check(0, 3, fingerprint)
    assert raised.value.kind is Mismatch.TRUNCATED


async def test_recreated_with_more_records(make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str) -> None:
    """It is noticed as well when the new topic is longer and begins with the same events: their times differ."""
    log = make_log()
    await log.start()
    await append(log, b"a", b"b")
    fingerprint = log.fingerprint(0, await last_record(log))
    await log.close()
    await delete(admin, topic)
    again = make_log()
    await again.start()
    await append(again, b"a", b"b", b"c")

    with pytest.raises(LogMismatchError, match="another record at offset 1") as raised:
        await again.check(0, 2, fingerprint)
    assert raised.value.kind is Mismatch.RECREATED


async def test_deleted(make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str) -> None:
    """A topic that is deleted while it is in use is noticed by the next check."""
    log = make_log()
    await log.start()
    await delete(admin, topic)

    with pytest.raises(LogMismatchError, match=f"there is no topic {topic}") as raised:
        await log.check(0, 0, None)
    assert raised.value.kind is Mismatch.MISSING


async def test_begin_moved(make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str) -> None:
    """Records deleted up to the state's position do not matter; beyond it, events are lost, for checks and readers."""
    log = make_log()
    await log.start()
    await append(log, b"a", b"b", b"c", b"d")
    fingerprint = log.fingerprint(0, (await read(log.reader({0: 1}), 1, records_max=1))[0][0])
    await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=2)})
    await log.check(0, 2, fingerprint)
    await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=3)})

    with pytest.raises(LogMismatchError, match=r"begins at offset 3.*1 offsets are lost") as raised:
        await log.check(0, 2, fingerprint)
    assert raised.value.kind is Mismatch.EVENTS_LOST
    with pytest.raises(LogMismatchError, match="begins at offset 3"):
        await read(log.reader({0: 2}), 1)


async def test_partitions_added(make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str) -> None:
    """Partitions that are added while the log is in use are noticed by the next check."""
    log = make_log(partitions=2)
    await log.start()
    await admin.create_partitions({topic: NewPartitions(4)})
    while len({each["topic"]: each for each in await admin.describe_topics(None)}[topic]["partitions"]) != 4:
        pass

    with pytest.raises(LogMismatchError, match="has 4 partitions, not 2 as expected") as raised:
        await log.check(0, 0, None)
    assert raised.value.kind is Mismatch.PARTITIONS_CHANGED


async def test_compacted_later(make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str) -> None:
    """A topic that is set to compaction while it is in use is noticed by the next check."""
    log = make_log()
    await log.start()
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {**GOOD, "cleanup.policy": "compact"})])

    async def check_for_ever() -> None:
        while True:  # the broker hears of it a moment later
            await log.check(0, 0, None)

    with pytest.raises(LogMismatchError) as raised:
        await check_for_ever()
    assert raised.value.kind is Mismatch.COMPACTED
