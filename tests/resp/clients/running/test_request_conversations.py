"""Conversations with clients come to the same with the way of commands in C as by Python alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from resp.clients.running.inbox import Inbox
from tests.engine.native.twins import running
from tests.resp.harness import Live, serving


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


async def _converse(live: Live, seed: int) -> list[object]:
    """Replies of three clients that send pipelines in turn, then all that a server tells of what it did."""
    draws, said = random.Random(seed), []
    clients = [await live.client() for _ in range(3)]
    for _ in range(8):
        for number, client in enumerate(clients):
            said.append(await client.call("SET", f"{number}:before", "v"))
            client.send(*_lot(draws, number))
        for client in clients:
            lot: list[Any] = []
            while not lot or lot[-1] != b"end":
                lot.append(await client.reply())
            said.append([getattr(reply, "text", reply) for reply in lot])
    server = live.server
    plans = {
        name: (plan.calls, plan.failed, plan.rejected) for name, plan in server.plans.by_name.items() if plan.calls
    }
    tails = [(each.last_command, each.received_commands) for each in server.sessions.values()]
    stats = server.stats
    counts = stats.keyspace_hits, stats.keyspace_misses, stats.errors, stats.net_output_bytes, stats.net_input_bytes
    histograms = [sum(plan.calls_by_digits) for plan in server.plans.by_name.values() if plan.calls]
    events = sorted(map(repr, await live.events()))  # which client's are first is chance
    return [said, plans, tails, counts, histograms, len(server.slowlog), events]


@pytest.mark.parametrize("slower_than", ["10000000", "0"])
async def test_conversations_are_the_same(tmp_path: Path, slower_than: str) -> None:
    """Replies, their order, what INFO counts, what SLOWLOG keeps, and the events in the log."""
    told = []
    for natively in (False, True):
        with running(natively=natively):
            async with serving(
                tmp_path / str(natively), slowlog_log_slower_than=slower_than, slowlog_max_len="100000"
            ) as live:
                told.append(await _converse(live, 7))

    for alone, here in zip(*told, strict=True):
        assert alone == here


@pytest.mark.parametrize("name", ["ended_reads", "ended_writes", "take"])
async def test_conversations_go_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """These conversations would show what it does wrong: they do not go by Python alone."""
    calls: list[object] = []
    with running(natively=True):
        async with serving(tmp_path / "log") as live:
            kind = Inbox if name == "take" else type(live.server.accounting)
            real = getattr(kind, name)

            def counting(*args: Any) -> Any:
                result = real(*args)
                calls.extend([args] if name != "take" or result else [])
                return result

            monkeypatch.setattr(kind, name, counting)
            await _converse(live, 7)

    assert calls
