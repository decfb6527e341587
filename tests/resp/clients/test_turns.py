"""A client's many commands are run in turns, within bounds, and other clients are served in between."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from resp.clients import connection, turns, window
from resp.clients.output import FLUSH_BYTES, lumps
from resp.writes import groups
from tests.real.oracle import SimpleString
from tests.resp.harness import Live, pipeline, replies, serving, until
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")
PONG: Final = SimpleString(b"PONG")
LARGE: Final = "x" * 1_100_000  # more than one part of a group may give


async def calls_at_pong(live: Live, commands: Iterable[list[str]]) -> tuple[Any, int, list[Any]]:
    """While one client's commands run, the first GET done, another one's PING: its reply, how many GETs were done.

    Last, all replies of the first one.
    """
    busy, other = await live.client(), await live.client()
    gets = live.server.plans.by_name[b"GET"]
    before = gets.calls
    sent = list(commands)
    busy.send(*sent)
    await until(lambda: gets.calls > before)
    pong = await other.call("PING")
    done = gets.calls - before
    return pong, done, await replies(busy, len(sent))


async def test_others_are_served_between_large_reads_behind_a_write(tmp_path: Path) -> None:
    """A PING that comes when the first of them is done is answered before the last one is."""
    async with serving(tmp_path) as live:
        await live.ask("SET", "big", LARGE)
        pong, done, got = await calls_at_pong(live, [["INCR", "n"], *[["GET", "big"]] * 16])

        assert PONG == pong
        assert done < 16
        assert [1, *[LARGE.encode()] * 16] == got


async def test_others_are_served_between_long_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's turn has an end, also when nothing stands behind a write; all is answered, in order, and counted."""
    monkeypatch.setattr(turns, "TURN_SECONDS", -1.0)
    async with serving(tmp_path) as live:
        await live.ask("SET", "a", "1")
        pong, done, got = await calls_at_pong(live, [["GET", "a"]] * 300)
        await until(lambda: sum(live.server.stats.request_seconds.counts) >= 301)  # the SET is none of them

        assert PONG == pong
        assert done < 300
        assert [b"1"] * 300 == got


@pytest.mark.parametrize(
    "command", ["AUTH bob pw", "MULTI", "SUBSCRIBE channel"], ids=["a limited user", "a queue", "a listener"]
)
async def test_others_are_served_between_commands_of_the_general_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Who may not take the short way has turns of the same length: at its end another one's PING is answered."""
    monkeypatch.setattr(turns, "TURN_SECONDS", -1.0)
    async with serving(tmp_path) as live:
        await live.ask("ACL", "SETUSER", "bob", "on", ">pw", "+@all", "~a*", "&*")
        busy, other = await live.client(), await live.client()
        await pipeline(busy, command)
        session = live.server.sessions[2]
        busy.send(*[["PING"]] * 300)
        await until(lambda: session.turns.resting)
        pong, waiting = await other.call("PING"), bool(session.inbox.backlog)

        assert PONG == pong
        assert waiting
        assert 300 == len(await replies(busy, 300))


async def test_others_are_served_between_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of writes is cut as well: a write behind it in the same pipeline waits, a PING of another client not."""
    monkeypatch.setattr(groups, "PART_SECONDS", -1.0)
    monkeypatch.setattr(groups, "_RUN_EVENTS_MAX", 1)
    async with serving(tmp_path) as live:
        busy, other = await live.client(), await live.client()
        incrs = live.server.plans.by_name[b"INCR"]
        busy.send(*[["INCR", "n"]] * 100)
        await until(lambda: incrs.calls > 0)
        pong, done = await other.call("PING"), incrs.calls

        assert PONG == pong
        assert done < 100
        assert list(range(1, 101)) == await replies(busy, 100)


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_group_that_is_cut_gives_the_same_replies_and_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """Command by command, with several clients between one another: reads see their own writes, and replay agrees."""
    monkeypatch.setattr(groups, "PART_SECONDS", -1.0)
    monkeypatch.setattr(groups, "_RUN_EVENTS_MAX", 1)
    monkeypatch.setattr(window, "_FIRST_COMMANDS", window.PENDING_REPLIES_MAX)
    commands = [f"{verb} {{}}" for _ in range(20) for verb in ("INCR", "GET", "INCR", "INCR", "GET", "GET")]
    async with serving(tmp_path, prepare=lambda log: setattr(log, "at_once", at_once)) as live:
        clients = [await live.client() for _ in range(4)]
        for number, client in enumerate(clients):
            client.send(*[command.format(f"n{number}").split() for command in commands])
        got = [await replies(client, len(commands)) for client in clients]

        expected = [
            seen
            for at in range(0, 60, 3)
            for seen in (at + 1, b"%d" % (at + 1), at + 2, at + 3, b"%d" % (at + 3), b"%d" % (at + 3))
        ]
        assert [expected] * 4 == got
        assert await live.replayed_digest() == live.digest()


def held_bytes(live: Live, number: int) -> int:
    """What is held for a client, sent or not."""
    session = live.server.sessions[number]
    return session.output.pending_reply_bytes + session.output_bytes


async def deaf(live: Live, commands: Iterable[list[str]]) -> tuple[Client, int]:
    """A client that sends all of these, and reads nothing; the most that was held for it until no more came."""
    client = await live.client()
    number = max(live.server.sessions)
    client._reader._transport.pause_reading()  # type: ignore[attr-defined]  # the one way to be deaf
    client.send(*commands)
    held = [0]

    def is_choked() -> bool:
        held.append(held_bytes(live, number))
        return live.server.sessions[number].choked

    await until(is_choked)
    for _ in range(20):
        await live.ask("PING")
        held.append(held_bytes(live, number))
    return client, max(held)


@pytest.mark.parametrize(
    "first", [["INCR", "n"], ["GET", "big"], ["GETEX", "big"]], ids=["behind_a_write", "alone", "writes"]
)
async def test_what_is_held_for_a_client_that_does_not_read_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: list[str]
) -> None:
    """Large replies to a short request: no more are evaluated than may wait; a client that reads on gets them all."""
    high_water, ahead = 4 * len(LARGE), 8 * len(LARGE)
    monkeypatch.setattr(connection, "_WRITE_HIGH_WATER", high_water)
    monkeypatch.setattr(window, "AHEAD_BYTES", ahead)
    monkeypatch.setattr(window, "_FIRST_COMMANDS", 4)
    async with serving(tmp_path) as live:
        await live.ask("SET", "big", LARGE)
        verb = "GETEX" if first[0] == "GETEX" else "GET"
        client, held = await deaf(live, [first, *[[verb, "big"]] * 150])
        client._reader._transport.resume_reading()  # type: ignore[attr-defined]  # as above
        got = await replies(client, 151)

        assert held <= high_water + ahead + 2 * len(LARGE)
        assert [LARGE.encode()] * 150 == got[1:]


async def test_replies_that_are_there_at_once_are_bounded_behind_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ECHOs behind a write that takes its time: no more run than may be held, and the rest comes after it."""
    monkeypatch.setattr("resp.clients.output.AHEAD_BYTES", 1_000_000)
    async with serving(tmp_path, prepare=lambda log: setattr(log, "at_once", False)) as live:
        client = await live.client()
        live.log.start_gate.clear()
        client.send(["INCR", "n"], *[["ECHO", "x" * 100_000]] * 40)
        await until(lambda: live.server.sessions[1].output.is_full)
        held = held_bytes(live, 1)
        live.log.start_gate.set()

        assert held <= 1_100_100
        assert [1, *[b"x" * 100_000] * 40] == await replies(client, 41)


