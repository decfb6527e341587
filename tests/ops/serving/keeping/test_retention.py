"""A topic of finite retention: accepted while snapshots keep ahead of it, refused otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import Mock
from uuid import uuid4

import pytest

from ops.config import load_settings
from ops.serving.keeping.retention import RetentionGuard
from ops.snapshots.report import SnapshotReport
from slotlog.clock import now_ms
from slotlog.errors import LogMismatchError
from slotlog.log import KafkaSettings, open_log
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.faults.service import ServiceProcess
from tests.faults.topics import administered
from tests.ops.serving.keeping.test_snapshots import append
from tests.ops.verbs import run, succeed, wait_for_offset
from tests.slotlog.log.reading import append as append_to

LOG_SETTINGS = {"message_timestamp_type": "LogAppendTime", "max_message_bytes": str(9 << 20)}
A_WEEK = "604800000"
DAY_MS = 86_400_000


async def set_retention(bootstrap: str, topic: str, retention_ms: str) -> None:
    """As an operator does."""
    async with administered(bootstrap, topic) as administration:
        await administration.configure(**LOG_SETTINGS, retention_ms=retention_ms)


async def cut(bootstrap: str, topic: str, offset: int) -> None:
    """What a retention does."""
    async with administered(bootstrap, topic) as administration:
        await administration.delete_records(offset)


async def test_it_has_to_be_accepted(kafka_bootstrap: str) -> None:
    """Without the setting a producer is refused, with it not; a limit of bytes is refused all the same."""
    url, topic = f"kafka://{kafka_bootstrap}", f"r-{uuid4().hex}"

    async def start(*, accepted: bool) -> int | None:
        log = open_log(url, topic=topic, partitions=1, kafka=KafkaSettings(finite_retention=accepted))
        try:
            await log.start()
            return log.retention_ms
        finally:
            await log.close()

    assert await start(accepted=True) is None
    await set_retention(kafka_bootstrap, topic, A_WEEK)
    with pytest.raises(LogMismatchError, match=rf"retention\.ms={A_WEEK}: events would age out"):
        await start(accepted=False)
    assert int(A_WEEK) == await start(accepted=True)
    async with administered(kafka_bootstrap, topic) as administration:
        await administration.configure(**LOG_SETTINGS, retention_ms=A_WEEK, retention_bytes="1000000")
    with pytest.raises(LogMismatchError, match=r"retention\.bytes=1000000: events would age out"):
        await start(accepted=True)


@pytest.mark.timeout(300)
def test_snapshots_have_to_keep_ahead(kafka_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service starts if it takes snapshots often enough and one reaches the log's begin; else it says what to do."""
    url, topic = f"kafka://{kafka_bootstrap}", f"r-{uuid4().hex}"
    data, store = tmp_path / "data", tmp_path / "store"
    for name, value in {"LOG": url, "TOPIC": topic, "KAFKA__FINITE_RETENTION": "true"}.items():
        monkeypatch.setenv(f"SLOTLOG_{name}", value)
    words = ("--data", str(data), "--http", "127.0.0.1:0")
    often = {"SLOTLOG_SNAPSHOTS__URL": str(store), "SLOTLOG_SNAPSHOTS__SECONDS": "60"}
    with ServiceProcess(words) as service:
        service.wait_for("started")
        asyncio.run(append(url, 0, 10, topic=topic))
        wait_for_offset(service, 10)
        assert 0 == service.terminate(20)
    asyncio.run(set_retention(kafka_bootstrap, topic, A_WEEK))
    never = run("serve", *words)
    asyncio.run(cut(kafka_bootstrap, topic, 5))
    with monkeypatch.context() as patched:
        for name, value in often.items():
            patched.setenv(name, value)
        uncovered = run("serve", *words)
        succeed("snapshot", "--data", data)
        with ServiceProcess(words) as service:
            service.wait_for("started")
            assert 0 == service.terminate(20)

    assert (1, 1) == (never.exit_code, uncovered.exit_code)
    assert f"has retention.ms={A_WEEK}, so a snapshot must be taken every 151200 s at least" in never.stderr
    assert "begins at offset 5, which no verified snapshot reaches" in uncovered.stderr


async def test_what_ages_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets past half of the retention that no snapshot has, nor a cut has taken; none without a retention."""
    log = EmbeddedLog(tmp_path / "log", topic="t", partitions=1)
    await log.start()
    try:
        await append_to(log, *[b"x"] * 10)
        owned, report = Mock(snapshot_offset=None), SnapshotReport()
        guard = RetentionGuard(load_settings(data=tmp_path), {0: owned}, log, {0: report})
        found = []
        for retention_ms, days, snapshot, begin in (
            (None, 4, None, 0),
            (int(A_WEEK), 3, None, 0),
            (int(A_WEEK), 4, None, 0),
            (int(A_WEEK), 4, 7, 0),
            (int(A_WEEK), 4, 7, 9),
            (int(A_WEEK), 4, 10, 9),
        ):
            await log.trim(0, begin)
            log.retention_ms, owned.snapshot_offset = retention_ms, snapshot
            now = now_ms() + days * DAY_MS
            monkeypatch.setattr("ops.serving.keeping.retention.now_ms", lambda now=now: now)
            await guard._count()
            found.append(report.aging)
    finally:
        await log.close()

    assert [0, 0, 10, 3, 1, 0] == found
