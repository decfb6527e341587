"""The connection to one other worker: reconnects, asks for its state, sends messages.

    connecting -> greeting -> up: beats and messages, each answered in its order -> down, and again

Messages wait while the link is down, until the other worker counts as failed: from then on they are lost, until it
calls by itself. What had been sent when a link broke is not sent again, as it may have arrived. Whatever is lost is
counted, by its reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Final

import structlog

from ingest.reporting.rate_limited import RateLimitedLog
from resp.cluster.bus import wire
from resp.cluster.bus.wire import Beat
from resp.cluster.nodes import Node
from slotlog.clock import now_ms

QUEUE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of messages for one worker, on their way or waiting; as much as may wait for a subscriber."""

BEATS_A_TIMEOUT: Final = 5
_SILENT_TIMEOUTS: Final = 2
"""After so many time-outs without an answer the connection is made anew: packets may go nowhere, for ever."""

_RETRY_SECONDS: Final = 0.2
_HURRY_SECONDS: Final = 0.05
_FOLLOW_SECONDS: Final = 0.1
_LINE_BYTES_MAX: Final = 1024 * 1024
_BEAT: Final = -1
_CLOSED: Final = "it closed the connection"

logger = structlog.get_logger(__name__)


class Loss(StrEnum):
    """The reason why a message does not reach a worker's clients. The value is a metric's label."""

    UNREACHABLE = "unreachable"
    FULL = "full"
    UNCONFIRMED = "unconfirmed"
    REFUSED = "refused"


class LinkError(Exception):
    """The other side does not take this worker, or is none."""


@dataclass(frozen=True, slots=True)
class Dial:
    """The settings of connections to other workers.

    Attributes:
        hello: the first words.
        user: to log in as.
        password: tells the password to log in with now; an empty one: not at all.
        tls: for connections over TLS; None: plain ones.
        timeout_seconds: after which a worker that does not answer is suspected.
    """

    hello: bytes
    user: str
    password: Callable[[], str] = field(repr=False)
    tls: ssl.SSLContext | None
    timeout_seconds: float


