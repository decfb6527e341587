"""The way of usual commands in C leaves to Python what is not usual, and changes nothing then."""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from resp.clients import client_path
from resp.clients.output import FREE_BYTES, Filled
from resp.clients.session import Session
from resp.clients.window import AHEAD_BYTES, DATA_BYTES_MAX
from resp.writes.answers import PENDING_BYTES_MAX, PENDING_EVENTS_MAX
from tests.engine.native.twins import running
from tests.real.oracle import request
from tests.resp.harness import serving

GET: Final = request([b"GET", b"k"])
SET: Final = request([b"SET", b"k", b"v"])


class _Connected:
    """A client's session, and all that its server counts of it.

    Attributes:
        session, server, path, output, answers: those of it.
    """

    def __init__(self, server: Any) -> None:
        self.server = server
        (self.session,) = server.sessions.values()
        self.path, self.output, self.answers = server.client_path, self.session.output, server.pipelines[0].answers

    def counted(self) -> list[Any]:
        """Everything that it may count or change."""
        session, output, stats = self.session, self.output, self.server.stats
        names = "last_active", "last_command", "received_bytes", "received_commands", "query_bytes"
        counts = stats.net_input_bytes, stats.net_output_bytes, stats.reads_processed, stats.writes_processed
        seconds = stats.request_seconds.sum, stats.write_seconds.sum, sum(stats.request_seconds.counts)
        calls = [self.server.plans.by_name[name].calls for name in (b"GET", b"SET")]
        places = len(output.pending_replies), output.pending_reply_bytes, output.waiting_since, list(output.parts)
        waiting = self.answers.pending_events, self.answers.pending_bytes, stats.keyspace_hits
        return [[getattr(session, name) for name in names], counts, seconds, calls, places, waiting]


@asynccontextmanager
async def connected(directory: Path, partitions: int = 1) -> AsyncIterator[_Connected]:
    """A client that has written and read, so that all is usual; its key is in partition 0."""
    with running(natively=True):
        async with serving(directory / "log", cleans=False, partitions=partitions) as live:
            client = await live.client()
            for _ in range(20):  # its window opens by doubling
                await client.call("SET", "k", "v")
            await client.call("GET", "k")
            yield _Connected(live.server)


def _set(of: Callable[[_Connected], Any], name: str, value: Any) -> Callable[[_Connected], None]:
    return lambda client: setattr(of(client), name, value)


_session: Final = lambda client: client.session  # noqa: E731 - a name for the tables below
_output: Final = lambda client: client.output  # noqa: E731
_answers: Final = lambda client: client.answers  # noqa: E731
_EITHER: Final[dict[str, Callable[[_Connected], None]]] = {
    "it is closing": _set(_session, "closing", True),
    "it may not do all, or is held": _set(_session, "plain", False),
    "another database": _set(_session, "db", 1),
    "bytes came before": _set(_session, "query_bytes", 3),
    "it has not logged in": lambda client: setattr(client.session.parser, "authenticated", False),
    "within a command, or behind a wrong one": lambda client: setattr(client.session.parser, "is_between", False),
    "commands wait": lambda client: client.session.inbox.backlog.append([b"PING"]),
    "a command is suspended": lambda client: setattr(client.session.inbox, "fiber", object()),
    "a message waits": lambda client: client.output.pushes.append(b">0\r\n"),
    "its group may have given the partition away": lambda client: setattr(client.server, "owns_until", 0.0),
}
_READ: Final[dict[str, Callable[[_Connected], None]]] = {
    "behind a write": lambda client: client.output.pending_replies.append(Filled(b"+OK\r\n")),
    "replies wait": lambda client: client.output.parts.append(b"+OK\r\n"),
    "a machine left in the middle": lambda client: setattr(client.server.pipelines[0].machine, "is_held", True),
    "each read may be slow": lambda client: setattr(client.server.accounting, "_slow_seconds", 0.0009),
}
_WRITE: Final[dict[str, Callable[[_Connected], None]]] = {
    "many wait": _set(_answers, "pending_events", PENDING_EVENTS_MAX - 999),
    "much waits": _set(_answers, "pending_bytes", PENDING_BYTES_MAX),
    "large replies wait": _set(_output, "pending_reply_bytes", AHEAD_BYTES + 1),
    "somebody wants to know": lambda client: setattr(client.server.pipelines[0], "on_submitted", lambda *_: None),
}


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("data", "why"), [*((GET, why) for why in (*_EITHER, *_READ)), *((SET, why) for why in (*_EITHER, *_WRITE))]
)
async def test_a_command_is_left(tmp_path: Path, data: bytes, why: str, partitions: int) -> None:
    """Whatever is not usual with its client or server: nothing is counted, and it is neither answered nor queued."""
    async with connected(tmp_path, partitions) as client:
        (_EITHER | _READ | _WRITE)[why](client)
        before = client.counted()

        assert (0, before) == (client.path.take(client.session, data), client.counted())
        client.answers.pending_events = client.answers.pending_bytes = 0
        client.session.closing = False
        client.session.kill()


