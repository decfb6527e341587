"""Clients that wait for an element: in order of arrival, nothing lost, nothing popped for who is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from slotlog.errors import LogUnavailableError
from tests.real.oracle import Connection, ErrorReply, NullArray, SimpleString
from tests.resp.blocking.pops import settled
from tests.resp.harness import PlayedLog, blocked, event, pipeline, replies, serving, until

OK: Final = SimpleString(b"OK")
WRONG_TYPE: Final = ErrorReply(b"WRONGTYPE Operation against a key holding the wrong kind of value")

TIMING_OUT: Final = (
    *("BLPOP q 0.01", "BRPOP q r 0.01", "BLMOVE q r LEFT RIGHT 0.01", "BRPOPLPUSH q r 0.01", "BLMPOP 0.01 1 q LEFT"),
    *("BZPOPMIN z 0.01", "BZPOPMAX z y 0.01", "BZMPOP 0.01 2 z y MIN COUNT 3"),
)
AT_ONCE: Final = (
    *("RPUSH q a b c d e f", "BLPOP none q 0", "BRPOP q 0", "BLMOVE q r LEFT RIGHT 0", "BRPOPLPUSH q r 0"),
    *("BLMPOP 0 2 none q RIGHT COUNT 5", "LRANGE r 0 -1", "ZADD z 1 a 2.5 b 3 c 4 d", "BZPOPMIN none z 0"),
    *("BZPOPMAX z 0", "BZMPOP 0 1 z MIN COUNT 1", "BZMPOP 0 1 z MAX COUNT 9", "EXISTS q z"),
)
WRONG: Final = (
    *("SET s 1", "BLPOP s 0.01", "BLPOP q s 0.01", "BLMOVE s q LEFT LEFT 0.01", "BZPOPMIN s 0.01", "BZPOPMIN q s 1"),
    *("BLPOP q -1", "BLPOP q x", "BLPOP q nan", "BLPOP q 1e400", "BLPOP q", "BLMOVE q r UP LEFT 0"),
    "BLMPOP 0 0 q LEFT",
    *("BLMPOP 0 1 q UP", "BLMPOP 0 2 q LEFT", "BLMPOP 0 1 q LEFT COUNT 0", "BZMPOP 0 1 q LEFT", "BLPOP q 9e18"),
    *("RPUSH q a", "BLPOP q s 0", "RPUSH q a", "BLMOVE q s LEFT LEFT 0", "LRANGE q 0 -1"),
)


def slow(log: PlayedLog) -> None:
    """Appends take their time."""
    log.at_once = False


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("commands", [TIMING_OUT, AT_ONCE, WRONG])
async def test_replies_as_the_oracle(
    tmp_path: Path, oracle: Connection, protocol: int, commands: tuple[str, ...]
) -> None:
    """Times out, finds something at once, is wrong: shape and text of each reply are the oracle's."""
    oracle.call("HELLO", protocol)
    async with serving(tmp_path) as live:
        client = await live.client()
        await client.call("HELLO", protocol)
        for command in commands:
            (expected,) = oracle.pipeline([command.split()])
            assert (command, expected) == (command, (await pipeline(client, command))[0])


SERVED: Final = {
    "BLPOP q 0": ("RPUSH q a b", [b"q", b"a"]),
    "BRPOP r q 0": ("RPUSH q a b", [b"q", b"b"]),
    "BLMOVE q m LEFT LEFT 0": ("RPUSH q a b", b"a"),
    "BRPOPLPUSH q m 0": ("RPUSH q a b", b"b"),
    "BLMPOP 0 2 r q LEFT COUNT 2": ("RPUSH q a b c", [b"q", [b"a", b"b"]]),
    "BZPOPMIN z 0": ("ZADD z 1 a 2 b", [b"z", b"a", b"1"]),
    "BZPOPMAX y z 0": ("ZADD z 1 a 2 b", [b"z", b"b", b"2"]),
    "BZMPOP 0 1 z MAX COUNT 2": ("ZADD z 1 a 2 b", [b"z", [[b"b", b"2"], [b"a", b"1"]]]),
}


