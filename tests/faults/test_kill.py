"""kill -9 at random moments, on the layout of the session: nothing is lost and nothing is applied twice."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.model import HASH, LIST, SET, STRING, ZSET
from engine.proof.digest import Digest, key_digest
from engine.tables.libraries import Function, library_of
from engine.tables.libraries import pack as pack_library
from engine.tables.scripts import digest_of
from engine.values.encoding import pack_score
from ops.config import Settings, load_settings
from ops.state.opening.directories import digest_partition
from slotlog.events import encode
from slotlog.log import Entry
from slotlog.shared.slots import slot
from tests.faults.logs import opened_log
from tests.faults.service import ServiceProcess

KILLS = int(os.environ.get("SLOTLOG_KILLS", "50"))
"""The variable asks for fewer of them, on one layout after the other (tests/layouts/__main__.py)."""

SCRIPT = b"redis.call('RPUSH', KEYS[2], ARGV[1]) return redis.call('INCR', KEYS[1])"
SCRIPT_TYPE = 255
LIBRARY = b"#!lua name=lib\nredis.register_function('push', function(KEYS, ARGV) %b end)" % SCRIPT
LIBRARY_TYPE = 254
SLICE = 2000
EVENTS = KILLS * SLICE
KEYS = 20


@pytest.fixture(params=["embedded", "kafka"])
def log_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each log."""
    if request.param == "embedded":
        return f"sqlite:///{tmp_path / 'log.sqlite3'}"
    return f"kafka://{request.getfixturevalue('kafka_bootstrap')}"


KINDS = (
    *("INCR", "APPEND", "RPUSH", "HINCRBY", "HSET", "HDEL", "SADD", "SREM", "ZINCRBY", "ZREM"),
    *("EVAL", "EVALSHA", "FCALL"),
)


class Model:
    """What the events come to, by plain Python: an event that is lost, and mostly one that comes twice, changes it."""

    def __init__(self) -> None:
        self.strings: dict[bytes, bytes] = {}
        self.lists: dict[bytes, list[bytes]] = {}
        self.hashes: dict[bytes, dict[bytes, int]] = {}
        self.sets: dict[bytes, set[bytes]] = {}
        self.zsets: dict[bytes, dict[bytes, int]] = {}

    def event(self, number: int, choose: random.Random) -> tuple[str, list[Any]]:
        """The `number`-th event, applied to the model."""
        if number == 0:
            return "SCRIPT|LOAD", [SCRIPT]
        if number == 1:
            return "FUNCTION|LOAD", [LIBRARY]
        kind = choose.choice(KINDS)
        key, text = b"%d" % choose.randrange(KEYS), b"%d," % number
        element = b"%d" % choose.randrange(5 * KEYS)
        match kind:
            case "INCR":
                name = b"counter:" + key
                self.strings[name] = b"%d" % (int(self.strings.get(name, 0)) + 1)
                return kind, [name]
            case "APPEND":
                name = b"string:" + key
                self.strings[name] = self.strings.get(name, b"") + text
                return kind, [name, text]
            case "RPUSH":
                name = b"list:" + key
                self.lists.setdefault(name, []).append(text)
                return kind, [name, text]
            case "EVAL" | "EVALSHA" | "FCALL":
                counter, elements = b"counter:" + key, b"list:" + key
                self.strings[counter] = b"%d" % (int(self.strings.get(counter, 0)) + 1)
                self.lists.setdefault(elements, []).append(text)
                what = {"EVAL": SCRIPT, "EVALSHA": digest_of(SCRIPT), "FCALL": b"push"}[kind]
                return kind, [what, b"2", counter, elements, text]
            case "SADD" | "SREM":
                name = b"set:" + key
                members = self.sets.setdefault(name, set())
                (members.add if kind == "SADD" else members.discard)(element)
                return kind, [name, element]
        name = (b"hash:" if kind.startswith("H") else b"zset:") + key
        numbers = (self.hashes if kind.startswith("H") else self.zsets).setdefault(name, {})
        if kind in ("HDEL", "ZREM"):
            numbers.pop(element, None)
            return kind, [name, element]
        numbers[element] = number if kind == "HSET" else numbers.get(element, 0) + 1
        return kind, {"HSET": [name, element, number], "HINCRBY": [name, element, 1]}.get(kind, [name, 1, element])

    def digest(self) -> Digest:
        """The digest that a state with this content has."""
        name = bytes.fromhex(digest_of(SCRIPT).decode())
        library = pack_library(library_of(LIBRARY, [Function(b"push", None, 0)]))
        total = Digest(key_digest(0, name, SCRIPT_TYPE, 0, [b"\1", SCRIPT]))
        total += Digest(key_digest(0, b"lib", LIBRARY_TYPE, 0, [library]))
        for name, kind, content in self._contents():
            if content:
                total += Digest(key_digest(0, name, kind, 0, content), 1)
        return total

    def _contents(self) -> Iterator[tuple[bytes, int, list[bytes]]]:
        yield from ((name, STRING, [text]) for name, text in self.strings.items())
        yield from ((name, LIST, elements) for name, elements in self.lists.items())
        yield from ((name, SET, sorted(members)) for name, members in self.sets.items())
        for kind, numbers_of, pack in ((HASH, self.hashes, b"%d".__mod__), (ZSET, self.zsets, pack_score)):
            for name, numbers in numbers_of.items():
                yield name, kind, [part for each in sorted(numbers) for part in (each, pack(numbers[each]))]


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
        assert 0 == service.terminate()


@pytest.mark.timeout(600)
async def test_kills_lose_nothing_and_repeat_nothing(log_url: str, tmp_path: Path) -> None:
    """A service killed 50 times during 100,000 events comes to exactly what a plain model of the events says.

    Between two kills it has events of every type, scripts and functions, on keys that it knows.
    """
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
