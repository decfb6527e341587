"""Encoded replies on their way to the socket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from engine.values.replies import Reply
from resp.clients.window import HELD_BYTES_MAX

if TYPE_CHECKING:
    import asyncio

    from resp.settings.config import Config
    from resp.settings.parameters import BufferLimit, BufferLimits
    from resp.statistics.stats import Stats

FLUSH_BYTES: Final = 256 * 1024
"""So much is handed to the socket before more is read."""

FREE_BYTES: Final = 16 * 1024
"""So much of what waits for a client is in a buffer that each has anyway, and counts for no limit, as in Redis."""

_STRANGER_BYTES_MAX: Final = 1024
"""Redis': who has not logged in gets short errors, and is to read them."""

logger = structlog.get_logger(__name__)


class Filled:
    """The place of a reply that was there at once, behind others that were not."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data: bytes | None = data


class Limits(Protocol):
    """Has the limits, and counts who is over them."""

    config: Config
    stats: Stats


class Recipient(Protocol):
    """A client that is sent replies.

    Attributes:
        authenticated: whether it has logged in.
        closing: its connection is being closed.
        parts, run_bytes: encoded replies that leave with the next write, and their size in this run of commands.
        pending_reply_bytes: of replies that wait for earlier ones.
    """

    id: int
    authenticated: bool
    closing: bool
    transport: asyncio.Transport
    parts: list[bytes]
    run_bytes: int
    pending_reply_bytes: int

    @property
    def server(self) -> Limits:
        """Whose client it is."""
        ...

    @property
    def is_subscriber(self) -> bool:
        """Whether it listens to anything."""
        ...

    def write_out(self) -> None:
        """Hand what has come together to the socket."""
        ...

    def kill(self) -> None:
        """Close its connection now."""
        ...


def write_much(session: Recipient) -> None:
    """Hand a lot to the socket."""
    pieces = list(lumps(session.parts))
    session.parts.clear()
    for piece in pieces:
        session.parts.append(piece)
        session.write_out()
    session.run_bytes = 0


def fits(session: Recipient, size: int) -> bool:
    """Whether `size` more bytes may wait for the client, by `client-output-buffer-limit`; if not, it is cut off.

    Redis counts what is behind the first 16 KiB, before any of it is sent: who asks for more than the limit at once
    gets nothing.
    """
    waiting = session.transport.get_write_buffer_size()
    if session.authenticated:
        most = limit_of(session).hard_bytes
        if not most or waiting + size - FREE_BYTES <= most:
            return True
    elif waiting <= _STRANGER_BYTES_MAX:
        return True
    cut_off(session, waiting + size)
    return False


def limit_of(session: Recipient) -> BufferLimit:
    """The limits that hold for the client."""
    limits: BufferLimits = session.server.config["client-output-buffer-limit"]
    return limits.pubsub if session.is_subscriber else limits.normal


def cut_off(session: Recipient, waiting: int) -> None:
    """End the connection of a client for which too much waits, and count it."""
    session.server.stats.output_limit_disconnections += 1
    logger.warning("client_too_slow", client=session.id, output_bytes=waiting)
    session.kill()


def swell(session: Recipient, size: int) -> None:
    """Much waits for a client, with a reply of `size` bytes that has just come: if it was too much before, it goes."""
    held = session.pending_reply_bytes + session.transport.get_write_buffer_size()
    if held - size > HELD_BYTES_MAX and not session.closing:
        session.server.stats.output_limit_disconnections += 1
        logger.warning("client_asks_too_much", client=session.id, output_bytes=held)
        session.kill()


def lumps(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces; what is large stays by itself, as joining it with others would copy it."""
    for is_large, group in groupby(parts, _is_large):
        some = list(group)
        yield from some if is_large else (b"".join(some),)


def _is_large(data: bytes) -> bool:
    return len(data) > FLUSH_BYTES


def to_nobody(_: Reply) -> bytes:
    """The encoding of a reply that is not sent, as its client is gone."""
    return b""