@pytest.mark.parametrize("protocol", [2, 3])
async def test_served_as_by_the_oracle(tmp_path: Path, oracle_server: Any, protocol: int) -> None:
    """Who waited is answered as the oracle answers, whatever it waits with."""
    expected: dict[str, Any] = {}
    with_oracle = [oracle_server.connect() for _ in range(2)]
    with_oracle[0].call("HELLO", protocol)
    for command, (push, _) in SERVED.items():
        with_oracle[1].call("FLUSHALL")
        expected[command] = await _by_the_oracle(with_oracle[0], with_oracle[1], command, push)
    for connection in with_oracle:
        connection.close()
    got: dict[str, Any] = {}
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        await client.call("HELLO", protocol)
        for command, (push, _) in SERVED.items():
            await other.call("FLUSHALL")
            client.send(command.split())
            await blocked(live, 1)
            await pipeline(other, push)
            got[command] = (await replies(client, 1))[0]

        assert await live.replayed_digest() == live.digest()
    assert expected == got
    if protocol == 2:
        assert {command: reply for command, (_, reply) in SERVED.items()} == got


async def _by_the_oracle(waiting: Connection, other: Connection, command: str, push: str) -> Any:
    answer = asyncio.create_task(asyncio.to_thread(waiting.call, *command.split()))
    while b"blocked_clients:1" not in other.call("INFO", "clients"):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.005)
    other.call(*push.split())
    return await answer


@pytest.mark.parametrize("play", [lambda _: None, slow])
async def test_served_in_order_of_arrival(tmp_path: Path, play: Any) -> None:
    """Many clients at two keys, and pushes to either: the first to come is the first served."""
    async with serving(tmp_path, prepare=play) as live:
        clients = [await live.client() for _ in range(12)]
        for number, client in enumerate(clients):
            client.send(["BLPOP", *(("q", "r") if number % 2 else ("r", "q")), "0"])
            await blocked(live, number + 1)
        pusher = await live.client()
        for served, push in ((1, "RPUSH q 0"), (2, "RPUSH r 1"), (5, "RPUSH q 2 3 4"), (6, "LPUSH r 5")):
            await pipeline(pusher, push)
            await blocked(live, 12 - served)
        await pipeline(pusher, "RPUSH q 6", "RPUSH q 7 8 9", "MULTI", "RPUSH q 10", "RPUSH q 11", "EXEC")
        got = [(await replies(client, 1))[0][1] for client in clients]

        assert [b"%d" % number for number in range(12)] == got
        assert 0 == await pusher.call("EXISTS", "q", "r")
        assert await live.replayed_digest() == live.digest()


BY_OTHER_WAYS: Final = {
    "EXEC": ("MULTI", "RPUSH q a", "RPUSH q b", "EXEC"),
    "EXEC, pushed twice and popped": ("MULTI", "RPUSH q b a", "LPOP q", "EXEC"),
    "RENAME": ("RPUSH x a", "RENAME x q"),
    "LMOVE": ("RPUSH x a", "LMOVE x q LEFT LEFT"),
    "COPY": ("RPUSH x a", "COPY x q"),
    "MOVE": ("SELECT 1", "RPUSH q a", "MOVE q 0"),
    "SWAPDB": ("SELECT 1", "RPUSH q a", "SWAPDB 0 1"),
    "SWAPDB in EXEC": ("SELECT 1", "RPUSH q a", "MULTI", "SWAPDB 0 1", "EXEC"),
    "another type first": ("SET q x", "DEL q", "RPUSH q a"),
}


@pytest.mark.parametrize("way", list(BY_OTHER_WAYS))
async def test_served_whatever_brings_the_element(tmp_path: Path, way: str) -> None:
    """Not only a push makes a list ready."""
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        client.send(["BLPOP", "q", "0"])
        await blocked(live, 1)
        await pipeline(other, *BY_OTHER_WAYS[way])

        assert [[b"q", b"a"]] == await replies(client, 1)
        assert await live.replayed_digest() == live.digest()


async def test_served_by_a_foreign_event(tmp_path: Path) -> None:
    """What another process appends serves who waits here."""
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["BZPOPMIN", "z", "0"])
        await blocked(live, 1)
        await live.log.append_as_another(event("ZADD", "z", "1", "a"))

        assert [[b"z", b"a", b"1"]] == await replies(client, 1)
        assert [b"ZADD", b"ZPOPMIN"] == [name for name, _ in await live.events()]


async def test_a_chain_of_moves(tmp_path: Path) -> None:
    """An element that BLMOVE brings to a list serves who waits for that list."""
    async with serving(tmp_path) as live:
        clients = [await live.client() for _ in range(3)]
        for number, client in enumerate(clients[:2]):
            client.send(["BLMOVE", f"l{number}", f"l{number + 1}", "LEFT", "RIGHT", "0"])
        clients[2].send(["BLPOP", "l2", "0"])
        await blocked(live, 3)
        await live.ask("RPUSH", "l0", "x")

        assert [[b"x"], [b"x"], [[b"l2", b"x"]]] == [await replies(client, 1) for client in clients]


