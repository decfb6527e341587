"""A service cuts its log behind its snapshots by itself, and comes back without its state from what is left."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.faults.service import ServiceProcess
from tests.ops.serving.keeping.test_snapshots import append, digest, is_verified, listed, options
from tests.ops.verbs import metric, run, succeed, wait_for_offset, wait_until

BEGIN = "slotlog_log_begin_offset"


def of_partition(value: float) -> dict[str, float]:
    """A metric of the only partition."""
    return {'partition="0"': value}


def variables(store: Path, **more: str) -> dict[str, str]:
    """Of a service that takes snapshots and cuts the log."""
    said = {"URL": str(store), "EVENTS": "50", "KEEP": "1", "TRIM_SECONDS": "1", **more}
    return {f"SLOTLOG_SNAPSHOTS__{name}": value for name, value in said.items()} | {
        "SLOTLOG_IDENTITY_CHECK_SECONDS": "0.1"
    }


@pytest.mark.timeout(300)
def test_the_log_is_cut_by_itself(tmp_path: Path) -> None:
    """The log begins with the last record of the oldest kept snapshot; killed and without its state it comes back."""
    data, store = tmp_path / "data", tmp_path / "store"
    url = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    asyncio.run(append(url, 0, 100))
    with ServiceProcess(options(tmp_path), variables(store)) as service:
        service.wait_for("started")
        for end in (100, 200):
            wait_until(lambda end=end: metric(service, BEGIN) == of_partition(end - 1), f"the cut before {end}")  # type: ignore[misc]
            asyncio.run(append(url, end, 100))
        wait_until(lambda: is_verified(listed(store, data), 300), "the last snapshot")
        wait_until(lambda: metric(service, BEGIN) == of_partition(299), "the last cut")
        given = service.wait_for("log_gave_back")["bytes"]
        trimmed = metric(service, "slotlog_log_trimmed_total")
        failing = metric(service, "slotlog_log_trim_failing")
        asyncio.run(append(url, 300, 7))
        wait_for_offset(service, 307)
        service.kill()
    before = digest(data)
    shutil.rmtree(data)
    with ServiceProcess(options(tmp_path), variables(store)) as service:
        restored = service.wait_for("restored")
        service.wait_for("started")
        wait_for_offset(service, 307)
        assert 0 == service.terminate()

    assert (of_partition(299), of_partition(0)) == (trimmed, failing)
    assert (300, before) == (restored["next_offset"], digest(data))
    assert given > 0


@pytest.mark.timeout(300)
def test_a_topic_is_cut_by_itself(kafka_bootstrap: str, tmp_path: Path) -> None:
    """The brokers' log begins with the last record of the older of two kept snapshots; a lost state comes back."""
    data, store, topic = tmp_path / "data", tmp_path / "store", f"trim-{uuid4().hex}"
    url = f"kafka://{kafka_bootstrap}"
    words = ["--data", str(data), "--log", url, "--topic", topic, "--http", "127.0.0.1:0"]
    said = variables(store, KEEP="2")
    with ServiceProcess(words, said) as service:
        service.wait_for("started")
        for end in (100, 200, 300):
            asyncio.run(append(url, end - 100, 100, topic=topic))
            wait_until(lambda end=end: is_verified(listed(store, data, topic), end), f"the snapshot at {end}")  # type: ignore[misc]
        begin = asyncio.run(begin_at_the_brokers(kafka_bootstrap, topic))
        wait_until(lambda: asyncio.run(begin_at_the_brokers(kafka_bootstrap, topic)) == 199, f"the cut, from {begin}")
        asyncio.run(append(url, 300, 7, topic=topic))
        wait_for_offset(service, 307)
        cuts = [line for line in service.said() if line["event"] == "log_trimmed"]
        service.kill()
    offered = [each["next_offset"] for each in listed(store, data, topic)]
    before = digest(data)
    shutil.rmtree(data)
    with ServiceProcess(words, said) as service:
        restored = service.wait_for("restored")
        service.wait_for("started")
        wait_for_offset(service, 307)
        assert 0 == service.terminate(20)

    assert 199 == asyncio.run(begin_at_the_brokers(kafka_bootstrap, topic))
    assert [200, 300] == offered
    assert [99, 199] == [each["begin_offset"] for each in cuts]
    assert [100, 200] == [position_of(each["snapshot"]) for each in cuts]
    assert (300, before) == (restored["next_offset"], digest(data))


async def begin_at_the_brokers(bootstrap: str, topic: str) -> int:
    """Where they say that partition 0 begins."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        return int((await consumer.beginning_offsets([TopicPartition(topic, 0)]))[TopicPartition(topic, 0)])
    finally:
        await consumer.stop()


def position_of(snapshot: str) -> int:
    """The position in a snapshot's id, PARTITION/OFFSET-HASH."""
    return int(snapshot.partition("/")[2].partition("-")[0])


@pytest.mark.timeout(300)
def test_a_snapshot_of_another_log_is_said(tmp_path: Path) -> None:
    """Where the oldest snapshot is of another log nothing is cut; log line and metric say so until it is deleted."""
    data, store, other = tmp_path / "data", tmp_path / "store", tmp_path / "other"
    other.mkdir()
    for directory in (tmp_path, other):
        asyncio.run(append(f"sqlite:///{directory / 'log.sqlite3'}", 0, 60))
        with ServiceProcess(options(directory)) as service:
            service.wait_for("started")
            wait_for_offset(service, 60)
            assert 0 == service.terminate()
    succeed("snapshot", "--data", other / "data", "--to", store)
    (foreign,) = listed(store, data)
    with ServiceProcess(options(tmp_path), variables(store, EVENTS="0", SECONDS="0")) as service:
        said = service.wait_for("log_not_trimmed")
        failing = metric(service, "slotlog_log_trim_failing")
        begin = metric(service, BEGIN)
        succeed("snapshots", "delete", foreign["id"], "--from", store, "--data", data, "--topic", "t")
        wait_until(lambda: metric(service, "slotlog_log_trim_failing") == of_partition(0), "the metric to fall")
        assert 0 == service.terminate()

    assert "is not of this log" in said["error"]
    assert (of_partition(1), of_partition(0)) == (failing, begin)


def test_a_schedule_needs_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule without an address would take and cut nothing in silence: it is refused, and the message says more."""
    monkeypatch.setenv("SLOTLOG_SNAPSHOTS__TRIM_SECONDS", "60")
    result = run("serve", "--data", tmp_path / "data")

    assert 1 == result.exit_code
    assert "a schedule of snapshots needs a place for them: set SLOTLOG_SNAPSHOTS__URL" in result.stderr