async def test_a_client_without_a_pipeline_needs_no_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command that takes longer than a turn is answered in the turn in which it came, and the next one runs."""
    monkeypatch.setattr(turns, "TURN_SECONDS", -1.0)
    async with serving(tmp_path) as live:
        client = await live.client()
        got = [await pipeline(client, "SET a 1"), await pipeline(client, "GET a"), await pipeline(client, "GET a")]
        session = live.server.sessions[1]

        assert [[OK], [b"1"], [b"1"]] == got
        assert (False, True) == (session.turns.resting, session.plain)


def test_the_window_opens_by_doubling_and_closes_at_once() -> None:
    """It begins with a few commands; small replies open it up to its end, one large one on an average closes it."""
    opened = window.Window()
    seen = [opened.commands]
    for _ in range(12):
        opened.learn(50, 10)
        seen.append(opened.commands)
    opened.learn(window.AHEAD_BYTES, 2)
    closed = opened.commands
    opened.learn(1 << 33, 1)

    assert [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 20_000, 20_000] == seen
    assert (2, 1) == (closed, opened.commands)


def test_large_parts_are_not_copied() -> None:
    """Small parts are joined, a large one is handed on as the object that it is, and the order stays."""
    large = b"L" * (FLUSH_BYTES + 1)
    pieces = list(lumps([b"a", b"b", large, large, b"c"]))

    assert [b"ab", large, large, b"c"] == pieces
    assert pieces[1] is large


class Reading:
    """Stands before a client's transport, and keeps whether it was told to read."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in {"pause_reading", "resume_reading"}:
            self.told.append(name)
        return getattr(self._transport, name)


async def test_a_long_command_that_comes_lets_the_loop_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two pieces of one command that each take long to parse, the loop turns; it is answered in the end."""
    monkeypatch.setattr("resp.clients.connection.TURN_SECONDS", -1.0)
    async with serving(tmp_path) as live:
        client = await live.client()
        (session,) = live.server.sessions.values()
        reading = Reading(session.transport)
        session.transport = reading  # type: ignore[assignment] # as one
        value = b"v" * 3_000_000
        client.send(["SET", "k", value])
        (reply,) = await replies(client, 1)

        assert reply == OK
        assert 2 <= len(reading.told)
        assert ["pause_reading", "resume_reading"] * (len(reading.told) // 2) == reading.told
        assert value == await client.call("GET", "k")


@pytest.mark.parametrize(
    ("command", "expected"),
    [("PING", False), ("SELECT 0", False), ("MSET a 1 b 2", False), ("DEL a b", False), ("KEYS *", True)],
)
async def test_only_what_may_take_long_needs_a_fiber(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, expected: bool
) -> None:
    """What is answered at once, and a write, which takes its time behind the log, run without a switch of stacks."""
    async with serving(tmp_path) as live:
        client = await live.client()
        inbox, slices, run = live.server.sessions[1].inbox, live.server.slices, live.server.slices.run
        works: list[Any] = []

        def noted(work: Any, *args: Any) -> bool:
            works.append(getattr(work, "__self__", None))
            return run(work, *args)

        monkeypatch.setattr(slices, "run", noted)
        await pipeline(client, command)

        assert expected == (inbox in works)