async def test_a_lost_race_keeps_the_place(tmp_path: Path) -> None:
    """When somebody else is quicker, the client goes on waiting, ahead of those who came later."""
    async with serving(tmp_path) as live:
        first, second = await live.client(), await live.client()
        for number, client in enumerate((first, second)):
            client.send(["BLPOP", "q", "0"])
            await blocked(live, number + 1)
        thief = [event("LPOP", "q")]
        live.log.before = lambda: [thief.pop()] if thief else []
        await live.log.append_as_another(event("RPUSH", "q", "a"))
        await until(lambda: not thief and live.server.pipelines[0].machine.next_offset == 3)
        await settled(live)
        await live.log.append_as_another(event("RPUSH", "q", "b"))
        await live.log.append_as_another(event("RPUSH", "q", "c"))

        assert [[[b"q", b"b"]], [[b"q", b"c"]]] == [await replies(client, 1) for client in (first, second)]
        assert await live.replayed_digest() == live.digest()


async def test_a_key_that_becomes_another_type_meanwhile(tmp_path: Path) -> None:
    """A pop under way that finds a string is a lost race too: the client goes on waiting."""
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["BLPOP", "q", "0"])
        await blocked(live, 1)
        others = [event("SET", "q", "x")]
        live.log.before = lambda: [others.pop()] if others else []
        await live.log.append_as_another(event("RPUSH", "q", "a"))
        await until(lambda: not others and live.server.pipelines[0].machine.next_offset == 3)
        await live.log.append_as_another(event("DEL", "q"), event("RPUSH", "q", "b"))

        assert [[b"q", b"b"]] == await replies(client, 1)


async def test_a_destination_of_another_type(tmp_path: Path) -> None:
    """BLMOVE into a string: the error when an element comes, which stays for the next client, as in Redis."""
    async with serving(tmp_path) as live:
        first, second = await live.client(), await live.client()
        await first.call("SET", "s", "x")
        first.send(["BLMOVE", "q", "s", "LEFT", "LEFT", "0"])
        await blocked(live, 1)
        second.send(["BLPOP", "q", "0"])
        await blocked(live, 2)
        await live.ask("RPUSH", "q", "a")

        assert [WRONG_TYPE] == await replies(first, 1)
        assert [[b"q", b"a"]] == await replies(second, 1)


async def test_a_write_that_is_refused_where_another_key_has_another_type(tmp_path: Path) -> None:
    """A pop is sent with a ZADD whose result is not known yet, and which fails: the client waits on, as in Redis."""
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        client.send(["BZPOPMIN", "q", "s", "0"])
        await blocked(live, 1)
        await pipeline(other, "RPUSH q a", "RPUSH s a")
        assert [1, WRONG_TYPE] == await pipeline(other, "INCR n", "ZADD q 1 a")
        await pipeline(other, "DEL q s", "ZADD q 2 b")

        assert [[b"q", b"b", b"2"]] == await replies(client, 1)


async def test_behind_one_that_waits_for_another_type(tmp_path: Path) -> None:
    """The key holds a list, and who came first waits for a sorted set there: an element goes to who comes now."""
    async with serving(tmp_path) as live:
        first, second = await live.client(), await live.client()
        first.send(["BZPOPMIN", "none", "q", "0"])
        await blocked(live, 1)
        await live.ask("RPUSH", "q", "a")

        assert b"a" == await second.call("BLMOVE", "q", "r", "LEFT", "RIGHT", "0")


async def test_a_client_that_is_gone_gets_nothing(tmp_path: Path) -> None:
    """Its element stays for the next one."""
    async with serving(tmp_path) as live:
        first, second = await live.client(), await live.client()
        for number, client in enumerate((first, second)):
            client.send(["BLPOP", "q", "0"])
            await blocked(live, number + 1)
        first.close()
        await blocked(live, 1)
        await live.ask("RPUSH", "q", "a")

        assert [[b"q", b"a"]] == await replies(second, 1)
        assert [b"RPUSH", b"LPOP"] == [name for name, _ in await live.events()]