class Link:
    """The link to one other worker.

    Args:
        node: that worker.
        dial: how to call it.
        heard: told of each answer about how it is.

    Attributes:
        is_up: whether it has taken this worker's greeting.
        beat: its last answer; None before the first.
        heard_at: when that came, on the monotonic clock; before the first, when the link was made.
        up_since_ms: wall time at which the link came up.
        asked_ms, answered_ms: wall time of a question that is not answered, 0 if there is none, and of the last answer.
        given_up: the worker counts as failed: nothing is kept for it.
        reason: why the link is down.
        sent: messages that were handed over.
        lost: messages that were not, by reason.
        beats: questions asked and answered.
        waiting_bytes: of messages that wait, or are not answered.
        follows: this worker follows partitions of it, and hears often how far it has applied them.
        own_told: which partitions it said to own when that did not fit; None before.
    """

    def __init__(self, node: Node, dial: Dial, heard: Callable[[Link], None]) -> None:
        self.node = node
        self.is_up = False
        self.beat: Beat | None = None
        self.heard_at = monotonic()
        self.up_since_ms = self.asked_ms = self.answered_ms = 0
        self.given_up = False
        self.reason = "not connected yet"
        self.sent = 0
        self.lost: Counter[Loss] = Counter(dict.fromkeys(Loss, 0))
        self.beats = 0
        self.waiting_bytes = 0
        self.follows = False
        self.own_told: tuple[int, ...] | None = None
        self._dial = dial
        self._heard = heard
        self._writer: asyncio.StreamWriter | None = None
        self._queue: deque[bytes] = deque()
        self._unanswered: deque[int] = deque()  # bytes of each message, _BEAT for a question
        self._scheduled = False
        self._losses = RateLimitedLog()
        self._called = asyncio.Event()
        self._hurried = asyncio.Event()
        self._on_trial = False

    async def run(self) -> None:
        """Keep the link up until cancelled."""
        while True:
            self._called.clear()
            on_trial, self._on_trial = self._on_trial, False
            try:
                await self._connected()
            except (OSError, EOFError, ValueError, LinkError) as error:  # a time-out and TLS' errors are OSErrors
                self.reason = str(error) or type(error).__name__
            finally:
                self._down()
            if on_trial and self.is_silent:  # it can call, and cannot be called
                self.give_up()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._called.wait()

    @property
    def is_silent(self) -> bool:
        """Whether it has not answered for the time-out."""
        return monotonic() - self.heard_at > self._dial.timeout_seconds

    def call_back(self) -> None:
        """The worker has called, so it is there: call it at once, and keep messages for it until that has failed."""
        if not self.is_up:
            self._on_trial = self._on_trial or self.given_up
            self.given_up = False
            self._called.set()

    def hurry(self) -> None:
        """Ask it soon: somebody waits for its next answer."""
        self._hurried.set()

    def send(self, data: bytes) -> None:
        """Hand a message over, in the order of the calls."""
        if self.given_up and not self.is_up:
            self._lose(Loss.UNREACHABLE, 1)
        elif self.waiting_bytes + len(data) > QUEUE_BYTES_MAX:
            self._lose(Loss.FULL, 1)
        else:
            self._queue.append(data)
            self.waiting_bytes += len(data)
            self._flush_soon()

    def give_up(self) -> None:
        """The worker counts as failed: what waits for it is lost."""
        self.given_up = True
        if not self.is_up:
            self._lose(Loss.UNREACHABLE, len(self._queue))
            self.waiting_bytes -= sum(map(len, self._queue))
            self._queue.clear()

    # ------------------------------------------------------------------ one connection

    async def _connected(self) -> None:
        """Connect and talk; ends with the error that ends the connection."""
        host, port = self.node.address
        dial = self._dial
        async with asyncio.timeout(dial.timeout_seconds):
            reader, writer = await asyncio.open_connection(host, port, ssl=dial.tls, limit=_LINE_BYTES_MAX)
        self._writer = writer
        async with asyncio.timeout(dial.timeout_seconds):
            if password := dial.password():
                await self._greet(reader, writer, wire.auth(dial.user, password))
            await self._greet(reader, writer, dial.hello)
        self.is_up = True
        self.up_since_ms = now_ms()
        self.reason = ""
        logger.info("peer_connected", address=_shown(self.node), node=self.node.node_id)
        self._flush_soon()
        asking = asyncio.create_task(self._ask())
        try:
            while True:
                self._answered(await _line(reader))
        finally:
            asking.cancel()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, words: bytes) -> None:
        if writer.is_closing():
            raise EOFError(_CLOSED)
        writer.write(words)
        line = await _line(reader)
        if line != b"+OK":
            raise LinkError(f"it answers {line[:200].decode(errors='backslashreplace')!r}")

    async def _ask(self) -> None:
        """Ask how it is, again and again; break the connection off when no answer comes."""
        assert self._writer is not None
        asked_at = monotonic()
        while not self._writer.is_closing():
            if not self.asked_ms:
                asked_at, self.asked_ms = monotonic(), now_ms()
                self._unanswered.append(_BEAT)
                self._writer.write(wire.BEAT)
            elif monotonic() - asked_at > _SILENT_TIMEOUTS * self._dial.timeout_seconds:
                self.reason = "it does not answer"
                self._writer.transport.abort()
                return
            await self._rest()

    async def _rest(self) -> None:
        """Wait until it is time for the next question."""
        seconds = self._dial.timeout_seconds / BEATS_A_TIMEOUT
        if self.follows:
            seconds = min(seconds, _FOLLOW_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurried.wait()
            await asyncio.sleep(min(seconds, _HURRY_SECONDS))

    def _answered(self, line: bytes) -> None:
        """One answer has come: to the oldest of what was sent."""
        if not self._unanswered:
            raise LinkError("it answers without a question")
        size = self._unanswered.popleft()
        if size == _BEAT:
            self._note_beat(line)
            return
        self.waiting_bytes -= size
        if line.startswith(b":"):
            self.sent += 1
        else:
            self.reason = f"it answers {line[:200].decode(errors='backslashreplace')!r}"
            self._lose(Loss.REFUSED, 1)

    def _note_beat(self, line: bytes) -> None:
        if not line.startswith(b"+"):
            raise LinkError(f"it answers {line[:200].decode(errors='backslashreplace')!r}")
        self.beat = wire.unpack_beat(line[1:])
        self.beats += 1
        self._hurried.clear()
        self.asked_ms, self.answered_ms = 0, now_ms()
        self.heard_at = monotonic()
        self.given_up = False
        self._heard(self)

    def _down(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        if self.is_up:
            self.is_up = False
            if self.reason:  # else it is this worker that ends
                logger.warning(
                    "peer_disconnected", address=_shown(self.node), node=self.node.node_id, reason=self.reason
                )
        self.asked_ms = 0
        sizes = [size for size in self._unanswered if size != _BEAT]
        self._unanswered.clear()
        self.waiting_bytes -= sum(sizes)
        self._lose(Loss.UNCONFIRMED, len(sizes))
        if self.given_up:
            self.give_up()

    # ------------------------------------------------------------------ messages

    def _flush_soon(self) -> None:
        """All messages of one turn of the event loop leave in one write."""
        if self.is_up and self._queue and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Send what waits, unless the connection has just broken, which uvloop answers with an error."""
        self._scheduled = False
        if self.is_up and self._writer is not None and not self._writer.is_closing():
            self._unanswered.extend(map(len, self._queue))
            self._writer.write(b"".join(self._queue))
            self._queue.clear()

    def _lose(self, loss: Loss, messages: int) -> None:
        self.lost[loss] += messages
        if messages and (count := self._losses.count(messages)):
            logger.warning(
                "peer_messages_lost", address=_shown(self.node), why=str(loss), count=count, reason=self.reason
            )


async def _line(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError(_CLOSED)
    return line[:-2]


def _shown(node: Node) -> str:
    return f"{node.host}:{node.port}"
