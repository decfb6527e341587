"""A read of an expired key moves the log's clock, and keys of an idle partition expire too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from engine.store.memory import MemoryStore
from engine.store.store import EXPIRY_CF
from engine.values.encoding import pack_u64
from slotlog.clock import ReadClock, now_ms
from slotlog.errors import LogUnavailableError
from tests.real.oracle import Connection, ErrorReply, SimpleString
from tests.resp.harness import FAMILIES, Live, PlayedLog, pipeline, replies, serving, until

OK: Final = SimpleString(b"OK")
TTL_MS: Final = 30


def slow(log: PlayedLog) -> None:
    """Appends take their time."""
    log.at_once = False


async def due(live: Live, *keys: str) -> None:
    """Set keys that are due by the wall clock, but not by the log's, where nothing happens by itself."""
    live.server.active_expire = False
    client = await live.client()
    await pipeline(client, *[f"SET {key} 1 PX {TTL_MS}" for key in keys])
    await asyncio.sleep(TTL_MS * 1.5 / 1000)


async def names(live: Live) -> list[bytes]:
    """Of the events in the log."""
    return [name for name, _ in await live.events()]


async def test_a_read_of_a_due_key_appends_one_tick(tmp_path: Path) -> None:
    """Many clients that read it at once are answered after one TICK, with nothing."""
    async with serving(tmp_path, prepare=slow) as live:
        await due(live, "a")
        clients = [await live.client() for _ in range(10)]
        for client in clients:
            client.send(["GET", "a"], ["EXISTS", "a"])
        got = [await replies(client, 2) for client in clients]

        assert [[None, 0]] * 10 == got
        assert [b"SET", b"TICK"] == await names(live)


async def test_a_random_key_while_nothing_expires(tmp_path: Path) -> None:
    """As in Redis, a key that is due is one during a pause, where there is no other: it cannot go then."""
    async with serving(tmp_path) as live:
        await due(live, "a")
        client = await live.client()

        assert [OK, b"a", OK, None] == await pipeline(
            client, "CLIENT PAUSE 60000 WRITE", "RANDOMKEY", "CLIENT UNPAUSE", "RANDOMKEY"
        )


async def test_a_sort_that_reads_a_due_key_appends_one_tick(tmp_path: Path) -> None:
    """Keys that a pattern of BY or GET leads to count as read."""
    async with serving(tmp_path) as live:
        await due(live, "w_1")
        client = await live.client()

        assert [1, [None]] == await pipeline(client, "RPUSH l 1", "SORT_RO l GET w_*")
        await due(live, "w_1")
        assert [[None]] == await pipeline(client, "SORT_RO l GET w_*")
        assert [b"SET", b"RPUSH", b"SET", b"TICK"] == await names(live)


@pytest.mark.parametrize("command", ["HGET h a", "HLEN h", "HTTL h FIELDS 1 a", "HSCAN h 0"])
async def test_a_read_of_a_hash_with_a_due_field_appends_one_tick(tmp_path: Path, command: str) -> None:
    """Also while another field of it died before; and none once the clock has passed them all."""
    async with serving(tmp_path) as live:
        live.server.active_expire = False
        client = await live.client()
        await pipeline(client, "HSETEX h PX 1 FIELDS 1 b 1", "HSET h c 3")
        await asyncio.sleep(0.005)
        await pipeline(client, f"HSETEX h PX {TTL_MS} FIELDS 1 a 1")
        await asyncio.sleep(TTL_MS * 1.5 / 1000)
        got = await pipeline(client, command, "HGETALL h", command, "HGETALL h")

        absent: dict[str, object] = {"HGET h a": None, "HLEN h": 1, "HTTL h FIELDS 1 a": [-2]}
        value = absent.get(command, [b"0", [b"c", b"3"]])
        assert [value, [b"c", b"3"], value, [b"c", b"3"]] == got
        assert [b"HSETEX", b"HSET", b"HSETEX", b"TICK"] == await names(live)


async def test_reads_of_living_keys_append_nothing(tmp_path: Path) -> None:
    """Nor do those of keys that are not there, and those of the whole database."""
    async with serving(tmp_path) as live:
        live.server.active_expire = False
        await pipeline(await live.client(), "SET a 1 EX 100", "GET a", "TTL a", "GET b", "KEYS *", "DBSIZE", "SCAN 0")

        assert [b"SET"] == await names(live)


async def test_a_read_behind_a_write(tmp_path: Path) -> None:
    """The write's own time moves the clock: no TICK is needed."""
    async with serving(tmp_path) as live:
        await due(live, "a")
        got = await pipeline(await live.client(), "SET b 1", "GET a", "GET b")

        assert [OK, None, b"1"] == got
        assert [b"SET", b"SET"] == await names(live)