async def test_timeouts_in_order(tmp_path: Path) -> None:
    """Each ends by its own timeout, the shorter one first; the place of who is over is free."""
    async with serving(tmp_path) as live:
        clients = [await live.client() for _ in range(3)]
        ended: list[int] = []

        async def wait(number: int, seconds: str) -> Any:
            reply = await clients[number].call("BLPOP", "q", seconds)
            ended.append(number)
            return reply

        waiting = [asyncio.create_task(wait(number, seconds)) for number, seconds in enumerate(("0.4", "0.2", "0.01"))]
        got = await asyncio.gather(*waiting)

        assert [2, 1, 0] == ended
        assert [NullArray()] * 3 == got
        assert 1 == await live.ask("RPUSH", "q", "a")
        assert (0, 1) == (len(live.server.blocked.waiters), await live.ask("LLEN", "q"))


async def test_a_timeout_while_its_pop_is_under_way(tmp_path: Path) -> None:
    """The element of a pop that was sent in time is answered, however late."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        client.send(["BLPOP", "q", "0.1"])
        await blocked(live, 1)
        await live.log.append_as_another(event("RPUSH", "q", "a", "b"))
        live.log.start_gate.clear()
        await blocked(live, 0)  # its time is over
        live.log.start_gate.set()

        (got,) = await replies(client, 1)
        left = await live.ask("LLEN", "q")
        assert (got, left) in (([b"q", b"a"], 1), (NullArray(), 2))
        assert await live.replayed_digest() == live.digest()


async def test_a_timeout_after_a_lost_race(tmp_path: Path) -> None:
    """When the pop under way at the end of its time finds nothing, there is no other one, and no element is lost."""
    async with serving(tmp_path, prepare=slow) as live:
        client = await live.client()
        client.send(["BLPOP", "q", "0.3"])
        await blocked(live, 1)
        live.log.start_gate.clear()
        thief = [event("LPOP", "q"), event("RPUSH", "r", "x")]
        live.log.before = lambda: [thief.pop(0)] if thief else []
        await live.log.append_as_another(event("RPUSH", "q", "a"))
        await until(lambda: live.server.pipelines[0].local_writes.outbox.is_appending)
        await blocked(live, 0)
        live.log.start_gate.set()

        assert [NullArray()] == await replies(client, 1)
        live.log.before = None
        assert 1 == await live.ask("RPUSH", "q", "b")
        assert 1 == await live.ask("LLEN", "q")


async def test_unblock(tmp_path: Path) -> None:
    """CLIENT UNBLOCK ends a wait as its timeout would, or with an error; 0 for who does not wait."""
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        number = await client.call("CLIENT", "ID")
        got = []
        for word in ("TIMEOUT", "ERROR"):
            client.send(["BLPOP", "q", "0"])
            await blocked(live, 1)
            got.append(await other.call("CLIENT", "UNBLOCK", number, word))
            got += await replies(client, 1)
        got.append(await other.call("CLIENT", "UNBLOCK", number))

    unblocked = ErrorReply(b"UNBLOCKED client unblocked via CLIENT UNBLOCK")
    assert [1, NullArray(), 1, unblocked, 0] == got


async def test_blocked_clients_in_info(tmp_path: Path) -> None:
    """INFO counts who waits."""
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["BLPOP", "q", "0"])
        await blocked(live, 1)

        assert b"blocked_clients:1\r\n" in await live.ask("INFO", "clients")


async def test_a_pop_that_the_log_refuses(tmp_path: Path) -> None:
    """The client hears that nothing was written; the element stays."""
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["BLPOP", "q", "0"])
        await blocked(live, 1)
        live.log.failure = LogUnavailableError("the log is away")
        await live.log.append_as_another(event("RPUSH", "q", "a"))
        got = await replies(client, 1)
        live.log.failure = None

        assert [ErrorReply(b"ERR nothing was written: the log is away")] == got
        assert 1 == await live.ask("LLEN", "q")


async def test_a_partition_that_goes_on(tmp_path: Path) -> None:
    """What was pushed while the partition stood still serves who has waited all the time."""
    reasons = [""]
    async with serving(tmp_path, guard=lambda: reasons[0]) as live:
        client = await live.client()
        client.send(["BLPOP", "q", "0"])
        await blocked(live, 1)
        reasons[0] = "disk full"
        await until(lambda: str(live.server.pipelines[0].owned.condition) == "waiting")
        await live.log.append_as_another(event("RPUSH", "q", "a"))
        reasons[0] = ""

        assert [[b"q", b"a"]] == await replies(client, 1)


async def test_the_position_of_a_pop(tmp_path: Path) -> None:
    """SLOTLOG POSITION tells where the pop is in the log, as for every write of a connection."""
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["BLPOP", "q", "0"])
        await blocked(live, 1)
        await live.ask("RPUSH", "q", "a")
        await replies(client, 1)

        assert [0, 1] == await client.call("SLOTLOG", "POSITION")
