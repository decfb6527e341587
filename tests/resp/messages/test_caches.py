"""Clients with caches, on a server under random writes: what a cache keeps is what the server has.

Each client keeps every value that it reads, and drops what it is told to drop, in the order in which that comes. Nobody
can say of a single moment what a cache should have. But when all is quiet, and every message was read, what is in a
cache has to be what the server has: a change that was not told, or told before the reply that it is about, would leave
an old value for good.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any, Final

import pytest

from engine.store.store import EXPIRY_CF
from slotlog.clock import now_ms
from slotlog.log import Entry
from tests.real.oracle import SimpleString
from tests.resp.harness import PATIENCE_SECONDS, Live, PlayedLog, event, serving, until
from tests.wire.client import Client

KEYS: Final = [f"k{number}" for number in range(12)]
TABLE_KEYS_MAX: Final = 8
CLIENTS: Final = 4
BURSTS: Final = 5
BURST_COMMANDS_MAX: Final = 14
LIVE_MS: Final = 8
MODES: Final = ("", "OPTIN", "OPTOUT", "NOLOOP", "BCAST", "BCAST PREFIX k1", "BCAST NOLOOP")


class CachingClient:
    """A client that believes its cache.

    Attributes:
        cache: what it has read and was not told to drop.
        dropped: how often it was told to drop something.
    """

    def __init__(self, client: Client, mode: str, draw: random.Random) -> None:
        self.cache: dict[str, Any] = {}
        self.dropped = 0
        self._client, self._mode, self._draw = client, mode, draw
        self._prefix = "k1" if "PREFIX" in mode else ""
        self._own: set[str] = set()

    async def begin(self) -> None:
        """Turn tracking on."""
        await self._client.call("HELLO", "3")
        assert await self._client.call("CLIENT", "TRACKING", "ON", *self._mode.split()) == SimpleString(b"OK")

    async def burst(self, keys: list[str]) -> None:
        """Some commands in one write, and what comes until the last one is answered."""
        told: list[tuple[list[str], list[str]]] = []  # the command, and the keys whose values it gives
        for _ in range(self._draw.randint(1, BURST_COMMANDS_MAX)):
            told += self._commands(keys)
        self._client.send(*[command for command, _ in told])
        for command, read in told:
            await self._take(command, read)

    async def settle(self) -> None:
        """Read all messages that are on their way: PING is answered behind them."""
        self._client.send(["PING"])
        await self._take(["PING"], [])

    def _commands(self, keys: list[str]) -> list[tuple[list[str], list[str]]]:
        key, other, value = self._draw.choice(keys), self._draw.choice(keys), str(self._draw.randrange(1000))
        read = self._reads(key)
        kind = self._draw.randrange(9)
        if kind < 4:
            return read
        if kind == 4:
            chosen = self._tracked([key, other])
            return [*self._caching(), (["MGET", key, other], chosen)]
        if kind == 5:
            self._forget_own(key)
            return [
                (self._draw.choice([["SET", key, value], ["SET", key, value, "PX", str(LIVE_MS)], ["DEL", key]]), [])
            ]
        if kind == 6:
            self._forget_own(key)
            return [(["MULTI"], []), (["GET", other], []), (["APPEND", key, value], []), (["EXEC"], [])]
        if kind == 7:
            chosen = self._tracked([key, other])
            return [*self._caching(), (["MULTI"], []), (["GET", key], []), (["GET", other], []), (["EXEC"], chosen)]
        return [(["CLIENT", "CACHING", "NO"], []), (["GET", key], [])] if self._mode == "OPTOUT" else read

    def _reads(self, key: str) -> list[tuple[list[str], list[str]]]:
        return [*self._caching(), (["GET", key], self._tracked([key]))]

    def _tracked(self, keys: list[str]) -> list[str]:
        """Those that it is told of: with a prefix it caches others not at all."""
        return [key if key.startswith(self._prefix) else "" for key in keys]

    def _caching(self) -> list[tuple[list[str], list[str]]]:
        return [(["CLIENT", "CACHING", "YES"], [])] if self._mode == "OPTIN" else []

    def _forget_own(self, key: str) -> None:
        """With NOLOOP it is not told of its own writes: it never caches what it writes."""
        if "NOLOOP" in self._mode:
            self._own.add(key)
            self.cache.pop(key, None)

    async def _take(self, command: list[str], read: list[str]) -> None:
        reply = await self._client.reply()
        while isinstance(reply, list) and reply[:1] == [b"invalidate"]:
            self._drop(reply[1])
            reply = await self._client.reply()
        values = reply if command[0] in {"MGET", "EXEC"} else [reply]
        for key, value in zip(read, values, strict=False):
            if key and key not in self._own:
                self.cache[key] = value

    def _drop(self, keys: list[bytes] | None) -> None:
        self.dropped += 1
        for key in list(self.cache) if keys is None else keys:
            self.cache.pop(key if isinstance(key, str) else key.decode(), None)


def entries(draw: random.Random, keys: list[str], partitions: int) -> list[Entry]:
    """What another producer sends."""
    found = []
    for _ in range(draw.randint(1, 4)):
        key = draw.choice(keys)
        found.append(event("SET", key, "foreign" + str(draw.randrange(100)), partitions=partitions, key=key.encode()))
    if draw.randrange(8) == 0:
        found += [Entry(partition, None, event("FLUSHALL").value) for partition in range(partitions)]
    return found


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("seed", range(3))
async def test_caches_are_never_stale(tmp_path: Path, seed: int, partitions: int) -> None:
    """Whatever was read, written and expired, through whichever mode: quiet caches have nothing but what is there."""
    draw = random.Random(seed)

    def prepare(log: PlayedLog) -> None:
        log.at_once = draw.random() < 0.5

    async with serving(
        tmp_path, partitions=partitions, prepare=prepare, tracking_table_max_keys=str(TABLE_KEYS_MAX)
    ) as live:
        keys = [f"{{{key}}}" if partitions > 1 else key for key in KEYS]
        keys = keys if partitions == 1 else [f"k1{{{number}}}" for number in range(4) for _ in range(3)]
        caching = [CachingClient(await live.client(), draw.choice(MODES), draw) for _ in range(CLIENTS)]
        for client in caching:
            await client.begin()
        for _ in range(BURSTS):
            bursts = [client.burst(_of_one(draw, keys, partitions)) for client in caching]
            foreign = live.log.append_as_another(*entries(draw, keys, partitions))
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.gather(*bursts, foreign)
            await _quiet(live)
            for client in caching:
                await client.settle()
            assert [{}] * CLIENTS == [await _stale(live, client.cache) for client in caching]
            assert len(live.server.tracking.table) <= TABLE_KEYS_MAX
        assert 0 < sum(client.dropped for client in caching)


def _of_one(draw: random.Random, keys: list[str], partitions: int) -> list[str]:
    """Keys that one transaction may name: in a cluster those of one slot."""
    return [draw.choice(keys)] if partitions > 1 else keys


async def _stale(live: Live, cache: dict[str, Any]) -> dict[str, Any]:
    """What a cache has and the server has not, with what that has."""
    client = await live.client()
    there = {key: await client.call("GET", key) for key in cache}
    return {key: (cache[key], value) for key, value in there.items() if value != cache[key]}


async def _quiet(live: Live) -> None:
    """Wait until everything is applied, and what is due has gone: then nothing is told any more."""
    for partition, pipeline in live.server.pipelines.items():
        end = await live.log.end_offset(partition)
        await until(lambda: pipeline.machine.next_offset >= end)  # noqa: B023 - called at once
    due_ms = now_ms() + LIVE_MS
    await until(lambda: now_ms() > due_ms)
    for pipeline in live.server.pipelines.values():
        await pipeline.write(b"TICK", [])
    await until(lambda: all(_is_swept(live, partition) for partition in live.stores))


def _is_swept(live: Live, partition: int) -> bool:
    return not list(live.stores[partition].scan(EXPIRY_CF, b"", b"\xff" * 16))
