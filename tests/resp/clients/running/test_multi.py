"""MULTI, EXEC, WATCH: one event, decided in the log, so that a replay decides as the first run did."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import pytest

import engine.values.replies
from engine.errors import REPLY_TOO_LARGE
from resp.catalog import multi_queue
from resp.catalog.multi_queue import STEP_BYTES, Step
from resp.clients.running.exec_steps import Run
from resp.commands.server import slotlog
from resp.writes.groups import BROKEN
from slotlog.errors import LogUnavailableError
from tests.real.oracle import Connection, ErrorReply, NullArray, SimpleString
from tests.resp.harness import Live, PlayedLog, event, pipeline, replies, serving, until

OK: Final = SimpleString(b"OK")
QUEUED: Final = SimpleString(b"QUEUED")

BOTH: Final = {
    "a queue runs": ("MULTI", "SET a 1", "INCR a", "GET a", "EXEC", "GET a"),
    "an empty queue": ("MULTI", "EXEC"),
    "an empty queue with a watch": ("WATCH a", "MULTI", "EXEC"),
    "only the server's own commands with a watch": ("WATCH a", "MULTI", "PING", "ECHO x", "EXEC"),
    "reads with a watch": ("SET a 1", "WATCH a", "MULTI", "GET a", "EXEC"),
    "lost by its own connection": ("WATCH a", "SET a 1", "MULTI", "SET b 1", "EXEC", "GET b"),
    "lost, reads alone": ("WATCH a", "SET a 1", "MULTI", "GET a", "EXEC"),
    "unwatched in time": ("WATCH a", "SET a 1", "UNWATCH", "MULTI", "SET b 1", "EXEC"),
    "discarded": ("WATCH a", "MULTI", "SET b 1", "DISCARD", "SET a 1", "MULTI", "SET b 2", "EXEC", "GET b"),
    "once lost, not lost again": ("WATCH a", "SET a 1", "MULTI", "GET a", "EXEC", "MULTI", "GET a", "EXEC"),
    "a second one without a watch": ("WATCH a", "MULTI", "SET a 1", "EXEC", "MULTI", "SET a 2", "EXEC", "GET a"),
    "a wrong command in it": ("MULTI", "SET a", "SET b 1", "EXEC", "GET b"),
    "an unknown command in it": ("MULTI", "NOSUCH", "EXEC", "PING"),
    "a command that fails in it": ("MULTI", "SET a x", "INCR a", "LPUSH a y", "SET b 1", "EXEC", "GET b"),
    "not begun": ("EXEC", "DISCARD", "UNWATCH", "EXEC x"),
    "messages and counts": ("MULTI", "SET a 1", "PUBLISH x m", "DBSIZE", "KEYS *", "EXEC"),
    "counts alone": ("SET a 1", "MULTI", "DBSIZE", "RANDOMKEY", "PUBLISH x m", "EXEC"),
    "databases": ("MULTI", "SET a 1", "SELECT 1", "GET a", "SET a 2", "DBSIZE", "EXEC", "GET a", "SELECT 0", "GET a"),
    "databases, reads alone": ("SET a 1", "MULTI", "SELECT 1", "GET a", "SELECT 0", "GET a", "EXEC", "GET a"),
    "a wrong database": ("MULTI", "SELECT 99", "SET a 1", "EXEC", "GET a"),
    "blocking commands": ("RPUSH l x y z", "MULTI", "BLPOP q l 0", "BRPOP q 0", "BLMOVE l m LEFT LEFT 0", "EXEC"),
    "blocking commands that find nothing": (
        *("MULTI", "BLPOP q 0", "BRPOPLPUSH q r 0", "BLMOVE q r LEFT LEFT 0", "BLMPOP 0 1 q LEFT"),
        *("BZPOPMIN q 0", "BZPOPMAX q 0", "BZMPOP 0 1 q MIN", "EXEC"),
    ),
    "blocking commands of sorted sets": (
        *("ZADD z 1 a 2 b 3 c 4 d", "MULTI", "BZPOPMIN q z 0", "BZPOPMAX z 0", "BZMPOP 0 2 q z MIN COUNT 5", "EXEC"),
    ),
    "blocking commands with wrong timeouts": (
        *("MULTI", "BLPOP q x", "BLMOVE q r LEFT LEFT x", "BLMPOP x 1 q LEFT", "BRPOPLPUSH q r -1", "BZPOPMIN q nan"),
        *("BLMOVE q r UP LEFT 0", "BLMPOP 0 0 q LEFT", "EXEC"),
    ),
    "swapped": ("WATCH a", "MULTI", "SET a 1", "SWAPDB 0 1", "SET a 2", "EXEC", "GET a"),
    "flushed": ("SET a 1", "WATCH a", "FLUSHALL", "MULTI", "SET a 1", "EXEC"),
    "flushed, was not there": ("WATCH a", "FLUSHALL", "MULTI", "SET a 1", "EXEC"),
    "names": ("MULTI", "CLIENT SETNAME me", "CLIENT GETNAME", "SET a 1", "EXEC", "CLIENT GETNAME"),
    "reset": ("WATCH a", "MULTI", "SET a 1", "RESET", "EXEC", "SET a 2", "MULTI", "GET a", "EXEC"),
    "quiet": ("MULTI", "SET a 1", "get a", "EXEC", "exec"),
    "waiting for replicas": ("MULTI", "SET a 1", "WAIT 1 0", "EXEC", "MULTI", "WAIT 1 600000", "EXEC"),
    "subscribing to a shard": ("MULTI", "SSUBSCRIBE x", "EXEC"),
    "subscribing": ("MULTI", "SUBSCRIBE x", "SET a 1", "EXEC"),
}


def slow(log: PlayedLog) -> None:
    """Appends take their time."""
    log.at_once = False


async def test_what_a_transaction_refuses(tmp_path: Path) -> None:
    """MULTI and WATCH within one are errors that change nothing; what may not be queued aborts it. So has Redis 7.4."""
    async with serving(tmp_path) as live:
        got = await pipeline(
            await live.client(), "MULTI", "MULTI", "WATCH a", "SET a 1", "EXEC", "MULTI", "SET a 2", "SAVE", "EXEC"
        )
        stats = await live.ask("INFO", "commandstats")
        assert await live.ask("GET", "a") == b"1"

    assert got[1:5] == [
        ErrorReply(b"ERR MULTI calls can not be nested"),
        ErrorReply(b"ERR WATCH inside MULTI is not allowed"),
        SimpleString(b"QUEUED"),
        [SimpleString(b"OK")],
    ]
    assert got[7:] == [
        ErrorReply(b"ERR Command not allowed inside a transaction"),
        ErrorReply(b"EXECABORT Transaction discarded because of previous errors."),
    ]
    assert b"cmdstat_multi:calls=3," in stats


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("pipelined", [True, False])
async def test_as_the_oracle(tmp_path: Path, oracle: Connection, protocol: int, pipelined: bool) -> None:
    """Each of these transactions has the oracle's replies, sent in one piece or one command after the other."""
    differing: dict[str, Any] = {}
    async with serving(tmp_path) as live:
        for name, commands in BOTH.items():
            oracle.call("RESET")
            oracle.call("HELLO", protocol)
            oracle.call("FLUSHALL")
            expected = oracle.pipeline([*[command.split() for command in commands]])
            client = await live.client()
            await pipeline(client, f"HELLO {protocol}", "FLUSHALL")
            if pipelined:
                got = await pipeline(client, *commands)
            else:
                got = [(await pipeline(client, command))[0] for command in commands]
            if got != expected:
                differing[name] = [three for three in zip(commands, expected, got, strict=True) if three[1] != three[2]]
            client.close()

        assert {} == differing
        assert await live.replayed_digest() == live.digest()


