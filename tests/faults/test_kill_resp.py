"""kill -9 of the server under pipelining clients: what was acknowledged is there, and nothing twice."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.real.oracle import Connection, SimpleString
from tests.wire.ledger import Ledger, Outcome, Write
from tests.wire.servers import RespServer, slotlog, valkey
from tests.wire.writers import Writers, acknowledged

KILLS = int(os.environ.get("SLOTLOG_KILLS", "30"))
"""Of the embedded log; a third of it on Kafka and of the server that the test itself is proved on."""

CLIENTS = 50
PROGRESS_MAX = 2000
PROGRESS_TIMEOUT_S = 60


async def killed_run(server: RespServer, name: str, choose: random.Random) -> Ledger:
    """The ledger of clients whose server was killed at a random moment."""
    writers = Writers(server.address, CLIENTS, name, choose.getrandbits(32))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(writers.run())
        await writers.wait_until(acknowledged(choose.randint(1, PROGRESS_MAX)), PROGRESS_TIMEOUT_S)
        await asyncio.sleep(choose.uniform(0, 0.02))
        server.kill()
    return writers.ledger


async def killed_runs(server: RespServer, kills: int) -> tuple[list[str], Counter[Outcome]]:
    """What is wrong after so many kills, right after each and once more at the end; and how the writes ended."""
    choose = random.Random(20260116)
    ledgers: list[Ledger] = []
    outcomes: Counter[Outcome] = Counter()
    found: list[str] = []
    with server:
        for number in range(kills):
            ledger = await killed_run(server, f"run{number}", choose)
            ledgers.append(ledger)
            outcomes += ledger.counts
            server.start()
            with closing(server.connect()) as connection:
                found += ledger.problems(connection) + ledger.holes(connection)
        with closing(server.connect()) as connection:
            found += [f"later: {problem}" for ledger in ledgers for problem in ledger.problems(connection)]
    return found, outcomes


@pytest.mark.timeout(900)
async def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    """On the embedded log: acknowledged writes are there in their place, unacknowledged ones once or not at all."""
    found, outcomes = await killed_runs(slotlog(tmp_path), KILLS)

    assert [] == found
    assert 0 == outcomes[Outcome.FAILED]
    assert KILLS * CLIENTS / 2 < outcomes[Outcome.UNKNOWN] < outcomes[Outcome.ACKNOWLEDGED]


@pytest.mark.timeout(900)
async def test_kills_on_kafka_lose_nothing_and_repeat_nothing(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The same where the log is Kafka's."""
    found, outcomes = await killed_runs(slotlog(tmp_path, f"kafka://{kafka_bootstrap}"), KILLS // 3)

    assert [] == found
    assert 0 == outcomes[Outcome.FAILED]
    assert KILLS // 3 * CLIENTS / 2 < outcomes[Outcome.UNKNOWN] < outcomes[Outcome.ACKNOWLEDGED]


@pytest.mark.timeout(300)
async def test_the_oracle_passes(tmp_path: Path) -> None:
    """What is demanded here is what valkey-server keeps with `appendfsync always`."""
    found, outcomes = await killed_runs(valkey(tmp_path), KILLS // 3)

    assert [] == found
    assert 0 < outcomes[Outcome.UNKNOWN] < outcomes[Outcome.ACKNOWLEDGED]


async def test_losses_are_found(tmp_path: Path) -> None:
    """A server that keeps nothing over a kill is found out."""
    found, outcomes = await killed_runs(valkey(tmp_path, durable=False), 1)

    assert any("was acknowledged at" in problem for problem in found)
    assert any("the count is 0" in problem for problem in found)
    assert 0 < outcomes[Outcome.ACKNOWLEDGED]


WRITES = [Write(7, number, kind, f"k:{kind}".encode()) for number, kind in enumerate(("INCR", "APPEND", "RPUSH"))]


@pytest.fixture
def ledger(oracle: Connection) -> Ledger:
    """A ledger of six writes, acknowledged by the oracle, which holds them."""
    ledger = Ledger()
    for write in (*WRITES, *(write._replace(number=write.number + 3) for write in WRITES)):
        ledger.add(write, oracle.call(*write.command))
    return ledger


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.kind)
def test_a_repeated_write_is_found(write: Write, ledger: Ledger, oracle: Connection) -> None:
    """A write that was applied once more than it was sent shows, whatever its command."""
    assert [] == ledger.problems(oracle) + ledger.holes(oracle)

    oracle.call(*write.command)

    assert [] != ledger.problems(oracle)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (["DECR", "k:INCR"], "the count is 1: 2 were acknowledged and 0 are unknown"),
        (["SET", "k:APPEND", "7.1,"], "7.4 was acknowledged at 8: None is there, it 0 times"),
        (["LPOP", "k:RPUSH"], "7.2 was acknowledged at 1: b'7.5' is there, it 0 times"),
        (["RPUSH", "k:RPUSH", "8.0,"], "8.0 is nobody's write"),
        (["LMOVE", "k:RPUSH", "k:RPUSH", "LEFT", "RIGHT"], "7.2 stands after 7.5"),
    ],
)
def test_damage_is_found(damage: list[str], problem: str, ledger: Ledger, oracle: Connection) -> None:
    """Lost, foreign and exchanged writes show, each with its name."""
    oracle.call(*damage)

    assert any(problem in found for found in ledger.problems(oracle))


def test_a_write_that_failed_must_not_be_there(oracle: Connection) -> None:
    """A write that was refused and took effect all the same shows; one in doubt may be there or not, without a hole."""
    ledger = Ledger()
    write = Write(7, 0, "RPUSH", b"k")
    ledger.add(write, None)
    ledger.add(write._replace(number=1), None)
    oracle.call(*write.command)
    assert [] == ledger.problems(oracle) + ledger.holes(oracle)
    assert SimpleString(b"OK") == oracle.call("LSET", "k", 0, b"7.1,")
    assert [] == ledger.problems(oracle)
    assert ["7.1 is there, 7.0 before it is not"] == ledger.holes(oracle)

    refused = Ledger()
    refused.add(write._replace(number=1), oracle.call("INCR", "k"))

    assert ["RPUSH k: 7.1 is there, but was answered b'WRONGTYPE"] == [
        problem.partition(" Operation")[0] for problem in refused.problems(oracle)
    ]
