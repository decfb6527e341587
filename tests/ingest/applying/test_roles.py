"""Partitions that are taken, followed and given up while the consumer runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.commands.registry import SPECS
from ingest.applying.consumer import Consumer
from ingest.applying.worker import Worker
from ingest.dead_letters.embedded_store import EmbeddedDeadLetters
from ingest.membership import Role
from slotlog.log import Entry
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
