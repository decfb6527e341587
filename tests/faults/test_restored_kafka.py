"""Workers that share Kafka and an S3 store alone come back without their disks, also where a log was cut."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from ops.state.opening.directories import partition_path
from slotlog.events import encode
from slotlog.log import Entry
from slotlog.shared.slots import partition_of, slot
from tests.faults.logs import opened_log
from tests.faults.service import ServiceProcess
from tests.faults.topics import administered
from tests.faults.workers import new_topic
from tests.ops.verbs import succeed, wait_for_offset
from tests.real.object_store import ObjectStore

PARTITIONS = 2
EVENTS = 200
TAIL = 50
KEYS = [next(b"%d" % n for n in range(99) if partition_of(slot(b"%d" % n), PARTITIONS) == p) for p in range(PARTITIONS)]


async def append(url: str, topic: str, count: int) -> None:
    """So many increments of one key in each partition."""
    async with opened_log(url, topic, PARTITIONS) as log:
        for partition, key in enumerate(KEYS):
            entry = Entry(partition, slot(key).to_bytes(2, "big"), encode("INCR", [key]))
            await log.append([entry] * count)


async def cut(bootstrap: str, topic: str, offset: int) -> None:
    """Forget the records of partition 0 before an offset."""
    async with administered(bootstrap, topic) as administration:
        await administration.delete_records(offset)


@pytest.mark.timeout(240)
def test_a_worker_without_its_disk_comes_back(
    kafka_bootstrap: str, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are killed with their disks, and one log begins at its snapshot; each event is applied once in the end."""
    url, topic = f"kafka://{kafka_bootstrap}", new_topic()
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__URL", object_store.url)

    def worker(partition: int) -> ServiceProcess:
        words = ["--data", str(tmp_path / f"data-{partition}"), "--log", url, "--topic", topic]
        return ServiceProcess([*words, "--partitions", "2", "--own", str(partition), "--http", "127.0.0.1:0"])

    with worker(0) as first, worker(1) as second:
        for service in (first, second):
            service.wait_for("started")
        asyncio.run(append(url, topic, EVENTS))
        positions = []
        for partition, service in enumerate((first, second)):
            wait_for_offset(service, EVENTS, partition)
            (taken,) = json.loads(succeed("snapshot", "--data", tmp_path / f"data-{partition}", "--json"))["snapshots"]
            positions.append(taken["next_offset"])
        asyncio.run(append(url, topic, TAIL))
        for partition, service in enumerate((first, second)):
            wait_for_offset(service, EVENTS + TAIL, partition)
            service.kill()
    asyncio.run(cut(kafka_bootstrap, topic, positions[0]))
    for partition in range(PARTITIONS):
        shutil.rmtree(tmp_path / f"data-{partition}")
    values = []
    for partition, key in enumerate(KEYS):
        with worker(partition) as service:
            restored = service.wait_for("restored")
            service.wait_for("started")
            wait_for_offset(service, EVENTS + TAIL, partition)
            values.append(succeed("query", "--data", tmp_path / f"data-{partition}", "GET", key.decode()))
            assert EVENTS == restored["next_offset"]
            assert 0 == service.terminate()
            assert partition_path(tmp_path / f"data-{partition}", partition).is_dir()

    assert [EVENTS] * PARTITIONS == positions
    assert [f'"{EVENTS + TAIL}"\n'] * PARTITIONS == values