@pytest.mark.parametrize("data", [GET, SET])
async def test_others_are_sent_what_is_there_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """Where all that a client has sent was taken, and not where Python goes on behind it."""
    async with connected(tmp_path) as client:
        flushed: list[Any] = []
        with monkeypatch.context() as patched:
            patched.setattr(type(client.server), "flush", lambda _: flushed.append(len(client.server.ready)))
            client.path.take(client.session, data)
            assert [] == flushed
            client.server.ready[client.session] = None
            client.path.take(client.session, SET + b"PING\r\n")
            assert [] == flushed
            client.path.take(client.session, SET)

            assert [1] == flushed
        client.server.ready.clear()


async def test_writes_look_at_the_clock_once_in_a_millisecond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next ones go by the same time; behind that millisecond one looks anew."""
    now_s = [1000.0]
    monkeypatch.setattr(client_path, "monotonic", lambda: now_s[0])
    async with connected(tmp_path) as client:
        looks = []
        for seconds in (0.01, 0.0, 0.0005, 0.0015):
            now_s[0] += seconds
            client.server.wall_ms = 0
            client.path.take(client.session, SET)
            looks.append(client.server.wall_ms > 0)

        assert [True, False, False, True] == looks
        client.session.kill()


@pytest.mark.parametrize(
    "data",
    [
        GET[:-1],
        GET + GET,
        GET + SET,
        b"PING\r\n",
        b"",
        request([b"GET", b"none"]),
        request([b"NOPE"]),
        b"x" * DATA_BYTES_MAX,
    ],
)
async def test_other_bytes_are_left(tmp_path: Path, data: bytes) -> None:
    """A piece of a command, many of which not all are writes, what is not in memory, other commands, and nonsense."""
    async with connected(tmp_path) as client:
        before = client.counted()

        assert (0, before) == (client.path.take(client.session, data), client.counted())


async def test_writes_are_left_where_any_partition_is_not_usual(tmp_path: Path) -> None:
    """A lot of bytes with writes to several partitions is Python's as a whole if one of these has much to do."""
    data = request([b"SET", b"k", b"v"]) + request([b"SET", b"b", b"v"])  # slots 7629 and 3300 of partition 0, 1 of 2
    data += request([b"SET", b"a", b"v"])  # slot 15495
    async with connected(tmp_path, 2) as client:
        other = client.server.pipelines[1].answers
        other.pending_events = PENDING_EVENTS_MAX
        before = client.counted()

        assert (0, before) == (client.path.take(client.session, data), client.counted())
        other.pending_events = 0
        assert len(data) == client.path.take(client.session, data)
        assert (2, 1) == (client.answers.pending_events, other.pending_events)
        assert client.answers.pending_bytes == 2 * other.pending_bytes


async def test_a_partition_that_is_not_served_is_left(tmp_path: Path) -> None:
    """What is before its first command is taken; MOVED is Python's to say."""
    at_hand, elsewhere = request([b"SET", b"k", b"v"]), request([b"SET", b"a", b"v"])
    async with connected(tmp_path, 2) as client:
        client.server.pipelines.pop(1)
        client.server.refresh()
        client.path = client.server.client_path

        assert len(at_hand) == client.path.take(client.session, at_hand + elsewhere)
        assert 0 == client.path.take(client.session, elsewhere)
        assert 0 == client.path.take(client.session, request([b"GET", b"a"]))


