"""`/livez` and `/readyz` of a running service: what each of them is 503 for, and what it says then."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from aiohttp import ClientSession
from aiokafka import AIOKafkaProducer

from ingest.applying.consumer import Consumer
from ingest.applying.watch import Watch
from ingest.reporting.observer import Condition, NullObserver
from ops.config import load_settings
from ops.serving import health as health_module
from ops.serving.health import Health, unwritable
from ops.serving.service import Service
from resp.reports.info import info_text
from slotlog.errors import LogUnavailableError
from slotlog.events import encode
from slotlog.log import Entry, Log, LogRecord
from slotlog.log.appends import Appends
from slotlog.log.embedded.embedded_log import EmbeddedLog
from slotlog.log.embedded.reader import EmbeddedReader
from tests.ingest.applying.test_consumer import until
from tests.ops.metrics.test_sources import scraped
from tests.real.oracle import Connection, ErrorReply, SimpleString

Fetched = dict[int, list[LogRecord]]


class Served:
    """A service in this process, and its HTTP face."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def _get(self, path: str) -> tuple[int, Any]:
        assert self.service.http is not None
        url = f"http://127.0.0.1:{self.service.http.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and document."""
        return await asyncio.to_thread(self._get, path)

    async def until(self, path: str, status: int) -> Any:
        """The document of the first answer with that status."""
        while (answer := await self.get(path))[0] != status:  # noqa: ASYNC110 - another process would ask like this
            await asyncio.sleep(0.02)
        return answer[1]


@asynccontextmanager
async def served(tmp_path: Path, **settings: Any) -> AsyncIterator[Served]:
    """A service with the embedded log that listens."""
    addresses = {"http": "127.0.0.1:0", "resp": "127.0.0.1:0"}
    service = Service(load_settings(data=tmp_path / "data", **{**addresses, **settings}))
    running = asyncio.create_task(service.run())
    await until(lambda: running.done() or (service.http is not None and service.http.port > 0))
    try:
        yield Served(service)
    finally:
        service.stop()
        await running


