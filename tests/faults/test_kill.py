"""kill -9 at random moments: nothing is lost and nothing is applied twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.model import LIST, STRING
from engine.proof.digest import Digest, key_digest
from ops.config import Settings, load_settings
from ops.state.directories import digest_partition
from slotlog.events import encode
from slotlog.log import Entry
from slotlog.shared.slots import slot
from tests.faults.logs import opened_log
from tests.faults.service import ServiceProcess

KILLS = 50
EVENTS = 100_000
SLICE = EVENTS // KILLS
KEYS = 20


@pytest.fixture(params=["embedded", "kafka"])
def log_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each log."""
    if request.param == "embedded":
        return f"sqlite:///{tmp_path / 'log.sqlite3'}"
    return f"kafka://{request.getfixturevalue('kafka_bootstrap')}"


class Model:
    """What the events come to, by plain Python."""

    def __init__(self) -> None:
        self.counters: dict[bytes, int] = {}
        self.strings: dict[bytes, bytes] = {}
        self.lists: dict[bytes, list[bytes]] = {}

    def event(self, number: int, choose: random.Random) -> tuple[str, list[Any]]:
        """The `number`-th event, applied to the model."""
        key = b"%d" % choose.randrange(KEYS)
        text = b"%d," % number
        kind = choose.choice(("INCR", "APPEND", "RPUSH"))
        if kind == "INCR":
            name = b"counter:" + key
            self.counters[name] = self.counters.get(name, 0) + 1
            return kind, [name]
        if kind == "APPEND":
            name = b"string:" + key
            self.strings[name] = self.strings.get(name, b"") + text
            return kind, [name, text]
        name = b"list:" + key
        self.lists.setdefault(name, []).append(text)
        return kind, [name, text]

    def digest(self) -> Digest:
        """The digest that a state with this content has."""
        contents = [
            *((name, STRING, [b"%d" % count]) for name, count in self.counters.items()),
            *((name, STRING, [text]) for name, text in self.strings.items()),
            *((name, LIST, elements) for name, elements in self.lists.items()),
        ]
        total = Digest()
        for name, kind, content in contents:
            total += Digest(key_digest(0, name, kind, 0, content), 1)
        return total


def slices(model: Model, choose: random.Random) -> Iterator[list[Entry]]:
    """All events, in as many parts as there are kills."""
    for start in range(0, EVENTS, SLICE):
        part = []
        for number in range(start, start + SLICE):
            kind, args = model.event(number, choose)
            part.append(Entry(0, slot(args[0]).to_bytes(2, "big"), encode(kind, args)))
        yield part


async def drain(options: list[str], settings: Settings, end: int) -> None:
    """Let a service apply what is left, and end it as an operator would."""
    with ServiceProcess(options, {"SLOTLOG_LOG_LEVEL": "debug"}) as service:
        service.wait_for("started")
        reached = digest_partition(settings, 0)[1].next_offset
        while reached < end:
            reached = service.wait_for("batch")["next_offset"]
        assert 0 == service.terminate(10)


@pytest.mark.timeout(600)
async def test_fifty_kills_lose_nothing_and_repeat_nothing(log_url: str, tmp_path: Path) -> None:
    """A service killed 50 times during 100,000 events comes to exactly what a plain model of the events says."""
    choose = random.Random(20130101)
    model = Model()
    topic = f"kill-{tmp_path.name}"
    data = tmp_path / "data"
    options = ["--data", str(data), "--log", log_url, "--topic", topic, "--http", ""]
    midway = 0
    async with opened_log(log_url, topic) as log:
        for part in slices(model, choose):
            await log.append(part)
            end = await log.end_offset(0)
            batch_records_max = choose.choice((16, 100, 1000))
            environment = {"SLOTLOG_LOG_LEVEL": "debug", "SLOTLOG_BATCH_RECORDS_MAX": str(batch_records_max)}
            with ServiceProcess(options, environment) as service:
                reached = 0
                for _ in range(choose.randint(0, max(1, SLICE // batch_records_max))):
                    reached = (await asyncio.to_thread(service.wait_for, "batch"))["next_offset"]
                    if reached == end:
                        break
                await asyncio.sleep(choose.uniform(0, 0.005))
                midway += reached < end
                service.kill()
    await drain(options, settings := load_settings(data=data, log=log_url, topic=topic), end)

    digest, position = digest_partition(settings, 0)
    assert KILLS / 2 < midway
    assert (end, model.digest()) == (position.next_offset, digest)