async def test_more_than_a_lot_is_left(tmp_path: Path) -> None:
    """How many items that would be, nobody knows before they are made."""
    async with connected(tmp_path) as client:
        assert 0 == client.path.take(client.session, SET * (DATA_BYTES_MAX // len(SET) + 1))


_REPLY: Final[dict[str, Callable[[_Connected], None]]] = {
    "it is being closed": _set(_session, "closing", True),
    "it has sent its last": _set(_session, "_finished", True),
    "it has sent what is none": _set(_session, "_ending", RuntimeError()),
    "commands wait for the reply": lambda client: client.session.inbox.backlog.append([b"PING"]),
    "a message waits": lambda client: client.output.pushes.append(b">0\r\n"),
    "replies wait": lambda client: client.output.parts.append(b"+OK\r\n"),
    "another reply waits": lambda client: client.output.pending_replies.append(Filled(b"+OK\r\n")),
    "its window is not open": lambda client: setattr(client.output.window, "commands", 16),
    "its socket is full": lambda client: setattr(client.output, "_transport", _Full()),
}


class _Open:
    """A socket that takes all.

    Args:
        sent: what it was given.
    """

    def __init__(self, sent: list[bytes]) -> None:
        self.write = sent.append

    def is_closing(self) -> bool:
        """It is open."""
        return False

    def get_write_buffer_size(self) -> int:
        """Nothing."""
        return 0


class _Full:
    """A socket that has taken all it takes."""

    def is_closing(self) -> bool:
        """It is open."""
        return False

    def get_write_buffer_size(self) -> int:
        """As much as counts for no limit."""
        return FREE_BYTES

    def write(self, data: bytes) -> None:
        """It must not be asked."""
        raise AssertionError(data)


def _noting(sessions: list[Any]) -> Callable[[Session], None]:
    """A method that notes whose it was."""

    def flush(session: Session) -> None:
        sessions.append(session)

    return flush


@pytest.mark.parametrize("why", _REPLY)
async def test_a_reply_is_left_to_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Whatever is not usual: `Session.flush` sends it, and what else is there."""
    async with connected(tmp_path) as client:
        assert len(SET) == client.path.take(client.session, SET)
        client.output.pending_replies[0].data = b"+OK\r\n"
        transport = client.output._transport
        _REPLY[why](client)
        flushed: list[Any] = []
        before = client.counted()
        with monkeypatch.context() as patched:
            patched.setattr(Session, "flush", _noting(flushed))
            client.path.send({client.session: None})

        assert ([client.session], before) == (flushed, client.counted())
        client.output._transport = transport
        client.session.kill()


async def test_a_reply_goes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all is usual Python is not asked; one that is not there yet it is asked about."""
    async with connected(tmp_path) as client:
        flushed: list[Any] = []
        client.path.take(client.session, SET)
        with monkeypatch.context() as patched:
            patched.setattr(Session, "flush", _noting(flushed))
            client.path.send([client.session])
            assert [client.session] == flushed
            client.output.pending_replies[0].data = b"+OK\r\n"
            client.output.pending_reply_bytes = 5
            sent = client.output.sent_bytes
            client.path.send([client.session])

        assert (1, 0, 0, 5) == (
            len(flushed),
            len(client.output.pending_replies),
            client.output.pending_reply_bytes,
            client.output.sent_bytes - sent,
        )


async def test_replies_of_a_pipeline_go_out_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one string, in order, and each is counted; while one of them is not there, Python is asked."""
    async with connected(tmp_path) as client:
        sent: list[bytes] = []
        flushed: list[Any] = []
        transport, client.output._transport = client.output._transport, _Open(sent)
        assert 3 * len(SET) == client.path.take(client.session, SET * 3)
        places = list(client.output.pending_replies)
        before = sum(client.server.stats.write_seconds.counts), client.server.stats.writes_processed
        with monkeypatch.context() as patched:
            patched.setattr(Session, "flush", _noting(flushed))
            for place, data in zip(places, [b"+OK\r\n", b":1\r\n", b"$-1\r\n"], strict=True):
                client.path.send([client.session])
                place.data = data
            client.path.send([client.session])
        after = sum(client.server.stats.write_seconds.counts), client.server.stats.writes_processed

        assert ([b"+OK\r\n:1\r\n$-1\r\n"], 3 * [client.session]) == (sent, flushed)
        assert (3, 1, 0) == (after[0] - before[0], after[1] - before[1], len(client.output.pending_replies))
        client.output._transport = transport


async def test_a_slow_read_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In SLOWLOG, and it counts as one call."""
    monkeypatch.setattr(client_path, "RUN_SECONDS", 0.0)
    async with connected(tmp_path) as client:
        client.server.accounting._slow_seconds = 0.0
        client.server.slowlog.slower_than_us = 0
        calls = client.server.plans.by_name[b"GET"].calls
        assert len(GET) == client.path.take(client.session, GET)

        assert (1, calls + 1) == (len(client.server.slowlog), client.server.plans.by_name[b"GET"].calls)


async def test_turns_leave_nothing_behind(tmp_path: Path) -> None:
    """What was made for reads that are answered goes with them."""
    async with connected(tmp_path) as client:
        for _ in range(2000):
            client.path.take(client.session, GET)
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(5000):
            assert len(GET) == client.path.take(client.session, GET)
        gc.collect()

        assert sys.getallocatedblocks() - before < 200
