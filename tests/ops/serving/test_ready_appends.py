"""A service whose appends fail is not ready, says why, tries again by itself, and is ready again."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NotEnoughReplicasError
from aiokafka.protocol.produce import ProduceRequest

from slotlog.errors import AppendUncertainError, LogUnavailableError, RecordTooLargeError
from slotlog.log import Entry, RecordPosition
from slotlog.log.appends import Appends
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.ops.metrics.test_sources import scraped
from tests.ops.serving.test_health import Served, served
from tests.ops.state.opening.test_set_aside import asked
from tests.real.oracle import ErrorReply, SimpleString

FAILING = 'slotlog_log_append_failing{partition="0"}'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries again in a moment."""
    monkeypatch.setattr("ingest.applying.append_probe._PROBE_SECONDS", 0.1)
    monkeypatch.setattr("ingest.applying.watch._LAG_SECONDS", 0.05)


def fail(*_: object) -> None:
    """What a disk does to SQLite."""
    raise sqlite3.OperationalError("disk I/O error")


async def refuse(*_: object) -> None:
    """The same, as the log's own thread tells it."""
    raise LogUnavailableError("disk I/O error")


@pytest.mark.parametrize("resp", ["127.0.0.1:0", ""])
async def test_ready_knows_of_failing_appends(resp: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not ready from the first append that failed to the next that is durable, for which it sees by itself."""
    async with served(tmp_path, resp=resp) as it:
        await it.until("/readyz", 200)
        with monkeypatch.context() as patch:
            patch.setattr("slotlog.log.embedded.embedded_log.append_in", fail)
            patch.setattr(EmbeddedLog, "_append", refuse)
            await write(it)
            refused = await it.until("/readyz", 503)
            metrics = [await scraped(it.service.metrics)]
        await it.until("/readyz", 200)
        metrics.append(await scraped(it.service.metrics))

    (partition,) = refused["partitions"]
    assert ("running", False) == (partition["condition"], partition["ready"])
    assert partition["reason"].startswith("the last append failed, so that nothing can be written: ")
    assert "disk I/O error" in partition["reason"]
    assert [1, 0] == [each[FAILING] for each in metrics]
    assert (True, True) == (refused["log"]["ready"], refused["disk"]["ready"])


async def write(it: Served) -> None:
    """A write that fails, by a client where there is one."""
    if it.service.resp is not None:
        (reply,) = await asked(it, (b"SET", b"k", b"v"))
        assert isinstance(reply, ErrorReply)
        return
    with pytest.raises(LogUnavailableError):
        await it.service._log.append([Entry(0, None, b"x")])


async def test_ready_knows_of_kafka_that_acknowledges_nothing(
    kafka_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few replicas are in sync: reads go on, the service is not ready before an append times out."""
    away = False
    send = AIOKafkaClient.send

    async def sent(client: AIOKafkaClient, node: int, request: Any, **options: Any) -> Any:
        if away and isinstance(request, ProduceRequest):
            raise NotEnoughReplicasError
        return await send(client, node, request, **options)

    monkeypatch.setattr(AIOKafkaClient, "send", sent)
    async with served(tmp_path, log=f"kafka://{kafka_bootstrap}", topic=f"t-{uuid4().hex}") as it:
        await it.until("/readyz", 200)
        assert [SimpleString(b"OK")] == await asked(it, (b"SET", b"k", b"v"))
        monkeypatch.setattr("slotlog.log.appends.STUCK_SECONDS", 0.2)
        away = True
        writing = asyncio.create_task(asked(it, (b"SET", b"other", b"v")))
        refused = await it.until("/readyz", 503)
        read = await asked(it, (b"GET", b"k"))
        monkeypatch.undo()
        await it.until("/readyz", 200)
        written = await writing

    assert "an append has not been acknowledged for " in refused["partitions"][0]["reason"]
    assert ([b"v"], [SimpleString(b"OK")]) == (read, written)


# ---------------------------------------------------------------------- what counts


ENTRIES = [Entry(0, None, b""), Entry(1, None, b"")]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LogUnavailableError("away"), "away"),
        (AppendUncertainError("who knows"), "who knows"),
        (RecordTooLargeError("too large"), ""),
        (ValueError("no such partition"), ""),
    ],
    ids=repr,
)
def test_what_counts_as_failing(error: Exception, told: str) -> None:
    """A log that refuses is failing, in each partition that was meant; a wrong entry is no failure of it."""
    appends = Appends()
    appends.lost(error, ENTRIES)
    before = [appends.failure_of(partition) for partition in range(3)]
    appends.done([RecordPosition(1, 0, 0)], 0.0)

    assert [told, told, ""] == before
    assert [told, ""] == [appends.failure_of(partition) for partition in range(2)]


async def test_an_append_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not acknowledged for long counts as failing in its partitions, whatever was sent after it."""
    now = 100.0
    monkeypatch.setattr("slotlog.log.appends.monotonic", lambda: now)
    appends = Appends()
    acknowledged: list[asyncio.Future[Any]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
    running = [
        asyncio.ensure_future(appends.measured(future, [Entry(at, None, b"")]))
        for at, future in enumerate(acknowledged)
    ]
    await asyncio.sleep(0)
    at_once = [appends.failure_of(partition) for partition in range(3)]
    now = 111.0
    later = [appends.failure_of(partition) for partition in range(3)]
    for at, future in enumerate(acknowledged):
        future.set_result([RecordPosition(at, 0, 0)])
    await asyncio.gather(*running)

    told = "an append has not been acknowledged for 11 s"
    assert ["", "", ""] == at_once
    assert [told, told, ""] == later
    assert ["", "", ""] == [appends.failure_of(partition) for partition in range(3)]
