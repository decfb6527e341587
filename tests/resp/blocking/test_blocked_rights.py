"""Clients that lose the right to what they wait for: refused when an element comes, which is for the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from slotlog.errors import LogUnavailableError
from tests.real.oracle import Connection, ErrorReply, NullArray, Oracle, SimpleString
from tests.resp.harness import Live, PlayedLog, blocked, pipeline, replies, serving, until
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")
WRONG_TYPE: Final = ErrorReply(b"WRONGTYPE Operation against a key holding the wrong kind of value")
LOST: Final = ErrorReply(b"NOPERM User u has no permissions to run the 'blpop' command")
PUSH: Final = "RPUSH k v w"
CHANGES: Final[dict[str, tuple[str, str, str]]] = {
    "the command": ("BLPOP k other 0", "-blpop", PUSH),
    "a key that is empty": ("BLPOP k other 0", "resetkeys ~k", PUSH),
    "all keys": ("BRPOP k 0", "resetkeys", PUSH),
    "the destination": ("BLMOVE k to LEFT LEFT 0", "resetkeys ~k", PUSH),
    "writing to the destination": ("BRPOPLPUSH k to 0", "resetkeys ~k %R~to", PUSH),
    "the command, of a sorted set": ("BZPOPMIN k 0", "-bzpopmin", "ZADD k 1 v 2 w"),
    "the key of several at once": ("BZMPOP 0 1 k MIN COUNT 2", "resetkeys", "ZADD k 1 v 2 w"),
    "the list's command": ("BLMPOP 0 1 k LEFT COUNT 2", "-@blocking", PUSH),
    "others than the one it waits in": ("BLPOP k 0", "-lpop", PUSH),
    "being on": ("BLPOP k 0", "off", PUSH),
}
"""What waits, which right goes, and what brings elements."""


def slow(log: PlayedLog) -> None:
    """Appends take their time, as Kafka's do."""
    log.at_once = False


async def waits(live: Live, command: str) -> Client:
    """A client that waits, as a user of its own that may do everything so far."""
    await live.ask("ACL", "SETUSER", "u", "reset", "on", "nopass", "+@all", "~*", "&*")
    client = await live.client()
    await client.call("AUTH", "u", "x")
    before = len(live.server.blocked.waiters)
    client.send(command.split())
    await blocked(live, before + 1)
    return client


LOOKS: Final = ("EXISTS k", "ACL LOG", "INFO commandstats", "INFO errorstats")


def seen(looks: list[Any], name: str) -> Any:
    """What is left, what ACL LOG has of it, and how often the command ran and was refused."""
    left, entries, statistics, errors = looks
    noted = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in entries]
    (line,) = [line for line in statistics.decode().splitlines() if line.startswith(f"cmdstat_{name}:")]
    counts = [part for part in line.partition(":")[2].split(",") if part.startswith(("calls", "rejected", "failed"))]
    return (
        left,
        [(entry[b"reason"], entry[b"context"], entry[b"object"], entry[b"username"]) for entry in noted],
        counts,
        [line for line in errors.decode().splitlines() if line.startswith("errorstat_")],
    )


def by_the_oracle(oracle_server: Oracle, command: str, rules: str, push: str) -> Any:
    """Its reply, and what is seen then."""
    admin, waiting = oracle_server.connect(), oracle_server.connect()
    try:
        admin.pipeline([["FLUSHALL"], ["ACL", "LOG", "RESET"]])
        admin.call("ACL", "SETUSER", "u", "reset", "on", "nopass", "+@all", "~*", "&*")
        waiting.call("AUTH", "u", "x")
        admin.call("CONFIG", "RESETSTAT")
        waiting.send(*command.split())
        _wait_for_one(admin)
        admin.pipeline([["ACL", "SETUSER", "u", *rules.split()], push.split()])
        reply = waiting.reply()
        return reply, seen(admin.pipeline([look.split() for look in LOOKS]), command.split(maxsplit=1)[0].lower())
    finally:
        admin.call("ACL", "DELUSER", "u")
        waiting.close()
        admin.close()


def _wait_for_one(admin: Connection) -> None:
    while b"blocked_clients:1\r\n" not in admin.call("INFO", "clients"):
        pass


