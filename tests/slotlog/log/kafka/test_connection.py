"""A connection that was never made keeps no socket."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest
import trustme
from aiokafka.errors import KafkaError

from slotlog.log.kafka.connection import KafkaConnection


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signed the certificate of the silent broker."""
    return trustme.CA()


@pytest.fixture
async def silent_port(authority: trustme.CA) -> AsyncIterator[int]:
    """The port of a server that makes TLS connections, then neither reads nor says anything."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    writers = list[asyncio.StreamWriter]()

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.transport.pause_reading()  # type: ignore[attr-defined] # a transport that is read from as well

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    for writer in writers:
        writer.transport.abort()
    server.close()
    await server.wait_closed()


async def test_what_was_not_made_is_closed_at_once(authority: trustme.CA, silent_port: int) -> None:
    """A connection over TLS on which the broker says nothing is closed without its farewell, which may never come."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    connection = KafkaConnection(
        "127.0.0.1", silent_port, security_protocol="SSL", ssl_context=context, request_timeout_ms=500
    )

    with pytest.raises((KafkaError, TimeoutError)):
        await connection.connect()
    await asyncio.wait_for(connection.close(), 10)