async def test_a_read_behind_a_write_to_another_partition(tmp_path: Path) -> None:
    """That write moves no clock here: this partition has a TICK of its own."""
    async with serving(tmp_path, partitions=2, prepare=slow) as live:
        await due(live, "{a}")
        got = await pipeline(await live.client(), "SET {b} 1", "GET {a}", "GET {b}")

        assert [OK, None, b"1"] == got
        assert [(b"TICK", [])] == (await live.events(1))[1:]


@pytest.mark.parametrize("play", [lambda _: None, slow])
async def test_due_keys_while_the_log_is_away(tmp_path: Path, play: object) -> None:
    """Reads answer as if the key had expired, in a transaction too, and fail nothing; living keys stay."""
    async with serving(tmp_path, prepare=play) as live:  # type: ignore[arg-type]
        await (await live.client()).call("SET", "b", "1")
        await due(live, "a")
        live.log.failure = LogUnavailableError("the log is away")
        got = await pipeline(await live.client(), "GET a", "GET b", "MULTI", "GET a", "GET b", "EXEC", "GET a")
        refused = await live.ask("SET", "a", "2")
        live.log.failure = None

        queued = SimpleString(b"QUEUED")
        assert [None, b"1", OK, queued, queued, [None, b"1"], None] == got
        assert ErrorReply(b"ERR nothing was written: the log is away") == refused
        assert [None] == await pipeline(await live.client(), "GET a")
        assert [b"SET", b"SET", b"TICK"] == await names(live)


async def test_a_transaction_that_reads_a_due_key(tmp_path: Path) -> None:
    """All of it is evaluated after the TICK: its reads agree with each other."""
    async with serving(tmp_path) as live:
        await due(live, "a")
        got = await pipeline(await live.client(), "MULTI", "EXISTS a", "GET a", "STRLEN a", "EXEC")

        assert [[0, None, 0]] == got[4:]
        assert [b"SET", b"TICK"] == await names(live)


async def test_idle_keys_die(tmp_path: Path) -> None:
    """Nobody reads and nobody writes: the clock moves on, and who listens hears `expired`, of every key once."""
    async with serving(tmp_path, notify_keyspace_events="Ex") as live:
        listener, client = await live.client(), await live.client()
        await listener.call("SUBSCRIBE", "__keyevent@0__:expired")
        # On a busy machine some time may pass before PERSIST, and c must not die in it; b dies after c would have.
        await pipeline(client, "SET a 1 PX 20", "SET c 1 PX 500", "PERSIST c", "SET b 1 PX 600", "SET kept 1 EX 100")
        heard = await replies(listener, 2)
        await until(lambda: not live.server.pipelines[0].ticking)

        assert [[b"message", b"__keyevent@0__:expired", key] for key in (b"a", b"b")] == heard
        assert [0, 2] == await pipeline(client, "EXISTS a b", "EXISTS kept c")
        assert b"TICK" in await names(live)


async def test_a_tick_that_fails_is_not_the_last(tmp_path: Path) -> None:
    """After a TICK that the log refused, the next read sends another."""
    async with serving(tmp_path) as live:
        await due(live, "a")
        live.log.failure = LogUnavailableError("the log is away")
        await live.ask("GET", "a")
        live.log.failure = None
        got = [await live.ask("GET", "a") for _ in range(3)]

        assert [None] * 3 == got
        assert [b"SET", b"TICK"] == await names(live)