@pytest.mark.parametrize("play", [lambda _: None, slow])
@pytest.mark.parametrize("change", CHANGES)
async def test_refused_as_by_the_oracle(tmp_path: Path, oracle_server: Oracle, change: str, play: Any) -> None:
    """Reply, ACL LOG, statistics and what is left are the oracle's, whether the pop goes with the push or later."""
    command, rules, push = CHANGES[change]
    expected = by_the_oracle(oracle_server, command, rules, push)
    async with serving(tmp_path, prepare=play) as live:
        client = await waits(live, command)
        await live.ask("CONFIG", "RESETSTAT")
        await live.ask("ACL", "SETUSER", "u", *rules.split())
        await live.ask(*push.split())
        (reply,) = await replies(client, 1)
        looks = [await live.ask(*look.split()) for look in LOOKS]

        assert expected == (reply, seen(looks, command.split()[0].lower()))
        assert await live.replayed_digest() == live.digest()


@pytest.mark.parametrize("play", [lambda _: None, slow])
@pytest.mark.parametrize("push", ["RPUSH k v", "MULTI ; RPUSH k v ; EXEC", "RENAME full k"])
async def test_the_element_is_for_the_next(tmp_path: Path, push: str, play: Any) -> None:
    """Who waits behind the refused one has it, before the pusher's next command."""
    async with serving(tmp_path, prepare=play) as live:
        await live.ask("RPUSH", "full", "v")
        denied = await waits(live, "BLPOP k 0")
        other = await live.client()
        other.send(["BLPOP", "k", "0"])
        await blocked(live, 2)
        await live.ask("ACL", "SETUSER", "u", "-blpop")
        pushed = await pipeline(await live.client(), *push.split(" ; "), "LLEN k")

        assert [LOST] == await replies(denied, 1)
        assert [[b"k", b"v"]] == await replies(other, 1)
        assert 0 == pushed[-1]


async def test_nothing_that_came_is_no_reason(tmp_path: Path) -> None:
    """A push that fails, or brings another type, is none of its business: it goes on waiting, and times out as ever."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await waits(live, "BLPOP k 0")
        await live.ask("ACL", "SETUSER", "u", "-blpop")
        live.log.failure = LogUnavailableError("gone")
        failed = await live.ask("RPUSH", "k", "v")
        live.log.failure = None
        other = await live.client()
        brought_other = await pipeline(other, "SET k s", "RPUSH k v", "DEL k")
        refusals = await live.ask("ACL", "LOG")
        left = await pipeline(other, "RPUSH k v", "LLEN k")

        assert isinstance(failed, ErrorReply)
        assert [OK, WRONG_TYPE, 1] == brought_other
        assert [] == refusals
        assert [1, 1] == left
        assert [LOST] == await replies(client, 1)


async def test_its_time_is_over_first(tmp_path: Path) -> None:
    """Without an element nobody is refused: the reply is the one of a timeout."""
    async with serving(tmp_path) as live:
        client = await waits(live, "BLPOP k 0.3")
        await live.ask("ACL", "SETUSER", "u", "-blpop")

        assert [NullArray()] == await replies(client, 1)
        assert [] == await live.ask("ACL", "LOG")


async def test_a_right_that_comes_back(tmp_path: Path) -> None:
    """While it was looked for an element, the right came back: then it is served."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await waits(live, "BLPOP k 0")
        await live.ask("ACL", "SETUSER", "u", "-blpop")
        live.log.start_gate.clear()
        (await live.client()).send(["RPUSH", "k", "v"])
        await until(lambda: live.server.pipelines[0].answers.pending_events == 2)
        await live.ask("ACL", "SETUSER", "u", "+blpop")
        live.log.start_gate.set()

        assert [[b"k", b"v"]] == await replies(client, 1)
        assert [] == await live.ask("ACL", "LOG")


async def test_users_that_are_loaded_anew(tmp_path: Path) -> None:
    """ACL LOAD takes rights away as ACL SETUSER does, and closes the connection of a user that is gone."""
    users = tmp_path / "users.acl"
    users.write_text("user default on nopass ~* &* +@all\nuser u on nopass ~* &* +@all\nuser x on nopass ~* &* +@all\n")
    async with serving(tmp_path, settings={"acl_file": users}) as live:
        clients = [await live.client() for _ in range(2)]
        for number, (client, name) in enumerate(zip(clients, "ux", strict=True), 1):
            await client.call("AUTH", name, "x")
            client.send(["BLPOP", "k", "0"])
            await blocked(live, number)
        users.write_text("user default on nopass ~* &* +@all\nuser u on nopass ~* &* +@all -blpop\n")
        await live.ask("ACL", "LOAD")
        await blocked(live, 1)
        await live.ask("RPUSH", "k", "v")

        assert [LOST] == await replies(clients[0], 1)
        assert 1 == await live.ask("LLEN", "k")
