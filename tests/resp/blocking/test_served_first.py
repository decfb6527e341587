"""Blocked clients are served right after the write that brings elements, before any other command."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from engine.commands.fills import EITHER, UNKNOWN, Fill
from engine.commands.registry import SPECS
from engine.errors import WRONG_TYPE
from engine.model import LIST, ZSET
from resp.blocking.fills import fills_of
from slotlog.errors import AppendUncertainError, LogUnavailableError
from tests.real.oracle import ErrorReply
from tests.resp.blocking.pops import settled
from tests.resp.harness import PlayedLog, blocked, event, pipeline, replies, serving, until


def slow(log: PlayedLog) -> None:
    """Appends take their time, as Kafka's do."""
    log.at_once = False


FILLED: Final[dict[str, list[Fill]]] = {
    "LPUSH k a b": [Fill(3, b"k", LIST, 2)],
    "RPUSH k a": [Fill(3, b"k", LIST, 1)],
    "LPUSHX k a": [],
    "LINSERT k BEFORE a b": [],
    "LMOVE s k LEFT LEFT": [Fill(3, b"k", LIST, 1, ((3, b"s"),))],
    "RPOPLPUSH s k": [Fill(3, b"k", LIST, 1, ((3, b"s"),))],
    "ZADD k NX ch 1 a 2 b": [Fill(3, b"k", ZSET, 2)],
    "ZADD k XX 1 a": [],
    "ZINCRBY k 1 a": [Fill(3, b"k", ZSET, 1)],
    "GEOADD k NX 1 2 a 1 2 b": [Fill(3, b"k", ZSET, 2)],
    "RENAME s k": [Fill(3, b"k", EITHER, UNKNOWN, ((3, b"s"),))],
    "COPY s k REPLACE DB 5": [Fill(5, b"k", EITHER, UNKNOWN, ((3, b"s"),))],
    "COPY s k": [Fill(3, b"k", EITHER, UNKNOWN, ((3, b"s"),))],
    "MOVE k 5": [Fill(5, b"k", EITHER, UNKNOWN, ((3, b"k"),))],
    "RESTORE k 0 x": [Fill(3, b"k", EITHER, UNKNOWN)],
    "SORT s LIMIT 0 1 STORE k": [Fill(3, b"k", LIST, UNKNOWN, ((3, b"s"),))],
    "SORT s": [],
    "ZUNIONSTORE k 2 s t": [Fill(3, b"k", ZSET, UNKNOWN, ((3, b"s"), (3, b"t")))],
    "GEORADIUS s 1 2 3 m STOREDIST k": [Fill(3, b"k", ZSET, UNKNOWN, ((3, b"s"),))],
    "SADD k a": [],
}


@pytest.mark.parametrize("command", FILLED)
def test_what_a_command_may_fill(command: str) -> None:
    """Keys that may come to be with elements in them: of which type, how many at most, and where these come from."""
    name, *args = command.encode().split()

    assert name in SPECS
    assert FILLED[command] == list(fills_of(name, args, 3))


@pytest.mark.parametrize(
    ("steps", "filled"),
    [
        (["RPUSH k a", "RPUSH k b c"], [Fill(3, b"k", LIST, 3)]),
        (["RPUSH k a b", "LPOP k"], [Fill(3, b"k", LIST, 1)]),
        (["RPUSH k a b c", "LPOP k 2"], [Fill(3, b"k", LIST, 1)]),
        (["LPOP k", "RPUSH k a"], [Fill(3, b"k", LIST, 1)]),
        (["RPUSH k a b", "RENAME s k", "COPY t k", "DEL k"], []),
        (["ZADD k 1 a", "RENAME k l"], [Fill(3, b"l", EITHER, UNKNOWN)]),
        (["RPUSH k a", "SELECT 5", "RPUSH k b"], [Fill(3, b"k", LIST, 1), Fill(5, b"k", LIST, 1)]),
    ],
)
def test_what_a_transaction_may_fill(steps: list[str], filled: list[Fill]) -> None:
    """What its commands bring, in their order, less what they take out again."""
    assert filled == [
        fill._replace(sources=()) for fill in fills_of(b"EXEC", [step.encode().split() for step in steps], 3)
    ]


PIPELINES: Final[dict[str, tuple[list[str], list[str], list[Any], list[str]]]] = {
    "a push": (["BLPOP q 0"], ["RPUSH q a", "LPOP q"], [1, None], ["RPUSH", "LPOP", "LPOP"]),
    "a push for two of three": (
        ["BLPOP q 0", "BRPOP q 0", "BLPOP q 0"],
        ["RPUSH q a b", "LLEN q"],
        [2, 0],
        ["RPUSH", "LPOP", "RPOP"],
    ),
    "a pop that takes all": (["BLMPOP 0 1 q LEFT COUNT 9", "BLPOP q 0"], ["RPUSH q a b"], [2], ["RPUSH", "LMPOP"]),
    "a chain": (
        ["BLMOVE q r LEFT LEFT 0", "BLMOVE r s LEFT LEFT 0", "BLPOP s 0"],
        ["RPUSH q a", "EXISTS q r s"],
        [1, 0],
        ["RPUSH", "LMOVE", "LMOVE", "LPOP"],
    ),
    "a push of another type": (["BZPOPMIN q 0"], ["RPUSH q a", "LLEN q"], [1, 1], ["RPUSH"]),
    "a source that is empty": (["BLPOP q 0"], ["LMOVE none q LEFT LEFT"], [None], ["LMOVE"]),
    "a result that is empty": (["BZPOPMIN q 0"], ["ZUNIONSTORE q 1 none"], [0], ["ZUNIONSTORE"]),
}


