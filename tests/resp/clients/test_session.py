"""Replies come in the order of commands, and a connection ends cleanly from either side."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.real.oracle import Connection, ErrorReply, NullArray, SimpleString
from tests.resp.harness import PATIENCE_SECONDS, PlayedLog, blocked, event, pipeline, replies, serving, until

OK: Final = SimpleString(b"OK")
PIPELINES: Final = 12
COMMANDS: Final = 30

_VOCABULARY: Final = (
    *("SET a 1", "SET b x", "GET a", "GET b", "GET c", "INCR a", "INCR b", "APPEND a 7", "DEL a b", "EXISTS a b c a"),
    *("RPUSH l x y", "LRANGE l 0 -1", "LPOP l", "LLEN a", "BLPOP l 0.01", "BLPOP a 0.01", "BLMOVE l m LEFT RIGHT 0.01"),
    *("MULTI", "EXEC", "DISCARD", "WATCH a", "UNWATCH", "MULTI", "EXEC", "WATCH l b"),
    *("PING", "ECHO hello", "SELECT 1", "SELECT 0", "SELECT 99", "DBSIZE", "TYPE l", "KEYS a*", "SWAPDB 0 1"),
    *("PUBLISH x m", "CLIENT SETNAME me", "CLIENT GETNAME", "CLIENT NOSUCH", "NOSUCH a b", "GET", "SET a", "EXEC a"),
    *("EXPIRE a 100", "TTL a", "SET a 1 EX nan", "MSET a 1 b 2", "MGET a b c", "HSET h f v", "HGETALL h", "RENAME a b"),
    *("COPY a c", "SADD s x", "SUNIONSTORE t s", "LMOVE l m LEFT LEFT", "FLUSHDB", "RESET"),
)


def gaps(log: PlayedLog) -> None:
    """Somebody else appends between our records, in a database of its own."""
    log.between = lambda: [event("TICK")]


def slow(log: PlayedLog) -> None:
    """Appends take their time."""
    log.at_once = False


def draw(seed: int) -> list[list[str]]:
    """One pipeline; the last commands leave MULTI and all databases empty.

    Within a MULTI there is no other and no WATCH: Redis goes on after their error, the oracle does not.
    """
    source = random.Random(seed)
    commands: list[str] = []
    is_open = False
    for _ in range(COMMANDS):
        command = source.choice(_VOCABULARY)
        if not is_open or command.split()[0] not in {"MULTI", "WATCH"}:
            commands.append(command)
            is_open = command == "MULTI" or (is_open and command not in {"EXEC", "DISCARD", "RESET"})
    return [command.split() for command in (*commands, "DISCARD", "FLUSHALL", "UNWATCH", "SELECT 0")]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("play", [lambda _: None, slow, gaps])
async def test_any_pipeline_is_answered_as_the_oracle_does(
    tmp_path: Path, oracle: Connection, play: Callable[[PlayedLog], None], protocol: int
) -> None:
    """Reads, writes, server commands, errors, transactions and blocked commands, mixed at random: the same replies."""
    oracle.call("HELLO", protocol)
    async with serving(tmp_path, prepare=play) as live:
        client = await live.client()
        await client.call("HELLO", protocol)
        for seed in range(PIPELINES):
            commands = draw(seed * 7 + protocol)
            expected = oracle.pipeline(commands)
            client.send(*commands)
            got = await replies(client, len(commands))
            assert [] == [different for different in zip(commands, expected, got, strict=True) if _differs(different)]
            if ["RESET"] in commands:
                for call in (oracle.call("HELLO", protocol), await client.call("HELLO", protocol)):
                    assert not isinstance(call, ErrorReply)

        assert await live.replayed_digest() == live.digest()


def _differs(three: tuple[object, object, object]) -> bool:
    return three[1] != three[2]


async def test_several_clients_do_not_mix(tmp_path: Path) -> None:
    """Each of many clients that pipeline at once gets its own replies, in its own order."""
    async with serving(tmp_path, prepare=gaps) as live:
        clients = [await live.client() for _ in range(20)]
        for number, client in enumerate(clients):
            client.send(*[[word, *rest] for at in range(9) for word, *rest in _own(number, at)])
        got = [await replies(client, 36) for client in clients]

    expected = [
        [reply for at in range(9) for reply in (OK, b"%d-%d" % (number, at), b"%d" % at, at + 1)]
        for number in range(20)
    ]
    assert expected == got


def _own(number: int, at: int) -> list[list[str]]:
    key = f"k{number}"
    return [["SET", key, f"{number}-{at}"], ["GET", key], ["ECHO", str(at)], ["INCR", f"{key}n"]]


async def test_byte_by_byte(tmp_path: Path) -> None:
    """A pipeline that comes in pieces of one byte is answered as in one piece."""
    async with serving(tmp_path) as live:
        reader, writer = await asyncio.open_connection(*live.address)
        for byte in b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n":
            writer.write(bytes((byte,)))
            await writer.drain()
        async with asyncio.timeout(PATIENCE_SECONDS):
            got = await reader.readexactly(len(b"+OK\r\n$1\r\n1\r\n+PONG\r\n"))
        writer.close()

    assert b"+OK\r\n$1\r\n1\r\n+PONG\r\n" == got


async def test_a_client_that_sends_no_more_is_answered_and_closed(tmp_path: Path) -> None:
    """Everything that was sent before the end of the stream is answered, then the connection ends."""
    async with serving(tmp_path, prepare=slow) as live:
        reader, writer = await asyncio.open_connection(*live.address)
        writer.write(b"SET a 1\r\nGET a\r\nDBSIZE\r\nPING\r\n")
        writer.write_eof()
        async with asyncio.timeout(PATIENCE_SECONDS):
            got = await reader.read()
        writer.close()

    assert b"+OK\r\n$1\r\n1\r\n:1\r\n+PONG\r\n" == got


async def test_a_protocol_error_comes_after_the_replies(tmp_path: Path) -> None:
    """What was right before the wrong bytes is answered first, writes too; then the error, then the end."""
    async with serving(tmp_path, prepare=slow) as live:
        reader, writer = await asyncio.open_connection(*live.address)
        writer.write(b"SET a 1\r\nGET a\r\n*1\r\n!3\r\nGET\r\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            got = await reader.read()
        writer.close()

    assert b"+OK\r\n$1\r\n1\r\n-ERR Protocol error: expected '$', got '!'\r\n" == got


async def test_quit_after_writes(tmp_path: Path) -> None:
    """QUIT behind writes: all are answered, then OK, then the end; what is sent behind it is not run."""
    async with serving(tmp_path, prepare=slow) as live:
        reader, writer = await asyncio.open_connection(*live.address)
        writer.write(b"SET a 1\r\nINCR a\r\nQUIT\r\nINCR a\r\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            got = await reader.read()
        writer.close()

        assert b"2" == await live.ask("GET", "a")
    assert b"+OK\r\n:2\r\n+OK\r\n" == got


async def test_client_reply(tmp_path: Path) -> None:
    """CLIENT REPLY SKIP leaves out the next reply, OFF all until ON: of writes on their way as well."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        client.send(["CLIENT", "REPLY", "SKIP"], ["SET", "a", "1"], ["INCR", "a"], ["CLIENT", "REPLY", "OFF"])
        client.send(["INCR", "a"], ["GET", "a"], ["NOSUCH"], ["CLIENT", "REPLY", "ON"], ["GET", "a"])
        got = await replies(client, 3)

    assert [2, OK, b"3"] == got


