"""A command over very many elements: it holds its partition, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from engine.store.memory import MemoryStore
from ingest.applying.slicing.gate import Gate
from ingest.applying.slicing.slices import Slices
from ingest.reporting.observer import Condition
from tests.real.oracle import SimpleString
from tests.resp.harness import FAMILIES, PATIENCE_SECONDS, event, serving, until
from tests.resp.pausing import PausingStore
from tests.wire.client import Client

OK: Final = SimpleString(b"OK")
PONG: Final = SimpleString(b"PONG")
ELEMENTS: Final = 15_000
_FILLED_AT_ONCE: Final = 5_000
_SLICE_SECONDS: Final = 0.0002

LONG: Final[dict[str, list[bytes | str | int]]] = {
    "KEYS": ["KEYS", "no*"],
    "HGETALL": ["HGETALL", "h"],
    "SMEMBERS": ["SMEMBERS", "s1"],
    "LRANGE": ["LRANGE", "l", 0, -1],
    "ZRANGE": ["ZRANGE", "z", 0, -1, "WITHSCORES"],
    "SINTER": ["SINTER", "s1", "s2"],
    "SORT": ["SORT", "l"],
    "SUNIONSTORE": ["SUNIONSTORE", "d", "s1", "s2"],
    "ZUNIONSTORE": ["ZUNIONSTORE", "d", 2, "z", "s1"],
    "COPY": ["COPY", "h", "d"],
    "RENAME": ["RENAME", "s2", "d"],
    "DUMP": ["DUMP", "z"],
    "MGET": ["MGET", *range(ELEMENTS)],
    "MSET": ["MSET", *range(2 * ELEMENTS)],
    "DEL": ["DEL", *range(ELEMENTS)],
    "SADD": ["SADD", "d", *range(4 * ELEMENTS)],
}


@contextmanager
def timed() -> Iterator[Slices]:
    """Slices that the timer ends, shorter than a service's, as these collections are smaller than a million."""
    slices = Slices(_SLICE_SECONDS)
    with slices.timed():
        yield slices