def gated(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Let every fetch from the embedded log await `act` before it looks."""
    fetch = EmbeddedReader.fetch

    async def wait_first(self: EmbeddedReader, wait_ms: int, records_max: int) -> Fetched:
        await act()
        return await fetch(self, wait_ms, records_max)

    monkeypatch.setattr(EmbeddedReader, "fetch", wait_first)


async def test_live_says_that_the_loop_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that never comes back from something is 503 with the reason, and 200 again if it does."""
    gate = asyncio.Event()
    gate.set()
    gated(monkeypatch, gate.wait)
    monkeypatch.setattr(health_module, "_STUCK_SECONDS", 1.0)
    async with served(tmp_path, kafka={"request_timeout_ms": 1}) as it:
        at_first = await it.until("/livez", 200)
        gate.clear()
        stuck = await it.until("/livez", 503)
        gate.set()
        again = await it.until("/livez", 200)

    assert at_first == {"live": True}
    assert stuck["live"] is False
    assert stuck["reason"].startswith("the loop that applies the log has not turned for ")
    assert again == {"live": True}


async def test_a_log_that_is_away_is_no_reason_to_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While every fetch fails the service is not ready and says why; its loop gets on, so it is live."""

    async def refuse() -> None:
        raise LogUnavailableError("the broker is away")

    gated(monkeypatch, refuse)
    async with served(tmp_path) as it:
        owned = it.service.consumer.partitions[0]
        await until(lambda: str(owned.condition) == "waiting")
        alive_at = it.service.consumer.alive_at
        _, away = await it.get("/readyz")
        await until(lambda: it.service.consumer.alive_at > alive_at)
        live, _ = await it.get("/livez")

    assert (away["ready"], live) == (False, 200)
    assert away["partitions"][0]["reason"] == "the broker is away"


async def test_ready_says_that_the_log_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that gives no answer makes the service not ready, by its name, though all is applied that came.

    In the metrics the lag is not known then, and grows.
    """
    monkeypatch.setattr(health_module, "_UNHEARD_SECONDS", 1.0)
    monkeypatch.setattr("ops.metrics.counts.UNHEARD_SECONDS", 1.0)
    async with served(tmp_path, identity_check_seconds=0.05) as it:
        await it.until("/readyz", 200)
        with monkeypatch.context() as patch:

            async def refuse(_self: EmbeddedLog, _partition: int) -> int:
                raise LogUnavailableError("away")

            patch.setattr(EmbeddedLog, "end_offset", refuse)
            unheard = await it.until("/readyz", 503)
            away = await scraped(it.service.metrics)
        await it.until("/readyz", 200)
        back = await scraped(it.service.metrics)

    known, seconds, events = (f'slotlog_lag_{name}{{partition="0"}}' for name in ("known", "seconds", "events"))
    assert [(0, 0), (1, 0)] == [(values[known], values[events]) for values in (away, back)]
    assert away[seconds] > 1 > back[seconds]
    assert unheard["log"]["ready"] is False
    assert unheard["log"]["reason"].startswith(f"sqlite:///{tmp_path}/data/log.sqlite3 has not answered for ")
    assert [unheard["disk"]["ready"], unheard["partitions"][0]["ready"]] == [True, True]


async def test_a_lag_that_was_never_known_is_no_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the log has said where it ends: null on `/readyz` and `/status`, -1 in INFO; then the number."""
    with monkeypatch.context() as patch:

        async def refuse(_self: Watch) -> None:
            raise LogUnavailableError("away")

        patch.setattr(Watch, "_report_lag", refuse)
        async with served(tmp_path) as it:
            await until(lambda: str(it.service.consumer.partitions[0].condition) == "running")
            (_, unready), (_, status) = await it.get("/readyz"), await it.get("/status")
            assert it.service.resp is not None
            said = info_text(it.service.resp, [b"slotlog"])
    async with served(tmp_path) as it:
        known = await it.until("/readyz", 200)

    assert [None, None, 0] == [each["partitions"][0]["lag_events"] for each in (unready, status, known)]
    assert "how far it is behind is not known yet" == unready["partitions"][0]["reason"]
    assert ",lag_events=-1\r\n" in said


async def test_ready_says_that_a_transaction_holds_up_the_log(
    tmp_path: Path, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody's transaction is open nothing behind it is applied: said of the partition until it is over.

    A metric tells how long; the lag is what can be read and is not applied.
    """
    monkeypatch.setattr(health_module, "_HELD_UP_SECONDS", 1.0)
    topic = f"held-up-{uuid4().hex}"
    async with served(tmp_path, log=f"kafka://{kafka_bootstrap}", topic=topic, identity_check_seconds=0.2) as it:
        await it.until("/readyz", 200)
        async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=topic) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, encode("INCR", ["n"]), key=b"\0\0", partition=0)
            held_up = await it.until("/readyz", 503)
            during = await scraped(it.service.metrics)
            await producer.commit_transaction()
        await it.until("/readyz", 200)
        after = await scraped(it.service.metrics)
        await until(lambda: it.service.consumer.partitions[0].worker.machine.next_offset >= 1)

    assert held_up["partitions"][0]["reason"].startswith("the log stands still: somebody's transaction has been open")
    assert held_up["log"]["ready"] is True
    seconds, lag = 'slotlog_log_held_up_seconds{partition="0"}', 'slotlog_lag_events{partition="0"}'
    assert (True, 0, 0) == (1 < during[seconds] < 60, during[lag], after[seconds])


