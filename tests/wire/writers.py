"""Many clients that pipeline writes at the same time and note every reply in a ledger."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import count
from typing import Final

from tests.real.oracle import ErrorReply
from tests.wire.client import Client
from tests.wire.ledger import KINDS, Ledger, Outcome, Write

DEPTH_MAX: Final = 16
KEYS: Final = 5
_PAUSE_AFTER_ERROR_S: Final = 0.2


class Writers:
    """`clients` connections that write until they are stopped or their server goes away.

    Args:
        address: of the server.
        clients: how many.
        prefix: of the keys of this run.
        seed: of all that is random; what the server does in between is not.
    """

    def __init__(self, address: tuple[str, int], clients: int, prefix: str, seed: int) -> None:
        self.ledger = Ledger()
        self._address = address
        self._clients = clients
        self._prefix = prefix
        self._seed = seed
        self._stopped = False
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Write until `stop`, or until every connection has ended."""
        clients = [await Client.connect(self._address) for _ in range(self._clients)]
        async with asyncio.TaskGroup() as tasks:
            for line, client in enumerate(clients):
                tasks.create_task(self._write(line, client, random.Random(f"{self._seed}.{line}")))

    def stop(self) -> None:
        """Let every client end after the pipeline that it is at."""
        self._stopped = True

    async def wait_until(self, true: Callable[[Ledger], bool], seconds: float) -> None:
        """Until the ledger is as it should be.

        Raises:
            TimeoutError: it took longer than `seconds`.
        """
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: true(self.ledger))

    async def _write(self, line: int, client: Client, choose: random.Random) -> None:
        numbers = count()
        try:
            while not self._stopped:
                pipeline = [self._choose(line, next(numbers), choose) for _ in range(choose.randint(1, DEPTH_MAX))]
                failed = await self._send(client, pipeline)
                async with self._changed:
                    self._changed.notify_all()
                if failed:
                    await asyncio.sleep(_PAUSE_AFTER_ERROR_S)
        except ConnectionError:
            pass
        finally:
            client.close()

    def _choose(self, line: int, number: int, choose: random.Random) -> Write:
        kind = choose.choice(KINDS)
        return Write(line, number, kind, f"{self._prefix}:{kind}:{choose.randrange(KEYS)}".encode())

    async def _send(self, client: Client, pipeline: list[Write]) -> bool:
        """Send all, note each reply; whether one was an error."""
        client.send(*(write.command for write in pipeline))
        failed = False
        answered = 0
        try:
            for write in pipeline:
                reply = await client.reply()
                self.ledger.add(write, reply)
                answered += 1
                failed = failed or isinstance(reply, ErrorReply)
        except ConnectionError:
            for write in pipeline[answered:]:
                self.ledger.add(write, None)
            raise
        return failed


def acknowledged(number: int) -> Callable[[Ledger], bool]:
    """Whether so many writes have been acknowledged."""
    return lambda ledger: ledger.counts[Outcome.ACKNOWLEDGED] >= number
