"""Conversations with clients come to the same with the way of commands in C as by Python alone."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any, ClassVar

import pytest

from resp.clients import shared
from resp.clients.client_path import ClientPath, client_path
from tests.engine.native.twins import running
from tests.real.oracle import request
from tests.resp.harness import Live, serving
from tests.wire.client import Client


def _lot(draws: random.Random, client: int) -> list[list[str]]:
    """A pipeline, in which commands of one kind often follow each other, as a client sends it to keys of its own."""
    lot: list[list[str]] = []
    while len(lot) < 40:
        key = f"{client}:{draws.randrange(6)}"
        n, h, pushed, z = (f"{client}:{name}" for name in "nhlz")
        command = draws.choice(
            [
                *[["GET", key], ["SET", key, "v" * draws.choice([0, 3, 2000])], ["get", key]],
                *[
                    ["INCR", n],
                    ["INCR", key],
                    ["HSET", h, key, "1"],
                    ["LPUSH", pushed, "a", "b"],
                    ["ZADD", z, "1", key],
                ],
                *[
                    ["GET", h],
                    ["LPUSH", h, "a"],
                    ["GET"],
                    ["SET", key],
                    ["SET", key, "v", "EX", "100"],
                    ["SET", key, "v", "EX", "0"],
                ],
                *[
                    ["DEL", key],
                    ["MGET", key, n],
                    ["SADD", f"{{{client}}}s", key],
                    ["SINTER", f"{{{client}}}s", f"{{{client}}}s"],
                    ["SINTER", f"{{{client}}}s", key],
                    ["SORT_RO", pushed, "ALPHA"],
                    ["SORT", pushed, "BY", "w_*"],
                    ["DBSIZE"],
                    ["PING"],
                    ["NOPE"],
                    ["SET", key, "w", "GET"],
                    ["GETRANGE", key, "0", "1"],
                ],
                *[
                    ["SELECT", draws.choice("01")],
                    ["MULTI"],
                    ["EXEC"],
                    ["CLIENT", "REPLY", "SKIP"],
                    ["HELLO", draws.choice("23")],
                ],
            ]
        )
        lot += [command] * draws.choice([1, 1, 2, 5])
    return [*lot, ["CLIENT", "REPLY", "ON"], ["DISCARD"], ["ECHO", "end"]]


async def _alone(live: Live, draws: random.Random, number: int, client: Client) -> list[object]:
    """Replies to commands that are sent one at a time, some in two pieces, and how many of them waited, or did not."""
    said: list[object] = []
    stats = live.server.stats
    reads, writes = sum(stats.request_seconds.counts), sum(stats.write_seconds.counts)
    for _ in range(20):
        key = f"{number}:{draws.randrange(6)}"
        command = draws.choice(
            [
                ["GET", key],
                ["SET", key, "v" * draws.choice([0, 3, 20_000])],
                ["INCR", f"{number}:n"],
                ["get", f"{number}:h"],
                ["HSET", f"{number}:h", key, "1"],
                ["HGET", f"{number}:h", key],
                ["LPUSH", f"{number}:l", "a"],
                ["ZADD", f"{number}:z", "1", key],
                ["ZRANK", f"{number}:z", key],
                ["HGETALL", f"{number}:h"],
                ["GET", "none"],
            ]
        )
        data = request([word.encode() for word in command])
        cut = draws.choice([0, 0, 0, 9, len(data) - 1])
        if cut:
            client.send_bytes(data[:cut])
            await asyncio.sleep(0.001)
        client.send_bytes(data[cut:])
        reply = await client.reply()
        said.append(getattr(reply, "text", reply))
    return [said, sum(stats.request_seconds.counts) - reads, sum(stats.write_seconds.counts) - writes]


async def _converse(live: Live, seed: int) -> list[object]:
    """Replies of three clients that send pipelines in turn, then all that a server tells of what it did."""
    draws, said = random.Random(seed), []
    clients = [await live.client() for _ in range(3)]
    for _ in range(8):
        said += [await _alone(live, draws, number, client) for number, client in enumerate(clients)]
        for number, client in enumerate(clients):
            said.append(await client.call("SET", f"{number}:before", "v"))
            client.send(*_lot(draws, number))
        for client in clients:
            lot: list[Any] = []
            while not lot or lot[-1] != b"end":
                lot.append(await client.reply())
            said.append([getattr(reply, "text", reply) for reply in lot])
    said += [await _alone(live, draws, number, client) for number, client in enumerate(clients)]
    server = live.server
    plans = {
        name: (plan.calls, plan.failed, plan.rejected) for name, plan in server.plans.by_name.items() if plan.calls
    }
    tails = [
        (each.last_command, each.received_commands, each.received_bytes, each.output.sent_bytes, each.query_bytes)
        for each in server.sessions.values()
    ]
    rest = [
        (each.output.pending_reply_bytes, len(each.output.pending_replies), each.held_bytes)
        for each in server.sessions.values()
    ]
    waiting = [(each.answers.pending_events, each.answers.pending_bytes) for each in server.pipelines.values()]
    stats = server.stats
    counts = stats.keyspace_hits, stats.keyspace_misses, stats.errors, stats.net_output_bytes, stats.net_input_bytes
    histograms = [sum(plan.calls_by_digits) for plan in server.plans.by_name.values() if plan.calls]
    events = [
        sorted(map(repr, await live.events(partition)))  # which client's are first is chance
        for partition in server.pipelines
    ]
    return [said, plans, tails, rest, waiting, counts, histograms, len(server.slowlog), events]


@pytest.mark.parametrize(
    ("slower_than", "partitions", "own"),
    [("10000000", 1, None), ("0", 1, None), ("10000000", 3, None), ("0", 3, None), ("10000000", 5, [1, 3, 4])],
)
async def test_conversations_are_the_same(
    tmp_path: Path, slower_than: str, partitions: int, own: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies, their order, what INFO counts, what SLOWLOG keeps, and the events in the log; so by the general way."""
    told = []
    config: Any = {"slowlog_log_slower_than": slower_than, "slowlog_max_len": "100000"}
    for way in ("general", "Python", "C"):
        with running(natively=way == "C"), monkeypatch.context() as patch:
            if way == "general":
                patch.setattr(shared, "served_of", lambda *_: ())
            async with serving(tmp_path / way, partitions=partitions, own=own, **config) as live:
                told.append(await _converse(live, 7))

    for general, alone, here in zip(*told, strict=True):
        assert alone == here
        assert alone == general


