"""A created Kafka topic has the settings of a log; a replaced, truncated or wrong one is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.metadata import MetadataRequest

from slotlog.errors import LogMismatchError, LogUnavailableError, Mismatch, RecordTooLargeError
from slotlog.log import Entry, KafkaSettings
from slotlog.log.kafka.kafka_log import KafkaLog
from slotlog.log.kafka.topic import Breach, TopicRules
from tests.slotlog.fixtures import MakeKafkaLog
from tests.slotlog.lines import captured_lines
from tests.slotlog.log.reading import append, last_record, read

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
    with captured_lines() as lines:
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
        ("message.timestamp.type", "CreateTime", Mismatch.SETTINGS, "allow it by SLOTLOG_KAFKA__CREATE_TIME=true"),
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
    breach = Breach("min.insync.replicas", Mismatch.SETTINGS, "min.insync.replicas=1: set it to 2 at least")
    assert [breach] == rules.breaches(rules.settings(1), 3)


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


async def alter(admin: AIOKafkaAdminClient, topic: str, changed: dict[str, str]) -> None:
    """Change settings of the topic; those that are not named are as they should be."""
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {**GOOD, **changed})])


@pytest.mark.parametrize(
    ("setting", "value", "kind"),
    [
        ("cleanup.policy", "compact", Mismatch.COMPACTED),
        ("retention.ms", "604800000", Mismatch.RETENTION),
        ("message.timestamp.type", "CreateTime", Mismatch.SETTINGS),
    ],
)
async def test_a_setting_that_harms_the_log(
    make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str, setting: str, value: str, kind: Mismatch
) -> None:
    """What cannot be undone is refused by the next check of a log in use, in the words of a start."""
    log = make_log()
    await log.start()
    await alter(admin, topic, {setting: value, "max.message.bytes": "1048588"})

    async def check_for_ever() -> None:
        while True:  # the broker hears of it a moment later
            await log.check(0, 0, None)

    with pytest.raises(LogMismatchError) as raised:
        await check_for_ever()
    assert (kind, str(await refused(make_log()))) == (raised.value.kind, str(raised.value))


class Sayings:
    """Keeps what a logger is told to be wrong."""

    def __init__(self) -> None:
        self.said: list[list[str]] = []

    def warning(self, _event: str, *, wrong: list[str], **_: object) -> None:
        """Keep."""
        self.said.append(wrong)

    info = warning


async def test_settings_that_harm_later(
    make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What harms nothing that is in the log is a concern, said once, until it is mended; a start is refused for it."""
    sayings, log = Sayings(), make_log()
    await log.start()
    monkeypatch.setattr("slotlog.log.kafka.kafka_log.logger", sayings)

    async def until(concerns: tuple[str, ...]) -> None:
        while log.concerns != concerns:  # the broker hears of it a moment later
            await log.check(0, 0, None)

    wrong = (
        "unclean.leader.election.enable=true: acknowledged events could be lost; set it to false",
        "max.message.bytes=1048588: set it to 9437184 at least",
    )
    await log.check(0, 0, None)
    await alter(admin, topic, {"unclean.leader.election.enable": "true", "max.message.bytes": "1048588"})
    await until(wrong)
    await log.check(0, 0, None)
    error = str(await refused(make_log()))
    await alter(admin, topic, {})
    await until(())

    assert [list(wrong), []] == sayings.said
    assert error.endswith(f"cannot be used: {'; '.join(wrong)}")


async def test_a_batch_that_the_topic_does_not_take(
    make_log: MakeKafkaLog, admin: AIOKafkaAdminClient, topic: str
) -> None:
    """Where a topic's max.message.bytes was lowered, what is too large for it is refused with the setting's name."""
    log = make_log()
    await log.start()
    await alter(admin, topic, {"max.message.bytes": "1000"})

    said = r"the topic takes no batch of 2\.\d KiB: set its max\.message\.bytes to 9437184 at least"

    async def until_refused() -> None:
        while True:  # the broker hears of it a moment later
            await append(log, b"a" * 2000)

    with pytest.raises(RecordTooLargeError, match=said):
        await until_refused()


# ------------------------------------------------------------------ brokers that know less than others


class Behind:
    """Lets answers to questions about all topics lack one, as those of a broker that has not heard of it yet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, topic: str, lacks: Callable[[int | None, int], bool]) -> None:
        self.asked = 0
        send = AIOKafkaAdminClient._send_request

        async def sent(client: AIOKafkaAdminClient, request: Any, node_id: int | None = None) -> Any:
            answer = await send(client, request, node_id)
            if isinstance(request, MetadataRequest):
                self.asked += 1
                if lacks(node_id, self.asked):
                    answer.topics = [each for each in answer.topics if each[1] != topic]
            return answer

        monkeypatch.setattr(AIOKafkaAdminClient, "_send_request", sent)


async def test_another_broker_has_not_heard_of_a_new_topic(
    make_log: MakeKafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever of several brokers is asked: a topic that one of them knows is there, also right after its creation."""
    Behind(monkeypatch, topic, lambda node, _: node is None)
    log = make_log()
    await log.start()
    await log.check(0, 0, None)

    await append(log, b"a")
    assert await log.end_offset(0) == 1


async def test_a_new_topic_is_waited_for(make_log: MakeKafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log has started once every broker knows of the topic that it has created."""
    behind = Behind(monkeypatch, topic, lambda _, asked: asked < 10)
    await make_log().start()

    assert behind.asked >= 10


async def test_a_topic_that_no_broker_knows(
    make_log: MakeKafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is created and does not appear in time is a log that cannot be reached."""
    monkeypatch.setattr("slotlog.log.kafka.topic._APPEARS_WITHIN_SECONDS", 0.5)
    Behind(monkeypatch, topic, lambda *_: True)

    with pytest.raises(LogUnavailableError, match="was created, but broker 1 does not know of it yet"):
        await make_log().start()


async def test_size(make_log: MakeKafkaLog) -> None:
    """What the topic takes on the broker's disk grows with what is appended, over all partitions."""
    log = make_log(partitions=2)
    await log.start()
    unknown = log.stored_bytes
    await log.append([Entry(partition, None, bytes(10_000)) for partition in range(2)])
    await log.measure()
    first = log.stored_bytes
    await log.append([Entry(partition, None, bytes(10_000)) for partition in range(2)])
    await log.measure()

    assert unknown is None
    assert first is not None
    assert log.stored_bytes is not None
    assert (20_000 < first < 30_000, 40_000 < log.stored_bytes < 60_000) == (True, True)
