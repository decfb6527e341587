"""10,000 damaged records between good ones: each a dead letter with its reason, every good one applied."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.dead_letters.dead_letter import DeadLetters
from ingest.dead_letters.stores import open_dead_letters
from ingest.reporting.observer import NullObserver
from ops.config import Settings, load_settings
from ops.state.opening.directories import home_of, store_opener
from slotlog.events import encode
from slotlog.log import Entry, Log
from slotlog.shared.slots import partition_of, slot
from tests.faults.logs import opened_log

DAMAGED = 10_000
GOOD_EVERY = 2
PARTITIONS = 2
APPEND = 1000
MEMORY_BYTES_MAX = 64 * 1024 * 1024


def _event(**fields: Any) -> bytes:
    packed: bytes = msgpack.packb({"v": 1, "cmd": "SET", "args": ["a", "b"], **fields})
    return packed


def _foreign_key(choose: random.Random) -> bytes:
    """An event for a key of partition 1, which a foreign partitioner puts into partition 0."""
    while True:
        key = b"foreign:%d" % choose.randrange(1000)
        if partition_of(slot(key), PARTITIONS) == 1:
            return encode("SET", [key, b"x"])


DAMAGE: dict[str, Callable[[random.Random], bytes]] = {
    "truncated": lambda choose: _event()[: choose.randrange(len(_event()))],
    "random bytes": lambda choose: choose.randbytes(choose.randrange(1, 200)),
    "not a map": lambda choose: msgpack.packb([choose.randrange(9)]),
    "wrong type of args": lambda choose: _event(args=choose.choice(["ab", 5, None, {"a": 1}])),
    "wrong type of an argument": lambda choose: _event(args=["a", choose.choice([None, True, [], {}, float("nan")])]),
    "huge length": lambda choose: b"\x83\xa1v\x01\xa3cmd\xc6" + choose.choice([b"\xff", b"\x7f"]) * 4 + b"SET",
    "huge array": lambda choose: b"\x83\xa1v\x01\xa3cmd\xa3SET\xa4args\xdd" + choose.choice([b"\xff", b"\x7f"]) * 4,
    "deep nesting": lambda choose: (
        b"\x83\xa1v\x01\xa3cmd\xa3SET\xa4args" + b"\x91" * choose.randrange(5, 2000) + b"\x01"
    ),
    "unknown command": lambda choose: _event(cmd=choose.choice(["NOSUCH", "EVALS", "", "\x00"])),
    "wrong number of arguments": lambda choose: _event(args=["a"] * choose.choice([0, 1])),
    "unknown version": lambda choose: _event(v=choose.choice([0, 2, -1, "1", None])),
    "unknown field": lambda choose: _event(extra=choose.randrange(9)),
    "wrong partition": _foreign_key,
    "several slots": lambda choose: encode("MSET", ["a", "1", "b", "2"]),
    "nested transaction": lambda choose: encode("EXEC", [["EXEC", ["SET", "a", "b"]]]),
}


@pytest.fixture(params=["embedded", "kafka"])
def log_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each log."""
    if request.param == "embedded":
        return f"sqlite:///{tmp_path / 'log.sqlite3'}"
    return f"kafka://{request.getfixturevalue('kafka_bootstrap')}"


async def _append(log: Log, choose: random.Random) -> tuple[int, Counter[str], int]:
    """Damaged and good records in turn, into partition 0; returns how many are good, the kinds of damage, the end."""
    kinds: Counter[str] = Counter()
    good = 0
    entries: list[Entry] = []
    key = b"{a-tag-of-partition-0}counter"
    assert partition_of(slot(key), PARTITIONS) == 0
    for number in range(DAMAGED):
        kind = list(DAMAGE)[number % len(DAMAGE)]
        kinds[kind] += 1
        entries.append(Entry(0, b"\0\0", DAMAGE[kind](choose)))
        if number % GOOD_EVERY == 0:
            good += 1
            entries.append(Entry(0, slot(key).to_bytes(2, "big"), encode("INCR", [key])))
    for at in range(0, len(entries), APPEND):
        await log.append(entries[at : at + APPEND])
    return good, kinds, len(entries)


async def _apply(settings: Settings, log: Log, dead_letters: DeadLetters, end: int) -> tuple[object, int]:
    """Apply partition 0; returns the counter of good events, and the most memory that was in use."""
    worker = Worker(home_of(settings, 0), log, store_opener(settings, settings.data), dead_letters, NullObserver())
    consumer = Consumer(log, {0: worker}, NullObserver())
    await consumer.open()
    tracemalloc.start()
    try:
        await consumer.run_to({0: end})
        _, peak_bytes = tracemalloc.get_traced_memory()
        return worker.machine.read(b"GET", [b"{a-tag-of-partition-0}counter"]), peak_bytes
    finally:
        tracemalloc.stop()
        consumer.close()


@pytest.mark.timeout(300)
async def test_every_damaged_record_becomes_a_dead_letter(log_url: str, tmp_path: Path) -> None:
    """Each damaged record is kept with its bytes and a reason, each good one applied, and memory stays bounded."""
    settings = load_settings(
        data=tmp_path / "data", log=log_url, topic=f"damaged-{tmp_path.name}", partitions=PARTITIONS
    )
    async with opened_log(log_url, settings.topic, PARTITIONS) as log:
        good, kinds, end = await _append(log, random.Random(7))
        dead_letters = open_dead_letters(log)
        await dead_letters.start()
        try:
            counted, peak_bytes = await _apply(settings, log, dead_letters, end)
            letters = await dead_letters.read(2 * DAMAGED)
        finally:
            await dead_letters.close()

    assert b"%d" % good == counted
    assert DAMAGED == sum(kinds.values()) == len({letter.offset for letter in letters})
    assert all(letter.reason and letter.value is not None for letter in letters)
    assert peak_bytes < MEMORY_BYTES_MAX
