"""A broker that vanishes in the middle of writes: each ends honestly, reads go on, nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.real.broker import KafkaBroker
from tests.real.oracle import ErrorReply
from tests.wire.client import Client
from tests.wire.ledger import Ledger, Outcome
from tests.wire.servers import slotlog
from tests.wire.writers import Writers

CLIENTS = 20
OUTAGES = 2
PROGRESS = 500
SECONDS = 90
READS = 100
APPEND_TIMEOUT_MS = 3000


def more(ledger: Ledger, outcome: Outcome, number: int) -> Callable[[Ledger], bool]:
    """Whether so many more writes have ended so."""
    until = ledger.counts[outcome] + number
    return lambda ledger: ledger.counts[outcome] >= until


async def read_all(address: tuple[str, int], keys: list[bytes]) -> list[bytes]:
    """The errors of many reads of what was written."""
    reader = await Client.connect(address)
    async with asyncio.timeout(SECONDS):
        replies = [await reader.call("EXISTS", keys[number % len(keys)]) for number in range(READS)]
    reader.close()
    assert {0, 1} >= {reply for reply in replies if not isinstance(reply, ErrorReply)}
    return [reply.text for reply in replies if isinstance(reply, ErrorReply)]


async def outage(broker: KafkaBroker, writers: Writers, address: tuple[str, int]) -> list[bytes]:
    """Kill the broker under the writers, let them fail, start it, let them succeed; returns the errors of reads."""
    ledger = writers.ledger
    await writers.wait_until(more(ledger, Outcome.ACKNOWLEDGED, PROGRESS), SECONDS)
    broker.kill()
    await writers.wait_until(more(ledger, Outcome.FAILED, CLIENTS), SECONDS)
    errors = await read_all(address, sorted({entry.write.key for entry in ledger.entries}))
    await asyncio.to_thread(broker.start)
    await writers.wait_until(more(ledger, Outcome.ACKNOWLEDGED, PROGRESS), SECONDS)
    return errors


@pytest.mark.timeout(400)
async def test_writes_end_honestly_without_a_broker(
    own_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acknowledged: it is there. Failed: it was not sent, and is not there. UNKNOWNOUTCOME: once or not at all."""
    monkeypatch.setenv("SLOTLOG_KAFKA__REQUEST_TIMEOUT_MS", str(APPEND_TIMEOUT_MS))
    with slotlog(tmp_path_factory.mktemp("away"), f"kafka://{own_broker.bootstrap}") as server:
        writers = Writers(server.address, CLIENTS, "away", seed=7)
        ledger = writers.ledger
        errors_of_reads = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(writers.run())
            for _ in range(OUTAGES):
                errors_of_reads += await outage(own_broker, writers, server.address)
            writers.stop()
        with closing(server.connect()) as connection:
            problems = ledger.problems(connection)

    assert [] == problems
    assert [] == errors_of_reads
    assert all(ledger.counts[outcome] for outcome in Outcome), ledger.counts
    assert all(text.startswith((b"UNKNOWNOUTCOME ", b"ERR ")) for text in ledger.errors()), ledger.errors()
    assert [] == [text for text in ledger.errors() if text.startswith(b"ERR ") and b"nothing was written" not in text]