class _Counted:
    """A way in C that notes what it takes.

    Attributes:
        taken: the bytes of each lot, and how many of them it took.
    """

    taken: ClassVar[list[tuple[bytes, int]]] = []

    def __init__(self, path: ClientPath[Any]) -> None:
        self._path = path
        self.send = path.send

    def take(self, session: Any, data: bytes) -> int:
        """Pass it on."""
        count = self._path.take(session, data)
        self.taken.append((data, count))
        return count


@pytest.mark.parametrize("partitions", [1, 3])
async def test_conversations_go_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int) -> None:
    """These conversations would show what it does wrong: it takes some of each kind of command."""
    taken: list[tuple[bytes, int]] = []
    monkeypatch.setattr(_Counted, "taken", taken)
    monkeypatch.setattr(shared, "client_path", lambda *given: _Counted(path) if (path := client_path(*given)) else None)
    with running(natively=True):
        async with serving(tmp_path / "log", partitions=partitions) as live:
            await _converse(live, 7)

    whole = [data for data, count in taken if count == len(data)]
    for name in (b"GET", b"SET", b"INCR", b"HSET", b"HGET", b"LPUSH", b"ZADD", b"ZRANK", b"HGETALL"):
        assert [data for data in whole if b"\r\n%b\r\n" % name in data]
    assert [data for data, count in taken if 0 < count < len(data)]
    assert [data for data, count in taken if not count]


@pytest.mark.parametrize("name", ["ended_reads", "ended_writes"])
async def test_conversations_are_told_of_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Pipelines of reads, and writes, do not go by Python alone."""
    calls: list[object] = []
    with running(natively=True):
        async with serving(tmp_path / "log") as live:
            real = getattr(kind := type(live.server.accounting), name)

            def counting(*args: Any) -> None:
                calls.append(args)
                real(*args)

            monkeypatch.setattr(kind, name, counting)
            await _converse(live, 7)

    assert calls
