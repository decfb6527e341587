"""Partitions that are taken, followed and given up while the consumer runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.commands.registry import SPECS
from ingest.applying.append_probe import AppendProbe
from ingest.applying.batches.worker import Worker
from ingest.applying.consumer import Consumer
from ingest.applying.ticker import Ticker
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from ingest.membership import Role
from ingest.reporting.observer import Condition
from slotlog.clock import now_ms
from slotlog.errors import LogUnavailableError
from slotlog.log import Entry
from slotlog.log.appends import Appends
from slotlog.log.embedded.embedded_log import EmbeddedLog
from tests.ingest.applying.test_consumer import FAMILIES, PARTITIONS, Recorder, Store, entry, key_of, until
from tests.layouts import home_of


async def test_a_follower_keeps_behind_its_owner_and_takes_over(tmp_path: Path) -> None:
    """A follower applies what its owner has, in any portions, sends no dead letter, and leaves nothing out as owner.

    Given up and taken again it goes on where it was, and dead letters are its own again.
    """
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="topic", partitions=PARTITIONS)
    dead_letters = EmbeddedDeadLetters(log)
    await log.start()
    await dead_letters.start()
    store = Store(FAMILIES)
    observer = Recorder()
    home = home_of("topic", 0, PARTITIONS)
    worker = Worker(home, log, lambda _: store, dead_letters, observer)
    consumer, stop = Consumer(log, {0: worker}, observer, role=Role.NONE), asyncio.Event()
    await consumer.open()
    running = asyncio.create_task(consumer.run(stop))
    owned = consumer.every[0]
    await log.append([entry(0, "INCR", key_of(0)) for _ in range(9)] + [Entry(0, None, b"broken")])
    assert ([], []) == (list(consumer.partitions), list(consumer.roles.owned))

    await consumer.roles.assume(0, Role.FOLLOWER)
    for offset in (3, 4, 10):
        owned.owner_offset = offset
        await until(lambda: worker.is_open and worker.machine.next_offset >= offset, "it has followed")  # noqa: B023 - called at once
        assert offset == worker.machine.next_offset
    assert ([0], []) == (list(consumer.partitions), list(consumer.roles.owned))
    await log.append([entry(0, "INCR", key_of(0)), Entry(0, None, b"broken")])
    await consumer.roles.assume(0, Role.OWNER)
    await until(lambda: worker.machine.next_offset == 12, "it has taken over")
    await consumer.roles.assume(0, Role.NONE)
    assert (False, []) == (worker.is_open, list(consumer.partitions))
    await log.append([entry(0, "INCR", key_of(0))])
    await consumer.roles.assume(0, Role.OWNER)
    await until(lambda: worker.is_open and worker.machine.next_offset == 13, "it goes on")

    assert b"11" == worker.machine.evaluate(SPECS[b"GET"], [key_of(0)], 0)
    assert {11} == await dead_letters.offsets(0)
    stop.set()
    await running
    consumer.close()
    await dead_letters.close()
    await log.close()


async def test_an_owner_that_may_be_none_any_more_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends no dead letter and waits before that record, commits no offsets, appends no ticks; then it goes on."""
    monkeypatch.setattr("ingest.applying.append_probe._PROBE_SECONDS", 0.0)
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="topic", partitions=PARTITIONS)
    dead_letters = EmbeddedDeadLetters(log)
    await log.start()
    await dead_letters.start()
    store, observer, committed, says = Store(FAMILIES), Recorder(), list[Mapping[int, int]](), [True]
    worker = Worker(home_of("topic", 0, PARTITIONS), log, lambda _: store, dead_letters, observer)
    worker.may_speak = lambda: says[0]
    consumer, stop = Consumer(log, {0: worker}, observer), asyncio.Event()
    await consumer.open()
    running = asyncio.create_task(consumer.run(stop))
    owned = consumer.every[0]
    await log.append([entry(0, "SET", key_of(0), "1", "PX", "1"), entry(0, "SET", key_of(0), "2", "PX", "1")])
    await until(lambda: worker.machine.next_offset == 2, "it has applied")

    says[0] = False

    async def commit(positions: Mapping[int, int]) -> None:
        committed.append(positions)

    monkeypatch.setattr(log, "commit", commit)
    monkeypatch.setattr(Appends, "failure_of", lambda *_: "failed")
    await consumer._watch.commit()
    await Ticker(log, consumer.owned).look(now_ms() + 60_000)
    probe = AppendProbe(log, consumer.owned)
    probe.look()
    await asyncio.sleep(0)
    probe.close()
    assert ([{}], 2) == (committed, await log.end_offset(0))
    await log.append([Entry(0, None, b"broken")])
    await until(lambda: owned.condition is Condition.WAITING, "it waits")
    assert (set(), 2, False) == (await dead_letters.offsets(0), worker.machine.next_offset, owned.speaks)

    says[0] = True
    await until(lambda: owned.committed is not None and owned.committed.next_offset == 3, "it goes on")
    await consumer._watch.commit()
    assert ({2}, {0: 3}) == (await dead_letters.offsets(0), committed[-1])
    stop.set()
    await running
    consumer.close()
    await dead_letters.close()
    await log.close()


async def test_one_that_is_taken_while_the_log_is_away_is_opened_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process goes on, and so do its other partitions; the new owner says why it is not open yet."""
    log = EmbeddedLog(tmp_path / "log.sqlite3", topic="topic", partitions=PARTITIONS)
    dead_letters = EmbeddedDeadLetters(log)
    await log.start()
    await dead_letters.start()
    store, observer, asked = Store(FAMILIES), Recorder(), [0]
    worker = Worker(home_of("topic", 0, PARTITIONS), log, lambda _: store, dead_letters, observer)
    consumer, stop = Consumer(log, {0: worker}, observer, role=Role.NONE), asyncio.Event()
    await consumer.open()
    running = asyncio.create_task(consumer.run(stop))
    owned, check = consumer.every[0], worker.check
    await log.append([entry(0, "INCR", key_of(0))])

    async def away() -> None:
        asked[0] += 1
        raise LogUnavailableError("the broker did not answer")

    monkeypatch.setattr(worker, "check", away)
    await consumer.roles.assume(0, Role.OWNER)
    await until(lambda: asked[0] > 1 or running.done(), "it is tried again")
    assert (Condition.OPENING, "the broker did not answer") == (owned.condition, owned.reason)

    monkeypatch.setattr(worker, "check", check)
    await until(lambda: worker.is_open and worker.machine.next_offset == 1, "it has taken over")
    stop.set()
    await running
    consumer.close()
    await dead_letters.close()
    await log.close()
