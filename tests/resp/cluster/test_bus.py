"""Messages among workers: they reach the clients of all, in order, and none is lost without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop
from structlog.testing import capture_logs

from resp.cluster.bus.link import QUEUE_BYTES_MAX, Dial, Link
from resp.cluster.nodes import Node
from tests.real.oracle import SimpleString
from tests.real.process import free_ports
from tests.resp.harness import Live, until
from tests.resp.workers import BEAT, TIMEOUT_S, connected, facing, heard, link_of, listening, lost, workers
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")


async def test_every_workers_clients_hear_every_message(tmp_path: Path) -> None:
    """Of messages published at each of three workers every subscriber hears each once, in its publisher's order."""
    async with connected(tmp_path, 3) as lives:
        listeners = [await listening(live, "SUBSCRIBE", "c") for live in lives]
        publishers = [await live.client() for live in lives]
        sent = [[b"%d-%d" % (who, number) for number in range(4)] for who in range(3)]
        receivers = [
            await publisher.call("PUBLISH", "c", message)
            for number in range(4)
            for publisher, messages in zip(publishers, sent, strict=True)
            for message in [messages[number]]
        ]
        told = [await heard(listener, 12) for listener in listeners]

        assert [1] * 12 == receivers
        for messages in told:
            texts = [text for _, _, text in messages]
            assert sent == [[text for text in texts if text.startswith(b"%d-" % who)] for who in range(3)]
        assert [{}, {}, {}] == [lost(live) for live in lives]


async def test_patterns_hear_others_messages(tmp_path: Path) -> None:
    """A pattern's listener hears a message of another worker, and PUBLISH counts this worker's listeners alone."""
    async with connected(tmp_path, 2) as (first, second):
        listener = await listening(second, "PSUBSCRIBE", "n*")
        receivers = await first.ask("PUBLISH", "news", b"\r\n\x00")
        told = await heard(listener, 1)

        assert (0, [[b"pmessage", b"n*", b"news", b"\r\n\x00"]]) == (receivers, told)


async def test_messages_of_a_transaction_are_carried(tmp_path: Path) -> None:
    """PUBLISH inside MULTI reaches the other worker's clients, in its order."""
    async with connected(tmp_path, 2) as (first, second):
        listener = await listening(second, "SUBSCRIBE", "c")
        client = await first.client()
        for words in (("MULTI",), ("PUBLISH", "c", "1"), ("PUBLISH", "c", "2"), ("EXEC",)):
            await client.call(*words)

        assert [b"1", b"2"] == [text for _, _, text in await heard(listener, 2)]


async def test_what_is_one_workers_stays_there(tmp_path: Path) -> None:
    """Shard messages and keyspace events are not carried: the next thing that the other worker hears is a message."""
    async with connected(tmp_path, 2) as (first, second):
        await first.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
        listener = await listening(second, "PSUBSCRIBE", "*")
        await listener.call("SSUBSCRIBE", "a")
        await first.ask("SET", "b", "1")
        await first.ask("SPUBLISH", "b", "x")
        await first.ask("PUBLISH", "c", "last")

        assert [[b"pmessage", b"*", b"c", b"last"]] == await heard(listener, 1)


async def test_messages_wait_for_a_worker_that_starts(tmp_path: Path) -> None:
    """What is published while another worker is away, and does not count as failed, is heard there when it comes."""
    async with workers(tmp_path, 2) as made:
        first = await made.start(0)
        for number in range(3):
            await first.ask("PUBLISH", "c", str(number))
        waiting = link_of(first).waiting_bytes
        second = await made.start(1)
        await until(lambda: first.server.bus.sent == 3)

        assert (True, 0, 3) == (waiting > 0, link_of(first).waiting_bytes, second.server.bus.received)


async def test_messages_for_a_failed_worker_are_counted(tmp_path: Path) -> None:
    """Once another worker has failed, what waited for it and what comes is lost, counted, and said in the log."""
    with capture_logs() as said:
        async with workers(tmp_path, 2, node_timeout_seconds=TIMEOUT_S) as made:
            first = await made.start(0)
            await first.ask("PUBLISH", "c", "1")
            await until(lambda: bool(lost(first)))
            await first.ask("PUBLISH", "c", "2")

            assert ({"unreachable": 2}, 0) == (lost(first), link_of(first).waiting_bytes)
    assert ["unreachable"] == [line["why"] for line in said if line["event"] == "peer_messages_lost"]