async def test_one_event_each(tmp_path: Path) -> None:
    """A transaction that writes is one event, one that reads is none, and the server's own commands are in neither."""
    async with serving(tmp_path) as live:
        client = await live.client()
        await pipeline(client, "MULTI", "SET a 1", "PUBLISH x m", "DBSIZE", "INCR a", "EXEC")
        await pipeline(client, "MULTI", "GET a", "DBSIZE", "EXEC", "MULTI", "EXEC")

        assert [(b"EXEC", [[b"SET", b"a", b"1"], [b"INCR", b"a"]])] == await live.events()


async def watching(live: Live, change: str) -> list[Any]:
    """WATCH a, then what somebody else does, then an EXEC that sets b: its reply, and b."""
    client, other = await live.client(), await live.client()
    await client.call("WATCH", "a")
    await pipeline(other, change)
    return [(await pipeline(client, "MULTI", "SET b mine", "EXEC"))[2], await other.call("GET", "b")]


@pytest.mark.parametrize("change", ["SET a 1", "DEL a", "EXPIRE a 100", "RENAME c a", "APPEND a x", "FLUSHDB"])
async def test_another_client_changes_the_key(tmp_path: Path, change: str) -> None:
    """EXEC does nothing and replies nil, whatever the change was."""
    async with serving(tmp_path) as live:
        await pipeline(await live.client(), "SET a 0", "SET c 1")

        assert [NullArray(), None] == await watching(live, change)
        assert await live.replayed_digest() == live.digest()