class NotedStore(MemoryStore):
    """A store that notes which stretches of the expiry index are looked through."""

    def __init__(self) -> None:
        super().__init__(FAMILIES)
        self.stretches: list[tuple[bytes, bytes | None]] = []

    def scan(
        self, column_family: str, start: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Scan, and note it."""
        if column_family == EXPIRY_CF:
            self.stretches.append((start, end))
        return super().scan(column_family, start, end, reverse=reverse)


async def test_keys_that_die_are_counted_though_nobody_listens(tmp_path: Path) -> None:
    """INFO counts each key that went for its time once, and the fields of hashes apart, as Redis does."""
    async with serving(tmp_path) as live:
        dying = [f"SET key{n} 1 PX 20" for n in range(1001)]
        hashes = ["HSET h a 1", "HSETEX h PX 20 FIELDS 2 b 1 c 1", "HSETEX gone PX 20 FIELDS 3 a 1 b 1 c 1"]
        await pipeline(await live.client(), *dying, *hashes, "SET kept 1 EX 100")
        await asyncio.sleep(0.05)
        await live.ask("SET", "last", "1")
        await until(lambda: live.server.stats.expired_fields == 5 and live.server.stats.expired_keys >= 1001)

        info = await live.ask("INFO", "stats")
        assert b"expired_subkeys:5\r\nexpired_keys:1001\r\n" in info


async def test_what_a_command_deletes_by_a_past_time_is_not_counted(tmp_path: Path) -> None:
    """EXPIRE and GETEX with a time in the past delete the key, and none has expired, as in Redis 7."""
    async with serving(tmp_path) as live:
        moments = ["PEXPIREAT a 1000", "EXPIRE b -1", "GETEX c PXAT 1000", "SET d 1 PXAT 1000", "DBSIZE"]
        got = await pipeline(await live.client(), "MSET a 1 b 1 c 1", *moments)

        assert [1, 1, b"1", OK, 0] == got[1:]
        assert b"expired_keys:0\r\n" in await live.ask("INFO", "stats")


async def test_an_idle_partition_is_counted_once(tmp_path: Path) -> None:
    """INFO counts the keys with a time to live from the clock on, and anew only after another event."""
    store = NotedStore()
    async with serving(tmp_path, stores={0: store}) as live:
        live.server.active_expire = False
        await pipeline(await live.client(), "SET a 1 PX 20", "SET b 1 EX 100", "SET c 1 EX 100")
        await asyncio.sleep(0.03)
        await live.ask("SET", "d", "1")
        clock_ms = live.server.pipelines[0].machine.position.clock_ms
        shown = [await live.ask("INFO", "keyspace") for _ in range(3)]

        assert [True] * 3 == [b",expires=2," in text for text in shown]
        assert [(pack_u64(clock_ms + 1), None)] == store.stretches
        await live.ask("PERSIST", "b")
        assert b",expires=1," in await live.ask("INFO", "keyspace")


class StoppedClock(ReadClock):
    """Shows one time.

    Args:
        at_ms: that.
    """

    def __init__(self, at_ms: int) -> None:
        super().__init__()
        self._at_ms = at_ms

    def now_ms(self) -> int:
        """Look at it."""
        return self._at_ms


@pytest.mark.parametrize("partitions", [1, 2])
async def test_remaining_time_of_an_idle_server(tmp_path: Path, partitions: int) -> None:
    """Nobody has written for 6 s: times to live are 6 s shorter, alone and behind a write; nothing is appended."""
    async with serving(tmp_path, partitions=partitions) as live:
        client = await live.client()
        await pipeline(client, "SET a 1 EX 100", "HSETEX h EX 100 FIELDS 1 f 1")
        clock = StoppedClock(max(each.machine.clock_ms for each in live.server.pipelines.values()) + 6_000)
        for write_pipeline in live.server.pipelines.values():
            write_pipeline.answers._read_clock = clock
        live.server.read_clock = clock
        got = await pipeline(client, "TTL a", "HTTL h FIELDS 1 f", "MULTI", "TTL a", "EXEC", "SET {a}b 1", "TTL a")

        queued = SimpleString(b"QUEUED")
        assert [94, [94], OK, queued, [94], OK, 94] == got
        pttl = await live.ask("PTTL", "a")
        assert 0 < pttl <= 94_000
        in_event = await pipeline(client, "MULTI", "SET {a}b 1", "TTL a", "EXEC")
        assert OK == in_event[-1][0]
        assert 94 < in_event[-1][1] <= 100  # by the log's clock, which goes on by itself


async def test_lists_of_keys_by_the_wall_clock(tmp_path: Path, oracle: Connection) -> None:
    """KEYS, SCAN and RANDOMKEY leave out what is due, as the oracle does, without an event, behind a write too."""
    lists = ("KEYS *", "SCAN 0", "RANDOMKEY", "SCAN 0 TYPE string", "MULTI", "KEYS *", "RANDOMKEY", "EXEC")
    oracle.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    async with serving(tmp_path, settings={"debug_commands": True}) as live:
        await due(live, "a", "b")
        for key in ("a", "b"):
            oracle.call("SET", key, "1", "PX", "1")
        oracle.call("SET", "kept", "1", "EX", "100")
        client = await live.client()
        await client.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        await client.call("HSETEX", "gone", "PX", "1", "FIELDS", "1", "f", "1")
        await live.ask("SET", "kept", "1", "EX", "100")
        await asyncio.sleep(TTL_MS / 1000)
        expected = oracle.pipeline([command.split() for command in lists])

        assert expected == await pipeline(client, *lists)
        await due(live, "a")
        assert expected == await pipeline(client, *lists)
        before = await names(live)
        assert expected == (await pipeline(client, "SET kept 1", *lists))[1:]
        assert [*before, b"SET"] == await names(live)
    oracle.call("DEBUG", "SET-ACTIVE-EXPIRE", "1")


async def test_a_clock_that_steps_back(tmp_path: Path) -> None:
    """A key that KEYS has left out is not listed again, unless the clock was wrong by ten seconds or more."""
    async with serving(tmp_path) as live:
        live.server.active_expire = False
        client = await live.client()
        await pipeline(client, "SET a 1 EX 8", "SET kept 1")
        clock = live.server.read_clock
        clock.latest_ms = now_ms() + 9_000  # the machine's clock was that far ahead, and has stepped back since
        got = await pipeline(client, "KEYS *", "KEYS *")
        clock.latest_ms = now_ms() + 50_000
        got += await pipeline(client, "KEYS *")

        assert [[b"kept"], [b"kept"], [b"a", b"kept"]] == [sorted(keys) for keys in got]