async def test_a_failed_worker_that_calls_is_called_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed worker's greeting makes its link anew at once, and what is published from then on is heard there."""
    monkeypatch.setattr("resp.cluster.bus.link._RETRY_SECONDS", 3600)
    gate = asyncio.Event()

    async def answer(name: bytes, writer: asyncio.StreamWriter) -> bool:
        await gate.wait()
        writer.write({b"PEER-BEAT": BEAT, b"PEER-PUBLISH": b":1\r\n"}.get(name, b"+OK\r\n"))
        return True

    async with facing(tmp_path, answer, node_timeout_seconds=TIMEOUT_S) as live:
        await live.ask("PUBLISH", "c", "1")
        await until(lambda: lost(live) == {"unreachable": 1})
        peer = await greeted_by_the_other(live)
        await live.ask("PUBLISH", "c", "2")
        waiting = link_of(live).waiting_bytes
        gate.set()
        await until(lambda: live.server.bus.sent == 1)
        peer.close()

        assert (True, {"unreachable": 1}) == (waiting > 0, lost(live))


async def test_a_link_that_is_ended_as_it_is_called_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that calls in the moment in which this one ends does not keep it from ending."""
    monkeypatch.setattr("resp.cluster.bus.link._RETRY_SECONDS", 3600)
    (port,) = free_ports(1)
    node = Node(("127.0.0.1", port), (0,), ())
    link = Link(node, Dial(b"", "", str, None, TIMEOUT_S), lambda _: None)
    running = asyncio.create_task(link.run())
    await until(lambda: link.reason != "not connected yet")  # now it waits
    link.call_back()
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=5)

    assert {running} == done


async def test_a_worker_that_cannot_be_called_back_is_given_up(tmp_path: Path) -> None:
    """A failed worker that greets and takes no call: what waited for it meanwhile is counted as lost."""
    gate = asyncio.Event()

    async def answer(name: bytes, writer: asyncio.StreamWriter) -> bool:
        await gate.wait()
        return False

    async with facing(tmp_path, answer, node_timeout_seconds=TIMEOUT_S) as live:
        await live.ask("PUBLISH", "c", "1")
        await until(lambda: lost(live) == {"unreachable": 1})
        await greeted_by_the_other(live)
        await live.ask("PUBLISH", "c", "2")
        await until(lambda: lost(live) == {"unreachable": 2})
        gate.set()

        assert 0 == link_of(live).waiting_bytes


async def greeted_by_the_other(live: Live) -> Client:
    """A connection on which the other worker has said who it is."""
    client = await live.client()
    node = link_of(live).node.node_id
    assert OK == await client.call("SLOTLOG", "PEER-HELLO", "1", live.log.topic, "2", node, "r")
    return client


async def test_messages_that_wait_at_the_end_are_told_of(tmp_path: Path) -> None:
    """A worker that ends while messages of it wait for another one says how many."""
    with capture_logs() as said:
        async with workers(tmp_path, 2) as made:
            first = await made.start(0)
            for _ in range(3):
                await first.ask("PUBLISH", "c", "m")

    assert [3] == [line["count"] for line in said if line["event"] == "peer_messages_lost"]


async def test_a_workers_queue_is_bounded(tmp_path: Path) -> None:
    """No more than a bound waits for one worker; what comes beyond it is lost and counted."""
    async with workers(tmp_path, 2) as made:
        first = await made.start(0)
        message = bytes(QUEUE_BYTES_MAX // 4)
        for _ in range(5):
            first.server.bus.publish(b"c", message)

        assert {"full": 2} == lost(first)
        assert QUEUE_BYTES_MAX >= link_of(first).waiting_bytes


async def test_messages_on_a_link_that_breaks_are_counted(tmp_path: Path) -> None:
    """What was sent and not answered when a link broke may have arrived: it is counted, and not sent again."""
    published = 0

    async def answer(name: bytes, writer: asyncio.StreamWriter) -> bool:
        nonlocal published
        published += name == b"PEER-PUBLISH"
        writer.write({b"PEER-BEAT": BEAT, b"PEER-PUBLISH": b""}.get(name, b"+OK\r\n"))
        return name != b"PEER-PUBLISH"

    async with facing(tmp_path, answer) as live:
        await live.ask("PUBLISH", "c", "1")
        await until(lambda: bool(lost(live)))
        await until(lambda: link_of(live).is_up)

        assert ({"unconfirmed": 1}, 0, 1) == (lost(live), link_of(live).waiting_bytes, published)


async def accepting(name: bytes, writer: asyncio.StreamWriter) -> bool:
    """The other worker takes everything."""
    writer.write({b"PEER-BEAT": BEAT, b"PEER-PUBLISH": b":1\r\n"}.get(name, b"+OK\r\n"))
    return True


def break_off(live: Live, message: bytes) -> None:
    """The connection breaks, and a message is published before the link has heard of it."""
    writer = link_of(live)._writer
    assert writer is not None
    writer.transport.abort()
    live.server.bus.publish(b"c", message)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_messages_wait_when_a_link_has_just_broken(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    """A message that the broken connection has not taken goes out on the next one, and is counted once.

    On uvloop, as in `slotlog serve`, a connection that is closed raises; on asyncio it drops what it is given.
    """

    async def play() -> None:
        async with facing(tmp_path, accepting) as live:
            await until(lambda: link_of(live).is_up)
            break_off(live, b"1")
            await until(lambda: live.server.bus.sent > 0)

            assert (1, {}, 0) == (live.server.bus.sent, lost(live), link_of(live).waiting_bytes)

    run(play())


async def test_messages_at_a_broken_link_that_was_given_up_are_lost(tmp_path: Path) -> None:
    """Of a worker that counts as failed the link breaks: what waits there is lost at once, and counted."""
    gate = asyncio.Event()

    async def answer(name: bytes, writer: asyncio.StreamWriter) -> bool:
        await gate.wait()
        return await accepting(name, writer)

    gate.set()
    async with facing(tmp_path, answer) as live:
        await until(lambda: link_of(live).beats > 0)
        gate.clear()
        link_of(live).give_up()
        break_off(live, b"1")
        await until(lambda: bool(lost(live)))

        assert ({"unreachable": 1}, 0) == (lost(live), link_of(live).waiting_bytes)
        gate.set()


async def test_a_link_that_is_back_has_time_to_answer(tmp_path: Path) -> None:
    """How long a worker was away says nothing of its new connection: the first question may take as long as any."""
    greetings = 0

    async def answer(name: bytes, writer: asyncio.StreamWriter) -> bool:
        nonlocal greetings
        greetings += name == b"PEER-HELLO"
        if name == b"PEER-BEAT":
            await asyncio.sleep(1)  # longer than until the next question, and shorter than two time-outs
        return await accepting(name, writer)

    async with facing(tmp_path, answer, node_timeout_seconds=3) as live:
        link_of(live).heard_at -= 3600
        await until(lambda: link_of(live).beats > 0)

        assert 1 == greetings


async def test_refused_messages_are_counted(tmp_path: Path) -> None:
    """An error in answer to a message is counted, and its text is in the log."""

    async def answer(name: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write({b"PEER-BEAT": BEAT, b"PEER-PUBLISH": b"-NOPERM no\r\n"}.get(name, b"+OK\r\n"))
        return True

    with capture_logs() as said:
        async with facing(tmp_path, answer) as live:
            await live.ask("PUBLISH", "c", "1")
            await until(lambda: bool(lost(live)))

            assert ({"refused": 1}, 0) == (lost(live), live.server.bus.sent)
    assert ["it answers '-NOPERM no'"] == [line["reason"] for line in said if line["event"] == "peer_messages_lost"]


async def test_a_silent_link_is_made_anew(tmp_path: Path) -> None:
    """A connection on which no answer comes any more is given up for a new one."""
    greetings = 0

    async def answer(name: bytes, writer: asyncio.StreamWriter) -> bool:
        nonlocal greetings
        if name == b"PEER-HELLO":
            greetings += 1
            writer.write(b"+OK\r\n")
        elif greetings > 1:
            writer.write(BEAT)
        return True

    async with facing(tmp_path, answer, node_timeout_seconds=TIMEOUT_S) as live:
        await until(lambda: link_of(live).beats > 0)

        assert 2 == greetings


@pytest.mark.parametrize("line", [b"-ERR no\r\n", b"+{}\r\n", b"+nonsense\r\n", b":1\r\n"])
async def test_nonsense_ends_a_link(tmp_path: Path, line: bytes) -> None:
    """An answer that no worker gives ends the connection, and the next one is tried."""
    greetings = 0

    async def answer(name: bytes, writer: asyncio.StreamWriter) -> bool:
        nonlocal greetings
        greetings += name == b"PEER-HELLO"
        writer.write(line if name == b"PEER-BEAT" and greetings == 1 else BEAT if name == b"PEER-BEAT" else b"+OK\r\n")
        return True

    async with facing(tmp_path, answer) as live:
        await until(lambda: link_of(live).beats > 0)

        assert 2 == greetings
