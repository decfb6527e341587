"""`slotlog serve --resp` as a process: stopped under load, and replayed afterwards to the same state."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from tests.faults.service import ServiceProcess
from tests.ops.verbs import succeed
from tests.real.oracle import ErrorReply, SimpleString
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")
CLIENTS: Final = 8
DEPTH: Final = 16
ACKNOWLEDGED_MIN: Final = 300


class Service(ServiceProcess):
    """One with a RESP server on a free port."""

    def __init__(self, data: Path) -> None:
        super().__init__(["--data", str(data), "--http", "", "--resp", "127.0.0.1:0"], {"SLOTLOG_LOG_LEVEL": "info"})
        self.address = ("127.0.0.1", self.wait_for("resp")["port"])
        self.wait_for("started")


class Load:
    """A client that raises a counter of its own by pipelines until the server ends.

    Attributes:
        acknowledged: the highest number that it was told.
        refused: errors that it was told after the last number.
    """

    def __init__(self, number: int) -> None:
        self.key = f"n{number}"
        self.acknowledged = 0
        self.refused: list[bytes] = []
        self.overtaken = False

    async def run(self, address: tuple[str, int]) -> None:
        """Write until the connection ends."""
        client = await Client.connect(address)
        try:
            while True:
                client.send(*[["INCR", self.key]] * DEPTH)
                for _ in range(DEPTH):
                    self._take(await client.reply())
        except ConnectionError:
            client.close()

    def _take(self, reply: Any) -> None:
        if isinstance(reply, ErrorReply):
            self.refused.append(reply.text)
        else:
            self.overtaken |= bool(self.refused) or reply != self.acknowledged + 1
            self.acknowledged = reply


async def test_stop_under_load(tmp_path: Path) -> None:
    """SIGTERM: what was accepted is acknowledged, the rest refused in order, and the process ends.

    The next start has what was acknowledged and nothing else.
    """
    loads = [Load(number) for number in range(CLIENTS)]
    with Service(tmp_path) as service:
        async with asyncio.TaskGroup() as tasks:
            for load in loads:
                tasks.create_task(load.run(service.address))
            while min(load.acknowledged for load in loads) < ACKNOWLEDGED_MIN:  # noqa: ASYNC110 - it is told to nobody
                await asyncio.sleep(0.01)
            code = await asyncio.to_thread(service.terminate)
    with Service(tmp_path) as service:
        client = await Client.connect(service.address)
        there = [int(await client.call("GET", load.key)) for load in loads]
        client.close()
        again = await asyncio.to_thread(service.terminate)

    assert (0, 0) == (code, again)
    assert [load.acknowledged for load in loads] == there
    assert not any(load.overtaken for load in loads)
    assert {b"LOADING slotlog is shutting down; nothing was written"} >= {
        text for load in loads for text in load.refused
    }


def test_replay_decides_as_the_first_run_did(tmp_path: Path) -> None:
    """Transactions, lost watches, blocking pops, ticks and safe writes: `slotlog replay` comes to the same digest."""
    data = tmp_path / "data"
    with Service(data) as service:
        asyncio.run(_play(service.address))
        assert 0 == service.terminate()
    (replayed,) = json.loads(succeed("replay", "--data", data, "--to", tmp_path / "to", "--json"))["partitions"]

    assert replayed["digest"] == replayed["live_digest"]


async def _play(address: tuple[str, int]) -> None:
    watcher, other, popper = [await Client.connect(address) for _ in range(3)]
    popper.send(["BLPOP", "q", "r", "0"], ["BLMOVE", "q", "m", "LEFT", "LEFT", "0"], ["BLPOP", "none", "0.05"])
    await watcher.call("WATCH", "a")
    await other.call("SET", "a", "1", "PX", "30")
    for command in (["MULTI"], ["SET", "b", "lost"], ["EXEC"], ["WATCH", "c"], ["MULTI"], ["SET", "b", "kept"]):
        await watcher.call(*command)
    kept = await watcher.call("EXEC")
    await other.call("RPUSH", "q", "x", "y")
    popped = [await popper.reply() for _ in range(3)]
    await asyncio.sleep(0.03)
    gone = await other.call("GET", "a")
    once = [await other.call("SLOTLOG", "ONCE", "id", "INCR", "n") for _ in range(2)]
    await other.call("SWAPDB", "0", "1")
    await watcher.call("WATCH", "left")
    for client in (watcher, other, popper):
        client.close()

    assert ([OK], None, [1, 1]) == (kept, gone, once)
    assert [[b"q", b"x"], b"y"] == popped[:2]