@pytest.mark.parametrize("play", [lambda _: None, slow])
@pytest.mark.parametrize("name", PIPELINES)
async def test_pops_stand_right_behind(tmp_path: Path, name: str, play: Any) -> None:
    """In the log, with nothing between and none that nobody needs, whether appends are done at once or later."""
    waiting, pushing, expected, events = PIPELINES[name]
    async with serving(tmp_path, prepare=play) as live:
        for number, command in enumerate(waiting, 1):
            (await live.client()).send(command.split())
            await blocked(live, number)

        assert expected == await pipeline(await live.client(), *pushing)
        assert [word.encode() for word in events] == [name for name, _ in await live.events()]
        assert await live.replayed_digest() == live.digest()


async def test_one_append(tmp_path: Path) -> None:
    """The push and the pops that it brings go to the log together."""
    async with serving(tmp_path) as live:
        clients = [await live.client() for _ in range(2)]
        for number, client in enumerate(clients, 1):
            client.send(["BLPOP", "q", "0"])
            await blocked(live, number)
        await live.ask("RPUSH", "q", "a", "b")

        assert [[[b"q", b"a"]], [[b"q", b"b"]]] == [await replies(client, 1) for client in clients]
        assert (1, 3) == (live.log.appends, live.log.entries)


@pytest.mark.parametrize("command", ["RENAME x q", "COPY x q", "SORT x BY none STORE q", "RESTORE q 0 payload"])
async def test_everybody_is_served_at_once(tmp_path: Path, command: str) -> None:
    """However many wait, and however many elements come: all of them stand before the pusher's next command."""
    count = 100
    async with serving(tmp_path) as live:
        pusher = await live.client()
        await pusher.call("RPUSH", "x", *map(str, range(count)))
        payload = await pusher.call("DUMP", "x")
        clients = [await live.client() for _ in range(count)]
        for number, client in enumerate(clients, 1):
            client.send(["BLPOP", "q", "0"])
            await blocked(live, number)
        pusher.send([payload if word == "payload" else word for word in command.split()], ["LLEN", "q"], ["PING"])

        assert 0 == (await replies(pusher, 3))[1]
        assert [[[b"q", b"%d" % number]] for number in range(count)] == [await replies(client, 1) for client in clients]


async def test_nobody_hears_of_a_push_that_failed(tmp_path: Path) -> None:
    """The log refuses a push, and the pop behind it with it: who waits goes on waiting, ahead of who came later."""
    async with serving(tmp_path) as live:
        first, second = await live.client(), await live.client()
        for number, client in enumerate((first, second), 1):
            client.send(["BLPOP", "q", "0"])
            await blocked(live, number)
        live.log.failure = LogUnavailableError("the log is away")
        refused = await live.ask("RPUSH", "q", "a")
        live.log.failure = None
        await live.ask("RPUSH", "q", "b")

        assert ErrorReply(b"ERR nothing was written: the log is away") == refused
        assert [[b"q", b"b"]] == await replies(first, 1)
        assert 1 == len(live.server.blocked.waiters)


async def test_a_push_in_doubt(tmp_path: Path) -> None:
    """Nobody knows whether the push, and the pop behind it, are in the log: the client that waits is told so."""
    async with serving(tmp_path) as live:
        client, pusher = await live.client(), await live.client()
        client.send(["BLPOP", "q", "0"])
        await blocked(live, 1)
        live.log.uncertain = AppendUncertainError("no answer in time")
        pusher.send(["RPUSH", "q", "a"])
        got = [*await replies(client, 1), *await replies(pusher, 1)]
        live.log.uncertain = None

        assert [b"UNKNOWNOUTCOME"] * 2 == [reply.text.split()[0] for reply in got]


async def test_a_pop_that_comes_too_late(tmp_path: Path) -> None:
    """What a foreign writer puts between a push and its pop is no loss: the client keeps its place for the next."""
    async with serving(tmp_path, prepare=slow) as live:
        client, pusher = await live.client(), await live.client()
        client.send(["BLPOP", "q", "0"])
        await blocked(live, 1)
        thief = [event("LPOP", "q")]
        live.log.between = lambda: [thief.pop()] if thief else []
        await pipeline(pusher, "RPUSH q a")
        await until(lambda: not thief and live.server.pipelines[0].machine.next_offset == 3)
        await settled(live)
        live.log.between = None
        await pipeline(pusher, "RPUSH q b", "LPOP q")

        assert [[b"q", b"b"]] == await replies(client, 1)
        assert await live.replayed_digest() == live.digest()


async def test_it_waits_from_its_command_on(tmp_path: Path) -> None:
    """A push that the server reads right behind a blocking pop serves it, though no turn of the loop was between."""
    async with serving(tmp_path) as live:
        client, pusher = await live.client(), await live.client()
        ids = [await one.call("CLIENT", "ID") for one in (client, pusher)]
        waiting, pushing = [live.server.sessions[number] for number in ids]
        waiting.inbox.receive([[b"BLPOP", b"q", b"0"]])
        pushing.inbox.receive([[b"RPUSH", b"q", b"a"], [b"LPOP", b"q"]])

        assert [[b"q", b"a"]] == await replies(client, 1)
        assert [1, None] == await replies(pusher, 2)


@pytest.mark.parametrize("command", ["BZPOPMIN l 1", "BZPOPMAX l 1", "BZMPOP 1 1 l MIN", "BZPOPMIN l m 1"])
async def test_a_blocking_pop_of_another_type_in_an_exec(tmp_path: Path, command: str) -> None:
    """It answers the error of its type, as alone, and the step behind it runs."""
    async with serving(tmp_path) as live:
        client = await live.client()
        got = await pipeline(client, "RPUSH l a", "MULTI", command, "LLEN l", "EXEC")

    assert [ErrorReply(WRONG_TYPE.encode()), 1] == got[-1]
