"""Clients that wait for an entry of a stream: answered as the oracle answers, in order of arrival, nothing lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from engine.layouts.layout import Form
from tests.real.oracle import Connection, ErrorReply, NullArray
from tests.resp.blocking.pops import settled
from tests.resp.harness import blocked, event, pipeline, replies, serving

pytestmark = pytest.mark.form(Form.STREAMS)

GROUP: Final = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"
READ: Final = "XREAD BLOCK 0 STREAMS s $"
START: Final = ("XADD s 1-1 a b", "XGROUP CREATE s g $", "SET text x")

SERVED: Final = {
    "an entry": (READ, ["XADD s 2-0 x y"]),
    "an entry above the last": (READ, ["DEL s", "XADD s 1-0 x y", "XADD s 1-2 x y"]),
    "an entry of another stream": ("XREAD BLOCK 0 STREAMS s other $ $", ["XADD other 2-0 x y"]),
    "an entry of both": (
        "XREAD COUNT 1 BLOCK 0 STREAMS s other $ 0", ["MULTI", "XADD other 1-0 x y", "XADD s 3-0 a b", "EXEC"]
    ),
    "the next entry where there is none": ("XREAD BLOCK 0 STREAMS other +", ["XADD other 9-0 x y"]),
    "the last of those that wake it": (
        "XREAD BLOCK 0 STREAMS other +", ["MULTI", "XADD other 8-0 a b", "XADD other 9-0 x y", "EXEC"]
    ),
    "a stream by another name": (READ, ["XADD t 9-0 x y", "RENAME t s"]),
    "a copy": (READ, ["XADD t 9-0 x y", "COPY t s REPLACE"]),
    "what a script adds": (READ, ["EVAL return(redis.call('XADD','s','5-0','a','b')) 1 s"]),
    "of a group: an entry": (GROUP, ["XADD s 2-0 x y"]),
    "of a group: two at once": (GROUP, ["MULTI", "XADD s 2-0 x y", "XADD s 3-0 x y", "EXEC"]),
    "of a group: as many as it asks for": (
        "XREADGROUP GROUP g c COUNT 1 BLOCK 0 NOACK STREAMS s >", ["MULTI", "XADD s 2-0 x y", "XADD s 3-0 x y", "EXEC"]
    ),
    "of a group that was set back": (GROUP, ["XGROUP SETID s g 0", "XADD s 2-0 x y"]),
    "of a group that is gone": (GROUP, ["XGROUP DESTROY s g"]),
    "of a key that is gone": (GROUP, ["DEL s"]),
    "of a key with another name": (GROUP, ["RENAME s t"]),
    "of a key that is text now": (GROUP, ["SET s x"]),
    "of a key that was flushed": (GROUP, ["FLUSHALL"]),
    "of a key that dies at once": (GROUP, ["PEXPIRE s -1"]),
}  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3])
async def test_served_as_by_the_oracle(tmp_path: Path, oracle_server: Any, protocol: int) -> None:
    """Whoever waits is answered as the oracle answers, whatever happens to the key."""
    waiting, other = oracle_server.connect(), oracle_server.connect()
    waiting.call("HELLO", protocol)
    expected: dict[str, Any] = {}
    for name, (command, actions) in SERVED.items():
        other.call("FLUSHALL")
        other.pipeline(line.split() for line in START)
        answer = asyncio.create_task(asyncio.to_thread(waiting.call, *command.split()))
        while b"blocked_clients:1" not in other.call("INFO", "clients"):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.005)
        other.pipeline(line.split() for line in actions)
        expected[name] = await answer
    waiting.close()
    other.close()

    async with serving(tmp_path) as live:
        client, second = await live.client(), await live.client()
        await client.call("HELLO", protocol)
        for name, (command, actions) in SERVED.items():
            await second.call("FLUSHALL")
            await pipeline(second, *START)
            client.send(command.split())
            await blocked(live, 1)
            await settled(live)
            await pipeline(second, *actions)
            assert (name, expected[name]) == (name, (await replies(client, 1))[0])

        assert await live.replayed_digest() == live.digest()


AT_ONCE: Final = (
    *START, "XREAD BLOCK 0 STREAMS s 0", "XREAD BLOCK 10 STREAMS s $", "XREAD BLOCK 10 STREAMS none $",
    "XREAD BLOCK 0 STREAMS s +", "XREAD BLOCK -1 STREAMS s $", "XREAD BLOCK x STREAMS s $",
    "XREAD BLOCK 1.5 STREAMS s $", "XREAD BLOCK 9223372036854775807 STREAMS s $", "XREAD BLOCK 0 STREAMS none text $ $",
    "XREAD BLOCK 0 STREAMS none bad", "XREAD BLOCK 0 STREAMS s >", "XREADGROUP GROUP g c BLOCK 10 STREAMS s >",
    "XREADGROUP GROUP g c BLOCK 0 STREAMS s 0", "XREADGROUP GROUP none c BLOCK 0 STREAMS s >",
    "XREADGROUP GROUP g c BLOCK 0 STREAMS s none > >", "XREADGROUP GROUP g c BLOCK 0 STREAMS text >",
    "XADD s 2-1 a b", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XREADGROUP GROUP g c BLOCK 0 STREAMS s 0-1",
    "MULTI", "XREAD BLOCK 0 STREAMS s $", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "EXEC",
    "EVAL return(redis.call('XREAD','BLOCK','0','STREAMS','s','$')) 1 s",
)  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3])
async def test_replies_as_the_oracle(tmp_path: Path, oracle: Connection, protocol: int) -> None:
    """Finds something at once, times out, is wrong, may not wait: shape and text of each reply are the oracle's."""
    oracle.call("HELLO", protocol)
    async with serving(tmp_path) as live:
        client = await live.client()
        await client.call("HELLO", protocol)
        for command in AT_ONCE:
            (expected,) = oracle.pipeline([command.split()])
            assert (command, expected) == (command, (await pipeline(client, command))[0])