@pytest.mark.parametrize("harmless", ["GET a", "SET x 1", "DEL nothing", "INCR a x", "LPUSH a x"])
async def test_nobody_changes_the_key(tmp_path: Path, harmless: str) -> None:
    """Reads, other keys, and commands that fail lose no watch."""
    async with serving(tmp_path) as live:
        await live.ask("SET", "a", "0")

        assert [[OK], b"mine"] == await watching(live, harmless)


async def test_a_foreign_event_changes_the_key(tmp_path: Path) -> None:
    """A change by another process, between WATCH and EXEC in the log, is seen too."""
    async with serving(tmp_path) as live:
        client = await live.client()
        await client.call("WATCH", "a")
        live.log.before = lambda: [event("SET", "a", "theirs")]
        client.send(["MULTI"], ["SET", "a", "mine"], ["EXEC"])
        got = await replies(client, 3)

        assert [OK, QUEUED, NullArray()] == got
        assert b"theirs" == await client.call("GET", "a")
        assert await live.replayed_digest() == live.digest()


async def test_a_watch_does_not_outlive_its_connection(tmp_path: Path) -> None:
    """When a client with watches goes, an event ends them; the next connection's EXEC depends on its own alone."""
    async with serving(tmp_path) as live:
        client = await live.client()
        await pipeline(client, "WATCH a b", "MULTI", "SET a 1")
        client.close()
        await until(lambda: live.server.pipelines[0].machine.next_offset == 2)
        events = await live.events()
        again = await live.client()

        assert [(b"WATCH", [b"a", b"b"]), (b"UNWATCH", [])] == events
        assert [OK, QUEUED, [OK]] == await pipeline(again, "MULTI", "SET a 2", "EXEC")
        await again.call("SET", "a", "3")
        assert not live.server.pipelines[0].machine._tx.watches
        assert 4 == await live.log.end_offset(0)


async def test_a_watch_whose_append_fails(tmp_path: Path) -> None:
    """WATCH says that nothing was written; an EXEC all the same does nothing, as nobody can tell."""
    async with serving(tmp_path) as live:
        client = await live.client()
        live.log.failure = LogUnavailableError("the log is away")
        failed = await client.call("WATCH", "a")
        live.log.failure = None
        got = await pipeline(client, "MULTI", "SET a 1", "EXEC", "GET a")

    assert ErrorReply(b"ERR nothing was written: the log is away") == failed
    assert [OK, QUEUED, NullArray(), None] == got


async def test_an_exec_whose_append_fails(tmp_path: Path) -> None:
    """Nothing of it runs, and the connection can go on."""
    async with serving(tmp_path) as live:
        client = await live.client()
        await pipeline(client, "MULTI", "SET a 1", "INCR n")
        live.log.failure = LogUnavailableError("the log is away")
        failed = await client.call("EXEC")
        live.log.failure = None

        assert ErrorReply(b"ERR nothing was written: the log is away") == failed
        assert [None, None, OK, QUEUED, [1]] == await pipeline(client, "GET a", "GET n", "MULTI", "INCR n", "EXEC")


async def test_too_large(tmp_path: Path) -> None:
    """A transaction that is larger than an event may be is refused whole; its watches end; the next one runs."""
    mebibyte = "x" * (1 << 20)
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["WATCH", "a"], ["MULTI"], *[["APPEND", "a", mebibyte]] * 9, ["EXEC"])
        got = await replies(client, 12)
        text = b"ERR an event may have 8388608 bytes; nothing was written"

        assert [OK, OK, *[QUEUED] * 9, ErrorReply(text)] == got
        await until(lambda: live.server.pipelines[0].machine.next_offset == 2)
        assert [OK, QUEUED, [0]] == await pipeline(client, "MULTI", "STRLEN a", "EXEC")
        assert [b"WATCH", b"UNWATCH"] == [name for name, _ in await live.events()]


