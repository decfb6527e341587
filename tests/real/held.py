"""A link to a Kafka broker that holds one kind of request before the broker, or the answer to it.

Clients that were told of the link alone stay behind it: in the broker's answers its own address is that of the link.
A frame of Kafka's protocol is its length in 4 bytes, and that of a request begins with its kind in 2.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from tests.real.link import EndedError, Link

DELETE_RECORDS: Final = 21
"""The kind of the request, `ApiKeys.DELETE_RECORDS`."""

_HOST: Final = b"127.0.0.1"
_LENGTH_BYTES: Final = 4


class HoldingLink(Link):
    """A link that lets everything through until the first request of a kind.

    Args:
        port: to listen on.
        bootstrap: HOST:PORT of the broker.
        kind: of the request.
        arrives: whether the request arrives at the broker; then nothing more comes back, else it does not go on.

    Attributes:
        is_held: set when the request is held, or was sent on.
    """

    def __init__(self, port: int, bootstrap: str, kind: int, *, arrives: bool) -> None:
        host, _, to_port = bootstrap.rpartition(":")
        super().__init__(port, int(to_port))
        self.is_held = threading.Event()
        self._kind = kind.to_bytes(2, "big")
        self._arrives = arrives
        self._addresses = _packed(host.encode(), int(to_port)), _packed(_HOST, port)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_client: bool) -> None:
        while True:
            frame = await _frame(reader)
            if to_client:
                await self._is_open.wait()
                frame = frame.replace(*self._addresses)
            elif frame.startswith(self._kind):
                self._is_open.clear()
                self.is_held.set()
                if not self._arrives:
                    await self._is_open.wait()
            writer.write(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)
            await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readexactly(int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big"))
    except asyncio.IncompleteReadError as error:
        raise EndedError from error


def _packed(host: bytes, port: int) -> bytes:
    return len(host).to_bytes(2, "big") + host + port.to_bytes(4, "big")