async def test_ready_says_what_is_wrong_with_the_disk(tmp_path: Path) -> None:
    """Less room than the reserve is said of the disk, and of each partition that waits for it."""
    reserve = 1 << 60
    async with served(tmp_path, free_bytes_min=reserve) as it:
        await until(lambda: str(it.service.consumer.partitions[0].condition) == "waiting")
        _, full = await it.get("/readyz")

    assert full["disk"]["ready"] is False
    assert "less than the reserve of 1,048,576.0 TiB" in full["disk"]["reason"]
    assert (full["partitions"][0]["condition"], full["partitions"][0]["ready"]) == ("waiting", False)


def test_a_disk_is_tried_by_writing_to_it(tmp_path: Path) -> None:
    """A file system that refuses a file is found out, in the kernel's words; what is tried leaves nothing behind."""
    refused = unwritable(Path("/proc"), 0)

    assert refused.startswith("/proc cannot be written to: ")
    assert unwritable(tmp_path, 0) == ""
    assert list(tmp_path.iterdir()) == []


async def test_the_disk_is_not_written_to_by_everybody_who_asks(tmp_path: Path) -> None:
    """Many questions within a few seconds are one page written: a probe loads no disk."""
    asked: list[Path] = []

    def probe(data: Path, _reserve: int) -> str:
        asked.append(data)
        return "no"

    log = EmbeddedLog(tmp_path / "log", topic="t", partitions=1)
    health = Health(Consumer(log, {}, NullObserver()), lambda _: 0, load_settings(data=tmp_path), log, probe)
    answers = [await health.readiness() for _ in range(20)]

    assert asked == [tmp_path]
    assert [answer["disk"] for answer in answers] == [{"ready": False, "reason": "no"}] * 20


