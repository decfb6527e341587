"""Workers in this process that talk to each other, and a test that stands in for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from resp.cluster.bus import wire
from resp.cluster.bus.link import Link, Loss
from tests.real.process import free_ports
from tests.resp.harness import PATIENCE_SECONDS, Live, serving, until
from tests.wire.client import Client

TIMEOUT_S = 0.3
"""Of nodes, where a test waits until one counts as failed."""

LONG_S = 60.0
"""Where none shall."""


def peers_of(ports: list[int]) -> str:
    """One partition for each port."""
    return ",".join(f"{partition}=127.0.0.1:{port}" for partition, port in enumerate(ports))


class Workers:
    """Workers on one log, a partition each, that can be started and stopped one by one."""

    def __init__(self, directory: Path, ports: list[int], settings: dict[str, Any]) -> None:
        self._directory = directory
        self._ports = ports
        self._settings = settings
        self._stacks: dict[int, AsyncExitStack] = {}

    async def start(self, number: int, **settings: Any) -> Live:
        """Start one."""
        stack = self._stacks[number] = AsyncExitStack()
        own, count = (number,), len(self._ports)
        all_settings = {"peers": peers_of(self._ports), **self._settings, **settings}
        running = serving(self._directory, partitions=count, own=own, port=self._ports[number], settings=all_settings)
        return await stack.enter_async_context(running)

    async def stop(self, number: int) -> None:
        """End one."""
        await self._stacks.pop(number).aclose()

    async def stop_all(self) -> None:
        """End those that run."""
        for number in list(self._stacks):
            await self.stop(number)


@asynccontextmanager
async def workers(directory: Path, count: int, **settings: Any) -> AsyncIterator[Workers]:
    """Workers of one log, none of which is started yet."""
    made = Workers(directory, free_ports(count), {"node_timeout_seconds": LONG_S, **settings})
    try:
        yield made
    finally:
        await made.stop_all()


@asynccontextmanager
async def connected(directory: Path, count: int, **settings: Any) -> AsyncIterator[list[Live]]:
    """Workers of one log whose links are up."""
    async with workers(directory, count, **settings) as made:
        lives = [await made.start(number) for number in range(count)]
        for live in lives:
            await until(lambda: all(link.is_up for link in live.server.bus.links.values()))  # noqa: B023 - called at once
        yield lives


def link_of(live: Live) -> Link:
    """The link to the only other worker."""
    (link,) = live.server.bus.links.values()
    return link


def lost(live: Live) -> dict[str, int]:
    """What a worker has lost, by reason."""
    return {str(loss): live.server.bus.lost(loss) for loss in Loss if live.server.bus.lost(loss)}


async def listening(live: Live, *command: str) -> Client:
    """A client that has subscribed."""
    client = await live.client()
    await client.call(*command)
    return client


async def heard(client: Client, count: int) -> list[Any]:
    """The next messages."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [await client.reply() for _ in range(count)]


Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[bool]]


@asynccontextmanager
async def facing(tmp_path: Path, answer: Answer, **settings: Any) -> AsyncIterator[Live]:
    """A worker whose peer is a test: it is told of each command there, and whether to hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        more = True
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # the worker has hung up
            while more and (head := await reader.readline()):
                words = [await reader.readexactly(int((await reader.readline())[1:]) + 2) for _ in range(int(head[1:]))]
                more = await answer(words[1][:-2], writer)
        writer.transport.abort()

    served = set[asyncio.Task[Any] | None]()
    port, other = free_ports(2)
    fake = await asyncio.start_server(serve, "127.0.0.1", other)
    all_settings = {"peers": peers_of([port, other]), "node_timeout_seconds": LONG_S, **settings}
    try:
        async with serving(tmp_path, partitions=2, own=(0,), port=port, settings=all_settings) as live:
            yield live
    finally:
        fake.close()
        await asyncio.sleep(0)  # who has connected just now is served, too
        await asyncio.gather(*filter(None, served))  # the worker has hung up


BEAT = b"+" + wire.Beat("0" * 40, (1,), loading=False, offset=7, failing=()).pack() + b"\r\n"
