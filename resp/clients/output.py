"""Replies and messages on their way to a client, in the order of its commands, and their limits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from engine import native
from engine.values.replies import Reply
from resp.clients.window import AHEAD_BYTES, HELD_BYTES_MAX, PENDING_REPLIES_MAX, Window

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


class Place(Protocol):
    """The place of a reply, which keeps the order of replies.

    Attributes:
        data: the encoded reply, once it is there.
    """

    data: bytes | None


class Recipient(Protocol):
    """A client that is sent replies.

    Attributes:
        authenticated: whether it has logged in, or needed no password when it came.
        closing: its connection is being closed.
        last_active: when bytes came from it, on the monotonic clock.
    """

    id: int
    authenticated: bool
    closing: bool
    last_active: float

    @property
    def must_log_in(self) -> bool:
        """Whether it is nobody yet."""
        ...

    @property
    def is_subscriber(self) -> bool:
        """Whether it listens to anything."""
        ...

    @property
    def owes_reply(self) -> bool:
        """Whether messages wait for the reply to the command at hand."""
        ...

    def kill(self) -> None:
        """Close its connection now."""
        ...


class Output:
    """Replies and messages on their way to one client, in order.

    Args:
        client: whose.
        transport: its connection's.
        config: has the limits.
        stats: counts what is sent, and who is over the limits.

    Attributes:
        pending_replies: the places of replies that are still to come, and of those behind them; empty most of the time.
        pending_reply_bytes: of the replies that are there, in these places.
        parts, run_bytes: encoded replies that leave with the next write, and their size in this run of commands.
        pushes: encoded messages that leave with it too, behind the replies that are there.
        waiting_since: when the bytes came whose replies are the next to be filled in.
        window: how far its commands may run ahead of its replies.
        sent_bytes: handed to the socket so far.
    """

    __slots__ = (
        *("_client", "_config", "_hot", "_stats", "_transport"),
        *("parts", "pending_replies", "pending_reply_bytes", "pushes", "run_bytes"),
        *("sent_bytes", "waiting_since", "window"),
    )

    def __init__(self, client: Recipient, transport: asyncio.Transport, config: Config, stats: Stats) -> None:
        self._client, self._transport, self._config, self._stats = client, transport, config, stats
        self._hot = native.chosen()
        self.pending_replies: deque[Place] = deque()
        self.parts: list[bytes] = []
        self.pushes: list[bytes] = []
        self.window = Window()
        self.waiting_since = client.last_active
        self.pending_reply_bytes = self.run_bytes = self.sent_bytes = 0

    # ------------------------------------------------------------------ how it is

    @property
    def waiting_bytes(self) -> int:
        """What waits to be sent, but for what is in `pending_replies`."""
        return self._transport.get_write_buffer_size() + sum(map(len, self.parts)) + sum(map(len, self.pushes))

    @property
    def is_full(self) -> bool:
        """Whether so many replies are still to come, or wait for those, that the client's commands should wait."""
        return len(self.pending_replies) > PENDING_REPLIES_MAX or self.pending_reply_bytes > AHEAD_BYTES

    @property
    def free_places(self) -> int:
        """How many more replies may wait before it is full, and the one that makes it so."""
        return PENDING_REPLIES_MAX + 1 - len(self.pending_replies)

    @property
    def limit(self) -> BufferLimit:
        """The limits that hold for the client."""
        limits: BufferLimits = self._config["client-output-buffer-limit"]
        return limits.pubsub if self._client.is_subscriber else limits.normal

    # ------------------------------------------------------------------ in

    def add(self, data: bytes) -> None:
        """A reply that is there at once; behind others that are still to come it waits."""
        if self.pending_replies:
            self.pending_replies.append(Filled(data))
            self.pending_reply_bytes += len(data)
        else:
            self.parts.append(data)
            self.run_bytes += len(data)
            if self.run_bytes > FLUSH_BYTES:
                self.write_much()

    def add_pushes(self) -> None:
        """Let the messages that are there stand behind the reply to the command at hand."""
        pushes, self.pushes = self.pushes, []
        for data in pushes:
            self.add(data)

    def swell(self, size: int) -> None:
        """Much waits, with a reply of `size` bytes that has just come: if it was too much before, the client goes."""
        held = self.pending_reply_bytes + self._transport.get_write_buffer_size()
        if held - size > HELD_BYTES_MAX and not self._client.closing:
            self._stats.output_limit_disconnections += 1
            logger.warning("client_asks_too_much", client=self._client.id, output_bytes=held)
            self._client.kill()

    def clear(self) -> None:
        """Drop everything: the client is gone."""
        self.pending_replies.clear()
        self.parts.clear()

    # ------------------------------------------------------------------ out

    def flush(self) -> None:
        """Send what is there, in order."""
        places = self.pending_replies
        if places and (data := places[0].data) is not None:
            if len(places) == 1 and len(data) <= FLUSH_BYTES:
                self._take_only(data)
            else:
                self._take_filled()
        if self.pushes and not self._client.owes_reply:
            self.parts += self.pushes
            self.pushes.clear()
        if self.parts:
            self.write_out()

    def _take_only(self, data: bytes) -> None:
        """`_take_filled` of the only reply, small: 0.2 µs less for a client that sends one command at a time."""
        self.pending_replies.clear()
        self.parts.append(data)
        self._stats.write_seconds.add(monotonic() - self.waiting_since)
        self.waiting_since = self._client.last_active
        self.window.learn(len(data), 1)
        self.pending_reply_bytes = 0

    def _take_filled(self) -> None:
        """Replies that had to wait, and are there."""
        pending_replies, parts = self.pending_replies, self.parts
        waiting = len(pending_replies)
        if self._hot is not None:
            self._hot.take_filled(pending_replies, parts)
        else:
            take_filled(pending_replies, parts)
        filled = waiting - len(pending_replies)
        self._stats.write_seconds.add(monotonic() - self.waiting_since, filled)
        self.waiting_since = self._client.last_active
        size = sum(map(len, parts))
        self.window.learn(size, filled)
        self.pending_reply_bytes = self.pending_reply_bytes - size if pending_replies else 0
        if size > FLUSH_BYTES:
            self.write_much()

    def write_out(self) -> None:
        """Hand what has come together to the socket."""
        parts, transport = self.parts, self._transport
        if parts:
            data = b"".join(parts)
            size = len(data)
            parts.clear()
            # `_fits`, which looks at the limits, takes 4,000 instructions; few bytes are within any.
            are_few = self._client.authenticated and transport.get_write_buffer_size() + size <= FREE_BYTES
            if not transport.is_closing() and (are_few or self._fits(size)):
                transport.write(data)
                self._stats.net_output_bytes += size
                self.sent_bytes += size
                self._stats.writes_processed += 1

    def write_much(self) -> None:
        """Hand a lot to the socket."""
        pieces = list(lumps(self.parts))
        self.parts.clear()
        for piece in pieces:
            self.parts.append(piece)
            self.write_out()
        self.run_bytes = 0

    def _fits(self, size: int) -> bool:
        """Whether `size` more bytes may wait, by `client-output-buffer-limit`; if not, the client is cut off.

        Redis counts what is behind the first 16 KiB, before any of it is sent: who asks for more than the limit at once
        gets nothing.
        """
        waiting = self._transport.get_write_buffer_size()
        if not self._client.must_log_in:
            most = self.limit.hard_bytes
            if not most or waiting + size - FREE_BYTES <= most:
                return True
        elif waiting <= _STRANGER_BYTES_MAX:
            return True
        self.cut_off(waiting + size)
        return False

    def cut_off(self, waiting_bytes: int) -> None:
        """End the connection of a client for which too much waits, and count it."""
        self._stats.output_limit_disconnections += 1
        logger.warning("client_too_slow", client=self._client.id, output_bytes=waiting_bytes)
        self._client.kill()


def take_filled(places: deque[Place], parts: list[bytes]) -> None:
    """Move the replies that are there, up to one that is not, to `parts`; the part in C does the same."""
    while places and (data := places[0].data) is not None:
        parts.append(data)
        places.popleft()


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
