"""kill -9 of the change feed: the topic has each change, in order, at least once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import signal
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from ops.config import load_settings
from slotlog.events import decode, encode
from slotlog.log import Entry, KafkaSettings, open_log
from slotlog.shared.slots import slot
from tests.faults.service import ServiceProcess
from tests.ops.verbs import get, metric

KILLS = int(os.environ.get("CHANGE_KILLS", "2"))
EVENTS = 300
"""Between two kills."""

KEYS = 5
_PATIENCE_SECONDS = 120.0


def entries(count: int, choose: random.Random) -> list[Entry]:
    """INCRs of a few keys, some two in a transaction: what is lost shows in the values."""
    found = []
    for _ in range(count):
        names = choose.sample([b"{k}%d" % number for number in range(KEYS)], 2)
        event: tuple[str, list[Any]] = ("INCR", names[:1])
        if choose.randrange(3) == 0:
            event = ("EXEC", [["INCR", name] for name in names])
        found.append(Entry(0, slot(names[0]).to_bytes(2, "big"), encode(*event)))
    return found


async def append(url: str, topic: str, some: list[Entry]) -> int:
    """Append events; gives the log's end."""
    log = open_log(url, topic=topic, partitions=1, kafka=KafkaSettings(replicas=1))
    await log.start()
    await log.append(some)
    end = await log.end_offset(0)
    await log.close()
    return end


async def read(url: str, topic: str) -> list[tuple[str, Any]]:
    """Type and document of each record of the topic of changes."""
    log = open_log(url, topic=topic, partitions=1, create=False)
    await log.start()
    end, reader = await log.end_offset(0), log.reader({0: 0})
    found = []
    while reader.position(0) < end:
        for offset, _, _, value in (await reader.fetch(500, 1000)).get(0, ()):
            headers = dict(reader.headers(0, offset))
            found.append(((headers["ce_type"] or b"").decode(), json.loads(value or b"null")))
    await reader.close()
    await log.close()
    return found


def teller_of(service: ServiceProcess) -> int | None:
    """The process that tells changes; None: it does not run now."""
    for pid in Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split():
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    return None


def wait_until_told(service: ServiceProcess, end: int) -> None:
    """All events before `end` are applied, and their changes told."""
    until = monotonic() + _PATIENCE_SECONDS
    while monotonic() < until:
        applied = sum(metric(service, "slotlog_next_offset").values())
        if applied >= end and not sum(metric(service, "slotlog_changes_lag_offsets").values()):
            return
        sleep(0.05)
    raise AssertionError(get(service, "/metrics").text)


def expected(some: list[Entry], begin: int) -> list[tuple[int, str, str]]:
    """Offset, key and value of each change, in order."""
    counts: dict[bytes, int] = {}
    found = []
    for offset, entry in enumerate(some, begin):
        _, _, name, args, *_ = decode(offset, 0, entry.value)
        for (key,) in [command[1:] for command in args] if name == b"EXEC" else [args]:
            counts[key] = counts.get(key, 0) + 1
            found.append((offset, key.decode(), str(counts[key])))
    return found


def test_each_change_is_told_through_kills(tmp_path: Path, kafka_bootstrap: str) -> None:
    """Changes come repeated, never out of order for who leaves out what it has seen, and none is missing."""
    choose = random.Random(KILLS)
    name = f"told-{secrets.token_hex(4)}"
    url = f"kafka://{kafka_bootstrap}"
    settings = load_settings(data=tmp_path / "data", log=url, topic=name)
    options = ["--data", str(settings.data), "--log", url, "--topic", name, "--http", "127.0.0.1:0", "--resp", ""]
    variables = {"SLOTLOG_CHANGES__TOPIC": f"{name}.changes", "SLOTLOG_KAFKA__REPLICAS": "1"}
    sent: list[Entry] = []
    for number in range(KILLS + 1):
        with ServiceProcess(options, variables) as service:
            service.wait_for("http")
            service.wait_for("started")
            if not number:
                wait_until_told(service, 0)
                sleep_until_begun(url, f"{name}.changes")
            some = entries(EVENTS, choose)
            end = asyncio.run(append(url, name, some))
            sent += some
            if number == KILLS:
                wait_until_told(service, end)
                assert 0 == service.terminate()
                break
            sleep(choose.uniform(0, 2))
            teller = teller_of(service)
            if number % 2 and teller is not None:
                os.kill(teller, signal.SIGKILL)
                wait_until_told(service, end)
            service.kill()
    (begun, _), *changes = asyncio.run(read(url, f"{name}.changes"))
    assert "slotlog.begun.v1" == begun
    assert {"slotlog.change.v1"} == {kind for kind, _ in changes}
    told = [(each["offset"], each["key"], each["after"]["value"]) for _, each in changes]
    seen: dict[tuple[int, str, str], None] = {}
    for change in told:
        latest = max(seen, default=(-1, "", ""))[0]
        if change[0] >= latest:
            seen[change] = None
    assert expected(sent, 0) == list(seen)
    assert set(told) == set(seen)  # what came again is what had come


def sleep_until_begun(url: str, topic: str) -> None:
    """Wait for the record that says where the feed begins."""
    until = monotonic() + _PATIENCE_SECONDS
    while monotonic() < until:
        try:
            if asyncio.run(read(url, topic)):
                return
        except Exception:  # noqa: BLE001, S110 - the topic is not there yet
            pass
        sleep(0.1)
    raise AssertionError("the feed has not begun")