async def test_a_group_serves_in_order_of_arrival(tmp_path: Path) -> None:
    """Each entry goes to who has waited longest, in the append of its XADD; who finds nothing appends nothing."""
    async with serving(tmp_path) as live:
        clients = [await live.client() for _ in range(4)]
        await live.ask("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        for number, client in enumerate(clients):
            client.send(f"XREADGROUP GROUP g c{number} COUNT 1 BLOCK 0 STREAMS s >".split())
            await blocked(live, number + 1)
        await settled(live)
        before, appends = len(await live.events()), live.log.appends
        for number in range(3):
            await live.ask("XADD", "s", f"{number + 1}-0", "f", str(number))
            got = await replies(clients[number], 1)
            assert [[[b"s", [[b"%d-0" % (number + 1), [b"f", b"%d" % number]]]]]] == got
        await blocked(live, 1)

        names = [name for name, _ in (await live.events())[before:]]
        assert [b"XADD", b"XREADGROUP"] * 3 == names
        assert 3 == live.log.appends - appends
        assert 1 == await live.ask("XGROUP", "DESTROY", "s", "g")
        assert [ErrorReply(b"NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option")] == (
            await replies(clients[3], 1)
        )
        assert await live.replayed_digest() == live.digest()


async def test_a_group_that_is_set_back_wakes_nobody(tmp_path: Path) -> None:
    """As in Redis: who waits gets what the group may give again together with the next entry that is added."""
    async with serving(tmp_path) as live:
        client = await live.client()
        for command in START:
            await live.ask(*command.split())
        client.send(GROUP.split())
        await blocked(live, 1)
        await settled(live)
        await live.ask("XGROUP", "SETID", "s", "g", "0")
        await settled(live)
        assert 1 == len(live.server.blocked.waiters)
        await live.ask("XADD", "s", "2-0", "x", "y")

        assert [[[b"s", [[b"1-1", [b"a", b"b"]], [b"2-0", [b"x", b"y"]]]]]] == await replies(client, 1)


async def test_a_read_of_two_keys_that_finds_nothing_is_over(tmp_path: Path) -> None:
    """Entries below the ids that it waits for, added to one of its keys twice: it reads again, and then waits on."""
    async with serving(tmp_path) as live:
        client = await live.client()
        number = await client.call("CLIENT", "ID")
        client.send(["XREAD", "BLOCK", "0", "STREAMS", "s", "t", "9-0", "9-0"])
        await blocked(live, 1)
        await pipeline(await live.client(), "MULTI", "XADD s 6-0 a b", "XADD s 6-1 a b", "EXEC")
        await settled(live)

        assert [None] == [waiter.popping for waiter in live.server.blocked.waiters]
        assert 1 == await live.ask("CLIENT", "UNBLOCK", number)
        assert [NullArray()] == await replies(client, 1)


async def test_unblocked_while_its_read_is_under_way(tmp_path: Path) -> None:
    """CLIENT UNBLOCK counts it as one that waits, and it ends with the read that finds nothing."""
    async with serving(tmp_path) as live:
        client = await live.client()
        session = live.server.sessions[await client.call("CLIENT", "ID")]
        await live.ask("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        session.inbox.receive([GROUP.encode().split()])
        assert session.blocked is not None
        assert session.blocked.popping is not None

        assert live.server.blocked.unblock(session, error=True)
        assert [ErrorReply(b"UNBLOCKED client unblocked via CLIENT UNBLOCK")] == await replies(client, 1)


async def test_all_readers_get_the_entry(tmp_path: Path) -> None:
    """XREAD takes nothing from the others, and appends no event."""
    async with serving(tmp_path) as live:
        clients = [await live.client() for _ in range(5)]
        for number, client in enumerate(clients):
            client.send(READ.split())
            await blocked(live, number + 1)
        await live.ask("XADD", "s", "1-0", "f", "v")

        assert [[[[b"s", [[b"1-0", [b"f", b"v"]]]]]]] * 5 == [await replies(client, 1) for client in clients]
        assert [b"XADD"] == [name for name, _ in await live.events()]


async def test_served_by_foreign_events(tmp_path: Path) -> None:
    """What another process appends serves who waits here: one of each group, and all who only read."""
    async with serving(tmp_path) as live:
        clients = [await live.client() for _ in range(4)]
        await live.ask("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        await live.ask("XGROUP", "CREATE", "s", "h", "$")
        for number, command in enumerate([GROUP, GROUP, GROUP.replace(" g ", " h "), READ]):
            clients[number].send(command.split())
            await blocked(live, number + 1)
        await settled(live)
        await live.log.append_as_another(event("XADD", "s", "1-0", "f", "v"))
        entry = [[[b"s", [[b"1-0", [b"f", b"v"]]]]]]

        assert [entry] * 3 == [await replies(clients[number], 1) for number in (0, 2, 3)]
        await blocked(live, 1)
        await live.log.append_as_another(event("XADD", "s", "2-0", "f", "v"), event("XADD", "s", "3-0", "f", "v"))
        assert [[[b"s", [[b"2-0", [b"f", b"v"]], [b"3-0", [b"f", b"v"]]]]]] == await replies(clients[1], 1)
        assert await live.replayed_digest() == live.digest()


async def test_what_finds_nothing_appends_nothing(tmp_path: Path) -> None:
    """A consumer that polls changes nothing once it is there, with BLOCK or without."""
    async with serving(tmp_path) as live:
        client = await live.client()
        await live.ask("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        got = await pipeline(client, "XREADGROUP GROUP g c STREAMS s >")
        for _ in range(3):
            got += await pipeline(client, "XREADGROUP GROUP g c STREAMS s >")
            got += await pipeline(client, "XREADGROUP GROUP g c BLOCK 1 STREAMS s >")
            got += await pipeline(client, "XREADGROUP GROUP g c STREAMS s 0")

        nothing = [NullArray(), NullArray(), [[b"s", []]]]
        assert [NullArray(), *nothing * 3] == got
        assert [b"XGROUP|CREATE", b"XREADGROUP"] == [name for name, _ in await live.events()]


async def test_unblock_and_timeouts(tmp_path: Path) -> None:
    """CLIENT UNBLOCK and the end of the time are nil, or an error if that is asked for; nothing is delivered then."""
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        number = await client.call("CLIENT", "ID")
        await live.ask("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        got = []
        for word in ("TIMEOUT", "ERROR"):
            for command in (GROUP, READ):
                client.send(command.split())
                await blocked(live, 1)
                await settled(live)
                assert 1 == await other.call("CLIENT", "UNBLOCK", number, word)
                got += await replies(client, 1)
        got.append(await client.call(*GROUP.replace("BLOCK 0", "BLOCK 5").split()))
        got.append(await client.call(*READ.replace("BLOCK 0", "BLOCK 5").split()))
        await live.ask("XADD", "s", "1-0", "f", "v")

        unblocked = ErrorReply(b"UNBLOCKED client unblocked via CLIENT UNBLOCK")
        assert [NullArray()] * 2 + [unblocked] * 2 + [NullArray()] * 2 == got
        assert [0, None, None, NullArray()] == await live.ask("XPENDING", "s", "g")
        assert not live.server.blocked.waiters
