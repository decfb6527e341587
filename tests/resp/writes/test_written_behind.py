"""Answers leave before RocksDB is written. Reads see what is gathered, and nothing of it is lost in any trouble."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from stamina import retry_context

from engine.errors import StoreBusyError, StoreFullError
from engine.store.gathering import GatheringStore
from engine.store.options import SharedMemory
from engine.store.store import Changes
from ingest.applying.batches import commit_path
from resp.clients.session import Session
from resp.clients.shared import Shared
from resp.writes import written_behind
from slotlog.producer import prepare
from tests.real.oracle import ErrorReply, SimpleString
from tests.resp.harness import FAMILIES, pipeline, serving, until

OK: Final = SimpleString(b"OK")
KEPT: Final = ["INCR n", "RPUSH l a b", "ZADD z 1 m", "HSET h f v"]
READ: Final = ["GET n", "LRANGE l 0 -1", "ZRANGEBYSCORE z -inf +inf", "HGETALL h"]
LOADING: Final = ErrorReply(b"LOADING slotlog is applying its log")
THERE: Final = [b"1", [b"a", b"b"], [b"m"], [b"f", b"v"]]


class WatchedStore(GatheringStore):
    """Notes its writes to RocksDB, and fails at some of them.

    Attributes:
        steps: gets "written" for each of them.
        failures: raised by the next of them that write anything.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, FAMILIES, SharedMemory(), 1000)
        self.steps: list[str] = []
        self.failures: list[Exception] = []

    @property
    def gathered(self) -> int:
        """How many records wait to be written."""
        return sum(map(len, self._values.values()))

    def write_gathered(self) -> None:
        """Write what there is, or fail."""
        if self.gathered:
            if self.failures:
                raise self.failures.pop()
            self.steps.append("written")
        super().write_gathered()

    def close(self) -> None:
        """Write what there is. The server opens this very store again."""
        self.write_gathered()

    def lose(self) -> None:
        """Forget what there is, as a store that failed is opened again without it."""
        self._clear()
        self._is_refused = False

    def end(self) -> None:
        """Close it for good."""
        super().close()

    def write(self, changes: Changes) -> None:
        """Note what is written at once."""
        if not self.is_gathering:
            self.steps.append("written at once")
        super().write(changes)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WatchedStore]:
    """A store on the disk."""
    store = WatchedStore(tmp_path / "state")
    yield store
    store.end()


