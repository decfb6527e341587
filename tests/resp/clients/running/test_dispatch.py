"""The first failed check of a command gives its error, and everything is counted once."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from engine.values.replies import Reply
from resp.clients.session import Session
from tests.real.oracle import Connection, ErrorReply, SimpleString
from tests.resp.harness import PlayedLog, pipeline, replies, serving

OK: Final = SimpleString(b"OK")
INTERNAL: Final = ErrorReply(b"ERR internal error: see the log of slotlog")

REFUSED: Final = (
    *("NOSUCH", "NOSUCH a b c", f"NOSUCH {'x' * 200} {'y' * 200} z", f"{'n' * 300} a", "GET", "GET a b", "SET a"),
    *("CLIENT", "CLIENT NOSUCH", "CLIENT GETNAME x", "OBJECT", "OBJECT NOSUCH", "CONFIG", "CONFIG GET", "MULTI x"),
    *("EXEC x", "get", "gEt", "Client gEtname x", "CLIENT|GETNAME", "MULTI", "NOSUCH", "SET a", "EXEC"),
    *("PING", "SUBSCRIBE x", "GET a", "NOSUCH", "SET", "MULTI", "PING", "UNSUBSCRIBE x", "GET a"),
)

COUNTED: Final = (
    *("SET a 1", "SET a", "GET a", "GET b", "INCR a", "LPUSH a x", "get a", "MULTI", "SET a 2", "GET a", "EXEC"),
    *("MULTI", "GET a", "EXEC", "MULTI", "LPUSH a x", "EXEC", "CLIENT GETNAME", "CLIENT SETNAME x y", "PING", "PING"),
    *("BLPOP q 0.01", "WATCH a", "UNWATCH", "NOSUCH", "SELECT 1", "SELECT 0", "DBSIZE", "EXEC", "GETRANGE a x y"),
    *("CLIENT", "CLIENT NOSUCH", "COMMAND NOSUCH", "XINFO NOSUCH a", "MULTI", "OBJECT NOSUCH a", "EXEC"),
)


def slow(log: PlayedLog) -> None:
    """Appends take their time, so that reads wait behind writes."""
    log.at_once = False


async def test_refusals_are_the_oracles(tmp_path: Path, oracle: Connection) -> None:
    """Unknown, wrong number of arguments, not now: the same text, inside MULTI and among subscriptions too."""
    commands = [command.split() for command in REFUSED]
    expected = oracle.pipeline(commands)
    async with serving(tmp_path) as live:
        got = await pipeline(await live.client(), *REFUSED)

    assert [] == [three for three in zip(REFUSED, expected, got, strict=True) if three[1] != three[2]]


def counts(info: bytes) -> dict[str, tuple[int, int, int]]:
    """Calls, rejected and failed calls by command."""
    found = re.findall(rb"cmdstat_(\S+?):calls=(\d+).*?rejected_calls=(\d+),failed_calls=(\d+)", info)
    return {name.decode(): (int(calls), int(rejected), int(failed)) for name, calls, rejected, failed in found}


@pytest.mark.parametrize("play", [lambda _: None, slow])
async def test_commands_are_counted_as_by_the_oracle(tmp_path: Path, oracle: Connection, play: Any) -> None:
    """Once each, on whichever way they went; those refused, and those that failed."""
    oracle.call("CONFIG", "RESETSTAT")
    oracle.pipeline([command.split() for command in COUNTED])
    expected = counts(oracle.call("INFO", "commandstats"))
    async with serving(tmp_path, prepare=play) as live:
        client = await live.client()
        await pipeline(client, *COUNTED)
        got = counts(await client.call("INFO", "commandstats"))

    for ours in (expected, got):
        ours.pop("config|resetstat", None)
        ours.pop("info", None)
    assert expected == got


async def test_a_bug_in_a_command_ends_that_command_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that raises what it should not: an error for it, the connection and everybody else go on."""

    def broken(session: Session, args: list[bytes]) -> Reply:
        raise TypeError("a bug")

    async def broken_later(session: Session, args: list[bytes]) -> Reply:
        await asyncio.sleep(0)
        raise TypeError("a bug")

    async with serving(tmp_path, prepare=slow) as live:
        client, other = await live.client(), await live.client()
        for name, handler in ((b"ECHO", broken), (b"TIME", broken_later)):
            plan = live.server.plans.by_name[name]
            assert plan.server is not None
            monkeypatch.setattr(plan, "server", replace(plan.server, handler=handler))
        got = await pipeline(client, "SET a 1", "ECHO x", "TIME", "GET a", "ECHO x", "DBSIZE")
        client.send(["MULTI"], ["INCR", "a"], ["ECHO", "x"], ["EXEC"], ["GET", "a"])
        other.send(["INCR", "b"], ["GET", "b"])
        mine, theirs = await replies(client, 5), await replies(other, 2)

        assert [OK, INTERNAL, INTERNAL, b"1", INTERNAL, 1] == got
        assert [[2, INTERNAL], b"2"] == mine[3:]
        assert [1, b"1"] == theirs
        assert b"2" == await other.call("GET", "a")