async def test_a_queue_without_end_is_not_kept(tmp_path: Path) -> None:
    """Queued commands are kept up to 32 MiB; past that the transaction is lost, and its memory free."""
    chunk = "x" * (7 << 20)
    async with serving(tmp_path) as live:
        client = await live.client()
        client.send(["MULTI"], *[["SET", "a", chunk]] * 5)
        await replies(client, 6)
        (session,) = live.server.sessions.values()
        assert session.transaction is not None
        kept = len(session.transaction.steps)
        got = await client.call("EXEC")

    assert 4 == kept
    assert ErrorReply(b"EXECABORT Transaction discarded because of previous errors.") == got


async def test_replies_of_reads_alone_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An EXEC without an event answers reads up to the bound, and an error for each one behind."""
    monkeypatch.setattr(engine.values.replies, "REPLY_BYTES_MAX", 2000)
    async with serving(tmp_path) as live:
        client = await live.client()
        got = await pipeline(
            client, f"SET a {'x' * 1500}", "MULTI", *["STRLEN a", "GET a", "GET a", "STRLEN a"], "EXEC"
        )

    assert [1500, b"x" * 1500, b"x" * 1500, ErrorReply(REPLY_TOO_LARGE.encode())] == got[-1]


async def test_each_command_counts_as_more_than_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short commands without end are refused as well; CLIENT LIST shows what the queue takes."""
    monkeypatch.setattr(multi_queue, "_QUEUED_BYTES_MAX", 5 * (STEP_BYTES + len("GETa")))
    async with serving(tmp_path) as live:
        client, other = await live.client(), await live.client()
        await pipeline(client, "MULTI", *["GET a"] * 5)
        (line,) = (line for line in (await other.call("CLIENT", "LIST")).splitlines() if b" multi=5 " in line)
        got = await pipeline(client, "GET a", "EXEC")

    assert b" multi-mem=%d " % (5 * (STEP_BYTES + len("GETa"))) in line
    assert [QUEUED, ErrorReply(b"EXECABORT Transaction discarded because of previous errors.")] == got


async def test_keys_that_are_due(tmp_path: Path) -> None:
    """An EXEC that reads keys which are due waits for a TICK; each of its commands runs once all the same."""
    async with serving(tmp_path) as live:
        live.server.active_expire = False
        client, other = await live.client(), await live.client()
        await other.call("SUBSCRIBE", "x")
        calls = live.server.plans.by_name[b"PUBLISH"]
        await client.call("SET", "a", "1", "PX", 1)
        await asyncio.sleep(0.01)
        got = await pipeline(
            client, "MULTI", "PUBLISH x m", "SELECT 1", "GET a", "SELECT 0", "SLOTLOG STATUS", "GET a", "EXEC"
        )
        await client.call("PUBLISH", "x", "end")
        heard = await replies(other, 2)

        assert [1, OK, None, OK, None] == [reply for at, reply in enumerate(got[-1]) if at != 4]
        assert [b"m", b"end"] == [message[2] for message in heard]
        assert [b"SET", b"TICK"] == [name for name, _ in await live.events()]
        assert 2 == calls.calls


async def test_nothing_waits_inside_exec(tmp_path: Path) -> None:
    """Commands that wait answer at once what there is, whether EXEC is an event or only reads."""
    waits = "WAIT 1 600000", "WAITAOF 1 1 600000", "SLOTLOG WAITFOR 0 0 0", "SLOTLOG WAITFOR 0 7 0"
    async with serving(tmp_path) as live:
        client = await live.client()
        written = await pipeline(client, "MULTI", "SET a 1", *waits, "EXEC")
        read = await pipeline(client, "MULTI", "GET a", *waits, "EXEC")

    assert [OK, 0, [1, 0], 1, 0] == written[-1]
    assert [b"1", 0, [1, 0], 1, 0] == read[-1]


