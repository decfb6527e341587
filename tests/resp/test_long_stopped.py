"""A server that ends, or sets a partition aside, while a command is suspended: nobody runs that whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from ingest.applying.slicing.slices import Slices
from ingest.reporting.observer import Condition
from tests.real.oracle import ErrorReply
from tests.resp.clients.running.test_long_commands import Steps
from tests.resp.harness import PATIENCE_SECONDS, Live, serving, until
from tests.resp.pausing import PausingStore
from tests.wire.client import Client

STOPPING: Final = ErrorReply(b"LOADING slotlog is shutting down; nothing was written")
READ: Final = ["SUNION", "a"]


@asynccontextmanager
async def pausing(directory: Path) -> AsyncIterator[tuple[Live, Client, Steps]]:
    """A server that suspends each command on the set `a` of ten members while its steps are on, and a client."""
    steps = Steps()
    slices = Slices()
    async with serving(directory, slices=slices, stores={0: PausingStore(slices, steps)}) as live:
        client = await live.client()
        await client.call("SADD", "a", *range(10))
        steps.on = True
        yield live, client, steps


@pytest.mark.parametrize("commands", [[READ], [READ] * 3, [["SORT_RO", "a"], READ]])
async def test_reads_end_at_once(tmp_path: Path, commands: list[list[str]]) -> None:
    """A suspended read is not evaluated to its end, and those behind it do not begin: their clients may ask again."""
    async with pausing(tmp_path) as (live, client, steps):
        client.send(*commands)
        await until(lambda: live.server.pipelines[0].is_held)
        await live.server.close()
        steps.on = False
        assert await client.reply() == STOPPING
        for _ in commands[1:]:
            with suppress(ConnectionResetError):
                assert await client.reply() == STOPPING


async def test_a_transaction_of_reads(tmp_path: Path) -> None:
    """Of an EXEC that only reads no further command runs."""
    async with pausing(tmp_path) as (live, client, steps):
        client.send(["MULTI"], READ, READ, ["EXEC"])
        await until(lambda: live.server.pipelines[0].is_held)
        await live.server.close()
        steps.on = False
        assert [STOPPING] * 2 == [await client.reply() for _ in range(4)][3]


async def test_a_read_behind_a_write(tmp_path: Path) -> None:
    """A read that waits for a suspended write is not evaluated any more; the write's outcome is not known."""
    async with pausing(tmp_path) as (live, client, steps):
        client.send(["SUNIONSTORE", "d", "a"], READ)
        await until(lambda: live.server.pipelines[0].is_held)
        await live.server.close()
        steps.on = False
        write, read = [await client.reply() for _ in range(2)]
        assert write.text.startswith(b"UNKNOWNOUTCOME the write is in the log and not applied yet")
        assert type(read) is ErrorReply


async def test_reads_that_end_soon(tmp_path: Path) -> None:
    """Before it closes connections, a server waits for reads that are suspended: they are answered."""
    async with pausing(tmp_path) as (live, client, steps):
        client.send(READ)
        await until(lambda: live.server.pipelines[0].is_held)
        draining = asyncio.create_task(live.server.drain())
        await until(lambda: live.server.pipelines[0].closing)
        assert not draining.done()
        steps.on = False
        async with asyncio.timeout(PATIENCE_SECONDS):
            await draining
        await live.server.close()
        steps.on = False
        assert len(await client.reply()) == 10


async def test_who_is_refused_behind_it_waits(tmp_path: Path) -> None:
    """When a partition is set aside, the read of a client behind its refused write waits for it: nobody finishes it."""
    async with pausing(tmp_path) as (live, first, steps):
        second = await live.client()
        members = asyncio.create_task(first.call("SUNION", "a"))
        pipeline = live.server.pipelines[0]
        await until(lambda: pipeline.is_held)
        second.send(["SADD", "a", "x"], ["SCARD", "a"])
        await until(lambda: pipeline.answers.pending_events == 2)
        live.consumer.conditions.set_aside(0, Condition.WAITING, "disk full")
        assert pipeline.is_held
        assert not members.done()
        steps.on = False
        assert len(await members) == 10
        assert [True, True] == [(await second.reply()).text.endswith(b"disk full"), await second.reply() in {10, 11}]
