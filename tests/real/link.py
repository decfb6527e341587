"""A TCP proxy before one server: a link that can be slow, cut in a frame, or half-open.

clients ──▶ listening port ──▶ the server's port, with what `Link` says in between
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Final, Self

_CHUNK_BYTES: Final = 64 * 1024
_RETRY_SECONDS: Final = 0.05


class Link:
    """A link that is up, in a thread of its own, from `start` to `stop`.

    Args:
        port: to listen on.
        to_port: of the server; while nobody listens there, clients are refused.

    Attributes:
        delay_seconds: how much later each piece of data arrives, in both directions.
        cut: connections that were cut in the middle of a frame.
        held: pieces of data that waited while the link was half-open.
    """

    def __init__(self, port: int, to_port: int) -> None:
        self.port = port
        self.delay_seconds = 0.0
        self.cut = self.held = 0
        self._to_port = to_port
        self._cuts = {True: 0, False: 0}  # to come, by whether towards the client
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._pairs: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def stop(self) -> None:
        """End every connection, and listen no more."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self.stop_connections()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def stop_connections(self) -> None:
        """Reset every connection."""
        asyncio.run_coroutine_threadsafe(self._reset(), self._loop).result()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def cut_in_frame(self, frames: int, *, to_client: bool) -> None:
        """Let the next so many pieces in this direction arrive without their last byte, and reset their connections."""
        self._cuts[to_client] += frames

    def half_open(self) -> None:
        """From now on nothing arrives, in either direction, and nobody is told: connections stay, and new ones come."""
        self._loop.call_soon_threadsafe(self._is_open.clear)

    def mend(self) -> None:
        """What was held arrives now, late, and the link is as it was at first."""
        self.delay_seconds = 0.0
        self._cuts = dict.fromkeys(self._cuts, 0)
        self._loop.call_soon_threadsafe(self._is_open.set)

    # ------------------------------------------------------------------ in its thread

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def _close(self) -> None:
        self._server.close()

    async def _reset(self) -> None:
        tasks = list(self._pairs)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to_port)
        except OSError:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._pairs[task] = writer, back
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pump(reader, back, to_client=False))
                tasks.create_task(self._pump(there, writer, to_client=True))
        except* (OSError, EndedError):
            pass
        finally:
            del self._pairs[task]
            for each in (writer, back):
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_client: bool) -> None:
        """Carry what comes in one direction; one end's end is the end of both."""
        while data := await reader.read(_CHUNK_BYTES):
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            if not self._is_open.is_set():
                self.held += 1
                await self._is_open.wait()
            if self._cuts[to_client]:
                self._cuts[to_client] -= 1
                self.cut += 1
                writer.write(data[:-1])
                await writer.drain()
                await asyncio.sleep(_RETRY_SECONDS)  # it arrives before the reset, which would drop it
                raise EndedError
            writer.write(data)
            await writer.drain()
        raise EndedError


class EndedError(Exception):
    """A connection has ended, or is to end."""