async def test_ready_and_redis_clients_wait_for_the_log_to_be_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the log is applied /readyz names the partition, and Redis clients hear LOADING, also to PING."""
    async with served(tmp_path) as it:
        await it.until("/readyz", 200)
        await it.service._log.append([Entry(0, b"\0\0", encode("INCR", ["n"]))] * 3)
    (tmp_path / "again").mkdir()
    (tmp_path / "data/log.sqlite3").rename(tmp_path / "again/log.sqlite3")
    gate = asyncio.Event()
    gated(monkeypatch, gate.wait)
    log = f"sqlite:///{tmp_path}/again/log.sqlite3"
    settings = {"log": log, "lag_events_ready_max": 2, "identity_check_seconds": 0.05}
    async with served(tmp_path / "again", **settings) as it:
        await until(lambda: it.service.metrics.lag_of(0) == 3)
        _, behind = await it.get("/readyz")
        assert it.service.resp is not None
        client = await asyncio.to_thread(Connection, ("127.0.0.1", it.service.resp.port))
        early = await asyncio.to_thread(client.call, "PING")
        gate.set()
        await it.until("/readyz", 200)
        late = await asyncio.to_thread(client.call, "PING")
        client.close()

    assert behind["partitions"][0]["reason"] == "3 events behind the log, more than 2"
    assert [behind["ready"], behind["log"]["ready"], behind["disk"]["ready"]] == [False, True, True]
    assert (early, late) == (ErrorReply(b"LOADING slotlog is applying its log"), SimpleString(b"PONG"))


async def test_a_password_closes_all_but_health(tmp_path: Path) -> None:
    """The page, /status and /metrics want user and password; what restarts the process asks without; no log has it."""
    secret = "canary-with-ü"
    async with served(tmp_path, http_password=secret) as it:
        assert it.service.http is not None
        url = f"http://127.0.0.1:{it.service.http.port}"
        shown = {
            name: {"Authorization": f"Basic {b64encode(text.encode()).decode()}"}
            for name, text in (("right", f"slotlog:{secret}"), ("wrong", "slotlog:other"), ("user", f"root:{secret}"))
        }
        async with ClientSession() as session:

            async def status(path: str, headers: dict[str, str] | None = None) -> int:
                async with session.get(url + path, headers=headers) as response:
                    return response.status

            closed = [await status(path) for path in ("/", "/page.js", "/status", "/metrics", "/nosuch")]
            health = [await status(path) for path in ("/livez", "/readyz")]
            tried = [await status("/metrics", shown[name]) for name in ("wrong", "user", "right")]

    assert [401] * 5 == closed
    assert 401 not in health
    assert [401, 401, 200] == tried


QUIET_LOG = cast("Log", SimpleNamespace(url="the log", append_counts=Appends(), concerns=[]))


@dataclass
class PlayedTimes:
    """What `Health` asks of a consumer: when its loop turned last, how the log answers, and its owned partitions."""

    alive_at: float = 0.0
    log_heard_at: float = 0.0
    log_trouble: str = ""
    partitions: dict[int, Any] = field(default_factory=dict)

    @property
    def owned(self) -> dict[int, Any]:
        """All of them."""
        return self.partitions


def health_of(times: PlayedTimes, tmp_path: Path, **settings: Any) -> Health:
    """The health of a service with these times."""
    loaded = load_settings(data=tmp_path, **settings)
    return Health(cast("Consumer", times), lambda _: 0, loaded, QUIET_LOG, lambda *_: "")


@pytest.mark.parametrize(("request_timeout_ms", "stuck_seconds"), [(1, 300), (60_000, 300), (100_000, 500)])
def test_how_long_the_loop_may_stand_still(tmp_path: Path, request_timeout_ms: int, stuck_seconds: int) -> None:
    """Five minutes, or five requests to the broker that time out, whichever is longer."""
    kafka = {"request_timeout_ms": request_timeout_ms}
    near, over = (
        health_of(PlayedTimes(alive_at=monotonic() - stuck_seconds + left), tmp_path, kafka=kafka) for left in (60, 0)
    )

    assert ("", f"the loop that applies the log has not turned for {stuck_seconds} s") == (near.stuck(), over.stuck())


async def test_how_long_the_log_may_be_silent(tmp_path: Path) -> None:
    """Fifteen seconds."""
    heard = [PlayedTimes(log_heard_at=monotonic() - seconds) for seconds in (5, 15)]
    reasons = [(await health_of(times, tmp_path).readiness())["log"]["reason"] for times in heard]

    assert ["", "the log has not answered for 15 s"] == reasons


async def test_why_the_log_is_silent(tmp_path: Path) -> None:
    """What it was that failed, before the start as after it; nothing once the log is heard."""
    times = [
        PlayedTimes(log_heard_at=monotonic() - 15, log_trouble="refused"),
        PlayedTimes(log_heard_at=monotonic(), log_trouble="refused"),
        PlayedTimes(),
    ]
    services = [health_of(each, tmp_path) for each in times]
    services[2].log_awaited = "no way in"
    reasons = [(await each.readiness())["log"]["reason"] for each in services]

    assert ["the log has not answered for 15 s: refused", "", "the log has not answered yet: no way in"] == reasons


def test_how_long_a_transaction_may_hold_up_the_log(tmp_path: Path) -> None:
    """Ten seconds."""
    reasons = []
    for seconds in (10, 10.1):
        owned = SimpleNamespace(condition=Condition.RUNNING, reason="", held_up_seconds=seconds)
        reasons += [each.reason for each in health_of(PlayedTimes(partitions={0: owned}), tmp_path).partitions()]

    assert ["", "the log stands still: somebody's transaction has been open for 10 s"] == reasons


async def test_how_often_the_disk_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every five seconds at most, however often somebody asks."""
    tried: list[float] = []

    def note(_data: Path, _free_bytes_min: int) -> str:
        tried.append(now[0])
        return ""

    health = Health(
        cast("Consumer", PlayedTimes()),
        lambda _: 0,
        load_settings(data=tmp_path),
        QUIET_LOG,
        note,
    )
    now = [1000.0]
    monkeypatch.setattr(health_module, "monotonic", lambda: now[0])
    for now[0] in (1000.0, 1004.9, 1005.0, 1005.1, 1009.9, 1010.0):
        await health.readiness()

    assert [1000.0, 1005.0, 1010.0] == tried