async def test_a_client_that_goes_while_its_writes_are_under_way(tmp_path: Path) -> None:
    """Its writes happen or not; nobody else notices, and nothing of it is left."""
    async with serving(tmp_path, prepare=slow) as live:
        client, other = await live.client(), await live.client()
        await other.call("PING")
        live.log.start_gate.clear()
        client.send(*[["INCR", "n"]] * 5, ["DBSIZE"], ["GET", "n"])
        await until(lambda: live.server.pipelines[0].answers.pending_events >= 5)
        client.close()
        live.log.start_gate.set()
        await until(lambda: len(live.server.sessions) == 1)

        assert b"5" == (await pipeline(other, "SET x 1", "GET n"))[1]
        assert 0 == live.server.pipelines[0].answers.pending_events
        assert {} == live.server.ready


async def test_a_blocked_client_with_commands_behind_it_is_heard_leaving(tmp_path: Path) -> None:
    """What is pipelined behind a blocked command waits; the client's leaving is noticed all the same."""
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        client.send(["BLPOP", "q", "0"], ["PING"], ["GET", "a"])
        await blocked(live, 1)
        client.close()
        await blocked(live, 0)

        assert 1 == await other.call("RPUSH", "q", "x")
        assert 1 == await other.call("LLEN", "q")


async def test_a_client_that_has_sent_its_end_is_not_blocked(tmp_path: Path) -> None:
    """BLPOP and the end of the stream in one go: the connection is closed, and no element is popped for it."""
    async with serving(tmp_path) as live:
        reader, writer = await asyncio.open_connection(*live.address)
        writer.write(b"BLPOP q 0\r\n")
        writer.write_eof()
        async with asyncio.timeout(PATIENCE_SECONDS):
            got = await _read_to_the_end(reader)
        writer.close()

        assert 1 == await live.ask("RPUSH", "q", "x")
        assert 1 == await live.ask("LLEN", "q")
    assert b"" == got


async def _read_to_the_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def test_commands_behind_a_blocked_one_wait_for_it(tmp_path: Path) -> None:
    """They run after it was served, in order."""
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["BLPOP", "q", "0"], ["INCR", "n"], ["BLPOP", "q", "0.01"], ["GET", "n"])
        await blocked(live, 1)
        await live.ask("RPUSH", "q", "x")

        assert [[b"q", b"x"], 1, NullArray(), b"1"] == await replies(client, 4)
