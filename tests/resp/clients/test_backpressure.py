"""Data that waits for a slow log or client has a bound, and every command is answered in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from resp.clients import output, window
from resp.writes import answers
from tests.real.oracle import SimpleString, request
from tests.resp.harness import Live, PlayedLog, pipeline, replies, serving, until
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")
QUEUED: Final = SimpleString(b"QUEUED")
EVENTS_MAX: Final = 50


def slow(log: PlayedLog) -> None:
    """Appends take their time."""
    log.at_once = False


@pytest.fixture(autouse=True)
def _low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PENDING_EVENTS_MAX", EVENTS_MAX)
    monkeypatch.setattr(output, "PENDING_REPLIES_MAX", 2 * EVENTS_MAX)
    monkeypatch.setattr(window, "_FIRST_COMMANDS", window.PENDING_REPLIES_MAX)


async def stuck(live: Live, client: Client, commands: Iterable[list[str]]) -> int:
    """Send these while the log stands still; how many events wait, once nothing more is taken."""
    live.log.start_gate.clear()
    client.send(*commands)
    await until(lambda: live.server.pipelines[0].answers.crowded)
    await asyncio.sleep(0.02)
    return live.server.pipelines[0].answers.pending_events


async def test_a_huge_pipeline_waits_in_the_socket(tmp_path: Path) -> None:
    """As many writes as the limit says wait for the log; the rest is not even read. Then all are answered, in order."""
    count = 20_000
    async with serving(tmp_path, prepare=slow) as live:
        client, other = await live.client(), await live.client()
        waiting = await stuck(live, client, [["INCR", "n"]] * count)
        is_reading = live.server.sessions[1].transport.is_reading()
        read = await other.call("GET", "n")
        live.log.start_gate.set()

        assert (EVENTS_MAX + 1, False, None) == (waiting, is_reading, read)
        assert list(range(1, count + 1)) == await replies(client, count)
        assert OK == await other.call("SET", "a", "1")


async def test_transactions_and_safe_writes_wait_too(tmp_path: Path) -> None:
    """EXEC, WATCH and SLOTLOG ONCE are events like any other."""
    one = [["MULTI"], ["INCR", "n"], ["EXEC"], ["WATCH", "n"], ["UNWATCH"]]
    commands = [command for number in range(60) for command in (*one, ["SLOTLOG", "ONCE", f"x{number}", "INCR", "n"])]
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        waiting = await stuck(live, client, commands)
        live.log.start_gate.set()
        got = await replies(client, len(commands))

    assert EVENTS_MAX + 2 >= waiting  # UNWATCH is taken beside its WATCH
    assert [[number] for number in range(1, 120, 2)] == got[2::6]
    assert list(range(2, 121, 2)) == got[5::6]


async def test_large_values_count_by_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few large writes are as much as many small ones."""
    monkeypatch.setattr(answers, "PENDING_BYTES_MAX", 1 << 20)
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        waiting = await stuck(live, client, [["APPEND", "a", "x" * (1 << 19)]] * 8)
        live.log.start_gate.set()

        assert 2 == waiting
        assert [number << 19 for number in range(1, 9)] == await replies(client, 8)


async def test_quick_commands_behind_a_slow_write(tmp_path: Path) -> None:
    """Their replies wait for the write's, so there are no more of them than the limit says."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        live.log.start_gate.clear()
        client.send(["SET", "a", "1"], *[["PING"]] * 1000)
        await until(lambda: live.server.sessions[1].output.is_full)
        await asyncio.sleep(0.02)
        kept = len(live.server.sessions[1].output.pending_replies)
        live.log.start_gate.set()

        assert 2 * EVENTS_MAX + 1 == kept
        assert [OK, *[SimpleString(b"PONG")] * 1000] == await replies(client, 1001)


async def test_a_crowd_is_served_in_turn(tmp_path: Path) -> None:
    """Many clients that wait for room all get it."""
    async with serving(tmp_path, prepare=slow) as live:
        clients = [await live.client() for _ in range(20)]
        live.log.start_gate.clear()
        for client in clients:
            client.send(*[["INCR", "n"]] * 20)
        await until(lambda: live.server.pipelines[0].answers.crowded)
        live.log.start_gate.set()
        got = [await replies(client, 20) for client in clients]

    assert list(range(1, 401)) == sorted(number for numbers in got for number in numbers)
    assert all(sorted(numbers) == numbers for numbers in got)


async def test_a_listener_that_never_reads_is_cut_off(tmp_path: Path) -> None:
    """At the limit of `client-output-buffer-limit`; who publishes does not wait for it."""
    async with serving(tmp_path, client_output_buffer_limit="pubsub 1mb 0 0") as live:
        _, writer = await asyncio.open_connection(*live.address, limit=1)
        writer.write(request(["SUBSCRIBE", "x"]))
        await until(lambda: bool(live.server.pubsub.is_heard))
        publisher = await live.client()
        heard = [await publisher.call("PUBLISH", "x", "m" * 500_000) for _ in range(40)]
        await until(lambda: len(live.server.sessions) == 1)
        writer.close()

        assert (1, 0) == (heard[0], heard[-1])
        assert [OK] == await pipeline(publisher, "SET a 1")


async def test_too_many_replies_behind_a_write_end_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once so much is held for a client the next reply is too much: it is cut off, no other, and its writes stay."""
    monkeypatch.setattr(output, "HELD_BYTES_MAX", 2_000_000)
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        await client.call("SET", "big", "x" * 300_000)
        client.send(["INCR", "n"], *[["GET", "big"]] * 6)
        within = await replies(client, 7)
        client.send(["INCR", "n"], *[["GET", "big"]] * 90)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError, EOFError)):
            await replies(client, 91)

        assert [1, *[b"x" * 300_000] * 6] == within
        assert b"2" == await other.call("GET", "n")
        assert 1 == live.server.stats.output_limit_disconnections


async def test_a_client_that_leaves_while_it_waits_is_let_go(tmp_path: Path) -> None:
    """SLOTLOG WAITFOR and WAIT for ever: when the client closes, its session ends."""
    async with serving(tmp_path) as live:
        for words in (["SLOTLOG", "WAITFOR", "0", "99", "0"], ["WAIT", "1", "1000000"]):
            client = await live.client()
            client.send(words)
            await until(lambda: any(each.is_held for each in live.server.sessions.values()))
            client.close()
            await until(lambda: not live.server.sessions)

        assert {} == live.server.sessions