@pytest.mark.parametrize("first", ["SET a 1", "GET a"])
async def test_a_bug_of_ours_in_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """A step that fails in a way that nobody thought of has an error, at once or later; the others have replies."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(slotlog, "_status_of", broken)
    async with serving(tmp_path) as live:
        monkeypatch.setattr(live.server.pubsub, "publish", broken)
        client = await live.client()
        got = await pipeline(client, "MULTI", first, "SLOTLOG STATUS", "PUBLISH x m", "PING", "EXEC", "PING")

    error = ErrorReply(BROKEN.message.encode())
    assert [error, error, SimpleString(b"PONG")] == got[-2][1:]
    assert SimpleString(b"PONG") == got[-1]


async def test_exec_is_answered_whatever_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An EXEC whose replies get lost after its outcome says so, and its connection goes on."""

    async def broken(_run: Run, _step: Step, work: Coroutine[Any, Any, Any], _began: float) -> Any:
        work.close()
        raise RuntimeError("broken")

    monkeypatch.setattr(Run, "_go_on", broken)
    async with serving(tmp_path) as live:
        got = await pipeline(await live.client(), "MULTI", "SET a 1", "SLOTLOG STATUS", "EXEC", "GET a")

    assert [ErrorReply(BROKEN.message.encode()), b"1"] == got[-2:]


async def test_a_client_that_is_gone_subscribes_to_nothing(tmp_path: Path) -> None:
    """When it is killed while its EXEC is on its way, the event happens and the server's commands in it do not."""
    async with serving(tmp_path, prepare=slow) as live:
        client, other = await live.client(), await live.client()
        number = await client.call("CLIENT", "ID")
        live.log.start_gate.clear()
        client.send(["MULTI"], ["SET", "a", "1"], ["SUBSCRIBE", "x"], ["EXEC"])
        await replies(client, 3)
        await until(lambda: live.server.pipelines[0].answers.pending_events == 1)
        await other.call("CLIENT", "KILL", "ID", number)
        await until(lambda: number not in live.server.sessions)
        live.log.start_gate.set()
        await until(lambda: live.server.pipelines[0].machine.next_offset == 1)

        assert [b"1", [b"x", 0]] == await pipeline(other, "GET a", "PUBSUB NUMSUB x")


async def test_watched_keys_are_shown(tmp_path: Path) -> None:
    """INFO counts watching clients and the keys that they watch, each key once, until EXEC, UNWATCH or their end."""
    async with serving(tmp_path) as live:
        clients = [await live.client() for _ in range(3)]
        for client, commands in zip(clients, ("WATCH a b b", "WATCH b", "SELECT 1 WATCH b"), strict=True):
            await pipeline(client, *commands.replace(" WATCH", "|WATCH").split("|"))
        found = [await _watched(live)]
        too_many = [f"WATCH {' '.join(map(str, range(1025)))}", "WATCH c", "MULTI", "EXEC"]
        await pipeline(clients[0], *too_many)
        found.append(await _watched(live))
        await clients[1].call("UNWATCH")
        found.append(await _watched(live))
        clients[2].close()
        await until(lambda: len(live.server.sessions) == 2)
        found.append(await _watched(live))

    assert [("3", "3"), ("2", "2"), ("1", "1"), ("0", "0")] == found


async def _watched(live: Live) -> tuple[str, str]:
    lines = (await live.ask("INFO", "clients")).decode().splitlines()
    fields = dict(line.split(":") for line in lines[1:])
    return fields["watching_clients"], fields["total_watched_keys"]


async def test_in_slots(tmp_path: Path) -> None:
    """In cluster mode all keys of EXEC and WATCH lie in one slot, whichever partitions there are."""
    async with serving(tmp_path, partitions=2) as live:
        client = await live.client()
        crossed = ErrorReply(b"CROSSSLOT Keys in request don't hash to the same slot")
        one = await pipeline(client, "MULTI", "SET {a}1 x", "SET {a}2 y", "EXEC")
        two = await pipeline(client, "MULTI", "SET {a}1 x", "SET {b}2 y", "EXEC")
        watched = await pipeline(client, "WATCH {a}1", "WATCH {b}2", "MULTI", "SET {a}1 z", "EXEC")
        elsewhere = await pipeline(client, "WATCH {a}1", "MULTI", "SET {b}1 z", "EXEC", "MULTI", "GET {a}1", "EXEC")
        kept = await pipeline(client, "WATCH {b}1", "MULTI", "SET {b}1 z", "EXEC")

        read = await pipeline(client, "MULTI", "GET {a}1", "GET {b}2", "EXEC")

        assert [OK, QUEUED, QUEUED, [OK, OK]] == one
        assert crossed == read[3]
        assert crossed.text in two[3].text
        assert [OK, crossed, OK, QUEUED, [OK]] == watched
        assert crossed.text in elsewhere[3].text
        assert [[b"z"]] == elsewhere[6:]
        assert [OK, OK, QUEUED, [OK]] == kept
        assert await live.replayed_digest() == live.digest()