async def test_answers_leave_before_rocksdb_is_written(
    tmp_path: Path, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replies of a group are sent, then RocksDB gets its batch, in the same turn or the next of the loop."""
    real = Shared.flush

    def flush(shared: Shared[Session]) -> None:
        if shared.ready:
            store.steps.append("sent")
        real(shared)

    monkeypatch.setattr(Shared, "flush", flush)
    async with serving(tmp_path / "log", stores={0: store}, cleans=False) as live:
        client = await live.client()
        await client.call("PING")
        store.steps.clear()
        assert [1, 2] == await pipeline(client, "INCR n", "INCR n")
        await until(lambda: not store.gathered)

    assert ["sent", "written"] == [step for step in store.steps if step != "written at once"][:2]


async def test_a_large_group_is_written_at_once(
    tmp_path: Path, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more writes than that the copies in memory would cost more than is gained."""
    monkeypatch.setattr(written_behind, "_GATHERED_MAX", 2)
    async with serving(tmp_path / "log", stores={0: store}, cleans=False) as live:
        client = await live.client()
        store.steps.clear()
        assert [1, 2, 3] == await pipeline(client, "INCR n", "INCR n", "INCR n")

    assert "written at once" == store.steps[0]


async def test_reads_see_what_rocksdb_lacks(tmp_path: Path, store: WatchedStore) -> None:
    """While RocksDB is behind with its compactions, whoever reads gets the writes that were answered."""
    async with serving(tmp_path / "log", stores={0: store}, cleans=False) as live:
        client = await live.client()
        store.failures = [StoreBusyError("behind")] * 2
        written = await pipeline(client, *KEPT)
        read = await pipeline(client, *READ)

        assert ([1, 2, 1, 1], THERE) == (written, read)
        await until(lambda: not store.gathered and not store.failures)
        assert THERE == await pipeline(client, *READ)
        assert await live.replayed_digest() == live.digest()


async def test_writes_go_on_after_a_busy_store(tmp_path: Path, store: WatchedStore) -> None:
    """What is written meanwhile waits for RocksDB, and is applied once."""
    async with serving(tmp_path / "log", stores={0: store}, cleans=False) as live:
        client = await live.client()
        for number in range(1, 6):
            store.failures = [StoreBusyError("behind")] * (number % 3)
            assert [number, b"%d" % number] == await pipeline(client, "INCR n", "GET n")
        await until(lambda: not store.gathered)

        assert await live.replayed_digest() == live.digest()


async def test_a_disk_that_is_full_behind_an_answer(tmp_path: Path, store: WatchedStore) -> None:
    """The partition waits for room, as where a write meets it; the answered write is there before and after."""
    async with serving(tmp_path / "log", stores={0: store}, guard=lambda: "", cleans=False) as live:
        client = await live.client()
        owned = live.server.pipelines[0].owned
        live.consumer.conditions.has_room = lambda _bytes: True
        store.failures = [StoreFullError("no room")]
        assert [1] == await pipeline(client, "INCR n")
        await until(lambda: "no room" in owned.reason)
        assert b"1" == await client.call("GET", "n")
        await until(lambda: str(owned.condition) == "running")

        assert [2, b"2"] == await pipeline(client, "INCR n", "GET n")
        await until(lambda: not store.gathered)
        assert await live.replayed_digest() == live.digest()


async def test_a_state_that_has_lost_what_was_answered_is_not_read(
    tmp_path: Path, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where RocksDB could not be written before it was opened again, clients wait until the log has given all again."""
    async with serving(tmp_path / "log", stores={0: store}, guard=lambda: "", cleans=False) as live:
        client = await live.client()
        owned = live.server.pipelines[0].owned
        live.consumer.conditions.has_room = lambda _bytes: True

        def close(store: WatchedStore) -> None:
            store.lose()
            live.log.fetch_gate.clear()

        monkeypatch.setattr(WatchedStore, "close", close)
        store.failures = [StoreFullError("no room")]
        assert [1] == await pipeline(client, "INCR n")
        await until(lambda: "no room" in owned.reason)
        await until(lambda: str(owned.condition) == "running")
        assert 0 == owned.worker.machine.next_offset
        assert [LOADING, LOADING] == await pipeline(client, "GET n", "INCR n")

        live.log.fetch_gate.set()
        await until(lambda: owned.worker.machine.next_offset == 1)
        assert [b"1", 2] == await pipeline(client, "GET n", "INCR n")
        assert await live.replayed_digest() == live.digest()


async def test_a_store_that_is_busy_for_long_is_written_when_its_partition_runs_again(
    tmp_path: Path, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB was behind for longer than anybody waits: nobody need write for it to get what was answered."""
    soon = partial(retry_context, StoreBusyError, attempts=2, wait_initial=0.01, wait_max=0.01)
    monkeypatch.setattr(commit_path, "patience", soon)
    async with serving(tmp_path / "log", stores={0: store}, cleans=False) as live:
        client = await live.client()
        owned = live.server.pipelines[0].owned
        store.failures = [StoreBusyError("behind")] * 5
        assert [1] == await pipeline(client, "INCR n")
        await until(lambda: str(owned.condition) == "waiting")
        store.failures.clear()
        await until(lambda: str(owned.condition) == "running" and not store.gathered)

        assert b"1" == await client.call("GET", "n")


async def test_listeners_hear_once_of_what_a_state_has_lost(
    tmp_path: Path, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was told before a state lost it is not told when the log gives it again; what has come since is told."""
    async with serving(tmp_path / "log", stores={0: store}, guard=lambda: "", cleans=False) as live:
        client, listener, caching = [await live.client() for _ in range(3)]
        owned = live.server.pipelines[0].owned
        live.consumer.conditions.has_room = lambda _bytes: True
        await client.call("CONFIG", "SET", "notify-keyspace-events", "EA")
        await listener.call("PSUBSCRIBE", "*")
        await caching.call("HELLO", 3)
        await caching.call("CLIENT", "TRACKING", "ON", "BCAST")

        def close(store: WatchedStore) -> None:
            store.lose()
            live.log.fetch_gate.clear()

        monkeypatch.setattr(WatchedStore, "close", close)
        store.failures = [StoreFullError("no room")]
        assert [1, None] == await pipeline(client, "INCR m", f"EVAL {_telling('old')} 0")
        await until(lambda: "no room" in owned.reason)
        await until(lambda: str(owned.condition) == "running")
        assert 0 == owned.worker.machine.next_offset
        await live.log.append_as_another(*prepare(1, "EVAL", [_telling("new"), 0]))
        live.log.fetch_gate.set()
        await until(lambda: owned.worker.machine.next_offset == 3)

        assert [b"1", b"1", b"1"] == await pipeline(client, "GET m", "GET old", "GET new")
        await client.call("INCR", "last")
        keys = [(await listener.reply())[3] for _ in range(6)]
        assert [b"at old", b"m", b"old", b"at new", b"new", b"last"] == keys
        invalid: list[bytes] = []
        while invalid[-1:] != [b"last"]:
            invalid += (await caching.reply())[1] or []  # None: all that it has
        assert [b"m", b"old", b"new", b"last"] == invalid


async def test_listeners_hear_again_of_what_clients_may_have_read_as_it_was(tmp_path: Path) -> None:
    """Behind what a server makes clients wait for, an older state is read: who tracks a key is told once more."""
    async with serving(tmp_path / "log") as live:
        client, caching = [await live.client() for _ in range(2)]
        await caching.call("HELLO", 3)
        await caching.call("CLIENT", "TRACKING", "ON", "BCAST")
        await client.call("INCR", "first")
        assert [b"first"] == (await caching.reply())[1]
        partition = live.server.pipelines[0]
        partition.told_offset = 9  # of other producers' events, which a state that is opened again has not

        assert not partition.look_back()
        await client.call("INCR", "second")
        assert [b"second"] == (await caching.reply())[1]


def _telling(key: str) -> str:
    """A script that counts in `key`, and publishes that."""
    return f"redis.call('incr','{key}');redis.call('publish','news','at'..string.char(32)..'{key}')"
