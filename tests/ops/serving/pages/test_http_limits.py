"""HTTP clients are limited in time for a request and in connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ops.config import load_settings
from ops.serving.pages import http
from ops.serving.service import Service

REQUEST = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[http.HttpServer]:
    """A service's HTTP server."""
    service = Service(load_settings(data=directory / "data", http="127.0.0.1:0", resp="127.0.0.1:0"))
    running = asyncio.create_task(service.run())
    try:
        async with asyncio.timeout(60):
            while service.http is None or not service.http.port:  # noqa: ASYNC110 - told to nobody
                await asyncio.sleep(0.01)
        yield service.http
    finally:
        service.stop()
        await running


async def half_open(server: http.HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has sent half of a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(REQUEST[:28])  # up to the first header's value
    return reader, writer


async def all_said(reader: asyncio.StreamReader) -> bytes:
    """What comes before the connection is closed, in whichever way."""
    try:
        return await reader.read()
    except ConnectionResetError:  # it was sending when it was closed
        return b""


async def test_half_a_request_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends on, byte by byte and never all of it, is closed as well as one that sends nothing more."""
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.3)
    async with served(tmp_path) as server:
        silent, silent_writer = await half_open(server)
        slow, slow_writer = await half_open(server)

        async def drip() -> None:
            while not slow_writer.transport.is_closing():
                slow_writer.write(b"x")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(60):
            said = [await all_said(silent), await all_said(slow)]
        await dripping
        for writer in (silent_writer, slow_writer):
            writer.close()

    assert [b"", b""] == said


async def test_many_connections_shut_nobody_out(tmp_path: Path) -> None:
    """Of 200 half-open ones the oldest give way; a probe is answered at once, and the process holds no more than 64."""
    async with served(tmp_path) as server:
        clients = [await half_open(server) for _ in range(200)]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(REQUEST)
        async with asyncio.timeout(60):
            status = await reader.readline()
            oldest = await all_said(clients[0][0])
        assert server._runner is not None
        assert server._runner.server is not None
        there = [each for each in server._runner.server.connections if each.transport is not None]
        for _, each in (*clients, (reader, writer)):
            each.close()

    assert b"HTTP/1.1 200 OK\r\n" == status
    assert b"" == oldest
    assert len(there) <= http.CONNECTIONS_MAX
