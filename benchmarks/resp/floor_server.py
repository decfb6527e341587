"""Serves what a durable write costs without an engine: uvloop, one file, one fdatasync for what came in a turn.

    python -m benchmarks.resp.floor_server PORT FILE

It keeps the bytes of writes, as a log would, and no state. So it answers `:1` to each, and tells in INFO how many it
answered and what CPU time it took.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections import Counter
from typing import Final, cast

import uvloop

_ONE: Final = b":1\r\n"


class Floor:
    """Gathers the writes of one turn of the event loop, and answers them behind their fdatasync.

    Args:
        file: a descriptor, at whose end they are written.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._waiting: list[tuple[asyncio.Transport, bytes]] = []
        self._calls: Counter[bytes] = Counter()

    def take(self, transport: asyncio.Transport, name: bytes, command: bytes) -> None:
        """Answer one command, as it came from a client; a write in the next turn."""
        if name == b"INFO":
            transport.write(self._info())
        elif name == b"CONFIG":
            transport.write(b"*0\r\n")
        elif name == b"EXISTS":
            transport.write(b":0\r\n")
        else:
            self._calls[name] += 1
            if not self._waiting:
                asyncio.get_running_loop().call_soon(self._keep)
            self._waiting.append((transport, command))

    def _keep(self) -> None:
        waiting, self._waiting = self._waiting, []
        os.write(self._file, b"".join([command for _, command in waiting]))
        os.fdatasync(self._file)
        for transport, _ in waiting:
            transport.write(_ONE)

    def _info(self) -> bytes:
        spent = resource.getrusage(resource.RUSAGE_SELF)
        lines = [b"used_cpu_user:%f" % spent.ru_utime, b"used_cpu_sys:%f" % spent.ru_stime]
        lines += [b"cmdstat_%s:calls=%d,failed_calls=0" % (name.lower(), n) for name, n in self._calls.items()]
        text = b"\r\n".join(lines)
        return b"$%d\r\n%s\r\n" % (len(text), text)


class Client(asyncio.Protocol):
    """A connection, whose commands are arrays of bulk strings without a line's end in them, as redis-benchmark's."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._transport = cast("asyncio.Transport", None)
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Answer on this transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take each command that is whole."""
        lines = (self._rest + data).split(b"\r\n")
        at = 0
        while len(lines) > at + (words := 2 * int(lines[at][1:] or 0)) + 1 and words:
            self._floor.take(self._transport, lines[at + 2].upper(), b"\r\n".join(lines[at : at + words + 1]))
            at += words + 1
        self._rest = b"\r\n".join(lines[at:])


async def main(port: int, path: str) -> None:
    """Serve until killed."""
    floor = Floor(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600))
    server = await asyncio.get_running_loop().create_server(lambda: Client(floor), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2]))
