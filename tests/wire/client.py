"""A client on asyncio that pipelines, and gives replies as they are: values as in `tests.real.oracle`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, Self

from tests.real.oracle import SCALARS, MapReply, NullArray, SetReply, request

_LINE_BYTES_MAX: Final = 1 << 20


class Client:
    """One connection. Whatever ends it early is a ConnectionError: what was sent and not answered is in doubt."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, address: tuple[str, int]) -> Self:
        """A new connection.

        Raises:
            ConnectionError: nobody listens, or the server went away meanwhile.
        """
        return cls(*await asyncio.open_connection(*address, limit=_LINE_BYTES_MAX))

    def send(self, *commands: Iterable[bytes | str | float]) -> None:
        """Hand commands to the kernel in one write; the replies are read one by one with `reply`."""
        self.send_bytes(b"".join(map(request, commands)))

    def send_bytes(self, data: bytes) -> None:
        """Hand any bytes to the kernel, such as a piece of a command."""
        self._writer.write(data)

    async def call(self, *args: bytes | str | float) -> Any:
        """Send one command and wait for its reply."""
        self.send(args)
        return await self.reply()

    async def reply(self) -> Any:
        """The next reply."""
        try:
            return await self._read()
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the server closed the connection") from error

    def close(self) -> None:
        """Close it, replies or not."""
        self._writer.transport.abort()

    async def _read(self) -> Any:
        line = await self._reader.readuntil(b"\r\n")
        kind, body = line[:1], line[1:-2]
        if kind in b"$=":
            return await self._bulk(int(body), verbatim=kind == b"=")
        if kind in b"*~>%":
            return await self._aggregate(kind, int(body))
        return SCALARS[kind](body)

    async def _bulk(self, length: int, *, verbatim: bool) -> bytes | None:
        if length < 0:
            return None
        data = (await self._reader.readexactly(length + 2))[:-2]
        return data[4:] if verbatim else data

    async def _aggregate(self, kind: bytes, count: int) -> Any:
        if count < 0:
            return NullArray()
        if kind == b"%":
            return MapReply([(await self._read(), await self._read()) for _ in range(count)])
        items = [await self._read() for _ in range(count)]
        return SetReply(items) if kind == b"~" else items