async def fill(client: Client) -> None:
    """One large key of each type, and as many small ones."""
    for at in range(0, ELEMENTS, _FILLED_AT_ONCE):
        numbers = range(at, at + _FILLED_AT_ONCE)
        pairs = [word for number in numbers for word in (number, number)]
        client.send(
            ["SADD", "s1", *numbers],
            ["SADD", "s2", *(number + ELEMENTS // 2 for number in numbers)],
            ["RPUSH", "l", *(number * 7919 % ELEMENTS for number in numbers)],
            ["HSET", "h", *pairs],
            ["ZADD", "z", *pairs],
            ["MSET", *pairs],
        )
        for _ in range(6):
            await client.reply()


@pytest.mark.parametrize("name", LONG)
async def test_others_go_on(tmp_path: Path, name: str) -> None:
    """While a long command runs, PINGs of another client are answered one after the other, some before it ends."""
    with timed() as slices:
        async with serving(tmp_path, slices=slices) as live:
            worker, other = await live.client(), await live.client()
            await fill(worker)
            before, plan = slices.suspensions, live.server.plans.by_name[name.encode()]
            calls = plan.calls
            command = asyncio.create_task(worker.call(*LONG[name]))
            pings = await pings_until(other, lambda: plan.calls > calls)
            await command
            assert slices.suspensions - before > 3
            assert pings > 1


async def pings_until(client: Client, over: Callable[[], bool]) -> int:
    """How many PINGs are answered before something is over."""
    count = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not over():
            assert await client.call("PING") == PONG
            count += 1
    return count


async def test_events_of_others(tmp_path: Path) -> None:
    """An event that somebody else has appended does not hold the event loop either."""
    with timed() as slices:
        async with serving(tmp_path, slices=slices) as live:
            worker, other = await live.client(), await live.client()
            await fill(worker)
            before = slices.suspensions
            end = await live.log.end_offset(0)
            append = asyncio.create_task(live.log.append_as_another(event("SUNIONSTORE", "d", "s1", "s2")))
            pings = await pings_until(other, lambda: live.server.pipelines[0].machine.next_offset > end)
            await append
            assert slices.suspensions - before > 3
            assert pings > 1
            assert await worker.call("SCARD", "d") == ELEMENTS * 3 // 2
            assert await live.replayed_digest() == live.digest()


@pytest.mark.parametrize("flag", ["no-writes", "allow-oom"])
async def test_scripts(tmp_path: Path, flag: str) -> None:
    """A long script holds no other client, as an event or without one."""
    script = f"#!lua flags={flag}\nlocal sum = 0 for at = 1, ARGV[1] do sum = sum + at end return sum"
    with timed() as slices:
        async with serving(tmp_path, slices=slices) as live:
            worker, other = await live.client(), await live.client()
            await worker.call("EVAL", script, 0, 1)
            before, plan = slices.suspensions, live.server.plans.by_name[b"EVAL"]
            command = asyncio.create_task(worker.call("EVAL", script, 0, 1_000_000))
            pings = await pings_until(other, lambda: plan.calls > 1)
            assert 500_000_500_000 == await command
            assert slices.suspensions - before > 3
            assert pings > 1


class Steps:
    """Suspends a command again and again, as long as the test wants it to stay in the middle."""

    def __init__(self) -> None:
        self.on = False

    def __call__(self) -> bool:
        """Whether to suspend."""
        return self.on


async def test_its_partition_waits(tmp_path: Path) -> None:
    """Reads and writes of other clients in the partition wait for the command, and see its outcome."""
    steps = Steps()
    slices = Slices()
    async with serving(tmp_path, slices=slices, stores={0: PausingStore(slices, steps)}, cleans=False) as live:
        writer, reader, second = [await live.client() for _ in range(3)]
        await writer.call("SADD", "a", *range(300))
        await writer.call("SADD", "b", *range(200, 500))
        order: list[str] = []
        gate = live.server.pipelines[0].owned.worker.gate

        async def ask(label: str, client: Client, *command: str) -> Any:
            reply = await client.call(*command)
            order.append(label)
            return reply

        steps.on = True
        store = asyncio.create_task(ask("store", writer, "SUNIONSTORE", "d", "a", "b"))
        await until(lambda: gate.is_held)
        card = asyncio.create_task(ask("card", reader, "SCARD", "d"))
        push = asyncio.create_task(ask("push", second, "SADD", "d", "one more"))
        assert await (await live.client()).call("PING") == PONG
        await until(lambda: len(gate._waiting) == 1)
        assert order == []
        steps.on = False
        assert (500, 1) == (await store, await push)
        assert await card in {500, 501}
        assert await reader.call("SCARD", "d") == 501


async def test_writes_gather(tmp_path: Path) -> None:
    """What clients write while a group is suspended goes to the log behind it, in one append and not in one a turn."""
    steps = Steps()
    slices = Slices()
    async with serving(tmp_path, slices=slices, stores={0: PausingStore(slices, steps)}) as live:
        writer, other = await live.client(), await live.client()
        pipeline = live.server.pipelines[0]
        await writer.call("SADD", "a", *range(100))
        steps.on = True
        store = asyncio.create_task(writer.call("SUNIONSTORE", "d", "a"))
        await until(lambda: pipeline.is_held)
        appends = live.log.appends
        for number in range(5):
            other.send(["SADD", "b", number])
            await until(lambda number=number: pipeline.answers.pending_events == number + 2)  # type: ignore[misc]
        assert live.log.appends == appends
        steps.on = False
        assert await store == 100
        assert [await other.reply() for _ in range(5)] == [1] * 5
        assert live.log.appends == appends + 1


async def test_other_partitions_go_on(tmp_path: Path) -> None:
    """A command that is suspended in one partition keeps nobody in another one waiting."""
    steps = Steps()
    slices = Slices()
    stores = {0: PausingStore(slices, steps), 1: MemoryStore(FAMILIES)}
    async with serving(tmp_path, partitions=2, slices=slices, stores=stores) as live:
        here, there = b"{b}a", b"{a}a"  # slots 3300 and 15495
        first, second = await live.client(), await live.client()
        await first.call("SADD", here, *range(100))
        steps.on = True
        members = asyncio.create_task(first.call("SUNION", here))
        await until(lambda: live.server.pipelines[0].is_held)
        assert await second.call("SET", there, "v") == OK
        assert await second.call("GET", there) == b"v"
        assert not members.done()
        steps.on = False
        assert len(await members) == 100


async def test_a_pipeline_of_long_reads(tmp_path: Path) -> None:
    """Who sends many long reads at once lets others have their turn between two of them."""
    slices = Slices()
    often = Random(4)
    store = PausingStore(slices, lambda: often.random() < 0.2)
    async with serving(tmp_path, slices=slices, stores={0: store}) as live:
        greedy, other = await live.client(), await live.client()
        await greedy.call("SADD", "a", *range(50))
        calls = live.server.plans.by_name[b"SUNION"]
        greedy.send(*[["SUNION", "a"]] * 40)
        await until(lambda: live.server.pipelines[0].is_held)
        assert await other.call("SCARD", "a") == 50
        assert calls.calls < 40
        for _ in range(40):
            assert len(await greedy.reply()) == 50


async def test_order_of_replies(tmp_path: Path) -> None:
    """What a client sends behind a suspended command, at once or later, is answered behind it and in order."""
    steps = Steps()
    slices = Slices()
    async with serving(tmp_path, slices=slices, stores={0: PausingStore(slices, steps)}) as live:
        client = await live.client()
        await client.call("SADD", "a", *range(10))
        steps.on = True
        client.send(["SUNION", "a"], ["ECHO", "1"], ["SADD", "a", "x"])
        await until(lambda: live.server.pipelines[0].is_held)
        client.send(["ECHO", "2"], ["SCARD", "a"])
        assert await (await live.client()).call("PING") == PONG
        steps.on = False
        got = [await client.reply() for _ in range(5)]
        assert (10, [b"1", 1, b"2", 11]) == (len(got[0]), got[1:])


async def test_blocked_clients_wait_for_it(tmp_path: Path) -> None:
    """BLPOP begins behind a suspended command, does not hold the loop for that, and is served as usual."""
    steps = Steps()
    slices = Slices()
    async with serving(tmp_path, slices=slices, stores={0: PausingStore(slices, steps)}) as live:
        first, popper, pusher = [await live.client() for _ in range(3)]
        await first.call("SADD", "a", *range(10))
        steps.on = True
        members = asyncio.create_task(first.call("SUNION", "a"))
        await until(lambda: live.server.pipelines[0].is_held)
        popped = asyncio.create_task(popper.call("BLPOP", "l", 0))
        assert await (await live.client()).call("PING") == PONG
        assert live.server.pipelines[0].is_held
        steps.on = False
        await members
        await until(lambda: live.server.blocked.any)
        assert await pusher.call("RPUSH", "l", "v") == 1
        assert await popped == [b"l", b"v"]


async def test_a_stopped_partition(tmp_path: Path) -> None:
    """A partition that is stopped in the middle: the read is told, of the write nobody knows, and it happens once."""
    steps = Steps()
    slices = Slices()
    async with serving(tmp_path, slices=slices, stores={0: PausingStore(slices, steps)}, cleans=False) as live:
        reader, writer, waiting = [await live.client() for _ in range(3)]
        await writer.call("SADD", "a", *range(10))
        for client, command, told in (
            (reader, ("SUNION", "a"), "ERR partition 0 is stopped: a test"),
            (writer, ("SUNIONSTORE", "d", "a"), "UNKNOWNOUTCOME the write is in the log and not applied yet: a test"),
        ):
            steps.on = True
            reply = asyncio.create_task(client.call(*command))
            await until(lambda: live.server.pipelines[0].is_held)
            behind = asyncio.create_task(waiting.call("SCARD", "a"))
            await until(lambda: len(live.server.pipelines[0].owned.worker.gate._waiting) == 1)
            live.consumer.conditions.stop_outside(0, "a test")
            assert told in str(await reply)
            assert "ERR partition 0 is stopped: a test" in str(await behind)
            steps.on = False
            live.consumer.partitions[0].retry_at = 0.0
            await until(lambda: live.consumer.partitions[0].condition is Condition.RUNNING)
        assert await reader.call("SCARD", "d") == 10
        assert await live.replayed_digest() == live.digest()


async def test_a_client_that_leaves(tmp_path: Path) -> None:
    """A command whose client has gone ends as it would have, and its partition goes on."""
    steps = Steps()
    slices = Slices()
    async with serving(tmp_path, slices=slices, stores={0: PausingStore(slices, steps)}) as live:
        client, other = await live.client(), await live.client()
        await client.call("SADD", "a", *range(10))
        steps.on = True
        client.send(["SUNIONSTORE", "d", "a"])
        await until(lambda: live.server.pipelines[0].is_held)
        assert await other.call("CLIENT", "KILL", "SKIPME", "yes") == 1
        steps.on = False
        assert await other.call("SCARD", "d") == 10


async def test_nobody_sees_half(tmp_path: Path) -> None:
    """Two keys that transactions change together are never read different, wherever commands are suspended."""
    assert await differences(tmp_path) == 0


async def test_a_gate_that_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would find a read that gets in between: with a machine that is never held it does."""
    suspend = Gate.suspend

    def leave_open(gate: Gate, *args: Any) -> None:
        suspend(gate, *args)
        assert gate.machine is not None
        gate.machine.is_held = False

    monkeypatch.setattr(Gate, "suspend", leave_open)
    assert await differences(tmp_path) > 0


async def differences(tmp_path: Path) -> int:
    """How often a reader has met two keys different that every transaction makes equal."""
    chance = Random(7)
    slices = Slices()
    store = PausingStore(slices, lambda: chance.random() < 0.3)
    found = 0
    async with serving(tmp_path, slices=slices, stores={0: store}) as live:
        await live.ask("MSET", "a", 0, "b", 0)
        await live.ask("SADD", "v", *range(10))

        async def write() -> None:
            client = await live.client()
            for number in range(20):
                client.send(["MULTI"], ["SET", "a", number], ["SUNIONSTORE", "u", "v"], ["SET", "b", number], ["EXEC"])
                for _ in range(5):
                    await client.reply()

        async def read() -> int:
            client, count = await live.client(), 0
            for _ in range(80):
                one, other = await client.call("MGET", "a", "b")
                count += one != other
            return count

        _, _, *counts = await asyncio.gather(write(), write(), read(), read(), read())
        found = sum(counts)
        if not found:
            assert await live.replayed_digest() == live.digest()
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_same_state(tmp_path: Path, seed: int) -> None:
    """Whatever clients do at once, and wherever it is suspended, the state is what the log leads to without slices."""
    chance = Random(seed)
    slices = Slices()
    store = PausingStore(slices, lambda: chance.random() < 0.2)
    async with serving(tmp_path, slices=slices, stores={0: store}) as live:
        async with asyncio.timeout(PATIENCE_SECONDS):
            clients = [await live.client() for _ in range(5)]
            await asyncio.gather(*(wander(each, Random(f"{seed} {at}")) for at, each in enumerate(clients)))
        assert slices.suspensions > 10
        assert await live.replayed_digest() == live.digest()


async def wander(client: Client, chance: Random) -> None:
    """Some commands of all kinds, two at a time."""
    keys = [f"k{number}" for number in range(6)]
    for _ in range(25):
        for _ in range(2):
            one, two, three = chance.choices(keys, k=3)
            client.send(
                chance.choice(
                    [
                        ["SADD", one, *chance.choices(range(50), k=8)],
                        ["SREM", one, *chance.choices(range(50), k=8)],
                        ["SUNIONSTORE", one, two, three],
                        ["SINTERSTORE", one, two, three],
                        ["SMEMBERS", one],
                        ["KEYS", "*"],
                        ["COPY", one, two, "REPLACE"],
                        ["RENAME", one, two],
                        ["EXPIRE", one, 1],
                        ["DEL", one],
                        ["SORT", one, "ALPHA", "STORE", two],
                        ["SPOP", one],
                        ["FLUSHDB"],
                    ]
                )
            )
        for _ in range(2):
            await client.reply()
