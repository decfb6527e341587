"""A state refuses a log from which it was not built, and names each kind of difference.

At the start of a service and while it runs; nothing of a wrong log is ever applied.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from ops.config import KafkaTable, Settings, load_settings
from ops.serving.service import Service
from ops.state.opening.directories import digest_partition
from slotlog.events import encode
from slotlog.log import Entry, Log, open_log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.faults.topics import Topic, administered
from tests.ops.verbs import run, until

RECORDS = 10
APPLIED = 5
TOPIC_SETTINGS = {"retention_ms": "-1", "message_timestamp_type": "LogAppendTime", "max_message_bytes": str(9 << 20)}


def opened(settings: Settings) -> Log:
    """The log of the settings, not started."""
    return open_log(settings.log_url, topic=settings.topic, partitions=settings.partitions)


async def append(settings: Settings, count: int, key: bytes = b"n") -> None:
    """Append as many INCR; makes the log if it is not there."""
    log = opened(settings)
    await log.start()
    await log.append([Entry(0, b"\0\0", encode("INCR", [key]))] * count)
    await log.close()


async def apply(settings: Settings) -> None:
    """Let a service apply the first records."""
    service = Service(settings)
    running = asyncio.create_task(service.run())
    await until(lambda: _applied(service))
    service.stop()
    await running


def _applied(service: Service) -> bool:
    worker = service.consumer.partitions[0].worker
    return worker.is_open and worker.machine.position.next_offset == APPLIED


def refusal(settings: Settings) -> str:
    """What a service says last that must not start on these settings."""
    options = ["--data", settings.data, "--log", settings.log_url, "--topic", settings.topic, "--http", ""]
    result = run("serve", *options)
    assert 1 == result.exit_code, result.output
    assert APPLIED == digest_partition(settings, 0)[1].next_offset
    return result.stderr.splitlines()[-1].removeprefix("slotlog: ")


# ---------------------------------------------------------------------- Kafka

KafkaFault = Callable[[Topic, Settings], Awaitable[None]]


async def _deleted(topic: Topic, _: Settings) -> None:
    await topic.delete()


async def _made_again(topic: Topic, settings: Settings) -> None:
    await topic.delete()
    await append(settings, RECORDS, b"other")


async def _made_again_shorter(topic: Topic, settings: Settings) -> None:
    await topic.delete()
    await append(settings, APPLIED - 1)


async def _truncated(topic: Topic, settings: Settings) -> None:
    await append(settings, RECORDS - APPLIED)
    await topic.delete_records(APPLIED + 2)


async def _compacted(topic: Topic, _: Settings) -> None:
    await topic.configure(cleanup_policy="compact", **TOPIC_SETTINGS)


async def _retained_for_a_week(topic: Topic, _: Settings) -> None:
    await topic.configure(**{**TOPIC_SETTINGS, "retention_ms": "604800000"})


async def _grown(topic: Topic, _: Settings) -> None:
    await topic.add_partition()


KAFKA_FAULTS: dict[str, tuple[KafkaFault, str]] = {
    "deleted": (_deleted, "there is no topic {topic}"),
    "made again": (
        _made_again,
        (
            "partition 0 of the topic {topic} holds another record at offset 4, where the state applied a record: "
            "it was recreated, or truncated and written again."
        ),
    ),
    "made again, shorter": (
        _made_again_shorter,
        (
            "partition 0 of the topic {topic} ends at offset 4, but the state has applied everything before 5: it was "
            "recreated, truncated or restored from an older copy."
        ),
    ),
    "truncated": (
        _truncated,
        (
            "partition 0 of the topic {topic} begins at offset 7, and the state has only applied everything before 5: "
            "2 offsets are lost to it."
        ),
    ),
    "compacted": (_compacted, "the topic {topic} cannot be used: cleanup.policy=compact: it is compacted"),
    "finite retention": (
        _retained_for_a_week,
        "the topic {topic} cannot be used: retention.ms=604800000: ",
    ),
    "partition added": (_grown, "the topic {topic} has 2 partitions, not 1 as expected: keys would lie elsewhere."),
}


@pytest.fixture
def on_kafka(kafka_bootstrap: str, tmp_path: Path) -> Settings:
    """A topic of its own."""
    topic = f"identity-{uuid4().hex}"
    return load_settings(
        data=tmp_path / "data",
        log=f"kafka://{kafka_bootstrap}",
        topic=topic,
        http="",
        identity_check_seconds=0.2,
        kafka=KafkaTable(request_timeout_ms=5000),
    )


@pytest.mark.parametrize("fault", KAFKA_FAULTS)
def test_kafka_is_checked_at_start(fault: str, on_kafka: Settings, kafka_bootstrap: str) -> None:
    """Each thing that can happen to a topic between two runs ends the next start with its own message."""
    happens, said = KAFKA_FAULTS[fault]

    async def prepare() -> None:
        await append(on_kafka, APPLIED)
        await apply(on_kafka)
        async with administered(kafka_bootstrap, on_kafka.topic) as topic:
            await happens(topic, on_kafka)

    asyncio.run(prepare())

    assert refusal(on_kafka).startswith(said.format(topic=on_kafka.topic))


@pytest.mark.parametrize("fault", ["deleted", "made again, shorter", "compacted", "partition added"])
async def test_kafka_is_checked_while_running(fault: str, on_kafka: Settings, kafka_bootstrap: str) -> None:
    """What happens to a topic under a running service stops the partition, with the same message as at a start."""
    happens, said = KAFKA_FAULTS[fault]
    await append(on_kafka, APPLIED)
    await apply(on_kafka)
    async with administered(kafka_bootstrap, on_kafka.topic) as topic:
        reason = await _stopped_by(on_kafka, lambda: happens(topic, on_kafka))

    assert reason.startswith(said.format(topic=on_kafka.topic))
    assert APPLIED == digest_partition(on_kafka, 0)[1].next_offset


# ---------------------------------------------------------------------- embedded

EmbeddedFault = Callable[[Path, Settings], None]


async def _trim(settings: Settings, before_offset: int) -> None:
    log = opened(settings)
    assert isinstance(log, EmbeddedLog)
    await log.start()
    await log.trim(0, before_offset)
    await log.close()


def _trimmed_to_nothing(_: Path, settings: Settings) -> None:
    asyncio.run(append(settings, RECORDS - APPLIED))
    asyncio.run(_trim(settings, RECORDS))


def _trimmed(_: Path, settings: Settings) -> None:
    asyncio.run(append(settings, RECORDS - APPLIED))
    asyncio.run(_trim(settings, APPLIED + 2))


def _removed(file: Path, _: Settings) -> None:
    file.unlink()


def _without_mark(file: Path) -> None:
    """Take away what says how far the log was, as whoever exchanges it on purpose: the state notices by itself."""
    file.with_name(f"{file.name}-head").unlink(missing_ok=True)


def _replaced(file: Path, settings: Settings) -> None:
    file.unlink()
    _without_mark(file)
    asyncio.run(append(settings, RECORDS))


def _replaced_by_an_empty_one(file: Path, settings: Settings) -> None:
    file.unlink()
    _without_mark(file)
    asyncio.run(append(settings, 0))


def _restored_from_before(file: Path, _: Settings) -> None:
    shutil.copy(file.with_name("before"), file)
    _without_mark(file)


def _not_a_log(file: Path, _: Settings) -> None:
    file.write_bytes(b"a thesis, by mistake " * 100)


LOCAL_FAULTS: dict[str, tuple[EmbeddedFault, str]] = {
    "trimmed to nothing": (
        _trimmed_to_nothing,
        (
            "partition 0 of the log {file} is trimmed to nothing, and the state has only applied everything before 5: "
            "5 offsets are lost to it."
        ),
    ),
    "trimmed": (
        _trimmed,
        (
            "partition 0 of the log {file} begins at offset 7, and the state has only applied everything before 5: "
            "2 offsets are lost to it."
        ),
    ),
    "removed": (_removed, "there is no log at {file}"),
    "replaced": (_replaced, "{file} is another log than the one that the state was built from: it was recreated."),
    "replaced by an empty one": (
        _replaced_by_an_empty_one,
        "{file} is another log than the one that the state was built from: it was recreated.",
    ),
    "restored from before": (
        _restored_from_before,
        (
            "partition 0 of the log {file} ends at offset 2, but the state has applied everything before 5: it was "
            "recreated, truncated or restored from an older copy."
        ),
    ),
    "not a log": (_not_a_log, "{file} is not a log of slotlog, nor any SQLite file"),
}


@pytest.fixture
def embedded(tmp_path: Path) -> Settings:
    """A log in a file, apart from the state."""
    file = tmp_path / "log.sqlite3"
    return load_settings(data=tmp_path / "data", log=f"sqlite:///{file}", http="", identity_check_seconds=0.2)


@pytest.mark.parametrize("fault", LOCAL_FAULTS)
def test_embedded_log_is_checked_at_start(fault: str, embedded: Settings, tmp_path: Path) -> None:
    """Each thing that can happen to the file between two runs ends the next start with its own message."""
    happens, said = LOCAL_FAULTS[fault]
    file = tmp_path / "log.sqlite3"
    asyncio.run(append(embedded, 2))
    shutil.copy(file, file.with_name("before"))
    asyncio.run(append(embedded, APPLIED - 2))
    asyncio.run(apply(embedded))
    happens(file, embedded)

    assert refusal(embedded).startswith(said.format(file=file))


@pytest.mark.parametrize("fault", ["removed", "replaced", "replaced by an empty one"])
async def test_embedded_log_is_checked_while_running(fault: str, embedded: Settings, tmp_path: Path) -> None:
    """A file that is exchanged under a running service stops the partition, with the same message as at a start."""
    happens, said = LOCAL_FAULTS[fault]
    file = tmp_path / "log.sqlite3"
    await append(embedded, APPLIED)
    await apply(embedded)
    reason = await _stopped_by(embedded, lambda: asyncio.to_thread(happens, file, embedded))

    assert reason.startswith(said.format(file=file))
    assert APPLIED == digest_partition(embedded, 0)[1].next_offset


async def _stopped_by(settings: Settings, happens: Callable[[], Awaitable[None]]) -> str:
    """Why a service's partition stops when something happens to its log."""
    service = Service(settings)
    running = asyncio.create_task(service.run())
    await until(lambda: service.health()[0].ready)
    await happens()
    await until(lambda: service.health()[0].condition == "stopped")
    reason = service.health()[0].reason
    service.stop()
    await running
    return reason
